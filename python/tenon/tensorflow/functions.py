"""Operators as functions of TensorFlow tensors.

A call outside of a graph goes straight to TensorFlow's fast path, as the functions do that TensorFlow generates for its own operators.  Everything else -
graphs, optional results, results whose dtypes only inference knows, random numbers, variables that are written to - takes the slower path of `call`.
"""
import functools
import inspect

import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import core as _eager
from tensorflow.python.framework import op_def_library as _graphs
from tensorflow.python.framework import ops as _ops

try:
    from tensorflow.python import pywrap_tfe as pywrap
except ImportError:  # a release that hides it
    from tensorflow.python.client import pywrap_tfe as pywrap

from .. import _core, _signature
from .._calls import Call, parameters_of, traits_of
from . import inference, xla
from .definitions import by_python_name, default_of, definition_of, plain_value, written_value
from .dtypes import DTYPES, NAMES
from .errors import invalid

_WRITTEN_MOST = 16


# ---- arguments ----


def _refuse(name, side, value):
    kind = type(value).__name__
    raise invalid(f"{name}: argument {side.of['name']}: expected a tensor, found a {kind}: pass its parts as tensors of their own")


def _tensor(name, side, value, dtype):
    """Converts an argument to a tensor; dtype: that of other arguments of the same kind, or None."""
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        _refuse(name, side, value)
    try:
        return tf.convert_to_tensor(value, dtype)
    except (TypeError, ValueError) as error:
        raise invalid(f"{name}: argument {side.of['name']}: {error}") from None


def _default(definition, side, value):
    """The dtype for a Python value whose dtype nothing else determines."""
    allowed = definition.allowed.get(side.type, ())
    made = _tensor(definition.name, side, value, None).dtype
    if not allowed or made in allowed:
        return made
    same = [t for t in allowed if t.is_floating == made.is_floating]
    return same[0] if same else made


class _Binding:
    """The arguments of a call as tensors, in the order of the inputs."""

    def __init__(self, definition, values):
        self.definition, self.types, self.groups, self.counts = definition, {}, [], []
        name = definition.name
        taken = []
        for side in definition.inputs:
            value = values.get(side.of["name"])
            if value is None and not side.of["optional"]:
                raise invalid(f"{name}: argument {side.of['name']}: expected a tensor, found None")
            if side.is_list and not isinstance(value, (list, tuple)):
                raise invalid(f"{name}: argument {side.of['name']}: expected a list of tensors, found {'a tensor' if tf.is_tensor(value) else type(value).__name__}")
            taken.append((side, [] if value is None else list(value) if side.is_list else [value]))
        made = [[None] * len(items) for _, items in taken]
        for has_dtype in (True, False):
            for (side, items), out in zip(taken, made):
                for i, item in enumerate(items):
                    if hasattr(item, "dtype") == has_dtype:
                        out[i] = self._converted(side, item)
        for (side, items), out in zip(taken, made):
            self.counts.append(len(out) if side.is_list or out else -1)
            self.groups.append(out if side.is_list else out[0] if out else None)

    def _converted(self, side, item):
        name, has_own = self.definition.name, hasattr(item, "dtype")
        dtype = side.dtype or (None if side.has_types else self.types.get(side.type))
        if dtype is None and not has_own:
            dtype = _default(self.definition, side, item)
        tensor = _tensor(name, side, item, None if has_own else dtype)
        if dtype is not None and tensor.dtype != dtype:
            raise invalid(f"{name}: argument {side.of['name']}: expected a tensor of dtype {dtype.name}, found {tensor.dtype.name}")
        allowed = self.definition.allowed.get(side.type, ())
        if allowed and tensor.dtype not in allowed:
            raise invalid(f"{name}: argument {side.of['name']}: expected a tensor of dtype {', '.join(t.name for t in allowed)}, found {tensor.dtype.name}")
        if side.type and not side.has_types:
            self.types.setdefault(side.type, tensor.dtype)
        return tensor

    def flat(self):
        return [t for group in self.groups if group is not None for t in (group if isinstance(group, list) else [group])]

    def arguments(self):
        """The inputs as the operator's node takes them: a tensor, or a list."""
        return {side.name: group if side.is_list else ([] if group is None else [group]) if side.is_group else group
                for side, group in zip(self.definition.inputs, self.groups)}


