"""Where real MXNet is, which runs in processes of its own: it wants a NumPy that nothing else here has."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python(version="1.9"):
    """The interpreter of its virtual environment, or None."""
    path = os.path.join(ROOT, f".venv-mxnet-{version}", "bin", "python")
    path = path if os.path.exists(path) else os.environ.get("TENON_MXNET_" + version.replace(".", "_"), "")
    return path if os.path.exists(path) else None
