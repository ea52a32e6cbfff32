"""Builds the program and checks what its layers saw."""
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main():
    build = os.path.dirname(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layers")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-I", os.path.join(ROOT, "include"), os.path.join(HERE, "layers.c"),
                        "-o", program, "-L", build, "-ltenon", f"-Wl,-rpath,{build}"], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    x, w = np.arange(6).reshape(2, 3) - 2.0, np.arange(6).reshape(3, 2) - 2.0
    total = f"sum {np.maximum(x @ w, 0).sum():.1f}"
    counts = {name: int(calls) for word, calls, name in (line.split() for line in lines if line.startswith("count"))}
    log = [line for line in lines if not line.startswith("count")]
    forward = ["core::matmul f32[2, 3]", "-> f32[2, 2]", "core::relu f32[2, 2]", "-> f32[2, 2]", "core::reduce_sum f32[2, 2]", "-> f32[1, 1]"]
    assert log[:6] == forward, log
    assert log[-2:] == [total, total] and any(line.startswith("core::relu_backward") for line in log[6:-2]), log
    assert counts["core::relu"] == counts["core::relu_backward"] == 2 and counts["core::matmul"] == 4, counts  # two are calls of matmul_backward
    print(f"{sum(counts.values())} calls of {len(counts)} operators were counted, {sum(not line.strip().startswith('->') for line in log) - 2} logged")


if __name__ == "__main__":
    main()
