"""Divides a graph of PyTorch into parts that Tenon runs and nodes that PyTorch runs.

Each node has a level: the parts of Tenon and the nodes of PyTorch take turns, and a node belongs to the first turn in which all that it reads is there.
So there is one part of Tenon a level, however the nodes are mixed.
"""
import torch

from .lowering import Lowering

_EFFECTS = ("native_dropout", "bernoulli", "rand", "normal", "multinomial", "exponential", "poisson", "copy_", "geometric", "cauchy", "uniform")


def _has_effect(node):
    """Whether a node draws random numbers or writes: such nodes keep their order."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    tags = getattr(node.target, "tags", ())
    return schema.is_mutable or torch.Tag.nondeterministic_seeded in tags


def levels(graph, refused):
    """Returns {node: (level, whether Tenon runs it)} for the nodes that are calls."""
    found, last_effect = {}, None
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        is_own = node not in refused and not isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))
        level = 0
        for other in node.all_input_nodes:
            if other in found:
                before, other_is_own = found[other]
                level = max(level, before + (1 if is_own and not other_is_own else 0))
        if _has_effect(node):
            if last_effect is not None:
                level = max(level, found[last_effect][0])
            last_effect = node
        found[node] = level, is_own
    for node in reversed(list(graph.nodes)):  # an item of a tuple is taken where the tuple is made
        if getattr(node.target, "__name__", "") == "getitem" and node in found and node.args[0] in found:
            pass
    return found


def divide(module, refused):
    """Returns (a GraphModule that calls its parts, {name of a part: GraphModule})."""
    graph, found = module.graph, levels(module.graph, refused)
    outputs = next(n for n in graph.nodes if n.op == "output")
    for node in graph.nodes:  # an item belongs to the turn of its tuple
        if node in found and getattr(node.target, "__name__", "") == "getitem" and node.args[0] in found:
            found[node] = found[node.args[0]]
    top, parts, environment = torch.fx.Graph(), {}, {}
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            environment[node] = top.node_copy(node)
    count = 1 + max((level for level, _ in found.values()), default=0)
    for level in range(count):
        own = [n for n in graph.nodes if found.get(n) == (level, True)]
        if own:
            name = f"tenon_{level}"
            parts[name] = _part(module, own, environment, top, name, outputs)
        for node in graph.nodes:
            if found.get(node) == (level, False):
                environment[node] = top.node_copy(node, environment.__getitem__)
    top.output(torch.fx.node.map_arg(outputs.args[0], environment.__getitem__))
    return top, parts


def _part(module, own, environment, top, name, outputs):
    """Makes the graph of one part and the node that calls it."""
    inside, graph, copies, given = set(own), torch.fx.Graph(), {}, []
    for node in own:
        for other in node.all_input_nodes:
            if other not in inside and other not in copies:
                copies[other] = graph.placeholder(other.name)
                copies[other].meta["val"] = _value(module, other)
                given.append(other)
    _add_symbols(own, environment, graph, copies, given)
    for node in own:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    results = [n for n in own if any(user not in inside for user in n.users) and not isinstance(n.meta.get("val"), (list, tuple))]
    graph.output([copies[n] for n in results])
    call = top.call_module(name, tuple(environment[n] for n in given))
    for i, node in enumerate(results):
        environment[node] = top.call_function(_item, (call, i))
        environment[node].meta = dict(node.meta)
    return torch.fx.GraphModule(module, graph)


def _item(items, at):
    return items[at]


def _value(module, node):
    if node.op != "get_attr":
        return node.meta["val"]
    found = module
    for part in node.target.split("."):
        found = getattr(found, part)
    return found


def _add_symbols(own, environment, graph, copies, given):
    """Gives a part those symbols as arguments that its nodes may need and that no tensor states."""
    for node in environment:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and node not in copies:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta["val"] = value
            given.append(node)


__all__ = ["Lowering"]
