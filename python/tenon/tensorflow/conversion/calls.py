"""An operation of TensorFlow on its way into a Tenon graph, and the table of the functions that convert each kind."""
import tensorflow as tf
from tensorflow.python.framework import tensor_util

from ..errors import invalid, unimplemented
from .tensors import Tensor, core

ROWS = {}


def row(*names):
    """Registers a function that takes a Call and returns what the results of the operation become: a Tensor, or a list of one for each result."""
    def register(function):
        ROWS.update(dict.fromkeys(names, function))
        return function
    return register


def refused(op, reason):
    """Returns the error for an operation that cannot be converted."""
    return unimplemented(f"{op.name} ({op.type}): {reason}")


class Call:
    """An operation.

    op: the operation in TensorFlow.  inputs: what its inputs have become.  scope: where nodes are added.  walk: the conversion of the whole model.
    """

    def __init__(self, op, inputs, scope, walk):
        self.op, self.inputs, self.scope, self.walk = op, inputs, scope, walk

    def attr(self, name):
        value = self.op.get_attr(name)
        return value.decode() if isinstance(value, bytes) else value

    def refuse(self, reason):
        raise refused(self.op, reason)

    def tensor(self, i):
        if not isinstance(self.inputs[i], Tensor):
            self.refuse("it computes with a handle of a resource or a list, which graphs of Tenon do not have")
        return self.inputs[i]

    def value(self, i):
        return self.tensor(i).plain()

    def values(self):
        return [self.value(i) for i in range(len(self.inputs))]

    def array(self, i, what):
        """Returns an input that must be a constant.  what: its name in the error."""
        if self.tensor(i).array is None:
            self.refuse(f"expected a constant as {what}, found a tensor that is computed: pass {what} as a number of Python when the function is traced")
        return self.tensor(i).array

    def ints(self, i):
        """Returns an input of integers as i64."""
        tensor = self.tensor(i)
        return self.scope.ints(tensor.array) if tensor.array is not None else core.cast(tensor.plain(), to="i64")

    def shape(self, i):
        """The extents of an input as far as TensorFlow knows them; None: not even the rank."""
        if isinstance(self.inputs[i], Tensor) and self.inputs[i].array is not None:
            return list(self.inputs[i].array.shape)
        shape = self.op.inputs[i].shape
        return None if shape.rank is None else shape.as_list()

    def rank(self, i=0):
        """The rank of an input, which must be known."""
        found = self.tensor(i).rank
        if found is None:
            found = self.op.inputs[i].shape.rank
        if found is None:
            self.refuse("the rank of its input is not known: state the shapes of the inputs of the function (tf.TensorSpec), or call set_shape")
        return found

    def result_shape(self, i=0):
        shape = self.op.outputs[i].shape
        return None if shape.rank is None else shape.as_list()

    def axis(self, number, rank=None):
        """Returns an axis as a number from 0."""
        rank = self.rank() if rank is None else rank
        if not -rank <= number < rank:
            raise invalid(f"{self.op.name} ({self.op.type}): axis {number} is out of range for a tensor with {rank} axes")
        return number % rank

    def is_last_use(self, i=0):
        """Whether nothing else reads an input."""
        tensor = self.op.inputs[i]
        return len(tensor.consumers()) == 1 and all(tensor is not t for t in self.op.graph.outputs)

    def given(self, value):
        return Tensor(self.scope, value)

    def planar(self, value):
        return Tensor(self.scope, planar=value)

    def constant(self, array):
        return Tensor(self.scope, array=array)

    def shape_vector(self, i):
        """Returns an input that is a shape as extents, None where they are computed; None: not even the rank is known."""
        if self.tensor(i).array is not None:
            return [int(e) for e in self.tensor(i).array.reshape(-1)]
        found = tensor_util.constant_value_as_shape(self.op.inputs[i])
        return None if found.rank is None else found.as_list()


def apply(call, function, tensors):
    """Adds a pointwise node; in the order of channels that its operands are in.  Returns a Tensor."""
    rank = call.op.outputs[0].shape.rank
    if rank and any(t.is_planar for t in tensors) and all(t.array is not None or t.rank in (0, rank) for t in tensors):
        return call.planar(function(*(t.planar(rank) for t in tensors)))
    return call.given(function(*(t.plain() for t in tensors)))


def dtype_name(call, dtype):
    from ..dtypes import NAMES
    if tf.as_dtype(dtype) not in NAMES:
        call.refuse(f"Tenon has no dtype {tf.as_dtype(dtype).name}")
    return NAMES[tf.as_dtype(dtype)]
