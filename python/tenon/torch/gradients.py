"""Turns the declared gradient formulas of operators (docs/contract.md) into functions for PyTorch's autograd."""
import torch
from torch.autograd import forward_ad

from .. import _core
from .._declarations import Call, Name, formulas, names_read
from .arguments import bound
from .fakes import guard_or_false



def functions(op, formulas, overload):
    """Returns setup_context and backward for torch.library.register_autograd."""
    names_of_inputs = [p["name"] for p in op.parameters if not p["keyword"]]
    tensors = {p["name"] for p in op.parameters if p["tensor"]}
    results = [r["name"] for r in op.results]
    lists = {p["name"] for p in [*op.parameters, *op.results] if p["kind"] == "Tensor[]"}
    defaults = bound(op, (), {})
    read = set()
    for _, call in formulas:
        names_read(call, read)
    pointwise = "pointwise" in op.traits
    wanted_names = {name for names, call in formulas for name in names}
    kept = [(i, p["name"], p["name"] in read, p["name"] in lists) for i, p in enumerate(op.parameters) if p["name"] in read or p["name"] in wanted_names]
    kept_results = [(o, name, name in lists) for o, name in enumerate(results) if name in read]
    several = len(results) > 1

    def setup(ctx, inputs, output, keyword_only_inputs=None):
        values, places, shapes, saved, count = {}, {}, {}, [], len(inputs)

        def keep(name, value, is_list):
            if is_list and value is not None:
                places[name] = (len(saved), len(value))
                saved.extend(value)
            elif isinstance(value, torch.Tensor):
                places[name] = (len(saved), None)
                saved.append(value)
            else:
                values[name] = value
        for i, name, is_read, is_list in kept:
            value = inputs[i] if i < count else (keyword_only_inputs or defaults).get(name, defaults[name])
            if isinstance(value, torch.Tensor):
                shapes[name] = value.shape
            if is_read:
                keep(name, value, is_list)
        for o, name, is_list in kept_results:
            keep(name, output[o] if several else output, is_list)
        lengths = {name: len(value) for name, value in zip(names_of_inputs, inputs) if name in lists and value is not None}
        ctx.tenon = values, places, shapes, lengths, count
        ctx.save_for_backward(*saved)

    steps = [(names, [names_of_inputs.index(name) for name in names], call if isinstance(call, str) else _compile(call, op, overload)) for names, call in formulas]

    def backward(ctx, *grads):
        values, places, shapes, lengths, count = ctx.tenon
        saved = ctx.saved_tensors if places else ()  # a formula that reads no tensor can be evaluated twice, as in PyTorch
        names = {**values, " shapes": shapes}
        for name, (at, items) in places.items():
            names[name] = saved[at] if items is None else list(saved[at:at + items])
        like = next((g for g in _flat(grads) if g is not None), None)
        for name, grad in zip(results, grads):
            if isinstance(grad, (list, tuple)) and like is not None:
                grad = [torch.zeros_like(like) if g is None else g for g in grad]
            if grad is None and pointwise and like is not None:  # the result was not requested
                grad = torch.zeros((), dtype=like.dtype, device=like.device)
            names[f"grad.{name}"] = grad
        if "grad" not in tensors:
            names["grad"] = names[f"grad.{results[0]}"]
        gradients, needs = {}, ctx.needs_input_grad
        for wanted, places_of, call in steps:
            bits = sum(1 << i for i, at in enumerate(places_of) if _wants(needs, at))
            if not bits or call == "none":
                continue
            if call == "error":
                raise _core.UnimplementedError(f"{op.name} declares that it has no gradient for {', '.join(wanted)}: detach this input")
            if like is None:
                continue
            made = call(names, like, bits)
            for i, gradient in enumerate(made if isinstance(made, tuple) else (made,)):
                if not bits >> i & 1:
                    continue
                name = wanted[i]
                if pointwise and gradient is not None and gradient.shape != shapes.get(name, gradient.shape):
                    gradient = gradient.sum_to_size(shapes[name])
                gradients[name] = gradient
        return tuple(gradients.get(name, [None] * lengths[name] if name in lengths else None) for name in names_of_inputs[:count])

    return setup, backward


def _tensor_of(value, like, is_host):
    """Converts a value of a formula to a tensor argument: numbers become tensors.

    A CPU tensor with axes is moved to the device of the gradient unless the operator reads it on the host: formulas that
    use only shapes produce CPU tensors.
    """
    if value is None:
        return value
    is_list = isinstance(value, (list, tuple))
    if isinstance(value, torch.Tensor):
        return value if like.is_cpu or is_host or not value.is_cpu or not value.dim() else value.to(like.device)
    if is_list and any(isinstance(v, torch.Tensor) for v in value):
        return [_tensor_of(v, like, is_host) for v in value]
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (value if is_list else [value]))
    return torch.tensor(value, dtype=torch.int64 if whole else like.dtype, device=like.device if is_list and not is_host else "cpu")


