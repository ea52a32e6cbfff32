#!/usr/bin/env python3
"""Measures the device cuda beside calls of the driver, cuBLAS and cuDNN: launches, transfers, products, convolutions.

Usage: cuda.py [--rounds N]. micro/cuda.c does the timing. Without a GPU nothing is measured, and a message says so.
"""
import argparse
import os
import subprocess

import report


def rows_of(program, *arguments):
    run = subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split() for line in run.stdout.splitlines()]


def print_convolutions(program, rounds):
    run = subprocess.run([program, "convolutions", str(rounds)], capture_output=True, text=True)
    if run.returncode == 77:
        print(f"skip: convolutions beside cuDNN: {run.stderr.strip()}")
        return
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    rows = []
    for words in (line.split() for line in run.stdout.splitlines()):
        channels, filters, side, taps, step, groups = map(int, words[:6])
        dnn, ours = map(float, words[6:])
        work = 2 * 8 * filters * (side // step) ** 2 * channels // groups * taps**2
        text = f"{channels} to {filters}, {side} x {side}, {taps} x {taps}" + f", step {step}" * (step > 1) + f", {groups} groups" * (groups > 1)
        rows.append([text, f"{dnn / 1e3:.1f}", f"{ours / 1e3:.1f}", f"{ours / dnn:.2f}", f"{work / ours / 1e3:.1f}"])
    report.print_table("convolutions of 8 images of f32, microseconds, p10", ["", "cuDNN", "ours", "ratio", "TFLOP/s"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    folder = os.path.join(report.ROOT, "devices/cuda")
    sources = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".c")]
    program = report.compile_c("cuda.c", "-g", "-D_GNU_SOURCE", "-DTENON_STATIC", f"-I{folder}", *sources, "-ldl", "-pthread")
    about = subprocess.run([program, "about"], capture_output=True, text=True)
    if about.returncode != 0:
        print(f"skip: {about.stderr.strip()}")
        return
    print(about.stdout.strip())
    times = {name: (float(median), float(p10)) for name, median, p10 in rows_of(program, "calls", options.rounds)}
    rows = [[name, f"{times[key][0]:.0f}", f"{times[key][1]:.0f}", f"{times[key][1] / times['raw'][1]:.2f}"]
            for key, name in (("raw", "cuLaunchKernel"), ("launch", "launch"))]
    report.print_table("one launch, nanoseconds (to reach: 1.10)", ["", "median", "p10", "ratio"], rows)
    rows = []
    for words in rows_of(program, "copies", options.rounds):
        size, raw_in, raw_out, our_in, our_out = map(float, words)
        text = f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"
        rows.append([text, *(f"{t / 1e3:.1f}" for t in (raw_in, raw_out, our_in, our_out)), f"{size / our_in:.1f}", f"{size / our_out:.1f}"])
    report.print_table("transfers of pinned memory with the wait for them, microseconds, p10", ["", "driver in", "out", "ours in", "out", "GB/s in", "out"], rows)
    rows = []
    for words in rows_of(program, "products", options.rounds):
        n, blas, ours = map(float, words)
        rows.append([f"{n:.0f}^3", f"{blas / 1e3:.1f}", f"{ours / 1e3:.1f}", f"{ours / blas:.2f}", f"{2 * n**3 / ours / 1e3:.1f}"])
    report.print_table("products of f32, microseconds, p10 (to reach: 1.05 of cuBLAS)", ["", "cuBLAS", "ours", "ratio", "TFLOP/s"], rows)
    print_convolutions(program, options.rounds)


if __name__ == "__main__":
    main()
