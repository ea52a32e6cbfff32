"""Models that Tenon runs, as one PyTorch operator: tenon::run(Tensor[] inputs, *, str model, str device) -> Tensor[].

libtenon_torch.so has the kernels of the operator and of its gradient, so that programs saved by PyTorch run without Python.  This
module adds the fake kernels and autograd.
"""
import ctypes
import functools
import os

import torch

from .. import _core, graph
from . import gradients
from .dtypes import DTYPES

_home = []


@functools.lru_cache(maxsize=None)
def _ports(model):
    return graph.load(model)


def _fake(inputs, *, model, device="cpu"):
    ports, symbols = _ports(model), {}
    for (name, _, extents), tensor in zip(ports.inputs, inputs):
        for stated, found in zip(extents or (), tensor.shape):
            if isinstance(stated, str):
                symbols.setdefault(stated, found)
    made = []
    for name, dtype, extents in ports.outputs:
        if dtype is None or extents is None:
            raise _core.UnimplementedError(f"{model} cannot be traced: the file does not state the dtype and rank of its output {name}")
        shape = [symbols[e] if isinstance(e, str) and e in symbols else e if isinstance(e, int) else torch.library.get_ctx().new_dynamic_size() for e in extents]
        made.append(torch.empty(shape, dtype=DTYPES[dtype], device=next((t.device for t in inputs if t.device.type != "cpu"), "cpu")))
    return made


def _fake_gradient(inputs, grads, given, wanted, *, model, device="cpu"):
    return [torch.empty(inputs[i].shape, dtype=inputs[i].dtype, device=inputs[i].device) for i in wanted]


# Autograd uses functions of single tensors, since PyTorch's transforms accept no lists.

def _forward(*inputs, **named):
    return tuple(torch.ops.tenon.run(list(inputs), **named))


def _setup(ctx, inputs, output, named):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs)
    ctx.named = named


def _backward(ctx, *grads):
    inputs = ctx.saved_tensors
    wanted, given = [i for i in range(len(inputs)) if ctx.needs_input_grad[i]], [i for i, g in enumerate(grads) if g is not None]
    if not wanted or not given:
        return tuple(None for _ in inputs)
    made = dict(zip(wanted, torch.ops.tenon._run_vjp(list(inputs), [grads[i].contiguous() for i in given], given, wanted, **ctx.named)))
    return tuple(made.get(i) for i in range(len(inputs)))


def _gradient(*tensors, count, given, wanted, **named):
    return tuple(torch.ops.tenon._run_vjp(list(tensors[:count]), list(tensors[count:]), given, wanted, **named))


def _second(ctx, *grads):
    raise _core.UnimplementedError("tenon::run: the gradient of a model that Tenon runs cannot be differentiated again")


def _vmap(info, in_dims, inputs, *, model, device="cpu"):
    made = [torch.ops.tenon.run([t if d is None else t.select(d, i) for t, d in zip(inputs, in_dims[0])], model=model, device=device) for i in range(info.batch_size)]
    return [torch.stack(parts) for parts in zip(*made)], [0 for _ in made[0]]


def register(bridge):
    """Registers tenon::run and its gradient with PyTorch; later calls do nothing."""
    if _home:
        return
    error = ctypes.c_char_p()
    if bridge.tenon_torch_register(b"tenon", 0, None, ctypes.byref(error)):
        raise _core.Error(f"tenon::run could not be registered with PyTorch: {error.value.decode()}")
    home = torch.library.Library("tenon", "FRAGMENT")
    torch.library.register_fake("tenon::run", _fake, lib=home)
    torch.library.register_fake("tenon::_run_vjp", _fake_gradient, lib=home)
    torch.library.register_vmap("tenon::run", _vmap, lib=home)
    run = gradients.kernel("tenon::run", lambda: _forward, _setup, _backward)
    vjp = gradients.kernel("tenon::_run_vjp", lambda: _gradient, lambda ctx, inputs, output, named: None, _second)
    home.impl("run", lambda inputs, **named: list(run(*inputs, **named)), "Autograd")
    home.impl("_run_vjp", lambda inputs, grads, given, wanted, **named: list(vjp(*inputs, *grads, count=len(inputs), given=given, wanted=wanted, **named)), "Autograd")
    _home.append(home)


class Model:
    """A model that Tenon runs.  Call it with PyTorch tensors, in the order of the inputs or by name.

    A call returns one tensor, or a tuple if the model has several outputs.
    inputs, outputs: (name, dtype, extents) of each.
    """

    def __init__(self, path, device, bridge):
        self._path, self._device = os.path.abspath(path), device
        ports, error = _ports(self._path), ctypes.c_char_p()
        if bridge.tenon_torch_model(self._path.encode(), device.encode(), ctypes.byref(error)):
            ports.compile(device=device)  # raises the same error with its own class
            raise _core.Error(f"{self._path}: {error.value.decode()}")
        self.inputs, self.outputs = ports.inputs, ports.outputs
        self._names = [name for name, _, _ in ports.inputs]

    def __call__(self, *inputs, **named):
        names = self._names[len(inputs):]
        if len(inputs) > len(self._names) or sorted(named) != sorted(names):
            raise TypeError(f"{self._path}: expected the inputs {', '.join(self._names)}; found {len(inputs)} by position and {', '.join(named) or 'none'} by name")
        made = torch.ops.tenon.run([*inputs, *(named[name] for name in names)], model=self._path, device=self._device)
        return made[0] if len(made) == 1 else tuple(made)

    def __repr__(self):
        return f"<tenon model {self._path} with {len(self.inputs)} inputs and {len(self.outputs)} outputs, on {self._device}>"
