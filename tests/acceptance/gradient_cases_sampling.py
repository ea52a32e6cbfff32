"""Cases for autograd_test.py: transforms, and interpolation. Kinks are left out: positions that coincide with an element, and equal largest
elements under a box."""
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from gradients import away, ints, rng, several


def complex_of(x):
    return torch.view_as_complex(x) if x.shape[-1] == 2 else x[..., 0]


def parts_of(z):
    return torch.view_as_real(z.resolve_conj()) if z.is_complex() else z.unsqueeze(-1)


def transformed(function, x, axis, n=None):
    """A transform by PyTorch, computed as a matrix, since PyTorch lacks second derivatives of some transforms and refuses empty ones."""
    extent, parts = x.shape[axis], x.shape[-1]
    basis = torch.eye(extent * parts, dtype=torch.float64).reshape(-1, extent, parts)
    image = parts_of(function(complex_of(basis), n, 1))
    lines = x.movedim(axis, -2).flatten(-2) @ image.flatten(1).to(x.dtype)
    return lines.unflatten(-1, image.shape[1:]).movedim(-2, axis)


def dft(function, axis, n):
    return lambda x, *_: transformed(function, x, axis, n)


def stft(step, onesided, n=None):
    def function(signal, _, window=None, length=None):
        size = n or len(window)
        frames = signal.unfold(1, size, step).movedim(3, 2)
        if window is not None:
            frames = frames * F.pad(window, (0, max(0, size - len(window))))[:size, None]
        return transformed(torch.fft.rfft if onesided else torch.fft.fft, frames, 2)
    return function


def transforms():
    def case(shape, axis, n, function, **attrs):
        several("dft", dft(function, axis, n), [([away(shape), None if n is None else np.array(n), np.array(axis)], [0])], **attrs)

    for shape, axis, n in (((2, 5, 2), 1, None), ((4, 3, 2), 0, None), ((3, 6, 1), 1, None), ((2, 4, 3, 2), 1, 7), ((2, 6, 1), 1, 4), ((0, 4, 2), 1, None)):
        case(shape, axis, n, torch.fft.fft)
        case(shape, axis, n, torch.fft.ifft, inverse=True)
    for shape, axis, n in (((2, 5, 1), 1, None), ((4, 3, 1), 0, None), ((2, 6, 1), 1, 9), ((2, 6, 1), 1, 4), ((0, 4, 1), 1, None)):
        case(shape, axis, n, torch.fft.rfft, onesided=True)
    for shape, axis, n in (((2, 5, 2), 1, None), ((4, 3, 2), 0, None), ((2, 6, 2), 1, 9), ((2, 6, 2), 1, 7), ((2, 3, 2), 1, 8), ((0, 4, 2), 1, None)):
        case(shape, axis, n, torch.fft.irfft, onesided=True, inverse=True)
    several("stft", stft(2, True), [([away((2, 9, 1)), np.array(2), away((4,)), None], [0, 2]), ([away((0, 9, 1)), np.array(2), away((5,)), None], [0, 2])])
    several("stft", stft(3, True, 5), [([away((1, 12, 1)), np.array(3), away((4,)), np.array(5)], [0, 2]), ([away((2, 11, 1)), np.array(3), away((7,)), np.array(5)], [0, 2])])
    several("stft", stft(2, False, 4), [([away((2, 9, 2)), np.array(2), None, np.array(4)], [0]), ([away((2, 9, 2)), np.array(2), away((4,)), np.array(4)], [0, 2])], onesided=False)


def resizes():
    def case(shape, size, function, **attrs):
        axes = list(range(2, len(shape)))
        several("resize", lambda x, *_: function(x, size), [([away(shape), None, None, ints(*size)], [0])], axes=axes, **attrs)

    for shape, size in (((2, 3, 5), (8,)), ((1, 2, 4, 5), (7, 3)), ((2, 1, 3, 2, 4), (2, 5, 6)), ((0, 2, 4, 5), (7, 3))):
        mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
        case(shape, size, lambda x, s, m=mode: F.interpolate(x, s, mode=m), mode="linear", coordinates="pytorch_half_pixel")
        case(shape, size, lambda x, s, m=mode: F.interpolate(x, s, mode=m, align_corners=True), mode="linear", coordinates="align_corners")
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="nearest"), mode="nearest", coordinates="asymmetric", nearest="floor")
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="nearest-exact"), mode="nearest", coordinates="half_pixel", nearest="round_prefer_ceil")
    for shape, size in (((1, 2, 4, 5), (7, 3)), ((2, 3, 6, 4), (3, 9)), ((0, 2, 4, 5), (7, 3))):
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="bicubic"), mode="cubic", coordinates="half_pixel")
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="bicubic", align_corners=True), mode="cubic", coordinates="align_corners")
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="bilinear", antialias=True), mode="linear", coordinates="half_pixel", antialias=True, exclude_outside=True)
        case(shape, size, lambda x, s: F.interpolate(x, s, mode="bicubic", antialias=True), mode="cubic", coordinates="half_pixel", antialias=True, cubic_coeff=-0.5, exclude_outside=True)


