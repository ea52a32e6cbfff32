"""Cases for autograd_test.py: transforms, and interpolation.  Kinks left out: places that lie on an element."""
import numpy as np
import torch
import torch.nn.functional as F

from gradients import away, ints, several


def complex_of(x):
    return torch.view_as_complex(x) if x.shape[-1] == 2 else x[..., 0]


def parts_of(z):
    return torch.view_as_real(z.resolve_conj()) if z.is_complex() else z.unsqueeze(-1)


def transformed(function, x, axis, n=None):
    """A transform by PyTorch as a matrix, since PyTorch's has no second derivatives of all, and none of empty ones."""
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
    """PyTorch clips the elements of a cubic sample to the border, ONNX the place: alike for places inside only."""
    modes = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    for x, places in (((1, 2, 3, 4), (1, 2, 3, 2)), ((2, 1, 5, 3), (2, 4, 1, 2)), ((2, 3, 2, 3, 4), (2, 1, 2, 2, 3)), ((0, 2, 3, 4), (0, 2, 3, 2))):
        for mode in modes if len(x) == 4 else ("linear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                for align in (False, True):
                    reach = 0.7 if (mode, padding) == ("cubic", "border") else 1.9
                    several("grid_sample", lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g, modes[m], p, a),
                            [([away(x), away(places, -reach, reach)], [0, 1])], mode=mode, padding=padding, align_corners=align)
    for theta, size in (((2, 2, 3), (2, 1, 3, 4)), ((1, 3, 4), (1, 2, 2, 3, 4)), ((3, 2, 3), (3, 1, 2, 5)), ((0, 2, 3), (0, 1, 3, 4))):
        for align in (False, True):
            several("affine_grid", lambda t, s, a=align: affine_grid(t, s.tolist(), a), [([away(theta), ints(*size)], [0])], align_corners=align)


def affine_grid(theta, size, align):
    """PyTorch's refuses to be empty.  With one place along an axis and corners aligned it takes the middle, ONNX the first."""
    if len(theta) or theta.shape[1:] != (len(size) - 2, len(size) - 1):
        return F.affine_grid(theta, size, align)
    return theta.new_zeros(0, *size[2:], len(size) - 2) + theta.sum()


transforms()
resizes()
grids()
