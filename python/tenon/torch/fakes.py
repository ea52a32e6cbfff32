"""Fake kernels: they make the results of a call without data; extents are numbers or symbols of a trace."""
import torch

from .. import _core
from .arguments import bound
from .dtypes import DTYPES, NAMES

_DTYPES = {**DTYPES, "string": torch.uint8}  # PyTorch has no string tensors: a call raises, but a trace succeeds, so that the model can be exported


class _Symbols:
    """The extents of a trace and the numbers that represent them: -1 - k represents extents[k]."""

    def __init__(self, is_symbolic=True):
        self.extents, self.numbers, self.laters, self.is_symbolic = [], {}, set(), is_symbolic

    def number(self, extent):
        if not isinstance(extent, torch.SymInt) or not self.is_symbolic:
            return int(extent)  # the trace is then valid for this extent alone
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
        if tensor.dtype not in NAMES:
            raise _core.InvalidError(f"the PyTorch dtype {tensor.dtype} has no counterpart in Tenon: convert the tensor to another dtype")
        with_values = with_values and tensor.dtype in (torch.int32, torch.int64) and tensor.dim() <= 1
        made = NAMES[tensor.dtype], [int(e) if with_values else self.number(e) for e in tensor.shape]  # with values, the number of elements is fixed
        count = int(tensor.numel()) if with_values else 0
        if not with_values or count > 64:
            return made
        known = getattr(tensor, "constant", None)
        if known is None:
            return (*made, [(self.later(),) for _ in range(count)])
        with torch.utils._python_dispatch._disable_current_modes():
            return (*made, known.flatten().tolist())

    def later(self):
        """Returns the number for an integer stored in a tensor; it becomes a symbol of the trace only if a result depends on it."""
        self.laters.add(len(self.extents))
        self.extents.append(None)
        return -len(self.extents)

    def extent(self, k):
        if self.extents[k] is None:
            self.extents[k] = _found(None)
        return self.extents[k]

    def value(self, kind, value):
        if kind == "Tensor":  # a tensor attribute: only its dtype and shape are used
            return _core.empty([int(e) for e in value.shape], NAMES[value.dtype])
        if isinstance(value, torch.dtype):
            return NAMES[value]
        if isinstance(value, torch.device):
            return "cpu"  # the device does not influence shapes
        if isinstance(value, torch.SymInt):
            return (self.number(value),) if kind == "dim" else int(value)
        if isinstance(value, (list, tuple)):
            return [int(v) if isinstance(v, torch.SymInt) else v for v in value]
        return value


def _found(most):
    """Returns a new symbol for an extent that depends on data."""
    bounds = {"min": 0, "max": most} if isinstance(most, int) and most >= 2 else {"min": 0}
    return torch.library.get_ctx().new_dynamic_size(**bounds)


def guard_or_false(condition):
    from torch.fx.experimental.symbolic_shapes import guard_or_false as guard  # the import is slow, and only tracing needs the function
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
    """Returns whether an extent is computed from one of the symbols in `which`."""
    return isinstance(tree, tuple) and (tree[1] in which if tree[0] == "symbol" else any(_reads(t, which) for t in tree[2:]))


def _extent(tree, symbols, made):
    if isinstance(tree, int):
        return tree
    if tree[0] == "symbol":
        return symbols.extent(tree[1])
    operation, key = tree[:2]
    if key not in made:
        laters = [_reads(t, symbols.laters) for t in tree[2:4]]
        if any(laters):  # the extent depends on integers stored in tensors
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
        raise _core.UnimplementedError("the call cannot be traced: the rank of its result is known only when the operator runs")
    if dtype not in _DTYPES:
        raise _core.UnimplementedError(f"the result has dtype {dtype}, which has no counterpart in PyTorch")
    return torch.empty([_extent(e, symbols, made) for e in extents], dtype=_DTYPES[dtype], device=device)


def _is_known(spec):
    """Returns whether all extents follow from the extents of the arguments."""
    if spec is None or isinstance(spec, list):
        return all(_is_known(s) for s in spec or ())
    return spec[1] is not None and not any(_has_unknown(e) for e in spec[1])


def _has_rank(spec):
    return all(_has_rank(s) for s in spec or ()) if spec is None or isinstance(spec, list) else spec[1] is not None


def _has_unknown(tree):
    return isinstance(tree, tuple) and (tree[0] in ("unknown", "bound") or any(_has_unknown(t) for t in tree[2:]))


def _device(op, values):
    """Returns the device that the call runs on: that of the first tensor outside the CPU, since CPU scalars may accompany it."""
    found = [values[p["name"]] for p in op.parameters if p["tensor"] and not p["host"]]
    found = [t.device for v in found for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)]
    return next((d for d in found if d.type != "cpu"), found[0] if found else values.get("device") or "cpu")


def fake(op):
    tensors = [p for p in op.parameters if p["tensor"]]
    attributes = [p for p in op.parameters if not p["tensor"]]
    hosts = any(p["host"] for p in tensors)
    written = {p["mark"] for p in tensors if p["written"] and p["mark"]}  # PyTorch does not return results that are written arguments

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
            return infer(values, wanted, with_values, False)  # the inference may need the value of an extent

    def run(*args, **named):
        values, made, wanted = bound(op, args, named), {}, named.get("wanted", 0)
        symbols, specs, facts = infer(values, wanted, False)
        if hosts and any(not _is_known(spec) for spec in specs):  # a shape depends on the values of integer tensors
            symbols, specs, facts = infer(values, wanted, True)
        if not all(_has_rank(spec) for spec in specs):  # the rank may follow from numbers only
            symbols, specs, facts = infer(values, wanted, hosts, False)
        for k, tree in facts:
            if k not in symbols.laters and not _reads(tree, symbols.laters):
                torch._check(symbols.extents[k] == _extent(tree, symbols, made))
        device = _device(op, values)
        results = [None if spec is None else _empty(spec, symbols, made, "cpu" if r["host"] else device) for r, spec in zip(op.results, specs) if r["mark"] not in written]
        return None if not results else results[0] if len(results) == 1 else tuple(results)
    return run


def fake_of_gradient(op):
    def run(*args, grads, given, inputs, **named):
        values = bound(op, args, named)
        wanted = [values[p["name"]] for p in sorted((p for p in op.parameters if p["tensor"]), key=lambda p: p["index"]) if inputs >> p["index"] & 1]
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for v in wanted if v is not None for t in (v if isinstance(v, (list, tuple)) else [v])]
    return run
