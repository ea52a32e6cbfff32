#!/usr/bin/env python3
"""Shows which operators take the time of a model, in Tenon and in ONNX Runtime; runs take turns.

The time of a node is the lower quartile over runs, that of an operator the sum over its nodes. Both runtimes measure
with their own profilers, so small nodes look a little slower than they are.

Usage: where.py [--threads N] [--runs N] [--nodes N] NAME...
"""
import argparse
import collections
import glob
import json
import os
import sys
import tempfile

import models
import report


def profile(path, threads, runs):
    """Milliseconds by (node, operator), for each of the two runtimes."""
    import onnxruntime

    run, outputs, values, _ = models.start_onnxruntime(path, threads)
    run()
    model, _made = models.bind_tenon(path, threads, values, outputs())
    found = {"tenon": collections.defaultdict(list), "onnxruntime": collections.defaultdict(list)}
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "ort")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        model.run(), model.run()
        for _ in range(runs):
            counts = collections.Counter()
            for name, kind, ns in model.run_profiled():
                counts[name] += 1  # nodes that passes make may have the same name
                found["tenon"][f"{name} {counts[name]}", kind].append(ns / 1e6)
            session.run(None, values)
        session.end_profiling()
        for event in json.load(open(glob.glob(os.path.join(folder, "*"))[0])):
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                found["onnxruntime"][event["name"][:-12], event["args"]["op_name"]].append(event["dur"] / 1e3)
    return {who: {key: report.quantile(times, 0.25) for key, times in nodes.items()} for who, nodes in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=0, help="show the N slowest nodes too")
    options = parser.parse_args()
    for name, path in models.paths_of(options.names, True).items():
        for who, nodes in profile(path, options.threads, options.runs).items():
            by_kind, total = collections.defaultdict(list), sum(nodes.values())
            for (_, kind), ms in nodes.items():
                by_kind[kind].append(ms)
            row = lambda text, calls, ms: [text, calls, f"{ms:.3f}", f"{100 * ms / total:.1f}"]
            rows = [row(kind, len(ms), sum(ms)) for kind, ms in sorted(by_kind.items(), key=lambda item: -sum(item[1]))[:12]]
            report.print_table(f"{name}, {who}, {options.threads} threads: {total:.3f} ms", ["operator", "nodes", "ms", "%"], rows)
            slowest = sorted(nodes.items(), key=lambda item: -item[1])[: options.nodes]
            if slowest:
                report.print_table("slowest nodes", ["node", "operator", "ms"], [[node[-60:], kind, f"{ms:.3f}"] for (node, kind), ms in slowest])


if __name__ == "__main__":
    sys.exit(main())
