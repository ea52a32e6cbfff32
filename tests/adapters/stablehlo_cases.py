"""Functions of JAX, with arguments, whose programs stablehlo_test.py compares: one for each operation, and models."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(low, high, *shape, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(dtype)


def bools(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, size=shape).astype(bool)


def elementwise():
    x, y, p = floats(3, 5), floats(3, 5, seed=1), np.abs(floats(3, 5)) + np.float32(0.1)
    unit = np.clip(x / 3, -0.99, 0.99)
    i, j = integers(-9, 9, 3, 5), integers(1, 9, 3, 5, seed=1)
    u = integers(0, 1 << 31, 3, 5).astype(np.uint32)
    b, c = bools(3, 5), bools(3, 5, seed=1)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 1e-30], np.float32)
    cases = {name: (getattr(lax, name), (p,)) for name in ("abs cbrt ceil cos exp expm1 floor log log1p logistic neg round rsqrt sign sin "
                                                           "sqrt tan tanh is_finite lgamma digamma erf erfc sinh cosh asinh").split()}
    cases.update({name + " of negatives": (getattr(lax, name), (x,)) for name in
                  "abs cbrt ceil cos exp expm1 floor logistic neg round sign sin tanh erf erfc sinh cosh asinh lgamma digamma".split()})
    cases.update({name: (getattr(lax, name), (unit,)) for name in "erf_inv asin acos atan atanh log1p expm1".split()})
    cases.update({name: (getattr(lax, name), (x, y)) for name in "add sub mul div max min atan2 rem nextafter".split()})
    cases.update({name + " of integers": (getattr(lax, name), (i, j)) for name in "add sub mul div max min rem".split()})
    cases.update({name + " of bools": (getattr(lax, name), (b, c)) for name in "bitwise_and bitwise_or bitwise_xor max min".split()})
    cases.update({name: (getattr(lax, name), (i, j)) for name in "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic "
                  "shift_right_logical".split()})
    cases.update({name: (getattr(lax, name), (x, np.where(b, x, y))) for name in "eq ne lt le gt ge".split()})
    cases.update({name + " of bools": (getattr(lax, name), (b, c)) for name in "eq ne lt le gt ge".split()})
    cases.update({
        "bessel_i1e": (lax.bessel_i1e, (np.concatenate([x, 20 * y]),)), "bessel_i0e": (lax.bessel_i0e, (np.concatenate([x, 20 * y]),)),
        "zeta": (lambda a, b: (lax.zeta(a + 1.5, b), lax.zeta(b, a)), (p, 3 * p + 1)),
        "polygamma": (lambda a: (lax.polygamma(jnp.zeros_like(a), a), lax.polygamma(jnp.ones_like(a), a), lax.polygamma(jnp.full_like(a, 4), a)), (3 * p,)),
        "acosh": (lax.acosh, (p + 1,)),
        "clz": (lax.clz, (u >> np.uint32(7),)), "popcnt": (lax.population_count, (u,)), "popcnt of i64-like": (lax.population_count, (i,)),
        "not": (lax.bitwise_not, (i,)), "not of bools": (lax.bitwise_not, (b,)),
        "shift by the width": (lambda a: (lax.shift_right_logical(a, jnp.full_like(a, 32)), lax.shift_right_arithmetic(a, jnp.full_like(a, 40)),
                                          lax.shift_left(a, jnp.full_like(a, 32))), (i,)),
        "pow": (lax.pow, (p, y)), "pow with integers": (lambda a: lax.pow(a, np.int32(3)), (x,)), "integer_pow": (lambda a: lax.integer_pow(a, -3), (p,)),
        "select": (lambda c, a, b: jnp.where(c, a, b), (b, x, y)), "select by a scalar": (lambda a, b: lax.select(a[0, 0] > 0, a, b), (x, y)),
        "clamp": (lambda a: lax.clamp(np.float32(-0.5), a, np.float32(0.5)), (x,)),
        "clamp by tensors": (lambda a, b: lax.clamp(-jnp.abs(b), a, jnp.abs(b)), (x, y)),
        "convert": (lambda a: (a.astype(np.int32), a.astype(np.float16), a.astype(bool), a.astype(np.int8)), (x * 10,)),
        "convert from integers": (lambda a: (a.astype(np.float32), a.astype(bool), a.astype(np.uint32)), (i,)),
        "convert from bools": (lambda a: (a.astype(np.float32), a.astype(np.int32)), (b,)),
        "bfloat16": (lambda a: (a.astype(jnp.bfloat16) * jnp.bfloat16(1.5)).astype(np.float32), (x,), 1e-2),  # XLA keeps more bits
        "float16": (lambda a: a.astype(np.float16) * np.float16(1.5) + np.float16(0.1), (x,)),
        "bitcast": (lambda a: lax.bitcast_convert_type(a, np.uint32), (x,)),
        "bitcast to narrower": (lambda a: lax.bitcast_convert_type(a, np.uint8), (x,)),
        "bitcast to wider": (lambda a: lax.bitcast_convert_type(a, np.float32), (integers(0, 100, 3, 2).astype(np.uint16),)),
        "reduce_precision": (lambda a: (lax.reduce_precision(a, 8, 7), lax.reduce_precision(a, 5, 10)), (x,)),
        "reduce_precision to other formats": (lambda a: (lax.reduce_precision(a, 4, 3), lax.reduce_precision(a, 5, 0), lax.reduce_precision(a, 8, 1),
                                                         lax.reduce_precision(a, 3, 23)), (np.concatenate([x, 300 * y, x / 300, np.zeros((1, 5), np.float32)]),)),
        "reduce_precision of special values": (lambda a: (lax.reduce_precision(a, 4, 3), jnp.signbit(lax.reduce_precision(a, 4, 3))), (special,)),
        "round away from zero": (lambda a: lax.round(a, lax.RoundingMethod.AWAY_FROM_ZERO), (np.round(x * 4) / 2,)),
        "round to even": (lambda a: lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN), (np.round(x * 4) / 2,)),
        "special values": (lambda a: (jnp.sign(a), jnp.floor(a), jnp.isfinite(a), jnp.isnan(a), jnp.maximum(a, 1), jnp.minimum(a, 1), a == a[::-1],
                                      jnp.exp(a), jnp.expm1(a), jnp.log1p(a), jnp.tanh(a), jnp.arctan2(a, a[::-1])), (special,)),
        "complex": (lambda a, b: (jnp.real(lax.complex(a, b) * lax.complex(b, a)), jnp.imag(lax.complex(a, b) / lax.complex(b, a)),
                                  jnp.abs(lax.complex(a, b)), jnp.real(jnp.exp(lax.complex(a, b))), jnp.imag(jnp.log(lax.complex(a, b))),
                                  jnp.imag(jnp.sqrt(lax.complex(a, b))), jnp.real(jnp.conj(lax.complex(a, b))), lax.complex(a, b) == lax.complex(a, a)), (x, y)),
        "complex functions": (lambda a, b: [(jnp.real(f(lax.complex(a, b))), jnp.imag(f(lax.complex(a, b)))) for f in (lax.rsqrt, lax.logistic, lax.log1p)], (x, y)),
        "complex movement": (lambda a, b: jnp.real(jnp.concatenate([lax.complex(a, b).T, jnp.ones((5, 3), np.complex64)])[1:7, ::-1].sum(0)), (x, y)),
        "complex product": (lambda a, b: jnp.imag(lax.complex(a, b) @ lax.complex(b, a).T), (x, y)),
        "exponents of complex numbers": (lambda a, b: (jnp.real(jnp.sin(lax.complex(a, b))), jnp.imag(jnp.cos(lax.complex(a, b))),
                                                       jnp.real(jnp.tanh(lax.complex(a, b))), jnp.imag(jnp.power(lax.complex(a, b), lax.complex(b, a)))), (x, y)),
    })
    return cases


def movement():
    x, v = floats(4, 6), floats(6)
    t = floats(2, 3, 4)
    pad = lambda *spec: (lambda a: lax.pad(a, np.float32(7), spec), (x,))
    return {
        "constant lists": (lambda a: a + np.arange(24, dtype=np.float32).reshape(4, 6), (x,)),
        "constants of integers": (lambda: (np.array([[1, -2], [3, 4]], np.int8), np.zeros((0, 3), np.float32),
                                           np.array([True, False, True])), ()),
        "large constants": (lambda a: a @ floats(6, 400), (x,)),
        "large constants of bools": (lambda a: jnp.where(np.tril(np.ones((40, 40), bool)), a[0, 0], a[1, 1]), (x,)),
        "special constants": (lambda: np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], np.float32), ()),
        "half constants": (lambda: (np.array([1.1, -65504, 6e-8, np.inf], np.float16), jnp.array([1.1, 3e38, -1e-40], jnp.bfloat16).astype(np.float32)), ()),
        "iota": (lambda: (lax.broadcasted_iota(np.int32, (3, 4), 1), lax.iota(np.float32, 5)), ()),
        "broadcast_in_dim": (lambda a: (lax.broadcast_in_dim(a, (2, 6, 3), (1,)), jnp.broadcast_to(a, (4, 6)), lax.broadcast_in_dim(a[:1], (5,), (0,))), (v,)),
        "reshape": (lambda a: (a.reshape(24), a.reshape(2, 2, 6), a[:1, :1].reshape(())), (x,)),
        "transpose": (lambda a: (a.transpose(2, 0, 1), a.transpose(0, 2, 1)), (t,)),
        "reverse": (lambda a: (lax.rev(a, (0,)), lax.rev(a, (0, 2))), (t,)),
        "slice": (lambda a: (a[1:3, ::2], a[:, 5:5], a[3:]), (x,)),
        "dynamic_slice": (lambda a, i: lax.dynamic_slice(a, (i, i + 1), (2, 3)), (x, np.int32(1))),
        "dynamic_slice beyond the end": (lambda a, i: lax.dynamic_slice(a, (i, -i), (2, 3)), (x, np.int32(90))),
        "dynamic_slice at a constant": (lambda a: lax.dynamic_slice(a, (np.int32(1), np.int32(9)), (2, 3)), (x,)),
        "dynamic_update_slice": (lambda a, b, i: lax.dynamic_update_slice(a, b, (i, i + 1)), (x, floats(2, 3, seed=1), np.int32(1))),
        "dynamic_update_slice of rows": (lambda a, b, i: lax.dynamic_update_slice(a, b, (i, np.int32(0))), (x, floats(2, 6, seed=1), np.int32(7))),
        "dynamic_update_slice of columns": (lambda a, b, i: lax.dynamic_update_slice(a, b, (np.int32(0), i)), (x, floats(4, 2, seed=1), np.int32(3))),
        "pad": pad((1, 2, 0), (0, 3, 0)), "pad between": pad((1, 0, 2), (0, 1, 1)), "pad by negative numbers": pad((-1, 1, 0), (2, -3, 1)),
        "concatenate": (lambda a, b: (jnp.concatenate([a, b, a], 0), jnp.concatenate([a, b], 1)), (x, floats(4, 6, seed=1))),
        "optimization_barrier": (lambda a: lax.optimization_barrier((a + 1, a * 2)), (x,)),
        "dot": (lambda a, b: (a @ b, a.T @ a, a @ v), (x, floats(6, 3, seed=1))),
        "dot_general with batches": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (floats(2, 3, 4), floats(2, 4, 5))),
        "dot_general with several axes": (lambda a, b: jnp.einsum("bhqd,bkhd->bhqk", a, b), (floats(2, 3, 4, 5), floats(2, 6, 3, 5))),
        "dot_general contracting two axes": (lambda a, b: jnp.einsum("aijb,jic->abc", a, b), (floats(2, 3, 4, 5), floats(4, 3, 6))),
        "dot_general of integers": (lambda a, b: a @ b, (integers(-5, 5, 3, 4), integers(-5, 5, 4, 2))),
        "outer product": (lambda a, b: jnp.einsum("ai,bj->aibj", a, b), (x, x)),
        "dot of vectors": (lambda a, b: a @ b, (v, v)),
        "dot in another type": (lambda a: lax.dot_general(a.astype(jnp.bfloat16), a.T.astype(jnp.bfloat16), (((1,), (0,)), ((), ())), preferred_element_type=np.float32), (x,)),
    }


def indexing():
    x, t = floats(5, 6), floats(3, 4, 5)
    rows = np.array([4, 0, 2], np.int32)
    far = np.array([4, -9, 12], np.int32)
    pairs = np.array([[0, 1], [4, 5], [2, 2]], np.int32)
    at = lambda operation, mode=None: (lambda a, i, u: getattr(a.at[i], operation)(u, mode=mode))
    windows = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    return {
        "gather of rows": (lambda a, i: a[i], (x, rows)), "gather of columns": (lambda a, i: a[:, i], (x, rows)),
        "gather in the middle": (lambda a, i: a[:, i], (t, rows[1:])), "gather by tables of indices": (lambda a, i: a[i], (x, rows.reshape(3, 1) % 5)),
        "gather of elements": (lambda a, i, j: a[i, j], (x, rows, rows)), "gather of far rows": (lambda a, i: jnp.take(a, i, axis=0, mode="clip"), (x, far)),
        "gather that fills": (lambda a, i: jnp.take(a, i, axis=0), (x, far)), "take_along_axis": (lambda a: jnp.take_along_axis(a, jnp.argsort(a, 1), 1), (x,)),
        "gather of windows": (lambda a, i: lax.gather(a, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3)), (x, pairs)),
        "gather with a batch": (jax.vmap(lambda a, i: a[i]), (t, integers(0, 4, 3, 2))),
        "gather of one": (lambda a, i: lax.dynamic_index_in_dim(a, i, 1, keepdims=False), (t, np.int32(2))),
        "scatter": (at("set"), (x, rows, floats(3, 6, seed=1))), "scatter add": (at("add"), (x, np.array([1, 1, 3], np.int32), floats(3, 6, seed=1))),
        "scatter of far rows": (at("add"), (x, far, floats(3, 6, seed=1))), "scatter mul": (at("multiply"), (x, rows, floats(3, 6, seed=1))),
        "scatter max": (at("max"), (x, rows, floats(3, 6, seed=1))), "scatter min": (at("min"), (x, rows, floats(3, 6, seed=1))),
        "scatter into columns": (lambda a, i, u: a.at[:, i].add(u), (x, rows, floats(5, 3, seed=1))),
        "scatter of elements": (lambda a, i, u: a.at[i, i].set(u), (x, rows, floats(3, seed=1))),
        "scatter of windows": (lambda a, i, u: lax.scatter_add(a, i, u, windows), (x, pairs, floats(3, 2, 3, seed=1))),
        "scatter with a batch": (jax.vmap(lambda a, i, u: a.at[i].add(u)), (t, integers(0, 4, 3, 2), floats(3, 2, 5, seed=1))),
        "scatter of bools": (lambda a, i: a.at[i].set(True), (bools(6), rows)),
        "gradient of a gather": (jax.grad(lambda a, i: (a[i] ** 2).sum()), (x, np.array([1, 1, 3], np.int32))),
        "segment_sum": (lambda a, i: jax.ops.segment_sum(a, i, 3), (x, np.array([0, 2, 0, 1, 2], np.int32))),
        "segment_max": (lambda a, i: jax.ops.segment_max(a, i, 3), (x, np.array([0, 2, 0, 0, 2], np.int32))),
        "bincount": (lambda i: jnp.bincount(i, length=6), (rows,)),
    }


def convolutions():
    x, w, s = floats(2, 8, 9, 4), floats(3, 2, 4, 6, seed=1), floats(2, 8, 9, 2)
    nhwc = ("NHWC", "HWIO", "NHWC")
    def conv(stride=(1, 1), padding="SAME", numbers=nhwc, **options):
        return lambda a, b: lax.conv_general_dilated(a, b, stride, padding, dimension_numbers=numbers, **options)
    loss = lambda a, b: (conv((2, 1))(a, b) ** 2).sum()
    def pool(operation, init, window, stride, padding="VALID", **options):
        return lambda a: lax.reduce_window(a, init, operation, window, stride, padding, **options)
    highest = (pool(lax.max, -np.inf, (1, 3, 2, 1), (1, 2, 2, 1), "SAME"))
    return {
        "convolution": (conv(), (x, w)), "convolution with strides": (conv((2, 1), "VALID"), (x, w)),
        "convolution NCHW": (conv(numbers=("NCHW", "OIHW", "NCHW")), (floats(2, 4, 8, 9), floats(6, 4, 3, 3))),
        "convolution dilated": (conv(padding=((2, 1), (0, 3)), rhs_dilation=(2, 1)), (x, w)),
        "convolution transposed": (conv(padding=((1, 2), (2, 1)), lhs_dilation=(2, 3)), (x, w)),
        # XLA's own values are wrong here, so the padding is applied before.
        "convolution with negative padding": (conv(padding=((-1, 1), (0, -2))), (x, w), 1e-5, lambda a, b: conv(padding=((0, 1), (0, 0)))(a[:, 1:, :-2], b)),
        "convolution with groups": (conv(feature_group_count=2), (x, floats(3, 2, 2, 6))),
        "convolution depthwise": (conv(feature_group_count=4), (x, floats(3, 2, 1, 4))),
        "convolution with groups of the batch": (conv(batch_group_count=2), (x, floats(3, 2, 4, 6))),
        "conv_transpose": (lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME", dimension_numbers=nhwc, transpose_kernel=True), (x, floats(3, 2, 6, 4))),
        "convolution of one axis": (conv((1,), numbers=("NWC", "WIO", "NWC")), (floats(2, 9, 4), floats(3, 4, 5))),
        "convolution of three axes": (conv((1, 1, 1), numbers=("NDHWC", "DHWIO", "NDHWC")), (floats(1, 4, 5, 6, 2), floats(2, 3, 2, 2, 3))),
        "gradients of a convolution": (jax.grad(loss, (0, 1)), (x, w)),
        "gradients of a convolution with groups": (jax.grad(lambda a, b: (conv(feature_group_count=2)(a, b) ** 2).sum(), (0, 1)), (x, floats(3, 2, 2, 6))),
        "max pooling": (highest, (s,)), "sum pooling": (pool(lax.add, 0.0, (1, 2, 3, 1), (1, 1, 2, 1)), (s,)),
        "min pooling": (pool(lax.min, np.inf, (1, 2, 3, 1), (1, 1, 2, 1), "SAME"), (s,)),
        "pooling dilated": (pool(lax.add, 0.0, (1, 2, 3, 1), (1, 1, 1, 1), window_dilation=(1, 2, 1, 1), base_dilation=(1, 1, 2, 1)), (s,)),
        "products of windows": (pool(lax.mul, 1.0, (1, 2, 2, 1), (1, 2, 2, 1)), (s,)),
        "windows with a region": (lambda a: lax.reduce_window(a, np.float32(0), lambda p, q: p + q + np.float32(0), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), (s,)),
        "gradient of max pooling": (jax.grad(lambda a: (highest(a) ** 2).sum()), (s,)),
        "gradient of sum pooling": (jax.grad(lambda a: (pool(lax.add, 0.0, (1, 2, 3, 1), (1, 1, 2, 1))(a) ** 2).sum()), (s,)),
        "cumsum": (lambda a: (jnp.cumsum(a, 1), lax.cumprod(a, 0), lax.cummax(a, 1), lax.cummin(a, 0), jnp.cumsum(a[:, ::-1], 1), lax.cumsum(a, 0, reverse=True)), (floats(5, 13),)),
        "cumlogsumexp": (lambda a: lax.cumlogsumexp(a, 0), (floats(5, 3),)),
    }


def reductions():
    x, i, b = floats(4, 5, 3), integers(-9, 9, 4, 5), bools(4, 5)
    return {
        "reduce": (lambda a: (a.sum(1), a.max((0, 2)), a.min(), a.prod(-1), a.mean(0), a.var(1)), (x,)),
        "reduce integers": (lambda a: (a.sum(1), a.max(0), a.min(), a.prod(-1)), (i,)),
        "reduce bools": (lambda a: (a.any(1), a.all(0), a.any(), a.sum(0)), (b,)),
        "reduce from another value": (lambda a: lax.reduce(a, np.float32(3), lax.add, (1,)), (x,)),
        "reduce with a region": (lambda a: lax.reduce(a, np.float32(0), lambda p, q: p + q + p * q, (0, 1)), (x,)),
        "reduce bits": (lambda a: (lax.reduce_or(a, (0,)), lax.reduce_and(a, (1,)), lax.reduce_xor(a, (0,))), (i,)),
        "reduce of nothing": (lambda a: (a[:0].sum(0), a[:, :0].prod(1)), (x,)),
        "argmax": (lambda a: (jnp.argmax(a, 1), jnp.argmin(a, 0), jnp.argmax(a)), (x,)),
        "argmax with NaN": (lambda a: jnp.argmax(a), (np.array([1, np.nan, 3, np.nan], np.float32),)),
        "argmax of equal numbers": (lambda a: jnp.argmax(a, 1), (np.round(floats(4, 9)),)),
        "reduce of halves": (lambda a: a.max(0), (x.astype(np.float16),)),
        "logsumexp": (lambda a: jax.nn.logsumexp(a, 1), (x,)),
        "map": (jax.vmap(lambda a: jnp.sin(a).sum()), (x,)),
    }


def control():
    x = floats(4, 6)
    def sums(a):
        return lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(6), a)
    def rnn(params, xs):
        w, u = params
        def step(h, row):
            h = jnp.tanh(h @ w + row @ u)
            return h, h.sum()
        return lax.scan(step, jnp.zeros(5), xs)
    params = (floats(5, 5), floats(6, 5))
    return {
        "while": (lambda a: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, a)), (x,)),
        "while that never runs": (lambda a: lax.while_loop(lambda s: s.sum() > 1e9, lambda s: s * 2, a), (x,)),
        "fori": (lambda a: lax.fori_loop(0, 4, lambda k, s: s.at[k].set(s[k] * 2 + k), a), (x,)),
        "scan": (sums, (x,)), "scan backwards": (lambda a: lax.scan(lambda c, r: (c + r, c), jnp.zeros(6), a, reverse=True), (x,)),
        "recurrent network": (rnn, (params, x)), "gradient of a recurrent network": (jax.grad(lambda p, a: (rnn(p, a)[1] ** 2).sum()), (params, x)),
        "nested loops": (lambda a: lax.fori_loop(0, 3, lambda i, s: lax.fori_loop(0, i + 1, lambda j, t: t + j * a, s), a), (x,)),
        "associative_scan": (lambda a: lax.associative_scan(jnp.add, a), (x,)),
        "map over rows": (lambda a: lax.map(lambda row: jnp.sin(row).sum(), a), (x,)),
        "cond": (lambda p, a: lax.cond(p, lambda v: v + 1, lambda v: v * 2, a), (np.bool_(True), x)),
        "cond, the other way": (lambda p, a: lax.cond(p, lambda v: v + a[0], lambda v: v * 2, a), (np.bool_(False), x)),
        "cond with several results": (lambda p, a: lax.cond(p, lambda v: (v, v.sum()), lambda v: (v * 2, v.max()), a), (np.bool_(False), x)),
        "switch": (lambda k, a: lax.switch(k, [lambda v: v + 1, lambda v: v * 2, lambda v: v - 3], a), (np.int32(1), x)),
        "switch to the last": (lambda k, a: lax.switch(k, [lambda v: v + 1, lambda v: v * 2, lambda v: v - 3], a), (np.int32(7), x)),
        "cond in a loop": (lambda a: lax.fori_loop(0, 5, lambda k, s: lax.cond(k % 2 == 0, lambda v: v + a, lambda v: v * 2, s), a), (x,)),
        "checkpoint": (jax.grad(lambda a: jax.checkpoint(lambda b: jnp.sin(jnp.sin(b)).sum())(a)), (x,)),
        "custom_jvp": (lambda a: jax.nn.relu(a) + jax.nn.silu(a), (x,)),
        "complex state": (lambda a: jnp.real(lax.fori_loop(0, 3, lambda k, s: s * s, a + 1j * a)), (x,)),
    }


def algebra():
    x, i = floats(5, 7), integers(0, 4, 5, 7)
    square = floats(2, 4, 4) @ floats(2, 4, 4).transpose(0, 2, 1) + 4 * np.eye(4, dtype=np.float32)
    ties = np.array([[3, 1, 3, 2, 1, 3, -0.0, 0.0]], np.float32)
    special = np.array([1.0, np.nan, -np.inf, 0.0, -0.0, np.inf, -3.0], np.float32)
    key = jax.random.PRNGKey(7)
    halves = lambda a: (jnp.real(a), jnp.imag(a))
    return {
        "sort": (lambda a: (jnp.sort(a, 1), jnp.sort(a, 0), -jnp.sort(-a, 1)), (x,)), "sort integers": (lambda a: jnp.sort(a, 1), (i,)),
        "sort special numbers": (lambda a: jnp.sort(a), (special,)), "argsort": (lambda a: (jnp.argsort(a, 1), jnp.argsort(a, 1, descending=True)), (x,)),
        "argsort of equal numbers": (lambda a: (jnp.argsort(a, 1), jnp.argsort(a, 1, descending=True)), (ties,)), "lexsort": (lambda a, b: jnp.lexsort((a, b)), (x[0], i[0])),
        "sort of several operands": (lambda a, b: lax.sort((a, b, a * 2), dimension=1, num_keys=2), (i, x)),
        "sort bools": (lambda a: jnp.sort(a, 1), (i > 1,)),
        "median": (lambda a: (jnp.median(a, 1), jnp.quantile(a, 0.3, axis=0)), (x,)), "unique": (lambda a: jnp.unique(a, size=4), (i[0],)),
        "searchsorted": (lambda a, b: jnp.searchsorted(jnp.sort(a), b), (x[0], x[1])),
        "top_k": (lambda a: lax.top_k(a, 3), (x,)), "top_k of equal numbers": (lambda a: lax.top_k(a, 4), (ties,)),
        "fft": (lambda a: halves(jnp.fft.fft(a + 1j * a[::-1])), (x,)), "ifft": (lambda a: halves(jnp.fft.ifft(a + 1j * a[::-1])), (x,)),
        "rfft": (lambda a: halves(jnp.fft.rfft(a)), (x,)), "irfft": (lambda a: (jnp.fft.irfft(jnp.fft.rfft(a), n=7), jnp.fft.irfft(a + 1j * a)), (x,)),
        "fft2": (lambda a: halves(jnp.fft.fft2(a)), (x,)), "rfft2": (lambda a: halves(jnp.fft.rfft2(a)), (x[:4, :6],)), "irfft2": (lambda a: jnp.fft.irfft2(jnp.fft.rfft2(a)), (x[:4, :6],)),
        "cholesky": (jnp.linalg.cholesky, (square,)), "solve_triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), (square[0], floats(4, 2))),
        "solve_triangular, transposed": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1, unit_diagonal=True), (square[0], floats(4, 2))),
        "det": (jnp.linalg.det, (floats(4, 4),)), "inv": (jnp.linalg.inv, (floats(4, 4),), 1e-4), "solve": (jnp.linalg.solve, (square, floats(2, 4, 3))),
        "slogdet": (jnp.linalg.slogdet, (square,)), "expm": (jax.scipy.linalg.expm, (floats(4, 4) / 4,)), "lu": (jax.scipy.linalg.lu, (floats(5, 3),)),
        "cho_solve": (lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b), (square[0], floats(4, 2))),
        "threefry": (lambda k: (jax.random.bits(k, (5,)), jax.random.split(k)), (key,)), "uniform": (lambda k: jax.random.uniform(k, (3, 5)), (key,)),
        "normal": (lambda k: jax.random.normal(k, (3, 5)), (key,)), "randint": (lambda k: jax.random.randint(k, (7,), 0, 10), (key,)),
        "permutation": (lambda k: jax.random.permutation(k, 9), (key,)), "categorical": (lambda k, a: jax.random.categorical(k, a, axis=1), (key, x)),
        "dropout": (lambda k, a: jnp.where(jax.random.bernoulli(k, 0.8, a.shape), a / 0.8, 0), (key, x)), "gumbel": (lambda k: jax.random.gumbel(k, (5,)), (key,)),
        "philox": (lambda s: (lax.rng_bit_generator(s, (3, 5), np.uint32), lax.rng_bit_generator(s, (9,), np.uint32, algorithm=lax.RandomAlgorithm.RNG_PHILOX)), (np.array([1, 7, 2**32 - 1, 3], np.uint32),)),
        "philox keys": (lambda s: jax.random.normal(jax.random.wrap_key_data(s, impl="rbg"), (3, 5)), (np.array([1, 7, 9, 3], np.uint32),)),
        "truncated normal": (lambda k: jax.random.truncated_normal(k, -1, 1, (9,)), (key,)),
    }


def operations():
    cases = {}
    for family in (elementwise, movement, indexing, convolutions, reductions, control, algebra, narrow):
        for name, case in family().items():
            assert name not in cases, name
            cases[name] = case
    return cases


def mlp(params, x):
    for weight, bias in params[:-1]:
        x = jax.nn.gelu(x @ weight + bias)
    weight, bias = params[-1]
    return jax.nn.softmax(x @ weight + bias)


def mlp_params(*sizes):
    return [(floats(a, b, seed=a), floats(b, seed=b)) for a, b in zip(sizes, sizes[1:])]


def train_step(params, x, y):
    def loss(params):
        return -jnp.mean(jnp.sum(y * jnp.log(mlp(params, x)), -1))
    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda a, b: a - 0.1 * b, params, grads)


def flax_model(module, *arguments, train=False):
    """Returns a case: the module with parameters of its own, or the gradients of a loss."""
    variables = module.init(jax.random.PRNGKey(0), *arguments)
    if not train:
        return module.apply, (variables, *arguments)

    def gradients(variables, *arguments):
        def loss(params):
            out, _ = module.apply({**variables, "params": params}, *arguments, mutable=list(variables))
            return (out ** 2).mean()
        return jax.value_and_grad(loss)(variables["params"])
    return gradients, (variables, *arguments)


def flax_cases():
    from flax import linen as nn

    class ConvNet(nn.Module):
        is_training: bool = False

        @nn.compact
        def __call__(self, x):
            for width in 8, 16:
                x = nn.Conv(width, (3, 3), use_bias=False)(x)
                x = nn.relu(nn.BatchNorm(use_running_average=not self.is_training)(x))
                x = nn.max_pool(x, (2, 2), (2, 2))
            x = nn.ConvTranspose(8, (3, 3), (2, 2))(x)
            x = nn.GroupNorm(4)(nn.avg_pool(x, (2, 2), (2, 2)))
            x = nn.Conv(8, (3, 3), feature_group_count=8)(x)
            return nn.log_softmax(nn.Dense(10)(x.mean((1, 2))))

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
            y = nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))
            return x + nn.Dense(x.shape[-1])(nn.gelu(y))

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(50, 32)(tokens) + nn.Embed(16, 32)(jnp.arange(tokens.shape[1]))
            mask = nn.make_causal_mask(tokens)
            for _ in range(2):
                x = Block()(x, mask)
            return nn.Dense(50)(nn.RMSNorm()(x))

    class Recurrent(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.RNN(nn.GRUCell(7))(nn.RNN(nn.OptimizedLSTMCell(6))(x))

    images, tokens = floats(2, 16, 16, 3), integers(0, 50, 2, 12)
    return {
        "convolutional network": flax_model(ConvNet(), images),
        "gradients of a convolutional network": flax_model(ConvNet(True), images, train=True),
        "transformer": flax_model(Encoder(), tokens),
        "gradients of a transformer": flax_model(Encoder(), tokens, train=True),
        "recurrent layers": flax_model(Recurrent(), floats(2, 5, 4)),
        "gradients of recurrent layers": flax_model(Recurrent(), floats(2, 5, 4), train=True),
    }


def optax_step(params, state, x, y):
    import optax
    loss, grads = jax.value_and_grad(lambda p: optax.softmax_cross_entropy_with_integer_labels(mlp(p, x), y).mean())(params)
    updates, state = optax.adamw(1e-2).update(grads, state, params)
    return loss, optax.apply_updates(params, updates), state


def greedy_decode(weights, start):
    """Writes each next token into a buffer, as generation with a cache does."""
    def step(i, buffer):
        scores = weights[buffer[i]] @ weights.T
        return buffer.at[i + 1].set(jnp.argmax(scores).astype(jnp.int32))
    return lax.fori_loop(0, 7, step, jnp.zeros(8, jnp.int32).at[0].set(start))


def narrow_cases(dtype, least):
    a, b = (x.astype(np.int8) for x in np.meshgrid(np.arange(least, least + 16), np.arange(least, least + 16)))
    amount = np.arange(256, dtype=np.int8).reshape(16, 16) % (8 if least else 16)

    def within(function, start=dtype):
        """Returns the function with the arguments and results as integers of 4 bits inside, and of 32 bits outside."""
        def run(*arguments):
            results = function(*(x.astype(start) for x in arguments))
            return jax.tree.map(lambda y: y if y.dtype in (bool, np.float16) else y.astype(np.int32), results)
        return run

    def reductions(x):
        known = [lax.reduce(x, dtype(2), function, (0,)) for function in (lax.add, lax.mul, lax.max, lax.min, lax.bitwise_xor)]
        windows = lax.reduce_window(x, dtype(0), lax.add, (3, 5), (1, 2), "SAME")
        return *known, windows, lax.reduce(x[:2, 4:9], dtype(least), lax.max, (0, 1)), lax.cumsum(x, 1), lax.argmax(x, 1, np.int32)

    def exact_product(x, y):
        wide = x.astype(np.int32) @ y.astype(np.int32)
        return wide, (wide - least) % 16 + least

    other = jnp.uint4 if least else jnp.int4
    return {
        "arithmetic": (within(lambda x, y: (x + y, x - y, x * y, -x, lax.max(x, y), lax.min(x, y), lax.sign(x), lax.square(x))), (a, b)),
        "division": (within(lambda x, y: (lax.div(x, y), lax.rem(x, y))), (a, np.where(b == 0, 1, b).astype(np.int8))),
        "bits": (within(lambda x, y: (x & y, x | y, x ^ y, ~x, lax.bitcast_convert_type(x, other))), (a, b)),
        "shifts": (within(lambda x, y: (lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y))), (a, amount)),
        "comparison": (within(lambda x, y: (x < y, x <= y, x == y, x != y, jnp.where(x > y, x, y), lax.clamp(dtype(least + 3), x, dtype(least + 9)))), (a, b)),
        "conversion": (within(lambda x: (x, x.astype(bool), x.astype(np.uint8), x.astype(np.float16))), (a,)),
        "conversion from wider integers": (within(lambda x: x.astype(dtype), np.int32), (np.arange(-300, 300, 7, dtype=np.int32),)),
        "conversion from floats": (within(lambda x: x.astype(dtype), np.float32), (a.astype(np.float32),)),
        "constants": (within(lambda x: (x + np.arange(least, least + 16).astype(dtype), x * dtype(least + 13), jnp.full_like(x, least + 1), lax.iota(dtype, 16))), (a,)),
        "reductions": (within(reductions), (a ^ b,)),
        "products": (within(lambda x, y: (lax.dot(x, y, preferred_element_type=np.int32), lax.dot(x, y))), (a, b), 0, exact_product),  # XLA refuses them
        "movement": (within(lambda x, y: (jnp.concatenate([x, y[:2]]).T[::-1], lax.pad(x, dtype(1), ((1, 2, 1), (0, 0, 0))), jnp.sort(x ^ y, 1), x.at[1:3].add(y[0]),
                                          x.at[np.array([1, 1, 4])].add(y[:3]), jnp.take(x, y[:, 3].astype(np.int32) & 7, 0))), (a, b)),
        "a loop": (within(lambda x: lax.fori_loop(0, 5, lambda i, y: y * dtype(3) + x, x)), (a,)),
    }


def narrow():
    """Integers of 4 bits: each pair of values."""
    return {f"{name} of {np.dtype(dtype).name}": case for dtype, least in ((jnp.int4, -8), (jnp.uint4, 0)) for name, case in narrow_cases(dtype, least).items()}


def symbolic():
    """Functions with the shapes of their arguments, in which letters are any number, and arguments."""
    f32, i32 = np.float32, np.int32
    x, params, key = ("b, 4", f32), mlp_params(4, 8, 3), np.array([0, 7], np.uint32)
    encoder, (weights, _) = flax_cases()["transformer"]
    images, (filters, _) = flax_cases()["convolutional network"]
    layers, (cells, _) = flax_cases()["recurrent layers"]
    attention = lambda q, k: jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    rows = lambda count: [floats(count, 4)]
    return {
        "perceptron": (lambda a: mlp(params, a), [x], [rows(2), rows(7)]),
        "gradient": (jax.grad(lambda a: (mlp(params, a) ** 2).sum()), [x], [rows(3)]),
        "two symbols": (lambda a, b: a @ b.T + 1, [x, ("c, 4", f32)], [[floats(2, 4), floats(3, 4)]]),
        "one symbol twice": (lambda a, b: a * b, [x, x], [[floats(2, 4), floats(2, 4)]]),
        "reshape": (lambda a: a.reshape(a.shape[0], -1).reshape(-1), [("b, 4, 3", f32)], [[floats(2, 4, 3)]]),
        "iota": (lambda a: a + jnp.arange(a.shape[0])[:, None], [x], [rows(3)]),
        "concatenate": (lambda a: jnp.concatenate([a, a[:1], jnp.zeros((a.shape[0], 4))]), [x], [rows(3)]),
        "pad": (lambda a: jnp.pad(a, ((1, a.shape[0]), (0, 1))), [x], [rows(3)]),
        "slice": (lambda a: a[1:, ::2][:-1], [x], [rows(5)]),
        "embedding": (lambda t: jnp.asarray(floats(10, 4))[t], [("b, s", i32)], [[integers(0, 10, 2, 5)]]),
        "reductions": (lambda a: (a.mean(0), a.sum(), jax.nn.softmax(a, 0)), [x], [rows(5)]),
        "attention": (attention, [("b, s, 2, 4", f32)] * 2, [[floats(2, 5, 2, 4), floats(2, 5, 2, 4)]]),
        "scan over an unknown length": (lambda a: lax.scan(lambda c, r: (c + r, c.sum()), jnp.zeros(4), a), [x], [rows(5)]),
        "scan with an unknown batch": (lambda a: lax.scan(lambda c, r: (c + r, c.sum(-1)), jnp.zeros(a.shape[1:]), a), [("6, b, 4", f32)], [[floats(6, 3, 4)]]),
        "argmax": (lambda a: (jnp.argmax(a, -1), jnp.argmax(a, 0)), [x], [rows(5)]),
        "sort": (lambda a: (jnp.sort(a, 0), jnp.argsort(a, 1), lax.top_k(a, 2)), [x], [rows(5)]),
        "pooling": (lambda a: lax.reduce_window(a, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [("b, 8, 8, 3", f32)], [[floats(2, 8, 8, 3)]]),
        "gather": (lambda a, i: jnp.take_along_axis(a, i, 1), [x, ("b, 2", i32)], [[floats(3, 4), integers(0, 4, 3, 2)]]),
        "scatter": (lambda a, i: jnp.asarray(a).at[i].add(1.0), [x, ("c", i32)], [[floats(3, 4), integers(0, 3, 2)]]),
        "update": (lambda a, i: lax.dynamic_update_slice(a, jnp.ones((1, 4)), (i, i)), [x, ("", i32)], [[floats(5, 4), np.int32(2)]]),
        "where": (lambda a: jnp.where(jnp.arange(a.shape[0])[:, None] < 2, a, 0), [x], [rows(3)]),
        "arithmetic with extents": (lambda a: jnp.ones((a.shape[0] // 2, a.shape[0] * 2)), [x], [rows(4)]),
        "random numbers": (lambda k, a: jax.random.normal(k, a.shape) + a, [("2", np.uint32), x], [[key, floats(3, 4)]]),
        "transformer": (lambda t: encoder(weights, t), [("b, 12", i32)], [[integers(0, 50, 3, 12)]]),
        "convolutional network": (lambda a: images(filters, a), [("b, 16, 16, 3", f32)], [[floats(3, 16, 16, 3)]]),
        "recurrent layers": (lambda a: layers(cells, a), [("b, 5, 4", f32)], [[floats(3, 5, 4)]]),
    }


def doubles():
    """Functions of 64-bit numbers, which run with jax_enable_x64."""
    x = np.random.default_rng(0).normal(size=(3, 5))
    unit, key = np.clip(x / 3, -0.99, 0.99), np.random.default_rng(1).integers(-5, 5, (3, 5))
    return {
        "functions": (lambda a: (jnp.sin(a), jnp.exp(a), jnp.tanh(a), jnp.arctan2(a, a[::-1]), jnp.cbrt(a), jnp.expm1(a)), (x,), 1e-12),
        "special functions": (lambda a: (lax.erf_inv(a), lax.lgamma(jnp.abs(a) + 1), lax.digamma(jnp.abs(a) + 1)), (unit,), 1e-9),
        "products": (lambda a: a @ a.T, (x,), 1e-12), "constants": (lambda: (np.array([0.1, 1e300, -np.inf]), np.array([2**62, -3])), (), 0),
        "integers": (lambda a: (a // 3, a % 3, lax.population_count(a), lax.clz(jnp.abs(a)), a.sum(), jnp.sort(a, 1)), (key,), 0),
        "unsigned integers": (lambda a: (a.astype(np.uint64) * np.uint64(2**63 + 5), a.astype(np.uint8), lax.bitcast_convert_type(a, np.uint32)), (key,), 0),
        "sorting": (lambda a: (jnp.sort(a, 1), jnp.argsort(a, 0), lax.top_k(a, 2)), (x,), 0),
        "philox": (lambda s: lax.rng_bit_generator(s, (3, 5), np.uint64), (np.array([1, 7, 9, 3], np.uint32),)),
        "fft": (lambda a: (jnp.real(jnp.fft.fft(a)), jnp.imag(jnp.fft.rfft(a))), (x,), 1e-12),
    }


def models():
    import optax
    params = mlp_params(4, 8, 3)
    return {
        "perceptron": (mlp, (params, floats(2, 4))),
        "training step": (train_step, (params, floats(2, 4), np.eye(3, dtype=np.float32)[[0, 2]])),
        "training step of optax": (optax_step, (params, optax.adamw(1e-2).init(params), floats(2, 4), np.array([0, 2], np.int32))),
        "greedy decoding": (greedy_decode, (floats(11, 5), np.int32(3))),
        **flax_cases(),
    }
