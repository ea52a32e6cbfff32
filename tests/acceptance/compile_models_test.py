#!/usr/bin/env python3
"""Models under torch.compile with one backend, beside eager PyTorch: results, training, graphs, many lengths, and exported programs.

    compile_models_test.py [--list] [--only PATTERN] [--backend NAME]

PATTERN is one of a shell, such as 'timm-*'. BACKEND=NAME is the default of --backend, and else "tenon".
COMPILE_SHARE=2/12 takes every twelfth model, from the third on; COMPILE_SHARE=commit takes the share of this commit.
Each model runs in a process of its own, so that a crash is the finding of one model. Run with .venv-compile's Python.
"""
import argparse
import copy
import fnmatch
import logging
import math
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
import warnings

import torch
import torch._dynamo
from torch._dynamo.utils import counters, same

from compile_models import LENGTHS, MODELS, ROOT

SHARES = 12
PATIENCE = 300  # seconds for a model
STEPS = 3  # of a training
# The bound of absolute and relative errors that torch._dynamo.utils.same has by default. PyTorch's own benchmarks of
# backends allow 1e-3 for inference in f32, and 1e-2 for training (benchmarks/dynamo/timm_models.py).
TOLERANCE = 1e-4
# Models that torch.compile breaks into several graphs for any backend: --backend eager shows the number.
GRAPHS = {f"transformers-{name}": count for name, count in (("longformer", 6), ("led", 5), ("xlm", 2), ("flaubert", 2))}
# Models that are not compiled as exported programs. torch.export takes no objects for caches, and no lengths that depend
# on data; Tenon runs no operators of transformers (for mixtures of experts), no checks, and no writes to parameters.
NOT_EXPORTED = {f"gpt2-{step}-{cache}" for step in ("prefill", "decode") for cache in ("static", "dynamic")}
NOT_EXPORTED |= {f"transformers-{name}" for name in ("longformer", "led", "mixtral", "qwen2_moe", "gpt_oss", "xlm", "flaubert", "rwkv")}
SINGLE = 0.9  # the share of models that must have a single graph


def tensors_of(value):
    """The tensors of a result, which may be nested, and of a cache of keys and values."""
    if isinstance(value, torch.Tensor):
        return [value]
    if hasattr(value, "layers"):
        value = [vars(layer) for layer in value.layers]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors_of(part)] if isinstance(value, (list, tuple)) else []


def run(module, inputs):
    """The tensors that a call returns or writes. The call receives copies of its inputs."""
    inputs = copy.deepcopy(inputs)
    return tensors_of([module(**inputs), inputs])


def train(module, function, inputs):
    """The losses of some steps, and the parameters and statistics after them. function: `module`, maybe compiled."""
    optimiser, losses = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = function(**inputs)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses + [value.detach() for value in (*module.parameters(), *module.buffers())]


def difference(expected, found):
    """The largest absolute difference of an element; infinite where one of both is NaN."""
    is_same = (expected == found) | (expected.isnan() & found.isnan())
    apart = (expected.double() - found.double()).abs().nan_to_num(nan=math.inf)
    return float(apart.masked_fill(is_same, 0).max()) if apart.numel() else 0.0


def compare(expected, found):
    """Returns the largest difference; raises an AssertionError if it is beyond the tolerance."""
    if [e.shape for e in expected] != [f.shape for f in found]:
        raise AssertionError("the results have other shapes than those of eager PyTorch")
    worst = max(map(difference, expected, found), default=0.0)
    if not same(expected, found, tol=TOLERANCE, equal_nan=True):
        raise AssertionError(f"the results differ from those of eager PyTorch by up to {worst:.1e}, or in their dtypes")
    return worst


def compile_anew(module, **options):
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(module, **options)


def graphs_compiled():
    return counters["stats"]["unique_graphs"]


def found_so_far(difference):
    return {"difference": difference, "graphs": graphs_compiled(), "breaks": list(counters["graph_break"])}


def measure_training(case, backend):
    twin = copy.deepcopy(case.module)
    expected = train(twin, twin, case.inputs)
    found = train(case.module, compile_anew(case.module, backend=backend), case.inputs)
    return found_so_far(compare(expected, found))


