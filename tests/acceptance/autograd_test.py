"""Gradients against PyTorch's: every core operator that states one and that PyTorch can say too, in f64 to 1e-9 and in f32
against PyTorch's own error, on several shapes with broadcasting, empty and transposed inputs; second derivatives of some.

Tenon is called through ctypes.  Kinks are left out as in tests/unit/autograd/cases.h."""
import ctypes as c
import json
import os
import subprocess
import sys
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import autograd_spatial

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


def check(status):
    if status:
        raise RuntimeError(f"status {status}: {lib.tenon_error().decode()}")


def given(array):
    """A tensor over a NumPy array, with its strides; the array must stay."""
    dtype = Dtype(CODES[array.dtype.kind], array.dtype.itemsize * 8, 1)
    shape = (c.c_int64 * array.ndim)(*array.shape)
    strides = (c.c_int64 * array.ndim)(*[s // array.itemsize for s in array.strides])
    tensor = TENSOR()
    check(lib.tenon_tensor_borrow(array.ctypes.data or 64, dtype, array.ndim, shape, strides, None, None, c.byref(tensor)))
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

    def __call__(self, inputs):
        outputs = (TENSOR * 8)()
        padded = (TENSOR * 16)(*[x if x is not None else TENSOR() for x in inputs])
        check(lib.tenon_op_call(self.handle, self.values, padded, outputs, 1))
        return outputs[0]


def tenon_gradients(name, attrs, arrays, wanted, weight, second):
    tensors = [None if a is None else given(a) for a in arrays]
    for i in wanted:
        check(lib.tenon_tensor_require_grad(tensors[i], 1))
    out = Op(name, attrs)(tensors)
    inputs = (TENSOR * len(wanted))(*[tensors[i] for i in wanted])
    grads, weights = (TENSOR * len(wanted))(), (TENSOR * 1)(given(weight))
    check(lib.tenon_gradients((TENSOR * 1)(out), weights, 1, inputs, len(wanted), CREATE if second else 0, grads))
    if not second:
        return taken(out), [taken(g) for g in grads]
    live = [g for g in grads if g.contents.keys >> 53 & 1]
    starts = [np.cos(np.arange(taken(g).size, dtype=weight.dtype)).reshape(taken(g).shape) for g in live]
    seconds = (TENSOR * len(wanted))()
    if live:
        check(lib.tenon_gradients((TENSOR * len(live))(*live), (TENSOR * len(live))(*[given(s) for s in starts]), len(live), inputs, len(wanted), UNUSED, seconds))
    return taken(out), [taken(g) if g else np.zeros_like(arrays[i]) for g, i in zip(seconds, wanted)]


def torch_gradients(function, arrays, wanted, weight, second):
    tensors = [None if a is None else torch.from_numpy(a.copy(order="K")) for a in arrays]
    for i in wanted:
        tensors[i].requires_grad_()
    out = function(*tensors)
    grads = torch.autograd.grad(out, [tensors[i] for i in wanted], torch.from_numpy(weight), create_graph=second)
    if not second:
        return out.detach().numpy(), [g.numpy() for g in grads]
    live = [g for g in grads if g.requires_grad]
    starts = [torch.from_numpy(np.cos(np.arange(g.numel(), dtype=weight.dtype)).reshape(g.shape)) for g in live]
    if not live:
        return out.detach().numpy(), [np.zeros_like(arrays[i]) for i in wanted]
    seconds = torch.autograd.grad(live, [tensors[i] for i in wanted], starts, allow_unused=True)
    return out.detach().numpy(), [g.numpy(force=True) if g is not None else np.zeros_like(arrays[i]) for g, i in zip(seconds, wanted)]


rng = np.random.default_rng(5)


def away(shape, low, high, from_=(0.0,), gap=0.02):
    """Uniform numbers that stay away from the kinks."""
    x = rng.uniform(low, high, shape)
    for k in from_:
        x = np.where(np.abs(x - k) < gap, k + 3 * gap, x)
    return np.asarray(x)


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
        CASES.append((name, function, attrs, [None if a is None else np.asarray(a) for a in arrays], wanted))


def ints(*values):
    return np.array(values, np.int64)


one("abs", torch.abs, kinks=(0,)), one("acos", torch.acos, -0.9, 0.9), one("acosh", torch.acosh, 1.2, 4), two("add", torch.add)
one("asin", torch.asin, -0.9, 0.9), one("asinh", torch.asinh), one("atan", torch.atan), one("atanh", torch.atanh, -0.9, 0.9)
one("celu", lambda x: torch.where(x > 0, x, 1.3 * torch.expm1(x / 1.3)), kinks=(0,), alpha=1.3)  # PyTorch's own is exact to 1e-9 only
one("contiguous", torch.clone), one("cos", torch.cos), one("cosh", torch.cosh)
several("clip", torch.clamp, [([away((3, 4), -2, 2, (-0.5, 1.0)), np.array(-0.5), np.array(1.0)], [0]), ([away((5,), -2, 2, (-0.5,)), np.array(-0.5), None], [0]),
                             ([away((0, 2), -2, 2), None, np.array(1.0)], [0]), ([away((3, 4), -2, 2, (-0.5, 1.0)), np.array(-0.5), np.array(1.0)], [0, 1, 2])])
two("div", torch.div, low_b=0.4, high_b=2), one("elu", lambda x: F.elu(x, 1.2), kinks=(0,), alpha=1.2), one("erf", torch.erf), one("exp", torch.exp)
several("expand", lambda x, s: x.expand(*s.tolist()), [([away((1, 3), -2, 2), ints(2, 3)], [0]), ([away((2, 1), -2, 2), ints(4, 2, 3)], [0]), ([away((1, 3), -2, 2), ints(0, 3)], [0])])
several("flatten", torch.flatten, [])
for axis, shape in ((1, (2, 3, 4)), (2, (2, 3, 4)), (1, (0, 3))):
    several("flatten", lambda x, axis=axis: x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))), [([away(shape, -2, 2)], [0])], axis=axis)
