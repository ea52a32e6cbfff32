"""Operators of Tenon that are registered with PyTorch: each becomes its own node."""
import torch

from .. import _names
from ... import _core, graph as graphs
from ..arguments import bound
from ..dtypes import NAMES
from .calls import Tensor, current

FUNCTIONALIZED = torch.ops.higher_order.auto_functionalized_v2  # how PyTorch's graphs call an operator that writes to arguments
_tables = {}  # {namespace: {PyTorch's name of an operator: Tenon's}}


def operator_of(target):
    """Returns the name in Tenon of an overload that is registered with PyTorch, or None."""
    namespace = getattr(target, "namespace", None)
    if namespace not in _names:
        return None
    if namespace not in _tables:
        _tables[namespace] = {torch_name: name for name, (torch_name, why) in _names[namespace].items() if not why}
    return _tables[namespace].get(str(target).replace(".", "::", 1).removesuffix(".default"))


def lower(c, name, args, named):
    """Adds the node of an operator that writes to no argument."""
    op = _core.find(name)
    if any(p["tensor"] and p["written"] for p in op.parameters):
        c.refuse("it writes to an argument, and PyTorch has not made a function of it")
    return _added(c, op, bound(op, args, named))


def lower_written(c, target, named):
    """Adds the node of an operator that writes to arguments; returns its results as in PyTorch, and then the new contents of what it writes to."""
    name = operator_of(target)
    if name is None:
        c.refuse("Tenon has no lowering for this operator")
    op, bases, values, places = _core.find(name), named.pop("_all_bases"), {}, {}
    for p in op.parameters:
        place = places[p["name"]] = named.pop(f"_{p['name']}_base_index", None)
        values[p["name"]] = bases[place] if place is not None else named.pop(p["name"], None)
    if named:
        c.refuse("it writes to a part of a tensor")
    written = [p for p in op.parameters if p["tensor"] and p["written"]]
    made = _added(c, op, bound(op, (), values))
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    marks = [r["mark"] for r in op.results]
    rest, contents = iter(made[len(marks):]), {}
    for p in written:
        contents[places[p["name"]]] = made[marks.index(p["mark"])] if p["mark"] in marks else next(rest)
    results = [m for m, mark in zip(made, marks) if mark not in {p["mark"] for p in written}]
    return (results or [None]) + [contents.get(i) for i in range(len(bases))]


def _added(c, op, values):
    if "random" in op.traits:
        c.refuse("PyTorch draws the random numbers")
    given = {p["name"]: _value(c, p, values[p["name"]]) for p in op.parameters if values[p["name"]] is not None}
    namespace, _, rest = op.name.partition("::")
    node = getattr(graphs.ops, namespace)
    for part in rest.split("."):
        node = getattr(node, part)
    of_name, of_builder = node._names
    return node(**given, **{of_name: current.name, of_builder: c.scope.builder})


def _value(c, parameter, value):
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, torch.SymInt) for item in items):
        c.refuse(f"{parameter['name']} is a symbol")
    if isinstance(value, Tensor):
        return value.value
    if any(isinstance(item, Tensor) for item in items):
        return [item.value for item in items]
    if isinstance(value, torch.dtype):
        return NAMES[value]
    return str(value) if isinstance(value, torch.device) else value
