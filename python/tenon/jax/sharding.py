"""Partitions calls over devices by the operator's declared sharding, without gathering operands whose axes may be split."""
import functools
import inspect
import itertools
import re

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from .. import _core
from .._calls import inputs_of, own_results, results_of, traits_of, written_inputs
from .internals import explicit_shardings, ffi

ffi_lowering = ffi.ffi_lowering


@functools.lru_cache(maxsize=None)
def _declared(name):
    """Returns the declared extents of each argument, "..." first if it has leading ones, and the names that are summed; None without a declaration."""
    text = _core.find(name).sharding
    if "pointwise" in traits_of(name):
        return {a["name"]: ["..."] for a in [*inputs_of(name), *results_of(name)]}, frozenset()
    if not text:
        return None
    extents, summed = {}, frozenset()
    for part in text.split(";"):
        names, colon, pattern = part.partition(":")
        if not colon:  # sum k, n
            summed = frozenset(n.strip() for n in part.strip().removeprefix("sum").split(","))
            continue
        listed = [e.strip() for e in pattern.strip().strip("[]").split(",") if e.strip()]
        extents.update({n.strip(): listed for n in names.split(",")})
    return extents, summed


class _Factors:
    """Which extents of the operands and results of a call are split alike: factors[i] names those of tensor i, the operands first."""

    def __init__(self, call, shapes, summed, patterns):
        fresh = (f"whole{i}" for i in itertools.count())
        self.summed, self.whole, self.factors = summed, set(), []
        for pattern, shape in zip(patterns, shapes):
            named = [e for e in pattern or () if e != "..."]
            has_leading = bool(pattern) and pattern[0] == "..."
            leading = len(shape) - len(named)
            if pattern is None or leading < 0 or (leading and not has_leading):
                named, leading = ["_"] * len(shape), 0
            row = [f"lead{leading - i}" for i in range(leading)] + [e if re.fullmatch(r"[A-Za-z]\w*", e) else "_" for e in named]
            row = [next(fresh) if e == "_" or extent == 1 else f"x{e}" for e, extent in zip(row, shape)]
            self.factors.append(row)
        count = {}
        for factor in set(itertools.chain(*self.factors)):
            count[factor] = sum(factor in row for row in self.factors)
        self.whole = {f for f, n in count.items() if n == 1 and f.removeprefix("x") not in summed}
        self.operand_count = call.operand_count

    def can_split(self):
        return any(f not in self.whole for row in self.factors for f in row)

    def rule(self):
        """Returns the rule in Shardy's notation, the factors that are summed, and those that must stay whole."""
        order = list(dict.fromkeys(itertools.chain(*self.factors)))
        spelled = {f: f"f{i}" for i, f in enumerate(order)}
        sides = [", ".join(" ".join(spelled[f] for f in row) for row in rows) for rows in (self.factors[:self.operand_count], self.factors[self.operand_count:])]
        summed = tuple(spelled[f] for f in order if f.removeprefix("x") in self.summed)
        return " -> ".join(sides), summed, tuple(spelled[f] for f in order if f in self.whole)

    def assign(self, shardings):
        """Returns the mesh axes of each factor; a factor that two tensors split differently follows the first one."""
        axes, used = {}, set()
        for row, sharding in zip(self.factors, shardings):
            spec = tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()
            for factor, entry in zip(row, spec):
                names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
                if names and factor not in self.whole and factor not in axes and not used & set(names):
                    axes[factor] = names
                    used |= set(names)
        return axes

    def shardings(self, mesh, axes):
        return [NamedSharding(mesh, PartitionSpec(*(axes.get(f) for f in row))) for row in self.factors]

    def summed_axes(self, axes):
        return tuple(itertools.chain(*(names for f, names in axes.items() if f.removeprefix("x") in self.summed)))


def _factors_of(call, operand_shapes, result_shapes):
    """Returns the factors of a call, or None if it cannot be partitioned."""
    if call.local or call.given or call.padded or call.known or written_inputs(call.op) or "random" in traits_of(call.op) or "pure" not in traits_of(call.op):
        return None
    declared = _declared(call.op)
    if declared is None:
        return None
    extents, summed = declared
    own = [r for _, r in own_results(call)]
    if any(r["kind"] == "Tensor[]" for r in own):
        return None
    patterns = [extents.get(p["name"]) for p, count in call.inputs for _ in range(count)] + [extents.get(r["name"]) for r in own]
    factors = _Factors(call, [*operand_shapes, *result_shapes], summed, patterns)
    return factors if factors.can_split() else None


def result_specs(call, avals, shapes):
    """Returns how each result is split, where JAX's types state how the operands are; otherwise a list of None."""
    shardings = explicit_shardings(avals)
    factors = None if shardings is None else _factors_of(call, [tuple(a.shape) for a in avals], shapes)
    if factors is None:
        return [None] * len(shapes)
    axes = factors.assign(shardings)
    return [tuple(axes.get(f) for f in row) for row in factors.factors[factors.operand_count:]]


def function_of(call, ctx):
    """Returns the function that partitions a call, or None if it runs whole on every device that it is compiled for."""
    context = ctx.module_context.axis_context
    devices = getattr(context, "num_devices", None)
    if devices is None or devices == 1 or getattr(context, "manual_axes", None):
        return None
    shapes = [tuple(a.shape) for a in ctx.avals_in], [tuple(a.shape) for a in ctx.avals_out]
    if not all(isinstance(extent, int) for shape in itertools.chain(*shapes) for extent in shape):
        return None
    factors = _factors_of(call, *shapes)
    return None if factors is None else _partitioned(call, factors)


def _partitioned(call, factors):
    from .primitives import bind
    local = call._replace(local=True)
    count = factors.operand_count

    def whole(*operands):
        return bind(local, operands)

    def place(mesh, operands, results):
        leaves = jax.tree_util.tree_leaves(results)
        axes = factors.assign([x.sharding for x in [*operands, *leaves]])
        placed = factors.shardings(mesh, axes)
        return axes, placed[:count], jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(results), placed[count:])

    def infer(mesh, operands, results):
        return place(mesh, operands, results)[2]

    def partition(mesh, operands, results):
        axes, operand_shardings, result_shardings = place(mesh, operands, results)
        summed = factors.summed_axes(axes)

        def part(*operands):
            made = bind(local, operands)
            return [jax.lax.psum(r, summed) for r in made] if summed else made
        return mesh, part, result_shardings, tuple(operand_shardings)
    rule, summed, whole_factors = factors.rule()
    function = custom_partitioning(whole)
    options = {"sharding_rule": rule, "reduction_factors": summed, "need_replication_factors": whole_factors}
    known = inspect.signature(function.def_partition).parameters  # before JAX 0.5 there are no rules: the functions above are all that it asks
    function.def_partition(partition=partition, infer_sharding_from_operands=infer, **{k: v for k, v in options.items() if k in known})
    return function
