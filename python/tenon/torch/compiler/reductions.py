"""Operators of PyTorch that reduce, scan or sort along axes."""
import torch

from .calls import Tensor, aten, cast, core, named, row


def _axes(c, x, axes):
    """The axes as numbers from 0; all of them for None and for an empty list."""
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return list(range(x.rank))
    return [c.axis(a, x.rank) for a in ([axes] if isinstance(axes, int) else axes)]


def _reduced(c, node, x, axes, keepdim, dtype=None):
    value, axes = c.value(x, dtype or c.dtype), _axes(c, x, axes)
    if not axes:
        return core.identity(value)
    return node(value, c.ints(axes), keepdims=keepdim)


@row(aten.sum.default, aten.sum.dim_IntList)
def sum_(c, x, axes=None, keepdim=False, *, dtype=None):
    return _reduced(c, core.reduce_sum, x, axes, keepdim)


@row(aten.mean.default, aten.mean.dim)
def mean(c, x, axes=None, keepdim=False, *, dtype=None):
    return _reduced(c, core.reduce_mean, x, axes, keepdim)


@row(aten.prod.default, aten.prod.dim_int)
def prod(c, x, axes=None, keepdim=False, *, dtype=None):
    return _reduced(c, core.reduce_prod, x, axes, keepdim)


@row(aten.amax.default)
def amax(c, x, axes=None, keepdim=False):
    return _reduced(c, core.reduce_max, x, axes, keepdim)


@row(aten.amin.default)
def amin(c, x, axes=None, keepdim=False):
    return _reduced(c, core.reduce_min, x, axes, keepdim)


@row(aten.max.default)
def max_(c, x):
    return _reduced(c, core.reduce_max, x, None, False)


@row(aten.min.default)
def min_(c, x):
    return _reduced(c, core.reduce_min, x, None, False)


def _with_indices(reduce, arg):
    def lower(c, x, axis, keepdim=False):
        if x.rank == 0:
            return [core.identity(x.value), c.number(0, torch.int64)]
        axis = c.axis(axis, x.rank)
        value = x.value
        if x.dtype == torch.bool:
            value = cast(value, x.dtype, torch.uint8)
        best = arg(value, axis=axis, keepdims=keepdim)
        made = reduce(value, c.ints([axis]), keepdims=keepdim)
        return [cast(made, torch.uint8, torch.bool) if x.dtype == torch.bool else made, best]
    return lower


row(aten.max.dim)(_with_indices(core.reduce_max, core.arg_max))
row(aten.min.dim)(_with_indices(core.reduce_min, core.arg_min))


def _arg(node):
    def lower(c, x, axis=None, keepdim=False):
        value = cast(x.value, x.dtype, torch.uint8) if x.dtype == torch.bool else x.value
        if x.rank == 0:
            return c.filled(0)
        if axis is None:
            made = node(core.reshape(value, c.ints([-1])), axis=0, keepdims=False)
            return c.reshaped(made, c.shape)
        return node(value, axis=c.axis(axis, x.rank), keepdims=keepdim)
    return lower


row(aten.argmax.default)(_arg(core.arg_max))
row(aten.argmin.default)(_arg(core.arg_min))


def _as_bits(c, x):
    return cast(c.value(x, torch.bool), torch.bool, torch.uint8)


def _of_bools(reduce):
    def lower(c, x, axes=None, keepdim=False):
        axes = _axes(c, x, axes)
        bits = _as_bits(c, x)
        made = reduce(bits, c.ints(axes), keepdims=keepdim) if axes else bits
        return cast(made, torch.uint8, c.dtype) if c.dtype != torch.uint8 else made
    return lower


row(aten.any.default, aten.any.dim, aten.any.dims)(_of_bools(core.reduce_max))
row(aten.all.default, aten.all.dim, aten.all.dims)(_of_bools(core.reduce_min))


def _extent_product(c, x, axes):
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    return count


def _moments(c, x, axes, keepdim, correction, dtype):
    """The variance and the mean; the mean keeps its axes if keepdim."""
    value, axes = c.value(x, dtype), _axes(c, x, axes)
    if not axes:
        axes = []
    correction = 1 if correction is None else correction
    centre = core.reduce_mean(value, c.ints(axes), keepdims=True) if axes else value
    away = core.sub(value, centre)
    total = core.reduce_sum(core.mul(away, away), c.ints(axes), keepdims=keepdim) if axes else core.mul(away, away)
    count = _extent_product(c, x, axes)
    rest = count - correction
    if isinstance(rest, (int, float)):
        rest = max(rest, 0)
        variance = core.div(total, c.number(float(rest), dtype))
    else:
        count = c.value(count, dtype)
        rest = core.max(core.sub(count, c.number(float(correction), dtype)), c.number(0.0, dtype))
        variance = core.div(total, rest)
    mean_of = core.reduce_mean(value, c.ints(axes), keepdims=keepdim) if axes else value
    return variance, mean_of


