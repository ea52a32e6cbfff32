"""Programs that PyTorch exports, and TorchScript, as Tenon graphs: they run in Tenon alone, also without Python."""
import os
import zipfile

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ... import _core
from .decompositions import decompositions
from .execution import Program
from .lowering import Lowering
from .report import place_of

_LIFTED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class CompiledProgram:
    """A program that Tenon runs.  Call it with the arguments with which it was exported.

    graph: the tenon.graph.Graph; its inputs have the names of the program's arguments.
    """

    def __init__(self, program, module, lowered, device):
        self._spec, self._program, self.graph = program.call_spec, Program(module, lowered, None if device == "cpu" else device), lowered.graph
        self._names = program.graph_signature.user_inputs
        self._first = len(program.graph_signature.input_specs) - len(self._names)

    def __call__(self, /, *arguments, **named):
        leaves, found = pytree.tree_flatten((arguments, named))
        if found != self._spec.in_spec:
            leaves = self._reordered(arguments, named)
        with torch.no_grad():
            made = self._program([None] * self._first + leaves)
        return pytree.tree_unflatten(made, self._spec.out_spec)

    def _reordered(self, arguments, named):
        """The leaves of the arguments, with the named ones in the order in which they were exported."""
        positional, expected = (self._spec.in_spec.child(i) for i in range(2))
        if sorted(expected.context) == sorted(named):
            leaves, found = pytree.tree_flatten((arguments, {name: named[name] for name in expected.context}))
            if found == self._spec.in_spec:
                return leaves
        by_name = ", ".join(expected.context) or "none"
        raise _core.InvalidError(f"the program was exported with {positional.num_children} arguments by position and by name: {by_name} (tensors: {', '.join(self._names)}); "
                                 f"found {len(arguments)} by position and by name: {', '.join(named) or 'none'}, or arguments of another structure")

    def save(self, path):
        """Writes the model to a file: NAME.tenon is an artifact, which loads without compiling; NAME.onnx and NAME.graph are other formats of Tenon."""
        self.graph.save(os.fspath(path))

    def __repr__(self):
        return f"<tenon program with {len(self.graph.inputs)} inputs and {len(self.graph.outputs)} outputs>"


def _output_names(program):
    """Names for the results: their places in what the program returns, such as "logits" and "states.0"."""
    count = program.call_spec.out_spec.num_leaves
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), program.call_spec.out_spec))
    names = [".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) for path, _ in paths]
    return [f"output.{name}" if name.isdigit() else name or "output" for name in names]


def _loaded(path):
    """The program in a file."""
    what, load, save = "a module of TorchScript", torch.jit.load, "torch.jit.save"
    if path.endswith(".pt2"):
        what, load, save = "a program of torch.export", torch.export.load, "torch.export.save"
    if not os.path.exists(path):
        raise _core.NotFoundError(f"{path}: there is no such file")
    found = "no ZIP archive"
    if os.path.isfile(path) and zipfile.is_zipfile(path):
        try:
            return load(path)
        except Exception as error:
            found = f"a file that PyTorch cannot load ({_first_line(error)})"
    raise _core.InvalidError(f"{path}: expected {what}, found {found}: write the file with {save}")


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _converted(program, inputs, named):
    """What `program` stands for, as torch.export.ExportedProgram."""
    if isinstance(program, (str, os.PathLike)):
        program = _loaded(os.fspath(program))
    if isinstance(program, torch.export.ExportedProgram):
        return program
    if isinstance(program, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return _of_torchscript(program, inputs, named)
    raise _core.InvalidError(f"expected a program of torch.export, a module of TorchScript, or the path of either (.pt2, .pt); found {type(program).__name__}: "
                             f"call torch.export.export(model, inputs) first, or use torch.compile(model, backend='tenon')")


def _of_torchscript(module, inputs, named):
    from torch._export.converter import TS2EPConverter
    if inputs is None:
        raise _core.InvalidError("a module of TorchScript: expected inputs=(...), an example of its arguments, found none: TorchScript states no shapes")
    try:
        return TS2EPConverter(module, tuple(inputs), named or {}).convert()
    except Exception as error:
        raise _core.UnimplementedError(f"the module of TorchScript {getattr(module, 'original_name', '')} cannot be converted to a program of torch.export: {_first_line(error)}: "
                                       f"export the module it was made from with torch.export.export") from error


def _check_signature(signature):
    """Refuses programs that need more than tensors in and tensors out."""
    for spec in signature.input_specs:
        if spec.kind not in (*_LIFTED, InputKind.USER_INPUT):
            raise _core.UnimplementedError(f"argument {spec.arg.name}: a program with a {spec.kind.name.lower().replace('_', ' ')} cannot be compiled: export the module without it")
    for spec in signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            what = f"writes to {spec.target}" if spec.target else f"has an output of the kind {spec.kind.name.lower()}"
            raise _core.UnimplementedError(f"the program {what}, which a Tenon graph does not do: export a module that returns the new value instead")


def compile_program(program, inputs=None, *, kwargs=None, device="cpu"):
    """Compiles a program; see tenon.torch.compile."""
    program = _converted(program, inputs, kwargs).run_decompositions(decompositions())
    signature, module = program.graph_signature, program.graph_module
    _check_signature(signature)
    constants, values = {}, {**program.state_dict, **program.constants}
    for number, spec in enumerate(signature.input_specs):
        if spec.kind in _LIFTED:
            constants[number] = values[spec.target]
    with _disable_current_modes():
        lowering = Lowering(module, constants, names=_output_names(program))
        lowered = lowering.run()
    if lowered is None or lowered.graph is None:
        raise _core.UnimplementedError(_why_not(lowering))
    return CompiledProgram(program, module, lowered, device)


def _why_not(lowering):
    reasons = {**dict.fromkeys(lowering.checks, "the check may fail, and a Tenon graph does not make it"), **lowering.refused}
    if not reasons:
        return "the program computes numbers that PyTorch must compute, or has no tensor as a result: use torch.compile(model, backend='tenon')"
    lines = [f"\n  {node.target} (node {node.name}): {reason}" + (f"; {place_of(node)}" if node.op == "call_function" else "") for node, reason in reasons.items()]
    return f"Tenon cannot run the whole program, and no PyTorch is there to run the rest; use torch.compile(model, backend='tenon'), or change these lines:{''.join(lines)}"
