"""Products of matrices of TensorFlow, and its Einsum."""
import numpy as np

from .calls import row
from .tensors import core


@row("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def product(call):
    if call.op.type == "MatMul":
        first, second = call.attr("transpose_a"), call.attr("transpose_b")
    else:
        first, second = call.attr("adj_x"), call.attr("adj_y")
    to = call.op.outputs[0].dtype
    if to != call.op.inputs[0].dtype:
        call.refuse(f"a product of {call.op.inputs[0].dtype.name} with the dtype {to.name} is not supported: cast the operands")
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
            made = _as_product(call, of, extents)
    if made is None:
        made = core.einsum(call.values(), equation=equation)
    return call.given(made)


