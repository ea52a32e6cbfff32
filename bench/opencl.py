#!/usr/bin/env python3
"""Measures the device opencl beside the driver's own calls: launches, transfers, compiled code.

Usage: opencl.py [--rounds N] [--no-instructions]. micro/opencl.c does the timing. Valgrind counts instructions if it
is installed. Without an OpenCL driver nothing is measured, and a message says so.
"""
import argparse
import os
import re
import shutil
import subprocess

import report

TEXTS = {"raw": "clEnqueueNDRangeKernel, arguments set before", "raw_timed": "the same in a queue with times, as ours are", "launch": "launch, the same arguments",
         "raw_set": "7 x clSetKernelArg and clEnqueueNDRangeKernel", "launch_set": "launch, other memory and offset each time",
         "flush": "clFlush"}
CALLS = 2000  # calls of a case whose instructions are counted
AFTER = re.compile("ocl_stream_end|ocl_stream_push|entries_drop|make_room|_unlock")  # from the driver's enqueue on


def rows_of(program, *arguments):
    run = subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split() for line in run.stdout.splitlines()]


def count_instructions(program, case):
    """Instructions of one launch: Tenon's up to the driver's enqueue, with locks; all of Tenon's; all of the thread."""
    out = os.path.join(report.SCRATCH, "callgrind.opencl.out")
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", "--separate-callers=1",
                    "--toggle-collect=measured*", program, "count", case, str(CALLS)], check=True, capture_output=True)
    text = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", out], check=True, capture_output=True, text=True).stdout
    before = ours = total = 0
    for amount, name in re.findall(r"^ *([\d,]+) \([\d. ]+%\)  (.*)$", text, re.M):
        amount = int(amount.replace(",", ""))
        if name.startswith("PROGRAM"):
            total = amount
        elif "devices/opencl/" in name.split("'")[0] or re.search(r"pthread_mutex_(un)?lock.*'ocl_", name):
            ours += amount
            before += 0 if AFTER.search(name) else amount
    return round(before / CALLS, 1), round(ours / CALLS, 1), round(total / CALLS, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    options = parser.parse_args()
    folder = os.path.join(report.ROOT, "devices/opencl")
    sources = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".c")]
    program = report.compile_c("opencl.c", "-g", "-DTENON_STATIC", f"-I{folder}", *sources, "-ldl", "-pthread")
    about = subprocess.run([program, "about"], capture_output=True, text=True)
    if about.returncode != 0:
        print(f"skip: {about.stderr.strip()}")
        return
    report.warn_when_busy()
    figures = {"driver": about.stdout.strip(), "launches": {}, "transfers": {}, "instructions": {}}
    report.progress(f"opencl: launches on {figures['driver']}")
    for name, median, p10 in rows_of(program, "calls", options.rounds):
        figures["launches"][name] = {"median_ns": float(median), "p10_ns": float(p10)}
    t = figures["launches"]
    rows = [[TEXTS[name], f"{f['median_ns']:.0f}", f"{f['p10_ns']:.0f}",
             f"{f['p10_ns'] / t['raw_set' if name.endswith('_set') else 'raw']['p10_ns']:.2f}"] for name, f in t.items()]
    report.print_table("one launch, nanoseconds", ["", "median", "p10", "ratio"], rows)
    report.progress("opencl: transfers")
    rows = []
    for words in rows_of(program, "copies", options.rounds):
        size, memcpy, *copies = map(float, words)
        figures["transfers"][int(size)] = dict(zip(("memcpy_ns", "pinned_in_ns", "pinned_out_ns", "in_ns", "out_ns"), [memcpy] + copies))
        text = f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"
        rows.append([text, f"{memcpy / 1e3:.1f}", *(f"{c / 1e3:.1f}" for c in copies), *(f"{memcpy / c:.2f}" for c in copies)])
    report.print_table("transfers with the wait for them, microseconds, p10, and how many times as fast as memcpy", ["", "memcpy",
                       "pinned in", "out", "other in", "out", "pinned in", "out", "other in", "out"], rows)
    (size, check), (real, load) = ([float(w) for w in words] for words in rows_of(program, "programs", min(options.rounds, 100)))
    figures["programs"] = {"check_bytes": size, "check_ns": check, "load_bytes": real, "load_ns": load}
    print(f"  compiled code: {check / 1e3:.1f} us to check {size / 1024:.0f} KiB; program_load of {real / 1024:.0f} KiB, mostly the driver's, {load / 1e3:.0f} us")
    if not options.no_instructions and shutil.which("valgrind"):
        for case in ("launch", "launch_set"):
            report.progress(f"opencl: counting instructions of {case}")
            before, ours, total = count_instructions(program, case)
            figures["instructions"][case] = {"before": before, "ours": ours, "all": total}
            print(f"  {TEXTS[case]}: {before:.0f} instructions of our own up to the driver's enqueue (at most 400), {ours:.0f} in all, "
                  f"{total:.0f} with the driver's on this thread")
    large = [f for size, f in figures["transfers"].items() if size >= 16 << 20]
    worst = min(f["memcpy_ns"] / f[c] for f in large for c in ("pinned_in_ns", "pinned_out_ns"))
    small = figures["transfers"][4096]
    headline = [["opencl: a launch over the driver's own call", f"{t['launch']['p10_ns'] / t['raw']['p10_ns']:.2f} times"],
                ["opencl: instructions of our own up to the driver's enqueue", f"{figures['instructions'].get('launch', {}).get('before', 0):.0f}"],
                ["opencl: pinned transfers from 16 MiB up, worst, to memcpy's speed", f"{worst:.2f}"],
                ["opencl: 4 KiB in, out, with the wait", f"{small['pinned_in_ns'] / 1e3:.0f}, {small['pinned_out_ns'] / 1e3:.0f} us"]]
    report.save("opencl", figures, headline)


if __name__ == "__main__":
    main()
