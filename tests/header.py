"""tenon/op.h by itself: its length, its standards, and the README's example in each of them; tenon/tenon.hpp in its own."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = os.path.join(ROOT, "include/tenon/op.h")
BUDGET = 400
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", os.path.join(ROOT, "include"), "-c", "-o", os.devnull]

STUB = """#include <tenon/iterator.h>
static tenon_status_t f(const tenon_iterator_t *it) { return it->host->split(it, 1, 0, 0); }
TENON_LIBRARY(a, "1", TENON_EXTEND("core::neg", TENON_STUB("npu f32", f)))
"""


def code_lines(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"//.*", "", text)
    return sum(1 for line in text.splitlines() if line.strip())


def readme_example():
    text = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
    block = re.search(r"```c\n(.*?TENON_LIBRARY.*?)```", text, re.S)
    if not block:
        sys.exit("README.md has no example with TENON_LIBRARY")
    return block.group(1)


def main():
    passed, failed, skipped = 0, [], []
    lines = code_lines(open(HEADER, encoding="utf-8").read())
    print(f"op.h has {lines} lines of code, the budget is {BUDGET}")
    if lines > BUDGET:
        failed.append("op.h is over its budget")
    else:
        passed += 1
    every = (("c99", "c", ("gcc", "clang")), ("c11", "c", ("gcc", "clang")), ("c++11", "cc", ("g++", "clang++")), ("c++20", "cc", ("g++", "clang++")))
    modern = (("c++17", "cc", ("g++", "clang++")), ("c++20", "cc", ("g++", "clang++")))
    program = open(os.path.join(ROOT, "examples/05_program/program.cc"), encoding="utf-8").read()
    test = open(os.path.join(ROOT, "tests/unit/program/hpp_test.cc"), encoding="utf-8").read()
    sources = {"op.h alone": (every, "#include <tenon/op.h>\n"), "graph.h": (every, "#include <tenon/graph.h>\n"), "the README's example": (every, readme_example()), "iterator.h with a stub": (every, STUB),
               "tenon.hpp twice": (modern, "#include <tenon/tenon.hpp>\n" * 2), "examples/05_program": (modern, program), "the test of tenon.hpp": (modern, test)}
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
