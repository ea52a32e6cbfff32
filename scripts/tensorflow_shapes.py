"""Writes the table of docs/tensorflow.md that says where TensorFlow gets the shapes of the built-in operators from.

    .venv-tensorflow/bin/python scripts/tensorflow_shapes.py BUILD             writes the table
    .venv-tensorflow/bin/python scripts/tensorflow_shapes.py BUILD --check     fails if the table is not what the operators say
"""
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "tensorflow.md")
MARKS = "<!-- shapes: written by make tensorflow-shapes -->\n", "<!-- end of shapes -->"


def table(build):
    sys.path.insert(0, os.path.join(os.path.abspath(build), "python"))
    import tensorflow  # noqa: F401
    import tenon.tensorflow
    from tenon._calls import traits_of
    core = tenon.tensorflow.register("core")
    groups = {"in C, pointwise": [], "in C, others": [], "in Python": [], "left out": []}
    for name, where in core.shapes().items():
        kind = where if where == "in Python" else "in C, pointwise" if "pointwise" in traits_of(name) else "in C, others"
        groups[kind].append(name)
    groups["left out"] = list(core.left_out)
    parts = []
    for group, names in groups.items():
        words = ", ".join(sorted(name.split("::")[1] for name in names))
        parts.append(textwrap.fill(f"* {group} ({len(names)}): {words}", 126, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(parts) + "\n"


def main():
    begin, end = MARKS
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    found = re.search(re.escape(begin) + "(.*?)" + re.escape(end), page, re.S)
    made = table(sys.argv[1])
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page[:found.start(1)] + made + page[found.end(1):])
    elif found.group(1) != made:
        sys.exit("the table of shapes in docs/tensorflow.md is not what the operators say: run `make tensorflow-shapes`")


if __name__ == "__main__":
    main()
