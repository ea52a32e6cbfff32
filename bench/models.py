#!/usr/bin/env python3
"""Measures models on Tenon, ONNX Runtime and OpenVINO: milliseconds of a run, and how many times faster Tenon is.

Each model and number of threads has a process of its own, in which the runtimes take turns in short blocks. In all
three the inputs are in the caller's memory and the outputs are given. A ratio is the peer's time over Tenon's: the
median over rounds of the ratio in a round. Beside it is the ratio of 10th percentiles, which other work on the
machine disturbs least. The columns of limits are the milliseconds that the arithmetic of all nodes needs at this
machine's peak, and their memory traffic if nothing stayed in caches (`tenon run --profile`), and the share of the time that the arithmetic
needs. Models that are slower than a peer are listed. Exit status 1: something failed, or outputs differ from ONNX Runtime's.

Usage: models.py [--light] [--threads N,...] [--seconds S] [--update] [NAME...]
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time

import report

ZOO = os.path.join(report.BUILD, "zoo")
NAMES = ("minilm_16", "minilm_128", "bert_base_128", "resnet50", "mobilenetv2", "vit_small", "convnext_tiny", "lstm", "mlp_small", "chain_small", "chain_big")
PEERS = ("onnxruntime", "openvino")
# The pause between blocks is longer than idle threads spin in any of the three (OpenMP's threads in oneDNN: a few ms).
PAUSE, BLOCK, LEAST_RUNS = 0.03, 0.12, 3
RTOL, ATOL = 1e-3, 1e-5  # ATOL is a share of the largest output


# ---- one model, in a process of its own -----------------------------------------------------------------------------


def make_inputs(session, seed=7):
    import numpy as np

    random, values = np.random.default_rng(seed), {}
    for port in session.get_inputs():
        shape = [extent if isinstance(extent, int) and extent > 0 else 1 for extent in port.shape]
        if "float" in port.type:
            values[port.name] = random.standard_normal(shape).astype(np.float32)
        elif "mask" in port.name:
            values[port.name] = np.ones(shape, np.int64)
        else:
            values[port.name] = random.integers(0, 1000, shape).astype(np.int64)
    return values


def start_onnxruntime(path, threads, values=None):
    """Returns functions that run the model and give its outputs, the inputs for all runtimes, and the output names.

    The inputs are `values`, or random ones."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values, binding = values or make_inputs(session), session.io_binding()
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(output.copy()) for output in session.run(None, values)]
    for name, value in values.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    names = [output.name for output in session.get_outputs()]
    for name, output in zip(names, outputs):
        binding.bind_ortvalue_output(name, output)
    return lambda: session.run_with_iobinding(binding), lambda: [output.numpy() for output in outputs], values, names


def start_openvino(path, threads, values, names, like):
    import numpy as np
    import openvino

    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(path, "CPU", config).create_infer_request()
    for name, value in values.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    outputs = [np.empty_like(array) for array in like]
    for name, output in zip(names, outputs):
        request.set_tensor(name, openvino.Tensor(output, shared_memory=True))
    return lambda: request.infer(share_outputs=True), lambda: outputs


def bind_tenon(path, threads, values, like):
    """Returns the model, with inputs and outputs bound, and its outputs."""
    import binding
    import numpy as np

    codes = {"float32": (2, 32), "int64": (0, 64), "int32": (0, 32), "bool": (6, 8), "float64": (2, 64), "float16": (2, 16), "uint8": (1, 8), "int8": (0, 8)}
    tenon = binding.Tenon(report.BUILD)
    tenon.threads_set(threads)
    model = tenon.load(path)
    outputs = [np.empty_like(array) for array in like]
    tensor = lambda array: tenon.tensor(array.ctypes.data, codes[array.dtype.name], array.shape)
    model.bind([tensor(values[name]) for name, _, _ in model.inputs], [tensor(array) for array in outputs])
    return model, outputs


def start_tenon(path, threads, values, like):
    model, outputs = bind_tenon(path, threads, values, like)
    return model.run, lambda: outputs


def difference(outputs, reference):
    """The largest difference as a share of the largest value, and whether all values agree."""
    import numpy as np

    worst, same = 0.0, True
    for found, expected in zip(outputs, reference):
        most = float(np.max(np.abs(expected), initial=0))
        worst = max(worst, float(np.max(np.abs(found - expected), initial=0)) / max(most, 1e-30))
        same &= found.shape == expected.shape and np.allclose(found, expected, RTOL, ATOL * max(1.0, most), equal_nan=True)
    return worst, bool(same)