for axis, shape, index in ((0, (4, 3), ints(3, 0, 0)), (1, (2, 5), np.array([[1, 4], [0, 1]])), (0, (4,), np.zeros((0,), np.int64)), (-1, (2, 3), ints(-1, 1))):
    several("gather", lambda x, i, axis=axis: x.index_select(axis, (i.reshape(-1) + x.shape[axis]) % x.shape[axis]).reshape(x.shape[:axis % x.dim()] + i.shape + x.shape[axis % x.dim() + 1:]),
            [([away(shape, -2, 2), index], [0])], axis=axis)
one("gelu", F.gelu), one("gelu", lambda x: F.gelu(x, approximate="tanh"), approximate="tanh")
one("hard_sigmoid", lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1), -4, 4, kinks=(-2.5, 2.5)), one("hard_swish", F.hardswish, -5, 5, kinks=(-3, 3))
one("identity", torch.clone), one("leaky_relu", lambda x: F.leaky_relu(x, 0.2), kinks=(0,), alpha=0.2), one("log", torch.log, 0.2, 4)
for axis, shape in ((-1, (2, 3, 4)), (0, (5,)), (1, (2, 3, 4)), (1, (0, 3))):
    several("log_softmax", lambda x, axis=axis: F.log_softmax(x, axis), [([away(shape, -2, 2)], [0])], axis=axis)
    several("softmax", lambda x, axis=axis: F.softmax(x, axis), [([away(shape, -2, 2)], [0])], axis=axis)
two("max", torch.maximum), two("min", torch.minimum), one("mish", F.mish)
several("mod", torch.fmod, [([away((3, 4), 0.2, 5), away((3, 4), 0.7, 2)], [0]), ([away((3, 4), -5, 5), np.array(1.37)], [0]), ([away((0, 4), 0.2, 5), np.array(1.3)], [0])], fmod=True)
for a, b, more in (((3, 4), (4, 2), (2,)), ((2, 3, 4), (4, 5), (3, 1)), ((2, 1, 3, 4), (5, 4, 2), None), ((4,), (4, 3), None), ((2, 3, 4), (4,), None), ((5,), (5,), None), ((0, 4), (4, 2), (2,))):
    c_ = None if more is None else away(more, -2, 2)
    several("matmul", lambda a, b, c=None: a @ b if c is None else a @ b + c, [([away(a, -2, 2), away(b, -2, 2), c_], [0, 1] + [2] * (c_ is not None))])
