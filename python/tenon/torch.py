"""Operators of Tenon's libraries as operators of PyTorch's.

    import tenon, tenon.torch
    tenon.load("gelu.so")
    tenon.torch.register("demo")            # its namespace, or what tenon.load gave
    y = torch.ops.demo.gelu(x, approximate="tanh")

Kernels run by PyTorch's C interface, without Python; fakes (for torch.compile, torch.export) are made of the shapes that operators state, and
gradients of the rules that they state.  Nothing is compiled, and one libtenon_torch.so serves every PyTorch from 2.11 on.
"""
import ctypes
import os

import torch

from . import _core, _gradient, _model, _vmap
from ._library import Library

_DTYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
           "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "bool": torch.bool, "c64": torch.complex64,
           "c128": torch.complex128, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_WORDS = {"and", "or", "not", "if", "else", "for", "in", "is", "def", "return", "while", "None"}
_registered = {}  # namespace: {name: why it was left out, or None}
_libraries = []  # they end what they registered when they go


def _bridge():
    if not hasattr(_bridge, "library"):
        here = os.path.dirname(os.path.abspath(__file__))
        places = [os.path.join(here, "lib", "libtenon_torch.so"), os.path.join(here, "..", "..", "libtenon_torch.so")]
        path = next((p for p in places if os.path.exists(p)), None)
        if path is None:
            raise _core.NotFoundError(f"libtenon_torch.so is in none of {', '.join(os.path.dirname(p) for p in places)}: reinstall Tenon")
        library = ctypes.CDLL(path)
        library.tenon_torch_register.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_torch_release.argtypes = [ctypes.c_void_p]
        _bridge.library = library
    return _bridge.library


def register(library="core"):
    """Makes all operators of a library (tenon.load's, or its namespace) PyTorch's: torch.ops.NAMESPACE.NAME, as long as the process.

    Again it does nothing.  Gives those that were left out, with the reason: {"core::if": "it has a graph as an attribute"}.
    """
    namespace = library.name if isinstance(library, Library) else str(library)
    if namespace not in _registered:
        report, error = ctypes.c_void_p(), ctypes.c_char_p()
        if _bridge().tenon_torch_register(namespace.encode(), int(torch._C.DispatchKey.AutogradFunctionality), ctypes.byref(report), ctypes.byref(error)):
            raise _core.Error(f"{namespace} was not registered with PyTorch: {error.value.decode()}")
        lines = ctypes.string_at(report).decode().splitlines()
        _bridge().tenon_torch_release(report)
        rows = [line.split("\t") for line in lines]
        _registered[namespace] = {name: why or None for name, why, *_ in rows}
        by_parts = {row[0] for row in rows if row[3]}
        own_autograd = {row[0] for row in rows if row[4]}
        home = torch.library.Library(namespace, "FRAGMENT")
        _libraries.append(home)
        for name, why in _registered[namespace].items():
            if why is None:
                _complete(_core.find(name), home, name in by_parts, name in own_autograd)
    return {name: why for name, why in _registered[namespace].items() if why}


def load(path, device="cpu"):
    """A model (ONNX) that Tenon compiles and runs, to be called with PyTorch's tensors: one operator, tenon::run, that traces and exports.

    Operators of custom domains are those of the libraries that are loaded: tenon.load("ops.so") comes before.
    """
    _model.register(_DTYPES)
    return _model.Model(os.fspath(path), device)


def torch_name(name):
    """Names that are words of PyTorch's schemas have a line behind them: core::and is torch.ops.core.and_."""
    return name + "_" if name in _WORDS else name


def overload(name, form=None):
    """The torch operator of "ns::name", or its overload for gradients ("vjp", "autograd"); its library is registered if it is not yet."""
    namespace, own = name.split("::")
    register(namespace)
    own, _, variant = own.partition(".")
    if form:
        variant = f"{variant}_{form}" if variant else form
    return getattr(getattr(getattr(torch.ops, namespace), torch_name(own)), variant or "default")


def _complete(op, home, by_parts, own_autograd):
    """What PyTorch wants besides a kernel."""
    space, own = op.name.split("::")
    name = f"{space}::{torch_name(own)}"
    torch.library.register_fake(name, _fake(op), lib=home)
    if not any(p["kind"] in ("Tensor", "Tensor[]") and p["keyword"] for p in op.parameters):
        torch.library.register_vmap(name, _vmap.rule(op, bound, lambda: overload(op.name)), lib=home)
    _autocast(op, name, home)
    if not op.results or any(p["written"] or (p["kind"] == "Tensor" and p["keyword"]) for p in op.parameters):  # PyTorch takes no gradients of such
        return
    rules = _gradient.rules(op)
    if rules is not None:
        forward, backward = _gradient.functions(op, rules, lambda *given: bound(op, *given), overload)
    elif by_parts:
        torch.library.register_fake(name + ("_" if "." in own else ".") + "vjp", _fake_of_gradient(op), lib=home)
        forward, backward = _gradient.functions_by_parts(op, lambda *given: bound(op, *given), lambda: overload(op.name, "vjp"))
    else:
        return
    own_name = name.split("::")[1]
    if any(p["kind"] == "Tensor[]" for p in [*op.parameters, *op.results]):
        torch.library.register_autograd(name, backward, setup_context=forward, lib=home)  # it goes through lists
    else:
        found = []  # looked up by the first call, since it is not there yet

        def own_overload():
            if not found:
                found.append(overload(op.name))
            return found[0]
        if own_autograd:
            own_name += ("_" if "." in own else ".") + "autograd"
        home.impl(own_name, _gradient.kernel(op.name, own_overload, forward, backward), "Autograd")


