"""Lowers a graph of PyTorch to a Tenon graph, node by node."""
import operator

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ... import _core
from ..dtypes import NAMES
from . import complexes, control, indexing, normalisations, own, pointwise, products, reductions, shapes, special, windows  # noqa: F401 - they fill the table
from .calls import ROWS, Call, Refused, Scope, Tensor, core, current
from .complexes import COMPLEX_ROWS, REAL, Complex
from .devices import device_name
from .parts import attribute, is_number
from .report import place_of

complexes.register_parts()


class Lowered:
    """A Tenon graph for a graph of PyTorch.

    graph: the Tenon graph; None if it has no output.
    device: PyTorch's device that it runs on.
    inputs: for each input of the graph the number of the argument that it takes.
    prepared: {number of an input: the function that makes its tensor from the argument}, for arguments that are not plain tensors.
    outputs: for each output of PyTorch's graph: ("made", number of the result, order of its axes in memory or None),
    ("complex", number of the result with both parts on its last axis), ("given", number of an argument), or ("number", a number or None).
    """

    def __init__(self, graph, device, inputs, prepared, outputs):
        self.graph, self.device, self.inputs, self.prepared, self.outputs = graph, device, inputs, prepared, outputs


def _vector(number):
    return torch.tensor([number])


def _parts_of(tensor):
    """A complex tensor as a real one with both parts on a last axis."""
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


class _Input(Tensor):
    """An argument of PyTorch's graph; it becomes an input of Tenon's graph when it is first used."""
    __slots__ = ("add", "made", "number")

    def __init__(self, add, dtype, shape, number):
        self.add, self.dtype, self.shape, self.made, self.number = add, dtype, shape, None, number

    @property
    def value(self):
        if self.made is None:
            self.made = self.add()
        return self.made


class _ComplexInput(Complex):
    """A complex argument: an input of Tenon's graph with both parts on a last axis."""
    __slots__ = ("add", "number")

    def __init__(self, scope, add, dtype, shape, number):
        super().__init__(scope, dtype, shape)
        self.add, self.number = add, number

    @property
    def pair(self):
        if self._pair is None:
            self._pair = self.add()
        return self._pair


def _input(scope, add, fake, number):
    if fake.dtype in REAL:
        return _ComplexInput(scope, add, fake.dtype, tuple(fake.shape), number)
    return _Input(add, fake.dtype, tuple(fake.shape), number)


def _walked(argument, function):
    if isinstance(argument, torch.fx.Node):
        return function(argument)
    if isinstance(argument, (list, tuple)):
        return [_walked(a, function) for a in argument]
    return argument


