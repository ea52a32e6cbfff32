"""Lists of tensors (tf.TensorArray, TensorList), as the loops of Keras's recurrent layers use them: one tensor with a further first axis."""
import numpy as np

from .calls import dtype_name, row
from .tensors import List, core


@row("TensorListFromTensor")
def from_tensor(call):
    return List(call.tensor(0))


@row("TensorListReserve", "EmptyTensorList")
def reserve(call):
    if call.op.type == "EmptyTensorList":
        call.refuse("a list that grows is not supported: give tf.TensorArray its size, and dynamic_size=False")
    shape = call.shape_vector(0) if call.tensor(0).rank else None
    if shape is None:
        call.refuse("the number of axes of its elements is not known: give tf.TensorArray an element_shape")
    known = call.scope.ints([0 if e is None or e < 0 else e for e in shape])
    count = core.reshape(call.ints(1), call.scope.ints([1]))
    zero = call.scope.builder.constant(np.zeros((), np.float32))
    zero = core.cast(zero, to=dtype_name(call, call.attr("element_dtype")))
    return List(call.given(core.expand(zero, core.concat([count, known], axis=0) if shape else count)))


def _list(call):
    if not isinstance(call.inputs[0], List):
        call.refuse("its list comes from an operation that is not supported")
    return call.inputs[0]


@row("TensorListGetItem")
def get_item(call):
    return call.given(core.gather(_list(call).tensor.plain(), call.value(1), axis=0))


@row("TensorListSetItem")
def set_item(call):
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
