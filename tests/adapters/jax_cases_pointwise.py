"""Cases of jax_builtins_test.py: pointwise operators, comparisons, bits, casts, softmax, and the operators that compute their gradients."""
import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import away, case, case_and_backward, gradient_of, one, rng, two


def hard_sigmoid(x, alpha=0.2, beta=0.5):
    return jnp.clip(alpha * x + beta, 0, 1)


def gelu(x, approximate="none"):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def selu(x, alpha, gamma):
    return gamma * jnp.where(x > 0, x, alpha * jnp.expm1(x))


def shrink(x, lambd=0.5, bias=0.0):
    return jnp.where(x < -lambd, x + bias, jnp.where(x > lambd, x - bias, 0))


def shrink_backward(dy, x, lambd):
    return gradient_of(shrink, 1)(dy, x, lambd=lambd)


def silu(x, alpha=1.0):
    return x * jax.nn.sigmoid(alpha * x)


def thresholded_relu(x, alpha=1.0):
    return jnp.where(x > alpha, x, 0)


def mod(a, b, fmod=False):
    return jnp.fmod(a, b) if fmod else jnp.mod(a, b)


def prelu(a, slope):
    return jnp.where(a < 0, a * slope, a)


def clip(x, min=None, max=None):
    return jnp.clip(x, min, max)


# ---- one input -------------------------------------------------------------------------------------------------------

one("abs", jnp.abs, kinks=(0,))
one("acos", jnp.arccos, -0.9, 0.9)
one("acosh", jnp.arccosh, 1.2, 4)
one("asin", jnp.arcsin, -0.9, 0.9, add=case_and_backward)
one("asinh", jnp.arcsinh)
one("atan", jnp.arctan, add=case_and_backward)
one("atanh", jnp.arctanh, -0.9, 0.9, add=case_and_backward)
one("ceil", jnp.ceil)
one("celu", jax.nn.celu, kinks=(0,), add=case_and_backward, alpha=1.3)
one("contiguous", lambda x: x)
one("cos", jnp.cos)
one("cosh", jnp.cosh)
one("elu", jax.nn.elu, kinks=(0,), add=case_and_backward, alpha=1.2)
one("erf", jax.scipy.special.erf, add=case_and_backward)
one("erfc", jax.scipy.special.erfc)
one("exp", jnp.exp)
one("floor", jnp.floor)
one("gelu", gelu, add=case_and_backward)
one("gelu", gelu, add=case_and_backward, approximate="tanh")
one("hard_sigmoid", hard_sigmoid, -4, 4, (-2.5, 2.5), add=case_and_backward)
one("hard_sigmoid", hard_sigmoid, -4, 4, (-1, 2), add=case_and_backward, alpha=0.3, beta=0.4)
one("hard_swish", jax.nn.hard_swish, -5, 5, (-3, 3), add=case_and_backward)
one("identity", lambda x: x)
one("leaky_relu", lambda x, alpha: jax.nn.leaky_relu(x, alpha), kinks=(0,), add=case_and_backward, alpha=0.2)
one("log", jnp.log, 0.2, 4)
one("mish", jax.nn.mish, add=case_and_backward)
one("neg", jnp.negative)
one("reciprocal", jnp.reciprocal, 0.3, 3)
one("relu", jax.nn.relu, kinks=(0,), add=case_and_backward)
one("round", jnp.round)
case("round", jnp.round, np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))
one("rsqrt", jax.lax.rsqrt, 0.3, 3)
one("selu", selu, kinks=(0,), add=case_and_backward, alpha=1.6732632423543772, gamma=1.0507009873554805)
one("shrink", shrink, kinks=(-0.6, 0.6), lambd=0.6, bias=0.6)
one("shrink", shrink, kinks=(-0.5, 0.5))
case("shrink_backward", shrink_backward, away((2, 3)), away((2, 3), kinks=(-0.6, 0.6)), lambd=0.6)
one("sigmoid", jax.nn.sigmoid)
one("sign", jnp.sign)
one("silu", silu, add=case_and_backward)
one("silu", silu, add=case_and_backward, alpha=1.7)
one("sin", jnp.sin)
one("sinh", jnp.sinh)
one("softplus", jax.nn.softplus)
one("softsign", jax.nn.soft_sign, kinks=(0,), add=case_and_backward)
one("sqrt", jnp.sqrt, 0.2, 4)
one("tan", jnp.tan, -1.2, 1.2)
one("tanh", jnp.tanh)
one("thresholded_relu", thresholded_relu, kinks=(0.7,), add=case_and_backward, alpha=0.7)
for x in away((2, 3)), away((4, 1, 2)):
    case("gelu_second", lambda dy, x, approximate: dy * jax.vmap(jax.grad(jax.grad(lambda v: gelu(v, approximate))))(x.ravel()).reshape(x.shape), away(x.shape), x, wanted=(), approximate="tanh")
    case("gelu_second", lambda dy, x: dy * jax.vmap(jax.grad(jax.grad(gelu)))(x.ravel()).reshape(x.shape), away(x.shape), x, wanted=())
