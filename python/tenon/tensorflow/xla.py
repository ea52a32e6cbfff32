"""Calls of operators in functions that XLA compiles (jit_compile=True): a module of StableHLO with one custom call, whose handler is that of tenon.jax.

TensorFlow compiles such a function for the shapes of each call.  Extents that are not known when the function is traced are computed in the module, as
inference states them, and XLA's shape refinement makes numbers of them.
"""
import functools

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util

from . import inference
from .bridge import bridge
from .dtypes import DTYPES, NAMES
from .errors import invalid, unimplemented

_TYPES = {"f16": "f16", "f32": "f32", "f64": "f64", "bf16": "bf16", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64",
          "bool": "i1", "c64": "complex<f32>", "c128": "complex<f64>", "f8e5m2": "f8E5M2", "f8e4m3fn": "f8E4M3FN", "f8e4m3fnuz": "f8E4M3FNUZ", "f8e4m3b11fnuz": "f8E4M3B11FNUZ",
          "f8e5m2fnuz": "f8E5M2FNUZ"}
_REMEDY = "call it outside of functions with jit_compile=True"


def is_compiled():
    """Whether XLA compiles the graph that is being built."""
    return control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())


@functools.lru_cache(maxsize=1)
def reason():
    import ctypes
    function = bridge().tenon_tensorflow_xla
    function.restype = ctypes.c_char_p
    found = function()
    return found.decode() if found else ""


def _type_of(name, dtype, extents):
    if dtype not in _TYPES:
        raise unimplemented(f"{name}: XLA has no tensors of dtype {dtype}: {_REMEDY}")
    return "tensor<" + "".join("?x" if e is None else f"{e}x" for e in extents) + _TYPES[dtype] + ">"


