#!/usr/bin/env python3
"""Measures `tenon build` of the first example, compiled and from the cache, beside the plain compiler command.

Usage: build.py [--rounds N]. The commands work on the same file and take turns. A program also loads the source and
the built library.
"""
import argparse
import ctypes
import os
import subprocess
import time

import report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.makedirs(report.SCRATCH, exist_ok=True)
    source, output = os.path.join(report.ROOT, "examples/01_gelu/gelu.c"), os.path.join(report.SCRATCH, "gelu.so")
    tenon, include = os.path.join(report.BUILD, "tenon"), os.path.join(report.ROOT, "include")
    commands = {
        "tenon": [tenon, "build", "--fresh", source, "-o", output],
        "unchecked": [tenon, "build", "--fresh", "--no-check", source, "-o", output],
        "cached": [tenon, "build", source, "-o", output],
        "compiler": [report.CC, "-O3", "-fPIC", "-shared", f"-I{include}", source, "-o", output, "-lm"],
    }
    times = {name: [] for name in commands}
    for i in range(options.rounds):
        report.progress(f"build: round {i + 1} of {options.rounds}") if i % 5 == 0 else None
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    library = ctypes.CDLL(os.path.join(report.BUILD, "libtenon.so"))
    times.update(load_source=[], load=[])
    for _ in range(options.rounds):  # TENON_LOAD_UNLOADABLE, so that each load is the first
        for name, call, path in ("load_source", library.tenon_library_load_source, source), ("load", library.tenon_library_load, output):
            handle, begin = ctypes.c_void_p(), time.perf_counter()
            assert call(path.encode(), 2, ctypes.byref(handle)) == 0
            times[name].append(time.perf_counter() - begin)
            assert library.tenon_library_unload(handle) == 0
    texts = {"tenon": "tenon build --fresh", "unchecked": "tenon build --fresh --no-check", "cached": "tenon build, from the cache", "load_source": "tenon_library_load_source, from the cache",
             "load": "tenon_library_load", "compiler": f"{os.path.basename(report.CC)} -O3 -fPIC -shared"}
    figures = {name: {"median_ms": round(report.median(t) * 1e3, 2), "p10_ms": round(report.quantile(t, 0.1) * 1e3, 2)} for name, t in times.items()}
    figures["ratio"] = round(report.median([ours / theirs for ours, theirs in zip(times["tenon"], times["compiler"])]), 3)
    rows = [[texts[name], f"{f['median_ms']:.1f}", f"{f['p10_ms']:.1f}", f"{f['p10_ms'] / figures['compiler']['p10_ms']:.2f}"]
            for name, f in figures.items() if name != "ratio"]
    report.print_table("building gelu.c, milliseconds", ["", "median", "p10", "ratio"], rows)
    report.save("build", figures, [["tenon build over the plain compiler command", f"{figures['ratio']:.2f} times, {figures['tenon']['p10_ms']:.0f} ms"],
                                   ["a library from source, loaded from the cache", f"{figures['load_source']['p10_ms']:.1f} ms"]])


if __name__ == "__main__":
    main()
