"""Writes type stubs of a library's operators for editors and type checkers:

    python -m tenon.stubs gelu.so -o gelu_ops.pyi       # classes Demo and DemoNodes, with a method for each operator
    python -m tenon.stubs core -o core_ops.pyi          # of the built-in operators

and then, in a program:

    ops: "gelu_ops.Demo" = tenon.load("./gelu.so")
    nodes: "gelu_ops.DemoNodes" = tenon.graph.ops.demo
"""
import argparse
import os
import sys
import textwrap

from . import _core, _signature
from ._library import Namespace, load

_HEAD = '''"""Operators of {name}; made by python -m tenon.stubs."""
from typing import Any, Literal, Sequence, TypeVar

from tenon.graph import Builder, Value

Tensor = Any  # a NumPy array, a PyTorch tensor, a tenon.Tensor or any object with __dlpack__; results have the type of the first tensor argument
T = TypeVar("T")

'''


def _annotation(parameter, tensor):
    kind = parameter["kind"]
    if kind == "choice":
        text = "Literal[" + ", ".join(map(repr, parameter["choices"])) + "]"
    elif kind.endswith("[]"):
        text = "Sequence[" + {"Tensor": tensor, "dim": "int"}.get(kind[:-2], kind[:-2]) + "]"
    else:
        text = {"Tensor": tensor, "dim": "int", "scalar": "float", "dtype": "Any", "device": "str", "graph": "Any"}.get(kind, kind)
    return text + " | None" if parameter["optional"] else text


def _method(name, op, tensor="Tensor"):
    """Returns the text of a method; None for an overload, whose name is not a Python identifier.

    tensor: the annotation of tensors; "Value" for the operators of tenon.graph.ops.
    """
    parameters, results = op.parameters, op.results
    if not name.isidentifier():
        return None
    first = next((p["name"] for p in parameters if p["kind"] in ("Tensor", "Tensor[]") and not p["optional"]), None) if tensor == "Tensor" else None
    texts, has_star = ["self"], False
    for p, may_be_left_out in _signature.with_defaults(parameters):
        if p["open"]:
            continue
        if p["keyword"] and not has_star:
            texts.append("*")
            has_star = True
        text = f"{_signature.python_name(p['name'])}: {_annotation(p, 'T' if p['name'] == first else tensor)}"
        if may_be_left_out:
            text += f" = {p['default']!r}"
        texts.append(text)
    one = "T" if first else tensor
    kinds = [f"list[{one}]" if r["kind"] == "Tensor[]" else f"{one} | None" if r["optional"] and tensor == "Tensor" else one for r in results]
    if tensor == "Value":
        texts += [] if has_star else ["*"]
        texts += [f"{_signature.free_name(op, extra)}: {of} | None = None" for extra, of in (("name", "str"), ("builder", "Builder"))]
    elif results:
        texts += [] if has_star else ["*"]
        texts.append(f"{_signature.out_name(op)}: " + ("Tensor" if len(results) == 1 else "Sequence[Tensor | None]") + " | None = None")
        texts.append(f"{_signature.add_name(op)}: bool = False")
    texts += [f"**{_signature.python_name(p['name'])}: object" for p in parameters if p["open"]]
    result = "None" if not kinds else kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"
    doc = textwrap.indent(_signature.document(op).replace("\\", "\\\\").replace('"""', '\\"\\"\\"'), " " * 8).strip()
    return f'    def {_signature.python_name(name)}({", ".join(texts)}) -> {result}:\n        """{doc}\n        """\n'


def stubs(name, operators):
    """Returns the text of a .pyi file with two classes, one for tenon.graph.ops and one for calls; operators: {name: operator}."""
    title, text = "".join(part.capitalize() for part in name.split("_")), _HEAD.format(name=name)
    for ending, tensor in ("Nodes", "Value"), ("", "Tensor"):
        methods = [_method(own, op, tensor) for own, op in sorted(operators.items())]
        text += f"\nclass {title}{ending}:\n" + ("\n".join(filter(None, methods)) or "    ...\n")
    return text


def main():
    parser = argparse.ArgumentParser(prog="python -m tenon.stubs", description="Writes type stubs (.pyi) of a library's operators.")
    parser.add_argument("library", help="the file of a library, or the namespace of operators that are built in")
    parser.add_argument("-o", "--output", help="the .pyi file to write (default: standard output)")
    arguments = parser.parse_args()
    try:
        if os.path.exists(arguments.library):
            library = load(os.path.abspath(arguments.library))
            text = stubs(library.name, {op.name.split("::", 1)[1]: op for op in library})
        else:
            space = Namespace(arguments.library)
            names = dir(space)
            if not names:
                sys.exit(f"stubs: {arguments.library}: expected the file of a library or a namespace with operators; found neither")
            text = stubs(arguments.library, {name: _core.find(f"{arguments.library}::{name}") for name in names})
    except _core.Error as error:
        sys.exit(f"stubs: {error}")
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
