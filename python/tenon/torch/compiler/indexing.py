"""Operators of PyTorch that read or write elements by index."""
import math

import numpy as np
import torch

from .calls import Tensor, aten, cast, core, count_of, named, row

_END = np.iinfo(np.int64).max


# ---- along one axis ----

@row(aten.embedding.default)
def embedding(c, weight, indices, padding=-1, scale=False, sparse=False):
    return core.gather(weight.value, indices.value, axis=0)


def _row_of(c, x):
    """A tensor without axes as one of one element."""
    return x if x.rank else Tensor(core.unsqueeze(x.value, c.ints([0])), x.dtype, (1,))


@row(aten.index_select.default)
def index_select(c, x, axis, indices):
    made = core.gather(_row_of(c, x).value, _row_of(c, indices).value, axis=c.axis(axis, x.rank))
    return made if x.rank else core.squeeze(made, c.ints([0]))


@row(aten.gather.default)
def gather(c, x, axis, indices, *, sparse_grad=False):
    if 0 in c.shape:
        return c.filled(0)
    made = core.gather_elements(_row_of(c, x).value, _row_of(c, indices).value, axis=c.axis(axis, x.rank))
    return made if indices.rank else core.squeeze(made, c.ints([0]))


_REDUCTIONS = {"add": "add", "sum": "add", "mean": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}



_OF_BITS = {"add": "max", "max": "max", "mul": "min", "min": "min"}


def _written(c, node, x, places, updates, reduction, **named):
    """x with updates at places, by scatter_elements or scatter_nd; both are values of the dtype of x."""
    if x.dtype != torch.bool or reduction == "none":
        return node(x.value, places, updates, reduction=reduction, **named)
    bits = [cast(v, torch.bool, torch.uint8) for v in (x.value, updates)]
    made = node(bits[0], places, bits[1], reduction=_OF_BITS[reduction], **named)
    return cast(made, torch.uint8, torch.bool)


def _scattered(c, x, axis, indices, source, reduction):
    if 0 in indices.shape:
        return core.identity(x.value)
    axis, shape = c.axis(axis, x.rank), indices.shape
    whole, places = _row_of(c, x), _row_of(c, indices)
    if isinstance(source, Tensor):
        source = _row_of(c, source)
        updates = c.value(source, x.dtype)
        for a, (have, want) in enumerate(zip(source.shape, places.shape)):
            if have is not want and not (isinstance(have, int) and have == want):
                updates = core.slice(updates, c.ints([0]), c.ints([want]), c.ints([a]))
    else:
        updates = c.filled(source, x.dtype, places.shape)
    made = _written(c, core.scatter_elements, whole, places.value, updates, reduction, axis=axis)
    return made if x.rank else core.squeeze(made, c.ints([0]))


@row(aten.scatter.src, aten.scatter.value)
def scatter(c, x, axis, indices, source):
    return _scattered(c, x, axis, indices, source, "none")