odd = np.array([[0.0, -1.0, np.inf], [-np.inf, np.nan, 3.0]])
case("is_nan", jnp.isnan, odd)
case("is_inf", lambda x: jnp.isinf(x), odd)
case("is_inf", lambda x, negative: jnp.isposinf(x), odd, negative=False)
case("is_inf", lambda x, positive: jnp.isneginf(x), odd, positive=False)
case("not", jnp.logical_not, np.array([True, False]))
case("bitwise_not", jnp.bitwise_not, np.array([0, 5, -3, 127], np.int8))
case("bitwise_not", jnp.bitwise_not, np.array([0, 5, 2**40], np.uint64))
for dtype in np.int8, np.int16, np.int32, np.int64:
    whole = np.array([-7, 0, 3, 100], dtype)
    case("abs", jnp.abs, whole)
    case("neg", jnp.negative, whole)
    case("sign", jnp.sign, whole)
    case("relu", jax.nn.relu, whole)

# ---- two inputs ------------------------------------------------------------------------------------------------------

two("add", jnp.add)
two("sub", jnp.subtract)
two("mul", jnp.multiply)
two("div", jnp.divide, low_b=0.4, high_b=2)
two("max", jnp.maximum)
two("min", jnp.minimum)
two("mod", mod, 0.2, 5, 0.7, 2, fmod=True)
two("pow", jnp.power, 0.3, 3, -2, 2)
two("prelu", prelu, kinks=(0,))
case("pow", jnp.power, away((3, 4), kinks=(0,)), np.array(3.0), wanted=(0,))
case("pow", jnp.power, np.array([-2, 3, 5]), np.array([3, 0, 2]))
for name, function, low in ("max", jnp.maximum, -2), ("min", jnp.minimum, -2), ("pow", jnp.power, 0.3), ("prelu", prelu, -2):
    case(name + "_backward", gradient_of(function, 2), away((2, 3)), away((2, 3), low, 2, (0,)), away((2, 3), -2, 2, (0,)))
for dtype in np.int8, np.uint8, np.int32, np.int64, np.uint32:
    a, b = np.array([[7, 100, 3, 0]], dtype), np.array([[2], [3]], dtype)
    for name, function in ("add", jnp.add), ("sub", jnp.subtract), ("mul", jnp.multiply), ("max", jnp.maximum), ("min", jnp.minimum), ("bitwise_and", jnp.bitwise_and), ("bitwise_or", jnp.bitwise_or), ("bitwise_xor", jnp.bitwise_xor):
        case(name, function, a, b)
    case("div", jax.lax.div, a, np.array([[2, 3, 2, 5]], dtype))
    case("mod", mod, a, b)
    for name, function in ("equal", jnp.equal), ("not_equal", jnp.not_equal), ("less", jnp.less), ("less_equal", jnp.less_equal), ("greater", jnp.greater), ("greater_equal", jnp.greater_equal):
        case(name, function, a, np.array([[100], [3]], dtype))
case("mod", mod, np.array([-7, 7, -8, 8]), np.array([3, -3, 3, -3]))
case("mod", mod, np.array([-7, 7, -8, 8]), np.array([3, -3, 3, -3]), fmod=True)
for dtype in np.uint8, np.uint32, np.uint64:
    for name, function in ("shift_left", jnp.left_shift), ("shift_right", jnp.right_shift):
        case(name, function, np.array([1, 7, 200], dtype), np.array([0, 2, 5], dtype))
for name, function in ("equal", jnp.equal), ("not_equal", jnp.not_equal), ("less", jnp.less), ("less_equal", jnp.less_equal), ("greater", jnp.greater), ("greater_equal", jnp.greater_equal):
    case(name, function, np.array([[1.0, np.nan, -0.0]]), np.array([[1.0], [0.0], [np.inf]]))
truth = np.array([[True], [False]]), np.array([True, False, True])
for name, function in ("and", jnp.logical_and), ("or", jnp.logical_or), ("xor", jnp.logical_xor), ("equal", jnp.equal), ("not_equal", jnp.not_equal):
    case(name, function, *truth)

