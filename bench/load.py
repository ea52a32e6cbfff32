#!/usr/bin/env python3
"""Loading a library of 1,000 operators in fresh processes, beside the system's dlopen of the same file; tenon_start.

Usage: load.py [--rounds N].  The timing is in micro/load.c.  The file is in the page cache.
"""
import argparse
import os
import subprocess

import report

OPS = 1000
KERNEL = """static tenon_status_t run_{i}(tenon_call_t *call) {{
  ((float *)call->outputs[0]->data)[0] = ((const float *)call->inputs[0]->data)[0] * {i}.0f;
  return TENON_OK;
}}
"""
ITEM = """  TENON_OP("scale_{i}(Tensor x, float by=1.0, bool again=False) -> Tensor", TENON_DOC("Scales by {i}."),
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [n]; out: [n]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", run_{i}))"""


def build_library():
    os.makedirs(report.SCRATCH, exist_ok=True)
    source, library = os.path.join(report.SCRATCH, "thousand.c"), os.path.join(report.SCRATCH, "thousand.so")
    with open(source, "w") as file:
        file.write("#include <tenon/op.h>\n" + "".join(KERNEL.format(i=i) for i in range(OPS)))
        file.write('TENON_LIBRARY(thousand, "1.0.0",\n' + ",\n".join(ITEM.format(i=i) for i in range(OPS)) + ")\n")
    run = subprocess.run([os.path.join(report.BUILD, "tenon"), "build", source, "-o", library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:2000]
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    report.progress(f"load: building a library of {OPS} operators")
    program, library = report.compile_c("load.c", "-ldl"), build_library()
    opens, starts, loads, dlopens = [], [], [], []
    for i in range(options.rounds):
        if i % 10 == 0:
            report.progress(f"load: process {i} of {options.rounds}")
        for mode in ("tenon", "dlopen"):
            run = subprocess.run([program, mode, os.path.join(report.BUILD, "libtenon.so"), library], check=True, stdout=subprocess.PIPE, text=True)
            words = run.stdout.split()
            if mode == "dlopen":
                dlopens.append(float(words[1]))
            else:
                assert int(words[4]) == OPS, f"{words[4]} operators: expected {OPS}"
                opens.append(float(words[1])), starts.append(float(words[2])), loads.append(float(words[3]))
    figures = {"operators": OPS, "library_kib": os.path.getsize(library) >> 10}
    rows = []
    for key, text, values in (("load", f"tenon_library_load, {OPS} operators", loads), ("dlopen", "dlopen of the same file", dlopens),
                              ("start", "tenon_start", starts), ("open", "dlopen of libtenon itself", opens)):
        figures[key] = {"median_us": round(report.median(values) / 1e3, 1), "p10_us": round(report.quantile(values, 0.1) / 1e3, 1)}
        rows.append([text, f"{figures[key]['median_us']:.1f}", f"{figures[key]['p10_us']:.1f}"])
    figures["load_us_per_operator"] = round(figures["load"]["p10_us"] / OPS, 3)
    report.print_table("loading, microseconds", ["", "median", "p10"], rows)
    over = figures["load"]["p10_us"] / figures["dlopen"]["p10_us"]
    print(f"  {figures['load_us_per_operator']:.2f} us for one operator; {over:.1f} times what dlopen takes")
    report.save("load", figures, [["loading one operator of a library of 1,000", f"{figures['load_us_per_operator']:.2f} us"],
                                  ["tenon_start", f"{figures['start']['p10_us'] / 1e3:.2f} ms"]])


if __name__ == "__main__":
    main()
