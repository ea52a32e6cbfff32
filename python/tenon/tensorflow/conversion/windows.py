"""Convolutions, pooling, batch normalisation and resizing of TensorFlow."""
import numpy as np

from .calls import row
from .tensors import Tensor, core

_PADS = {"SAME": "same_upper", "VALID": "explicit", "EXPLICIT": "explicit"}


class Convolution(Tensor):
    """The result of a convolution that is not in the graph yet, so that a factor and a sum for each channel become part of its weights.

    weights: an array of output channels, input channels and spatial axes.  bias: a number for each output channel, or None.
    """

    def __init__(self, scope, x, weights, attributes, bias=None):
        super().__init__(scope)
        self.x, self.weights, self.attributes, self.bias = x, weights, attributes, bias

    @property
    def rank(self):
        return self.weights.ndim

    @property
    def is_planar(self):
        return True

    def planar(self, rank=None):
        if self._planar is None:
            bias = None if self.bias is None else self.scope.constant(self.bias)
            self._planar = core.conv(self.x, self.scope.constant(self.weights), bias, **self.attributes)
        return self._planar

    def has_channels(self, array):
        """Whether an array has one number for each output channel, along the last axis, and the dtype of the weights."""
        return array.ndim >= 1 and array.shape[-1] == array.size == len(self.weights) and array.dtype == self.weights.dtype and self._planar is None

    def scaled(self, factors):
        weights = self.weights * factors.reshape(-1, *[1] * (self.rank - 1))
        return Convolution(self.scope, self.x, weights, self.attributes, None if self.bias is None else self.bias * factors)

    def moved(self, by):
        return Convolution(self.scope, self.x, self.weights, self.attributes, by if self.bias is None else self.bias + by)


class _Planar:
    """A call whose attributes have an entry for each axis in the order of its data format; here channels come first."""

    def __init__(self, call):
        self.call, self.format = call, call.attr("data_format")
        self.has_channels_last = self.format.endswith("C")

    def spatial(self, name):
        entries = list(self.call.attr(name))
        others = (entries[0], entries[-1]) if self.has_channels_last else entries[:2]
        if any(e != 1 for e in others):
            self.call.refuse(f"{name}={entries}: the batch and the channels must have 1")
        return entries[1:-1] if self.has_channels_last else entries[2:]

    def x(self, i=0):
        tensor = self.call.tensor(i)
        return tensor.planar() if self.has_channels_last else tensor.plain()

    def padding(self):
        padding = self.call.attr("padding")
        made = {"auto_pad": _PADS[padding]}
        if padding == "EXPLICIT":
            pairs = np.reshape(self.call.attr("explicit_paddings"), (-1, 2))
            pairs = pairs[1:-1] if self.has_channels_last else pairs[2:]
            made["pads"] = pairs.T.reshape(-1).tolist()
        return made

    def given(self, value):
        return self.call.planar(value) if self.has_channels_last else self.call.given(value)


