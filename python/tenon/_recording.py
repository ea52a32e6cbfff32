"""Calls that are saved and repeated, and the stop at the first NaN: docs/debugging.md."""
import os

from . import _core


class Recording:
    """A recorded call: `r = tenon.replay("recordings/000-demo.gelu")`, then r.inputs, r.attributes, r.outputs, and r() repeats it.

    Tensors are tenon.Tensor, lists of them, or None; attributes are texts of the schema's language, None where that has none.
    """

    def __init__(self, folder):
        self._recording = _core.recording_load(folder)
        self.folder = os.fspath(folder)
        self.__dict__.update(_core.recording_members(self._recording))

    def __call__(self):
        """Results, a tuple, of the call on self.inputs as they are now; the operator's library is loaded if it is not."""
        try:
            return _core.recording_run(self._recording)
        except _core.NotFoundError:
            if not self.library_path or not os.path.exists(self.library_path):
                raise
        from ._library import load
        load(self.library_path)
        return _core.recording_run(self._recording)

    def __repr__(self):
        inputs = ", ".join("None" if x is None else "[...]" if isinstance(x, list) else f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        words = "" if self.status == "ok" else f": {self.status}, {self.error}"
        return f"<recorded call of {self.op}({inputs}){words}>"


def replay(folder):
    """The recorded call of a folder, see Recording."""
    return Recording(folder)


class record:
    """Saves calls that fail in folders of `folder`: `with tenon.record("recordings"): ...`; also those of `ops` ("demo::*, core::add")
    and, all=True, of every operator.  It is the process's; for good without `with`."""

    def __init__(self, folder, ops=None, all=False, most=0):
        _core.record_set(folder, ops, all, most)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.record_end()


class nan:
    """`with tenon.nan("stop"): ...`: the first call that gives a NaN, or an infinity out of finite numbers, raises; "report" says on stderr
    where they begin; "stop,nan" and "report,nan": infinities are fine.  It is the process's; for good without `with`."""

    def __init__(self, what="stop"):
        _core.nan_set(what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.nan_set(None)
