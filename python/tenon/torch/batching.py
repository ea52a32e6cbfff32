"""torch.vmap for operators: by their declared batching, by broadcasting if they are pointwise, otherwise by one call per item."""
import torch
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

from .._declarations import batching_of
from .arguments import bound


def rule(op, overload):
    """Returns the function for torch.library.register_vmap."""
    names = [p["name"] for p in op.parameters]
    tensors = {p["name"] for p in op.parameters if p["kind"] in ("Tensor", "Tensor[]")}
    batched_inputs, batched_results, shifted = batching_of(op)
    writes = any(p["written"] for p in op.parameters)

    def call(values):
        positional = [values[p["name"]] for p in op.parameters if not p["keyword"]]
        named = {p["name"]: values[p["name"]] for p in op.parameters if p["keyword"] and values[p["name"]] is not None}
        return overload()(*positional, **named)

    def vmap(info, in_dims, *args, **named):
        values, dims = bound(op, args, named), dict(zip(names, in_dims))
        batched = {name for name, dim in dims.items() if any(d is not None for d in (dim if isinstance(dim, (list, tuple)) else [dim]))}
        if "random" in op.traits and info.randomness == "error":
            raise RuntimeError(f"{op.name} draws random numbers: choose how with vmap(..., randomness='different')")
        alone = not any(isinstance(values[name], (list, tuple)) for name in batched) and not writes and "random" not in op.traits
        if alone and "pointwise" in op.traits:
            rank = max(values[n].dim() - (n in batched) for n in tensors if values[n] is not None)
            for name in batched:
                t = values[name].movedim(dims[name], 0)
                values[name] = t.reshape(t.shape[0], *[1] * (rank - t.dim() + 1), *t.shape[1:])
            return call(values), 0 if len(op.results) == 1 else (0,) * len(op.results)
        if alone and batched and batched <= batched_inputs:
            for name in batched:
                values[name] = values[name].movedim(dims[name], 0)
            for name in batched_inputs - batched:  # declared batching needs the axis on all of them
                if values[name] is not None:
                    values[name] = values[name].expand(info.batch_size, *values[name].shape)
            for name in shifted:
                values[name] = [v + 1 if v >= 0 else v for v in values[name]] if isinstance(values[name], (list, tuple)) else values[name] + (values[name] >= 0)
            out = call(values)
            return out, tuple(0 if r["name"] in batched_results else None for r in op.results) if len(op.results) > 1 else 0
        if writes and batched and not all(p["name"] in batched for p in op.parameters if p["written"]):
            raise RuntimeError(f"{op.name}: vmap: the tensors that it writes to must have the mapped axis, since other arguments have it")
        return _repeat(info.batch_size, values, dims, batched, call)
    return vmap


def kernel_of_gradient(overload):
    """Returns the vmap kernel of an operator's overload `vjp`: one call per item.

    register_vmap rejects this overload because `grads` is a keyword argument that is a list.
    """
    def call(args, grads, **named):
        return overload()(*args, grads=grads, **named)

    def vmap(info, in_dims, args, grads, **named):
        made = [call(_pick(args, in_dims[0], i), [g.contiguous() for g in _pick(grads, in_dims[1], i)], **named) for i in range(info.batch_size)]
        return [torch.stack(parts) for parts in zip(*made)], [0] * len(made[0])

    def kernel(keyset, *args, grads, **named):
        return custom_function_call_vmap_helper(retrieve_current_functorch_interpreter(), vmap, call, args, grads, **named)
    return kernel


def _pick(value, dim, i):
    if isinstance(value, (list, tuple)):
        return [_pick(v, d, i) for v, d in zip(value, dim if isinstance(dim, (list, tuple)) else [None] * len(value))]
    return value if dim is None else value.select(dim, i)


def _repeat(size, values, dims, batched, call):
    made = [call({name: _pick(value, dims[name], i) if name in batched else value for name, value in values.items()}) for i in range(size)]
    if not made or made[0] is None:
        return None, None

    def join(parts):
        if isinstance(parts[0], (list, tuple)):
            return [join(list(p)) for p in zip(*parts)]
        return torch.stack(parts)
    if isinstance(made[0], tuple):
        return tuple(join(list(p)) for p in zip(*made)), tuple([0] * len(p) if isinstance(p, list) else 0 for p in made[0])
    return join(made), [0] * len(made[0]) if isinstance(made[0], list) else 0
