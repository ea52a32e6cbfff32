"""Shapes and dtypes of results, by the operator's own inference; an extent that is not known is None."""
import tensorflow as tf

from .. import _core
from .dtypes import NAMES
from .errors import invalid, translated

_MOST = 64  # elements of an integer argument whose values inference sees


def _values(tensor):
    """The elements of an integer tensor that is known when the graph is built, or None."""
    if not tensor.dtype.is_integer or tensor.shape.rank is None or tensor.shape.rank > 1 or (tensor.shape.num_elements() or 0) > _MOST:
        return None
    found = tf.get_static_value(tensor, partial=True)
    return None if found is None else [found.item()] if getattr(found, "ndim", 1) == 0 else list(found)


class _Metas:
    """Describes tensors to inference.  Each extent, and each element, that is not known is a symbol of its own."""

    def __init__(self, name):
        self.name, self.tensors, self.places = name, 0, []

    def symbol(self, place=None):
        self.places.append(place)
        return -len(self.places)

    def of(self, tensor, parameter):
        """Describes the next tensor; returns None if its rank is not known."""
        operand, is_host = self.tensors, parameter["host"]
        self.tensors += 1
        if tensor.dtype not in NAMES:
            raise invalid(f"{self.name}: argument {parameter['name']}: Tenon has no tensors of dtype {tensor.dtype.name}: convert it, or pass its integers, its scale and its zero point "
                          "as tensors of their own")
        if tensor.shape.rank is None:
            return None
        meta = NAMES[tensor.dtype], [self.symbol((operand, d)) if extent is None else extent for d, extent in enumerate(tensor.shape)]
        values = _values(tensor) if is_host else None
        return meta if values is None else (*meta, [(self.symbol(),) if v is None else int(v) for v in values])


def _broadcast(a, b):
    if a is not None and (a > 1 or b == 1):
        return a
    return b if b is not None and (b > 1 or a == 1) else None


_OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a // b, "ceil_div": lambda a, b: -(-a // b), "mod": lambda a, b: a % b,
               "min": min, "max": max, "test_equal": lambda a, b: int(a == b), "test_less": lambda a, b: int(a < b)}


def extent_of(tree):
    """Returns an extent as a number, or None."""
    if isinstance(tree, int):
        return tree
    if tree[0] in ("symbol", "unknown", "bound"):
        return None
    a, b = extent_of(tree[2]), extent_of(tree[3])
    if tree[0] == "broadcast":
        return _broadcast(a, b)
    if tree[0] == "equal":
        return b if a is None else a
    return None if a is None or b is None else _OPERATIONS[tree[0]](a, b)


def described(call, groups):
    """Returns what inference says about the results of a call, and where its symbols come from: (number of the tensor, axis), or None for an element.

    groups: for each tensor argument None, a tensor, or a list of tensors.
    Returns None if the rank of an input is not known.
    Raises TensorFlow's InvalidArgumentError and others, if dtypes, shapes or attributes do not fit.
    """
    metas, made = _Metas(call.op), []
    for (parameter, _), group in zip(call.inputs, groups):
        made.append([metas.of(t, parameter) for t in group] if isinstance(group, list) else None if group is None else metas.of(group, parameter))
        if group is not None and (made[-1] is None or isinstance(group, list) and None in made[-1]):
            return None
    attributes = {name: list(value) if isinstance(value, tuple) else value for name, value in call.attributes}
    try:
        return call.operator._infer(made, attributes, len(metas.places), call.wanted)[0], metas.places
    except _core.Error as error:
        raise translated(error) from None


def results(call, groups):
    """Infers a call.  Returns a list with an entry for each result: (dtype's name, shape), a list of such entries for a list, None for a result that is
    not wanted; a shape is a list of extents or None, or None.  Returns None if the rank of an input is not known."""
    found = described(call, groups)

    def entry(spec):
        if spec is None or isinstance(spec, list):
            return spec if spec is None else [entry(item) for item in spec]
        dtype, extents = spec
        return dtype, None if extents is None else [extent_of(tree) for tree in extents]
    return None if found is None else [entry(spec) for spec in found[0]]
