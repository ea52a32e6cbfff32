"""The public headers: how many declarations tenon/op.h has; that each header compiles by itself in every standard; the README's example.

A declaration of op.h is what its reader must know by name: a macro, an enumerator, a field of a structure or union, a type, or a function.
Lines, comments, include guards, and the bodies of functions and macros do not count, so that op.h can be laid out to be read.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = os.path.join(ROOT, "include/tenon/op.h")
BUDGET = 376  # declarations of op.h in contract 1.0.  What is added to the contract raises this number, which is then a decision.
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", os.path.join(ROOT, "include"), "-c", "-o", os.devnull]

STUB = """#include <tenon/iterator.h>
static tenon_status_t f(const tenon_iterator_t *it) { return it->host->split(it, 1, 0, 0); }
TENON_LIBRARY(a, "1", TENON_EXTEND("core::neg", TENON_STUB("npu f32", f)))
"""


def bare(text):
    """The text without comments, and with each macro on one line."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S).replace("\\\n", " ")


def without_bodies(text):
    """The text with `;` in place of the body of each function."""
    result, start = "", 0
    for opening in re.finditer(r"\)\s*(?:noexcept\s*)?\{", text):
        if opening.start() < start:
            continue
        depth, end = 1, opening.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        result += text[start:opening.start() + 1] + ";"
        start = end
    return result + text[start:]


def names_in(declaration):
    """How many names one declaration has: `int32_t type, id` has two.  Commas between parameters do not count."""
    outside = declaration
    while re.search(r"\([^()]*\)", outside):
        outside = re.sub(r"\([^()]*\)", "", outside)
    return 1 + outside.count(",")


def count_declarations(text):
    text = bare(text)
    macros = len(re.findall(r"^\s*#\s*define\b", text, re.M)) - 1  # the include guard
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = without_bodies(re.sub(r'extern "C" \{|template\s*<.*>', "", text))
    enumerators = sum(names_in(body.rstrip().rstrip(",")) for body in re.findall(r"\benum\s*\{([^}]*)\}", text))
    text = re.sub(r"\benum\s*\{[^}]*\}\s*;", "", text)
    return macros + enumerators + sum(names_in(re.sub(r".*\{", "", part, flags=re.S)) for part in text.split(";") if re.search(r"\w", part))


def readme_example():
    text = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
    block = re.search(r"```c\n(.*?TENON_LIBRARY.*?)```", text, re.S)
    if not block:
        sys.exit("README.md has no example with TENON_LIBRARY")
    return block.group(1)


def main():
    passed, failed, skipped = 0, [], []
    with open(HEADER, encoding="utf-8") as file:
        count = count_declarations(file.read())
    print(f"op.h has {count} declarations, the budget is {BUDGET}")
    if count > BUDGET:
        failed.append(f"op.h has {count} declarations, and its budget is {BUDGET}: raise BUDGET in tests/header.py if the contract is meant to grow")
    else:
        passed += 1
    every = (("c99", "c", ("gcc", "clang")), ("c11", "c", ("gcc", "clang")), ("c++11", "cc", ("g++", "clang++")), ("c++20", "cc", ("g++", "clang++")))
    modern = (("c++17", "cc", ("g++", "clang++")), ("c++20", "cc", ("g++", "clang++")))
    program = open(os.path.join(ROOT, "examples/05_program/program.cc"), encoding="utf-8").read()
    test = open(os.path.join(ROOT, "tests/unit/program/hpp_test.cc"), encoding="utf-8").read()
    sources = {"op.h alone": (every, "#include <tenon/op.h>\n"), "graph.h": (every, "#include <tenon/graph.h>\n"), "the README's example": (every, readme_example()), "iterator.h with a stub": (every, STUB),
               "tenon.hpp twice": (modern, "#include <tenon/tenon.hpp>\n" * 2), "examples/05_program": (modern, program), "the test of tenon.hpp": (modern, test)}
    oldest = (("c99", "c", ("gcc", "clang")), ("c++11", "cc", ("g++", "clang++")))
    for header in sorted(glob.glob("tenon/**/*.h", root_dir=os.path.join(ROOT, "include"), recursive=True)):
        sources[f"{header} by itself"] = (oldest, f"#include <{header}>\n")
    example_lines = len([line for line in readme_example().splitlines() if line.strip()])
    print(f"the README's example has {example_lines} lines")
    with tempfile.TemporaryDirectory() as folder:
        for what, (standards, text) in sources.items():
            for standard, suffix, compilers in standards:
                source = os.path.join(folder, f"example.{suffix}")
                open(source, "w", encoding="utf-8").write(text)
                for compiler in compilers:
                    if not shutil.which(compiler):
                        skipped.append(f"skip: {compiler} is not installed (apt-get install clang)")
                        continue
                    run = subprocess.run([compiler, f"-std={standard}", source, *FLAGS], capture_output=True, text=True)
                    if run.returncode == 0:
                        passed += 1
                    else:
                        failed.append(f"{what} as {standard} by {compiler}:\n{run.stderr}")
    print("\n".join(sorted(set(skipped)) + failed))
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
