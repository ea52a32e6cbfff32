#!/usr/bin/env python3
"""Measures what a call costs beside a direct C call of the same kernel: one hot operator, walks over many, two threads.

Usage: calls.py [--rounds N] [--no-instructions]. micro/calls.c does the timing. Valgrind counts instructions if it is
installed.
"""
import argparse
import os
import re
import shutil
import subprocess

import report

OPS = (10, 1000, 100000)
COUNTED = ("direct", "bare", "table", "run", "values", "bound", "stateful", "stateful_bound", "source", "source_bound", "typed", "inferred", "layer", "fallback", "loop", "loop_call_into", "call_into", "call", "call_into_4", "call_4", "loop_call_into_4", "inferred_call_into_4")
CALLS = 10000  # calls of a case whose instructions are counted
TEXTS = {
    "direct": "direct call in C",
    "bare": "bare table: one load, one jump",
    "table": "bare table, the call filled in",
    "values": "tenon_op_call_values, results given",
    "run": "tenon_op_run",
    "bound": "tenon_bound_run",
    "stateful": "tenon_op_run, operator with 8 states by attributes",
    "stateful_bound": "tenon_bound_run, operator with state",
    "source": "tenon_op_call_into, source with 8 states",
    "source_bound": "tenon_bound_call_into, source on a device",
    "typed": "tenon_op_run, kernel for some dtypes",
    "inferred": "tenon_op_run, operator with infer",
    "layer": "tenon_op_run under an empty layer",
    "fallback": "tenon_op_run falling back to the CPU, no bytes",
    "loop": "tenon_op_run, loop on 1 element",
    "loop_call_into": "tenon_op_call_into, loop on 1 element",
    "call_into": "tenon_op_call_into",
    "call": "tenon_op_call and release",
    "call_into_4": "tenon_op_call_into, rank 4",
    "call_4": "tenon_op_call and release, rank 4",
    "loop_call_into_4": "tenon_op_call_into, rank 4, loop on 1 element",
    "inferred_call_into_4": "tenon_op_call_into, rank 4, operator with infer",
    "walk_direct": "walk over an array of functions",
    "walk": "walk over operators, tenon_op_run",
}


def measure(program, mode, ops, rounds):
    run = subprocess.run([program, mode, str(ops), str(rounds)], check=True, stdout=subprocess.PIPE, text=True)
    words = [line.split() for line in run.stdout.splitlines()]
    return {(row[0], int(row[1])): tuple(map(float, row[2:])) for row in words if len(row) == 5}, float(words[0][1])


def count_instructions(program):
    """Instructions of one call in each case: all of them, and those of each function."""
    counts = {}
    for case in COUNTED:
        report.progress(f"calls: counting instructions of {case}")
        out = os.path.join(report.SCRATCH, "callgrind.out")
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                        "--toggle-collect=measured*", program, "count", case, str(CALLS)], check=True, capture_output=True)
        text = subprocess.run(["callgrind_annotate", "--threshold=99.9", out], check=True, capture_output=True, text=True).stdout
        rows = re.findall(r"^ *([\d,]+) \([\d. ]+%\)  (?:\S*:)?(\S+)", text, re.M)
        functions = {name: round(int(amount.replace(",", "")) / CALLS, 1) for amount, name in rows if name != "PROGRAM"}
        total = next(int(amount.replace(",", "")) for amount, name in rows if name == "PROGRAM") / CALLS
        counts[case] = {"all": round(total, 1), "functions": {n: c for n, c in functions.items() if not n.startswith("case_") and c >= 1}}
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    options = parser.parse_args()
    program = report.compile_c("calls.c", *report.LINK_TENON)
    report.warn_when_busy()
    figures = {"nanoseconds": {}, "threads": {}, "register_nanoseconds": {}}
    for ops in OPS:
        report.progress(f"calls: {ops} operators")
        times, register = measure(program, "time", ops, options.rounds)
        figures["register_nanoseconds"][ops] = round(register)
        figures["nanoseconds"][ops] = {case: {"median": t[0], "p10": t[1]} for (case, _), t in times.items()}
        # With two threads only the quickest rounds count: in others the system ran something else beside one of them.
        times, _ = measure(program, "threads", ops, 3 * options.rounds)
        figures["threads"][ops] = {case: {"one": times[case, 1][2], "two": times[case, 2][2]} for case in ("direct", "run", "walk_direct", "walk")}
    few = figures["nanoseconds"][OPS[0]]
    rows = []
    for case, t in few.items():
        base = few["walk_direct" if case.startswith("walk") else "direct"]
        rows.append([TEXTS[case], f"{t['median']:.2f}", f"{t['p10']:.2f}", f"{t['p10'] - base['p10']:+.2f}", f"{t['p10'] / base['p10']:.2f}"])
    report.print_table(f"one call, nanoseconds, {OPS[0]} operators registered", ["", "median", "p10", "over direct", "ratio"], rows)
    rows = []
    for ops, t in figures["nanoseconds"].items():
        rows.append([f"{ops}", f"{t['run']['p10']:.2f}", f"{t['run']['p10'] - t['direct']['p10']:.2f}", f"{t['walk_direct']['p10']:.2f}",
                     f"{t['walk']['p10']:.2f}", f"{t['walk']['p10'] - t['walk_direct']['p10']:.2f}", f"{figures['register_nanoseconds'][ops]}"])
    report.print_table("by operators registered, nanoseconds, p10", ["operators", "hot run", "over direct", "walk of functions",
                       "walk of operators", "over it", "registering one"], rows)
    rows, scalings = [], {}
    for ops, t in figures["threads"].items():
        for case, base in (("run", "direct"), ("walk", "walk_direct")):
            ours, direct = t[case]["one"] / t[case]["two"], t[base]["one"] / t[base]["two"]
            scalings[ops, case] = ours / direct
            rows.append([f"{ops} {TEXTS[case]}", f"{1e3 / t[case]['one']:.0f}", f"{1e3 / t[case]['two']:.0f}", f"{ours:.2f}", f"{direct:.2f}", f"{ours / direct:.2f}"])
    report.print_table("two threads, million calls a second, 2nd percentile of time", ["operators", "one", "two", "scaling", "of direct", "ratio"], rows)
    if not options.no_instructions and shutil.which("valgrind"):
        figures["instructions"] = count_instructions(program)
        rows = [[TEXTS[case], f"{c['all']:.0f}", ", ".join(f"{name} {count:.0f}" for name, count in list(c["functions"].items())[:4])]
                for case, c in figures["instructions"].items()]
        report.print_table("instructions of one call, with the loop around it", ["", "all", "most in"], rows)
    over = {ops: t["run"]["p10"] - t["direct"]["p10"] for ops, t in figures["nanoseconds"].items()}
    headline = [[f"run over a direct call, {ops} operators", f"{ns:+.2f} ns"] for ops, ns in over.items()]
    headline += [["run on two threads, scaling over that of direct calls", f"{scalings[OPS[0], 'run']:.2f}"]]
    headline += [[TEXTS[case], f"{few[case]['p10']:.1f} ns"] for case in ("call_into", "call", "loop")]
    report.save("calls", figures, headline)


if __name__ == "__main__":
    main()
