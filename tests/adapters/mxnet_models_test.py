"""MXNet's model files as graphs, against the values that real MXNet computes for them in a process of its own (mxnet_models_oracle.py)."""
import atexit
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import tenon
import tenon.graph

import mxnet_oracle
import totals

FOLDER = tempfile.mkdtemp(prefix="tenon-mxnet-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
core = ctypes.CDLL(os.path.join(BUILD, "libtenon.so"))
core.tenon_error.restype = ctypes.c_char_p


class Import(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("folder", ctypes.c_char_p)]


def load(path, folder=None):
    """Returns the graph of a model file, by way of a file in Tenon's own form."""
    graph, copy = ctypes.c_void_p(), os.path.join(FOLDER, "copy.onnx")
    options = Import(ctypes.sizeof(Import), 0, folder.encode() if folder else None)
    if core.tenon_graph_load(path.encode(), ctypes.byref(options), ctypes.byref(graph)):
        raise tenon.Error(core.tenon_error().decode(errors="replace"))
    status = core.tenon_graph_save(graph, copy.encode())
    core.tenon_graph_release(graph)
    if status:
        raise tenon.Error(core.tenon_error().decode(errors="replace"))
    return tenon.graph.load(copy)


class AgainstMXNet(unittest.TestCase):
    """Every lowering, and whole nets."""
    parts = 0

    @classmethod
    def setUpClass(cls):
        if not mxnet_oracle.python():
            raise unittest.SkipTest("there is no MXNet 1.9.1: .venv-mxnet-1.9, or TENON_MXNET_1_9=PYTHON")
        oracle = [mxnet_oracle.python(), os.path.join(ROOT, "tests", "adapters", "mxnet_models_oracle.py"), FOLDER]
        done = subprocess.run(oracle, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        with open(os.path.join(FOLDER, "names.json"), encoding="utf-8") as file:
            cls.names = json.load(file)

    def test_models_give_what_mxnet_gives(self):
        for name in self.names:
            with self.subTest(name):
                self.check(name)
                AgainstMXNet.parts += 1

    def check(self, name):
        stored = np.load(os.path.join(FOLDER, name + ".npz"))
        inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in_")}
        graph = load(os.path.join(FOLDER, name + "-symbol.json"))
        self.assertEqual(sorted(port[0] for port in graph.inputs), sorted(inputs))
        self.assertEqual([port[0] for port in graph.outputs], list(stored["names"]))
        found = graph.compile()(**inputs)
        for i, value in enumerate(found if isinstance(found, tuple) else (found,)):
            expected, value = stored[f"out_{i}"], np.asarray(value)
            self.assertEqual((value.dtype, value.shape), (expected.dtype, expected.shape), f"output {i}")
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max(initial=0)), err_msg=f"output {i}")


def param(array, magic=0xF993FAC9):
    """An array as MXNet stores it; magic 0: as its first versions did."""
    number = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}[array.dtype.name]
    head = struct.pack("<Ii", magic, 0) if magic in (0xF993FAC9, 0xF993FACA) else struct.pack("<I", magic) if magic else b""
    shape = struct.pack(f"<i{array.ndim}q", array.ndim, *array.shape) if magic else struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape)
    return head + shape + struct.pack("<iii", 1, 0, number) + array.tobytes()


def params(arrays, magic=0xF993FAC9):
    names = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in arrays)
    count = struct.pack("<Q", len(arrays))
    return struct.pack("<QQ", 0x112, 0) + count + b"".join(param(array, magic) for array in arrays.values()) + count + names


def node(op, name, *inputs, attrs=None):
    return {"op": op, "name": name, "inputs": [[*entry, 0] for entry in inputs], **({"attrs": attrs} if attrs else {})}


DENSE = [node("null", "data"), node("null", "w"), node("null", "b"), node("FullyConnected", "fc", (0, 0), (1, 0), (2, 0), attrs={"num_hidden": "3"})]
W, B = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([1, 2, 3], np.float32)
X = np.ones((2, 4), np.float32)


def symbol(nodes=DENSE, heads=None, **more):
    return {"nodes": nodes, "arg_nodes": [], "heads": heads or [[len(nodes) - 1, 0, 0]], **more}


