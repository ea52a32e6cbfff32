"""Products of matrices, attention, and layers of weights."""
import torch

from .calls import Refused, aten, core, row


def _checked(c, *tensors):
    if any(t.dtype == torch.bool for t in tensors):
        c.refuse("a product of matrices of bool")


@row(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def matmul(c, a, b):
    _checked(c, a, b)
    return core.matmul(a.value, b.value)


def _sum_of(c, bias, product, alpha, beta):
    if alpha != 1:
        product = core.mul(product, c.number(alpha))
    if beta == 0:
        return product
    added = c.value(bias, c.dtype)
    return core.add(product, added if beta == 1 else core.mul(added, c.number(beta)))


@row(aten.addmm.default)
def addmm(c, bias, a, b, *, beta=1, alpha=1):
    _checked(c, a, b)
    if alpha == 1 and beta == 1 and bias.rank == 1 and c.dtype.is_floating_point and bias.dtype == c.dtype and bias.shape[0] == b.shape[1]:
        return core.matmul(a.value, b.value, bias.value)
    return _sum_of(c, bias, core.matmul(a.value, b.value), alpha, beta)


@row(aten.baddbmm.default, aten.addmv.default)
def baddbmm(c, bias, a, b, *, beta=1, alpha=1):
    _checked(c, a, b)
    return _sum_of(c, bias, core.matmul(a.value, b.value), alpha, beta)


@row(aten.addbmm.default)
def addbmm(c, bias, a, b, *, beta=1, alpha=1):
    _checked(c, a, b)
    return _sum_of(c, bias, core.reduce_sum(core.matmul(a.value, b.value), c.ints([0]), keepdims=False), alpha, beta)


@row(aten.linear.default)
def linear(c, x, weight, bias=None):
    return core.matmul(x.value, core.transpose(weight.value), *([bias.value] if bias is not None else []))


def _logits(c, q, k, mask, is_causal, scale, rows, columns):
    scale = scale if scale is not None else q.shape[-1] ** -0.5
    k_swapped = core.transpose(k.value, perm=[0, 1, 3, 2])
    logits = core.mul(core.matmul(q.value, k_swapped), c.number(float(scale), q.dtype))
    if mask is not None:
        logits = core.add(logits, c.value(mask, q.dtype))
    if is_causal:
        below = core.trilu(c.filled(1, torch.uint8, [rows, columns]), upper=False)
        low = c.number(float("-inf"), q.dtype)
        logits = core.where(core.cast(below, to="bool"), logits, low)
    return logits


@row(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(c, q, k, v, dropout=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if dropout:
        c.refuse("attention with dropout")
    named = {} if scale is None else {"scale": float(scale)}
    mask = [] if attn_mask is None else [c.value(attn_mask, q.dtype)]
    out = core.attention(q.value, k.value, v.value, *mask, is_causal=is_causal, **named)[0]
    logits = _logits(c, q, k, attn_mask, is_causal, scale, q.shape[-2], k.shape[-2])
    return [out, core.reduce_log_sum_exp(logits, c.ints([3]), keepdims=False)]


@row(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def attention_backward(c, grad, q, k, v, out, logsumexp, dropout, is_causal, *, attn_mask=None, scale=None):
    if dropout:
        c.refuse("attention with dropout")
    logits = _logits(c, q, k, attn_mask, is_causal, scale, q.shape[-2], k.shape[-2])
    weights = core.exp(core.sub(logits, core.unsqueeze(c.value(logsumexp, q.dtype), c.ints([3]))))
    number = c.number(float(scale if scale is not None else q.shape[-1] ** -0.5), q.dtype)

    def swapped(value):
        return core.transpose(value, perm=[0, 1, 3, 2])
    dv = core.matmul(swapped(weights), grad.value)
    dweights = core.matmul(grad.value, swapped(v.value))
    delta = core.reduce_sum(core.mul(grad.value, out.value), c.ints([3]), keepdims=True)
    dlogits = core.mul(core.mul(weights, core.sub(dweights, delta)), number)
    return [core.matmul(dlogits, k.value), core.matmul(swapped(dlogits), q.value), dv]
