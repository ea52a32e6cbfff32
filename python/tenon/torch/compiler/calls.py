"""A node of PyTorch's graph on its way into a Tenon graph, and the table of the functions that lower each operator."""
import copy
import functools
import operator
import threading

import numpy as np
import sympy
import torch

from ... import graph as graphs
from ..dtypes import NAMES

ROWS = {}  # {overload: function}
aten, prims = torch.ops.aten, torch.ops.prims
current = threading.local()  # name: of the node of PyTorch's graph that is being lowered


class _Operators:
    """The operators of a namespace of Tenon.  The nodes that they add have the name of PyTorch's node, so that errors of a run lead back to it."""

    def __init__(self, operators):
        self._operators, self._known = operators, {}

    def __getattr__(self, name):
        if name not in self._known:
            op = getattr(self._operators, name)
            self._known[name] = lambda *arguments, **named: op(*arguments, name=current.name, **named)
        return self._known[name]


core = _Operators(graphs.ops.core)


class Refused(Exception):
    """A node that cannot be lowered; the text says why."""


def row(*overloads):
    """Registers a function that takes a Call and the arguments of the operator, and returns the values of its results."""
    def register(function):
        ROWS.update(dict.fromkeys(overloads, function))
        return function
    return register


class Tensor:
    """A tensor of PyTorch's graph.  value: what it is in Tenon's graph.  dtype, shape: as PyTorch has traced them."""
    __slots__ = ("value", "dtype", "shape")

    def __init__(self, value, dtype, shape):
        self.value, self.dtype, self.shape = value, dtype, shape

    @property
    def rank(self):
        return len(self.shape)


class Scope:
    """A Tenon graph that is being built.  origins: where each symbol of the trace can be read, by its sympy symbol."""

    def __init__(self):
        self.builder, self.origins, self._numbers, self._extents = graphs.Builder(), {}, {}, {}

    def constant(self, array):
        return self.builder.constant(array)

    def number(self, value, dtype):
        """A constant without axes."""
        key = value, type(value), dtype, str(value)  # the text tells 0.0 from -0.0
        if key not in self._numbers:
            self._numbers[key] = self.builder.constant(torch.tensor(value, dtype=dtype))
        return self._numbers[key]

    def ints(self, numbers):
        """A vector of integers; some may be symbols of the trace."""
        if all(isinstance(n, int) for n in numbers):
            key = tuple(numbers)
            if key not in self._numbers:
                self._numbers[key] = self.builder.constant(np.array(numbers, np.int64))
            return self._numbers[key]
        parts = [self.extent(n) for n in numbers]
        return parts[0] if len(parts) == 1 else core.concat(parts, axis=0)

    def extent(self, number):
        """An integer as a vector of one element."""
        if isinstance(number, int):
            return self.ints([number])
        return self.expression(number.node.expr)

    def expression(self, expr):
        if expr not in self._extents:
            self._extents[expr] = self._expression(expr)
        return self._extents[expr]

    def _expression(self, expr):
        if isinstance(expr, (sympy.Integer, int)):
            return self.ints([int(expr)])
        if isinstance(expr, sympy.Symbol):
            if expr not in self.origins:
                raise Refused(f"its shape depends on {expr}, which no input of the graph has as an extent")
            return self.origins[expr]()
        kind = type(expr).__name__
        if kind in ("Add", "Mul", "Max", "Min"):
            node = {"Add": core.add, "Mul": core.mul, "Max": core.max, "Min": core.min}[kind]
            return functools.reduce(node, [self.expression(a) for a in expr.args])
        if kind in ("FloorDiv", "CleanDiv"):
            a, b = (self.expression(e) for e in expr.args)
            return core.div(core.sub(a, core.mod(a, b)), b)
        if kind in ("Mod", "PythonMod"):
            return core.mod(*(self.expression(e) for e in expr.args))
        if kind == "Pow" and expr.args[1].is_Integer and expr.args[1] > 0:
            return functools.reduce(core.mul, [self.expression(expr.args[0])] * int(expr.args[1]))
        raise Refused(f"its shape depends on {expr}: only sums, products, quotients and rests of extents can be computed")


