"""Writes the models of tests/data/models: five small ones that look like real ones, and the inputs that they run on.
Run it with a Python that has onnx and numpy; the files are kept.  The tests damage copies of them."""
import os

import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper, shape_inference

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
os.makedirs(folder, exist_ok=True)
random = np.random.default_rng(7)


def weights(name, *shape, dtype=np.float32):
    return numpy_helper.from_array((random.standard_normal(shape) / 4).astype(dtype), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def value(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


def node(kind, inputs, outputs, **attributes):
    return h.make_node(kind, inputs.split(), outputs.split(), name=f"{kind.lower()}_{outputs.split()[0]}", **attributes)


def save(name, graph, opset=20, functions=(), domains=()):
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    model = h.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions), producer_name="")
    if name != "external":  # its weights are elsewhere
        model = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    with open(os.path.join(folder, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString(deterministic=True))


def convolution():
    """Residual convolutions with a stride, padding, groups, pooling and a head."""
    nodes = [
        node("Conv", "x w0 b0", "c0", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "c0 scale shift mean var", "n0", epsilon=1e-3),
        node("Relu", "n0", "r0"),
        node("MaxPool", "r0", "p0", kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER"),
        node("Conv", "p0 w1", "c1", kernel_shape=[3, 3], pads=[2, 2, 2, 2], dilations=[2, 2], group=4),
        node("Clip", "c1 zero six", "k1"),
        node("Conv", "k1 w2", "c2", kernel_shape=[1, 1]),
        node("Add", "c2 p0", "a2"),
        node("Resize", "a2  scales", "z2", mode="linear"),
        node("Pad", "z2 pads", "d2", mode="reflect"),
        node("AveragePool", "d2", "p2", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("ConvTranspose", "p2 w3", "t3", strides=[2, 2], output_padding=[1, 1]),
        node("Concat", "t3 t3", "j3", axis=1),
        node("GlobalAveragePool", "j3", "g4"),
        node("Flatten", "g4", "f4"),
        node("Gemm", "f4 w5 b5", "l5", transB=1, alpha=0.5),
        node("Softmax", "l5", "y", axis=-1),
        node("TopK", "y two", "best which"),
    ]
    nodes[8].input[:] = ["a2", "", "scales"]
    save("convolution", h.make_graph(
        nodes, "convolution", [value("x", T.FLOAT, ["batch", 3, 12, 12])],
        [value("y", T.FLOAT, ["batch", 5]), value("best", T.FLOAT, None), value("which", T.INT64, None)],
        [weights("w0", 4, 3, 3, 3), weights("b0", 4), weights("scale", 4), weights("shift", 4), weights("mean", 4),
         numpy_helper.from_array(np.full(4, 0.5, np.float32), "var"), weights("w1", 4, 1, 3, 3), weights("w2", 4, 4, 1, 1),
         weights("w3", 4, 2, 2, 2), weights("w5", 5, 4), weights("b5", 5), ints("two", 2),
         ints("pads", 0, 0, 1, 1, 0, 0, 1, 1),
         numpy_helper.from_array(np.array([1, 1, 1.5, 1.5], np.float32), "scales"),
         numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.float32(6), "six")]))


def transformer():
    """One block of attention: shapes are computed in the graph, as exporters of frameworks write it."""
    nodes = [
        node("Gather", "table ids", "e"),
        node("Shape", "ids", "s"),
        node("Gather", "s one", "length", axis=0),
        node("Range", "zero length one", "places"),
        node("Gather", "table places", "p"),
        node("Add", "e p", "x"),
        node("LayerNormalization", "x scale shift", "n", axis=-1),
        node("MatMul", "n w_qkv", "m"),
        node("Split", "m", "q0 k0 v0", axis=-1, num_outputs=3),
        node("Gather", "s zero", "batch", axis=0),
        node("Unsqueeze", "batch first", "batch1"),
        node("Unsqueeze", "length first", "length1"),
        node("Concat", "batch1 length1 heads", "split", axis=0),
        node("Reshape", "q0 split", "q1"), node("Reshape", "k0 split", "k1"), node("Reshape", "v0 split", "v1"),
        node("Transpose", "q1", "q", perm=[0, 2, 1, 3]), node("Transpose", "k1", "k", perm=[0, 2, 3, 1]),
        node("Transpose", "v1", "v", perm=[0, 2, 1, 3]),
        node("MatMul", "q k", "qk"),
        node("Div", "qk root", "scaled"),
        node("Concat", "length1 length1", "square", axis=0),
        node("ConstantOfShape", "square", "ones", value=h.make_tensor("v", T.FLOAT, [1], [1.0])),
        node("Trilu", "ones", "lower", upper=0),
        node("Cast", "lower", "allowed", to=T.BOOL),
        node("Where", "allowed scaled least", "masked"),
        node("Softmax", "masked", "weight", axis=-1),
        node("MatMul", "weight v", "o"),
        node("Transpose", "o", "o1", perm=[0, 2, 1, 3]),
        node("Concat", "batch1 length1 rest", "joined", axis=0),
        node("Reshape", "o1 joined", "o2"),
        node("Add", "x o2", "x1"),
        node("MatMul", "x1 w_up", "u"),
        node("Gelu", "u", "g", approximate="tanh"),
        node("MatMul", "g w_down", "d"),
        node("Add", "x1 d", "x2"),
        node("Slice", "x2 first_row last_row axis1", "tail"),
        node("ReduceMean", "tail axis1", "mean", keepdims=0),
        node("Expand", "root square", "spread"),
        node("Equal", "ids three", "marks"),
        node("NonZero", "marks", "where"),
        node("Tile", "mean repeats", "y"),
        node("Einsum", "x2 w_up", "z", equation="bld,df->bf"),
        node("CumSum", "ids one", "sums"),
        node("OneHot", "ids depth on_off", "hot"),
    ]
    save("transformer", h.make_graph(
        nodes, "transformer", [value("ids", T.INT64, ["batch", "length"])],
        [value("y", T.FLOAT, None), value("z", T.FLOAT, None), value("where", T.INT64, None), value("sums", T.INT64, None),
         value("hot", T.INT64, None), value("spread", T.FLOAT, None)],
        [weights("table", 10, 8), weights("scale", 8), weights("shift", 8), weights("w_qkv", 8, 24), weights("w_up", 8, 16),
         weights("w_down", 16, 8), numpy_helper.from_array(np.int64(0), "zero"), numpy_helper.from_array(np.int64(1), "one"),
         numpy_helper.from_array(np.int64(3), "three"), ints("first", 0), ints("heads", 2, 4), ints("rest", 8),
         ints("first_row", -2), ints("last_row", 2**63 - 1), ints("axis1", 1), ints("repeats", 1, 2),
         numpy_helper.from_array(np.int64(10), "depth"), ints("on_off", 0, 1),
         numpy_helper.from_array(np.float32(2), "root"), numpy_helper.from_array(np.float32(-1e9), "least")]))


def control():
    """If in Loop, Scan, values from outside, and a function of the model's own."""
    inner_yes = h.make_graph([node("Mul", "state step", "more")], "yes", [], [value("more", T.FLOAT, None)])
    inner_no = h.make_graph([node("Sub", "state step", "less"), node("Neg", "less", "minus")], "no", [],
                            [value("minus", T.FLOAT, None)])
    body = h.make_graph(
        [node("Cast", "round", "r", to=T.FLOAT), node("Add", "state r", "step"),
         node("Mod", "round two", "odd"), node("Cast", "odd", "is_odd", to=T.BOOL),
         node("If", "is_odd", "next", then_branch=inner_yes, else_branch=inner_no),
         node("ReduceSum", "next", "total", keepdims=0), node("Less", "total limit", "again"),
         node("Identity", "total", "kept")],
        "body", [value("round", T.INT64, []), value("condition", T.BOOL, []), value("state", T.FLOAT, None)],
        [value("again", T.BOOL, None), value("next", T.FLOAT, None), value("kept", T.FLOAT, None)])
    scan = h.make_graph([node("Add", "sum item", "sum_out"), node("Mul", "sum_out shift", "item_out")], "scan",
                        [value("sum", T.FLOAT, [3]), value("item", T.FLOAT, [3])],
                        [value("sum_out", T.FLOAT, [3]), value("item_out", T.FLOAT, [3])])
    function = h.make_function("own", "Twice", ["a", "b"], ["c"],
                               [node("Add", "a b", "t"), h.make_node("LeakyRelu", ["t"], ["c"], name="leaky")],
                               [h.make_opsetid("", 20)], ["alpha"])
    ref = function.node[1].attribute.add()
    ref.name, ref.ref_attr_name, ref.type = "alpha", "alpha", 1
    nodes = [
        node("Loop", "trips go x", "state kept", body=body),
        node("Scan", "start state", "last items", body=scan, num_scan_inputs=1, scan_input_directions=[1]),
        h.make_node("Twice", ["last", "items"], ["y"], name="twice", domain="own", alpha=0.5),
        node("If", "go", "branch",
             then_branch=h.make_graph([node("Neg", "y", "n")], "yes", [], [value("n", T.FLOAT, None)]),
             else_branch=h.make_graph([node("Concat", "y y", "n2", axis=0)], "no", [], [value("n2", T.FLOAT, None)])),
    ]
    save("control", h.make_graph(
        nodes, "control", [value("x", T.FLOAT, [2, 3]), value("trips", T.INT64, []), value("go", T.BOOL, [])],
        [value("y", T.FLOAT, None), value("kept", T.FLOAT, None), value("branch", T.FLOAT, None)],
        [numpy_helper.from_array(np.int64(2), "two"), numpy_helper.from_array(np.float32(50), "limit"),
         numpy_helper.from_array(np.float32(0.5), "shift"), weights("start", 3)]),
        functions=[function], domains=["own"])


def external():
    """Recurrent layers and quantised ones; the weights are in another file, at offsets."""
    content = b""
    tensors = []
    for tensor in [weights("w", 1, 16, 4), weights("r", 1, 16, 4), weights("b", 1, 32),
                   numpy_helper.from_array(random.integers(-9, 9, (4, 6)).astype(np.int8), "wq"), ints("fold", 0, -1),
                   weights("wg", 1, 12, 4), weights("rg", 1, 12, 4)]:
        raw = tensor.raw_data
        content += b"\0" * (-len(content) % 64)
        tensor.ClearField("raw_data")
        tensor.data_location = T.EXTERNAL
        for key, text in (("location", "external.bin"), ("offset", len(content)), ("length", len(raw))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(text)
        content += raw
        tensors.append(tensor)
    nodes = [
        h.make_node("LSTM", ["x", "w", "r", "b"], ["s", "h", "c"], name="lstm", hidden_size=4),
        node("Squeeze", "s axis1", "s1"),
        h.make_node("GRU", ["s1", "wg", "rg"], ["g", ""], name="gru", hidden_size=4),
        node("Reshape", "g fold4", "f"),
        node("DynamicQuantizeLinear", "f", "fq fs fz"),
        node("MatMulInteger", "fq wq fz", "i"),
        node("Cast", "i", "i1", to=T.FLOAT),
        node("Mul", "i1 fs", "y"),
        node("QuantizeLinear", "y fs zq", "yq"),
        node("DequantizeLinear", "yq fs zq", "yd"),
        node("ReduceMax", "yd", "top", keepdims=0),
        node("ArgMax", "yd", "place", axis=1),
        node("GatherElements", "yd place", "taken", axis=1),
        node("ScatterND", "yd at new", "changed"),
    ]
    tensors += [ints("axis1", 1), ints("fold4", -1, 4), numpy_helper.from_array(np.uint8(128), "zq"),
                numpy_helper.from_array(np.array([[0, 1], [2, 3]], np.int64), "at"),
                numpy_helper.from_array(np.array([1, 2], np.float32), "new")]
    tensors = [t for t in tensors if t.name != "fold"]
    save("external", h.make_graph(
        nodes, "external", [value("x", T.FLOAT, ["steps", "batch", 4])],
        [value("h", T.FLOAT, None), value("top", T.FLOAT, None), value("taken", T.FLOAT, None),
         value("changed", T.FLOAT, None)], tensors))
    with open(os.path.join(folder, "external.bin"), "wb") as f:
        f.write(content)


def text():
    """Strings: split, cleaned, joined, compared, looked up."""
    nodes = [
        node("StringNormalizer", "x", "clean", case_change_action="LOWER", is_case_sensitive=0, stopwords=["the", "a"]),
        node("StringConcat", "clean suffix", "joined"),
        node("StringSplit", "joined", "parts counts", delimiter=" ", maxsplit=2),
        node("Equal", "parts two", "match"),
        node("Cast", "match", "m", to=T.INT32),
        node("ReduceSum", "m", "total", keepdims=0),
        node("Gather", "words index", "picked"),
        node("Equal", "picked picked", "same"),
        node("Reshape", "parts flat", "list"),
        node("Unique", "list", "unique first", axis=0),
        node("Cast", "numbers", "floats", to=T.FLOAT),
        node("Cast", "floats", "texts", to=T.STRING),
        node("Concat", "texts words", "all", axis=0),
        node("Where", "mask all all", "chosen"),
        node("Slice", "chosen one many", "z"),
        node("Transpose", "parts", "turned"),
    ]
    save("text", h.make_graph(
        nodes, "text", [value("x", T.STRING, ["n"]), value("index", T.INT64, ["n", 2])],
        [value("total", T.INT32, None), value("counts", T.INT64, None), value("unique", T.STRING, None),
         value("z", T.STRING, None), value("turned", T.STRING, None), value("same", T.BOOL, None)],
        [numpy_helper.from_array(np.array([" two", " x.x y"], object), "suffix"),
         numpy_helper.from_array(np.array(["Grün", "", "日本", "red red red"], object), "words"),
         numpy_helper.from_array(np.array(["1.5", "-2", "1e3"], object), "numbers"),
         numpy_helper.from_array(np.array("two", object), "two"), ints("flat", -1), ints("one", 1),
         ints("many", 100), numpy_helper.from_array(np.array([True]), "mask")]))


for make in (convolution, transformer, control, external, text):
    make()
