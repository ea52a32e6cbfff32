"""Gradients of operators, as they state them (docs/contract.md), as functions for PyTorch's autograd."""
import ast
import re

import torch
from torch.autograd import forward_ad

from . import _core

_JOINT = "_COLONS_"


class _Call:
    def __init__(self, name, values, named):
        self.name, self.values, self.named = name, values, named


class _Name:
    def __init__(self, name):
        self.name = name


def _value(node):
    if isinstance(node, ast.Call):
        return _Call(node.func.id.replace(_JOINT, "::"), [_value(a) for a in node.args], {k.arg: _value(k.value) for k in node.keywords})
    if isinstance(node, ast.Attribute):
        return _Name(f"{node.value.id}.{node.attr}")
    if isinstance(node, ast.Name):
        return _Name(node.id)
    return ast.literal_eval(node)


def _split(text, separator):
    """At separators outside of brackets and strings."""
    parts, depth, quote, begin = [], 0, None, 0
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return parts + [text[begin:]]


def rules(op):
    """[(names of inputs, call or "none" or "error")]; None: it states none."""
    if not op.gradient:
        return None
    found = []
    for rule in _split(op.gradient, ";"):
        names, text = (part.strip() for part in re.split(r"(?<!:):(?!:)", rule, maxsplit=1))
        if text not in ("none", "error"):
            text = _value(ast.parse(re.sub(r"(\w+)::(\w+)", rf"\1{_JOINT}\2", text.replace("@state", "state_")), mode="eval").body)
        found.append(([name.strip() for name in names.split(",")], text))
    return found


def _read(value, names):
    """The names that an expression reads."""
    if isinstance(value, _Call):
        for v in [*value.values, *value.named.values()]:
            _read(v, names)
    elif isinstance(value, _Name):
        names.add(value.name)
    return names


def functions(op, rules, bound, overload):
    """setup_context and backward of torch.library.register_autograd."""
    inputs = [p["name"] for p in op.parameters if not p["keyword"]]
    tensors = {p["name"]: p for p in op.parameters if p["tensor"]}
    results = [r["name"] for r in op.results]
    lists = {p["name"] for p in [*op.parameters, *op.results] if p["kind"] == "Tensor[]"}
    first = results[0]
    called = next((rule[1].name for rule in rules if isinstance(rule[1], _Call)), None)
    read = set()
    for _, call in rules:
        _read(call, read)
    pointwise = "pointwise" in op.traits

    def setup(ctx, inputs, output, keyword_only_inputs=None):
        ctx.count = len(inputs)
        values = bound(inputs, keyword_only_inputs or {})
        made = dict(zip(results, output if isinstance(output, tuple) and len(results) > 1 else (output,)))
        ctx.values, ctx.places, saved = {}, {}, []
        for name, value in [*values.items(), *made.items()]:
            if name not in read and name not in tensors:
                continue
            if name in lists and value is not None:
                if name in read:
                    ctx.places[name] = (len(saved), len(value))
                    saved.extend(value)
                ctx.values[name + " count"] = len(value)
            elif isinstance(value, torch.Tensor):
                if name in read:
                    ctx.places[name] = (len(saved), None)
                    saved.append(value)
                ctx.values[name + " shape"] = value.shape
            else:
                ctx.values[name] = value
        ctx.save_for_backward(*saved)

    def argument(parameter, value, like):
        """A number that is given for a tensor is one."""
        if parameter is None or not parameter["tensor"] or value is None or isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return list(value)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (value if isinstance(value, (list, tuple)) else [value]))
        return torch.tensor(value, dtype=torch.int64 if whole else like.dtype)

    def evaluate(value, names, like, wanted=0):
        if isinstance(value, _Name):
            if value.name not in names:
                raise _core.UnimplementedError(f"{op.name}: its gradient reads {value.name}, which PyTorch does not keep")
            return names[value.name]
        if not isinstance(value, _Call):
            return value
        if value.name in _OWN:
            args = [evaluate(v, names, like) for v in value.values[:1]]
            shape = value.values[1] if len(value.values) > 1 else None
            if shape is None or (isinstance(shape, _Call) and shape.name == "core::shape" and isinstance(shape.values[0], _Name) and shape.values[0].name + " shape" in names):
                if isinstance(args[0], torch.Tensor) and not value.named:
                    return _OWN[value.name](args[0], *([names[shape.values[0].name + " shape"]] if shape else []))
        other = _core.find(value.name)
        by_name = {p["name"]: p for p in other.parameters}
        args = [argument(p, evaluate(v, names, like), like) for p, v in zip(other.parameters, value.values)]
        named = {k: argument(by_name.get(k), evaluate(v, names, like), like) for k, v in value.named.items()}
        keywords = {p["name"] for p in other.parameters if p["keyword"]}
        for p, v in zip(other.parameters, list(args)):
            if p["keyword"]:
                named[p["name"]] = v
        args = args[:sum(1 for p in other.parameters[:len(args)] if not p["keyword"])]
        named = {k: v for k, v in named.items() if v is not None or k not in keywords}
        if wanted and any(r["optional"] for r in other.results):
            named["wanted"] = wanted
        return overload(value.name)(*args, **named)

    def backward(ctx, *grads):
        count = ctx.count
        saved, names = ctx.saved_tensors, dict(ctx.values)
        for name, (at, count) in ctx.places.items():
            names[name] = saved[at] if count is None else list(saved[at:at + count])
        given = dict(zip(results, grads))
        like = next((g for g in _flat(grads) if g is not None), None)
        given = {name: [torch.zeros_like(like) if g is None else g for g in grad] if isinstance(grad, (list, tuple)) and like is not None else grad for name, grad in given.items()}
        for name, grad in given.items():
            names[f"grad.{name}"] = grad
        if "grad" not in tensors:
            names["grad"] = given[first]
        gradients = {}
        for wanted, call in rules:
            needed = [name for name in wanted if _wants(ctx, inputs.index(name))]
            if not needed or call == "none":
                continue
            if call == "error":
                raise _core.UnimplementedError(f"{op.name}: it has no gradient for {', '.join(needed)}")
            if like is None:
                continue
            made = evaluate(call, names, like, sum(1 << i for i, name in enumerate(wanted) if name in needed))
            made = made if isinstance(made, tuple) else (made,)
            for name, gradient in zip(wanted, made):
                shape = ctx.values.get(name + " shape")
                if pointwise and shape is not None and gradient is not None and gradient.shape != shape:
                    gradient = gradient.sum_to_size(shape)
                gradients[name] = gradient if shape is not None or name in lists else None
        return tuple(gradients.get(name) for name in inputs[:count])

    return setup, backward