def run_exported(case):
    """The tensors that the model returns as an exported program, compiled by Tenon alone."""
    import tenon.torch
    program = torch.export.export(case.module, (), copy.deepcopy(case.inputs))
    return tensors_of(tenon.torch.compile(program)(**case.inputs))


def measure_inference(case, backend):
    expected, compiled = run(case.module, case.inputs), compile_anew(case.module, backend=backend)
    worst = compare(expected, run(compiled, case.inputs))
    result = found_so_far(worst)
    compare(expected, run(compiled, case.inputs))
    if graphs_compiled() != result["graphs"]:
        raise AssertionError("the second call compiled again")
    if case.others and result["graphs"] == 1:
        compiled = compile_anew(case.module, backend=backend, dynamic=True)
        for inputs in case.inputs, *case.others:
            worst = max(worst, compare(run(case.module, inputs), run(compiled, inputs)))
        result.update(difference=worst, compilations=graphs_compiled())
    return result


def measure(name, backend):
    """What a model did. Raises an AssertionError if it has other graphs or more compilations than expected."""
    if backend == "tenon":
        import tenon.torch  # noqa: F401
    case = MODELS[name]()
    is_exported = backend == "tenon" and not case.module.training and name not in NOT_EXPORTED
    begin = time.perf_counter()
    with torch.set_grad_enabled(case.module.training):
        result = (measure_training if case.module.training else measure_inference)(case, backend)
        if is_exported:
            result["exported"] = compare(tensors_of(case.module(**case.inputs)), run_exported(case))
    result["seconds"] = time.perf_counter() - begin
    for key, expected in ("graphs", GRAPHS.get(name, 1)), ("compilations", 1):
        if result.get(key, expected) != expected:
            raise AssertionError(f"expected {expected} {key}, found {result[key]}; {'; '.join(result['breaks'])[:300]}")
    return result


def work(channel, name, backend):
    try:
        channel.send(measure(name, backend))
    except BaseException as error:
        traceback.print_exc()
        channel.send({"failure": " ".join(f"{type(error).__name__}: {error}".split())[:400]})


def measure_apart(name, backend):
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(there, name, backend))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(PATIENCE) else {"failure": f"the model took more than {PATIENCE} s"}
    except EOFError:
        child.join()
        return {"failure": f"the process ended with {child.exitcode}"}
    finally:
        child.kill()
        child.join()


def report(name, result):
    if "failure" in result:
        return f"FAIL: {name}: {result['failure']}"
    graphs = f"{result['graphs']} graph" + "s" * (result["graphs"] > 1)
    if "compilations" in result:
        graphs += f", {len(LENGTHS)} lengths compiled once"
    exported = f", exported {result['exported']:.1e}" if "exported" in result else ""
    return f"{name}: {graphs}, {result['seconds']:.1f} s, largest difference {result['difference']:.1e}{exported}"


def share_of(names):
    share = os.environ.get("COMPILE_SHARE") or "0/1"
    if share == "commit":
        command = ["git", "-C", ROOT, "rev-list", "--count", "HEAD"]
        commits = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        share = f"{int(commits or 0) % SHARES}/{SHARES}"
        print(f"skipped: {len(names)} models have turns; this one is {share} (make test-compile-models takes all)")
    index, count = map(int, share.split("/"))
    return names[index % count::count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="models whose names fit, such as 'timm-*'")
    parser.add_argument("--backend", default=os.environ.get("BACKEND", "tenon"), metavar="NAME")
    options = parser.parse_args()
    names = [name for name in MODELS if fnmatch.fnmatch(name, options.only)]
    if options.list:
        print("\n".join(names))
        return 0
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    results, begin = {}, time.monotonic()
    for name in share_of(names):
        results[name] = measure_apart(name, options.backend)
        print(report(name, results[name]), flush=True)
    good = [result for result in results.values() if "failure" not in result]
    single = sum(result["graphs"] == 1 for result in good)
    exported = sum("exported" in result for result in good)
    seconds = time.monotonic() - begin
    print(f"{len(results)} models, {single} in a single graph, {exported} also as exported programs, backend {options.backend}, {seconds:.0f} s")
    failed = len(results) - len(good)
    if len(MODELS) - len(GRAPHS) < SINGLE * len(MODELS):
        print(f"FAIL: {len(GRAPHS)} of {len(MODELS)} models have several graphs, more than {1 - SINGLE:.0%}")
        failed += 1
    print(f"{len(good)} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
