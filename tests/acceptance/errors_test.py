#!/usr/bin/env python3
"""The errors of the `tenon` command for broken models and for inputs that do not fit: the exit status, and a message that names the node and its
operator, or the part of the file, and what was expected and found. Models are written here with the onnx package. The build is TENON_BUILD,
else `build`."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import ModelProto, TensorProto as T, helper as h, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()


def value(name, shape=(2,), dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=("y",), weights=(), opset=20, domains=()):
    graph = h.make_graph(nodes, "g", inputs if inputs is not None else [value("x")],
                         [h.make_empty_tensor_value_info(name) for name in outputs], list(weights))
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    return h.make_model(graph, opset_imports=opsets, ir_version=9)


def node(kind, inputs="x", outputs="y", **attributes):
    return h.make_node(kind, ["" if n == "_" else n for n in inputs.split()], outputs.split(), name="n0", **attributes)


def outside(location, dims=(2,), **entries):
    """A tensor whose elements are in another file."""
    tensor = T(name="w", data_type=T.FLOAT, dims=dims, data_location=T.EXTERNAL)
    for key, text in dict(location=location, **entries).items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(text)
    return tensor


def raw(dims, size, dtype=T.FLOAT):
    """A tensor of `size` zero bytes, whatever its extents are."""
    return T(name="w", data_type=dtype, dims=dims, raw_data=bytes(size))


def graph(nodes, inputs, outputs, weights=()):
    return h.make_graph(nodes, "body", [value(i, None) for i in inputs], [value(o, None) for o in outputs], list(weights))


USES_W = [node("Add", "x w")]

# Faults: the model, and the text that the message must contain.
FILES = {
    "unknown operator": (model([node("Frobnicate")]), ["node 'n0' (Frobnicate", "the operator is unknown"]),
    "two unknown operators, one of them twice": (
        model([node("Frobnicate", "x", "a"), node("Frobnicate", "a", "b"), node("Grind", "b")]),
        ["2 operators are not supported", "and 1 more (Frobnicate", "(Grind"]),
    "node behind an unknown operator, in a model without inputs": (model([node("Frobnicate", "", "a"), node("Neg", "a")], []), ["(Frobnicate"]),
    "attention behind an unknown operator": (
        model([node("Frobnicate", "x", "a"), h.make_node("MultiHeadAttention", ["a", "a", "a"], ["y"], domain="com.microsoft", num_heads=1)],
              domains=["com.microsoft"]), ["1 operator is not supported", "(Frobnicate"]),
    "missing library": (model([node("Do", domain="acme.things")], domains=["acme.things"]),
                        ["(Do, domain 'acme.things'", "no operator acme_things::Do is loaded", "--ops LIB"]),
    "missing input": (model([node("Add")]), ["node 'n0' (Add", "input 1", "is missing"]),
    "surplus input": (model([node("Neg", "x x")]), ["node 'n0' (Neg", "at most 1 inputs, found 2"]),
    "surplus output": (model([node("Neg", "x", "y z")]), ["node 'n0' (Neg", "at most 1 outputs, found 2"]),
    "cycle": (model([node("Add", "x b", "a"), h.make_node("Neg", ["a"], ["b"], name="n1")], outputs=("b",)),
              ["the nodes 'n0' (Add), 'n1' (Neg) form a cycle"]),
    "cycle behind a value that is used before its definition": (
        model([node("Neg", "late"), h.make_node("Add", ["x", "late"], ["a"], name="n1"), h.make_node("Abs", ["a"], ["late"], name="n2")]),
        ["the nodes 'n2' (Abs), 'n1' (Add) form a cycle"]),
    "value that nothing defines": (model([node("Add", "x nothing")]), ["node 'n0' (Add", "'nothing' is not defined"]),
    "name defined twice": (model([node("Neg"), h.make_node("Abs", ["x"], ["y"], name="n1")]),
                           ["node 'n1' (Abs", "value 'y' is defined twice"]),
    "output that nothing defines": (model([node("Neg")], outputs=("z",)), ["output 'z' is not defined by any node"]),
    "output that is there twice": (model([node("Neg")], outputs=("y", "y")), ["output 'y' is listed twice"]),
    "unknown operator set": (model([node("Neg")], opset=999), ["operator set 999", "expected 1 to"]),
    "operator younger than the set": (model([node("Gelu")], opset=13), ["node 'n0' (Gelu", "opset 13", "older"]),
    "attribute of the wrong type": (model([node("Transpose", perm="10")]),
                                    ["node 'n0' (Transpose", "'perm': expected a list of ints, found a string"]),
    "unknown attribute": (model([node("Neg", loudly=1)]), ["node 'n0' (Neg", "this operator has no attribute 'loudly'"]),
    "no graph": (ModelProto(ir_version=9), ["contains no graph"]),
    "weights cut short": (model(USES_W, weights=[raw([4], 12)]), ["tensor 'w' (f32 [4])", "expected 16 bytes, found 12"]),
    "weights of 2^62 elements": (model(USES_W, weights=[raw([1 << 62], 8)]), ["tensor 'w'", "impossible shape"]),
    "weights of 2^40 elements": (model(USES_W, weights=[raw([1 << 40], 8)]), ["tensor 'w'", "expected 4398046511104 bytes, found 8"]),
    "negative extent": (model(USES_W, weights=[raw([2, -3], 8)]), ["tensor 'w'", "impossible shape [2, -3]"]),
    "unknown element type": (model(USES_W, weights=[raw([2], 8, 99)]), ["tensor 'w'", "element type 99"]),
    "weight file missing": (model(USES_W, weights=[outside("nowhere.bin")]), ["tensor 'w' (f32 [2])", "nowhere.bin"]),
    "weight file short": (model(USES_W, weights=[outside("weights.bin")]),
                          ["tensor 'w'", "'weights.bin': expected 8 bytes at offset 0, found 4"]),
    "weights behind the end": (model(USES_W, weights=[outside("weights.bin", offset=1 << 62)]),
                               ["tensor 'w'", f"expected 8 bytes at offset {1 << 62}, found 0"]),
    "length that differs": (model(USES_W, weights=[outside("weights.bin", length=4)]),
                            ["tensor 'w'", "expected 8 bytes, but the model states 4"]),
    "absolute path": (model(USES_W, weights=[outside("/etc/passwd")]),
                      ["tensor 'w'", "'/etc/passwd'", "only files in the model's folder or below"]),
    "path that climbs": (model(USES_W, weights=[outside("../weights.bin")]),
                         ["tensor 'w'", "'../weights.bin'", "only files in the model's folder or below"]),
    "path that climbs later": (model(USES_W, weights=[outside("a/../../weights.bin")]),
                               ["tensor 'w'", "only files in the model's folder or below"]),
    "branch with inputs": (
        model([node("If", "c", then_branch=graph([node("Neg", "a", "t")], ["a"], ["t"]),
                    else_branch=graph([node("Neg", "x", "e")], [], ["e"]))], [value("x"), value("c", (), T.BOOL)]),
        ["node 'n0' (If", "the branches have 1 and 0 inputs of their own: expected none"]),
    "branches with other numbers of outputs": (
        model([node("If", "c", then_branch=graph([node("Neg", "x", "t")], [], ["t"]),
                    else_branch=graph([node("Neg", "x", "e")], [], ["e", "e"]))], [value("x"), value("c", (), T.BOOL)]),
        ["node 'n0' (If", "the node has 1 outputs, but the branches have 1 and 2"]),
    "body with an input too few": (
        model([node("Loop", "_ c x", body=graph([node("Neg", "r", "s")], ["r"], ["s", "s"]))],
              [value("x"), value("c", (), T.BOOL)]), ["node 'n0' (Loop", "the body has 1 inputs, expected 3"]),
    "body whose input is a weight too": (
        model([node("Loop", "_ c x", body=graph([node("Neg", "s", "t")], ["r", "go", "s"], ["go", "t"],
                                                [numpy_helper.from_array(np.zeros(2, np.float32), "s")]))],
              [value("x"), value("c", (), T.BOOL)]), ["node 'n0' (Loop", "body", "'s'", "twice"]),
    "what is wrong in a body": (
        model([node("If", "c", then_branch=graph([h.make_node("Grind", ["x"], ["t"], name="inner")], [], ["t"]),
                    else_branch=graph([node("Neg", "x", "e")], [], ["e"]))], [value("x"), value("c", (), T.BOOL)]),
        ["node 'inner' (Grind"]),
}

# Readable models: options of `tenon run`, and the text that the message must contain.
SIZE_N = [value("x", ("n",))]
RUNS = {
    "two dtypes": (model([node("Add", "x b")], [value("x"), value("b", (2,), T.INT64)]), ["-i", "ones"],
                   ["node 'n0' (core::add)", "'b'", "expected f32, the dtype of 'a', found i64"]),
    "shapes of a product": (model([node("MatMul", "x x")], [value("x", (2, 3))]), ["-i", "ones"], ["(core::matmul)"]),
    "list of the wrong length": (model([node("Transpose", perm=[0, 1, 2])]), ["-i", "ones"], ["perm"]),
    "axis outside": (model([node("Softmax", axis=7)]), ["-i", "ones"], ["(core::softmax)", "axis 7"]),
    "shape of an input": (model([node("Neg")]), ["-i", "x=@three.npy"], ["'x'", "2", "[3]"]),
    "rank of an input": (model([node("Neg")]), ["-i", "x=@square.npy"], ["'x'", "[2, 2]"]),
    "dtype of an input": (model([node("Neg")]), ["-i", "x=@ints.npy"], ["'x'", "f32", "i64"]),
    "missing input": (model([node("Add", "x b")], [value("x"), value("b")]), ["-i", "x=ones"], ["b"]),
    "surplus input": (model([node("Neg")]), ["-i", "ones", "-i", "more=ones"], ["more"]),
    "input file missing": (model([node("Neg")]), ["-i", "x=@nowhere.npy"], ["nowhere.npy"]),
    "input file that is none": (model([node("Neg")]), ["-i", "x=@weights.bin"], ["weights.bin"]),
    "one symbol, two extents": (model([node("Add", "x b")], SIZE_N + [value("b", ("n",))]),
                                ["-i", "x=@three.npy", "-i", "b=@two.npy"], ["'b'", "(n)", "2", "3"]),
    "index outside": (model([node("Gather", "x i")], SIZE_N + [value("i", (1,), T.INT64)]),
                      ["-i", "x=ones", "-i", "i=7"], ["(core::gather)", "7"]),
    "tensor of 2^62 elements": (model([node("ConstantOfShape", "s")], [value("s", (1,), T.INT64)]),
                                ["-i", f"s={1 << 62}"], ["(core::", str(1 << 62)]),
}


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "weights.bin").write_bytes(bytes(4))
        np.save(cls.folder / "two.npy", np.ones(2, np.float32))
        np.save(cls.folder / "three.npy", np.ones(3, np.float32))
        np.save(cls.folder / "square.npy", np.ones((2, 2), np.float32))
        np.save(cls.folder / "ints.npy", np.ones(2, np.int64))

    def fails(self, content, options, parts):
        (self.folder / "m.onnx").write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
        run = subprocess.run([BUILD / "tenon", "run", "m.onnx", *options], cwd=self.folder, capture_output=True, text=True,
                             timeout=60)
        said = run.stdout + run.stderr
        self.assertEqual(run.returncode, 1, f"exit status {run.returncode}: {said}")
        self.assertRegex(run.stderr, "(?m)^tenon: ")
        for part in parts:
            self.assertIn(part, run.stderr)
        self.assertNotRegex(run.stderr, "(?i)sanitizer|assert|internal error")


def case(content, options, parts):
    return lambda self: self.fails(content, options, parts)


for title, row in FILES.items():
    setattr(Errors, "test_file_" + title.replace(" ", "_"), case(row[0], ["-i", "ones"], row[1]))
for title, row in RUNS.items():
    setattr(Errors, "test_run_" + title.replace(" ", "_"), case(*row))
for title, content, parts in [
        ("an empty file", b"", ["m.onnx: ", "the file is empty: expected a ModelProto"]),
        ("text", b"hello world, this is no model", ["m.onnx: ", "byte "]),
        ("a model cut in the middle", model(USES_W, weights=[raw([4], 16)]).SerializeToString()[:-20], ["m.onnx: ", "byte "])]:
    setattr(Errors, "test_file_" + title.replace(" ", "_"), case(content, ["-i", "ones"], parts))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    wrong = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - wrong - len(result.skipped)} passed, {wrong} failed, {len(result.skipped)} skipped")
    sys.exit(wrong > 0)
