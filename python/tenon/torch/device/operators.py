"""The operators of PyTorch that operators of Tenon compute on a device, where it has kernels for them.

A row is an operator of PyTorch, then a call of operators of Tenon in which the names are the arguments of PyTorch's operator.
`when` restricts a row to calls with such values; the first row that serves a call computes it.  A tensor argument takes part
in type promotion, unless it is written as raw(NAME).
"""
import ast

import torch

from ... import _core

_UNARY = ["abs", "neg", "floor", "ceil"]
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY_FLOAT = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh",
                "sqrt", "tan", "tanh"]

# operator of PyTorch: [(conditions, call of Tenon, "float": integers are promoted to floats)]
_ROWS = {
    **{f"aten::{n}.out": [({}, f"core::{n}(self)", "")] for n in _UNARY},
    **{f"aten::{n}.out": [({}, f"core::{n}(self)", "float")] for n in _UNARY_FLOAT},
    "aten::sign.out": [({}, "core::where(core::equal(self, self), core::sign(self), 0)", "")],  # the sign of NaN is 0
    "aten::relu": [({}, "core::relu(self)", "")],
    "aten::relu_": [({}, "core::relu(self)", "")],
    **{f"aten::{a}.{v}_out": [({}, f"core::{c}(self, other)", "")] for a, c in _COMPARISONS.items() for v in ("Tensor", "Scalar")},
    **{f"aten::bitwise_{n}.Tensor_out": [({}, f"core::bitwise_{n}(self, other)", ""), ({}, f"core::{n}(self, other)", "")] for n in ("and", "or", "xor")},
    **{f"aten::logical_{n}.out": [({}, f"core::{n}(raw(self), raw(other))", "")] for n in ("and", "or", "xor")},
    "aten::bitwise_not.out": [({}, "core::bitwise_not(self)", ""), ({}, "core::not(self)", "")],
    "aten::logical_not.out": [({}, "core::not(raw(self))", "")],
    "aten::isneginf.out": [({}, "core::equal(self, -inf)", "")],
    "aten::add.out": [({"alpha": 1}, "core::add(self, other)", ""), ({}, "core::add(self, core::mul(other, alpha))", "")],
    "aten::sub.out": [({"alpha": 1}, "core::sub(self, other)", ""), ({}, "core::sub(self, core::mul(other, alpha))", "")],
    "aten::mul.out": [({}, "core::mul(self, other)", "")],
    "aten::div.out": [({}, "core::div(self, other)", "float")],
    "aten::maximum.out": [({}, "core::max(self, other)", "")],
    "aten::minimum.out": [({}, "core::min(self, other)", "")],
    "aten::pow.Tensor_Tensor_out": [({}, "core::pow(self, exponent)", "")],
    "aten::pow.Tensor_Scalar_out": [({}, "core::pow(self, exponent)", "")],
    "aten::clamp.out": [({}, "core::clip(self, min, max)", "")],
    "aten::addcmul.out": [({}, "core::add(self, core::mul(core::mul(tensor1, tensor2), value))", "")],
    "aten::addcdiv.out": [({}, "core::add(self, core::mul(core::div(tensor1, tensor2), value))", "")],
    "aten::lerp.Scalar_out": [({}, "core::add(self, core::mul(core::sub(end, self), weight))", "")],
    "aten::where.self": [({}, "core::where(raw(condition), self, other)", "")],
    "aten::where.self_out": [({}, "core::where(raw(condition), self, other)", "")],
    "aten::mm.out": [({}, "core::matmul(self, mat2)", "")],
    "aten::bmm.out": [({}, "core::matmul(self, mat2)", "")],
    "aten::addmm.out": [({"beta": 1, "alpha": 1}, "core::add(core::matmul(mat1, mat2), self)", "")],
    "aten::sum.IntList_out": [({"dtype": None}, "core::reduce_sum(self, axes=dim, keepdims=keepdim)", "")],
    "aten::mean.out": [({"dtype": None}, "core::reduce_mean(self, axes=dim, keepdims=keepdim)", "")],
    "aten::amax.out": [({}, "core::reduce_max(self, axes=dim, keepdims=keepdim)", "")],
    "aten::amin.out": [({}, "core::reduce_min(self, axes=dim, keepdims=keepdim)", "")],
    "aten::argmax.out": [({"dim": "!none"}, "core::arg_max(self, axis=dim, keepdims=keepdim)", "")],
    "aten::argmin.out": [({"dim": "!none"}, "core::arg_min(self, axis=dim, keepdims=keepdim)", "")],
    "aten::all.out": [({}, "core::cast(core::reduce_min(core::cast(core::cast(self, to='bool'), to='f32'), axes=[dim], keepdims=keepdim), to='bool')", "")],
    "aten::any.out": [({}, "core::cast(core::reduce_max(core::cast(core::cast(self, to='bool'), to='f32'), axes=[dim], keepdims=keepdim), to='bool')", "")],
    "aten::_softmax.out": [({"half_to_float": False}, "core::softmax(self, axis=dim)", "")],
    "aten::_log_softmax.out": [({"half_to_float": False}, "core::log_softmax(self, axis=dim)", "")],
    "aten::_softmax_backward_data.out": [
        ({}, "core::softmax_backward(grad_output, output, axis=dim)", ""),
        ({}, "core::mul(output, core::sub(grad_output, core::reduce_sum(core::mul(grad_output, output), axes=[dim])))", "")],
    "aten::_log_softmax_backward_data.out": [
        ({}, "core::log_softmax_backward(grad_output, output, axis=dim)", ""),
        ({}, "core::sub(grad_output, core::mul(core::exp(output), core::reduce_sum(grad_output, axes=[dim])))", "")],
    "aten::gelu.out": [({}, "core::gelu(self, approximate=approximate)", "")],
    "aten::gelu_backward.grad_input": [
        ({}, "core::gelu_backward(grad_output, self, approximate=approximate)", ""),
        ({"approximate": "none"}, "core::mul(grad_output, core::add(core::mul(core::add(core::erf(core::mul(self, 0.7071067811865476)), 1), 0.5), "
         "core::mul(self, core::mul(core::exp(core::mul(core::mul(self, self), -0.5)), 0.3989422804014327))))", "")],
    "aten::silu.out": [({}, "core::silu(self)", "")],
    "aten::silu_backward.grad_input": [({}, "core::silu_backward(grad_output, self)", "")],
    "aten::threshold_backward.grad_input": [
        ({"threshold": 0}, "core::relu_backward(grad_output, self)", ""),
        ({"threshold": 0}, "core::where(core::greater(self, 0), grad_output, 0)", "")],
    "aten::sigmoid_backward.grad_input": [({}, "core::mul(grad_output, core::mul(output, core::sub(1, output)))", "")],
    "aten::tanh_backward.grad_input": [({}, "core::mul(grad_output, core::sub(1, core::mul(output, output)))", "")],
    "aten::cat.out": [({}, "core::concat(tensors, axis=dim)", "")],
    "aten::gather.out": [({"sparse_grad": False}, "core::gather_elements(raw(self), raw(index), axis=dim)", "")],
    "aten::index_select": [({}, "core::gather(raw(self), raw(index), axis=dim)", "")],
    "aten::scatter.src_out": [({}, "core::scatter_elements(raw(self), raw(index), raw(src), axis=dim)", "")],
    "aten::scatter_add.out": [({}, "core::scatter_elements(raw(self), raw(index), raw(src), axis=dim, reduction='add')", "")],
    "aten::tril.out": [({}, "core::trilu(raw(self), k=diagonal, upper=False)", "")],
    "aten::triu.out": [({}, "core::trilu(raw(self), k=diagonal, upper=True)", "")],
}
# Operators that bridges/torch_device/composites.cc computes by several calls, and what they need.
_NORM = ["core::reduce_mean", "core::reduce_sum", "core::mul", "core::sub", "core::add", "core::rsqrt"]
_LOSS = ["core::gather_elements", "core::where", "core::equal", "core::not", "core::neg", "core::cast", "core::reduce_sum", "core::div"]
COMPOSITES = {
    "aten::convolution_overrideable": ["core::conv", "core::conv_transpose"],
    "aten::convolution_backward_overrideable": ["core::conv", "core::conv_transpose", "core::reduce_sum"],
    "aten::max_pool2d_with_indices.out": ["core::max_pool", "core::sub"],
    "aten::max_pool2d_with_indices_backward.grad_input": ["core::scatter_elements", "core::add"],
    "aten::native_batch_norm": _NORM,
    "aten::native_batch_norm_backward": _NORM,
    "aten::native_layer_norm": ["core::layer_norm"],
    "aten::native_layer_norm_backward": _NORM,
    "aten::nll_loss_forward.output": _LOSS,
    "aten::nll_loss_backward.grad_input": ["core::scatter_elements", *_LOSS],
    "aten::embedding_dense_backward": ["core::scatter_elements", "core::where", "core::equal"],
    "aten::_thnn_fused_lstm_cell": ["core::sigmoid", "core::tanh", "core::mul", "core::add", "core::concat"],
    "aten::_thnn_fused_lstm_cell_backward_impl": ["core::tanh", "core::mul", "core::add", "core::sub", "core::reduce_sum", "core::concat"],
    "aten::_thnn_fused_gru_cell": ["core::sigmoid", "core::tanh", "core::mul", "core::add", "core::sub", "core::concat"],
    "aten::_thnn_fused_gru_cell_backward": ["core::mul", "core::sub", "core::reduce_sum", "core::concat"],
}
_more = {}


