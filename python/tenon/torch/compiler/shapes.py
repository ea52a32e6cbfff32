"""Operators of PyTorch that change shapes, join or cut tensors, and those that make tensors."""
import numpy as np
import torch

from .calls import aten, cast, core, count_of, prims, row

_END = np.iinfo(np.int64).max


@row(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.view_copy.default, aten._reshape_alias.default, aten._reshape_copy.default)
def reshape(c, x, shape, strides=None):
    return c.reshaped(x.value, c.shape)


@row(aten.flatten.using_ints)
def flatten(c, x, start=0, end=-1):
    return c.reshaped(x.value, c.shape)


@row(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze_copy.dim)
def squeeze(c, x, axes=None):
    if x.rank == 0:
        return core.identity(x.value)
    axes = range(x.rank) if axes is None else [axes] if isinstance(axes, int) else axes
    ones = [c.axis(a, x.rank) for a in axes if isinstance(x.shape[a], int) and x.shape[a] == 1]
    return core.squeeze(x.value, c.ints(ones)) if ones else core.identity(x.value)


@row(aten.unsqueeze.default, aten.unsqueeze_copy.default)
def unsqueeze(c, x, axis):
    return core.unsqueeze(x.value, c.ints([c.axis(axis, x.rank + 1)]))


@row(aten.expand.default, aten.expand_copy.default)
def expand(c, x, shape, implicit=False):
    return c.expanded(x.value, c.shape)


def _is_order(perm):
    return list(perm) == list(range(len(perm)))


@row(aten.permute.default, aten.permute_copy.default)
def permute(c, x, order):
    perm = [c.axis(a, x.rank) for a in order]
    return core.identity(x.value) if _is_order(perm) else core.transpose(x.value, perm=perm)


@row(prims.transpose.default)
def prims_transpose(c, x, order):
    return permute(c, x, order)


@row(aten.transpose.int, aten.transpose_copy.int)
def transpose(c, x, a, b):
    perm = list(range(x.rank))
    a, b = c.axis(a, x.rank), c.axis(b, x.rank)
    if x.rank == 0 or a == b:
        return core.identity(x.value)
    perm[a], perm[b] = b, a
    return core.transpose(x.value, perm=perm)


@row(aten.t.default, aten.t_copy.default, aten.numpy_T.default)
def t(c, x):
    return core.transpose(x.value) if x.rank > 1 else core.identity(x.value)


@row(aten.cat.default)
def cat(c, tensors, axis=0):
    kept = [x for x in tensors if not (x.rank == 1 and isinstance(x.shape[0], int) and x.shape[0] == 0 and len(c.shape) != 1)]
    values = [c.value(x, c.dtype) for x in kept]
    return core.concat(values, axis=c.axis(axis, len(c.shape))) if len(values) > 1 else core.identity(values[0])


@row(aten.stack.default)
def stack(c, tensors, axis=0):
    at = c.ints([c.axis(axis, len(c.shape))])
    return core.concat([core.unsqueeze(c.value(x, c.dtype), at) for x in tensors], axis=c.axis(axis, len(c.shape)))


