#!/usr/bin/env python3
"""Measures steps of training: graphs that Tenon differentiates and compiles beside PyTorch's eager mode.

A model is exported by PyTorch with its loss. A step computes the loss and all gradients and subtracts a part of each gradient
from its weight: in NumPy for Tenon, in place for PyTorch. The two take turns in one process; a figure is the median.

Usage: training.py [--threads N,...] [--seconds S] [NAME...]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings

import report

sys.path[:0] = [os.path.join(report.BUILD, "python"), os.path.join(report.ROOT, "tests", "acceptance")]


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
    mine, theirs = (1e3 * sorted(t)[len(t) // 2] for t in times)
    print(f"{name:12} {threads} threads  Tenon {mine:8.3f} ms  PyTorch {theirs:8.3f} ms  ratio {theirs / mine:5.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", default=["mlp", "cnn", "transformer"])
    arguments = parser.parse_args()
    failed = 0
    for threads in map(int, arguments.threads.split(",")):
        if arguments.here:
            for name in arguments.names:
                measure(name, threads, arguments.seconds)
            continue
        environment = dict(os.environ, TENON_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        command = [sys.executable, __file__, "--here", "--threads", str(threads), "--seconds", str(arguments.seconds), *arguments.names]
        failed |= subprocess.run(command, env=environment).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
