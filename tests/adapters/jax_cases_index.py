"""Cases of jax_builtins_test.py: shapes and views, selection, scatter, padding, reductions, cumulative operators, sorting."""
import math

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import away, case, gradient_of, rng


def ints(*values):
    return np.array(values, np.int64)


# ---- shapes and views ------------------------------------------------------------------------------------------------

for shape, to in ((1, 3), (2, 3)), ((2, 1), (4, 2, 3)), ((1, 5), (0, 5)):
    case("expand", jnp.broadcast_to, away(shape), to)
for axis, shape in (1, (2, 3, 4)), (2, (5, 2, 3, 4)), (0, (2, 3)), (1, (0, 3)):
    case("flatten", lambda x, axis: x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), away(shape), axis=axis)
case("reshape", jnp.reshape, away((2, 6)), (3, 4))
case("reshape", jnp.reshape, away((8,)), (2, -1, 2))
case("reshape", lambda x, s: x.reshape(2, 3, 4), away((2, 12)), (0, 3, -1))
case("reshape", lambda x, s, allow_zero: x.reshape(s), away((2, 0)), (0, 5), allow_zero=True)
case("view", lambda x, shape: x.reshape(shape), away((2, 6)), shape=(2, 1, -1))
case("reshape_alias", lambda x, shape, strides: x.reshape(shape), away((2, 6)), shape=(3, 4), strides=(4, 1), wanted=())
case("as_strided", lambda x, shape, strides, offset: x.ravel()[1:][jnp.array([[0, 2], [1, 3]])], away((2, 3)), shape=(2, 2), strides=(1, 2), offset=1, wanted=())
for shape, axes in ((2, 1, 3), (1,)), ((4, 1, 1), (-1, 1)), ((0, 1), (1,)):
    case("squeeze", jnp.squeeze, away(shape), axes)
case("squeeze", jnp.squeeze, away((1, 3, 1)))
for shape, axes in ((2, 3), (1,)), ((4,), (-1, 0)), ((0, 2), (1,)):
    case("unsqueeze", jnp.expand_dims, away(shape), axes)
for shape, perm in ((2, 3, 4), (1, 2, 0)), ((3, 2), (1, 0)), ((0, 3), (1, 0)):
    case("transpose", lambda x, perm: jnp.transpose(x, perm), away(shape), perm=perm)
    case("untranspose", lambda x, perm: jnp.transpose(x, np.argsort(perm)), away(shape), perm=perm)
case("transpose", jnp.transpose, away((2, 3, 4)))
case("untranspose", jnp.transpose, away((2, 3, 4)))


def sum_to(x, shape):
    leading = x.ndim - len(shape)
    x = x.sum(tuple(range(leading)))
    return x.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True) if 1 in shape else x


for shape, to in ((2, 3), (1, 3)), ((4, 2, 3), (2, 1)), ((0, 3), (1, 3)), ((2, 3), ()):
    case("sum_to", sum_to, away(shape), to)
case("spread", lambda x, s, a: jnp.broadcast_to(x, s), away((2, 1)), (2, 3), (1,))
case("spread", lambda x, s, a: jnp.broadcast_to(x, s), away((1, 4, 1)), (3, 4, 2), (0, -1))
case("spread", lambda x, s, a, keepdims: jnp.broadcast_to(x[:, None], s), away((2, 3)), (2, 4, 3), (1,), keepdims=False)
case("to_dense", lambda x: x, away((2, 3)))
case("local_scalar", lambda x: x.reshape(()), away((1, 1)), wanted=())
case("constant_of_shape", lambda s: jnp.zeros(s, jnp.float32), (2, 3))
case("shape", lambda x: jnp.array(x.shape), away((2, 3, 4)), wanted=())
case("shape", lambda x, start, end: jnp.array(x.shape[start:end]), away((2, 3, 4)), start=-2, end=3, wanted=())
case("size", lambda x: jnp.array(x.size), away((2, 3, 4)), wanted=())
case("size_ratio", lambda x, y: jnp.array(x.size / y.size, x.dtype), away((2, 3, 4)), away((2, 2)), wanted=())
case("eye_like", lambda x: jnp.eye(3, 4), away((3, 4)), wanted=(), narrow=False)
case("eye_like", lambda x, k, dtype: jnp.eye(3, 4, k, dtype), away((3, 4)), wanted=(), k=-1, dtype="int32")
for upper, function in (True, jnp.triu), (False, jnp.tril):
    case("trilu", lambda x, upper, f=function: f(x), away((3, 4)), upper=upper)
    case("trilu", lambda x, k, upper, f=function: f(x, k), away((2, 3, 3)), 1, upper=upper)
    case("trilu", lambda x, k, upper, f=function: f(x, k), np.arange(12).reshape(3, 4), -1, upper=upper)


