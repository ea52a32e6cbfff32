"""Operators and kernels that are functions of Python's: for trying things out, and for what is not worth C."""
import collections
import inspect

from . import _core

Meta = collections.namedtuple("Meta", "dtype shape")  # what functions of tenon.meta get for a tensor
_TRAITS = {"pure": 1, "pointwise": 2, "random": 4}


def op(schema, *, types, shapes=None, doc=None, gradient=None, batching=None, traits=("pure",)):
    """Makes a function an operator, called from everywhere: in Python, in C, in models, and as PyTorch's by tenon.torch.register.

        @tenon.op("demo::scale(Tensor x, *, float by=2.0) -> Tensor", types="x: f32|f64; out = x", shapes="out = x", gradient="x: demo::scale(grad, by=by)")
        def scale(x, *, by):
            return x * x.dtype.type(by)

    The texts are those of an operator in C (docs/contract.md).  The function gets copies of the tensors as NumPy's arrays (tenon.Tensor
    without NumPy), attributes as Python's objects, and gives an array for each result, which is copied.  What it raises is raised by
    the call.  Without shapes= (and without the trait "pointwise") tenon.meta states them.  It becomes the operator; `.registration.undo()` of it takes it away again.
    """
    if "::" not in schema.split("(")[0]:
        raise _core.InvalidError(f"schema {schema!r}: expected a namespace before the name, as in 'demo::{schema.split('(')[0].strip()}'")

    def define(function):
        bits = 0
        for trait in traits:
            if trait not in _TRAITS:
                raise ValueError(f"trait {trait!r}: expected some of {', '.join(_TRAITS)}")
            bits |= _TRAITS[trait]
        parts = [function, None, Meta]
        infers = shapes is None and "pointwise" not in traits
        registration = _core.op_add(schema, doc if doc is not None else function.__doc__, types, shapes, gradient, batching, bits, infers, parts)
        return Defined(_core.find(schema.split("(")[0].strip()), registration, parts if infers else None)
    return define


_defined = {}


class Defined:
    """An operator that a program defines, with the registration that undoes it."""

    def __init__(self, operator, registration, parts):
        self.operator, self.registration, self._parts, self.__doc__ = operator, registration, parts, operator.__doc__
        _defined[operator.name] = self

    def __call__(self, *args, **named):
        return self.operator(*args, **named)

    def __getattr__(self, name):
        return getattr(self.operator, name)

    def __repr__(self):
        return repr(self.operator)


def impl(op, key="cpu", *, override=False):
    """Makes a function the kernel of an operator for a key ("cpu", "cpu f64", "opencl", ...); override: in place of one that is there.

        @tenon.impl("demo::scale", "cpu f16")
        def scale_f16(x, *, by): ...

    The operator may come later.  `registration.undo()` of the function takes it away again.
    """
    def define(function):
        function.registration = _core.kernel_add(getattr(op, "name", op), key, function, override)
        return function
    return define


def meta(op):
    """Makes a function what states the shapes of an operator that tenon.op made without shapes=.

        @tenon.meta("demo::positive")
        def positive_shape(x):
            return (tenon.at_most(x.shape[0]),)

    It gets what the kernel gets, a (dtype, shape) for each tensor, and gives the shape of the result, or a tuple of shapes.  Extents
    are numbers in a call; in a graph, or under torch.compile, they may be unknown: such may be added, subtracted, multiplied and
    divided by //, and stand in results; comparing them raises.  tenon.at_most(n): an extent that only the kernel knows.
    """
    defined = _defined.get(getattr(op, "name", op))
    if defined is None or defined._parts is None:
        raise ValueError(f"{getattr(op, 'name', op)}: tenon.meta is for operators that tenon.op made without shapes=")

    def state(function):
        defined._parts[1] = function
        return function
    return state


def gradient(op, *, override=False):
    """Makes a function the gradient of an operator, of whichever library, that states none; override: in place of such a function.

        @tenon.gradient("demo::clamp")
        def clamp_gradient(grad, x, most):
            return grad * (x < most)

    Its parameters are named after what it reads: grad, that of the result (of several: grad_NAME, None where none came), and inputs,
    results and attributes of the operator; tensors are copies, as of tenon.op.  It gives an array for each input, or None; of one
    input without a tuple.  PyTorch uses it once the operator is registered there.  `registration.undo()` of the function takes it away.
    """
    def define(function):
        names = tuple(inspect.signature(function).parameters)
        function.registration = _core.gradient_add(getattr(op, "name", op), function, names, override)
        return function
    return define
