"""Operators of Tenon that are registered with PyTorch: each becomes its own node."""
import torch

from ... import _core, graph as graphs
from ..arguments import bound
from ..dtypes import NAMES
from .calls import Tensor, current


def operator_of(target):
    """Returns Tenon's operator for an overload that is registered with PyTorch, or None."""
    from .. import _names
    namespace = getattr(target, "namespace", None)
    if namespace not in _names:
        return None
    own = str(target)
    own = own.replace(".", "::", 1)
    own = own.removesuffix(".default")
    return _by_name(namespace).get(own)


_tables = {}


def _by_name(namespace):
    from .. import _names
    if namespace not in _tables:
        _tables[namespace] = {torch_name: name for name, (torch_name, why) in _names[namespace].items() if not why}
    return _tables[namespace]


def lower(c, name, args, named):
    op = _core.find(name)
    if any(p["tensor"] and p["written"] for p in op.parameters):
        c.refuse("it writes to an argument")
    if "random" in op.traits:
        c.refuse("PyTorch draws the random numbers")
    values = bound(op, args, named)
    given = {}
    for p in op.parameters:
        value = values[p["name"]]
        if value is None:
            continue
        given[p["name"]] = _value(c, p, value)
    namespace, _, rest = name.partition("::")
    node = getattr(graphs.ops, namespace)
    for part in rest.split("."):
        node = getattr(node, part)
    of_name, of_builder = node._names
    return node(**given, **{of_name: current.name, of_builder: c.scope.builder})


def _value(c, parameter, value):
    if isinstance(value, Tensor):
        return value.value
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [v.value for v in value]
    if isinstance(value, torch.dtype):
        return NAMES[value]
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.SymInt) or (isinstance(value, (list, tuple)) and any(isinstance(v, torch.SymInt) for v in value)):
        c.refuse(f"{parameter['name']} is a symbol")
    return value
