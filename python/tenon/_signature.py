"""The signature and documentation of operators for help() and editors, made on request."""
import inspect
import keyword

_TYPES = {"Tensor": "Tensor", "Tensor[]": "list[Tensor]", "bool": "bool", "int": "int", "dim": "int", "float": "float", "scalar": "bool | int | float", "str": "str",
          "dtype": "str", "device": "str", "graph": "Graph", "int[]": "list[int]", "dim[]": "list[int]", "float[]": "list[float]", "str[]": "list[str]"}


def _annotation(parameter):
    if parameter["kind"] == "choice":
        text = "Literal[" + ", ".join(map(repr, parameter["choices"])) + "]"
    else:
        text = _TYPES.get(parameter["kind"], parameter["kind"])
    return text + " | None" if parameter["optional"] else text


def with_defaults(parameters):
    """Returns pairs of a parameter and whether a call may omit it.

    An optional positional parameter that stands before a required one cannot be omitted.
    """
    must = max((i for i, p in enumerate(parameters) if not (p["keyword"] or p["has_default"] or p["optional"])), default=-1)
    return [(p, (p["has_default"] or p["optional"]) and (p["keyword"] or i > must)) for i, p in enumerate(parameters)]


def python_name(name):
    return name + "_" if keyword.iskeyword(name) else name


def free_name(op, name):
    """Returns `name`, with an underscore appended if the operator has an argument of this name."""
    return name + "_" if any(p["name"] == name for p in op.parameters) else name


def out_name(op):
    return free_name(op, "out")


def add_name(op):
    return free_name(op, "add")


def _arguments(op):
    parameters = []
    for p, has in with_defaults(op.parameters):
        if p["open"]:
            continue
        kind = inspect.Parameter.KEYWORD_ONLY if p["keyword"] else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(python_name(p["name"]), kind, default=p["default"] if has else inspect.Parameter.empty, annotation=_annotation(p)))
    return parameters


def _open(op):
    """Returns the **parameter that takes the arguments that the schema does not name."""
    return [inspect.Parameter(python_name(p["name"]), inspect.Parameter.VAR_KEYWORD, annotation="object") for p in op.parameters if p["open"]]


def _returns(op):
    results = ["list[Tensor]" if r["kind"] == "Tensor[]" else "Tensor" for r in op.results]
    return "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"


def signature(op):
    """Returns an inspect.Signature with types as strings, the defaults of the schema, and `out` and `add` last."""
    parameters = _arguments(op)
    if op.results:
        parameters.append(inspect.Parameter(out_name(op), inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | tuple | None"))
        parameters.append(inspect.Parameter(add_name(op), inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool"))
    parameters += _open(op)
    return inspect.Signature(parameters, return_annotation=_returns(op))


def node_signature(op):
    """Returns the signature of the operator in tenon.graph.ops: it takes graph values, the node's name and its builder."""
    parameters = [p.replace(annotation=p.annotation.replace("Tensor", "Value")) for p in _arguments(op)]
    for name, annotation in ("name", "str | None"), ("builder", "Builder | None"):
        parameters.append(inspect.Parameter(free_name(op, name), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    parameters += _open(op)
    return inspect.Signature(parameters, return_annotation=_returns(op).replace("Tensor", "Value"))


def document(op):
    """Returns the author's documentation, followed by the declarations of the operator."""
    lines = [op.doc, ""] if op.doc else []
    lines.append(f"Schema: {op.schema}")
    for title, text in ("Types", op.types), ("Shapes", op.shapes), ("Gradient", op.gradient):
        if text:
            lines.append(f"{title}: {text}")
    return "\n".join(lines)
