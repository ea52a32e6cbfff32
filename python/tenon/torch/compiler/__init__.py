"""torch.compile(model, backend="tenon"): PyTorch's graphs as Tenon graphs, with the operators of Tenon's libraries inside."""
import functools

import torch
from torch._dynamo.backends.common import aot_autograd

from .decompositions import decompositions
from .graphs import compile_graph
from .options import read_options
from .report import Explanation, note_break, recording

__all__ = ["Explanation", "backend", "explain"]


def backend(module, example_inputs, *, mode=None, options=None):
    """The compiler backend, which PyTorch finds by the name "tenon".  The options are those of the class Options."""
    chosen = read_options(mode, options)
    note_break(getattr(module, "compile_subgraph_reason", None))
    compilers = {name: functools.partial(compile_graph, kind=kind, options=chosen)
                 for name, kind in (("fw_compiler", "forward"), ("bw_compiler", "backward"), ("inference_compiler", "inference"))}
    return aot_autograd(**compilers, decompositions=decompositions())(module, example_inputs)


def explain(model, /, *inputs, **named):
    """Compiles a model, calls it once, and says which of its operators Tenon runs; see tenon.torch.explain."""
    explanation = Explanation()
    torch._dynamo.reset()
    with recording(explanation):
        explanation.result = torch.compile(model, backend=backend)(*inputs, **named)
    return explanation
