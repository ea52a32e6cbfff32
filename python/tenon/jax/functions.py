"""Operators as functions of JAX arrays."""
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core, _signature
from . import inference, primitives
from .._calls import Call, inputs_of, is_written_result, own_results, parameters_of, results_of, traits_of, written_inputs
from .constants import Constant
from .dtypes import NAMES

_CONSTANT_MOST = 4 << 20  # bytes of a tensor that is an attribute
_ELEMENTS_MOST = 64  # elements of an integer argument whose values inference sees


def refusal(op):
    """Why an operator cannot be called in JAX; "" if it can."""
    attributes = [p for p in op.parameters if not p["tensor"]]
    if any(p["kind"] == "graph" for p in attributes):
        return "it has a graph as an attribute"
    if any(p["kind"] == "Tensor[]" and not p["optional"] for p in attributes):
        return "it has a list of tensors as an attribute"
    first, _, rest = op.types.partition(";")
    if first.endswith("= ?") and ("(Tensor[]" not in op.schema or rest == " out = ?"):
        return "its values are lists of tensors"
    if not op.results and not any(p["written"] for p in op.parameters):
        return "it has no results"
    return ""


class Function:
    """An operator of Tenon as a function of JAX arrays; it works under jit, grad, vmap, scan and jax.export.

    Tensor arguments are arrays, numbers or (for lists) sequences of arrays; attributes are Python values and static.
    key: random operators only: a JAX key, or two numbers of type uint32.
    size: results whose extents depend on data only: a bound for them, an integer or one for each such extent.

    Returns the results in the schema's order: one array, or a tuple; a list for a list.  Arguments that the operator writes to are not changed; their
    new contents are returned after the results, unless they are results.  A result whose shape depends on data has the shape of the bound, filled with
    zeros, and is followed at the end by the true extent as an int32 array (for several such axes, by the whole shape).

    Raises tenon.InvalidError and others when the call is traced, if dtypes, shapes or attributes do not fit.
    """

    def __init__(self, op):
        self.name = op.name
        self.parameters = parameters_of(op.name)
        self.__name__ = self.__qualname__ = op.__name__
        self.__doc__ = op.__doc__
        self.__signature__ = _jax_signature(op.name)

    def __repr__(self):
        return f"<{self.name} as a function of JAX>"

    def __call__(self, *arguments, **named):
        try:
            bound = self.__signature__.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        values = dict(bound.arguments)
        extra = {name: values.pop(_signature.free_name(_core.find(self.name), name), None) for name in ("key", "size")}
        by_python_name = {_signature.python_name(p["name"]): p["name"] for p in self.parameters}
        return self.call({by_python_name[name]: value for name, value in values.items()}, **extra)

    def call(self, values, key=None, size=None, wanted=0):
        """Calls the operator with arguments by name.  wanted: the results to compute (bits; 0: all)."""
        name, counts, operands, known = self.name, [], [], []
        like = _dtype_of(self.parameters, values)
        for p in inputs_of(name):
            value = values.get(p["name"])
            if value is None:
                if not p["optional"]:
                    raise TypeError(f"{name}: argument {p['name']}: expected an array, found None")
                counts.append(-1)
            elif p["kind"] == "Tensor[]":
                if not isinstance(value, (list, tuple)):
                    raise TypeError(f"{name}: argument {p['name']}: expected a list of arrays, found {type(value).__name__}")
                counts.append(len(value))
                operands += [_array(name, p, v, like) for v in value]
            else:
                counts.append(1)
                operands.append(_array(name, p, value, like))
                elements = _elements(value) if p["host"] else None
                if elements is not None:
                    known.append((p["index"], elements))
        attributes = tuple((p["name"], _attribute(name, p, values[p["name"]])) for p in self.parameters if not p["tensor"] and p["name"] in values)
        attributes = tuple((n, v) for n, v in attributes if v is not None)
        call = Call(name, tuple(counts), attributes, wanted, 0, tuple(known), _bounds(name, size))
        if "random" in traits_of(name):
            operands.append(_key(name, key))
        elif key is not None:
            raise TypeError(f"{name} draws no random numbers: it takes no key")
        avals = [jax.ShapeDtypeStruct(np.shape(x), x.dtype) for x in operands[:call.operand_count]]
        entries = inference.results(call, avals)
        call = call._replace(padded=_padded(call, entries))
        if size is not None and not call.padded:
            raise TypeError(f"{name}: the shapes of its results do not depend on data: it takes no size")
        return _results(call, entries, primitives.bind(call, operands))


