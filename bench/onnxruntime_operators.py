#!/usr/bin/env python3
"""Measures an operator of Tenon in ONNX Runtime beside the same loop in an operator that is written by hand for ONNX Runtime.

Usage: onnxruntime_operators.py [--rounds N]. Models of 100 nodes run in one process and in turns, with one thread and with
bound inputs and outputs. The figure is the least time of a node. The operators by hand make the fewest calls of ONNX
Runtime's interface (micro/onnxruntime_hand.c), or read shapes by objects, which ONNX Runtime before 1.24 requires.
"""
import argparse
import os
import subprocess
import sys
import time

import report

os.environ["TENON_THREADS"] = "1"
sys.path[:0] = [os.path.join(report.ROOT, "build", "python")]
NODES = 100
SIZES = 16, 1024, 16384, 262144
SOURCE = """#include <tenon/op.h>
static tenon_status_t twice_run(const tenon_loop_t *loop) {
  const float *in = loop->data[0];
  float *out = loop->data[1];
  for (int64_t i = 0; i < loop->count; i++) out[i] = 2 * in[i] + 1;
  return TENON_OK;
}
TENON_LIBRARY(ours, "1.0",
  TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", twice_run)))
"""


def compile_hand(name, *flags):
    path = os.path.join(report.SCRATCH, name)
    subprocess.run(["cc", "-std=gnu11", "-w", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", *flags, "-I" + os.path.join(report.ROOT, "bridges"),
                    os.path.join(report.ROOT, "bench", "micro", "onnxruntime_hand.c"), "-o", path], check=True)
    return path


def session(domain, size, add):
    import onnxruntime
    from onnx import TensorProto, helper
    nodes = [helper.make_node("twice", [f"v{i}"], [f"v{i + 1}"], domain=domain) for i in range(NODES)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("v0", f"v{NODES}")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    add(options)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def bound(made, size):
    import numpy as np
    x, y = np.zeros(size, "f4"), np.zeros(size, "f4")
    binding = made.io_binding()
    binding.bind_cpu_input("v0", x)
    binding.bind_output(f"v{NODES}", "cpu", 0, np.float32, [size], y.ctypes.data)
    return lambda: made.run_with_iobinding(binding), (x, y)


def measure(size, ways, rounds):
    """Returns the least nanoseconds of a node in each way."""
    runs = {name: bound(session(domain, size, add), size) for name, (domain, add) in ways.items()}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, (run, _) in runs.items():
            start = time.perf_counter_ns()
            run()
            least[name] = min(least[name], (time.perf_counter_ns() - start) / NODES)
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    report.warn_when_busy()
    import tenon
    import tenon.onnxruntime
    os.makedirs(report.SCRATCH, exist_ok=True)
    source = os.path.join(report.SCRATCH, "onnxruntime_ours.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    ours = tenon.load(source)
    hand, classic = compile_hand("onnxruntime_hand.so"), compile_hand("onnxruntime_classic.so", "-DCLASSIC")
    ways = {"Tenon": ("ours", lambda o: tenon.onnxruntime.register(o, ours)), "by hand": ("hand", lambda o: o.register_custom_ops_library(hand)),
            "by hand, shapes by objects": ("hand", lambda o: o.register_custom_ops_library(classic))}
    rows, saved = [], {}
    for size in SIZES:
        least = measure(size, ways, max(20, options.rounds * 1024 // max(size, 1024)))
        ratios = [least["Tenon"] / least[name] for name in list(ways)[1:]]
        rows.append([str(size), *(f"{least[name]:.0f}" for name in ways), *(f"{ratio:.2f}" for ratio in ratios)])
        saved[size] = {**least, "ratio": ratios[0], "ratio_classic": ratios[1]}
    report.print_table("An operator of Tenon in ONNX Runtime: nanoseconds of a node", ["elements", *ways, "Tenon / by hand", "Tenon / by objects"], rows)
    report.save("onnxruntime_operators", saved, [[f"an operator of Tenon in ONNX Runtime, {size} elements: times the same by hand", f"{saved[size]['ratio']:.2f}"] for size in SIZES])


if __name__ == "__main__":
    main()
