"""Writes docs/support.md, the table of what each built-in operator supports, from the registry.

    scripts/support.py BUILD            writes docs/support.md
    scripts/support.py BUILD --check    fails if docs/support.md is not what the registry says

The registry is read by `tenon ops --json`. The table lists what is declared and registered, not what
the machine at hand would choose, so it is the same on every machine.
"""
import collections
import json
import os
import re
import subprocess
import sys

from page import write

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETS = ("avx512", "avx2")
DTYPE = re.compile(r"\b(bool|[iu]\d+|b?f\d+|c\d+|string)\b")

HEAD = """# Supported combinations

After reading this page you can look up, for each built-in operator, its dtypes, the devices that have a kernel for it,
whether it has a gradient, and how `torch.vmap` treats it. `make support` writes this page from the registry; do not edit
it by hand. For operators of your own, `tenon show NAME --ops LIB` prints the same facts.

## How to read the table

| column | meaning |
|---|---|
| dtypes | The declaration of types ([TENON_TYPES](contract.md)). `number`, `float`, `any` and so on are sets of dtypes. |
| CPU | The kinds of kernels for the CPU: `loop` and `row` kernels are driven by the host; `kernel` is a function of the whole call; `composite` calls other operators; `view` needs no kernel, because the host describes the result as a view of its input. Instruction sets with kernels of their own follow in parentheses; without parentheses one kernel serves every processor. |
| other devices | `source`: kernels for these dtypes are compiled for OpenCL, CUDA and every device that compiles source. `parts`: a composite runs on any device that has its parts. `any`: one kernel serves every device. `-`: the call falls back to the CPU if that fallback is registered, which is counted ([fallback](dispatch.md)); otherwise it is an error. |
| gradient | The operator that computes the gradient; `parts`: it follows from the parts of a composite; `none`: the result does not depend differentiably on any input; `error`: asking for it is an error; `-`: none is declared. |
| batching | `one call`: the operator is pointwise or declares a rule. `repeated`: `torch.vmap` calls it once for each element of the batch. |
| PyTorch | `yes`: `torch.ops` has it. `no`: it takes or returns texts, which PyTorch's tensors cannot hold. |

Hosts: every operator is available in C, C++, Python (NumPy arrays and any tensor with DLPack) and ONNX models.
[PyTorch](pytorch.md) and [MXNet](mxnet.md) describe what these frameworks can pass.

## Operators
"""


def kernels_of(operator):
    """(CPU, other devices) in words."""
    kinds, sets, source = collections.OrderedDict(), set(), []
    for kernel in operator["kernels"]:
        words = kernel.replace(" (chosen)", "").replace(";", "").split()
        if words[0] == "source":
            source += DTYPE.findall(kernel) or ["all dtypes"]
        elif words[0] == "composite":
            kinds["composite"] = True
        elif words[0] == "cpu":
            kinds["loop" if "loop" in words or "stub" in words else "row" if "row" in words else "kernel"] = True
            sets.update(s for s in SETS if s in words)
        if "anywhere" in words:
            source.append("any dtype")
    if not kinds and not source:
        return "view", "view"
    cpu = ", ".join(kinds) or "-"
    if sets:
        cpu += " (" + ", ".join(s for s in SETS if s in sets) + ")"
    others = "source " + ", ".join(dict.fromkeys(source)) if source and source[0] != "any dtype" else "any" if source else "parts" if "composite" in kinds else "-"
    return cpu, others


def gradient_of(operator):
    text = operator["gradient"]
    if text is None:
        return "parts" if "composite" in operator["kernels"] else "-"
    called = re.findall(r"\b\w+::\w+", text)
    if called:
        return ", ".join(f"`{name}`" for name in dict.fromkeys(called))
    formulas = [part.split(":", 1)[-1].strip() for part in text.split(";")]
    return formulas[0] if set(formulas) in ({"none"}, {"error"}) else f"`{text}`"


def batching_of(operator):
    is_one_call = operator["pointwise"] or (operator["batching"] or "none") != "none"
    return "one call" if is_one_call and not operator["random"] else "repeated"


def row(operator):
    cpu, others = kernels_of(operator)
    types = (operator["types"] or "any").replace("|", "\\|")
    has_texts = bool(re.search(r"\bstring\b", operator["types"] or ""))
    only_texts = has_texts and not re.search(r"string\||\|string", operator["types"])
    return "| " + " | ".join([f"`{operator['name']}`", f"`{types}`" if types else "", cpu, others, gradient_of(operator),
                              batching_of(operator), "no" if only_texts else "yes"]) + " |"


def page(build):
    listed = subprocess.run([os.path.join(build, "tenon"), "ops", "--json"], capture_output=True, text=True, check=True)
    operators = sorted(json.loads(listed.stdout), key=lambda o: o["name"])
    rows = [row(o) for o in operators]
    return HEAD + "| operator | dtypes | CPU | other devices | gradient | batching | PyTorch |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(write("support.md", page(os.path.abspath(sys.argv[1]))))
