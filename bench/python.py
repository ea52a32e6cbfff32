#!/usr/bin/env python3
"""Measures a call from Python with three tensors that does nothing, beside C functions and tvm-ffi; and the first call.

The calls run in one process, one after the other: Tenon with the interpreter lock kept and with the lock released, a
C function that takes three objects, a C function that also asks PyTorch for views of its tensors, and tvm-ffi. The
first call of a program is measured in processes of its own.

Usage: python.py [--rounds N] [--calls N]. It needs the PyTorch and the tvm-ffi of .venv-zoo.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import sysconfig
import timeit

import report

PACKAGE = os.path.join(report.BUILD, "python")
MICRO = os.path.join(report.ROOT, "bench", "micro")
FIRST = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch, {}
x = torch.ones(4)
begin = time.perf_counter()
{}
print((time.perf_counter() - begin) * 1e3)
"""
FIRST_CALLS = {"import, load, call": ("sys", "import tenon; tenon.load(sys.argv[2]).gelu(x)"),
               "import, load, register, call by torch.ops": ("sys", "import tenon, tenon.torch; tenon.torch.register(tenon.load(sys.argv[2])); torch.ops.demo.gelu(x)"),
               "register PyTorch's own way in Python, call": ("torch.library", "op = torch.library.custom_op('peer::same', lambda x: x.clone(), mutates_args=(), schema='(Tensor x) -> Tensor'); torch.ops.peer.same(x)")}


def functions_by_hand():
    path = os.path.join(report.SCRATCH, "by_hand.so")
    os.makedirs(report.SCRATCH, exist_ok=True)
    subprocess.run([report.CC, "-O2", "-fPIC", "-shared", f"-I{sysconfig.get_paths()['include']}", os.path.join(MICRO, "by_hand.c"), "-o", path], check=True)
    spec = importlib.util.spec_from_file_location("by_hand", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_calls(rounds):
    """Milliseconds of the first call in a process that has imported PyTorch."""
    library = os.path.join(report.SCRATCH, "gelu.so")
    subprocess.run([os.path.join(report.BUILD, "tenon"), "build", os.path.join(report.ROOT, "examples/01_gelu/gelu.c"), "-o", library], check=True, stdout=subprocess.DEVNULL)
    times = {name: [] for name in FIRST_CALLS}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}  # as after an earlier run of the program
    for _ in range(rounds + 1):
        for name, parts in FIRST_CALLS.items():
            done = subprocess.run([sys.executable, "-c", FIRST.format(*parts), PACKAGE, library], check=True, capture_output=True, text=True, env=environment)
            times[name].append(float(done.stdout))
    return {name: values[1:] for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=20000)
    options = parser.parse_args()
    sys.path.insert(0, PACKAGE)
    import numpy
    import torch
    import tvm_ffi

    import tenon
    ops, nothing = tenon.load(os.path.join(MICRO, "nothing.c")), tvm_ffi.get_global_func("testing.nop")
    report.warn_when_busy()
    arrays = {"torch": [torch.ones(4) for _ in range(3)], "NumPy": [numpy.ones(4, numpy.float32) for _ in range(3)]}
    arrays["prebuilt"] = [tenon.tensor([1.0], "f32") for _ in range(3)]
    peers = {**arrays, "prebuilt": [tvm_ffi.from_dlpack(x) for x in arrays["NumPy"]]}
    by_hand = functions_by_hand()
    who = {"empty": (by_hand.empty, arrays), "views": (by_hand.views, arrays), "brief": (ops.brief, arrays), "lock given up": (ops.long, arrays), "tvm-ffi": (nothing, peers)}
    timers = {(kind, name): timeit.Timer("f(x, y, z)", globals=dict(zip("xyz", of[kind]), f=f)) for kind in arrays for name, (f, of) in who.items() if name != "views" or kind == "torch"}
    for timer in timers.values():
        timer.timeit(1000)
    times = {key: [] for key in timers}
    for _ in range(options.rounds):
        for key, timer in timers.items():
            times[key].append(timer.timeit(options.calls) / options.calls * 1e9)
    figures = {kind: {name: report.median(times[kind, name]) for name in who if (kind, name) in times} for kind in arrays}
    rows = [[kind, *(f"{f[name]:.0f}" if name in f else "" for name in who), f"{f['brief'] - f['empty']:.0f}", f"{f['lock given up'] - f['empty']:.0f}", f"{f['tvm-ffi'] / f['brief']:.1f}"] for kind, f in figures.items()]
    report.print_table("a call with three tensors, ns", ["", *who, "brief - empty", "lock given up - empty", "tvm-ffi / brief"], rows)
    first = {name: report.median(values) for name, values in first_calls(5).items()}
    report.print_table("the first call, with PyTorch imported, ms", ["", ""], [[name, f"{value:.1f}"] for name, value in first.items()])
    headline = [[f"call from Python, three tensors ({kind}): ns above an empty C function; tvm-ffi's time over it", f"{f['brief'] - f['empty']:.0f}; {f['tvm-ffi'] / f['brief']:.1f}"] for kind, f in figures.items()]
    headline += [[f"first call from Python: {name}, ms", f"{value:.1f}"] for name, value in first.items()]
    report.save("python", {"nanoseconds": figures, "first_call_milliseconds": first}, headline, "torch", "numpy", "apache-tvm-ffi")


if __name__ == "__main__":
    main()
