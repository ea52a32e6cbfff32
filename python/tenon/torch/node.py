"""The autograd node in C++ (bridges/torch_autograd), which records calls of operators without Python.

It is compiled for the release of PyTorch that runs, by `tenon.torch.compile_autograd`, and used whenever it is in Tenon's
cache or in the package libtenon-torch.  Without it, and for operators that it does not support, gradients.py records the calls.
"""
import contextlib
import ctypes
import os
import re
import threading

from .. import _core
from . import gradients
from .device import build

_PART = "torch_autograd"
_PLAN_OF = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
# The functions of PyTorch that replace operators, as gradients.py does.
_FUNCTIONS = {"core::identity": "IDENTITY", "core::expand": "EXPAND", "core::reshape": "RESHAPE", "core::sum_to": "SUM_TO"}
_lock = threading.Lock()
_operators = {}  # name: (operator, its formulas, overload), of all operators that have formulas
_texts = {}  # what _plan_of returned, which the library reads
_adopted = set()  # the names of the operators that the node records
_library = None  # the compiled library; False: the cache does not have it


class _NotPlanned(Exception):
    """The node cannot evaluate a formula, so Python does."""


def add(op, formulas, overload):
    """Lets the node record the calls of an operator, if the library is at hand or as soon as it is compiled.

    overload: returns PyTorch's operator of "ns::name".
    """
    with _lock:
        _operators[op.name] = op, formulas, overload
        if _open(False):
            _adopt(op.name)


def compile_library():
    """Compiles the library if the cache does not have it, and lets the node record the calls of all operators."""
    with _lock:
        if _open(True):
            for name in set(_operators) - _adopted:
                _adopt(name)


def adopted():
    """Returns the names of the operators whose calls the node records."""
    return sorted(_adopted)


def _open(compiles):
    """Returns whether the library is at hand and the environment does not say that Python records."""
    global _library
    wanted = os.environ.get("TENON_TORCH_AUTOGRAD", "")
    if wanted not in ("", "python", "compile"):
        raise ValueError(f"TENON_TORCH_AUTOGRAD is 'python', 'compile' or not set, found {wanted!r}")
    compiles = compiles or wanted == "compile"
    if wanted != "python" and (_library is None or (_library is False and compiles)):
        _library = _load(compiles)
    return bool(_library) and wanted != "python"


def _load(compiles):
    try:
        path = build.library(_PART, compiles)
        library = ctypes.CDLL(path) if path else False
    except (OSError, RuntimeError):
        if compiles:
            raise
        return False  # nobody asked for the library, and the cache cannot be read: Python records
    if library:
        library.tenon_torch_autograd_add.argtypes = [ctypes.c_char_p] * 4 + [_PLAN_OF]
        library.tenon_torch_autograd_add.restype = ctypes.c_char_p
    return library


def _adopt(name):
    op, formulas, overload = _operators[name]
    with contextlib.suppress(_NotPlanned):
        function = overload(name)
        heads = _Plan(op, formulas, overload).heads()
        torch_name, variant = function._schema.name, function._schema.overload_name
        why = _library.tenon_torch_autograd_add(torch_name.encode(), variant.encode(), name.encode(), heads.encode(), _plan_of)
        if why:
            raise _core.Error(f"{name}: the autograd node cannot record its calls: {why.decode()}")
        _adopted.add(name)


@_PLAN_OF
def _plan_of(name):
    """Returns the address of the plan of an operator, for its first backward."""
    try:
        text = _Plan(*_operators[name.decode()]).text()
    except Exception as error:  # C++ raises it; the next backward asks again, since the library that is missing may be loaded by then
        text = f"ERROR {error}"
    return ctypes.addressof(_texts.setdefault(text, ctypes.create_string_buffer(text.encode())))


