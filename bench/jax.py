#!/usr/bin/env python3
"""Measures a small operator of Tenon called from a jitted JAX program, beside a handler of the same kernel written by hand in C++ against XLA's headers.

A program calls the operator many times in a row, so that the figures are those of one call inside of a compiled program; "alone" is a program of one call,
with JAX's own time for a call of a jitted function.  Both run in one process, one after the other.  It also measures how long it takes to register the
built-in operators.

Usage: jax.py [--rounds N] [--calls N] [--chain N].  It needs .venv-jax and a C++ compiler, and builds the peer once.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import time

sys.path.pop(0)  # this file is named like the package that it imports
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import report

sys.path.insert(0, os.path.join(report.BUILD, "python"))
MICRO = os.path.join(report.ROOT, "bench", "micro")


def by_hand(jax, np):
    """Builds scale_jax.cc and returns its operator as a function."""
    path, source = os.path.join(report.SCRATCH, "scale_jax.so"), os.path.join(MICRO, "scale_jax.cc")
    os.makedirs(report.SCRATCH, exist_ok=True)
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        subprocess.run(["c++", "-std=c++17", "-O3", "-fPIC", "-shared", "-w", "-I", jax.ffi.include_dir(), source, "-o", path], check=True)
    library = ctypes.CDLL(path)
    jax.ffi.register_ffi_target("scale_by_hand", jax.ffi.pycapsule(library.scale_by_hand), platform="cpu")
    by_hand.library = library
    return lambda x, by: jax.ffi.ffi_call("scale_by_hand", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, by=np.float32(by))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--chain", type=int, default=200, help="calls of the operator in a program")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp
    import numpy as np

    import tenon
    import tenon.jax
    start = time.perf_counter()
    tenon.jax.register("core")
    print(f"registering the {len([n for n in tenon._core.names() if n.startswith('core::')])} built-in operators: {1e3 * (time.perf_counter() - start):.1f} ms")
    ops = {"tenon": tenon.jax.register(tenon.load(os.path.join(MICRO, "scale.c"))).scale, "C++": by_hand(jax, np)}
    report.warn_when_busy()
    for count in 64, 4096, 1 << 20:
        x = jnp.asarray(np.random.default_rng(1).standard_normal(count), jnp.float32)
        chain = options.chain if count < 1 << 20 else 10

        def chained(op, n):
            def program(x):
                for _ in range(n):
                    x = op(x, 1.0001)
                return x
            return jax.jit(program)
        for n, calls in (chain, max(1, options.calls * 200 // chain // max(1, count // 64 // 20))), (1, options.calls * 5):
            programs = {who: chained(op, n) for who, op in ops.items()}
            results = {who: np.asarray(program(x)) for who, program in programs.items()}
            assert np.allclose(results["tenon"], results["C++"], rtol=1e-6), "the results differ"
            figures = {who: [] for who in programs}
            for _ in range(options.rounds):
                for who, program in programs.items():
                    start = time.perf_counter()
                    for _ in range(calls):
                        y = program(x)
                    y.block_until_ready()
                    figures[who].append((time.perf_counter() - start) / calls / n)
            best = {who: min(times) for who, times in figures.items()}
            print(f"{count:8d} elements, {'chain of ' + str(n) if n > 1 else 'alone':12}  " + "  ".join(f"{who} {1e9 * t:9.1f} ns" for who, t in best.items()) +
                  f"   ratio {best['tenon'] / best['C++']:.3f}", flush=True)


if __name__ == "__main__":
    main()
