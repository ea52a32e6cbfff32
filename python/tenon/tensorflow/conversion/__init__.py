"""Models of TensorFlow as graphs of Tenon (tenon.tensorflow.convert).

The functions of a model are read operation by operation, with the shapes that TensorFlow infers, so that an unknown batch stays unknown.  What depends on
constants and variables alone is computed by TensorFlow while the model is converted.  docs/decisions/0044-tensorflow-models.md says why.
"""
import numpy as np

from ... import graph as graphs
from ..dtypes import NAMES
from ..errors import invalid
from .sources import opened
from .tensors import Handle, List, Scope, Tensor, core
from .walk import Walk

__all__ = ["convert"]


def convert(model, path=None, *, signature=None, batch="batch"):
    """Converts a model; see tenon.tensorflow.convert."""
    program = opened(model, signature)
    builder = graphs.Builder()
    scope = Scope(builder)
    inputs = []
    for name, tensor in zip(program.inputs, program.function.inputs):
        inputs.append(Tensor(scope, builder.input(name, _dtype(name, tensor), _extents(name, tensor, batch))))
    handles = [_captured(scope, tensor) for tensor in program.function.captured_inputs]
    made = Walk().run(program.function.graph, inputs + handles, scope)
    outputs = {}
    for name, item in zip(program.outputs, made):
        if isinstance(item, (List, Handle)):
            raise invalid(f"output {name}: expected a tensor, found a list or a variable: return its contents")
        outputs[name] = item.plain() if item.array is None else core.identity(item.plain())
    graph = builder.finish(outputs)
    if path is not None:
        graph.save(path)
    return graph


def _dtype(name, tensor):
    if tensor.dtype not in NAMES:
        raise invalid(f"input {name}: Tenon has no tensors of {tensor.dtype.name}: convert the part of the model that takes numbers")
    return NAMES[tensor.dtype]


def _extents(name, tensor, batch):
    if tensor.shape.rank is None:
        return None
    return [e if e is not None else batch if i == 0 and batch is not None else f"{name}.{i}" for i, e in enumerate(tensor.shape.as_list())]


def _captured(scope, tensor):
    """What a function captures: the handle of a variable, or a tensor that was computed before."""
    if tensor.dtype.name in ("resource", "variant"):
        return Handle(tensor)
    return Tensor(scope, array=np.asarray(tensor))