class Module:
    """The text of a module with one custom call; extents are values of type tensor<i32>."""

    def __init__(self, name, operands):
        self.name, self.operands, self.lines, self.extents = name, operands, [], {}
        for tensor in operands:
            if tensor.shape.rank is None:
                raise invalid(f"{name}: a function with jit_compile=True needs the rank of each of its inputs: call set_shape on them")
        self.types = [_type_of(name, NAMES.get(t.dtype, t.dtype.name), t.shape) for t in operands]

    def add(self, text):
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def constant(self, number):
        return self.add(f"stablehlo.constant dense<{number}> : tensor<i32>")

    def of_operand(self, operand, axis):
        key = operand, axis
        if key not in self.extents:
            extent = self.operands[operand].shape[axis]
            known = self.constant(extent) if extent is not None else None
            self.extents[key] = known or self.add(f"stablehlo.get_dimension_size %a{operand}, dim = {axis} : ({self.types[operand]}) -> tensor<i32>")
        return self.extents[key]

    def refuse_values(self):
        raise invalid(f"{self.name}: the shape of its result depends on values that are not known when the function is traced, which XLA does not support: pass constants, or {_REMEDY}")

    def of_tree(self, tree, places):
        """The value of an extent as inference states it.  places: where the caller's symbols come from."""
        if isinstance(tree, int):
            return self.constant(tree)
        if tree[0] == "symbol":
            if places[tree[1]] is None:
                self.refuse_values()
            return self.of_operand(*places[tree[1]])
        if tree[0] in ("unknown", "bound"):
            self.refuse_values()
        a, b = self.of_tree(tree[2], places), self.of_tree(tree[3], places)
        return getattr(self, "_" + tree[0])(a, b)

    def _binary(self, operation, a, b):
        return self.add(f"stablehlo.{operation} {a}, {b} : tensor<i32>")

    def _add(self, a, b):
        return self._binary("add", a, b)

    def _sub(self, a, b):
        return self._binary("subtract", a, b)

    def _mul(self, a, b):
        return self._binary("multiply", a, b)

    def _div(self, a, b):
        return self._binary("divide", a, b)

    def _ceil_div(self, a, b):
        return self._div(self._sub(self._add(a, b), self.constant(1)), b)

    def _mod(self, a, b):
        return self._binary("remainder", a, b)

    def _min(self, a, b):
        return self._binary("minimum", a, b)

    def _max(self, a, b):
        return self._binary("maximum", a, b)

    def _test(self, direction, a, b):
        found = self.add(f"stablehlo.compare {direction}, {a}, {b} : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        return self.add(f"stablehlo.convert {found} : (tensor<i1>) -> tensor<i32>")

    def _test_equal(self, a, b):
        return self._test("EQ", a, b)

    def _test_less(self, a, b):
        return self._test("LT", a, b)

    def _equal(self, a, _):
        return a

    def _broadcast(self, a, b):
        is_one = self.add(f"stablehlo.compare EQ, {a}, {self.constant(1)} : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        return self.add(f"stablehlo.select {is_one}, {b}, {a} : tensor<i1>, tensor<i32>")

    def shape(self, values):
        """A vector of extents."""
        if not values:
            return self.add("stablehlo.constant dense<> : tensor<0xi32>")
        parts = [self.add(f"stablehlo.reshape {v} : (tensor<i32>) -> tensor<1xi32>") for v in values]
        return self.add(f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : ({', '.join(['tensor<1xi32>'] * len(parts))}) -> tensor<{len(parts)}xi32>")

    def text(self, call, results):
        """results: for each result its dtype, its extents as far as they are known, and a function that makes the values of all extents."""
        types = [_type_of(self.name, dtype, extents) for dtype, extents, _ in results]
        operands, given = [f"%a{i}" for i in range(len(self.operands))], list(self.types)
        is_dynamic = any(None in extents for _, extents, _ in results)
        indices = []
        if is_dynamic:
            for _, extents, values in results:
                indices.append(len(operands))
                operands.append(self.shape(values()))
                given.append(f"tensor<{len(extents)}xi32>")
        escaped = call.replace("\\", "\\\\").replace('"', '\\22').replace("\n", "\\0A")
        refined = f"indices_of_shape_operands = dense<{indices}> : tensor<{len(indices)}xi64>, " if is_dynamic else ""
        made = f"stablehlo.custom_call @tenon_cpu({', '.join(operands)}) {{api_version = 4 : i32, {refined}backend_config = {{call = \"{escaped}\"}}}} : ({', '.join(given)}) -> "
        made += types[0] if len(types) == 1 else f"({', '.join(types)})"
        names = ["%r"] if len(types) == 1 else [f"%r#{i}" for i in range(len(types))]
        arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(self.types))
        body = "\n".join([*self.lines, f"%r{'' if len(types) == 1 else ':' + str(len(types))} = {made}", f"return {', '.join(names)} : {', '.join(types)}"])
        header = " attributes {jax.uses_shape_polymorphism = true}" if any(None in t.shape.as_list() for t in self.operands) or is_dynamic else ""
        return f"module @tenon{header} {{ func.func public @main({arguments}) -> ({', '.join(types)}) {{\n{body}\n}} }}"

    def run(self, call, results):
        if "\0" in call:
            raise unimplemented(f"{self.name}: a text in its attributes has a character 0, which XLA does not carry: {_REMEDY}")
        text = self.text(call, results)
        made = xla.call_module(self.operands, version=9, module=text, Sout=[tf.TensorShape(e) for _, e, _ in results], Tout=[DTYPES[d] for d, _, _ in results],
                               platforms=["CPU"], disabled_checks=["DISABLED_CHECK: custom_call @tenon_cpu"])
        return made if isinstance(made, (list, tuple)) else [made]


def check(name):
    if reason():
        raise unimplemented(f"{name} cannot be called in a function that XLA compiles: {reason()}: {_REMEDY}")


def _key(seed):
    """The two numbers that seed a random operator, as the handler of XLA takes them: the same seed gives the same numbers as without XLA."""
    number = seed[0] + tf.constant(0x9E3779B97F4A7C15 - (1 << 64), tf.int64) * seed[1]
    return tf.reverse(tf.bitcast(number, tf.uint32), [0])


def call(made, bound, operands, definition):
    """Adds a call to the graph; returns its outputs, flat.  operands: the tensors of `bound`, followed by the seed of a random operator."""
    name = made.op
    check(name)
    found = inference.described(made, bound.groups)
    if found is None:
        raise invalid(f"{name}: a function with jit_compile=True needs the rank of each of its inputs: call set_shape on them")
    specs, places = found
    count = len(operands) - definition.is_random

    @tf.custom_gradient
    def run(*tensors):
        outputs = _run(made, list(tensors), specs, places, definition)

        def gradient(*cotangents):
            return _pull(made, definition, specs, tensors, outputs, cotangents)
        return outputs, gradient
    outputs = run(*operands[:count], *([operands[-1]] if definition.is_random else []))
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _run(made, tensors, specs, places, definition):
    if definition.is_random:
        tensors = [*tensors[:-1], _key(tensors[-1])]
    module = Module(made.op, tensors)
    results, first = [], 0
    for side, count in zip(definition.inputs, made.counts):
        for i in range(first, first + max(count, 0)):
            if side.of["written"]:
                extents = tensors[i].shape.as_list()
                results.append((NAMES[tensors[i].dtype], extents, functools.partial(extents_of_operand, module, i, len(extents))))
        first += max(count, 0)
    for o, _ in definition.results:
        if made.wanted and not made.wanted >> o & 1:
            continue
        for spec in specs[o] if isinstance(specs[o], list) else [specs[o]]:
            dtype, trees = spec
            if trees is None:
                raise invalid(f"{made.op}: the rank of its result depends on values that are not known when the function is traced, which XLA does not support: {_REMEDY}")
            for tree in trees:
                if not isinstance(tree, int):
                    module.of_tree(tree, places)  # raises if XLA cannot know the extent
            results.append((dtype, [inference.extent_of(t) for t in trees], functools.partial(_extents_of_trees, module, trees, places)))
    return module.run(made.text(), results)


def extents_of_operand(module, operand, rank):
    return [module.of_operand(operand, d) for d in range(rank)]


def _extents_of_trees(module, trees, places):
    return [module.of_tree(tree, places) for tree in trees]


def _pull(made, definition, specs, tensors, outputs, cotangents):
    """The gradients of the operands of a call."""
    from .gradients import differentiate, grouped, refuse_written
    lengths = {o: len(specs[o]) if isinstance(specs[o], list) else int(not made.wanted or bool(made.wanted >> o & 1)) for o, _ in definition.results}
    skipped = len(definition.written)
    refuse_written(made.op, cotangents[:skipped])
    pairs = [(side, lengths[o]) for o, side in definition.results]
    numbers = [o for o, _ in definition.results]
    counts = [max(count, 0) for count in made.counts]
    groups = grouped(tensors, list(zip(definition.inputs, counts)))
    results = dict(zip(numbers, grouped(list(outputs)[skipped:], pairs)))
    grads = dict(zip(numbers, grouped(list(cotangents)[skipped:], pairs)))
    found = differentiate(made, groups, results, grads, tensors[-1] if definition.is_random else None)
    flat = [t for grad, count in zip(found, counts) for t in (grad if isinstance(grad, list) else [grad] * count)]
    return flat + [None] * definition.is_random


def gradient(asked, operands, likes, is_random):
    """Adds a call that computes gradients by Tenon's tape."""
    check(asked.op)
    if is_random:
        operands = [*operands[:-1], _key(operands[-1])]
    module = Module(asked.op, operands)
    results = []
    for like in likes:
        i = next(i for i, t in enumerate(operands) if t is like)
        extents = like.shape.as_list()
        results.append((NAMES[like.dtype], extents, functools.partial(extents_of_operand, module, i, len(extents))))
    return module.run(asked.text(), results)