def _seed(name, seed):
    """Returns two numbers for a random operator: those of the caller, or numbers that TensorFlow draws, as tf.random.set_seed determines them."""
    if seed is None:
        return tf.random.uniform([2], minval=tf.int64.min, maxval=tf.int64.max, dtype=tf.int64)
    expected = f"{name}: argument seed: expected two integers, as tf.random.stateless_uniform takes them"
    try:
        made = tf.convert_to_tensor(seed)
    except (TypeError, ValueError) as error:
        raise invalid(f"{expected}: {error}") from None
    if not made.dtype.is_integer or not made.shape.is_compatible_with([2]):
        raise invalid(f"{expected}; found {made.dtype.name} of shape {made.shape}")
    return tf.cast(made, tf.int64)


# ---- calls ----


def _explicit(definition, call, entries):
    """Returns the attributes that inference determines."""
    if entries is None:
        raise invalid(f"{call.op}: the dtype or the number of its results follows from the shapes of its inputs, and the rank of one is not known: call set_shape on it")
    made = {}
    for o, side in definition.results:
        entry = entries[o]
        if side.count in definition.explicit:
            made[side.count] = len(entry)
        if side.type in definition.explicit:
            dtypes = [_dtype(call.op, e) for e in (entry if isinstance(entry, list) else [entry])]
            made[side.type] = dtypes if side.has_types else dtypes[0] if dtypes else tf.float32
    return made


def _dtype(name, entry):
    if entry[0] not in DTYPES:
        raise invalid(f"{name}: its result has dtype {entry[0]}, which TensorFlow does not have")
    return DTYPES[entry[0]]


def _wanted(definition, wanted):
    """The numbers of optional results: 1 if a result is wanted, otherwise 0."""
    return {side.count: int(not wanted or bool(wanted >> o & 1)) for o, side in definition.results if side.of.get("optional") and not side.is_list}


def _execute(definition, arguments, attrs, name):
    """Adds the node to the graph, or runs it; returns the list of its outputs, flat."""
    context = _context.context()
    if context.executing_eagerly():
        pairs = [x for pair in attrs.items() for x in pair]
        try:
            made = pywrap.TFE_Py_FastPathExecute(context, definition.own, name, *arguments.values(), *pairs)
        except _eager._NotOkStatusException as error:
            _ops.raise_from_not_ok_status(error, name)
        return made if isinstance(made, list) else [made]
    return add_node(definition.op_def, arguments, attrs, name)


def add_node(op_def, arguments, attrs, name=None):
    """Adds a node to the graph that is being built; returns the list of its outputs, flat."""
    _, _, node, _ = _graphs._apply_op_helper(op_def.name, name=name, **arguments, **attrs)
    outputs = list(node.outputs)
    from tensorflow.python.eager import execute
    if execute.must_record_gradient():
        values = [x for a in op_def.attr for x in (a.name, node.get_attr(a.name))]
        execute.record_gradient(op_def.name, list(node.inputs), tuple(values), outputs)
    return outputs


def _flat(made):
    return [t for m in made for t in (m if isinstance(m, list) else [m])]


def _set_shapes(definition, call, entries, outputs):
    """Sets the shapes of the outputs of a node, which TensorFlow may know less about."""
    rest = iter(outputs)
    for _ in definition.written:
        next(rest)
    for o, _ in definition.results:
        if call.wanted and not call.wanted >> o & 1:
            continue
        for _, shape in entries[o] if isinstance(entries[o], list) else [entries[o]]:
            next(rest).set_shape(shape)


def _arranged(definition, call, groups, outputs, lengths):
    """Arranges the outputs as the caller gets them."""
    rest = iter(outputs)
    contents = {}
    for side in definition.written:
        contents[side.of["name"]] = next(rest)
    own = {}
    for o, side in definition.results:
        if side.is_list:
            own[o] = [next(rest) for _ in range(lengths[o])]
        else:
            own[o] = next(rest) if not call.wanted or call.wanted >> o & 1 else None
    made, returned = [], set()
    marks = {side.of["mark"]: side.of["name"] for side in definition.written}
    from .._calls import results_of
    for o, result in enumerate(results_of(definition.name)):
        if o in own:
            made.append(own[o])
        else:
            returned.add(marks[result["mark"]])
            made.append(contents[marks[result["mark"]]])
    made += [value for owner, value in contents.items() if owner not in returned]
    return contents, made[0] if len(made) == 1 else tuple(made)


