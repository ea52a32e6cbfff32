#!/usr/bin/env python3
"""Trains the network, and compares the exported program with the network in NumPy: check.py [TENON]

Exits with status 77 and a reason if the environment with JAX is missing."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TENON = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/tenon").resolve()
PYTHON = ROOT / ".venv-jax/bin/python"


def run(*command):
    environment = {**os.environ, "PYTHONPATH": str(TENON.parent / "python")}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def by_numpy(weights, x):
    """The network, from its weights."""
    x = np.tanh(x @ weights["first.kernel"] + weights["first.bias"])
    decay = 1 / (1 + np.exp(-weights["ema.decay"]))
    y = np.zeros_like(x)
    for t in range(x.shape[1]):
        y[:, t] = (1 - decay) * x[:, t] + (decay * y[:, t - 1] if t else 0)
    return y @ weights["last.kernel"] + weights["last.bias"]


if not PYTHON.exists():
    print(".venv-jax is missing (make test makes it)")
    sys.exit(77)
if not list((TENON.parent / "python/tenon").glob("_core.*.so")):
    print("Python's headers are not installed (python3-dev)")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    library = pathlib.Path(folder) / "recur.so"
    run(TENON, "build", HERE / "recur.c", "-o", library)
    run(PYTHON, HERE / "layer_check.py", library)
    said = run(PYTHON, HERE / "train.py", library, folder)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", said)]
    after, before = map(float, re.findall(r"error (\S+), before (\S+)", said)[0])
    assert losses[-1] < 0.5 * losses[0] and after < 0.4 * before, said
    weights = {name: value.astype(np.float64) for name, value in np.load(f"{folder}/weights.npz").items()}
    worst = 0
    for count in 1, 7:
        noisy = np.random.default_rng(count).normal(size=(count, 64, 1)).astype(np.float32)
        np.save(f"{folder}/in.npy", noisy)
        run(PYTHON, HERE / "run.py", library, folder, f"{folder}/in.npy", f"{folder}/out.npy")
        worst = max(worst, np.abs(np.load(f"{folder}/out.npy") - by_numpy(weights, noisy.astype(np.float64))).max())
print(f"error {before} before and {after} after the network; largest difference from NumPy {worst:.1e}")
sys.exit(not worst < 1e-5)
