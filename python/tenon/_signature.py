"""What help() and editors show of an operator; made when they ask."""
import inspect

_TYPES = {"Tensor": "Tensor", "Tensor[]": "list[Tensor]", "bool": "bool", "int": "int", "dim": "int", "float": "float", "scalar": "bool | int | float", "str": "str",
          "dtype": "str", "device": "str", "graph": "Graph", "int[]": "list[int]", "dim[]": "list[int]", "float[]": "list[float]", "str[]": "list[str]"}


def _annotation(parameter):
    if parameter["kind"] == "choice":
        text = "Literal[" + ", ".join(map(repr, parameter["choices"])) + "]"
    else:
        text = _TYPES.get(parameter["kind"], parameter["kind"])
    return text + " | None" if parameter["optional"] else text


def signature(op):
    """An inspect.Signature: types as texts, defaults as the schema has them, `out` last."""
    parameters = []
    for p in op.parameters:
        kind = inspect.Parameter.KEYWORD_ONLY if p["keyword"] else inspect.Parameter.POSITIONAL_OR_KEYWORD
        has = p["has_default"] or p["optional"]
        parameters.append(inspect.Parameter(p["name"], kind, default=p["default"] if has else inspect.Parameter.empty, annotation=_annotation(p)))
    if op.results:
        parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | tuple | None"))
    results = ["list[Tensor]" if r["kind"] == "Tensor[]" else "Tensor" for r in op.results]
    result = "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    return inspect.Signature(parameters, return_annotation=result)


def document(op):
    """What its author says, then what it takes and gives."""
    lines = [op.doc, ""] if op.doc else []
    lines.append(f"Schema: {op.schema}")
    for title, text in ("Types", op.types), ("Shapes", op.shapes), ("Gradient", op.gradient):
        if text:
            lines.append(f"{title}: {text}")
    return "\n".join(lines)
