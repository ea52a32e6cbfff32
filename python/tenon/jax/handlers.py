"""The library whose handlers XLA calls for Tenon's operators and graphs."""
import ctypes

import jax

from .. import _core
from .._library import adapter
from .internals import ffi

# The custom calls' targets by platform.  XLA may capture the calls of GRAPH_TARGET in a CUDA graph.
TARGETS = {"cpu": "tenon_cpu", "cuda": "tenon_cuda"}
GRAPH_TARGET = "tenon_cuda_graph"


def bridge():
    """Returns libtenon_jax.so, whose handlers are registered with XLA when it is first asked for."""
    if not hasattr(bridge, "library"):
        library = ctypes.CDLL(adapter("jax"))
        library.tenon_jax_hold.argtypes = [ctypes.c_char_p]
        library.tenon_jax_hold.restype = ctypes.c_char_p
        library.tenon_jax_can_capture.argtypes = [ctypes.c_char_p] * 3
        for target in (*TARGETS.values(), GRAPH_TARGET):
            _register_target(library, target, target)
        _register_target(library, TARGETS["cpu"], TARGETS["cuda"])  # graphs have one target on all platforms
        bridge.library = library
    return bridge.library


def _register_target(library, target, handler):
    """Registers the handler of a target.  JAX queues those for CUDA until its plug-in for CUDA starts, if there is one."""
    name = handler.removeprefix("tenon_")
    platform = name.partition("_")[0]
    try:
        ffi.register_ffi_target(target, ffi.pycapsule(getattr(library, f"tenon_jax_{name}")), platform="CUDA" if platform == "cuda" else platform)
    except Exception as error:
        raise _core.Error(f"JAX {jax.__version__} does not accept the handler {target}: {error}; another copy of Tenon may be registered in this process, "
                          "or JAX is older than 0.4.32") from error


def can_capture(op, backend, dtypes):
    """Whether a backend serves an operator by a kernel whose calls XLA may capture.  dtypes: Tenon's names of the operands' dtypes."""
    return bool(bridge().tenon_jax_can_capture(op.encode(), backend.encode(), " ".join(dtypes).encode()))
