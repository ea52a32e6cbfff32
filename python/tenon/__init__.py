"""Tenon: operators that are written once, in C, and called from everywhere.

    import tenon
    ops = tenon.load("./gelu.so")
    y = ops.gelu(x, approximate="tanh")     # x: an array of NumPy, a tensor of PyTorch, anything with __dlpack__

Results are of the library that the first argument is of, over memory that is not copied.  Operators of all loaded libraries are
at tenon.ops: tenon.ops.core.softmax(x, axis=-1).
"""
import os as _os

from . import _core

_core.check_interpreter()

from ._core import (CancelledError, DeniedError, Error, ExistsError, InvalidError, NotFoundError, Operator, OutOfMemoryError, RangeError, Tensor, UnimplementedError,
                    at_most, crash_report, csr, empty, fallback_report, fallback_to_cpu, from_dlpack, row_sparse, seed)
from . import _notebook, dispatch, graph
from ._define import gradient, impl, meta, op
from ._library import Library, Namespaces, load, policy
from ._profile import explain, profile, trace
from ._recording import Recording, nan, record, replay
from ._watch import watch

__version__ = _core.version()
Tensor._repr_html_ = _notebook.tensor  # a type of C
ops = Namespaces()


def include_dir():
    """The folder of tenon/op.h and the other headers, of an installed package."""
    return _installed("include")


def cmake_dir():
    """The folder for CMake's find_package(tenon), of an installed package: -Dtenon_DIR=..."""
    return _installed("lib", "cmake", "tenon")


def _installed(*parts):
    folder = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), *parts)
    if not _os.path.isdir(folder):
        raise NotFoundError(f"{folder} is not there: this is the package of a build folder, use the folders of its sources")
    return folder


def doctor():
    """A report on machine, build and settings."""
    print(_core.doctor(), end="")


def tensor(data, dtype=None, device=None):
    """A tensor of `data`: numbers, (nested) lists of them, or an array, copied; on a device if one is given."""
    import numpy
    array = numpy.array(data, dtype=None if dtype is None else _numpy_dtype(dtype))
    made = from_dlpack(array)
    return made if device is None else made.to(device)


def _numpy_dtype(dtype):
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
             "u32": "uint32", "u64": "uint64", "c64": "complex64", "c128": "complex128"}
    return names.get(dtype, dtype)


class threads:
    """Threads that calls of this thread use from here on, and within `with tenon.threads(2):` only there; 0: the default."""

    def __init__(self, count):
        self._before = _core.threads_get()
        _core.threads_set(count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.threads_set(self._before)