several("matmul", lambda a, b: a.mT @ b.mT, [([away((2, 4, 3), -2, 2), away((5, 4), -2, 2)], [0, 1]), ([away((4, 3), -2, 2), away((2, 5, 4), -2, 2)], [0, 1])], transpose_a=True, transpose_b=True)
several("gemm", lambda a, b, c: 0.5 * a.T @ b + 2 * c, [([away((4, 3), -2, 2), away((4, 5), -2, 2), away((5,), -2, 2)], [0, 1, 2]), ([away((4, 3), -2, 2), away((4, 5), -2, 2), away((3, 1), -2, 2)], [0, 1, 2]),
                                                          ([away((0, 3), -2, 2), away((0, 5), -2, 2), away((), -2, 2)], [0, 1, 2])], alpha=0.5, beta=2, trans_a=True)
two("mul", torch.mul), one("neg", torch.neg), two("pow", torch.pow, 0.3, 3, -2, 2)
several("pow", torch.pow, [([away((3, 4), -2, 2, (0,)), np.array(3.0)], [0]), ([away((3, 4), -2, 2, (0,)), np.array(2.0)], [0])])
several("prelu", lambda a, s: torch.where(a < 0, a * s, a), [([away((2, 3), -2, 2, (0,)), away((3,), 0, 1)], [0, 1]), ([away((5,), -2, 2, (0,)), np.array(0.3)], [0, 1]), ([away((0, 3), -2, 2), away((3,), 0, 1)], [0, 1])])
one("reciprocal", torch.reciprocal, 0.3, 3), one("relu", torch.relu, kinks=(0,)), one("rsqrt", torch.rsqrt, 0.3, 3)
REDUCED = [((2, 3, 4), (1,), True), ((2, 3, 4), (0, 2), False), ((5,), (0,), True), ((2, 3), (-1,), False)]
for name, function, low in (("reduce_sum", lambda x, d, k: x.sum(d, k), -2), ("reduce_mean", lambda x, d, k: x.mean(d, k), -2), ("reduce_sum_square", lambda x, d, k: (x * x).sum(d, k), -2),
                            ("reduce_l1", lambda x, d, k: x.abs().sum(d, k), -2), ("reduce_max", lambda x, d, k: x.amax(d, k), -2), ("reduce_min", lambda x, d, k: x.amin(d, k), -2), ("reduce_l2", lambda x, d, k: (x * x).sum(d, k).sqrt(), -2),
                            ("reduce_log_sum", lambda x, d, k: x.sum(d, k).log(), 0.2), ("reduce_log_sum_exp", lambda x, d, k: x.logsumexp(d, k), -2)):
    for shape, axes, keep in REDUCED:
        several(name, lambda x, a, f=function, d=axes, k=keep: f(x, d, k), [([away(shape, low, 2, (0,)), ints(*axes)], [0])], keepdims=keep)
several("reduce_sum", lambda x, a: x.sum((0,)), [([away((0, 3), -2, 2), ints(0)], [0])], keepdims=False)
several("reshape", lambda x, s: x.reshape(*s.tolist()), [([away((2, 6), -2, 2), ints(3, 4)], [0]), ([away((8,), -2, 2), ints(2, -1, 2)], [0])])
several("reshape", lambda x, s: x.reshape(*s.tolist()), [([away((2, 0), -2, 2), ints(0, 5)], [0])], allow_zero=True)
one("selu", F.selu, kinks=(0,), alpha=1.6732632423543772, gamma=1.0507009873554805), one("shrink", lambda x: F.softshrink(x, 0.6), kinks=(-0.6, 0.6), lambd=0.6, bias=0.6), one("sigmoid", torch.sigmoid)
one("silu", F.silu), one("silu", lambda x: x * torch.sigmoid(1.7 * x), alpha=1.7), one("sin", torch.sin), one("sinh", torch.sinh), one("softplus", F.softplus), one("softsign", F.softsign, kinks=(0,))
one("sqrt", torch.sqrt, 0.2, 4), two("sub", torch.sub), one("tan", torch.tan, -1.2, 1.2), one("tanh", torch.tanh)
several("squeeze", lambda x, a: x.squeeze(1), [([away((2, 1, 3), -2, 2), ints(1)], [0]), ([away((0, 1), -2, 2), ints(1)], [0]), ([away((4, 1), -2, 2), ints(-1)], [0])])
several("unsqueeze", lambda x, a: x.unsqueeze(1), [([away((2, 3), -2, 2), ints(1)], [0]), ([away((0, 2), -2, 2), ints(1)], [0]), ([away((4,), -2, 2), ints(-1)], [0])])
several("sum_to", lambda x, s: x.sum_to_size(*s.tolist()), [([away((2, 3), -2, 2), ints(1, 3)], [0]), ([away((4, 2, 3), -2, 2), ints(2, 1)], [0]), ([away((0, 3), -2, 2), ints(1, 3)], [0])])
one("thresholded_relu", lambda x: torch.where(x > 0.7, x, torch.zeros_like(x)), kinks=(0.7,), alpha=0.7)
for shape, perm in (((2, 3, 4), (1, 2, 0)), ((3, 2), (1, 0)), ((0, 3), (1, 0))):
    several("transpose", lambda x, p=perm: x.permute(p), [([away(shape, -2, 2)], [0])], perm=list(perm))
    several("untranspose", lambda x, p=perm: x.permute([p.index(i) for i in range(len(p))]), [([away(shape, -2, 2)], [0])], perm=list(perm))
