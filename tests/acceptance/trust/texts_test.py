"""Messages that would send somebody the wrong way: they name what there is, what was meant, and the reason of the system."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import onnx
from onnx import TensorProto as T, helper as h

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import tenon  # noqa: E402
import totals  # noqa: E402

SOURCE = r"""
#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *call) { (void)call; return TENON_OK; }
TENON_LIBRARY(texts, "1.0.0", TENON_OP("rms_norm(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", run)))
"""


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def model(self, name, *nodes):
        graph = h.make_graph(list(nodes), "g", [h.make_tensor_value_info("x", T.FLOAT, [2])], [h.make_tensor_value_info("y", T.FLOAT, None)])
        opsets = [h.make_opsetid(domain, version) for domain, version in (("", 17), ("texts", 1), ("absent", 1))]
        path = self.folder / f"{name}.onnx"
        onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path

    def fails(self, *command, status=1, **options):
        run = subprocess.run([BUILD / "tenon", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **options)
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def test_a_device_that_does_not_exist_is_refused_with_those_that_do(self):
        model = self.model("neg", h.make_node("Neg", ["x"], ["y"]))
        said = self.fails("run", model, "--device", "zy", "-i", "ones")
        names = said.split("there are: ")[1].split(";")[0].split(", ")
        self.assertNotIn("zy", names)
        self.assertLessEqual({"cpu", "null", "sim", "opencl"}, set(names))
        self.assertNotIn("did you mean", said)
        self.assertIn("there is no device 'simm'; there are: cpu, ", said := self.fails("run", model, "--device", "simm:1", "-i", "ones"))
        self.assertIn("; did you mean 'sim'?; a library may bring more devices: load it by --ops LIB", said)
        self.assertIn("there is no device 'opncl'", self.fails("run", model, "--device", "cpu", "--pin", "y=opncl", "-i", "ones"))

    def test_a_device_that_does_not_exist_is_refused_in_Python_too(self):
        model = self.model("neg", h.make_node("Neg", ["x"], ["y"]))
        for _ in range(2):  # asking for a name must not make it exist
            for call in (lambda: tenon.tensor([1.0]).to("zy"), lambda: tenon.graph.load(model).compile(device="zy"), lambda: tenon.empty((2,), device="zy:1")):
                with self.assertRaisesRegex(tenon.Error, "there is no device 'zy'; there are: cpu, .*sim") as caught:
                    call()
                self.assertNotIn("zy", str(caught.exception).split("there are:")[1])
        self.assertEqual(tenon.tensor([1.0]).to("sim").device, "sim:0")

    def test_a_misspelt_operator_of_a_loaded_library_is_suggested(self):
        source, library = self.folder / "texts.c", self.folder / "texts.so"
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run([BUILD / "tenon", "build", source, "-o", library], check=True, stdout=subprocess.DEVNULL)
        model = self.model("typo", h.make_node("rms_nrm", ["x"], ["y"], domain="texts"))
        self.assertIn("no operator texts::rms_nrm is loaded; did you mean 'texts::rms_norm'? Otherwise load its library first",
                      self.fails("run", model, "--ops", library, "-i", "ones"))

    def test_operators_of_missing_libraries_are_listed_in_a_line_each_and_the_advice_once(self):
        model = self.model("absent", h.make_node("foo", ["x"], ["a"], domain="absent"), h.make_node("bar", ["a"], ["b"], domain="absent"),
                           h.make_node("foo", ["b"], ["y"], domain="absent"))
        said = self.fails("run", model, "-i", "ones")
        self.assertEqual(said.count("--ops LIB"), 1)
        self.assertRegex(said, r"(?m)^  node 'a' and 1 more \(foo, .*: no operator absent::foo is loaded$")
        self.assertRegex(said, r"(?m)^  node 'b' \(bar, .*: no operator absent::bar is loaded$")

    def test_a_cycle_is_called_a_cycle_and_its_nodes_without_a_name_are_named_by_their_output(self):
        last = h.make_node("Neg", ["b"], ["y"])
        model = self.model("cycle", h.make_node("Add", ["x", "b"], ["a"], name="first"), h.make_node("Add", ["a", "x"], ["b"]), last)
        self.assertIn("the nodes 'first' (Add), 'b' (Add) form a cycle: each uses a result of the next one, and the last a result of the first", self.fails("run", model, "-i", "ones"))
        behind = self.model("behind", last, h.make_node("Add", ["x", "b"], ["a"], name="first"), h.make_node("Add", ["a", "x"], ["b"]))
        self.assertRegex(self.fails("run", behind, "-i", "ones"), r"the nodes 'b' \(Add\), 'first' \(Add\) form a cycle")
        own = self.model("own", h.make_node("Add", ["x", "y"], ["y"]))
        self.assertIn("node 'y' (Add) is a cycle: it uses its own result", self.fails("run", own, "-i", "ones"))
        body = h.make_graph([h.make_node("Add", ["x", "y"], ["inside"])], "body", [], [h.make_tensor_value_info("inside", T.FLOAT, None)])
        nested = self.model("nested", h.make_node("ReduceMin", ["x"], ["m"], keepdims=0), h.make_node("Cast", ["m"], ["c"], to=T.BOOL),
                            h.make_node("If", ["c"], ["b"], name="choice", then_branch=body, else_branch=body), h.make_node("Neg", ["b"], ["y"]))
        self.assertRegex(self.fails("run", nested, "-i", "ones"), r"the nodes 'choice' \(If\), 'y' \(Neg\) form a cycle")
        long = self.model("long", *(h.make_node("Add", ["x", f"v{(i + 1) % 20}"], [f"v{i}"]) for i in range(20)), h.make_node("Neg", ["v0"], ["y"]))
        self.assertIn("'v7' (Add) and 12 more form a cycle", self.fails("run", long, "-i", "ones"))

    def test_a_note_names_a_node_without_a_name_by_its_output(self):
        model = self.model("unsorted", h.make_node("Neg", ["a"], ["y"]), h.make_node("Neg", ["x"], ["a"]))
        self.assertIn("note: node 'y' (Neg) uses 'a' before the node that defines it", self.fails("run", model, "-i", "ones", status=0))

    def test_a_value_of_a_branch_that_is_named_like_an_outer_result_makes_no_cycle(self):
        branch = h.make_graph([h.make_node("Neg", ["x"], ["y"])], "branch", [], [h.make_tensor_value_info("y", T.FLOAT, None)])
        model = self.model("hidden", h.make_node("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch),
                           h.make_node("Cast", ["m"], ["c"], to=T.BOOL), h.make_node("ReduceMin", ["x"], ["m"], keepdims=0))
        self.assertIn("note: node 'choice' (If) uses 'c' before the node that defines it", self.fails("run", model, "-i", "ones", status=0))

    def test_a_folder_that_cannot_be_made_says_why(self):
        model = self.model("neg", h.make_node("Neg", ["x"], ["y"]))
        blocked = self.folder / "file"
        blocked.touch()
        self.assertIn("file: File exists", self.fails("run", model, "-i", "ones", "-o", blocked / "out"))
        if os.getuid():
            self.skipTest("a folder that may not be written to: only root can become another user")
        locked = self.folder / "locked"
        locked.mkdir(mode=0o755)
        os.chmod(self.folder, 0o755)
        for command in (["run", model, "-i", "ones", "-o", locked / "out"], ["new", "named", "--dir", locked / "named"]):
            self.assertIn("Permission denied", self.fails(*command, user=65534, group=65534, extra_groups=[]))

    def test_nothing_is_saved_where_there_is_no_folder(self):
        graph = tenon.graph.load(self.model("neg", h.make_node("Neg", ["x"], ["y"])))
        none = self.folder / "none"
        with tenon.profile() as profile:
            pass
        for save in (lambda: graph.save(none / "a.onnx"), lambda: profile.write(none / "a.json")):
            with self.assertRaisesRegex(tenon.NotFoundError, "No such file or directory"):
                save()

    def test_watch_refuses_a_source_that_does_not_exist(self):
        for name in "", "none.c":
            self.assertIn(f"'{name}': there is no such file", self.fails("watch", name, status=2))
        self.assertIn("expected a source file, found a folder", self.fails("watch", self.folder, status=2))

    def test_a_variable_with_a_wrong_value_is_named_at_the_start_and_by_doctor(self):
        model = self.model("neg", h.make_node("Neg", ["x"], ["y"]))
        for name, value, expected in (("THREADS", "abc", "a number from 1 to 1024"), ("THREADS", "2x", "a number"), ("CRASH", "maybe", "0 or 1"),
                                      ("RECORD_MOST", "-4", "a number"), ("EXTERNAL_LINKS", "all", "folder or any"), ("CPU_CAPABILITY", "x86", "an instruction set"),
                                      ("GROUP", "0", "a number from 1 to"), ("ISOLATION_LANDLOCK", "no", "on or off"), ("RECORD_ALL", "yes", "0 or 1"),
                                      ("LOAD_LIMIT", "5x", "a number of seconds"), ("NAN", "often", "'stop' or 'report'"), ("EXPLAIN", "maybe", "1 or all")):
            with self.subTest(name):
                environment, words = {**os.environ, f"TENON_{name}": value}, f"TENON_{name} is ignored: '{value}': expected .*{expected}"
                self.assertRegex(self.fails("run", model, "-i", "ones", status=0, env=environment), words)
                self.assertRegex(self.fails("doctor", status=0, env=environment), "problem +" + words)
        for name, value in ("TRACE", "everything"), ("RECORD", model / "none"):
            with self.subTest(name):
                line = f"TENON_{name} is ignored: "
                said = self.fails("run", model, "-i", "ones", status=0, env={**os.environ, f"TENON_{name}": str(value)})
                self.assertEqual(said.count(line), 1)
                reason = said.split(line)[1].splitlines()[0]
                self.assertIn(f"problem          {line}{reason}\n", self.fails("doctor", status=0, env={**os.environ, f"TENON_{name}": str(value)}))
        strict = {**os.environ, "TENON_STRICT": "maybe"}
        self.assertIn("TENON_STRICT is 'maybe': expected 0 or 1", self.fails("run", model, "-i", "ones", env=strict))
        for name, value in ("THREADS", "2"), ("STRICT", "0"), ("CRASH", "1"), ("EXTERNAL_LINKS", "any"), ("THREADS", ""), ("LOAD_LIMIT", "0.5"), ("RECORD_ALL", "0"):
            self.assertNotIn("ignored", self.fails("run", model, "-i", "ones", status=0, env={**os.environ, f"TENON_{name}": value}))

    def test_the_devices_of_a_built_library_are_counted_beside_its_operators(self):
        sources = sorted((ROOT / "examples/08_device").glob("*.c"))
        mixed, named, none = (self.folder / f"{name}.c" for name in ("mixed", "named", "none"))
        device = (ROOT / "examples/08_device/vx.c").read_text(encoding="utf-8")
        item, kernel = SOURCE.split("TENON_LIBRARY(texts, \"1.0.0\", ")[1].rstrip()[:-1], SOURCE.splitlines()[2]
        mixed.write_text(device.replace("TENON_DEVICE(&vx_table))", f"TENON_DEVICE(&vx_table), {item})").replace("TENON_LIBRARY(vx", kernel + "\nTENON_LIBRARY(vx"), encoding="utf-8")
        named.write_text(SOURCE.replace('"cpu"', '"npu"'), encoding="utf-8")
        none.write_text(device.replace("*out_count = ORDINALS;", "*out_count = 0;"), encoding="utf-8")
        others = [source for source in sources if source.name != "vx.c"]
        for files, counts in ((sources, "1 device"), ([none, *others], "1 device"), ([mixed, *others], "1 operator, 1 device"), ([named], "1 operator")):
            with self.subTest(counts):
                command = [BUILD / "tenon", "build", *files, "-I", ROOT / "examples/08_device", "-o", self.folder / "built.so"]
                run = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stdout.split(": ")[-1]), (0, f"{counts}\n"), run.stderr)

    def test_texts_that_are_not_utf8_are_replaced_in_json_and_in_charts(self):
        model, chart = self.folder / os.fsdecode(b"caf\xe9-\xed\xa0\x80-\xc3\xa9<&.onnx"), self.folder / "chart.svg"
        self.model("neg", h.make_node("Neg", ["x"], ["y"])).rename(model)
        run = subprocess.run([BUILD / "tenon", "compare", model, "--against", "threads=1", "--json", "--svg", chart], capture_output=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        expected = f"{self.folder}/caf\ufffd-\ufffd\ufffd\ufffd-\xe9<&.onnx"
        self.assertEqual(json.loads(run.stdout)["model"], expected)
        self.assertIn("caf\ufffd-\ufffd\ufffd\ufffd-\xe9<&.onnx", "".join(ElementTree.parse(chart).getroot().itertext()))

    def test_a_replay_separates_the_word_attribute_from_a_long_name(self):
        saved = self.folder / "saved"
        model = self.model("gather", h.make_node("LayerNormalization", ["x", "x"], ["y"], axis=-1, epsilon=0.5))
        environment = {**os.environ, "TENON_RECORD": str(saved), "TENON_RECORD_ALL": "1"}
        self.fails("run", model, "-i", "ones", status=0, env=environment)
        self.assertRegex(self.fails("replay", saved, status=0), r"(?m)^  attribute [a-z]{5,} = ")


if __name__ == "__main__":
    totals.main()
