"""What the first hours with Tenon should not cost: reports show values, findings name the mistake, a wrong number is refused, and the reason of the system
reaches the program.  texts_test.py and python_test.py have the messages and objects that are not here."""
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

SOURCE = r"""
#include <math.h>
#include <tenon/op.h>
static tenon_status_t copy(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) ((float *)call->outputs[0]->data)[i] = x[i];
  return TENON_OK;
}
static tenon_status_t miscounted(tenon_call_t *call) { /* counts the tensor x in the index of eps */
  const float *x = (const float *)call->inputs[0]->data;
  float eps = (float)call->attrs[1].as.f;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) ((float *)call->outputs[0]->data)[i] = x[i] + eps;
  return TENON_OK;
}
static tenon_status_t only_f32(tenon_call_t *call) { /* TYPES promise more */
  return tenon_dtype_id(call->inputs[0]->dtype) == TENON_F32 ? copy(call) : tenon_fail(call, TENON_INVALID, "not f32");
}
static tenon_status_t crash_in_loop(const tenon_loop_t *loop) { *(volatile int *)loop->attrs[1].as.i = 1; return TENON_OK; }
static tenon_status_t crash(tenon_call_t *call) { *(volatile int *)call->attrs[5].as.i = 1; return TENON_OK; }
static tenon_status_t limit(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(infer->attrs[0].as.i), tenon_extent(0));
  return TENON_OK;
}
static tenon_status_t take(tenon_call_t *call) { return call->host->resize(call, 0, 1, &call->attrs[0].as.i); }
#define ONE(schema, ...) TENON_OP(schema, TENON_TYPES("x: f32; out = x"), __VA_ARGS__)
#define SAME TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE)
TENON_LIBRARY(friction, "1.0.0",
  ONE("buckets(Tensor x, int buckets=1000) -> Tensor", SAME, TENON_KERNEL("cpu", copy)),
  ONE("none(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), TENON_KERNEL("cpu", copy)),
  ONE("refused(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: error"), TENON_KERNEL("cpu", copy)),
  ONE("miscounted(Tensor x, float eps=0.5) -> Tensor", SAME, TENON_KERNEL("cpu", miscounted)),
  TENON_OP("typed(Tensor x) -> Tensor", TENON_TYPES("x: f32|f64|i32; out = x"), SAME, TENON_KERNEL("cpu", only_f32)),
  ONE("crash(Tensor x, float eps=1e-6, float big=-2500000.0, float half=0.5, float[] all=[0.25, 3.0], int at=8) -> Tensor", SAME,
      TENON_KERNEL("cpu", crash)),
  ONE("crash_in_loop(Tensor x, float eps=1e-6, int at=8) -> Tensor", TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", crash_in_loop)),
  ONE("first(Tensor x, *, int k) -> Tensor", TENON_INFER(limit), TENON_KERNEL("cpu", take)))
"""

ALIKE = r"""
#include <string.h>
#include <tenon/op.h>
static tenon_status_t second(tenon_call_t *call) {
  memcpy(call->outputs[0]->data, call->inputs[1]->data, (size_t)tenon_count(call->inputs[1]) * sizeof(float));
  return TENON_OK;
}
TENON_LIBRARY(alike, "1.0.0", TENON_OP("second(Tensor x, Tensor y) -> Tensor", TENON_TYPES("x: f32; y = x; out = x"), TENON_SHAPES("y = x; out = x"),
  TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", second)))
"""


class Friction(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "friction.c").write_text(SOURCE, encoding="utf-8")
        cls.file = cls.folder / "friction.so"
        cls.say("build", cls.folder / "friction.c", "-o", cls.file)

    @classmethod
    def say(cls, *command, status=0, **options):
        run = subprocess.run([BUILD / "tenon", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, **options)
        assert status is None or run.returncode == status, run.stdout.decode(errors="replace")
        return run.stdout.decode(errors="replace")

    def model(self, op, domain="friction"):
        graph = h.make_graph([h.make_node(op, ["x"], ["y"], domain=domain)], "g", [h.make_tensor_value_info("x", T.FLOAT, [2])],
                             [h.make_tensor_value_info("y", T.FLOAT, None)])
        path = self.folder / f"{op}.onnx"
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("friction", 1)], ir_version=8), path)
        return path