class Lowering:
    """The lowering of one graph.

    refused: the nodes that cannot be lowered, with the reason.
    checks: the nodes that stop a program if a condition does not hold, which PyTorch runs.
    inputs: for each input of the Tenon graph the number of the argument that it takes; -1: a result of PyTorch's.
    """

    def __init__(self, module, constants=None, hand_back=(), names=None):
        """constants: tensors that take the places of arguments, by their numbers; their memory must not change any more.
        hand_back: names of operators that PyTorch runs.
        names: of all outputs.  The graph then has an input for each tensor, and an output for each result, for users of the graph; None: it has what
        a Program needs."""
        self.module, self.scope, self.environment, self.symbols = module, Scope(), {}, {}
        self.constants, self.hand_back, self.names, self.device = constants or {}, hand_back, names, _device_of(module)
        self.inputs, self.prepared, self.refused, self.placeholders, self.checks = [], {}, {}, [], []

    # ---- inputs ----

    def _declare(self, name, fake, number):
        """Makes an input of the graph from a fake tensor."""
        self._usable(fake)
        if fake.dtype in REAL:
            self.prepared[len(self.inputs)] = _parts_of
        elif fake.is_neg():  # PyTorch keeps a sign beside the memory, as for the imaginary part of a conjugated tensor
            self.prepared[len(self.inputs)] = torch.Tensor.resolve_neg
        self.inputs.append(number)
        extents = [self._extent(e, f"{name}.{axis}") for axis, e in enumerate(fake.shape)]
        if fake.dtype in REAL:
            return self.scope.builder.input(name, NAMES[REAL[fake.dtype]], [*extents, 2])
        return self.scope.builder.input(name, NAMES[fake.dtype], extents)

    def _extent(self, extent, place):
        """An extent for the builder: a number, the name of a symbol, or None for what is computed from symbols."""
        if not isinstance(extent, torch.SymInt):
            return int(extent)
        expr = extent.node.expr
        if not expr.is_Symbol:
            return None
        return str(expr) if self.names is None else self.symbols.setdefault(expr, place)

    def _add_input(self, node, fake, number):
        made = _input(self.scope, lambda: self._declare(node.name, fake, number), fake, number)
        for axis, extent in enumerate(fake.shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.scope.origins.setdefault(extent.node.expr, lambda a=axis: core.shape(made.value, start=a, end=a + 1))
        self.environment[node] = made

    def _add_symbol(self, value, number):
        if value.node.expr.is_Symbol:
            def declare():
                self.prepared[len(self.inputs)] = _vector
                self.inputs.append(number)
                return self.scope.builder.input(f"extent_{value.node.expr}", "i64", [1])
            self.scope.origins.setdefault(value.node.expr, declare)

    def _placeholder(self, node):
        number, value = len(self.placeholders), node.meta.get("val")
        self.placeholders.append(node)
        if number in self.constants:
            self.environment[node] = self._constant(self.constants[number].detach(), node.name, False)
        elif isinstance(value, torch.Tensor):
            self._add_input(node, value, number)
            if self.names is not None:
                self._use_input(node, value)
        else:
            self.environment[node] = value
            if isinstance(value, torch.SymInt):
                self._add_symbol(value, number)

    def _use_input(self, node, fake):
        """Adds the input for an argument, whether or not a node reads it."""
        try:
            if fake.dtype.is_complex:
                raise Refused(f"the graph would have an argument of {fake.dtype}, which Tenon does not have: take and return its parts (torch.view_as_real)")
            self.environment[node].value
        except Refused as reason:
            self._refuse(node, str(reason))

    def _constant(self, tensor, *how):
        """A tensor as a constant.  how: its name and whether it is copied."""
        if tensor.dtype in REAL:
            return Complex(self.scope, tensor.dtype, tensor.shape, pair=self.scope.builder.constant(_parts_of(tensor), *how))
        return Tensor(self.scope.builder.constant(tensor, *how), tensor.dtype, tuple(tensor.shape))

    def _usable(self, fake):
        if fake.dtype not in NAMES:
            raise Refused(f"Tenon has no tensors of {fake.dtype}")
        if fake.layout != torch.strided or fake.is_quantized:
            raise Refused("a tensor that is sparse or quantised")

    # ---- nodes ----

    def _result(self, value, fake):
        """What a node has made, checked against what PyTorch has traced."""
        if fake is None or value is None:
            return None
        if isinstance(fake, (list, tuple)):
            if not isinstance(value, (list, tuple)):
                value = [value]
            return [self._result(v, f) for v, f in zip(value, fake)]
        if not isinstance(fake, torch.Tensor) or isinstance(value, Complex):
            return value if isinstance(value, Complex) else fake
        if fake.dtype.is_complex:
            raise Refused(f"its result is a tensor of {fake.dtype}")
        if value.dtype is not None and value.dtype != NAMES.get(fake.dtype):
            raise Refused(f"its result would have the dtype {value.dtype} instead of {fake.dtype}")
        extents = value.shape
        if extents is not None and (len(extents) != fake.dim() or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(extents, fake.shape))):
            raise Refused(f"its result would have the shape {extents} instead of {list(fake.shape)}")
        for axis, extent in enumerate(fake.shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.scope.origins.setdefault(extent.node.expr, lambda a=axis: core.shape(value, start=a, end=a + 1))
        return Tensor(value, fake.dtype, tuple(fake.shape))

    def _check_devices(self, node):
        """Refuses nodes that are not on the device of the graph; tensors without axes may be in host memory."""
        for fake in (t for n in (node, *node.all_input_nodes) for t in _fakes(n)):
            if fake.device != self.device and (fake.dim() or fake.device.type != "cpu"):
                raise Refused(f"it has tensors on {fake.device}, and the graph runs on {self.device}")
        if device_name(self.device) is None:
            raise Refused(f"Tenon has no device for {self.device}: declare it by tenon.torch.device")

    def _is_certain(self, node):
        """Whether a check of PyTorch always succeeds: extents are never negative, and a trace knows what its tensors are."""
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            return _has_metadata(*node.args, **node.kwargs)
        condition = getattr(getattr(node.args[0].meta.get("val") if node.args and isinstance(node.args[0], torch.fx.Node) else None, "node", None), "expr", None)
        return condition is not None and type(condition).__name__ == "GreaterThan" and condition.args[0] in self.scope.origins and condition.args[1] == 0

    def _call(self, node):
        fake = node.meta.get("val")
        if node.target is operator.getitem:
            return self.environment[node.args[0]][node.args[1]]
        if is_number(node):  # PyTorch computes numbers
            if isinstance(fake, torch.SymInt):
                self._add_symbol(fake, -1)
            return fake
        if fake is None:
            if not self._is_certain(node):
                self.checks.append(node)
            return None
        arguments = _walked(node.args, self.environment.__getitem__)
        named = {k: _walked(v, self.environment.__getitem__) for k, v in node.kwargs.items()}
        tensors = _tensors(arguments) + _tensors(list(named.values()))
        self._check(node, tensors)
        is_complex = any(t.dtype.is_complex for t in [*tensors, *_fakes(node)])
        return self._result(self._added(node, COMPLEX_ROWS if is_complex else ROWS, arguments, named), fake)

    def _added(self, node, rows, arguments, named):
        """Adds the nodes for an operator; returns the values of its results."""
        call, row, name = Call(node, self.scope, self._subgraph), rows.get(node.target), own.operator_of(node.target)
        if row is not None:
            return row(call, *arguments, **named)
        if name is not None:
            return own.lower(call, name, arguments, named)
        if node.target is own.FUNCTIONALIZED:
            return own.lower_written(call, arguments[0], named)
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        of = " of complex tensors" if rows is COMPLEX_ROWS else ""
        raise Refused("PyTorch draws the random numbers" if draws else f"Tenon has no lowering for this operator{of}")

    def _subgraph(self, module):
        """Lowers the graph of a branch; it has an input for each operand."""
        outputs = next(n for n in module.graph.nodes if n.op == "output").args[0]
        name, inner = current.name, Lowering(module, hand_back=self.hand_back, names=[f"result_{i}" for i in range(len(outputs))])
        lowered = inner.run()
        current.name = name
        if lowered is None or any(kind != "made" for kind, *_ in lowered.outputs):
            node, reason = next(iter(inner.refused.items()), (None, "a branch computes numbers or checks them"))
            raise Refused(f"{node.target}, in a branch: {reason}" if node is not None else reason)
        return lowered.graph

    def _check(self, node, tensors):
        """Refuses nodes that a user hands back, and those with tensors that Tenon cannot have or that are elsewhere."""
        if self.hand_back and {str(node.target), str(getattr(node.target, "overloadpacket", None))} & set(self.hand_back):
            raise Refused("the option hand_back names it")
        for fake in _fakes(node):
            self._usable(fake)
        for tensor in tensors:
            if tensor.dtype not in NAMES or (tensor.dtype.is_complex and node.target not in COMPLEX_ROWS):
                raise Refused(f"it reads a tensor of {tensor.dtype}")
        self._check_devices(node)

    def _visit(self, node):
        current.name = node.name
        try:
            self.environment[node] = self._call(node)
        except (Refused, _core.Error) as error:
            self._refuse(node, str(error))
        except GuardOnDataDependentSymNode:
            self._refuse(node, "what it computes depends on an extent that depends on data")
        except Exception as error:
            remedy = f"compile with options={{'hand_back': ['{node.target}']}}, so that PyTorch runs the operator, and report this"
            raise RuntimeError(f"node {node.name} ({node.target}), {place_of(node)}: Tenon's lowering failed: {type(error).__name__}: {error}: {remedy}") from error

    def _refuse(self, node, reason):
        """Notes that a node cannot be lowered; what follows reads its result as an input, so that the whole graph is surveyed."""
        self.refused[node] = reason
        fake = node.meta.get("val")

        def made(fake, name):
            if isinstance(fake, torch.Tensor):
                return _input(self.scope, lambda: self._unknown(fake, name), fake, -1)
            if isinstance(fake, (list, tuple)):
                return [made(f, f"{name}_{i}") for i, f in enumerate(fake)]
            return fake
        self.environment[node] = made(fake, f"{node.name}_refused")

    def _unknown(self, fake, name):
        if fake.dtype not in NAMES:
            raise Refused(f"it reads a tensor of {fake.dtype}")
        return self._declare(name, fake, -1)

    def _attribute(self, node):
        found = attribute(self.module, node.target)
        if isinstance(found, torch.Tensor):
            self._usable(found)
            return self._constant(found.detach())
        return found

    # ---- the whole ----

    def run(self):
        """Lowers the graph; returns a Lowered, or None if PyTorch must run a node."""
        current.name, outputs = "input", None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self.environment[node] = self._attribute(node)
            elif node.op == "output":
                self.output, outputs = node, node.args[0]
            elif node.op == "call_function":
                self._visit(node)
            else:
                self._refuse(node, f"a node of the kind {node.op}")
        is_whole = not self.refused and not self.checks and -1 not in self.inputs
        return self._finished(outputs) if is_whole else None

    def _finished(self, outputs):
        made, found, numbers = {}, [], {}
        for at, node in enumerate(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
            item = self.environment[node] if isinstance(node, torch.fx.Node) else node
            is_argument = isinstance(node, torch.fx.Node) and node.op == "placeholder"
            if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)) and not is_argument:
                return None  # PyTorch computes it
            if self.names is not None and isinstance(item, Tensor):
                if isinstance(item, Complex):
                    self.refused[self.output] = f"the result {self.names[at]} has the dtype {item.dtype}, which Tenon does not have: return its parts (torch.view_as_real)"
                    return None
                found.append(("made", len(made), self._ordered(self.names[at], node, item, made)))
            elif is_argument:
                found.append(("given", self.placeholders.index(node)))
            elif isinstance(item, Tensor):
                if node not in numbers:
                    numbers[node] = self._output(len(made), node, item, made)
                found.append(numbers[node])
            else:
                found.append(("number", item))
        graph = self.scope.builder.finish(made) if made else None
        return Lowered(graph, self.device, self.inputs, self.prepared, found)

    def _output(self, number, node, item, made):
        """Adds an output for a Program; returns how it is read."""
        if isinstance(item, Complex):
            made[f"out{number}"] = item.pair
            return "complex", number
        return "made", number, self._ordered(f"out{number}", node, item, made)

    def _ordered(self, name, node, item, made):
        """Adds an output in the order of the axes that its memory has in PyTorch; returns the order in which PyTorch reads them, or None."""
        current.name = name
        order = memory_order(node.meta["val"]) if self.names is None else None
        if order is None:
            made[name] = core.identity(item.value) if self.names is not None else item.value
            return None
        made[name] = core.transpose(item.value, perm=order)
        return [order.index(i) for i in range(len(order))]


