"""Graphs that Tenon compiles and runs as a whole, as functions of JAX arrays."""
import jax
import jax.numpy as jnp

from .. import _core
from .._models import Stated, opened
from .dtypes import DTYPES
from .handlers import TARGETS, bridge
from .internals import ffi


class Model:
    """A graph as a function of JAX arrays; it works under jit, grad, vmap (one call after the other) and scan.

    Takes one array for each input of the graph and returns one array, or a tuple of the outputs.
    Raises tenon.InvalidError when the program is traced if the number or the dtypes of the inputs do not fit.
    """

    def __init__(self, model, path):
        self.graph, self.path, self._stated = model, path, Stated(model, path)
        self._function = jax.custom_vjp(self._call)
        self._function.defvjp(lambda *inputs: (self._call(*inputs), inputs), self._pull)

    def __repr__(self):
        return f"<the model {self.path} as a function of JAX>"

    def __call__(self, *inputs):
        inputs = tuple(jnp.asarray(x) for x in inputs)
        self._stated.check_count(inputs)
        for (name, dtype, _), x in zip(self.graph.inputs, inputs):
            if dtype is not None and DTYPES.get(dtype) != x.dtype:
                raise _core.InvalidError(f"{self.path}: input {name}: expected dtype {DTYPES.get(dtype, dtype)}, found {x.dtype}: convert the array"
                                         + (', or enable 64-bit types (jax.config.update("jax_enable_x64", True))' if dtype in ("i64", "f64") else ""))
        made = self._function(*inputs)
        return made[0] if len(made) == 1 else tuple(made)

    def _bind(self, operands, shapes, bits=""):
        text = f"@model({len(self.graph.inputs)}); @path='{self.path}'; @end{bits}"
        return ffi.ffi_call(TARGETS["cpu"], shapes, vmap_method="sequential")(*operands, call=text)

    def _call(self, *inputs):
        return tuple(self._bind(inputs, self._outputs(inputs)))

    def _pull(self, inputs, cotangents):
        given = [o for o, c in enumerate(cotangents) if jnp.issubdtype(c.dtype, jnp.inexact)]
        wanted = [i for i, x in enumerate(inputs) if jnp.issubdtype(x.dtype, jnp.inexact)]
        if not given or not wanted:
            return (None,) * len(inputs)
        bits = f"; @given={sum(1 << o for o in given)}; @inputs={sum(1 << i for i in wanted)}"
        shapes = [jax.ShapeDtypeStruct(inputs[i].shape, inputs[i].dtype) for i in wanted]
        made = dict(zip(wanted, self._bind([*inputs, *(cotangents[o] for o in given)], shapes, bits)))
        return tuple(made.get(i) for i in range(len(inputs)))

    def _outputs(self, inputs):
        """Returns the shapes and dtypes of the outputs: as the graph states them, or those of a run with zeros."""
        shapes = [x.shape for x in inputs]
        symbols = self._stated.symbols(shapes)
        return [jax.ShapeDtypeStruct(tuple(symbols[e][2] if isinstance(e, str) else e for e in extents), DTYPES.get(dtype, dtype))
                for dtype, extents in self._stated.outputs([x.dtype for x in inputs], shapes, True)]


def run(model):
    """Returns a function of JAX arrays that runs a graph, compiled by Tenon as a whole.

        f = tenon.jax.run("model.onnx")            # a file, or a graph that was built or loaded
        y = jax.jit(f)(x)

    model: the path of a model, or a graph (tenon.graph.load, tenon.graph.Builder).

    A program with a graph that was built in this process runs in this process only; one with a file needs the file at the same path.
    Gradients are computed by a second run of the graph.
    """
    bridge()
    return Model(*opened(model))
