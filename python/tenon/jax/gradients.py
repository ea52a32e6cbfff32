"""Evaluates the declared gradients of operators in JAX."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from .._declarations import Call as Node
from .._declarations import Name, formulas, names_read
from .._calls import Call, inputs_of, own_results, parameters_of, results_of, traits_of, written_inputs

_formulas = functools.lru_cache(maxsize=None)(lambda name: formulas(_core.find(name)))


@functools.lru_cache(maxsize=None)
def _names_read(name):
    read = set()
    for _, formula in _formulas(name) or ():
        names_read(formula, read)
    return frozenset(read)


def _has_parts(name):
    """Whether the operator's gradient can be computed from the operators that it calls."""
    return any(kernel.split()[0] in ("composite", "autograd") for kernel in _core.find(name).kernels)


def has_formulas(call):
    return _formulas(call.op) is not None


class Plan(NamedTuple):
    """How the gradient of a call is computed: what has to be kept of the call, and for which operands it is wanted.

    flows: the operands that get a gradient.  smooth: the result buffers that have one.
    operands, results: the operands and result buffers to keep.
    """
    call: Call
    flows: tuple
    smooth: tuple
    operands: tuple
    results: tuple

    def evaluate(self, kept, cotangents, shapes, out):
        """Returns a gradient or None for each operand in `flows`.

        kept: the kept operands and results.  cotangents: one for each buffer in `smooth`, or None.
        shapes: the shape and dtype of each operand of the call; out: those of each buffer in `smooth`.
        """
        if all(c is None for c in cotangents):
            return [None] * len(self.flows)
        cotangents = [jnp.zeros(shape, dtype) if c is None else c for c, (shape, dtype, *_) in zip(cotangents, out)]
        if _formulas(self.call.op) is None:
            return self._evaluate_parts(kept, cotangents)
        return _Evaluation(self, kept, cotangents, shapes).gradients()

    def _evaluate_parts(self, kept, cotangents):
        """Tenon calls the operator again, with a tape."""
        from .primitives import bind
        call, order, operands, key = self._parts(kept)
        made = bind(call, [*operands, *cotangents, *key])
        return [made[order.index(i)] for i in self.flows]

    def push_parts(self, kept, tangents):
        """Returns the tangents of the results from those of the operands in `flows`, for an operator without formulas."""
        from .primitives import bind
        call, order, operands, key = self._parts(kept)
        by_operand = dict(zip(self.flows, tangents))
        return bind(call._replace(forward=1), [*operands, *(by_operand[i] if i in by_operand else jnp.zeros_like(operands[i]) for i in order), *key])

    def _parts(self, kept):
        """Returns the call that computes gradients, the operands that get one, the operands, and the key of a random operator in a list."""
        call, given, requested = self.call, 0, 0
        for k, o in enumerate(_buffer_owners(call)):
            if k in self.smooth:
                given |= 1 << o
        owners = _operand_owners(call)
        for i in self.flows:
            requested |= 1 << owners[i]
        operands, key = (kept[:-1], kept[-1:]) if "random" in traits_of(call.op) else (kept, ())
        order = [i for i, owner in enumerate(owners) if requested >> owner & 1]
        return call._replace(given=given, requested=requested), order, operands, key


def _operand_owners(call):
    """The index of the tensor argument that each operand belongs to."""
    return [i for i, count in enumerate(call.counts) for _ in range(count)]


def _buffer_owners(call):
    """The number of the result that each buffer belongs to; calls with gradients have neither written nor padded results.

    The lengths of lists are not known here, so at most the last result may be a list.
    """
    return [o for o, _ in own_results(call)]


