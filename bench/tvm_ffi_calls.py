#!/usr/bin/env python3
"""Measures calls between Tenon and tvm-ffi.

A function of tvm-ffi with three tensors is called from C through Tenon (tenon_op_run) and directly: times of rounds that take
turns in one process, and instructions by callgrind.  An operator of Tenon is called from Python through tvm-ffi, beside tvm-ffi's
own function that does nothing.

Usage: .venv-tvm-ffi-0.1.15/bin/python bench/tvm_ffi_calls.py
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import tvm_ffi

import report
from report import BUILD, ROOT

MICRO = os.path.join(ROOT, "bench", "micro")
PACKAGE = os.path.dirname(tvm_ffi.__file__)
sys.path[:0] = [os.path.join(BUILD, "python")]
import tenon.tvm_ffi

CALLS = 20000


def build(folder):
    library, program = os.path.join(folder, "libnop.so"), os.path.join(folder, "calls")
    subprocess.run(["c++", "-std=c++17", "-O3", "-w", "-fPIC", "-shared", f"-I{PACKAGE}/include", f"{MICRO}/tvm_ffi_nop.cc", "-o", library, f"-L{PACKAGE}/lib", "-ltvm_ffi",
                    f"-Wl,-rpath,{PACKAGE}/lib"], check=True)
    subprocess.run(["cc", "-std=gnu11", "-O2", "-w", f"-I{ROOT}/include", f"-I{ROOT}/bridges/tvm_ffi", f"{MICRO}/tvm_ffi_calls.c", "-o", program, f"-L{BUILD}/bridges", "-ltenon_tvm_ffi",
                    f"-L{BUILD}", "-ltenon", f"-Wl,-rpath,{BUILD}/bridges:{BUILD}", "-ldl"], check=True)
    return program, library


def instructions(program, library, way):
    """Instructions of one call: the difference of two runs."""
    counts = []
    for calls in CALLS, 2 * CALLS:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, library, way, str(calls)], capture_output=True, text=True, check=True)
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr).group(1)))
    return (counts[1] - counts[0]) / CALLS


def best(calls, rounds=15, count=5000):
    """The shortest time of a call in nanoseconds, by name; the calls take turns."""
    shortest = dict.fromkeys(calls, 1e9)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(count):
                call()
            shortest[name] = min(shortest[name], (time.perf_counter() - start) / count * 1e9)
    return shortest


def measure_c():
    """Nanoseconds and instructions of a call of a function with three tensors, directly and through Tenon."""
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        program, library = build(folder)
        done = subprocess.run([program, library, "both", "100000"], capture_output=True, text=True, check=True)
        times = dict(zip(("direct", "tenon"), map(float, done.stdout.split())))
        counts = {way: round(instructions(program, library, way)) for way in times} if shutil.which("valgrind") else {}
    return times, counts


def main():
    report.warn_when_busy()
    times, counts = measure_c()
    rows = [[name, f"{times[way]:.1f}", str(counts.get(way, "-"))] for way, name in (("direct", "directly"), ("tenon", "through Tenon"))]
    report.print_table("A function of tvm-ffi with three tensors, from C", ["", "ns", "instructions"], rows)
    x, y = (tvm_ffi.from_dlpack(np.zeros(4, "f4")) for _ in range(2))
    relu, nop = tenon.tvm_ffi.function("core::relu"), tvm_ffi.get_global_func("testing.nop")
    softmax = tenon.tvm_ffi.function("core::softmax")
    python = best({"testing.nop(x, y) of tvm-ffi": lambda: nop(x, y), "core::relu(x, y), written to y": lambda: relu(x, y), "core::relu(x), a new tensor": lambda: relu(x),
                   "core::softmax(x, -1), an attribute and a new tensor": lambda: softmax(x, -1)})
    report.print_table("From Python through tvm-ffi", ["", "ns"], [[name, f"{found:.0f}"] for name, found in python.items()])
    report.save("tvm_ffi_calls", {"times": times, "instructions": counts, "python": python},
                [["a function of tvm-ffi from C: ns more than directly", f"{times['tenon'] - times['direct']:.1f}"],
                 ["core::relu from Python through tvm-ffi, ns", f"{python['core::relu(x, y), written to y']:.0f}"]], "apache-tvm-ffi")


if __name__ == "__main__":
    main()
