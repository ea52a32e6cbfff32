"""Models: read, compiled, run.

    model = tenon.graph.load("model.onnx").compile()
    y = model(x)                    # inputs by place or by name; one result, or a tuple of them

Operators of custom domains are looked up in the libraries that are loaded: tenon.load("ops.so") comes before.
"""
import os

from . import _core
from ._core import Executable, Graph

__all__ = ["Executable", "Graph", "load"]


def load(path):
    """Reads a model file (ONNX); its weights stay in the file, which must stay as it is."""
    return _core.graph_load(os.fspath(path))
