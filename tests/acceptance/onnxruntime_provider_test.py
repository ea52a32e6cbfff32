"""ONNX's backend cases through ONNX Runtime with the provider tenon first, beside ONNX Runtime's CPU provider alone.

Each case that passes with the CPU provider must pass with Tenon in front of it.  TENON_CASES=all runs all cases; otherwise a share that
changes with the number of commits.  TENON_DEVICE=sim:0 runs the groups on that device.
"""
import fnmatch
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import onnx
from onnx import numpy_helper

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
FAMILIES = "node", "simple", "pytorch-converted", "pytorch-operator"
SHARES = 10
# Random by definition: the suite stores one draw of its own generator, so only dtype and shape can be compared.
RANDOM = ["*bernoulli*", "test_training_dropout", "test_training_dropout_default*", "test_training_dropout_mask"]
# Cases that are not judged, with the reason.
NOISE = "the stored result has the rounding noise of a single-precision transform, 1.9e-7, where zero is right"
LEFT_OUT = {"node/test_dft_inverse": NOISE, "node/test_dft_inverse_opset19": NOISE}
# How far an element may be off: the numbers of ONNX's own suite.
RELATIVE, ABSOLUTE = 1e-3, 1e-7


def read(path, kind):
    """A stored input or output; `kind` is the type that the model states."""
    with open(path, "rb") as file:
        data = file.read()
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def stored(folder, prefix, values):
    return [read(os.path.join(folder, f"{prefix}_{i}.pb"), value.type.WhichOneof("value")) for i, value in enumerate(values)]


def unpacked(found, expected):
    """The elements of small floats, which ONNX Runtime gives as the bytes of an array of u8, two of four bits in a byte."""
    if found.dtype != np.uint8 or expected.dtype.kind != "V":
        return found
    if "4" in expected.dtype.name.split("e")[0]:
        packed = found.reshape(-1)[:(expected.size + 1) // 2]
        found = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[:expected.size].reshape(expected.shape)
    return found.view(expected.dtype)


def same(found, expected, is_random):
    """Why the values differ; "" if they do not."""
    if isinstance(expected, list) or expected is None:
        if expected is None or found is None or len(found) != len(expected):
            return "" if found is expected else "another number of items"
        return next(filter(None, (same(f, e, is_random) for f, e in zip(found, expected))), "")
    found = np.asarray(found)
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if is_random:
        return ""
    found = unpacked(found, expected)
    try:
        if expected.dtype == object or expected.dtype.kind in "OSU":
            np.testing.assert_array_equal(found, expected)
        else:
            wide = (lambda x: x) if expected.dtype.kind in "biufc" else lambda x: x.astype(np.float64)
            np.testing.assert_allclose(wide(found), wide(expected), rtol=RELATIVE, atol=ABSOLUTE)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def run(case, make):
    """Runs all data sets of a case; returns why it does not pass, or ""."""
    folder = os.path.join(DATA, case)
    model = onnx.load(os.path.join(folder, "model.onnx"))
    inputs = [value for value in model.graph.input if value.name not in {i.name for i in model.graph.initializer}]
    is_random = any(fnmatch.fnmatch(os.path.basename(case), pattern) for pattern in RANDOM)
    try:
        session = make(os.path.join(folder, "model.onnx"))
        for data in sorted(name for name in os.listdir(folder) if name.startswith("test_data_set")):
            feed = dict(zip([value.name for value in inputs], stored(os.path.join(folder, data), "input", inputs)))
            expected = stored(os.path.join(folder, data), "output", model.graph.output)
            for found, wanted in zip(session.run(None, feed), expected):
                why = same(found, wanted, is_random)
                if why:
                    return "wrong: " + why
    except Exception as error:  # whatever ONNX Runtime raises is a case that does not pass
        return "error: " + " ".join(str(error).split())[:300]
    return ""


def worker(out, cases):
    """Writes a line for each case: how it went with the CPU provider, with Tenon, and what Tenon took."""
    import onnxruntime
    import tenon.onnxruntime.execution_provider as provider
    onnxruntime.set_default_logger_severity(4)

    def with_tenon(path):
        return onnxruntime.InferenceSession(path, provider.options(device=os.environ.get("TENON_DEVICE", "cpu")))

    for case in cases:
        print(f"begin\t{case}", file=out, flush=True)
        alone = run(case, lambda path: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]))
        provider.report(clear=True)
        first = run(case, with_tenon)
        print("end", case, alone, first, " | ".join(provider.report(clear=True)), sep="\t", file=out, flush=True)


def all_cases():
    found = [f"{family}/{case}" for family in FAMILIES for case in sorted(os.listdir(os.path.join(DATA, family)))]
    found = [case for case in found if case not in LEFT_OUT]
    if os.environ.get("TENON_CASES") == "all":
        return found
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return found[int(counted.stdout or 0) % SHARES::SHARES]


def results(cases):
    """How each case went; a case during which the process ends has crashed."""
    done = {}
    while len(done) < len(cases):
        left = [case for case in cases if case not in done]
        with tempfile.NamedTemporaryFile("w+") as out:
            ended = subprocess.run([sys.executable, os.path.abspath(__file__), out.name, *left[:400]], stderr=subprocess.PIPE, text=True, check=False)
            begun = None
            for line in out.read().splitlines():
                word, case, *rest = line.split("\t")
                begun = case if word == "begin" else None
                if word == "end":
                    done[case] = rest
            if begun:
                done[begun] = ["", f"error: the process ended with the status {ended.returncode}", ""]
            elif ended.returncode:
                sys.exit(f"the cases cannot run: {ended.stderr[-2000:]}")
    return done


def main():
    cases = all_cases()
    counts = {"both": 0, "tenon": 0, "neither": 0, "nodes": 0, "taken": 0}
    failed = 0
    for case, (alone, first, report) in sorted(results(cases).items()):
        if first.startswith("wrong") or (first and not alone):
            print(f"FAIL {case}: with Tenon {first}; alone {alone or 'it passes'}; {report}")
            failed += 1
        else:
            counts["neither" if first else "tenon" if alone else "both"] += 1
            if os.environ.get("TENON_VERBOSE"):
                print(f"{case}: {first or 'ok'}; {report}")
        counts["taken"] += "took 0 " not in report and "took" in report
    print(f"of {len(cases)} cases, {counts['both']} pass in both, {counts['tenon']} only with Tenon, {counts['neither']} in neither; Tenon took nodes of {counts['taken']}")
    print(f"{counts['both'] + counts['tenon']} passed, {failed} failed, {counts['neither']} skipped")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        with open(sys.argv[1], "w", encoding="utf-8") as lines:
            worker(lines, sys.argv[2:])
    else:
        sys.exit(main())
