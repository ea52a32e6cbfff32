"""Calls of operators on DTensors: arguments and results are split over processes as declared (docs/contract.md).

A program that imports torch.distributed.tensor imports this file as well.  PyTorch calls `_Rule.run`, below autograd,
for each call that has a DTensor among its arguments.  The declaration of an operator also says how the calls are split
that compute its gradients.
"""
import functools
import itertools
import math
from typing import NamedTuple

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from .. import _core
from .._calls import inputs_of, is_written_result, parameters_of, results_of, traits_of, written_inputs
from .._declarations import Call, Name, formulas
from .._sharding import conditions_of, declared, factors_of

_gradients = {}  # an operator that gradient formulas call: for each formula (its operator, the inputs, the call)


def add(op, name, home, inner, explain):
    """Registers the rule of an operator, and that of `inner`, which computes its gradients by its parts.

    name: PyTorch's name of the operator.
    home: the torch.library.Library that keeps the registration.
    explain: a function that takes the message of an exception, which PyTorch may drop on its way through C.
    """
    torch.library.register_torch_dispatch(name, DTensor, _Rule(op.name, _Tensors(op.name), explain).run, lib=home)
    if inner:
        torch.library.register_torch_dispatch(inner, DTensor, _Rule(op.name, None, explain).run, lib=home)
    if declared(op.name) and "pointwise" not in op.traits:
        for names, call in formulas(op) or ():
            if isinstance(call, Call):
                _gradients.setdefault(call.name, []).append((op.name, names, call))


class _Tensors:
    """How a declaration names the tensors of a call: here, of the operator `of` that has the declaration."""
    is_gradient = False

    def __init__(self, of):
        self.of, self.results = of, tuple(r["name"] for r in results_of(of) if not is_written_result(of, r))

    def name(self, argument, i):
        """The name of item i of an argument; "" is none."""
        return argument

    def facts(self, values):
        """What the conditions of the declaration need to know, as pairs of a name and a value."""
        return tuple((n, _fact(values[n])) for n in conditions_of(self.of) if n in values)


class _TensorsOfFormula(_Tensors):
    """The same for the operator that a gradient formula calls with inputs, results and gradients of results."""
    is_gradient = True

    def __init__(self, of, names, call):
        self.of, self.results = of, tuple(names)
        parameters = parameters_of(call.name)
        own_names = {p["name"] for p in parameters_of(of)}
        given = {**{p["name"]: v for p, v in zip(parameters, call.values)}, **call.named}
        self.bound, self.constants, self.is_declared = {}, {}, len(names) == len(results_of(call.name))
        self.defaults = {p["name"]: p["default"] for p in parameters}
        for p in parameters:
            value = given.get(p["name"], p["default"])
            if isinstance(value, Name):
                is_first = value.name == "grad" and "grad" not in own_names
                self.bound[p["name"]] = "grad." + results_of(of)[0]["name"] if is_first else value.name
            else:
                self.constants[p["name"]] = value
                self.is_declared &= not isinstance(value, Call)  # the extents of what is computed are not declared

    def is_for(self, values):
        """Whether a call of the operator is one that the formula makes."""
        constants = self.constants.items()
        return self.is_declared and all(_fact(values.get(n, self.defaults[n])) == _fact(c) for n, c in constants)

    def name(self, argument, i):
        return self.bound.get(argument, "")

    def facts(self, values):
        known = {of: values.get(n, self.defaults[n]) for n, of in self.bound.items()}
        return tuple((n, _fact(known.get(n, "not known"))) for n in conditions_of(self.of))


@functools.lru_cache(maxsize=None)
def _formula(name, i):
    return _TensorsOfFormula(*_gradients[name][i])


class _TensorsOfParts(_Tensors):
    """The same for `_NAME_vjp`, whose results are the gradients of the requested inputs."""
    is_gradient = True

    def __init__(self, of, values):
        self.of = of
        self.given = [r["name"] for o, r in enumerate(results_of(of)) if values["given"] >> o & 1]
        wanted = [p["name"] for p in inputs_of(of) if values["inputs"] >> p["index"] & 1]
        self.results = tuple(name for name in wanted for _ in _items(values[name]))

    def name(self, argument, i):
        return f"grad.{self.given[i]}" if argument == "grads" else argument


