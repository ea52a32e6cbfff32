"""Failure dumps and their replay, and the search for the first NaN; see docs/debugging.md."""
import os

from . import _core


class Recording:
    """A saved call, read by tenon.replay("recordings/000-demo.gelu"): r.inputs, r.attributes, r.outputs; r() repeats the call.

    Tensors are tenon.Tensor, lists of tenon.Tensor, or None.  Attributes are texts of the schema language, or None if
    the schema language cannot express the value.
    """

    def __init__(self, folder):
        self._dump = _core.dump_load(folder)
        self.folder = os.fspath(folder)
        self.__dict__.update(_core.dump_members(self._dump))

    def __call__(self):
        """Repeats the call on the current values of self.inputs and returns a tuple of results.

        Loads the operator's library if it is not loaded, and if it is the file that the dump was made with: its path is
        absolute and outside of the dump, and it has the hash that the dump states.  Load another build with tenon.load first.
        """
        try:
            return _core.dump_run(self._dump)
        except _core.NotFoundError:
            path = _core.dump_library(self._dump)
            if path is None:
                raise
        from ._library import load
        load(path)
        return _core.dump_run(self._dump)

    def __repr__(self):
        inputs = ", ".join("None" if x is None else "[...]" if isinstance(x, list) else f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        words = "" if self.status == "ok" else f": {self.status}, {self.error}"
        return f"<saved call of {self.op}({inputs}){words}>"


def replay(folder):
    """Reads a saved call from its folder and returns it as a tenon.Recording."""
    return Recording(folder)


class record:
    """Saves calls that fail, each in a folder of its own below `folder`: `with tenon.record("recordings"): ...`.

    ops: operators whose successful calls are saved too, as in "demo::*, core::add".
    all: save the calls of every operator.
    most: the largest number of calls to save; 0: the default.

    The setting applies to the whole process.  Without `with` it stays in effect.
    """

    def __init__(self, folder, ops=None, all=False, most=0):
        _core.dumps_set(folder, ops, all, most)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.dumps_end()


class nan:
    """Finds the first call that produces a NaN, or an infinity from finite numbers: `with tenon.nan("stop"): ...`.

    what: "stop" raises at this call; "report" prints the call on stderr; "stop,nan" and "report,nan" ignore infinities.

    The setting applies to the whole process.  Without `with` it stays in effect.
    """

    def __init__(self, what="stop"):
        _core.nan_set(what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.nan_set(None)
