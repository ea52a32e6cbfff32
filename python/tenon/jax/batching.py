"""jax.vmap for operators: by their declared batching, by broadcasting if they are pointwise, otherwise one call after the other."""

import jax
import jax.numpy as jnp

from .. import _core
from .._declarations import batching_of
from .._calls import own_results, shifted_attributes, traits_of, written_inputs


def batched(bind, call, args, dims):
    """Evaluates a call on operands of which some have one more axis, at dims[i].  Returns the result buffers and their axes."""
    size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
    is_single = all(count < 1 or p["kind"] == "Tensor" for p, count in call.inputs)
    plain = is_single and not call.given and not call.padded and not call.known and not written_inputs(call.op) and "random" not in traits_of(call.op)
    present = [p["name"] for p, count in call.inputs if count > 0]
    if plain and "pointwise" in traits_of(call.op):
        rank = max(len(a.shape) - (d is not None) for a, d in zip(args, dims))

        def aligned(a, d):
            if d is None:
                return a
            a = jnp.moveaxis(a, d, 0)
            return a.reshape(a.shape[0], *[1] * (rank - len(a.shape) + 1), *a.shape[1:])
        made = bind(call, [aligned(a, d) for a, d in zip(args, dims)])
        return made, [0] * len(made)
    inputs, results, shift = batching_of(_core.find(call.op))
    if plain and {n for n, d in zip(present, dims) if d is not None} <= inputs:
        def moved(name, a, d):
            if d is not None:
                return jnp.moveaxis(a, d, 0)
            return jnp.broadcast_to(a, (size, *a.shape)) if name in inputs else a
        made = bind(call._replace(attributes=shifted_attributes(call, shift)), [moved(n, a, d) for n, a, d in zip(present, args, dims)])
        names = [r["name"] for _, r in own_results(call)]
        return made, [0 if name in results else None for name in names]
    return _repeated(bind, call, args, dims)


def _repeated(bind, call, args, dims):
    moving = [jnp.moveaxis(a, d, 0) for a, d in zip(args, dims) if d is not None]

    def one(items):
        items = iter(items)
        return bind(call, [a if d is None else next(items) for a, d in zip(args, dims)])
    made = jax.lax.map(one, moving)
    return made, [0] * len(made)
