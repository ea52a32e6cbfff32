#!/usr/bin/env python3
"""Models under torch.compile with one backend, beside eager PyTorch: results, training steps, graphs, and 20 lengths with one compilation.

    compile_models_test.py [--list] [--only PATTERN] [--backend NAME]

PATTERN is one of a shell, such as 'timm-*'. BACKEND=NAME is the default of --backend, and else "tenon". COMPILE_SHARE=2/8 takes every eighth
model, from the third on; COMPILE_SHARE=commit takes the share of this commit. Each model runs in a process of its own, so that a crash is the
finding of one model. Run with the Python of .venv-compile.
"""
import argparse
import copy
import fnmatch
import logging
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

SHARES = 8
PATIENCE = 300  # seconds for a model
STEPS = 3  # of a training
# The bound of torch._dynamo.utils.same for absolute and relative errors. It is the default of `same`, and ten times stricter than the one that
# PyTorch's benchmarks of inductor use for inference in f32 (benchmarks/dynamo/timm_models.py: 1e-3, and 1e-2 for training).
TOLERANCE = 1e-4
# Models that have more graphs with any backend, because torch.compile itself breaks them: `--backend eager` shows their number.
GRAPHS = {}
# Models that torch.compile compiles more often for 20 lengths with any backend.
COMPILATIONS = {}
IN_ONE_GRAPH = 0.9  # the share of models that must have one graph


def tensors_of(value):
    """The tensors of a result, which may be nested, and of a cache of keys and values."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "layers"):
        value = [state for layer in value.layers for state in vars(layer).values()]
    return [tensor for part in value for tensor in tensors_of(part)] if hasattr(value, "__iter__") and not isinstance(value, str) else []


def run(module, inputs):
    """The tensors that a call returns or writes. The call receives copies of its inputs."""
    inputs = copy.deepcopy(inputs)
    return tensors_of([module(**inputs), inputs])


def train(module, function, inputs):
    """The losses of some steps, and the parameters and statistics after them. function: the module, or what it was compiled to."""
    optimiser, losses = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = function(**inputs)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses + [value.detach() for value in (*module.parameters(), *module.buffers())]


def compare(expected, found):
    """The largest absolute difference."""
    differences = [float((e.double() - f.double()).abs().nan_to_num().max()) for e, f in zip(expected, found) if e.shape == f.shape and e.numel()]
    worst = max(differences, default=0.0)
    if not same(expected, found, tol=TOLERANCE, equal_nan=True):
        raise AssertionError(f"the results differ from those of eager PyTorch by up to {worst:.1e}")
    return worst


def compile_anew(module, **options):
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(module, **options)


def graphs_compiled():
    return counters["stats"]["unique_graphs"]


def measure_training(case, backend):
    twin = copy.deepcopy(case.module)
    expected = train(twin, twin, case.inputs)
    compiled = compile_anew(case.module, backend=backend)
    return {"difference": compare(expected, train(case.module, compiled, case.inputs)), "graphs": graphs_compiled()}


def measure_inference(case, backend):
    expected = run(case.module, case.inputs)
    compiled = compile_anew(case.module, backend=backend)
    result = {"difference": compare(expected, run(compiled, case.inputs)), "graphs": graphs_compiled(), "breaks": list(counters["graph_break"])}
    compare(expected, run(compiled, case.inputs))
    if graphs_compiled() != result["graphs"]:
        raise AssertionError("the second call compiled again")
    if case.others:
        compiled = compile_anew(case.module, backend=backend, dynamic=True)
        for inputs in case.inputs, *case.others:
            result["difference"] = max(result["difference"], compare(run(case.module, inputs), run(compiled, inputs)))
        result["compilations"] = graphs_compiled()
    return result


def measure(name, backend):
    """What a model did; raises an AssertionError if it has more graphs or compilations than torch.compile itself makes of it."""
    if backend == "tenon":
        import tenon.torch  # noqa: F401
    case = MODELS[name]()
    begin = time.perf_counter()
    if case.module.training:
        result = measure_training(case, backend)
    else:
        with torch.no_grad():
            result = measure_inference(case, backend)
    result["seconds"] = time.perf_counter() - begin
    for key, table in ("graphs", GRAPHS), ("compilations", COMPILATIONS):
        if result.get(key, 1) != table.get(name, 1):
            raise AssertionError(f"{result[key]} {key} where {table.get(name, 1)} is expected: {'; '.join(result.get('breaks', []))[:300]}")
    return result


def work(channel, name, backend):
    try:
        channel.send(measure(name, backend))
    except BaseException as error:
        traceback.print_exc()
        channel.send({"failure": " ".join(f"{type(error).__name__}: {error}".split())[:300]})


def measure_apart(name, backend):
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(there, name, backend))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(PATIENCE) else {"failure": f"it took more than {PATIENCE} s"}
    except EOFError:
        child.join()
        return {"failure": f"the process ended with {child.exitcode}"}
    finally:
        child.kill()
        child.join()


def report(name, result):
    if "failure" in result:
        return f"FAIL: {name}: {result['failure']}"
    lengths = f", {len(LENGTHS)} lengths in {result['compilations']}" if "compilations" in result else ""
    return f"{name}: {result['graphs']} graph(s){lengths}, {result['seconds']:.1f} s, largest difference {result['difference']:.1e}"


def share_of(names):
    share = os.environ.get("COMPILE_SHARE", "0/1")
    if share == "commit":
        commits = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
        share = f"{int(commits or 0) % SHARES}/{SHARES}"
        print(f"skipped: of {len(names)} models under torch.compile, this commit tests the share {share} (make test-compile tests all)")
    index, count = map(int, share.split("/"))
    return names[index % count::count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="models whose names fit, such as 'timm-*'")
    parser.add_argument("--backend", default=os.environ.get("BACKEND", "tenon"), metavar="NAME", help="a backend of torch.compile")
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
    print(f"{len(results)} models, {single} in a single graph, backend {options.backend}, {time.monotonic() - begin:.0f} s")
    failed = len(results) - len(good)
    if len(MODELS) - len(GRAPHS) < IN_ONE_GRAPH * len(MODELS):
        print(f"FAIL: {len(GRAPHS)} of {len(MODELS)} models have more than one graph")
        failed += 1
    print(f"{len(good)} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
