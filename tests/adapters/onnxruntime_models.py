"""Models of one node of a custom domain, and their results in ONNX Runtime."""
import numpy as np
import onnx
from onnx import helper, numpy_helper


def attribute(name, value):
    return helper.make_attribute(name, numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value)


def element(array):
    return onnx.TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def constant(name, array):
    if array.dtype != object:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, [str(x).encode() for x in array.reshape(-1)])


def model(domain, op, inputs, attributes=None, outputs=1, constants=(), version=1, symbolic=False, tail=None, typed=None):
    """Returns a model as bytes.  typed: the element type of the results, where it cannot be inferred.  The inputs of the model are those of the node that are neither absent nor constants."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain)
    node.attribute.extend(attribute(k, v) for k, v in (attributes or {}).items())
    shape = lambda i, a: [f"d{i}_{d}" for d in range(a.ndim)] if symbolic else list(a.shape)
    values = [helper.make_tensor_value_info(f"x{i}", element(a), shape(i, a)) for i, a in enumerate(inputs) if a is not None and i not in constants]
    initializers = [constant(f"x{i}", inputs[i]) for i in constants]
    results = [helper.make_tensor_value_info(f"y{i}", typed, None) if typed else onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
    nodes = [node]
    if tail:
        nodes.append(helper.make_node(tail, ["y0"], ["z0"]))
        results[0].name = "z0"
    graph = helper.make_graph(nodes, "one", values, results, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, version)])
    made.ir_version = 9
    return made.SerializeToString()


def session(data, library):
    """Returns ONNX Runtime's session of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
