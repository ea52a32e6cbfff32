"""Whole models against ONNX Runtime on random input, on 1 and 2 threads: the nine light models and the zoo. The memory plan of each
model: no two values that are alive at the same time overlap, and the arena has at most 1.05 times the most bytes alive at once.

Usage: models_test.py [NAME...].  The zoo is made by bench/models/make_zoo.py in an environment of its own (.venv-zoo).
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
ZOO = os.path.join(BUILD, "zoo")
RTOL, ATOL = 1e-3, 1e-5
PLAN_OVER, ALIGNMENT = 1.05, 64


def inputs_of(session):
    random, values = np.random.default_rng(7), {}
    for port in session.get_inputs():
        shape = [extent if isinstance(extent, int) and extent > 0 else 1 for extent in port.shape]
        if "float" in port.type:
            values[port.name] = random.standard_normal(shape).astype(np.float32)
        elif "mask" in port.name:
            values[port.name] = np.ones(shape, np.int64)
        else:
            values[port.name] = random.integers(0, 100, shape).astype(np.int64)  # within the smallest vocabulary of the zoo
    return values


def start(path, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def agree(found, reference, scale=1.0):
    return np.allclose(found, reference, RTOL, ATOL * scale, equal_nan=True)


def is_well_posed(path, values, index, reference):
    """Does ONNX Runtime agree with itself when it does not rewrite the graph?  Where outputs are in the hundreds and sum many
    terms it does not, near their zeros (ResNet-50 with random weights: 2.8e-4); then the absolute tolerance is a share of
    the largest output."""
    plain = start(path, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, values)
    return agree(plain[index], reference)


def file_name(output):
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in output) + ".npy"


def check_stage(text):
    """Judges the plan of a stage by the offsets, sizes and lifetimes that it prints. Returns what is wrong, or None."""
    arena = int(re.search(r"arena (\d+) bytes", text)[1])
    found = re.findall(r" arena .*?offset (\d+) size (\d+) alive (\d+)\.\.(\d+)", text)
    blocks = [(int(offset), -(-max(int(size), 1) // ALIGNMENT) * ALIGNMENT, int(first), int(last)) for offset, size, first, last in found]
    for i, (offset, size, first, last) in enumerate(blocks):
        if offset + size > arena:
            return f"a value ends at byte {offset + size} of an arena of {arena}"
        for other, other_size, begin, end in blocks[:i]:
            if first <= end and begin <= last and offset < other + other_size and other < offset + size:
                return f"values at {offset} and {other} overlap, and both are alive from action {max(first, begin)} on"
    moments = {first for _, _, first, _ in blocks}
    alive = max((sum(size for _, size, first, last in blocks if first <= at <= last) for at in moments), default=0)
    return f"the arena has {arena} bytes, but at most {alive} are alive at once" if arena > PLAN_OVER * alive else None


def check_plan(text):
    stages = re.split(r"(?m)^(?=stage \d+: )", text)[1:]
    if not stages:
        return "the plan was not printed"
    return next((wrong for wrong in map(check_stage, stages) if wrong), None)


def check(path, threads):
    session = start(path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    values = inputs_of(session)
    expected = session.run(None, values)
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(BUILD, "tenon"), "run", path, "--threads", str(threads), "--output-dir", folder, "--dump", "plan"]
        for index, (name, value) in enumerate(values.items()):
            file = os.path.join(folder, f"input_{index}.npy")
            np.save(file, value)
            command += ["--input", f"{name}=@{file}"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            return f"status {run.returncode}: {run.stderr.strip()[:500]}"
        for index, (output, reference) in enumerate(zip(session.get_outputs(), expected)):
            found = np.load(os.path.join(folder, file_name(output.name)))
            if found.shape != reference.shape:
                return f"{output.name}: shape {found.shape}, expected {reference.shape}"
            largest = max(1.0, float(np.max(np.abs(reference), initial=0)))
            if not agree(found, reference) and (is_well_posed(path, values, index, reference) or not agree(found, reference, largest)):
                return f"{output.name}: largest difference {np.max(np.abs(found - reference)):.3g}"
    return check_plan(run.stdout)


def main():
    light = sorted(glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light/*.onnx")))
    python = os.path.join(ROOT, ".venv-zoo/bin/python")
    skips = []
    if os.path.exists(python):
        subprocess.run([python, os.path.join(ROOT, "bench/models/make_zoo.py"), ZOO], check=True, stdout=subprocess.DEVNULL)
    else:
        skips.append("skip: the zoo's models: .venv-zoo is missing (make test makes it)")
    models = light + sorted(glob.glob(os.path.join(ZOO, "*.onnx")))
    if sys.argv[1:]:
        models = [m for m in models if os.path.basename(m)[:-5] in sys.argv[1:]]
    passed = failed = 0
    for path in models:
        for threads in (1, 2):
            why = check(path, threads)
            print(f"{'FAIL' if why else 'ok'}  {os.path.basename(path)} on {threads} threads{': ' + why if why else ''}", flush=True)
            failed += why is not None
            passed += why is None
    print("\n".join(skips))
    print(f"{passed} passed, {failed} failed, {len(skips)} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
