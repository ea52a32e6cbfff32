"""Runs model.onnx with @NAME@.so on random numbers and compares with NumPy.  TENON=/path/of/tenon python3 test_@NAME@.py"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(print("skip: NumPy is not installed (pip install numpy)"))

here = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(1)
inputs = @INPUTS@

with tempfile.TemporaryDirectory() as folder:
    command = [os.environ.get("TENON", "tenon"), "run", os.path.join(here, "model.onnx"), "--ops", os.path.join(here, "@NAME@.so"), "-o", folder]
    for name, array in inputs.items():
        np.save(f"{folder}/{name}.npy", array)
        command += ["-i", f"{name}=@{folder}/{name}.npy"]
    subprocess.run(command, check=True)
    found = np.load(f"{folder}/out.npy")

expected = (lambda @ARGUMENTS@: @EXPECTED@)(**inputs)
np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
print("equal to NumPy's, shape", found.shape)
