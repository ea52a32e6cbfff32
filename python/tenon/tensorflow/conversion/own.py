"""Tenon's own operators inside a model of TensorFlow stay nodes of the operator; Tenon>Graph becomes the graph of its file."""
import tensorflow as tf

from ... import _core
from ... import graph as graphs
from ..bridge import Table
from ..definitions import by_python_name, definition_of, read_value
from ..errors import translated
from .calls import row
from .control import dtype_number
from .tensors import core


def name_of(op_type):
    """Returns the name of the operator of Tenon for one of TensorFlow, such as Tenon>Demo>Gelu; None: there is none."""
    for table in Table._tables.values():
        for name, own in table.names.items():
            if own == op_type:
                return name
    return None


def operator(call):
    """Converts a node of an operator of Tenon."""
    name = name_of(call.op.type)
    if name is None:
        call.refuse("no loaded library has this operator: call tenon.load and tenon.tensorflow.register before")
    definition = definition_of(name)
    if definition.is_random or definition.written:
        call.refuse(f"{name} {'draws random numbers by a seed of TensorFlow' if definition.is_random else 'writes to its inputs'}, which a graph of Tenon does not do")
    values, at = {}, 0
    for side in definition.inputs:
        count = 1
        if side.is_group:
            count = len(call.attr(side.type)) if side.has_types else call.attr(side.count)
        items = [call.value(i) for i in range(at, at + count)]
        at += count
        values[side.of["name"]] = items if side.is_list else items[0] if items else None
    for attribute in definition.attributes:
        values[attribute.of["name"]] = read_value(attribute, call.op.get_attr(attribute.name))
    return _results(call, definition, _node(name, values))


def _node(name, values):
    """Adds the node.  values: the arguments by their names in the schema."""
    space, own = name.split("::", 1)
    node = getattr(graphs.ops, space)
    for part in own.split("."):
        node = getattr(node, part)
    by_name = {of["name"]: python for python, of in by_python_name(name).items()}
    return node(**{by_name[key]: value for key, value in values.items()})


def _results(call, definition, made):
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    if not any(side.is_group for _, side in definition.results):
        return [call.given(v) for v in made]
    outputs = []
    for (number, side) in definition.results:
        value = made[number]
        if side.is_list:
            outputs += value if isinstance(value, (list, tuple)) else [value]
        elif call.attr(side.count):
            outputs.append(value)
    return [call.given(v) for v in outputs]


@row("Tenon>Graph")
def whole_graph(call):
    """The graph of a file: both branches of a core::if whose condition is constant."""
    path = tf.compat.as_text(call.attr("path"))
    try:
        graph = graphs.load(path)
    except _core.Error as error:
        raise translated(error) from None
    dtypes = [dtype_number(dtype) if dtype else 0 for _, dtype, _ in graph.outputs]
    ranks = [-1 if extents is None else len(extents) for _, _, extents in graph.outputs]
    always = call.scope.builder.constant(True)
    made = getattr(core, "if")(always, call.values(), then=graph, **{"else": graph}, count=len(dtypes), dtypes=dtypes, ranks=ranks)
    return [call.given(v) for v in made]
