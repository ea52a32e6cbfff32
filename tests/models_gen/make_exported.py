"""Writes small neural networks with random weights as ONNX files, by both exporters of PyTorch.

Usage: make_exported.py FOLDER [--share K/N] [NAME...], in the environment of scripts/requirements-zoo.txt.  NAME is an architecture of
tests/models_gen/architectures or one of its models; share K of N takes every Nth architecture, beginning with K.  NAME.onnx comes from the newer
exporter (torch.export) and has opset 18, NAME-23.onnx has opset 23, and NAME-script.onnx comes from the older exporter (TorchScript); beside
each is NAME.npz with its inputs at each size, as INPUT.SIZE."""
import argparse
import logging
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from architectures import audio, hugging_face, operators, others, text, vision  # noqa: F401 (they fill ARCHITECTURES)
from architectures.registry import ARCHITECTURES

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
SUFFIXES = {"dynamo": "", "dynamo-23": "-23", "script": "-script"}


def models(architectures):
    """Every model of them: its name, its architecture, its exporter, and the number of the size that is fixed in it (or None)."""
    for name in architectures:
        _, exporters, fixed = ARCHITECTURES[name]
        for exporter in exporters:
            for size in (0, 1) if fixed else (None,):
                yield name + SUFFIXES[exporter] + ("" if size is None else f"-{size}"), name, exporter, size


def disturb(module):
    """Weights of norms, biases and statistics that are neither 0 nor 1, so that a result shows whether they were used."""
    for parameter in module.parameters():
        if parameter.dim() == 1 and parameter.is_floating_point():
            parameter.data += (0.1 * torch.randn(parameter.shape)).to(parameter.dtype)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer += 0.2 * torch.randn(buffer.shape).to(buffer.dtype)
        if name.endswith("running_var"):
            buffer *= (0.5 + torch.rand(buffer.shape)).to(buffer.dtype)


class Positional(torch.nn.Module):
    """Gives a module its named inputs by position, and its results as one tuple."""
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *values):
        out = self.module(*values)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def export(path, name, exporter, fixed):
    torch.manual_seed(5)
    module, *sizes = ARCHITECTURES[name][0]()
    module.eval()
    disturb(module)
    names, chosen = list(sizes[0]), sizes if fixed is None else [sizes[fixed]]
    axes = {key: {axis: f"{key}_{axis}" for axis, (a, b) in enumerate(zip(chosen[0][key].shape, chosen[-1][key].shape)) if a != b} for key in names}
    # The larger size is the example, because the exporters take extents of 1 for constants.
    example = tuple(chosen[-1].values())
    if not isinstance(module, torch.jit.ScriptModule):
        module = Positional(module)
    common = {"input_names": names, "opset_version": 23 if exporter == "dynamo-23" else 18, "verbose": False}
    with torch.no_grad():
        if exporter == "script":
            torch.onnx.export(module, example, path, dynamo=False, dynamic_axes=axes, **common)
        else:
            dynamic = {"values": tuple({axis: torch.export.Dim.DYNAMIC for axis in axes[key]} for key in names)}
            torch.onnx.export(module, example, path, dynamo=True, dynamic_shapes=dynamic, external_data=False, custom_translation_table=operators.dynamo_table(), **common)
    np.savez(path.with_suffix(".npz"), **{f"{key}.{size}": value.numpy() for size, values in enumerate(chosen) for key, value in values.items()})


def make(job):
    """Exports one model; returns its name, how long it took, and why it failed (or None)."""
    folder, model, name, exporter, size = job
    started, why = time.monotonic(), None
    try:
        export(folder / f"{model}.onnx", name, exporter, size)
    except Exception as error:
        (folder / f"{model}.onnx").unlink(missing_ok=True)
        while error.__cause__:  # the exporters wrap the reason in general advice
            error = error.__cause__
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return model, time.monotonic() - started, why


def warm_up():
    """Loads what the newer exporter loads at its first use, once for all processes."""
    torch.onnx.export(torch.nn.Identity(), (torch.ones(2),), dynamo=True, verbose=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--verbose", action="store_true", help="print how long each model takes")
    parser.add_argument("names", nargs="*")
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    operators.register_script()
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporters do not know the operators of this path
    first, step = map(int, wanted.share.split("/"))
    jobs = [(wanted.folder, model, *rest) for model, *rest in models(list(ARCHITECTURES)[first::step]) if not wanted.names or {model, rest[0]} & set(wanted.names)]
    warm_up()
    count, failed = 0, []
    # Each model has a process of its own: torch.export writes a second LSTM of a process in another way than the first.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for model, seconds, why in pool.imap(make, jobs):
            count += why is None
            if why:
                failed.append(f"{model}: {why}")
            if wanted.verbose:
                print(f"{model}: {seconds:.1f} s{': ' + why if why else ''}", flush=True)
    print(f"{count} models in {wanted.folder}")
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
