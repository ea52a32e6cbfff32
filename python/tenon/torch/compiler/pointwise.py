"""Operators of PyTorch that compute each element by itself."""
import math

import torch

from .calls import aten, core, in_full_precision, named, prims, row

# ---- one operand: computed in the dtype of the result ----

_SAME_NAME = ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "floor", "log", "mish",
              "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "silu", "sin", "sinh", "sqrt", "tan", "tanh")
_WHOLE = ("ceil", "floor", "round")  # nothing changes integers


def _unary(name):
    node = getattr(core, name)

    def lower(c, x):
        if name in _WHOLE and not c.dtype.is_floating_point:
            return core.identity(x.value)
        if c.dtype == torch.bool:
            c.refuse("arithmetic of bools")
        return node(c.value(x, c.dtype))
    return lower


for _name in _SAME_NAME:
    row(getattr(aten, _name).default)(_unary(_name))


@row(aten.sign.default, aten.sgn.default)
def sign(c, x):
    """PyTorch gives 0 for NaN."""
    if c.dtype == torch.bool:
        return core.identity(x.value)
    made = core.sign(x.value)
    return core.where(core.is_nan(x.value), c.number(0), made) if c.dtype.is_floating_point else made


@row(aten.angle.default)
def angle(c, x):
    """The angle of a real number: pi if it is negative."""
    v, zero = c.value(x, c.dtype), c.number(0)
    made = core.where(core.less(v, zero), c.number(math.pi), zero)
    return core.where(core.is_nan(v), v, made)


@row(aten.bitwise_not.default)
def bitwise_not(c, x):
    return named("not")(x.value) if x.dtype == torch.bool else core.bitwise_not(x.value)


@row(aten.logical_not.default)
def logical_not(c, x):
    return named("not")(c.value(x, torch.bool))


@row(aten.isnan.default)
def isnan(c, x):
    return core.is_nan(x.value) if x.dtype.is_floating_point else c.filled(False)


@row(aten.isinf.default)
def isinf(c, x):
    return core.is_inf(x.value) if x.dtype.is_floating_point else c.filled(False)


@row(aten.trunc.default, aten.fix.default)
def trunc(c, x):
    if not c.dtype.is_floating_point:
        return core.identity(x.value)
    v = x.value
    return core.where(core.less(v, c.number(0.0)), core.ceil(v), core.floor(v))


@row(aten.frac.default)
@in_full_precision
def frac(c, x):
    return core.sub(x.value, trunc(c, x))


@row(aten.round.decimals)
@in_full_precision
def round_decimals(c, x, *, decimals=0):
    if not c.dtype.is_floating_point or decimals == 0:
        return core.round(x.value) if c.dtype.is_floating_point else core.identity(x.value)
    ten = c.number(10.0 ** abs(decimals))
    if decimals > 0:
        return core.div(core.round(core.mul(x.value, ten)), ten)
    return core.mul(core.round(core.div(x.value, ten)), ten)


@row(aten.exp2.default)
@in_full_precision
def exp2(c, x):
    return core.pow(c.number(2.0), c.value(x, c.dtype))


def _scaled_log(base):
    def lower(c, x):
        return core.mul(core.log(c.value(x, c.dtype)), c.number(1 / math.log(base)))
    return lower


row(aten.log2.default)(in_full_precision(_scaled_log(2)))
row(aten.log10.default)(in_full_precision(_scaled_log(10)))


def log1p_of(c, v, dtype=None):
    """log(1 + x) loses the digits of a small x; the quotient restores them."""
    one = c.number(1.0, dtype)
    u = core.add(v, one)
    is_exact = named("or")(core.equal(u, one), core.is_inf(u, negative=False))
    return core.where(is_exact, v, core.mul(core.log(u), core.div(v, core.sub(u, one))))


@row(aten.log1p.default)
@in_full_precision
def log1p(c, x):
    return log1p_of(c, c.value(x, c.dtype))


def expm1_of(c, v):
    """exp(x) - 1 loses the digits of a small x; the product does not."""
    one = c.number(1.0)
    small = core.mul(core.tanh(core.mul(v, c.number(0.5))), core.add(core.exp(v), one))
    return core.where(core.less(core.abs(v), one), small, core.sub(core.exp(v), one))


@row(aten.expm1.default)
@in_full_precision
def expm1(c, x):
    return expm1_of(c, c.value(x, c.dtype))


