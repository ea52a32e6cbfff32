"""Slices, gathers, scatters and the like of TensorFlow."""
import numpy as np

from .calls import row
from .tensors import core

_END = np.iinfo(np.int64).max


@row("Slice")
def cut(call):
    begin, size = call.tensor(1), call.tensor(2)
    starts = call.ints(1)
    if size.array is not None and begin.array is not None:
        ends = call.scope.ints([_END if s == -1 else b + s for b, s in zip(begin.array.tolist(), size.array.tolist())])
    elif size.array is not None and (size.array == -1).any():
        sizes = call.scope.ints([_END >> 1 if s == -1 else s for s in size.array.tolist()])
        ends = core.add(starts, sizes)
    else:
        ends = core.add(starts, call.ints(2))
    axes = call.scope.ints(list(range(call.rank())))
    return call.given(core.slice(call.value(0), starts, ends, axes))


class _Cut:
    """What the parts of x[a:b, ..., c] come to: slices of axes, axes that are dropped, and places of new axes."""

    def __init__(self, call):
        self.call, self.starts, self.ends, self.steps, self.axes, self.dropped, self.added = call, [], [], [], [], [], []
        masks = {name: call.attr(name + "_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
        count = call.op.inputs[1].shape[0]
        if count is None:
            call.refuse("the number of its parts is not known")
        self.strides = [int(s) for s in call.array(3, "the strides")]
        used = sum(1 for i in range(count) if not masks["new_axis"] >> i & 1 and not masks["ellipsis"] >> i & 1)
        axis = place = 0
        for i in range(count):
            if masks["ellipsis"] >> i & 1:
                skipped = call.rank() - used
                axis, place = axis + skipped, place + skipped
            elif masks["new_axis"] >> i & 1:
                self.added.append(place)
                place += 1
            else:
                self._part(i, axis, masks)
                place += not masks["shrink_axis"] >> i & 1
                axis += 1

    def _part(self, i, axis, masks):
        step = self.strides[i]
        is_dropped = masks["shrink_axis"] >> i & 1
        has_begin, has_end = not masks["begin"] >> i & 1, not masks["end"] >> i & 1
        if not is_dropped and not has_begin and not has_end and step == 1:
            return
        start = self._bound(1, i) if has_begin or is_dropped else (0 if step > 0 else _END)
        if is_dropped:
            end, step = self._after(start), 1
            self.dropped.append(axis)
        else:
            end = self._bound(2, i) if has_end else (_END if step > 0 else -_END)
        for side, value in zip((self.starts, self.ends, self.steps, self.axes), (start, end, step, axis)):
            side.append(value)

    def _bound(self, operand, i):
        tensor = self.call.tensor(operand)
        if tensor.array is not None:
            return int(tensor.array[i])
        ints = self.call.scope.ints
        return core.slice(self.call.ints(operand), ints([i]), ints([i + 1]), ints([0]))

    def _after(self, start):
        if isinstance(start, int):
            return _END if start == -1 else start + 1
        one = self.call.scope.ints([1])
        after = core.add(start, one)  # of -1 the end, and not 0
        return core.where(core.equal(after, self.call.scope.ints([0])), self.call.scope.ints([_END]), after)

    def vector(self, parts):
        ints = self.call.scope.ints
        if all(isinstance(p, int) for p in parts):
            return ints(parts)
        parts = [ints([p]) if isinstance(p, int) else p for p in parts]
        return core.concat(parts, axis=0) if len(parts) > 1 else parts[0]


@row("StridedSlice")
def strided_slice(call):
    x, of, ints = call.value(0), _Cut(call), call.scope.ints
    if of.axes:
        x = core.slice(x, of.vector(of.starts), of.vector(of.ends), ints(of.axes), ints(of.steps))
    if of.dropped:
        x = core.squeeze(x, ints(of.dropped))
    if of.added:
        x = core.unsqueeze(x, ints(of.added))
    return call.given(x)


@row("GatherV2", "Gather", "ResourceGather")
def gather(call):
    batch, axis = 0, 0
    if call.op.type == "GatherV2":
        batch, axis = call.attr("batch_dims"), call.axis(int(call.array(2, "the axis")))
    elif call.op.type == "ResourceGather":
        batch = call.attr("batch_dims")
        array = call.walk.contents(call, call.inputs[0], call.op.outputs[0].dtype)
        return call.given(core.gather(call.scope.constant(array), call.value(1), axis=0)) if not batch else call.refuse("batch_dims of a variable are not supported")
    x, indices = call.value(0), call.value(1)
    if batch < 0:
        batch += call.rank(1)
    if not batch:
        return call.given(core.gather(x, indices, axis=axis))
    if axis != batch:
        call.refuse(f"batch_dims={batch} and axis={axis} are supported only if they are equal: transpose the input")
    rank = call.rank(1)
    return call.given(core.gather_nd(x, core.cast(core.unsqueeze(indices, call.scope.ints([rank])), to="i64"), batch_dims=batch))


@row("GatherNd")
def gather_nd(call):
    return call.given(core.gather_nd(call.value(0), core.cast(call.value(1), to="i64")))


@row("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")
def scatter(call):
    x, indices, updates = call.value(0), core.cast(call.value(1), to="i64"), call.value(2)
    if call.op.type == "TensorScatterSub":
        updates = core.neg(updates)
    kinds = {"Update": "none", "Add": "add", "Sub": "add", "Min": "min", "Max": "max"}
    return call.given(core.scatter_nd(x, indices, updates, reduction=kinds[call.op.type.removeprefix("TensorScatter")]))


@row("ScatterNd")
def scatter_nd(call):
    updates = call.value(1)
    zeros = core.expand(call.scope.like(0, updates), call.ints(2))
    return call.given(core.scatter_nd(zeros, core.cast(call.value(0), to="i64"), updates, reduction="add"))


@row("OneHot")
def one_hot(call):
    on, off, ints = call.value(2), call.value(3), call.scope.ints
    values = core.concat([core.reshape(v, ints([1])) for v in (off, on)], axis=0)
    return call.given(core.one_hot(call.value(0), call.ints(1), values, axis=call.attr("axis")))


@row("MatrixBandPart")
def band_part(call):
    x = call.value(0)
    low, high = (int(call.array(i, "the number of diagonals")) for i in (1, 2))
    if low >= 0:
        x = core.trilu(x, call.scope.ints(-low), upper=True)
    if high >= 0:
        x = core.trilu(x, call.scope.ints(high), upper=False)
    return call.given(x)


@row("TopKV2")
def top_k(call):
    values, indices = core.top_k(call.value(0), core.reshape(call.ints(1), call.scope.ints([1])))
    return [call.given(values), call.given(core.cast(indices, to="i32" if call.op.outputs[1].dtype.name == "int32" else "i64"))]
