"""Models of ONNX for convert_test.py, and ONNX Runtime's results: this file runs in a Python that has both, without JAX.

Usage: convert_oracle.py make FOLDER           writes NAME.onnx, NAME.in.npz and NAME.out.npz for each case
       convert_oracle.py run MODEL IN OUT...   runs models, three paths each
"""
import os
import sys

import numpy as np

import convert_control


def floats(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def integers(*shape, most=4):
    return np.random.default_rng(sum(shape)).integers(0, most, shape)


X, Y, M = floats(2, 3, 4), floats(3, 1, seed=1), floats(4, 5, seed=2)
POSITIVE, SMALL = np.abs(X) + np.float32(0.1), np.tanh(X)
IMAGE, KERNEL, BIAS = floats(2, 4, 9, 8), floats(6, 4, 3, 3), floats(6)
I64 = np.int64

# A case: the type, the inputs ("*" marks an initialiser), the attributes, and the number of results.
CASES = {}


def case(name, type_, *inputs, constants=(), results=1, **attributes):
    CASES[name] = (type_, inputs, set(constants), attributes, results)


for _type in ("Abs Neg Sign Exp Floor Ceil Round Sin Cos Tan Atan Sinh Cosh Tanh Asinh Erf Sigmoid Relu Softplus Softsign Mish HardSigmoid "
              "HardSwish Elu Celu Selu LeakyRelu ThresholdedRelu Shrink Identity IsNaN IsInf Gelu").split():
    case(_type, _type, X)
for _type in "Log Sqrt Reciprocal".split():
    case(_type, _type, POSITIVE)
case("Gelu tanh", "Gelu", X, approximate="tanh")
case("Elu alpha", "Elu", X, alpha=0.7)
for _type in "Asin Acos Atanh".split():
    case(_type, _type, SMALL)
for _type in "Add Sub Mul Div Max Min Equal Less Greater LessOrEqual GreaterOrEqual PRelu".split():
    case(_type, _type, X, Y)
case("Acosh", "Acosh", 1 + POSITIVE)
case("Pow", "Pow", POSITIVE, np.float32(2.5))
case("Div of integers", "Div", np.array([7, -7, 9], I64), np.array([2, 2, -4], I64))
case("Mod", "Mod", np.array([7, -7, 9], I64), np.array([2, 2, -4], I64))
case("Mod of floats", "Mod", X, Y, fmod=1)
case("And", "And", X > 0, Y > 0)
case("Or", "Or", X > 0, Y > 0)
case("Xor", "Xor", X > 0, Y > 0)
case("Not", "Not", X > 0)
case("Where", "Where", X > 0, X, Y)
case("Clip", "Clip", X, np.float32(-0.5), np.float32(0.5), constants=(1, 2))
case("Cast to integers", "Cast", 3 * X, to=7)
case("Cast to bool", "Cast", np.array([0., 1., -2.], np.float32), to=9)
case("BitwiseAnd", "BitwiseAnd", integers(5, most=100).astype(np.int32), integers(5, most=60).astype(np.int32))
case("MatMul", "MatMul", X, M)
case("MatMul of vectors", "MatMul", M[:, 0], M)
case("MatMul with broadcast", "MatMul", floats(2, 1, 3, 4), floats(5, 4, 2))
case("Gemm", "Gemm", floats(4, 3), floats(5, 4), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0)
case("Conv", "Conv", IMAGE, KERNEL, BIAS, pads=[1, 1, 1, 1])
case("Conv strided", "Conv", IMAGE, KERNEL, strides=[2, 1], dilations=[1, 2], pads=[0, 1, 2, 3])
case("Conv in groups", "Conv", IMAGE, floats(6, 2, 3, 3), group=2)
case("Conv same", "Conv", IMAGE, KERNEL, auto_pad="SAME_UPPER", strides=[2, 2])
case("Conv of one axis", "Conv", floats(2, 4, 9), floats(6, 4, 3))
case("ConvTranspose", "ConvTranspose", IMAGE, floats(4, 5, 3, 3), floats(5), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0])
case("ConvTranspose in groups", "ConvTranspose", IMAGE, floats(4, 3, 2, 3), group=2, dilations=[2, 1])
case("MaxPool", "MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
case("MaxPool ceil", "MaxPool", IMAGE, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
case("AveragePool", "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("AveragePool with padding", "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
case("GlobalAveragePool", "GlobalAveragePool", IMAGE)
case("GlobalMaxPool", "GlobalMaxPool", IMAGE)
for _type in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split():
    case(_type, _type, X, np.array([-1, 0], I64), constants=(1,))
    case(_type + " of all", _type, X, keepdims=0)
case("ReduceLogSum", "ReduceLogSum", POSITIVE, np.array([1], I64), constants=(1,), keepdims=0)
case("ArgMax", "ArgMax", X, axis=1)
case("ArgMax last", "ArgMax", np.float32([[1, 3, 3], [2, 2, 1]]), axis=-1, keepdims=0, select_last_index=1)
case("ArgMin", "ArgMin", X, axis=-1, keepdims=0)
case("CumSum", "CumSum", X, np.array(1, I64), constants=(1,))
case("CumSum exclusive", "CumSum", X, np.array(-1, I64), constants=(1,), exclusive=1, reverse=1)
case("Softmax", "Softmax", X, axis=1)
case("LogSoftmax", "LogSoftmax", X)
case("LayerNormalization", "LayerNormalization", X, floats(4), floats(4, seed=3))
case("BatchNormalization", "BatchNormalization", IMAGE, floats(4), floats(4, seed=1), floats(4, seed=2), np.abs(floats(4, seed=3)))
case("InstanceNormalization", "InstanceNormalization", IMAGE, floats(4), floats(4, seed=1))
case("Reshape", "Reshape", X, np.array([0, -1], I64), constants=(1,))
case("Flatten", "Flatten", X, axis=2)
case("Squeeze", "Squeeze", Y, np.array([1], I64), constants=(1,))
case("Unsqueeze", "Unsqueeze", X, np.array([0, -1], I64), constants=(1,))
case("Expand", "Expand", Y, np.array([2, 3, 4], I64), constants=(1,))
case("Transpose", "Transpose", X, perm=[1, 2, 0])
case("Transpose of all", "Transpose", X)
case("Concat", "Concat", X, X + 1, X - 1, axis=-2)
case("Split", "Split", X, np.array([1, 3], I64), constants=(1,), axis=2, results=2)
case("Slice", "Slice", X, np.array([1, -4], I64), np.array([3, 100], I64), np.array([1, 2], I64), np.array([1, 2], I64), constants=(1, 2, 3, 4))
case("Slice backwards", "Slice", X, np.array([-1], I64), np.array([-100], I64), np.array([2], I64), np.array([-2], I64), constants=(1, 2, 3, 4))
case("Slice far backwards", "Slice", X, np.array([-50, 50], I64), np.array([-100, -100], I64), np.array([1, 2], I64), np.array([-1, -2 ** 62], I64),
     constants=(1, 2, 3, 4))
case("Slice with a large step", "Slice", X, np.array([0], I64), np.array([2 ** 62], I64), np.array([2], I64), np.array([2 ** 63 - 1], I64), constants=(1, 2, 3, 4))
case("Pad", "Pad", X, np.array([0, 1, 2, 1, 0, 3], I64), np.float32(1.5), constants=(1, 2))
case("Pad reflect", "Pad", X, np.array([0, 1, 2, 0, 2, 3], I64), constants=(1,), mode="reflect")
case("Pad edge", "Pad", X, np.array([1, 0, 2, 0, 2, 0], I64), constants=(1,), mode="edge")
case("Tile", "Tile", X, np.array([1, 2, 3], I64), constants=(1,))
case("Trilu", "Trilu", X, np.array(1, I64), constants=(1,), upper=0)
case("DepthToSpace", "DepthToSpace", floats(2, 8, 3, 2), blocksize=2, mode="DCR")
case("DepthToSpace CRD", "DepthToSpace", floats(2, 8, 3, 2), blocksize=2, mode="CRD")
case("Gather", "Gather", X, np.array([[0, -1], [2, 1]], I64), axis=1)
case("Gather of rows", "Gather", floats(6, 4), np.array([5, 0, -2], np.int32))
case("GatherElements", "GatherElements", X, integers(2, 3, 2), axis=2)
case("GatherND", "GatherND", X, np.array([[0, -1], [1, 2]], I64))
case("ScatterND", "ScatterND", X, np.array([[0, -1], [1, 2]], I64), floats(2, 4, seed=5))
case("ScatterND of sums", "ScatterND", X, np.array([[[0, 1, 2]], [[0, 1, 2]]], I64), floats(2, 1, seed=5), reduction="add")
case("OneHot", "OneHot", np.array([[0, 2], [-1, 1]], I64), np.array(3, I64), np.float32([0.5, 2]), constants=(1,), axis=1)
case("TopK", "TopK", X, np.array([2], I64), constants=(1,), results=2, axis=1)
case("TopK least", "TopK", X, np.array([3], I64), constants=(1,), results=2, largest=0)


def case_of_nbits(name, bits, block, rows, zeros=None, bias=0):
    """A product with packed weights of 5 columns."""
    blocks = -(-rows // block)
    inputs = [floats(2, 3, rows), integers(5, blocks, block * bits // 8, most=256).astype(np.uint8), floats(5, blocks, seed=1)]
    if zeros:
        inputs.append(floats(5, blocks, seed=2) if zeros == "floats" else integers(5, -(-blocks * bits // 8), most=256).astype(np.uint8))
    inputs += [None] * (5 - len(inputs)) + [floats(5)] if bias else []
    constants = [i for i, x in enumerate(inputs) if i and x is not None]
    case(name, "com.microsoft.MatMulNBits", *inputs, constants=constants, K=rows, N=5, bits=bits, block_size=block)


case_of_nbits("MatMulNBits", 4, 16, 40)
case_of_nbits("MatMulNBits with zero points", 4, 16, 40, "integers", bias=1)
case_of_nbits("MatMulNBits with zero points that are floats", 4, 32, 32, "floats")
case_of_nbits("MatMulNBits of 8 bits", 8, 16, 48, "integers")
case_of_nbits("MatMulNBits of 2 bits", 2, 16, 40, bias=1)


def model_of(type_, inputs, constants, attributes, results):
    import onnx
    from onnx import helper, numpy_helper
    domain, _, type_ = type_.rpartition(".")
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(type_, names, [f"y{i}" for i in range(results)], domain=domain, **attributes)
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x))
             for i, (name, x) in enumerate(zip(names, inputs)) if name and i not in constants]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(results)]
    tensors = [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in sorted(constants)]
    graph = helper.make_graph([node], "case", ports, outputs, tensors)
    opsets = [helper.make_opsetid("", 21)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def run(model, inputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    results = session.run(None, {port.name: inputs[port.name] for port in session.get_inputs()})
    return {port.name: result for port, result in zip(session.get_outputs(), results)}


def write_case(folder, name, model, values):
    """Writes a model, inputs, and what ONNX Runtime gives for them."""
    data = model.SerializeToString()
    with open(os.path.join(folder, name + ".onnx"), "wb") as file:
        file.write(data)
    np.savez(os.path.join(folder, name + ".in.npz"), **values)
    np.savez(os.path.join(folder, name + ".out.npz"), **run(data, values))


def make_control(folder):
    from onnx import helper, numpy_helper
    for name, (nodes, outputs, constants, values) in convert_control.models().items():
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in values.items()]
        graph = helper.make_graph(nodes, "control", inputs, [helper.make_tensor_value_info(*port) for port in outputs],
                                  [numpy_helper.from_array(np.asarray(x), n) for n, x in constants])
        write_case(folder, name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), values)


def make(folder):
    make_control(folder)
    for name, (type_, inputs, constants, attributes, results) in CASES.items():
        values = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None and i not in constants}
        write_case(folder, name, model_of(type_, inputs, constants, attributes, results), values)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        for at in range(2, len(sys.argv), 3):
            model, values, results = sys.argv[at:at + 3]
            with np.load(values) as given:
                try:
                    np.savez(results, **run(model, dict(given)))
                except Exception as error:
                    print(f"{os.path.basename(model)}: {error}", file=sys.stderr)