def _rows():
    rows = dict(_ROWS)
    for aten, text in _more.items():
        rows[aten] = [({}, text, "")] + rows.get(aten, [])
    return rows


def table():
    return {aten: [_described(*row) for row in rows] for aten, rows in sorted(_rows().items())}


def _described(conditions, text, flags):
    """Returns a row with its conditions: "core::add(self, other) if alpha is 1"."""
    parts = [f"{name} is {'not ' if str(value).startswith('!') else ''}{_value(value)}" for name, value in conditions.items()]
    return f"{text} if {' and '.join(parts)}" if parts else text


def _value(value):
    return "given" if value == "tensor" else "None" if value is None or value == "!none" else repr(value) if isinstance(value, str) else str(value)


def plans(more=None):
    """Returns the plans (bridges/torch_device/kernels.cc) of all rows: {"aten::relu": text}."""
    before = dict(_more)
    _more.update(more or {})
    try:
        made = {aten: "\n".join(_Plan(aten, _schema(aten), *row).text() for row in rows) for aten, rows in _rows().items()}
        shortcuts = {functional: plan for aten, plan in made.items() if (functional := _functional(aten)) and functional not in made}
        return {**made, **shortcuts}
    except Exception:  # a row that is not valid leaves nothing behind
        _more.clear()
        _more.update(before)
        raise