def _autocast(op, name, home):
    """Those that Tenon's own autocast runs in lower precision, or in f32, do so under torch.autocast."""
    lower, single = ("autocast " + word in op.kernels for word in ("lower", "f32"))
    if not lower and not single:
        return
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def cast(value, dtype):
        if isinstance(value, (list, tuple)):
            return [cast(v, dtype) for v in value]
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.bfloat16, torch.float16) else value

    def run(*args, **named):
        dtype = torch.get_autocast_dtype("cpu") if lower else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(below):
            return overload(op.name)(*(cast(a, dtype) for a in args), **{k: cast(v, dtype) for k, v in named.items()})
    home.impl(name.split("::")[1], run, "AutocastCPU")


def bound(op, args, named):
    """The value of each argument by name, as a call binds them."""
    values = {}
    for i, parameter in enumerate(op.parameters):
        name = parameter["name"]
        if i < len(args):
            values[name] = args[i]
        else:
            values[name] = named.get(torch_name(name), parameter["default"])
        if parameter["kind"] == "dtype" and isinstance(values[name], str):
            values[name] = _DTYPES[values[name]]
        if values[name] is None and parameter["kind"] == "str[]":
            values[name] = parameter["default"]
    return values


# ---- fakes: shapes with symbols -------------------------------------------------------------------------------------

class _Symbols:
    """Extents of a trace and the numbers that stand for them: -1 - k."""

    def __init__(self, is_symbolic=True):
        self.extents, self.numbers, self.laters, self.is_symbolic = [], {}, set(), is_symbolic

    def number(self, extent):
        if not isinstance(extent, torch.SymInt) or not self.is_symbolic:
            return int(extent)  # which traces for this extent alone
        key = getattr(extent.node, "expr", extent)
        if key not in self.numbers:
            self.extents.append(extent)
            self.numbers[key] = -len(self.extents)
        return self.numbers[key]

    def meta(self, tensor, with_values=False):
        if tensor is None:
            return None
        if isinstance(tensor, (list, tuple)):
            return [self.meta(t) for t in tensor]
        if tensor.dtype not in _NAMES:
            raise _core.InvalidError(f"{tensor.dtype} has no counterpart in Tenon")
        with_values = with_values and tensor.dtype in (torch.int32, torch.int64) and tensor.dim() <= 1
        made = _NAMES[tensor.dtype], [int(e) if with_values else self.number(e) for e in tensor.shape]  # how many it has is taken as given
        count = int(tensor.numel()) if with_values else 0
        if not with_values or count > 64:
            return made
        known = getattr(tensor, "constant", None)
        if known is None:
            return (*made, [(self.later(),) for _ in range(count)])
        with torch.utils._python_dispatch._disable_current_modes():
            return (*made, known.flatten().tolist())

    def later(self):
        """An integer that a tensor holds: a symbol of the trace if the result depends on it."""
        self.laters.add(len(self.extents))
        self.extents.append(None)
        return -len(self.extents)

    def extent(self, k):
        if self.extents[k] is None:
            self.extents[k] = _found(None)
        return self.extents[k]

    def value(self, kind, value):
        if kind == "Tensor":  # an attribute: its dtype counts
            return _core.empty([int(e) for e in value.shape], _NAMES[value.dtype])
        if isinstance(value, torch.dtype):
            return _NAMES[value]
        if isinstance(value, torch.device):
            return str(value)
        if isinstance(value, torch.SymInt):
            return (self.number(value),) if kind == "dim" else int(value)
        if isinstance(value, (list, tuple)):
            return [int(v) if isinstance(v, torch.SymInt) else v for v in value]
        return value


def _found(most):
    """An extent that only data tells."""
    bounds = {"min": 0, "max": most} if isinstance(most, int) and most >= 2 else {"min": 0}
    return torch.library.get_ctx().new_dynamic_size(**bounds)


def guard_or_false(condition):
    from torch.fx.experimental.symbolic_shapes import guard_or_false as guard  # takes a second to import, and only tracing needs it
    return guard(condition)


