"""Writes the files of this folder: tensors and models as the onnx package (1.22) and NumPy write them, with results that
onnx.reference computes.  Run it with a Python that has onnx, numpy and ml_dtypes; the files are kept beside it."""
import os

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    full = os.path.join(here, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    return full


def write(name, message):
    with open(path(name), "wb") as f:
        f.write(message.SerializeToString(deterministic=True))


# ---- tensors: each type raw and in typed fields, the same six numbers ----
numbers = [0, 1, 2, 3, 1, 0]
types = {n: v for n, v in T.DataType.items() if n not in ("UNDEFINED", "STRING")}
for name, code in types.items():
    for raw in (True, False):
        vals = np.array(numbers).astype(h.tensor_dtype_to_np_dtype(code))
        proto = numpy_helper.from_array(vals.reshape(2, 3), name) if raw else h.make_tensor(name, code, [2, 3], vals.flatten().tolist())
        assert proto.HasField("raw_data") == raw, (name, raw)
        write(f"tensor/{name.lower()}_{'raw' if raw else 'typed'}.pb", proto)
write("tensor/string.pb", h.make_tensor("words", T.STRING, [3], ["", "grün", "日本"]))
t = T(dims=[4], data_type=T.INT64, name="unpacked")
write("tensor/unpacked.pb", t)
with open(path("tensor/unpacked.pb"), "ab") as f:  # int64_data = 7 as single varints: protobuf readers must take both
    for v in (7, -1, 300, 0):
        f.write(bytes([7 << 3]))
        v &= (1 << 64) - 1
        while True:
            f.write(bytes([(v & 127) | (128 if v > 127 else 0)]))
            v >>= 7
            if not v:
                break

# ---- .npy ----
arrays = {
    "f4": np.arange(6, dtype="<f4").reshape(2, 3) / 4 - 1,
    "f8_fortran": np.asfortranarray(np.arange(24, dtype="<f8").reshape(2, 3, 4)),
    "i2_big": np.arange(-3, 3).astype(">i2"),
    "c8": np.array([1 + 2j, -3.5j], dtype="<c8"),
    "b1": np.array([True, False, True]),
    "scalar": np.array(2.5, dtype="<f2"),
    "empty": np.zeros((0, 3), dtype="<u4"),
    "text": np.array([["a", "grün"], ["", "日本語"]]),
    "bytes": np.array([b"ab", b"c"]),
    "text_fortran": np.asfortranarray(np.array([["a", "b", "c"], ["d", "e", "f"]])),
}
os.makedirs(path("npy/x")[:-2], exist_ok=True)
for name, array in arrays.items():
    np.save(path(f"npy/{name}.npy"), array)
with open(path("npy/version3.npy"), "wb") as f:
    np.lib.format.write_array(f, arrays["f4"], version=(3, 0))
with open(path("npy/version2.npy"), "wb") as f:
    np.lib.format.write_array(f, arrays["f4"], version=(2, 0))
# what tenon_tensor_save is to write for a type that NumPy lacks
np.save(path("npy/bf16_bits.npy"), np.array([1.0, -2.5], dtype=ml_dtypes.bfloat16).view("<u2"))
np.save(path("npy/u4_bits.npy"), np.array([1, 15, 7], dtype="u1"))


# ---- models with inputs and expected outputs ----
def value(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


def case(name, model, inputs, outputs=None, check=True):
    if check:
        onnx.checker.check_model(model)
    write(f"case/{name}/model.onnx", model)
    results = outputs if outputs is not None else ReferenceEvaluator(model).run(None, inputs)
    for i, v in enumerate(model.graph.input):
        if v.name in inputs:
            write(f"case/{name}/test_data_set_0/input_{i}.pb", numpy_helper.from_array(inputs[v.name], v.name))
    for i, (v, r) in enumerate(zip(model.graph.output, results)):
        write(f"case/{name}/test_data_set_0/output_{i}.pb", numpy_helper.from_array(np.asarray(r), v.name))


def model(nodes, inputs, outputs, initialisers=(), opset=21, functions=(), opsets=(), **kw):
    graph = h.make_graph(nodes, "g", inputs, outputs, initialisers, **kw)
    imports = [h.make_opsetid("", opset)] + list(opsets)
    return h.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def sparse_of(numbers, places, shape):
    return h.make_sparse_tensor(h.make_tensor("", T.FLOAT, [len(numbers)], numbers),
                                h.make_tensor("", T.INT64, [len(places), len(shape)], np.array(places).flatten()), shape)


x23 = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
f23 = lambda n: value(n, T.FLOAT, [2, 3])
fn3 = lambda n: value(n, T.FLOAT, ["n", 3])

case("symbolic", model([h.make_node("Add", ["x", "w"], ["y"], name="add")], [fn3("x")], [fn3("y")],
     [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")]), {"x": x23})

# functions: attributes by reference, a default, an absent optional input, functions in functions, opset of their own
scale = h.make_function("local", "Scaled", ["a", "lo"], ["b"],
    [h.make_node("Constant", [], ["k"]), h.make_node("Mul", ["a", "k"], ["m"]), h.make_node("Clip", ["m", "lo"], ["b"])],
    [h.make_opsetid("", 18)], attributes=["factor"])
ref = onnx.AttributeProto(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT)
scale.node[0].attribute.append(ref)
twice = h.make_function("local", "Twice", ["a"], ["c"],
    [h.make_node("Scaled", ["a"], ["b"], domain="local"), h.make_node("Scaled", ["b", ""], ["c"], domain="local", factor=2.0)],
    [h.make_opsetid("local", 1)], attributes=[], attribute_protos=[h.make_attribute("by", 3.0)])
twice.node[0].attribute.append(onnx.AttributeProto(name="factor", ref_attr_name="by", type=onnx.AttributeProto.FLOAT))
case("functions", model([h.make_node("Twice", ["x"], ["y"], domain="local"),
                         h.make_node("Twice", ["x"], ["z"], domain="local", by=-1.0)], [f23("x")], [f23("y"), f23("z")],
     functions=[scale, twice], opsets=[h.make_opsetid("local", 1)]), {"x": x23}, [x23 * 6, x23 * -2], check=False)

# branches that use different values from outside, two levels deep, and constants
inner = lambda name, node, out: h.make_graph([node], name, [], [value(out, T.FLOAT, None)])
deep = h.make_graph([h.make_node("If", ["c"], ["t"],
    then_branch=inner("tt", h.make_node("Add", ["x", "w"], ["tt"]), "tt"),
    else_branch=inner("te", h.make_node("Mul", ["x", "z"], ["te"]), "te"))], "then", [], [value("t", T.FLOAT, None)])
flat = inner("else", h.make_node("Sub", ["z", "w"], ["e"]), "e")
for flag in (True, False):
    case(f"captured_{str(flag).lower()}", model([h.make_node("Neg", ["x"], ["z"]),
         h.make_node("If", ["c"], ["y"], then_branch=deep, else_branch=flat)],
         [f23("x"), value("c", T.BOOL, [])], [f23("y")],
         [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")]), {"x": x23, "c": np.array(flag)})

# a loop whose state grows, that ends by its own condition, and captures
body = h.make_graph([
    h.make_node("Concat", ["s", "x"], ["s2"], axis=0),
    h.make_node("Add", ["i", "one"], ["i1"]),
    h.make_node("Less", ["i1", "last"], ["go"]),
    h.make_node("ReduceSum", ["s2"], ["sum"], keepdims=0)],
    "body", [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, None)],
    [value("go", T.BOOL, []), value("s2", T.FLOAT, None), value("sum", T.FLOAT, [])],
    [numpy_helper.from_array(np.array(1), "one"), numpy_helper.from_array(np.array(3), "last")])
case("loop", model([h.make_node("Loop", ["", "", "x"], ["y", "sums"], body=body)], [f23("x")],
     [value("y", T.FLOAT, ["m", 3]), value("sums", T.FLOAT, ["k"])]), {"x": x23},
     [np.concatenate([x23] * 4), x23.sum() * np.array([2, 3, 4], np.float32)])
case("loop_never", model([h.make_node("Loop", ["m", "", "x"], ["y", "sums"], body=body)],
     [f23("x"), value("m", T.INT64, [])], [value("y", T.FLOAT, ["m", 3]), value("sums", T.FLOAT, ["k"])]),
     {"x": x23, "m": np.array(0)}, [x23, np.zeros(0, np.float32)])

# scan backwards along the second axis, results along the second axis too
body = h.make_graph([h.make_node("Add", ["s", "v"], ["s2"]), h.make_node("Mul", ["s2", "w"], ["o"])], "body",
    [value("s", T.FLOAT, [2]), value("v", T.FLOAT, [2])], [value("s2", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
case("scan", model([h.make_node("Scan", ["s0", "x"], ["s", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1],
     scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1])],
     [value("s0", T.FLOAT, [2]), f23("x")], [value("s", T.FLOAT, [2]), f23("y")],
     [numpy_helper.from_array(np.array([1, 10], np.float32), "w")]),
     {"s0": np.array([1, 2], np.float32), "x": x23},
     [np.float32(1 + np.arange(2) + x23.sum(1)),
      np.float32((np.cumsum(x23[:, ::-1], 1)[:, ::-1] + np.array([[1], [2]])) * [[1], [10]])])

# a scan of operator set 8, which has a batch: three items, backwards
rows = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
begins = np.array([[0, 0], [100, 0], [0, 1000]], np.float32)
case("scan_batch", model([h.make_node("Scan", ["", "s0", "x"], ["s", "y"], body=body, num_scan_inputs=1, directions=[1])],
     [value("s0", T.FLOAT, [3, 2]), value("x", T.FLOAT, [3, 4, 2])], [value("s", T.FLOAT, [3, 2]), value("y", T.FLOAT, [3, 4, 2])],
     [numpy_helper.from_array(np.array([1, 10], np.float32), "w")], opset=8), {"s0": begins, "x": rows},
     [begins + rows.sum(1), (np.cumsum(rows[:, ::-1], 1) + begins[:, None]) * np.array([1, 10], np.float32)], check=False)

# sequences whose items are known when the model is read: made, put in, taken out, mapped, split, joined, seen from a branch
f = lambda n: value(n, T.FLOAT, None)
n64 = lambda name, *numbers: numpy_helper.from_array(np.array(numbers if len(numbers) > 1 else numbers[0], np.int64), name)
mapped = h.make_graph([h.make_node("Add", ["item", "other"], ["sum"]), h.make_node("Mul", ["sum", "w"], ["scaled"])], "map",
                      [f("item"), f("other")], [f("scaled"), f("sum")])
branch = lambda name, at: h.make_graph([h.make_node("SequenceAt", ["more", at], [name])], name, [], [f(name)])
case("sequences", model([
    h.make_node("SequenceConstruct", ["x", "z"], ["two"]),
    h.make_node("SequenceInsert", ["two", "z", "zero"], ["three"]),
    h.make_node("SequenceErase", ["three", "last"], ["left"]),
    h.make_node("SequenceInsert", ["left", "x"], ["more"]),
    h.make_node("SequenceMap", ["more", "x"], ["scaled", "sums"], body=mapped),
    h.make_node("ConcatFromSequence", ["scaled"], ["y"], axis=0),
    h.make_node("ConcatFromSequence", ["sums"], ["stack"], axis=1, new_axis=1),
    h.make_node("SequenceLength", ["more"], ["length"]), h.make_node("Cast", ["length"], ["count"], to=T.FLOAT),
    h.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0), h.make_node("SequenceAt", ["rows", "last"], ["row"]),
    h.make_node("SplitToSequence", ["x", "parts"], ["columns"], axis=1), h.make_node("SequenceAt", ["columns", "zero"], ["column"]),
    h.make_node("If", ["flag"], ["chosen"], then_branch=branch("first", "zero"), else_branch=branch("second", "last"))],
    [f23("x"), f23("z"), value("flag", T.BOOL, [])],
    [value("y", T.FLOAT, [6, 3]), value("stack", T.FLOAT, [2, 3, 3]), value("count", T.FLOAT, []), value("row", T.FLOAT, [3]),
     value("column", T.FLOAT, [2, 2]), f23("chosen")],
    [numpy_helper.from_array(np.array([1, 10, 100], np.float32), "w"), n64("zero", 0), n64("last", -1), n64("parts", 2, 1)]),
    {"x": x23, "z": x23 * 3, "flag": np.array(False)},
    [np.concatenate([x23 * 4, x23 * 2, x23 * 2]) * np.array([1, 10, 100], np.float32), np.stack([x23 * 4, x23 * 2, x23 * 2], 1),
     np.float32(3), x23[1], x23[:, :2], x23])

# operator set 18 had scale and bias for each group of channels
groups = np.arange(24, dtype=np.float32).reshape(1, 4, 6) ** 2 / 50
wide = groups.reshape(1, 2, 12)
case("group_norm", model([h.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, epsilon=1e-2)],
     [value("x", T.FLOAT, [1, 4, 6])], [value("y", T.FLOAT, [1, 4, 6])],
     [numpy_helper.from_array(np.array([1, -2], np.float32), "s"), numpy_helper.from_array(np.array([0.5, 3], np.float32), "b")], 18), {"x": groups},
     [((wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-2) * np.array([[1], [-2]])
       + np.array([[0.5], [3]])).astype(np.float32).reshape(1, 4, 6)], check=False)

# limits beyond what the elements' type can hold: those of operator set 6 are floats, and absent means the largest
for name, dtype in ("i8", T.INT8), ("i64", T.INT64), ("u8", T.UINT8):
    numbers = np.array([-7, -1, 3, 100]).astype(h.tensor_dtype_to_np_dtype(dtype))
    case(f"clip_{name}", model([h.make_node("Clip", ["x"], ["c"], max=5.0), h.make_node("Clip", ["c"], ["d"], min=-1e30), h.make_node("Cast", ["d"], ["y"], to=T.FLOAT)],
         [value("x", dtype, [4])], [value("y", T.FLOAT, [4])], [], 6), {"x": numbers}, [np.minimum(numbers, 5).astype(np.float32)], check=False)

# constants by each attribute that may hold one
constants = [h.make_node("Constant", [], ["a"], value_float=2.5), h.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
             h.make_node("Constant", [], ["c"], value_ints=[3, 2, 1]), h.make_node("Constant", [], ["d"], value_int=-4),
             h.make_node("Constant", [], ["e"], value_string="grün"), h.make_node("Constant", [], ["f"], value_strings=["blau", "grün", ""]),
             h.make_node("Constant", [], ["g"], sparse_value=sparse_of([5.0, 7.0], [[0, 1], [1, 2]], [2, 3])),
             h.make_node("Equal", ["e", "f"], ["same"])]
constants += [h.make_node("Cast", [n], [n + "f"], to=T.FLOAT) for n in ("c", "d", "same")]
constants += [h.make_node("Sum", ["x", "a", "b", "cf", "df", "samef", "g"], ["y"])]
case("constants", model(constants, [f23("x")], [f23("y")]), {"x": x23},
     [np.float32(x23 + 2.5 + [1, 2, 3] + np.array([3, 2, 1]) - 4 + [0, 1, 0] + np.array([[0, 5, 0], [0, 0, 7]]))])

# an initialiser that is an input as well, one that is an output, one without a use; a sparse one
sparse = h.make_sparse_tensor(h.make_tensor("sp", T.FLOAT, [2], [5.0, 7.0]), h.make_tensor("i", T.INT64, [2, 2], [0, 1, 1, 2]), [2, 3])
case("initialisers", model([h.make_node("Add", ["x", "w"], ["a"]), h.make_node("Add", ["a", "sp"], ["y"])],
     [f23("x"), value("w", T.FLOAT, [3])], [f23("y"), value("w", T.FLOAT, [3])],
     [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"), numpy_helper.from_array(np.zeros(9), "unused")],
     sparse_initializer=[sparse]), {"x": x23}, [np.float32(x23 + [1, 2, 3] + [[0, 5, 0], [0, 0, 7]]), np.array([1, 2, 3], np.float32)])

# operators of a custom domain, which tests/unit/import/custom_test.c defines
def custom(name, nodes, inputs, outputs, version=1):
    write(name, model(nodes, inputs, outputs, opsets=[h.make_opsetid("com.acme", version)]))


acme = lambda type, i, o, **kw: h.make_node(type, i, o, name=type.lower(), domain="com.acme", **kw)
custom("custom/scale.onnx", [acme("Scale", ["x"], ["y"], factor=2, offsets=[1, 2], mode="up", to=1, table=numpy_helper.from_array(np.array([5.0], np.float32)))], [f23("x")], [f23("y")])
custom("custom/lists.onnx", [acme("Parts", ["x", "x", "x"], ["y", "z"])], [f23("x")], [f23("y"), f23("z")])
custom("custom/body.onnx", [acme("Twice", ["x"], ["y"], body=h.make_graph([h.make_node("Add", ["a", "a"], ["b"])], "body", [f23("a")], [f23("b")]))], [f23("x")], [f23("y")])
custom("custom/body_captures.onnx", [acme("Twice", ["x"], ["y"], body=h.make_graph([h.make_node("Add", ["a", "x"], ["b"])], "body", [f23("a")], [f23("b")]))], [f23("x")], [f23("y")])
custom("custom/attribute.onnx", [acme("Scale", ["x"], ["y"], factr=2.0)], [f23("x")], [f23("y")])
custom("custom/type.onnx", [acme("Scale", ["x"], ["y"], factor="2")], [f23("x")], [f23("y")])
custom("custom/choice.onnx", [acme("Scale", ["x"], ["y"], factor=2.0, mode="sideways")], [f23("x")], [f23("y")])
custom("custom/required.onnx", [acme("Scale", ["x"], ["y"])], [f23("x")], [f23("y")])
custom("custom/inputs.onnx", [acme("Scale", ["x", "x"], ["y"], factor=2.0)], [f23("x")], [f23("y")])
for version, attrs in (1, {"alpha": 2.0, "tint": 3}), (2, {"gain": 2.0, "move": 5.0}), (3, {"factor": 2.0, "shift": 5.0}), (9, {"factor": 2.0, "shift": 5.0}):
    custom(f"custom/version_{version}.onnx", [acme("Line", ["x"], ["y"], **attrs)], [f23("x")], [f23("y")], version)
custom("custom/version_late.onnx", [acme("Line", ["x"], ["y"], alpha=2.0)], [f23("x")], [f23("y")], 2)
custom("custom/name.onnx", [acme("Scael", ["x"], ["y"])], [f23("x")], [f23("y")])

# ---- weights in another file, and models that must be refused ----
def external(name, **entries):
    t = T(name="w", data_type=T.FLOAT, dims=[3], data_location=T.EXTERNAL)
    for k, v in entries.items():
        t.external_data.add(key=k, value=v)
    m = model([h.make_node("Add", ["x", "w"], ["y"], name="add")], [fn3("x")], [fn3("y")], [t])
    write(name, m)
    return m


external("case/external/model.onnx", location="weights.bin", offset="64", length="12")
write("case/external/test_data_set_0/input_0.pb", numpy_helper.from_array(x23, "x"))
write("case/external/test_data_set_0/output_0.pb", numpy_helper.from_array(x23 + np.array([1, 2, 3], np.float32), "y"))
with open(path("case/external/weights.bin"), "wb") as f:
    f.write(bytes(64) + np.array([1, 2, 3], "<f4").tobytes())
external("bad/external_up.onnx", location="../case/external/weights.bin")
external("bad/external_absolute.onnx", location="/etc/passwd")
external("bad/external_missing.onnx", location="nowhere.bin")
external("bad/external_short.onnx", location="external_missing.onnx", offset="1000000000")
external("bad/external_length.onnx", location="external_missing.onnx", length="8")


def bad(name, nodes, initialisers=(), opset=21, inputs=None, outputs=None, **kw):
    write(f"bad/{name}.onnx", model(nodes, inputs or [f23("x")], outputs or [f23("y")], initialisers, opset, **kw))


add = lambda a, b, c, **kw: h.make_node("Add", [a, b], [c], **kw)
bad("undefined", [add("x", "nothing", "y", name="a")])
bad("order", [add("x", "late", "y", name="a"), h.make_node("Neg", ["x"], ["late"], name="b")])
bad("cycle", [add("x", "y", "z", name="a"), add("z", "x", "y", name="b")])
bad("twice", [h.make_node("Neg", ["x"], ["y"]), h.make_node("Abs", ["x"], ["y"], name="again")])
bad("output", [h.make_node("Neg", ["x"], ["z"])])
bad("output_twice", [h.make_node("Neg", ["x"], ["y"])], outputs=[f23("y"), f23("y")])
bad("unknown", [h.make_node("Frobnicate", ["x"], ["a"], name="f"), h.make_node("Frobnicate", ["a"], ["b"]),
                h.make_node("Mystery", ["b"], ["y"], name="m", domain="custom.things")])
bad("attribute", [h.make_node("Transpose", ["x"], ["y"], name="t", perm=1)])
bad("attribute_unknown", [h.make_node("Neg", ["x"], ["y"], name="n", loudly=1)])
bad("inputs", [h.make_node("Neg", ["x", "x"], ["y"], name="n")])
bad("inputs_missing", [h.make_node("Add", ["x"], ["y"], name="n")])
bad("outputs", [h.make_node("Neg", ["x"], ["y", "z"], name="n")])
bad("opset", [h.make_node("Neg", ["x"], ["y"])], opset=999)
bad("too_old", [h.make_node("Gelu", ["x"], ["y"], name="g")], opset=13)
bad("sequence", [h.make_node("Add", ["s", "s"], ["y"])], inputs=[h.make_tensor_sequence_value_info("s", T.FLOAT, None)])
bad("reference", [h.make_node("Elu", ["x"], ["y"], name="e")])
m = onnx.load(path("bad/reference.onnx"))
m.graph.node[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="a", type=onnx.AttributeProto.FLOAT))
write("bad/reference.onnx", m)
for name, dims in (("huge", [1 << 62, 1 << 10]), ("large", [1 << 40]), ("negative", [-1]), ("short", [4])):
    t = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    del t.dims[:]
    t.dims.extend(dims)
    bad(f"weights_{name}", [add("x", "w", "y", name="a")], [t])
t = h.make_tensor("w", T.FLOAT, [3], [1, 2, 3])
t.dims[0] = 1 << 40
bad("weights_typed", [add("x", "w", "y", name="a")], [t])
circle = h.make_function("local", "F", ["a"], ["b"], [h.make_node("F", ["a"], ["b"], domain="local")], [h.make_opsetid("local", 1)])
bad("circle", [h.make_node("F", ["x"], ["y"], name="f", domain="local")], functions=[circle], opsets=[h.make_opsetid("local", 1)])
laughs = [h.make_function("local", f"F{i}", ["a"], ["b"], [h.make_node(f"F{i + 1}", ["a" if k == 0 else f"t{k}"],
          ["b" if k == 9 else f"t{k + 1}"], domain="local") for k in range(10)], [h.make_opsetid("local", 1)]) for i in range(20)]
laughs.append(h.make_function("local", "F20", ["a"], ["b"], [h.make_node("Identity", ["a"], ["b"])], [h.make_opsetid("", 21)]))
bad("laughs", [h.make_node("F0", ["x"], ["y"], name="f", domain="local")], functions=laughs, opsets=[h.make_opsetid("local", 1)])


def field(number, content):  # length-delimited; protobuf itself refuses to write what is nested so deep
    size, head = len(content), bytes([number << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + content


graph = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "g", [], [value("y", T.FLOAT, None)]).SerializeToString()
for i in range(60):
    attribute = field(1, b"then_branch") + field(6, graph) + bytes([20 << 3 & 127 | 128, 1, 5])
    graph = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute))
with open(path("bad/deep.onnx"), "wb") as f:
    f.write(bytes([8, 10]) + field(7, graph) + field(8, bytes([16, 21])))
with open(path("bad/no_model.onnx"), "wb") as f:
    f.write(b"PK\x03\x04 this is a zip file")
with open(path("bad/empty.onnx"), "wb") as f:
    pass