def grids():
    """Positions reach far outside of the image."""
    modes = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    for x, places in (((1, 2, 3, 4), (1, 2, 3, 2)), ((2, 1, 5, 3), (2, 4, 1, 2)), ((2, 3, 2, 3, 4), (2, 1, 2, 2, 3)), ((0, 2, 3, 4), (0, 2, 3, 2))):
        for mode in modes if len(x) == 4 else ("linear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                for align in (False, True):
                    several("grid_sample", lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g, modes[m], p, a),
                            [([away(x), away(places, -1.9, 1.9)], [0, 1])], mode=mode, padding=padding, align_corners=align)
    for theta, size in (((2, 2, 3), (2, 1, 3, 4)), ((1, 3, 4), (1, 2, 2, 3, 4)), ((3, 2, 3), (3, 1, 2, 5)), ((0, 2, 3), (0, 1, 3, 4))):
        for align in (False, True):
            several("affine_grid", lambda t, s, a=align: affine_grid(t, s.tolist(), a), [([away(theta), ints(*size)], [0])], align_corners=align)


def affine_grid(theta, size, align):
    """PyTorch's own refuses to be empty. With one position along an axis and aligned corners it takes the middle, ONNX the first."""
    if len(theta) or theta.shape[1:] != (len(size) - 2, len(size) - 1):
        return F.affine_grid(theta, size, align)
    return theta.new_zeros(0, *size[2:], len(size) - 2) + theta.sum()


