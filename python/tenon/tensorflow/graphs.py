"""Makes TensorFlow hand groups of pointwise nodes of its graphs to Tenon.

    import tensorflow as tf, tenon.tensorflow.graphs as tg
    tg.enable()                      # before the graphs are built
    y = tf.function(model)(x)
    print(tg.report())               # ["graph of 40 nodes: took 31 in 2 groups; left ..."]

TensorFlow calls the pass for graphs on the CPU: those of tf.function, sessions, and loaded SavedModels.  Without Python, TF_PLUGGABLE_DEVICE_LIBRARY_PATH
names libtenon_tensorflow_graph.so.  TENON_TENSORFLOW_GRAPHS=1 prints the lines of the report as they come.
"""
import ctypes
import threading

from .._library import adapter

__all__ = ["enable", "report"]

_lock = threading.Lock()
_library = None


def enable():
    """Makes TensorFlow call the pass for each graph that it optimises from now on, until the process ends.

    Graphs with loops or branches stay as they are, and so do graphs that something goes wrong with.  A second call does nothing.
    Raises RuntimeError if TensorFlow has another interface for graph passes than TensorFlow 2.21.
    """
    global _library
    with _lock:
        if _library:
            return
        from tensorflow.python.framework import errors, load_library
        path = adapter("tensorflow_graph")
        try:
            load_library.load_pluggable_device_library(path)
        except errors.OpError as error:
            raise RuntimeError(f"TensorFlow does not take the graph pass of Tenon: {error.message}") from error
        _library = ctypes.CDLL(path)
        _library.tenon_tensorflow_graph_report.argtypes = [ctypes.c_int32]
        _library.tenon_tensorflow_graph_report.restype = ctypes.c_char_p


def report(clear=False):
    """Returns a line for each graph that the pass has seen: what it took, and why it left the rest.  TensorFlow passes most graphs twice.

    clear: forgets the lines.
    Raises RuntimeError if the pass is not enabled.
    """
    with _lock:
        if not _library:
            raise RuntimeError("the graph pass is not enabled: call tenon.tensorflow.graphs.enable() first")
        return _library.tenon_tensorflow_graph_report(int(clear)).decode().splitlines()