@functools.lru_cache(maxsize=None)
def _jax_signature(name):
    op = _core.find(name)
    parameters = [p for p in _signature.signature(op).parameters.values() if p.name not in (_signature.out_name(op), _signature.add_name(op))]
    if "random" in op.traits:
        parameters.append(inspect.Parameter(_signature.free_name(op, "key"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Array"))
    parameters.append(inspect.Parameter(_signature.free_name(op, "size"), inspect.Parameter.KEYWORD_ONLY, default=None, annotation="int | tuple[int, ...] | None"))
    order = {inspect.Parameter.VAR_KEYWORD: 1}
    return inspect.Signature(sorted(parameters, key=lambda p: order.get(p.kind, 0)), return_annotation=_signature.signature(op).return_annotation)


def _dtype_of(parameters, values):
    """The dtype that numbers get: that of the first array among the arguments, if possible of one that is not a condition."""
    found = None
    for p in parameters:
        value = values.get(p["name"]) if p["tensor"] and not p["host"] else None
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(item, "dtype") and (found is None or found == bool):
                found = jax.dtypes.canonicalize_dtype(item.dtype) if isinstance(item, np.ndarray) else item.dtype  # NumPy's become arrays of JAX
    return found


def _array(name, parameter, value, like):
    if hasattr(value, "dtype") and not isinstance(value, np.ndarray):
        return value
    if isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and value.dtype.kind in "OSUT"):
        raise TypeError(f"{name}: argument {parameter['name']}: JAX has no arrays of strings: call the operator as tenon.ops.{name.replace('::', '.')}")
    if isinstance(value, (bool, int, float, complex)) and like is not None and not parameter["host"]:
        keeps_value = isinstance(value, int) or jnp.issubdtype(like, jnp.inexact)
        return jnp.asarray(value, like if keeps_value else jnp.float32)
    try:
        return jnp.asarray(_in_range(value) if parameter["host"] else value)
    except TypeError as error:
        raise TypeError(f"{name}: argument {parameter['name']}: {error}") from None


def _in_range(value):
    """Replaces integers outside of JAX's range by the nearest ones, since they stand for the end of an axis; without jax_enable_x64 JAX would take
    their lower 32 bits.  An empty list becomes integers."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" and array.size:
        return value
    limits = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
    return np.clip(array, limits.min, limits.max).astype(limits.dtype)


def _is_extent(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) or type(value).__name__ == "_DimExpr"


def _elements(value):
    """The elements of an integer argument that are known when the call is traced, or None."""
    if _is_extent(value):
        return (value,)
    if isinstance(value, (list, tuple)) and len(value) <= _ELEMENTS_MOST and all(map(_is_extent, value)):
        return tuple(int(v) if isinstance(v, np.integer) else v for v in value)
    if isinstance(value, jax.core.Tracer) or not hasattr(value, "dtype") or not jnp.issubdtype(value.dtype, jnp.integer) or np.ndim(value) > 1 or np.size(value) > _ELEMENTS_MOST:
        return None
    return tuple(np.asarray(value).ravel().tolist())


def _constant(name, parameter, value):
    """Makes a tensor that is an attribute hashable, by its contents."""
    where = f"{name}: attribute {parameter['name']}"
    if value is None or isinstance(value, Constant):
        return value
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{where}: expected a NumPy array, whose elements are known when the program is traced; found {value}: let the jitted function refer to an array "
                        "from outside, instead of taking it as an argument")
    if not isinstance(value, (np.ndarray, np.generic, jax.Array)):
        raise TypeError(f"{where}: expected a NumPy array, found {type(value).__name__}")
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") not in NAMES:
        raise TypeError(f"{where}: the dtype {array.dtype} has no counterpart in JAX: call the operator as tenon.ops.{name.replace('::', '.')}")
    if array.nbytes > _CONSTANT_MOST:
        raise TypeError(f"{where}: the array has {array.nbytes} bytes: expected at most {_CONSTANT_MOST}, since programs contain it: call the operator as "
                        f"tenon.ops.{name.replace('::', '.')}, or run a graph with it (tenon.jax.run)")
    return Constant.of(array)


def _attribute(name, parameter, value):
    """Makes an attribute hashable."""
    if parameter["kind"] == "Tensor":
        return _constant(name, parameter, value)
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name}: attribute {parameter['name']}: expected a Python value, which is known when the program is traced; found {value}: "
                        "mark the argument of the jitted function as static (static_argnames)")
    if parameter["kind"] == "Tensor[]" and value is not None:
        raise TypeError(f"{name}: attribute {parameter['name']}: JAX passes no lists of tensors as attributes: omit it, or call the operator as tenon.ops.{name.replace('::', '.')}")
    if parameter["kind"] == "dtype" and value is not None and not isinstance(value, str):
        dtype = jnp.dtype(value)
        if dtype not in NAMES:
            raise TypeError(f"{name}: attribute {parameter['name']}: the dtype {dtype} has no counterpart in Tenon")
        return NAMES[dtype]
    if parameter["kind"] == "dtype" and isinstance(value, str) and value not in NAMES.values():
        return _attribute(name, parameter, jnp.dtype(value))
    if isinstance(value, (np.ndarray, jax.Array)):
        value = np.asarray(value).tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return tuple(v.item() if isinstance(v, np.generic) else v for v in value) if isinstance(value, (list, tuple)) else value


def _bounds(name, size):
    if size is None:
        return ()
    bounds = tuple(size) if isinstance(size, (list, tuple)) else (size,) * 64
    if not all(isinstance(b, (int, np.integer)) and b >= 0 for b in bounds):
        raise TypeError(f"{name}: size: expected integers that are not negative, found {size!r}")
    return tuple(map(int, bounds))


def _key(name, key):
    """Returns a JAX key as two numbers."""
    if key is None:
        raise TypeError(f"{name} draws random numbers: pass a key, as in key=jax.random.key(0)")
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    if key.shape == (4,):  # keys of the implementation "rbg"
        key = key[:2] ^ key[2:]
    if key.shape != (2,) or key.dtype != jnp.uint32:
        raise TypeError(f"{name}: key: expected a JAX key or two numbers of type uint32, found {key.dtype}{list(key.shape)}")
    return key


def _padded(call, entries):
    bits = 0
    for (o, _), entry in zip(own_results(call), entries):
        if any(axes for _, _, axes in (entry if isinstance(entry, list) else [entry])):
            bits |= 1 << o
    return bits


def _results(call, entries, buffers):
    """Arranges the contents of the result buffers as the caller gets them."""
    name, buffers = call.op, iter(buffers)
    written = {}
    for p, count in call.inputs:
        if p["written"] and count >= 0:
            items = [next(buffers) for _ in range(count)]
            written[p["name"]] = items if p["kind"] == "Tensor[]" else items[0]
    made, extents, entries = {}, [], iter(entries)
    for o, _ in own_results(call):
        entry = next(entries)
        items = []
        for _, _, axes in entry if isinstance(entry, list) else [entry]:
            items.append(next(buffers))
            if call.padded >> o & 1:
                shape = next(buffers)
                extents.append(shape[axes[0]] if len(axes) == 1 else shape)
        made[o] = items if isinstance(entry, list) else items[0]
    out, returned = [], set()
    for o, result in enumerate(results_of(name)):
        if is_written_result(name, result):
            owner = next(p["name"] for p in written_inputs(name) if p["mark"] == result["mark"])
            returned.add(owner)
            out.append(written.get(owner))
        else:
            out.append(made.get(o))
    out += [value for owner, value in written.items() if owner not in returned]
    out += extents
    return out[0] if len(out) == 1 else tuple(out)
