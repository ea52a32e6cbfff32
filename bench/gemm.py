#!/usr/bin/env python3
"""Measures products of matrices on OpenCL beside CLBlast's, tuned by its own tuner on this machine, and on the CPU.

Usage: gemm.py [--rounds N] [--size N] [--tune]. micro/gemm.c does the timing, in one process. CLBlast is Debian's
libclblast1, its tuner clblast-utils; without them it is left out, and a message says so. The tuner's result is kept
in the build folder; --tune runs the tuner again (some minutes).
"""
import argparse
import json
import os
import shutil
import subprocess

import report

TEXTS = {"opencl": "core::matmul on opencl", "clblast": "CLBlast, tuned", "cpu": "core::matmul on the CPU (oneDNN)"}


def tuned(size, anew):
    """The best parameters that the tuner found, as NAME=VALUE,...; "" without a tuner."""
    folder = os.path.join(report.SCRATCH, f"clblast-{size}")
    os.makedirs(folder, exist_ok=True)
    files = [os.path.join(folder, name) for name in ("clblast_xgemm_1_32.json", "clblast_xgemm_2_32.json", "clblast_xgemm_11_32.json", "clblast_xgemm_12_32.json")]
    if anew or not any(os.path.exists(name) for name in files):
        if not shutil.which("clblast_tuner_xgemm"):
            return ""
        report.progress(f"gemm: CLBlast's tuner, {size} x {size}: some minutes")
        subprocess.run(["clblast_tuner_xgemm", "-precision", "32", *(w for k in "mnk" for w in (f"-{k}", str(size)))], cwd=folder, stdout=subprocess.DEVNULL)
    found = [result for name in files if os.path.exists(name) for result in json.load(open(name))["results"]]
    best = min(found, key=lambda result: result["time"])
    return ",".join(f"{name}={value}" for name, value in best["parameters"].items() if name != "PRECISION")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--tune", action="store_true", help="run CLBlast's tuner anew")
    options = parser.parse_args()
    subprocess.run(["cmake", "--build", report.BUILD, "--target", "tenon_internal"], check=True, stdout=subprocess.DEVNULL)
    libraries = os.path.join(report.ROOT, ".venv", "lib")
    program = report.compile_c("gemm.c", "-DTENON_STATIC", f"-I{report.ROOT}/src", f"-I{report.ROOT}/devices",
                               os.path.join(report.BUILD, "libtenon_internal.a"), f"-L{libraries}", f"-Wl,-rpath,{libraries}",
                               "-l:libdnnl.so.3", "-lgomp", "-ldl", "-lm", "-pthread")
    report.warn_when_busy()
    parameters = tuned(options.size, options.tune)
    run = subprocess.run([program, str(options.size), str(options.rounds), *([parameters] if parameters else [])], capture_output=True, text=True)
    if run.returncode != 0:
        print(f"skip: {run.stderr.strip()}")
        return
    figures = {"size": options.size, "parameters": parameters, "seconds": {}}
    for line in run.stdout.splitlines():
        name, median, least = line.split()
        figures["seconds"][name] = {"median": float(median), "least": float(least)}
    work, t = 2e-9 * options.size**3, figures["seconds"]
    report.print_table(f"a product of {options.size} x {options.size} matrices of f32", ["", "median ms", "GFLOP/s", "best", "Tenon's opencl to it"],
                       [[TEXTS[c], f"{f['median'] * 1e3:.1f}", f"{work / f['median']:.1f}", f"{work / f['least']:.1f}", f"{f['median'] / t['opencl']['median']:.2f}"]
                        for c, f in t.items()])
    if "clblast" not in t:
        print("skip: CLBlast is not installed (libclblast1, clblast-utils)")
    headline = [["opencl: matmul, GFLOP/s", f"{work / t['opencl']['median']:.1f}"]]
    headline += [["opencl: matmul, times CLBlast's speed", f"{t['clblast']['median'] / t['opencl']['median']:.2f}"]] if "clblast" in t else []
    headline += [["opencl: matmul, times the CPU's speed", f"{t['cpu']['median'] / t['opencl']['median']:.2f}"]]
    report.save("gemm", figures, headline)


if __name__ == "__main__":
    main()
