#!/usr/bin/env python3
"""Measures steps of training: graphs that Tenon differentiates and compiles beside PyTorch's eager mode.

A model is exported by PyTorch with its loss. A step computes the loss and all gradients and subtracts a part of each gradient
from its weight: in NumPy for Tenon, in place for PyTorch. The two take turns in one process; a figure is the median.

Usage: training.py [--threads N,...] [--seconds S] [NAME...]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import report

sys.path[:0] = [os.path.join(report.BUILD, "python"), os.path.join(report.ROOT, "tests", "acceptance")]

NAMES = "mlp", "cnn", "transformer"


def networks():
    """Returns functions that make a network, its input, the number of rows of its result, and the number of classes."""
    import torch
    from torch import nn
    from training_test import Transformer

    layers = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    images = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 10)]
    return {"mlp": lambda: (nn.Sequential(*layers), torch.randn(128, 64), 128, 10),
            "cnn": lambda: (nn.Sequential(*images), torch.randn(32, 3, 32, 32), 32, 10),
            "transformer": lambda: (Transformer(50, 32, 64), torch.randint(0, 50, (8, 32)), 256, 50)}


def measure(name, threads, seconds):
    import numpy as np
    import tenon
    import torch
    from training_test import RATE, Loss

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, x, rows, classes = networks()[name]()
    model, target = Loss(net), torch.nn.functional.one_hot(torch.randint(0, classes, (rows,)), classes).float()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, (x, target), path, input_names=["x", "target"], output_names=["loss"], dynamo=False, opset_version=17,
                          do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
        weights = {n: p.detach().clone().numpy() for n, p in model.named_parameters()}
        executable = tenon.graph.load(path).gradients(list(weights)).compile()
    inputs, times = (x.numpy(), target.numpy()), ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        begin = time.perf_counter()
        _, *gradients = executable(*inputs, *weights.values())
        for weight, gradient in zip(weights.values(), gradients):
            weight -= RATE * np.asarray(gradient)
        middle = time.perf_counter()
        model(x, target).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= RATE * parameter.grad
                parameter.grad = None
        times[0].append(middle - begin)
        times[1].append(time.perf_counter() - middle)
    return {runtime: round(1e3 * report.median(found), 3) for runtime, found in zip(("tenon", "pytorch"), times)}


def measure_apart(name, threads, seconds):
    command = [sys.executable, __file__, "--one", "--threads", str(threads), "--seconds", str(seconds), name]
    environment = dict(os.environ, TENON_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=5, help="for one network in its process; it has at least ten steps")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        sys.exit(f"training: no network {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.one:
        print(json.dumps(measure(options.names[0], int(options.threads), options.seconds)))
        return
    report.warn_when_busy()
    figures = {}
    for name in options.names or NAMES:
        report.progress(f"training: {name}")
        figures[name] = {threads: measure_apart(name, threads, options.seconds) for threads in options.threads.split(",")}
    found = [(f"{name}, {threads} thread{'s' * (threads != '1')}", times, times["pytorch"] / times["tenon"])
             for name, row in figures.items() for threads, times in row.items()]
    report.print_table("milliseconds of a step", ["", "tenon", "pytorch", "ratio"],
                       [[text, f"{times['tenon']:.3f}", f"{times['pytorch']:.3f}", f"{ratio:.2f}"] for text, times, ratio in found])
    if not options.names:
        report.save("training", figures, [[f"step of training, {text}, PyTorch's time over Tenon's", f"{ratio:.2f}"] for text, _, ratio in found], "torch")


if __name__ == "__main__":
    main()