class Reports(Friction):
    """A report shows the values that a call had, and names each file once."""

    def test_a_replay_separates_the_word_attribute_from_its_name(self):
        dumps = self.folder / "dumps"
        self.say("run", self.model("buckets"), "--ops", self.file, "-i", "ones", env={**os.environ, "TENON_RECORD": str(dumps), "TENON_RECORD_ALL": "1"})
        self.assertRegex(self.say("replay", *dumps.iterdir()), r"(?m)^ +attribute +buckets = 1000$")

    def test_a_crash_report_shows_the_values_of_float_attributes(self):
        said = self.say("run", self.model("crash"), "--ops", self.file, "-i", "ones", status=None)
        self.assertIn("SIGSEGV in friction::crash", said)
        shown = dict(line.strip().removeprefix("attribute ").split(": ", 1) for line in said.splitlines() if line.startswith("  attribute "))
        values = {name: json.loads(text) for name, text in shown.items()}
        self.assertEqual(values, {"eps": 1e-6, "big": -2.5e6, "half": 0.5, "all": [0.25, 3.0], "at": 8})

    def test_a_crash_report_of_a_loop_shows_the_values_of_attributes(self):
        said = self.say("run", self.model("crash_in_loop"), "--ops", self.file, "-i", "ones", status=None)
        self.assertIn("SIGSEGV in friction::crash_in_loop", said)
        self.assertEqual([line.strip() for line in said.splitlines() if line.startswith("  attribute ")], ["attribute eps: 1e-6", "attribute at: 8"])

    def test_the_crash_report_of_weights_that_were_cut_short_speaks_of_a_mapped_file(self):
        weights = T(name="w", data_type=T.FLOAT, dims=[1 << 16, 2], data_location=T.EXTERNAL)
        weights.external_data.add(key="location", value="w.bin")
        (self.folder / "w.bin").write_bytes(bytes(8 << 16))
        path = self.folder / "gather.onnx"
        graph = h.make_graph([h.make_node("Gather", ["w", "x"], ["y"])], "g", [h.make_tensor_value_info("x", T.INT64, [1])],
                             [h.make_tensor_value_info("y", T.FLOAT, None)], [weights])
        path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString())
        program = f"""
import os, numpy as np, tenon
run = tenon.graph.load({str(path)!r}).compile()
os.truncate({str(self.folder / "w.bin")!r}, 0)
run(np.array([60000]))
"""
        environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "TENON_CRASH": "1"}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(run.returncode, -signal.SIGBUS, run.stderr)
        self.assertRegex(run.stderr, "SIGBUS in core::gather: .*memory beyond the end of a mapped file")

    def test_calls_that_measure_a_device_for_a_placement_are_not_reported_as_fallbacks(self):
        example, device = ROOT / "examples/08_device", self.folder / "vx.so"
        self.say("build", *sorted(example.glob("*.c")), "-I", example, "-o", device)
        said = self.say("run", self.model("Neg", domain=""), "--ops", device, "--device", "vx,cpu", "-i", "ones", "--dump", "placement")
        self.assertIn("vx:0: 0 nodes", said)
        self.assertNotIn("fell back", said)

    def test_json_about_a_path_that_is_not_utf8_is_json(self):
        path = os.fsencode(self.folder) + b"/\xe9.onnx"
        Path(os.fsdecode(path)).write_bytes(self.model("Neg", domain="").read_bytes())
        run = subprocess.run([BUILD / "tenon", "compare", path, "--against", "threads=1", "--json"], stdout=subprocess.PIPE, timeout=600)
        json.loads(run.stdout.decode("utf-8"))

    def test_a_file_that_cannot_be_written_is_named_once(self):
        model = self.model("Neg", domain="")
        for name in "/dev/full", self.folder / "none" / "p.json":
            said = self.say("run", model, "-i", "ones", "--profile", name, status=1)
            self.assertEqual(said.count(str(name)), 1, said)
        self.assertIn("No space left on device", self.say("run", model, "-i", "ones", "--profile", "/dev/full", status=1))

    def test_an_isolated_library_does_not_repeat_what_its_host_said_of_variables(self):
        said = self.say("run", self.model("buckets"), "--ops", self.file, "--isolate-ops", "-i", "ones", env={**os.environ, "TENON_THREADS": "abc"})
        self.assertEqual(said.count("TENON_THREADS is ignored"), 1, said)


