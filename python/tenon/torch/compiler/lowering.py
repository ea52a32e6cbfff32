"""Lowers a graph of PyTorch to a Tenon graph, node by node."""
import torch

from ... import _core
from ..dtypes import NAMES
from . import complexes, indexing, normalisations, own, pointwise, products, reductions, shapes, special, windows  # noqa: F401 - they fill the table
from .calls import ROWS, Call, Refused, Scope, Tensor, core
from .complexes import COMPLEX_ROWS, REAL, Complex

complexes.register_parts()


class Lowered:
    """A Tenon graph for a graph of PyTorch.

    graph: the Tenon graph; None if it has no output.
    inputs: for each input of the graph the number of the argument that it takes.
    outputs: for each output of PyTorch's graph: ("made", number of the result, order of its axes in memory or None),
    ("given", number of an argument), or ("none",).
    """

    def __init__(self, graph, inputs, outputs):
        self.graph, self.inputs, self.outputs = graph, inputs, outputs


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
    """The lowering of one graph.  refused: the nodes that cannot be lowered, with the reason; their results are inputs of the graph."""

    def __init__(self, module):
        self.module, self.scope, self.environment = module, Scope(), {}
        self.inputs, self.refused, self.placeholders = [], {}, []

    # ---- inputs ----

    def _declare(self, name, fake, number):
        """Makes an input of the graph from a fake tensor."""
        self._usable(fake)
        extents = [str(e.node.expr) if isinstance(e, torch.SymInt) and e.node.expr.is_Symbol else None if isinstance(e, torch.SymInt) else int(e) for e in fake.shape]
        self.inputs.append(number)
        if fake.dtype in REAL:
            return self.scope.builder.input(name, NAMES[REAL[fake.dtype]], [*extents, 2])
        return self.scope.builder.input(name, NAMES[fake.dtype], extents)

    def _add_input(self, node, fake, number):
        made = _input(self.scope, lambda: self._declare(node.name, fake, number), fake, number)
        for axis, extent in enumerate(fake.shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.scope.origins.setdefault(extent.node.expr, lambda a=axis: core.shape(made.value, start=a, end=a + 1))
        self.environment[node] = made

    def _add_symbol(self, value, number):
        if value.node.expr.is_Symbol:
            def declare():
                self.inputs.append(number)
                return self.scope.builder.input(f"extent_{value.node.expr}", "i64", [1])
            self.scope.origins.setdefault(value.node.expr, declare)

    def _placeholder(self, node):
        number, value = len(self.placeholders), node.meta.get("val")
        self.placeholders.append(node)
        if isinstance(value, torch.Tensor):
            self._add_input(node, value, number)
        else:
            self.environment[node] = value
            if isinstance(value, torch.SymInt):
                self._add_symbol(value, number)

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
        return Tensor(value, fake.dtype, tuple(fake.shape))

    def _call(self, node):
        if "val" not in node.meta:
            raise Refused("PyTorch has traced no result")
        fake = node.meta["val"]
        if isinstance(fake, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return fake  # PyTorch computes numbers
        if node.target is torch.ops.aten.sym_size.int:
            return fake
        arguments = _walked(node.args, self.environment.__getitem__)
        named = {k: _walked(v, self.environment.__getitem__) for k, v in node.kwargs.items()}
        if getattr(node.target, "__name__", "") == "getitem":
            return arguments[0][arguments[1]]
        for each in fake if isinstance(fake, (list, tuple)) else [fake]:
            if isinstance(each, torch.Tensor):
                self._usable(each)
        call = Call(node, self.scope)
        given = _tensors(arguments) + _tensors(list(named.values()))
        results = [f for f in (fake if isinstance(fake, (list, tuple)) else [fake]) if isinstance(f, torch.Tensor)]
        is_complex = any(t.dtype.is_complex for t in given + results)
        function, name = (COMPLEX_ROWS if is_complex else ROWS).get(node.target), own.operator_of(node.target)
        if function is None and name is None:
            raise Refused("Tenon has no lowering for this operator" + (" of complex tensors" if is_complex else ""))
        for each in given:
            if each.dtype not in NAMES or (function is None and each.dtype.is_complex):
                raise Refused(f"it reads a tensor of {each.dtype}")
        made = own.lower(call, name, arguments, named) if function is None else function(call, *arguments, **named)
        return self._result(made, fake)

    def _visit(self, node):
        try:
            self.environment[node] = self._call(node)
        except (Refused, _core.Error) as error:
            self._refuse(node, str(error))

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
        found = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            self._usable(found)
            if found.dtype in REAL:
                pair = self.scope.constant(torch.view_as_real(found.detach().resolve_conj()))
                return Complex(self.scope, found.dtype, found.shape, pair=pair)
            return Tensor(self.scope.constant(found.detach()), found.dtype, tuple(found.shape))
        return found

    # ---- the whole ----

    def run(self):
        """Lowers the graph; returns a Lowered, or None if a node was refused."""
        outputs = None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self.environment[node] = self._attribute(node)
            elif node.op == "output":
                outputs = node.args[0]
            elif node.op == "call_function":
                self._visit(node)
            else:
                self._refuse(node, f"a node of the kind {node.op}")
        return None if self.refused else self._finished(outputs)

    def _finished(self, outputs):
        made, found, numbers = {}, [], {}
        for node in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
            item = self.environment[node] if isinstance(node, torch.fx.Node) else node
            if isinstance(item, (_Input, _ComplexInput)):
                found.append(("given", item.number))
            elif isinstance(item, Tensor):
                if node not in numbers:
                    numbers[node] = len(made), self._ordered(node, item, made)
                found.append(("made", *numbers[node]))
            else:
                found.append(("number", item))
        graph = self.scope.builder.finish(made) if made else None
        return Lowered(graph, self.inputs, found)

    def _ordered(self, node, item, made):
        """Adds an output in the order of the axes that its memory has in PyTorch; returns the order in which PyTorch reads them, or None."""
        if isinstance(item, Complex):
            made[f"out{len(made)}"] = item.pair
            return "complex"
        order = memory_order(node.meta["val"])
        if order is None:
            made[f"out{len(made)}"] = item.value
            return None
        made[f"out{len(made)}"] = core.transpose(item.value, perm=order)
        return [order.index(i) for i in range(len(order))]


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
