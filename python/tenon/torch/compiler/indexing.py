"""Operators of PyTorch that read or write elements by index."""
import torch

from .calls import Tensor, aten, core, named, row


@row(aten.embedding.default)
def embedding(c, weight, indices, *unused, **also_unused):
    return core.gather(weight.value, indices.value, axis=0)


@row(aten.index_select.default)
def index_select(c, x, axis, indices):
    if x.rank == 0:
        return core.identity(x.value)
    at = indices.value if indices.rank else core.unsqueeze(indices.value, c.ints([0]))
    return core.gather(x.value, at, axis=c.axis(axis, x.rank))


@row(aten.gather.default)
def gather(c, x, axis, indices, *, sparse_grad=False):
    if x.rank == 0 or indices.rank == 0:
        c.refuse("gather from a tensor without axes")
    return core.gather_elements(x.value, indices.value, axis=c.axis(axis, x.rank))


@row(aten.scatter.src, aten.scatter.value)
def scatter(c, x, axis, indices, source):
    return _scattered(c, x, axis, indices, source, "none")


@row(aten.scatter_add.default)
def scatter_add(c, x, axis, indices, source):
    return _scattered(c, x, axis, indices, source, "add")


def _scattered(c, x, axis, indices, source, reduction):
    if x.rank == 0 or indices.rank == 0:
        c.refuse("scatter into a tensor without axes")
    if isinstance(source, Tensor):
        updates = source.value
        for a, (have, want) in enumerate(zip(source.shape, indices.shape)):
            if have is not want and not (isinstance(have, int) and have == want):
                updates = core.slice(updates, c.ints([0]), c.ints([want]), c.ints([a]))
    else:
        updates = c.filled(source, x.dtype, indices.shape)
    return core.scatter_elements(x.value, indices.value, updates, axis=c.axis(axis, x.rank), reduction=reduction)


def _index_tensors(c, x, indices):
    """The axes that are indexed, and their index tensors: masks are refused, since the shape of the result depends on their elements."""
    found = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    for _, index in found:
        if index.dtype in (torch.bool, torch.uint8):
            c.refuse("an index that is a mask: the shape of the result depends on its elements")
    return found


def _positions(c, x, found):
    """The index tensors, broadcast and side by side on the last axis; negative indices count from the end."""
    shape = torch.broadcast_shapes(*(index.shape for _, index in found)) if len(found) > 1 else found[0][1].shape
    columns = []
    for axis, index in found:
        at = c.value(index, torch.int64)
        at = c.expanded(at, shape) if len(found) > 1 and tuple(index.shape) != tuple(shape) else at
        columns.append(core.unsqueeze(at, c.ints([len(shape)])))
    return (columns[0] if len(columns) == 1 else core.concat(columns, axis=len(shape))), shape


