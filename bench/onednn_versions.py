#!/usr/bin/env python3
"""Measures primitives of several builds of oneDNN from PyPI: microseconds for each build, in turns (decision 0054).

The builds are installed into build/bench/onednn (2 GB, most of them for the SYCL build). micro/onednn_versions.c is
compiled once, with the headers of the newest build, and runs with each library. Threads are limited by processors.

Usage: onednn_versions.py [--threads N,...] [--rounds N] [--seconds S] [BUILD...].
"""
import argparse
import os
import subprocess
import sys

import report

FOLDER = os.path.join(report.SCRATCH, "onednn")
RUNTIME = "intel-cmplr-lib-rt==2024.2.1"  # libimf and others, which the wheels for iomp and tbb need and do not require
BUILDS = {
    "gomp": ["onednn-cpu-gomp==2023.2.0"],
    "iomp": ["onednn-cpu-iomp==2023.2.0", RUNTIME],
    "tbb": ["onednn-cpu-tbb==2023.2.0", RUNTIME],
    "sycl": ["onednn==2026.1.0", "onednn-devel==2026.1.0"],
}
CONVOLUTIONS = "64:256:56:1:1", "64:64:56:3:1", "256:256:14:3:1", "1024:256:14:1:1", "144:144:56:3:144"
CASES = [f"conv:f32:{tag}:{shape}" for tag in ("nhwc", "any") for shape in CONVOLUTIONS]
CASES += [f"conv:u8:nhwc:{shape}" for shape in CONVOLUTIONS] + [f"conv:f16:nhwc:{CONVOLUTIONS[1]}"]
CASES += [f"matmul:f32:{shape}" for shape in ("128:768:3072", "128:768:192", "197:384:1536", "197:384:192", "1:768:768", "4:8:8")]
CASES += [f"matmul:{dtypes}:{m}:768:3072" for dtypes in ("u8", "f16", "f32s8", "f32u4") for m in (128, 1)]


def install(name):
    """The folder of a build's libraries, which is installed first if it is missing."""
    folder = os.path.join(FOLDER, name)
    if not os.path.exists(os.path.join(folder, "lib", "libdnnl.so.3")):
        report.progress(f"onednn_versions: installing {name}")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--ignore-installed", "--prefix", folder, *BUILDS[name]], check=True)
    return os.path.join(folder, "lib")


def measure(program, libraries, threads, seconds):
    """Microseconds and the implementation of each case that a build has."""
    processors = sorted(os.sched_getaffinity(0))[-threads:]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "OCL_ICD_FILENAMES": os.path.join(libraries, "libintelocl.so")}
    run = subprocess.run([program, str(threads), str(seconds), *CASES], env=environment, capture_output=True, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, processors))
    if run.returncode != 0:
        raise SystemExit(f"{libraries}: {run.stderr.strip()}")
    rows = (line.split() for line in run.stdout.splitlines() if line.startswith(("conv", "matmul")))
    return {case: (float(time), how) for case, time, how in rows if time != "-"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("builds", nargs="*", metavar="BUILD", help=f"default: {' '.join(BUILDS)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.04, help="time for each case and round")
    options = parser.parse_args()
    names = options.builds or list(BUILDS)
    folders = {name: install(name) for name in names}
    headers = os.path.join(os.path.dirname(install("sycl")), "include")
    program = report.compile_c("onednn_versions.c", f"-I{headers}", f"-L{folders[names[0]]}", "-l:libdnnl.so.3",
                               "-Wl,--allow-shlib-undefined", "-ldl")
    report.warn_when_busy()
    for threads in (int(count) for count in options.threads.split(",")):
        rounds = [{name: measure(program, folders[name], threads, options.seconds) for name in names} for _ in range(options.rounds)]
        cell = lambda case, name: [f"{min(r[name][case][0] for r in rounds):.1f}", rounds[0][name][case][1]] if case in rounds[0][name] else ["-", "-"]
        report.print_table(f"{threads} threads: microseconds (the least of {options.rounds} rounds) and implementation",
                           ["", *(word for name in names for word in (name, ""))], [[case, *sum((cell(case, name) for name in names), [])] for case in CASES])


if __name__ == "__main__":
    main()