def time_block(run):
    time.sleep(PAUSE)
    run()
    begin, times = time.perf_counter(), []
    while len(times) < LEAST_RUNS or time.perf_counter() - begin < BLOCK:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def measure(path, threads, seconds, peers=PEERS):
    runtimes, notes, checks, outputs = {}, {}, {}, {}  # outputs keeps the arrays alive while runs write to them
    runtimes["onnxruntime"], outputs["onnxruntime"], values, names = start_onnxruntime(path, threads)
    runtimes["onnxruntime"]()
    reference = [array.copy() for array in outputs["onnxruntime"]()]
    for name, start in (("tenon", lambda: start_tenon(path, threads, values, reference)),
                        ("openvino", lambda: start_openvino(path, threads, values, names, reference))):
        if name not in ("tenon", *peers):
            continue
        try:
            runtimes[name], outputs[name] = start()
            runtimes[name]()
        except Exception as error:
            runtimes.pop(name, None)
            notes[name] = str(error)[:500]
    order, rounds, begin = list(runtimes), [], time.perf_counter()
    while len(rounds) < 5 or time.perf_counter() - begin < seconds:
        rounds.append({name: time_block(runtimes[name]) for name in order})
        order = order[1:] + order[:1]
        if time.perf_counter() - begin > 10 * seconds:
            break
    for name in runtimes:
        checks[name] = difference(outputs[name](), reference)
    result = {"rounds": len(rounds), "notes": notes, "checks": checks}
    for name in runtimes:
        times = [t * 1e3 for block in rounds for t in block[name]]
        result[name] = {"median_ms": round(report.median(times), 4), "p10_ms": round(report.quantile(times, 0.1), 4)}
    for name in PEERS:
        if name in runtimes and "tenon" in runtimes:
            ratios = [report.median(block[name]) / report.median(block["tenon"]) for block in rounds]
            result[f"over_{name}"] = {"median": round(report.median(ratios), 3), "p10": round(result[name]["p10_ms"] / result["tenon"]["p10_ms"], 3)}
    return result


# ---- all models -----------------------------------------------------------------------------------------------------


PATIENCE = 300  # seconds for one process


