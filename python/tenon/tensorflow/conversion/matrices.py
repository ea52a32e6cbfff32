"""Products of matrices of TensorFlow, and its Einsum."""
import numpy as np

from .calls import row
from .tensors import Tensor, core


class Product(Tensor):
    """The result of a product with constant weights that is not in the graph yet, so that a bias becomes part of it.

    Dense layers reshape between the product and the bias, which keeps the compiler from fusing them.
    a: the left side.  weights: a matrix.  tail: the extents of the last axes, into which those of the result are split.  shape: of the result as a vector, or
    None if it is that of the product.
    """

    def __init__(self, scope, a, weights, tail, shape=None, bias=None):
        super().__init__(scope)
        self.a, self.weights, self.tail, self.shape, self.bias = a, weights, tail, shape, bias

    @property
    def rank(self):
        return len(self.plain().shape)

    def plain(self):
        if self._plain is None:
            bias = None if self.bias is None else self.scope.constant(self.bias)
            made = core.matmul(self.a, self.scope.constant(self.weights), bias)
            self._plain = made if self.shape is None else core.reshape(made, self.shape)
        return self._plain

    def has_columns(self, array):
        """Whether an array has one number for each column of the product, along the last axes of the result."""
        shape = list(array.shape)
        while len(shape) > len(self.tail) and shape[0] == 1:
            shape.pop(0)
        return shape == self.tail and array.dtype == self.weights.dtype and self._plain is None

    def moved(self, by):
        by = np.ascontiguousarray(by.reshape(-1))
        return Product(self.scope, self.a, self.weights, self.tail, self.shape, by if self.bias is None else self.bias + by)

    def reshaped(self, shape, extents):
        """Returns the product with another shape, or None if its last axes are no longer the columns."""
        if self._plain is not None or self.shape is not None or not extents or extents[-1] != self.weights.shape[1]:
            return None
        return Product(self.scope, self.a, self.weights, self.tail, shape, self.bias)


@row("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def product(call):
    if call.op.type == "MatMul":
        first, second = call.attr("transpose_a"), call.attr("transpose_b")
    else:
        first, second = call.attr("adj_x"), call.attr("adj_y")
    to = call.op.outputs[0].dtype
    if to != call.op.inputs[0].dtype:
        call.refuse(f"a product of {call.op.inputs[0].dtype.name} with the dtype {to.name} is not supported: cast the operands")
    weights = call.tensor(1).array
    if weights is not None and weights.ndim == 2 and not first:
        weights = np.ascontiguousarray(weights.T) if second else weights
        return Product(call.scope, call.value(0), weights, [weights.shape[1]])
    return call.given(core.matmul(call.value(0), call.value(1), transpose_a=first, transpose_b=second))


class _Equation:
    """The labels of an equation of two operands, by what becomes of them."""

    def __init__(self, a, b, out):
        self.a, self.b, self.out = a, b, out
        self.batch = [x for x in out if x in a and x in b]
        self.summed = [x for x in a if x in b and x not in out]
        self.free_a = [x for x in out if x in a and x not in b]
        self.free_b = [x for x in out if x in b and x not in a]

    def is_product(self):
        """Whether each label is once in each operand, and none is summed in one operand alone."""
        labels = [self.a, self.b, self.out]
        return all(len(set(part)) == len(part) for part in labels) and set(self.a) == {*self.batch, *self.summed, *self.free_a} and set(self.b) == {*self.batch, *self.summed, *self.free_b}


def _arranged(call, value, labels, groups, extents):
    """Transposes a tensor to the order of the groups, and makes one axis of each group.  Returns None if its extents cannot be stated."""
    order = [x for group in groups for x in group]
    if labels != order:
        value = core.transpose(value, perm=[labels.index(x) for x in order])
    if all(len(group) == 1 for group in groups):
        return value
    shape = [_joined(group, extents) for group in groups]
    return None if shape.count(-1) > 1 else core.reshape(value, call.scope.ints(shape))


def _joined(group, extents):
    known = [extents[x] for x in group]
    return -1 if None in known else int(np.prod(known, dtype=np.int64))


def _split(call, value, order, extents):
    """Gives a product the axes of these labels again."""
    shape = [-1 if extents[x] is None else extents[x] for x in order]
    return None if shape.count(-1) > 1 else core.reshape(value, call.scope.ints(shape))


def _dense(call, of, extents):
    """Converts a product with constant weights; None: it is none.  The axes of the left side that are free come first, as the result has them."""
    weights, columns = call.tensor(1).array, len(of.free_b)
    if weights is None or of.batch or not of.free_a or not columns or of.a != of.free_a + of.summed or of.b != of.summed + of.free_b or of.out != of.free_a + of.free_b:
        return None
    a = _arranged(call, call.value(0), of.a, [*([x] for x in of.free_a), of.summed], extents)
    if a is None:
        return None
    tail = list(weights.shape[-columns:])
    weights = np.ascontiguousarray(weights.reshape(-1, int(np.prod(tail))))
    shape = [-1 if extents[x] is None else extents[x] for x in of.out]
    if columns == 1:
        return Product(call.scope, a, weights, tail)
    return None if shape.count(-1) > 1 else Product(call.scope, a, weights, tail, call.scope.ints(shape))


def _as_product(call, of, extents):
    batch = [[x] for x in of.batch]
    free_a = [[x] for x in of.free_a] if not of.batch and len(of.free_a) else [of.free_a]
    a = _arranged(call, call.value(0), of.a, [*batch, *free_a, of.summed], extents)
    b = _arranged(call, call.value(1), of.b, [*batch, of.summed, of.free_b], extents)
    if a is None or b is None:
        return None
    made = core.matmul(a, b)
    order = [*of.batch, *of.free_a, *of.free_b]
    if len(of.free_b) != 1 or (of.batch and len(of.free_a) != 1) or not of.free_a:
        made = _split(call, made, order, extents)
    if made is not None and order != of.out:
        made = core.transpose(made, perm=[order.index(x) for x in of.out])
    return made


@row("Einsum")
def einsum(call):
    equation = call.attr("equation").replace(" ", "")
    operands, out = equation.split("->")
    operands = operands.split(",")
    made = None
    if len(operands) == 2 and "." not in equation:
        of, extents = _Equation(*(list(part) for part in (*operands, out))), {}
        for labels, i in ((operands[0], 0), (operands[1], 1)):
            for label, extent in zip(labels, call.shape(i) or [None] * len(labels)):
                extents[label] = extents.get(label) or extent
        if of.is_product() and 0 not in extents.values():
            made = _dense(call, of, extents)
            if made is not None:
                return made
            made = _as_product(call, of, extents)
    if made is None:
        made = core.einsum(call.values(), equation=equation)
    return call.given(made)


