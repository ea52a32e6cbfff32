#!/usr/bin/env python3
"""A gdb session on an operator library, and `tenon compare`."""
import json
import re
import shutil
import sys
import unittest

import numpy as np

from debug_kit import *


def setUpModule():
    build_toy()


@unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
class Gdb(unittest.TestCase):
    def gdb(self, *commands, program):
        script = ["set confirm off", "set pagination off", "set debuginfod enabled off", f"source {ROOT / 'tools/gdb/tenon-gdb.py'}"]
        words = [word for command in script + list(commands) for word in ("-ex", command)]
        out, self.said = run("gdb", "-q", "-nx", "-batch", *words, "--args", *program, code=None)
        return out

    def test_a_breakpoint_from_before_the_library_is_loaded_and_a_step_into_a_called_operator_and_back(self):
        path = model("session", node("MatMul", "x w", "h", "mm"), node("around", "h", "y", "node", "toy", axes=[3, 4]))
        x = np.linspace(0, 1, 16, dtype=np.float32)[None]
        np.save(HERE / "session.npy", x)
        tenon("run", path, "--ops", "session.so", "--input", "x=@session.npy", "--values", "session-values", "--optimize", "plain")
        rows = [line.split("\t") for line in (HERE / "session-values/values.txt").read_text().splitlines()]
        h = np.load(HERE / "session-values" / next(row[1] for row in rows if row[3] == "h")).reshape(-1)
        shown = ", ".join(f"{number:.7g}" for number in h[:8].tolist())
        double = ", ".join(f"{number:.7g}" for number in (2 * h[:8]).tolist())
        out = self.gdb("set breakpoint pending on", f"break toy.c:{line_of('/* in around */')}", "run", "print *call->inputs[0]",
                       "print call->inputs[0]->dtype", "print call->op", "print call->attrs[0]", "tenon call", "tenon step", "tenon call",
                       "tenon tensor call->inputs[0]", f"tbreak toy.c:{line_of('/* back in around */')}", "continue", "print status",
                       "print *result", "tenon ops ^toy::t", "kill",
                       program=(build / "tenon", "run", path, "--ops", "session.so", "--input", "x=@session.npy"))
        self.assertRegex(out, r"Breakpoint 1 \(toy.c:\d+\) pending")
        self.assertRegex(out, r"Breakpoint 1.*, around \(call=")
        self.assertIn(f"$1 = f32[1, 16] {{{shown}, ...}}", out)
        self.assertIn("$2 = f32\n$3 = operator toy::around\n$4 = [3, 4]\n", out)
        self.assertIn(f"toy::around (run)\n  input x = f32[1, 16] {{{shown}, ...}}\n  attribute axes = [3, 4]\n  attribute how = 'b'\n", out)
        if "gdb cannot call functions of this process" in self.said:
            self.skipTest("this gdb cannot call functions of a process on this processor: tenon step and tenon ops were not tested")
        stepped = out.index("twice (call=")
        self.assertIn("toy::twice (run)\n  input x = f32[1, 16]", out[stepped:])
        self.assertIn("toy::around (run)", out[stepped:])
        back = out.index("Temporary breakpoint", out.index("continue") if "continue" in out else stepped)
        self.assertIn(f"$5 = TENON_OK\n$6 = f32[1, 16] {{{double}, ...}}", out[back:])
        self.assertIn("toy::twice  twice(Tensor x) -> Tensor", out)

    def test_the_call_is_found_in_code_without_debug_information_too(self):
        run("strip", "-g", HERE / "session.so", "-o", HERE / "stripped.so")
        path = model("stripped", node("around", "x", "y", "node", "toy"))
        np.save(HERE / "ones.npy", np.ones((1, 16), np.float32))
        out = self.gdb("set breakpoint pending on", "break twice", "run", "tenon call", "kill",
                       program=(build / "tenon", "run", path, "--ops", "stripped.so", "--input", "x=@ones.npy"))
        self.assertRegex(out, r"toy::twice \(run\)\n  input x = f32\[1, 16\] \{1, 1, 1, 1, 1, 1, 1, 1, ...\}")
        self.assertIn("toy::around (run)", out)

    def test_tensors_of_every_kind_are_printed(self):
        source = r"""
#include <tenon/tenon.h>
#include <string.h>
static int stop(const tenon_tensor_t **t) { return t[0] != 0; }
int main(void) {
  tenon_tensor_t *t[5], view, *list;
  static int64_t shape[2] = {2, 2}, strides[2] = {1, 2};
  static float numbers[4] = {1, 2, 3, 4};
  tenon_dim_t dim = {-(1LL << 62) - (1LL << 62) + 7};
  tenon_string_t text = {"abc", 3};
  tenon_tensor_create(tenon_dtype(TENON_BF16), 1, (int64_t[]){2}, &t[0]);
  memcpy(t[0]->data, (uint16_t[]){0x3fc0, 0xc000}, 4);
  tenon_tensor_create(tenon_dtype(TENON_I4), 1, (int64_t[]){3}, &t[1]);
  memcpy(t[1]->data, (uint8_t[]){0xf1, 0x07}, 2);
  tenon_tensor_create(tenon_dtype(TENON_STRING), 1, (int64_t[]){2}, &t[2]);
  tenon_tensor_set_string(t[2], 0, "one", 3);
  tenon_tensor_create(tenon_dtype(TENON_C64), 0, 0, &t[3]);
  memcpy(t[3]->data, (float[]){1, -2}, 8);
  tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F32), 2, shape, strides, 0);
  tenon_tensor_list(t, 2, &list);
  t[4] = list;
  tenon_status_t status = TENON_RANGE;
  return stop((const tenon_tensor_t **)t) + (int)dim.value + (int)text.size + status + view.ndim; /* here */
}
"""
        (HERE / "kinds.c").write_text(source)
        run("gcc", "-g", "-O0", f"-I{ROOT / 'include'}", "kinds.c", "-o", "kinds", f"-L{build}", "-ltenon", f"-Wl,-rpath,{build}")
        line = next(i for i, text in enumerate(source.split("\n"), 1) if "/* here */" in text)
        out = self.gdb(f"break kinds.c:{line}", "run", "print *t[0]", "print t[1]", "print t[2]", "print t[3]", "print t[4]", "print view",
                       "print dim", "print text", "print status", "print view.dtype", "kill", program=(HERE / "kinds",))
        found = dict(re.findall(r"^\$(\d+) = (.*)$", out, re.M))
        self.assertEqual([found.get(str(i)) for i in range(1, 11)],
                         ["bf16[2] {1.5, -2}", "i4[3] {1, -1, 7}", "string[2] {'one', ''}", "c64[] {1-2i}",
                          "list[2] {bf16[2] {1.5, -2}, i4[3] {1, -1, 7}}", "f32[2, 2] strides [1, 2] {1, 3, 2, 4}", "s7", "'abc'",
                          "TENON_RANGE", "f32"])


