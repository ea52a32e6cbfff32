"""Reductions of TensorFlow, softmax, and running sums."""
from .calls import dtype_name, row
from .tensors import core, last_to_second


def _axes(call):
    axes = call.array(1, "the axes").reshape(-1).tolist()
    return sorted({call.axis(a) for a in axes})


def _reduced(call, node):
    x, axes, keeps = call.tensor(0), _axes(call), call.attr("keep_dims")
    if not axes:
        return x
    if x.is_planar and axes != [x.rank - 1]:  # without the axes of the reduction the order is TensorFlow's, if the channels are last among the others or alone
        order = last_to_second(x.rank)
        made = node(x.planar(), call.scope.ints(sorted(order.index(a) for a in axes)), keeps)
        if keeps:
            return call.planar(made)
        left = [a for a in order if a not in axes]
        return call.given(made if left == sorted(left) else core.transpose(made, perm=[left.index(a) for a in sorted(left)]))
    return call.given(node(x.plain(), call.scope.ints(axes), keeps))


def _reduction(name):
    return lambda call: _reduced(call, lambda x, axes, keeps: getattr(core, name)(x, axes, keepdims=keeps))


for _name, _own in {"Sum": "reduce_sum", "Mean": "reduce_mean", "Max": "reduce_max", "Min": "reduce_min", "Prod": "reduce_prod", "EuclideanNorm": "reduce_l2"}.items():
    row(_name)(_reduction(_own))


@row("All", "Any")
def of_bools(call):
    node = core.reduce_min if call.op.type == "All" else core.reduce_max
    return _reduced(call, lambda x, axes, keeps: core.cast(node(core.cast(x, to="u8"), axes, keepdims=keeps), to="bool"))


@row("Softmax")
def softmax(call):
    return call.given(core.softmax(call.value(0), axis=-1))


@row("LogSoftmax")
def log_softmax(call):
    return call.given(core.log_softmax(call.value(0), axis=-1))


@row("ArgMax", "ArgMin")
def arg(call):
    node = core.arg_max if call.op.type == "ArgMax" else core.arg_min
    made = node(call.value(0), axis=call.axis(int(call.array(1, "the axis"))), keepdims=False)
    return call.given(core.cast(made, to=dtype_name(call, call.attr("output_type"))))


@row("Cumsum", "Cumprod")
def running(call):
    node = core.cum_sum if call.op.type == "Cumsum" else core.cum_prod
    axis = call.scope.ints(call.axis(int(call.array(1, "the axis"))))
    return call.given(node(call.value(0), axis, exclusive=call.attr("exclusive"), reverse=call.attr("reverse")))


@row("L2Loss")
def l2_loss(call):
    x = call.value(0)
    return call.given(core.mul(core.reduce_sum(core.mul(x, x), keepdims=False), call.scope.like(0.5, x)))
