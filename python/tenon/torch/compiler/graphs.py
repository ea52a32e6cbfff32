"""Compiles graphs of PyTorch, as AOTAutograd makes them: functional, and of ATen operators."""
import torch
from torch.utils._python_dispatch import _disable_current_modes

from .execution import Frozen, Program
from .lowering import Lowering
from .options import Options
from .parts import attribute, divide
from .report import note_graph


def compile_graph(module, example_inputs, kind="inference", options=Options()):
    """Returns a function that takes a list of arguments, which it empties, and returns a list of results.

    module: a torch.fx.GraphModule whose nodes have `val` in their meta data.
    kind: what the graph is for: "inference", "forward" or "backward".
    """
    with _disable_current_modes():  # constants are tensors with data
        lowering = Lowering(module, hand_back=options.hand_back)
        lowered = lowering.run()
        if lowered is None:
            made, count = _divided(module, lowering.refused, options)
        else:
            made, count = Program(module, lowered, tunes=options.tunes), int(lowered.graph is not None)
            numbers = _parameters(module, lowered) if options.freeze and kind == "inference" else []
            made = Frozen(module, made, numbers, options.tunes) if numbers else made
        note_graph(kind, module, lowering.refused, count)
        return made


def _parameters(module, lowered):
    """The numbers of those arguments that are parameters or buffers, which PyTorch calls static inputs."""
    context = torch._guards.TracingContext.try_get()
    static = set(context.fw_metadata.static_input_indices) if context and context.fw_metadata else set()
    return [i for i in lowered.inputs if i in static]


class _Part(torch.nn.Module):
    """A part that Tenon runs, as a module that PyTorch's graph calls."""

    def __init__(self, program):
        super().__init__()
        self.program = program

    def forward(self, *arguments):
        return self.program(list(arguments))


def _divided(module, refused, options):
    """Returns the function, and the number of parts that Tenon runs."""
    top, parts = divide(module, refused)
    root = torch.nn.Module()
    for name, part in parts.items():
        lowering = Lowering(part)
        lowered = lowering.run()
        if lowered is None:
            node, reason = next(iter(lowering.refused.items()))
            raise AssertionError(f"{name}: {node.format_node()}: {reason}")
        setattr(root, name, _Part(Program(part, lowered, tunes=options.tunes)))
    for node in top.nodes:
        if node.op == "get_attr":
            _set_attribute(root, node.target, attribute(module, node.target))
    whole = torch.fx.GraphModule(root, top)

    def run(arguments):
        given = tuple(arguments)
        arguments.clear()
        return whole(*given)
    run._boxed_call = True
    return run, len(parts)


def _set_attribute(root, path, value):
    *path, last = path.split(".")
    for name in path:
        if not hasattr(root, name):
            setattr(root, name, torch.nn.Module())
        root = getattr(root, name)
    setattr(root, last, value)