def _lengths(definition, call, attrs, entries):
    """The number of items of each list of results."""
    made = {}
    for o, side in definition.results:
        if side.is_list:
            made[o] = len(attrs[side.type]) if side.has_types else attrs[side.count] if side.count in attrs else None
            if made[o] is None and entries is not None:
                made[o] = len(entries[o])
            if made[o] is None:
                default = next(p["default"] for p in parameters_of(definition.name) if p["name"].lower() == side.count)
                made[o] = default
    return made


def call(name, values, wanted=0, seed=None, label=None):
    """Calls an operator with arguments by name.

    wanted: the results to compute (bits; 0: all).  seed: of a random operator.  label: the name of the node.
    Raises tf.errors.InvalidArgumentError and others, with the operator and the argument named.
    """
    definition = definition_of(name)
    bound = _Binding(definition, values)
    plain = tuple((a.of["name"], plain_value(name, a.of, values[a.of["name"]])) for a in definition.attributes if a.of["name"] in values)
    made = Call(name, tuple(bound.counts), plain, wanted)
    is_eager = tf.executing_eagerly()
    entries = inference.results(made, bound.groups) if not is_eager or definition.explicit else None
    operands = bound.flat()
    if definition.is_random:
        operands.append(_seed(name, seed))
    if not is_eager and xla.is_compiled():
        outputs = xla.call(made, bound, operands, definition)
        attrs = {}
    else:
        counts = {side.count for side in definition.inputs if side.count}
        given, needed = dict(plain), {side.count for _, side in definition.results}
        attrs = {a.name: written_value(a, given.get(a.of["name"], default_of(a))) for a in definition.attributes
                 if a.name not in counts and (a.of["name"] in given or a.name in needed or not is_eager)}
        attrs.update(_wanted(definition, wanted))
        if is_eager:  # TensorFlow takes no default for the dtype of an empty list
            attrs.update({side.type: definition.defaults[side.type] for side in definition.inputs if side.type in definition.defaults and side.type not in {**bound.types, **attrs}})
        if definition.explicit:
            attrs.update(_explicit(definition, made, entries))
        arguments = bound.arguments()
        if definition.is_random:
            arguments["tenon_seed"] = operands[-1]
        outputs = _flat(_execute(definition, arguments, attrs, label))
        if not is_eager and entries is not None:
            _set_shapes(definition, made, entries, outputs)
    contents, arranged = _arranged(definition, made, bound.groups, outputs, _lengths(definition, made, {**dict(plain), **attrs}, entries))
    for written, content in contents.items():
        if isinstance(values[written], tf.Variable) or hasattr(values[written], "assign"):
            values[written].assign(content)
    return arranged


# ---- functions ----


