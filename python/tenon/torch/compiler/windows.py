"""Convolutions, pooling, resizing and sampling."""
import math

import numpy as np
import torch

from .calls import Tensor, aten, cast, core, count_of, row, wide


def _each(value, count):
    """One number for each axis of the window."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


def _numbers(c, *lists):
    if any(not isinstance(v, int) for each in lists for v in each):
        c.refuse("a property of the window is a symbol")


def _batched(c, x, axes, node):
    """Calls the node with a batch axis, which PyTorch lets callers leave out."""
    if x.rank == axes + 2:
        return node(x.value)
    made = node(core.unsqueeze(x.value, c.ints([0])))
    if isinstance(made, (list, tuple)):
        return [core.squeeze(m, c.ints([0])) for m in made]
    return core.squeeze(made, c.ints([0]))


# ---- convolutions ----

@row(aten.convolution.default)
def convolution(c, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    axes = weight.rank - 2
    stride, padding, dilation, output_padding = (_each(v, axes) for v in (stride, padding, dilation, output_padding))
    _numbers(c, stride, padding, dilation, output_padding, [groups])
    if 0 in c.shape or 0 in x.shape or 0 in weight.shape:
        c.refuse("a convolution of an empty tensor")
    named = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": groups}
    more = [] if bias is None else [bias.value]
    if transposed:
        return _batched(c, x, axes, lambda v: core.conv_transpose(v, weight.value, *more, output_padding=output_padding, **named))
    return _batched(c, x, axes, lambda v: core.conv(v, weight.value, *more, **named))


@row(aten.convolution_backward.default)
def convolution_backward(c, grad, x, weight, bias_shape, stride, padding, dilation, transposed, output_padding, groups, wanted):
    """Bias and residual only say which shapes their gradients would have."""
    axes = weight.rank - 2
    stride, padding, dilation, output_padding = (_each(v, axes) for v in (stride, padding, dilation, output_padding))
    _numbers(c, stride, padding, dilation, output_padding, [groups])
    if x.rank != axes + 2 or 0 in x.shape or 0 in grad.shape:
        c.refuse("a convolution of an empty tensor, or without a batch axis")
    named = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": groups}
    bias = c.filled(0, grad.dtype, [grad.shape[1]])
    if transposed:
        made = core.conv_transpose_backward(grad.value, x.value, weight.value, bias, output_padding=output_padding, **named)
    else:
        made = core.conv_backward(grad.value, x.value, weight.value, bias, grad.value, **named)
    return [made[i] if wanted[i] else None for i in range(3)]


# ---- windows of one size ----

def _window(c, kernel, stride, padding, dilation, axes):
    kernel, padding, dilation = (_each(v, axes) for v in (kernel, padding, dilation))
    stride = _each(stride, axes) if stride else kernel
    _numbers(c, kernel, stride, padding, dilation)
    return {"kernel": kernel, "strides": stride, "pads": padding * 2, "dilations": dilation}


_AVERAGES = {aten.avg_pool1d.default: 1, aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
_AVERAGES_BACK = {aten.avg_pool2d_backward.default: 2, aten.avg_pool3d_backward.default: 3}


def _counts(c, extents, results, named, divisor):
    """What turns the mean over each window, padding included, into the sum over the divisor; None if nothing does."""
    if divisor is None:
        return None
    _numbers(c, extents, results)
    sizes = []
    for extent, count, kernel, stride, padding in zip(extents, results, named["kernel"], named["strides"], named["pads"]):
        starts = np.arange(count) * stride - padding
        sizes.append(np.minimum(starts + kernel, extent + padding) - starts)
    return torch.from_numpy(np.prod(np.meshgrid(*sizes, indexing="ij"), axis=0) / divisor)


@row(*_AVERAGES)
def avg_pool(c, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    axes = _AVERAGES[c.node.target]
    named = _window(c, kernel, stride, padding, 1, axes)
    if not c.dtype.is_floating_point:
        c.refuse("the mean of integers")
    if 0 in x.shape:
        return c.filled(0)
    factors = _counts(c, x.shape[-axes:], c.shape[-axes:], named, divisor_override)
    include = count_include_pad or divisor_override is not None
    made = _batched(c, x, axes, lambda v: core.average_pool(v, ceil_mode=ceil_mode, count_include_pad=include, **named))
    return made if factors is None else core.mul(made, c.scope.constant(factors.to(c.dtype)))


@row(*_AVERAGES_BACK)
def avg_pool_backward(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    axes = _AVERAGES_BACK[c.node.target]
    named = _window(c, kernel, stride, padding, 1, axes)
    if 0 in x.shape:
        return c.filled(0)
    factors = _counts(c, x.shape[-axes:], grad.shape[-axes:], named, divisor_override)
    value = grad.value if factors is None else core.mul(grad.value, c.scope.constant(factors.to(c.dtype)))
    include = count_include_pad or divisor_override is not None
    shape = c.ints([1] * (axes + 2 - x.rank) + list(x.shape))
    scaled = Tensor(value, grad.dtype, grad.shape)
    return _batched(c, scaled, axes, lambda v: core.average_pool_backward(v, shape, ceil_mode=ceil_mode, count_include_pad=include, **named))


_MAXIMA = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}
_MAXIMA_BACK = {aten.max_pool2d_with_indices_backward.default: 2, aten.max_pool3d_with_indices_backward.default: 3,
                aten.adaptive_max_pool2d_backward.default: 2, aten.adaptive_max_pool3d_backward.default: 3,
                aten.fractional_max_pool2d_backward.default: 2, aten.fractional_max_pool3d_backward.default: 3}


@row(*_MAXIMA)
def max_pool(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    """Tenon counts indices through the whole tensor, PyTorch through each plane."""
    axes = _MAXIMA[c.node.target]
    named = _window(c, kernel, stride, padding, dilation, axes)
    if 0 in x.shape:
        return [c.filled(0, r.dtype, r.shape) for r in c.result]
    values, indices = _batched(c, x, axes, lambda v: core.max_pool(v, ceil_mode=ceil_mode, **named))
    return [values, core.mod(indices, c.value(count_of(x.shape[-axes:]), torch.int64))]


@row(*_MAXIMA_BACK)
def max_pool_backward(c, grad, x, *arguments, **named_arguments):
    """Adds each gradient at the place in its plane from which the greatest element came."""
    axes, indices = _MAXIMA_BACK[c.node.target], named_arguments.get("indices", arguments[-1] if arguments else None)
    if 0 in x.shape or 0 in grad.shape:
        return c.filled(0)
    planes = list(x.shape[:x.rank - axes])
    flat = [*planes, count_of(grad.shape[-axes:])]
    zeros = c.filled(0, grad.dtype, [*planes, count_of(x.shape[-axes:])])
    places = c.reshaped(c.value(indices, torch.int64), flat)
    made = core.scatter_elements(zeros, places, c.reshaped(grad.value, flat), axis=len(planes), reduction="add")
    return c.reshaped(made, x.shape)


# ---- windows whose sizes differ ----

def _bounds(extent, count):
    """The windows of adaptive pooling along an axis: where each starts and ends."""
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _members(groups):
    """A matrix with the members of each group in a row, filled up with 0, and a mask of those that count."""
    width = max(map(len, groups))
    places = np.array([[*g, *[0] * (width - len(g))] for g in groups], np.int64)
    return places, np.array([[True] * len(g) + [False] * (width - len(g)) for g in groups])


def _sums(c, value, rank, axis, groups, dtype):
    """For each group of positions along an axis the sum of the elements there."""
    places, counts = _members(groups)
    gathered = core.gather(value, c.scope.constant(places), axis=axis)
    if not counts.all():
        mask = c.scope.constant(counts.reshape(counts.shape + (1,) * (rank - axis - 1)))
        gathered = core.where(mask, gathered, c.number(0, dtype))
    return core.reduce_sum(gathered, c.ints([axis + 1]), keepdims=False)


def _along(sizes, rank, axis):
    return np.array(sizes, np.float64).reshape([-1] + [1] * (rank - axis - 1))


_ADAPTIVE = {aten._adaptive_avg_pool2d.default: 2, aten.adaptive_avg_pool2d.default: 2, aten._adaptive_avg_pool3d.default: 3}
_ADAPTIVE_BACK = {aten._adaptive_avg_pool2d_backward.default: 2, aten._adaptive_avg_pool3d_backward.default: 3}


def _scaled_by(c, value, sizes, rank, axis, dtype):
    return core.div(value, c.scope.constant(torch.from_numpy(_along(sizes, rank, axis)).to(dtype)))


@row(*_ADAPTIVE)
def adaptive_avg_pool(c, x, size):
    """The mean over windows is the mean along one axis after the other."""
    axes = _ADAPTIVE[c.node.target]
    extents, size = x.shape[-axes:], c.shape[-axes:]
    if list(size) == [1] * axes and x.rank == axes + 2 and c.dtype.is_floating_point and 0 not in x.shape:
        return core.global_average_pool(x.value)
    _numbers(c, extents, size)
    if not c.dtype.is_floating_point:
        c.refuse("the mean of integers")
    if 0 in c.shape:
        return c.filled(0)
    if all(e % s == 0 for e, s in zip(extents, size)):
        kernel = [e // s for e, s in zip(extents, size)]
        return _batched(c, x, axes, lambda v: core.average_pool(v, kernel=kernel, strides=kernel))
    dtype = wide(c.dtype)
    value = c.value(x, dtype)
    for axis, extent, count in zip(range(x.rank - axes, x.rank), extents, size):
        bounds = _bounds(extent, count)
        value = _sums(c, value, x.rank, axis, [range(*b) for b in bounds], dtype)
        value = _scaled_by(c, value, [end - start for start, end in bounds], x.rank, axis, dtype)
    return cast(value, dtype, c.dtype) if dtype != c.dtype else value


@row(*_ADAPTIVE_BACK)
def adaptive_avg_pool_backward(c, grad, x):
    """Each element gets the gradients of the windows that hold it, divided by their sizes."""
    axes = _ADAPTIVE_BACK[c.node.target]
    extents, size = x.shape[-axes:], grad.shape[-axes:]
    _numbers(c, extents, size)
    if 0 in x.shape or 0 in grad.shape:
        return c.filled(0)
    if all(e % s == 0 for e, s in zip(extents, size)):
        kernel = [e // s for e, s in zip(extents, size)]
        shape = c.ints([1] * (axes + 2 - x.rank) + list(x.shape))
        return _batched(c, grad, axes, lambda v: core.average_pool_backward(v, shape, kernel=kernel, strides=kernel))
    dtype = wide(c.dtype)
    value = c.value(grad, dtype)
    for axis, extent, count in zip(range(x.rank - axes, x.rank), extents, size):
        bounds = _bounds(extent, count)
        value = _scaled_by(c, value, [end - start for start, end in bounds], x.rank, axis, dtype)
        holders = [[i for i, (start, end) in enumerate(bounds) if start <= place < end] for place in range(extent)]
        value = _sums(c, value, x.rank, axis, holders, dtype)
    return cast(value, dtype, c.dtype) if dtype != c.dtype else value


_ADAPTIVE_MAXIMA = {aten.adaptive_max_pool2d.default: 2, aten.adaptive_max_pool3d.default: 3}


@row(*_ADAPTIVE_MAXIMA)
def adaptive_max_pool(c, x, size):
    """The elements of each window stand side by side on the last axis, where the first greatest one is found."""
    axes = _ADAPTIVE_MAXIMA[c.node.target]
    extents, size = x.shape[-axes:], c.result[0].shape[-axes:]
    _numbers(c, extents, size)
    if 0 in c.result[0].shape:
        return [c.filled(0, r.dtype, r.shape) for r in c.result]
    places, counts = np.zeros([1] * axes + [1], np.int64), np.ones([1] * axes + [1], bool)
    for axis, (extent, count) in enumerate(zip(extents, size)):
        at, inside = _members([range(*b) for b in _bounds(extent, count)])
        sides = [count if i == axis else 1 for i in range(axes)]
        at, inside = at.reshape(*sides, 1, -1), inside.reshape(*sides, 1, -1)
        both = np.broadcast_shapes(at.shape[:axes], places.shape[:axes])
        places = (places[..., None] * extent + at).reshape(*both, -1)
        counts = np.logical_and(counts[..., None], inside).reshape(*both, -1)
    planes = list(x.shape[:x.rank - axes])
    flat = c.reshaped(x.value, [*planes, count_of(extents)])
    gathered = core.gather(flat, c.scope.constant(places), axis=len(planes))
    if not counts.all():
        low = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        gathered = core.where(c.scope.constant(counts), gathered, c.number(low, x.dtype))
    best = core.arg_max(gathered, axis=x.rank, keepdims=True)
    table = c.expanded(c.scope.constant(places), [*planes, *places.shape])
    made = [core.gather_elements(v, best, axis=x.rank) for v in (gathered, table)]
    return [core.squeeze(v, c.ints([x.rank])) for v in made]


# ---- other samples of images ----

@row(aten.pixel_shuffle.default)
def pixel_shuffle(c, x, factor):
    if x.rank not in (3, 4):
        c.refuse("pixel_shuffle of more than four axes")
    return _batched(c, x, 2, lambda v: core.depth_to_space(v, block=factor, mode="CRD"))


_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


def _grid(c, mode, padding, align_corners):
    return {"mode": _MODES[mode], "padding": _PADDINGS[padding], "align_corners": bool(align_corners)}


@row(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(c, x, grid, mode, padding, align_corners):
    return core.grid_sample(x.value, grid.value, **_grid(c, mode, padding, align_corners))


@row(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def grid_sampler_backward(c, grad, x, grid, mode, padding, align_corners, wanted):
    dx, dgrid = core.grid_sample_backward(grad.value, x.value, grid.value, **_grid(c, mode, padding, align_corners))
    return [dx if wanted[0] else None, dgrid]


_FILTERS = {"bilinear": (2, lambda x: max(1 - abs(x), 0)),
            "bicubic": (4, lambda x: ((1.5 * abs(x) - 2.5) * x * x + 1 if abs(x) < 1 else
                                      ((-0.5 * abs(x) + 2.5) * abs(x) - 4) * abs(x) + 2 if abs(x) < 2 else 0))}


def _smooth_weights(extent, count, factor, align_corners, kind):
    """For each result along an axis the positions that it reads and their weights, as PyTorch computes them."""
    width, weight = _FILTERS[kind]
    if align_corners:
        scale = (extent - 1) / (count - 1) if count > 1 else 0
    else:
        scale = 1 / factor if factor else extent / count
    stretch, found = max(scale, 1), []
    for i in range(count):
        centre = scale * (i + 0.5)
        first = max(int(centre - width * stretch / 2 + 0.5), 0)
        last = min(int(centre + width * stretch / 2 + 0.5), extent)
        weights = [weight((place - centre + 0.5) / stretch) for place in range(first, last)]
        total = sum(weights) or 1
        found.append([(place, w / total) for place, w in zip(range(first, last), weights)])
    return found


def _transposed(found, extent):
    """For each position the results that read it, with the same weights."""
    made = [[] for _ in range(extent)]
    for i, pairs in enumerate(found):
        for place, w in pairs:
            made[place].append((i, w))
    return made


def _weighted(c, value, rank, axis, found, dtype):
    """The weighted sums along an axis; the lists are filled up with places that do not count."""
    places, counts = _members([[place for place, _ in pairs] for pairs in found])
    weights = np.zeros(counts.shape)
    for i, pairs in enumerate(found):
        weights[i, :len(pairs)] = [w for _, w in pairs]
    sides = counts.shape + (1,) * (rank - axis - 1)
    gathered = core.gather(value, c.scope.constant(places), axis=axis)
    if not counts.all():
        gathered = core.where(c.scope.constant(counts.reshape(sides)), gathered, c.number(0, dtype))
    product = core.mul(gathered, c.scope.constant(torch.from_numpy(weights.reshape(sides)).to(dtype)))
    return core.reduce_sum(product, c.ints([axis + 1]), keepdims=False)


def _smooth(kind, is_backward):
    def lower(c, x, size, *arguments):
        """Resizing with antialiasing: weighted sums along one axis after the other; backward the same weights transposed."""
        shape = arguments[0] if is_backward else x.shape
        align_corners, *factors = arguments[1 if is_backward else 0:]
        _numbers(c, shape, size)
        if not c.dtype.is_floating_point or 0 in c.shape or 0 in x.shape:
            c.refuse("resizing of integers or of empty tensors")
        dtype = wide(c.dtype)
        value = c.value(x, dtype)
        for axis, extent, count, factor in zip((2, 3), shape[2:], size, (*factors, None, None)):
            found = _smooth_weights(extent, count, factor, align_corners, kind)
            value = _weighted(c, value, 4, axis, _transposed(found, extent) if is_backward else found, dtype)
        return cast(value, dtype, c.dtype) if dtype != c.dtype else value
    return lower


for _name in _FILTERS:
    row(getattr(aten, f"_upsample_{_name}2d_aa").default)(_smooth(_name, False))
    row(getattr(aten, f"_upsample_{_name}2d_aa_backward").default)(_smooth(_name, True))
