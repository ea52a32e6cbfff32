"""The library whose handlers XLA calls for Tenon's operators and graphs."""
import ctypes

import jax

from .. import _core
from .._library import adapter
from .internals import ffi
from .primitives import TARGETS


def bridge():
    """Returns libtenon_jax.so, whose handlers are registered with XLA when it is first asked for."""
    if not hasattr(bridge, "library"):
        library = ctypes.CDLL(adapter("jax"))
        library.tenon_jax_hold.argtypes = [ctypes.c_char_p]
        library.tenon_jax_hold.restype = ctypes.c_char_p
        for platform, target in TARGETS.items():
            _register_target(library, platform, target)
        bridge.library = library
    return bridge.library


def _register_target(library, platform, target):
    handler = getattr(library, f"tenon_jax_{platform}")
    try:
        ffi.register_ffi_target(target, ffi.pycapsule(handler), platform=platform)
    except Exception as error:
        raise _core.Error(f"JAX {jax.__version__} does not accept the handler {target}: {error}; another copy of Tenon may be registered in this process, "
                          "or JAX is older than 0.4.32") from error
