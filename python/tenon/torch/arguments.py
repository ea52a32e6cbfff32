"""Binding of the arguments of a call to their names in Tenon."""
from .dtypes import DTYPES


def bound(op, args, named):
    """Returns the value of each argument by name; an argument that is not given has its default.

    PyTorch appends an underscore to names that are words of its schema language: `else_` is the argument `else`.
    """
    values = {}
    for i, parameter in enumerate(op.parameters):
        name, default = parameter["name"], parameter["default"]
        if parameter["kind"] == "dtype" and isinstance(default, str):
            default = DTYPES[default]
        values[name] = args[i] if i < len(args) else named.get(name, named.get(name + "_", default))
        if values[name] is None and parameter["kind"] == "str[]":  # None is the only default that PyTorch allows for str[]
            values[name] = default
    return values
