"""What the compiler makes of a model is as precise as the model node by node: the error of a compiled run against a run in double precision
is at most twice that of the plain run (`--optimize plain`) and 4 units in the last place of the largest output. For the nine light models, the
zoo and the cases of ONNX's node suite that give floats, on 1 and 2 threads, and on devices.

Usage: precision_test.py [NAME | DEVICE]...  Without names it takes a share of the models and cases that the number of commits chooses;
PRECISION=whole takes all, on the CPU and the devices sim and opencl (make precision). A failure names the first node that differs
(tenon compare)."""
import glob
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import numpy_helper

from models_test import BUILD, ROOT, ZOO
from widened import widened

sys.path.insert(0, os.path.join(BUILD, "python"))
try:
    import tenon
except ImportError as reason:
    print(f"skip: {str(reason).splitlines()[0]}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
DRAWS = 3  # models, whose plain run may be right by luck, run with other inputs before they count as wrong
LARGE = 200 << 20  # bytes of a model that runs on the CPU only: sim would take an hour
SHARES = 3  # of the models and cases in a run without names
# Cases whose results are not a function of their inputs.
RANDOM = ("bernoulli", "dropout", "random")
# In the last place of the largest output: how much less precise than twice the plain run a result may be.
UNITS = 4


def unit(array):
    """The unit in the last place of the largest element."""
    largest = np.max(np.abs(array.astype(np.float64)), initial=0)
    if array.dtype.kind != "f" or not largest > 0 or not np.isfinite(largest):
        return 0.0
    return float(np.spacing(array.dtype.type(largest)))


def is_float(array):
    return isinstance(array, np.ndarray) and array.dtype in (np.float16, np.float32)


def error(found, exact):
    """The largest error of elements that are finite; infinity where only one of them is finite."""
    found = found.astype(np.float64)
    both = np.isfinite(found) & np.isfinite(exact)
    if not np.all(both | (found == exact) | (np.isnan(found) & np.isnan(exact))):
        return np.inf
    return float(np.max(np.abs(found[both] - exact[both]), initial=0))


def listed(results):
    return [np.asarray(result) for result in (results if isinstance(results, (list, tuple)) else [results])]


def widen_array(array):
    return array.astype(np.float64) if is_float(array) else array


class Errors:
    """The largest errors of each output over some runs, of the plain run and of some compiled ones."""

    def __init__(self, names):
        self.names, self.found, self.limits = names, {}, {}

    def add(self, exact, plain, results):
        for index, (reference, simple) in enumerate(zip(exact, plain)):
            if not is_float(simple) or reference.dtype != np.float64 or simple.shape != reference.shape:
                continue
            own, step = self.limits.get(index, (0.0, 0.0))
            self.limits[index] = max(own, error(simple, reference)), max(step, unit(simple))
            for way, outputs in results.items():
                key = way, index
                self.found[key] = max(self.found.get(key, 0.0), error(outputs[index], reference))

    def wrong(self):
        for (way, index), found in self.found.items():
            plain, step = self.limits[index]
            if found > 2 * plain + UNITS * step:
                return f"{way}: output {self.names[index]}: error {found:.3g}, of the plain run {plain:.3g}, unit {step:.3g}"
        return None


def inputs_of(graph, draw):
    random, values = np.random.default_rng(7 + draw), []
    for name, dtype, shape in graph.inputs:
        shape = [extent if isinstance(extent, int) and extent > 0 else 1 for extent in shape]
        if dtype == "i64":
            values.append(np.ones(shape, np.int64) if "mask" in name else random.integers(0, 100, shape))
        else:
            values.append(random.standard_normal(shape).astype(np.float32))
    return values


LACKING = {}  # how many models and cases each device lacks a kernel for


def compiled(graph, devices, values):
    """The compiled graph for the CPU, and for the devices that have kernels for all nodes."""
    ways = {"cpu": graph.compile()}
    for device in devices:
        executable = graph.compile(device=device)
        try:
            executable(*values)
            ways[device] = executable
        except tenon.UnimplementedError as reason:
            LACKING[device] = LACKING.get(device, 0) + 1
            if os.environ.get("PRECISION_SHOW"):
                print(f"      not on {device}: {str(reason).splitlines()[0].split('; it has')[0][:150]}")
    return ways


def run_ways(ways, values):
    results = {}
    for way, executable in ways.items():
        for threads in (1, 2) if way == "cpu" else (2,):
            with tenon.threads(threads):
                results[f"{way}, {threads} threads"] = listed(executable(*values))
    return results


def first_difference(path):
    """What `tenon compare` tells about the compiled and the plain run."""
    run = subprocess.run([os.path.join(BUILD, "tenon"), "compare", path, "--against", "plain"], capture_output=True, text=True)
    return (run.stdout + run.stderr).strip()[:1500]


def check_model(path, devices):
    model = onnx.load(path)
    graph, names = tenon.graph.load(path), [output.name for output in model.graph.output]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "wide.onnx")
        onnx.save(widened(model), file)
        del model
        exact = tenon.graph.load(file).compile(plain=True)
        plain, ways, errors = graph.compile(plain=True), compiled(graph, devices, inputs_of(graph, 0)), Errors(names)
        for draw in range(DRAWS):
            values = inputs_of(graph, draw)
            errors.add(listed(exact(*map(widen_array, values))), listed(plain(*values)), run_ways(ways, values))
            if errors.found and not errors.wrong():
                return None
    return (errors.wrong() or "no output is a float") + "\n" + first_difference(path)