@row(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_by(c, x, axis, indices, source, *, reduce):
    return _scattered(c, x, axis, indices, source, _REDUCTIONS[reduce])


@row(aten.scatter_add.default)
def scatter_add(c, x, axis, indices, source):
    return _scattered(c, x, axis, indices, source, "add")


def _neutral(dtype, reduction):
    """The number that a reduction starts from."""
    if reduction in ("amax", "amin"):
        if dtype.is_floating_point:
            return -math.inf if reduction == "amax" else math.inf
        if dtype == torch.bool:
            return reduction == "amin"
        return torch.iinfo(dtype).min if reduction == "amax" else torch.iinfo(dtype).max
    return 1 if reduction == "prod" else 0


def _mean_of(c, total, count, dtype):
    """total / count, for integers rounded down."""
    if dtype.is_floating_point:
        return core.div(total, count)
    return core.div(core.sub(total, core.mod(total, count)), count)


@row(aten.scatter_reduce.two)
def scatter_reduce(c, x, axis, indices, source, reduce, *, include_self=True):
    if 0 in indices.shape:
        return core.identity(x.value)

    def written(into, value, reduction):
        return Tensor(_scattered(c, into, axis, indices, value, reduction), into.dtype, into.shape)
    start = x if include_self else written(x, _neutral(x.dtype, reduce), "none")
    total = written(start, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return total.value
    counts = written(Tensor(c.filled(1, x.dtype, x.shape), x.dtype, x.shape), 1 if include_self else 0, "add" if include_self else "none")
    if not include_self:
        counts = written(counts, 1, "add")
    return _mean_of(c, total.value, counts.value, x.dtype)


@row(aten.index_reduce.default)
def index_reduce(c, x, axis, indices, source, reduce, *, include_self=True):
    """The slices of source are scattered as elements whose indices are repeated along the other axes."""
    if x.rank == 0:
        x, source = _row_of(c, x), _row_of(c, source)
        return core.squeeze(index_reduce(c, x, 0, indices, source, reduce, include_self=include_self), c.ints([0]))
    axis = c.axis(axis, x.rank)
    sides = [1] * x.rank
    sides[axis] = _row_of(c, indices).shape[0]
    places = c.expanded(c.reshaped(c.value(indices, torch.int64), sides), source.shape)
    return scatter_reduce(c, x, axis, Tensor(places, torch.int64, source.shape), source, reduce, include_self=include_self)


# ---- by tuples of indices ----

def _index_tensors(c, indices):
    """The axes that are indexed, and their index tensors: masks are refused, since the shape of the result depends on their elements."""
    found = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    for _, index in found:
        if index.dtype in (torch.bool, torch.uint8):
            c.refuse("an index that is a mask: the shape of the result depends on its elements")
    return found


def _positions(c, found):
    """The index tensors, broadcast and side by side on the last axis; negative indices count from the end."""
    shape = torch.broadcast_shapes(*(index.shape for _, index in found)) if len(found) > 1 else found[0][1].shape
    columns = []
    for _, index in found:
        at = c.value(index, torch.int64)
        at = c.expanded(at, shape) if tuple(index.shape) != tuple(shape) else at
        columns.append(core.unsqueeze(at, c.ints([len(shape)])))
    return (columns[0] if len(columns) == 1 else core.concat(columns, axis=len(shape))), shape


def _in_front(x, axes):
    """x with these axes in front, and the order that does it."""
    order = axes + [i for i in range(x.rank) if i not in axes]
    return (x.value if order == list(range(x.rank)) else core.transpose(x.value, perm=order)), order


@row(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(c, x, indices):
    found = _index_tensors(c, indices)
    if not found:
        return core.identity(x.value)
    axes = [axis for axis, _ in found]
    if len(found) == 1:
        axis, at = found[0]
        return core.gather(x.value, c.value(at, torch.int64), axis=axis)
    if any(isinstance(e, int) and e == 0 for e in c.shape):
        return c.filled(0)
    value, _ = _in_front(x, axes)
    positions, shape = _positions(c, found)
    made = core.gather_nd(value, positions)
    is_adjacent = axes == list(range(axes[0], axes[-1] + 1))
    if not is_adjacent or axes[0] == 0:
        return made
    count, first = len(shape), axes[0]  # the indexed axes stand where the first of them was
    perm = [*range(count, count + first), *range(count), *range(count + first, count + x.rank - len(axes))]
    return core.transpose(made, perm=perm)


def _masked(c, x, indices, values, accumulate):
    """x[mask] = values as a choice for each element, where the values are the same for all true elements; otherwise None."""
    found = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(found) != 1 or found[0][1].dtype != torch.bool or accumulate:
        return None
    axis, mask = found[0]
    rest = x.rank - axis - mask.rank
    if axis and values.rank > rest or values.rank > rest and any(e != 1 for e in values.shape):
        return None
    wide = c.reshaped(mask.value, list(mask.shape) + [1] * rest)
    added = c.value(values, x.dtype)
    return core.where(wide, added if values.rank <= rest else c.reshaped(added, []), x.value)


@row(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(c, x, indices, values, accumulate=False):
    masked = _masked(c, x, indices, values, accumulate)
    if masked is not None:
        return masked
    found = _index_tensors(c, indices)
    axes = [axis for axis, _ in found]
    if not axes:
        c.refuse("no axis is indexed")
    if any(0 in index.shape for _, index in found):
        return core.identity(x.value)
    value, order = _in_front(x, axes)
    rest = order[len(axes):]
    positions, shape = _positions(c, found)
    is_adjacent = axes == list(range(axes[0], axes[-1] + 1))
    first = axes[0] if is_adjacent else 0
    full = [x.shape[i] for i in rest[:first]] + list(shape) + [x.shape[i] for i in rest[first:]]
    updates = c.expanded(c.value(values, x.dtype), full)
    if first:
        count = len(shape)
        perm = [*range(first, first + count), *range(first), *range(first + count, len(full))]
        updates = core.transpose(updates, perm=perm)
    front = Tensor(value, x.dtype, [x.shape[i] for i in order])
    made = _written(c, core.scatter_nd, front, positions, updates, "add" if accumulate else "none")
    if order == list(range(x.rank)):
        return made
    return core.transpose(made, perm=[order.index(i) for i in range(x.rank)])


# ---- on all elements in a row ----

def _flat(c, x, dtype=None):
    return core.reshape(c.value(x, dtype), c.ints([-1]))


def _column(c, value):
    """A vector of positions as tuples of one index."""
    return core.unsqueeze(value, c.ints([1]))


@row(aten.take.default)
def take(c, x, indices):
    return core.gather(_flat(c, x), indices.value, axis=0) if 0 not in c.shape else c.filled(0)


@row(aten.put.default)
def put(c, x, indices, source, accumulate=False):
    if 0 in indices.shape:
        return core.identity(x.value)
    flat = Tensor(_flat(c, x), x.dtype, (count_of(x.shape),))
    places = _column(c, _flat(c, indices, torch.int64))
    made = _written(c, core.scatter_nd, flat, places, _flat(c, source, x.dtype), "add" if accumulate else "none")
    return c.reshaped(made, x.shape)


def _ranks_of_true(c, mask):
    """For each element of a vector of bools how many true elements precede it."""
    return core.cum_sum(cast(mask, torch.bool, torch.int64), c.number(0, torch.int64), exclusive=True)


@row(aten.masked_scatter.default)
def masked_scatter(c, x, mask, source):
    if 0 in c.shape or 0 in source.shape:
        return c.expanded(x.value, c.shape)
    chosen = _flat(c, Tensor(c.expanded(mask.value, c.shape), torch.bool, c.shape))
    last = c.value(count_of(source.shape) - 1, torch.int64)
    at = core.min(_ranks_of_true(c, chosen), last)
    kept = core.reshape(c.expanded(x.value, c.shape), c.ints([-1]))
    return c.reshaped(core.where(chosen, core.gather(_flat(c, source), at, axis=0), kept), c.shape)


@row(aten.masked_scatter_backward.default)
def masked_scatter_backward(c, grad, mask, sizes):
    """The gradients of the chosen elements in a row; the others go to an element past the end."""
    count = count_of(sizes)
    if not isinstance(count, int):
        c.refuse("the number of elements is a symbol")
    if 0 in grad.shape or count == 0:
        return c.filled(0)
    chosen = _flat(c, Tensor(c.expanded(mask.value, grad.shape), torch.bool, grad.shape))
    past = c.number(count, torch.int64)
    at = core.min(core.where(chosen, _ranks_of_true(c, chosen), past), past)
    made = core.scatter_nd(c.filled(0, c.dtype, [count + 1]), _column(c, at), _flat(c, grad, c.dtype))
    return c.reshaped(core.slice(made, c.ints([0]), c.ints([count]), c.ints([0])), c.shape)


@row(aten.nonzero_static.default)
def nonzero_static(c, x, *, size, fill_value=-1):
    """The position of each element that is not zero goes to the place that its rank gives; the others go past the end."""
    if any(not isinstance(e, int) for e in (size, *x.shape)):
        c.refuse("an extent is a symbol")
    count = count_of(x.shape)
    if size == 0 or count == 0 or x.rank == 0:
        return c.filled(fill_value)
    chosen, past = _flat(c, x, torch.bool), c.number(size, torch.int64)
    at = core.min(core.where(chosen, _ranks_of_true(c, chosen), past), past)
    places = np.stack(np.unravel_index(np.arange(count), [int(e) for e in x.shape]), axis=1).astype(np.int64)
    start = c.filled(fill_value, torch.int64, [size + 1, x.rank])
    made = core.scatter_nd(start, _column(c, at), c.scope.constant(places))
    return core.slice(made, c.ints([0]), c.ints([size]), c.ints([0]))


@row(aten.nonzero.default)
def nonzero(c, x):
    return core.transpose(core.nonzero(x.value))


@row(aten.embedding_dense_backward.default)
def embedding_dense_backward(c, grad, indices, count, padding, scale):
    if scale:
        c.refuse("scale_grad_by_freq")
    width = grad.shape[-1]
    zeros = c.filled(0, grad.dtype, [count, width])
    if 0 in grad.shape:
        return zeros
    flat, at = c.reshaped(grad.value, [count_of(indices.shape), width]), _flat(c, indices, torch.int64)
    if padding >= 0:
        kept = core.not_equal(at, c.number(padding, torch.int64))
        flat = core.where(core.unsqueeze(kept, c.ints([1])), flat, c.number(0, grad.dtype))
    return core.scatter_nd(zeros, _column(c, at), flat, reduction="add")


# ---- parts of a tensor ----

@row(aten.copy.default)
def copy(c, x, source, non_blocking=False):
    return c.expanded(c.value(source, c.dtype), c.shape) if source.rank < x.rank or source.shape != x.shape else c.value(source, c.dtype)


def _replaced(c, x, source, axis, start, count):
    """x with `count` slices from `start` on replaced; the numbers may be symbols."""
    value, at = x.value, c.ints([axis])
    before = core.slice(value, c.ints([0]), c.ints([start]), at)
    after = core.slice(value, c.ints([start + count]), c.ints([_END]), at)
    return core.concat([before, source, after], axis=axis)


@row(aten.slice_scatter.default)
def slice_scatter(c, x, source, axis=0, start=None, end=None, step=1):
    axis = c.axis(axis, x.rank)
    extent, updates = x.shape[axis], c.value(source, x.dtype)
    start, end = 0 if start is None else start, extent if end is None else end
    if not all(isinstance(v, int) for v in (extent, start, end, step)):
        if step != 1:
            c.refuse("it writes to every second element, or less, of an extent that is a symbol")
        start = start if not isinstance(start, int) or start >= 0 else start + extent
        return _replaced(c, x, updates, axis, start, source.shape[axis])
    start, end, step = slice(start, end, step).indices(extent)
    if end <= start:
        return core.identity(x.value)
    wide = list(x.shape)
    wide[axis] = len(range(start, end, step))
    updates = updates if list(source.shape) == wide else c.expanded(updates, wide)
    if step != 1:
        places = core.unsqueeze(c.ints(range(start, end, step)), c.ints([1]))
        moved = [axis, *(i for i in range(x.rank) if i != axis)]
        back = [moved.index(i) for i in range(x.rank)]
        made = core.scatter_nd(core.transpose(x.value, perm=moved), places, core.transpose(updates, perm=moved))
        return core.transpose(made, perm=back)
    at = c.ints([axis])
    parts = [core.slice(x.value, c.ints([0]), c.ints([start]), at)] if start else []
    parts.append(updates)
    if end < extent:
        parts.append(core.slice(x.value, c.ints([end]), c.ints([extent]), at))
    return core.concat(parts, axis=axis) if len(parts) > 1 else core.identity(parts[0])


@row(aten.select_scatter.default)
def select_scatter(c, x, source, axis, at):
    axis = c.axis(axis, x.rank)
    if not isinstance(at, int):
        c.refuse("the index is a symbol")
    wide = Tensor(core.unsqueeze(source.value, c.ints([axis])), source.dtype, [*source.shape[:axis], 1, *source.shape[axis:]])
    return slice_scatter(c, x, wide, axis, at, None if at == -1 else at + 1)


@row(aten.diagonal_scatter.default)
def diagonal_scatter(c, x, source, offset=0, axis1=0, axis2=1):
    """The two axes of the diagonal come first, so that pairs of indices reach its elements."""
    a, b = c.axis(axis1, x.rank), c.axis(axis2, x.rank)
    length = source.shape[-1]
    if not isinstance(length, int):
        c.refuse("the length of the diagonal is a symbol")
    if 0 in source.shape:
        return core.identity(x.value)
    value, order = _in_front(x, [a, b])
    at = np.arange(length)[:, None] + np.array([[max(-offset, 0), max(offset, 0)]])
    updates = c.value(source, x.dtype)
    if source.rank > 1:
        updates = core.transpose(updates, perm=[source.rank - 1, *range(source.rank - 1)])
    made = core.scatter_nd(value, c.scope.constant(at.astype(np.int64)), updates)
    return core.transpose(made, perm=[order.index(i) for i in range(x.rank)])


def _places(c, number, shape, strides, offset):
    """The positions in memory of the elements of a view.  number: which argument of the node the view is of."""
    fake = c.node.args[number].meta["val"]
    if any(not isinstance(v, int) for v in (*fake.shape, *shape, *strides, offset or 0)):
        c.refuse("a view whose extents or strides are symbols")
    if not fake.is_contiguous() or fake.storage_offset() != 0:
        c.refuse("a view of memory that is not row-major")
    offset = 0 if offset is None else offset
    places = torch.full(shape, offset, dtype=torch.int64)
    for axis, stride in enumerate(strides):
        sides = [1] * len(shape)
        sides[axis] = shape[axis]
        places = places + torch.arange(shape[axis]).reshape(sides) * stride
    if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < count_of(fake.shape):
        c.refuse("a view that reaches beyond its tensor")
    return places


@row(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(c, x, shape, strides, offset=None):
    """The elements of row-major memory that the strides reach."""
    places = _places(c, 0, shape, strides, offset)
    if 0 in c.shape:
        return c.filled(0)
    return core.gather(_flat(c, x), c.scope.constant(places), axis=0)


@row(aten.as_strided_scatter.default)
def as_strided_scatter(c, x, source, shape, strides, offset=None):
    places = _places(c, 0, shape, strides, offset)
    if places.numel() == 0:
        return core.identity(x.value)
    at = c.scope.constant(places.reshape(-1, 1))
    return c.reshaped(core.scatter_nd(_flat(c, x), at, _flat(c, source, x.dtype)), x.shape)


@row(aten.unfold.default, aten.unfold_copy.default)
def unfold(c, x, axis, size, step):
    """Windows along an axis: gathered as a matrix of positions, whose columns become the last axis."""
    if x.rank == 0:
        return c.reshaped(x.value, c.shape)
    axis = c.axis(axis, x.rank)
    count = c.shape[axis]
    if not isinstance(count, int):
        c.refuse("the number of windows is a symbol")
    if 0 in c.shape:
        return c.filled(0)
    at = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    made = core.gather(x.value, c.scope.constant(at.astype(np.int64)), axis=axis)
    if axis == x.rank - 1:
        return made
    return core.transpose(made, perm=[*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1])


# ---- searches ----

def _steps(extent):
    return max(int(extent).bit_length(), 1)


@row(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(c, ordered, sought, *, out_int32=False, right=False, side=None, sorter=None):
    """Halves the range of each sought number until it is one position; all rows at once."""
    extent = ordered.shape[-1]
    if not isinstance(extent, int):
        c.refuse("the number of ordered elements is a symbol")
    right = right if side is None else side == "right"
    shape = c.shape
    if extent == 0 or 0 in shape:
        return c.filled(0)
    dtype = c.promoted(ordered, sought)
    is_vector = ordered.rank == 1
    boundaries = c.value(ordered, dtype)
    if sorter is not None:
        boundaries = core.gather_elements(boundaries, sorter.value, axis=ordered.rank - 1)
    number = core.cast(c.value(sought, dtype), to=c.name_of(dtype))
    number = number if shape else core.reshape(number, c.ints([1]))
    shape = shape or (1,)
    low, high = c.filled(0, torch.int64, shape), c.filled(extent, torch.int64, shape)
    last, one, two = c.number(extent - 1, torch.int64), c.number(1, torch.int64), c.number(2, torch.int64)
    for _ in range(_steps(extent)):
        middle = core.div(core.add(low, high), two)
        at = core.min(middle, last)
        found = core.gather(boundaries, at, axis=0) if is_vector else core.gather_elements(boundaries, at, axis=ordered.rank - 1)
        is_after = _is_before(c, found, number, dtype, right)
        is_open = core.less(low, high)
        take = named("and")(is_after, is_open)
        low, high = core.where(take, core.add(middle, one), low), core.where(is_after, high, middle)
    made = c.reshaped(low, c.shape)
    return core.cast(made, to="i32") if c.dtype == torch.int32 else made


@row(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(c, sought, boundaries, *, out_int32=False, right=False):
    return searchsorted(c, boundaries, sought, right=right)


def _is_before(c, found, number, dtype, right):
    """Whether the sought position lies after the element that was found; NaN counts as the largest number."""
    if not right:
        made = core.less(found, number)
        if dtype.is_floating_point:
            made = named("or")(made, named("and")(core.is_nan(number), named("not")(core.is_nan(found))))
        return made
    made = core.less_equal(found, number)
    return named("or")(made, core.is_nan(number)) if dtype.is_floating_point else made
