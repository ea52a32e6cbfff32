#!/usr/bin/env python3
"""Builds the library, runs the model, compares the result with math.erf: check.py [TENON]"""
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

here = pathlib.Path(__file__).resolve().parent
tenon = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here.parent.parent / "build/tenon").resolve()

with tempfile.TemporaryDirectory() as folder:

    def run(*command):
        subprocess.run(command, cwd=folder, check=True)

    run(tenon, "build", here / "gelu.c", "-o", "gelu.so")
    run(sys.executable, here / "make_model.py", "gelu.onnx")
    x = np.random.default_rng(1).normal(0, 2, (1000, 4)).astype(np.float32)
    np.save(f"{folder}/x.npy", x)
    run(tenon, "run", "gelu.onnx", "--ops", "./gelu.so", "-i", "x=@x.npy", "-o", ".")
    y = np.load(f"{folder}/y.npy")

shifted = x.astype(np.float64) + [-1, -0.5, 0.5, 1]
expected = 2 * np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(shifted)
worst = np.abs(y - expected).max()
print(f"largest difference {worst:.1e}")
sys.exit(not worst < 2e-6)
