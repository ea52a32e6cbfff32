"""Parses the declared gradients and batching of operators (docs/contract.md), for the adapters that evaluate them in a framework."""
import ast
import re

_JOINT = "_COLONS_"


class Call:
    """A call of an operator in a formula, with the values of its positional and of its named arguments."""

    def __init__(self, name, values, named):
        self.name, self.values, self.named = name, values, named


class Name:
    """A name in a formula: an argument, a result, or "grad.RESULT"."""

    def __init__(self, name):
        self.name = name


def _value(node, namespace):
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).replace(_JOINT, "::")
        return Call(name if "::" in name else f"{namespace}::{name}", [_value(a, namespace) for a in node.args], {k.arg: _value(k.value, namespace) for k in node.keywords})
    if isinstance(node, ast.Attribute):
        return Name(f"{node.value.id}.{node.attr}")
    if isinstance(node, ast.Name):
        return Name(node.id)
    return ast.literal_eval(node)


def split(text, separator):
    """Splits the text at separators outside of brackets and strings."""
    parts, depth, quote, begin = [], 0, None, 0
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return parts + [text[begin:]]


def formulas(op):
    """Returns the parsed gradient formulas as [(names of inputs, call or "none" or "error")].

    Returns None if the operator declares no gradient, or one that reads the state of the call, which PyTorch does not keep.
    """
    if not op.gradient or "@state" in op.gradient:
        return None
    found = []
    for formula in split(op.gradient, ";"):
        names, text = (part.strip() for part in re.split(r"(?<!:):(?!:)", formula, maxsplit=1))
        if text not in ("none", "error"):
            text = _value(ast.parse(re.sub(r"(\w+)::(\w+)", rf"\1{_JOINT}\2", text), mode="eval").body, op.name.split("::")[0])
        found.append(([name.strip() for name in names.split(",")], text))
    return found


def names_read(value, names):
    """Adds the names that an expression reads to `names`, and returns the set."""
    if isinstance(value, Call):
        for v in [*value.values, *value.named.values()]:
            names_read(v, names)
    elif isinstance(value, Name):
        names.add(value.name)
    return names


def batching_of(op):
    """Returns the declared batching of an operator: the inputs and the results with the axis, and the attributes that it shifts."""
    if not op.batching or op.batching.strip() == "none":
        return frozenset(), frozenset(), frozenset()
    text, *shifts = op.batching.split(";")
    inputs, results = text.split("->")
    shifted = ",".join(shift.strip().removeprefix("shift") for shift in shifts)
    return tuple(frozenset(name.strip() for name in names.split(",") if name.strip()) for names in (inputs, results, shifted))
