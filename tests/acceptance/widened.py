"""Models of ONNX in double precision: weights, inputs, results and casts that were of 32 or fewer bits become double."""
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPES = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision")  # attributes that name an element type


def widen_tensor(tensor, folder=""):
    if tensor.data_type in NARROW:
        array = numpy_helper.to_array(tensor, folder).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def widen_type(kind):
    """Widens the element type of a tensor, or of the items of a sequence or optional value."""
    case = kind.WhichOneof("value")
    if case == "tensor_type" and kind.tensor_type.elem_type in NARROW:
        kind.tensor_type.elem_type = TensorProto.DOUBLE
    elif case in ("sequence_type", "optional_type"):
        widen_type(getattr(kind, case).elem_type)


def widen_attribute(node, attribute):
    if attribute.type == onnx.AttributeProto.TENSOR:
        widen_tensor(attribute.t)
    elif attribute.type == onnx.AttributeProto.GRAPH:
        widen_graph(attribute.g)
    elif attribute.name in TYPES and attribute.i in NARROW:
        attribute.i = TensorProto.DOUBLE
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        tensor = numpy_helper.from_array(np.asarray(np.float32(numbers), np.float64))
        attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def widen_graph(graph):
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        widen_type(value.type)
    for node in graph.node:
        for attribute in node.attribute:
            widen_attribute(node, attribute)
        if node.op_type == "ConstantOfShape" and not node.attribute:  # the default is a float
            node.attribute.append(onnx.helper.make_attribute("value", onnx.helper.make_tensor("", TensorProto.DOUBLE, [1], [0.0])))


def widened(model):
    """A copy of a model in double precision."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    widen_graph(wide.graph)
    for function in wide.functions:
        for node in function.node:
            for attribute in node.attribute:
                widen_attribute(node, attribute)
    return wide