_BITS = {torch.float32: ("i32", torch.int32), torch.float64: ("i64", torch.int64), torch.float16: ("i16", torch.int16),
         torch.bfloat16: ("i16", torch.int16)}


def _is_negative(c, value, dtype):
    """Whether the bit of the sign is set: also that of -0.0 and of NaN."""
    name, whole = _BITS[dtype]
    return core.less(core.bit_cast(value, to=name), c.number(0, whole))


@row(aten.signbit.default)
def signbit(c, x):
    if x.dtype == torch.bool:
        return c.filled(False)
    if not x.dtype.is_floating_point:
        return core.less(x.value, c.number(0, x.dtype))
    return _is_negative(c, x.value, x.dtype)


@row(aten.nextafter.default)
def nextafter(c, a, b):
    """The bits of a float, seen as an integer, are counted towards or away from zero."""
    a, b = _both(c, a, b)
    name, whole = _BITS[c.dtype]
    is_up = core.less(a, b)
    is_outward = core.equal(is_up, core.greater(a, c.number(0)))
    one = c.number(1, whole)
    moved = core.add(core.bit_cast(a, to=name), core.where(is_outward, one, core.neg(one)))
    least = core.bit_cast(one, to=c.name_of(c.dtype))
    made = core.where(core.equal(a, c.number(0)), core.where(is_up, least, core.neg(least)), core.bit_cast(moved, to=c.name_of(c.dtype)))
    made = core.where(core.equal(a, b), b, made)
    return core.where(named("or")(core.is_nan(a), core.is_nan(b)), core.add(a, b), made)


@row(aten.gelu.default)
def gelu(c, x, *, approximate="none"):
    return core.gelu(x.value, approximate=approximate)


@row(aten.gelu_backward.default)
def gelu_backward(c, grad, x, *, approximate="none"):
    return core.gelu_backward(c.value(grad, c.dtype), c.value(x, c.dtype), approximate=approximate)


@row(aten.silu_backward.default)
def silu_backward(c, grad, x):
    return core.silu_backward(c.value(grad, c.dtype), c.value(x, c.dtype))


@row(aten.threshold_backward.default)
def threshold_backward(c, grad, x, threshold):
    zero = c.number(0)
    return core.where(core.less_equal(x.value, c.number(threshold, x.dtype)), zero, c.value(grad, c.dtype))


@row(aten.threshold.default)
def threshold(c, x, threshold, value):
    return core.where(core.less_equal(x.value, c.number(threshold, x.dtype)), c.number(value), x.value)


@row(aten.sigmoid_backward.default)
@in_full_precision
def sigmoid_backward(c, grad, y):
    v = c.value(y, c.dtype)
    return core.mul(c.value(grad, c.dtype), core.mul(v, core.sub(c.number(1.0), v)))


@row(aten.tanh_backward.default)
@in_full_precision
def tanh_backward(c, grad, y):
    v = c.value(y, c.dtype)
    return core.mul(c.value(grad, c.dtype), core.sub(c.number(1.0), core.mul(v, v)))


@row(aten.leaky_relu.default)
def leaky_relu(c, x, slope=0.01):
    return core.leaky_relu(x.value, alpha=float(slope)) if x.dtype.is_floating_point else c.refuse("leaky_relu of integers")


@row(aten.leaky_relu_backward.default)
@in_full_precision
def leaky_relu_backward(c, grad, x, slope, is_result):
    g = c.value(grad, c.dtype)
    return core.where(core.greater(c.value(x, c.dtype), c.number(0)), g, core.mul(g, c.number(slope)))


@row(aten.elu.default)
@in_full_precision
def elu(c, x, alpha=1, scale=1, input_scale=1):
    v = x.value
    if input_scale == 1:
        made = core.elu(v, alpha=float(alpha))
    elif alpha and math.isclose(input_scale * alpha, 1):
        made = core.celu(v, alpha=float(alpha))
    else:
        low = core.mul(expm1_of(c, core.mul(core.min(v, c.number(0)), c.number(input_scale))), c.number(alpha))
        made = core.where(core.greater(v, c.number(0)), v, low)
    return core.mul(made, c.number(scale)) if scale != 1 else made


@row(aten.hardtanh.default)
def hardtanh(c, x, low=-1, high=1):
    return core.clip(x.value, c.number(low), c.number(high))