class _Rule:
    """What PyTorch does with calls of one operator of Tenon's on DTensors.

    tensors: None for `_NAME_vjp`, whose calls differ.
    """

    def __init__(self, name, tensors, explain):
        self.name, self.tensors, self.explain = name, tensors, explain
        self.parameters = {p["name"]: p for p in parameters_of(name)}
        self.written = {p["name"] for p in written_inputs(name)}
        self.hosts = [r["host"] for r in results_of(name) if not is_written_result(name, r)]

    def run(self, cls, function, types, args=(), kwargs=None):
        try:
            return self.call(function, args, kwargs or {})
        except Exception as error:
            self.explain(str(error).encode())
            raise

    def call(self, function, args, kwargs):
        if "random" in traits_of(self.name):
            raise _core.UnimplementedError(f"{self.name} draws random numbers, which would differ between processes: "
                                           "call it on local tensors (DTensor.to_local)")
        values = {**dict(zip((a.name for a in function._schema.arguments), args)), **kwargs}
        # names that are words of PyTorch's schemas have an underscore
        values = {n[:-1] if n not in self.parameters and n[:-1] in self.parameters else n: v for n, v in values.items()}
        given = [(n, i, t) for n, v in values.items() for i, t in enumerate(_items(v)) if isinstance(t, torch.Tensor)]
        mesh = self.mesh_of(given)
        with torch.no_grad():
            given = [(n, i, t if isinstance(t, DTensor) else self.replicated(n, t, mesh)) for n, i, t in given]
            named = self.named(values)
            plan = _plan(named.of, named.facts(values), named.is_gradient, named.results, mesh.shape,
                         tuple((named.name(n, i), tuple(t.shape), t.placements) for n, i, t in given))
            parts = iter([self.part(n, t, placements) for (n, _, t), placements in zip(given, plan.operands)])
            made = function(*[_replaced(a, parts) for a in args], **{n: _replaced(v, parts) for n, v in kwargs.items()})
            if not isinstance(made, (list, tuple)):
                return self.whole(made, 0, mesh, plan)
            return type(made)(self.whole(m, o, mesh, plan) for o, m in enumerate(made))

    def named(self, values):
        if not self.tensors:
            return _TensorsOfParts(self.name, values)
        formulas_of = 0 if declared(self.name) else len(_gradients.get(self.name, ()))
        known = map(_formula, itertools.repeat(self.name), range(formulas_of))
        return next((named for named in known if named.is_for(values)), self.tensors)

    def mesh_of(self, given):
        meshes = {t.device_mesh for _, _, t in given if isinstance(t, DTensor)}
        if len(meshes) > 1:
            names = ", ".join(map(str, meshes))
            raise _core.InvalidError(f"{self.name}: its arguments are DTensors of different meshes: {names}")
        mesh = meshes.pop()
        if mesh.get_coordinate() is None:
            raise _core.UnimplementedError(f"{self.name}: this process is not in {mesh}: call it in those that are")
        return mesh

    def replicated(self, name, tensor, mesh):
        """Returns a plain tensor as a DTensor; it must be one of which every process surely has the same."""
        parameter, in_backward = self.parameters.get(name), torch._C._current_graph_task_id() != -1
        is_same = tensor.numel() == 1 or in_backward or (parameter and (parameter["host"] or not parameter["tensor"]))
        if not is_same and not getattr(DTensor._op_dispatcher, "_allow_implicit_replication", False):
            raise _core.InvalidError(f"{self.name}: argument {name} is a plain tensor, but others are DTensors: "
                                     "make it one, too (distribute_tensor, DTensor.from_local)")
        return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)

    def part(self, name, tensor, placements):
        """Returns the part of an argument that this process needs."""
        if tensor.placements != placements:
            if name in self.written:
                raise _core.InvalidError(f"{self.name} writes to {name}, whose placements are {tensor.placements}, "
                                         f"but with these arguments it needs {placements}: redistribute {name} first")
            tensor = tensor.redistribute(placements=placements)
        return tensor.to_local()

    def whole(self, made, o, mesh, plan):
        """Returns result `o`, of which this process has made a part, as a DTensor."""
        if isinstance(made, (list, tuple)):
            return [self.whole(m, o, mesh, plan) for m in made]
        if not isinstance(made, torch.Tensor):
            return made
        replicated = (Replicate(),) * mesh.ndim
        if not plan.results and self.tensors and self.hosts[o]:
            return made  # every process has the same
        placements, extents = plan.results[o] if plan.results else (replicated, ())
        if len(extents) != made.dim():
            if placements == replicated:
                return DTensor.from_local(made, mesh, replicated, run_check=False)
            raise _core.InvalidError(f"{self.name}: result {o} has rank {made.dim()}, "
                                     f"but by the declared sharding it has rank {len(extents)}")
        shape = torch.Size(m if e is None else e for e, m in zip(extents, made.shape))
        stride = tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
        return DTensor.from_local(made, mesh, placements, run_check=False, shape=shape, stride=stride)