class _Plan:
    """Writes the gradient formulas of an operator as a plan (bridges/torch_autograd/plan.h)."""

    def __init__(self, op, formulas, overload):
        self.op, self.formulas, self.overload = op, formulas, overload
        if any(p["keyword"] and p["kind"] in ("Tensor", "Tensor[]") for p in op.parameters):
            raise _NotPlanned
        names = [a.name for a in overload(op.name)._schema.arguments]
        self.places = {p["name"]: _place(names, p["name"]) for p in op.parameters}
        self.results = {r["name"]: i for i, r in enumerate(op.results)}
        self.shaped = {p["name"] for p in op.parameters if p["kind"] == "Tensor"}

    def heads(self):
        """The plan without steps.  It looks at no other operator."""
        return self.lines(lambda call: [])

    def text(self):
        return self.lines(self.steps)

    def lines(self, steps):
        lines = ["POINTWISE"] if "pointwise" in self.op.traits else []
        for names, call in self.formulas:
            if any(name not in self.places for name in names):
                raise _NotPlanned
            reads = [] if isinstance(call, str) else sorted(self.reads(call, set()))
            lines.append(" ".join(["FORMULA", ",".join(str(self.places[name]) for name in names), *reads]))
            lines += [call.upper()] if isinstance(call, str) else steps(call)
        return "\n".join(lines) + "\n"

    def reads(self, value, found):
        """Adds what an expression reads to `found`, and returns it."""
        if isinstance(value, gradients.Call):
            shaped = self.shape_of(value)
            for v in value.values[:1] if shaped else [*value.values, *value.named.values()]:
                self.reads(v, found)
            found |= {f"Z{self.places[shaped]}"} if shaped else set()
        elif isinstance(value, gradients.Name):
            operand = self.name(value.name)
            if operand[0] in "AR":
                found.add(operand)
        else:
            _constant(value)
        return found

    def name(self, name):
        """The operand of a name."""
        if name in self.places:
            return f"A{self.places[name]}"
        if name in self.results:
            return f"R{self.results[name]}"
        if name == "grad":
            return "G0"
        if name.startswith("grad.") and name[5:] in self.results:
            return f"G{self.results[name[5:]]}"
        raise _NotPlanned

    def shape_of(self, call):
        """The argument whose shape a function of PyTorch takes in place of a call, or None."""
        if call.name not in _FUNCTIONS or call.named or len(call.values) != 2 or not isinstance(call.values[0], (gradients.Name, gradients.Call)):
            return None
        shape = call.values[1]
        if isinstance(shape, gradients.Call) and shape.name == "core::shape" and len(shape.values) == 1 and isinstance(shape.values[0], gradients.Name):
            return shape.values[0].name if shape.values[0].name in self.shaped else None
        return None

    def steps(self, value):
        """The lines of the steps of a formula."""
        lines = []
        if isinstance(value, gradients.Call):
            self.call(value, lines, "W")
        else:
            lines.append(f"GIVES {self.operand(value, lines)}")
        return lines

    def operand(self, value, lines):
        if isinstance(value, gradients.Call):
            return self.call(value, lines, "I1")
        return self.name(value.name) if isinstance(value, gradients.Name) else _constant(value)

    def call(self, call, lines, wanted):
        shaped = self.shape_of(call)
        if shaped or (call.name == "core::identity" and not call.named and len(call.values) == 1 and isinstance(call.values[0], (gradients.Name, gradients.Call))):
            lines.append(" ".join([_FUNCTIONS[call.name], self.operand(call.values[0], lines), *([f"Z{self.places[shaped]}"] if shaped else [])]))
        else:
            lines.append(self.call_of_operator(call, lines, wanted))
        return f"C{len(lines) - 1}"

    def call_of_operator(self, call, lines, wanted):
        other = _core.find(call.name)
        schema = self.overload(call.name)._schema
        names = [a.name for a in schema.arguments]
        by_name = {p["name"]: p for p in other.parameters}
        given = [*zip(other.parameters, call.values), *((by_name[k], v) for k, v in call.named.items())]
        if any(p["name"] != q["name"] for (p, _), q in zip([g for g in given if not g[0]["keyword"]], other.parameters)):
            raise _core.InvalidError(f"{self.op.name}: its gradient formula omits positional arguments of {call.name}, which PyTorch does not allow")
        operands = ["N"] * len(names)
        for p, value in given:
            operands[_place(names, p["name"])] = ("h" if p["host"] else "") + self.operand(value, lines)
        several = len(other.results) > 1 or wanted == "W"
        if several and any(r["optional"] for r in other.results):
            operands[names.index("wanted")] = wanted
        return " ".join(["CALL", schema.name, schema.overload_name or "default", *operands])


def _place(names, name):
    """The position of an argument in PyTorch's schema, where the words of its language have an underscore."""
    return names.index(name if name in names else name + "_")


def _constant(value):
    """The operand of a constant."""
    if value is None:
        return "N"
    if isinstance(value, bool):
        return f"B{int(value)}"
    if isinstance(value, int):
        return f"I{value}"
    if isinstance(value, float):
        return f"F{value!r}"
    if isinstance(value, str) and re.fullmatch(r"\S*", value):
        return f"S{value}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return f"L{','.join(map(str, value))}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        return f"l{','.join(repr(float(v)) for v in value)}"
    raise _NotPlanned
