"""Operators of PyTorch that reduce, scan or sort along axes."""
import math

import torch

from .calls import Tensor, aten, cast, core, count_of, in_full_precision, named, row
from .pointwise import log1p_of


def _axes(c, x, axes):
    """The axes as numbers from 0; all of them for None and for an empty list."""
    if x.rank == 0:
        return []
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
    if c.dtype == torch.bool:
        return _of_bools(core.reduce_min)(c, x, axes, keepdim)
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


def _bytes(x):
    """The elements of a tensor, bools as bytes."""
    return cast(x.value, x.dtype, torch.uint8) if x.dtype == torch.bool else x.value


def _bools(value, dtype):
    """The inverse of _bytes."""
    return cast(value, torch.uint8, torch.bool) if dtype == torch.bool else value


def _first_greatest(value, dtype, axis, keepdims):
    return core.arg_max(value, axis=axis, keepdims=keepdims)


def _first_least(value, dtype, axis, keepdims):
    """NaN counts as least, as it counts as greatest; arg_min alone would pass over it."""
    if dtype.is_floating_point:
        return core.arg_max(core.neg(value), axis=axis, keepdims=keepdims)
    return core.arg_min(value, axis=axis, keepdims=keepdims)


def _with_indices(reduce, position):
    def lower(c, x, axis, keepdim=False):
        if x.rank == 0:
            return [core.identity(x.value), c.number(0, torch.int64)]
        if 0 in x.shape:
            return [c.filled(0, r.dtype, r.shape) for r in c.result]
        axis, value = c.axis(axis, x.rank), _bytes(x)
        made = reduce(value, c.ints([axis]), keepdims=keepdim)
        return [_bools(made, x.dtype), position(value, x.dtype, axis, keepdim)]
    return lower


row(aten.max.dim)(_with_indices(core.reduce_max, _first_greatest))
row(aten.min.dim)(_with_indices(core.reduce_min, _first_least))


def _arg(position):
    def lower(c, x, axis=None, keepdim=False):
        if x.rank == 0 or 0 in x.shape:
            return c.filled(0)
        value = _bytes(x)
        if axis is None:
            made = position(core.reshape(value, c.ints([-1])), x.dtype, 0, False)
            return c.reshaped(made, c.shape)
        return position(value, x.dtype, c.axis(axis, x.rank), keepdim)
    return lower


row(aten.argmax.default)(_arg(_first_greatest))
row(aten.argmin.default)(_arg(_first_least))


@row(aten.aminmax.default)
def aminmax(c, x, *, dim=None, keepdim=False):
    axes = None if dim is None else [dim]
    return [_reduced(c, node, x, axes, keepdim, x.dtype) for node in (core.reduce_min, core.reduce_max)]


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


