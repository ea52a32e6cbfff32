"""Calls of the test library tests/adapters/onnxruntime_libraries/ops.c, for ONNX Runtime and for Tenon."""
import numpy as np

import onnxruntime_models as models

F = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -6.0]], np.float32)
B = np.array([10.0, 20.0, 30.0], np.float32)
I = np.array([2, 0, 1, 2], np.int64)
S = np.array([["apple", ""], ["Grüße", "a b\tc"]], object)


class Case:
    """One node: the operator, its inputs (None: absent) and attributes, and how many results it has.

    since: the version of the interface that the operator needs.  constants: the inputs that are constants of the model.
    version: of the domain.  fails: part of the message with which Tenon refuses
    the call, which ONNX Runtime refuses, too.  tail: a standard operator on the result, because ONNX Runtime copies results of models.
    """

    def __init__(self, op, inputs, attributes=None, outputs=1, since=10, constants=(), version=1, fails=None, tail=None):
        self.op, self.inputs, self.attributes, self.outputs, self.since = op, inputs, attributes or {}, outputs, since
        self.constants, self.version, self.fails, self.tail = constants, version, fails, tail

    def model(self, domain, symbolic=False):
        return models.model(domain, self.op, self.inputs, self.attributes, self.outputs, self.constants, self.version, symbolic, self.tail)

    def feeds(self):
        return {f"x{i}": a for i, a in enumerate(self.inputs) if a is not None and i not in self.constants}


CASES = {
    "add": Case("Add", [F, F * 3]),
    "add of no elements": Case("Add", [np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)]),
    "add of scalars": Case("Add", [np.array(3, np.float32), np.array(4, np.float32)]),
    "overload f32": Case("Twice", [F]),
    "overload f64": Case("Twice", [F.astype(np.float64)]),
    "overload i64": Case("Twice", [I]),
    "no overload": Case("Twice", [I.astype(np.int32)], fails="no kernel takes (i32)"),
    **{f"any {t}": Case("Copy", [F.astype(t)]) for t in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")},
    "any string": Case("Copy", [S]),
    "attributes absent": Case("Scale", [F]),
    "attribute float": Case("Scale", [F], {"factor": 0.1}),
    "attribute int": Case("Scale", [F], {"times": -7}),
    "attribute string": Case("Scale", [F], {"mode": "other"}),
    "attribute floats": Case("Scale", [F], {"numbers": [0.5, 1e-3, -2.25]}, since=11),
    "attribute ints": Case("Scale", [F], {"integers": [1, -2, 3000000000]}, since=11),
    "all attributes": Case("Scale", [F], {"factor": 2.0, "times": 3, "mode": "plain", "numbers": [1.0], "integers": [5, 6]}, since=11),
    "optional input": Case("AddOptional", [F, B]),
    "optional input absent": Case("AddOptional", [F]),
    "optional output": Case("Extremes", [F], outputs=2),
    "optional output unwanted": Case("Extremes", [F]),
    "extent from data": Case("Positive", [F]),
    "no elements from data": Case("Positive", [-np.abs(F)]),
    "strings": Case("Upper", [S]),
    "strings without elements": Case("Upper", [np.zeros((0,), object)]),
    "lengths of strings": Case("Lengths", [S]),
    "standard operator": Case("BestTwo", [F], outputs=2, since=12),
    "standard operator on three axes": Case("BestTwo", [np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7 + np.arange(4, dtype=np.float32) / 16], outputs=2, since=12),
    "tensor attribute": Case("LookUp", [I], {"table": np.array([7, 8.5, -9], np.float32)}, since=14),
    "failing kernel": Case("LookUp", [I + 5], {"table": np.array([1.0], np.float32)}, since=16, fails="an index is out of range"),
    "failing creation": Case("LookUp", [I], since=16, fails="table"),
    "facts of a node": Case("Facts", [F, B], since=14),
    "facts of a node without an input": Case("Facts", [I], since=14),
    "variadic input": Case("Sum", [F, F, F * 2], since=14),
    "variadic input of two": Case("Sum", [F, F + 1], since=14),
    "too few variadic inputs": Case("Sum", [F], since=14, fails="expected at least 2"),
    "variadic output": Case("CopyAll", [F, B, F * 2], outputs=3, since=14),
    "variadic output of one": Case("CopyAll", [F], since=14),
    "strings in place": Case("Reverse", [np.array(["abc", "", "xy"], object)], since=15),
    "constant input": Case("AddConstant", [F, B], since=15, constants=(1,)),
    "shape function": Case("Repeat", [F], since=17),
    "shape function with an attribute": Case("Repeat", [F], {"times": 3}, since=17),
    "first version": Case("Versioned", [F], {"factor": 5.0}, since=17, version=2),
    "later version": Case("Versioned", [F], {"factor": 5.0}, since=17, version=4),
    "allocators": Case("Memory", [F], since=18),
    "parallel loop": Case("Square", [np.arange(1001, dtype=np.float32)], since=18),
    "resources": Case("Resource", [F], since=18),
    "output in the memory of an input": Case("FirstOnly", [F], since=18, tail="Neg"),
    "names": Case("Names", [F], since=24),
    "reference to data": Case("Reference", [F.astype(np.float64)], since=24),
    "attribute strings": Case("Words", [I], {"words": ["a", "bcd", "it's \\ \"x\"\n"]}, since=25),
}
