"""Functions, branches and loops of TensorFlow: functions are inlined, the others become core::if and core::loop."""
from ... import graph as graphs
from ..dtypes import NAMES
from .calls import row
from .lists import Reserved, Stacked, element_rank, filled, is_stacked, source
from .tensors import Handle, List, Scope, Tensor, core

_CODES = {"i": 0, "u": 1, "f": 2}


def dtype_number(name):
    """The number of a dtype as core::if and core::loop take it (tenon_dtype_id)."""
    if name == "bool":
        code, bits = 6, 8
    elif name == "bf16":
        code, bits = 4, 16
    else:
        code, bits = _CODES[name[0]], int(name[1:])
    return code | bits << 8 | 1 << 16


@row("PartitionedCall", "StatefulPartitionedCall")
def inlined(call):
    return call.walk.run(call.walk.function(call.op, "f"), call.inputs, call.scope)


# ---- bodies ----


class _Body:
    """The graph of a branch or of a loop's body, with the inputs of the operation that it gets.

    A constant and a variable are the same inside.  Other inputs are inputs of the body; a list is one as its tensor.
    """

    def __init__(self):
        self.builder = graphs.Builder()
        self.scope, self.count = Scope(self.builder), 0

    def input(self, dtype, extents):
        self.count += 1
        return Tensor(self.scope, self.builder.input(f"in{self.count}", dtype, extents))

    def inside(self, item):
        """Returns what an input of the operation is in the body: it captures a value of the graph around it."""
        if isinstance(item, Handle):
            return item
        if not isinstance(item, (Tensor, List)):
            return None  # a list without elements, or nothing: operations that read it are refused
        if isinstance(item, List):
            return List(self.inside(item.tensor))
        if item.array is not None:
            return Tensor(self.scope, array=item.array)
        return self.input(item.plain().dtype, item.plain().shape)


def _is_captured(item):
    """Whether a body has an input for what it captures."""
    return isinstance(item, (Tensor, List)) and _tensor(item).array is None


def _tensor(item):
    return item.tensor if isinstance(item, List) else item


def _again(call, like, values):
    """Wraps the results of core::if or core::loop; those that are lists inside are lists here."""
    return [List(call.given(v)) if is_list else call.given(v) for is_list, v in zip(like, values)]


# ---- branches ----


def _branch(call, function, inputs):
    """Returns the body of a branch and its results."""
    body = _Body()
    made = call.walk.run(function, [body.inside(item) for item in inputs], body.scope)
    if any(not isinstance(item, (Tensor, List)) for item in made):
        call.refuse("a branch gives a variable: return its contents")
    return body, made


def _finished(body, made):
    return body.builder.finish([core.identity(_tensor(item).plain()) for item in made])


def _choose(call, condition, functions, inputs):
    """Adds core::if with two functions as its branches."""
    (body, made), (other, others) = (_branch(call, f, inputs) for f in functions)
    captured = [_tensor(item).plain() for item in inputs if _is_captured(item)]
    dtypes, ranks = _known(call)
    results = getattr(core, "if")(condition, captured, then=_finished(body, made), **{"else": _finished(other, others)}, count=len(made), dtypes=dtypes, ranks=ranks)
    return _again(call, [isinstance(item, List) for item in made], results)


def _known(call):
    """The dtypes and ranks of the results, as far as TensorFlow knows them."""
    dtypes = [dtype_number(NAMES[t.dtype]) if t.dtype in NAMES else 0 for t in call.op.outputs]
    return dtypes, [-1 if t.shape.rank is None or t.dtype not in NAMES else t.shape.rank for t in call.op.outputs]


def _condition(value):
    """A value as a bool: a number is true if it is not 0."""
    return value if value.dtype == "bool" else core.cast(value, to="bool")


@row("If", "StatelessIf")
def branches(call):
    functions = [call.walk.function(call.op, name) for name in ("then_branch", "else_branch")]
    condition = call.tensor(0)
    if condition.array is not None:
        return call.walk.run(functions[not condition.array], call.inputs[1:], call.scope)
    return _choose(call, _condition(call.value(0)), functions, call.inputs[1:]) if call.op.outputs else []


