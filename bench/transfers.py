#!/usr/bin/env python3
"""Measures copies of tensors between host and device, and between two devices, beside memcpy of as many bytes.

Usage: transfers.py [--device NAME] [--across NAME] [--rounds N]. micro/transfers.c does the timing in one process,
through tenon.h, with the wait for each copy. Without the device nothing is measured, and a message says so.
"""
import argparse
import subprocess

import report

KEYS = ("memcpy_ns", "pinned_in_ns", "pinned_out_ns", "in_ns", "out_ns")


def size_of(size):
    return f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"


def measure(program, keys, *arguments):
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr.strip().split("\n")[-1]
    lines = [list(map(float, line.split())) for line in run.stdout.splitlines()]
    return {int(line[0]): dict(zip(keys, line[1:])) for line in lines}


def show(title, header, figures, keys):
    rows = [[size_of(size), *(f"{f[key] / 1e3:.1f}" for key in keys), *(f"{f['memcpy_ns'] / f[key]:.2f}" for key in keys[1:])]
            for size, f in figures.items()]
    report.print_table(title, header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--across", default="null", help="the other device of copies between two")
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    program = report.compile_c("transfers.c", *report.LINK_TENON)
    report.warn_when_busy()
    report.progress(f"transfers: host and {options.device}")
    figures = measure(program, KEYS, options.device, options.rounds)
    if isinstance(figures, str):
        print(f"skip: {figures}")
        return
    show(f"host and {options.device} with the wait, microseconds, p10, and how many times as fast as memcpy",
         ["", "memcpy", "pinned in", "out", "other in", "out", "pinned in", "out", "other in", "out"], figures, KEYS)
    report.progress(f"transfers: {options.device} and {options.across}")
    keys = ("memcpy_ns", "there_ns", "back_ns")
    across = measure(program, keys, options.device, "across", options.across, options.rounds)
    if isinstance(across, str):
        print(f"skip: {across}")
        across = {}
    else:
        show(f"{options.device} to {options.across} by way of the host, and back", ["", "memcpy", "there", "back", "there", "back"], across, keys)
    large = [f for size, f in figures.items() if size >= 16 << 20]
    worst, small = min(f["memcpy_ns"] / f[key] for f in large for key in KEYS[1:3]), figures[4096]
    headline = [[f"{options.device}: pinned tensors from 16 MiB up, worst, to memcpy's speed (aim 0.9)", f"{worst:.2f}"],
                [f"{options.device}: a tensor of 4 KiB in, out, with the wait", f"{small['pinned_in_ns'] / 1e3:.0f}, {small['pinned_out_ns'] / 1e3:.0f} us"]]
    for text, figure in headline:
        print(f"  {text}: {figure}")
    if options.device == "opencl":
        report.save("transfers", {"device": options.device, "transfers": figures, "across": {options.across: across}}, headline)


if __name__ == "__main__":
    main()
