#!/usr/bin/env python3
"""Measures loading a library of 1,000 operators in fresh processes, beside the system's dlopen of the same file.

It also measures tenon_start, and loading a library of 100 operators without rules for loading and with all of them
(docs/policy.md).

Usage: load.py [--rounds N]. micro/load.c does the timing. The file is in the page cache.
"""
import argparse
import hashlib
import os
import subprocess

import report

OPS, FEW = 1000, 100
KERNEL = """static tenon_status_t run_{i}(tenon_call_t *call) {{
  ((float *)call->outputs[0]->data)[0] = ((const float *)call->inputs[0]->data)[0] * {i}.0f;
  return TENON_OK;
}}
"""
ITEM = """  TENON_OP("scale_{i}(Tensor x, float by=1.0, bool again=False) -> Tensor", TENON_DOC("Scales by {i}."),
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [n]; out: [n]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", run_{i}))"""


def build_library(name, count):
    os.makedirs(report.SCRATCH, exist_ok=True)
    source, library = os.path.join(report.SCRATCH, name + ".c"), os.path.join(report.SCRATCH, name + ".so")
    with open(source, "w") as file:
        file.write("#include <tenon/op.h>\n" + "".join(KERNEL.format(i=i) for i in range(count)))
        file.write(f'TENON_LIBRARY({name}, "1.0.0",\n' + ",\n".join(ITEM.format(i=i) for i in range(count)) + ")\n")
    run = subprocess.run([os.path.join(report.BUILD, "tenon"), "build", source, "-o", library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:2000]
    return library


def write_rules(library):
    path = os.path.join(report.SCRATCH, "policy")
    with open(library, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(path, "w") as file:
        file.write(f"folder {os.path.dirname(os.path.realpath(library))}\nprivate\ninert\nsha256 {digest}\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    report.progress(f"load: building a library of {OPS} operators")
    program, library, few = report.compile_c("load.c", "-ldl"), build_library("thousand", OPS), build_library("hundred", FEW)
    opens, starts, loads, dlopens = [], [], [], []
    hundreds = {"plain": [], "ruled": [], "dlopen": []}
    libtenon, ruled = os.path.join(report.BUILD, "libtenon.so"), {**os.environ, "TENON_POLICY": write_rules(few)}
    for i in range(options.rounds):
        if i % 10 == 0:
            report.progress(f"load: process {i} of {options.rounds}")
        for mode in ("tenon", "dlopen"):
            run = subprocess.run([program, mode, libtenon, library], check=True, stdout=subprocess.PIPE, text=True)
            words = run.stdout.split()
            if mode == "dlopen":
                dlopens.append(float(words[1]))
            else:
                assert int(words[4]) == OPS, f"{words[4]} operators: expected {OPS}"
                opens.append(float(words[1])), starts.append(float(words[2])), loads.append(float(words[3]))
        for kind, mode, environment in (("plain", "tenon", None), ("ruled", "tenon", ruled), ("dlopen", "dlopen", None)):
            words = subprocess.run([program, mode, libtenon, few], check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.split()
            hundreds[kind].append(float(words[3] if mode == "tenon" else words[1]))
    figures = {"operators": OPS, "library_kib": os.path.getsize(library) >> 10}
    rows = []
    for key, text, values in (("load", f"tenon_library_load, {OPS} operators", loads), ("dlopen", "dlopen of the same file", dlopens),
                              ("start", "tenon_start", starts), ("open", "dlopen of libtenon itself", opens),
                              ("hundred", f"tenon_library_load, {FEW} operators", hundreds["plain"]), ("hundred_ruled", "the same, with all rules for loading", hundreds["ruled"]),
                              ("hundred_dlopen", "dlopen of the same file", hundreds["dlopen"])):
        figures[key] = {"median_us": round(report.median(values) / 1e3, 1), "p10_us": round(report.quantile(values, 0.1) / 1e3, 1)}
        rows.append([text, f"{figures[key]['median_us']:.1f}", f"{figures[key]['p10_us']:.1f}"])
    figures["load_us_per_operator"] = round(figures["load"]["p10_us"] / OPS, 3)
    report.print_table("loading, microseconds", ["", "median", "p10"], rows)
    over = figures["load"]["p10_us"] / figures["dlopen"]["p10_us"]
    print(f"  {figures['load_us_per_operator']:.2f} us for one operator; {over:.1f} times what dlopen takes")
    report.save("load", figures, [["loading one operator of a library of 1,000", f"{figures['load_us_per_operator']:.2f} us"],
                                  [f"loading {FEW} operators, with all rules for loading", f"{figures['hundred_ruled']['p10_us'] / 1e3:.2f} ms"],
                                  ["tenon_start", f"{figures['start']['p10_us'] / 1e3:.2f} ms"]])


if __name__ == "__main__":
    main()