@row("Case", "StatelessCase")
def cases(call):
    functions = call.walk.functions(call.op, "branches")
    index, inputs, last = call.tensor(0), call.inputs[1:], len(functions) - 1
    if index.array is not None or last == 0:  # an index out of range takes the last branch
        chosen = last if index.array is None or not 0 <= index.array <= last else int(index.array)
        return call.walk.run(functions[chosen], inputs, call.scope)
    number = index.plain()
    is_chosen = [core.equal(number, call.scope.like(i, number)) for i in range(last)]
    made = _choose(call, is_chosen[-1], functions[-2:], inputs)
    for condition, function in zip(reversed(is_chosen[:-1]), reversed(functions[:-2])):
        made = _or_else(call, condition, function, inputs, made)
    return made


def _or_else(call, condition, function, inputs, others):
    """Adds core::if whose other branch gives values that are there."""
    body, made = _branch(call, function, inputs)
    other = _Body()
    for item in others:
        body.inside(item)
    for item in inputs:
        other.inside(item)
    passed = [other.inside(item) for item in others]
    captured = [_tensor(item).plain() for item in [*inputs, *others] if _is_captured(item)]
    dtypes, ranks = _known(call)
    results = getattr(core, "if")(condition, captured, then=_finished(body, made), **{"else": _finished(other, passed)}, count=len(made), dtypes=dtypes, ranks=ranks)
    return _again(call, [isinstance(item, List) for item in made], results)


# ---- loops ----


def _state_extents(call, i, item):
    """The extents of a state that all iterations share, as far as TensorFlow knows them."""
    if isinstance(item, List):
        rank = item.tensor.rank
        return None if rank is None else [None] * rank
    shape = call.op.outputs[i].shape
    return None if shape.rank is None else shape.as_list()


@row("While", "StatelessWhile")
def loop(call):
    condition, step = (call.walk.function(call.op, name) for name in ("cond", "body"))
    changed = [i for i, (out, given) in enumerate(zip(step.outputs, step.inputs)) if source(out) is not given]
    stacked = [i for i in changed if is_stacked(call, step, i) and not condition.inputs[i].consumers()]
    states = [i for i in changed if i not in stacked]
    for i in states:
        if isinstance(call.inputs[i], Handle):
            call.refuse("an iteration gives another variable: use tf.cond inside the loop")
        if isinstance(call.inputs[i], Reserved):
            call.inputs[i] = call.inputs[i].of_rank(call, element_rank(call, step, i))
    body = _Body()
    body.input("i64", [])
    body.input("bool", [])
    inside = [Stacked() if i in stacked else None for i in range(len(call.inputs))]
    for i in states:
        inside[i] = _state(call, body, i)
    fixed = [i for i in range(len(call.inputs)) if i not in changed]
    for i in fixed:
        inside[i] = body.inside(call.inputs[i])
    after = call.walk.run(step, inside, body.scope)
    goes_on = _test(call, condition, after, body.scope)
    first = _test(call, condition, call.inputs, call.scope)
    more = [after[i].item.plain() for i in stacked]
    captured = [_tensor(call.inputs[i]).plain() for i in fixed if _is_captured(call.inputs[i])]
    begun = [_tensor(call.inputs[i]).plain() for i in states]
    dtypes = [dtype_number(v.dtype) for v in (*begun, *more)]
    ranks = [-1 if v.shape is None else len(v.shape) for v in begun] + [-1 if v.shape is None else len(v.shape) + 1 for v in more]
    made = body.builder.finish([core.identity(v) for v in (goes_on, *(_tensor(after[i]).plain() for i in states), *more)])
    results = core.loop(begun, captured, None, first, body=made, count=len(dtypes), dtypes=dtypes, ranks=ranks)
    outputs = list(call.inputs)
    for i, value in zip(states, results):
        outputs[i] = List(call.given(value)) if isinstance(call.inputs[i], List) else call.given(value)
    for i, value in zip(stacked, results[len(states):]):
        outputs[i] = filled(call, value, call.inputs[i].count)
    return outputs


def _state(call, body, i):
    item = call.inputs[i]
    inside = body.input(_tensor(item).plain().dtype, _state_extents(call, i, item))
    return List(inside) if isinstance(item, List) else inside


def _test(call, condition, inputs, scope):
    """Adds the nodes of a loop's condition; returns a bool without axes."""
    made, = call.walk.run(condition, inputs, scope)
    return _condition(made.plain())


