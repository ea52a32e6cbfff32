"""Divides a graph of PyTorch into parts that Tenon runs and nodes that PyTorch runs.

Turns of PyTorch and of Tenon alternate: PyTorch's turn 0, Tenon's turn 0, PyTorch's turn 1, and so on.  Each node belongs to the first turn of its kind
in which everything that it reads exists.  So there is one part of Tenon for each turn, however the nodes are mixed.
"""
import operator

import torch

_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


def is_number(node):
    """Whether the result of a node is a number, which PyTorch computes."""
    return isinstance(node.meta.get("val"), _NUMBERS)


def _is_call(node):
    return node.op not in ("placeholder", "output", "get_attr")


def _has_effect(node):
    """Whether a node draws random numbers or writes: such nodes keep their order."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and (schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags)


def _is_check(node):
    """Whether a node has no result, as assertions have none."""
    return node.meta.get("val") is None and node.target is not operator.getitem


def _owned(graph, refused):
    """The nodes that Tenon runs: what can be lowered, but for what only prepares the arguments of a node of PyTorch."""
    found = {n for n in graph.nodes if _is_call(n) and n not in refused and not is_number(n) and not _is_check(n)}
    for node in reversed(graph.nodes):
        if node in found and not any(user in found or user.op == "output" for user in node.users) and not any(n in found for n in node.all_input_nodes):
            found.discard(node)
    for node in graph.nodes:  # an item of a tuple is taken by whoever makes the tuple
        if node.target is operator.getitem and node.args[0] not in found:
            found.discard(node)
    return found


def _turns(graph, owned):
    """Returns {node: turn}."""
    found, last_effect = {}, 0
    for node in graph.nodes:
        if not _is_call(node):
            continue
        turn = 0
        for other in node.all_input_nodes:
            is_later = other in owned and node not in owned
            turn = max(turn, found.get(other, 0) + is_later)
        if _has_effect(node):
            turn = last_effect = max(turn, last_effect)
        found[node] = turn
    return found


def divide(module, refused):
    """Returns (the graph that calls the parts, {name of a part: GraphModule})."""
    graph = module.graph
    owned = _owned(graph, refused)
    turns = _turns(graph, owned)
    top, parts, environment = torch.fx.Graph(), {}, {}
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            environment[node] = top.node_copy(node)
    for turn in range(1 + max(turns.values(), default=0)):
        mine = [n for n in graph.nodes if turns.get(n) == turn]
        for node in mine:
            if node not in owned:
                environment[node] = top.node_copy(node, environment.__getitem__)
        own = [n for n in mine if n in owned]
        if own:
            name = f"tenon_{turn}"
            parts[name] = _part(module, own, environment, top, name)
    outputs = next(n for n in graph.nodes if n.op == "output")
    top.output(torch.fx.node.map_arg(outputs.args[0], environment.__getitem__))
    return top, parts


def _part(module, own, environment, top, name):
    """Makes the graph of a part, and adds the node that calls it to `top`."""
    inside, graph, copies, given = set(own), torch.fx.Graph(), {}, []

    def add_argument(node):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["val"] = attribute(module, node.target) if node.op == "get_attr" else node.meta["val"]
        given.append(node)
    for node in own:
        for other in node.all_input_nodes:
            if other not in inside and other not in copies:
                add_argument(other)
    for node in environment:  # extents that nodes compute from, though no argument names them
        if isinstance(node.meta.get("val"), torch.SymInt) and node not in copies:
            add_argument(node)
    for node in own:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    results = [n for n in own if isinstance(n.meta.get("val"), torch.Tensor) and any(user not in inside for user in n.users)]
    graph.output([copies[n] for n in results])
    call = top.call_module(name, tuple(environment[n] for n in given))
    for i, node in enumerate(results):
        environment[node] = top.call_function(operator.getitem, (call, i))
        environment[node].meta = dict(node.meta)
    return torch.fx.GraphModule(module, graph)


def attribute(module, path):
    """What a node get_attr reads."""
    found = module
    for name in path.split("."):
        found = getattr(found, name)
    return found
