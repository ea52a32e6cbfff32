#!/usr/bin/env python3
"""Measures what the switched-off trace costs: instructions of a call beside a build without the tracing code.

Valgrind counts the instructions. The script also measures how many instructions tenon_op_run takes more than a bare
table of kernels that fills in the call, and the memory of an operator. It makes the build without the tracing code
itself, with -DTN_WITHOUT_TRACE, which nothing else sets. Exit status 1: a limit is exceeded.

Usage: trace.py [--calls N]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import report

CASES = ("run", "typed", "call_into", "call")
MOST_FOR_TRACE, MOST_OVER_TABLE, MOST_BYTES = 2, 32, 200  # a limit, and two aims
WITHOUT = os.path.join(report.SCRATCH, "without_trace")


def build_without():
    report.progress("trace: building libtenon without the tracing code")
    cache = open(os.path.join(report.BUILD, "CMakeCache.txt")).read()
    kept = [f"-D{name}={value}" for name, value in re.findall(r"^(CMAKE_BUILD_TYPE|CMAKE_C_COMPILER|CMAKE_C_COMPILER_LAUNCHER|TENON_ONEDNN"
                                                              r"|OneDNN_LIBRARY|OneDNN_INCLUDE_DIR):\w+=(.*)$", cache, re.M)]
    run = dict(check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "-S", report.ROOT, "-B", WITHOUT, "-DTENON_TESTS=OFF", "-DCMAKE_C_FLAGS=-DTN_WITHOUT_TRACE", *kept], **run)
    subprocess.run(["cmake", "--build", WITHOUT, "--target", "tenon", "--parallel", str(os.cpu_count())], **run)


def instructions(program, case, calls, folder):
    """Instructions of one call, with the loop around it."""
    out = os.path.join(report.SCRATCH, "callgrind.trace")
    environment = {**os.environ, "LD_LIBRARY_PATH": folder}
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", "--toggle-collect=measured*",
                    program, "count", case, str(calls)], check=True, capture_output=True, env=environment)
    totals = re.search(r"^(?:summary|totals): (\d+)", open(out).read(), re.M)
    return int(totals[1]) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=10000)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("trace: valgrind is not installed")
    build_without()
    program = report.compile_c("calls.c", *report.LINK_TENON)
    counts, rows, failed = {}, [], []
    for case in ("table", *CASES):
        report.progress(f"trace: {case}")
        counts[case] = {name: round(instructions(program, case, options.calls, folder), 1)
                        for name, folder in (("with", report.BUILD), ("without", WITHOUT))}
        more = counts[case]["with"] - counts[case]["without"]
        rows.append([case, f"{counts[case]['with']:.1f}", f"{counts[case]['without']:.1f}", f"{more:+.1f}"])
        if more > MOST_FOR_TRACE:
            failed.append(f"{case}: the trace costs {more:.1f} instructions while it is off: expected at most {MOST_FOR_TRACE}")
    text = subprocess.run([program, "bytes", "1000", "1"], check=True, capture_output=True, text=True).stdout
    size = int(re.search(r"^bytes (\d+)", text, re.M)[1])
    over = counts["run"]["with"] - counts["table"]["with"]
    report.print_table("instructions of one call, trace off", ["", "with the trace", "without", "more"], rows)
    figures = {"instructions": counts, "run_over_bare_table": round(over, 1), "bytes_per_operator": size}
    headline = [["instructions that the trace costs while it is off", f"{max(c['with'] - c['without'] for c in counts.values()):+.1f}"],
                [f"tenon_op_run over a bare table, instructions (aim {MOST_OVER_TABLE})", f"{over:+.1f}"],
                [f"bytes of an operator with one kernel, 1,000 registered (aim {MOST_BYTES})", str(size)]]
    report.print_table("dispatch", ["", ""], headline)
    report.save("trace", figures, headline)
    for line in failed:
        print(f"FAIL {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