@row(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(c, x, axis=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, _END if end is None else end
    if isinstance(start, int) and start == 0 and isinstance(end, int) and end == _END and step == 1:
        return core.identity(x.value)
    if not isinstance(step, int):
        c.refuse("the step of a slice is a symbol")
    steps = [] if step == 1 else [c.ints([step])]
    return core.slice(x.value, c.ints([start]), c.ints([end]), c.ints([c.axis(axis, x.rank)]), *steps)


@row(aten.select.int, aten.select_copy.int)
def select(c, x, axis, index):
    axis = c.axis(axis, x.rank)
    if isinstance(index, int):
        end = index + 1 if index != -1 else _END
        return core.squeeze(core.slice(x.value, c.ints([index]), c.ints([end]), c.ints([axis])), c.ints([axis]))
    return core.squeeze(core.gather(x.value, c.ints([index]), axis=axis), c.ints([axis]))


@row(aten.narrow.default, aten.narrow_copy.default)
def narrow(c, x, axis, start, length):
    return slice_(c, x, axis, start, start + length)


def _cut(c, x, sizes, axis):
    if len(sizes) == 1:
        return [core.identity(x.value)]
    return list(core.split(x.value, c.ints(sizes), axis=c.axis(axis, x.rank), count=len(sizes)))


@row(aten.split.Tensor, aten.split_copy.Tensor, aten.split_with_sizes.default, aten.split_with_sizes_copy.default, aten.chunk.default)
def split(c, x, sizes, axis=0):
    return _cut(c, x, [r.shape[c.axis(axis, x.rank)] for r in c.result], axis)


@row(aten.unbind.int, aten.unbind_copy.int)
def unbind(c, x, axis=0):
    axis = c.axis(axis, x.rank)
    return [core.squeeze(part, c.ints([axis])) for part in _cut(c, x, [1] * len(c.result), axis)]


@row(aten.repeat.default)
def repeat(c, x, repeats):
    value = x.value
    if len(repeats) > x.rank:
        value = c.reshaped(value, [1] * (len(repeats) - x.rank) + list(x.shape))
    return core.tile(value, c.ints(repeats)) if len(repeats) else core.identity(value)


@row(aten.flip.default)
def flip(c, x, axes):
    axes = [c.axis(a, x.rank) for a in axes]
    if not axes or x.rank == 0:
        return core.identity(x.value)
    sides = [[-1] * len(axes), [-_END] * len(axes), axes, [-1] * len(axes)]
    return core.slice(x.value, *(c.ints(side) for side in sides))


@row(aten.roll.default)
def roll(c, x, shifts, axes=()):
    shifts, axes = [shifts] if not isinstance(shifts, (list, tuple)) else list(shifts), [axes] if isinstance(axes, int) else list(axes)
    value, flat = x.value, not axes
    if x.rank == 0 or 0 in x.shape:
        return core.identity(value)
    if flat:
        value, axes = core.reshape(value, c.ints([-1])), [0]
    for shift, axis in zip(shifts, axes):
        axis = c.axis(axis, x.rank)
        extent = None if flat else x.shape[axis]
        extent = extent if extent is not None else count_of(x.shape)
        shift = shift % extent
        if isinstance(shift, int) and shift == 0:
            continue
        last = core.slice(value, c.ints([-shift]), c.ints([_END]), c.ints([axis]))
        first = core.slice(value, c.ints([0]), c.ints([extent - shift]), c.ints([axis]))
        value = core.concat([last, first], axis=axis)
    return c.reshaped(value, x.shape) if flat else value


@row(aten.constant_pad_nd.default)
def constant_pad(c, x, pads, value=0):
    if any(not isinstance(p, int) for p in pads):
        c.refuse("the padding is a symbol")
    pairs = [(0, 0)] * (x.rank - len(pads) // 2) + [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    return core.pad(x.value, c.ints([low for low, _ in pairs] + [high for _, high in pairs]), c.number(value))


def _padded(c, x, pads, mode):
    axes = len(pads) // 2
    pairs = [(0, 0)] * (x.rank - axes) + [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    return core.pad(x.value, c.ints([low for low, _ in pairs] + [high for _, high in pairs]), mode=mode)


def _padded_backward(mode):
    def lower(c, grad, x, pads):
        if any(not isinstance(p, int) or p < 0 for p in pads) or 0 in x.shape:
            c.refuse("the padding is a symbol or negative, or the tensor is empty")
        axes = len(pads) // 2
        pairs = [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
        sides = c.ints([low for low, _ in pairs] + [high for _, high in pairs])
        return core.pad_backward(grad.value, c.ints(x.shape), sides, c.ints(range(x.rank - axes, x.rank)), mode=mode)
    return lower


row(aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default)(_padded_backward("edge"))


@row(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(c, x, pads):
    return _padded(c, x, pads, "reflect")


@row(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(c, x, pads):
    return _padded(c, x, pads, "edge")


@row(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(c, x, offset=0, axis1=0, axis2=1):
    """The diagonal of the last two axes: each row is gathered at its own column."""
    a, b = c.axis(axis1, x.rank), c.axis(axis2, x.rank)
    order = [i for i in range(x.rank) if i not in (a, b)] + [a, b]
    value = x.value if _is_order(order) else core.transpose(x.value, perm=order)
    length = c.shape[-1]
    if not isinstance(length, int) or not isinstance(x.shape[b], int):
        c.refuse("the length of the diagonal is a symbol")
    at = np.arange(length) + max(-offset, 0)
    columns = np.arange(length) + max(offset, 0)
    flat = c.reshaped(value, [x.shape[i] for i in order[:-2]] + [x.shape[a] * x.shape[b]])
    return core.gather(flat, c.scope.constant(at * x.shape[b] + columns), axis=x.rank - 2)


# ---- tensors from numbers ----

@row(aten.full.default, aten.new_full.default, aten.full_like.default)
def full(c, *arguments, **named_arguments):
    number = arguments[2] if c.node.target is aten.new_full.default else arguments[1]
    if isinstance(number, (torch.SymInt, torch.SymFloat)):
        return c.expanded(c.value(number, c.dtype), c.shape)
    return c.filled(number)


@row(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(c, *arguments, **named_arguments):
    return c.filled(0)


@row(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(c, *arguments, **named_arguments):
    return c.filled(1)


@row(aten.scalar_tensor.default)
def scalar_tensor(c, number, **named_arguments):
    return core.identity(c.value(number, c.dtype))


@row(aten.arange.start_step, aten.arange.default, aten.arange.start)
def arange(c, *arguments, **named_arguments):
    start, end, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    if c.dtype.is_floating_point or any(isinstance(v, float) for v in (start, end, step)):
        if all(isinstance(v, (int, float)) for v in (start, end, step)):
            return c.scope.constant(torch.arange(start, end, step, dtype=c.dtype))
        c.refuse("a range of floats with an extent that is a symbol")
    made = core.range(*(c.value(v, torch.int64) for v in (start, end, step)), **({} if any(isinstance(v, torch.SymInt) for v in (start, end, step)) else {"builder": c.scope.builder}))
    return cast(made, torch.int64, c.dtype) if c.dtype != torch.int64 else made


@row(prims.iota.default)
def iota(c, length, *, start, step, dtype, device, requires_grad):
    if not isinstance(start, int) or not isinstance(step, int):
        c.refuse("the start or the step is a symbol")
    value = c.value
    made = core.range(value(start, torch.int64), value(start + length * step, torch.int64), value(step, torch.int64), builder=c.scope.builder)
    return cast(made, torch.int64, dtype) if dtype != torch.int64 else made


@row(aten.eye.default, aten.eye.m)
def eye(c, *arguments, **named_arguments):
    if any(not isinstance(e, int) for e in c.shape):
        c.refuse("its extent is a symbol")
    return c.scope.constant(torch.eye(*c.shape, dtype=c.dtype))


@row(aten.linspace.default)
def linspace(c, start, end, steps, **named_arguments):
    if any(not isinstance(v, (int, float)) for v in (start, end, steps)):
        c.refuse("one of its arguments is a symbol")
    return c.scope.constant(torch.linspace(start, end, steps, dtype=c.dtype))


@row(aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor)
def linspace_of_tensors(c, start, end, steps, **named_arguments):
    """Counted from the start in the first half and from the end in the second, integers in float64, as PyTorch does.

    Half precision is computed in float32: PyTorch rounds the step, and its result is further from the exact one.
    """
    if not isinstance(steps, int):
        c.refuse("the number of steps is a symbol")
    start, end = c.value(start, c.dtype), c.value(end, c.dtype)
    if steps < 2:
        return c.expanded(start, c.shape)
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32}.get(c.dtype, torch.float64)
    if wide != c.dtype:
        start, end = (cast(v, c.dtype, wide) for v in (start, end))
    step = core.div(core.sub(end, start), c.number(steps - 1, wide))
    places = torch.arange(steps, dtype=wide)
    early = core.add(start, core.mul(step, c.scope.constant(places)))
    late = core.sub(end, core.mul(step, c.scope.constant(places.flip(0))))
    made = core.where(c.scope.constant(torch.arange(steps) < steps // 2), early, late)
    return cast(made, wide, c.dtype) if wide != c.dtype else made


@row(aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default, aten.empty_strided.default, aten.new_empty_strided.default, aten.empty_permuted.default)
def empty(c, *arguments, **named_arguments):
    return c.filled(0)


@row(aten.tril.default)
def tril(c, x, diagonal=0):
    return core.trilu(x.value, c.number(diagonal, torch.int64), upper=False)


@row(aten.triu.default)
def triu(c, x, diagonal=0):
    return core.trilu(x.value, c.number(diagonal, torch.int64), upper=True)


@row(prims.broadcast_in_dim.default)
def broadcast_in_dim(c, x, shape, axes):
    kept = dict(zip(axes, x.shape))
    return c.expanded(c.reshaped(x.value, [kept.get(i, 1) for i in range(len(shape))]), shape)


@row(prims.squeeze.default)
def prims_squeeze(c, x, axes):
    return c.reshaped(x.value, c.shape)