def _compile(value, op, overload):
    """Returns an expression as a function of the names that it reads, a gradient, and the requested results of a call (bits; 0: all)."""
    if isinstance(value, Name):
        name = value.name

        def look_up(names, like, wanted=0):
            if name not in names:
                raise _core.UnimplementedError(f"{op.name}: its gradient formula reads {name}, which PyTorch does not keep")
            return names[name]
        return look_up
    if not isinstance(value, Call):
        return lambda names, like, wanted=0: value
    if value.name in _OWN and not value.named:
        first, shape = value.values[0], value.values[1] if len(value.values) > 1 else None
        own, argument = _OWN[value.name], _compile(first, op, overload)
        if isinstance(first, (Name, Call)) and shape is None:
            return lambda names, like, wanted=0: own(argument(names, like))
        if isinstance(first, (Name, Call)) and isinstance(shape, Call) and shape.name == "core::shape" and isinstance(shape.values[0], Name):
            of, general = shape.values[0].name, _compile_call(value, op, overload)
            return lambda names, like, wanted=0: own(argument(names, like), names[" shapes"][of]) if of in names[" shapes"] else general(names, like, wanted)
    return _compile_call(value, op, overload)


def _compile_argument(value, op, overload):
    """Compiles an argument of a call; for a nested call with several results the function returns the first result."""
    compiled = _compile(value, op, overload)
    if isinstance(value, Call) and len(_core.find(value.name).results) > 1:
        return lambda names, like: compiled(names, like, 1)[0]
    return compiled


def _compile_call(value, op, overload):
    found = []  # the operator is looked up by the first call, since its library may be loaded later

    def prepare():
        other = _core.find(value.name)
        by_name = {p["name"]: p for p in other.parameters}
        given = [(p, _compile_argument(v, op, overload)) for p, v in zip(other.parameters, value.values)]
        given += [(by_name[k], _compile_argument(v, op, overload)) for k, v in value.named.items()]
        positional = [(v, p["tensor"], p["host"]) for p, v in given if not p["keyword"]]
        if any(p["name"] != q["name"] for (p, _), q in zip([g for g in given if not g[0]["keyword"]], other.parameters)):
            raise _core.InvalidError(f"{op.name}: its gradient formula omits positional arguments of {value.name}, which PyTorch does not allow")
        named = [(p["name"], v, p["tensor"], p["host"]) for p, v in given if p["keyword"]]
        found.append((overload(value.name), positional, named, any(r["optional"] for r in other.results)))

    def call(names, like, wanted=0):
        if not found:
            prepare()
        function, positional, named, has_wanted = found[0]
        args = [_tensor_of(v(names, like), like, is_host) if is_tensor else v(names, like) for v, is_tensor, is_host in positional]
        keywords = {}
        for name, v, is_tensor, is_host in named:
            made = v(names, like)
            if made is not None:
                keywords[name] = _tensor_of(made, like, is_host) if is_tensor else made
        if wanted and has_wanted:
            keywords["wanted"] = wanted
        return function(*args, **keywords)
    return call


class _Once(torch.autograd.Function):
    """Marks gradients that cannot be differentiated: a second backward pass through them raises instead of giving 0."""
    generate_vmap_rule = True

    @staticmethod
    def forward(name, count, *tensors):
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *grads):
        raise _core.UnimplementedError(f"{ctx.name}: its gradient cannot be differentiated again: it is a function, or is computed from the parts of the operator; "
                                       "declare a gradient formula (gradient= in Python, TENON_GRADIENT in C) to support second derivatives")


