#!/usr/bin/env python3
"""Measures what recording a call for gradients costs, beside PyTorch's C++ on the same chain of operators.

A chain is 100 pointwise operators on 16 floats.

Usage: autograd.py [--blocks N] [--no-instructions]. micro/autograd.cpp does the timing. It is compiled
against the PyTorch of .venv-zoo if that is installed. Valgrind counts instructions if it is installed.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess

import report

CHAINS = 20  # number of chains whose instructions are counted
LENGTH = 100
TEXTS = {"off": "forward, nothing recorded", "on": "forward, recorded", "on_release": "freeing what was recorded"}


def compile_program():
    os.makedirs(report.SCRATCH, exist_ok=True)
    program = os.path.join(report.SCRATCH, "autograd")
    torch = next(iter(glob.glob(os.path.join(report.ROOT, ".venv-zoo/lib/python3*/site-packages/torch"))), None)
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", f"-I{report.ROOT}/include", f"{report.ROOT}/bench/micro/autograd.cpp", "-o", program, *report.LINK_TENON]
    if torch:
        command += ["-DWITH_TORCH", "-isystem", f"{torch}/include", "-isystem", f"{torch}/include/torch/csrc/api/include",
                    f"-L{torch}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch}/lib"]
    report.progress(f"autograd: compiling {'beside PyTorch' if torch else 'without PyTorch, which .venv-zoo has not'}")
    subprocess.run(command, check=True)
    return program


def count_instructions(program, case):
    """Instructions of one operator, including those that free what was recorded."""
    out = os.path.join(report.SCRATCH, "callgrind.out")
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", "--toggle-collect=measured*",
                    program, "count", case, str(CHAINS)], check=True, capture_output=True)
    text = subprocess.run(["callgrind_annotate", out], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"^ *([\d,]+) .*PROGRAM TOTALS", text, re.M).group(1).replace(",", "")) / (CHAINS * LENGTH)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--blocks", type=int, default=101)
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    options = parser.parse_args()
    if options.blocks < 31:
        parser.error("at least 31 blocks")
    program = compile_program()
    report.warn_when_busy()
    report.progress("autograd: measuring")
    run = subprocess.run([program, "time", str(options.blocks)], check=True, stdout=subprocess.PIPE, text=True)
    times = {name: {"median": float(median), "p10": float(p10)} for name, median, p10 in (line.split() for line in run.stdout.splitlines())}
    peers = ["tenon"] + (["torch"] if "torch_on" in times else [])
    rows = [[TEXTS[case]] + [f"{times[f'{peer}_{case}']['p10']:.1f}" for peer in peers] for case in TEXTS]
    record = {peer: times[f"{peer}_on"]["p10"] - times[f"{peer}_off"]["p10"] for peer in peers}
    rows.append(["recording: the difference"] + [f"{record[peer]:.1f}" for peer in peers])
    report.print_table("one of 100 pointwise operators on 16 floats, one thread, nanoseconds, p10", ["", *peers], rows)
    figures = {"nanoseconds": times, "record": record}
    headline = [["recording an operator for gradients", f"{record['tenon']:.0f} ns"]]
    if "torch" in record:
        figures["ratio"] = record["torch"] / record["tenon"]
        headline.append(["the same in PyTorch's C++, times", f"{figures['ratio']:.1f}"])
        print(f"PyTorch takes {figures['ratio']:.1f} times as long to record")
    if not options.no_instructions and shutil.which("valgrind"):
        report.progress("autograd: counting instructions")
        figures["instructions"] = {case: count_instructions(program, case) for case in ("off", "on")}
        report.print_table("instructions of one operator", ["", "all"], [[case, f"{n:.0f}"] for case, n in figures["instructions"].items()])
    report.save("autograd", figures, headline)


if __name__ == "__main__":
    main()
