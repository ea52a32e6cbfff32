"""Tenon's devices as platforms of JAX, by its interface for plug-ins, PJRT.  A prototype: docs/decisions/0039-pjrt.md.

    JAX_PLATFORMS=tenon_sim python program.py       # with build/pjrt and build/python in PYTHONPATH, as `make pjrt FILE=program.py` does

The platform tenon_NAME is the backend NAME of Tenon.  TENON_PJRT lists the backends, "sim,opencl"; without it, only sim is one.  JAX chooses such a platform
only where JAX_PLATFORMS names it.
"""
import os
import re

from .._library import adapter
from .internals import allow_donation, register_plugin
from .primitives import lower_on

__all__ = ["backends", "initialize", "register"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
PRIORITY = -100  # below that of the CPU


def backends():
    """Returns the backends that TENON_PJRT lists.  Raises ValueError if one of them cannot be the name of a backend."""
    names = [name.strip() for name in os.environ.get("TENON_PJRT", "sim").split(",") if name.strip()]
    wrong = [name for name in names if not NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"TENON_PJRT: expected names of backends of Tenon, such as sim,opencl; found {', '.join(map(repr, wrong))}")
    return list(dict.fromkeys(names))


def register(backend):
    """Makes a backend of Tenon the platform tenon_BACKEND of JAX.  Whether the backend exists is checked when JAX first uses the platform."""
    if not NAME.fullmatch(backend):
        raise ValueError(f"expected the name of a backend of Tenon, such as 'sim'; found {backend!r}")
    register_plugin(f"tenon_{backend}", priority=PRIORITY, library_path=adapter("pjrt"), options={"backend": backend})
    allow_donation(f"tenon_{backend}")
    lower_on(f"tenon_{backend}")


def initialize():
    """Registers all backends that TENON_PJRT lists.  JAX calls it once."""
    for backend in backends():
        register(backend)
