"""Pointwise operations of TensorFlow, and those that give their inputs."""
import numpy as np

from .calls import apply, dtype_name, row
from .matrices import Product
from .tensors import core
from .windows import Convolution

_SAME = {"Abs": "abs", "Neg": "neg", "Sign": "sign", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Reciprocal": "reciprocal", "Inv": "reciprocal",
         "Floor": "floor", "Ceil": "ceil", "Rint": "round", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
         "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Erfc": "erfc", "Sigmoid": "sigmoid", "Softplus": "softplus",
         "Softsign": "softsign", "Relu": "relu", "Elu": "elu", "Selu": "selu", "Sub": "sub", "RealDiv": "div", "Div": "div", "TruncateDiv": "div", "Maximum": "max",
         "Minimum": "min", "Pow": "pow", "Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal", "Greater": "greater",
         "GreaterEqual": "greater_equal", "LogicalAnd": "and", "LogicalOr": "or", "LogicalNot": "not", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
         "BitwiseXor": "bitwise_xor", "Invert": "bitwise_not", "LeftShift": "shift_left", "RightShift": "shift_right", "IsNan": "is_nan", "IsInf": "is_inf"}


def _node(name):
    return getattr(core, name)


def _same(name):
    return lambda call: apply(call, _node(name), [call.tensor(i) for i in range(len(call.inputs))])


for _name, _own in _SAME.items():
    row(_name)(_same(_own))


