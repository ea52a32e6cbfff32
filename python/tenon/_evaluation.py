"""Evaluates the declared gradient of an operator in a framework.  The formulas are the same for all frameworks; a subclass of Evaluation knows how tensors
are made and operators are called."""
import functools

from . import _core
from ._calls import inputs_of, own_results, parameters_of, results_of, traits_of
from ._declarations import Call as Node
from ._declarations import Name, formulas, names_read

formulas_of = functools.lru_cache(maxsize=None)(lambda name: formulas(_core.find(name)))


@functools.lru_cache(maxsize=None)
def names_of(name):
    """The arguments and results that the formulas of an operator read."""
    read = set()
    for _, formula in formulas_of(name) or ():
        names_read(formula, read)
    return frozenset(read)


def has_parts(name):
    """Whether the operator's gradient can be computed from the operators that it calls."""
    return any(kernel.split()[0] in ("composite", "autograd") for kernel in _core.find(name).kernels)


class Shape:
    """The shape of a tensor, as the value of core::shape, where its extents are known before the program runs."""

    def __init__(self, extents):
        self.extents = tuple(extents)


class Evaluation:
    """One evaluation of an operator's formulas.

    call: the call.  operands: for each tensor argument None, a tensor, or a list.  results: the tensors of own results by their number; those that no
    formula reads may be missing.  cotangents: the gradients of own results by their number; a list for a list, None for none.
    shapes: the shapes of arguments that are single tensors, by name.
    """
    remedy = "stop the gradient of its inputs"  # what to do about an input without a gradient

    def __init__(self, call, operands, results, cotangents, shapes):
        name = call.op
        self.call, self.name, self.shapes = call, name, shapes
        self.pointwise = "pointwise" in traits_of(name)
        self.like = next(t for c in cotangents.values() if c is not None for t in (c if isinstance(c, list) else [c]) if t is not None)
        attributes = dict(call.attributes)
        self.names = {p["name"]: attributes.get(p["name"], p["default"]) for p in parameters_of(name) if not p["tensor"]}
        for (parameter, _), operand in zip(call.inputs, operands):
            self.names[parameter["name"]] = operand
        for o, result in own_results(call):
            if o in results:
                self.names[result["name"]] = results[o]
        for o, result in enumerate(results_of(name)):
            grad = cotangents.get(o)
            self.names[f"grad.{result['name']}"] = self.zero() if grad is None and self.pointwise else grad
        if "grad" not in {p["name"] for p in inputs_of(name)}:
            self.names["grad"] = self.names[f"grad.{results_of(name)[0]['name']}"]

    # ---- what a framework implements ----

    def zero(self):
        """A tensor without axes that stands for the gradient of an unused result."""
        raise NotImplementedError

    def constant(self, parameter, value):
        """Converts numbers, and Shape, to a tensor argument."""
        raise NotImplementedError

    def is_tensor(self, value):
        raise NotImplementedError

    def shape(self, value, start, end):
        """The value of core::shape of an argument or an expression."""
        raise NotImplementedError

    def replaced(self, name, arguments):
        """The value of an operator that the framework has itself, or NotImplemented."""
        return NotImplemented

    def apply(self, name, arguments, wanted):
        """Calls an operator with arguments by name."""
        raise NotImplementedError

    def summed(self, gradient, name):
        """Sums the gradient of a pointwise operator over the axes along which the input was broadcast."""
        raise NotImplementedError

    # ---- evaluation ----

    def gradients(self, wanted):
        """Returns the gradients of tensor arguments by their index; wanted: the indices."""
        index = {p["name"]: p["index"] for p in inputs_of(self.name)}
        made = {}
        for names, formula in formulas_of(self.name):
            bits = sum(1 << i for i, n in enumerate(names) if index[n] in wanted)
            if not bits or formula == "none":
                continue
            if formula == "error":
                raise _core.UnimplementedError(f"{self.name} declares that it has no gradient for {', '.join(names)}: {self.remedy}")
            values = self.value(formula, bits)
            for i, value in enumerate(values if isinstance(values, tuple) else (values,)):
                if bits >> i & 1:
                    name = names[i]
                    made[index[name]] = self.summed(value, name) if self.pointwise and value is not None and name in self.shapes else value
        return made

    def value(self, value, wanted=0):
        """Evaluates an expression.  wanted: the results of a call that are wanted (bits; 0: all)."""
        if isinstance(value, Name):
            if value.name not in self.names:
                raise _core.UnimplementedError(f"{self.name}: its gradient formula reads {value.name}, which is not kept")
            return self.names[value.name]
        if not isinstance(value, Node):
            return value
        if value.name == "core::shape" and len(value.values) == 1:
            return self.shape(value.values[0], value.named.get("start", 0), value.named.get("end"))
        if not value.named:
            arguments = [self.argument(v) for v in value.values]
            made = self.replaced(value.name, arguments)
            if made is not NotImplemented:
                return made
        else:
            arguments = [self.argument(v) for v in value.values]
        parameters = parameters_of(value.name)
        given = list(zip(parameters, arguments))
        by_name = {p["name"]: p for p in parameters}
        given += [(by_name[k], self.argument(v)) for k, v in value.named.items()]
        arguments = {p["name"]: self.tensor(p, v) if p["tensor"] else v for p, v in given if v is not None}
        optional = any(r["optional"] for r in results_of(value.name))
        return self.apply(value.name, arguments, wanted if optional else 0)

    def argument(self, value):
        """Evaluates an argument of a call; of a call with several results it is the first one."""
        made = self.value(value, 1)
        return made[0] if isinstance(value, Node) and isinstance(made, tuple) else made

    def tensor(self, parameter, value):
        if self.is_tensor(value):
            return value
        if isinstance(value, (list, tuple)) and any(self.is_tensor(v) for v in value):
            return list(value)
        return self.constant(parameter, value)
