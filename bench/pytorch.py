#!/usr/bin/env python3
"""Measures a small operator of Tenon called through torch.ops, beside the same operator written by hand in C++.

One peer uses TORCH_LIBRARY with an autograd::Function, another PyTorch's stable interface. "tenon" is recorded by the
compiled node (tenon.torch.compile_autograd), "tenon, Python" without it. All run in one process, one after the other.

Usage: pytorch.py [--rounds N] [--calls N] [--count N]. It needs the PyTorch of .venv-zoo and a C++ compiler, and
builds the peers once.
"""
import argparse
import os
import subprocess
import sys
import time

import report

sys.path.insert(0, os.path.join(report.BUILD, "python"))
MICRO = os.path.join(report.ROOT, "bench", "micro")


def peers(torch):
    """Builds scale_torch.cc into the build folder."""
    path, source = os.path.join(report.SCRATCH, "scale_torch.so"), os.path.join(MICRO, "scale_torch.cc")
    os.makedirs(report.SCRATCH, exist_ok=True)
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        report.progress("pytorch: building the operators by hand: a minute")
        root = os.path.dirname(torch.__file__)
        folders = [f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include"]
        subprocess.run(["c++", "-std=c++20", "-O3", "-fPIC", "-shared", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", *folders, source, "-o", path,
                        f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
    torch.ops.load_library(path)


def registered_for_python(tenon):
    """Registers a copy of the operator in another namespace, whose calls are recorded in Python."""
    path = os.path.join(report.SCRATCH, "scale_python.c")
    with open(os.path.join(MICRO, "scale.c"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as copy:
        copy.write(source.read().replace("TENON_LIBRARY(bench", "TENON_LIBRARY(bench_python").replace("bench::", "bench_python::"))
    os.environ["TENON_TORCH_AUTOGRAD"] = "python"
    tenon.torch.register(tenon.load(path))
    del os.environ["TENON_TORCH_AUTOGRAD"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--count", type=int, default=64, help="elements")
    options = parser.parse_args()
    import torch

    import tenon
    import tenon.torch
    peers(torch)
    tenon.torch.compile_autograd()
    tenon.torch.register(tenon.load(os.path.join(MICRO, "scale.c")))
    registered_for_python(tenon)
    report.warn_when_busy()
    torch.set_num_threads(1)
    ops = {"tenon": torch.ops.bench.scale, "C++": torch.ops.peer.scale, "stable": torch.ops.peer_stable.scale}
    recorders = {"tenon": ops["tenon"], "C++": ops["C++"], "tenon, Python": torch.ops.bench_python.scale}
    x, w = torch.randn(options.count), torch.randn(options.count, requires_grad=True)
    for op in {**ops, **recorders}.values():
        assert torch.equal(op(x, 1.5), x * 1.5)

    def plain(op):
        op(x, 1.5)

    def there_and_back(op):
        op(w, 1.5).backward(x)

    def recorded(op):
        op(w, 1.5)
    cases = {"inference mode": (plain, torch.inference_mode, ops), "no gradient wanted": (plain, torch.enable_grad, ops),
             "recorded": (recorded, torch.enable_grad, recorders), "recorded, and back": (there_and_back, torch.enable_grad, recorders)}
    figures = {name: {who: [] for who in peers} for name, (_, _, peers) in cases.items()}
    for _ in range(options.rounds):
        for name, (call, mode, peers_of) in cases.items():
            with mode():
                for who, op in peers_of.items():
                    call(op)
                    begin = time.perf_counter()
                    for _ in range(options.calls):
                        call(op)
                    figures[name][who].append((time.perf_counter() - begin) / options.calls * 1e9)
    figures = {name: {who: {"median": report.median(values), "least": min(values)} for who, values in row.items()} for name, row in figures.items()}
    rows = [[name, who, f"{f['median']:.0f}", f"{f['least']:.0f}", f"{row['tenon']['median'] / f['median']:.2f}"] for name, row in figures.items() for who, f in row.items()]
    report.print_table(f"torch.ops, {options.count} elements, ns for a call", ["", "", "median", "least", "Tenon's to it"], rows)
    headline = [[f"torch.ops, {name}: ns, times the {who} operator's", f"{row['tenon']['median']:.0f}, {row['tenon']['median'] / row[who]['median']:.2f}"]
                for name, row in figures.items() for who in row if who != "tenon"]
    report.save("pytorch", {"count": options.count, "nanoseconds": figures}, headline)


if __name__ == "__main__":
    main()
