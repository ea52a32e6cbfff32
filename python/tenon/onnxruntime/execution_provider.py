"""Tenon as an execution provider of ONNX Runtime.

    import onnxruntime as ort, tenon.onnxruntime.execution_provider as tp
    options = tp.options()                              # a SessionOptions that offers the graph to Tenon first
    session = ort.InferenceSession("model.onnx", options)
    print(tp.report())                                  # ["graph 'main' of 148 nodes: took 148 in 1 groups; left 0"]

`path`, also named tenon.onnxruntime.provider, is for ONNX Runtime's own functions: onnxruntime.register_execution_provider_library("tenon", tenon.onnxruntime.provider()).
"""
import ctypes
import threading

from .._library import adapter

__all__ = ["devices", "options", "path", "report"]

NAME = "tenon"
_lock = threading.Lock()
_library = None


def path():
    """Returns the path of the library for onnxruntime.register_execution_provider_library."""
    return adapter("onnxruntime_provider")


def devices(device="cpu"):
    """Registers the library for a device with ONNX Runtime if no one has, and returns the devices of ONNX Runtime (OrtEpDevice).

    device: "cpu", or a device of Tenon such as "sim:0", which then has a provider of its own, "tenon:sim:0".
    Raises RuntimeError if ONNX Runtime is older than 1.24.
    """
    import onnxruntime
    with _lock:
        if not hasattr(onnxruntime, "register_execution_provider_library"):
            raise RuntimeError(f"onnxruntime {onnxruntime.__version__} takes no execution providers of others: install 1.24 or newer")
        name = NAME if device == "cpu" else f"{NAME}:{device}"

        def found():
            return [one for one in onnxruntime.get_ep_devices() if one.ep_name == name]

        if not found():
            onnxruntime.register_execution_provider_library(name, path())
        return found()


def options(session_options=None, device="cpu", **settings):
    """Adds Tenon to the execution providers of a SessionOptions, by default a new one, and returns it.

    device: "cpu", or a device of Tenon whose memory ONNX Runtime then uses: "sim:0".
    settings: the provider's options (docs/onnxruntime.md), such as threads=2 or leave=["Softmax"].
    """
    import onnxruntime
    made = onnxruntime.SessionOptions() if session_options is None else session_options
    texts = {name: ",".join(value) if isinstance(value, (list, tuple)) else str(value) for name, value in settings.items()}
    made.add_provider_for_devices(devices(device), texts)
    return made


def report(clear=False):
    """Returns a line for each graph that ONNX Runtime has offered: what Tenon took, and why it left the rest.

    clear: forgets the lines.
    """
    global _library
    with _lock:
        if not _library:
            _library = ctypes.CDLL(path())
            _library.tenon_onnxruntime_provider_report.argtypes = [ctypes.c_int32]
            _library.tenon_onnxruntime_provider_report.restype = ctypes.c_char_p
        return _library.tenon_onnxruntime_provider_report(int(clear)).decode().splitlines()
