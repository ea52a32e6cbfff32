"""Operations of TensorFlow that change shapes, or move elements, and those that make tensors."""
import numpy as np

from .calls import row
from .matrices import Product
from .tensors import core, last_to_second

_END = np.iinfo(np.int64).max


# ---- extents ----


@row("Shape", "ShapeN")
def shape(call):
    made = []
    for i, output in enumerate(call.op.outputs):
        extents = call.shape(i)
        if extents is not None and None not in extents:
            made.append(call.constant(np.array(extents, output.dtype.as_numpy_dtype)))
        else:
            made.append(call.given(core.cast(core.shape(call.value(i)), to="i64" if output.dtype.name == "int64" else "i32")))
    return made


@row("Size")
def size(call):
    return call.given(core.cast(core.size(call.value(0)), to="i64" if call.op.outputs[0].dtype.name == "int64" else "i32"))


@row("Rank")
def rank(call):
    return call.constant(np.array(call.rank(), np.int32))


@row("Reshape")
def reshape(call):
    x, shape = call.tensor(0), _stated_shape(call, 1)
    if isinstance(x, Product) and call.is_last_use():
        made = x.reshaped(shape, call.result_shape())
        if made is not None:
            return made
    return call.given(core.reshape(x.plain(), shape))


def _stated_shape(call, i):
    """The shape that an operation states for its result: with at most one extent that is left to be computed, or as a vector."""
    known = call.result_shape()
    if known is None or known.count(None) > 1 or 0 in known:
        known = call.shape_vector(i)
        known = None if known is None else [None if e == -1 else e for e in known]
    if known is not None and known.count(None) <= 1 and 0 not in known:
        return call.scope.ints([-1 if e is None else e for e in known])
    return call.ints(i)


@row("Squeeze")
def squeeze(call):
    axes = [call.axis(a) for a in call.attr("squeeze_dims")]
    if not axes:
        extents = call.shape(0)
        if extents is None or None in extents:
            call.refuse("it removes the axes with the extent 1, but not all extents are known: state the axes")
        axes = [i for i, e in enumerate(extents) if e == 1]
    return call.given(core.squeeze(call.value(0), call.scope.ints(axes)) if axes else call.value(0))


@row("ExpandDims")
def expand_dims(call):
    axis = int(call.array(1, "the axis").reshape(-1)[0])
    return call.given(core.unsqueeze(call.value(0), call.scope.ints([call.axis(axis, call.rank() + 1)])))


@row("BroadcastTo")
def broadcast_to(call):
    return call.given(core.expand(call.value(0), call.ints(1)))


@row("Fill")
def fill(call):
    number = call.tensor(1)
    if number.array is not None:  # a dense tensor: products of views with the stride 0 are slow
        return call.given(core.constant_of_shape(call.ints(0), value=number.array.reshape(1)))
    return call.given(core.expand(number.plain(), call.ints(0)))


@row("Range")
def arange(call):
    return call.given(core.range(*call.values()))


# ---- moving ----


@row("Transpose")
def transpose(call):
    perm = [int(p) for p in call.array(1, "the order of the axes")]
    x = call.tensor(0)
    if perm == sorted(perm):
        return x
    if x.is_planar and perm == last_to_second(len(perm)):
        return call.given(x.planar())
    return call.given(core.transpose(x.plain(), perm=perm))


@row("ConcatV2", "Concat")
def concat(call):
    last = len(call.inputs) - 1
    at = last if call.op.type == "ConcatV2" else 0
    tensors = [call.tensor(i) for i in range(last + 1) if i != at]
    rank = call.rank(0 if at else 1)
    axis = call.axis(int(call.array(at, "the axis")), rank)
    if rank > 2 and any(t.is_planar for t in tensors):
        return call.planar(core.concat([t.planar(rank) for t in tensors], axis=last_to_second(rank).index(axis)))
    return call.given(core.concat([t.plain() for t in tensors], axis=axis))


@row("Pack")
def pack(call):
    rank = call.rank() + 1
    axis = call.axis(call.attr("axis"), rank)
    return call.given(core.concat([core.unsqueeze(v, call.scope.ints([axis])) for v in call.values()], axis=axis))


@row("Unpack")
def unpack(call):
    axis, count = call.axis(call.attr("axis")), len(call.op.outputs)
    parts = core.split(call.value(0), axis=axis, count=count) if count > 1 else [call.value(0)]
    return [call.given(core.squeeze(part, call.scope.ints([axis]))) for part in parts]


@row("Split")
def split(call):
    axis, count = call.axis(int(call.array(0, "the axis")), call.rank(1)), len(call.op.outputs)
    if count == 1:
        return call.inputs[1]
    x = call.tensor(1)
    if x.is_planar:
        parts = core.split(x.planar(), axis=last_to_second(x.rank).index(axis), count=count)
        return [call.planar(part) for part in parts]
    return [call.given(part) for part in core.split(x.plain(), axis=axis, count=count)]


