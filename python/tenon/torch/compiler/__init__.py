"""torch.compile(model, backend="tenon"): PyTorch's graphs as Tenon graphs, with the operators of Tenon's libraries inside."""
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch.utils._python_dispatch import _disable_current_modes

from .decompositions import decompositions
from .execution import Program
from .lowering import Lowering
from .parts import divide

__all__ = ["backend"]

reports = []  # what was compiled, while explain listens


def compile_graph(module, example_inputs):
    """Compiles a functional graph of ATen operators; returns a function that takes a list of arguments."""
    with _disable_current_modes():  # constants are tensors with data
        return _compiled(module)


def _compiled(module):
    lowering = Lowering(module)
    lowered = lowering.run()
    for listener in reports:
        listener(module, lowering.refused)
    if lowered is not None and not any(o[0] == "number" and isinstance(o[1], torch.SymInt) for o in lowered.outputs):
        return _program(lowered)
    top, parts = divide(module, lowering.refused)
    root = torch.nn.Module()
    for name, part in parts.items():
        inner = Lowering(part)
        made = inner.run()
        if made is None:
            raise AssertionError(f"part {name}: {inner.refused}")
        setattr(root, name, _Part(_program(made)))
    for node in top.nodes:
        if node.op == "get_attr":
            _copy_attribute(module, root, node.target)
    whole = torch.fx.GraphModule(root, top)

    def run(arguments):
        given = list(arguments)
        arguments.clear()
        return whole(*given)
    run._boxed_call = True
    return run


class _Part(torch.nn.Module):
    def __init__(self, program):
        super().__init__()
        self.program = program

    def forward(self, *arguments):
        return self.program(list(arguments))


def _copy_attribute(module, root, target):
    *path, last = target.split(".")
    for part in path:
        module = getattr(module, part)
        if not hasattr(root, part):
            setattr(root, part, torch.nn.Module())
        root = getattr(root, part)
    setattr(root, last, getattr(module, last))


def _program(lowered):
    return Program(lowered, lowered.graph.compile() if lowered.graph is not None else None)


def backend(module, example_inputs, **options):
    """The compiler backend: torch.compile(model, backend="tenon")."""
    compiler = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_graph, decompositions=decompositions())
    return compiler(module, example_inputs)


register_backend(backend, name="tenon")
