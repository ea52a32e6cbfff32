"""The operators of Tenon libraries as operators of TensorFlow.

    import tenon, tenon.tensorflow
    tenon.load("./gelu.so")
    ops = tenon.tensorflow.register("demo")     # the namespace, or the library that tenon.load returned
    y = ops.gelu(x, approximate="tanh")         # eagerly, in tf.function, in a SavedModel, compiled by XLA

Each operator becomes an operator of TensorFlow, such as "Tenon>Demo>Gelu".  TensorFlow calls the kernels through its C interface, without Python.
Gradients come from the declared gradient, shapes from the operator's inference.  Nothing is compiled on the user's side.
"""
import os

from .. import _core
from .._library import Library, Namespace
from .._library import load as load_library

# TensorFlow is imported with the first call only: a device of OpenCL must be enabled before (device.py).

__all__ = ["Operators", "convert", "load", "register", "run"]


class Operators(Namespace):
    """The operators of one namespace as functions of TensorFlow tensors.

    left_out: the operators that TensorFlow cannot have, with the reason: {"core::if": "it has a graph as an attribute"}.
    """

    def __init__(self, table):
        super().__init__(table.namespace, self._function)
        self._table = table
        self.left_out = table.left_out

    def _function(self, op):
        if op.name not in self._table.names:
            raise AttributeError(self._table.refusal(op.name))
        from .functions import function_of
        function = function_of(op.name)
        self.__dict__[op.__name__] = function  # the next access takes no detour
        return function

    def shapes(self):
        """Returns a table of how TensorFlow knows the shapes of results: {"demo::gelu": "in C", "core::reshape": "in Python"}.

        "in C": the shape function of the operator infers them, also when a SavedModel is loaded without Python.
        "in Python": the function that adds the operator to a graph sets them.  A SavedModel that is loaded again knows them only as far as
        TensorFlow has stored them with the model.
        """
        return {name: "in C" if name in self._table.plain else "in Python" for name in self._table.names}

    def __repr__(self):
        return f"<tenon operators {self._name} in TensorFlow, {len(self._table.names)}>"


_registered = {}


def _loaded(path):
    """Loads a library, with TensorFlow's exceptions."""
    try:
        return load_library(path)
    except _core.Error as error:
        from .errors import translated
        raise translated(error) from None


def register(library="core"):
    """Registers the operators of a library with TensorFlow; returns an object with a function for each, as register("demo").gelu(x).

    library: a tenon.Library; the namespace of a loaded library; or the path of a library, "./gelu.so", which is loaded first.

    The library stays loaded until the process ends.  A second call for the same library returns the same object.
    Raises tf.errors.NotFoundError if the file is missing, or if no loaded library has operators in the namespace, and other classes of tf.errors if the
    file is damaged, needs a newer Tenon, or has operators of another library.
    """
    if isinstance(library, os.PathLike) or isinstance(library, str) and not library.isidentifier():
        library = _loaded(library)
    try:
        namespace = library.name if isinstance(library, Library) else str(library)
    except _core.Error as error:  # it was unloaded
        from .errors import not_found
        raise not_found(f"{error}: load it again") from None
    if namespace not in _registered:
        from .bridge import Table
        _registered[namespace] = Operators(Table.of(namespace))
    return _registered[namespace]


def run(model):
    """Returns a function of TensorFlow tensors that runs a graph, compiled by Tenon as a whole.

        f = tenon.tensorflow.run("model.onnx")     # a file, or a graph that was built or loaded
        y = tf.function(f)(x)

    model: the path of a model, or a graph (tenon.graph.load, tenon.graph.Builder).

    A SavedModel with a file needs the file at the same path; one with a graph that was built in this process runs in this process only.
    Gradients are computed by a second run of the graph.
    Raises tf.errors.NotFoundError, InvalidArgumentError and others if the file cannot be loaded.
    """
    from . import models
    return models.load(model)


def load(path, tags=None, options=None):
    """Loads a SavedModel, after it has registered the operators of Tenon that the model needs.

        tenon.load("./gelu.so")
        model = tenon.tensorflow.load("model")

    path, tags, options: as for tf.saved_model.load, whose result this function returns.

    The libraries of the operators must be loaded; they stay so until the process ends.
    Raises tf.errors.NotFoundError if there is no model, or if operators, libraries or files of graphs are missing: the message lists all of them, and
    what to do.
    """
    from . import saved
    return saved.load(os.fspath(path), tags, options)


def convert(model, path=None, *, signature=None, batch="batch"):
    """Converts a model of TensorFlow to a graph of Tenon, which runs without TensorFlow.

        graph = tenon.tensorflow.convert("saved_model")         # a folder; or a model of Keras 3, its .keras file, a tf.function
        y = graph.compile()(x)
        tenon.tensorflow.convert(model, "model.onnx")           # also writes the file that `tenon run` runs

    model: the folder of a SavedModel, or one that tf.saved_model.load returned; a model of Keras 3, or the path of its .keras file; a tf.function
    with an input_signature, or a concrete function.
    path: the file to write (Graph.save); None: none.
    signature: of a SavedModel; None: "serving_default", or the only one.
    batch: the name of the extent that the unknown first axes of all inputs share; None: each is an extent of its own.

    Inputs and outputs have the names of the signature.  Variables become constants.  Operators of Tenon in the model stay nodes of the operator; call
    register for their libraries first.

    Raises tf.errors.InvalidArgumentError if the model cannot be opened, NotFoundError if a file or an operator is missing, and UnimplementedError if an
    operation cannot be converted, with its name.
    """
    from . import conversion
    return conversion.convert(model, path, signature=signature, batch=batch)
