"""The primitives through which JAX sees operators: one for calls, and one for the tangents of calls.

A call becomes one custom call with the attribute `call`, which names the operator and its attributes.  Its target is "tenon_cpu", "tenon_cuda" or, if XLA
may capture the call in a CUDA graph, "tenon_cuda_graph".  The tangents of a call are linear in the tangents of its operands; transposing them evaluates the
operator's declared gradient.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from .. import _core
from .._calls import own_results, traits_of, written_inputs
from . import gradients, inference, sharding
from .batching import batched
from .dtypes import NAMES
from .handlers import GRAPH_TARGET, TARGETS, can_capture
from .internals import Primitive, effects_of, explicit_shardings, lowered_with_devices, result_aval, typed_like, unified

_AXES_MOST = 8  # of tensors that every kernel with the word `capturable` serves

call_p = Primitive("tenon_call")
call_p.multiple_results = True
tangent_p = Primitive("tenon_tangent")
tangent_p.multiple_results = True


def bind(call, operands):
    """Calls an operator with arrays or tracers; returns a list with the contents of each result buffer."""
    return call_p.bind(*unified(operands), call=call)


def _has_effects(call):
    return not call.given and "pure" not in traits_of(call.op)


def _infer(*avals, call):
    buffers = inference.buffers(call, avals)
    specs = sharding.result_specs(call, avals, [tuple(shape) for shape, _ in buffers])
    return [result_aval(shape, dtype, avals, spec) for (shape, dtype), spec in zip(buffers, specs)], effects_of(_has_effects(call))


def _aliases(call):
    """The operands that the operator writes to share their memory with the first results."""
    written = {p["index"] for p in written_inputs(call.op)} if not call.given else set()
    aliases, operand, result = {}, 0, 0
    for i, count in enumerate(call.counts):
        for _ in range(count):
            if i in written:
                aliases[operand] = result
                result += 1
            operand += 1
    return aliases


def _is_capturable(call, avals_in, avals_out):
    """Whether XLA may capture a call on CUDA: it only enqueues the same work each time, without the host, memory or a fallback; see bridges/jax/capture.c."""
    avals = [*avals_in, *avals_out]
    return (not call.given and not call.padded and not call.wanted and not written_inputs(call.op) and "pure" in traits_of(call.op)
            and all(p["kind"] == "Tensor" and not (p["host"] and count > 0) for p, count in call.inputs)
            and all(r["kind"] == "Tensor" and not r["mark"] for _, r in own_results(call))
            and all(isinstance(extent, int) and extent > 0 for a in avals for extent in a.shape) and all(len(a.shape) <= _AXES_MOST for a in avals)
            and can_capture(call.op, "cuda", [NAMES[jnp.dtype(a.dtype)] for a in avals_in]))


def _target(ctx, call, platform):
    is_captured = platform == "cuda" and _is_capturable(call, ctx.avals_in, ctx.avals_out)
    return GRAPH_TARGET if is_captured else TARGETS[platform]


def _lower(ctx, *operands, call, platform):
    partitioned = sharding.function_of(call, ctx)
    if partitioned is not None:
        return mlir.lower_fun(partitioned, multiple_results=True)(ctx, *operands)
    rule = sharding.ffi_lowering(_target(ctx, call, platform), operand_output_aliases=_aliases(call), has_side_effect=_has_effects(call))
    return rule(ctx, *operands, call=call.text())


def lower_on(platform):
    """Lets programs for a platform that reads StableHLO by Tenon contain calls of operators.  They name the target of the CPU, which Tenon's reader knows."""
    mlir.register_lowering(call_p, functools.partial(_lower, platform="cpu"), platform=platform)


def _lower_elsewhere(ctx, *_, call):
    raise _core.UnimplementedError(f"{call.op}: Tenon's operators run in JAX on the platforms {', '.join(TARGETS)}, and this program is compiled for {', '.join(ctx.module_context.platforms)}")


def _compiled(primitive):
    """Returns the implementation of a primitive outside of jit: it is compiled once for each call."""
    @functools.lru_cache(maxsize=4096)
    def compiled(items):
        params = dict(items)

        def call(*operands):
            return primitive.bind(*operands, **params)
        call.__name__ = call.__qualname__ = params["call"].op if "call" in params else primitive.name
        call._apply_primitive = True  # jax_debug_nans looks no further than here
        return jax.jit(call)

    def run(*operands, **params):
        if not jax.config.jax_disable_jit:
            return compiled(tuple(params.items()))(*operands)
        with jax.disable_jit(False):  # it concerns the program; a call is compiled all the same
            return compiled(tuple(params.items()))(*operands)
    return run


# ---- gradients ----

def _is_float(dtype):
    return jnp.issubdtype(dtype, jnp.inexact)


