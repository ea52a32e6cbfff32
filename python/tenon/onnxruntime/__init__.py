"""Tenon's operators in ONNX Runtime's models.

    import onnxruntime, tenon, tenon.onnxruntime
    ops = tenon.load("./gelu.so")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(tenon.onnxruntime.library())   # the operators of all loaded libraries
    tenon.onnxruntime.register(options, ops)                           # or chosen ones
    session = onnxruntime.InferenceSession("model.onnx", options)

A node of the domain "demo" and the type "gelu" is then the operator demo::gelu.  `tenon export --to onnxruntime` makes
libraries for programs without Python.  docs/onnxruntime.md describes both.
"""
import contextlib
import ctypes
import functools
import weakref

from .. import _core, _library
from .execution_provider import path as provider  # noqa: F401


@functools.lru_cache(None)
def _bridge():
    bridge = ctypes.CDLL(library())
    bridge.tenon_onnxruntime_choose.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int32]
    bridge.tenon_onnxruntime_choose.restype = None
    bridge.tenon_onnxruntime_report.argtypes = [ctypes.c_char_p]
    bridge.tenon_onnxruntime_report.restype = ctypes.c_void_p
    return bridge


def library():
    """Returns the path of a library for SessionOptions.register_custom_ops_library.

    The registration adds the operators of all libraries that are loaded in Tenon at that time, and Tenon's own ones (the
    domain "core").  Operators that ONNX Runtime cannot have are left out; see left_out.
    """
    return _library.adapter("onnxruntime_operators")


_registered = weakref.WeakKeyDictionary()  # the names of the operators that options have


def _name_of(operators):
    if isinstance(operators, str):
        return operators
    if isinstance(operators, (_core.Operator, _library.Library)):
        return operators.name
    raise TypeError(f"expected an operator, a library, or the name of one, found {type(operators).__name__}")


@contextlib.contextmanager
def _chosen(names):
    """Within, this thread registers these operators."""
    texts = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))  # which must stay
    _bridge().tenon_onnxruntime_choose(texts, len(texts))
    try:
        yield
    finally:
        _bridge().tenon_onnxruntime_choose(None, 0)
        del texts


def register(options, *operators):
    """Registers operators with the options of a session.

        register(options, ops)                       # a library
        register(options, ops.gelu, "core::softmax") # operators
        register(options, "core")                    # Tenon's own operators

    options: onnxruntime.SessionOptions.
    operators: operators and libraries, or their names.  Of a library, operators that ONNX Runtime cannot have are left
        out; see left_out.

    State all operators of a namespace in one call: ONNX Runtime accepts a domain only once for each session.

    Raises tenon.UnimplementedError for an operator that ONNX Runtime cannot have, tenon.NotFoundError for a name that
    does not exist, and tenon.ExistsError if the options have other operators of a namespace already.  The libraries of
    the operators stay loaded until the process ends.
    """
    names = []
    for name in map(_name_of, operators):
        refused = left_out(name)
        if "::" in name and name in refused:
            raise _core.UnimplementedError(f"{name} cannot be an operator of ONNX Runtime: {refused[name]}")
        names += [name] if "::" in name else [one for one in _report(name) if one not in refused]
    before = _registered.setdefault(options, set())
    new = sorted(set(names) - before)
    twice = {name.split("::")[0] for name in new} & {name.split("::")[0] for name in before}
    if twice:
        raise _core.ExistsError(f"the options have other operators of the domain {sorted(twice)[0]!r} already: register all of them in one call")
    if new:
        with _chosen(new):
            options.register_custom_ops_library(library())
    before.update(new)


def _report(name):
    pointer = _bridge().tenon_onnxruntime_report(None if name is None else name.encode())
    if not pointer:
        if name is not None and "::" in name:
            _core.find(name)  # raises, with the names that exist
        raise _core.NotFoundError(f"no loaded library has operators in the namespace {name!r}: load it first")
    try:
        lines = ctypes.string_at(pointer).decode().splitlines()
    finally:
        _free(pointer)
    return dict(line.split("\t", 1) for line in lines)


def _free(pointer):
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    free(pointer)


def left_out(operators=None):
    """Returns the operators that ONNX Runtime cannot have, with the reasons: {"core::if": "it has a graph as ..."}.

    operators: an operator, a library, or the name of one; None: all.
    """
    report = _report(None if operators is None else _name_of(operators))
    return {name: why for name, why in report.items() if why}