@row("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def convolution(call):
    of = _Planar(call)
    weights, is_depthwise = call.tensor(1), call.op.type == "DepthwiseConv2dNative"
    rank = call.rank()
    extents, kernel = call.shape(0), call.shape(1)
    channels = extents and extents[-1 if of.has_channels_last else 1]
    if channels is None or kernel is None or None in kernel:
        call.refuse("the number of channels and the shape of the kernel must be known: state the shapes of the inputs")
    attributes = {"strides": of.spatial("strides"), "dilations": of.spatial("dilations"), "group": channels if is_depthwise else channels // kernel[-2], **of.padding()}
    shape = [kernel[-2] * kernel[-1], 1, *kernel[:-2]]
    perm = [rank - 2, rank - 1, *range(rank - 2)] if is_depthwise else [rank - 1, rank - 2, *range(rank - 2)]
    if weights.array is None:
        w = core.transpose(weights.plain(), perm=perm)
        return of.given(core.conv(of.x(), core.reshape(w, call.scope.ints(shape)) if is_depthwise else w, **attributes))
    array = weights.array.transpose(perm)
    array = np.ascontiguousarray(array.reshape(shape) if is_depthwise else array)
    made = Convolution(call.scope, of.x(), array, attributes)
    return made if of.has_channels_last else call.given(made.planar())


@row("Conv2DBackpropInput")
def transposed_convolution(call):
    of = _Planar(call)
    strides, dilations = of.spatial("strides"), of.spatial("dilations")
    sizes, kernel, extents = call.result_shape(), call.shape(1), call.shape(2)
    spatial = slice(1, -1) if of.has_channels_last else slice(2, None)
    sizes, extents = sizes and sizes[spatial], extents and extents[spatial]
    if not sizes or not extents or kernel is None or None in [*sizes, *extents, *kernel]:
        call.refuse("all extents but the batch must be known: state the shapes of the inputs")
    w = core.transpose(call.value(1), perm=[3, 2, 0, 1])
    low, high, more = [], [], []
    for size, extent, k, stride, dilation in zip(sizes, extents, kernel, strides, dilations):
        reach = (k - 1) * dilation + 1
        if call.attr("padding") == "EXPLICIT":
            before, after = np.reshape(call.attr("explicit_paddings"), (-1, 2))[spatial].tolist()[len(low)]
        else:
            total = max((extent - 1) * stride + reach - size, 0) if call.attr("padding") == "SAME" else 0
            before, after = total // 2, total - total // 2
        full = (extent - 1) * stride + reach - before - after
        low.append(before)
        high.append(after)
        more.append(size - full)
    return of.given(core.conv_transpose(of.x(2), w, strides=strides, dilations=dilations, pads=low + high, output_padding=more))


@row("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(call):
    of = _Planar(call)
    attributes = {"kernel": of.spatial("ksize"), "strides": of.spatial("strides"), **of.padding()}
    if call.op.type.startswith("Max"):
        return of.given(core.max_pool(of.x(), **attributes)[0])
    return of.given(core.average_pool(of.x(), **attributes))


@row("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(call):
    if call.attr("is_training"):
        call.refuse("it normalises by the statistics of the batch: convert the model for inference (training=False)")
    of, parameters = _Planar(call), [call.tensor(i) for i in range(1, 5)]
    x, epsilon = call.tensor(0), call.attr("epsilon")
    if any(p.array is None for p in parameters) or not of.has_channels_last:
        is_half = call.op.inputs[0].dtype.size == 2
        value = core.cast(of.x(), to="f32") if is_half else of.x()
        made = core.batch_norm(value, *(p.plain() for p in parameters), epsilon=epsilon)
        return _first(call, of.given(core.cast(made, to=x.plain().dtype) if is_half else made))
    scale, offset, mean, variance = (p.array.astype(np.float64) for p in parameters)
    factor = scale / np.sqrt(variance + epsilon)
    shift = offset - mean * factor
    factor, shift = factor.astype(np.float32), shift.astype(np.float32)
    if isinstance(x, Convolution) and call.is_last_use() and x.has_channels(factor):
        return _first(call, x.scaled(factor).moved(shift))
    return _first(call, call.planar(_scaled(call, x, factor, shift)))


def _scaled(call, x, factor, shift):
    factor, shift = (call.constant(a).planar(x.rank) for a in (factor, shift))
    value = x.planar()
    if value.dtype == "f32":
        return core.add(core.mul(value, factor), shift)
    return core.cast(core.add(core.mul(core.cast(value, to="f32"), factor), shift), to=value.dtype)


def _first(call, made):
    """The other results are for the gradient."""
    return [made, *[None] * (len(call.op.outputs) - 1)]


@row("ResizeBilinear", "ResizeNearestNeighbor")
def resize(call):
    x, sizes = call.tensor(0), call.ints(1)
    value = x.planar()
    if call.op.type == "ResizeBilinear":
        coordinates = "align_corners" if call.attr("align_corners") else "half_pixel" if call.attr("half_pixel_centers") else "asymmetric"
        value = value if value.dtype == "f32" else core.cast(value, to="f32")
        return call.planar(core.resize(value, None, None, sizes, mode="linear", coordinates=coordinates, axes=[2, 3]))
    if call.attr("align_corners"):
        return call.planar(core.resize(value, None, None, sizes, coordinates="align_corners", nearest="round_prefer_ceil", axes=[2, 3]))
    coordinates, nearest = ("half_pixel", "round_prefer_ceil") if call.attr("half_pixel_centers") else ("asymmetric", "floor")
    return call.planar(core.resize(value, None, None, sizes, coordinates=coordinates, nearest=nearest, axes=[2, 3]))
