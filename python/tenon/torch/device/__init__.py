"""Makes a Tenon device a device of PyTorch.

    import tenon, tenon.torch.device as td
    tenon.load("./npu.so")                  # the plug-in, written against tenon/device.h; built-in ones need no load
    td.enable("npu")
    x = torch.randn(3, 4, device="npu")     # x.npu(), torch.npu.*, torch.accelerator.*, torch.autocast("npu"), ...

Operators of PyTorch run on the device where Tenon has them for it (docs/torch_operators.md) and on the CPU otherwise;
`fallbacks` lists those, and `strict` makes them an error.  A process has one device of this kind, because PyTorch has
one PrivateUse1.
"""
import atexit
import contextlib
import glob
import os
import re
import sys
import threading
import types

import torch

from ... import _core, fallback_report, tensor
from ... import torch as _tenon_torch
from . import build, module, operators

_lock = threading.Lock()
_enabled = None  # (backend, name)
_cleared = {}  # how many of each operator's fallbacks fallbacks(clear=True) has returned
_renamed = False  # whether this module has given PyTorch's PrivateUse1 its name


def enable(backend, name=None, operators=None):
    """Makes the devices of a Tenon backend the devices of PyTorch's type `name`.

    backend: the name of Tenon's backend: "sim", "opencl", "cuda", or that of a loaded plug-in.
    name: the name in PyTorch.  By default that of the backend, or "tenon_" and that if PyTorch has a device of its own
        of this name: "cuda" becomes torch.device("tenon_cuda"), and "opencl" becomes torch.device("tenon_opencl").
    operators: further operators of PyTorch that operators of Tenon compute, as in docs/torch_operators.md:
        {"aten::gelu.out": "mylib::gelu(self, approximate=approximate)"}.

    The C++ part comes from the package libtenon-torch (pip install 'libtenon[torch]').  Without it, or for another release
    of PyTorch, the first call compiles it, which takes a minute and needs a C++ compiler, and keeps it in Tenon's cache.
    A second call for the same backend and name does nothing.
    Returns the module torch.NAME.
    Raises RuntimeError if the process has another such device, if the backend has no device, if PyTorch is too old, or
    without a compiler; tenon.DeniedError if the rules for loading (tenon.policy) refuse the C++ part.
    """
    global _enabled, _renamed
    name = name or (f"tenon_{backend}" if _is_taken(backend) else backend)
    with _lock:
        if _enabled == (backend, name):
            _add_operators(torch.ops.tenon_device, operators)
            return getattr(torch, name)
        if _enabled:
            raise RuntimeError(f"PyTorch has one PrivateUse1 device in a process: it is already Tenon's backend {_enabled[0]!r} as "
                               f"{_enabled[1]!r}, so {backend!r} as {name!r} needs a process of its own")
        build.check_release()
        _check_name(name)
        _open_backend(backend)  # reports an unknown backend before anything is compiled
        rows = _plans(operators)
        torch.ops.load_library(build.library())
        functions = torch.ops.tenon_device
        functions.open(backend)
        _tenon_torch._own_device(functions.bridge())
        torch.utils.rename_privateuse1_backend(name)
        _renamed = True
        made = module.make(name, functions)
        torch._register_device_module(name, made)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        for aten, plan in rows.items():
            functions.add_plans(aten, plan)
        atexit.register(_finish_gradients, os.getpid())
        _enabled = (backend, name)
        return made


def _open_backend(backend):
    try:
        tensor(0.0, "f32", device=f"{backend}:0")
    except _core.Error as error:
        raise RuntimeError(f"Tenon's backend {backend!r} cannot be a device of PyTorch: {error}") from None


def _check_name(name):
    current = torch._C._get_privateuse1_backend_name()
    if not _is_taken(name) and (not re.fullmatch("[A-Za-z_]+", name) or (hasattr(torch, name) and name != current)):
        raise ValueError(f"the name of a device of PyTorch consists of letters and '_', and torch has no attribute of this name; found {name!r}")
    if current != "privateuseone" and not (_renamed and current == name):
        raise RuntimeError(f"PyTorch's PrivateUse1 is already called {current!r} by another package, and cannot be {name!r}: a process has one such device")
    if _is_taken(name):
        raise ValueError(f"{name!r} is a device of PyTorch's own: choose another name, enable(BACKEND, name='my_{name}')")


def _is_taken(name):
    """Is this the name of a device of PyTorch's own?"""
    try:
        return torch.device(name).type == name and name != torch._C._get_privateuse1_backend_name()
    except RuntimeError:
        return False


