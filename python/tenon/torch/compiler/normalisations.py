"""Normalisations."""
import torch

from .calls import aten, cast, core, row


def _scaled(c, value, weight, bias, dtype):
    if weight is not None:
        value = core.mul(value, c.value(weight, dtype))
    if bias is not None:
        value = core.add(value, c.value(bias, dtype))
    return value


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


@row(aten._native_batch_norm_legit_no_training.default)
def batch_norm(c, x, weight, bias, mean, var, momentum, eps):
    ones = [c.filled(1, x.dtype, [x.shape[1]])] if weight is None or bias is None else []
    scale = c.value(weight, x.dtype) if weight is not None else ones[0]
    shift = c.value(bias, x.dtype) if bias is not None else c.filled(0, x.dtype, [x.shape[1]])
    out = core.batch_norm(x.value, scale, shift, c.value(mean, x.dtype), c.value(var, x.dtype), epsilon=float(eps))
    nothing = c.filled(0, c.result[1].dtype, [0])
    return [out, nothing, nothing]
