"""SavedModels with operators of Tenon: registers what a model needs before TensorFlow loads it, and says what is missing."""
import os
import re

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow.python.saved_model import loader_impl

from .. import _core
from .bridge import Table
from .errors import invalid, not_found


def _nodes(path):
    """The nodes of a model that call Tenon, or that XLA compiles.  Raises NotFoundError if there is no model."""
    try:
        saved = loader_impl.parse_saved_model(path)
    except OSError as error:
        raise not_found(f"{path} is no SavedModel that can be read: {error}") from None
    for meta in saved.meta_graphs:
        functions = meta.graph_def.library.function
        for node in [*meta.graph_def.node, *(n for f in functions for n in f.node_def)]:
            if node.op.startswith("Tenon>") or node.op == "XlaCallModule" and b"tenon_cpu" in node.attr["module"].s:
                yield node


class _Needs:
    """What the nodes of a model need.

    operators: by their namespace in TensorFlow, the operators with their nodes.  called: operators of Tenon, by which gradients are computed, and which
    XLA calls.  files: of graphs.
    """

    def __init__(self, path):
        self.operators, self.called, self.files = {}, set(), set()
        for node in _nodes(path):
            if node.op == "Tenon>Graph":
                self.files.add(node.attr["path"].s.decode())
            elif node.op == "Tenon>Gradient":
                self.called.add(node.attr["call"].s.decode().split("(")[0])
            elif node.op == "XlaCallModule":
                self.called.update(name.decode() for name in re.findall(rb"(\w+::[\w.]+)\(", node.attr["module"].s))
            elif node.op.count(">") == 2:
                self.operators.setdefault(node.op.split(">")[1].lower(), {}).setdefault(node.op, []).append(node)


def _spelled(namespace):
    """The namespace as it is in the names of TensorFlow's operators, in lower case: bridges/tensorflow/name.c drops underscores before letters."""
    return re.sub("_(?=[a-z])", "", namespace).lower()


def _missing(needs, registered, loaded):
    for spelled, nodes in sorted(needs.operators.items()):
        names = ", ".join(sorted(nodes.keys() - registered.keys()))
        if names and any(_spelled(n) == spelled for n in loaded):
            yield f"{names}: the library that is loaded does not have them: load the version with which the model was saved"
        elif names:
            yield f"{names}: no library with these operators is loaded: call tenon.load with it"
    for name in sorted(needs.called - set(_core.names())):
        if name.split("::")[0] in loaded:
            yield f"{name}: the library that is loaded does not have it: load the version with which the model was saved"
        else:
            yield f"{name}: no library with this operator is loaded: call tenon.load with it"
    for file in sorted(needs.files):
        if not os.path.exists(file):
            yield f"the graph {file}, which a node runs: put the file there"


# ---- whether the operators are those with which the model was saved ----


def _count(arguments, known, node):
    """How many tensors a node has for some arguments, by its attributes."""
    def value(attr):
        return node.attr[attr] if attr in node.attr else known[attr].default_value
    return sum(value(a.number_attr).i if a.number_attr else len(value(a.type_list_attr).list.type) if a.type_list_attr else 1 for a in arguments)


def _dtype_name(number):
    try:
        return tf.as_dtype(number).name
    except TypeError:
        return f"dtype {number}"


def _shown(value):
    """A value of an attribute: the name of a dtype, a text in quotes, a number, or what protobuf writes of others."""
    kind = value.WhichOneof("value")
    if kind == "type":
        return _dtype_name(value.type)
    if kind == "s":
        return repr(value.s.decode(errors="replace"))
    return str(getattr(value, kind)).strip() if kind else "nothing"


def _allowed(attribute):
    values = attribute.allowed_values.list
    return [_dtype_name(t) for t in values.type] or [repr(s.decode()) for s in values.s]


def _named(op_def, attribute):
    """What an attribute of TensorFlow is in Tenon: the dtype of arguments, or an attribute."""
    arguments = [a.name for a in op_def.input_arg if attribute in (a.type_attr, a.type_list_attr)]
    return f"argument {', '.join(arguments)}" if arguments else f"attribute {attribute}"


def _misfits(name, op_def, node):
    """Says what of a node the operator that is loaded does not have, or has otherwise: TensorFlow ignores attributes that it does not know."""
    known = {a.name: a for a in op_def.attr}
    for attr in sorted(a for a in node.attr if a[0] != "_"):
        if attr not in known:
            yield f"{name}: attribute {attr}: the model has it, and the operator has: {', '.join(a for a in known if not a[0].isupper()) or 'none'}"
    for attr, attribute in known.items():
        where = f"{name}: {_named(op_def, attr)}: "
        if attr not in node.attr:
            if not attribute.HasField("default_value"):
                yield f"{where}the operator needs it, and the model has no value"
            continue
        kind, value = node.attr[attr].WhichOneof("value"), _shown(node.attr[attr])
        expected = {"string": "s", "int": "i", "bool": "b", "type": "type"}.get(attribute.type, "list")
        if kind not in (expected, "placeholder"):
            yield f"{where}expected {attribute.type}, found {value}"
        elif _allowed(attribute) and kind == expected and value not in _allowed(attribute):
            yield f"{where}expected {', '.join(_allowed(attribute))}; found {value}"
    found, expected = sum(not i.startswith("^") for i in node.input), _count(op_def.input_arg, known, node)
    if found != expected:
        yield f"{name}: expected {expected} tensors ({', '.join(a.name for a in op_def.input_arg)}), found {found}"
    found, expected = len(node.attr["_output_shapes"].list.shape) if "_output_shapes" in node.attr else None, _count(op_def.output_arg, known, node)
    if found not in (None, expected):
        yield f"{name}: the operator has {expected} results, and the model {found}"


def _check_nodes(path, needs, registered):
    found = []
    for nodes in needs.operators.values():
        for own, calls in nodes.items():
            for node in calls:
                found += _misfits(registered[own], op_def_registry.get(own), node)
    if found:
        raise invalid(f"{path} was saved with other versions of operators than those that are loaded here: load the libraries with which it was saved:\n  " + "\n  ".join(dict.fromkeys(found)))


def register_operators(path):
    """Registers the operators that a SavedModel needs.

    Raises tf.errors.NotFoundError, which names everything that is missing and says what to do, and InvalidArgumentError for operators that have other
    arguments than those with which the model was saved.
    """
    needs = _Needs(path)
    loaded = {name.split("::")[0] for name in _core.names()}
    called = {name.split("::")[0] for name in needs.called}
    wanted = {n for n in loaded if _spelled(n) in needs.operators or n in called}
    if needs.files or needs.called:
        wanted.add("core")
    registered = {own: name for namespace in sorted(wanted) for name, own in Table.of(namespace).names.items()}
    missing = list(_missing(needs, registered, loaded))
    if missing:
        raise not_found(f"{path} needs what is missing here:\n  " + "\n  ".join(missing))
    _check_nodes(path, needs, registered)


def load(path, tags, options):
    register_operators(path)
    return tf.saved_model.load(path, tags=tags, options=options)
