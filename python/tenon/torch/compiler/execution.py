"""Runs Tenon graphs on tensors of PyTorch."""
import functools
import re
import weakref

import torch

from .. import _bridge, models
from ... import _core
from .devices import device_name
from .lowering import Lowering
from .report import place_of
from .tuning import tuned

_FREEZES = 3  # a program gives up constants when its parameters have changed this often


@functools.lru_cache(maxsize=1)
def _threads():
    """The address of PyTorch's threads, which help with the loops of a run; 0: Tenon's own threads do."""
    return _bridge().tenon_torch_threads() or 0


def _on_device(executable):
    """Returns the function that runs a compiled graph as an operator of PyTorch, which knows the device's stream and allocator."""
    bridge = _bridge()
    models.register(bridge)
    number = bridge.tenon_torch_executable_add(executable._address)
    if number < 0:
        raise MemoryError("no memory for a compiled graph")

    def run(given, pool):
        return torch.ops.tenon._run_compiled(list(given), executable=number)
    weakref.finalize(run, bridge.tenon_torch_executable_remove, number)
    return run


class Program:
    """A graph of PyTorch that Tenon runs.  A call takes a list of arguments, which it empties, and returns the results."""

    def __init__(self, module, lowered, device=None, tunes=False):
        """device: the name of the device of Tenon that runs the graph for tensors in host memory; None: the device of the tensors.
        tunes: the first call on the CPU chooses among compilations by measuring them."""
        self._module, self._lowered = module, lowered
        self._call, self._untuned = None, None
        if lowered.graph is not None:
            name = device or device_name(lowered.device)
            executable = lowered.graph.compile(device="cpu" if name == "cpu" else [name, "cpu"])  # the CPU runs what the device has no kernel for
            self._call = executable._run if lowered.device.type == "cpu" else _on_device(executable)
            self._untuned = executable if tunes and name == "cpu" else None
        self._pool = _threads()
        self._places = [item if kind in ("made", "complex") else -1 for kind, item, *_ in lowered.outputs]  # of the results in what the graph makes
        self._changes = [(at, change) for at, change in enumerate(map(_change, lowered.outputs)) if change is not None]
        self._boxed_call = True  # an attribute of the object, since PyTorch's wrappers copy its dictionary

    def __call__(self, arguments):
        given = [arguments[i] for i in self._lowered.inputs]
        for at, prepare in self._lowered.prepared.items():
            given[at] = prepare(given[at])
        made = () if self._call is None else self._run(tuple(given))
        made = [*made, None]
        results = [made[place] for place in self._places]
        for at, change in self._changes:
            results[at] = change(results[at], arguments)
        arguments.clear()
        return results

    def _run(self, given):
        try:
            if self._untuned is not None:
                executable, self._untuned = self._untuned, None
                self._call = tuned(self._lowered.graph, executable, given, self._pool)._run
            made = self._call(given, self._pool)
        except _core.Error as error:
            raise self._explained(error) from None
        made = made if isinstance(made, (list, tuple)) else (made,)
        return made if given else [torch.from_dlpack(t) for t in made]  # the results of a graph have the type of its inputs

    def _explained(self, error):
        """The error of a run, with the place in the model that the node comes from."""
        found = re.match(r"node '([^']*)'", str(error))
        node = next((n for n in self._module.graph.nodes if found and n.name == found[1]), None)
        if node is None:
            return error
        return type(error)(f"{error}\n  from {node.target}, {place_of(node)}\n  To see what PyTorch says to these inputs, call the model without torch.compile.")


def _change(output):
    """How a result is made from what the graph has made for it, and the arguments; None: it is that."""
    kind, item, *rest = output
    if kind == "made":
        order, = rest
        return None if order is None else lambda made, arguments: made.permute(order)
    if kind == "complex":
        return lambda made, arguments: torch.view_as_complex(made)
    if kind == "given":
        return lambda made, arguments: arguments[item]
    return lambda made, arguments: item


class _Constants:
    """A program with tensors as constants, and the state of these tensors."""

    def __init__(self, module, tensors, tunes):
        self._tensors, self._states = tensors, [self._state(t) for t in tensors.values()]
        self.program = Program(module, Lowering(module, tensors).run(), tunes=tunes)

    @staticmethod
    def _state(tensor):
        return tensor._version, tensor.data_ptr()

    def hold(self, arguments):
        """Whether the arguments are the tensors, unchanged."""
        return all(arguments[i] is t for i, t in self._tensors.items()) and [self._state(t) for t in self._tensors.values()] == self._states


class Frozen:
    """A program whose parameters are constants, so that weights are arranged for the kernels once.

    Each call checks that the parameters are the same tensors, with the same memory and versions.  Otherwise it runs the program that takes them as
    arguments, and the next call makes new constants, a few times at most.
    """

    def __init__(self, module, program, numbers, tunes):
        self._module, self._program, self._numbers, self._tunes = module, program, numbers, tunes
        self._constants, self._rest = None, _FREEZES
        self._boxed_call = True

    def __call__(self, arguments):
        constants = self._constants  # another thread may replace it
        if constants is None:
            constants = self._new_constants(arguments)
        elif not constants.hold(arguments):
            constants = self._constants = None
        return (constants.program if constants else self._program)(arguments)

    def _new_constants(self, arguments):
        if self._rest == 0 or any(arguments[i].is_inference() for i in self._numbers):  # tensors of inference mode have no versions
            return None
        self._rest -= 1
        self._constants = _Constants(self._module, {i: arguments[i] for i in self._numbers}, self._tunes)
        return self._constants
