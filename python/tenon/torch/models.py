"""Models that Tenon runs, as one operator of PyTorch's: tenon::run(Tensor[] inputs, *, str model, str device) -> Tensor[]."""
import os

import torch

from .. import _core, graph
from .dtypes import DTYPES

_models = {}  # (path, device): executable
_home = []


def executable_of(model, device):
    if (model, device) not in _models:
        _models[model, device] = graph.load(model).compile(device=device)
    return _models[model, device]


def _run(inputs, *, model, device="cpu"):  # PyTorch leaves out what is the default
    made = executable_of(model, device)(*(t.detach() for t in inputs))
    made = list(made) if isinstance(made, tuple) else [made]
    given = {t.untyped_storage().data_ptr() for t in inputs}
    return [t.clone() if t.untyped_storage().data_ptr() in given else t for t in made]  # a model may give an input back


def _fake(inputs, *, model, device="cpu"):
    ports, symbols = executable_of(model, device).graph, {}
    for (name, _, extents), tensor in zip(ports.inputs, inputs):
        for stated, found in zip(extents or (), tensor.shape):
            if isinstance(stated, str):
                symbols.setdefault(stated, found)
    made = []
    for name, dtype, extents in ports.outputs:
        if dtype is None or extents is None:
            raise _core.UnimplementedError(f"{model}: it does not state dtype and shape of {name}: it cannot be traced")
        shape = [symbols[e] if isinstance(e, str) and e in symbols else e if isinstance(e, int) else torch.library.get_ctx().new_dynamic_size() for e in extents]
        made.append(torch.empty(shape, dtype=DTYPES[dtype], device=inputs[0].device if inputs else "cpu"))
    return made


def register():
    """Once."""
    if not _home:
        home = torch.library.Library("tenon", "FRAGMENT")
        home.define("run(Tensor[] inputs, *, str model, str device='cpu') -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
        home.impl("run", _run, "CPU")
        torch.library.register_fake("tenon::run", _fake, lib=home)
        torch.library.register_autograd("tenon::run", _no_gradient, lib=home)
        _home.append(home)


def _no_gradient(ctx, *grads):
    raise _core.UnimplementedError("a model that Tenon runs has no gradient: give it inputs that want none (x.detach())")


class Model:
    """A model that Tenon runs, called with PyTorch's tensors, in the order of its inputs or by name.  It has no gradient."""

    def __init__(self, path, device):
        self._path, self._device = os.path.abspath(path), device
        ports = executable_of(self._path, device).graph
        self.inputs, self.outputs = ports.inputs, ports.outputs
        self._names = [name for name, _, _ in ports.inputs]

    def __call__(self, *inputs, **named):
        names = self._names[len(inputs):]
        if len(inputs) > len(self._names) or sorted(named) != sorted(names):
            raise TypeError(f"{self._path}: expected the inputs {', '.join(self._names)}; found {len(inputs)} by place and {', '.join(named) or 'none'} by name")
        made = torch.ops.tenon.run([*inputs, *(named[name] for name in names)], model=self._path, device=self._device)
        return made[0] if len(made) == 1 else tuple(made)

    def __repr__(self):
        return f"<model {self._path} of {len(self.inputs)} inputs and {len(self.outputs)} outputs, on {self._device}>"