def _fakes(node):
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, torch.Tensor)]


def _has_metadata(node, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """Whether the tensor of a node is traced to be what a check demands."""
    fake = node.meta["val"]
    demands = (size, fake.size()), (stride, fake.stride()), (dtype, fake.dtype), (device, fake.device), (layout, fake.layout)
    return all(demanded is None or demanded == found for demanded, found in demands)


def _device_of(module):
    """The device that a graph runs on: the first one that is not the CPU."""
    found = (fake.device for node in module.graph.nodes for fake in _fakes(node))
    return next((device for device in found if device.type != "cpu"), torch.device("cpu"))


def _tensors(arguments):
    return [t for a in arguments for t in (a if isinstance(a, list) else [a]) if isinstance(t, Tensor)]


def _hint(number):
    return number if isinstance(number, int) else number.node.hint


def memory_order(fake):
    """The axes of a tensor from the slowest to the fastest; None if they are in order, or if its memory has gaps."""
    extents, strides = [_hint(e) for e in fake.shape], [_hint(s) for s in fake.stride()]
    if None in extents or None in strides or 0 in extents:
        return None
    order = sorted(range(len(extents)), key=lambda i: -strides[i] if extents[i] > 1 else 0)
    axes = [i for i in order if extents[i] > 1]
    if axes == sorted(axes):
        return None
    expected = 1
    for axis in reversed(axes):
        if strides[axis] != expected:
            return None
        expected *= extents[axis]
    ones = iter([i for i in range(len(extents)) if extents[i] == 1])
    places = iter(axes)  # axes of one element stay where they are
    return [next(ones) if extents[i] == 1 else next(places) for i in range(len(extents))]