several("trilu", lambda x, k: torch.triu(x, int(k) if k is not None else 0), [([away((3, 4), -2, 2), None], [0]), ([away((2, 3, 3), -2, 2), np.array(1)], [0]), ([away((0, 2, 2), -2, 2), None], [0])])
several("where", torch.where, [([rng.uniform(size=(2, 3)) > 0.5, away((2, 3), -2, 2), away((3,), -2, 2)], [1, 2]), ([rng.uniform(size=(2, 1)) > 0.5, away((3,), -2, 2), away((), -2, 2)], [1, 2]),
                               ([np.array(True), away((0, 3), -2, 2), away((3,), -2, 2)], [1, 2])])
several("depth_to_space", lambda x: F.pixel_shuffle(x, 2), [([away((1, 8, 2, 3), -2, 2)], [0]), ([away((2, 4, 1, 1), -2, 2)], [0]), ([away((3, 4, 1, 2), -2, 2)], [0])], block=2, mode="CRD")
several("space_to_depth", lambda x: F.pixel_unshuffle(x, 2), [([away((1, 1, 4, 2), -2, 2)], [0]), ([away((2, 1, 2, 2), -2, 2)], [0]), ([away((3, 1, 2, 2), -2, 2)], [0])  # empty ones fail in PyTorch
       ], block=2)

# PyTorch has no such operator, or says it by others that are here: tests/unit/autograd/ops_test.c has differences for all of them.
several("layer_norm", lambda x, s=None, b=None: F.layer_norm(x, x.shape[-1:], s, b), [([away((2, 3, 4), -2, 2), away((4,), -2, 2), away((4,), -2, 2)], [0, 1, 2]), ([away((5,), -2, 2), None, None], [0]), ([away((0, 3), -2, 2), away((3,), -2, 2), None], [0, 1])])
several("rms_norm", lambda x, s=None: F.rms_norm(x, x.shape[-1:], s, 1e-5), [([away((2, 3, 4), -2, 2), away((4,), -2, 2)], [0, 1]), ([away((5,), -2, 2), None], [0]), ([away((0, 3), -2, 2), away((3,), -2, 2)], [0, 1])])
several("gather_elements", lambda x, i: torch.gather(x, 1, (i + x.shape[1]) % x.shape[1]), [([away((2, 3), -2, 2), np.array([[0, 2, 2, 1], [1, -1, 0, 0]])], [0]), ([away((2, 3), -2, 2), np.zeros((2, 0), np.int64)], [0]), ([away((3, 2), -2, 2), np.array([[1]])], [0])], axis=1)
several("top_k", lambda x, k: x.topk(int(k[0]))[0], [([away((3, 5), -2, 2), ints(2)], [0]), ([away((4,), -2, 2), ints(4)], [0]), ([away((0, 3), -2, 2), ints(2)], [0])])
several("cum_sum", lambda x, a: x.cumsum(int(a)), [([away((3, 5), -2, 2), np.array(1)], [0]), ([away((4,), -2, 2), np.array(-1)], [0]), ([away((0, 3), -2, 2), np.array(0)], [0])])
several("global_average_pool", lambda x: x.mean(tuple(range(2, x.dim())), True), [([away((2, 3, 4, 5), -2, 2)], [0]), ([away((1, 2, 3), -2, 2)], [0]), ([away((0, 2, 3), -2, 2)], [0])])
autograd_spatial.add(several, away, ints)