@row(aten.hardtanh_backward.default)
def hardtanh_backward(c, grad, x, low, high):
    inside = named("and")(core.greater(x.value, c.number(low, x.dtype)), core.less(x.value, c.number(high, x.dtype)))
    return core.where(inside, c.value(grad, c.dtype), c.number(0))


@row(aten.hardswish.default)
def hardswish(c, x):
    return core.hard_swish(x.value)


@row(aten.hardswish_backward.default)
def hardswish_backward(c, grad, x):
    return core.hard_swish_backward(c.value(grad, c.dtype), c.value(x, c.dtype))


@row(aten.hardsigmoid.default)
def hardsigmoid(c, x):
    return core.hard_sigmoid(x.value, alpha=1 / 6, beta=0.5)


@row(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(c, grad, x):
    return core.hard_sigmoid_backward(c.value(grad, c.dtype), c.value(x, c.dtype), alpha=1 / 6, beta=0.5)


@row(aten.softplus.default)
@in_full_precision
def softplus(c, x, beta=1, threshold=20):
    v = x.value
    scaled = v if beta == 1 else core.mul(v, c.number(beta))
    made = core.softplus(scaled)
    made = made if beta == 1 else core.div(made, c.number(beta))
    return core.where(core.greater(scaled, c.number(threshold)), v, made)


@row(aten.logit.default)
@in_full_precision
def logit(c, x, eps=None):
    v = c.value(x, c.dtype)
    if eps is not None:
        v = core.clip(v, c.number(eps), c.number(1 - eps))
    return core.log(core.div(v, core.sub(c.number(1.0), v)))


@row(aten.alias.default, aten.clone.default, aten.detach.default, aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.positive.default,
     prims.view_of.default, prims.clone.default)
def same(c, x, **named_arguments):
    return core.identity(x.value)


@row(aten._to_copy.default)
def to_copy(c, x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    return c.value(x, c.dtype) if dtype not in (None, x.dtype) else core.identity(x.value)


@row(prims.convert_element_type.default)
def convert(c, x, dtype):
    return c.value(x, dtype)


@row(aten.view.dtype)
def view_dtype(c, x, dtype):
    if x.dtype.itemsize != dtype.itemsize:
        c.refuse("it changes the size of the elements")
    return core.bit_cast(x.value, to=c.name_of(dtype))


# ---- two operands: computed in the dtype of the result, comparisons in the promoted dtype ----

def _both(c, a, b, dtype=None):
    dtype = dtype or c.dtype
    return c.value(a, dtype), c.value(b, dtype)


@in_full_precision
def _scaled_sum(c, node, a, b, alpha):
    return node(c.value(a, c.dtype), core.mul(c.value(b, c.dtype), c.value(alpha, c.dtype)))


def _sum(c, node, a, b, alpha):
    return node(*_both(c, a, b)) if alpha == 1 else _scaled_sum(c, node, a, b, alpha)


@row(aten.add.Tensor, aten.add.Scalar)
def add(c, a, b, alpha=1):
    if c.dtype == torch.bool:
        return named("or")(c.value(a, c.dtype), c.value(b, c.dtype) if alpha else c.filled(False))
    return _sum(c, core.add, a, b, alpha)


@row(aten.sub.Tensor, aten.sub.Scalar)
def sub(c, a, b, alpha=1):
    return _sum(c, core.sub, a, b, alpha)


@row(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(c, a, b, alpha=1):
    return _sum(c, core.sub, b, a, alpha)


@row(aten.mul.Tensor, aten.mul.Scalar)
def mul(c, a, b):
    if c.dtype == torch.bool:
        return named("and")(*_both(c, a, b))
    return core.mul(*_both(c, a, b))


@row(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor)
def div(c, a, b):
    return core.div(*_both(c, a, b))


@in_full_precision
def _floor_of_quotient(c, a, b):
    """PyTorch's own steps: the rest comes first, so that a quotient next to an integer is rounded to the right side."""
    a, b = _both(c, a, b)
    zero, one = c.number(0), c.number(1)
    rest = core.mod(a, b, fmod=True)
    quotient = core.div(core.sub(a, rest), b)
    is_below = named("and")(core.not_equal(rest, zero), core.not_equal(core.less(b, zero), core.less(rest, zero)))
    quotient = core.where(is_below, core.sub(quotient, one), quotient)
    floor = core.floor(quotient)
    floor = core.where(core.greater(core.sub(quotient, floor), c.number(0.5)), core.add(floor, one), floor)
    signed_zero = core.mul(zero, core.div(a, b))
    floor = core.where(core.equal(quotient, zero), signed_zero, floor)
    return core.where(core.equal(b, zero), core.div(a, b), floor)


@row(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(c, a, b):
    if c.dtype.is_floating_point:
        return _floor_of_quotient(c, a, b)
    a, b = _both(c, a, b)
    if not c.dtype.is_signed:
        return core.div(a, b)
    zero = c.number(0)
    is_below = named("and")(core.not_equal(core.mod(a, b), zero), core.not_equal(core.less(a, zero), core.less(b, zero)))
    return core.sub(core.div(a, b), core.cast(is_below, to=c.name_of(c.dtype)))


@row(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(c, a, b, *, rounding_mode=None):
    if rounding_mode is None:
        return div(c, a, b)
    if rounding_mode == "floor":
        return floor_divide(c, a, b)
    a, b = _both(c, a, b)
    if not c.dtype.is_floating_point:
        return core.div(a, b)
    quotient = core.div(a, b)
    return core.where(core.less(quotient, c.number(0.0)), core.ceil(quotient), core.floor(quotient))


@row(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(c, a, b):
    return core.mod(*_both(c, a, b), fmod=True)


@row(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
@in_full_precision
def remainder(c, a, b):
    a, b = _both(c, a, b)
    if not c.dtype.is_floating_point:
        return core.mod(a, b)
    zero = c.number(0.0)
    rest = core.mod(a, b, fmod=True)
    is_other = core.not_equal(core.less(rest, zero), core.less(b, zero))
    return core.where(named("and")(core.not_equal(rest, zero), is_other), core.add(rest, b), rest)


@row(aten.maximum.default)
def maximum(c, a, b):
    if c.dtype == torch.bool:
        return named("or")(*_both(c, a, b))
    return core.max(*_both(c, a, b))


@row(aten.minimum.default)
def minimum(c, a, b):
    if c.dtype == torch.bool:
        return named("and")(*_both(c, a, b))
    return core.min(*_both(c, a, b))


def _number_of(c, node, a, b):
    """The result of the node, but where one operand is no number, the other one."""
    if not c.dtype.is_floating_point:
        return node(a, b)
    return core.where(core.is_nan(a), b, core.where(core.is_nan(b), a, node(a, b)))


@row(aten.fmax.default)
def fmax(c, a, b):
    return _number_of(c, core.max, *_both(c, a, b)) if c.dtype != torch.bool else maximum(c, a, b)


@row(aten.fmin.default)
def fmin(c, a, b):
    return _number_of(c, core.min, *_both(c, a, b)) if c.dtype != torch.bool else minimum(c, a, b)


_POWERS = {0.5: core.sqrt, -0.5: core.rsqrt, -1: core.reciprocal}  # of floats


@in_full_precision
def _cube(c, a):
    base = c.value(a, c.dtype)
    return core.mul(core.mul(base, base), base)


@row(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar)
def power(c, a, b):
    if isinstance(b, (int, float)) and not isinstance(b, bool) and c.dtype != torch.bool:
        base = c.value(a, c.dtype)
        if b == 1:
            return core.identity(base)
        if b == 2:
            return core.mul(base, base)
        if b == 3:
            return _cube(c, a)
        if c.dtype.is_floating_point and b in _POWERS:
            return _POWERS[b](base)
    return core.pow(*_both(c, a, b))


@row(aten.atan2.default)
@in_full_precision
def atan2(c, y, x):
    """The angle in the first quadrant, mirrored by the signs, of which a zero has one as well."""
    y, x = _both(c, y, x)
    high, wide, zero = core.abs(y), core.abs(x), c.number(0.0)
    quarter = core.atan(core.div(high, wide))
    quarter = core.where(named("and")(core.is_inf(y), core.is_inf(x)), c.number(math.pi / 4), quarter)
    quarter = core.where(named("and")(core.equal(y, zero), core.equal(x, zero)), zero, quarter)
    made = core.where(_is_negative(c, x, c.dtype), core.sub(c.number(math.pi), quarter), quarter)
    return core.where(_is_negative(c, y, c.dtype), core.neg(made), made)


@row(aten.hypot.default)
@in_full_precision
def hypot(c, a, b):
    a, b = (core.abs(v) for v in _both(c, a, b))
    high, low = core.max(a, b), core.min(a, b)
    ratio = core.div(low, high)
    made = core.mul(high, core.sqrt(core.add(c.number(1.0), core.mul(ratio, ratio))))
    made = core.where(core.equal(high, c.number(0.0)), high, made)
    return core.where(named("or")(core.is_inf(a), core.is_inf(b)), c.number(math.inf), made)


@row(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(c, a, b):
    a, b = _both(c, a, b)
    size = core.abs(a)
    return core.where(_is_negative(c, b, c.dtype), core.neg(size), size)


_COMPARED = {"eq": core.equal, "ne": core.not_equal, "lt": core.less, "le": core.less_equal, "gt": core.greater, "ge": core.greater_equal}


def _comparison(node):
    def lower(c, a, b):
        dtype = c.promoted(a, b)
        if dtype == torch.bool and node not in (core.equal, core.not_equal):
            dtype = torch.uint8
        return node(*_both(c, a, b, dtype))
    return lower


for _name, _node in _COMPARED.items():
    _packet = getattr(aten, _name)
    row(_packet.Tensor, _packet.Scalar)(_comparison(_node))

for _name, _word in {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}.items():
    row(getattr(aten, _name).default)(lambda c, a, b, _word=_word: named(_word)(*_both(c, a, b, torch.bool)))

for _name, _word in {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}.items():
    _packet = getattr(aten, _name)

    @row(_packet.Tensor, _packet.Scalar, _packet.Scalar_Tensor)
    def _bitwise(c, a, b, _word=_word):
        node = named(_word) if c.dtype == torch.bool else named("bitwise_" + _word)
        return node(*_both(c, a, b))


@row(aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Scalar_Tensor, aten.__lshift__.Scalar,
     aten.__lshift__.Tensor)
def shift_left(c, a, b):
    return core.shift_left(*_both(c, a, b))


@row(aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Scalar_Tensor,
     aten.__rshift__.Scalar, aten.__rshift__.Tensor)
def shift_right(c, a, b):
    """Negative numbers stay negative, however far they are shifted."""
    a, b = _both(c, a, b)
    if c.dtype.is_signed:
        last = c.number(c.dtype.itemsize * 8 - 1)
        b = core.where(named("or")(core.less(b, c.number(0)), core.greater(b, last)), last, b)
    return core.shift_right(a, b)


@row(aten.ldexp.Tensor)
@in_full_precision
def ldexp(c, x, exponent):
    return core.mul(c.value(x, c.dtype), core.pow(c.number(2.0), c.value(exponent, c.dtype)))


@row(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(c, condition, a, b):
    return core.where(c.value(condition, torch.bool), *_both(c, a, b))


@row(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(c, x, mask, value):
    return core.where(c.value(mask, torch.bool), c.value(value, c.dtype), x.value)


@row(aten.clamp.default, aten.clamp.Tensor, aten.clip.default)
def clamp(c, x, low=None, high=None):
    greater, less = (named("or"), named("and")) if c.dtype == torch.bool else (core.max, core.min)
    made = c.value(x, c.dtype)
    if c.dtype != torch.bool and all(isinstance(v, (int, float)) for v in (low, high)):
        return core.clip(made, c.value(low, c.dtype), c.value(high, c.dtype))
    if low is not None:
        made = greater(made, c.value(low, c.dtype))
    if high is not None:
        made = less(made, c.value(high, c.dtype))
    return made


@row(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(c, x, low):
    return clamp(c, x, low)


@row(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(c, x, high):
    return clamp(c, x, None, high)


@row(aten.addcmul.default)
@in_full_precision
def addcmul(c, x, a, b, *, value=1):
    product = core.mul(*_both(c, a, b))
    product = product if value == 1 else core.mul(product, c.value(value, c.dtype))
    return core.add(c.value(x, c.dtype), product)


@row(aten.addcdiv.default)
@in_full_precision
def addcdiv(c, x, a, b, *, value=1):
    a = c.value(a, c.dtype)
    a = a if value == 1 else core.mul(a, c.value(value, c.dtype))
    return core.add(c.value(x, c.dtype), core.div(a, c.value(b, c.dtype)))


@row(aten.lerp.Scalar, aten.lerp.Tensor)
@in_full_precision
def lerp(c, start, end, weight):
    a, b = _both(c, start, end)
    w, half, one = c.value(weight, c.dtype), c.number(0.5), c.number(1.0)
    difference = core.sub(b, a)
    near = core.add(a, core.mul(w, difference))
    far = core.sub(b, core.mul(difference, core.sub(one, w)))
    return core.where(core.less(core.abs(w), half), near, far)

