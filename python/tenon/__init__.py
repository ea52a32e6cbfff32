"""Tenon loads operators that were written once, in C, and calls them on Python's tensors.

    import tenon
    ops = tenon.load("./gelu.so")
    y = ops.gelu(x, approximate="tanh")     # x: a NumPy array, a PyTorch tensor, any object with __dlpack__

A result has the type of the first tensor argument: NumPy arrays give NumPy arrays, PyTorch tensors give
PyTorch tensors.  Neither arguments nor results are copied.  tenon.ops holds the operators of all loaded
libraries by namespace: tenon.ops.core.softmax(x, axis=-1).
"""
import os as _os

try:
    from . import _core
except ImportError as _error:
    _reason = "no file of it is there" if "cannot import name" in str(_error) else _error
    raise ImportError(f"tenon._core, the compiled part of Tenon, was not imported from {_os.path.dirname(_os.path.abspath(__file__))} ({_reason}): reinstall Tenon; "
                      "in a source tree, make build compiles it to build/python") from None

_core.check_interpreter()

from ._core import (Cancellation, CancelledError, DeadlineError, DeniedError, Error, ExistsError, InvalidError, NotFoundError, Operator, OutOfMemoryError, RangeError,
                    Tensor, UnimplementedError, at_most, crash_report, csr, empty, fallback_report, fallback_to_cpu, from_dlpack, row_sparse, seed)
from . import _notebook, _stand_in, _tensor, dispatch, graph
from ._define import gradient, impl, meta, op
from ._library import Library, Namespaces, load, policy
from ._profile import explain, profile, trace
from ._dump import Recording, nan, record, replay
from ._watch import watch

__version__ = _core.version()
Tensor._repr_html_ = _notebook.tensor  # Tensor is a type defined in C
_tensor.add_to(Tensor)
ops = Namespaces()
_stand_in.install()


def include_dir():
    """Returns the folder of Tenon's headers (tenon/op.h and others) in an installed package.

    Raises tenon.NotFoundError when the package is imported from a build folder.
    """
    return _installed("include")


def cmake_dir():
    """Returns the folder to pass as -Dtenon_DIR=... to CMake's find_package(tenon).

    Raises tenon.NotFoundError when the package is imported from a build folder.
    """
    return _installed("lib", "cmake", "tenon")


def _installed(*parts):
    folder = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), *parts)
    if not _os.path.isdir(folder):
        raise NotFoundError(f"{folder} does not exist: the package was imported from a build folder; use the folders of the source tree instead")
    return folder


def doctor():
    """Prints a report on the machine, the build of Tenon and the settings in effect."""
    print(_core.doctor(), end="")


def tensor(data, dtype=None, device=None):
    """Creates a tenon.Tensor with a copy of `data`.

    data: a number, a (nested) list of numbers, or an array.
    dtype: a name such as "f32"; None: NumPy chooses the dtype.
    device: a name such as "opencl:0"; None: the CPU.
    """
    import numpy
    array = numpy.array(data, dtype=None if dtype is None else _numpy_dtype(dtype))
    made = from_dlpack(array)
    return made if device is None else made.to(device)


def _numpy_dtype(dtype):
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
             "u32": "uint32", "u64": "uint64", "c64": "complex64", "c128": "complex128"}
    return names.get(dtype, dtype)


class threads:
    """Sets how many threads the calls made by the current thread use; 0 restores the default.

    tenon.threads(2) holds until it is changed; `with tenon.threads(2):` restores the previous number at its end.
    """

    def __init__(self, count):
        self._before = _core.threads_get()
        _core.threads_set(count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.threads_set(self._before)
