"""Cases of jax_builtins_test.py: products, quantisation, attention, layers with a state, spectra."""
import math

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import away, case, case_and_backward, gradient_of
from jax_cases_spatial import ACTIVATIONS, NUMBERS, conv_integer, whole

# ---- products --------------------------------------------------------------------------------------------------------


def matmul(a, b, bias=None, transpose_a=False, transpose_b=False, activation="none", alpha=0.0, beta=0.0):
    y = (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)
    return ACTIVATIONS[activation](y if bias is None else y + bias, alpha, beta)


def gemm(a, b, c=None, alpha=1.0, beta=1.0, trans_a=False, trans_b=False):
    y = alpha * (a.T if trans_a else a) @ (b.T if trans_b else b)
    return y if c is None else y + beta * c


for shapes in ((3, 4), (4, 2), (2,)), ((2, 3, 4), (4, 5), (3, 1)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 3)), ((2, 3, 4), (4,)), ((5,), (5,)), ((0, 4), (4, 2), (2,)):
    arrays = [away(s) for s in shapes]
    case("matmul", matmul, *arrays)
    if len(shapes) == 3:
        case_and_backward("matmul", matmul, *arrays, count=3)
case("matmul", matmul, away((2, 4, 3)), away((5, 4)), transpose_a=True, transpose_b=True)
case("matmul", matmul, np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2))
for name in ACTIVATIONS:
    alpha, beta = NUMBERS.get(name, (0.0, 0.0))
    case("matmul", matmul, away((2, 3)), away((3, 2)), away((2,)), activation=name, alpha=alpha, beta=beta)
for shapes, attrs in (((4, 3), (4, 5), (5,)), {"alpha": 0.5, "beta": 2.0, "trans_a": True}), (((3, 4), (5, 4), (3, 1)), {"trans_b": True}), (((3, 4), (4, 5), ()), {}):
    case_and_backward("gemm", gemm, *map(away, shapes), count=3, **attrs)
case("gemm", gemm, away((3, 4)), away((4, 2)))


def einsum(xs, equation):
    return jnp.einsum(equation, *xs)