def _signature_of(name):
    op = _core.find(name)
    parameters = [p for p in _signature.signature(op).parameters.values() if p.name not in (_signature.out_name(op), _signature.add_name(op))]
    for extra in (["seed"] if "random" in traits_of(name) else []) + ["name"]:
        parameters.append(inspect.Parameter(_signature.free_name(op, extra), inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | None" if extra == "seed" else "str | None"))
    order = {inspect.Parameter.VAR_KEYWORD: 1}
    return inspect.Signature(sorted(parameters, key=lambda p: order.get(p.kind, 0)), return_annotation=_signature.signature(op).return_annotation)


def _explained(name, error, values, label):
    """Raises the error of a failed call; where Tenon knows what is wrong with the arguments, it says so."""
    if isinstance(error, _eager._NotOkStatusException) and error.code in (tf.errors.INVALID_ARGUMENT, tf.errors.NOT_FOUND) and name not in (error.message or ""):
        call(name, values, label=label)  # the same call with all checks
    if isinstance(error, _eager._NotOkStatusException):
        _ops.raise_from_not_ok_status(error, label)
    raise error


_SIMPLE = """
def {python_name}({parameters}):
    context = _module._context or _module.context()
    if context._thread_local_data.is_eager{lists}:
        try:
            return {finish}(_fast(context, {own!r}, {label}{inputs}{attributes}))
        except _NotOk as error:
            _explained({name!r}, error, {{{values}}}, {label})
        except (_Fallback, TypeError, ValueError):
            pass
    return _call({name!r}, {{{values}}}, label={label})
"""

_GENERAL = """
def {python_name}({parameters}):
    return _call({name!r}, {{{values}}}, {seed}label={label})
"""


def _source(name, signature, definition):
    """Writes the function of an operator, and the values that it refers to."""
    scope, parameters, given = {}, [], []
    op = _core.find(name)
    label = _signature.free_name(op, "name")
    by_name = by_python_name(name)
    by_attribute = {a.of["name"]: a for a in definition.attributes}
    attributes = []
    counts = {side.count for side in definition.inputs if side.count}
    star = False
    for p in signature.parameters.values():
        if p.kind == p.KEYWORD_ONLY and not star:
            parameters.append("*")
            star = True
        if p.default is p.empty:
            parameters.append(p.name)
        else:
            scope[f"_default_{p.name}"] = p.default
            parameters.append(f"{p.name}=_default_{p.name}")
        if p.name not in by_name:
            continue
        of = by_name[p.name]
        omitted = f" if {p.name} is not _default_{p.name} else {{}}" if not of["tensor"] and p.default is not p.empty else ""
        given.append(f"**({{{of['name']!r}: {p.name}}}{omitted})" if omitted else f"{of['name']!r}: {p.name}")
        attribute = by_attribute.get(of["name"])
        if attribute is None or attribute.name in counts:
            continue
        scope[f"_write_{p.name}"] = functools.partial(_written, name, attribute)
        pair = f"({attribute.name!r}, _write_{p.name}({p.name}))"
        attributes.append(f", *{pair}" if not omitted else f", *(() if {p.name} is _default_{p.name} else {pair})")
    inputs = []
    for side in definition.inputs:
        python = _signature.python_name(side.of["name"])
        inputs.append(f", () if {python} is None else ({python},)" if side.is_group and not side.is_list else f", {python}")
    parts = {"python_name": _signature.python_name(op.__name__.split(".")[-1].replace(".", "_")), "parameters": ", ".join(parameters), "own": definition.own, "name": name, "label": label,
             "inputs": "".join(inputs), "attributes": "".join(attributes), "values": ", ".join(given), "finish": "tuple" if len(definition.results) > 1 else "",
             "lists": "".join(f" and isinstance({_signature.python_name(side.of['name'])}, (list, tuple))" for side in definition.inputs if side.is_list),
             "seed": f"seed={_signature.free_name(op, 'seed')}, " if definition.is_random else ""}
    has_open = any(p.kind == p.VAR_KEYWORD for p in signature.parameters.values())
    return (_SIMPLE if definition.is_simple and not has_open else _GENERAL).format(**parts), scope


def _written(name, attribute, value):
    return written_value(attribute, plain_value(name, attribute.of, value))


@functools.lru_cache(maxsize=None)
def function_of(name):
    """Returns the function of an operator.

    Tensor arguments are tensors, variables, arrays or numbers; lists are sequences of them.  Attributes are Python values.  A tf.Variable that the
    operator writes to is assigned its new contents.  Random operators take `seed`, two integers; without it TensorFlow draws them.

    Returns the results in the schema's order: one tensor, or a tuple; a list for a list.
    """
    definition, signature = definition_of(name), _signature_of(name)
    source, scope = _source(name, signature, definition)
    scope.update(_module=_context, _fast=pywrap.TFE_Py_FastPathExecute, _NotOk=_eager._NotOkStatusException, _Fallback=_eager._FallbackException, _call=call, _explained=_explained)
    exec(compile(source, f"<tenon.tensorflow {name}>", "exec"), scope)
    function = next(v for k, v in scope.items() if inspect.isfunction(v) and getattr(v, "__code__", None) is not None and v.__code__.co_filename.startswith("<tenon.tensorflow"))
    op = _core.find(name)
    function.__doc__, function.__signature__, function.__qualname__, function.tenon_name = op.__doc__, signature, function.__name__, name
    function.autograph_info__ = {}  # AutoGraph does not convert it, and calls it without a wrapper
    return function


__all__ = ["NAMES", "call", "function_of"]