@row(aten.var.correction, aten.var.dim, aten.var.default)
def var(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    axes, unbiased, keepdim, correction = _var_arguments(c, axes, unbiased, keepdim, correction)
    return _moments(c, x, axes, keepdim, correction, c.dtype)[0]


@row(aten.std.correction)
def std(c, x, axes=None, *, correction=None, keepdim=False):
    return core.sqrt(_moments(c, x, axes, keepdim, correction, c.dtype)[0])


@row(aten.var_mean.correction)
def var_mean(c, x, axes=None, *, correction=None, keepdim=False):
    return list(_moments(c, x, axes, keepdim, correction, c.result[0].dtype))


def _var_arguments(c, axes, unbiased, keepdim, correction):
    if isinstance(axes, bool):
        axes, unbiased = None, axes
    if unbiased is not None:
        correction = int(unbiased)
    return axes, unbiased, keepdim, correction


@row(aten.logsumexp.default)
def logsumexp(c, x, axes, keepdim=False):
    return _reduced(c, core.reduce_log_sum_exp, x, axes, keepdim)


@row(aten._softmax.default, aten.softmax.int)
def softmax(c, x, axis, half_to_float=False):
    value = c.value(x, c.dtype)
    return core.softmax(value, axis=c.axis(axis, x.rank)) if x.rank else c.filled(1)


@row(aten._log_softmax.default)
def log_softmax(c, x, axis, half_to_float=False):
    value = c.value(x, c.dtype)
    return core.log_softmax(value, axis=c.axis(axis, x.rank)) if x.rank else c.filled(0)


@row(aten._softmax_backward_data.default)
def softmax_backward(c, grad, y, axis, dtype):
    if y.rank == 0:
        return c.filled(0)
    made = core.softmax_backward(grad.value, c.value(y, grad.dtype), axis=c.axis(axis, y.rank))
    return cast(made, grad.dtype, c.dtype) if c.dtype != grad.dtype else made


@row(aten._log_softmax_backward_data.default)
def log_softmax_backward(c, grad, y, axis, dtype):
    if y.rank == 0:
        return c.filled(0)
    made = core.log_softmax_backward(grad.value, c.value(y, grad.dtype), axis=c.axis(axis, y.rank))
    return cast(made, grad.dtype, c.dtype) if c.dtype != grad.dtype else made


@row(aten.cumsum.default)
def cumsum(c, x, axis, *, dtype=None):
    value = c.value(x, c.dtype)
    return core.cum_sum(value, c.number(c.axis(axis, x.rank), torch.int64)) if x.rank else core.identity(value)


@row(aten.cumprod.default)
def cumprod(c, x, axis, *, dtype=None):
    value = c.value(x, c.dtype)
    return core.cum_prod(value, c.number(c.axis(axis, x.rank), torch.int64)) if x.rank else core.identity(value)


@row(aten.topk.default)
def topk(c, x, k, axis=-1, largest=True, sorted=True):
    if x.rank == 0:
        return [core.identity(x.value), c.number(0, torch.int64)]
    return list(core.top_k(x.value, c.ints([k]), axis=c.axis(axis, x.rank), largest=largest, sorted=True))


@row(aten.sort.default, aten.sort.stable)
def sort(c, x, *arguments, stable=None, dim=-1, descending=False):
    if c.node.target is aten.sort.default:
        dim, descending = (*arguments, *(dim, descending)[len(arguments):])
    elif arguments:
        dim, descending = (*arguments[1:], *(dim, descending)[max(len(arguments) - 1, 0):]) if isinstance(arguments[0], bool) or arguments[0] is None else arguments
    if x.rank == 0:
        return [core.identity(x.value), c.number(0, torch.int64)]
    axis = c.axis(dim, x.rank)
    value = cast(x.value, torch.bool, torch.uint8) if x.dtype == torch.bool else x.value
    values, indices = core.top_k(value, c.ints([x.shape[axis]]), axis=axis, largest=bool(descending), sorted=True)
    return [cast(values, torch.uint8, torch.bool) if x.dtype == torch.bool else values, indices]


__all__ = ["Tensor", "named"]
