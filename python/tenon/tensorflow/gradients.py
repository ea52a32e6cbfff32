"""Gradients of Tenon's operators in TensorFlow: by the declared formulas, or by Tenon's tape (the operator Tenon>Gradient)."""
import tensorflow as tf
from tensorflow.python.framework import ops as _ops

from .. import _core
from .._calls import Call
from .._evaluation import Evaluation, Shape, formulas_of, has_parts
from . import xla
from .definitions import definition_of, read_value
from .errors import translated, unimplemented

_REMEDY = "apply tf.stop_gradient to this input"


class _Evaluation(Evaluation):
    remedy = _REMEDY

    def zero(self):
        return tf.zeros([], self.like.dtype)

    def is_tensor(self, value):
        return isinstance(value, tf.Tensor)

    def constant(self, parameter, value):
        if isinstance(value, Shape):
            return tf.constant(value.extents, tf.int64)
        items = value if isinstance(value, (list, tuple)) else [value]
        is_whole = all(isinstance(v, int) and not isinstance(v, bool) for v in items)
        if is_whole and parameter["host"]:
            return tf.constant(value, tf.int64)
        return tf.constant(value, tf.int32 if is_whole else self.like.dtype)

    def shape(self, value, start, end):
        tensor = self.argument(value)
        return Shape(tensor.shape[start:end]) if tensor.shape.is_fully_defined() else tf.shape(tensor, out_type=tf.int64)[start:end]

    def replaced(self, name, arguments):
        if name == "core::identity" and self.is_tensor(arguments[0]):
            return arguments[0]
        if name in ("core::expand", "core::reshape") and len(arguments) == 2 and self.is_tensor(arguments[0]):
            shape = arguments[1].extents if isinstance(arguments[1], Shape) else arguments[1]
            return (tf.broadcast_to if name == "core::expand" else tf.reshape)(arguments[0], shape)
        return NotImplemented

    def apply(self, name, arguments, wanted):
        from .functions import call
        return call(name, arguments, wanted)

    def summed(self, gradient, name):
        return sum_to(gradient, self.names[name])


def sum_to(gradient, like):
    """Sums a gradient over the axes along which `like` was broadcast to its shape."""
    if gradient.shape.is_fully_defined() and gradient.shape == like.shape:
        return gradient
    if gradient.shape.is_fully_defined() and like.shape.is_fully_defined():
        missing = gradient.shape.rank - like.shape.rank
        axes = [d for d in range(gradient.shape.rank) if d < missing or (like.shape[d - missing] == 1 and gradient.shape[d] != 1)]
        return tf.reshape(tf.reduce_sum(gradient, axes), like.shape)
    shape = tf.shape(like, out_type=tf.int64)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(gradient, out_type=tf.int64))
    return tf.reshape(tf.reduce_sum(gradient, axes), shape)


def differentiate(call, groups, results, cotangents, seed=None):
    """Returns a gradient or None for each tensor argument; a list for a list.

    groups: for each tensor argument None, a tensor, or a list.  results, cotangents: by the number of the result; a list for a list.
    """
    floats = {i for i, g in enumerate(groups) if g is not None and any(t.dtype.is_floating or t.dtype.is_complex for t in (g if isinstance(g, list) else [g]))}
    if not floats or all(t is None for c in cotangents.values() for t in (c if isinstance(c, list) else [c])):
        return [None] * len(groups)
    if formulas_of(call.op) is None:
        return _by_tape(call, groups, cotangents, floats, seed)
    shapes = {p["name"]: g.shape for (p, _), g in zip(call.inputs, groups) if g is not None and not isinstance(g, list)}
    try:
        made = _Evaluation(call, groups, results, cotangents, shapes).gradients(floats)
    except _core.Error as error:
        raise translated(error, f"the gradient of {call.op}: ") from None
    return [made.get(i) for i in range(len(groups))]


def refuse_written(name, cotangents):
    """Raises if a gradient flows to the new contents of an input that the operator writes to."""
    if any(c is not None for c in cotangents):
        raise unimplemented(f"{name} writes to its inputs and has no gradient in TensorFlow: {_REMEDY}")