LEFT_OUT = {"cast", "cast_like", "concat", "dropout", "reverse_sequence", "slice", "split", "spread"}
# Gradients that are no floats at all, or none.
NONE = {"bernoulli", "bit_cast", "ceil", "eye_like", "floor", "round", "shape", "sign", "size", "size_ratio"}
# They go through an operator whose gradient is not stated.
NO_SECOND = {"clip", "gather_elements", "top_k"}


def transposed(a):
    return a if a is None or a.ndim < 2 else np.asfortranarray(a)


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def weight_of(self, function, arrays):
        out = function(*[None if a is None else torch.from_numpy(np.array(a, order="C")) for a in arrays])
        return np.sin(1 + np.arange(out.numel(), dtype=np.float64)).reshape(tuple(out.shape))

    def test_f64_gradients_are_those_of_pytorch(self):
        for name, function, attrs, arrays, wanted in CASES:
            for form in (np.array, transposed):
                given_arrays = [None if a is None else form(a) for a in arrays]
                weight = self.weight_of(function, given_arrays)
                with self.subTest(op=name, attrs=attrs, shapes=[None if a is None else a.shape for a in arrays], form=form.__name__):
                    _, found = tenon_gradients(name, attrs, given_arrays, wanted, weight, False)
                    _, expected = torch_gradients(function, given_arrays, wanted, weight, False)
                    for f, e in zip(found, expected):
                        np.testing.assert_allclose(f, e, rtol=1e-9, atol=1e-12)

    def test_f32_gradients_are_as_exact_as_those_of_pytorch(self):
        for name, function, attrs, arrays, wanted in CASES:
            narrow = [None if a is None else np.asarray(a, np.float32) if a.dtype == np.float64 else a for a in arrays]
            wide = [None if a is None else np.asarray(a, np.float64) if a.dtype == np.float32 else a for a in narrow]
            weight = self.weight_of(function, wide)
            weight = weight.astype(np.float32).astype(np.float64)
            with self.subTest(op=name, attrs=attrs, shapes=[None if a is None else a.shape for a in arrays]):
                _, found = tenon_gradients(name, attrs, narrow, wanted, weight.astype(np.float32), False)
                _, own = torch_gradients(function, narrow, wanted, weight.astype(np.float32), False)
                _, exact = torch_gradients(function, wide, wanted, weight, False)
                for f, o, e in zip(found, own, exact):
                    error, allowed = np.linalg.norm(f - e), 4 * np.linalg.norm(o - e) + 1e-6 * np.linalg.norm(e)
                    self.assertLessEqual(error, allowed)

    def test_second_derivatives_are_those_of_pytorch(self):
        done = set()
        for name, function, attrs, arrays, wanted in CASES:
            if name in NO_SECOND:
                continue
            weight = self.weight_of(function, arrays)
            with self.subTest(op=name, attrs=attrs, shapes=[None if a is None else a.shape for a in arrays]):
                _, found = tenon_gradients(name, attrs, arrays, wanted, weight, True)
                _, expected = torch_gradients(function, arrays, wanted, weight, True)
                for f, e in zip(found, expected):
                    np.testing.assert_allclose(f, e, rtol=1e-9, atol=1e-11)
                done.add(name)
        self.assertGreaterEqual(len(done), 30)

    def test_every_operator_with_a_gradient_is_here_or_left_out(self):
        ops = json.loads(subprocess.check_output([os.path.join(BUILD, "tenon"), "ops", "--json"]))
        stated = {op["name"].removeprefix("core::") for op in ops if op["gradient"] and not op["name"].endswith(("_backward", "_second"))}
        self.assertEqual(stated - {case[0] for case in CASES} - LEFT_OUT - NONE, set())
        self.assertEqual((LEFT_OUT | NONE) - stated, set())
        print(f"{len({case[0] for case in CASES})} operators, {len(CASES)} cases", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
