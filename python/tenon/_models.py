"""Graphs that Tenon compiles and runs as a whole, as functions of a framework; what does not depend on the framework."""
import atexit
import os
import shutil
import tempfile

import numpy as np

from . import _core, graph

_folders = []


def _saved(model):
    """Writes a graph to a file that exists until the process ends."""
    if not _folders:
        _folders.append(tempfile.mkdtemp(prefix="tenon-graphs-"))
        atexit.register(shutil.rmtree, _folders[0], True)
    path = os.path.join(_folders[0], f"{len(os.listdir(_folders[0]))}.onnx")
    model.save(path)
    return path


def opened(model):
    """Returns the graph of a path or of a graph, and the path of its file."""
    if isinstance(model, (str, bytes, os.PathLike)):
        path = os.path.abspath(os.fsdecode(model))
        model = graph.load(path)
    else:
        path = _saved(model)
    if "'; @end" in path:
        raise _core.InvalidError(f"the path of the model contains \"'; @end\", which marks its end in a custom call: {path}")
    return model, path


class Stated:
    """What a graph states about its inputs and outputs."""

    def __init__(self, model, path):
        self.graph, self.path, self._executable, self._made = model, path, None, {}

    def check_count(self, inputs):
        """Raises tenon.InvalidError if the number of inputs does not fit."""
        if len(inputs) != len(self.graph.inputs):
            raise _core.InvalidError(f"{self.path}: expected {len(self.graph.inputs)} inputs ({', '.join(name for name, _, _ in self.graph.inputs)}), found {len(inputs)}")

    def symbols(self, shapes):
        """Returns what the named extents of the inputs are: {"n": (input, axis, extent)}; an extent that is not known is None.

        shapes: of the inputs: a sequence of extents, or None.
        Raises tenon.InvalidError if the shapes do not fit.
        """
        found = {}
        for i, ((name, _, extents), shape) in enumerate(zip(self.graph.inputs, shapes)):
            if extents is None or shape is None:
                continue
            texts = [[("?" if e is None else str(e)) for e in es] for es in (extents, shape)]
            if len(extents) != len(shape) or any(isinstance(e, int) and x is not None and e != x for e, x in zip(extents, shape)):
                raise _core.InvalidError(f"{self.path}: input {name}: expected shape [{', '.join(texts[0])}], found [{', '.join(texts[1])}]")
            for axis, (extent, known) in enumerate(zip(extents, shape)):
                if isinstance(extent, str) and (extent not in found or found[extent][2] is None):
                    found[extent] = i, axis, known
        return found

    def outputs(self, dtypes, shapes, needs_shapes):
        """Returns a pair for each output: its dtype (the name, or a dtype of NumPy), and its extents or None.  An extent is a number; a name that `symbols`
        has; or None.

        dtypes: of the inputs, as NumPy has them.  needs_shapes: the graph runs with zeros if it does not state the outputs; otherwise only if a dtype is not stated.
        Returns None if it would have to run, and the shapes of the inputs are not known.
        """
        symbols = self.symbols(shapes)
        stated = [(dtype, None if extents is None else [e if isinstance(e, int) or e in symbols else None for e in extents]) for _, dtype, extents in self.graph.outputs]
        if all(dtype is not None and (not needs_shapes or extents is not None and None not in extents) for dtype, extents in stated):
            return stated
        if any(shape is None or None in shape for shape in shapes):
            return None
        key = tuple((dtype, tuple(shape)) for dtype, shape in zip(dtypes, shapes))
        if key not in self._made:
            if self._executable is None:
                self._executable = self.graph.compile()
            made = self._executable(*(np.zeros(shape, dtype) for dtype, shape in zip(dtypes, shapes)))
            made = made if isinstance(made, (list, tuple)) else [made]
            self._made[key] = [(y.dtype, list(y.shape)) for y in made]
        return self._made[key]
