"""Gradients of pointwise operators, reductions, products, views and the like, beside PyTorch's."""
import numpy as np
import torch
import torch.nn.functional as F

from gradients import CASES, away, ints, one, rng, several, two

one("abs", torch.abs, kinks=(0,)), one("acos", torch.acos, -0.9, 0.9), one("acosh", torch.acosh, 1.2, 4), two("add", torch.add)
one("asin", torch.asin, -0.9, 0.9), one("asinh", torch.asinh), one("atan", torch.atan), one("atanh", torch.atanh, -0.9, 0.9)
one("celu", lambda x: torch.where(x > 0, x, 1.3 * torch.expm1(x / 1.3)), kinks=(0,), alpha=1.3)  # PyTorch's own is exact to 1e-9 only
one("contiguous", torch.clone), one("cos", torch.cos), one("cosh", torch.cosh)
several("clip", torch.clamp, [([away((3, 4), -2, 2, (-0.5, 1.0)), np.array(-0.5), np.array(1.0)], [0]), ([away((5,), -2, 2, (-0.5,)), np.array(-0.5), None], [0]),
                             ([away((0, 2), -2, 2), None, np.array(1.0)], [0]), ([away((3, 4), -2, 2, (-0.5, 1.0)), np.array(-0.5), np.array(1.0)], [0, 1, 2])])
two("div", torch.div, low_b=0.4, high_b=2), one("elu", lambda x: F.elu(x, 1.2), kinks=(0,), alpha=1.2), one("erf", torch.erf), one("erfc", torch.erfc), one("exp", torch.exp)
several("expand", lambda x, s: x.expand(*s.tolist()), [([away((1, 3), -2, 2), ints(2, 3)], [0]), ([away((2, 1), -2, 2), ints(4, 2, 3)], [0]), ([away((1, 5), -2, 2), ints(0, 5)], [0]), ([away((1, 0)), ints(2, 0)], [0])])
several("flatten", torch.flatten, [])
for axis, shape in ((1, (2, 3, 4)), (2, (5, 2, 3, 4)), (1, (0, 3))):
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
several("mod", torch.fmod, [([away((3, 4), 0.2, 5), away((3, 4), 0.7, 2)], [0, 1]), ([away((3, 4), -5, 5), np.array(1.37)], [0, 1]), ([away((0, 4), 0.2, 5), np.array(1.3)], [0, 1])], fmod=True)
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
several("view", lambda x: x.reshape(2, 1, -1), [([away((2, 6), -2, 2)], [0]), ([away((2,), -2, 2)], [0]), ([away((2, 0), -2, 2)], [0])], shape=[2, 1, -1])
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
several("layer_norm", lambda x, s=None, b=None: F.layer_norm(x, x.shape[-1:], s, b), [([away((2, 3, 4), -2, 2), away((4,), -2, 2), away((4,), -2, 2)], [0, 1, 2]), ([away((5,), -2, 2), None, None], [0]), ([away((0, 3), -2, 2), away((3,), -2, 2), None], [0, 1])])
several("rms_norm", lambda x, s=None: F.rms_norm(x, x.shape[-1:], s, 1e-5), [([away((2, 3, 4), -2, 2), away((4,), -2, 2)], [0, 1]), ([away((5,), -2, 2), None], [0]), ([away((0, 3), -2, 2), away((3,), -2, 2)], [0, 1])])
several("gather_elements", lambda x, i: torch.gather(x, 1, (i + x.shape[1]) % x.shape[1]), [([away((2, 3), -2, 2), np.array([[0, 2, 2, 1], [1, -1, 0, 0]])], [0]), ([away((2, 3), -2, 2), np.zeros((2, 0), np.int64)], [0]), ([away((3, 2), -2, 2), np.array([[1]])], [0])], axis=1)
several("top_k", lambda x, k: x.topk(int(k[0]))[0], [([away((3, 5), -2, 2), ints(2)], [0]), ([away((4,), -2, 2), ints(4)], [0]), ([away((0, 3), -2, 2), ints(2)], [0])])
several("cum_sum", lambda x, a: x.cumsum(int(a)), [([away((3, 5), -2, 2), np.array(1)], [0]), ([away((4,), -2, 2), np.array(-1)], [0]), ([away((0, 3), -2, 2), np.array(0)], [0])])
several("global_average_pool", lambda x: x.mean(tuple(range(2, x.dim())), True), [([away((2, 3, 4, 5), -2, 2)], [0]), ([away((1, 2, 3), -2, 2)], [0]), ([away((0, 2, 3), -2, 2)], [0])])

