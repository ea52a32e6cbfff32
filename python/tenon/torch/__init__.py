"""Registers the operators of Tenon libraries as PyTorch operators.

    import tenon, tenon.torch
    tenon.load("./gelu.so")
    tenon.torch.register("demo")            # the namespace, or the library that tenon.load returned
    y = torch.ops.demo.gelu(x, approximate="tanh")

PyTorch calls the kernels through its stable C interface, without Python.  Fake kernels (for torch.compile and
torch.export) are derived from the declared shapes, and gradients from the declared gradient formulas.  Nothing is
compiled: one libtenon_torch.so serves every PyTorch from 2.11 on.
"""
import ctypes
import os
import sys

import torch

from .. import _core
from .._library import Library, adapter
from . import batching, device, fakes, gradients, imports, models, node, onnx, precision, writes

_names = {}  # namespace: {name: (PyTorch's name for it, why it was left out or "")}
_backends = {"cuda": "cuda"}  # PyTorch's device types that are Tenon's backends; device._enabled is not among them
_libraries = []  # torch.library.Library objects: their registrations end when they are deleted
_unsharded = []  # what the rules for DTensors of operators need, until the program imports them


def _bridge():
    if not hasattr(_bridge, "library"):
        library = ctypes.CDLL(adapter("torch"))
        library.tenon_torch_register.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_release.argtypes = [ctypes.c_void_p]
        library.tenon_torch_device.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_backend.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_explain.argtypes = [ctypes.c_char_p]
        library.tenon_torch_model.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_threads.restype = ctypes.c_void_p
        library.tenon_torch_executable_add.argtypes, library.tenon_torch_executable_add.restype = [ctypes.c_void_p], ctypes.c_int64
        library.tenon_torch_executable_remove.argtypes, library.tenon_torch_executable_remove.restype = [ctypes.c_int64], None
        _bridge.library = library
    return _bridge.library


def register(library="core"):
    """Registers all operators of a library with PyTorch as torch.ops.NAMESPACE.NAME, until the process ends.

    library: a tenon.Library, or the namespace of a loaded library.
    Returns the operators that cannot be registered, with the reason: {"core::if": "it has a graph as an attribute"}.
    A second call for the same library does nothing and returns the same.
    """
    namespace = library.name if isinstance(library, Library) else str(library)
    if namespace not in _names:
        report, error = ctypes.c_void_p(), ctypes.c_char_p()
        if _bridge().tenon_torch_register(namespace.encode(), int(torch._C.DispatchKey.AutogradFunctionality), ctypes.byref(report), ctypes.byref(error)):
            raise _core.Error(f"the operators of {namespace} could not be registered with PyTorch: {error.value.decode()}")
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
            except Exception as error:  # PyTorch has the other operators already, so they are completed all the same
                failures.append(f"{name}: {error}")
        if "torch.distributed.tensor" in sys.modules:
            _shard()
        if failures:
            raise _core.Error(f"{namespace}: these operators have kernels in PyTorch but no fake kernel or gradient: {'; '.join(failures)}")
    return {name: why for name, (_, why) in _names[namespace].items() if why}


def compile_autograd():
    """Compiles the part in C++ that records calls for gradients, and uses it from now on: recording no longer enters Python.

    It takes a minute and needs a C++ compiler, unless the package libtenon-torch is installed, which `register` uses without
    this call.  The result is kept in Tenon's cache, where `register` finds it in later processes.  Without it, calls that
    need a gradient are recorded in Python, with the same results.  Call it while no other thread calls operators.
    Raises RuntimeError without a compiler.
    """
    node.compile_library()


def _declare_device(type, backend):
    """Declares that a PyTorch device type is the same hardware as a Tenon backend.

        tenon.torch.device("npu", "npu")        # "cuda" is mapped to Tenon's "cuda" from the start

    type: "cuda", "xpu", or the name of the PrivateUse1 backend.
    backend: the name of Tenon's backend; the PyTorch index is the ordinal of the Tenon device.

    Calls with tensors on such a device run on this device, in PyTorch's current stream, with memory from PyTorch's
    allocator (docs/pytorch.md).
    """
    error = ctypes.c_char_p()
    if type == torch._C._get_privateuse1_backend_name():
        type = "privateuseone"
    if _bridge().tenon_torch_device(type.encode(), backend.encode(), ctypes.byref(error)):
        raise _core.Error(error.value.decode())
    _backends[type] = backend


def _own_device(table):
    """Tells the calls of operators that PrivateUse1 is Tenon's own device (tenon.torch.device)."""
    error = ctypes.c_char_p()
    if _bridge().tenon_torch_backend(table, ctypes.byref(error)):
        raise _core.Error(error.value.decode())


def load(path, device="cpu"):
    """Loads an ONNX model that Tenon compiles and runs, and returns a callable that takes PyTorch tensors.

    device: the device that runs the model, such as "cpu" or "opencl:0".

    The model is called through one PyTorch operator, tenon::run, which can be traced and exported.  Operators of
    custom domains are looked up in the loaded libraries, so call tenon.load("./ops.so") first.
    """
    models.register(_bridge())
    return models.Model(os.fspath(path), device, _bridge())


