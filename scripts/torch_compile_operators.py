"""Writes docs/torch_compile_operators.md, the ATen operators that torch.compile(backend="tenon") lowers, from the tables.

    scripts/torch_compile_operators.py             writes the page (with .venv-zoo's Python, and PYTHONPATH=build/python)
    scripts/torch_compile_operators.py --check     fails if the page is not what the tables say
"""
import collections
import sys
import textwrap

from page import write

HEAD = """# ATen operators in compiled graphs

After reading this page you can tell which operators of PyTorch Tenon runs in a model that is compiled by
[`torch.compile(model, backend="tenon")`](torch_compile.md). `make support` writes this page; do not edit it by hand.
`tenon.torch.explain(model, x)` says what became of the operators of one model.

* **Tenon** lowers the operator to nodes of its graphs; the column names the overloads. Arguments that a lowering does not
  cover hand the single call back, with a reason. Complex tensors are pairs of real ones there, which not every operator
  takes.
* **PyTorch's decompositions** take the operator apart, into operators that Tenon lowers or that PyTorch runs.
{missing}

Operators that are no more than a composition of others (`aten::linear`) never reach a compiler and are not listed.

| operator of PyTorch | overloads | run by |
|---|---|---|
"""


def page():
    import torch
    from tenon.torch.compiler.calls import ROWS
    from tenon.torch.compiler.complexes import COMPLEX_ROWS
    from tenon.torch.compiler.decompositions import decompositions
    found = collections.defaultdict(dict)
    for overload in decompositions():
        if overload.namespace != "aten" or _is_composition(torch, overload):
            continue
        found[_packet(overload)].setdefault("PyTorch's decompositions", []).append(overload._overloadname)
    for overload in (o for o in ROWS | COMPLEX_ROWS if o.namespace == "aten"):
        found[_packet(overload)].setdefault("Tenon", []).append(overload._overloadname)
    rows = []
    for packet, kinds in sorted(found.items()):
        for kind, names in sorted(kinds.items(), reverse=True):
            names = sorted(set(names) - {n for n in names if n.endswith("out") or n.startswith("out")})
            if names:
                rows.append(f"| `{packet}` | {', '.join(f'`{name}`' for name in names)} | {kind} |\n")
    core = {_packet(o) for o in _core_operators(torch)}
    missing = ", ".join(f"`{name}`" for name in sorted(core - set(found)))
    text = f"* Every other operator runs in PyTorch. Of ATen's core operators, they are: {missing}."
    return HEAD.format(missing=textwrap.fill(text, 120, subsequent_indent="  ", break_on_hyphens=False)) + "".join(rows)


def _packet(overload):
    return str(overload.overloadpacket).replace(".", "::", 1)


def _is_composition(torch, overload):
    return torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd")


def _core_operators(torch):
    for name in (n for n in dir(torch.ops.aten) if not n.startswith("sym_")):  # PyTorch computes numbers
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            found = getattr(packet, overload)
            if torch.Tag.core in found.tags and not _is_composition(torch, found):
                yield found


if __name__ == "__main__":
    sys.exit(write("torch_compile_operators.md", page()))
