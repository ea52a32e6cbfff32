"""Convolutions, pooling and resizing."""
import torch

from .calls import aten, core, row


def _each(value, count):
    """One number for each axis of the window."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


def _numbers(c, *lists):
    if any(not isinstance(v, int) for each in lists for v in each):
        c.refuse("a property of the window is a symbol")


@row(aten.convolution.default)
def convolution(c, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    axes = weight.rank - 2
    stride, padding, dilation, output_padding = (_each(v, axes) for v in (stride, padding, dilation, output_padding))
    _numbers(c, stride, padding, dilation, output_padding, [groups])
    value = x.value if x.rank == axes + 2 else core.unsqueeze(x.value, c.ints([0]))
    named = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": groups}
    more = [] if bias is None else [bias.value]
    if transposed:
        made = core.conv_transpose(value, weight.value, *more, output_padding=output_padding, **named)
    else:
        made = core.conv(value, weight.value, *more, **named)
    return made if x.rank == axes + 2 else core.squeeze(made, c.ints([0]))


@row(aten.convolution_backward.default)
def convolution_backward(c, grad, x, weight, bias_shape, stride, padding, dilation, transposed, output_padding, groups, wanted):
    axes = weight.rank - 2
    stride, padding, dilation = (_each(v, axes) for v in (stride, padding, dilation))
    _numbers(c, stride, padding, dilation, weight.shape[2:], [groups])
    if x.rank != axes + 2:
        c.refuse("a convolution without a batch axis")
    named = {"strides": stride, "pads": padding * 2, "dilations": dilation, "group": groups}
    kernel = c.ints(weight.shape[2:])
    dx, dw, db = None, None, None
    if wanted[0] and transposed:
        dx = core.conv(grad.value, weight.value, **named)
    elif wanted[0]:
        unread = _unread(c, grad, x, weight, stride, padding, dilation)
        dx = core.conv_transpose(grad.value, weight.value, output_padding=unread, **named)
    if wanted[1]:
        pair = (x.value, grad.value) if transposed else (grad.value, x.value)
        dw = core.conv_weight_backward(*pair, kernel, **named)
    if wanted[2]:
        db = core.reduce_sum(grad.value, c.ints([0, *range(2, grad.rank)]), keepdims=False)
    return [dx, dw, db]


def _unread(c, grad, x, weight, stride, padding, dilation):
    """How many elements at the end of each axis no window reads."""
    found = []
    for i, step in enumerate(stride):
        if step == 1:
            found.append(0)
            continue
        extent, count = x.shape[2 + i], grad.shape[2 + i]
        if not isinstance(extent, int) or not isinstance(count, int):
            c.refuse("the gradient of a convolution with strides, of an extent that is a symbol")
        found.append(extent + 2 * padding[i] - (weight.shape[2 + i] - 1) * dilation[i] - 1 - (count - 1) * step)
    return found


def _window(c, kernel, stride, padding, dilation, axes):
    kernel, padding, dilation = (_each(v, axes) for v in (kernel, padding, dilation))
    stride = _each(stride, axes) if stride else kernel
    _numbers(c, kernel, stride, padding, dilation)
    return {"kernel": kernel, "strides": stride, "pads": padding * 2, "dilations": dilation}


def _batched(c, x, axes, node):
    """Calls the node with a batch axis, which PyTorch lets callers leave out."""
    if x.rank == axes + 2:
        return node(x.value)
    made = node(core.unsqueeze(x.value, c.ints([0])))
    return [core.squeeze(m, c.ints([0])) for m in made] if isinstance(made, (list, tuple)) else core.squeeze(made, c.ints([0]))


@row(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(c, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    axes = {aten.avg_pool1d.default: 1, aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}[c.node.target]
    named = _window(c, kernel, stride, padding, 1, axes)
    if divisor_override is not None or not c.dtype.is_floating_point:
        c.refuse("avg_pool with divisor_override, or of integers")
    return _batched(c, x, axes, lambda v: core.average_pool(v, ceil_mode=ceil_mode, count_include_pad=count_include_pad, **named))


@row(aten.avg_pool2d_backward.default)
def avg_pool_backward(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    named = _window(c, kernel, stride, padding, 1, 2)
    if divisor_override is not None or x.rank != 4:
        c.refuse("avg_pool with divisor_override, or without a batch axis")
    return core.average_pool_backward(grad.value, core.shape(x.value), ceil_mode=ceil_mode, count_include_pad=count_include_pad, **named)


def _max_pool(c, x, kernel, stride, padding, dilation, ceil_mode, axes):
    named = _window(c, kernel, stride, padding, dilation, axes)
    if not x.dtype.is_floating_point:
        c.refuse("max_pool of integers")
    values, indices = _batched(c, x, axes, lambda v: core.max_pool(v, ceil_mode=ceil_mode, **named))
    return values, indices


@row(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def max_pool(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    axes = 2 if c.node.target is aten.max_pool2d_with_indices.default else 3
    values, indices = _max_pool(c, x, kernel, stride, padding, dilation, ceil_mode, axes)
    return [values, _within_planes(c, indices, x, axes)]


def _within_planes(c, indices, x, axes):
    """Tenon counts indices through the whole tensor, PyTorch through each plane."""
    area = 1
    for extent in x.shape[-axes:]:
        area = area * extent
    return core.mod(indices, c.value(area, torch.int64))


@row(aten.max_pool2d_with_indices_backward.default)
def max_pool_backward(c, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    rank = x.rank
    planes = list(x.shape[:rank - 2])
    area = x.shape[-1] * x.shape[-2]
    flat = planes + [grad.shape[-1] * grad.shape[-2]]
    zeros = c.filled(0, grad.dtype, planes + [area])
    made = core.scatter_elements(zeros, c.reshaped(indices.value, flat), c.reshaped(grad.value, flat), axis=rank - 2, reduction="add")
    return c.reshaped(made, x.shape)


@row(aten._adaptive_avg_pool2d.default, aten.adaptive_avg_pool2d.default)
def adaptive_avg_pool(c, x, size):
    if x.rank != 4:
        c.refuse("adaptive_avg_pool2d without a batch axis")
    if list(size) == [1, 1]:
        return core.global_average_pool(x.value)
    extents = x.shape[-2:]
    if any(not isinstance(e, int) for e in (*extents, *size)) or any(e % s for e, s in zip(extents, size)):
        c.refuse("the windows of adaptive_avg_pool2d differ in size")
    kernel = [e // s for e, s in zip(extents, size)]
    return core.average_pool(x.value, kernel=kernel, strides=kernel)


@row(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool_backward(c, grad, x):
    extents, size = x.shape[-2:], grad.shape[-2:]
    if any(not isinstance(e, int) for e in (*extents, *size)) or any(e % s for e, s in zip(extents, size)) or x.rank != 4:
        c.refuse("the windows of adaptive_avg_pool2d differ in size")
    kernel = [e // s for e, s in zip(extents, size)]
    return core.average_pool_backward(grad.value, core.shape(x.value), kernel=kernel, strides=kernel)


@row(aten.pixel_shuffle.default)
def pixel_shuffle(c, x, factor):
    return _batched(c, x, 2, lambda v: core.depth_to_space(v, block=factor, mode="CRD")) if x.rank in (3, 4) else c.refuse("pixel_shuffle of more than four axes")
