"""Walks the functions of a TensorFlow model and adds what each operation becomes to a Tenon graph."""
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, core
from tensorflow.python.framework import function_def_to_graph

from ... import _core
from ..errors import invalid, translated
from ..functions import pywrap
from . import control, lists, matrices, own, pointwise, reductions, shapes, slices, windows  # noqa: F401 - they fill the table
from .calls import ROWS, Call, refused
from .tensors import Handle, Tensor

_SMALL = 1 << 20  # bytes; a constant up to this size is always computed
_WRITING = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply", "StatefulRandom", "RngSkip", "RngReadAndSkip", "Queue", "Stack", "Write", "Save")
_TABLES = ("HashTable", "LookupTable", "MutableHashTable", "MutableDenseHashTable", "InitializeTable")


class Walk:
    """The conversion of one model.  It keeps the functions that it has read and the contents of the variables."""

    def __init__(self):
        self._functions, self._contents = {}, {}

    # ---- functions ----

    def function(self, op, name):
        """Returns the function that an attribute of an operation names, as a graph."""
        return self._graph(op, op.get_attr(name).name)

    def functions(self, op, name):
        return [self._graph(op, each.name) for each in op.get_attr(name)]

    def _graph(self, op, name):
        offset = 1 if op.type in ("If", "StatelessIf", "Case", "StatelessCase") else 0
        is_loop = op.type in ("While", "StatelessWhile")
        given = [t.shape for t in (op.outputs if is_loop else op.inputs[offset:])]
        key = name, tuple(str(shape) for shape in given)
        if key not in self._functions:
            definition, library = self._definition(op, name)
            shapes = [tf.TensorShape(None) if t.type == tf.resource.as_datatype_enum or t.type == tf.variant.as_datatype_enum else s
                      for t, s in zip(definition.signature.input_arg, given)]
            with library.as_default():
                self._functions[key] = function_def_to_graph.function_def_to_graph(definition, input_shapes=shapes)
        return self._functions[key]

    def _definition(self, op, name):
        """Returns the definition of a function, and the graph that has the functions which it calls."""
        graph = op.graph
        while graph is not None:
            if graph._is_function(name):
                return graph._get_function(name).cached_definition, graph
            graph = getattr(graph, "outer_graph", None)
        return context.context().get_function_def(name), tf.Graph()

    # ---- variables ----

    def contents(self, call, handle, dtype):
        """Returns the contents of a variable as an array."""
        if not isinstance(handle, Handle):
            call.refuse("it reads a variable that is made inside the model: convert a function whose variables are tracked")
        key = id(handle.tensor), dtype
        if key not in self._contents:
            with tf.init_scope():
                self._contents[key] = tf.raw_ops.ReadVariableOp(resource=handle.tensor, dtype=dtype).numpy()
        return self._contents[key]

    # ---- operations ----

    def run(self, graph, inputs, scope):
        """Adds the nodes of a function; returns what its results have become.  inputs: what its inputs are."""
        values = {id(tensor): item for tensor, item in zip(graph.inputs, inputs)}
        for op in _needed(graph):
            if op.type == "Placeholder" and id(op.outputs[0]) in values:
                continue
            made = self._converted(op, [values.get(id(t)) for t in op.inputs], scope)
            values.update((id(t), item) for t, item in zip(op.outputs, made))
        return [self._given(values, tensor) for tensor in graph.outputs]

    def _given(self, values, tensor):
        if id(tensor) not in values:
            raise refused(tensor.op, "its result is not known here")
        return values[id(tensor)]

    def _converted(self, op, inputs, scope):
        if op.type == "Const":
            return [_constant(op, scope)]
        folded = _folded(op, inputs, scope)
        if folded is not None:
            return folded
        call = Call(op, [item if not isinstance(item, Tensor) or item.scope is scope else _moved(item, scope) for item in inputs], scope, self)
        try:
            made = self._row(op)(call)
        except _core.Error as error:
            raise translated(type(error)(f"{op.name} ({op.type}): {error}")) from None
        return made if isinstance(made, list) else [made]

    def _row(self, op):
        if op.type in ROWS:
            return ROWS[op.type]
        if op.type.startswith("Tenon>"):
            return own.operator
        if op.type in ("Placeholder", "Arg", "_Arg"):
            raise refused(op, "it is an input that the signature does not name")
        if any(word in op.type for word in _TABLES):
            raise refused(op, "tables are not supported: look up outside of the model, and pass the result as an input")
        if any(t.dtype == tf.string for t in (*op.inputs, *op.outputs)):
            raise refused(op, "strings are not supported: convert the part of the model after them, and pass its tensors as inputs")
        if any(t.dtype in (tf.resource, tf.variant) for t in (*op.inputs, *op.outputs)):
            raise refused(op, "it computes with a resource or a variant, which graphs of Tenon do not have: convert a function without it")
        if op.op_def.is_stateful:
            raise refused(op, "it has a state or draws random numbers: convert the model for inference (training=False)")
        raise refused(op, "this operation is not supported: convert a function without it, or write it with operations that docs/tensorflow.md lists")


