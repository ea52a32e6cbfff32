"""Writes operators as nodes of the models that torch.onnx.export produces.  Domain, name and attributes are those of the operator,
so that Tenon finds the operator again when it reads the model."""
import inspect
import typing

from .. import _core

_ATTRIBUTES = {"bool": (int, "INT"), "dtype": (int, "INT"), "int": (int, "INT"), "dim": (int, "INT"), "float": (float, "FLOAT"), "str": (str, "STRING"), "choice": (str, "STRING"),
               "int[]": (typing.Sequence[int], "INTS"), "dim[]": (typing.Sequence[int], "INTS"), "float[]": (typing.Sequence[float], "FLOATS"), "str[]": (typing.Sequence[str], "STRINGS")}
_TYPES = [f"tensor({name})" for name in ("float", "double", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string", "complex64", "complex128")]
_COUNTS = "operand_counts"  # docs/contract.md, "Nodes in ONNX files"


def table(operators):
    """Returns {overload: function} for pairs (operator, overload); operators that ONNX nodes cannot express are left out."""
    try:
        import onnx
        import onnxscript
    except ImportError as error:
        raise _core.NotFoundError(f"torch.onnx.export needs the package {error.name}: pip install onnx onnxscript") from None
    return {overload: _function(op, onnx.defs.OpSchema, onnxscript.values) for op, overload in operators if _fits(op)}


def _fits(op):
    return "." not in op.name and all(p["tensor"] or p["kind"] in _ATTRIBUTES for p in op.parameters) and all(r["kind"] == "Tensor" for r in op.results)


def _node(op, tensors, Schema, values):
    """Returns the node type of one call.  The exporter tells attributes from tensors by a schema, which lists the items of tensor lists
    one by one."""
    domain, name = op.name.split("::")
    inputs = [Schema.FormalParameter(f"input{i}", f"T{i}", param_option=Schema.FormalParameterOption.Optional) for i in range(len(tensors))]
    outputs = [Schema.FormalParameter(r["name"], f"R{i}") for i, r in enumerate(op.results)]
    attributes = [Schema.Attribute(p["name"], getattr(Schema.AttrType, _ATTRIBUTES[p["kind"]][1]), required=False) for p in op.parameters if not p["tensor"]]
    attributes.append(Schema.Attribute(_COUNTS, Schema.AttrType.INTS, required=False))
    constraints = [(parameter.type_str, _TYPES, "") for parameter in (*inputs, *outputs)]
    return values.Op(values.Opset(domain, 1), name, Schema(name, domain, 1, inputs=inputs, outputs=outputs, attributes=attributes, type_constraints=constraints))


def _function(op, Schema, values):
    """Returns the function that adds the node.  The exporter calls it with values of the model; its annotations mark the attributes."""
    parameters = [inspect.Parameter(p["name"], inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None if p["has_default"] else inspect.Parameter.empty,
                                    annotation=inspect.Parameter.empty if p["tensor"] else typing.Optional[_ATTRIBUTES[p["kind"]][0]]) for p in op.parameters]
    is_counted = "Tensor[]" in [p["kind"] for p in op.parameters if p["tensor"]][:-1]

    def function(*args, **named):
        given = dict(zip((p.name for p in parameters), args), **named)
        lists = [given.pop(p["name"], None) for p in op.parameters if p["tensor"]]
        lists = [list(value) if isinstance(value, (list, tuple)) else [value] for value in lists]
        if is_counted:  # a list before the last needs its length
            lists = [[t for t in items if t is not None] for items in lists]
            given[_COUNTS] = [len(items) for items in lists]
        tensors = [t for items in lists for t in items]
        return _node(op, tensors, Schema, values)(*tensors, **{name: value for name, value in given.items() if value is not None})
    function.__name__ = op.name.split("::")[1]
    function.__signature__ = inspect.Signature(sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty))
    function.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not inspect.Parameter.empty}
    return function