def _finish_gradients(process):
    """At the end of the process: waits for PyTorch's threads for gradients, if there are any (bridges/torch_device/module.cc)."""
    if os.getpid() != process:
        return
    for path in glob.glob("/proc/self/task/*/comm"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            if file.read().startswith("pt_autograd"):
                torch.ops.tenon_device.finish_gradients()
                return


def _plans(more):
    return operators.plans(more)  # the module: enable has an argument of this name


def _add_operators(functions, more):
    plans = _plans(more)
    for aten in more or ():
        functions.add_plans(aten, plans[aten])


def _functions():
    if not _enabled:
        raise RuntimeError("no Tenon device is enabled: call tenon.torch.device.enable(BACKEND) first")
    return torch.ops.tenon_device


def fallbacks(clear=False):
    """Returns how often each operator ran on the CPU because the device has no kernel for it: {"aten::add.out": 3}.

    Operators of Tenon are listed, too, if their fallback was registered (tenon.fallback_to_cpu): {"demo::gelu": 1}.

    clear: starts to count anew.
    """
    with _lock:
        totals = _totals()
        counts = {name: count - _cleared.get(name, 0) for name, count in sorted(totals.items()) if count > _cleared.get(name, 0)}
        if clear:
            _cleared.update(totals)
    return counts


def _totals():
    """Returns how often each operator has run on the CPU since the process began."""
    totals = {name: int(count) for name, count, _ in _fallback_lines()}
    for line in fallback_report().splitlines():
        name, count, *_ = line.split()
        if "::" in name:
            totals[name] = int(count)
    return totals


def _fallback_lines():
    return [line.split(" ", 2) for line in _functions().fallback_counts()]


def fallback_reasons():
    """Returns why the device did not compute the operators that ran on the CPU: {"aten::gelu.out": "core::gelu has no kernel for f16 ..."}.

    The reason is that of the last call.  Operators for which there is no row (`table`) are left out.
    """
    return {name: reason for name, _, reason in _fallback_lines() if reason}


@contextlib.contextmanager
def strict(immediately=False):
    """Lets nothing run on the CPU unseen: a context that raises an error that lists all operators that did.

        with td.strict():
            step()          # runs to its end, so that the list is complete

    immediately: raises at the first such operator, before it runs.  This concerns operators of PyTorch.

    The operators of all threads count, because PyTorch computes gradients in threads of its own.
    """
    functions = _functions()
    if immediately:
        functions.set_strict(True)
        try:
            yield
        finally:
            functions.set_strict(False)
        return
    old = _totals()
    yield
    missing = {name: count - old.get(name, 0) for name, count in sorted(_totals().items()) if count > old.get(name, 0)}
    if missing:
        reasons = fallback_reasons()
        lines = "".join(f"\n  {name}  {count} time{'s' if count > 1 else ''}" + (f": {reasons[name]}" if name in reasons else "") for name, count in missing.items())
        what = "1 operator" if len(missing) == 1 else f"{len(missing)} operators"
        raise NotImplementedError(f"{what} ran on the CPU instead of {_enabled[1]}:{lines}\n"
                                  "Add kernels for the operators of Tenon that compute them: tenon.torch.device.table() lists these.")


def deny_fallback(*names, deny=True):
    """Forbids operators of PyTorch ("aten::abs", or one overload: "aten::abs.out") to run on the CPU in place of the device.

    Raises ValueError for a name that no operator of PyTorch has.  An operator of a Tenon library runs on the CPU only if the
    program has registered that (tenon.fallback_to_cpu).
    """
    names = [name if "::" in name else f"aten::{name}" for name in names]
    for name in names:
        base, _, overload = name.partition(".")
        if not any(not overload or schema.overload_name == overload for schema in torch._C._jit_get_schemas_for_operator(base)):
            raise ValueError(f"PyTorch has no operator {name}")
    for name in names:
        _functions().deny_fallback(name, deny)


def table():
    """Returns the operators of PyTorch that operators of Tenon compute: {"aten::relu": ["core::relu(self)"]}."""
    return operators.table()


class _Callable(types.ModuleType):
    """tenon.torch.device(TYPE, BACKEND) declares that a device of PyTorch, made by another package, is a Tenon device."""

    def __call__(self, type, backend):
        return _tenon_torch._declare_device(type, backend)


sys.modules[__name__].__class__ = _Callable
