"""Graphs that Tenon compiles and runs as a whole, as functions of TensorFlow tensors (the operator Tenon>Graph)."""
import functools

import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import core as _eager
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework import ops as _ops

from .. import _core
from .._models import Stated, opened
from . import xla
from .bridge import Table
from .dtypes import DTYPES, NAMES
from .errors import invalid, translated, unimplemented
from .functions import add_node, pywrap

_OWN = "Tenon>Graph"


def _node(path, inputs, grads, dtypes, given=0, requested=0):
    """Adds the node to the graph, or runs it; returns the list of its outputs."""
    if tf.executing_eagerly():
        try:
            return pywrap.TFE_Py_FastPathExecute(_context.context(), _OWN, None, inputs, grads, "Tout", dtypes, "path", path, "given", given, "requested", requested)
        except _eager._NotOkStatusException as error:
            _ops.raise_from_not_ok_status(error, None)
    return add_node(op_def_registry.get(_OWN), {"inputs": inputs, "grads": grads}, {"Tout": dtypes, "path": path, "group": "", "given": given, "requested": requested})


def _differentiable(tensors):
    return [i for i, t in enumerate(tensors) if t is not None and (t.dtype.is_floating or t.dtype.is_complex)]


def _gradients(path, inputs, cotangents, run):
    """Returns a gradient or None for each input.  run: computes those of the requested inputs."""
    given, requested = _differentiable(cotangents), _differentiable(inputs)
    if not given or not requested:
        return [None] * len(inputs)
    if max(given + requested) > 63:
        raise unimplemented(f"{path}: the gradient of a graph with more than 64 inputs or outputs is not supported")
    grads = [tf.convert_to_tensor(cotangents[o]) for o in given]
    made = dict(zip(requested, run(inputs, grads, sum(1 << o for o in given), sum(1 << i for i in requested))))
    return [made.get(i) for i in range(len(inputs))]


def pull(node, cotangents):
    """The gradient of the operator Tenon>Graph."""
    path = tf.compat.as_text(node.get_attr("path"))
    if node.get_attr("given"):
        raise unimplemented(f"{path}: the gradient of a graph cannot be differentiated again")

    def run(inputs, grads, given, requested):
        likes = [x for i, x in enumerate(inputs) if requested >> i & 1]
        made = _node(path, inputs, grads, [x.dtype for x in likes], given, requested)
        for gradient, like in zip(made, likes):
            gradient.set_shape(like.shape)
        return made
    return _gradients(path, list(node.inputs), cotangents, run)


class Model:
    """A graph as a function of TensorFlow tensors, outside of graphs, in tf.function and compiled by XLA, with gradients.

    graph: the graph.  path: the file from which it is loaded where it runs.

    Takes one tensor for each input of the graph and returns one tensor, or a tuple of the outputs.
    Raises tf.errors.InvalidArgumentError if the number, the dtypes or the shapes of the inputs do not fit.
    """

    def __init__(self, model, path):
        self.graph, self.path, self._stated = model, path, Stated(model, path)
        self.__name__ = self.__qualname__ = "graph"
        self.autograph_info__ = {}

    def __repr__(self):
        return f"<the graph {self.path} as a function of TensorFlow>"

    def __call__(self, *inputs):
        try:
            self._stated.check_count(inputs)
            inputs = [self._converted(*pair) for pair in zip(self.graph.inputs, inputs)]
            shapes = [None if x.shape.rank is None else x.shape.as_list() for x in inputs]
            symbols, outputs = self._stated.symbols(shapes), self._stated.outputs([x.dtype.as_numpy_dtype for x in inputs], shapes, False)
        except _core.Error as error:
            raise translated(error) from None
        if outputs is None:
            raise invalid(f"{self.path}: it does not state the dtypes of its outputs, and the shapes of the inputs, with which it could be tried, are not known: call set_shape on them")
        outputs = [(self._dtype(dtype), extents) for dtype, extents in outputs]
        is_eager = tf.executing_eagerly()
        if not is_eager and xla.is_compiled():
            made = self._compiled(inputs, outputs, symbols)
        else:
            made = _node(self.path, inputs, [], [dtype for dtype, _ in outputs])
        if not is_eager:
            for y, (_, extents) in zip(made, outputs):
                y.set_shape(None if extents is None else [symbols[e][2] if isinstance(e, str) else e for e in extents])
        return made[0] if len(made) == 1 else tuple(made)

    def _converted(self, port, value):
        name, dtype, _ = port
        try:
            x = tf.convert_to_tensor(value, None if hasattr(value, "dtype") else DTYPES.get(dtype))
        except (TypeError, ValueError) as error:
            raise invalid(f"{self.path}: input {name}: {error}") from None
        if x.dtype not in NAMES or dtype is not None and NAMES[x.dtype] != dtype:
            raise invalid(f"{self.path}: input {name}: expected dtype {DTYPES[dtype].name if dtype in DTYPES else dtype or 'of Tenon'}, found {x.dtype.name}: convert the tensor")
        return x

    def _dtype(self, dtype):
        found = DTYPES.get(dtype) if isinstance(dtype, str) else tf.as_dtype(dtype)
        if found is None:
            raise unimplemented(f"{self.path}: an output has dtype {dtype}, which TensorFlow does not have")
        return found

    # ---- functions that XLA compiles ----

    def _text(self, bits=""):
        return f"@model({len(self.graph.inputs)}); @path='{self.path}'; @end{bits}"

    def _compiled(self, inputs, outputs, symbols):
        @tf.custom_gradient
        def run(*tensors):
            made = self._module(list(tensors), outputs, symbols)

            def gradient(*cotangents):
                return _gradients(self.path, list(tensors), cotangents, self._compiled_gradients)
            return made, gradient
        made = run(*inputs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _module(self, inputs, outputs, symbols):
        xla.check(self.path)
        module, results = xla.Module(self.path, inputs), []
        for dtype, extents in outputs:
            if extents is None or None in extents:
                raise invalid(f"{self.path}: it does not state the shape of an output in terms of its inputs, which XLA needs: call it outside of functions with jit_compile=True")
            known = [symbols[e][2] if isinstance(e, str) else e for e in extents]
            results.append((NAMES[dtype], known, functools.partial(_extents, module, extents, symbols)))
        return module.run(self._text(), results)

    def _compiled_gradients(self, inputs, grads, given, requested):
        module, results = xla.Module(self.path, [*inputs, *grads]), []
        for i, x in enumerate(inputs):
            if requested >> i & 1:
                results.append((NAMES[x.dtype], x.shape.as_list(), functools.partial(xla.extents_of_operand, module, i, x.shape.rank)))
        return module.run(self._text(f"; @given={given}; @inputs={requested}"), results)


def _extents(module, extents, symbols):
    return [module.of_operand(*symbols[e][:2]) if isinstance(e, str) else module.constant(e) for e in extents]


def load(model):
    """Makes the function of a path or of a graph."""
    Table.of("core")  # which registers Tenon>Graph and its gradient
    try:
        return Model(*opened(model))
    except _core.Error as error:
        raise translated(error) from None
