"""Partitions calls over devices by the operator's declared sharding, without gathering operands whose axes may be split."""
import inspect
import itertools

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from .._calls import own_results, written_inputs
from .._sharding import Factors, factors_of
from .internals import explicit_shardings, ffi

ffi_lowering = ffi.ffi_lowering


class _Factors(Factors):
    """The factors of a call, in the words of JAX."""

    @property
    def rows(self):
        return [*self.operands, *self.results]

    def rule(self):
        """Returns the rule in Shardy's notation, the factors that are summed, and those that must stay whole."""
        order = list(dict.fromkeys(itertools.chain(*self.rows)))
        spelled = {f: f"f{i}" for i, f in enumerate(order)}
        sides = [", ".join(" ".join(spelled[f] for f in row) for row in rows) for rows in (self.operands, self.results)]
        summed = tuple(spelled[f] for f in order if f in self.summed)
        return " -> ".join(sides), summed, tuple(spelled[f] for f in order if f not in self.split)

    def assign(self, shardings):
        """Returns the mesh axes of each factor; a factor that two tensors split differently follows the first one."""
        axes, used = {}, set()
        for row, sharding in zip(self.rows, shardings):
            spec = tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()
            for factor, entry in zip(row, spec):
                names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
                if names and factor in self.split and factor not in axes and not used & set(names):
                    axes[factor] = names
                    used |= set(names)
        return axes

    def shardings(self, mesh, axes):
        return [NamedSharding(mesh, PartitionSpec(*(axes.get(f) for f in row))) for row in self.rows]

    def summed_axes(self, axes):
        return tuple(itertools.chain(*(names for f, names in axes.items() if f in self.summed)))


def _factors_of(call, operand_shapes, result_shapes):
    """Returns the factors of a call, or None if it cannot be partitioned."""
    if call.local or call.given or call.padded or call.known or written_inputs(call.op):
        return None
    names = [p["name"] for p, count in call.inputs for _ in range(count)]
    results = [r["name"] for _, r in own_results(call)]
    return factors_of(call.op, {**dict(call.attributes), **dict.fromkeys(names, True)}, list(zip(names, operand_shapes)), list(zip(results, result_shapes)), kind=_Factors)


def result_specs(call, avals, shapes):
    """Returns how each result is split, where JAX's types state how the operands are; otherwise a list of None."""
    shardings = explicit_shardings(avals)
    factors = None if shardings is None else _factors_of(call, [tuple(a.shape) for a in avals], shapes)
    if factors is None:
        return [None] * len(shapes)
    axes = factors.assign(shardings)
    return [tuple(axes.get(f) for f in row) for row in factors.results]


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
    count = len(factors.operands)

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