def read_inputs(case):
    files = sorted(glob.glob(os.path.join(case, "test_data_set_0", "input_*.pb")), key=lambda file: int(file.rsplit("_", 1)[1][:-3]))
    values = []
    for file in files:
        tensor = onnx.TensorProto()
        with open(file, "rb") as stream:
            tensor.ParseFromString(stream.read())
        values.append(numpy_helper.to_array(tensor))
    return values


def check_case(case, devices):
    """Returns what is wrong, None, or a reason why the case cannot be judged."""
    path = os.path.join(case, "model.onnx")
    model = onnx.load(path)
    if any(value.type.WhichOneof("value") != "tensor_type" for value in (*model.graph.input, *model.graph.output)):
        return "skip: not only tensors"
    if not any(value.type.tensor_type.elem_type in (1, 10) for value in model.graph.output):
        return "skip: no output is a float"
    values = read_inputs(case)
    try:
        graph = tenon.graph.load(path)
        plain = listed(graph.compile(plain=True)(*values))
    except (tenon.Error, ValueError, TypeError):
        return "skip: they do not run on arrays of NumPy"
    try:
        exact = listed(tenon.graph.load(widened(model).SerializeToString()).compile(plain=True)(*map(widen_array, values)))
    except tenon.Error:
        return "skip: their operators do not take doubles"
    errors = Errors([output.name for output in model.graph.output])
    errors.add(exact, plain, run_ways(compiled(graph, devices, values), values))
    if not errors.found:
        return "skip: no output is a float"
    why = errors.wrong()
    return why and why + "\n" + first_difference(path)


def share_of(items):
    """The items of this run: those that the number of commits chooses."""
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    turn = int(count or 0) // SHARES % SHARES
    return [item for index, item in enumerate(items) if os.environ.get("PRECISION") == "whole" or index % SHARES == turn]


def report(name, why, totals):
    kind = "passed"
    if why:
        kind = "skipped" if why.startswith("skip: ") else "failed"
    totals[kind] += 1
    if kind == "failed":
        print(f"FAIL  {name}: {why}", flush=True)
    return why[6:] if kind == "skipped" else None


def main():
    light = sorted(glob.glob(os.path.join(DATA, "light", "*.onnx")))
    models = light + sorted(glob.glob(os.path.join(ZOO, "*.onnx")))
    cases = [case for case in sorted(glob.glob(os.path.join(DATA, "node", "*"))) if not any(word in os.path.basename(case) for word in RANDOM)]
    wanted = set(sys.argv[1:])
    devices = ["sim", "opencl"] if os.environ.get("PRECISION") == "whole" else sorted(wanted & {"sim", "opencl"})
    wanted -= {"sim", "opencl"}
    if wanted:
        models = [path for path in models if os.path.basename(path)[:-5] in wanted]
        cases = [case for case in cases if os.path.basename(case) in wanted]
    else:
        models, cases = share_of(models), share_of(cases)
    totals, reasons = {"passed": 0, "failed": 0, "skipped": 0}, {}
    for path in models:
        begun = time.monotonic()
        report(os.path.basename(path), check_model(path, devices if os.path.getsize(path) < LARGE else []), totals)
        print(f"      {os.path.basename(path)} {time.monotonic() - begun:.0f} s", flush=True)
    for case in cases:
        reason = report(os.path.basename(case), check_case(case, devices), totals)
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        print(f"skip: {count} cases of ONNX's suite: {reason}")
    for device, count in LACKING.items():
        print(f"      {device} lacks kernels of {count} models and cases")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return totals["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
