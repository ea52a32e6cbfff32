"""Branches (torch.cond), whose bodies are graphs of their own."""
import torch

from .calls import Tensor, core, named, row


@row(torch.ops.higher_order.cond)
def cond(c, condition, then, otherwise, operands=()):
    if not isinstance(condition, Tensor) or not all(isinstance(x, Tensor) for x in operands):
        c.refuse("its condition, or something that its branches read, is a number that PyTorch computes")
    branches = [c.subgraph(module) for module in (then, otherwise)]
    counts = {len(graph.outputs) for graph in branches}
    if counts != {len(c.result)}:
        c.refuse("a branch returns something else than tensors")
    whether = core.squeeze(c.value(condition, torch.bool)) if condition.rank else c.value(condition, torch.bool)
    return named("if")(whether, [x.value for x in operands], then=branches[0], **{"else": branches[1]}, count=len(c.result))
