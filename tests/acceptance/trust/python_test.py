"""What Python programs expect of any object: truth values, indexing, copies, pickles, a repr, types for editors, and errors that name the argument or
the setting that is wrong."""
import ast
import copy
import os
import pickle
import subprocess
import sys
import tempfile
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
#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) ((float *)call->outputs[0]->data)[i] = x[i] + 1;
  return TENON_OK;
}
TENON_LIBRARY(python_trust, "1.0.0", TENON_OP("next(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", run)))
"""
RESTORE = "import pickle, sys, numpy; op = pickle.load(open(sys.argv[1], 'rb')); print(op(numpy.ones(2, 'f4')))"


def model():
    graph = h.make_graph([h.make_node("Add", ["x", "y"], ["z"])], "g", [h.make_tensor_value_info(name, T.FLOAT, ["n", 2]) for name in "xy"],
                         [h.make_tensor_value_info("z", T.FLOAT, ["n", 2])])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


class Tensors(unittest.TestCase):
    def setUp(self):
        self.array = np.arange(12.0).reshape(3, 4)
        self.tensor = tenon.tensor(self.array)

    def test_a_tensor_of_one_element_has_a_truth_value_and_is_a_number(self):
        for value in 0.0, 2.5:
            self.assertEqual(bool(tenon.tensor(value)), bool(value))
            self.assertEqual(float(tenon.tensor([value])), value)
            self.assertEqual(int(tenon.tensor([[value]])), int(value))
        for convert in bool, float, int:
            with self.assertRaisesRegex(TypeError, "a tenon.Tensor of 12 elements has no"):
                convert(self.tensor)

    def test_indexing_gives_what_numpy_gives_over_the_same_memory(self):
        for key in (0, -1, (1, 2), slice(None, None, 2), (slice(None), 1), (Ellipsis, None, 0), [2, 0]):
            found = self.tensor[key]
            self.assertIsInstance(found, tenon.Tensor)
            np.testing.assert_array_equal(found.numpy(), self.array[key])
        self.tensor[1].numpy()[2] = 99
        self.assertEqual(float(self.tensor[1, 2]), 99)
        with self.assertRaises(IndexError):
            self.tensor[3]

    def test_a_tensor_is_iterated_along_its_first_axis(self):
        self.assertEqual([float(row[0]) for row in self.tensor], [0, 4, 8])

    def test_copies_and_pickles_have_memory_of_their_own(self):
        for made in copy.copy(self.tensor), copy.deepcopy(self.tensor), pickle.loads(pickle.dumps(self.tensor)):
            np.testing.assert_array_equal(made.numpy(), self.array)
            made.numpy()[0, 0] = -1
            self.assertEqual(float(self.tensor[0, 0]), 0)
        sparse = tenon.csr(np.ones(2, "f4"), np.array([1, 0]), np.array([0, 1, 2]), (2, 3))
        restored = pickle.loads(pickle.dumps(sparse))
        self.assertEqual(restored.layout, "csr")
        np.testing.assert_array_equal(restored.to_dense().numpy(), [[0, 1, 0], [1, 0, 0]])


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.source, cls.file, cls.pickle = (Path(folder.name, name) for name in ("python_trust.c", "python_trust.so", "op.pickle"))
        cls.source.write_text(SOURCE, encoding="utf-8")
        subprocess.run([BUILD / "tenon", "build", cls.source, "-o", cls.file], check=True, stdout=subprocess.DEVNULL)
        cls.library = tenon.load(cls.file)

    def test_a_copy_of_an_operator_or_a_library_is_the_object_itself(self):
        self.assertIs(copy.deepcopy([self.library.next])[0], self.library.next)
        self.assertIs(copy.deepcopy(self.library), self.library)
        add = tenon.ops.core.add
        self.assertIs(copy.copy(add), add)

    def test_a_pickled_operator_loads_its_library_in_another_process(self):
        self.assertEqual(pickle.loads(pickle.dumps(self.library.next)).handle, self.library.next.handle)
        self.pickle.write_bytes(pickle.dumps(self.library.next))
        run = subprocess.run([sys.executable, "-c", RESTORE, self.pickle], env={**os.environ, "PYTHONPATH": str(BUILD / "python")}, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, "[2. 2.]\n"), run.stderr)

    def test_a_source_is_loaded_into_a_process_of_its_own(self):
        program = f"import tenon, numpy; print(tenon.load({str(self.source)!r}, isolated={{'deadline': 100}}).next(numpy.ones(2, 'f4')))"
        run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(BUILD / "python")}, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, "[2. 2.]\n"), run.stderr)

    def test_a_setting_of_isolation_that_does_not_exist_is_named_with_those_that_do(self):
        with self.assertRaisesRegex(TypeError, "there is no setting 'deadlin'; there are allow, deadline, "):
            tenon.load(self.file, isolated={"deadlin": 1})

    def test_a_library_that_cannot_be_unloaded_says_how_it_could(self):
        with self.assertRaisesRegex(tenon.Error, r"unloadable=True"):
            self.library.unload()

    def test_a_number_that_is_too_large_names_its_argument(self):
        x = np.ones((2, 3), "f4")
        for call, name in ((lambda: tenon.ops.core.add(x, 2**70), "b"), (lambda: tenon.ops.core.softmax(x, axis=2**70), "axis"),
                           (lambda: tenon.ops.core.transpose(x, perm=[0, 2**70]), "perm")):
            with self.assertRaisesRegex(OverflowError, f"argument {name}: .*does not fit 64 bits"):
                call()


class Graphs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "model.onnx")
        self.bytes = model().SerializeToString()
        path.write_bytes(self.bytes)
        self.graph = tenon.graph.load(path)
        self.executable = self.graph.compile()
        self.x = np.ones((3, 2), "f4")

    def test_a_model_is_read_from_bytes(self):
        for data in self.bytes, bytearray(self.bytes), memoryview(self.bytes):
            np.testing.assert_array_equal(tenon.graph.load(data).compile()(self.x, self.x), 2 * self.x)
        with self.assertRaises(tenon.InvalidError):
            tenon.graph.load(b"no model")

    def test_a_misspelt_input_is_named_with_the_inputs_that_there_are(self):
        for named in {"x": self.x, "yy": self.x}, {"xx": self.x}, {"x": self.x, "y": self.x, "zz": self.x}:
            with self.assertRaisesRegex(TypeError, f"there is no input '{[name for name in named if name not in 'xy'][0]}'; the graph has: x, y"):
                self.executable(**named)
        with self.assertRaisesRegex(TypeError, "input 'y' .* was not given"):
            self.executable(x=self.x)

    def test_an_executable_shows_its_inputs_and_outputs(self):
        self.assertEqual(repr(self.executable), "<tenon.graph.Executable (x: f32[n, 2], y: f32[n, 2]) -> (z: f32[n, 2])>")

    def test_graphs_and_executables_are_their_own_copies(self):
        for each in self.graph, self.executable:
            self.assertIs(copy.deepcopy(each), each)


class Types(unittest.TestCase):
    """The package is marked as typed, and its stub names what the extension has."""
    def test_the_package_is_typed(self):
        self.assertTrue((ROOT / "python/tenon/py.typed").exists())

    def test_the_stub_names_what_the_extension_has(self):
        from tenon import _core
        tree = ast.parse((ROOT / "python/tenon/_core.pyi").read_text(encoding="utf-8"))
        listed = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        taken = ast.parse((ROOT / "python/tenon/__init__.py").read_text(encoding="utf-8"))
        public = {alias.name for node in taken.body if isinstance(node, ast.ImportFrom) and node.module == "_core" for alias in node.names}
        self.assertEqual(public - set(listed), set())
        for name, node in listed.items():
            found = getattr(_core, name)
            if isinstance(node, ast.FunctionDef):
                continue
            members = {item.target.id if isinstance(item, ast.AnnAssign) else item.name for item in node.body if isinstance(item, (ast.AnnAssign, ast.FunctionDef))}
            with self.subTest(name):
                self.assertEqual({member for member in members if not hasattr(found, member)}, set())
                self.assertEqual({member for member in vars(found) if not member.startswith("_")} - members, set())


if __name__ == "__main__":
    totals.main()
