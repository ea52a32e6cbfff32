"""Runs a model in this process and prints how much memory the process had, for memory.py: peak.py RUNTIME THREADS RUNS FILE.

It imports NumPy and the runtime, and nothing else that is large. TENON_BUILD names the build folder.
"""
import json
import os
import sys


def status():
    """KiB by name, from /proc/self/status."""
    rows = (line.split() for line in open("/proc/self/status") if line.startswith(("Vm", "Rss")))
    return {row[0][:-1]: int(row[1]) for row in rows}


def run_tenon(path, threads, runs):
    sys.path.insert(0, os.path.join(os.environ["TENON_BUILD"], "python"))
    import numpy as np
    import tenon

    tenon.threads(threads)
    before, graph = status()["VmRSS"], tenon.graph.load(path)
    model = graph.compile()
    values = [np.ones(shape, {"f32": np.float32, "i64": np.int64}[dtype]) for _, dtype, shape in graph.inputs]
    del graph
    for _ in range(runs):
        model(*values)
    return before, model


def run_onnxruntime(path, threads, runs):
    import numpy as np
    import onnxruntime

    before, options = status()["VmRSS"], onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = {port.name: np.ones(port.shape, np.float32 if "float" in port.type else np.int64) for port in session.get_inputs()}
    for _ in range(runs):
        session.run(None, values)
    return before, session


def measure_here(which, path, threads, runs):
    before, kept = {"tenon": run_tenon, "onnxruntime": run_onnxruntime}[which](path, threads, runs)
    now = status()
    del kept  # only now, so that its memory is in the figures
    return {"peak": now["VmHWM"], "above_start": now["VmHWM"] - before, "anonymous": now["RssAnon"], "files": now["RssFile"]}


if __name__ == "__main__":
    print(json.dumps(measure_here(sys.argv[1], sys.argv[4], int(sys.argv[2]), int(sys.argv[3]))))
