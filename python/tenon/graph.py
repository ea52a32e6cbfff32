"""Models: built or read, compiled, run, saved.

    model = tenon.graph.load("model.onnx").compile()
    y = model(x)                    # inputs by place or by name; one result, or a tuple of them

    b = tenon.graph.Builder()
    x = b.input("x", "f32", ["n", 384])
    y = tenon.graph.ops.demo.gelu(x, approximate="tanh")
    graph = b.finish({"y": y})

tenon.graph.ops has the operators of tenon.ops; here they take values of a graph, and add a node to it.  Operators of custom
domains are looked up in the libraries that are loaded: tenon.load("./ops.so") comes before.
"""
import os
from typing import NamedTuple

from . import _core, _picture, _signature
from ._core import Builder, Executable, Graph, Value
from ._library import Namespaces

__all__ = ["Builder", "Executable", "Graph", "Node", "Operator", "Pass", "Value", "load", "ops", "passes"]


def load(path):
    """Reads a model file (ONNX); its weights stay in the file, which must stay as it is."""
    return _core.graph_load(os.fspath(path))


class Node(NamedTuple):
    """A node of a graph: its name, its operator's, the names of the values that it takes (a list for a list, None: absent) and gives,
    and its attributes, where tensors and graphs are None."""
    name: str
    op: str
    inputs: list
    outputs: list
    attributes: dict


def _nodes(graph):
    """Its nodes, in an order in which they may run."""
    names = [name for name, _, _ in graph._values()]

    def named(value):
        return None if value is None else [names[item] for item in value] if isinstance(value, list) else names[value]
    return [Node(name, op, [named(value) for value in inputs], named(outputs), attributes) for name, op, inputs, outputs, attributes in graph._nodes()]


def _values(graph):
    """{name: "f32[n, 384]"} of all its values: inputs, constants, results of nodes."""
    return {name: text for name, text, _ in graph._values()}


def _svg(graph, path=None, most=_picture.MOST):
    """A picture of it, as the text of an SVG, or written to a file: at most so many nodes, the first ones."""
    text = _picture.svg(graph, most)
    if path is None:
        return text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Pass(NamedTuple):
    """What a library brings to change graphs with, by apply: name, text, strategies (None: it is a pass, no partitioner), and where
    the library's file is."""
    name: str
    doc: str
    strategies: list
    library_path: str


def passes():
    """Those of all libraries that are loaded."""
    return [Pass(*each) for each in _core.graph_passes()]


def _apply(graph, name, /, **options):
    """A graph made of this one by a pass or a partitioner of a library that is loaded: apply("library::name", key=value).  Values
    of options go to it as texts: str(value)."""
    return graph._apply(name, [(key, str(value)) for key, value in options.items()])


# Graph is a type of C; these are its methods in Python.
Graph.apply = _apply
Graph.nodes, Graph.values = property(_nodes), property(_values)
Graph.svg, Graph._repr_svg_, Graph.__repr__ = _svg, _picture.svg, _picture.line


class Operator:
    # An operator that is called with values of a graph: it adds a node, and gives the values that are its results.

    def __init__(self, op):
        self._op, self.__name__, self.__qualname__ = op, op.__name__, op.__name__
        self._names = [_signature.free_name(op, name) for name in ("name", "builder")]

    def __call__(self, *arguments, **named):
        name, builder = (named.pop(own, None) for own in self._names)
        return _core.builder_node(self._op, arguments, named, name, builder)

    def __getattr__(self, name):  # name, schema, parameters, ... are those of the operator
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._op, name)

    def __repr__(self):
        return f"<tenon graph operator {self._op.schema or self._op.name}>"

    @property
    def __doc__(self):
        return (f"Adds a node to the graph of its arguments, which are values.  {self._names[0]}: the node's; {self._names[1]}: needed where "
                f"no value is given.\n\n{_signature.document(self._op)}")

    __signature__ = property(lambda self: _signature.node_signature(self._op))


ops = Namespaces(Operator)