def functions_by_parts(op, bound, gradient):
    """The same for an operator that states no rule: Tenon runs it again, recorded, and goes back through its parts."""
    inputs = [p for p in op.parameters if not p["keyword"]]

    def setup(ctx, inputs, output, keyword_only_inputs=None):
        ctx.count = len(inputs)
        values = bound(inputs, keyword_only_inputs or {})
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
            if p["tensor"] and p["name"] in ctx.tensors and _wants(ctx, i):
                wanted |= 1 << p["index"]
                order.append(p)
        given = sum(1 << i for i, g in enumerate(grads) if g is not None)
        if not wanted or not given:
            return tuple(None for _ in inputs[:ctx.count])
        named = {p["name"]: values[p["name"]] for p in op.parameters if p["keyword"] and values[p["name"]] is not None}
        made = iter(gradient()(*(values[p["name"]] for p in inputs), grads=[g.contiguous() for g in grads if g is not None], given=given, inputs=wanted, **named))
        found = {}
        for p in sorted(order, key=lambda p: p["index"]):
            value = values[p["name"]]
            found[p["name"]] = [next(made) for _ in value] if isinstance(value, list) else next(made)
        return tuple(found.get(p["name"]) for p in inputs[:ctx.count])

    return setup, backward


# Views, and what has a shape that is known: PyTorch's own, which share memory and trace.
_OWN = {"core::identity": lambda x: x, "core::expand": lambda x, shape: x.expand(shape), "core::reshape": lambda x, shape: x.reshape(shape),
        "core::sum_to": lambda x, shape: x.sum_to_size(shape)}


class _Named:
    """Keyword arguments on their way through Function.apply, which takes none."""

    def __init__(self, values):
        self.values = values


def kernel(name, overload, setup, backward):
    """The operator's kernel for PyTorch's autograd: a Function that functorch's transforms (grad, vmap, jacrev, ...) take, too."""
    below = torch._C._AutoDispatchBelowAutograd

    def forward(*args):
        with below():
            return overload()(*args[:-1], **args[-1].values)

    def setup_context(ctx, inputs, output):
        setup(ctx, inputs[:-1], output, inputs[-1].values)

    def back(ctx, *grads):
        return (*backward(ctx, *grads), None)
    def level_forward(*args):  # outside of this transform there may be others, whose gradients go on
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return forward(*args)
    members = {"setup_context": staticmethod(setup_context), "backward": staticmethod(back)}
    function = type("Backward of " + name, (torch.autograd.Function,), {**members, "forward": staticmethod(forward)})
    level = type("Backward of " + name, (torch.autograd.function._SingleLevelFunction,), {**members, "forward": staticmethod(level_forward)})

    def run(*args, **named):
        if forward_ad._current_level >= 0 and any(isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None for a in args):
            raise NotImplementedError(f"{name} has no gradient in forward mode (jvp): use the backward one (vjp, grad, jacrev)")
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


def _wants(ctx, index):
    needs = ctx.needs_input_grad
    return index < len(needs) and (any(needs[index]) if isinstance(needs[index], (list, tuple)) else bool(needs[index]))
