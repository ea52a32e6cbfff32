"""Lists of tensors (tf.TensorArray, TensorList), as the loops of Keras's recurrent layers use them: one tensor with a further first axis."""
import numpy as np
import tensorflow as tf

from .calls import dtype_name, row
from .tensors import List, core


@row("TensorListFromTensor")
def from_tensor(call):
    return List(call.tensor(0))


class Reserved:
    """A list whose elements have a rank that is not known until one is set.  count: a vector with its length.  dtype: of its elements."""

    def __init__(self, count, dtype):
        self.count, self.dtype = count, dtype

    def of_rank(self, call, rank):
        return self.of_extents(call, [0] * rank)

    def of_extents(self, call, extents):
        """Returns the list with elements of zeros."""
        zero = core.cast(call.scope.builder.constant(np.zeros((), np.float32)), to=self.dtype)
        return List(call.given(core.expand(zero, core.concat([self.count, call.scope.ints(extents)], axis=0) if extents else self.count)), self.count)


class Stacked:
    """A list inside the body of a loop that sets one element in each iteration, in order: core::loop stacks them.  item: that element."""

    def __init__(self, item=None):
        self.item = item


def is_stacked(call, body, i):
    """Whether the body of a loop sets the elements of the list that is its state i, in order from 0, and does nothing else with it."""
    given = call.inputs[i]
    readers = body.inputs[i].consumers()
    if not isinstance(given, (List, Reserved)) or given.count is None or len(readers) != 1 or readers[0].type != "TensorListSetItem":
        return False
    return source(body.outputs[i]) is readers[0].outputs[0] and _counts(call, body, source(readers[0].inputs[1]))


def _counts(call, body, index):
    """Whether a tensor is a state that counts the iterations from 0."""
    for given, start, after in zip(call.inputs, body.inputs, body.outputs):
        if start is index:
            after = source(after)
            is_zero = getattr(given, "array", None) is not None and given.array.ndim == 0 and given.array == 0
            return is_zero and after.op.type in ("Add", "AddV2") and any(source(a) is index and _is_one(source(b)) for a, b in (after.op.inputs, list(after.op.inputs)[::-1]))
    return False


def _is_one(tensor):
    return tensor.op.type == "Const" and tf.make_ndarray(tensor.op.get_attr("value")).tolist() == 1


def source(tensor):
    """Looks through Identity."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def filled(call, stacked, count):
    """Returns the list whose first elements are stacked, and whose others are 0."""
    ints = call.scope.ints
    extents = core.shape(stacked)
    missing = core.sub(count, core.shape(stacked, start=0, end=1))
    rest = core.mul(core.shape(stacked, start=1), ints([0]))
    ends = core.concat([missing, rest], axis=0)
    return List(call.given(core.pad(stacked, core.concat([core.mul(extents, ints([0])), ends], axis=0))))


_GROWING = "a list that grows is not supported: give tf.TensorArray its size, and dynamic_size=False"


@row("EmptyTensorList")
def empty(call):
    call.refuse(_GROWING)


@row("TensorListReserve")
def reserve(call):
    shape = call.shape_vector(0) if call.tensor(0).rank else None
    made = Reserved(core.reshape(call.ints(1), call.scope.ints([1])), dtype_name(call, call.attr("element_dtype")))
    return made if shape is None else made.of_extents(call, [0 if e is None or e < 0 else e for e in shape])


def element_rank(call, body, i):
    """The rank of the elements that the body of a loop sets in a list, which is its state i."""
    for op in body.inputs[i].consumers():
        if op.type == "TensorListSetItem" and op.inputs[2].shape.rank is not None:
            return op.inputs[2].shape.rank
    call.refuse("the number of axes of the elements of a tf.TensorArray is not known: give it an element_shape")


def _list(call):
    if not isinstance(call.inputs[0], List):
        call.refuse("its list comes from an operation that is not supported")
    return call.inputs[0]


@row("TensorListGetItem")
def get_item(call):
    return call.given(core.gather(_list(call).tensor.plain(), call.value(1), axis=0))


@row("TensorListSetItem")
def set_item(call):
    if call.attr("resize_if_index_out_of_bounds"):
        call.refuse(_GROWING)
    if isinstance(call.inputs[0], Stacked):
        return Stacked(call.tensor(2))
    if isinstance(call.inputs[0], Reserved):
        call.inputs[0] = call.inputs[0].of_rank(call, call.rank(2))
    whole, ints = _list(call).tensor.plain(), call.scope.ints
    item = core.unsqueeze(call.value(2), ints([0]))
    if whole.shape is None or not all(isinstance(e, int) and e > 0 for e in whole.shape[1:]):
        count = core.shape(whole, start=0, end=1)
        full = core.concat([count, core.shape(item, start=1)], axis=0)  # the extents of an element, once one is known
        missing = core.sub(full, core.shape(whole))
        whole = core.pad(whole, core.concat([core.mul(missing, ints([0])), missing], axis=0))
    place = core.reshape(call.ints(1), ints([1, 1]))
    return List(call.given(core.scatter_nd(whole, place, item)))


@row("TensorListStack")
def stack(call):
    return _list(call).tensor


@row("TensorListLength")
def length(call):
    return call.given(core.cast(core.reshape(core.shape(_list(call).tensor.plain(), start=0, end=1), call.scope.ints([])), to="i32"))
