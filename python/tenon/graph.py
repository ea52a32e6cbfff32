"""Models: build or read them, compile, run and save them.

    model = tenon.graph.load("model.onnx").compile()
    y = model(x)                    # inputs by position or by name; one result, or a tuple of results

    b = tenon.graph.Builder()
    x = b.input("x", "f32", ["n", 384])
    y = tenon.graph.ops.demo.gelu(x, approximate="tanh")
    graph = b.finish({"y": y})

tenon.graph.ops holds the same operators as tenon.ops, but they take values of a graph and add a node to it.
Operators of custom domains are looked up in the loaded libraries, so call tenon.load("./ops.so") first.
"""
import os
from typing import NamedTuple

from . import _core, _picture, _signature
from ._core import Builder, Executable, Graph, Value
from ._library import Namespaces

__all__ = ["Builder", "Executable", "Graph", "Node", "Operator", "Pass", "Rewrite", "Value", "load", "ops", "passes", "rewrites"]


def load(model):
    """Reads an ONNX model, a graph as text (NAME.graph) or an artifact (NAME.tenon), and returns it as a Graph.

    model: the path of a file, or the contents of one as bytes.

    The weights of a file are not copied: the file must not change while the graph or an executable of it exists.  Contents
    are copied to a temporary file, and cannot refer to other files with weights.
    """
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return _core.graph_load(os.fspath(model))
    import tempfile  # not needed to import tenon
    heads = {b"tenon graph ": ".graph", b"\x89TENON\r\n": ".tenon"}
    suffix = next((suffix for head, suffix in heads.items() if bytes(model[:len(head)]) == head), ".onnx")
    with tempfile.NamedTemporaryFile(prefix="tenon-", suffix=suffix) as file:  # its memory lives as long as the graph
        file.write(model)
        file.flush()
        return _core.graph_load(file.name)


class Node(NamedTuple):
    """A node of a graph.

    name: the name of the node.  op: the name of its operator.
    inputs: the names of the values that it reads; a list of tensors is a list of names, an absent input is None.
    outputs: the names of its results.
    attributes: values by name; tensors and graphs appear as None.
    """
    name: str
    op: str
    inputs: list
    outputs: list
    attributes: dict


def _nodes(graph):
    """The nodes of the graph, in an order in which they can run."""
    names = [name for name, _, _ in graph._values()]

    def named(value):
        return None if value is None else [names[item] for item in value] if isinstance(value, list) else names[value]
    return [Node(name, op, [named(value) for value in inputs], named(outputs), attributes) for name, op, inputs, outputs, attributes in graph._nodes()]


def _values(graph):
    """All values of the graph (inputs, constants and results of nodes) with their types: {name: "f32[n, 384]"}."""
    return {name: text for name, text, _ in graph._values()}


def _svg(graph, path=None, most=_picture.MOST):
    """Draws the graph as SVG.

    path: the file to write; None: return the SVG as a string.
    most: the largest number of nodes to draw; the first ones are drawn.
    """
    text = _picture.svg(graph, most)
    if path is None:
        return text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Pass(NamedTuple):
    """A graph pass or partitioner of a loaded library, for Graph.apply.

    name: "library::name".  doc: the library's description.
    strategies: the strategies of a partitioner; None for a pass.
    library_path: the file of the library.
    """
    name: str
    doc: str
    strategies: list
    library_path: str


def passes():
    """Returns the passes and partitioners of all loaded libraries."""
    return [Pass(*each) for each in _core.graph_passes()]


class Rewrite(NamedTuple):
    """A rule by which Graph.compile rewrites graphs.

    name: "name", or "library::name" for a rule of a loaded library.
    before, after: what is replaced by what, in the language of docs/rewrites.md.
    condition: what the texts do not say; "": nothing.
    """
    name: str
    before: str
    after: str
    condition: str


def rewrites():
    """Returns the rewriting rules in the order in which they are applied; compile(without="name,name") leaves some out."""
    found = []
    for library, rule, condition in _core.graph_rewrites():
        name, _, text = rule.partition(":")
        before, _, after = text.rpartition("->")
        found.append(Rewrite(f"{library}::{name}" if library else name, before.strip(), after.strip(), condition))
    return found


def _apply(graph, name, /, **options):
    """Returns a new graph made by a pass or a partitioner of a loaded library: apply("library::name", key=value).

    Option values are passed as strings: str(value).
    """
    return graph._apply(name, [(key, str(value)) for key, value in options.items()])


# Graph is a type defined in C; its methods written in Python are added here.
Graph.apply = _apply
Graph.nodes, Graph.values = property(_nodes), property(_values)
Graph.svg, Graph._repr_svg_, Graph.__repr__ = _svg, _picture.svg, _picture.line


def _port_text(port):
    name, dtype, extents = port
    shape = "" if extents is None else f"[{', '.join('?' if extent is None else str(extent) for extent in extents)}]"
    return f"{name}: {dtype or '?'}{shape}"


def _executable_text(executable):
    inputs, outputs = (", ".join(map(_port_text, ports)) for ports in (executable.graph.inputs, executable.graph.outputs))
    return f"<tenon.graph.Executable ({inputs}) -> ({outputs})>"


def _executable_svg(executable, path=None):
    """Draws the memory plan of the last run as SVG: time from left to right, addresses from bottom to top.

    path: the file to write; None: return the SVG as a string.
    Raises tenon.Error if there is no plan: before the first run, and on devices.
    """
    text = executable.dump("memory.svg")
    if path is None:
        return text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


Executable.__repr__, Executable.svg = _executable_text, _executable_svg
for _type in Graph, Executable:  # both are immutable, so a copy is the object itself
    _type.__copy__ = _type.__deepcopy__ = lambda self, memo=None: self


class Operator:
    # An operator of tenon.graph.ops: a call takes values of a graph, adds a node, and returns the values of its results.

    def __init__(self, op):
        self._op, self.__name__, self.__qualname__ = op, op.__name__, op.__name__
        self._names = [_signature.free_name(op, name) for name in ("name", "builder")]

    def __call__(self, *arguments, **named):
        name, builder = (named.pop(own, None) for own in self._names)
        return _core.builder_node(self._op, arguments, named, name, builder)

    def __getattr__(self, name):  # name, schema, parameters and so on are taken from the operator
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._op, name)

    def __repr__(self):
        return f"<tenon graph operator {self._op.schema or self._op.name}>"

    @property
    def __doc__(self):
        return (f"Adds a node to the graph that its arguments, which are graph values, belong to.  {self._names[0]}: the name of the node; "
                f"{self._names[1]}: the Builder, needed only if no argument is a graph value.\n\n{_signature.document(self._op)}")

    __signature__ = property(lambda self: _signature.node_signature(self._op))


ops = Namespaces(Operator)