def _schema(aten):
    name, _, overload = aten.partition(".")
    return torch._C._get_schema(name, overload)


def _functional(aten):
    """Returns the operator that PyTorch computes by this one with `out`: "aten::add.Tensor" for "aten::add.out"; None: there is none.

    A plan serves both, because their arguments have the same numbers: `out` is the last one.
    """
    def arguments(schema):
        return [(a.name, str(a.type)) for a in schema.arguments if not (a.is_out or a.alias_info and a.alias_info.is_write)]
    schema = _schema(aten)
    for other in torch._C._jit_get_schemas_for_operator(schema.name):
        name = f"{other.name}.{other.overload_name}" if other.overload_name else other.name
        if name != aten and arguments(other) == arguments(schema) and len(arguments(other)) == len(other.arguments) and \
                torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutogradNonFunctional"):
            return name
    return None


class _Plan:
    """Writes the plan of one row."""

    def __init__(self, aten, schema, conditions, text, flags):
        self.aten, self.conditions, self.flags, self.row = aten, conditions, flags, text
        self.names = [a.name for a in schema.arguments]
        self.calls = []

    def fail(self, why):
        raise ValueError(f"the row of {self.aten} is not valid: {why}: {self.row}")

    def text(self):
        try:
            tree = ast.parse(self.row.replace("::", "__"), mode="eval").body
        except SyntaxError as error:
            self.fail(error)
        self.call(tree)
        lines = [f"WHEN {self.argument(name)} {str(value).lower()}" for name, value in self.conditions.items()]
        if "float" in self.flags:
            lines.append("FLOAT")
        return "\n".join(lines + self.calls) + "\n"

    def call(self, tree):
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or "__" not in tree.func.id:
            self.fail("expected a call, such as core::relu(self)")
        name = tree.func.id.replace("__", "::", 1)
        parameters = _parameters(name)
        if len(tree.args) > len(parameters):
            self.fail(f"{name} has {len(parameters)} arguments: {', '.join(parameters)}")
        values = dict(zip(parameters, tree.args))
        values.update({k.arg: k.value for k in tree.keywords})
        if unknown := set(values) - set(parameters):
            self.fail(f"{name} has no argument {', '.join(sorted(unknown))}; it has {', '.join(parameters)}")
        operands = [self.operand(values[p]) if p in values else "N" for p in parameters]
        while operands and operands[-1] == "N":
            operands.pop()
        self.calls.append(" ".join(["CALL", name, *operands]))
        return f"C{len(self.calls) - 1}"

    def operand(self, tree):
        if isinstance(tree, ast.Name):
            return f"A{self.argument(tree.id)}"
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("raw", "dtype"):
            if len(tree.args) != 1 or tree.keywords or not isinstance(tree.args[0], ast.Name):
                self.fail(f"{tree.func.id} takes the name of one argument, found {ast.unparse(tree)}")
            return f"{'a' if tree.func.id == 'raw' else 'D'}{self.argument(tree.args[0].id)}"
        if isinstance(tree, ast.Call):
            return self.call(tree)
        if isinstance(tree, ast.List) and len(tree.elts) == 1 and isinstance(tree.elts[0], ast.Name):
            return f"O{self.argument(tree.elts[0].id)}"
        if ast.unparse(tree) == "-inf":
            return "F-inf"
        try:
            value = ast.literal_eval(tree)
        except ValueError:
            self.fail(f"{ast.unparse(tree)} is neither an argument nor a call nor a constant")
        if value is None:
            return "N"
        if not isinstance(value, (str, int, float, list, tuple)) or isinstance(value, (list, tuple)) and not all(type(v) is int for v in value):
            self.fail(f"{ast.unparse(tree)} is not a number, a text or a list of ints")
        if isinstance(value, str) and set(value) & set(" \t\n"):
            self.fail(f"a text without blanks is expected, found {value!r}")
        if isinstance(value, str):
            return f"S{value}"
        if isinstance(value, float):
            return f"F{value!r}"
        if isinstance(value, (list, tuple)):
            return f"L{','.join(map(str, value))}"
        return f"I{int(value)}"

    def argument(self, name):
        if name not in self.names:
            self.fail(f"{self.aten} has no argument {name}; it has {', '.join(self.names)}")
        return self.names.index(name)


def _parameters(name):
    return [p["name"] for p in _core.find(name).parameters]
