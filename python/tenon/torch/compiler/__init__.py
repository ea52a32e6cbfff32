"""torch.compile(model, backend="tenon"): PyTorch's graphs as Tenon graphs, with the operators of Tenon's libraries inside."""
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend

from .decompositions import decompositions
from .graphs import compile_graph, listeners

__all__ = ["backend", "listeners"]


def backend(module, example_inputs, **options):
    """The compiler backend: torch.compile(model, backend="tenon")."""
    compiler = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_graph, decompositions=decompositions())
    return compiler(module, example_inputs)


register_backend(backend, name="tenon")