for equation, shapes in (("ij,jk->ik", [(2, 3), (3, 4)]), ("ij->j", [(2, 3)]), ("ii->i", [(3, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("...ij,jk->...k", [(2, 5, 3), (3, 4)]),
                         ("i,j,k->kji", [(2,), (3,), (4,)]), ("ij,jk->ik", [(2, 0), (0, 3)])):
    arrays = [away(s) for s in shapes]
    case("einsum", einsum, arrays, equation=equation)
    case("einsum_backward", lambda dy, xs, equation: jax.vjp(lambda xs: einsum(xs, equation), xs)[1](dy)[0], away(np.einsum(equation, *arrays).shape), arrays, equation=equation)
case("squared_distance", lambda a, b: jnp.sum((a[:, None] - b) ** 2, -1), away((4, 3)).astype(np.float32), away((2, 3)).astype(np.float32), wanted=())

# ---- quantisation ----------------------------------------------------------------------------------------------------


def quantize(x, scale, zero, dtype=jnp.uint8):
    limits = jnp.iinfo(dtype)
    return jnp.clip(jnp.round(x / scale) + zero.astype(x.dtype), limits.min, limits.max).astype(dtype)


def dequantize(x, scale, zero):
    return (x.astype(jnp.int32) - zero.astype(jnp.int32)).astype(scale.dtype) * scale


def along(t, x, axis):
    return t.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]) if t.ndim else t


def single(value):
    return np.array(value, np.float32)


x = away((3, 4), -9, 9).astype(np.float32)
case("quantize_linear", quantize, x, single(0.1), np.array(120, np.uint8))
case("quantize_linear", lambda x, s, z, axis: quantize(x, along(s, x, axis), along(z, x, axis), jnp.int8), x, single([0.1, 0.2, 0.05]), np.array([0, 3, -8], np.int8), axis=0)
case("dequantize_linear", dequantize, whole((3, 4), np.uint8), single(0.1), np.array(7, np.uint8))
case("dequantize_linear", lambda x, s, z, axis: dequantize(x, along(s, x, axis), along(z, x, axis)), whole((3, 4), np.int8, -99), single([0.1, 0.2, 0.3, 0.5]), np.array([0, 3, -8, 1], np.int8), axis=-1)


def dynamic_quantize(x):
    low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
    scale = (high - low) / 255
    zero = jnp.clip(jnp.round(-low / scale), 0, 255).astype(jnp.uint8)
    return quantize(x, scale, zero), scale, zero


def matmul_integer(a, b, a_zero=None, b_zero=None):
    a, b = (t.astype(jnp.int32) - (0 if z is None else z.astype(jnp.int32)) for t, z in ((a, a_zero), (b, b_zero)))
    return a @ b


case("dynamic_quantize_linear", dynamic_quantize, x)
case("map_bytes", lambda table, x: table[x.astype("int32")], np.arange(256, dtype=np.uint8)[::-1], whole((3, 4), np.uint8))
case("map_bytes", lambda table, x: table[x.astype("int32")], np.arange(256, dtype=np.uint8), whole((3, 4), np.int8, -99))
case("matmul_integer", matmul_integer, whole((3, 4), np.uint8), whole((4, 2), np.int8, -99), np.array(5, np.uint8))
case("matmul_integer", matmul_integer, whole((2, 3, 4), np.uint8), whole((4, 2), np.uint8), np.array(5, np.uint8), np.array([3, 9], np.uint8))
zero = np.array(100, np.uint8)
case("qlinear_matmul", lambda a, sa, za, b, sb, zb, sy, zy: quantize(matmul_integer(a, b, za, zb).astype(jnp.float32) * (sa * sb), sy, zy), whole((3, 4), np.uint8), single(0.02), zero, whole((4, 2), np.uint8), single(0.03), zero,
     single(0.1), zero)
case("qlinear_add", lambda a, sa, za, b, sb, zb, sy, zy: quantize(dequantize(a, sa, za) + dequantize(b, sb, zb), sy, zy), whole((3, 4), np.uint8), single(0.02), zero, whole((3, 4), np.int8, -99), single(0.03),
     np.array(-5, np.int8), single(0.1), zero)
case("qlinear_conv", lambda x, sx, zx, w, sw, zw, sy, zy, bias, pads: quantize(conv_integer(x, w, zx, zw, bias=bias, pads=pads).astype(jnp.float32) * (sx * sw), sy, zy),
     whole((1, 2, 4, 5), np.uint8), single(0.02), zero, whole((3, 2, 2, 2), np.uint8), single(0.03), zero, single(0.3), zero, np.array([5, -900, 70], np.int32), pads=(1, 0, 0, 1))

# ---- attention -------------------------------------------------------------------------------------------------------


def jax_attention(q, k, v, mask=None, is_causal=False, scale=None):
    """Of [batch, heads, steps, size]; JAX's own computes the softmax in f32."""
    q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
    options = {} if mask is None else {"mask": mask[None, None]} if mask.dtype == bool else {"bias": mask}
    return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal, scale=scale, **options).swapaxes(1, 2)


