"""Normalisations."""
import torch

from .calls import aten, cast, core, count_of, in_full_precision, row, wide


def _kept(c, at, value, dtype):
    """A statistic of this dtype in the dtype of a result."""
    wanted = c.result[at].dtype
    return value if wanted == dtype else cast(value, dtype, wanted)


@row(aten.native_layer_norm.default)
def layer_norm(c, x, shape, weight=None, bias=None, eps=1e-5):
    first = x.rank - len(shape)
    if first < 0 or not len(shape):
        c.refuse("a layer norm over no axis")
    out, mean, rstd = core.layer_norm(x.value, c.value(weight, x.dtype), c.value(bias, x.dtype), axis=first, epsilon=float(eps))
    return [out, _kept(c, 1, mean, wide(x.dtype)), _kept(c, 2, rstd, wide(x.dtype))]


@row(aten.native_layer_norm_backward.default)
@in_full_precision
def layer_norm_backward(c, grad, x, shape, mean, rstd, weight, bias, wanted):
    first = x.rank - len(shape)
    if first < 0 or not len(shape):
        c.refuse("a layer norm over no axis")
    inner, outer, dtype = c.ints(range(first, x.rank)), c.ints(range(first)), x.dtype
    g, v, m, r = (c.value(t, dtype) for t in (grad, x, mean, rstd))
    normal = core.mul(core.sub(v, m), r)
    scaled = g if weight is None else core.mul(g, c.value(weight, dtype))
    sum1 = core.reduce_mean(scaled, inner, keepdims=True)
    sum2 = core.reduce_mean(core.mul(scaled, normal), inner, keepdims=True)
    dx = core.mul(core.sub(core.sub(scaled, sum1), core.mul(normal, sum2)), r)
    dweight, dbias = core.mul(g, normal), g
    if first:
        dweight, dbias = (core.reduce_sum(t, outer, keepdims=False) for t in (dweight, dbias))
    return [dx if wanted[0] else None, dweight if wanted[1] and weight is not None else None, dbias if wanted[2] and bias is not None else None]


@row(aten._fused_rms_norm.default)
def rms_norm(c, x, shape, weight=None, eps=None):
    first, full = x.rank - len(shape), wide(x.dtype)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    out = core.rms_norm(x.value, c.value(weight, x.dtype), axis=first, epsilon=float(eps))
    value = c.value(x, full)
    square = core.reduce_mean(core.mul(value, value), c.ints(range(first, x.rank)), keepdims=True)
    return [out, _kept(c, 1, core.rsqrt(core.add(square, c.number(float(eps), full))), full)]


@row(aten.native_group_norm.default)
def group_norm(c, x, weight, bias, batch, channels, area, groups, eps):
    full = wide(x.dtype)
    out = core.group_norm(x.value, c.value(weight, x.dtype), c.value(bias, x.dtype), groups=groups, epsilon=float(eps))
    grouped = c.reshaped(c.value(x, full), [batch, groups, (channels // groups) * area])
    mean = core.reduce_mean(grouped, c.ints([2]), keepdims=True)
    away = core.sub(grouped, mean)
    variance = core.reduce_mean(core.mul(away, away), c.ints([2]), keepdims=False)
    rstd = core.rsqrt(core.add(variance, c.number(float(eps), full)))
    return [out, _kept(c, 1, core.squeeze(mean, c.ints([2])), full), _kept(c, 2, rstd, full)]


def _parameters(c, x, weight, bias, dtype):
    """Scale and shift for each channel, of which PyTorch lets callers leave out each."""
    scale = c.filled(1, dtype, [x.shape[1]]) if weight is None else c.value(weight, dtype)
    return scale, c.filled(0, dtype, [x.shape[1]]) if bias is None else c.value(bias, dtype)


def _normalised(c, x, weight, bias, mean, variance, eps):
    dtype = x.dtype if weight is None else weight.dtype
    return core.batch_norm(x.value, *_parameters(c, x, weight, bias, dtype), mean, variance, epsilon=float(eps))


@row(aten._native_batch_norm_legit_no_training.default)
def batch_norm(c, x, weight, bias, mean, variance, momentum, eps):
    if 0 in x.shape:
        c.refuse("a batch norm of an empty tensor")
    out = _normalised(c, x, weight, bias, mean.value, c.value(variance, mean.dtype), eps)
    nothing = c.filled(0, c.result[1].dtype, [0])
    return [out, nothing, nothing]


def _trained(c, x, weight, bias, eps):
    """The result, the mean and the inverse deviation of each channel, and the variance, all but the first in full precision."""
    if 0 in x.shape:
        c.refuse("a batch norm of an empty tensor")
    full = wide(x.dtype)
    axes, value = c.ints([0, *range(2, x.rank)]), c.value(x, full)
    mean = core.reduce_mean(value, axes, keepdims=True)
    away = core.sub(value, mean)
    variance = core.reduce_mean(core.mul(away, away), axes, keepdims=False)
    mean = core.squeeze(mean, axes)
    rstd = core.rsqrt(core.add(variance, c.number(float(eps), full)))
    return _normalised(c, x, weight, bias, mean, variance, eps), mean, rstd, variance, full


def _moved(c, at, old, new, momentum, full):
    """The running mean of a statistic, as the result of this number."""
    if old is None:
        return None
    old = core.mul(c.value(old, full), c.number(1 - momentum, full))
    return _kept(c, at, core.add(core.mul(new, c.number(float(momentum), full)), old), full)


def _with_running(c, x, weight, bias, mean, variance, training, momentum, eps, at):
    """The results of a batch norm that keeps running statistics.  at: the number of the first of them among the results."""
    if not training:
        return [*batch_norm(c, x, weight, bias, mean, variance, momentum, eps), *(_kept(c, at, t.value, t.dtype) for at, t in ((at, mean), (at + 1, variance)))]
    count = count_of(x.shape[:1] + x.shape[2:])
    if not isinstance(count, int) or count < 2:
        c.refuse("the number of elements of each channel is a symbol, or one")
    out, batch_mean, rstd, batch_variance, full = _trained(c, x, weight, bias, eps)
    unbiased = core.mul(batch_variance, c.number(count / (count - 1), full))
    return [out, _kept(c, 1, batch_mean, full), _kept(c, 2, rstd, full), _moved(c, at, mean, batch_mean, momentum, full),
            _moved(c, at + 1, variance, unbiased, momentum, full)]


@row(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(c, x, weight, bias, mean, variance, training, momentum, eps):
    return _with_running(c, x, weight, bias, mean, variance, training, momentum, eps, 3)


@row(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(c, x, weight, bias, training, momentum, eps):
    out, mean, rstd, _, full = _trained(c, x, weight, bias, eps)
    return [out, _kept(c, 1, mean, full), _kept(c, 2, rstd, full)]


@row(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(c, x, weight, bias, mean, variance, momentum, eps):
    out, saved_mean, rstd, *running = _with_running(c, x, weight, bias, mean, variance, True, momentum, eps, 4)
    return [out, saved_mean, rstd, c.filled(0, torch.uint8, [0]), *running]
