#!/usr/bin/env python3
"""Trains the network in four processes in both ways, with the losses of one process: check.py [TENON]

Exits with status 77 and a reason if the environment with PyTorch is missing."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TENON = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/tenon").resolve()
PYTHON = ROOT / ".venv-zoo/bin/python"


def run(*command):
    environment = {**os.environ, "PYTHONPATH": str(TENON.parent / "python"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if not PYTHON.exists():
    print(".venv-zoo is missing (make test makes it)")
    sys.exit(77)
if not list((TENON.parent / "python/tenon").glob("_core.*.so")):
    print("Python's headers are not installed (python3-dev)")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    library = pathlib.Path(folder) / "block.so"
    run(TENON, "build", HERE / "block.c", "-o", library)
    worst = 0
    for program in "tensor_parallel.py", "fsdp.py":
        launcher = PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 4
        said = run(*launcher, HERE / program, library)
        own, whole = map(int, re.search(r"(\d+) of (\d+) weights", said).groups())
        first, last, difference = map(float, re.search(r"loss (\S+) to (\S+); .* (\S+)$", said, re.MULTILINE).groups())
        assert own < whole / 3 and last < 0.05 * first, said
        assert program == "fsdp.py" or "forward: {'all_reduce': 4}" in said, said
        worst = max(worst, difference)
print(f"loss {first} to {last}; largest difference from one process {worst:.1e}")
sys.exit(not worst < 1e-5)