def plan(call, flows, smooth):
    """Returns the plan of a call's gradient, or None if no gradient flows.  Raises if the operator has none."""
    name = call.op
    flows = tuple(i for i in flows if i < call.operand_count)
    if not flows:
        return None
    if written_inputs(name):
        raise _core.UnimplementedError(f"{name} writes to its inputs and has no gradient in JAX: apply jax.lax.stop_gradient to them")
    if call.padded:
        raise _core.UnimplementedError(f"{name}: the size of its result depends on data, so it has no gradient in JAX: apply jax.lax.stop_gradient to its inputs")
    count = call.operand_count + ("random" in traits_of(name))
    if _formulas(name) is None:
        if not _has_parts(name):
            raise _core.UnimplementedError(f"{name} has no gradient: declare one (gradient= in Python, TENON_GRADIENT in C), or apply jax.lax.stop_gradient to its inputs")
        return Plan(call, flows, smooth, tuple(range(count)), ())
    read, owners = _names_read(name), _operand_owners(call)
    names = [p["name"] for p in inputs_of(name)]
    known = {i for i, _ in call.known}
    kept = tuple(i for i, owner in enumerate(owners) if names[owner] in read and owner not in known)
    results = tuple(k for k, (_, r) in enumerate(own_results(call)) if r["name"] in read)
    return Plan(call, flows, smooth, kept, results)


class _Known(tuple):
    """The elements of an argument that are known when the program is traced; shapes depend on them."""


class _Shape:
    """The shape of a tensor, as the value of core::shape: its extents are known when the program is traced."""

    def __init__(self, extents):
        self.extents = tuple(extents)


