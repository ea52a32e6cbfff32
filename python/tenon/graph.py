"""Models: built or read, compiled, run, saved.

    model = tenon.graph.load("model.onnx").compile()
    y = model(x)                    # inputs by place or by name; one result, or a tuple of them

    b = tenon.graph.Builder()
    x = b.input("x", "f32", ["n", 384])
    y = tenon.graph.ops.demo.gelu(x, approximate="tanh")
    graph = b.finish({"y": y})

tenon.graph.ops has the operators of tenon.ops; here they take values of a graph, and add a node to it.  Operators of custom
domains are looked up in the libraries that are loaded: tenon.load("ops.so") comes before.
"""
import os

from . import _core, _signature
from ._core import Builder, Executable, Graph, Value
from ._library import Namespaces

__all__ = ["Builder", "Executable", "Graph", "Operator", "Value", "load", "ops"]


def load(path):
    """Reads a model file (ONNX); its weights stay in the file, which must stay as it is."""
    return _core.graph_load(os.fspath(path))


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