class Checks(Friction):
    """`tenon check` says what is wrong in the words of the declaration."""

    def check(self, op, *options, status=0):
        return self.say("check", self.file, f"friction::{op}", *options, status=status)

    def test_a_gradient_that_is_none_or_an_error_is_skipped_for_that_reason(self):
        for op in "none", "refused":
            said = self.check(op, "--verbose")
            self.assertRegex(said, r"skip friction::\w+ gradient.differences: its TENON_GRADIENT is none or error for every input")
            self.assertNotIn("nothing was compared", said)

    def test_an_attribute_whose_index_counts_tensors_is_named_in_one_finding(self):
        said = self.check("miscounted", status=1)
        self.assertIn("read attrs[1], but the operator has 1 attributes: attrs[i] is the i-th argument that is not a tensor", said)
        self.assertEqual(said.count("FAIL"), 1, said)
        repeat = [line.split("tenon ", 1)[1].split() for line in said.splitlines() if line.startswith("  repeat:")]
        self.assertIn("read attrs[1]", self.say(*repeat[0], status=1))

    def test_the_index_of_an_attribute_that_exists_is_no_finding(self):
        self.assertIn(" 0 failed", self.check("buckets"))

    def test_the_last_lines_count_as_many_findings_as_were_printed(self):
        said = self.check("typed", status=1)
        findings, failed = said.count("FAIL"), int(said.split(" passed, ")[1].split()[0])
        self.assertGreater(findings, failed)
        self.assertIn(f"\n{findings} findings in {failed} check", said)


class Shapes(unittest.TestCase):
    """SHAPES state what would otherwise need a function for INFER."""

    def test_an_input_can_be_declared_to_have_the_shape_of_another_of_any_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "alike.c")
            source.write_text(ALIKE, encoding="utf-8")
            second = tenon.load(source).second
        for shape in (), (3,), (2, 1, 3):
            np.testing.assert_array_equal(second(np.zeros(shape, "f4"), np.ones(shape, "f4")), np.ones(shape, "f4"))
        for shape in (3,), (1, 3), (2, 1), (1, 2, 3):
            with self.assertRaisesRegex(tenon.InvalidError, "input 'y': expected shape .2, 3., as 'x' has"):
                second(np.ones((2, 3), "f4"), np.ones(shape, "f4"))


class Numbers(Friction):
    """A number that an argument cannot have is refused where it is given."""

    def test_an_integer_that_does_not_fit_the_dtype_of_the_first_tensor_is_refused(self):
        add = tenon.ops.core.add
        for dtype, number in ("i1", 128), ("i1", 1000), ("u1", -1), ("u1", 256), ("i2", -32769), ("i4", 2**31), ("u8", -1), ("?", 2):
            with self.subTest(dtype=dtype, number=number), self.assertRaisesRegex(OverflowError, f"argument b: {number} does not fit "):
                add(np.ones(3, dtype), number)
        for dtype, number in ("i1", 127 - 1), ("i1", -128), ("u1", 254), ("i2", -32768), ("i4", 2**31 - 2), ("i8", -2**63), ("f4", 2**40), ("f2", 1000):
            with self.subTest(dtype=dtype, number=number):
                np.testing.assert_array_equal(add(np.ones(3, dtype), number), np.ones(3, dtype) + np.array(number, dtype))

    def test_a_negative_limit_of_an_extent_is_refused_by_inference(self):
        first = tenon.load(self.file).first
        self.assertEqual(first(np.ones(4, "f4"), k=3).shape, (3,))
        with self.assertRaisesRegex(tenon.InvalidError, "-3 .*limit is negative"):
            first(np.ones(4, "f4"), k=-3)


class Files(Friction):
    """The reason of the system becomes the exception, and a name that is no regular file stays what it is."""

    def test_a_folder_that_does_not_exist_is_not_found(self):
        with tenon.profile() as profile:
            tenon.ops.core.neg(np.ones(3, "f4"))
        for write in (profile.write, lambda path: tenon.trace(file=path).__enter__()):
            with self.assertRaisesRegex(tenon.NotFoundError, "No such file or directory"):
                write(str(self.folder / "none" / "trace.json"))

    def test_a_graph_that_is_saved_to_a_fifo_is_written_into_it(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        got = []
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        graph = tenon.graph.load(self.model("Neg", domain=""))
        writer = threading.Thread(target=lambda: graph.save(fifo))
        writer.start()
        writer.join()
        got = os.read(reader, 1 << 16)
        os.close(reader)
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
        np.testing.assert_array_equal(tenon.graph.load(got).compile()(np.ones(2, "f4")), [-1, -1])


class Paths(Friction):
    def test_a_new_project_builds_with_headers_in_a_path_with_blanks(self):
        headers = self.folder / "with blanks" / "include"
        headers.parent.mkdir()
        headers.symlink_to(ROOT / "include")
        environment = {**os.environ, "TENON_INCLUDE": str(headers)}
        self.say("new", "blanks", "--dir", self.folder / "blanks")
        run = subprocess.run(["make", "-C", self.folder / "blanks", f"TENON={BUILD / 'tenon'}", "blanks.so"], env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    totals.main()
