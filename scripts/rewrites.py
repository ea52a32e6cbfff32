"""Writes docs/rewrites.md, the page about the rules by which graphs are rewritten, with a picture of each rule.

    scripts/rewrites.py BUILD            writes docs/rewrites.md
    scripts/rewrites.py BUILD --check    fails if docs/rewrites.md does not show the rules of `tenon ops --rewrites`
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "rewrites.md")
WORD = re.compile(r"[(),|]|[^(),|\s]+")

HEAD = """# Rewriting rules

After reading this page you can see what the compiler replaced in a graph, turn a rule off, and write rules for operators of
your own. `make support` writes the list of rules from `tenon ops --rewrites`.

## See and turn off

```
tenon run model.onnx --dump rewrites              # how often each rule was applied; the model is not run
tenon run model.onnx --without gelu,layer_norm    # without these rules
tenon run model.onnx --optimize plain             # without any
tenon ops --rewrites                              # all rules, in the order in which they are applied
```
```python
run = graph.compile(without="gelu,layer_norm")
print(run.dump("rewrites"))
```
In C, set `without` of `tenon_compile_t`, and call `tenon_executable_dump` with `"rewrites"`. A name that no rule has is an
error, which suggests a similar one. The switches hold in the
bodies of `If`, `Loop` and `Scan` too.

## Rules of your own

A library can declare a rule. Every program that has loaded the library then compiles graphs with it, after constants are
folded and before the built-in rules:
```c
#include <tenon/graph.h>

TENON_LIBRARY(mylib, "1.0.0",
  TENON_REWRITE("gate: core::mul(core::relu(x), y) -> gated(x, y)"),
  TENON_OP("gated(Tensor x, Tensor y) -> Tensor", ...))
```
The rule has the name `mylib::gate`. It applies where all of this holds:

* Nothing else reads the values between: if a second node reads `relu(x)`, both nodes stay.
* The result has the same dtype and shape as before.
* Attributes that the rule does not mention have their defaults, and operands that it does not mention are absent.

| text | what it matches |
|---|---|
| `add(x, y)` | A node of this operator. Operators without a namespace are those of the library. Operands of `add`, `mul`, `max` and `min` match in both orders. |
| `x` | Any value; the same one wherever the name stands. |
| `x?` | The same, or an operand that is absent. |
| `1`, `0.5` | A constant with one element: an integer exactly, another number up to 1e-4 of it (in f16 and bf16 up to half a step), because models store rounded numbers. |
| `$a` | A constant with one element. The replacement can use it as an attribute: `alpha=a`. |
| `[-1]` | A constant list of axes. |
| `None` | An operand that is absent. |
| `axis=a`, `axis=-1`, `approximate='tanh'` | An attribute: any value, which `a` then stands for, or this value. |
| `(f(x) \\| g(x))` | One of these. |

The replacement is one call, whose operands are names, or one name. A text that is not a rule is an error when the library is
loaded; the message has the column.

## The rules

Where the description has alternatives, the picture shows the first one.
"""


def rules(build):
    """(name, before, after, condition) of each built-in rule."""
    run = subprocess.run([os.path.join(build, "tenon"), "ops", "--rewrites"], capture_output=True, text=True, check=True)
    found = []
    for line in run.stdout.splitlines():
        if line.startswith(" "):
            found[-1][3] = line.strip()
            continue
        name, _, text = line.partition(": ")
        before, _, after = text.rpartition(" -> ")
        found.append([name, before, after, ""])
    return found


def parse(words):
    """A term as (word, operands); of a choice the first alternative."""
    word = words.pop(0)
    if word == "(":
        term = parse(words)
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(words.pop(0), 0)
        return term
    operands = []
    if words and words[0] == "(":
        words.pop(0)
        while words[0] != ")":
            if words[0] == ",":
                words.pop(0)
            operands.append(parse(words))
        words.pop(0)
    return word, operands


def draw(term, prefix, lines, known):
    """Adds the nodes of a term to the lines of a flowchart; returns the name of its last node."""
    if repr(term) in known:
        return known[repr(term)]
    word, operands = term
    sources = [draw(operand, prefix, lines, known) for operand in operands if "=" not in operand[0]]
    attributes = "".join(f" {operand[0]}" for operand in operands if "=" in operand[0])
    name = known[repr(term)] = f"{prefix}{len(known)}"
    label = (word + attributes).replace('"', "'")
    lines.append(f'{name}["{label}"]' if operands else f'{name}(["{label}"])')
    lines += [f"{source} --> {name}" for source in sources]
    return name


def picture(before, after):
    lines = []
    for side, text in ("before", before), ("after", after):
        inner = []
        draw(parse(WORD.findall(text)), side[0], inner, {})
        lines += [f"  subgraph {side}", *(f"    {line}" for line in inner), "  end"]
    return "\n".join(["```mermaid", "flowchart LR", *lines, "```"])


def page(build):
    text = HEAD
    for name, before, after, condition in rules(build):
        text += f"\n### {name}\n\n```\n{before}\n  -> {after}\n```\n"
        text += f"{condition}\n\n" if condition else "\n"
        text += picture(before, after) + "\n"
    return text


def main():
    text = page(sys.argv[1])
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(PAGE, encoding="utf-8") as file:
        is_current = file.read() == text
    if not is_current:
        print("docs/rewrites.md does not show the rules of tenon ops --rewrites: run make support")
    return int(not is_current)


if __name__ == "__main__":
    sys.exit(main())
