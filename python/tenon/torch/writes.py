"""What PyTorch's autograd needs of operators that write to arguments: versions that rise, and its errors.

An equal torch.library.custom_op behaves alike, with one exception: writing to a leaf that requires a gradient, or to a view of one, is refused as
by PyTorch's own operators.
"""
import warnings

import torch
from torch._library import autograd

from .arguments import bound


class _NoGradient:
    """An operator that writes has no gradient in PyTorch: backward through its results raises."""
    _backward_fn = None
    _setup_context_fn = None


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _check(tensor):
    """Refuses to write to a leaf that requires a gradient, with the words of PyTorch."""
    if not tensor.requires_grad:
        return
    if tensor.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._is_view() and tensor._base.requires_grad and tensor._base.is_leaf:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _resolved(value, copies):
    """Replaces tensors that are stored negated or conjugated by copies; PyTorch's own fallback expects that an operator returns what it writes."""
    if isinstance(value, (list, tuple)):
        return [_resolved(item, copies) for item in value]
    if not isinstance(value, torch.Tensor) or not (value.is_neg() or value.is_conj()):
        return value
    copy = value.resolve_conj().resolve_neg()
    copies.append((value, copy))
    return copy


def register(op, name, own_overload, home):
    """Registers the kernels of the keys ADInplaceOrView and Autograd for an operator that writes to arguments."""
    written = [p["name"] for p in op.parameters if p["tensor"] and p["written"]]
    found = []  # the kernel for autograd, made by the first call

    def changed(args, named):
        values = bound(op, args, named)
        return [t for name in written for t in _tensors(values[name])]

    def count(keyset, *args, **named):
        tensors, copies = changed(args, named), []
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
        if any(tensor.is_neg() or tensor.is_conj() for tensor in tensors):
            args, named = [_resolved(a, copies) for a in args], {key: _resolved(a, copies) for key, a in named.items()}
        result = own_overload().redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args, **named)
        for tensor, copy in copies:
            if any(tensor is t for t in tensors):
                tensor.copy_(copy)
        return result

    def check(keyset, *args, **named):
        if not found:
            found.append(autograd.make_autograd_impl(own_overload(), _NoGradient))
        if torch.is_grad_enabled():
            for tensor in changed(args, named):
                _check(tensor)
        return found[0](keyset, *args, **named)

    own = name.split("::")[1]
    home.impl(own, check, "Autograd", with_keyset=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning only once for all operators", category=UserWarning)
        home.impl(own, count, "ADInplaceOrView", with_keyset=True)
