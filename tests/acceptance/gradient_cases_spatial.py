"""Cases for autograd_test.py: operators over the spatial axes of [N, C, spatial...]. Kinks are left out: ties for the maximum."""
import itertools
import math

import torch
import torch.nn.functional as F

from gradients import away, ints, several

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def padded(x, pads, value=0.0):
    """x with ONNX's pads: all beginnings, then all ends; negative pads cut."""
    rank = len(pads) // 2
    return F.pad(x, [p for i in reversed(range(rank)) for p in (pads[i], pads[i + rank])], value=value)


def conv(strides, pads, dilations, group, activation=None):
    def function(x, w, bias=None, residual=None):
        out = CONV[x.dim() - 2](padded(x, pads), w, bias, strides, 0, dilations, group)
        out = out if residual is None else out + residual
        return out if activation is None else activation(out)
    return function


def conv_transpose(strides, pads, dilations, group, output_padding):
    def function(x, w, bias=None):
        rank = x.dim() - 2
        y = CONV_TRANSPOSE[rank](x, w, None, strides, 0, 0, group, dilations)
        y = padded(padded(y, [0] * rank + output_padding), [-p for p in pads])
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)
    return function


def convolutions():
    def tensors(*shapes):
        return [None if s is None else away(s, -2, 2) for s in shapes]

    for x, w, bias, residual, strides, pads, dilations, group in (
            ((2, 3, 8), (4, 3, 3), (4,), None, [1], [0, 0], [1], 1),
            ((2, 4, 7, 6), (6, 2, 3, 2), (6,), None, [2, 1], [1, 0, 2, 1], [1, 2], 2),
            ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), None, None, [1, 2, 3], [0, 1, 1, 0, 1, 0], [1, 1, 1], 1),
            ((2, 3, 9, 9), (3, 1, 3, 3), (3,), None, [2, 2], [1, 1, 1, 1], [1, 1], 3),
            ((1, 2, 9), (2, 2, 2), None, (1, 2, 3), [3], [-1, 0], [1], 1),
            ((0, 3, 5, 5), (4, 3, 3, 3), (4,), None, [1, 1], [0, 0, 0, 0], [1, 1], 1)):
        arrays = tensors(x, w, bias, residual)
        several("conv", conv(strides, pads, dilations, group), [(arrays, [i for i in range(4) if arrays[i] is not None])],
                strides=strides, pads=pads, dilations=dilations, group=group)
    several("conv", conv([1, 1], [1, 1, 1, 1], [1, 1], 1), [(tensors((1, 2, 5, 4), (3, 2, 3, 3), (3,)), [0, 1, 2])], auto_pad="same_upper")
    several("conv", conv([2, 2], [1, 0, 1, 1], [1, 1], 1), [(tensors((1, 2, 5, 4), (3, 2, 3, 3), (3,)), [0, 1, 2])], auto_pad="same_upper", strides=[2, 2])
    several("conv", conv([2, 2], [1, 1, 1, 0], [1, 1], 1), [(tensors((1, 2, 5, 4), (3, 2, 3, 3), (3,)), [0, 1, 2])], auto_pad="same_lower", strides=[2, 2])
    several("conv", conv([2, 2], [0, 0, 0, 0], [1, 1], 1), [(tensors((1, 2, 6, 4), (3, 2, 3, 3), (3,)), [0, 1, 2])], auto_pad="valid", strides=[2, 2])
    for name, function, attrs in (("leaky_relu", lambda x: F.leaky_relu(x, 0.2), {"alpha": 0.2}), ("elu", lambda x: F.elu(x, 0.7), {"alpha": 0.7}), ("gelu", F.gelu, {}),
                                  ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), {}), ("tanh", torch.tanh, {}), ("sigmoid", torch.sigmoid, {}), ("silu", F.silu, {}),
                                  ("relu", torch.relu, {}), ("hard_swish", F.hardswish, {}), ("mish", F.mish, {}), ("clip", lambda x: x.clamp(-0.5, 0.5), {"alpha": -0.5, "beta": 0.5}),
                                  ("hard_sigmoid", lambda x: (0.2 * x + 0.5).clamp(0, 1), {"alpha": 0.2, "beta": 0.5})):
        several("conv", conv([1, 1], [0, 0, 0, 0], [1, 1], 1, function), [(tensors((1, 2, 4, 3), (2, 2, 2, 2), (2,), (1, 2, 3, 2)), [0, 1, 2, 3])], activation=name, **attrs)
        several("matmul", lambda a, b, c, f=function: f(a @ b + c), [(tensors((2, 3, 4), (4, 2), (2,)), [0, 1, 2])], activation=name, **attrs)
    for x, w, bias, strides, pads, dilations, group, output_padding in (
            ((2, 3, 5), (3, 4, 3), (4,), [1], [0, 0], [1], 1, [0]),
            ((2, 4, 4, 3), (4, 3, 2, 3), (6,), [2, 3], [1, 0, 0, 2], [1, 2], 2, [1, 0]),
            ((1, 2, 3, 2, 3), (2, 3, 2, 2, 2), None, [1, 2, 2], [0, 0, 0, 0, 0, 0], [1, 1, 1], 1, [0, 1, 1]),
            ((1, 2, 4), (2, 2, 3), (2,), [2], [1, 0], [1], 1, [3]),
            ((0, 3, 5), (3, 4, 3), (4,), [1], [0, 0], [1], 1, [0])):
        arrays = tensors(x, w, bias)
        several("conv_transpose", conv_transpose(strides, pads, dilations, group, output_padding), [(arrays, [i for i in range(3) if arrays[i] is not None])],
                strides=strides, pads=pads, dilations=dilations, group=group, output_padding=output_padding)
    several("conv_transpose", conv_transpose([2], [1, 0], [1], 1, [0]), [(tensors((1, 2, 3), (2, 2, 3), (2,)), [0, 1, 2])], strides=[2], output_shape=[6])