class _Evaluation:
    """One evaluation of an operator's formulas."""

    def __init__(self, plan, kept, cotangents, shapes):
        call, name = plan.call, plan.call.op
        self.plan, self.name, self.pointwise = plan, name, "pointwise" in traits_of(name)
        self.like = cotangents[0]
        kept = list(kept)
        operands = [None] * call.operand_count
        for i in plan.operands:
            operands[i] = kept.pop(0)
        attributes = dict(call.attributes)
        self.names = {p["name"]: attributes.get(p["name"], p["default"]) for p in parameters_of(name) if not p["tensor"]}
        self.shapes = {}
        for (p, count), group, shape in zip(call.inputs, call.group(operands), call.group(shapes)):
            self.names[p["name"]] = group
            if count == 1 and not isinstance(shape, list):
                self.shapes[p["name"]] = shape[0]
        known, indices = dict(call.known), inputs_of(name)
        for i, elements in known.items():
            parameter = indices[i]["name"]
            self.names[parameter] = _Known(elements) if len(self.shapes[parameter]) else elements[0]
        for k in plan.results:
            self.names[own_results(call)[k][1]["name"]] = kept.pop(0)
        by_buffer = dict(zip(plan.smooth, cotangents))
        own = [r["name"] for _, r in own_results(call)]
        for r in results_of(name):
            self.names[f"grad.{r['name']}"] = None
        for k, result in enumerate(own):
            grad = by_buffer.get(k)
            is_list = own_results(call)[k][1]["kind"] == "Tensor[]"
            self.names[f"grad.{result}"] = [by_buffer[j] for j in sorted(by_buffer) if j >= k] if is_list else grad
        if self.pointwise:
            zero = jnp.zeros((), self.like.dtype)
            self.names.update({f"grad.{r['name']}": zero for r in results_of(name) if self.names[f"grad.{r['name']}"] is None})
        if "grad" not in {p["name"] for p in inputs_of(name)}:
            self.names["grad"] = self.names[f"grad.{results_of(name)[0]['name']}"]

    def gradients(self):
        call = self.plan.call
        owners = _operand_owners(call)
        index = {p["name"]: p["index"] for p in inputs_of(call.op)}
        wanted = {owners[i] for i in self.plan.flows}
        made = {}
        for names, formula in _formulas(call.op):
            bits = sum(1 << i for i, n in enumerate(names) if index[n] in wanted)
            if not bits or formula == "none":
                continue
            if formula == "error":
                raise _core.UnimplementedError(f"{call.op} declares that it has no gradient for {', '.join(names)}: apply jax.lax.stop_gradient to this input")
            values = self._value(formula, bits)
            for i, value in enumerate(values if isinstance(values, tuple) else (values,)):
                if bits >> i & 1:
                    made[index[names[i]]] = self._fitted(names[i], value)
        first = {}
        for i, owner in enumerate(owners):
            first.setdefault(owner, i)
        grads = [made.get(owners[i]) for i in self.plan.flows]
        return [g[i - first[owners[i]]] if isinstance(g, list) else g for i, g in zip(self.plan.flows, grads)]

    def _fitted(self, name, gradient):
        """Sums the gradient of a pointwise operator over the axes along which the input was broadcast."""
        shape = self.shapes.get(name)
        if not self.pointwise or gradient is None or shape is None or tuple(gradient.shape) == tuple(shape):
            return gradient
        return sum_to(gradient, shape)

    def _value(self, value, wanted=0):
        """Evaluates an expression.  wanted: the results of a call that are wanted (bits; 0: all)."""
        if isinstance(value, Name):
            if value.name not in self.names:
                raise _core.UnimplementedError(f"{self.name}: its gradient formula reads {value.name}, which JAX does not keep")
            return self.names[value.name]
        if not isinstance(value, Node):
            return value
        if value.name == "core::shape" and len(value.values) == 1:
            return _Shape(self._shape_of(value.values[0])[value.named.get("start", 0):value.named.get("end")])
        if value.name in _OWN and not value.named:
            arguments = [self._argument(v) for v in value.values]
            if len(arguments) == 1 or isinstance(arguments[1], _Shape):
                return _OWN[value.name](*map(self._own_argument, arguments))
        from .functions import Function
        function = Function(_core.find(value.name))
        given = list(zip(function.parameters, (self._argument(v) for v in value.values)))
        by_name = {p["name"]: p for p in function.parameters}
        given += [(by_name[k], self._argument(v)) for k, v in value.named.items()]
        arguments = {p["name"]: self._tensor(p, v) if p["tensor"] else v for p, v in given if v is not None}
        optional = any(r["optional"] for r in results_of(value.name))
        return function.call(arguments, wanted=wanted if optional else 0)

    def _shape_of(self, value):
        """Returns the shape of an expression; it is known when the program is traced."""
        if isinstance(value, Name) and value.name in self.shapes:
            return tuple(self.shapes[value.name])
        return tuple(self._argument(value).shape)

    def _own_argument(self, value):
        """Converts an argument of JAX's own operators: a number gets the dtype of the gradient."""
        return value.extents if isinstance(value, _Shape) else jnp.asarray(value, self.like.dtype) if isinstance(value, float) else value

    def _argument(self, value):
        """Evaluates an argument of a call; of a call with several results it is the first one."""
        made = self._value(value, 1)
        return made[0] if isinstance(value, Node) and isinstance(made, tuple) else made

    def _tensor(self, parameter, value):
        """Converts numbers to arrays."""
        if isinstance(value, _Shape):
            return value.extents
        if isinstance(value, _Known):
            return tuple(value)
        if isinstance(value, (list, tuple)) and any(hasattr(v, "dtype") for v in value):
            return list(value)
        if hasattr(value, "dtype") or type(value).__name__ == "_DimExpr":
            return value
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (value if isinstance(value, (list, tuple)) else [value]))
        if whole and parameter["host"]:
            return tuple(value) if isinstance(value, (list, tuple)) else np.asarray(value)
        return np.asarray(value, np.int32 if whole else self.like.dtype)


def sum_to(x, shape):
    """Sums an array over the axes along which `shape` was broadcast to it."""
    leading = len(x.shape) - len(shape)
    axes = [i for i, extent in enumerate(shape, leading) if isinstance(extent, int) and extent == 1 and x.shape[i] != 1]
    x = jnp.sum(x, axis=(*range(leading), *axes), keepdims=True) if leading or axes else x
    return jax.lax.squeeze(x, range(leading)) if leading else x


# Operators that are replaced by JAX's own, which XLA fuses.
_OWN = {"core::identity": lambda x: x, "core::expand": jnp.broadcast_to, "core::reshape": jnp.reshape, "core::sum_to": sum_to}
