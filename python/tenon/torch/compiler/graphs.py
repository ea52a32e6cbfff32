"""Compiles graphs of PyTorch, as AOTAutograd makes them: functional, and of ATen operators."""
import torch
from torch.utils._python_dispatch import _disable_current_modes

from .execution import Program
from .lowering import Lowering
from .parts import attribute, divide

listeners = []  # functions that receive each graph, and the nodes that were handed back with the reasons


def compile_graph(module, example_inputs):
    """Returns a function that takes a list of arguments, which it empties, and returns a list of results."""
    with _disable_current_modes():  # constants are tensors with data
        lowering = Lowering(module)
        lowered = lowering.run()
        for listener in listeners:
            listener(module, lowering.refused)
        return Program(lowered) if lowered is not None else _divided(module, lowering.refused)


class _Part(torch.nn.Module):
    """A part that Tenon runs, as a module that PyTorch's graph calls."""

    def __init__(self, program):
        super().__init__()
        self.program = program

    def forward(self, *arguments):
        return self.program(list(arguments))


def _divided(module, refused):
    top, parts = divide(module, refused)
    root = torch.nn.Module()
    for name, part in parts.items():
        lowering = Lowering(part)
        lowered = lowering.run()
        if lowered is None:
            node, reason = next(iter(lowering.refused.items()))
            raise AssertionError(f"{name}: {node.format_node()}: {reason}")
        setattr(root, name, _Part(Program(lowered)))
    for node in top.nodes:
        if node.op == "get_attr":
            _set_attribute(root, node.target, attribute(module, node.target))
    whole = torch.fx.GraphModule(root, top)

    def run(arguments):
        given = tuple(arguments)
        arguments.clear()
        return whole(*given)
    run._boxed_call = True
    return run


def _set_attribute(root, path, value):
    *path, last = path.split(".")
    for name in path:
        if not hasattr(root, name):
            setattr(root, name, torch.nn.Module())
        root = getattr(root, name)
    setattr(root, last, value)
