"""tf.vectorized_map for operators: by broadcasting if they are pointwise, by their declared batching, and otherwise by a loop that TensorFlow makes.

TensorFlow asks the converter of a node for the same node on all items at once; inputs that differ from item to item are "stacked", with one more axis in
front.  Jacobians (GradientTape.jacobian and batch_jacobian) use the same converters.
"""
from tensorflow.python.ops.parallel_for import pfor

from .. import _core
from .._calls import own_results, shifted_attributes, traits_of
from .._declarations import batching_of
from .definitions import definition_of


def _refuse(name, why):
    """TensorFlow calls the operator in a loop then."""
    raise pfor.ConversionNotImplementedError(f"{name}: {why}")


def _arrange_for_batching(node, call, present):
    """Gives each input that has the declared axis one; returns the attributes and the results that have the axis."""
    inputs, results, shift = batching_of(_core.find(call.op))
    stacked = {name for name, given in zip(present, node.inputs) if given.is_stacked}
    if not stacked <= inputs:
        _refuse(call.op, f"its batching (TENON_BATCHING) has no axis for {', '.join(sorted(stacked - inputs))}")
    node.stack_inputs([i for i, name in enumerate(present) if name in inputs])
    return shifted_attributes(call, shift), results


def _convert(name, node):
    from .functions import call as call_operator
    from .gradients import call_of, counts_of
    definition = definition_of(name)
    if definition.written or definition.is_random or definition.op_def.is_stateful:
        _refuse(name, "it writes to its inputs, draws random numbers, or has effects")
    counts, lengths = counts_of(definition, node.op)
    call = call_of(definition, node.op, counts, lengths)
    if any(side.is_list for side in definition.inputs) or any(side.is_list for _, side in definition.results):
        _refuse(name, "it has lists of tensors")
    present = [parameter["name"] for parameter, count in call.inputs if count > 0]
    if "pointwise" in traits_of(name):
        node.expanddim_inputs_for_broadcast()
        attributes, batched = call.attributes, {result["name"] for _, result in own_results(call)}
    else:
        attributes, batched = _arrange_for_batching(node, call, present)
    made = call_operator(name, {**dict(attributes), **{n: given.t for n, given in zip(present, node.inputs)}}, call.wanted)
    made = [t for t in (made if isinstance(made, tuple) else (made,)) if t is not None]
    return [pfor.wrap(t, result["name"] in batched) for t, (_, result) in zip(made, own_results(call))]


def register(table):
    """Registers the converters of a namespace."""
    for name, own in table.names.items():
        pfor.RegisterPFor(own)(lambda node, name=name: _convert(name, node))
