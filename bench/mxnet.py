#!/usr/bin/env python3
"""Measures a call of an MXNet library's operator through Tenon, beside a direct call of its `_opCallFCompute`.

Usage: mxnet.py [--rounds N]. micro/mxnet.c does the timing, in one process. The direct call has all of its arrays
made before. One operator is in plain C, another is written against MXNet's own header (if MXNet 1.9 is installed).
"""
import argparse
import os
import subprocess
import sys

import report

sys.path.insert(0, os.path.join(report.ROOT, "tests", "adapters"))
import mxnet_oracle

SOURCES = os.path.join(report.ROOT, "tests", "adapters", "mxnet")
TEXTS = {"direct": "the library's function, called directly", "run": "tenon_op_run", "bound": "tenon_bound_run", "call_into": "tenon_op_call_into", "call": "tenon_op_call and release"}


def libraries():
    """Yields for each kind: its name, the path, and the index of an operator of one input and one output."""
    os.makedirs(report.SCRATCH, exist_ok=True)
    plain, header = (os.path.join(report.SCRATCH, f"lib{name}_bench.so") for name in ("plain", "header"))
    subprocess.run(["cc", "-std=c11", "-w", "-O2", "-fPIC", "-shared", os.path.join(SOURCES, "plain.c"), "-o", plain, "-lm"], check=True)
    yield "plain C", plain, 0
    wheel = mxnet_oracle.package()
    if not wheel:
        print("bench: mxnet: MXNet 1.9.1 is not installed (make test-mxnet makes .venv-mxnet-1.9), so there is no operator against its header", file=sys.stderr)
        return
    subprocess.run(["c++", "-std=c++11", "-w", "-O2", "-fPIC", "-shared", "-DVERSION=11", os.path.join(SOURCES, "header.cc"), os.path.join(wheel, "src", "lib_api.cc"), f"-I{wheel}/include", f"-I{wheel}/include/mxnet", "-o", header], check=True)
    yield "lib_api.h", header, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1001)
    options = parser.parse_args()
    report.warn_when_busy()
    program = report.compile_c("mxnet.c", "-ldl", *report.LINK_TENON)
    figures, rows, headline = {}, [], []
    for kind, path, index in libraries():
        name = os.path.basename(path)[3:-3]
        lines = subprocess.run([program, path, name, str(index), str(options.rounds)], check=True, capture_output=True, text=True).stdout.splitlines()
        figures[kind] = times = {words[0]: float(words[1]) for words in (line.split() for line in lines if len(line.split()) == 3)}
        for way, text in TEXTS.items():
            rows.append([f"{kind}: {text}", f"{times[way]:.0f}", f"{times[way] - times['direct']:.0f}"])
        headline.append([f"an MXNet library's operator ({kind}), tenon_op_run: ns above its own function", f"{times['run'] - times['direct']:.0f}"])
    report.print_table("An operator of an MXNet library, ns for a call", ["", "ns", "above direct"], rows)
    report.save("mxnet", figures, headline)


if __name__ == "__main__":
    main()