def compile(program, inputs=None, *, kwargs=None, device="cpu"):
    """Compiles a whole program of PyTorch, which then runs in Tenon alone.

        exported = torch.export.export(model, (x,))
        model = tenon.torch.compile(exported)
        y = model(x)
        model.save("model.tenon")          # for C programs, and for tenon run

    program: what torch.export.export returned, a scripted or traced module of TorchScript, or the path of a file with either (.pt2, .pt).
    inputs, kwargs: an example of the arguments; only for TorchScript, which states no shapes.
    device: the device that runs the program, such as "cpu" or "opencl:0".

    Parameters and buffers become constants of the graph.  Returns a callable that takes the arguments of the program.
    Several threads may call it at once.  Arguments of other shapes or dtypes than those of the program raise tenon.InvalidError.
    Raises tenon.UnimplementedError, which names each node that Tenon cannot run, with its line in the model; tenon.NotFoundError or
    tenon.InvalidError for a file that is missing or holds no program.
    """
    from .compiler import exported  # torch._dynamo is slow to import
    return exported.compile_program(program, inputs, kwargs=kwargs, device=device)


def explain(model, /, *inputs, **named):
    """Compiles a model as torch.compile(model, backend="tenon") does, calls it once, and says what became of it.

        print(tenon.torch.explain(model, x))

    Returns an object that prints the number of graphs, which operators PyTorch runs in them and why, and the graph breaks, each with the line of the
    model that it comes from.  Its attributes are graphs, breaks, and result, which is what the model returned.  Compiled models are forgotten
    (torch._dynamo.reset), so that the model is compiled anew.
    """
    from . import compiler  # torch._dynamo takes a second to import
    return compiler.explain(model, *inputs, **named)


def onnx_functions(library):
    """Returns the translation table with which torch.onnx.export writes each call of a library's operator as one ONNX node.

        torch.onnx.export(model, (x,), "model.onnx", dynamo=True, custom_translation_table=tenon.torch.onnx_functions("demo"))

    library: a tenon.Library, or the namespace of a loaded library; it becomes the domain of the nodes.

    Operators with a device attribute or with a list as a result are left out.  The packages onnx and onnxscript
    must be installed.
    """
    register(library)
    names = _names[library.name if isinstance(library, Library) else str(library)]
    return onnx.table([(_core.find(name), overload(name)) for name, (_, why) in names.items() if not why])


def overload(name, form=None):
    """Returns the PyTorch operator of "ns::name", or the inner operator for its gradient (form="vjp" or "autograd").

    Registers the library if it is not registered yet.
    """
    namespace = name.split("::")[0]
    register(namespace)
    if name not in _names[namespace]:
        raise _core.NotFoundError(f"{name} is not one of the operators of {namespace} that are registered with PyTorch")
    own, _, variant = (_inner(name, form) if form else _names[namespace][name][0]).split("::")[1].partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), own), variant or "default")


def _inner(name, form):
    """The name of the inner operator of an operator of Tenon's.  It is no overload, since PyTorch's errors list all overloads."""
    namespace, _, rest = name.partition("::")
    own, dot, variant = rest.partition(".")
    return f"{namespace}::_{own}_{form}{dot}{variant}"


def _complete(op, home, by_parts, own_autograd):
    """Registers what PyTorch needs besides the kernel: the fake kernel, vmap, autocast and the gradient."""
    name = _names[op.name.split("::")[0]][op.name][0]
    found = []  # the overload, looked up by the first call

    def own_overload():
        if not found:
            found.append(overload(op.name))
        return found[0]
    torch.library.register_fake(name, fakes.fake(op), lib=home)
    _unsharded.append((op, name, home, _inner(op.name, "vjp") if by_parts else None))
    if not any(p["kind"] in ("Tensor", "Tensor[]") and p["keyword"] for p in op.parameters):
        torch.library.register_vmap(name, batching.rule(op, own_overload), lib=home)
    precision.register(op, name, own_overload, home)
    if any(p["tensor"] and p["written"] for p in op.parameters):
        writes.register(op, name, own_overload, home)
        return
    if not op.results or any(p["written"] or (p["kind"] == "Tensor" and p["keyword"]) for p in op.parameters):  # PyTorch supports no gradient for such operators
        return
    formulas = gradients.formulas(op)
    if formulas is not None:
        forward, backward = gradients.functions(op, formulas, overload)
    elif by_parts:
        torch.library.register_fake(_inner(op.name, "vjp"), fakes.fake_of_gradient(op), lib=home)
        home.impl(_inner(op.name, "vjp").split("::")[1], batching.kernel_of_gradient(lambda: overload(op.name, "vjp")), "FuncTorchBatched", with_keyset=True)
        forward, backward = gradients.functions_by_parts(op, lambda: overload(op.name, "vjp"))
    else:
        return
    if any(p["kind"] == "Tensor[]" for p in [*op.parameters, *op.results]):
        torch.library.register_autograd(name, backward, setup_context=forward, lib=home)  # register_autograd handles lists of tensors
    else:
        if own_autograd:
            name = _inner(op.name, "autograd")
        home.impl(name.split("::")[1], gradients.kernel(op.name, own_overload, forward, backward), "Autograd")
    if formulas is not None:
        node.add(op, formulas, overload)


def _shard():
    """Registers the rules for DTensors of all operators that have none yet."""
    from . import sharding
    while _unsharded:
        sharding.add(*_unsharded.pop(0), _bridge().tenon_torch_explain)


imports.after("torch.distributed.tensor", _shard)
