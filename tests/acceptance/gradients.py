"""Shared code of the tests that compare gradients with PyTorch's: Tenon through ctypes, and the vocabulary of the cases. A case is an operator, a
function that does the same by PyTorch, attributes, inputs as arrays (or None, or a list of arrays), and the inputs of which a gradient is
wanted. A function returns a tensor, or as many results as the operator has, with None for results that are ignored."""
import ctypes as c
import os

import numpy as np
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
lib = c.CDLL(os.path.join(BUILD, "libtenon.so"))
lib.tenon_error.restype = c.c_char_p


class Dtype(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", c.c_int32 * 2), ("ndim", c.c_int32), ("dtype", Dtype),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("offset", c.c_uint64), ("keys", c.c_uint64), ("detail", c.c_void_p)]


TENSOR = c.POINTER(Tensor)
lib.tenon_tensor_create.argtypes = [Dtype, c.c_int32, c.c_void_p, c.POINTER(TENSOR)]
lib.tenon_tensor_borrow.argtypes = [c.c_void_p, Dtype, c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.POINTER(TENSOR)]
lib.tenon_tensor_list.argtypes = [c.c_void_p, c.c_int32, c.POINTER(TENSOR)]
lib.tenon_tensor_require_grad.argtypes = [TENSOR, c.c_int32]
lib.tenon_tensor_release.argtypes = [TENSOR]
lib.tenon_op_find.argtypes = [c.c_char_p, c.POINTER(c.c_void_p)]
lib.tenon_op_call.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint64]
lib.tenon_gradients.argtypes = [c.c_void_p, c.c_void_p, c.c_int32, c.c_void_p, c.c_int32, c.c_uint32, c.c_void_p]
lib.tenon_attrs_create.argtypes = [c.c_void_p, c.POINTER(c.c_void_p)]
lib.tenon_attrs_parse.argtypes = [c.c_void_p, c.c_char_p, c.c_char_p]
lib.tenon_attrs_values.argtypes = [c.c_void_p, c.POINTER(c.c_void_p)]
CODES = {"f": 2, "i": 0, "b": 6, "u": 1}
KEEP, CREATE, UNUSED = 1, 2, 4


# ---- Tenon ---------------------------------------------------------------------------------------------------------


def check(status):
    if status:
        raise RuntimeError(f"status {status}: {lib.tenon_error().decode()}")


