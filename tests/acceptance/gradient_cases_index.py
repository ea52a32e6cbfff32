"""Gradients of operators that select, write, repeat, pad and multiply along axes, beside PyTorch's. Left out: ties in scatter's max and min,
several updates of one element without a reduction (undefined in PyTorch), and second derivatives of det where the matrix is singular."""
import numpy as np
import torch
import torch.nn.functional as F

from gradients import away, ints, rng, several

# ---- scatter

REDUCE = {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatter_elements(axis, reduction):
    def function(x, i, u):
        i = torch.where(i < 0, i + x.shape[axis], i)
        return x.scatter(axis, i, u) if reduction == "none" else x.scatter_reduce(axis, i, u, REDUCE[reduction])
    return function


def scatter_nd(reduction):
    def function(x, i, u):
        depth = i.shape[-1]
        if i.numel() and 0 in x.shape[:depth]:
            raise IndexError
        flat = sum((i[..., d] % max(1, x.shape[d])) * int(np.prod(x.shape[d + 1:depth], dtype=np.int64)) for d in range(depth)).reshape(-1)
        rows = x.reshape(int(np.prod(x.shape[:depth], dtype=np.int64)), *x.shape[depth:])
        at = flat.reshape(-1, *[1] * (x.dim() - depth)).expand(-1, *x.shape[depth:])
        return scatter_elements(0, reduction)(rows, at, u.reshape(at.shape)).reshape(x.shape)
    return function


for reduction in REDUCE:
    once = np.array([[2, 0, -1]]), np.array([[1, 0, 1, 0], [0, -1, 0, 1]])
    if reduction != "none":
        once = np.array([[2, 0, 2], [2, 0, -1]]), np.array([[1, 1, 1, 0], [0, -1, 0, 0]])
    several("scatter_elements", scatter_elements(0, reduction), [([away((4, 3)), once[0], away(once[0].shape)], [0, 2]), ([away((5,)), np.array([1, 3]), away((2,))], [0, 2]),
                                                                  ([away((0, 3)), np.zeros((0, 3), np.int64), away((0, 3))], [0, 2])], reduction=reduction)
    several("scatter_elements", scatter_elements(1, reduction), [([away((2, 3)), np.array([[2, 0], [1, -1]]), away((2, 2))], [0, 2])], axis=1, reduction=reduction)
    several("scatter_nd", scatter_nd(reduction), [([away((4, 3)), np.array([[2], [0]]), away((2, 3))], [0, 2]), ([away((4, 3)), np.array([[2, 1], [0, -1], [3, 0]]), away((3,))], [0, 2]),
                                                  ([away((5, 2, 3)), np.array([[[4, 1]], [[0, 0]]]), away((2, 1, 3))], [0, 2]), ([away((4, 0)), np.array([[2], [0]]), away((2, 0))], [0, 2])], reduction=reduction)
several("scatter_nd", scatter_nd("add"), [([away((4, 3)), np.array([[2], [2], [0]]), away((3, 3))], [0, 2])], reduction="add")
several("scatter_nd", scatter_nd("mul"), [([away((4, 3)), np.array([[2], [2], [0]]), away((3, 3))], [0, 2])], reduction="mul")


def tensor_scatter(axis, circular):
    def function(x, u, first=None):
        steps, extent = u.shape[axis], x.shape[axis]
        rows = []
        for b in range(x.shape[0]):
            start = 0 if first is None else int(first[b])
            at = torch.tensor([(start + t) % extent if circular else start + t for t in range(steps)], dtype=torch.int64)
            rows.append(x[b].index_copy(axis % x.dim() - 1, at, u[b]))
        return torch.stack(rows)
    return function


several("tensor_scatter", tensor_scatter(-2, False), [([away((2, 5, 3)), away((2, 2, 3)), ints(3, 1)], [0, 1]), ([away((1, 2, 4, 3)), away((1, 2, 2, 3)), None], [0, 1]), ([away((3, 4, 0)), away((3, 1, 0)), ints(0, 3, 1)], [0, 1])])
several("tensor_scatter", tensor_scatter(1, True), [([away((2, 5)), away((2, 3)), ints(4, 1)], [0, 1])], axis=1, mode="circular")


# ---- gather, compress, one_hot, range


def gather_nd(batch_dims):
    def function(x, i):
        if batch_dims:
            return torch.stack([gather_nd(batch_dims - 1)(a, b) for a, b in zip(x, i)])
        return x[tuple(i[..., d] for d in range(i.shape[-1]))]
    return function


several("gather_nd", gather_nd(0), [([away((4, 3)), np.array([[2], [0], [2]])], [0]), ([away((4, 3)), np.array([[2, 1], [0, -1], [2, 1]])], [0]), ([away((4, 0)), np.array([[2], [0], [2]])], [0]), ([away((5, 4, 6)), np.array([[[4, 1]], [[0, 0]], [[1, 1]]])], [0])])
several("gather_nd", gather_nd(1), [([away((2, 4, 3)), np.array([[[2], [0], [2]], [[1], [1], [-1]]])], [0]), ([away((2, 4)), np.array([[2], [0]])], [0])], batch_dims=1)
several("compress", lambda x, c: x.reshape(-1)[:len(c)][c], [([away((3, 4)), rng.uniform(size=9) > 0.5], [0]), ([away((5,)), np.array([True, False, True])], [0]), ([away((0, 3)), np.zeros((0,), bool)], [0])])
several("compress", lambda x, c: x.index_select(1, torch.nonzero(c).reshape(-1)), [([away((3, 4)), np.array([True, False, True])], [0]), ([away((2, 3, 2)), np.array([False] * 3)], [0])], axis=1)


def one_hot(axis):
    def function(i, depth, values):
        n = int(depth)
        i = torch.where(i < 0, i + n, i)
        hot = torch.stack([i == k for k in range(n)], axis if axis >= 0 else axis + i.dim() + 1)
        return torch.where(hot, values[1], values[0])
    return function


several("one_hot", one_hot(-1), [([np.array([1, 0, 7]), np.array(4), away((2,))], [2]), ([np.array([[1, -1]]), np.array(3), away((2,))], [2]), ([np.zeros((0,), np.int64), np.array(3), away((2,))], [2])])
several("one_hot", one_hot(1), [([np.array([[1, -1], [0, 2]]), np.array(3), away((2,))], [2])], axis=1)
several("range", lambda a, b, d: a + d * torch.arange(int(np.ceil((float(b) - float(a)) / float(d))), dtype=a.dtype),
        [([np.array(0.3), np.array(2.1), np.array(0.5)], [0, 2]), ([np.array(3.0), np.array(-2.1), np.array(-0.7)], [0, 2]), ([np.array(0.3), np.array(0.6), np.array(1.5)], [0, 2])])

# ---- pad, tile


def padded(axis, before, after, mode):
    """Padding that has a gradient for the padding value, which torch.nn.functional.pad does not have."""
    def function(x, pads, value=None):
        n = x.shape[axis]
        period = 2 * (n - 1) if mode == "reflect" else n
        at = []
        for i in range(-before, n + after):
            if mode == "edge":
                i = min(max(i, 0), n - 1)
            if mode in ("reflect", "wrap") and not 0 <= i < n:
                i = i % period if period else 0
                i = i if i < n else period - i
            at.append(i)
        if mode != "constant":
            return x.index_select(axis, torch.tensor(at, dtype=torch.int64))
        inside = torch.tensor([0 <= i < n for i in at])
        shape = [-1 if d == axis else 1 for d in range(x.dim())]
        kept = F.pad(x, [p for d in reversed(range(x.dim())) for p in ((before, after) if d == axis else (0, 0))])
        return kept if value is None else torch.where(inside.reshape(shape), kept, value)
    return function


for mode in ("constant", "reflect", "edge", "wrap"):
    for before, after in ((1, 2), (2, -1), (-1, 5)):
        several("pad", lambda x, p, v, a, f=padded(1, before, after, mode): f(x, p), [([away((3, 4)), ints(before, after), None, ints(1)], [0]), ([away((2, 3, 5)), ints(before, after), None, ints(-2)], [0]),
                                                                                      ([away((0, 3)), ints(before, after), None, ints(1)], [0])], mode=mode)
several("pad", lambda x, p, v: padded(0, 2, 1, "constant")(x, p, v), [([away((4,)), ints(2, 1), np.array(0.7)], [0, 2]), ([away((2, 3)), ints(2, 0, 1, 0), np.array(0.7)], [0, 2]), ([away((0, 3)), ints(2, 0, 1, 0), np.array(0.7)], [0, 2])])
several("pad", lambda x, p: F.pad(x, [2, -1, 0, 3]), [([away((3, 4)), ints(0, 2, 3, -1)], [0])])
several("tile", lambda x, r: x.repeat(*r.tolist()), [([away((2, 3)), ints(2, 3)], [0]), ([away((4,)), ints(1)], [0]), ([away((2, 3, 2)), ints(1, 4, 1)], [0]), ([away((3, 2)), ints(2, 0)], [0]), ([away((0, 3)), ints(2, 3)], [0])])

# ---- products, cofactors, windows

for exclusive in (False, True):
    for reverse in (False, True):
        def cum_prod(x, axis, exclusive=exclusive, reverse=reverse):
            axis = int(axis)
            x = x.flip(axis) if reverse else x
            y = x.cumprod(axis)
            if exclusive:
                n = x.shape[axis]
                y = torch.cat([torch.ones_like(x.narrow(axis, 0, min(n, 1))), y.narrow(axis, 0, max(n - 1, 0))], axis)
            return y.flip(axis) if reverse else y
        several("cum_prod", cum_prod, [([away((3, 5)), np.array(1)], [0]), ([away((2, 4, 3)), np.array(-2)], [0]), ([np.array([0.5, 0, 2, 0, 3]), np.array(0)], [0]), ([away((3, 0)), np.array(0)], [0])],
                exclusive=exclusive, reverse=reverse)
several("reduce_prod", lambda x, a: x.prod(1, True), [([away((2, 3, 4)), ints(1)], [0]), ([away((0, 3)), ints(1)], [0]), ([np.array([[0.5, 0, 2], [1, 2, 3]]), ints(-1)], [0]), ([np.array([[0.5, 0, 0], [1, 2, 3]]), ints(-1)], [0])])
several("reduce_prod", lambda x, a: x.prod(2).prod(0), [([away((2, 3, 4)), ints(0, 2)], [0]), ([away((2, 0, 4)), ints(0, 2)], [0])], keepdims=False)
several("reduce_prod", lambda x: x.prod().reshape(*[1] * x.dim()), [([away((2, 3))], [0]), ([away((5,))], [0])])
several("det", torch.linalg.det, [([away((3, 3))], [0]), ([away((2, 4, 2, 2))], [0]), ([away((5, 5))], [0]), ([away((1, 1))], [0]), ([away((0, 3, 3))], [0])])


def folded(size, block, stride, pad, dilation):
    return lambda x, s, b: F.fold(x, size, block, dilation, pad, stride)


several("col2im", folded((3, 4), (2, 2), (1, 1), (0, 0), (1, 1)), [([away((2, 4, 6)), ints(3, 4), ints(2, 2)], [0]), ([away((1, 12, 6)), ints(3, 4), ints(2, 2)], [0]), ([away((0, 4, 6)), ints(3, 4), ints(2, 2)], [0])])
several("col2im", folded((5, 6), (2, 3), (2, 1), (1, 0), (1, 2)), [([away((2, 6, 6)), ints(5, 6), ints(2, 3)], [0])], strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2])
