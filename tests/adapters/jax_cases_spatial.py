"""Cases of jax_builtins_test.py: normalisations, and operators over the spatial axes of [N, C, spatial...]: convolutions, pools, interpolation."""
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates

from jax_cases import away, case, case_and_backward, gradient_of, rng

# ---- normalisations --------------------------------------------------------------------------------------------------


def by_channel(x, t):
    return t.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(x, scale, bias, mean, var, epsilon=1e-5):
    return (x - by_channel(x, mean)) * jax.lax.rsqrt(by_channel(x, var) + epsilon) * by_channel(x, scale) + by_channel(x, bias)


def layer_norm(x, scale=None, bias=None, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = jax.nn.standardize(x, axes, epsilon=epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def layer_norm_all(x, scale, bias):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return layer_norm(x, scale, bias), mean, jax.lax.rsqrt(var + 1e-5)


def rms_norm(x, scale=None, axis=-1, epsilon=1e-5):
    y = x * jax.lax.rsqrt(jnp.mean(x * x, tuple(range(axis % x.ndim, x.ndim)), keepdims=True) + epsilon)
    return y if scale is None else y * scale


def group_norm(x, scale=None, bias=None, groups=0, epsilon=1e-5):
    y = jax.nn.standardize(x.reshape(x.shape[0], groups or x.shape[1], -1), -1, epsilon=epsilon).reshape(x.shape)
    y = y if scale is None else y * by_channel(x, scale)
    return y if bias is None else y + by_channel(x, bias)


def lrn(x, size, alpha=0.0001, beta=0.75, bias=1.0):
    squares = jax.lax.reduce_window(x * x, 0.0, jax.lax.add, (1, size, *[1] * (x.ndim - 2)), (1,) * x.ndim, [(0, 0), ((size - 1) // 2, size // 2)] + [(0, 0)] * (x.ndim - 2))
    return x / (bias + alpha / size * squares) ** beta


def lp_norm(x, axis=-1, p=2):
    return x / jnp.linalg.norm(x, p, axis, keepdims=True)


def mean_variance_norm(x, axes=(0, 2, 3)):
    centred = x - x.mean(axes, keepdims=True)
    return centred / (jnp.sqrt(jnp.mean(centred * centred, axes, keepdims=True)) + 1e-9)


for shape in (4, 3, 5), (2, 3, 2, 4), (0, 3, 2):
    case_and_backward("batch_norm", batch_norm, away(shape), *[away((3,)) for _ in range(3)], away((3,), 0.3, 2), count=5, epsilon=1e-3)
for shape, axis, inner in ((2, 3, 4), -1, (4,)), ((2, 3, 4), 1, (3, 4)):
    case("layer_norm", layer_norm, away(shape), away(inner), away(inner), axis=axis)
    case("layer_norm_backward", gradient_of(layer_norm, 3), away(shape), away(shape), away(inner), away(inner), axis=axis)
    case_and_backward("rms_norm", rms_norm, away(shape), away(inner), axis=axis, count=2)
case("layer_norm", layer_norm_all, away((2, 4)), away((4,)), away((4,)), wanted=())
case("layer_norm", layer_norm, away((5,)), epsilon=1e-2)
case("rms_norm", rms_norm, away((5,)), epsilon=1e-2)
for shape in (2, 6, 5), (1, 6, 3, 4):
    arrays = away(shape), away((6,)), away((6,))
    case_and_backward("group_norm", group_norm, *arrays, groups=3, epsilon=1e-3, count=3)
    case("group_norm", group_norm, away(shape), groups=2)
    case("instance_norm", group_norm, *arrays)
case("instance_norm", group_norm, away((2, 3, 4)), epsilon=1e-2)
for shape in (2, 7, 3), (1, 6, 2, 3):
    case_and_backward("lrn", lrn, away(shape), size=3, alpha=0.6, bias=1.5)
    case_and_backward("lrn", lrn, away(shape), size=4, alpha=0.9, beta=0.5, bias=2.0)
for shape, axis in ((3, 4), -1), ((2, 3, 4), 1):
    for p in 1, 2:
        case_and_backward("lp_norm", lp_norm, away(shape, kinks=(0,)), axis=axis, p=p)
for shape, axes in ((2, 3, 4, 5), (0, 2, 3)), ((3, 4), (-1,)):
    case_and_backward("mean_variance_norm", mean_variance_norm, away(shape), axes=axes, units=2**12)

# ---- convolutions ----------------------------------------------------------------------------------------------------

ACTIVATIONS = {"none": lambda x, a, b: x, "relu": lambda x, a, b: jax.nn.relu(x), "clip": lambda x, a, b: jnp.clip(x, a, b), "leaky_relu": lambda x, a, b: jax.nn.leaky_relu(x, a),
               "elu": lambda x, a, b: jax.nn.elu(x, a), "gelu": lambda x, a, b: jax.nn.gelu(x, approximate=False), "gelu_tanh": lambda x, a, b: jax.nn.gelu(x), "tanh": lambda x, a, b: jnp.tanh(x),
               "sigmoid": lambda x, a, b: jax.nn.sigmoid(x), "silu": lambda x, a, b: jax.nn.silu(x), "hard_sigmoid": lambda x, a, b: jnp.clip(a * x + b, 0, 1),
               "hard_swish": lambda x, a, b: jax.nn.hard_swish(x), "mish": lambda x, a, b: jax.nn.mish(x)}
NUMBERS = {"clip": (-0.5, 0.5), "leaky_relu": (0.2, 0.0), "elu": (0.7, 0.0), "hard_sigmoid": (0.2, 0.5)}
AUTO = {"same_upper": "SAME", "same_lower": "SAME_LOWER", "valid": "VALID"}


def pairs(pads, rank):
    return list(zip(pads[:rank], pads[rank:])) if pads else [(0, 0)] * rank


def conv(x, w, bias=None, residual=None, strides=(), pads=(), dilations=(), auto_pad="explicit", group=1, activation="none", alpha=0.0, beta=0.0):
    rank = x.ndim - 2
    y = jax.lax.conv_general_dilated(x, w, strides or (1,) * rank, AUTO.get(auto_pad) or pairs(pads, rank), rhs_dilation=dilations or None, feature_group_count=group,
                                     preferred_element_type=jnp.int32 if x.dtype == jnp.int32 else None)
    y = y if bias is None else y + by_channel(y, bias)
    y = y if residual is None else y + residual
    return ACTIVATIONS[activation](y, alpha, beta)


def conv_transpose(x, w, bias=None, strides=(), pads=(), dilations=(), group=1, output_padding=()):
    rank = x.ndim - 2
    strides, dilations, more = strides or (1,) * rank, dilations or (1,) * rank, output_padding or (0,) * rank
    w = w.reshape(group, w.shape[0] // group, *w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape(-1, *w.shape[2:]), range(2, rank + 2))
    reach = [d * (k - 1) for d, k in zip(dilations, w.shape[2:])]
    padding = [(r - before, r - after + m) for r, (before, after), m in zip(reach, pairs(pads, rank), more)]
    y = jax.lax.conv_general_dilated(x, w, (1,) * rank, padding, lhs_dilation=strides, rhs_dilation=dilations, feature_group_count=group)
    return y if bias is None else y + by_channel(y, bias)


for shapes, attrs in ((((2, 3, 8), (4, 3, 3), (4,)), {}),
                      (((2, 4, 7, 6), (6, 2, 3, 2), (6,)), {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2), "group": 2}),
                      (((1, 2, 4, 3, 4), (3, 2, 2, 2, 2)), {"strides": (1, 2, 2), "pads": (0, 1, 1, 0, 1, 0)}),
                      (((2, 3, 5, 5), (3, 1, 3, 3), (3,)), {"strides": (2, 2), "pads": (1,) * 4, "group": 3}),
                      (((1, 2, 5, 4), (3, 2, 3, 3), (3,)), {"auto_pad": "same_upper", "strides": (2, 2)}),
                      (((1, 2, 5, 4), (3, 2, 2, 2), (3,)), {"auto_pad": "same_lower"}),
                      (((1, 2, 6, 4), (3, 2, 3, 3), (3,)), {"auto_pad": "valid", "strides": (2, 2)}),
                      (((1, 2, 9), (2, 2, 2), None, (1, 2, 3)), {"strides": (3,), "pads": (-1, 0)})):
    arrays = [None if s is None else away(s) for s in shapes]
    case("conv", conv, *arrays, **attrs)
    if len(shapes) < 4:
        dy = away(jax.eval_shape(lambda *a: conv(*a, **attrs), *arrays).shape)
        case("conv_backward", gradient_of(conv, 4), dy, *arrays[:2], away(shapes[1][:1]), away(dy.shape), **attrs)
        kernel = shapes[1][2:]
        case("conv_weight_backward", lambda dy, x, k, s=shapes[1], **a: jax.vjp(lambda w: conv(x, w, **a), jnp.zeros(s, dy.dtype))[1](dy)[0], dy, arrays[0], kernel, **attrs)
for name in ACTIVATIONS:
    alpha, beta = NUMBERS.get(name, (0.0, 0.0))
    case("conv", conv, *map(away, [(1, 2, 3, 3), (2, 2, 2, 2), (2,), (1, 2, 2, 2)]), activation=name, alpha=alpha, beta=beta)
    case("finish_backward", lambda dy, x, activation, alpha, beta: jax.vjp(lambda x: ACTIVATIONS[activation](x, alpha, beta), x)[1](dy)[0], away((3, 4)), away((3, 4)), activation=name, alpha=alpha, beta=beta, wanted=())
for shapes, attrs in ((((2, 3, 5), (3, 4, 3), (4,)), {}),
                      (((2, 4, 4, 3), (4, 3, 2, 3), (6,)), {"strides": (2, 3), "pads": (1, 0, 0, 2), "dilations": (1, 2), "group": 2, "output_padding": (1, 0)}),
                      (((1, 2, 3, 2, 3), (2, 3, 2, 2, 2), (3,)), {"strides": (1, 2, 2), "output_padding": (0, 1, 1)})):
    case_and_backward("conv_transpose", conv_transpose, *map(away, shapes), count=len(shapes), **attrs)
case("conv_transpose", lambda x, w, output_shape, strides: conv_transpose(x, w, strides=strides, pads=(1, 0)), away((1, 2, 3)), away((2, 2, 3)), strides=(2,), output_shape=(6,))


def whole(shape, dtype, low=0):
    return rng.integers(low, 120, shape).astype(dtype)


def conv_integer(x, w, x_zero=None, w_zero=None, **attrs):
    x, w = x.astype(jnp.int32) - (0 if x_zero is None else x_zero.astype(jnp.int32)), w.astype(jnp.int32)
    return conv(x, w - (0 if w_zero is None else by_channel(x, w_zero)[None].reshape(-1, *[1] * (w.ndim - 1)).astype(jnp.int32)), **attrs)


case("conv_integer", conv_integer, whole((1, 2, 4, 5), np.uint8), whole((3, 2, 2, 2), np.int8, -120), np.array(7, np.uint8), pads=(1, 0, 0, 1))
case("conv_integer", conv_integer, whole((1, 2, 4, 5), np.uint8), whole((3, 2, 2, 2), np.uint8), np.array(7, np.uint8), np.array([3], np.uint8), strides=(2, 1))
case("conv_integer", conv_integer, whole((1, 2, 5), np.int8, -9), whole((2, 1, 2), np.int8), group=2)

# ---- pools -----------------------------------------------------------------------------------------------------------


def taps(x, kernel, outside, strides=(), pads=(), dilations=(), ceil_mode=False):
    """The elements of each window, [taps, N, C, out...], with `outside` for elements outside of x."""
    rank = len(kernel)
    strides, dilations, pads = strides or (1,) * rank, dilations or (1,) * rank, pairs(pads, rank)
    outs, widths = [], [(0, 0, 0), (0, 0, 0)]
    for i in range(rank):
        room = x.shape[2 + i] + sum(pads[i]) - dilations[i] * (kernel[i] - 1) - 1
        out = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        outs.append(min(out, -(-(x.shape[2 + i] + pads[i][0]) // strides[i])) if ceil_mode else out)
        widths.append((pads[i][0], pads[i][1] + max(0, (outs[i] - 1) * strides[i] - room), 0))
    x = jax.lax.pad(x, jnp.asarray(outside, x.dtype), widths)
    parts = []
    for tap in itertools.product(*map(range, kernel)):
        parts.append(x[(..., *[slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilations, outs, strides)])])
    return jnp.stack(parts)


def max_pool(x, **window):
    all_taps = taps(x, outside=-jnp.inf, **window)
    at = taps(jnp.arange(x.size).reshape(x.shape), outside=-1, **window)
    return all_taps.max(0), jnp.take_along_axis(at, all_taps.argmax(0)[None], 0)[0]


def average_pool(x, count_include_pad=False, **window):
    ones = jnp.ones_like(x)
    if count_include_pad:
        rank = len(window["kernel"])
        ones, window_of_ones = jax.lax.pad(ones, jnp.ones((), x.dtype), [(0, 0, 0)] * 2 + [(*p, 0) for p in pairs(window.get("pads"), rank)]), {**window, "pads": ()}
        return taps(x, outside=0, **window).sum(0) / taps(ones, outside=0, **window_of_ones).sum(0)
    return taps(x, outside=0, **window).sum(0) / taps(ones, outside=0, **window).sum(0)


def lp_pool(x, p=2.0, **window):
    return jnp.sum(jnp.abs(taps(x, outside=0, **window)) ** p, 0) ** (1 / p)


for shape, window in (((2, 3, 9), {"kernel": (3,)}), ((2, 2, 8, 7), {"kernel": (2, 3), "strides": (2, 1), "pads": (1, 0, 0, 2), "dilations": (1, 2), "ceil_mode": True}),
                      ((1, 2, 5, 4, 4), {"kernel": (2, 2, 2), "strides": (2, 1, 2), "pads": (0, 1, 0, 1, 0, 1)}), ((1, 2, 6, 5), {"kernel": (3, 3), "strides": (2, 2), "pads": (1,) * 4, "ceil_mode": True})):
    x = away(shape, kinks=(0,))
    case("max_pool", max_pool, x, **window)
    pooled = jax.eval_shape(lambda x: max_pool(x, **window)[0], x).shape
    indices = np.asarray(jax.jit(lambda x: max_pool(x, **window)[1])(x))
    case("max_pool_gather", lambda x, i: x.ravel()[i], away(shape), indices, narrow=False)  # indices are i64, which JAX has not by default
    case("max_pool_backward", lambda dy, i, s: jnp.zeros(math.prod(s), dy.dtype).at[i.ravel()].add(dy.ravel()).reshape(s), away(pooled), indices, shape, narrow=False)
    case("average_pool", average_pool, x, **window)
    case("average_pool_backward", lambda dy, s, **w: gradient_of(average_pool, 1)(dy, jnp.zeros(s, dy.dtype), **w), away(pooled), shape, **window)
    for p in 1.0, 3.0:
        case("lp_pool", lp_pool, x, p=p, **window)
    case("lp_pool_backward", lambda dy, x, y, **w: gradient_of(lp_pool, 1)(dy, x, **w), away(pooled), x, np.asarray(jax.jit(lambda x: lp_pool(x, 3.0, **window))(x)), p=3.0, wanted=(), **window)
case("average_pool", average_pool, away((1, 2, 5, 4)), kernel=(3, 3), strides=(2, 2), pads=(1,) * 4, count_include_pad=True)
case("average_pool", lambda x, kernel, strides, auto_pad: average_pool(x, kernel=kernel, strides=strides, pads=(0, 0, 1, 1)), away((1, 2, 5, 3)), kernel=(2, 2), strides=(2, 2), auto_pad="same_upper")
case("max_pool", lambda x, kernel, strides, auto_pad: max_pool(x, kernel=kernel, strides=strides, pads=(1, 1, 0, 0)), away((1, 2, 5, 3)), kernel=(2, 2), strides=(2, 2), auto_pad="same_lower")
for shape in (2, 3, 9), (2, 3, 4, 5):
    axes = tuple(range(2, len(shape)))
    case("global_average_pool", lambda x, a=axes: x.mean(a, keepdims=True), away(shape))
    case("global_max_pool", lambda x, a=axes: x.max(a, keepdims=True), away(shape))
    case("global_lp_pool", lambda x, p, a=axes: jnp.sum(jnp.abs(x) ** p, a, keepdims=True) ** (1 / p), away(shape), p=3.0)
for shape, kernel in ((2, 3, 8), (2,)), ((1, 2, 6, 4), (2, 2)):
    x = away(shape)
    pooled, indices = map(np.asarray, jax.jit(lambda x: max_pool(x, kernel=kernel, strides=kernel))(x))
    case("max_unpool", lambda x, i, kernel, strides, s=shape: jnp.zeros(math.prod(s), x.dtype).at[i.ravel()].set(x.ravel()).reshape(s), pooled, indices, kernel=kernel, strides=kernel, narrow=False)
    case("max_unpool_backward", lambda dy, i, kernel, strides: dy.ravel()[i], away(shape), indices, kernel=kernel, strides=kernel, narrow=False)

# ---- interpolation ---------------------------------------------------------------------------------------------------


def resized(method, antialias=False):
    def function(x, roi, scales, sizes, axes, **attrs):
        return jax.image.resize(x, (*x.shape[:2], *sizes), method, antialias)
    return function


def corners(x, roi, scales, sizes, axes, **attrs):
    for axis, size in zip(axes, sizes):
        at = jnp.linspace(0, x.shape[axis] - 1, size, dtype=x.dtype)
        low = jnp.clip(jnp.floor(at).astype(int), 0, x.shape[axis] - 2)
        weight = (at - low).reshape(-1, *[1] * (x.ndim - axis - 1))
        x = jnp.take(x, low, axis) * (1 - weight) + jnp.take(x, low + 1, axis) * weight
    return x


for shape, sizes in ((2, 3, 5), (8,)), ((1, 2, 4, 5), (7, 3)):
    axes = tuple(range(2, len(shape)))
    for function, attrs in ((resized("linear"), {"mode": "linear"}), (resized("linear", True), {"mode": "linear", "antialias": True, "exclude_outside": True}),
                            (resized("nearest"), {"mode": "nearest", "nearest": "round_prefer_ceil"}), (corners, {"mode": "linear", "coordinates": "align_corners"}),
                            (resized("cubic"), {"mode": "cubic", "cubic_coeff": -0.5, "exclude_outside": True}), (resized("cubic", True), {"mode": "cubic", "cubic_coeff": -0.5, "exclude_outside": True, "antialias": True})):
        x = away(shape)
        case("resize", function, x, None, None, sizes, axes=axes, **attrs)
        case("resize_backward", lambda dy, s, roi, scales, sizes, f=function, **a: jax.vjp(lambda x: f(x, None, None, sizes, **a), jnp.zeros(s, dy.dtype))[1](dy)[0], away((*shape[:2], *sizes)), shape, None, None, sizes,
             axes=axes, **attrs)
ORDER, OUTSIDE = {"linear": 1, "nearest": 0}, {"zeros": "constant", "border": "nearest"}


def grid_sample(x, grid, mode="linear", padding="zeros", align_corners=False):
    extents = jnp.array(x.shape[:1:-1], grid.dtype)  # innermost axis first, as in the grid
    at = (grid + 1) / 2 * (extents - 1) if align_corners else ((grid + 1) * extents - 1) / 2
    places = jnp.moveaxis(at[..., ::-1], -1, 1)
    outside = {"reflection": "mirror" if align_corners else "reflect"}.get(padding) or OUTSIDE[padding]
    return jax.vmap(lambda image, p: jax.vmap(lambda channel: map_coordinates(channel, list(p), ORDER[mode], outside))(image))(x, places)


for x, grid in ((1, 2, 3, 4), (1, 2, 3, 2)), ((2, 3, 2, 3, 4), (2, 1, 2, 2, 3)):
    for mode, padding, align in (("linear", "zeros", False), ("linear", "border", True), ("linear", "reflection", False), ("linear", "reflection", True), ("nearest", "zeros", True)):
        attrs = {"mode": mode, "padding": padding, "align_corners": align}
        case("grid_sample", grid_sample, away(x), away(grid, -1.5, 1.5), **attrs)
        case("grid_sample_backward", gradient_of(grid_sample, 2), away((*x[:2], *grid[1:-1])), away(x), away(grid, -1.5, 1.5), wanted=(), **attrs)


def affine_grid(theta, size, align_corners=False):
    lines = [jnp.linspace(-1, 1, n, dtype=theta.dtype) if align_corners else (2 * jnp.arange(n, dtype=theta.dtype) + 1) / n - 1 for n in size[2:]]
    grid = jnp.stack([*jnp.meshgrid(*lines, indexing="ij")[::-1], jnp.ones(size[2:], theta.dtype)], -1)
    return jnp.einsum("...k,njk->n...j", grid, theta)


for theta, size in ((2, 2, 3), (2, 1, 3, 4)), ((1, 3, 4), (1, 2, 2, 3, 4)):
    for align in False, True:
        case("affine_grid", affine_grid, away(theta), size, align_corners=align)
        case("affine_grid_backward", lambda dy, s, align_corners, t=theta: gradient_of(lambda t: affine_grid(t, s, align_corners), 1)(dy, jnp.zeros(t, dy.dtype)), away((size[0], *size[2:], len(size) - 2)), size, align_corners=align)


def deform_patches(x, offset, mask, kernel, strides=(), pads=(), dilations=(), offset_group=1):
    rank, count, spatial = len(kernel), math.prod(kernel), offset.shape[2:]
    first = np.indices(kernel).reshape(rank, count, *[1] * rank) * np.reshape(dilations, (rank, 1, *[1] * rank))
    first = first + (np.indices(spatial) * np.reshape(strides, (rank, *[1] * rank)))[:, None] - np.reshape(pads[:rank], (rank, 1, *[1] * rank))  # [rank, taps, out...]
    offset = offset.reshape(x.shape[0], offset_group, count, rank, *spatial)
    channels = x.reshape(x.shape[0], offset_group, -1, *x.shape[2:])

    def sampled(image, moves):  # of one group: [channels, in...], [taps, rank, out...]
        places = [first[i] + moves[:, i] for i in range(rank)]
        return jax.vmap(lambda channel: map_coordinates(channel, places, 1))(image)
    made = jax.vmap(jax.vmap(sampled))(channels, offset)
    made = made if mask is None else made * mask.reshape(x.shape[0], offset_group, 1, count, *spatial)
    return made.reshape(x.shape[0], -1, *spatial)


def deform_conv(x, w, offset, bias=None, mask=None, group=1, **window):
    patches = deform_patches(x, offset, mask, w.shape[2:], **window)
    y = jnp.einsum("gfr,ngrp->ngfp", w.reshape(group, w.shape[0] // group, -1), patches.reshape(x.shape[0], group, math.prod(w.shape[1:]), -1))
    y = y.reshape(x.shape[0], w.shape[0], *offset.shape[2:])
    return y if bias is None else y + by_channel(y, bias)


for x, w, spatial, window, group in (((2, 4, 5, 4), (4, 2, 2, 3), (4, 2), {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "offset_group": 1}, 2),
                                     ((1, 4, 5, 5), (3, 4, 3, 3), (3, 3), {"strides": (2, 2), "pads": (1,) * 4, "dilations": (1, 1), "offset_group": 2}, 1)):
    count = math.prod(w[2:]) * window["offset_group"]
    arrays = away(x), away(w), away((x[0], 2 * count, *spatial), -1.5, 1.5, range(-2, 3)), away(w[:1]), away((x[0], count, *spatial))
    case("deform_conv", deform_conv, *arrays, group=group, **window)
    case("deform_conv_backward", gradient_of(deform_conv, 5), away((x[0], w[0], *spatial)), *arrays, group=group, wanted=(), **window)
    case("deform_patches", deform_patches, arrays[0], arrays[2], arrays[4], w[2:], **window)
    case("deform_patches_backward", lambda dy, x, o, m, k, **a: jax.vjp(lambda x, o, m: deform_patches(x, o, m, k, **a), x, o, m)[1](dy), away((x[0], x[1] * math.prod(w[2:]), *spatial)), arrays[0], arrays[2], arrays[4], w[2:],
         wanted=(), **window)


def roi_align(x, rois, images, output_height, output_width, sampling_ratio, spatial_scale, coordinates="half_pixel"):
    """The mean of sampling_ratio² samples; a sample more than 1 outside of the image is 0."""
    half = 0.5 if coordinates == "half_pixel" else 0.0

    def one(box, image):
        left, top, right, bottom = box * spatial_scale - half
        lines, valid = [], []
        for start, end, n, size in (top, bottom, output_height, x.shape[2]), (left, right, output_width, x.shape[3]):
            extent = end - start if half else jnp.maximum(end - start, 1)
            at = start + (jnp.arange(n * sampling_ratio) + 0.5) * extent / (n * sampling_ratio)
            valid.append((at >= -1) & (at <= size))
            lines.append(jnp.clip(at, 0, size - 1))
        places = jnp.meshgrid(*lines, indexing="ij")
        weight = valid[0][:, None] & valid[1]
        made = jax.vmap(lambda channel: map_coordinates(channel, places, 1, "nearest") * weight)(x[image])
        return made.reshape(x.shape[1], output_height, sampling_ratio, output_width, sampling_ratio).mean((2, 4))
    return jax.vmap(one)(rois, images)


corner = rng.uniform(-2, 2.5, (3, 2))
boxes, images = np.concatenate([corner, corner + rng.uniform(0.6, 6, corner.shape)], 1), np.array([1, 0, 1])
for coordinates in "half_pixel", "output_half_pixel":
    attrs = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.7, "coordinates": coordinates}
    case("roi_align", roi_align, away((2, 3, 5, 6)), boxes, images, wanted=(0,), **attrs)
    case("roi_align_backward", gradient_of(roi_align, 1), away((3, 3, 2, 3)), away((2, 3, 5, 6)), boxes, images, wanted=(0,), **attrs)
    case("roi_align_second", lambda ddx, x, *more, **a: roi_align(ddx, *more, **a), away((2, 3, 5, 6)), away((2, 3, 5, 6)), boxes, images, wanted=(), **attrs)
