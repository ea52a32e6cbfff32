"""Functions of tvm-ffi as operators of Tenon.

    import tenon.tvm_ffi
    ops = tenon.tvm_ffi.load("./libk.so", add_one={"schema": "add_one(Tensor x) -> Tensor", "shapes": "out = x"})
    y = ops.add_one(x)

A library whose functions have metadata loads with tenon.load alone.  docs/tvm_ffi.md describes both.
"""
import ctypes
import functools
import json
import os

from .. import _core, _library

_TEXTS = ("schema", "arguments", "types", "shapes", "gradient", "backends")
_TRAITS = {"pure": 1, "pointwise": 2, "brief": 8}  # TENON_PURE, ...


class _Function(ctypes.Structure):
    """tenon_tvm_ffi_function_t"""
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), *((name, ctypes.c_char_p) for name in ("name", *_TEXTS)), ("traits", ctypes.c_int64)]


@functools.lru_cache(None)
def bridge():
    """Returns libtenon_tvm_ffi.so."""
    library = ctypes.CDLL(_library.bridge("tvm_ffi"))
    library.tenon_tvm_ffi_declare.argtypes = [ctypes.POINTER(_Function), ctypes.c_uint32]
    library.tenon_tvm_ffi_declare.restype = ctypes.c_int
    return library


def _declared(name, declaration):
    """Converts the declaration of one function."""
    fields = {"schema": declaration} if isinstance(declaration, str) else dict(declaration)
    unknown = set(fields) - set(_TEXTS) - set(_TRAITS)
    if unknown:
        raise TypeError(f"function {name}: there is no field {sorted(unknown)[0]!r}; there are {', '.join((*_TEXTS, *_TRAITS))}")
    texts = {key: fields[key].encode() for key in _TEXTS if fields.get(key) is not None}
    return _Function(size=ctypes.sizeof(_Function), name=name.encode(), traits=sum(bit for key, bit in _TRAITS.items() if fields.get(key)), **texts)


def load(path, functions=None, *, strict=False, unloadable=False, **named):
    """Loads a library of tvm-ffi functions and returns it as a tenon.Library.

        load("./libk.so", add_one="add_one(Tensor x, Tensor(a!) y) -> ()")
        load("./libk.so", scale={"schema": "scale(Tensor x, float by) -> Tensor", "arguments": "out, x, by", "shapes": "out = x", "pure": True})

    path, strict, unloadable: as for tenon.load.
    functions, named: declarations by the names of the functions, in a dict or as keyword arguments; without any, all
        functions that have metadata are taken.  A declaration is a schema, or a dict of texts as in
        tenon_tvm_ffi_function_t (tenon/tvm_ffi.h): schema, arguments, types, shapes, gradient, backends; and of the
        traits pure, pointwise and brief.

    Raises tenon.ExistsError if the file is loaded already, tenon.NotFoundError if it does not export a function, and
    tenon.InvalidError if a declaration does not fit the metadata of its function.
    """
    declared = [_declared(name, declaration) for name, declaration in {**(functions or {}), **named}.items()]
    declare = bridge().tenon_tvm_ffi_declare
    functions = (_Function * len(declared))(*declared)  # must stay until the library is loaded
    declare(functions, len(declared))
    try:
        library = _library.load(os.fspath(path), strict=strict, unloadable=unloadable)
    finally:
        is_open = declare(None, 0)
        del functions
    if declared and not is_open:
        raise _core.ExistsError(f"{os.fsdecode(path)} is loaded already, or is a library of another kind: unload it first")
    return library


@functools.lru_cache(None)
def _module():
    import tvm_ffi
    return tvm_ffi.load_module(_library.bridge("tvm_ffi"))


def function(operator):
    """Returns an operator as a tvm_ffi.Function, for callers that know only tvm-ffi.

        gelu = tenon.tvm_ffi.function(ops.gelu)
        y = gelu(x)                  # creates the result
        gelu(x, y)                   # writes to y

    operator: an operator of tenon.ops or of a loaded library, or its name.

    The function takes the arguments of the schema in its order, by position; the last ones may be missing, and None
    stands for a default.  If tensors for all results follow, the function writes to them and returns None.  Tensors are
    not copied.  Calls run on the stream that tvm-ffi's caller uses.  The operator's library stays loaded.
    """
    return _module().operator(operator if isinstance(operator, str) else operator.name)


def metadata(operator):
    """Returns the metadata of an operator's function: the types of its arguments and results, in the form of tvm-ffi."""
    return json.loads(_module().metadata(operator if isinstance(operator, str) else operator.name))
