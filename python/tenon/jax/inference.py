"""Shapes and dtypes of results, by the operator's own inference; extents are numbers or the symbolic dimensions of jax.export."""
import jax
import jax.numpy as jnp

from .. import _core
from .._calls import inputs_of, own_results
from .constants import Constant
from .dtypes import DTYPES, NAMES


class _Symbols:
    """The symbolic dimensions of a call and the numbers that represent them: -1 - k represents extents[k]."""

    def __init__(self):
        self.extents, self.numbers = [], {}

    def number(self, extent):
        if isinstance(extent, int):
            return extent
        if extent not in self.numbers:
            self.extents.append(extent)
            self.numbers[extent] = -len(self.extents)
        return self.numbers[extent]

    def value(self, element):
        return element if isinstance(element, int) else (self.number(element),)

    def meta(self, op, aval, known=None):
        if aval is None:
            return None
        if isinstance(aval, list):
            return [self.meta(op, a) for a in aval]
        dtype = jnp.dtype(aval.dtype)
        if dtype not in NAMES:
            raise _core.InvalidError(f"{op}: the JAX dtype {dtype} has no counterpart in Tenon: convert the array to another dtype")
        made = NAMES[dtype], [self.number(extent) for extent in aval.shape]
        return made if known is None else (*made, [self.value(element) for element in known])


def _broadcast(a, b):
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    raise _core.InvalidError(f"the extents {a} and {b} cannot be broadcast")


def _equal(a, b):
    if a == b:
        return a
    raise _core.InvalidError(f"the extents {a} and {b} must be equal, which does not follow from what is known about them")


_OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a // b, "ceil_div": lambda a, b: (a + b - 1) // b,
               "mod": lambda a, b: a % b, "min": jax.core.min_dim, "max": jax.core.max_dim, "broadcast": _broadcast, "equal": _equal,
               "test_equal": lambda a, b: int(a == b), "test_less": lambda a, b: int(a < b)}


class _Extents:
    """Turns extents as inference returns them into JAX's."""

    def __init__(self, call, symbols):
        self.call, self.symbols, self.made, self.bounds = call, symbols, {}, iter(call.bounds)

    def found(self, key, most):
        """An extent that only the operator knows: the caller's bound, or the one that inference states."""
        if key not in self.made:
            bound = next(self.bounds, None)
            if bound is None:
                bound = most
            if bound is None:
                raise TypeError(f"{self.call.op}: the shape of its result depends on data: state a bound for it with size=")
            self.made[key] = bound
        return self.made[key]

    def of(self, tree):
        """Returns an extent, and whether only the operator knows it."""
        if isinstance(tree, int):
            return tree, False
        if tree[0] == "symbol":
            return self.symbols.extents[tree[1]], False
        operation, key = tree[:2]
        if operation == "unknown":
            return self.found(key, None), True
        if operation == "bound":
            most = self.of(tree[2])[0]
            return self.found(key, None if isinstance(most, int) and most < 0 else most), True
        (a, a_found), (b, b_found) = self.of(tree[2]), self.of(tree[3])
        if key not in self.made:
            self.made[key] = _OPERATIONS[operation](a, b)
        return self.made[key], a_found or b_found


def _argument(attribute):
    """An attribute as _core takes it."""
    if isinstance(attribute, Constant):
        return attribute.array()
    return list(attribute) if isinstance(attribute, tuple) else attribute


def _infer(call, avals):
    """Returns the symbols of a call and what inference says about its results."""
    op, symbols, known = call.operator, _Symbols(), dict(call.known)
    metas = [symbols.meta(call.op, aval, known.get(i)) for i, aval in enumerate(call.group(avals))]
    attributes = {name: _argument(value) for name, value in call.attributes}
    specs, facts = op._infer(metas, attributes, len(symbols.extents), call.wanted)
    return symbols, specs, facts


def results(call, avals):
    """Infers a call from its operands' shapes.

    Returns a list with an entry for each result that has a buffer of its own: (dtype, shape, the axes that only the operator knows), or a list
    of such entries; and the facts that hold must have been checked.
    """
    symbols, specs, facts = _infer(call, avals)
    extents = _Extents(call, symbols)
    for k, tree in facts:
        _equal(symbols.extents[k], extents.of(tree)[0])

    def entry(spec):
        if isinstance(spec, list):
            return [entry(item) for item in spec]
        dtype, trees = spec
        if trees is None:
            raise _core.UnimplementedError(f"{call.op}: the rank of its result is known only when it runs, which JAX does not support")
        if dtype not in DTYPES:
            raise _core.UnimplementedError(f"{call.op}: its result has dtype {dtype}, which JAX does not have")
        made = [extents.of(tree) for tree in trees]
        return DTYPES[dtype], tuple(extent for extent, _ in made), [d for d, (_, is_found) in enumerate(made) if is_found]
    return [entry(specs[o]) for o, _ in own_results(call)]


def buffers(call, avals):
    """Returns the shape and dtype of each result buffer of the custom call, in the order of bridges/jax/run.c."""
    groups = call.group(avals[:call.operand_count])
    if call.forward:
        plain = call._replace(given=0, requested=0, forward=0)
        entries = [entry for (o, _), entry in zip(own_results(plain), results(plain, avals[:call.operand_count])) if call.given >> o & 1]
        return [(shape, dtype) for entry in entries for dtype, shape, _ in (entry if isinstance(entry, list) else [entry])]
    if call.given:
        wanted = [g for i, g in enumerate(groups) if call.requested >> i & 1 and g is not None]
        return [(a.shape, a.dtype) for g in wanted for a in (g if isinstance(g, list) else [g])]
    made = [(a.shape, a.dtype) for p, g in zip(inputs_of(call.op), groups) if p["written"] and g is not None for a in (g if isinstance(g, list) else [g])]
    for (o, _), entry in zip(own_results(call), results(call, avals[:call.operand_count])):
        for dtype, shape, _ in entry if isinstance(entry, list) else [entry]:
            made.append((shape, dtype))
            if call.padded >> o & 1:
                made.append(((len(shape),), jnp.dtype("int32")))
    return made
