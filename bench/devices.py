#!/usr/bin/env python3
"""Measures what the host's side of devices costs, on the device null, which does nothing.

Usage: devices.py [--rounds N] [--no-instructions]. The costs are those of calls, of memory, and of the tensors of a
model. micro/devices.c does the timing. It is linked with the library's own parts, since the allocator is inside.
Valgrind counts instructions if it is installed.
"""
import argparse
import os
import re
import shutil
import subprocess

import report

TEXTS = {"launch": "the plug-in's launch, called directly", "vendor": "tenon_op_run, a vendor's kernel that launches",
         "source": "tenon_op_run, a kernel from source", "malloc": "malloc and free of the same size",
         "memory": "the allocator alone: a cached piece and back", "tensor": "tenon_tensor_create_on and release"}
MODELS = ("minilm_16", "minilm_128", "resnet50", "mobilenetv2")
CALLS = 2000  # calls of a case whose instructions are counted


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def count_instructions(program, case):
    """Instructions of one call: all of them, and those of the host, without the kernel and the plug-in's launch."""
    out = os.path.join(report.SCRATCH, "callgrind.devices.out")
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", "--toggle-collect=measured*",
                    program, "count", case, str(CALLS)], check=True, capture_output=True)
    text = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", out], check=True, capture_output=True, text=True).stdout
    total = own = 0
    for amount, name in re.findall(r"^ *([\d,]+) \([\d. ]+%\)  (.*)$", text, re.M):
        amount = int(amount.replace(",", ""))
        if name.startswith("PROGRAM"):
            total = amount
        elif re.search(r"(vendor_run|source_run|null_launch|case_\w+|measured\S*)", name):
            own += amount
    return round(total / CALLS), round((total - own) / CALLS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    options = parser.parse_args()
    subprocess.run(["cmake", "--build", report.BUILD, "--target", "tenon_internal"], check=True, stdout=subprocess.DEVNULL)
    libraries = os.path.join(report.ROOT, ".venv", "lib")
    program = report.compile_c("devices.c", "-g", "-DTENON_STATIC", f"-I{report.ROOT}/src", f"-I{report.ROOT}/devices",
                               os.path.join(report.BUILD, "libtenon_internal.a"), f"-L{libraries}", f"-Wl,-rpath,{libraries}",
                               "-l:libdnnl.so.3", "-lgomp", "-ldl", "-lm", "-pthread")
    report.warn_when_busy()
    report.progress("devices: calls and memory on null")
    figures = {"nanoseconds": {}, "instructions": {}, "trace": {}}
    for line in run(program, "time", options.rounds).splitlines():
        name, median, p10 = line.split()
        figures["nanoseconds"][name] = {"median": float(median), "p10": float(p10)}
    if not options.no_instructions and shutil.which("valgrind"):
        for case in TEXTS:
            if case != "malloc":
                report.progress(f"devices: counting instructions of {case}")
                figures["instructions"][case] = dict(zip(("all", "host"), count_instructions(program, case)))
    t, n = figures["nanoseconds"], figures["instructions"]
    report.print_table("one call on null, nanoseconds and instructions", ["", "median", "p10", "instructions", "of the host"],
                       [[text, f"{t[c]['median']:.1f}", f"{t[c]['p10']:.1f}", n.get(c, {}).get("all", ""), n.get(c, {}).get("host", "")]
                        for c, text in TEXTS.items()])
    rows = []
    for model in MODELS:
        path = os.path.join(report.BUILD, "zoo", f"{model}.onnx")
        if not os.path.exists(path):
            print(f"skip: {model}: not in {os.path.dirname(path)}; make zoo makes it")
            continue
        weights, reserved, live_most, reserved_most = map(int, run(program, "trace", path).split())
        figures["trace"][model] = {"weights": weights, "weights_reserved": reserved, "live_peak": live_most, "reserved_peak": reserved_most}
        rows.append([model, f"{weights / 1e6:.1f}", f"{(live_most - weights) / 1e6:.2f}", f"{(reserved_most - reserved) / 1e6:.2f}",
                     f"{reserved_most / live_most:.3f}"])
    report.print_table("a model's tensors on null, MB", ["", "weights", "most others alive", "reserved for them", "reserved / alive, all"], rows)
    headline = [["devices: from the call to a vendor's enqueue, instructions of the host", f"{n.get('vendor', {}).get('host', 0)}"],
                ["devices: a cached piece of memory and back", f"{t['memory']['p10']:.0f} ns"]]
    if rows:
        headline.append(["devices: memory reserved for MiniLM's tensors, over what is alive", rows[0][4]])
    report.save("devices", figures, headline)


if __name__ == "__main__":
    main()