def paths_of(names, light=False):
    """The files by name. Models of the zoo that are missing are made first."""
    import onnx

    paths = {name: os.path.join(ZOO, f"{name}.onnx") for name in NAMES}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light/*.onnx"))):
        name = os.path.basename(path)[:-5]
        if light or name in names:
            paths[name] = path
    unknown = [name for name in names if name not in paths]
    if unknown:
        sys.exit(f"models: no model {', '.join(unknown)}; there are {', '.join(paths)}")
    paths = {name: path for name, path in paths.items() if not names or name in names}
    missing = [name for name, path in paths.items() if not os.path.exists(path)]
    if missing:
        report.progress(f"models: making {', '.join(missing)}")
        subprocess.run([os.path.join(report.ROOT, ".venv-zoo/bin/python"), os.path.join(report.ROOT, "bench/models/make_zoo.py"), ZOO, *missing], check=True)
    return paths


def measure_rounds_apart(script, path, threads, options):
    """Returns what `script --one` finds out about a model in a process of its own."""
    command = [sys.executable, script, "--one", "--threads", str(threads), "--rounds", str(options.rounds), "--seconds", str(options.seconds), path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, f"{os.path.basename(path)}: status {run.returncode}: {run.stderr.strip()[-500:]}"
    return json.loads(run.stdout)


def measure_apart(path, threads, seconds):
    command = [sys.executable, os.path.abspath(__file__), "--one", path, "--threads", str(threads), "--seconds", str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    why = f"signal {-run.returncode}" if run.returncode < 0 else run.stderr.strip().split("\n")[-1]
    return {"notes": {"all": why[:500]}, "checks": {}}


def limits_of(path, threads):
    """The times that a model's work needs at the machine's peak, in milliseconds: {"arithmetic_ms", "memory_ms"}."""
    os.makedirs(report.SCRATCH, exist_ok=True)
    trace = os.path.join(report.SCRATCH, "models.trace.json")
    command = [os.path.join(report.BUILD, "tenon"), "run", path, "--input", "ones", "--threads", str(threads), "--profile", trace]
    peaks = {**os.environ, "TENON_CACHE": report.SCRATCH}  # measured once for a build folder
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=peaks).stdout
    bandwidth, peak = (float(word) * 1e9 for word in re.search(r"at its peak \((\S+) GB/s, (\S+) GFLOP/s", text).groups())
    work = [event.get("args", {}) for event in json.load(open(trace))["traceEvents"] if event.get("ph") == "X"]
    total = lambda key: sum(args.get(key, 0) for args in work)
    return {"arithmetic_ms": round(total("operations") / peak * 1e3, 4), "memory_ms": round(total("bytes") / bandwidth * 1e3, 4)}


def row_of(name, result):
    cell = lambda key: f"{result[key]['median_ms']:.3f}" if key in result else "-"
    ratios = lambda key: [f"{result[key][which]:.2f}" if key in result else "-" for which in ("median", "p10")]
    apart = lambda key: f"{result['checks'][key][0]:.0e}" if key in result["checks"] else "-"
    limits = result.get("limits")
    bounds = [f"{limits[key]:.3f}" for key in ("arithmetic_ms", "memory_ms")] if limits else ["-", "-"]
    share = f"{limits['arithmetic_ms'] / result['tenon']['median_ms']:.2f}" if limits and "tenon" in result else "-"
    return [name, *map(cell, ("tenon",) + PEERS), *ratios("over_onnxruntime"), *ratios("over_openvino"), *bounds, share, apart("tenon"), apart("openvino")]


def losses(figures, threads):
    """A line for each model and peer that is faster than Tenon, the worst first."""
    rows = [(results[threads][f"over_{peer}"]["median"], name, peer, results[threads]) for name, results in figures.items() for peer in PEERS
            if results[threads].get(f"over_{peer}", {"median": 1})["median"] < 1]
    return [f"{name}: {ratio:.2f} of {peer}; {result['tenon']['median_ms']:.3f} ms, of which arithmetic needs "
            f"{result['limits']['arithmetic_ms']:.3f} and memory {result['limits']['memory_ms']:.3f}" for ratio, name, peer, result in sorted(rows, key=lambda row: row[0])]


def offences(name, threads, result):
    found = [f"{name}, {threads} threads: {who}: {why}" for who, why in result["notes"].items()]
    worst, same = result["checks"].get("tenon", (0, True))
    return found + ([] if same else [f"{name}, {threads} threads: tenon's outputs differ from onnxruntime's by {worst:.2g} of the largest"])


def mean_ratio(figures, threads, peer):
    ratios = [result[threads][f"over_{peer}"]["median"] for result in figures.values() if f"over_{peer}" in result.get(threads, {})]
    product = 1.0
    for ratio in ratios:
        product *= ratio
    return product ** (1 / len(ratios)) if ratios else float("nan")


def print_figures(figures, threads):
    report.print_table(f"{threads} threads: milliseconds of a run (median), speed of Tenon over the peer, limits, largest difference from ONNX Runtime",
                       ["", "tenon", *PEERS, "over ort", "p10", "over ov", "p10", "arithmetic", "memory", "share", "tenon's", "openvino's"],
                       [row_of(name, results[threads]) for name, results in figures.items()])
    for peer in PEERS:
        print(f"  geometric mean over {peer}: {mean_ratio(figures, threads, peer):.2f}")
    for line in losses(figures, threads):
        print(f"  slower: {line}")


def saved_figures():
    return {name: {int(threads): result for threads, result in results.items()} for name, results in report.saved_figures("models").items()}


def save(figures):
    both = {name: results for name, results in figures.items() if 1 in results and 2 in results}
    headline = [[f"models, speed over {peer}, {threads} threads, geometric mean", f"{mean_ratio(both, threads, peer):.2f}"] for peer in PEERS for threads in (1, 2)]
    headline += [[f"models slower than {peer}, {threads} threads", f"{sum(f' of {peer};' in line for line in losses(both, threads))} of {len(both)}"]
                 for peer in PEERS for threads in (1, 2)]
    headline += [[f"{name} over onnxruntime, 2 threads", f"{result[2]['over_onnxruntime']['median']:.2f}"] for name, result in both.items() if "over_onnxruntime" in result[2]]
    report.save("models", figures, headline, "numpy", *PEERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--light", action="store_true", help="also the nine models of the onnx package")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=6, help="time for each model and number of threads")
    parser.add_argument("--update", action="store_true", help="replace these figures in bench/results/models.json, and print all that are there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, int(options.threads), options.seconds)))
        return 0
    counts, paths = [int(count) for count in options.threads.split(",")], paths_of(options.names, options.light)
    figures, bad = saved_figures() if options.update else {}, []
    for threads in counts:
        for name, path in paths.items():
            report.progress(f"models: {name}, {threads} threads")
            result = measure_apart(path, threads, options.seconds)
            figures.setdefault(name, {})[threads] = {**result, "limits": limits_of(path, threads)}
            bad += offences(name, threads, result)
        print_figures({name: results for name, results in figures.items() if threads in results}, threads)
    print("".join(f"\nFAIL {line}" for line in bad))
    if options.update or (not options.names and counts == [1, 2]):
        save(figures)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
