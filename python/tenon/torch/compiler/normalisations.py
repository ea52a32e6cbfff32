"""Normalisations."""
import torch

from .calls import aten, cast, core, count_of, row


@row(aten.native_layer_norm.default)
def layer_norm(c, x, shape, weight=None, bias=None, eps=1e-5):
    first = x.rank - len(shape)
    if first < 0 or not len(shape):
        c.refuse("a layer norm over no axis")
    out, mean, rstd = core.layer_norm(x.value, c.value(weight, x.dtype), c.value(bias, x.dtype), axis=first, epsilon=float(eps))
    kept = c.result[1].dtype
    return [out, *(m if x.dtype == kept or x.dtype not in (torch.float16, torch.bfloat16) else cast(m, torch.float32, kept) for m in (mean, rstd))]


@row(aten.native_layer_norm_backward.default)
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
    first = x.rank - len(shape)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    out = core.rms_norm(x.value, c.value(weight, x.dtype), axis=first, epsilon=float(eps))
    square = core.reduce_mean(core.mul(x.value, x.value), c.ints(range(first, x.rank)), keepdims=True)
    rstd = core.rsqrt(core.add(square, c.number(float(eps), x.dtype)))
    return [out, cast(rstd, x.dtype, c.result[1].dtype) if c.result[1].dtype != x.dtype else rstd]


@row(aten.native_group_norm.default)
def group_norm(c, x, weight, bias, batch, channels, area, groups, eps):
    out = core.group_norm(x.value, c.value(weight, x.dtype), c.value(bias, x.dtype), groups=groups, epsilon=float(eps))
    grouped = c.reshaped(x.value, [batch, groups, (channels // groups) * area])
    mean = core.reduce_mean(grouped, c.ints([2]), keepdims=True)
    away = core.sub(grouped, mean)
    variance = core.reduce_mean(core.mul(away, away), c.ints([2]), keepdims=False)
    rstd = core.rsqrt(core.add(variance, c.number(float(eps), x.dtype)))
    return [out, core.squeeze(mean, c.ints([2])), rstd]


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
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    axes, value = c.ints([0, *range(2, x.rank)]), c.value(x, wide)
    mean = core.reduce_mean(value, axes, keepdims=True)
    away = core.sub(value, mean)
    variance = core.reduce_mean(core.mul(away, away), axes, keepdims=False)
    mean = core.squeeze(mean, axes)
    rstd = core.rsqrt(core.add(variance, c.number(float(eps), wide)))
    return _normalised(c, x, weight, bias, mean, variance, eps), mean, rstd, variance, wide


def _moved(c, old, new, momentum, wide):
    """The running mean of a statistic."""
    if old is None:
        return None
    made = core.add(core.mul(new, c.number(float(momentum), wide)), core.mul(c.value(old, wide), c.number(1 - momentum, wide)))
    return cast(made, wide, old.dtype) if old.dtype != wide else made


def _kept(c, at, value, wide):
    """A statistic in the dtype of a result."""
    dtype = c.result[at].dtype
    return value if dtype == wide else cast(value, wide, dtype)


@row(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(c, x, weight, bias, mean, variance, training, momentum, eps):
    if not training:
        return [*batch_norm(c, x, weight, bias, mean, variance, momentum, eps), core.identity(mean.value), core.identity(variance.value)]
    count = count_of(x.shape[:1] + x.shape[2:])
    if not isinstance(count, int) or count < 2:
        c.refuse("the number of elements of each channel is a symbol, or one")
    out, batch_mean, rstd, batch_variance, wide = _trained(c, x, weight, bias, eps)
    unbiased = core.mul(batch_variance, c.number(count / (count - 1), wide))
    return [out, _kept(c, 1, batch_mean, wide), _kept(c, 2, rstd, wide), _moved(c, mean, batch_mean, momentum, wide),
            _moved(c, variance, unbiased, momentum, wide)]


@row(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(c, x, weight, bias, training, momentum, eps):
    out, mean, rstd, _, wide = _trained(c, x, weight, bias, eps)
    return [out, _kept(c, 1, mean, wide), _kept(c, 2, rstd, wide)]


@row(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(c, x, weight, bias, mean, variance, momentum, eps):
    out, saved_mean, rstd, *running = batch_norm_functional(c, x, weight, bias, mean, variance, True, momentum, eps)
    return [out, saved_mean, rstd, c.filled(0, torch.uint8, [0]), *running]