def functions_by_parts(op, gradient):
    """Returns the same for an operator without a gradient formula: Tenon runs the operator again with its tape on, and differentiates the
    operators that it calls."""
    inputs = [p for p in op.parameters if not p["keyword"]]

    def setup(ctx, inputs, output, keyword_only_inputs=None):
        ctx.count = len(inputs)
        ctx.set_materialize_grads(False)  # a result without a gradient may depend on no input that needs one
        values = bound(op, inputs, keyword_only_inputs or {})
        ctx.values, saved = {}, []
        for name, value in values.items():
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
                ctx.values[name] = (len(saved), len(value))
                saved.extend(value)
            elif isinstance(value, torch.Tensor):
                ctx.values[name] = (len(saved), None)
                saved.append(value)
            else:
                ctx.values[name] = value
        ctx.tensors = {name for name, value in values.items() if isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor))}
        results = output if isinstance(output, tuple) else (output,)
        ctx.lists = {i: [(t.shape, t.dtype, t.device) for t in r] for i, r in enumerate(results) if isinstance(r, list)}
        ctx.save_for_backward(*saved)

    def backward(ctx, *grads):
        saved, values = ctx.saved_tensors, {}
        for name, value in ctx.values.items():
            if name in ctx.tensors:
                at, count = value
                value = saved[at] if count is None else list(saved[at:at + count])
            values[name] = value
        wanted, order = 0, []
        for i, p in enumerate(inputs):
            if p["tensor"] and p["name"] in ctx.tensors and _wants(ctx.needs_input_grad, i):
                wanted |= 1 << p["index"]
                order.append(p)
        given, flat = 0, []
        for i, g in enumerate(grads):
            if i in ctx.lists and g is not None and any(item is not None for item in g):
                given |= 1 << i
                flat += [torch.zeros(shape, dtype=dtype, device=device) if item is None else item for item, (shape, dtype, device) in zip(g, ctx.lists[i])]
            elif i not in ctx.lists and g is not None:
                given |= 1 << i
                flat.append(g)
        if not wanted or not given:
            return tuple(None for _ in inputs[:ctx.count])
        named = {p["name"]: values[p["name"]] for p in op.parameters if p["keyword"] and values[p["name"]] is not None}
        made = gradient()(*(values[p["name"]] for p in inputs), grads=[g.contiguous() for g in flat], given=given, inputs=wanted, **named)
        sources = [t for t in _flat([*values.values(), *flat]) if isinstance(t, torch.Tensor) and t.requires_grad]
        made = iter(_Once.apply(op.name, len(made), *made, *sources) if sources and torch.is_grad_enabled() else made)
        found = {}
        for p in sorted(order, key=lambda p: p["index"]):
            value = values[p["name"]]
            found[p["name"]] = [next(made) for _ in value] if isinstance(value, list) else next(made)
        return tuple(found.get(p["name"]) for p in inputs[:ctx.count])

    return setup, backward


def _sum_to(x, shape):
    """Returns x.sum_to_size(shape).  PyTorch's own method asks every extent whether it is 1, which fails for extents that depend on data."""
    if not any(isinstance(extent, torch.SymInt) for extent in (*x.shape, *shape)):
        return x.sum_to_size(shape)
    leading = x.dim() - len(shape)
    ones = []
    for i, extent in enumerate(shape, leading):
        if guard_or_false(extent == 1):
            ones.append(i)
        else:
            torch._check(extent == x.shape[i])
    if ones:
        x = x.sum(ones, keepdim=True)
    return x.sum(list(range(leading))) if leading else x


# Operators that are replaced by PyTorch's own: views, which share memory and can be traced, and sum_to.
_OWN = {"core::identity": lambda x: x, "core::expand": lambda x, shape: x.expand(shape), "core::reshape": lambda x, shape: x.reshape(shape),
        "core::sum_to": _sum_to}


class _Named:
    """Carries keyword arguments through Function.apply, which does not accept any."""

    def __init__(self, values):
        self.values = values


def kernel(name, overload, setup, backward):
    """Returns the operator's kernel for PyTorch's autograd; it also works under functorch transforms (grad, vmap, jacrev, ...)."""
    below = torch._C._AutoDispatchBelowAutograd

    def forward(*args):
        with below():
            return overload()(*args[:-1], **args[-1].values)

    def setup_context(ctx, inputs, output):
        setup(ctx, inputs[:-1], output, inputs[-1].values)

    def back(ctx, *grads):
        return (*backward(ctx, *grads), None)
    def level_forward(*args):  # an enclosing transform may also need gradients
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return forward(*args)
    members = {"setup_context": staticmethod(setup_context), "backward": staticmethod(back)}

    def plain_forward(ctx, *args):  # takes the context, since otherwise PyTorch binds the arguments by signature, which is slow
        with below():
            output = overload()(*args[:-1], **args[-1].values)
        setup(ctx, args[:-1], output, args[-1].values)
        return output
    function = type("Backward of " + name, (torch.autograd.Function,), {"forward": staticmethod(plain_forward), "backward": staticmethod(back)})
    level = type("Backward of " + name, (torch.autograd.function._SingleLevelFunction,), {**members, "forward": staticmethod(level_forward)})

    def run(*args, **named):
        if forward_ad._current_level >= 0 and any(isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None for a in args):
            raise NotImplementedError(f"{name} has no forward-mode gradient (jvp): use reverse mode (vjp, grad, jacrev)")
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            if not torch._C._are_functorch_transforms_active():
                return function.apply(*args, _Named(named))
            from torch._functorch.utils import enable_single_level_autograd_function
            with enable_single_level_autograd_function():
                return level.apply(*args, _Named(named))
        with below():
            return overload()(*args, **named)
    return run


def _flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _wants(needs, index):
    return index < len(needs) and (any(needs[index]) if isinstance(needs[index], (list, tuple)) else bool(needs[index]))