def _broadcast(a, b):
    if guard_or_false(a == b) or guard_or_false(b == 1):
        return a
    if guard_or_false(a == 1):
        return b
    torch._check(a == b)
    return a


_OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a // b, "ceil_div": lambda a, b: (a + b - 1) // b,
               "mod": lambda a, b: a % b, "min": torch.sym_min, "max": torch.sym_max, "broadcast": _broadcast}


def _reads(tree, which):
    """Whether an extent is made of one of these symbols."""
    return isinstance(tree, tuple) and (tree[1] in which if tree[0] == "symbol" else any(_reads(t, which) for t in tree[2:]))


def _extent(tree, symbols, made):
    if isinstance(tree, int):
        return tree
    if tree[0] == "symbol":
        return symbols.extent(tree[1])
    operation, key = tree[:2]
    if key not in made:
        laters = [_reads(t, symbols.laters) for t in tree[2:4]]
        if any(laters):  # of integers that tensors hold
            if operation == "broadcast" and laters != [True, True]:
                known = _extent(tree[3 if laters[0] else 2], symbols, made)
                made[key] = _extent(tree[2 if laters[0] else 3], symbols, made) if guard_or_false(known == 1) else known
            else:
                made[key] = _found(None)
        elif operation in _OPERATIONS:
            made[key] = _OPERATIONS[operation](*(_extent(t, symbols, made) for t in tree[2:4]))
        elif operation == "bound":
            made[key] = _found(_extent(tree[2], symbols, made))
        elif operation == "unknown":
            made[key] = _found(None)
        else:
            a, b = (_extent(t, symbols, made) for t in tree[2:4])
            if operation == "equal":
                torch._check(a == b)
                made[key] = a
            else:
                made[key] = torch.sym_ite(a == b if operation == "test_equal" else a < b, 1, 0)
    return made[key]


def _empty(spec, symbols, made, device):
    if isinstance(spec, list):
        return [_empty(s, symbols, made, device) for s in spec]
    dtype, extents = spec
    if extents is None:
        raise _core.UnimplementedError("how many axes the result has is only known when it runs: it cannot be traced")
    return torch.empty([_extent(e, symbols, made) for e in extents], dtype=_DTYPES[dtype], device=device)


def _is_known(spec):
    """Whether all extents follow from those of the arguments."""
    if spec is None or isinstance(spec, list):
        return all(_is_known(s) for s in spec or ())
    return spec[1] is not None and not any(_has_unknown(e) for e in spec[1])


def _has_unknown(tree):
    return isinstance(tree, tuple) and (tree[0] in ("unknown", "bound") or any(_has_unknown(t) for t in tree[2:]))


def _fake(op):
    tensors = [p for p in op.parameters if p["tensor"]]
    attributes = [p for p in op.parameters if not p["tensor"]]
    hosts = any(p["host"] for p in tensors)
    written = {p["mark"] for p in tensors if p["written"] and p["mark"]}  # results that are these are none for PyTorch

    def infer(values, wanted, with_values, is_symbolic=True):
        symbols = _Symbols(is_symbolic)
        metas = [symbols.meta(values[p["name"]], with_values and p["host"]) for p in sorted(tensors, key=lambda p: p["index"])]
        given = {p["name"]: symbols.value(p["kind"], values[p["name"]]) for p in attributes if values[p["name"]] is not None}
        try:
            return symbols, *op._infer(metas, given, len(symbols.extents), wanted)
        except _core.Error:
            if hosts and not with_values:
                return infer(values, wanted, True)
            if not is_symbolic or len(symbols.extents) == len(symbols.laters):
                raise
            return infer(values, wanted, with_values, False)  # it may want to know an extent

    def fake(*args, **named):
        values, made, wanted = bound(op, args, named), {}, named.get("wanted", 0)
        symbols, specs, facts = infer(values, wanted, False)
        if hosts and any(not _is_known(spec) for spec in specs):  # it depends on what integer tensors hold
            symbols, specs, facts = infer(values, wanted, True)
        for k, tree in facts:
            if k not in symbols.laters and not _reads(tree, symbols.laters):
                torch._check(symbols.extents[k] == _extent(tree, symbols, made))
        flat = [t for v in values.values() for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)]
        device = flat[0].device if flat else values.get("device", "cpu")
        results = [None if spec is None else _empty(spec, symbols, made, device) for r, spec in zip(op.results, specs) if r["mark"] not in written]
        return None if not results else results[0] if len(results) == 1 else tuple(results)
    return fake


def _fake_of_gradient(op):
    def fake(*args, grads, given, inputs, **named):
        values = bound(op, args, named)
        wanted = [values[p["name"]] for p in sorted((p for p in op.parameters if p["tensor"]), key=lambda p: p["index"]) if inputs >> p["index"] & 1]
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for v in wanted if v is not None for t in (v if isinstance(v, (list, tuple)) else [v])]
    return fake