class Comparisons(unittest.TestCase):
    def setUp(self):
        self.model = model("compared", node("MatMul", "x w", "h", "mm"), node("twice", "h", "t", "the twice", "toy"),
                           node("MatMul", "t w", "z", "mm2"), node("Softmax", "z", "y", "softmax", axis=-1))

    def compare(self, *words, code=1):
        shutil.rmtree(HERE / "recordings", ignore_errors=True)
        return tenon("compare", self.model, "--dim", "n=3", "--ops", "toy.so", *words, code=code)[0]

    def test_the_first_node_that_another_build_of_a_library_computes_otherwise_is_named_and_recorded(self):
        out = self.compare("--against", "ops=other.so")
        self.assertIn("first difference: node 'the twice' (toy::twice), value 't'", out)
        self.assertIn("48 of 48 elements differ, most at [", out)
        self.assertIn("the operator returns the result of the first run", out)
        saved = recordings(HERE / "recordings")[0]
        self.assertIn(f"tenon replay recordings/{saved.name}", out)
        self.assertIn("a different outcome than was saved", tenon("replay", saved, "--ops", "toy.so", code=1)[0])
        self.assertIn("the same results", tenon("replay", saved, "--ops", "other.so")[0])

    def test_two_ways_to_run_a_model_with_equal_values_agree(self):
        for words in (["--against", "threads=1"], ["--optimize", "plain", "--against", "optimize=full", "--each"],
                      ["--against", "capability=default"], ["--device", "sim", "--against", "cpu"]):
            with self.subTest(words):
                self.assertIn("4 of 4 values compared, 0 differ; of the outputs 1 compared, 0 differ", self.compare(*words, code=0))

    def test_a_comparison_can_be_json_and_a_picture(self):
        result = json.loads(self.compare("--against", "ops=other.so", "--json", "--svg", "picture.svg"))
        self.assertEqual((result["node"], result["first"], result["compared"], result["outputs_differ"]), ("the twice", "t", 4, 1))
        self.assertEqual([value["differs"] for value in result["values"]], [False, True, True, True])
        picture = (HERE / "picture.svg").read_text()
        self.assertEqual(picture.count("<title>"), 4)
        self.assertIn("the twice (toy::twice) t", picture)

    def test_all_values_are_listed_in_the_order_of_nodes(self):
        out = self.compare("--against", "ops=other.so", "--all")
        self.assertEqual(re.findall(r"[#.]+  (\w+)  ", out), ["h", "t", "z", "y"])
        self.assertRegex(out, r"(?m)^> .*  t  the twice")

    def test_a_model_can_be_compared_with_onnx_runtime(self):
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            self.skipTest("onnxruntime is not installed")
        plain = model("plain", node("MatMul", "x w", "h", "mm"), node("Relu", "h", "r", "relu"), node("Softmax", "r", "y", "softmax", axis=-1))
        out, _ = tenon("compare", plain, "--against", "onnxruntime", "--python", sys.executable)
        self.assertIn("3 of 3 values compared, 0 differ; of the outputs 1 compared, 0 differ", out)
        _, err = tenon("compare", self.model, "--ops", "toy.so", "--against", "onnxruntime", "--python", sys.executable, code=1)
        self.assertIn("ONNX Runtime", err)

    def test_an_unknown_way_to_run_a_model_is_refused(self):
        _, err = tenon("compare", self.model, "--against", "speed=1", code=1)
        self.assertIn("expected onnxruntime, a device name, or a comma-separated list of device=", err)


if __name__ == "__main__":
    sys.exit(main())
