"""Runs Tenon graphs on tensors of PyTorch."""
import functools

import torch


@functools.lru_cache(maxsize=1)
def _threads():
    """The address of PyTorch's threads, which help with the loops of a run; 0: Tenon's own do."""
    from .. import _bridge
    return _bridge().tenon_torch_threads() or 0


class Program:
    """A compiled Tenon graph that takes the arguments of a graph of PyTorch.  Called with a list, which it empties."""

    def __init__(self, lowered):
        self.lowered, self.executable = lowered, lowered.graph.compile() if lowered.graph is not None else None
        self._boxed_call = True  # an attribute of the object, which wrappers copy
        self._inputs = lowered.inputs
        self._pool = _threads()
        self._is_plain = [o[:1] + o[2:] for o in lowered.outputs] == [("made", None)] * len(lowered.outputs) and [o[1] for o in lowered.outputs] == list(range(len(lowered.outputs)))

    def __call__(self, arguments):
        given = [arguments[i] for i in self._inputs]
        for at, value in enumerate(given):
            if not isinstance(value, torch.Tensor):
                given[at] = torch.tensor([value])
        made = self.executable._run(tuple(given), self._pool) if self.executable is not None else ()
        if isinstance(made, torch.Tensor):
            made = (made,)
        results = made if self._is_plain else [self._output(arguments, made, *output) for output in self.lowered.outputs]
        arguments.clear()
        return results

    @staticmethod
    def _output(arguments, made, kind, item, order=None):
        if kind == "made":
            return made[item] if order is None else made[item].permute(order)
        return arguments[item] if kind == "given" else item