def depth_to_space(x, block, mode="DCR"):
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w) if mode == "DCR" else x.reshape(n, c // block**2, block, block, h, w).transpose(0, 2, 3, 1, 4, 5)
    return x.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // block**2, h * block, w * block)


def space_to_depth(x, block, mode="DCR"):
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block)
    return x.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)).reshape(n, c * block**2, h // block, w // block)


for mode in "DCR", "CRD":
    case("depth_to_space", depth_to_space, away((2, 8, 2, 3)), block=2, mode=mode)
    case("space_to_depth", space_to_depth, away((2, 3, 4, 2)), block=2, mode=mode)


def places(shape, strides, offset):
    grid = np.array(offset)
    for extent, stride in zip(shape, strides):
        grid = grid[..., None] + np.arange(extent) * stride
    return grid


def strided_sum(x, shape, strides, offset=0):
    return jnp.zeros(math.prod(shape), x.dtype).at[places(x.shape, strides, offset)].add(x).reshape(shape)


for array, shape, strides, offset in (away((2, 3)), (2, 2), (1, 2), 1), (away((4,)), (3, 2), (0, -2), 3):
    case("strided_copy", lambda x, s, strides, offset: x.ravel()[places(s, strides, offset)], array, shape, strides=strides, offset=offset)
    case("strided_zero", lambda x, s, strides, offset: x.ravel().at[places(s, strides, offset)].set(0).reshape(x.shape), array, shape, strides=strides, offset=offset)
case("strided_sum", strided_sum, away((2, 3)), (9,), strides=(3, 1), offset=1)
case("strided_sum", strided_sum, away((2, 2)), (3,), strides=(1, 1))

# ---- lists -----------------------------------------------------------------------------------------------------------

for axis, shapes in (1, [(2, 3), (2, 1), (2, 4)]), (-1, [(3,), (5,)]), (1, [(2, 0), (2, 3)]), (0, [(5, 2)]):
    arrays = [away(s) for s in shapes]
    case("concat", lambda xs, axis: jnp.concatenate(xs, axis), arrays, axis=axis)
    case("concat_backward", lambda dy, xs, axis: jax.vjp(lambda xs: jnp.concatenate(xs, axis), xs)[1](dy)[0], away(np.concatenate(arrays, axis).shape), arrays, axis=axis, wanted=(0,))
case("concat", lambda xs, axis: jnp.concatenate(xs, axis), [ints(1, 2), ints(3)], axis=0)
case("split", lambda x, sizes, axis, count: jnp.split(x, [1, 4], axis), away((2, 6)), (1, 3, 2), axis=1, count=3)
case("split", lambda x, axis, count: jnp.split(x, 3, axis), away((6, 2)), axis=0, count=3)
case("split", lambda x, sizes, axis, count: jnp.split(x, [2, 2], axis), away((3, 4, 2)), (2, 0, 2), axis=-2, count=3)

# ---- selection -------------------------------------------------------------------------------------------------------


def slice_(x, starts, ends, axes=None, steps=None):
    parts = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis, step = (axes[i] if axes else i), (steps[i] if steps else 1)
        parts[axis] = slice(start, None if end < -x.shape[axis] else end, step)
    return x[tuple(parts)]


for shape, starts, ends, axes, steps in ((4, 5), (1, -1), (3, -9), (0, 1), (1, -2)), ((7,), (1,), (6,), (-1,), (2,)), ((0, 3), (0,), (2,), (1,), (1,)), ((3, 4), (1, 1), (2**31, 3), None, None):
    x = away(shape)
    case("slice", slice_, x, starts, ends, axes, steps)
    case("slice_backward", lambda dy, s, *more: jax.vjp(lambda x: slice_(x, *more), jnp.zeros(s, dy.dtype))[1](dy)[0], away(slice_(x, starts, ends, axes, steps).shape), shape, starts, ends, axes, steps)


def gather(x, indices, axis=0):
    return jnp.take(x, indices, axis)


for axis, shape, indices in (0, (4, 3), ints(3, 0, 0)), (1, (2, 5), np.array([[1, 4], [0, 1]], np.int32)), (0, (4,), np.zeros(0, np.int64)), (-1, (2, 3), ints(-1, 1)):
    case("gather", gather, away(shape), indices, axis=axis)
    if 0 not in indices.shape:
        case("gather_backward", lambda dy, i, s, axis: gradient_of(gather, 1)(dy, jnp.zeros(s, dy.dtype), i, axis=axis), away(np.take(np.zeros(shape), indices, axis).shape), indices, shape, axis=axis)
case("gather", gather, np.arange(6, dtype=np.uint8).reshape(3, 2), ints(2, 2))
for axis, shape, indices in (1, (2, 3), np.array([[0, 2, 2, 1], [1, -1, 0, 0]])), (0, (3, 2), np.array([[1, 0]])):
    case("gather_elements", lambda x, i, axis: jnp.take_along_axis(x, i, axis), away(shape), indices, axis=axis)


def gather_nd(x, indices, batch_dims=0):
    if batch_dims:
        return jax.vmap(lambda a, b: gather_nd(a, b, batch_dims - 1))(x, indices)
    return x[tuple(jnp.moveaxis(indices, -1, 0))]


for batch_dims, shape, indices in ((0, (4, 3), [[2], [0], [2]]), (0, (4, 3), [[2, 1], [0, -1], [2, 1]]), (0, (5, 4, 6), [[[4, 1]], [[0, 0]], [[1, 1]]]), (1, (2, 4, 3), [[[2], [0], [2]], [[1], [1], [-1]]])):
    x, indices = away(shape), np.array(indices)
    case("gather_nd", gather_nd, x, indices, batch_dims=batch_dims)
    case("gather_nd_backward", lambda dy, i, s, batch_dims: gradient_of(gather_nd, 1)(dy, jnp.zeros(s, dy.dtype), i, batch_dims=batch_dims), away(gather_nd(x, indices, batch_dims).shape), indices, shape,
         batch_dims=batch_dims)


def one_hot(indices, depth, values, axis=-1):
    hot = jax.nn.one_hot(jnp.where(indices < 0, indices + depth, indices), depth, axis=axis, dtype=bool)
    return jnp.where(hot, values[1], values[0])


case("one_hot", one_hot, ints(1, 0, 7), 4, away((2,)))
case("one_hot", one_hot, np.array([[1, -1], [0, 2]]), 3, away((2,)), axis=1)
case("one_hot", one_hot, ints(2, 0), 3, ints(5, 7), axis=0)
case("range", lambda a, b, d: jnp.arange(a, b, d), 2, 11, 3)
case("range", lambda a, b, d: jnp.arange(a, b, d), 5, -5, -4)


def compress(x, condition, axis=None):
    return jnp.compress(condition, x, axis, size=2, fill_value=0), jnp.sum(condition, dtype=jnp.int32)


case("compress", compress, away((3, 4)), np.array([True, False, True]), axis=1, only={"size": 2}, wanted=())
case("compress", compress, away((5,)), np.array([False, False, True, False, False]), only={"size": 2}, wanted=())
case("compress_backward", lambda dy, c, s, axis: jnp.zeros(s, dy.dtype).at[:, np.array([0, 2])].set(dy), away((3, 2)), np.array([True, False, True]), (3, 3), axis=1, wanted=())


def reverse_sequence(x, lengths, batch_axis=1, time_axis=0):
    steps = jnp.arange(x.shape[time_axis])[:, None]
    at = jnp.where(steps < lengths, lengths - 1 - steps, steps)  # [time, batch]
    at = at if time_axis == 0 else at.T
    return jnp.take_along_axis(x, at.reshape(*at.shape, *[1] * (x.ndim - 2)), time_axis)


case("reverse_sequence", reverse_sequence, away((4, 3)), ints(4, 1, 2))
case("reverse_sequence", reverse_sequence, away((2, 3, 5)), ints(0, 3), batch_axis=0, time_axis=1)

# ---- scatter ---------------------------------------------------------------------------------------------------------


def written(reference, updates, reduction):
    if reduction == "mul":  # JAX differentiates this form only
        return reference.multiply(updates, unique_indices=True)
    return {"none": reference.set, "add": reference.add, "max": reference.max, "min": reference.min}[reduction](updates)


def scatter_elements(x, indices, updates, axis=0, reduction="none"):
    places = jnp.meshgrid(*map(jnp.arange, indices.shape), indexing="ij")
    places[axis] = indices
    return written(jnp.asarray(x).at[tuple(places)], updates, reduction)


def scatter_nd(x, indices, updates, reduction="none"):
    return written(jnp.asarray(x).at[tuple(jnp.moveaxis(indices, -1, 0))], updates, reduction)


def scatter_backward(function):
    def backward(dy, x, updates, indices, out, **attrs):
        return jax.vjp(lambda x, updates: function(x, indices, updates, **attrs), x, updates)[1](dy)
    return backward


for reduction in "none", "add", "mul", "max", "min":
    once = reduction in ("none", "mul")  # JAX has gradients for several updates of one element only for the others
    elements = np.array([[2, 0, -1]]) if once else np.array([[2, 0, 2], [2, 0, -1]])
    for axis, shape, indices in (0, (4, 3), elements), (1, (2, 3), np.array([[2, 0], [1, -1]])):
        x, updates = away(shape), away(indices.shape)
        case("scatter_elements", scatter_elements, x, indices, updates, axis=axis, reduction=reduction)
        case("scatter_elements_backward", scatter_backward(scatter_elements), away(shape), x, updates, indices, np.asarray(scatter_elements(x, indices, updates, axis, reduction)), axis=axis,
             reduction=reduction, wanted=())
    for shape, indices in ((4, 3), [[2], [0]] if once else [[2], [2], [0]]), ((4, 3), [[2, 1], [0, -1], [3, 0]]), ((5, 2, 3), [[[4, 1]], [[0, 0]]]):
        indices, x = np.array(indices), away(shape)
        updates = away((*indices.shape[:-1], *shape[indices.shape[-1]:]))
        case("scatter_nd", scatter_nd, x, indices, updates, reduction=reduction)
        case("scatter_nd_backward", scatter_backward(scatter_nd), away(shape), x, updates, indices, np.asarray(scatter_nd(x, indices, updates, reduction)), reduction=reduction, wanted=())
    case("scatter_elements", scatter_elements, np.arange(5, dtype=np.int32), ints(1, 3), np.array([7, -7], np.int32), reduction=reduction)


def tensor_scatter(x, update, write_indices=None, axis=-2, mode="linear"):
    starts = jnp.zeros(x.shape[0], int) if write_indices is None else write_indices
    places = starts[:, None] + jnp.arange(update.shape[axis])
    places = places % x.shape[axis] if mode == "circular" else places
    axis = axis % x.ndim - 1  # of one image

    def one(x, update, place):
        return jnp.moveaxis(jnp.moveaxis(x, axis, 0).at[place].set(jnp.moveaxis(update, axis, 0)), 0, axis)
    return jax.vmap(one)(x, update, places)


case("tensor_scatter", tensor_scatter, away((2, 5, 3)), away((2, 2, 3)), ints(3, 1))
case("tensor_scatter", tensor_scatter, away((1, 2, 4, 3)), away((1, 2, 2, 3)))
case("tensor_scatter", tensor_scatter, away((2, 5)), away((2, 3)), ints(4, 1), axis=1, mode="circular")
case("tensor_scatter_backward", lambda dy, s, i: jax.vjp(lambda u: tensor_scatter(jnp.zeros_like(dy), u, i), jnp.zeros(s, dy.dtype))[1](dy)[0], away((2, 5, 3)), (2, 2, 3), ints(3, 1))

# ---- padding ---------------------------------------------------------------------------------------------------------


def pad(x, pads, value=None, axes=None, mode="constant"):
    axes = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    widths = [(0, 0)] * x.ndim
    for i, a in enumerate(axes):
        widths[a] = pads[i], pads[i + len(axes)]
    if mode == "constant":
        return jax.lax.pad(x, jnp.zeros((), x.dtype) if value is None else value, [(*w, 0) for w in widths])
    return jnp.pad(x, widths, mode)


for mode in "constant", "reflect", "edge", "wrap":
    case("pad", pad, away((3, 4)), (1, 2), None, (1,), mode=mode)
    case("pad", pad, away((2, 3, 5)), (0, 1, 2, 1), None, (1, -1), mode=mode)
    case("pad_backward", lambda dy, s, pads, axes, mode: gradient_of(lambda x: pad(x, pads, None, axes, mode), 1)(dy, jnp.zeros(s, dy.dtype)), away((3, 7)), (3, 4), (1, 2), (1,), mode=mode)
case("pad", pad, away((4,)), (2, 1), np.array(0.7))
case("pad", pad, away((2, 3)), (2, 0, 1, 0), np.array(0.7))
case("pad", pad, away((3, 4)), (0, 2, 3, -1))
case("pad", pad, np.arange(6).reshape(2, 3), (1, 0, 0, 2), np.array(9))
for shape, repeats in ((2, 3), (2, 3)), ((4,), (1,)), ((2, 3, 2), (1, 4, 1)), ((0, 3), (2, 3)):
    case("tile", jnp.tile, away(shape), repeats)
    case("tile_backward", lambda dy, s, r=repeats: gradient_of(lambda x: jnp.tile(x, r), 1)(dy, jnp.zeros(s, dy.dtype)), away([a * b for a, b in zip(shape, repeats)]), shape)

# ---- reductions ------------------------------------------------------------------------------------------------------

REDUCTIONS = {"reduce_sum": jnp.sum, "reduce_mean": jnp.mean, "reduce_prod": jnp.prod, "reduce_max": jnp.max, "reduce_min": jnp.min, "reduce_l1": lambda x, *a, **k: jnp.sum(jnp.abs(x), *a, **k),
              "reduce_l2": lambda x, *a, **k: jnp.sqrt(jnp.sum(x * x, *a, **k)), "reduce_sum_square": lambda x, *a, **k: jnp.sum(x * x, *a, **k),
              "reduce_log_sum": lambda x, *a, **k: jnp.log(jnp.sum(x, *a, **k)), "reduce_log_sum_exp": jax.scipy.special.logsumexp}
for name, function in REDUCTIONS.items():
    low = 0.2 if name == "reduce_log_sum" else -2
    for shape, axes, keepdims in ((2, 3, 4), (1,), True), ((2, 3, 4), (0, -1), False), ((3,), None, False):
        case(name, lambda x, a=None, keepdims=True, f=function: f(x, axis=a, keepdims=keepdims), away(shape, low, 2, (0,)), axes, keepdims=keepdims)
for name in "reduce_sum", "reduce_max", "reduce_min", "reduce_prod":
    case(name, lambda x, a, f=REDUCTIONS[name]: f(x, axis=a, keepdims=True), np.arange(1, 7, dtype=np.int32).reshape(2, 3), (1,))
case("reduce_sum", lambda x, noop_with_empty_axes: x, away((2, 3)), noop_with_empty_axes=True)
for shape, axes in ((2, 3, 4), (1,)), ((2, 3), None):
    case("reduce_prod_backward", lambda dy, x, a: gradient_of(lambda x: jnp.prod(x, axis=a, keepdims=True), 1)(dy, x), away(np.ones(shape).prod(axes, keepdims=True).shape), away(shape), axes)

# ---- order -----------------------------------------------------------------------------------------------------------


def cumulative(function, neutral):
    def cumulated(x, axis, exclusive=False, reverse=False):
        x = jnp.flip(x, axis) if reverse else x
        y = function(x, axis=axis)
        if exclusive:
            y = jnp.concatenate([jnp.full_like(jax.lax.slice_in_dim(x, 0, 1, axis=axis), neutral), jax.lax.slice_in_dim(y, 0, -1, axis=axis)], axis)
        return jnp.flip(y, axis) if reverse else y
    return cumulated


for exclusive in False, True:
    for reverse in False, True:
        case("cum_sum", cumulative(jnp.cumsum, 0), away((3, 5)), 1, exclusive=exclusive, reverse=reverse)
        case("cum_prod", cumulative(jnp.cumprod, 1), away((2, 4, 3)), -2, exclusive=exclusive, reverse=reverse)
        case("cum_prod_backward", lambda dy, x, axis, **attrs: gradient_of(lambda x: cumulative(jnp.cumprod, 1)(x, axis, **attrs), 1)(dy, x), away((2, 4)), away((2, 4)), 1, exclusive=exclusive, reverse=reverse)
case("cum_sum", cumulative(jnp.cumsum, 0), np.arange(6, dtype=np.int32).reshape(2, 3), 0)


def last(function):
    def found(x, axis=0, keepdims=True, select_last_index=False):
        if select_last_index:
            return x.shape[axis] - 1 - function(jnp.flip(x, axis), axis, keepdims=keepdims)
        return function(x, axis, keepdims=keepdims)
    return found


ties = np.array([[1.0, 3, 3, 0], [0, 0, 5, 0]])
for name, function in ("arg_max", jnp.argmax), ("arg_min", jnp.argmin):
    case(name, last(function), ties, axis=1, wanted=())
    case(name, last(function), ties, axis=-1, keepdims=False, select_last_index=True, wanted=())
    case(name, last(function), away((2, 3, 4)), wanted=())


def top_k(x, k, axis=-1, largest=True):
    x = jnp.moveaxis(x, axis, -1)
    values, indices = jax.lax.top_k(x if largest else -x, k[0])
    return jnp.moveaxis(values if largest else -values, -1, axis), jnp.moveaxis(indices, -1, axis)


case("top_k", top_k, away((3, 5)), (2,))
case("top_k", top_k, away((4, 3)), (3,), axis=0, largest=False)
case("top_k", top_k, np.array([[4, -1, 9, 2]], np.int32), (2,))


def nonzero(x):
    found = jnp.stack(jnp.nonzero(x, size=5, fill_value=0))
    return found, jnp.count_nonzero(x).astype(jnp.int32)


case("nonzero", nonzero, np.array([[0, 2, 0], [3, 0, 4]]), only={"size": 5})
case("nonzero", nonzero, np.array([0.0, 0.5, -1.5]), only={"size": 5}, wanted=())
case("nonzero", nonzero, rng.uniform(size=(2, 2, 2)) > 0.6, only={"size": 5})

# ---- windows, determinants -------------------------------------------------------------------------------------------


def windows_of(x, block, strides, pads, dilations):
    """The windows of images [batch, channels, pixels...] as [batch, channels * taps, windows]."""
    made = jax.lax.conv_general_dilated_patches(x, block, strides, list(zip(pads[:len(block)], pads[len(block):])), rhs_dilation=dilations)
    return made.reshape(*made.shape[:2], -1)


def col2im(x, image, block, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)):
    pixels = jnp.zeros((x.shape[0], x.shape[1] // math.prod(block), *image), x.dtype)
    return jax.vjp(lambda p: windows_of(p, block, strides, pads, dilations), pixels)[1](x)[0]


for shape, image, block, attrs in ((2, 4, 6), (3, 4), (2, 2), {}), ((2, 6, 6), (5, 6), (2, 3), {"strides": (2, 1), "pads": (1, 0, 1, 0), "dilations": (1, 2)}):
    case("col2im", col2im, away(shape), image, block, **attrs)
    case("col2im_backward", lambda dy, s, block, **a: windows_of(dy, block, a.get("strides", (1, 1)), a.get("pads", (0,) * 4), a.get("dilations", (1, 1))), away((2, 1, *image)), shape, block, **attrs)
for shape in (3, 3), (2, 2, 2), (5, 5), (1, 1):
    case("det", jnp.linalg.det, away(shape), units=2**12)
    case("det_backward", gradient_of(jnp.linalg.det, 1), away(shape[:-2]), away(shape), units=2**14)


# ---- classes ---------------------------------------------------------------------------------------------------------


def pairwise_classes(x, classes):
    pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
    votes = sum(jnp.where(x[:, k, None] > 0, jax.nn.one_hot(a, classes), jax.nn.one_hot(b, classes)) for k, (a, b) in enumerate(pairs))
    return jnp.argmax(votes, 1), (votes / len(pairs)).astype(x.dtype)


scores = away((5, 3)).astype(np.float32)
case("classify", lambda x: (jnp.argmax(x, 1), x), scores, wanted=())
case("classify", lambda x, transform: (jnp.argmax(x, 1), jax.nn.softmax(x)), scores, transform="softmax", wanted=())
case("classify", lambda x, transform: (jnp.argmax(x, 1), jax.nn.sigmoid(x)), scores, transform="logistic", wanted=())
case("pairwise_classes", pairwise_classes, scores, classes=3, wanted=())
