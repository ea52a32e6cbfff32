"""What the tensors of a TensorFlow graph become: constants, values of a Tenon graph, lists of tensors, and handles of variables.

TensorFlow has channels last, and Tenon's convolutions have them first.  A transpose is a view, but a node that stands between a convolution and its
activation keeps them from becoming one kernel.  So a tensor knows both orders, and a node takes the order that its operands are already in.
"""
import numpy as np

from ...graph import ops

core = ops.core
_NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


class Scope:
    """The builder of a graph, or of the body of a loop or a branch, with the constants that were added to it."""

    def __init__(self, builder):
        self.builder, self._constants = builder, {}

    def constant(self, array):
        """Returns the value of an array, which must not change any more."""
        if id(array) not in self._constants:
            self._constants[id(array)] = array, self.builder.constant(array, copy=False)  # the array is kept, so that its id stays its own
        return self._constants[id(array)][1]

    def ints(self, items):
        """Returns a vector, or a number, of i64."""
        return self.builder.constant(np.asarray(items, np.int64))

    def like(self, number, value):
        """Returns a number of the dtype of a value."""
        if value.dtype in _NUMPY:
            return self.builder.constant(np.asarray(number, _NUMPY[value.dtype]))
        return core.cast(self.builder.constant(np.asarray(number, np.float64)), to=value.dtype)


class Tensor:
    """A tensor.

    array: the constant that it is, or None.  rank: None if it is not known.
    """

    def __init__(self, scope, plain=None, planar=None, array=None):
        self.scope, self.array, self._plain, self._planar = scope, array, plain, planar

    @property
    def rank(self):
        if self.array is not None:
            return self.array.ndim
        shape = (self._planar if self._plain is None else self._plain).shape
        return None if shape is None else len(shape)

    @property
    def is_planar(self):
        """Whether it is there with channels first only."""
        return self._planar is not None and self._plain is None

    def plain(self):
        """Returns its value with the axes in TensorFlow's order."""
        if self._plain is None and self.array is not None:
            self._plain = self.scope.constant(self.array)
        elif self._plain is None:
            self._plain = core.transpose(self.planar(), perm=last_to_end(self.rank))
        return self._plain

    def planar(self, rank=None):
        """Returns its value with the last axis in the second place.  rank: that of the operation, which a constant is broadcast to."""
        if self.array is not None:
            return self.scope.constant(planar_array(self.array, rank or self.array.ndim))
        if self._planar is None:
            self._planar = self._plain if self.rank == 0 else core.transpose(self._plain, perm=last_to_second(self.rank))
        return self._planar


class Handle:
    """A variable, whose contents are constants of the graph.  tensor: the handle in TensorFlow."""

    def __init__(self, tensor):
        self.tensor = tensor


class List:
    """A list of tensors of TensorFlow as one tensor with a further first axis; an element that was not set is 0.

    tensor: the tensor.  Extents of elements that are not known before one is set are 0 until then.
    count: a vector with its length, if no element is set; otherwise None.
    """

    def __init__(self, tensor, count=None):
        self.tensor, self.count = tensor, count


def last_to_second(rank):
    return [0, rank - 1, *range(1, rank - 1)]


def last_to_end(rank):
    return [0, *range(2, rank), 1]


def planar_array(array, rank):
    """Returns an array that broadcasts to tensors with channels first as `array` does to tensors with channels last."""
    if array.ndim == 0:
        return array
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return np.ascontiguousarray(full.transpose(last_to_second(rank)))
