#!/usr/bin/env python3
"""Measures the time from `tenon new` to a run of a model with the new operator, without a cache, and of a reload.

Usage: scaffold.py [--rounds N]
"""
import argparse
import ctypes
import os
import shutil
import subprocess
import time

import report


def timed(command, folder, env):
    begin = time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def scaffold(tenon, folder):
    """Seconds of each step for one new operator."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    env = {**os.environ, "TENON_CACHE": os.path.join(folder, "cache")}
    project = os.path.join(folder, "fresh")
    return {
        "new": timed([tenon, "new", "fresh"], folder, env),
        "build": timed([tenon, "build", "--fresh", "fresh.c"], project, env),
        "run": timed([tenon, "run", "model.onnx", "--ops", "./fresh.so", "-i", "x=random:0", "-d", "rows=3"], project, env),
    }


def reloads(project, rounds):
    """Seconds of tenon_library_reload, each time with another file."""
    path = os.path.join(project, "fresh.so")
    library, handle, times = ctypes.CDLL(os.path.join(report.BUILD, "libtenon.so")), ctypes.c_void_p(), []
    assert library.tenon_library_load(path.encode(), 0, ctypes.byref(handle)) == 0
    for _ in range(rounds):
        shutil.copy(path, path + ".new")
        os.replace(path + ".new", path)
        begin = time.perf_counter()
        assert library.tenon_library_reload(handle, None) == 0
        times.append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    tenon, folder = os.path.join(report.BUILD, "tenon"), os.path.join(report.SCRATCH, "scaffold")
    rounds = []
    for i in range(options.rounds):
        report.progress(f"scaffold: round {i + 1} of {options.rounds}")
        rounds.append(scaffold(tenon, folder))
    times = {name: [one[name] for one in rounds] for name in rounds[0]}
    times["all"] = [sum(one.values()) for one in rounds]
    times["reload"] = reloads(os.path.join(folder, "fresh"), 10 * options.rounds)
    texts = {"new": "tenon new", "build": "tenon build", "run": "tenon run", "all": "all three", "reload": "tenon_library_reload"}
    figures = {name: {"median_ms": round(report.median(t) * 1e3, 3), "p10_ms": round(report.quantile(t, 0.1) * 1e3, 3)} for name, t in times.items()}
    report.print_table("a new operator, milliseconds", ["", "median", "p10"], [[texts[name], f"{f['median_ms']:.2f}", f"{f['p10_ms']:.2f}"] for name, f in figures.items()])
    report.save("scaffold", figures, [["from tenon new to a model that ran with the new operator", f"{figures['all']['median_ms'] / 1e3:.2f} s"],
                                      ["a new build in the place of a loaded library", f"{figures['reload']['p10_ms']:.2f} ms"]])


if __name__ == "__main__":
    main()
