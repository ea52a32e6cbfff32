"""Opens what convert() takes - a SavedModel, a model of Keras, a function - as a concrete function with names for its inputs and outputs."""
import os
from typing import NamedTuple

import tensorflow as tf

from ..bridge import Table
from ..errors import invalid

_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Program(NamedTuple):
    """A concrete function.

    inputs, outputs: the names of its tensors, in its order.  owner: keeps its variables.
    """
    function: object
    inputs: list
    outputs: list
    owner: object


def opened(model, signature):
    """Returns the Program of a model.  Raises InvalidArgumentError or NotFoundError if it is none."""
    Table.of("core")
    if isinstance(model, (str, os.PathLike)):
        return _of_path(os.fspath(model), signature)
    if signature is not None and not hasattr(model, "signatures"):
        raise invalid(f"signature={signature!r}: only a SavedModel has signatures, found {type(model).__name__}")
    if hasattr(model, "signatures"):
        return _of_signature(model, signature, "the model")
    if hasattr(model, "input_signature") or hasattr(model, "structured_input_signature"):
        return _of_function(model)
    if hasattr(model, "layers") and callable(model):
        return _of_keras(model)
    raise invalid(f"expected the folder of a SavedModel, a model of Keras, its .keras file or a tf.function, found {type(model).__name__}")


def _of_path(path, signature):
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "saved_model.pb")):
            raise invalid(f"{path}: expected the folder of a SavedModel, which contains saved_model.pb")
        return _of_signature(_loaded(path), signature, path)
    if not os.path.isfile(path):
        raise tf.errors.NotFoundError(None, None, f"{path}: there is no such file or folder")
    if not path.endswith(".keras"):
        raise invalid(f"{path}: expected the folder of a SavedModel or a file of Keras 3, whose name ends in .keras")
    if signature is not None:
        raise invalid(f"signature={signature!r}: only a SavedModel has signatures, and {path} is a file of Keras")
    import keras
    try:
        return _of_keras(keras.models.load_model(path, compile=False))
    except (ValueError, TypeError, OSError) as error:
        raise invalid(f"{path}: Keras cannot load the model: {error}") from None


def _loaded(path):
    try:
        return tf.saved_model.load(path)
    except (OSError, ValueError, KeyError, RuntimeError, tf.errors.OpError) as error:
        message = getattr(error, "message", None) or str(error)
        if "Op type not registered 'Tenon>" in message:
            raise tf.errors.NotFoundError(None, None, f"{path}: {message.splitlines()[0]}: load its library with tenon.load and call tenon.tensorflow.register before the model is converted") from None
        raise invalid(f"{path}: TensorFlow cannot load the model: {message}") from None


def _of_signature(model, name, place):
    found = dict(getattr(model, "signatures", {}))
    if not found:
        raise invalid(f"{place}: the model has no signature: save it with signatures=, or pass one of its functions to convert")
    name = _DEFAULT if name is None and _DEFAULT in found else name
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name not in found:
        what = "state which one (signature=...)" if name is None else f"there is no signature {name!r}"
        raise invalid(f"{place}: {what}: the model has {', '.join(sorted(found))}")
    return _of_concrete(found[name], model)


def _of_function(function):
    if not hasattr(function, "structured_input_signature"):
        try:
            function = function.get_concrete_function()
        except (ValueError, TypeError) as error:
            raise invalid(f"the function has no signature: pass tf.function(f, input_signature=[tf.TensorSpec(...)]), or f.get_concrete_function(...): {error}") from None
    return _of_concrete(function, function)


def _of_concrete(function, owner):
    captured = len(function.captured_inputs)
    tensors = function.inputs[:len(function.inputs) - captured]
    specs = _named(function.structured_input_signature)
    inputs = [name for name, spec in specs if isinstance(spec, tf.TypeSpec)]
    if len(inputs) != len(tensors):
        raise invalid("sparse and ragged tensors as inputs are not supported: pass their parts as tensors of their own")
    outputs = [name for name, spec in _named_outputs(function.structured_outputs) if spec is not None]
    if len(outputs) != len(function.outputs):
        raise invalid("sparse and ragged tensors as outputs are not supported: return their parts as tensors of their own")
    return Program(function, _unique(inputs), _unique(outputs), owner)


def _named(signature):
    """The names and the specifications of the arguments, in the order of the function's inputs."""
    arguments, named = signature
    found = []
    for i, value in enumerate(arguments):
        for path, spec in _paths(value):
            found.append((getattr(spec, "name", None) or path or f"input_{i}", spec))
    for key in sorted(named):
        for path, spec in _paths(named[key]):
            found.append((f"{key}/{path}" if path else key, spec))
    return found


def _paths(value):
    """Pairs of a path and a leaf, in the order of tf.nest."""
    if isinstance(value, dict):
        return [("/".join(filter(None, (str(key), path))), leaf) for key in sorted(value) for path, leaf in _paths(value[key])]
    if isinstance(value, (list, tuple)) and not isinstance(value, tf.TensorShape):
        return [("/".join(filter(None, (str(i), path))), leaf) for i, item in enumerate(value) for path, leaf in _paths(item)]
    return [("", value)]


def _named_outputs(value):
    """The names of the results, as TensorFlow names them when it saves a function."""
    found = _paths(value)
    is_named = isinstance(value, dict)
    return [(path if is_named and path else f"output_{i}", leaf) for i, (path, leaf) in enumerate(found)]


def _unique(names):
    """Makes names unique: the second x becomes x_1."""
    made = []
    for name in names:
        number, unique = 0, name
        while unique in made:
            number += 1
            unique = f"{name}_{number}"
        made.append(unique)
    return made


def _of_keras(model):
    tensors = getattr(model, "inputs", None)
    if not tensors:
        raise invalid("the model of Keras has no known inputs: call it once, or pass tf.function(model, input_signature=[...]) instead of it")
    specs = [tf.TensorSpec(t.shape, t.dtype, t.name) for t in tensors]
    structure = getattr(model, "_inputs_struct", None)

    @tf.function(autograph=False)
    def run(*values):
        given = values[0] if len(values) == 1 and structure is None else list(values)
        given = tf.nest.pack_sequence_as(structure, list(values)) if structure is not None else given
        made = model(given, training=False)
        names = getattr(model, "output_names", None) or getattr(getattr(model, "_functional", None), "output_names", None)
        flat = tf.nest.flatten(made)
        if isinstance(made, dict):
            return made
        return dict(zip(names, flat)) if names and len(set(names)) == len(flat) else flat
    function = run.get_concrete_function(*specs)
    program = _of_concrete(function, (model, run))
    return program._replace(inputs=_unique([t.name for t in tensors]))