def _by_tape(call, groups, cotangents, floats, seed):
    """Tenon calls the operator again and records it."""
    name = call.op
    if not has_parts(name):
        raise unimplemented(f"{name} has no gradient: declare one (gradient= in Python, TENON_GRADIENT in C), or {_REMEDY}")
    given, grads = 0, []
    for o, grad in sorted(cotangents.items()):
        items = grad if isinstance(grad, list) else [grad]
        if all(t is None for t in items):
            continue
        given |= 1 << o
        grads += [tf.zeros([], tf.float32) if t is None else t for t in items]
    wanted = [groups[i] for i in sorted(floats)]
    likes = [t for g in wanted for t in (g if isinstance(g, list) else [g])]
    asked = call._replace(given=given, requested=sum(1 << i for i in floats), wanted=0)
    operands = [t for g in groups if g is not None for t in (g if isinstance(g, list) else [g])] + grads + ([] if seed is None else [seed])
    made = iter(tape_gradient(asked, operands, likes, seed is not None))
    found = {i: [next(made) for _ in groups[i]] if isinstance(groups[i], list) else next(made) for i in sorted(floats)}
    return [found.get(i) for i in range(len(groups))]


def tape_gradient(call, operands, likes, is_random=False):
    """Adds the operator that computes gradients by Tenon's tape; likes: the inputs that get one."""
    if not tf.executing_eagerly() and xla.is_compiled():
        return xla.gradient(call, operands, likes, is_random)
    arguments = {"inputs": operands, "Tout": [t.dtype for t in likes], "call": call.text()}
    if tf.executing_eagerly():
        from tensorflow.python.eager import context
        from tensorflow.python import pywrap_tfe
        made = pywrap_tfe.TFE_Py_FastPathExecute(context.context(), "Tenon>Gradient", None, operands, "Tout", arguments["Tout"], "call", arguments["call"])
    else:
        from tensorflow.python.framework import op_def_library
        made = op_def_library.apply_op("Tenon>Gradient", **arguments)
    for gradient, like in zip(made, likes):
        gradient.set_shape(like.shape)
    return made


# ---- the nodes of TensorFlow ----


def _attribute(node, name):
    """An attribute of a node, or None; a call outside of graphs records only those that it was given."""
    try:
        return node.get_attr(name)
    except (KeyError, ValueError):
        return None


def counts_of(definition, node):
    """The number of tensors of each input and of each result of a node."""
    def count(side):
        if side.has_types:
            return len(_attribute(node, side.type) or ())
        found = _attribute(node, side.count) if side.count else 1
        return 1 if found is None else int(found)
    return [count(s) for s in definition.inputs], {o: count(s) for o, s in definition.results}


def call_of(definition, node, counts, lengths):
    """The call that a node stands for."""
    attributes = [(a.of["name"], read_value(a, value)) for a in definition.attributes if (value := _attribute(node, a.name)) is not None]
    wanted = sum(1 << o for o, _ in definition.results if lengths[o]) if any(not n for n in lengths.values()) else 0
    return Call(definition.name, tuple(-1 if not n and not s.is_list else n for s, n in zip(definition.inputs, counts)), tuple(attributes), wanted)


def grouped(tensors, sides_and_counts):
    """Arranges tensors by argument."""
    rest, made = iter(tensors), []
    for side, count in sides_and_counts:
        items = [next(rest) for _ in range(count)]
        made.append(items if side.is_list else items[0] if items else None)
    return made


def _gradient(name):
    def gradient(node, *cotangents):
        definition = definition_of(name)
        counts, lengths = counts_of(definition, node)
        inputs = list(node.inputs)
        groups = grouped(inputs, list(zip(definition.inputs, counts)))
        skipped = len(definition.written)
        refuse_written(name, cotangents[:skipped])
        pairs = [(side, lengths[o]) for o, side in definition.results]
        numbers = [o for o, _ in definition.results]
        results = dict(zip(numbers, grouped(list(node.outputs)[skipped:], pairs)))
        grads = dict(zip(numbers, grouped(cotangents[skipped:], pairs)))
        seed = inputs[-1] if definition.is_random else None
        made = differentiate(call_of(definition, node, counts, lengths), groups, results, grads, seed)
        flat = [t for grad, count in zip(made, counts) for t in (grad if isinstance(grad, list) else [grad] * count)]
        return flat + [None] * definition.is_random
    return gradient


def register(table):
    """Registers the gradients of a namespace."""
    for name, own in table.names.items():
        _ops.RegisterGradient(own)(_gradient(name))


@_ops.RegisterGradient("Tenon>Gradient")
def _second(node, *_):
    name = node.get_attr("call").decode().split("(")[0]
    raise unimplemented(f"{name}: its gradient cannot be differentiated again: it is computed from the parts of the operator; declare a gradient formula "
                        "(gradient= in Python, TENON_GRADIENT in C) to support second derivatives")


@_ops.RegisterGradient("Tenon>Graph")
def _of_graph(node, *cotangents):
    from . import models
    return models.pull(node, cotangents)


__all__ = ["differentiate", "grouped", "refuse_written", "register", "sum_to", "tape_gradient"]
