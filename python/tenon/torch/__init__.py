"""Operators of Tenon's libraries as operators of PyTorch's.

    import tenon, tenon.torch
    tenon.load("./gelu.so")
    tenon.torch.register("demo")            # its namespace, or what tenon.load gave
    y = torch.ops.demo.gelu(x, approximate="tanh")

Kernels run by PyTorch's C interface, without Python; fakes (for torch.compile, torch.export) are made of the shapes that operators state, and
gradients of the rules that they state.  Nothing is compiled, and one libtenon_torch.so serves every PyTorch from 2.11 on.
"""
import ctypes
import os

import torch

from .. import _core
from .._library import Library
from . import batching, fakes, gradients, models, onnx, precision

_names = {}  # namespace: {name: (PyTorch's name for it, why it was left out or "")}
_libraries = []  # they end what they registered when they go


def _bridge():
    if not hasattr(_bridge, "library"):
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        places = [os.path.join(package, "lib", "libtenon_torch.so"),  # a wheel
                  os.path.join(os.path.dirname(os.path.dirname(package)), "libtenon_torch.so")]  # a build folder
        path = next((p for p in places if os.path.exists(p)), None)
        if path is None:
            raise _core.NotFoundError(f"libtenon_torch.so is in none of {', '.join(os.path.dirname(p) for p in places)}: reinstall Tenon")
        library = ctypes.CDLL(path)
        library.tenon_torch_register.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_release.argtypes = [ctypes.c_void_p]
        library.tenon_torch_device.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_model.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
        _bridge.library = library
    return _bridge.library


def register(library="core"):
    """Makes all operators of a library (tenon.load's, or its namespace) PyTorch's: torch.ops.NAMESPACE.NAME, as long as the process.

    Again it does nothing.  Gives those that were left out, with the reason: {"core::if": "it has a graph as an attribute"}.
    """
    namespace = library.name if isinstance(library, Library) else str(library)
    if namespace not in _names:
        report, error = ctypes.c_void_p(), ctypes.c_char_p()
        if _bridge().tenon_torch_register(namespace.encode(), int(torch._C.DispatchKey.AutogradFunctionality), ctypes.byref(report), ctypes.byref(error)):
            raise _core.Error(f"{namespace} was not registered with PyTorch: {error.value.decode()}")
        lines = ctypes.string_at(report).decode().splitlines()
        _bridge().tenon_torch_release(report)
        rows = [line.split("\t") for line in lines]
        _names[namespace] = {name: (f"{namespace}::{schema.split('(')[0]}", why) for name, why, schema, *_ in rows}
        home = torch.library.Library(namespace, "FRAGMENT")
        _libraries.append(home)
        failures = []
        for name, why, _, by_parts, own_autograd, *_ in rows:
            try:
                if not why:
                    _complete(_core.find(name), home, bool(by_parts), bool(own_autograd))
            except Exception as error:  # the others are completed all the same: PyTorch has them now
                failures.append(f"{name}: {error}")
        if failures:
            raise _core.Error(f"{namespace}: PyTorch has kernels, but no fakes or gradients, of {'; '.join(failures)}")
    return {name: why for name, (_, why) in _names[namespace].items() if why}


def device(type, backend):
    """Tensors of PyTorch's devices of that type ("cuda", "xpu", or a backend's own name, of PrivateUse1) are on Tenon's `backend` from here on.

        tenon.torch.device("npu", "npu")        # "cuda" is Tenon's "cuda" without it

    Indices are ordinals.  Calls run there, in PyTorch's current stream, with memory of PyTorch's allocator: docs/pytorch.md.
    """
    error = ctypes.c_char_p()
    if type == torch._C._get_privateuse1_backend_name():
        type = "privateuseone"
    if _bridge().tenon_torch_device(type.encode(), backend.encode(), ctypes.byref(error)):
        raise _core.Error(error.value.decode())


def load(path, device="cpu"):
    """A model (ONNX) that Tenon compiles and runs, to be called with PyTorch's tensors: one operator, tenon::run, that traces and exports.

    Operators of custom domains are those of the libraries that are loaded: tenon.load("./ops.so") comes before.
    """
    models.register(_bridge())
    return models.Model(os.fspath(path), device, _bridge())


def onnx_functions(library):
    """For torch.onnx.export: each call of an operator of the library (tenon.load's, or its namespace) becomes a node of that domain.

        torch.onnx.export(model, (x,), "model.onnx", dynamo=True, custom_translation_table=tenon.torch.onnx_functions("demo"))

    Left out are operators with a device as an attribute, or a list as a result.  Wants the
    packages onnx and onnxscript.
    """
    register(library)
    names = _names[library.name if isinstance(library, Library) else str(library)]
    return onnx.table([(_core.find(name), overload(name)) for name, (_, why) in names.items() if not why])


def overload(name, form=None):
    """The torch operator of "ns::name", or its overload for gradients ("vjp", "autograd"); its library is registered if it is not yet."""
    namespace = name.split("::")[0]
    register(namespace)
    if name not in _names[namespace]:
        raise _core.NotFoundError(f"{name} is not among the operators of {namespace} that are registered with PyTorch")
    own, _, variant = _names[namespace][name][0].split("::")[1].partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), own), _joined(variant, form) or "default")


def _joined(variant, form):
    return f"{variant}_{form}" if variant and form else form or variant


def _complete(op, home, by_parts, own_autograd):
    """What PyTorch wants besides a kernel."""
    name = _names[op.name.split("::")[0]][op.name][0]
    own, _, variant = name.partition(".")
    found = []  # looked up by the first call

    def own_overload():
        if not found:
            found.append(overload(op.name))
        return found[0]
    torch.library.register_fake(name, fakes.fake(op), lib=home)
    if not any(p["kind"] in ("Tensor", "Tensor[]") and p["keyword"] for p in op.parameters):
        torch.library.register_vmap(name, batching.rule(op, own_overload), lib=home)
    precision.register(op, name, own_overload, home)
    if not op.results or any(p["written"] or (p["kind"] == "Tensor" and p["keyword"]) for p in op.parameters):  # PyTorch takes no gradients of such
        return
    rules = gradients.rules(op)
    if rules is not None:
        forward, backward = gradients.functions(op, rules, overload)
    elif by_parts:
        torch.library.register_fake(f"{own}.{_joined(variant, 'vjp')}", fakes.fake_of_gradient(op), lib=home)
        home.impl(f"{own.split('::')[1]}.{_joined(variant, 'vjp')}", batching.kernel_of_gradient(lambda: overload(op.name, "vjp")), "FuncTorchBatched", with_keyset=True)
        forward, backward = gradients.functions_by_parts(op, lambda: overload(op.name, "vjp"))
    else:
        return
    if any(p["kind"] == "Tensor[]" for p in [*op.parameters, *op.results]):
        torch.library.register_autograd(name, backward, setup_context=forward, lib=home)  # it goes through lists
        return
    if own_autograd:
        name = f"{own}.{_joined(variant, 'autograd')}"
    home.impl(name.split("::")[1], gradients.kernel(op.name, own_overload, forward, backward), "Autograd")
