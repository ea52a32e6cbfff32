#!/usr/bin/env python3
"""Measures quantised models on Tenon and ONNX Runtime: milliseconds of a run, and how many times faster Tenon is.

The models are those of the zoo, quantised by onnxruntime.quantization in the forms of FORMS: floats between
DequantizeLinear and QuantizeLinear (qdq, with 7 bits for weights, and qdq8, with all 8), the operators QLinearConv and
QLinearMatMul (qlinear), and ranges that are found at each run (dynamic). Weights have a scale for each channel;
activations are u8, with ranges from random inputs. They are kept in build/quantised. Measured as by models.py, whose
check of outputs is only printed here: ONNX Runtime saturates in qdq8, and rounds other sums in floats.

Usage: quantised.py [--threads N,...] [--seconds S] [--form FORM,...] [NAME...]. Exit status 1: something failed.
"""
import argparse
import json
import logging
import os
import subprocess
import sys

import models
import report

FOLDER = os.path.join(report.BUILD, "quantised")
NAMES = ("mobilenetv2", "resnet50", "minilm_128", "vit_small")
FORMS = ("qdq", "qdq8", "qlinear", "dynamic")
UNUSABLE = ("minilm_128 qlinear",)  # the quantiser writes a model that ONNX Runtime refuses
INPUTS = 4  # with which ranges are found


def quantise(source, form, path):
    """Writes the model `source` to `path` in one of FORMS."""
    import onnxruntime
    from onnxruntime import quantization as q

    logging.disable(logging.WARNING)
    if form == "dynamic":
        q.quantize_dynamic(source, path, weight_type=q.QuantType.QInt8, per_channel=True, reduce_range=True)
        return
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    inputs = [models.make_inputs(session, seed) for seed in range(INPUTS)]

    class Reader(q.CalibrationDataReader):
        def get_next(self):
            return inputs.pop() if inputs else None

    prepared = path + ".prepared"
    q.shape_inference.quant_pre_process(source, prepared, skip_symbolic_shape=True)
    layout = q.QuantFormat.QOperator if form == "qlinear" else q.QuantFormat.QDQ
    q.quantize_static(prepared, path, Reader(), quant_format=layout, per_channel=True, reduce_range=form != "qdq8",
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    os.remove(prepared)


def path_of(name, form):
    """The file of a model, which is made first if it is missing."""
    path = os.path.join(FOLDER, f"{name}_{form}.onnx")
    if not os.path.exists(path):
        report.progress(f"quantised: making {name} {form}")
        os.makedirs(FOLDER, exist_ok=True)
        quantise(models.paths_of([name], False)[name], form, path + ".part")
        os.replace(path + ".part", path)
    return path


def measure_apart(path, threads, seconds):
    command = [sys.executable, os.path.abspath(__file__), "--one", path, "--threads", str(threads), "--seconds", str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    return {"notes": {"all": (run.stderr.strip() or f"status {run.returncode}").split("\n")[-1][:500]}, "checks": {}}


def row_of(name, result):
    cell = lambda key: f"{result[key]['median_ms']:.2f}" if key in result else "-"
    ratios = [f"{result['over_onnxruntime'][which]:.2f}" if "over_onnxruntime" in result else "-" for which in ("median", "p10")]
    apart = f"{result['checks']['tenon'][0]:.0e}" if "tenon" in result["checks"] else "-"
    return [name, cell("tenon"), cell("onnxruntime"), *ratios, apart]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(NAMES)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=5, help="time for each model and number of threads")
    parser.add_argument("--form", default=",".join(FORMS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(models.measure(options.one, int(options.threads), options.seconds, ("onnxruntime",))))
        return 0
    counts, forms = [int(count) for count in options.threads.split(",")], options.form.split(",")
    paths = {f"{name} {form}": path_of(name, form) for name in options.names or NAMES for form in forms if f"{name} {form}" not in UNUSABLE}
    figures, bad = {name: {} for name in paths}, []
    for threads in counts:
        for name, path in paths.items():
            report.progress(f"quantised: {name}, {threads} threads")
            figures[name][threads] = measure_apart(path, threads, options.seconds)
            bad += [f"{name}, {threads} threads: {who}: {why}" for who, why in figures[name][threads]["notes"].items()]
        report.print_table(f"{threads} threads: milliseconds of a run (median), speed of Tenon over ONNX Runtime, largest difference",
                           ["", "tenon", "onnxruntime", "over ort", "p10", "apart"],
                           [row_of(name, figures[name][threads]) for name in paths])
        print(f"  geometric mean over onnxruntime: {models.mean_ratio(figures, threads, 'onnxruntime'):.2f}")
    print("".join(f"\nFAIL {line}" for line in bad))
    if not options.names and forms == list(FORMS) and counts == [1, 2]:
        headline = [[f"quantised models, speed over onnxruntime, {threads} threads, geometric mean",
                     f"{models.mean_ratio(figures, threads, 'onnxruntime'):.2f}"] for threads in counts]
        report.save("quantised", figures, headline, "numpy", "onnxruntime")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