# ---- operators that have another form in PyTorch

several("cast", lambda x: x.float(), [([away((2, 3))], [0]), ([away((4,))], [0]), ([away(())], [0])], to="f32")
several("cast", lambda x: x.double(), [([away((2, 3))], [0]), ([away((0, 4))], [0])], to="f64")
several("cast_like", lambda x, y: x.to(y.dtype), [([away((2, 3)), np.zeros((1,), np.float32)], [0]), ([away((4,)), np.zeros((2, 0), np.float32)], [0]), ([away((5, 1, 2)), np.zeros((), np.float32)], [0])])
several("concat", lambda xs: torch.cat(xs, 1), [([[away((2, 3)), away((2, 1)), away((2, 4))]], [0]), ([[away((5, 2, 3))]], [0]), ([[away((2, 0)), away((2, 3))]], [0])], axis=1)
several("concat", lambda xs: torch.cat(xs, -1), [([[away((3,)), away((5,))]], [0])], axis=-1)


def sliced(x, starts, ends, axes, steps):
    for start, end, axis, step in zip(*(t.tolist() for t in (starts, ends, axes, steps))):
        n = x.shape[axis]
        x = x.index_select(axis, torch.tensor(list(range(n))[slice(start, end if end >= -n else None, step)], dtype=torch.int64))
    return x


several("slice", sliced, [([away((4, 5)), ints(1, -1), ints(3, -9), ints(0, 1), ints(1, -2)], [0]), ([away((7,)), ints(1), ints(6), ints(-1), ints(2)], [0]), ([away((0, 3)), ints(0), ints(2), ints(1), ints(1)], [0])])
several("split", lambda x, s: tuple(x.split(s.tolist(), 1)), [([away((2, 6)), ints(1, 3, 2)], [0]), ([away((3, 4, 2)), ints(2, 0, 2)], [0]), ([away((0, 3)), ints(1, 1, 1)], [0])], axis=1, count=3)
several("spread", lambda x, s, a: x.expand(*s.tolist()), [([away((2, 1)), ints(2, 3), ints(1)], [0]), ([away((1, 4, 1)), ints(3, 4, 2), ints(0, -1)], [0]), ([away((1, 1)), ints(0, 3), None], [0]), ([away((0, 1)), ints(0, 3), ints(1)], [0])])
several("spread", lambda x, s, a: x.unsqueeze(1).expand(*s.tolist()), [([away((2, 3)), ints(2, 4, 3), ints(1)], [0])], keepdims=False)


def reversed_sequences(x, lengths):
    return torch.stack([torch.cat([x[list(range(n))[::-1], b], x[n:, b]]) for b, n in enumerate(lengths.tolist())], 1)


several("reverse_sequence", reversed_sequences, [([away((4, 3)), ints(4, 1, 2)], [0]), ([away((3, 2, 5)), ints(0, 3)], [0]), ([away((0, 2)), ints(0, 0)], [0])])


def places(shape, strides, offset):
    """Row-major positions of the elements of this shape."""
    grid = torch.tensor(offset)
    for extent, stride in zip(shape, strides):
        grid = grid[..., None] + torch.arange(extent) * stride
    return grid.reshape(-1)


for array, extents, strides, offset in ((away((2, 3)), ints(2, 2), [1, 2], 1), (away((4,)), ints(3, 2), [0, -2], 3), (away((0, 3)), ints(0), [1], 0)):
    several("strided_copy", lambda x, s, t=strides, o=offset: x.reshape(-1)[places(s.tolist(), t, o)].reshape(s.tolist()), [([array, extents], [0])], strides=strides, offset=offset)
    several("strided_zero", lambda x, s, t=strides, o=offset: x.reshape(-1).index_fill(0, places(s.tolist(), t, o), 0.0).reshape(x.shape), [([array, extents], [0])], strides=strides, offset=offset)
for array, extents, strides, offset in ((away((2, 3)), ints(9), [3, 1], 1), (away((2, 2)), ints(3), [1, 1], 0), (away((0, 2)), ints(2, 2), [1, 1], 0)):
    several("strided_sum", lambda x, s, t=strides, o=offset: torch.zeros(int(s.prod()), dtype=x.dtype).index_add(0, places(x.shape, t, o), x.reshape(-1)).reshape(s.tolist()), [([array, extents], [0])],
            strides=strides, offset=offset)
