"""A call of an operator as the adapters keep it: hashable, without its tensors, and written as the text that a custom call of XLA carries."""
import functools
from typing import NamedTuple

from . import _core


class Call(NamedTuple):
    """Everything about a call that is known when it is traced.

    op: the operator's name.
    counts: for each tensor argument the number of its operands; -1: absent.
    attributes: pairs of a name and a value, those that differ from the defaults; lists are tuples, tensors a Constant.
    wanted: bit o: result o is wanted; 0: all.
    padded: bit o: the shape of result o is known only when the operator runs, so its buffer is padded.
    known: pairs of the index of a tensor argument and its elements, for integers that shapes depend on.
    bounds: one for each extent that is known only when the operator runs.
    forward: 1: the call maps tangents of the requested inputs to tangents of the given results, instead of gradients the other way.
    local: the operands are the parts of one device, so the call is not partitioned again.
    given, requested: for gradients, the results that have one and the inputs that get one (bits); 0: this is no gradient.
    """
    op: str
    counts: tuple
    attributes: tuple = ()
    wanted: int = 0
    padded: int = 0
    known: tuple = ()
    bounds: tuple = ()
    given: int = 0
    requested: int = 0
    forward: int = 0
    local: bool = False

    @property
    def operator(self):
        return _core.find(self.op)

    @property
    def inputs(self):
        """The tensor arguments by their index, with the operands of each: (parameter, count)."""
        return list(zip(inputs_of(self.op), self.counts))

    @property
    def operand_count(self):
        return sum(count for count in self.counts if count > 0)

    def group(self, operands):
        """Returns the operands by argument: None, an operand, or a list of them."""
        grouped, rest = [], iter(operands)
        for parameter, count in self.inputs:
            items = [next(rest) for _ in range(count)]
            grouped.append(None if count < 0 else items if parameter["kind"] == "Tensor[]" else items[0])
        return grouped

    def text(self):
        """The attribute `call` of a custom call; bridges/common/call_text.c reads it."""
        counts = ", ".join("-" if count < 0 else str(count) for count in self.counts)
        kinds = {p["name"]: p["kind"] for p in parameters_of(self.op)}
        fields = [f"{name}={literal(kinds[name], value)}" for name, value in self.attributes]
        fields += [f"@{name}={bits}" for name, bits in (("wanted", self.wanted), ("padded", self.padded), ("given", self.given), ("inputs", self.requested), ("forward", self.forward)) if bits]
        return "; ".join([f"{self.op}({counts})", *fields])


@functools.lru_cache(maxsize=None)
def parameters_of(name):
    """The parameters of an operator.  A registered operator stays loaded, so they never change."""
    return _core.find(name).parameters


@functools.lru_cache(maxsize=None)
def inputs_of(name):
    return sorted((p for p in parameters_of(name) if p["tensor"]), key=lambda p: p["index"])


@functools.lru_cache(maxsize=None)
def results_of(name):
    return _core.find(name).results


@functools.lru_cache(maxsize=None)
def traits_of(name):
    return frozenset(_core.find(name).traits)


def written_inputs(name):
    return [p for p in inputs_of(name) if p["written"]]


def is_written_result(name, result):
    """Whether a result is an argument that the operator writes to."""
    return bool(result["mark"]) and any(p["mark"] == result["mark"] for p in written_inputs(name))


def shifted_attributes(call, names):
    """The attributes of a call on operands with one more axis in front: those of `names` are numbers of axes, and one higher.  Pairs of a name and a value."""
    defaults = {p["name"]: p["default"] for p in parameters_of(call.op)}
    values = {**{name: tuple(d) if isinstance(d := defaults[name], list) else d for name in names}, **dict(call.attributes)}

    def shift(value):
        if isinstance(value, tuple):
            return tuple(map(shift, value))
        return value + 1 if isinstance(value, int) and value >= 0 else value
    return tuple((name, shift(value) if name in names else value) for name, value in values.items())


def own_results(call):
    """The results that have a buffer of their own, as (number, result)."""
    return [(o, r) for o, r in enumerate(results_of(call.op)) if not is_written_result(call.op, r) and (not call.wanted or call.wanted >> o & 1)]


def _quoted(text):
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def literal(kind, value):
    """Writes an attribute in the schema language, which has no tensors: those of JAX write themselves (tenon/jax/constants.py)."""
    if isinstance(value, tuple):
        return "[" + ", ".join(literal(kind.removesuffix("[]"), v) for v in value) + "]"
    if value is None or isinstance(value, bool):
        return str(value)
    if hasattr(value, "literal"):
        return value.literal()
    if isinstance(value, str):
        return value if kind == "dtype" else _quoted(value)
    if isinstance(value, float):
        return repr(value)
    return str(int(value))
