"""The library that registers Tenon's operators with TensorFlow, and its report of what it registered."""
import ctypes

import tensorflow as tf

from .. import _core
from .._library import adapter


_CLASSES = {tf.errors.NOT_FOUND: tf.errors.NotFoundError, tf.errors.UNAVAILABLE: tf.errors.UnavailableError}


def bridge():
    """Returns libtenon_tensorflow.so."""
    if not hasattr(bridge, "library"):
        library = ctypes.CDLL(adapter("tensorflow"))
        library.tenon_tensorflow_register.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_char_p)]
        library.tenon_tensorflow_register.restype = ctypes.c_int32
        bridge.library = library
    return bridge.library


class Table:
    """What was registered for a namespace.

    names: the names of the operators in TensorFlow, by their names in Tenon.
    plain: the operators whose shapes are inferred in C.
    left_out: why operators were left out.
    """
    _tables = {}

    def __init__(self, namespace, report):
        rows = [line.split("\t") for line in report.splitlines()]
        self.namespace = namespace
        self.names = {name: own for name, own, why, _ in rows if own}
        self.plain = frozenset(name for name, _, _, is_plain in rows if is_plain == "1")
        self.left_out = {name: why for name, own, why, _ in rows if not own}

    @classmethod
    def of(cls, namespace):
        """Registers a namespace unless it is registered, and returns its table."""
        if namespace not in cls._tables:
            report, error = ctypes.c_char_p(), ctypes.c_char_p()
            status = bridge().tenon_tensorflow_register(namespace.encode(), ctypes.byref(report), ctypes.byref(error))
            if status:
                raise _CLASSES.get(status, tf.errors.FailedPreconditionError)(None, None, error.value.decode())
            cls._tables[namespace] = cls(namespace, report.value.decode())
            from . import batching, gradients
            batching.register(cls._tables[namespace])
            gradients.register(cls._tables[namespace])
        return cls._tables[namespace]

    def refusal(self, name):
        """Says why an operator of Tenon is none of TensorFlow."""
        late = f"it was added after the first call of register for {self.namespace}: load all libraries of a namespace before"
        return f"{name} cannot be called in TensorFlow: {self.left_out.get(name, late)}"


def own_name(name):
    """Returns the name of an operator in TensorFlow, and registers its library."""
    table = Table.of(name.split("::")[0])
    if name not in table.names:
        _core.find(name)  # raises with the nearest names
        raise tf.errors.UnimplementedError(None, None, table.refusal(name))
    return table.names[name]