def _jvp(primals, tangents, call):
    if call.given:
        return _jvp_linear(primals, tangents, call)
    primals = [p if hasattr(p, "shape") else jnp.asarray(p) for p in primals]  # JAX passes numbers on as they are
    results = bind(call, primals)
    flows = tuple(i for i, t in enumerate(tangents) if type(t) is not ad.Zero)
    smooth = tuple(k for k, r in enumerate(results) if _is_float(r.dtype))
    made = [ad.Zero(_tangent_aval(r)) for r in results]
    plan = gradients.plan(call, flows, smooth) if smooth else None
    if plan is not None:
        kept = [primals[i] for i in plan.operands] + [results[k] for k in plan.results]
        shapes = tuple(_type_of(p) for p in primals)
        out = tuple(_type_of(results[k]) for k in smooth)
        moved = tangent_p.bind(*unified([*kept, *(tangents[i] for i in flows)]), plan=plan, shapes=shapes, out=out)
        for k, t in zip(smooth, moved):
            made[k] = t
    return results, made


def _jvp_linear(primals, tangents, call):
    """Calls for gradients and tangents are linear in the operands that follow those of the operator."""
    first, last = call.operand_count, len(primals) - ("random" in traits_of(call.op))
    if any(type(t) is not ad.Zero for t in tangents[:first]):
        raise _core.UnimplementedError(f"{call.op}: its gradient cannot be differentiated again: it is computed from the parts of the operator; declare a gradient formula "
                                       "(gradient= in Python, TENON_GRADIENT in C) to support second derivatives")
    moved = bind(call, [*primals[:first], *map(ad.instantiate_zeros, tangents[first:last]), *primals[last:]])
    return bind(call, primals), moved


def _transpose_linear(cotangents, *args, call):
    if not call.given:
        raise _core.UnimplementedError(f"{call.op}: JAX cannot transpose the call of an operator: use jax.vjp instead of jax.linear_transpose")
    first, last = call.operand_count, len(args) - ("random" in traits_of(call.op))
    moved = bind(call._replace(forward=1 - call.forward), [*args[:first], *map(ad.instantiate_zeros, cotangents), *args[last:]])
    grads = [g if ad.is_undefined_primal(x) else None for g, x in zip(moved, args[first:last])]
    return [None] * first + grads + [None] * (len(args) - last)


def _type_of(x):
    """Shape and dtype of an array, and how it is split where JAX's types state that."""
    shardings = explicit_shardings([jax.typeof(x)]) if hasattr(jax, "typeof") else None
    return np.shape(x), jnp.result_type(x), None if shardings is None else tuple(shardings[0].spec)


def _tangent_aval(x):
    aval = jax.core.get_aval(x) if hasattr(jax.core, "get_aval") else jax.typeof(x)
    return aval.to_tangent_aval() if hasattr(aval, "to_tangent_aval") else aval.at_least_vspace()


def _infer_tangent(*avals, plan, shapes, out):
    return [result_aval(shape, dtype, avals, spec) for shape, dtype, spec in out]


def _transpose_tangent(cotangents, *args, plan, shapes, out):
    count = len(args) - len(plan.flows)
    grads = plan.evaluate(args[:count], [None if type(c) is ad.Zero else c for c in cotangents], shapes, out)
    return [None] * count + [ad.Zero(x.aval) if g is None else typed_like(g, x.aval) for x, g in zip(args[count:], grads)]


def _push(plan, shapes, out):
    """Returns the tangents as a function of what was kept and of the operands' tangents.

    The gradient is linear in the cotangents; its transpose, the gradient of the gradient, maps tangents of operands to tangents of results.
    """
    def push(*args):
        count = len(args) - len(plan.flows)
        kept, tangents = args[:count], args[count:]
        if not gradients.has_formulas(plan.call):
            return plan.push_parts(kept, tangents)

        def pull(*cotangents):
            grads = plan.evaluate(kept, cotangents, shapes, out)
            return [jnp.zeros_like(t) if g is None else g for g, t in zip(grads, tangents)]
        zeros = [jnp.zeros(shape, dtype) for shape, dtype, _ in out]
        return list(jax.vjp(pull, *zeros)[1](list(tangents)))
    return push


def _batch_tangent(args, dims, **params):
    made = jax.vmap(_push(**params), in_axes=tuple(dims))(*args)
    return made, [0] * len(made)


def _jvp_tangent(primals, tangents, **params):
    moving = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]

    def push(*some):
        args = list(primals)
        for i, x in zip(moving, some):
            args[i] = x
        return _push(**params)(*args)
    return jax.jvp(push, tuple(primals[i] for i in moving), tuple(tangents[i] for i in moving))


def _batch(args, dims, call):
    return batched(bind, call, args, dims)


call_p.def_effectful_abstract_eval(_infer)
lowered_with_devices(call_p)
call_p.def_impl(_compiled(call_p))
mlir.register_lowering(call_p, _lower_elsewhere)
for _platform in TARGETS:
    mlir.register_lowering(call_p, functools.partial(_lower, platform=_platform), platform=_platform)
ad.primitive_jvps[call_p] = _jvp
ad.primitive_transposes[call_p] = _transpose_linear
batching.primitive_batchers[call_p] = _batch
tangent_p.def_abstract_eval(_infer_tangent)
tangent_p.def_impl(_compiled(tangent_p))
mlir.register_lowering(tangent_p, lambda ctx, *args, **params: mlir.lower_fun(_push(**params), multiple_results=True)(ctx, *args))
ad.primitive_jvps[tangent_p] = _jvp_tangent
ad.primitive_transposes[tangent_p] = _transpose_tangent
batching.primitive_batchers[tangent_p] = _batch_tangent