class _Plan(NamedTuple):
    """operands: the placements that the call needs.

    results: the placements of each, and the extents that operands have, too; none: all are whole.
    """
    operands: list
    results: list


def _plan(of, facts, is_gradient, results, sizes, given):
    if any(isinstance(extent, torch.SymInt) for _, shape, _ in given for extent in shape):
        return _planned(of, facts, is_gradient, results, sizes, given)
    return _cached_plan(of, facts, is_gradient, results, sizes, given)


def _planned(of, facts, is_gradient, results, sizes, given):
    """Chooses for each axis of the mesh which factor is split over it: the one that moves the fewest numbers."""
    grads = [i for i, (name, _, _) in enumerate(given) if name.startswith("grad.")] if is_gradient else ()
    operands = [(name.removeprefix("grad.") if is_gradient else name, shape) for name, shape, _ in given]
    factors = factors_of(of, dict(facts), operands, [(name, None) for name in results], grads)
    chosen, parts = [], {}
    for axis, size in enumerate(sizes if factors and (grads or not is_gradient) else ()):
        before = [placements[axis] for _, _, placements in given]
        split = [row[p.dim] for row, p in zip(factors.operands, before) if p.is_shard()]
        split = [f for f in dict.fromkeys(split) if f in factors.split and factors.extents[f] >= parts.get(f, 1) * size]
        best = min([*split, None], key=lambda f: sum(_cost(p, _placement(f, row), math.prod(shape), size)
                                                     for p, row, (_, shape) in zip(before, factors.operands, operands)))
        chosen.append(best)
        parts[best] = parts.get(best, 1) * size
    if not chosen:
        return _Plan([(Replicate(),) * len(sizes)] * len(given), [])
    extents = [[factors.extents.get(f) for f in row] for row in factors.results]
    of_results = [tuple(_placement(f, row, factors) for f in chosen) for row in factors.results]
    of_operands = [tuple(_placement(f, row) for f in chosen) for row in factors.operands]
    return _Plan(of_operands, list(zip(of_results, extents)))


_cached_plan = functools.lru_cache(maxsize=4096)(_planned)


def _placement(factor, row, factors=None):
    """How a tensor with the factors `row` lies over an axis of the mesh over which `factor` is split.

    factors: those of the call, for a result.
    """
    if factor in row:
        return Shard(row.index(factor))
    return Partial() if factors and factor and factors.is_summed(factor, row) else Replicate()


def _cost(before, after, count, size):
    """How many numbers a process receives, about."""
    if before == after or before.is_replicate():
        return 0
    if before.is_partial():
        return count if after.is_shard() else 2 * count
    return count / size if after.is_shard() else count


def _fact(value):
    """A value that can be compared and hashed; that of a tensor is that it is given."""
    return True if isinstance(value, torch.Tensor) else tuple(value) if isinstance(value, list) else value


def _items(value):
    return value if isinstance(value, (list, tuple)) else [value]


def _replaced(value, parts):
    if isinstance(value, (list, tuple)):
        return [_replaced(v, parts) for v in value]
    return next(parts) if isinstance(value, torch.Tensor) else value
