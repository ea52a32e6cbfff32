"""Writes docs/torch_operators.md, the operators of PyTorch that operators of Tenon compute on a device, from the tables.

    scripts/torch_operators.py             writes the page (with .venv-zoo's Python, and PYTHONPATH=build/python)
    scripts/torch_operators.py --check     fails if the page is not what the tables say
"""
import sys

from page import write

HEAD = """# Operators of PyTorch on a Tenon device

After reading this page you can tell which operators of Tenon compute an operator of PyTorch on a
[Tenon device in PyTorch](torch_device.md), and so which kernels a device needs. `make support` writes this page; do not
edit it by hand. Names are the arguments of PyTorch's operator. `raw(x)` is an argument without promotion to the common
dtype. A cell with several lines lists alternatives: the first one whose condition holds and that the device serves is
used. The names in a nested call are needed, too: `aten::addmm` needs `core::matmul` and `core::add`.

Operators that PyTorch itself decomposes (`aten::linear` calls `aten::addmm`) are not listed.

| operator of PyTorch | computed by |
|---|---|
"""


def page():
    from tenon.torch.device import operators
    rows = {aten: list(texts) for aten, texts in operators.table().items()}
    for aten, names in operators.COMPOSITES.items():
        rows.setdefault(aten, []).append(f"several calls of {', '.join(names)}")
    lines = []
    for aten, texts in sorted(rows.items()):
        cells = [t if t.startswith("several") else "`" + t.replace(" if ", "` if ", 1) + ("" if " if " in t else "`") for t in texts]
        lines.append(f"| `{aten}` | {'<br>'.join(cells)} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    sys.exit(write("torch_operators.md", page()))
