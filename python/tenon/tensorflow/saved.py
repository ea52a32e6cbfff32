"""SavedModels with operators of Tenon: registers what a model needs before TensorFlow loads it, and says what is missing."""
import os
import re

import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

from .. import _core
from .bridge import Table
from .errors import not_found

_OWN = {"Tenon>Gradient", "Tenon>Graph"}  # operators of the bridge itself, which come with each namespace


def _nodes(path):
    """The nodes of a model that call Tenon.  Raises NotFoundError if there is no model."""
    try:
        saved = loader_impl.parse_saved_model(path)
    except OSError as error:
        raise not_found(f"{path} is no SavedModel that can be read: {error}") from None
    for meta in saved.meta_graphs:
        functions = meta.graph_def.library.function
        for node in [*meta.graph_def.node, *(n for f in functions for n in f.node_def)]:
            if node.op.startswith("Tenon>"):
                yield node


def _spelled(namespace):
    """The namespace as it is in the names of TensorFlow's operators, in lower case: bridges/tensorflow/name.c drops underscores before letters."""
    return re.sub("_(?=[a-z])", "", namespace).lower()


def _needs(path):
    """Returns the operators of a model by their namespace in TensorFlow, the namespaces of operators whose gradients it computes, and the files of graphs."""
    operators, namespaces, files = {}, set(), set()
    for node in _nodes(path):
        if node.op == "Tenon>Graph":
            files.add(node.attr["path"].s.decode())
        elif node.op == "Tenon>Gradient":
            namespaces.add(node.attr["call"].s.decode().split("::")[0])
        elif node.op.count(">") == 2:
            operators.setdefault(node.op.split(">")[1].lower(), set()).add(node.op)
    return operators, namespaces, files


def register_operators(path):
    """Registers the operators that a SavedModel needs.

    Raises tf.errors.NotFoundError, which names everything that is missing and says what to do.
    """
    operators, namespaces, files = _needs(path)
    loaded = {name.split("::")[0] for name in _core.names()}
    wanted = {n for n in loaded if _spelled(n) in operators or n in namespaces}
    if files or namespaces:
        wanted.add("core")
    registered = {own for namespace in sorted(wanted) for own in Table.of(namespace).names.values()} | _OWN
    missing = []
    for spelled, names in sorted(operators.items()):
        names = sorted(names - registered)
        if names and any(_spelled(n) == spelled for n in loaded):
            missing.append(f"{', '.join(names)}: the library that is loaded does not have them: load the version with which the model was saved")
        elif names:
            missing.append(f"{', '.join(names)}: no library with these operators is loaded: call tenon.load with it")
    missing += [f"the operators of the namespace {n}: no library with them is loaded: call tenon.load with it" for n in sorted(namespaces - loaded)]
    missing += [f"the graph {file}, which a node runs: put the file there" for file in sorted(files) if not os.path.exists(file)]
    if missing:
        raise not_found(f"{path} needs what is missing here:\n  " + "\n  ".join(missing))


def load(path, tags, options):
    register_operators(path)
    return tf.saved_model.load(path, tags=tags, options=options)
