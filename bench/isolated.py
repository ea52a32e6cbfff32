#!/usr/bin/env python3
"""Measures a call of an isolated operator that touches one element: spinning, from idle, and with large tensors.

Usage: isolated.py [--rounds N]. micro/isolated.c does the timing, through tenon.h. Large tensors are in the memory
that both sides share, and elsewhere. Limits: 5 us while both sides spin, 40 us from idle, and for shared tensors no
cost that grows with their size.
"""
import argparse
import subprocess

import report

SPINNING_US, IDLE_US = 5, 40


def size_of(size):
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20000)
    options = parser.parse_args()
    program = report.compile_c("isolated.c", *report.LINK_TENON)
    library = report.build_library("touch.c")
    report.warn_when_busy()
    run = subprocess.run([program, library, str(options.rounds)], check=True, stdout=subprocess.PIPE, text=True)
    rows, figures = [], {}
    for name, size, *times in map(str.split, run.stdout.splitlines()):
        figures[f"{name}_{size}"] = dict(zip(("median_us", "p10_us", "p90_us"), (round(float(t) / 1e3, 3) for t in times)))
        rows.append([name, size_of(int(size)), *(f"{float(t) / 1e3:.2f}" for t in times)])
    report.print_table("a call that touches one element, microseconds", ["", "each tensor", "median", "p10", "p90"], rows)
    spinning, idle = figures["spinning_64"]["median_us"], figures["idle_64"]["median_us"]
    small, large = figures["shared_64"]["median_us"], figures[f"shared_{64 << 20}"]["median_us"]
    print(f"limits: spinning {spinning:.2f} of {SPINNING_US} us, idle {idle:.1f} of {IDLE_US} us, 64 MiB shared {large / small:.2f} times 64 bytes")
    report.save("isolated", figures, [["an isolated call, both sides spinning; from idle", f"{spinning:.2f} us; {idle:.0f} us"],
                                      ["the first isolated call after a crash", f"{figures['recovery_64']['median_us'] / 1e3:.1f} ms"],
                                      ["an isolated call with 64 MiB shared, against 64 bytes", f"{large / small:.2f} times"]])


if __name__ == "__main__":
    main()
