"""Operators and kernels that are functions of Python's: for trying things out, and for what is not worth C."""
from . import _core

_TRAITS = {"pure": 1, "pointwise": 2, "random": 4}


def op(schema, *, types, shapes=None, doc=None, gradient=None, batching=None, traits=("pure",)):
    """Makes a function an operator, called from everywhere: in Python, in C, in models, and as PyTorch's by tenon.torch.register.

        @tenon.op("demo::scale(Tensor x, *, float by=2.0) -> Tensor", types="x: f32|f64; out = x", shapes="out = x", gradient="x: demo::scale(grad, by=by)")
        def scale(x, *, by):
            return x * x.dtype.type(by)

    The texts are those of an operator in C (docs/contract.md).  The function gets copies of the tensors as NumPy's arrays (tenon.Tensor
    without NumPy), attributes as Python's objects, and gives an array for each result, which is copied.  What it raises is raised by
    the call.  It becomes the operator; `.registration.undo()` of it takes it away again.
    """
    def define(function):
        bits = 0
        for trait in traits:
            if trait not in _TRAITS:
                raise ValueError(f"trait {trait!r}: expected some of {', '.join(_TRAITS)}")
            bits |= _TRAITS[trait]
        registration = _core.op_add(schema, doc if doc is not None else function.__doc__, types, shapes, gradient, batching, bits, function)
        return Defined(_core.find(schema.split("(")[0].strip()), registration)
    return define


class Defined:
    """An operator that a program defines, with the registration that undoes it."""

    def __init__(self, operator, registration):
        self.operator, self.registration = operator, registration

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