class Files(unittest.TestCase):
    """Files that the tests write: forms that MXNet does not write any more, faulty files, custom operators."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=FOLDER)
        self.path = os.path.join(self.folder, "net-symbol.json")

    def write(self, json_text, values=None, name="net-0000.params"):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(json_text if isinstance(json_text, str) else json.dumps(json_text))
        if values is not None:
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(values)
        return self.path

    def gives(self, expected=X @ W.T + B, data=X):
        np.testing.assert_allclose(np.asarray(load(self.path).compile()(data)), expected, rtol=1e-6)

    def refuses(self, *texts):
        with self.assertRaises(tenon.Error) as caught:
            load(self.path)
        for text in texts:
            self.assertIn(text, str(caught.exception))

    def test_attributes_under_older_names_and_entries_of_two_numbers(self):
        for names in (("attrs",), ("attr",), ("param", "attr")):
            nodes = json.loads(json.dumps(DENSE))
            nodes[3].pop("attrs")
            nodes[3][names[0]] = {"num_hidden": "3", "no_bias": "False"}
            nodes[3].update({name: {"lr_mult": "2.0", "ctx_group": "a"} for name in names[1:]}, backward_source_id=-1)
            for item in nodes:
                item["inputs"] = [entry[:2] for entry in item["inputs"]]
            self.write(symbol(nodes, [[3, 0]]), params({"arg:w": W, "arg:b": B}))
            self.gives()

    def test_arrays_of_every_version_and_dtype(self):
        for magic in (0, 0xF993FAC8, 0xF993FAC9, 0xF993FACA):
            self.write(symbol(), params({"arg:w": W, "arg:b": B}, magic))
            self.gives()
        self.write(symbol(), params({"w": W, "b": B}))
        self.gives()
        for dtype in "float64 float16 uint8 int32 int8 int64".split():
            self.write(symbol([node("null", "w"), node("_copy", "y", (0, 0))]), params({"arg:w": W.astype(dtype)}))
            found = np.asarray(load(self.path).compile()())
            self.assertEqual(found.dtype, dtype)
            np.testing.assert_array_equal(found, W.astype(dtype))

    def test_the_only_file_of_parameters_is_taken_and_several_are_listed(self):
        self.write(symbol(), params({"arg:w": W, "arg:b": B}), "net-0012.params")
        self.gives()
        shutil.copy(os.path.join(self.folder, "net-0012.params"), os.path.join(self.folder, "net-best.params"))
        self.refuses("2 other files could hold the parameters", "net-0012.params", "net-best.params")
        shutil.copy(os.path.join(self.folder, "net-0012.params"), os.path.join(self.folder, "net-0000.params"))
        self.gives()

    def test_another_folder_has_the_parameters(self):
        self.write(symbol(), params({"arg:w": W, "arg:b": B}))
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        os.rename(os.path.join(self.folder, "net-0000.params"), os.path.join(other, "net-0000.params"))
        self.refuses("2 parameters are missing, and no file NAME-0000.params exists: w (of fc), b (of fc)")
        graph = load(self.path, other)
        np.testing.assert_allclose(np.asarray(graph.compile()(X)), X @ W.T + B)

    def test_inputs_state_shapes_and_dtypes(self):
        nodes = [dict(node("null", "x"), attrs={"__shape__": "(0, 3)", "__dtype__": "4"}), node("abs", "y", (0, 0))]
        self.write(symbol(nodes))
        self.assertIn("x: i32[?0, 3]", repr(load(self.path)))
        self.write(symbol([node("null", "t"), node("Embedding", "e", (0, 0), (2, 0)), node("null", "w")][:1] + [node("null", "w"), node(
            "Embedding", "e", (0, 0), (1, 0), attrs={"input_dim": "3", "output_dim": "4"}), node("null", "p"), node("RNN", "r", (2, 0), (3, 0), attrs={
                "mode": "rnn_tanh", "state_size": "2", "num_layers": "1"})]), params({"arg:w": W, "arg:p": np.zeros(2 * (4 + 2) + 4, np.float32)}))
        self.assertIn("t: f32[?0, ?1]", repr(load(self.path)))  # the cells' input has three axes

    def test_heads_may_be_inputs_and_come_twice(self):
        self.write(symbol([node("null", "x"), node("abs", "y", (0, 0))], [[1, 0, 0], [0, 0, 0], [1, 0, 0]]))
        graph = load(self.path)
        self.assertEqual([port[0] for port in graph.outputs], ["y_output", "x", "y_output_2"])

    def test_custom_operators_are_those_of_loaded_libraries(self):
        @tenon.op("mxfiles::affine(Tensor x, Tensor? more=None, *, str scale='1', float shift=0.0) -> Tensor", types="x, more: f32; out = x", shapes="out = x")
        def affine(x, more, *, scale, shift):
            return np.asarray(x) * float(scale) + np.float32(shift) + (0 if more is None else np.asarray(more))

        attrs = {"scale": "2.5", "shift": "-1", "__lr_mult__": "2"}
        self.write(symbol([node("null", "x"), node("affine", "a", (0, 0), attrs=attrs), node("Custom", "c", (1, 0), (0, 0), attrs={"op_type": "affine"})]))
        self.gives(X * 1.5 + X)
        self.write(symbol([node("null", "x"), node("affine", "a", (0, 0), attrs={"slope": "2"})]))
        self.refuses("node 1 'a' (affine)", "slope")
        self.write(symbol([node("null", "x"), node("affine", "a", (0, 0), (0, 0), (0, 0))]))
        self.refuses("3 inputs were given, but mxfiles::affine(")

        @tenon.op("mxfiles2::affine(Tensor x) -> Tensor", types="x: f32; out = x", shapes="out = x")
        def affine2(x):
            return x

        self.refuses("operators of two libraries have this name, mxfiles", "load only one of the libraries")

    def test_all_unsupported_operators_are_listed(self):
        nodes = [node("null", "x"), node("khatri_rao", "k1", (0, 0)), node("_foreach", "f", (1, 0)), node("khatri_rao", "k2", (2, 1)),
                 node("softmax", "s", (0, 0), attrs={"use_length": "True", "axis": "0"}), node("LeakyReLU", "l", (0, 0), attrs={"act_type": "new"}),
                 node("abs", "a", (0, 0), attrs={"odd": "1"}), node("add_n", "n", (3, 0), (4, 0), (5, 0), (6, 0))]
        self.write(symbol(nodes))
        self.refuses("operators that are not covered:\n  khatri_rao: operator khatri_rao is neither built in nor in a loaded library (2 nodes: k1, k2)",
                     "_foreach: operator _foreach is neither built in nor in a loaded library (1 node: f)", "softmax: its attribute use_length=True but for the last axis (1 node: s)",
                     "LeakyReLU: act_type=new (1 node: l)", "abs: its attribute odd=1 (1 node: a)")

    def test_labels_and_the_nodes_that_only_they_go_through_are_not_needed(self):
        nodes = [node("null", "data"), node("null", "label"), node("unheard_of", "u", (1, 0)), node("SoftmaxOutput", "s", (0, 0), (2, 0))]
        self.write(symbol(nodes))
        self.assertEqual([port[0] for port in load(self.path).inputs], ["data"])

    def test_wrong_symbol_files_are_refused(self):
        good = json.dumps(symbol())
        with_node = lambda *items: symbol(list(items))  # noqa: E731
        null = node("null", "x")
        cases = {
            "": "line 1, column 1: expected a JSON value, found the end of the file",
            "[1, 2": "expected ',' or ']'",
            good[:-1]: "expected ',' or '}'",
            good + " x": "expected the end of the file",
            good.replace('"fc"', '"f\\x"'): "expected a JSON escape sequence",
            good.replace('"fc"', '"\\ud800"'): "an unpaired surrogate in a \\u escape",
            good.replace('"fc"', '"f\tc"'): "an unescaped control character in a string",
            good.replace('"fc"', '"\\u0000"'): "a string with the character U+0000",
            good.replace("[0, 0, 0]", "[01, 0, 0]"): "expected a JSON value",
            good.replace("[0, 0, 0]", "[0, 0, 0,]"): "expected a JSON value",
            "[" * 100: "nested more than 64 levels deep",
            '{"nodes": 1, "nodes": 2}': "an object with two members named 'nodes'",
            "[]": "expected an object, found a list",
            "{}": "member 'nodes' is missing",
            '{"nodes": {}, "heads": []}': "member 'nodes': expected a list, found an object",
            '{"nodes": [1], "heads": []}': "node 0 '': line 1, column 12: expected an object, found a number",
            '{"nodes": [{"name": "x", "inputs": []}], "heads": []}': "node 0 'x': line 1, column 12: member 'op' is missing",
            '{"nodes": [], "heads": []}': "member 'heads' is empty",
            '{"nodes": [], "heads": [[0, 0, 0]]}': "member 'heads': line 1, column 25: node 0: expected one of the 0 before",
            good.replace('"num_hidden": "3"', '"num_hidden": 3'): "node 3 'fc': line 1",
            good.replace("[0, 0, 0]", "[-1, 0, 0]"): "node -1: expected one of the 3 before",
            good.replace("[0, 0, 0]", "[99999999999999999999, 0, 0]"): "expected an integer in an entry",
            good.replace("[0, 0, 0]", "[0.5, 0, 0]"): "expected an integer in an entry",
            good.replace("[0, 0, 0]", "[0]"): "expected an entry [node, output, version]",
            good.replace("[0, 0, 0]", "[0, 7, 0]"): "input 0 is output 7 of 'data', which has only 1",
            json.dumps(with_node(null, node("abs", "a", (2, 0)), node("abs", "b", (1, 0)))): "node 1 'a': line 1, column 93: node 2: expected one of the 1 before",
            json.dumps(with_node(null, node("abs", "a", (1, 0)))): "node 1: expected one of the 1 before",
            json.dumps(with_node(null, null, node("add_n", "a", (0, 0), (1, 0)))): "two inputs or parameters are named 'x'",
            json.dumps(symbol([null, node("abs", "a", (0, 0))], [[1, 3, 0]])): "head 0 is output 3 of 'a', which has 1",
            json.dumps(with_node(null, node("null", "y", (0, 0)))): "a node 'null' (a variable) must not have inputs",
            json.dumps(with_node(null, node("abs", "a"))): "input 0 (`x`) is missing",
            json.dumps(with_node(null, node("abs", "a", (0, 0), (0, 0)))): "expected at most 1 inputs, found 2",
            json.dumps(with_node(null, node("softmax", "a", (0, 0), attrs={"axis": "last"}))): "attribute 'axis': expected an integer, found 'last'",
            json.dumps(with_node(null, node("null", "w"), node("Convolution", "a", (0, 0), (1, 0), attrs={"kernel": "(3, x)"}))): "attribute 'kernel': expected integers, as (1, 2)",
            json.dumps(with_node(null, node("null", "w"), node("Convolution", "a", (0, 0), (1, 0), attrs={"kernel": "(3, 3)", "stride": "(1,)"}))): "found 2, 1, -1 and -1",
            json.dumps(with_node(null, node("Cast", "a", (0, 0), attrs={"dtype": "float99"}))): "attribute 'dtype': expected a dtype, found 'float99'",
            json.dumps(with_node(null, node("_plus_scalar", "a", (0, 0), attrs={"scalar": "1.5x"}))): "attribute 'scalar': expected a number, found '1.5x'",
            json.dumps(with_node(null, node("Reshape", "a", (0, 0)))): "attribute 'shape' is missing",
            json.dumps(with_node(null, node("Reshape", "a", (0, 0), attrs={"shape": "(-4, 2)"}))): "shape code -4 must be followed by two numbers",
            json.dumps(with_node(dict(null, attrs={"__shape__": "(1, 2, oops"}), node("abs", "a", (0, 0)))): "attribute 'shape': expected integers",
            json.dumps(with_node(dict(null, attrs={"__shape__": "(2, 3)"}), node("SwapAxis", "a", (0, 0), attrs={"dim1": "0", "dim2": "5"}))): "axis 5 does not exist: the tensor has 2 axes",
            json.dumps(with_node(dict(null, attrs={"__shape__": "(2, 3)"}), dict(node("null", "y"), attrs={"__shape__": "(4, 5)"}), node("elemwise_add", "a", (0, 0), (1, 0)))):
                "node 2 'a' (elemwise_add)",
        }
        self.assertGreaterEqual(len(cases), 25)
        for text, expected in cases.items():
            with self.subTest(expected):
                self.write(text, params({"arg:w": W, "arg:b": B}))
                self.refuses(self.path, expected)
        with open(self.path, "wb") as file:
            file.write(good.replace('"fc"', '"f\u00e9"').encode("latin-1"))
        self.refuses(self.path, "a string that is not valid UTF-8")
        os.truncate(self.path, (32 << 20) + 1)
        self.refuses(self.path, "the file has 33554433 bytes, but symbol files of more than 32 MiB are not supported")
        os.remove(self.path)
        self.refuses(self.path, "No such file")

    def test_wrong_parameter_files_are_refused(self):
        good = params({"arg:w": W, "arg:b": B})
        for size in range(len(good)):  # each section in turn ends too early
            self.write(symbol(), good[:size])
            self.refuses("net-0000.params", "bytes left")
        first = 24 + 4 + 4  # the number of axes of the first array
        cases = {
            good.replace(struct.pack("<Q", 0x112), struct.pack("<Q", 0x113), 1): "it starts with 0x113",
            good[:16] + struct.pack("<Q", 1 << 60) + good[24:]: "the number of arrays: 1152921504606846976",
            good[:24] + b"\xff" * 4 + good[28:]: "array 0: it starts with 0xffffffff, which is not the magic number",
            good[:28] + struct.pack("<i", 1) + good[32:]: "array 0: it is stored as row_sparse",
            good[:28] + struct.pack("<i", 2) + good[32:]: "array 0: it is stored as csr",
            good[:28] + struct.pack("<i", 9) + good[32:]: "array 0: storage type 9 does not exist",
            good[:first] + struct.pack("<i", 100) + good[first + 4:]: "array 0: 100 axes; expected at most",
            good[:first] + struct.pack("<i", -5) + good[first + 4:]: "array 0: -5 axes",
            good[:first + 4] + struct.pack("<q", -3) + good[first + 12:]: "array 0: axis 0 has extent -3",
            good[:first + 4] + struct.pack("<qq", 1 << 40, 1 << 40) + good[first + 20:]: "array 0: its shape needs more data, but the file has only",
            good[:first + 28] + struct.pack("<i", 77) + good[first + 32:]: "array 0: dtype 77 does not exist in MXNet",
            good + b"x": "1 bytes are left after the last name",
            params({"arg:w": W}): "1 parameters are missing: b (of fc)",
            params({"arg:w": W, "aux:w": W}): "two arrays are named 'w'",
            good[:-34] + struct.pack("<Q", 1) + good[-26:]: "1 names for 2 arrays",
        }
        for data, expected in cases.items():
            with self.subTest(expected):
                self.write(symbol(), data)
                self.refuses(expected)
        self.write(symbol(), params({"arg:w": W[:, :2].copy(), "arg:b": B}))
        with self.assertRaises(tenon.Error):  # found in the run, since the input's width is not known before
            load(self.path).compile()(X)

    def test_damaged_files_are_refused_or_read_and_never_worse(self):
        """Bytes are changed, left out and doubled, in files of MXNet's own where these exist; scripts/fuzz.sh has the long form."""
        random = np.random.RandomState(5)
        text, data = json.dumps(symbol()).encode(), params({"arg:w": W, "arg:b": B})
        rounds = int(os.environ.get("FUZZ_ROUNDS", "400"))
        for i in range(rounds):
            files = [bytearray(text), bytearray(data)]
            broken = files[i % 2]
            for _ in range(random.randint(1, 6)):
                at, kind = random.randint(0, len(broken)), random.randint(0, 4)
                if kind == 0:
                    broken[at] = random.randint(0, 256)
                elif kind == 1:
                    del broken[at:at + random.randint(1, 9)]
                elif kind == 2:
                    broken[at:at] = broken[max(0, at - 20):at]
                else:
                    broken[at:at + 4] = bytes(random.choice(np.frombuffer(b"\x00\xff{}[]\",:0-9\x80", np.uint8), 4))
            with open(self.path, "wb") as file:
                file.write(files[0])
            with open(os.path.join(self.folder, "net-0000.params"), "wb") as file:
                file.write(files[1])
            try:
                load(self.path)
            except tenon.Error:
                pass
        self.write(symbol(), data)
        self.gives()


if __name__ == "__main__":
    totals.main(lambda: max(0, AgainstMXNet.parts - 1))