class Call:
    """A node of PyTorch's graph.

    node: the node.  result: what PyTorch has traced for its result: a fake tensor, or a tuple of them.
    scope: the graph to which nodes are added.
    subgraph: a function that lowers a GraphModule to a graph of its own.
    """

    def __init__(self, node, scope, subgraph):
        self.node, self.scope, self.subgraph = node, scope, subgraph
        self.result = node.meta["val"]
        self.dtype = getattr(self.result, "dtype", None)
        self.shape = getattr(self.result, "shape", None)

    def in_dtype(self, dtype):
        """The same node, as if its result had this dtype."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def refuse(self, reason):
        raise Refused(reason)

    def number(self, value, dtype=None):
        return self.scope.number(value, dtype or self.dtype)

    def ints(self, numbers):
        return self.scope.ints(list(numbers))

    def value(self, x, dtype=None):
        """An argument as a value of this dtype (None: as it is): a tensor, or a number."""
        if isinstance(x, Tensor):
            return x.value if dtype in (None, x.dtype) else cast(x.value, x.dtype, dtype)
        if isinstance(x, torch.SymInt):
            made = core.squeeze(self.scope.extent(x))
            return made if dtype in (None, torch.int64) else core.cast(made, to=NAMES[dtype])
        if isinstance(x, (torch.SymFloat, torch.SymBool)):
            self.refuse("it computes with a number that is known only when the model runs")
        if x is None:
            return None
        return self.number(x, dtype)

    def promoted(self, *operands):
        """The dtype in which PyTorch computes with these tensors and numbers."""
        class_of = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype(), complex: torch.complex64}
        found = None
        for rank in (3, 2, 1):  # tensors with axes, tensors without axes, numbers: each kind counts only if it is of a higher category
            for x in operands:
                kind = 1
                if isinstance(x, Tensor):
                    kind = 3 if x.rank else 2
                if kind != rank:
                    continue
                dtype = x.dtype if isinstance(x, Tensor) else class_of.get(type(x), torch.int64)
                if found is None or _category(dtype) > _category(found[0]):
                    found = dtype, rank
                elif found[1] == rank:
                    found = torch.promote_types(found[0], dtype), rank
        return found[0]

    def axis(self, number, rank):
        return number % max(rank, 1)

    def name_of(self, dtype):
        """The name of a dtype in Tenon."""
        if dtype not in NAMES:
            self.refuse(f"Tenon has no dtype {dtype}")
        return NAMES[dtype]

    def reshaped(self, value, shape):
        """A value with another shape; at most one extent that is a symbol is computed by the reshape itself."""
        shape = list(shape)
        symbols = [i for i, e in enumerate(shape) if not isinstance(e, int)]
        if len(symbols) == 1 and 0 not in shape:
            shape[symbols[0]] = -1
        return core.reshape(value, self.ints(shape), **({"allow_zero": True} if 0 in shape else {}))

    def expanded(self, value, shape):
        return core.expand(value, self.ints(shape))

    def filled(self, number, dtype=None, shape=None):
        dtype = dtype or self.dtype
        return core.constant_of_shape(self.ints(self.shape if shape is None else shape), value=torch.tensor([number], dtype=dtype), builder=self.scope.builder)


def _category(dtype):
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype == torch.bool else 1


def cast(value, source, dtype):
    if dtype not in NAMES:
        raise Refused(f"Tenon has no dtype {dtype}")
    if dtype == torch.bool and source.is_floating_point:
        return core.cast(value, to="bool")
    return core.cast(value, to=NAMES[dtype])


def named(word):
    """An operator of core whose name is a word of Python."""
    return getattr(core, word)


def count_of(shape):
    """The number of elements of a tensor of this shape."""
    return functools.reduce(operator.mul, shape, 1)


HALVES = (torch.float16, torch.bfloat16)


def wide(dtype):
    """The dtype in which PyTorch computes with this one: float32 for half precision."""
    return torch.float32 if dtype in HALVES else dtype


def in_full_precision(function):
    """Lets a row of several nodes compute in float32 where the node is of half precision, as PyTorch does, so that it rounds once."""
    def widened(x):
        if isinstance(x, (list, tuple)):
            return [widened(item) for item in x]
        if not isinstance(x, Tensor) or x.dtype not in HALVES:
            return x
        return Tensor(cast(x.value, x.dtype, torch.float32), torch.float32, x.shape)

    def narrowed(value, fake):
        if value is None or fake.dtype not in HALVES:
            return value
        return cast(value, torch.float32, fake.dtype)

    @functools.wraps(function)
    def lower(c, *arguments, **named_arguments):
        tensors = [a for a in [*arguments, *named_arguments.values()] if isinstance(a, Tensor)]
        if not any(t.dtype in HALVES for t in tensors) and c.dtype not in HALVES:
            return function(c, *arguments, **named_arguments)
        made = function(c.in_dtype(c.dtype and wide(c.dtype)), *map(widened, arguments), **{k: widened(v) for k, v in named_arguments.items()})
        if isinstance(made, (list, tuple)):
            return [narrowed(value, fake) for value, fake in zip(made, c.result)]
        return narrowed(made, c.result)
    return lower
