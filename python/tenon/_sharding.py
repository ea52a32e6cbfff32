"""Reads the declared sharding of operators (docs/contract.md), for the adapters that split calls over devices."""
import ast
import functools
import itertools
from typing import NamedTuple

from . import _core
from ._calls import inputs_of, parameters_of, results_of, traits_of, written_inputs
from ._declarations import split


class Declaration(NamedTuple):
    """One declaration of an operator.

    extents: those of each declared argument, "..." first if it has leading ones.
    summed: the names of the extents after "sum".
    conditions: pairs of an attribute and its value, or of an optional input and None.
    """
    extents: dict
    summed: frozenset = frozenset()
    conditions: tuple = ()


@functools.lru_cache(maxsize=None)
def declared(name):
    """Returns the declarations of an operator; the first that is for a call and has its ranks applies to it.

    None of an operator that draws random numbers, is not pure, or has a list as a result: its calls run whole.
    """
    traits = traits_of(name)
    is_pure = "pure" in traits or written_inputs(name)
    if "random" in traits or not is_pure or any(r["kind"] == "Tensor[]" for r in results_of(name)):
        return ()
    if "pointwise" in traits:
        return (Declaration({a["name"]: ["..."] for a in [*inputs_of(name), *results_of(name)]}),)
    return tuple(_parsed(text) for text in split(_core.find(name).sharding or "", "|") if text.strip())


def _parsed(text):
    extents, summed, conditions = {}, (), ()
    for part in split(text, ";"):
        names, colon, pattern = part.partition(":")
        word, _, rest = part.strip().partition(" ")
        if not colon and word == "sum":  # sum k, n
            summed = [n.strip() for n in rest.split(",")]
        elif not colon:  # if axis = -1, bias = None
            pairs = (condition.split("=", 1) for condition in split(rest, ","))
            conditions = [(n.strip(), ast.literal_eval(v.strip())) for n, v in pairs]
        else:
            listed = [e.strip() for e in pattern.strip().strip("[]").split(",") if e.strip()]
            extents.update({n.strip(): listed for n in names.split(",")})
    return Declaration(extents, frozenset(summed), tuple(conditions))


@functools.lru_cache(maxsize=None)
def conditions_of(name):
    """Returns the names of the attributes and inputs on which the sharding of an operator depends."""
    return tuple(dict.fromkeys(n for declaration in declared(name) for n, _ in declaration.conditions))


def _is_for(declaration, name, values):
    defaults = {p["name"]: p["default"] for p in parameters_of(name)}
    return all(values.get(n, defaults[n]) == v for n, v in declaration.conditions)


class Factors:
    """Which extents of a call are split alike: a factor stands for extents of one name.

    operands, results: pairs of a name of the declaration and a shape; the shape of a result may be None.
    written: the names of operands that the call writes to.
    grads: the positions of operands that are gradients of results; the results are then gradients of inputs.

    operands, results: for each tensor the factors of its axes.
    extents: the extents of the factors of operands; split: those factors that may be split.
    """

    def __init__(self, declaration, operands, results, written=(), grads=()):
        self.summed, self.is_gradient = declaration.summed, bool(grads)
        self._patterns, self._fresh, self.fits = declaration.extents, (f"?{i}" for i in itertools.count()), True
        leading = max((len(s) - len(self._named(n)) for n, s in operands if self._has_leading(n)), default=0)
        self.operands = [self._row(n, s) for n, s in operands]
        ranks = [len(self._named(n)) + leading * self._has_leading(n) for n, _ in results]
        self.results = [self._row(n, [0] * rank if s is None else s) for (n, s), rank in zip(results, ranks)]
        if grads:  # a gradient has the shape of its input, if that is an operand
            inputs = [(n, row) for i, ((n, _), row) in enumerate(zip(operands, self.operands)) if i not in grads]
            for o, (name, _) in enumerate(results):
                found = next((i for i, (n, _) in enumerate(inputs) if n == name), None)
                self.results[o] = self.results[o] if found is None else inputs.pop(found)[1]
        found, twice = {}, set()
        for row, (_, shape) in zip(self.operands, operands):
            for factor, extent in zip(row, shape):
                if found.setdefault(factor, extent) != extent or row.count(factor) > 1:
                    twice.add(factor)
        made = [*self.results, *(row for (name, _), row in zip(operands, self.operands) if name in written)]
        self.extents = {f: extent for f, extent in found.items() if f not in twice}
        self.split = {f for f in self.extents if self._may_split(f, made, grads)}

    def _named(self, name):
        return [e for e in self._patterns.get(name, ()) if e != "..."]

    def _has_leading(self, name):
        return self._patterns.get(name, ())[:1] == ["..."]

    def _row(self, name, shape):
        named, row = self._named(name), []
        if name in self._patterns:
            leading = len(shape) - len(named)
            self.fits &= leading >= 0 if self._has_leading(name) else leading == 0
            row = [f"...{leading - i}" for i in range(leading)] + named
        else:
            row = ["_"] * len(shape)
        return [next(self._fresh) if f == "_" or f.isdigit() or extent == 1 else f for f, extent in zip(row, shape)]

    def _may_split(self, factor, made, grads):
        if factor in self.summed:
            return True
        if grads:  # otherwise several devices would have the same gradient, which would count several times in a sum
            return all(factor in self.operands[g] for g in grads)
        return any(factor in row for row in made)

    def is_summed(self, factor, row):
        """Returns whether a result with these factors is the sum of what the parts compute if `factor` is split."""
        return factor not in row and (self.is_gradient or factor in self.summed)


def factors_of(name, values, operands, results, grads=(), kind=Factors):
    """Returns the factors of a call, or None if nothing of it can be split.

    values: what is known of the attributes and optional inputs in `conditions_of`; a missing one has its default.
    """
    for declaration in declared(name):
        if _is_for(declaration, name, values):
            factors = kind(declaration, operands, results, [p["name"] for p in written_inputs(name)], grads)
            if factors.fits:
                return factors if factors.split else None
    return None
