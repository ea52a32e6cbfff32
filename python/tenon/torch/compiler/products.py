"""Products of matrices, attention, and layers of weights."""
import math

import torch

from .calls import aten, core, count_of, in_full_precision, named, row


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
    return baddbmm(c, bias, a, b, beta=beta, alpha=alpha)


@row(aten.baddbmm.default, aten.addmv.default)
@in_full_precision
def baddbmm(c, bias, a, b, *, beta=1, alpha=1):
    _checked(c, a, b)
    return _sum_of(c, bias, core.matmul(a.value, b.value), alpha, beta)


@row(aten.addbmm.default)
@in_full_precision
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
    scaling = {} if scale is None else {"scale": float(scale)}
    mask = [] if attn_mask is None else [c.value(attn_mask, q.dtype)]
    out = core.attention(q.value, k.value, v.value, *mask, is_causal=is_causal, **scaling)[0]
    return [out, _log_sums(c, q, k, attn_mask, is_causal, scale)[1]]


@in_full_precision
def _log_sums(c, q, k, mask, is_causal, scale):
    """The second result of attention: the logarithms of the sums in the softmax."""
    logits = _logits(c, q, k, mask, is_causal, scale, q.shape[-2], k.shape[-2])
    return [None, core.reduce_log_sum_exp(logits, c.ints([3]), keepdims=False)]


@row(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
@in_full_precision
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


# ---- products of more than two tensors, and distances ----

@row(aten._trilinear.default)
@in_full_precision
def trilinear(c, a, b, d, expand_a, expand_b, expand_d, summed, unroll=1):
    """Each operand has an axis for each letter but those along which it is repeated."""
    if 0 in c.shape or any(0 in t.shape for t in (a, b, d)):
        return c.filled(0)
    rank = a.rank + len(expand_a)
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    terms = ["".join(x for i, x in enumerate(letters) if i not in gone) for gone in (expand_a, expand_b, expand_d)]
    result = "".join(x for i, x in enumerate(letters) if i not in summed)
    return core.einsum([t.value for t in (a, b, d)], equation=f"{','.join(terms)}->{result}")


_MOST = 1 << 26  # elements of a table of differences


def _norm(c, value, p, dtype, axis):
    """The p-norm along an axis."""
    at = c.ints([axis])
    if p == 0:
        return core.reduce_sum(core.cast(core.not_equal(value, c.number(0, dtype)), to=c.name_of(dtype)), at, keepdims=False)
    if p == 1:
        return core.reduce_l1(value, at, keepdims=False)
    if p == 2:
        return core.reduce_l2(value, at, keepdims=False)
    size = core.abs(value)
    if math.isinf(p):
        return core.reduce_max(size, at, keepdims=False)
    return core.pow(core.reduce_sum(core.pow(size, c.number(p, dtype)), at, keepdims=False), c.number(1 / p, dtype))


def _slope(c, difference, distance, grad, p, dtype):
    """The gradient of the p-norm of a difference; 0 where the distance is 0."""
    zero = c.number(0, dtype)
    if p == 0:
        return core.mul(difference, zero)
    if p == 1:
        return core.mul(core.sign(difference), grad)
    is_far = core.not_equal(distance, zero)
    if math.isinf(p):
        is_greatest = core.cast(core.equal(core.abs(difference), distance), to=c.name_of(dtype))
        return core.mul(core.mul(core.sign(difference), is_greatest), grad)
    if p == 2:
        made = core.mul(grad, core.div(difference, distance))
    else:
        powers = core.div(core.pow(core.abs(difference), c.number(p - 1, dtype)), core.pow(distance, c.number(p - 1, dtype)))
        made = core.mul(core.mul(core.sign(difference), grad), powers)
        is_far = named("and")(is_far, core.not_equal(difference, zero)) if p < 2 else is_far
    return core.where(is_far, made, zero)


def _differences(c, a, b):
    """a[..., i, None, :] - b[..., None, j, :]"""
    count = count_of([*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2], a.shape[-1]])
    if not isinstance(count, int) or not 0 < count <= _MOST:
        c.refuse("the differences of all pairs of rows take too much memory")
    return core.sub(core.unsqueeze(a.value, c.ints([a.rank - 1])), core.unsqueeze(b.value, c.ints([b.rank - 2])))


@row(aten._cdist_forward.default)
@in_full_precision
def cdist(c, a, b, p, mode):
    if 0 in c.shape or a.shape[-1] == 0:
        return c.filled(0)
    return _norm(c, _differences(c, a, b), p, c.dtype, len(c.shape))


@row(aten._cdist_backward.default)
@in_full_precision
def cdist_backward(c, grad, a, b, p, distance):
    if 0 in grad.shape or 0 in a.shape:
        return c.filled(0)
    rank = grad.rank
    wide = [core.unsqueeze(t.value, c.ints([rank])) for t in (distance, grad)]
    made = core.reduce_sum(_slope(c, _differences(c, a, b), *wide, p, c.dtype), c.ints([rank - 1]), keepdims=False)
    return core.sum_to(made, c.ints(c.shape)) if rank > a.rank or list(c.shape[:-2]) != list(grad.shape[:-2]) else made


def _pairs(c, x):
    """The rows of all pairs i < j."""
    if not all(isinstance(e, int) for e in x.shape) or not 0 < (x.shape[0] * (x.shape[0] - 1) // 2) * x.shape[1] <= _MOST:
        c.refuse("the differences of all pairs of rows take too much memory")
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return c.scope.constant(first.contiguous()), c.scope.constant(second.contiguous())


@row(aten._pdist_forward.default)
@in_full_precision
def pdist(c, x, p=2):
    if 0 in c.shape or 0 in x.shape:
        return c.filled(0)
    first, second = (core.gather(x.value, at, axis=0) for at in _pairs(c, x))
    return _norm(c, core.sub(first, second), p, c.dtype, 1)


@row(aten._pdist_backward.default)
@in_full_precision
def pdist_backward(c, grad, x, p, distance):
    if 0 in grad.shape or 0 in x.shape:
        return c.filled(0)
    places = _pairs(c, x)
    first, second = (core.gather(x.value, at, axis=0) for at in places)
    wide = [core.unsqueeze(t.value, c.ints([1])) for t in (distance, grad)]
    slope = _slope(c, core.sub(first, second), *wide, p, c.dtype)
    made = c.filled(0)
    for at, value in zip(places, (slope, core.neg(slope))):
        made = core.scatter_nd(made, core.unsqueeze(at, c.ints([1])), value, reduction="add")
    return made