def windows(x, kernel, strides, pads, dilations, outside, ceil=False):
    """The taps of each window, [taps, N, C, out...], with `outside` for taps outside of x."""
    rank, more, outs = len(kernel), [], []
    for i in range(rank):
        room = x.shape[2 + i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1
        out = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil:
            out = min(out, -(-(x.shape[2 + i] + pads[i]) // strides[i]))
        outs.append(out)
        more.append(max(0, (out - 1) * strides[i] - room))
    x = padded(padded(x, pads, outside), [0] * rank + more, outside)
    taps = []
    for tap in itertools.product(*map(range, kernel)):
        part = x
        for i in range(rank):
            at = tap[i] * dilations[i] + torch.arange(outs[i]) * strides[i]
            part = part.index_select(2 + i, at)
        taps.append(part)
    return torch.stack(taps)


def pools():
    def case(name, function, shape, **attrs):
        several(name, function, [([away(shape, -2, 2, (0,))], [0])], **attrs)

    for shape, kernel, strides, pads, dilations, ceil in (
            ((2, 3, 9), [3], [1], [0, 0], [1], False), ((2, 3, 8, 7), [2, 3], [2, 1], [1, 0, 0, 2], [1, 2], True),
            ((1, 2, 5, 6, 4), [2, 2, 2], [2, 1, 2], [0, 1, 0, 1, 0, 1], [1, 1, 1], False), ((0, 3, 5, 5), [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], False),
            ((2, 3, 6, 5), [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], True)):
        window = dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations)

        def taps(x, outside=0.0, window=window, ceil=ceil):
            return windows(x, outside=outside, ceil=ceil, **window)

        for order in (0, 1):
            case("max_pool", lambda x, t=taps: t(x, -math.inf).amax(0), shape, ceil_mode=ceil, storage_order=order, **window)
        case("average_pool", lambda x, t=taps: t(x).sum(0) / t(torch.ones_like(x)).sum(0), shape, ceil_mode=ceil, **window)
        for p in (1.0, 2.0, 3.0):
            case("lp_pool", lambda x, t=taps, p=p: t(x.abs() ** p).sum(0) ** (1 / p), shape, ceil_mode=ceil, p=p, **window)
    case("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 8, 7), kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("max_pool", lambda x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-9), 2, 2), (1, 2, 5, 3), kernel=[2, 2], strides=[2, 2], auto_pad="same_upper")
    case("average_pool", lambda x: F.avg_pool2d(x, 3, 2, 1, True, True), (2, 3, 8, 7), kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=True, count_include_pad=True)
    case("average_pool", lambda x: F.avg_pool3d(x, 2, 1, 1, False, True), (1, 3, 4, 3, 5), kernel=[2, 2, 2], pads=[1] * 6, count_include_pad=True)
    for shape in ((2, 3, 9), (2, 3, 4, 5), (0, 3, 5, 5), (1, 2, 3, 2, 4)):
        axes = tuple(range(2, len(shape)))
        case("global_max_pool", lambda x, a=axes: x.amax(a, True), shape)
        for p in (1.0, 2.0, 3.0):
            case("global_lp_pool", lambda x, a=axes, p=p: (x.abs() ** p).sum(a, True) ** (1 / p), shape, p=p)
    for shape, kernel in (((2, 3, 8), 2), ((1, 2, 6, 4), 2), ((0, 3, 4), 2)):
        rank = len(shape) - 2
        x, indices = [F.max_pool1d, F.max_pool2d][rank - 1](torch.from_numpy(away(shape, -2, 2)), kernel, return_indices=True)
        planes = torch.arange(math.prod(shape[:2])).reshape(*shape[:2], *[1] * rank) * math.prod(shape[2:])
        several("max_unpool", lambda x, i, k=kernel, p=planes, r=rank: [F.max_unpool1d, F.max_unpool2d][r - 1](x.contiguous(), (i - p).contiguous(), k),
                [([x.numpy(), (indices + planes).numpy()], [0])], kernel=[kernel] * rank, strides=[kernel] * rank)
        several("max_pool_gather", lambda x, i, p=planes: x.flatten(2).gather(2, (i - p).flatten(2)).reshape(i.shape), [([away(shape, -2, 2), (indices + planes).numpy()], [0])])


convolutions()
pools()
