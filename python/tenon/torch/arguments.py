"""Arguments of a call by their names in Tenon."""
from .dtypes import DTYPES


def bound(op, args, named):
    """The value of each argument, as a call binds them; what is not given has its default.  Words of PyTorch's schemas have a line behind
    them there: `else_` is the argument `else`."""
    values = {}
    for i, parameter in enumerate(op.parameters):
        name, default = parameter["name"], parameter["default"]
        if parameter["kind"] == "dtype" and isinstance(default, str):
            default = DTYPES[default]
        values[name] = args[i] if i < len(args) else named.get(name, named.get(name + "_", default))
        if values[name] is None and parameter["kind"] == "str[]":  # PyTorch has no other default for them
            values[name] = default
    return values