# ---- more inputs -----------------------------------------------------------------------------------------------------

x, low, high = away((3, 4), kinks=(-0.5, 1.0)), np.array(-0.5), np.array(1.0)
for limits in (low, high), (low, None), (None, high), (None, None):
    case("clip", clip, x, *limits)
    case("clip_backward", lambda dy, x, min, max: tuple(None if g is None else g for g in clip_grads(dy, x, min, max)), away((3, 4)), x, *[None if v is None else np.full((3, 4), v) for v in limits])


def clip_grads(dy, x, low, high):
    present = [v for v in (x, low, high) if v is not None]

    def function(*some):
        rest = iter(some)
        return clip(*[None if v is None else next(rest) for v in (x, low, high)])
    grads = iter(jax.vjp(function, *present)[1](dy))
    return [None if v is None else next(grads) for v in (x, low, high)]


case("clip", clip, np.array([-5, 0, 9], np.int32), np.array(-1, np.int32), np.array(4, np.int32))
full = [np.full((3, 4), v) for v in (low, high)]
case("clip_second", lambda x, low, high, *tangents: jax.jvp(clip, (x, low, high), tangents)[1], x, *full, away((3, 4)), away((3, 4)), away((3, 4)), wanted=(3, 4, 5))
chosen = rng.uniform(size=(2, 3)) > 0.5
case("where", jnp.where, chosen, away((2, 3)), away((3,)))
case("where", jnp.where, chosen[:, :1], away((3,)), away(()))
case("where", jnp.where, chosen, np.arange(6, dtype=np.int16).reshape(2, 3), np.array(-1, np.int16))
case("where_backward", lambda dy, condition: (jnp.where(condition, dy, 0), jnp.where(condition, 0, dy)), away((2, 3)), chosen)
case("dropout_backward", lambda dy, mask, ratio: jnp.where(mask, dy / (1 - ratio), 0), away((2, 3)), chosen, ratio=0.25)
case("dropout_backward", lambda dy, mask, training: dy, away((2, 3)), np.ones((2, 3), bool), training=False)
case("dropout", lambda x, training: (x, jnp.ones(x.shape, bool)), away((2, 3)), training=False, only={"key": np.array([1, 2], np.uint32)})

# ---- casts -----------------------------------------------------------------------------------------------------------

case("cast", lambda x, to: x.astype(to), away((2, 3)), to="float32", units=2**32)
case("cast", lambda x, to: x.astype(to), away((2, 3)).astype(np.float32), to="float64")
case("cast", lambda x, to: x.astype(to), away((2, 3), -100, 100), to="int32")
case("cast", lambda x, to: x.astype(to), away((2, 3), -100, 100).astype(np.float32), to="bfloat16")
case("cast", lambda x, to: x.astype(to), np.array([0, 1, -2]), to="bool")
case("cast", lambda x, to: x.astype(to), np.array([True, False]), to="float16")
case("cast_like", lambda x, y: x.astype(y.dtype), away((2, 3)), np.zeros(1, np.float32), units=2**32)
case("cast_like", lambda x, y: x.astype(y.dtype), np.array([1, 2, 300]), np.zeros(1, np.int16))
case("bit_cast", lambda x, to: jax.lax.bitcast_convert_type(x, to), away((2, 3)).astype(np.float32), to="int32")
case("bit_cast", lambda x, to: jax.lax.bitcast_convert_type(x, to), np.array([0, 1, 2**62]), to="float64")

# ---- softmax ---------------------------------------------------------------------------------------------------------


def softmax_backward(dy, y, axis=-1):
    return y * (dy - jnp.sum(dy * y, axis, keepdims=True))


def log_softmax_backward(dy, y, axis=-1):
    return dy - jnp.exp(y) * jnp.sum(dy, axis, keepdims=True)


def hardmax(x, axis=-1):
    return jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)


for shape, axis in ((2, 3, 4), -1), ((5,), 0), ((2, 3, 4), 1), ((0, 3), 1):
    x = away(shape)
    case("softmax", jax.nn.softmax, x, axis=axis)
    case("log_softmax", jax.nn.log_softmax, x, axis=axis)
    case("hardmax", hardmax, x, axis=axis)
    case("softmax_backward", softmax_backward, away(shape), np.asarray(jax.nn.softmax(x, axis)), axis=axis)
    case("log_softmax_backward", log_softmax_backward, away(shape), np.asarray(jax.nn.log_softmax(x, axis)), axis=axis)
