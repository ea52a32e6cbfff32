#!/usr/bin/env python3
"""Measures `tenon check` of a new operator of each kind that `tenon new` makes, about ten operators in all.

Usage: check.py [--rounds N]. Each library is checked in a process of its own. Limit: 10 s for the whole check of ten
operators on two cores.
"""
import argparse
import os
import re
import shutil
import subprocess
import time

import report

KINDS = ("pointwise", "reduction", "stateful", "mutating", "composite", "source", "library")
LIMIT_S = 10


def made(tenon, folder):
    """Makes and builds a library of each kind. Returns their paths by kind."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    env = {**os.environ, "TENON_CACHE": os.path.join(folder, "cache")}
    for kind in KINDS:
        subprocess.run([tenon, "new", kind, "--kind", kind], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        sources = sorted(name for name in os.listdir(os.path.join(folder, kind)) if name.endswith(".c"))
        subprocess.run([tenon, "build", *sources, "-o", f"{kind}.so"], cwd=os.path.join(folder, kind), env=env, check=True, stdout=subprocess.DEVNULL)
    return {kind: os.path.join(folder, kind, f"{kind}.so") for kind in KINDS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tenon = os.path.join(report.BUILD, "tenon")
    libraries = made(tenon, os.path.join(report.SCRATCH, "check"))
    times, operators, checks = {kind: [] for kind in KINDS}, {}, {}
    for i in range(options.rounds):
        report.progress(f"check: round {i + 1} of {options.rounds}")
        for kind, library in libraries.items():
            begin = time.perf_counter()
            run = subprocess.run([tenon, "check", library], check=True, capture_output=True, text=True)
            times[kind].append(time.perf_counter() - begin)
            checks[kind] = int(re.search(r"(\d+) passed", run.stdout).group(1))
    for kind, library in libraries.items():
        listed = subprocess.run([tenon, "ops", library], check=True, capture_output=True, text=True).stdout
        operators[kind] = len(re.findall(rf"^{kind}::", listed, re.M))
    figures = {kind: {"operators": operators[kind], "checks": checks[kind], "seconds": round(report.median(t), 3)} for kind, t in times.items()}
    count, seconds = sum(operators.values()), sum(f["seconds"] for f in figures.values())
    report.print_table("tenon check", ["", "operators", "checks", "seconds"],
                       [[kind, str(f["operators"]), str(f["checks"]), f"{f['seconds']:.2f}"] for kind, f in figures.items()])
    report.save("check", figures, [[f"tenon check of {count} operators", f"{seconds:.1f} s (limit {LIMIT_S} s for ten)"]])


if __name__ == "__main__":
    main()