def _moments(c, x, axes, keepdim, correction, dtype):
    """The variance and the mean; the mean keeps its axes if keepdim."""
    value, axes = c.value(x, dtype), _axes(c, x, axes)
    correction = 1 if correction is None else correction
    centre = core.reduce_mean(value, c.ints(axes), keepdims=True) if axes else value
    away = core.sub(value, centre)
    total = core.reduce_sum(core.mul(away, away), c.ints(axes), keepdims=keepdim) if axes else core.mul(away, away)
    count = count_of([x.shape[axis] for axis in axes])
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
@in_full_precision
def var(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    axes, unbiased, keepdim, correction = _var_arguments(c, axes, unbiased, keepdim, correction)
    return _moments(c, x, axes, keepdim, correction, c.dtype)[0]


@row(aten.std.correction)
@in_full_precision
def std(c, x, axes=None, *, correction=None, keepdim=False):
    return core.sqrt(_moments(c, x, axes, keepdim, correction, c.dtype)[0])


@row(aten.var_mean.correction)
@in_full_precision
def var_mean(c, x, axes=None, *, correction=None, keepdim=False):
    return list(_moments(c, x, axes, keepdim, correction, x.dtype))


def _var_arguments(c, axes, unbiased, keepdim, correction):
    if isinstance(axes, bool):
        axes, unbiased = None, axes
    if unbiased is not None:
        correction = int(unbiased)
    return axes, unbiased, keepdim, correction


@row(aten.logsumexp.default)
@in_full_precision
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


def _softmax_backward(node):
    def lower(c, grad, y, axis, dtype):
        if y.rank == 0:
            return c.filled(0)
        made = node(grad.value, c.value(y, grad.dtype), axis=c.axis(axis, y.rank))
        return cast(made, grad.dtype, c.dtype) if c.dtype != grad.dtype else made
    return lower


row(aten._softmax_backward_data.default)(_softmax_backward(core.softmax_backward))
row(aten._log_softmax_backward_data.default)(_softmax_backward(core.log_softmax_backward))


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
    if 0 in c.result[0].shape:
        return [c.filled(0, r.dtype, r.shape) for r in c.result]
    values, indices = core.top_k(_bytes(x), c.ints([k]), axis=c.axis(axis, x.rank), largest=largest, sorted=True)
    return [_bools(values, x.dtype), indices]


def _sorted(c, x, axis, descending=False):
    """All elements along an axis in order, and their positions; equal elements keep their order."""
    return core.top_k(_bytes(x), c.ints([x.shape[axis]]), axis=axis, largest=descending, sorted=True)


def _sort(c, x, axis, descending):
    if x.rank == 0:
        return [core.identity(x.value), c.number(0, torch.int64)]
    if 0 in x.shape:
        return [core.identity(x.value), c.filled(0, torch.int64, x.shape)]
    values, indices = _sorted(c, x, c.axis(axis, x.rank), bool(descending))
    return [_bools(values, x.dtype), indices]


@row(aten.sort.default)
def sort(c, x, dim=-1, descending=False):
    return _sort(c, x, dim, descending)


@row(aten.sort.stable)
def sort_stable(c, x, *, stable=None, dim=-1, descending=False):
    return _sort(c, x, dim, descending)


def _at(c, pair, at, axis, keepdim):
    """The element at one place along an axis of each of two values."""
    made = [core.slice(v, c.ints([at]), c.ints([at + 1]), c.ints([axis])) for v in pair]
    return made if keepdim else [core.squeeze(v, c.ints([axis])) for v in made]


def _ranked(c, x, axis, place, keepdim):
    if x.rank == 0:
        return [core.identity(x.value), c.number(0, torch.int64)]
    axis = c.axis(axis, x.rank)
    if not isinstance(x.shape[axis], int):
        c.refuse("the extent is a symbol")
    if 0 in x.shape:
        return [c.filled(0, r.dtype, r.shape) for r in c.result]
    values, indices = _at(c, _sorted(c, x, axis), place(x.shape[axis]), axis, keepdim)
    return [_bools(values, x.dtype), indices]


@row(aten.kthvalue.default)
def kthvalue(c, x, k, axis=-1, keepdim=False):
    return _ranked(c, x, axis, lambda extent: k - 1, keepdim)


@row(aten.median.dim)
def median(c, x, axis, keepdim=False):
    """The lower one of the two elements in the middle; NaN, where there is one, and then the first of them."""
    values, indices = _ranked(c, x, axis, lambda extent: (extent - 1) // 2, keepdim)
    if not x.dtype.is_floating_point or x.rank == 0 or 0 in x.shape:
        return [values, indices]
    axis = c.axis(axis, x.rank)
    greatest = core.reduce_max(x.value, c.ints([axis]), keepdims=keepdim)
    has_nan = core.is_nan(greatest)
    first = core.arg_max(x.value, axis=axis, keepdims=keepdim)
    return [core.where(has_nan, greatest, values), core.where(has_nan, first, indices)]


@row(aten.nanmedian.dim)
def nanmedian(c, x, axis, keepdim=False):
    """NaN is sorted behind the numbers, so that the place of the median follows from their count."""
    if not x.dtype.is_floating_point or x.rank == 0 or 0 in x.shape:
        return _ranked(c, x, axis, lambda extent: (extent - 1) // 2, keepdim)
    axis = c.axis(axis, x.rank)
    values, indices = _sorted(c, x, axis)
    numbers = cast(named("not")(core.is_nan(x.value)), torch.bool, torch.int64)
    count, one = core.reduce_sum(numbers, c.ints([axis]), keepdims=True), c.number(1, torch.int64)
    at = core.div(core.max(core.sub(count, one), c.number(0, torch.int64)), c.number(2, torch.int64))
    made = [core.gather_elements(v, at, axis=axis) for v in (values, indices)]
    return made if keepdim else [core.squeeze(v, c.ints([axis])) for v in made]


_MOST = 1 << 24  # elements of a table of comparisons


@row(aten.mode.default)
def mode(c, x, axis=-1, keepdim=False):
    """The element of which there are most, of several the least: the first one in order that equals as many as any does."""
    if x.rank == 0 or 0 in x.shape:
        return [core.identity(x.value), c.filled(0, torch.int64, x.shape)] if x.rank == 0 else c.refuse("the mode of no elements")
    axis = c.axis(axis, x.rank)
    count = count_of(x.shape)
    if not isinstance(count, int) or count * x.shape[axis] > _MOST:
        c.refuse("the comparisons of all pairs of elements take too much memory")
    values, indices = _sorted(c, x, axis)
    pairs = core.equal(core.unsqueeze(values, c.ints([axis])), core.unsqueeze(values, c.ints([axis + 1])))
    counts = core.reduce_sum(cast(pairs, torch.bool, torch.int64), c.ints([axis]), keepdims=False)
    best = core.arg_max(counts, axis=axis, keepdims=True)
    made = [core.gather_elements(v, best, axis=axis) for v in (values, indices)]
    made = made if keepdim else [core.squeeze(v, c.ints([axis])) for v in made]
    return [_bools(made[0], x.dtype), made[1]]


def _of_all(lower):
    """The value that a function of an axis has for all elements in one row."""
    def made(c, x):
        if 0 in x.shape:
            return c.filled(math.nan if x.dtype.is_floating_point else torch.iinfo(x.dtype).min)
        return lower(c, Tensor(core.reshape(x.value, c.ints([-1])), x.dtype, (count_of(x.shape),)), 0)[0]
    return made


row(aten.median.default)(_of_all(median))
row(aten.nanmedian.default)(_of_all(nanmedian))


# ---- scans: each step combines what lies 1, 2, 4, ... elements before ----

def _scan(c, parts, extent, axis, combine):
    """The running combination of each prefix.  combine: a function of two lists of values, the earlier ones first."""
    at, distance = c.ints([axis]), 1
    while distance < extent:
        early = [core.slice(p, c.ints([0]), c.ints([extent - distance]), at) for p in parts]
        late = [core.slice(p, c.ints([distance]), c.ints([extent]), at) for p in parts]
        head = [core.slice(p, c.ints([0]), c.ints([distance]), at) for p in parts]
        parts = [core.concat([h, m], axis=axis) for h, m in zip(head, combine(early, late))]
        distance *= 2
    return parts


def _scanned(c, x, axis):
    axis = c.axis(axis, x.rank)
    if not isinstance(x.shape[axis], int):
        c.refuse("the extent of the scan is a symbol")
    return axis, x.shape[axis]


def _cumulative(compare):
    def lower(c, x, axis):
        if x.rank == 0 or 0 in x.shape:
            return [core.identity(x.value), c.filled(0, torch.int64, x.shape)]
        axis, extent = _scanned(c, x, axis)
        sides = [1] * x.rank
        sides[axis] = extent
        places = c.expanded(c.reshaped(c.ints(range(extent)), sides), x.shape)

        def combine(early, late):
            """The later element, unless it is worse: of equal ones the last stays, and NaN stays for ever."""
            is_later = compare(late[0], early[0])
            if x.dtype.is_floating_point:
                is_later = named("and")(is_later, named("not")(core.is_nan(early[0])))
                is_later = named("or")(is_later, core.is_nan(late[0]))
            return [core.where(is_later, b, a) for a, b in zip(early, late)]
        values, indices = _scan(c, [_bytes(x), places], extent, axis, combine)
        return [_bools(values, x.dtype), indices]
    return lower


row(aten.cummax.default)(_cumulative(core.greater_equal))
row(aten.cummin.default)(_cumulative(core.less_equal))


@row(aten.logcumsumexp.default)
def logcumsumexp(c, x, axis):
    if x.rank == 0 or 0 in x.shape:
        return core.identity(x.value)
    axis, extent = _scanned(c, x, axis)
    wide = torch.float64 if x.dtype in (torch.float32, torch.float64) else torch.float32  # as PyTorch adds them up

    def combine(early, late):
        """log(exp(a) + exp(b)) = max + log(1 + exp(-|a - b|)); equal infinities stay as they are."""
        a, b = early[0], late[0]
        greatest = core.max(a, b)
        rest = log1p_of(c, core.exp(core.neg(core.abs(core.sub(a, b)))), wide)
        is_same_infinity = named("and")(core.equal(a, b), core.is_inf(a))
        return [core.where(is_same_infinity, a, core.add(greatest, rest))]
    return cast(_scan(c, [c.value(x, wide)], extent, axis, combine)[0], wide, x.dtype)