def given(array):
    """A tensor over a NumPy array, with its strides; the array must outlive the tensor."""
    dtype = Dtype(CODES[array.dtype.kind], array.dtype.itemsize * 8, 1)
    shape = (c.c_int64 * array.ndim)(*array.shape)
    strides = (c.c_int64 * array.ndim)(*[s // array.itemsize for s in array.strides])
    tensor = TENSOR()
    check(lib.tenon_tensor_borrow(array.ctypes.data or 64, dtype, array.ndim, shape, strides, None, None, c.byref(tensor)))
    return tensor


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


lib.tenon_device_find.argtypes = [c.c_char_p, c.c_int32, c.c_void_p]
lib.tenon_tensor_create_on.argtypes = [Device, Dtype, c.c_int32, c.c_void_p, c.POINTER(TENSOR)]


def without_data(array):
    """A tensor of the array's dtype and shape, on meta."""
    device, tensor = Device(), TENSOR()
    check(lib.tenon_device_find(b"meta", 0, c.byref(device)))
    dtype = Dtype(CODES[array.dtype.kind], array.dtype.itemsize * 8, 1)
    check(lib.tenon_tensor_create_on(device, dtype, array.ndim, (c.c_int64 * array.ndim)(*array.shape), c.byref(tensor)))
    return tensor


def taken(tensor):
    """A copy of a tensor as a NumPy array."""
    t = tensor.contents
    kind = {2: "f", 0: "i", 6: "b", 1: "u"}[t.dtype.code]
    dtype = np.dtype(f"{kind}{t.dtype.bits // 8}") if kind != "b" else np.dtype(bool)
    shape, strides = [t.shape[i] for i in range(t.ndim)], [t.strides[i] * dtype.itemsize for i in range(t.ndim)]
    if 0 in shape:
        return np.zeros(shape, dtype)
    reach = [(n - 1) * stride for n, stride in zip(shape, strides)]
    before = -sum(min(0, r) for r in reach)
    size = sum(abs(r) for r in reach) + dtype.itemsize
    memory = np.frombuffer((c.c_char * size).from_address(t.data - before), np.uint8)
    return np.ndarray(shape, dtype, memory, before, strides).copy()


class Op:
    def __init__(self, name, attrs):
        self.handle, self.attrs, self.values = c.c_void_p(), c.c_void_p(), c.c_void_p()
        check(lib.tenon_op_find(f"core::{name}".encode(), c.byref(self.handle)))
        check(lib.tenon_attrs_create(self.handle, c.byref(self.attrs)))
        for key, value in attrs.items():
            check(lib.tenon_attrs_parse(self.attrs, key.encode(), str(value).encode()))
        check(lib.tenon_attrs_values(self.attrs, c.byref(self.values)))

    def __call__(self, inputs, wanted=1):
        """Returns the results that `wanted` asks for by its bits."""
        outputs = (TENSOR * 8)()
        padded = (TENSOR * 16)(*[x if x is not None else TENSOR() for x in inputs])
        check(lib.tenon_op_call(self.handle, self.values, padded, outputs, wanted))
        return [outputs[i] for i in range(8) if wanted >> i & 1]




def items_of(tensor):
    """Returns the tensors of a list, or the one tensor."""
    t = tensor.contents
    return [tensor] if t.dtype.code != 201 else [c.cast(c.c_void_p(p), TENSOR) for p in (c.c_void_p * t.shape[0]).from_address(t.data)]


def array_of(*tensors):
    return (TENSOR * len(tensors))(*tensors)


def starts_of(arrays):
    """Weights for the second derivatives."""
    return [np.cos(np.arange(a.size, dtype=a.dtype)).reshape(a.shape) for a in arrays]


def tenon_gradients(name, attrs, arrays, wanted, weights, second):
    leaves, args = [], []
    for i, value in enumerate(arrays):
        items = [given(v) for v in value] if isinstance(value, list) else [] if value is None else [given(value)]
        if i in wanted:
            for item in items:
                check(lib.tenon_tensor_require_grad(item, 1))
            leaves += items
        if isinstance(value, list):
            all_ = TENSOR()
            check(lib.tenon_tensor_list(array_of(*items), len(items), c.byref(all_)))
            items = [all_]
        args.append(items[0] if items else None)
    outputs = Op(name, attrs)(args, sum(1 << i for i, w in enumerate(weights) if w is not None))
    outputs = [item for out in outputs if out for item in items_of(out)]
    weights = [w.astype(f"f{out.contents.dtype.bits // 8}") for w, out in zip([w for w in weights if w is not None], outputs)]
    inputs, grads = array_of(*leaves), (TENSOR * len(leaves))()
    check(lib.tenon_gradients(array_of(*outputs), array_of(*[given(w) for w in weights]), len(outputs), inputs, len(leaves), CREATE if second else 0, grads))
    if not second:
        return [taken(g) for g in grads]
    live = [g for g in grads if g.contents.keys >> 53 & 1]
    starts, seconds = starts_of([taken(g) for g in live]), (TENSOR * len(leaves))()
    if live:
        check(lib.tenon_gradients(array_of(*live), array_of(*[given(s) for s in starts]), len(live), inputs, len(leaves), UNUSED, seconds))
    return [taken(s) if s else np.zeros_like(taken(leaf)) for s, leaf in zip(seconds, leaves)]


# ---- PyTorch -------------------------------------------------------------------------------------------------------


def torch_of(value):
    return None if value is None else [torch_of(v) for v in value] if isinstance(value, list) else torch.from_numpy(np.array(value, order="C"))


def results_of(function, arrays):
    out = function(*arrays)
    return out if isinstance(out, tuple) else (out,)


def torch_gradients(function, arrays, wanted, weights, second):
    args = [torch_of(value) for value in arrays]
    leaves = [t for i in wanted for t in (args[i] if isinstance(args[i], list) else [args[i]])]
    for t in leaves:
        t.requires_grad_()
    outs = [(out, torch.from_numpy(w).to(out.dtype)) for out, w in zip(results_of(function, args), weights) if w is not None]
    outs = [(out, w) for out, w in outs if out.requires_grad]
    if not outs:
        return [np.zeros(t.shape, t.detach().numpy().dtype) for t in leaves]
    grads = torch.autograd.grad([out for out, _ in outs], leaves, [w for _, w in outs], create_graph=second, allow_unused=True)
    grads = [torch.zeros_like(t) if g is None else g for g, t in zip(grads, leaves)]
    if not second:
        return [g.numpy() for g in grads]
    live = [g for g in grads if g.requires_grad]
    if not live:
        return [torch.zeros_like(t).numpy() for t in leaves]
    starts = [torch.from_numpy(s) for s in starts_of([g.detach().numpy() for g in live])]
    seconds = torch.autograd.grad(live, leaves, starts, allow_unused=True)
    return [np.zeros_like(t.detach().numpy()) if g is None else g.numpy(force=True) for g, t in zip(seconds, leaves)]


def weights_of(function, arrays):
    """A fixed weight for each element of the results; the weighted sum of the results is differentiated."""
    weights = []
    for out in results_of(function, [torch_of(a) for a in arrays]):
        weights.append(None if out is None else np.sin(1 + np.arange(out.numel(), dtype=np.float64)).reshape(tuple(out.shape)))
    return weights


# ---- cases ---------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(5)


def away(shape, low=-2, high=2, from_=(0.0,), gap=0.02):
    """Uniform numbers that stay away from the kinks and are all different, since equal ones are a kink of a maximum."""
    x = rng.uniform(low, high, shape)
    for k in from_:
        x = np.where(np.abs(x - k) < gap, x + 2 * gap, x)
    return np.asarray(x)


def ints(*values):
    return np.array(values, np.int64)


SHAPES = [((2, 3, 4),), ((7,),), ((0, 3),), ((),)]
PAIRS = [((2, 3), (2, 3)), ((4, 1, 3), (2, 1)), ((0, 3), (3,)), ((), (5,)), ((3, 4), ())]
CASES = []


def one(name, function, low=-2.5, high=2.5, kinks=(), **attrs):
    for shape, in SHAPES:
        CASES.append((name, function, attrs, [away(shape, low, high, kinks)], [0]))


def two(name, function, low=-2.5, high=2.5, low_b=None, high_b=None, kinks=(), **attrs):
    for a, b in PAIRS:
        CASES.append((name, function, attrs, [away(a, low, high, kinks), away(b, low if low_b is None else low_b, high if high_b is None else high_b, kinks)], [0, 1]))


def several(name, function, cases, **attrs):
    for arrays, wanted in cases:
        CASES.append((name, function, attrs, [a if a is None or isinstance(a, list) else np.asarray(a) for a in arrays], wanted))


def mapped(value, function):
    """Returns an argument with `function` applied to each array in it."""
    return None if value is None else [function(v) for v in value] if isinstance(value, list) else function(value)


# ---- what is derived from cases ------------------------------------------------------------------------------------


def transposed(a):
    return np.array(a, order="F")


def stepped(a):
    """Every second element of a larger array, with the last axis backwards."""
    if a.ndim == 0:
        return a
    wide = np.zeros([2 * n for n in a.shape], a.dtype)[tuple(slice(None, None, 2) for _ in a.shape)][..., ::-1]
    wide[...] = a
    return wide


def emptied(case):
    """The case with all axes of one extent made empty (lists of integers are kept), for each extent where PyTorch allows that, too."""
    name, function, attrs, arrays, wanted = case
    extents = sorted({n for i in wanted for a in (arrays[i] if isinstance(arrays[i], list) else [arrays[i]]) for n in a.shape} - {0, 1})
    for extent in extents:
        cut = [mapped(a, lambda v: v if v.ndim < 1 + (v.dtype.kind == "i") else v[tuple(slice(0, 0) if n == extent else slice(None) for n in v.shape)]) for a in arrays]
        try:
            torch_gradients(function, cut, wanted, weights_of(function, cut), False)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError, ZeroDivisionError):
            continue
        yield name, function, attrs, cut, wanted
