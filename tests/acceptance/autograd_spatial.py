"""Cases for autograd_test.py: operators over the spatial axes of [N, C, spatial...].

Kinks left out: the greatest of equals."""
import torch
import torch.nn.functional as F

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def padded(x, pads, value=0.0):
    """x with ONNX's pads: all at the beginning, then all at the end; negative ones cut."""
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


def add_convolutions(several, away):
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


def add(several, away, ints):
    add_convolutions(several, away)