def attention(q, k, v, mask=None, past_key=None, past_value=None, nonpad=None, is_causal=False, q_num_heads=0, kv_num_heads=0, scale=None, softcap=0.0):
    three = q.ndim == 3
    if three:
        q, k, v = (t.reshape(*t.shape[:2], n, -1).swapaxes(1, 2) for t, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    past = 0 if past_key is None else past_key.shape[2]
    if past:
        k, v = jnp.concatenate([past_key, k], 2), jnp.concatenate([past_value, v], 2)
    present = k, v
    k, v = (t.repeat(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
    rows, columns = (jnp.arange(n) for n in scores.shape[-2:])
    scores = jnp.where(columns > rows[:, None] + past, -jnp.inf, scores) if is_causal else scores
    scores = scores if nonpad is None else jnp.where(columns >= nonpad[:, None, None, None], -jnp.inf, scores)
    scores = scores if mask is None else scores + mask
    out = jax.nn.softmax(scores, -1) @ v
    out = out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1) if three else out
    return (out, *present) if past else out


def singles(*shapes):
    return [away(s).astype(np.float32) for s in shapes]


case("attention", jax_attention, *singles((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)), wanted=(0, 1, 2))
case("attention", jax_attention, *singles((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)), wanted=(0, 1, 2), is_causal=True, scale=0.3)
case("attention", jax_attention, *singles((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)), np.tri(4, 6, 2) > 0, wanted=(0, 1, 2))
case("attention", jax_attention, *singles((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), (2, 3, 4, 6)), wanted=(0, 1, 2, 3))
case("attention", attention, *map(away, [(2, 3, 8), (2, 5, 4), (2, 5, 6), (2, 1, 3, 7), (2, 2, 2, 2), (2, 2, 2, 3)]), is_causal=True, q_num_heads=4, kv_num_heads=2, softcap=1.5)
case("attention", attention, *map(away, [(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)]), None, None, None, np.array([4, 6]), scale=0.3)


def rotary_embedding(x, cos, sin, positions=None, interleaved=False, rotary_embedding_dim=0, num_heads=0):
    four = x.ndim == 4
    y = x if four else x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)
    size = rotary_embedding_dim or y.shape[-1]
    cos, sin = ((t if positions is None else t[positions])[:, None] for t in (cos, sin))
    head = y[..., :size]
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else jnp.split(head, 2, -1)
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    head = jnp.stack([real, imaginary], -1).reshape(head.shape) if interleaved else jnp.concatenate([real, imaginary], -1)
    y = jnp.concatenate([head, y[..., size:]], -1)
    return y if four else y.swapaxes(1, 2).reshape(x.shape)


case("rotary_embedding", rotary_embedding, *map(away, [(2, 3, 5, 4), (2, 5, 2), (2, 5, 2)]))
case("rotary_embedding", rotary_embedding, *map(away, [(2, 5, 12), (7, 1), (7, 1)]), np.array([[1, 2, 0, 6, 6], [3, 3, 3, 4, 5]]), interleaved=True, rotary_embedding_dim=2, num_heads=3)


def linear_attention(q, k, v, state=None, decay=None, beta=None, q_num_heads=0, kv_num_heads=0, update_rule="gated_delta", scale=0.0):
    batch, length = q.shape[:2]
    q, k, v = (t.reshape(batch, length, n, -1).swapaxes(0, 1) for t, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    state = jnp.zeros((batch, kv_num_heads, k.shape[-1], v.shape[-1]), q.dtype) if state is None else state
    decay = jnp.zeros((length, batch, kv_num_heads, 1)) if decay is None else decay.reshape(batch, length, kv_num_heads, -1).swapaxes(0, 1)
    beta = jnp.zeros((length, batch, kv_num_heads)) if beta is None else beta.swapaxes(0, 1)

    def step(state, now):
        q, k, v, decay, beta = now
        state = state * jnp.exp(decay)[..., None] if "gated" in update_rule else state
        row = (v - jnp.einsum("bhk,bhkv->bhv", k, state)) * beta[..., None] if "delta" in update_rule else v
        state = state + k[..., None] * row[:, :, None]
        out = (scale or q.shape[-1] ** -0.5) * jnp.einsum("bhk,bhkv->bhv", q, state.repeat(q_num_heads // kv_num_heads, 1))
        return state, out.reshape(batch, -1)
    state, out = jax.lax.scan(step, state, (q, k, v, decay, beta))
    return out.swapaxes(0, 1), state


case("linear_attention", linear_attention, away((2, 3, 12)), away((2, 3, 6), -0.7, 0.7), away((2, 3, 10)), away((2, 2, 3, 5)), away((2, 3, 6), -1, 0), away((2, 3, 2), 0, 1), q_num_heads=4, kv_num_heads=2)
case("linear_attention", linear_attention, *map(away, [(2, 3, 6), (2, 3, 6), (2, 3, 4)]), q_num_heads=2, kv_num_heads=2, update_rule="linear", scale=0.4)


def causal_conv(x, w, bias=None, past=None, activation="none"):
    past = jnp.zeros((*x.shape[:2], w.shape[2] - 1), x.dtype) if past is None else past
    both = jnp.concatenate([past, x], 2)
    out = jax.lax.conv_general_dilated(both, w, (1,), "VALID", feature_group_count=x.shape[1])
    out = out if bias is None else out + bias[:, None]
    return jax.nn.silu(out) if activation == "silu" else out, both[:, :, x.shape[2]:]


case("causal_conv", causal_conv, *map(away, [(2, 3, 5), (3, 1, 4)]))
case("causal_conv", causal_conv, *map(away, [(2, 3, 7), (3, 1, 4), (3,), (2, 3, 3)]), activation="silu")

# ---- layers with a state ---------------------------------------------------------------------------------------------


def lstm_step(x, states, r, br, peep, _):
    h, c = states
    i, o, f, g = jnp.split(x + h @ r.T + br, 4, -1)
    pi, po, pf = peep
    i, f = jax.nn.sigmoid(i + pi * c), jax.nn.sigmoid(f + pf * c)
    c = f * c + i * jnp.tanh(g)
    return jax.nn.sigmoid(o + po * c) * jnp.tanh(c), c


def gru_step(x, states, r, br, _, before):
    h, = states
    (xz, xr, xh), (rz, rr, rh), (bz, br_, bh) = jnp.split(x, 3, -1), jnp.split(r, 3), jnp.split(br, 3)
    z, reset = jax.nn.sigmoid(xz + h @ rz.T + bz), jax.nn.sigmoid(xr + h @ rr.T + br_)
    new = jnp.tanh(xh + (reset * (h @ rh.T + bh) if before else (reset * h) @ rh.T + bh))
    return (1 - z) * new + z * h,


def rnn_step(x, states, r, br, _, activation):
    return (jnp.tanh(x + states[0] @ r.T + br) if not activation else jax.nn.relu(x + states[0] @ r.T + br)),


def layer(step, gates, count):
    def function(x, w, r, b=None, lengths=None, h=None, c=None, p=None, direction="forward", layout=0, linear_before_reset=False, activations=()):
        hidden = r.shape[2]
        if layout:
            x, h, c = (None if t is None else t.swapaxes(0, 1) for t in (x, h, c))
        ys, lasts = [], []
        for d in range(w.shape[0]):
            reverse = direction == "reverse" or d == 1
            bw, br = jnp.split(jnp.zeros(2 * gates * hidden, x.dtype) if b is None else b[d], 2)
            peep = jnp.split(jnp.zeros(3 * hidden, x.dtype) if p is None else p[d], 3)
            states = tuple(jnp.zeros((x.shape[1], hidden), x.dtype) if s is None else s[d] for s in (h, c)[:count])

            def one(states, now, d=d, br=br, peep=peep):
                row, t = now
                made = step(row, states, r[d], br, peep, linear_before_reset or bool(activations))
                live = True if lengths is None else (t < lengths)[:, None]
                states = tuple(jnp.where(live, new, old) for new, old in zip(made, states))
                return states, jnp.where(live, states[0], 0)
            states, y = jax.lax.scan(one, states, (x @ w[d].T + bw, jnp.arange(x.shape[0])), reverse=reverse)
            ys.append(y)
            lasts.append(states)
        y, lasts = jnp.stack(ys, 1), [jnp.stack(s) for s in zip(*lasts)]
        return (y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in lasts)) if layout else (y, *lasts)
    return function


for kind, step, gates, count in ("lstm", lstm_step, 4, 2), ("gru", gru_step, 3, 1), ("rnn", rnn_step, 1, 1):
    function = layer(step, gates, count)
    for directions, layout, full in (1, 0, False), (2, 1, True):
        x, state = ((3, 4, 2), (3, directions, 5)) if layout else ((4, 3, 2), (directions, 3, 5))
        arrays = [away(x), away((directions, gates * 5, 2), -1, 1), away((directions, gates * 5, 5), -1, 1)]
        if full:
            arrays += [away((directions, 2 * gates * 5), -1, 1), None, *[away(state) for _ in range(count)]]
        case(kind, function, *arrays, direction="bidirectional" if directions == 2 else "forward", layout=layout)
    case(kind, function, away((3, 2, 2)), away((1, gates * 4, 2), -1, 1), away((1, gates * 4, 4), -1, 1), None, np.array([3, 1], np.int32), direction="reverse" if kind == "gru" else "forward", wanted=())
case("lstm", layer(lstm_step, 4, 2), away((3, 2, 2)), away((1, 16, 2), -1, 1), away((1, 16, 4), -1, 1), away((1, 32), -1, 1), None, away((1, 2, 4)), away((1, 2, 4)), away((1, 12), -1, 1))
case("gru", layer(gru_step, 3, 1), away((3, 2, 2)), away((1, 12, 2), -1, 1), away((1, 12, 4), -1, 1), away((1, 24), -1, 1), linear_before_reset=True)
case("rnn", layer(rnn_step, 1, 1), away((3, 2, 2)), away((1, 4, 2), -1, 1), away((1, 4, 4), -1, 1), activations=("Relu",))

# ---- spectra ---------------------------------------------------------------------------------------------------------


def dft(x, length=None, axis=None, inverse=False, onesided=False):
    axis = x.ndim - 2 if axis is None else axis
    z = jax.lax.complex(x[..., 0], x[..., 1]) if x.shape[-1] == 2 else x[..., 0]
    if onesided:
        made = jnp.fft.irfft(z, length, axis) if inverse else jnp.fft.rfft(z, length, axis)
    else:
        made = (jnp.fft.ifft if inverse else jnp.fft.fft)(z, length, axis)
    return jnp.stack([made.real, made.imag], -1) if jnp.iscomplexobj(made) else made[..., None]


def stft(signal, step, window=None, length=None, onesided=True):
    size = length or window.shape[0]
    frames = jnp.stack([signal[:, i:i + size] for i in range(0, signal.shape[1] - size + 1, step)], 1)
    return dft(frames if window is None else frames * window[:, None], None, 2, onesided=onesided)


for shape, axis, length, attrs in (((2, 5, 2), 1, None, {}), ((3, 6, 1), 1, None, {}), ((4, 3, 2), 0, 7, {}), ((2, 6, 2), 1, 4, {"inverse": True}), ((2, 6, 1), 1, None, {"onesided": True}), ((2, 6, 1), 1, 9, {"onesided": True})):
    case("dft", dft, away(shape), length, axis, **attrs)
    made = jax.eval_shape(lambda x: dft(x, length, axis, **attrs), jax.ShapeDtypeStruct(shape, np.float64)).shape
    case("dft_backward", lambda dy, s, length, axis, **a: gradient_of(lambda x: dft(x, length, axis, **a), 1)(dy, jnp.zeros(s, dy.dtype)), away(made), shape, length, axis, **attrs)
case("stft", stft, away((2, 9, 1)), 2, away((4,)))
case("stft", stft, away((2, 9, 2)), 2, away((4,)), 4, onesided=False)
case("stft", stft, away((2, 9, 1)), 2, None, 4)
case("stft_backward", lambda dy, signal, step, window: jax.vjp(lambda s, w: stft(s, step, w), signal, window)[1](dy), away((2, 3, 3, 2)), away((2, 9, 1)), 2, away((4,)))
