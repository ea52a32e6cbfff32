"""Runs Tenon graphs on tensors of PyTorch."""
import torch


class Program:
    """A compiled Tenon graph that takes the arguments of a graph of PyTorch.  Called with a list, which it empties."""

    def __init__(self, lowered, executable):
        self._boxed_call = True  # of the object, since Dynamo's wrappers copy what lies there
        self.lowered, self.executable = lowered, executable
        self._inputs = lowered.inputs
        self._is_plain = [o[:1] + o[2:] for o in lowered.outputs] == [("made", None)] * len(lowered.outputs) and [o[1] for o in lowered.outputs] == list(range(len(lowered.outputs)))

    def __call__(self, arguments):
        given = [arguments[i] for i in self._inputs]
        for at, value in enumerate(given):
            if not isinstance(value, torch.Tensor):
                given[at] = torch.tensor([value])
            elif value.is_complex():
                given[at] = torch.view_as_real(value.resolve_conj())
        made = self.executable(*given) if self.executable is not None else ()
        if not isinstance(made, (list, tuple)):
            made = (made,)
        if not given:  # the results of a graph have the type of its inputs
            made = [torch.from_dlpack(m) for m in made]
        results = made if self._is_plain else [self._output(arguments, made, *output) for output in self.lowered.outputs]
        arguments.clear()
        return results

    @staticmethod
    def _output(arguments, made, kind, item, order=None):
        if kind == "made":
            if order == "complex":
                return torch.view_as_complex(made[item])
            return made[item] if order is None else made[item].permute(order)
        return arguments[item] if kind == "given" else item