def _moved(item, scope):
    """A constant of another graph of the same model."""
    return Tensor(scope, array=item.array) if item.array is not None else item


def _needed(graph):
    """The operations that the results of a function depend on, in order.  Raises if the function changes a variable."""
    for op in graph.get_operations():
        if op.op_def.is_stateful and op.type.startswith(_WRITING) or op.type.startswith("Assign"):
            raise refused(op, "it changes a state of the model, which a graph of Tenon does not have: convert the model for inference (training=False)")
    needed, stack = set(), [t.op for t in graph.outputs]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            stack.extend(t.op for t in op.inputs)
    return [op for op in graph.get_operations() if op in needed]


def _constant(op, scope):
    if op.outputs[0].dtype == tf.string:
        return Tensor(scope, array=np.array(tf.make_ndarray(op.get_attr("value")), object))
    return Tensor(scope, array=tf.make_ndarray(op.get_attr("value")))


def _folded(op, inputs, scope):
    """Computes an operation of constants with TensorFlow itself; None: it is none, or it would enlarge the model."""
    if not inputs or op.op_def.is_stateful or any(not isinstance(item, Tensor) or item.array is None for item in inputs):
        return None
    if op.type.startswith(("Tenon>", "TensorList")) or op.type in ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall"):
        return None
    if any(t.dtype in (tf.resource, tf.variant) for t in op.outputs):
        return None
    given = sum(item.array.nbytes for item in inputs)
    for t in op.outputs:
        count = t.shape.num_elements()
        if count is not None and count * t.dtype.size > max(_SMALL, 2 * given):
            return None
    made = evaluated(op, [item.array for item in inputs])
    return [Tensor(scope, array=array) for array in made]


def evaluated(op, arrays):
    """Runs an operation outside of the graph, as TensorFlow's generated functions do; returns its results as arrays."""
    definition, arguments, at = op.op_def, [], 0
    with tf.init_scope():
        for argument, tensors in _grouped(op):
            items = [tf.constant(array, t.dtype) for array, t in zip(arrays[at:at + len(tensors)], tensors)]
            at += len(tensors)
            arguments.append(items if argument.number_attr or argument.type_list_attr else items[0])
        inferred = {name for a in definition.input_arg for name in (a.type_attr, a.number_attr, a.type_list_attr)}
        attributes = [x for a in definition.attr if a.name not in inferred for x in (a.name, op.get_attr(a.name))]
        try:
            made = pywrap.TFE_Py_FastPathExecute(context.context(), op.type, None, *arguments, *attributes)
        except core._NotOkStatusException as error:
            raise invalid(f"{op.name} ({op.type}): {error.message}") from None
    return [t.numpy() for t in (made if isinstance(made, list) else [made])]


def _grouped(op):
    """Pairs of an argument of an operation and its tensors."""
    at, found = 0, []
    for argument in op.op_def.input_arg:
        count = op.get_attr(argument.number_attr) if argument.number_attr else len(op.get_attr(argument.type_list_attr)) if argument.type_list_attr else 1
        found.append((argument, op.inputs[at:at + count]))
        at += count
    return found