@row("Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "CheckNumerics", "PlaceholderWithDefault")
def first_input(call):
    return call.inputs[0]


@row("IdentityN")
def all_inputs(call):
    return list(call.inputs)


def _is_number(tensor, number):
    return tensor.array is not None and tensor.array.size == 1 and tensor.array.ndim == 0 and tensor.array == number


@row("Mul")
def mul(call):
    a, b = call.tensor(0), call.tensor(1)
    for one, other in ((a, b), (b, a)):  # tf.nn.silu multiplies by a beta of 1
        if _is_number(one, 1):
            return other
    return folded(call, a, b, lambda x, by: x.scaled(by)) or apply(call, core.mul, [a, b])


@row("Add", "AddV2")
def add(call):
    a, b = call.tensor(0), call.tensor(1)
    return folded(call, a, b, lambda x, by: x.moved(by)) or _biased(call, a, b) or apply(call, core.add, [a, b])


@row("BiasAdd")
def bias_add(call):
    x, bias = call.tensor(0), call.tensor(1)
    if call.attr("data_format") == "NCHW":
        shape = [-1] + [1] * (call.rank() - 2)
        return call.given(core.add(x.plain(), core.reshape(bias.plain(), call.scope.ints(shape))))
    return folded(call, x, bias, lambda x, by: x.moved(by)) or _biased(call, x, bias) or apply(call, core.add, [x, bias])


def folded(call, a, b, fold):
    """Moves a number for each channel into the weights of the convolution that comes before; None: it is no such case."""
    for i, (x, by) in enumerate(((a, b), (b, a))):
        if isinstance(x, Convolution) and by.array is not None and call.is_last_use(i) and x.has_channels(by.array):
            return fold(x, by.array.reshape(-1))
    return None


def _biased(call, a, b):
    """Moves a bias into the product that comes before; None: it is no such case."""
    for i, (x, by) in enumerate(((a, b), (b, a))):
        if isinstance(x, Product) and by.array is not None and call.is_last_use(i) and x.has_columns(by.array):
            return x.moved(by.array)
    return None


@row("AddN")
def add_n(call):
    total = call.tensor(0)
    for i in range(1, len(call.inputs)):
        total = apply(call, core.add, [total, call.tensor(i)])
    return total


@row("Square")
def square(call):
    return apply(call, lambda x: core.mul(x, x), [call.tensor(0)])


@row("SquaredDifference")
def squared_difference(call):
    def node(a, b):
        difference = core.sub(a, b)
        return core.mul(difference, difference)
    return apply(call, node, [call.tensor(0), call.tensor(1)])


@row("Round")
def round_to_even(call):
    return apply(call, core.round, [call.tensor(0)]) if call.op.inputs[0].dtype.is_floating else call.tensor(0)


@row("Relu6")
def relu6(call):
    return apply(call, lambda x: core.clip(x, call.scope.like(0, x), call.scope.like(6, x)), [call.tensor(0)])


@row("ClipByValue")
def clip(call):
    x, low, high = (call.tensor(i) for i in range(3))
    if all(t.array is not None and t.array.ndim == 0 for t in (low, high)):
        return apply(call, lambda v: core.clip(v, low.plain(), high.plain()), [x])
    return apply(call, lambda v, a, b: core.min(core.max(v, a), b), [x, low, high])


@row("LeakyRelu")
def leaky_relu(call):
    return apply(call, lambda x: core.leaky_relu(x, alpha=call.attr("alpha")), [call.tensor(0)])


@row("Log1p")
def log1p(call):
    def node(x):  # log(1 + x) loses the digits of a small x; the quotient restores them
        one = call.scope.like(1, x)
        u = core.add(x, one)
        is_exact = getattr(core, "or")(core.equal(u, one), core.is_inf(u))
        return core.where(is_exact, x, core.mul(core.log(u), core.div(x, core.sub(u, one))))
    return apply(call, node, [call.tensor(0)])


@row("Expm1")
def expm1(call):
    def node(x):
        return core.mul(core.tanh(core.mul(x, call.scope.like(0.5, x))), core.add(core.exp(x), call.scope.like(1, x)))
    return apply(call, node, [call.tensor(0)])


@row("IsFinite")
def is_finite(call):
    return apply(call, lambda x: _node("not")(_node("or")(core.is_nan(x), core.is_inf(x))), [call.tensor(0)])


def _is_float(call):
    return call.op.inputs[0].dtype.is_floating


@row("FloorDiv")
def floor_div(call):
    def node(a, b):
        return core.floor(core.div(a, b)) if _is_float(call) else core.div(core.sub(a, core.mod(a, b)), b)
    return apply(call, node, [call.tensor(0), call.tensor(1)])


@row("FloorMod")
def floor_mod(call):
    def of_floats(a, b):
        rest = core.mod(a, b, fmod=True)
        zero = call.scope.like(0, rest)
        is_other = core.xor(core.less(rest, zero), core.less(b, zero))
        return core.where(getattr(core, "and")(core.not_equal(rest, zero), is_other), core.add(rest, b), rest)
    return apply(call, of_floats if _is_float(call) else core.mod, [call.tensor(0), call.tensor(1)])


@row("Mod", "TruncateMod")
def truncate_mod(call):
    return apply(call, lambda a, b: core.mod(a, b, fmod=True), [call.tensor(0), call.tensor(1)])


@row("DivNoNan")
def div_no_nan(call):
    def node(a, b):
        zero = call.scope.like(0, b)
        return core.where(core.equal(b, zero), zero, core.div(a, b))
    return apply(call, node, [call.tensor(0), call.tensor(1)])


@row("Xlogy")
def xlogy(call):
    def node(a, b):
        zero = call.scope.like(0, a)
        return core.where(core.equal(a, zero), zero, core.mul(a, core.log(b)))
    return apply(call, node, [call.tensor(0), call.tensor(1)])


@row("SelectV2")
def select(call):
    return apply(call, core.where, [call.tensor(i) for i in range(3)])


@row("Select")
def select_rows(call):
    condition, a, b = (call.tensor(i) for i in range(3))
    if condition.rank == 1 and call.rank(1) > 1:  # a condition for each row
        wide = core.reshape(condition.plain(), call.scope.ints([-1] + [1] * (call.rank(1) - 1)))
        return call.given(core.where(wide, a.plain(), b.plain()))
    return apply(call, core.where, [condition, a, b])


@row("Cast")
def cast(call):
    to = dtype_name(call, call.attr("DstT"))
    return apply(call, lambda x: core.cast(x, to=to), [call.tensor(0)])


@row("Bitcast")
def bitcast(call):
    if call.op.inputs[0].dtype.size != call.op.outputs[0].dtype.size:
        call.refuse("it changes the size of the elements")
    return call.given(core.bit_cast(call.value(0), to=dtype_name(call, call.attr("type"))))


@row("ZerosLike", "OnesLike")
def filled_like(call):
    x, number = call.value(0), np.array([call.op.type == "OnesLike"]).astype(call.op.outputs[0].dtype.as_numpy_dtype)
    return call.given(core.constant_of_shape(core.shape(x), value=number))


@row("ReadVariableOp")
def read_variable(call):
    return call.constant(call.walk.contents(call, call.inputs[0], call.op.outputs[0].dtype))


@row("VarHandleOp")
def variable(call):
    call.refuse("the variable has no contents here: convert a function or a SavedModel, whose variables are tracked")