@row("SplitV")
def split_v(call):
    axis, count = call.axis(int(call.array(2, "the axis"))), len(call.op.outputs)
    sizes = [int(s) for s in call.array(1, "the sizes of the parts")]
    if -1 in sizes:
        extents = call.shape(0)
        if extents is None or extents[axis] is None:
            call.refuse("one of the sizes is to be computed from an extent that is not known: state all sizes")
        sizes[sizes.index(-1)] = extents[axis] - sum(s for s in sizes if s != -1)
    if count == 1:
        return call.inputs[0]
    return [call.given(part) for part in core.split(call.value(0), call.scope.ints(sizes), axis=axis, count=count)]


@row("Tile")
def tile(call):
    return call.given(core.tile(call.value(0), call.ints(1)))


@row("ReverseV2")
def reverse(call):
    axes = [call.axis(int(a)) for a in call.array(1, "the axes")]
    x = call.value(0)
    if not axes:
        return call.given(x)
    sides = [[value] * len(axes) for value in (-1, -_END, -1)]
    starts, ends, steps = (call.scope.ints(side) for side in sides)
    return call.given(core.slice(x, starts, ends, call.scope.ints(axes), steps))


@row("Pad", "PadV2", "MirrorPad")
def pad(call):
    x, pairs = call.tensor(0), call.tensor(1)
    mode = "constant"
    if call.op.type == "MirrorPad":
        mode = call.attr("mode").lower()
        if mode == "symmetric":
            return _pad_symmetric(call, call.array(1, "the paddings"))
    more = [call.value(2)] if call.op.type == "PadV2" else []
    if pairs.array is None:
        return call.given(core.pad(x.plain(), core.reshape(core.transpose(call.ints(1)), call.scope.ints([-1])), *more, mode=mode))
    if x.is_planar:
        order = last_to_second(x.rank)
        return call.planar(core.pad(x.planar(), call.scope.ints(pairs.array[order].T.reshape(-1)), *more, mode=mode))
    return call.given(core.pad(x.plain(), call.scope.ints(pairs.array.T.reshape(-1)), *more, mode=mode))


def _pad_symmetric(call, pairs):
    """Repeats the elements at the border, which core::pad does not do for more than one: each side is a mirrored slice."""
    x = call.value(0)
    for axis, (low, high) in enumerate(pairs.tolist()):
        ints, axes = call.scope.ints, call.scope.ints([axis])
        parts = [core.slice(x, ints([low - 1]), ints([-_END]), axes, ints([-1]))] if low else []
        parts += [x] + ([core.slice(x, ints([-1]), ints([-high - 1]), axes, ints([-1]))] if high else [])
        x = core.concat(parts, axis=axis) if len(parts) > 1 else x
    return call.given(x)


@row("SpaceToDepth", "DepthToSpace")
def between_space_and_depth(call):
    if call.attr("data_format") != "NHWC":
        call.refuse("only data_format='NHWC' is supported: transpose the input")
    node = core.space_to_depth if call.op.type == "SpaceToDepth" else core.depth_to_space
    return call.planar(node(call.tensor(0).planar(), block=call.attr("block_size")))


@row("SpaceToBatchND")
def space_to_batch(call):
    x, blocks, pads = call.value(0), call.array(1, "the block shape"), call.array(2, "the paddings")
    extents, count = call.shape(0), len(blocks)
    pairs = [[0, 0], *pads.tolist()] + [[0, 0]] * (call.rank() - count - 1)
    padded = [None if e is None else e + sum(p) for e, p in zip(extents, pairs)]
    if None in padded[1:]:
        call.refuse("all extents but the batch must be known: state the shapes of the inputs")
    x = core.pad(x, call.scope.ints(np.array(pairs).T.reshape(-1)))
    inner = [v for e, b in zip(padded[1:count + 1], blocks) for v in (e // int(b), int(b))]
    x = core.reshape(x, call.scope.ints([-1, *inner, *padded[count + 1:]]))
    rank = 1 + 2 * count + len(padded) - count - 1
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, rank)]
    return call.given(core.reshape(core.transpose(x, perm=perm), call.scope.ints([-1, *inner[::2], *padded[count + 1:]])))


@row("BatchToSpaceND")
def batch_to_space(call):
    x, blocks, crops = call.value(0), [int(b) for b in call.array(1, "the block shape")], call.array(2, "the crops")
    extents, count = call.shape(0), len(blocks)
    if None in extents[1:]:
        call.refuse("all extents but the batch must be known: state the shapes of the inputs")
    rank = call.rank()
    x = core.reshape(x, call.scope.ints([*blocks, -1, *extents[1:]]))
    pairs = [v for i in range(count) for v in (count + 1 + i, i)]
    x = core.transpose(x, perm=[count, *pairs, *range(2 * count + 1, count + rank)])
    full = [e * b for e, b in zip(extents[1:], blocks)]
    x = core.reshape(x, call.scope.ints([-1, *full, *extents[count + 1:]]))
    starts, ends = crops[:, 0].tolist(), [e - int(c) for e, c in zip(full, crops[:, 1])]
    return call.given(core.slice(x, *(call.scope.ints(list(v)) for v in (starts, ends, range(1, count + 1)))))
