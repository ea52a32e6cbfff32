"""The operators of Tenon libraries as functions of JAX.

    import tenon, tenon.jax
    tenon.load("./gelu.so")
    ops = tenon.jax.register("demo")        # the namespace, or the library that tenon.load returned
    y = jax.jit(lambda x: ops.gelu(x, approximate="tanh"))(x)

The functions work under jit, grad, vmap, scan and jax.export.  Shapes come from the operator's inference, gradients from its declared gradient, and XLA
calls the kernels through its foreign function interface, without Python.  Nothing is compiled: one libtenon_jax.so serves every JAX from 0.4.32 on.
"""
import jax

if jax.__version_info__ < (0, 4, 32):
    raise ImportError(f"tenon.jax needs JAX 0.4.32 or later, and JAX {jax.__version__} is installed: pip install -U jax")

from .. import _core
from .._library import Library, Namespace
from .functions import Function, refusal
from .handlers import GRAPH_TARGET, TARGETS, bridge
from .models import Model, run

__all__ = ["Model", "Operators", "disabled_checks", "register", "run"]


class Operators(Namespace):
    """The operators of one namespace as functions of JAX.

    left_out: the operators that cannot be called in JAX, with the reason: {"core::if": "it has a graph as an attribute"}.
    """

    def __init__(self, name):
        super().__init__(name, self._function)
        self._functions = {}
        self.left_out = {op: why for op in _core.names() if op.startswith(name + "::") and (why := refusal(_core.find(op)))}

    def _function(self, op):
        if op.name in self.left_out:
            raise AttributeError(f"{op.name} cannot be called in JAX: {self.left_out[op.name]}")
        if op.name not in self._functions:
            self._functions[op.name] = Function(op)
        return self._functions[op.name]

    def __repr__(self):
        return f"<tenon operators {self._name} in JAX, {len(dir(self))}>"


_registered = {}


def register(library="core"):
    """Returns an object with a function of JAX for each operator of a library, as register("demo").gelu(x).

    library: a tenon.Library, or the namespace of a loaded library.

    The library stays loaded until the process ends.  A second call for the same library returns the same object.
    Raises tenon.NotFoundError if no loaded library has operators in the namespace.
    """
    namespace = library.name if isinstance(library, Library) else str(library)
    if namespace not in _registered:
        error = bridge().tenon_jax_hold(namespace.encode())
        if error:
            raise _core.NotFoundError(error.decode())
        _registered[namespace] = Operators(namespace)
    return _registered[namespace]


def disabled_checks():
    """Returns the checks that jax.export must not make for programs with Tenon's operators.

        exported = jax.export.export(jax.jit(f), disabled_checks=tenon.jax.disabled_checks())(x)

    JAX exports only custom calls whose stability it knows.  A process that loads such a program must have imported tenon.jax, called register and loaded
    the same libraries.
    """
    from jax import export
    return [export.DisabledSafetyCheck.custom_call(target) for target in (*TARGETS.values(), GRAPH_TARGET)]
