"""How an operator is written in TensorFlow, read from the definition that TensorFlow has of it (bridges/tensorflow/operator.h)."""
import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from .. import _core
from .._calls import inputs_of, is_written_result, literal, parameters_of, results_of, traits_of, written_inputs
from .bridge import own_name
from .dtypes import DTYPES, NAMES
from .errors import invalid


class Side(NamedTuple):
    """An input or a result.

    of: Tenon's description.  name: its name in TensorFlow.  dtype: the fixed dtype, or None.
    type: the attribute with the dtype, or with the dtypes of all items if `has_types`; "" for a fixed dtype.
    count: the attribute with the number of items; "" for a single tensor, and if `has_types`.
    """
    of: dict
    name: str
    dtype: "tf.DType | None"
    type: str
    count: str
    has_types: bool

    @property
    def is_list(self):
        return self.of["kind"] == "Tensor[]"

    @property
    def is_group(self):
        return bool(self.count) or self.has_types


class Attribute(NamedTuple):
    """of: Tenon's description.  name: its name in TensorFlow.  kind: how it is written there, "literal" for a text in the language of schemas."""
    of: dict
    name: str
    kind: str


class Definition:
    """An operator in TensorFlow.

    inputs, written: the inputs; those that the operator writes to, whose new contents are the first outputs.
    results: pairs of a number and a result that has an output of its own.
    explicit: the attributes whose values follow from inference alone: dtypes of results, and lengths of lists of results.
    """

    def __init__(self, name):
        self.name, self.own = name, own_name(name)
        self.op_def = op_def_registry.get(self.own)
        attrs = {a.name: a for a in self.op_def.attr}
        self.allowed = {n: tuple(tf.as_dtype(t) for t in a.allowed_values.list.type) for n, a in attrs.items() if a.type == "type"}
        self.defaults = {n: tf.as_dtype(a.default_value.type) for n, a in attrs.items() if a.type == "type" and a.HasField("default_value")}
        self.inputs = [_side(p, a) for p, a in zip(inputs_of(name), self.op_def.input_arg)]
        self.written = [s for s in self.inputs if s.of["written"]]
        self.is_random = "random" in traits_of(name)
        own = [(o, r) for o, r in enumerate(results_of(name)) if not is_written_result(name, r)]
        self.results = [(o, _side(r, a)) for (o, r), a in zip(own, list(self.op_def.output_arg)[len(self.written):])]
        self.attributes = [_attribute(p, attrs) for p in parameters_of(name) if not p["tensor"]]
        self.attributes = [a for a in self.attributes if a is not None]
        bound = {s.type for s in self.inputs} | {s.count for s in self.inputs} | {a.name for a in self.attributes}
        self.explicit = sorted({n for _, s in self.results for n in (s.type, s.count if s.is_list else "") if n and n not in bound})

    @property
    def is_simple(self):
        """Whether every call has the same number of outputs, which follow from the inputs without inference."""
        return not (self.written or self.is_random or self.explicit or any(s.is_group for _, s in self.results))


@functools.lru_cache(maxsize=None)
def definition_of(name):
    return Definition(name)


def _side(of, argument):
    dtype = None if argument.type_attr or argument.type_list_attr else tf.as_dtype(argument.type)
    return Side(of, argument.name, dtype, argument.type_attr or argument.type_list_attr, argument.number_attr, bool(argument.type_list_attr))


def _attribute(parameter, attrs):
    name = parameter["name"].lower()
    name = "name_" if name == "name" else name
    if name not in attrs:
        return None
    kind = attrs[name].type
    is_text = parameter["kind"] in ("str", "choice", "device") and not parameter["optional"]
    return Attribute(parameter, name, "literal" if kind == "string" and not is_text else kind)


# ---- values of attributes ----


def _int(value):
    """Returns an integer of 64 bits, or None."""
    number = int(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None
    return number if number is not None and -1 << 63 <= number < 1 << 63 else None


def _python(value):
    """Returns the numbers of an array, or of a tensor whose value is known, as those of Python; other values as they are."""
    if hasattr(value, "numpy") and not tf.is_symbolic_tensor(value):
        value = value.numpy()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _text(value):
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


def _dtype(value):
    """Returns a TensorFlow dtype for its own notations, and for Tenon's names."""
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    try:
        found = tf.as_dtype(value)
    except TypeError:
        return None
    return found if found in NAMES else None


def plain_value(name, parameter, value):
    """Returns an attribute as Tenon's own values: numbers, texts, tuples, names of dtypes.  Raises InvalidArgumentError."""
    kind = parameter["kind"]
    if value is None and parameter["optional"]:
        return None
    value = _python(value)
    found = _CONVERTERS[kind.removesuffix("[]")](value) if not kind.endswith("[]") else _list(kind.removesuffix("[]"), value)
    if found is None or kind == "choice" and found not in parameter["choices"]:
        raise invalid(f"{name}: attribute {parameter['name']}: expected {_expected(parameter)}, found {_shown(value)}")
    return found


def _expected(parameter):
    kind = parameter["kind"]
    if kind == "choice":
        return "one of " + ", ".join(map(repr, parameter["choices"]))
    return kind + (" of 64 bits" if kind.startswith(("int", "dim")) else "") + (" or None" if parameter["optional"] else "")


def _shown(value):
    return "a tensor whose value is not known when the function is traced: pass a value of Python" if tf.is_symbolic_tensor(value) else repr(value)


def _list(kind, value):
    if isinstance(value, (str, bytes)):
        return None
    found = tuple(_CONVERTERS[kind](_python(v)) for v in (value if isinstance(value, (list, tuple)) else [value]))
    return None if any(v is None for v in found) else found


_CONVERTERS = {"bool": lambda v: v if isinstance(v, bool) else None, "int": _int, "dim": _int, "float": lambda v: float(v) if isinstance(v, float) or _int(v) is not None else None,
               "scalar": lambda v: v if isinstance(v, (bool, float)) else _int(v),
               "str": _text, "choice": _text, "device": _text, "dtype": lambda v: NAMES[d] if (d := _dtype(v)) is not None else None}


def default_of(attribute):
    """The default of an attribute as a plain value."""
    default = attribute.of["default"]
    return tuple(default) if isinstance(default, list) else default


def written_value(attribute, value):
    """Writes a plain value as TensorFlow has it."""
    if attribute.kind == "literal":
        return literal(attribute.of["kind"], value)
    if attribute.kind == "type":
        return DTYPES[value]
    return list(value) if isinstance(value, tuple) else value


def read_value(attribute, value):
    """Reads a plain value from what TensorFlow has."""
    if attribute.kind == "literal":
        text = _text(value)
        return _parsed(attribute.of["kind"], text)
    if attribute.kind == "type":
        return NAMES[tf.as_dtype(value)]
    if attribute.kind.startswith("list"):
        return tuple(_text(v) if isinstance(v, (bytes, str)) else v for v in value)
    return _text(value) if isinstance(value, (bytes, str)) else value


def _parsed(kind, text):
    import ast
    if text == "None":
        return None
    if kind == "dtype":
        return text
    numbers = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
    if text in numbers:
        return numbers[text]
    if kind == "float[]":
        return tuple(float(item) for item in text.strip("[]").split(",") if item.strip())
    value = ast.literal_eval(text)
    return tuple(value) if isinstance(value, list) else value


def by_python_name(name):
    """The parameters of an operator by their names in Python."""
    from .. import _signature
    return {_signature.python_name(p["name"]): p for p in parameters_of(name)}


__all__ = ["Attribute", "Definition", "Side", "by_python_name", "definition_of", "plain_value", "read_value", "written_inputs", "written_value", "_core"]
