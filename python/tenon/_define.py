"""Operators, kernels, shape functions and gradients written in Python, for experiments and for work where speed does not matter."""
import collections
import inspect

from . import _core

Meta = collections.namedtuple("Meta", "dtype shape")  # what a function of tenon.meta receives for a tensor
_TRAITS = {"pure": 1, "pointwise": 2, "random": 4}


def op(schema, *, types, shapes=None, doc=None, gradient=None, batching=None, traits=("pure",)):
    """Decorator that defines an operator whose kernel is a Python function.

    The operator can be called from Python, from C, from models and, after tenon.torch.register, from PyTorch.

        @tenon.op("demo::scale(Tensor x, *, float by=2.0) -> Tensor", types="x: f32|f64; out = x", shapes="out = x", gradient="x: demo::scale(grad, by=by)")
        def scale(x, *, by):
            return x * x.dtype.type(by)

    schema, types, shapes, gradient, batching: the declarations of an operator in C (docs/contract.md).
    doc: the documentation; None: the docstring of the function.
    traits: some of "pure", "pointwise" and "random".

    The function receives copies of the tensors as NumPy arrays (tenon.Tensor if NumPy is not installed) and the
    attributes as Python objects.  It returns one array for each result; the arrays are copied.  An exception of
    the function is raised by the call.  Without shapes= and without the trait "pointwise", a function decorated
    with tenon.meta must declare the shapes.

    The decorated name becomes the operator; its `registration.undo()` removes the operator.
    """
    if "::" not in schema.split("(")[0]:
        raise _core.InvalidError(f"schema {schema!r}: expected a namespace before the operator's name, as in 'demo::{schema.split('(')[0].strip()}'")

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
    """An operator that was defined by tenon.op; `registration.undo()` removes it."""

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
    """Decorator that registers a Python function as the kernel of an operator for one dispatch key.

    op: the operator or its name.  key: "cpu", "cpu f64", "opencl", ...
    override: replace a kernel that is already registered for the key.

        @tenon.impl("demo::scale", "cpu f16")
        def scale_f16(x, *, by): ...

    The operator may be loaded later.  `registration.undo()` of the function removes the kernel.
    """
    def define(function):
        function.registration = _core.kernel_add(getattr(op, "name", op), key, function, override)
        return function
    return define


def meta(op):
    """Decorator for the function that computes the result shapes of an operator defined by tenon.op without shapes=.

        @tenon.meta("demo::positive")
        def positive_shape(x):
            return (tenon.at_most(x.shape[0]),)

    The function receives the arguments of the kernel, with a named tuple (dtype, shape) in place of each tensor.  It
    returns the shape of the result, or a tuple of shapes.

    Extents are numbers in a call.  In a graph or under torch.compile they can be unknown: an unknown extent can be
    added, subtracted, multiplied, divided by // and returned, but comparing it raises.  tenon.at_most(n) is an
    extent of at most n that only the kernel knows.
    """
    defined = _defined.get(getattr(op, "name", op))
    if defined is None or defined._parts is None:
        raise ValueError(f"{getattr(op, 'name', op)}: tenon.meta applies only to operators that were defined by tenon.op without shapes=")

    def state(function):
        defined._parts[1] = function
        return function
    return state


def gradient(op, *, override=False):
    """Decorator that registers a Python function as the gradient of an operator that declares none.

    op: the operator of any library, or its name.  override: replace a function that is already registered.

        @tenon.gradient("demo::clamp")
        def clamp_gradient(grad, x, most):
            return grad * (x < most)

    The parameter names select what the function receives: `grad` is the gradient of the result (with several
    results `grad_NAME`, None for a result without a gradient); other names are inputs, results and attributes of
    the operator.  Tensors are copies, as in tenon.op.  The function returns a tuple with an array or None for each
    input; for an operator with one input it returns the array itself.

    PyTorch uses the function once the operator is registered with tenon.torch.register.
    `registration.undo()` of the function removes the gradient.
    """
    def define(function):
        names = tuple(inspect.signature(function).parameters)
        function.registration = _core.gradient_add(getattr(op, "name", op), function, names, override)
        return function
    return define
