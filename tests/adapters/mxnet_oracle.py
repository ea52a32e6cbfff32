"""Real MXNet in a process of its own: the Python of its virtual environment runs programs, and arrays pass as .npz files."""
import os
import subprocess
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPENING = """import os, sys
import mxnet as mx, numpy as np
given, found = dict(np.load(sys.argv[1])), {}
"""
CLOSING = """
mx.nd.waitall()
np.savez(sys.argv[2], **{key: value.asnumpy() if isinstance(value, mx.nd.NDArray) else value for key, value in found.items()})
"""


def python(version="1.9"):
    """Returns the Python that has that MXNet: TENON_MXNET_1_9 names it, otherwise .venv-mxnet-1.9 of the tree; None if both are missing."""
    path = os.environ.get("TENON_MXNET_" + version.replace(".", "_")) or os.path.join(ROOT, f".venv-mxnet-{version}", "bin", "python")
    return path if os.access(path, os.X_OK) else None


def package(version="1.9"):
    """Returns the folder of the MXNet package, which has the headers, or None if it is missing."""
    if not python(version):
        return None
    find = "import importlib.util; print(importlib.util.find_spec('mxnet').submodule_search_locations[0])"
    return subprocess.run([python(version), "-c", find], capture_output=True, text=True, check=True, cwd=tempfile.gettempdir()).stdout.strip()


def run(program, version="1.9", environment=None, **given):
    """Returns what the program put into `found`, by name; `given` has the arrays. The text that the program wrote to stderr is under "words"."""
    with tempfile.TemporaryDirectory(prefix="tenon-mxnet-") as folder:
        there, back = os.path.join(folder, "given.npz"), os.path.join(folder, "found.npz")
        np.savez(there, **given)
        ran = subprocess.run([python(version), "-c", OPENING + program + CLOSING, there, back], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=300, env={**os.environ, **(environment or {})})
        if ran.returncode != 0:
            raise RuntimeError(f"MXNet's process ended with {ran.returncode}:\n{ran.stdout}")
        with np.load(back) as found:
            return {**{key: found[key] for key in found.files}, "words": ran.stdout}