@row(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(c, x, indices):
    found = _index_tensors(c, x, indices)
    axes = [axis for axis, _ in found]
    if len(found) == 1:
        axis, at = found[0]
        return core.gather(x.value, c.value(at, torch.int64), axis=axis)
    order = axes + [i for i in range(x.rank) if i not in axes]
    value = x.value if order == list(range(x.rank)) else core.transpose(x.value, perm=order)
    positions, shape = _positions(c, x, found)
    made = core.gather_nd(value, positions)
    is_adjacent = axes == list(range(axes[0], axes[-1] + 1))
    if not is_adjacent or axes[0] == 0:
        return made
    count, first = len(shape), axes[0]  # the indexed axes stand where the first of them was
    perm = [*range(count, count + first), *range(count), *range(count + first, count + x.rank - len(axes))]
    return core.transpose(made, perm=perm)


@row(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(c, x, indices, values, accumulate=False):
    if len([i for i in indices if i is not None]) == 1 and _is_mask(indices) and values.rank == 0 and not accumulate:
        mask = next(i for i in indices if i is not None)
        first = next(a for a, i in enumerate(indices) if i is not None)
        if first == 0:
            wide = c.reshaped(mask.value, list(mask.shape) + [1] * (x.rank - mask.rank))
            return core.where(wide, c.value(values, x.dtype), x.value)
    found = _index_tensors(c, x, indices)
    axes = [axis for axis, _ in found]
    if not axes:
        c.refuse("no axis is indexed")
    rest = [i for i in range(x.rank) if i not in axes]
    order = axes + rest
    value = x.value if order == list(range(x.rank)) else core.transpose(x.value, perm=order)
    positions, shape = _positions(c, x, found)
    is_adjacent = axes == list(range(axes[0], axes[-1] + 1))
    first = axes[0] if is_adjacent else 0
    full = [x.shape[i] for i in rest[:first]] + list(shape) + [x.shape[i] for i in rest[first:]]
    updates = c.expanded(c.value(values, x.dtype), full)
    if first:
        count = len(shape)
        updates = core.transpose(updates, perm=[*range(first, first + count), *range(first), *range(first + count, len(full))])
    made = core.scatter_nd(value, positions, updates, reduction="add" if accumulate else "none")
    if order == list(range(x.rank)):
        return made
    return core.transpose(made, perm=[order.index(i) for i in range(x.rank)])


def _is_mask(indices):
    return any(i is not None and i.dtype == torch.bool for i in indices)


def _range_of(c, start, end):
    return core.range(c.value(start, torch.int64), c.value(end, torch.int64), c.number(1, torch.int64), builder=c.scope.builder)


@row(aten.slice_scatter.default)
def slice_scatter(c, x, source, axis=0, start=None, end=None, step=1):
    axis = c.axis(axis, x.rank)
    extent = x.shape[axis]
    start, end = 0 if start is None else start, extent if end is None else end
    if not all(isinstance(v, int) for v in (extent, start, end, step)):
        if step != 1:
            c.refuse("it writes to every second element, or less, of an extent that is a symbol")
        start = start if not isinstance(start, int) or start >= 0 else start + extent
        value, count, at = x.value, source.shape[axis], c.ints([axis])
        parts = [core.slice(value, c.ints([0]), c.ints([start]), at), source.value, core.slice(value, c.ints([start + count]), c.ints([(1 << 63) - 1]), at)]
        return core.concat(parts, axis=axis)
    start, end, step = slice(start, end, step).indices(extent)
    if end <= start:
        return core.identity(x.value)
    value, at = x.value, c.ints([axis])
    if step != 1:
        places = [*range(start, end, step)]
        moved = [axis, *(i for i in range(x.rank) if i != axis)]
        back = [moved.index(i) for i in range(x.rank)]
        made = core.scatter_nd(core.transpose(value, perm=moved), core.unsqueeze(c.ints(places), c.ints([1])), core.transpose(c.value(source, x.dtype), perm=moved))
        return core.transpose(made, perm=back)
    parts = [core.slice(value, c.ints([0]), c.ints([start]), at)] if start else []
    parts.append(c.value(source, x.dtype))
    if end < extent:
        parts.append(core.slice(value, c.ints([end]), c.ints([extent]), at))
    return core.concat(parts, axis=axis) if len(parts) > 1 else core.identity(parts[0])


@row(aten.select_scatter.default)
def select_scatter(c, x, source, axis, at):
    axis = c.axis(axis, x.rank)
    if not isinstance(at, int):
        c.refuse("the index is a symbol")
    end = None if at == -1 else at + 1
    return slice_scatter(c, x, Tensor(core.unsqueeze(source.value, c.ints([axis])), source.dtype, [*source.shape[:axis], 1, *source.shape[axis:]]), axis, at, end)


@row(aten.embedding_dense_backward.default)
def embedding_dense_backward(c, grad, indices, count, padding, scale):
    if scale:
        c.refuse("scale_grad_by_freq")
    width = grad.shape[-1]
    zeros = c.filled(0, grad.dtype, [count, width])
    flat, at = c.reshaped(grad.value, [_count(indices.shape), width]), core.reshape(c.value(indices, torch.int64), c.ints([-1]))
    if padding >= 0:
        kept = core.not_equal(at, c.number(padding, torch.int64))
        flat = core.where(core.unsqueeze(kept, c.ints([1])), flat, c.number(0, grad.dtype))
    return core.scatter_nd(zeros, core.unsqueeze(at, c.ints([1])), flat, reduction="add")


def _count(shape):
    count = 1
    for extent in shape:
        count = count * extent
    return count


@row(aten.nonzero.default)
def nonzero(c, x):
    return core.transpose(core.nonzero(x.value))


__all__ = ["named"]
