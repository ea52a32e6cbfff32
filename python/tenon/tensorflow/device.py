"""Makes the devices of a Tenon backend devices of TensorFlow.

    import tenon, tenon.tensorflow.device as td
    tenon.load("./npu.so")                  # the plug-in, written against tenon/device.h; built-in ones need no load
    td.enable("npu")                        # before TensorFlow runs its first operator
    with tf.device("NPU:0"):
        x = tf.random.normal([3, 4])

Operators of TensorFlow run on the device where Tenon has them for it (docs/devices.md), and on the CPU otherwise: TensorFlow places them.  `counting` says
which ran where.  Without Python, TF_PLUGGABLE_DEVICE_LIBRARY_PATH names the library and TENON_TENSORFLOW the backends, such as "sim".
"""
import collections
import contextlib
import ctypes
import os
import re
import sys
import tempfile
import threading

from .. import _core, fallback_report  # noqa: F401 (libtenon is loaded with _core)
from .._library import adapter

__all__ = ["counting", "enable", "enabled", "fallbacks", "left_on_cpu"]

_lock = threading.Lock()
_folder = None  # of links to the library: TensorFlow loads a file once, and each backend needs a load of its own
_enabled = {}


def _library():
    library = ctypes.CDLL(adapter("tensorflow_device"))
    library.tenon_tensorflow_type.restype = ctypes.c_char_p
    return library


def _start(backend):
    """Starts the driver of a backend, before TensorFlow is imported if that is possible."""
    found = ctypes.c_int32()
    count = ctypes.CDLL(adapter("tensorflow_device")).tenon_device_count
    status = count(backend.encode(), ctypes.byref(found))
    if status or not found.value:
        raise RuntimeError(f"backend {backend!r} has no device on this machine; `tenon devices` says why")


def enable(backend):
    """Makes the devices of a Tenon backend devices of TensorFlow; they are in tf.config.list_physical_devices() then.

    backend: the name of Tenon's backend: "sim", "opencl", or that of a loaded plug-in.
    Returns the device type: the name in capital letters, "SIM", or with "TENON_" before it if TensorFlow has a type of this name.
    Raises RuntimeError if the backend has no device, if its name has other characters than letters and '_', or if TensorFlow runs already.
    A second call for the same backend does nothing.
    """
    global _folder
    with _lock:
        if backend in _enabled:
            return _enabled[backend]
        if not re.fullmatch(r"[a-z][a-z_]{0,40}", backend):
            raise RuntimeError(f"TensorFlow accepts only letters and '_', at most 41, in the name of a device; found {backend!r}")
        if backend == "opencl" and "tensorflow" in sys.modules and not _is_loaded("libOpenCL"):
            raise RuntimeError("enable 'opencl' before TensorFlow is imported, in a process with LD_BIND_NOW=1: a driver that contains LLVM, as PoCL does, "
                               "would otherwise call TensorFlow's LLVM and end the process")
        _start(backend)
        from tensorflow.python.framework import load_library
        library = _library()
        _folder = _folder or tempfile.TemporaryDirectory(prefix="tenon_tensorflow_")
        link = os.path.join(_folder.name, f"libtenon_{backend}.so")
        os.symlink(adapter("tensorflow_device"), link)
        library.tenon_tensorflow_choose(backend.encode())
        load_library.load_pluggable_device_library(link)
        _enabled[backend] = library.tenon_tensorflow_type(backend.encode()).decode()
        return _enabled[backend]


def enabled():
    """Returns the backends that `enable` made devices of TensorFlow, with their device types: {"sim": "SIM"}."""
    return dict(_enabled)


def _is_loaded(name):
    with open("/proc/self/maps") as maps:
        return any(name in line for line in maps)


@contextlib.contextmanager
def counting():
    """Counts the operators that run in the block of a `with`.

        with td.counting() as counts:
            step()
        counts["SIM"]   # Counter({"MatMul": 2}): kernels that ran on the device, also those of a tf.function
        counts["CPU"]   # Counter({"ArgMax": 1}): operators outside of a tf.function that ran on the CPU

    The kernels of TensorFlow itself that serve every device (Identity, Reshape, Const, control flow) are not counted on the device.  `left_on_cpu` lists
    what a tf.function leaves on the CPU.
    """
    from tensorflow.python.framework import op_callbacks
    counts = collections.defaultdict(collections.Counter)
    before = _device_counts()

    def eager(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        op = op_type.decode() if isinstance(op_type, bytes) else op_type
        if graph is not None or op in _NOTHING or op.startswith("__"):
            return
        if outputs and outputs[0].dtype.name not in ("resource", "variant") and "device:CPU:" in (outputs[0].backing_device or ""):
            counts["CPU"][op] += 1

    op_callbacks.add_op_callback(eager)
    try:
        yield counts
    finally:
        op_callbacks.remove_op_callback(eager)
        for (kind, op), count in (_device_counts() - before).items():
            counts[kind][op] = count


_NOTHING = {"Const", "Identity", "NoOp", "Placeholder", "PartitionedCall", "StatefulPartitionedCall"}


def _device_counts():
    """Returns how often the plug-in has run each operator: {("SIM", "MatMul"): 3}."""
    library = _library()
    library.tenon_tensorflow_counts.restype = ctypes.c_char_p
    lines = library.tenon_tensorflow_counts().decode().splitlines()
    return collections.Counter({(kind, op): int(count) for kind, op, count in map(str.split, lines)})


def fallbacks():
    """Returns how often each operator of Tenon ran on the CPU inside of a kernel of a device, with copies: {"core::cast": 2}.

    That happens where a formula needs an operator, or a dtype, for which the backend has no kernel although it has one for others.  The counts are those of
    the process, of all devices.
    """
    lines = (line.split() for line in fallback_report().splitlines())
    return {name: int(count) for name, count, *_ in lines if "::" in name}


def left_on_cpu(function, kind):
    """Counts the nodes of a function that have no kernel for a device type, and which TensorFlow therefore places on the CPU.

        td.left_on_cpu(step.get_concrete_function(x, y), "SIM")   # Counter({"Bincount": 1})

    Every node of the graph as it was traced counts once, whether it runs, runs often (in a loop) or is optimised away, and so does every node of the
    functions that the graph has with it: branches, bodies of loops, and functions for gradients, also if nothing calls them.  A node counts if no kernel of
    the device type, nor of TensorFlow's for all devices, has its dtypes.  Nodes without any kernel (calls of functions, arguments) do not count.
    """
    from tensorflow.python.framework import kernels
    found = collections.Counter()
    graph = function.graph.as_graph_def()
    for node in [*graph.node, *(n for f in graph.library.function for n in f.node_def)]:
        known = kernels.get_registered_kernels_for_op(node.op).kernel
        if known and not any(k.device_type in (kind, "DEFAULT") and _serves(k, node) for k in known):
            found[node.op] += 1
    return found


def _serves(kernel, node):
    return all(node.attr[c.name].type in c.allowed_values.list.type for c in kernel.constraint if c.name in node.attr)
