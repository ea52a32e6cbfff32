"""Example calls of operators, as arrays and attributes, and nodes of ONNX that make them."""
import ctypes

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import tenon

BOOL, INT, DIM, FLOAT, STR, CHOICE, DTYPE, DEVICE, TENSOR, GRAPH, INTS, DIMS, FLOATS, STRS, TENSORS = range(1, 16)  # TENON_KIND_...
DTYPES = {(0, 8): "i1", (0, 16): "i2", (0, 32): "i4", (0, 64): "i8", (1, 8): "u1", (1, 16): "u2", (1, 32): "u4", (1, 64): "u8", (2, 16): "f2", (2, 32): "f4", (2, 64): "f8", (6, 8): "?"}


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("dtype", Dtype), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64), ("keys", ctypes.c_uint64), ("detail", ctypes.c_void_p)]


class As(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("f", ctypes.c_double), ("s", ctypes.c_char_p), ("dtype", Dtype), ("ints", ctypes.POINTER(ctypes.c_int64)), ("floats", ctypes.POINTER(ctypes.c_double)),
                ("strs", ctypes.POINTER(Text)), ("tensor", ctypes.POINTER(Tensor)), ("tensors", ctypes.POINTER(ctypes.POINTER(Tensor)))]


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("count", ctypes.c_uint32), ("value", As)]


class Sample(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("index", ctypes.c_uint32), ("dtype", Dtype), ("extent", ctypes.c_int64), ("seed", ctypes.c_uint64), ("name_count", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("names", ctypes.c_void_p), ("extents", ctypes.c_void_p)]


host = ctypes.CDLL("libtenon.so.1")  # which tenon has loaded
host.tenon_op_sample.argtypes = [ctypes.c_void_p, ctypes.POINTER(Sample), ctypes.POINTER(Value)]
host.tenon_op_sample_release.argtypes = [ctypes.c_void_p, ctypes.POINTER(Value)]
host.tenon_op_sample_count.argtypes = [ctypes.c_void_p]
host.tenon_dtype_name.argtypes, host.tenon_dtype_name.restype = [Dtype], ctypes.c_char_p


def array_of(tensor):
    """Copies a tensor; None for a dtype that NumPy lacks."""
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    count = int(np.prod(shape, dtype=np.int64))
    if tensor.dtype.code == 200:  # strings
        texts = ctypes.cast(tensor.data, ctypes.POINTER(Text))
        return np.array([ctypes.string_at(texts[i].data, texts[i].size).decode() for i in range(count)], dtype=object).reshape(shape)
    name = DTYPES.get((tensor.dtype.code, tensor.dtype.bits))
    if name is None:
        return None
    size = count * np.dtype(name).itemsize
    return np.frombuffer(ctypes.string_at(tensor.data, size) if size else b"", dtype=name).reshape(shape).copy()


def converted(value, parameter):
    """The value as an argument in Python; None if it is omitted."""
    kind, of = value.kind, value.value
    if kind in (0, DEVICE):  # without a device the call runs on the CPU
        return None
    if kind == TENSOR:
        return array_of(of.tensor.contents)
    if kind == TENSORS:
        return [array_of(of.tensors[i].contents) for i in range(value.count)]
    if kind in (INTS, DIMS):
        return [of.ints[i] for i in range(value.count)]
    if kind == FLOATS:
        return [float(np.float32(of.floats[i])) for i in range(value.count)]
    if kind == STRS:
        return [ctypes.string_at(of.strs[i].data, of.strs[i].size).decode() for i in range(value.count)]
    simple = {BOOL: lambda: bool(of.i), INT: lambda: of.i, DIM: lambda: of.i, FLOAT: lambda: float(np.float32(of.f)), STR: lambda: of.s.decode(), CHOICE: lambda: parameter["choices"][of.i],
              DTYPE: lambda: host.tenon_dtype_name(of.dtype).decode()}
    return simple[kind]()  # a node states floats with 32 bits


def samples_of(op):
    """Yields the arguments of each example call, by name."""
    inputs = [p for p in op.parameters if p["tensor"]]
    ordered = inputs + [p for p in op.parameters if not p["tensor"]]
    for index in range(host.tenon_op_sample_count(op.handle)):
        values = (Value * max(len(ordered), 1))()
        options = Sample(size=ctypes.sizeof(Sample), index=index, seed=7 + index)
        if host.tenon_op_sample(op.handle, ctypes.byref(options), values) != 0:
            continue
        try:
            yield {p["name"]: converted(values[i], p) for i, p in enumerate(ordered)}
        finally:
            host.tenon_op_sample_release(op.handle, values)


def element(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != object else TensorProto.STRING


def node_of(op, arguments, outputs):
    """Returns a node that makes the call, and what its inputs are fed with."""
    names, feeds = [], {}
    tensors = [p for p in op.parameters if p["tensor"]]
    counts = []
    for p in tensors:
        given = arguments[p["name"]]
        items = given if isinstance(given, list) else [given]
        counts.append(sum(item is not None for item in items))
        for k, item in enumerate(items):
            name = "" if item is None else f"{p['name']}_{k}"
            names.append(name)
            if item is not None:
                feeds[name] = item
    while names and not names[-1]:
        names.pop()
    attributes = {p["name"]: v for p in op.parameters if not p["tensor"] and (v := arguments[p["name"]]) is not None}
    lists = [i for i, p in enumerate(tensors) if "[" in p["kind"]]
    if len(lists) > 1 or (lists and lists[0] + 1 < len(tensors)):
        attributes["operand_counts"], names = counts, [n for n in names if n]
    domain, kind = op.name.split("::")
    node = helper.make_node(kind, names, outputs, domain=domain)
    for name, value in attributes.items():
        empty = {"int[]": 7, "float[]": 6, "str[]": 8}  # AttributeProto.INTS, FLOATS, STRINGS
        kind = next((p["kind"].replace("?", "") for p in op.parameters if p["name"] == name), "int[]")
        value = int(value) if isinstance(value, bool) else numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        node.attribute.append(helper.make_attribute(name, value, attr_type=empty[kind] if isinstance(value, list) and not value else None))
    return node, feeds


def model_of(nodes, feeds, outputs, shapes=True, domains=()):
    """Returns the bytes of a model. `shapes`: the extents of inputs are stated; otherwise they are names."""
    inputs = [helper.make_tensor_value_info(name, element(a), a.shape if shapes else [f"{name}_{d}" for d in range(a.ndim)]) for name, a in feeds.items()]
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in nodes if n.domain} | set(domains))]
    graph = helper.make_graph(nodes, "g", inputs, [o if isinstance(o, ValueInfoProto) else ValueInfoProto(name=o) for o in outputs])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