def deform_patches(kernel, strides, pads, dilations, offset_group):
    """[N, C, taps, out...]: x around the moved taps; a corner outside of x is 0."""
    def function(x, offset, mask=None):
        rank, count, spatial = len(kernel), math.prod(kernel), offset.shape[2:]
        images, channels = x.shape[:2]
        offset = offset.reshape(images, offset_group, count, rank, *spatial)
        taps, places = np.indices(kernel).reshape(rank, -1), np.indices(tuple(spatial))
        lines, total = x.reshape(images, offset_group, channels // offset_group, math.prod(x.shape[2:])), 0
        for corner in itertools.product((0, 1), repeat=rank):
            weight, at, valid = 1, 0, True
            for i in range(rank):
                base = taps[i].reshape(-1, *[1] * rank) * dilations[i] + places[i] * strides[i] - pads[i]
                point = offset[:, :, :, i] + torch.from_numpy(base).to(x.dtype)
                low = point.detach().floor()
                place, part = low.long() + corner[i], point - low
                weight = weight * (part if corner[i] else 1 - part)
                valid = valid & (place >= 0) & (place < x.shape[2 + i])
                at = at * x.shape[2 + i] + place.clamp(0, x.shape[2 + i] - 1)
            index = at.reshape(images, offset_group, 1, count * math.prod(spatial)).expand(-1, -1, channels // offset_group, -1)
            picked = lines.gather(3, index).reshape(images, offset_group, channels // offset_group, count, *spatial)
            total = total + picked * (weight * valid).unsqueeze(2)
        if mask is not None:
            total = total * mask.reshape(images, offset_group, 1, count, *spatial)
        return total.reshape(images, channels * count, *spatial)
    return function


def deform_conv(strides, pads, dilations, group, offset_group):
    def function(x, w, offset, bias=None, mask=None):
        patches = deform_patches(w.shape[2:], strides, pads, dilations, offset_group)(x, offset, mask)
        y = torch.einsum("gfr,ngrp->ngfp", w.reshape(group, len(w) // group, math.prod(w.shape[1:])), patches.reshape(len(x), group, math.prod(w.shape[1:]), math.prod(offset.shape[2:])))
        y = y.reshape(len(x), len(w), *offset.shape[2:])
        return y if bias is None else y + bias.reshape(-1, *[1] * (x.dim() - 2))
    return function


def deformed():
    for x, w, spatial, strides, pads, dilations, group, offset_group in (
            ((2, 4, 5, 4), (6, 2, 2, 3), (4, 2), [1, 1], [0, 0, 0, 0], [1, 1], 2, 1), ((1, 4, 5, 5), (3, 4, 3, 3), (3, 3), [2, 2], [1, 1, 1, 1], [1, 1], 1, 2),
            ((2, 2, 7), (3, 2, 3), (5,), [1], [1, 1], [2], 1, 1), ((0, 2, 5), (3, 2, 3), (1,), [1], [0, 0], [2], 1, 1)):
        rank, taps = len(spatial), math.prod(w[2:])
        x, w, bias = away(x), away(w), away(w[:1])
        offset, mask = away((len(x), offset_group * taps * rank, *spatial), -1.5, 1.5, range(-2, 3)), away((len(x), offset_group * taps, *spatial))
        attrs = dict(strides=strides, pads=pads, dilations=dilations, offset_group=offset_group)
        several("deform_conv", deform_conv(strides, pads, dilations, group, offset_group), [([x, w, offset, bias, mask], [0, 1, 2, 3, 4]), ([x, w, offset], [0, 1, 2])], group=group, **attrs)
        several("deform_patches", lambda x, o, m, k, a=(list(w.shape[2:]), strides, pads, dilations, offset_group): deform_patches(*a)(x, o, m), [([x, offset, mask, ints(*w.shape[2:])], [0, 1, 2])], **attrs)


def roi_align(mode, rows, columns, samples, scale, half_pixel):
    """ONNX's form, whose maximum is over the weighted pixels around the samples, one by one."""
    def function(x, rois, batch):
        height, width, results = *x.shape[2:], []
        if len(rois) != len(batch):
            raise ValueError("a batch index for each box is wanted")
        for box, image in zip(rois.double() * scale - (0.5 if half_pixel else 0), batch):
            left, top, right, bottom = box.tolist()
            extent = [bottom - top, right - left] if half_pixel else [max(bottom - top, 1), max(right - left, 1)]
            axes = []
            for start, step, n, size in zip((top, left), (extent[0] / rows, extent[1] / columns), (rows, columns), (height, width)):
                count = samples or math.ceil(step)
                place = start + (torch.arange(n).double()[:, None] + (torch.arange(count).double() + 0.5) / count) * step
                valid, place = (place >= -1) & (place <= size), place.clamp(0, size - 1)
                low = place.floor()
                axes.append([(at.long().clamp(max=size - 1), weight * valid) for at, weight in ((low, 1 - place + low), (low + 1, place - low))])
            parts = []
            for (y, v), (z, h) in itertools.product(*axes):
                weight = v[:, None, :, None] * h[None, :, None, :]
                parts.append(x[image][:, y[:, None, :, None], z[None, :, None, :]] * weight.to(x.dtype))
            parts = torch.stack(parts, -1)
            results.append(parts.sum(-1).mean((3, 4)) if mode == "avg" else parts.flatten(3).max(-1).values)
        return torch.stack(results) if results else x.new_zeros(0, x.shape[1], rows, columns) + 0 * x.sum()
    return function


def boxes():
    for mode, half_pixel, (rows, columns, samples, scale) in itertools.product(("avg", "max"), (True, False), ((1, 1, 0, 1.0), (2, 3, 2, 0.7), (3, 2, 0, 1.3))):
        function = roi_align(mode, rows, columns, samples, scale, half_pixel)
        cases = []
        for shape, images in (((2, 3, 5, 6), (1, 0, 1, 1, -1, 0, 1)), ((1, 70, 7, 3), (0, 0)), ((3, 2, 6, 8), (2,)), ((1, 2, 5, 3), ())):
            corner = rng.uniform(-2, 2.5, (len(images), 2))
            cases.append(([away(shape), np.concatenate([corner, corner + rng.uniform(0.6, 6, corner.shape)], 1), ints(*images)], [0]))
        several("roi_align", function, cases, mode=mode, coordinates="half_pixel" if half_pixel else "output_half_pixel",
                output_height=rows, output_width=columns, sampling_ratio=samples, spatial_scale=scale)


transforms()
deformed()
resizes()
grids()
boxes()
