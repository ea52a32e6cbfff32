"""The rules by which graphs are rewritten: each one applies where it should and can be turned off, and what it puts in the place of nodes
computes what they computed. Rules that are texts are tested with graphs made from their own text, one for each alternative; the others have
graphs here. Run with a Python that has NumPy (.venv)."""
import itertools
import os
import re
import subprocess
import sys
import unittest

import numpy as np

from python_test import BUILD, FOLDER, ROOT, built  # importing it makes the package available

import tenon
import totals

nodes = tenon.graph.ops.core
TOKEN = re.compile(r"\s*(?:(-?\d[\d.e-]*)|('[^']*')|(\$?[A-Za-z_][A-Za-z_0-9:]*)|(.))")
SIZE = (3, 5)


# ---- the language of rules ------------------------------------------------------------------------------------------


class Parser:
    """Parses a term into nested tuples: ("call", op, terms, attributes), ("choice", terms), ("name", text), ("number", text), ("list", text)."""

    def __init__(self, text):
        self.tokens = [next(part for part in found if part) for found in TOKEN.findall(text) if any(found)]

    def take(self, expected=None):
        token = self.tokens.pop(0)
        assert expected in (None, token), (expected, token)
        return token

    def term(self):
        token = self.take()
        if token == "(":
            terms = [self.term()]
            while self.tokens[0] == "|":
                self.take()
                terms.append(self.term())
            self.take(")")
            return "choice", terms
        if token == "[":
            axes = []
            while self.tokens[0] != "]":
                axes.append(self.take())
            self.take("]")
            return "list", [int(axis) for axis in axes if axis != ","]
        if token[0].isdigit() or token[0] == "-":
            return "number", float(token)
        if self.tokens and self.tokens[0] == "(":
            return self.call(token)
        if self.tokens and self.tokens[0] == "?":
            self.take()
        return "name", token

    def call(self, op):
        terms, attributes = [], {}
        self.take("(")
        while self.tokens[0] != ")":
            if len(self.tokens) > 1 and self.tokens[1] == "=":
                name = self.take()
                self.take("=")
                attributes[name] = self.take()
            else:
                terms.append(self.term())
            if self.tokens[0] == ",":
                self.take()
        self.take(")")
        return "call", op.removeprefix("core::"), terms, attributes


def spellings(term):
    """All terms that a term with choices stands for."""
    if term[0] == "choice":
        return [spelling for alternative in term[1] for spelling in spellings(alternative)]
    if term[0] != "call":
        return [term]
    return [("call", term[1], list(operands), term[3]) for operands in itertools.product(*map(spellings, term[2]))]


class Writer:
    """Builds a graph from a term. Names are inputs, $names the constant 1.5, attributes of a name the last axis."""

    def __init__(self, exchanges=False, builder=None, inputs=None, dtype=np.float32):
        self.builder, self.inputs, self.calls, self.exchanges, self.dtype = builder or tenon.graph.Builder(), inputs or {}, {}, exchanges, dtype

    def value(self, term):
        if term[0] == "number":
            return self.builder.constant(self.dtype(term[1]))
        if term[0] == "list":
            return self.builder.constant(np.int64(term[1]))
        if term[0] == "name":
            if term[1].startswith("$"):
                return self.builder.constant(self.dtype(1.5))
            if term[1] not in self.inputs:
                self.inputs[term[1]] = self.builder.input(term[1], "f32", list(SIZE[1:] if term[1] in ("scale", "bias") else SIZE))
            return self.inputs[term[1]]
        key = repr(term)
        if key not in self.calls:
            operands = [self.value(operand) for operand in term[2]]
            if self.exchanges and term[1] in ("add", "mul", "max", "min"):
                operands.reverse()
            results = getattr(nodes, term[1])(*operands, **{name: self.attribute(text) for name, text in term[3].items()})
            self.calls[key] = results[0] if isinstance(results, tuple) else results
        return self.calls[key]

    @staticmethod
    def attribute(text):
        return text[1:-1] if text.startswith("'") else float(text) if text[0].isdigit() else {"e": 1e-5}.get(text, -1)


# ---- graphs for rules with a function -------------------------------------------------------------------------------


def weights(*shape):
    return (0.3 * np.random.default_rng(len(shape)).standard_normal(shape)).astype(np.float32)


def made(shapes, build):
    b = tenon.graph.Builder()
    inputs = [b.input(f"x{i}", "f32", list(shape)) for i, shape in enumerate(shapes)]
    return b.finish(build(b, *inputs))


def numbers(b, value=0.05, dtype=np.uint8):
    return b.constant(np.float32(value)), b.constant(dtype(0 if dtype == np.int8 else 128))


def quantised(build, shape=(2, 6)):
    """A graph in which `build` stands between dequantize_linear and quantize_linear."""
    def whole(b, x):
        scale, zero = numbers(b)
        first = nodes.dequantize_linear(nodes.quantize_linear(x, scale, zero), scale, zero)
        last = nodes.quantize_linear(build(b, first), scale, zero)
        return nodes.dequantize_linear(last, scale, zero)

    return made([shape], whole)


def add_quantised(b, *terms):
    scale, zero = numbers(b)
    x, y = (nodes.dequantize_linear(nodes.quantize_linear(term, scale, zero), scale, zero) for term in terms)
    return nodes.dequantize_linear(nodes.quantize_linear(nodes.add(x, y), *numbers(b, 0.073)), *numbers(b, 0.073))


def weight(b, *shape):
    return nodes.dequantize_linear(b.constant(np.int8(20 * weights(*shape))), *numbers(b, 0.023, np.int8))


def write_softmax(b, x):
    axis = b.constant(np.int64([1]))
    powers = nodes.exp(nodes.sub(x, nodes.reduce_max(x, axis)))
    return nodes.div(powers, nodes.reduce_sum(powers, axis))


def write_layer_norm(b, x):
    axis = b.constant(np.int64([-1]))
    centred = nodes.sub(x, nodes.reduce_mean(x, axis))
    variance = nodes.reduce_mean(nodes.mul(centred, centred), axis)
    return nodes.mul(centred, nodes.rsqrt(nodes.add(variance, b.constant(np.float32(1e-5)))))


def write_attention(b, q, k, v):
    scores = nodes.matmul(q, nodes.transpose(k, perm=[0, 1, 3, 2]))
    return nodes.matmul(nodes.softmax(nodes.mul(scores, b.constant(np.float32(0.5)))), v)


def swap_joined(b, x):
    """Exchanges the last two axes of x, as exporters of PyTorch do it."""
    flat = nodes.transpose(nodes.reshape(x, b.constant(np.int64([-1, 4, 5]))), perm=[0, 2, 1])
    return nodes.exp(nodes.reshape(flat, b.constant(np.int64([2, 3, 5, 4]))))


def conv(b, x, filters, channels, size=1):
    return nodes.conv(x, b.constant(weights(filters, channels, size, size)), pads=[size // 2] * 4)


def norm(b, x, channels):
    scale, shift, mean = (b.constant(np.float32(1 + np.arange(channels) / k)) for k in (3, 5, 7))
    return nodes.batch_norm(x, scale, shift, mean, scale)


def per_channel(b, start, channels=4):
    return b.constant(np.float32(start + np.arange(channels) / 7).reshape(-1, 1, 1))


def write_group_norm(b, x):
    shape = b.constant(np.int64([0, 2, -1]))
    grouped = nodes.instance_norm(nodes.reshape(x, shape), b.constant(np.ones(2, np.float32)), b.constant(np.zeros(2, np.float32)), epsilon=1e-3)
    return nodes.add(nodes.mul(nodes.reshape(grouped, nodes.shape(x)), per_channel(b, 1)), per_channel(b, -1))


def write_channel_norm(b, x, axes):
    """A norm of the axes, written out."""
    axes = b.constant(np.int64(axes))
    centred = nodes.sub(x, nodes.reduce_mean(x, axes))
    variance = nodes.reduce_mean(nodes.mul(centred, centred), axes)
    return nodes.mul(centred, nodes.rsqrt(nodes.add(variance, b.constant(np.float32(1e-4)))))


def write_instance_norm(b, x):
    return nodes.add(nodes.mul(write_channel_norm(b, x, [2, 3]), per_channel(b, 1)), per_channel(b, -1))


def write_halves(b, x, is_split=False, size=8):
    """x with exchanged halves of the last axis, the second one negative, as PyTorch's exporters write it."""
    if is_split:
        first, second = nodes.split(x, axis=-1, count=2)
    else:
        first, second = (nodes.slice(x, *(b.constant(np.int64([number])) for number in (start, end, 3, 1))) for start, end in ((0, size // 2), (size // 2, 2 ** 63 - 1)))
    return nodes.concat([nodes.neg(second), first], axis=-1)


def write_rotary(b, x, angles, is_split=False, scale=None):
    """angles: [batch, length, half]; the cosines and sines of all elements are made of them as in Llama, Qwen and GPT-NeoX."""
    both = nodes.concat([angles, angles], axis=-1)
    cos, sin = nodes.cos(both), nodes.sin(both)
    if scale:
        cos, sin = (nodes.mul(value, b.constant(np.float32(scale))) for value in (cos, sin))
    cos, sin = (nodes.unsqueeze(value, b.constant(np.int64([1]))) for value in (cos, sin))
    return nodes.add(nodes.mul(x, cos), nodes.mul(write_halves(b, x, is_split), sin))


IMAGE = (1, 4, 6, 6)
GRAPHS = {
    "taken_branch": lambda: bodies(True)["if"],
    "unrolled_loop": lambda: bodies(True)["loop"],
    "equal_nodes": lambda: made([SIZE], lambda b, x: nodes.concat([nodes.exp(x), nodes.exp(x)], axis=0)),
    "inverted_twice": lambda: made([SIZE], lambda b, x: nodes.cast(nodes.not_(nodes.not_(nodes.greater(x, b.constant(np.float32(0))))), to="f32")),
    "cast_back": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.cast(nodes.cast(x, to="f64"), to="f32"))),
    "single_part": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.concat([x], axis=1))),
    "whole_slice": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.slice(x, b.constant(np.int64([0, -9])), b.constant(np.int64([9, 9]))))),
    "whole_gather": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.gather(x, b.constant(np.int64([0, -2, 2]))))),
    "transposed_in_order": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.transpose(x, perm=[0, 1]))),
    "reshaped_back": lambda: made([SIZE], lambda b, x: nodes.squeeze(nodes.unsqueeze(nodes.exp(x), b.constant(np.int64([0]))))),
    "same_numbers": lambda: quantised(lambda b, x: x),
    "quantised_conv": lambda: quantised(lambda b, x: nodes.conv(x, weight(b, 3, 4, 1, 1)), IMAGE),
    "quantised_product": lambda: quantised(lambda b, x: nodes.matmul(x, weight(b, 6, 3))),
    "quantised_sum": lambda: made([SIZE, SIZE], add_quantised),
    "quantised_move": lambda: quantised(lambda b, x: nodes.transpose(x, perm=[1, 0])),
    "table_of_numbers": lambda: quantised(lambda b, x: nodes.erf(x)),
    "transposed_twice": lambda: made([(2, 3, 4)], lambda b, x: nodes.transpose(nodes.transpose(x, perm=[1, 2, 0]), perm=[1, 0, 2])),
    "reshaped_twice": lambda: made([(4, 6)], lambda b, x: nodes.reshape(nodes.reshape(x, b.constant(np.int64([2, 12]))), b.constant(np.int64([3, -1])))),
    "joined_axes": lambda: made([(2, 3, 4, 5)], swap_joined),
    "identity": lambda: made([SIZE], lambda b, x: nodes.exp(nodes.reshape(x, b.constant(np.int64(SIZE))))),
    "padding": lambda: made([IMAGE], lambda b, x: conv(b, nodes.pad(x, b.constant(np.int64([0, 0, 1, 1, 0, 0, 1, 1]))), 2, 4)),
    "transposed_product": lambda: made([(3, 4), (4, 5)], lambda b, x, y: nodes.transpose(nodes.matmul(x, y), perm=[1, 0])),
    "softmax": lambda: made([SIZE], write_softmax),
    "layer_norm": lambda: made([SIZE], write_layer_norm),
    "group_norm": lambda: made([(2, 4, 3, 5)], write_group_norm),
    "instance_norm": lambda: made([(2, 4, 3, 5)], write_instance_norm),
    "rotary": lambda: made([(2, 3, 5, 8), (2, 5, 4)], write_rotary),
    "attention": lambda: made([(1, 2, 3, 8)] * 3, write_attention),
    "mean_as_pool": lambda: made([IMAGE], lambda b, x: nodes.reduce_mean(nodes.relu(x), b.constant(np.int64([2, 3])))),
    "scale_after_product": lambda: made([IMAGE], lambda b, x: norm(b, conv(b, x, 3, 4), 3)),
    "scale_before_product": lambda: made([IMAGE], lambda b, x: conv(b, norm(b, x, 4), 3, 4)),
    "parallel_convolutions": lambda: made([IMAGE], lambda b, x: nodes.add(conv(b, x, 3, 4, 3), conv(b, x, 3, 4, 1))),
    "bias": lambda: made([SIZE, (4,)], lambda b, x, y: nodes.add(nodes.matmul(x, b.constant(weights(5, 4))), y)),
    "residual": lambda: made([IMAGE, (1, 3, 6, 6)], lambda b, x, y: nodes.add(conv(b, x, 3, 4), y)),
    "activation": lambda: made([SIZE], lambda b, x: nodes.relu(nodes.matmul(x, b.constant(weights(5, 4))))),
    "nested_concat": lambda: made([SIZE, SIZE], lambda b, x, y: nodes.mul(nodes.reduce_sum(nodes.concat([x, y], axis=0)), nodes.concat([x, y, x], axis=-2))),
    "placed_concat": lambda: made([SIZE], lambda b, x: nodes.concat([nodes.exp(x), x], axis=0)),
}


def counts(executable):
    return {name: int(count) for name, count in (line.split() for line in executable.dump("rewrites").splitlines())}


def values_for(graph):
    random = np.random.default_rng(5)
    return [random.standard_normal(shape).astype(np.float32) for _, _, shape in graph.inputs]


class Rules(unittest.TestCase):
    def check(self, name, graph):
        """With the rule, as it was built, and without the rule, the graph computes the same."""
        inputs, ruled, without = values_for(graph), graph.compile(), graph.compile(without=name)
        expected = graph.compile(plain=True)(*inputs)
        results = ruled(*inputs), without(*inputs)  # plans apply rules, too
        self.assertEqual(counts(ruled).get(name), 1, f"{name} in\n{graph.text()}{counts(ruled)}")
        self.assertNotIn(name, counts(without))
        for found in results:
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6 * float(np.max(np.abs(expected))), err_msg=name)

    def test_each_rule_applies_where_it_should_and_computes_the_same(self):
        for rule in tenon.graph.rewrites():
            with self.subTest(rule.name):
                if rule.name in GRAPHS:
                    self.check(rule.name, GRAPHS[rule.name]())
                    continue
                for spelling in spellings(Parser(rule.before).term()):
                    for exchanges in False, True:
                        writer = Writer(exchanges)
                        self.check(rule.name, writer.builder.finish(writer.value(spelling)))

    def test_a_rule_leaves_values_that_something_else_reads(self):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", list(SIZE))
        gate = nodes.sigmoid(x)
        graph = b.finish({"y": nodes.mul(x, gate), "gate": gate})
        self.assertNotIn("silu", counts(graph.compile()))

    def test_a_rule_leaves_results_of_another_shape(self):
        graph = made([SIZE], lambda b, x: nodes.mul(x, b.constant(np.ones((1, 1, 1), np.float32))))
        self.assertNotIn("factor_of_one", counts(graph.compile()))

    def test_a_rule_leaves_attributes_that_it_does_not_mention(self):
        for axis, count in (-1, 1), (0, None):
            graph = made([(5, 5), (5,)], lambda b, x, y: nodes.mul(nodes.rms_norm(x, axis=axis), y))
            self.assertEqual(counts(graph.compile()).get("rms_norm_scaled"), count)

    def test_an_unknown_rule_is_an_error_that_names_a_known_one(self):
        graph = GRAPHS["softmax"]()
        with self.assertRaisesRegex(tenon.NotFoundError, "no rewriting rule 'softmx'; did you mean 'softmax'"):
            graph.compile(without="gelu,softmx")

    def test_the_page_shows_the_rules(self):
        run = subprocess.run([sys.executable, f"{ROOT}/scripts/rewrites.py", BUILD, "--check"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


# Pieces for random graphs, of the rules that are functions: two values of SIZE make another one.
PIECES = {
    "equal_nodes": lambda b, x, y: nodes.add(nodes.tanh(x), nodes.mul(nodes.tanh(x), y)),
    "cast_back": lambda b, x, y: nodes.cast(nodes.cast(x, to="f64"), to="f32"),
    "single_part": lambda b, x, y: nodes.concat([x], axis=1),
    "whole_slice": lambda b, x, y: nodes.slice(x, b.constant(np.int64([0])), b.constant(np.int64([9]))),
    "whole_gather": lambda b, x, y: nodes.gather(x, b.constant(np.int64([0, 1, 2]))),
    "transposed_in_order": lambda b, x, y: nodes.transpose(x, perm=[0, 1]),
    "transposed_twice": lambda b, x, y: nodes.transpose(nodes.transpose(x)),
    "reshaped_back": lambda b, x, y: nodes.squeeze(nodes.unsqueeze(x, b.constant(np.int64([1]))), b.constant(np.int64([1]))),
    "softmax": lambda b, x, y: write_softmax(b, x),
}


class Random(unittest.TestCase):
    """Graphs in which what rules replace stands at random places."""

    def setUp(self):
        rules = [rule for rule in tenon.graph.rewrites() if rule.name not in GRAPHS and "::" not in rule.name]
        self.texts = {rule.name: spellings(Parser(rule.before).term()) for rule in rules}

    def graph(self, seed, dtype):
        random, b = np.random.default_rng(seed), tenon.graph.Builder()
        word = np.dtype(dtype).name.replace("loat", "")
        row = b.input("row", word, [SIZE[1]])
        values = [b.input(f"x{i}", word, list(SIZE)) for i in range(3)]
        names = sorted(self.texts) + sorted(PIECES)
        for _ in range(14):
            name, x, y = names[random.integers(len(names))], *(values[i] for i in random.integers(len(values), size=2))
            if name in PIECES:
                z = PIECES[name](b, x, y) if name != "cast_back" or dtype == np.float32 else x
            else:
                inputs = {"x": x, "y": y, "scale": row, "bias": row}
                term = self.texts[name][random.integers(len(self.texts[name]))]
                z = Writer(bool(random.integers(2)), b, inputs, dtype).value(term)
            values.append(nodes.clip(z, b.constant(dtype(-4)), b.constant(dtype(4))))
        return b.finish({f"y{i}": value for i, value in enumerate(values[-6:])})

    def test_random_graphs_are_as_precise_as_the_plain_run(self):
        """Errors are those against the same graph in double precision: at most twice the plain run's, and 4 units in the last place."""
        found = set()
        for seed in range(int(os.environ.get("TENON_GRAPHS", 150))):
            graph = self.graph(seed, np.float32)
            random, run = np.random.default_rng(seed + 1), graph.compile()
            inputs = [random.standard_normal(shape).astype(np.float32) for _, _, shape in graph.inputs]
            exact = self.graph(seed, np.float64).compile(plain=True)(*(x.astype(np.float64) for x in inputs))
            plain = graph.compile(plain=True)(*inputs)
            for result, simple, reference in zip(run(*inputs), plain, exact):
                error, allowed = (np.max(np.abs(each.astype(np.float64) - reference)) for each in (result, simple))
                allowed = 2 * allowed + 4 * np.spacing(np.float32(np.max(np.abs(reference))))
                self.assertLessEqual(error, allowed, f"seed {seed}: {counts(run)}\n{graph.text()}")
            found |= set(counts(run))
        self.assertEqual((set(self.texts) | set(PIECES)) - found, set())


GATED = """
#include <tenon/graph.h>
static tenon_status_t gated(const tenon_loop_t *loop) {{
  for (int64_t i = 0; i < loop->count; i++) {{
    float x = ((const float *)loop->data[0])[i];
    ((float *)loop->data[2])[i] = (x > 0 ? x : 0) * ((const float *)loop->data[1])[i];
  }}
  return TENON_OK;
}}
TENON_LIBRARY({name}, "1.0.0", {rules}
  TENON_OP("gated(Tensor x, Tensor y) -> Tensor", TENON_TYPES("x, y: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32, f32 -> f32", gated)))
"""


class Shapes(unittest.TestCase):
    def test_scaled_queries_and_keys_are_part_of_attention(self):
        def write(b, q, k, v):
            scale = b.constant(np.float32(0.6))
            scores = nodes.matmul(nodes.mul(q, scale), nodes.mul(nodes.transpose(k, perm=[0, 1, 3, 2]), scale))
            return nodes.matmul(nodes.softmax(scores), v)

        graph = made([(1, 2, 3, 8)] * 3, write)
        run, inputs = graph.compile(), values_for(graph)
        self.assertEqual(counts(run)["attention"], 1)
        np.testing.assert_allclose(run(*inputs), graph.compile(plain=True)(*inputs), rtol=2e-5, atol=1e-6)

    def agrees(self, graph, rule):
        """Whether the rule was applied; the results are those of the plain run."""
        run, inputs = graph.compile(), values_for(graph)
        expected = graph.compile(plain=True)(*inputs)
        np.testing.assert_allclose(run(*inputs), expected, rtol=2e-5, atol=4e-6 * float(np.max(np.abs(expected))))
        return rule in counts(run)

    def test_layer_norms_are_found_in_all_spellings(self):
        def write(b, x, is_power, inverse, factors):
            axis, two = b.constant(np.int64([-1])), b.constant(np.float32(2))
            centred = nodes.sub(x, nodes.reduce_mean(x, axis))
            variance = nodes.reduce_mean(nodes.pow(centred, two) if is_power else nodes.mul(centred, centred), axis)
            variance = nodes.add(variance, b.constant(np.float32(1e-5)))
            y = nodes.div(centred, nodes.sqrt(variance)) if inverse == "div" else nodes.mul(centred, getattr(nodes, inverse)(
                nodes.sqrt(variance) if inverse == "reciprocal" else variance))
            for op, _ in zip((nodes.mul, nodes.add), range(factors)):
                y = op(y, b.constant(weights(5)))
            return y

        for is_power, inverse, factors in itertools.product((False, True), ("div", "reciprocal", "rsqrt"), (0, 1, 2)):
            with self.subTest(is_power=is_power, inverse=inverse, factors=factors):
                graph = made([SIZE], lambda b, x: write(b, x, is_power, inverse, factors))
                self.assertTrue(self.agrees(graph, "layer_norm") or "layer_norm_of_rms" in counts(graph.compile()))
                self.assertEqual(len(re.findall("= core::", graph.compile().dump("graph"))) or graph.compile().dump("graph").count("core::"), 1)

    def test_what_is_added_to_a_layer_norm_is_no_bias_if_it_has_rows(self):
        def write(b, x, y):
            return nodes.add(nodes.layer_norm(x, b.constant(weights(5)))[0], y)

        for shape, expected in ((5,), True), ((3, 5), False), ((1,), True), ((1, 5), True):
            self.assertEqual(self.agrees(made([SIZE, shape], write), "layer_norm_biased"), expected)

    def test_norms_of_groups_are_found_in_all_spellings(self):
        def apart(b, x, write):
            flat = write(nodes.reshape(x, b.constant(np.int64([2, 2, -1]))))
            return nodes.reshape(flat, b.constant(np.int64([2, 4, 3, 5])))

        def instance(b, x, scale=1, bias=0):
            return nodes.instance_norm(x, b.constant(np.full(2, scale, np.float32)), b.constant(np.full(2, bias, np.float32)))

        scale = per_channel
        for expected, write in (
            (True, lambda b, x: apart(b, x, lambda y: instance(b, y))),
            (True, lambda b, x: nodes.mul(apart(b, x, lambda y: instance(b, y)), scale(b, 1))),
            (True, lambda b, x: nodes.add(scale(b, 2), apart(b, x, lambda y: instance(b, y)))),
            (True, lambda b, x: nodes.add(nodes.mul(scale(b, 1), apart(b, x, lambda y: write_channel_norm(b, y, [2]))), scale(b, 1))),
            (False, lambda b, x: apart(b, x, lambda y: instance(b, y, 2))),
            (False, lambda b, x: apart(b, x, lambda y: instance(b, y, 1, 3))),
            (False, lambda b, x: nodes.reshape(instance(b, nodes.reshape(x, b.constant(np.int64([4, 2, -1])))), b.constant(np.int64([2, 4, 3, 5])))),
        ):
            graph = made([(2, 4, 3, 5)], write)
            self.assertEqual(self.agrees(graph, "group_norm"), expected, graph.text())

    def test_rotary_embeddings_are_found_in_all_spellings(self):
        shape = (2, 3, 5, 8)
        table = np.tile(np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32), 2)
        wrong = table + np.float32([0] * 7 + [1])

        def by_table(rows, *indices):
            def write(b, x):
                cos, sin = (b.constant(value.astype(np.float32)) for value in (np.cos(rows), np.sin(rows)))
                for axis, index in enumerate(indices):
                    cos, sin = (nodes.gather(value, b.constant(np.int64(index)), axis=0) for value in (cos, sin))
                return nodes.add(nodes.mul(write_halves(b, x), sin), nodes.mul(cos, x))
            return made([shape], write)

        def every_other(b, x):
            return (nodes.slice(x, *(b.constant(np.int64([number])) for number in (start, 2 ** 63 - 1, 3, 2))) for start in range(2))

        def stack(b, *parts):
            apart = nodes.concat([nodes.unsqueeze(part, b.constant(np.int64([4]))) for part in parts], axis=-1)
            return nodes.reshape(apart, b.constant(np.int64(shape)))

        def by_pairs(b, x, angles, divide, join):
            """As GPT-OSS and the first Llama write it: cosines and sines of pairs."""
            cos, sin = (nodes.unsqueeze(op(angles), b.constant(np.int64([1]))) for op in (nodes.cos, nodes.sin))
            first, second = divide(b, x)
            return join(b, nodes.sub(nodes.mul(first, cos), nodes.mul(second, sin)), nodes.add(nodes.mul(second, cos), nodes.mul(first, sin)))

        def every_two(b, x, angles, repeat, sign=False):
            """As Cohere writes it: each angle twice, in a row."""
            if repeat == "expand":
                apart = nodes.expand(nodes.unsqueeze(angles, b.constant(np.int64([3]))), b.constant(np.int64([2, 5, 4, 2])))
                both = nodes.reshape(apart, b.constant(np.int64([2, 5, 8])))
            else:
                both = nodes.concat([angles, angles], axis=-1)
            cos, sin = (nodes.unsqueeze(op(both), b.constant(np.int64([1]))) for op in (nodes.cos, nodes.sin))
            first, second = every_other(b, x)
            turned = stack(b, first, nodes.neg(second)) if sign else stack(b, nodes.neg(second), first)
            return nodes.add(nodes.mul(x, cos), nodes.mul(turned, sin))

        def halves(b, x):
            return nodes.split(x, axis=-1, count=2)

        def join(b, *parts):
            return nodes.concat(list(parts), axis=-1)

        for expected, graph in (
            (True, made([shape, (2, 5, 4)], lambda b, x, a: by_pairs(b, x, a, halves, join))),
            (True, made([shape, (2, 5, 4)], lambda b, x, a: by_pairs(b, x, a, every_other, stack))),
            (False, made([shape, (2, 5, 4)], lambda b, x, a: by_pairs(b, x, a, halves, stack))),
            (False, made([shape, (2, 5, 4)], lambda b, x, a: by_pairs(b, x, a, lambda b, x: reversed(halves(b, x)), join))),
            (True, made([shape, (2, 5, 4)], lambda b, x, a: every_two(b, x, a, "expand"))),
            (False, made([shape, (2, 5, 4)], lambda b, x, a: every_two(b, x, a, "expand", True))),
            (False, made([shape, (2, 5, 4)], lambda b, x, a: every_two(b, x, a, "concat"))),
            (True, made([shape, (2, 5, 4)], lambda b, x, a: write_rotary(b, x, a, True))),
            (True, made([shape, (2, 5, 4)], lambda b, x, a: write_rotary(b, x, a, False, 1.2))),
            (True, made([shape, (1, 5, 4)], write_rotary)),
            (True, by_table(table[:5])),
            (True, by_table(table[None, :5])),
            (True, by_table(table[None, None, :5])),
            (True, by_table(table, [1, 4, 0, 8, 2])),
            (False, by_table(wrong[:5])),
            (False, by_table(table, [[[1, 4, 0, 8, 2]] * 3])),
        ):
            self.assertEqual(self.agrees(graph, "rotary"), expected, graph.text())

    def test_keys_that_several_heads_share_are_part_of_attention(self):
        def repeat(b, x, shape):
            apart = nodes.expand(nodes.unsqueeze(x, b.constant(np.int64([2]))), b.constant(np.int64([1, 2, 3, 5, 8])))
            return nodes.reshape(apart, b.constant(np.int64(shape)))

        def write(b, q, k, v):
            keys = nodes.transpose(repeat(b, k, [6, 5, 8]), perm=[0, 2, 1])
            scores = nodes.matmul(q, nodes.reshape(keys, b.constant(np.int64([1, 6, 8, 5]))))
            return nodes.matmul(nodes.softmax(scores), repeat(b, v, [1, 6, 5, 8]))

        graph = made([(1, 6, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8)], write)
        run, inputs = graph.compile(), values_for(graph)
        self.assertEqual(counts(run), {"joined_axes": 1, "attention": 1})
        self.assertIn("kv_num_heads=2", run.dump("graph"))
        np.testing.assert_allclose(run(*inputs), graph.compile(plain=True)(*inputs), rtol=2e-5, atol=1e-6)

    def test_weights_of_masked_rows_that_become_zero_are_part_of_attention(self):
        def write(b, q, k, v, mask):
            weights = nodes.softmax(nodes.add(nodes.matmul(q, nodes.transpose(k, perm=[0, 1, 3, 2])), mask))
            return nodes.matmul(nodes.where(nodes.is_nan(weights), b.constant(np.float32(0)), weights), v)

        for length in 3, 40:  # rows of complete scores, and blocks
            graph = made([(1, 2, length, 8)] * 3 + [(length, length)], write)
            run, inputs = graph.compile(), values_for(graph)
            inputs[3][:] = np.where(inputs[3] > 0, 0, -np.inf)
            inputs[3][1] = -np.inf
            expected = graph.compile(plain=True)(*inputs)
            self.assertEqual(counts(run)["attention"], 1)
            np.testing.assert_array_equal(expected[0, :, 1], 0)
            np.testing.assert_allclose(run(*inputs), expected, rtol=2e-5, atol=1e-6)
            inputs[2][0, 0, 2, 3] = np.nan  # values are not made 0
            np.testing.assert_array_equal(np.isnan(run(*inputs)), np.isnan(graph.compile(plain=True)(*inputs)))

    def test_a_transpose_that_undoes_another_one_leaves_nothing(self):
        graph = made([(2, 3, 4)], lambda b, x: nodes.exp(nodes.transpose(nodes.transpose(x, perm=[1, 2, 0]), perm=[2, 0, 1])))
        self.assertEqual(graph.compile().dump("graph").count("core::transpose"), 0)

    def test_a_reshape_that_takes_an_extent_from_its_operand_stays(self):
        graph = made([(4, 6)], lambda b, x: nodes.reshape(nodes.reshape(x, b.constant(np.int64([2, 12]))), b.constant(np.int64([0, 3, 4]))))
        run = graph.compile()
        self.assertNotIn("reshaped_twice", counts(run))
        x = values_for(graph)[0]
        np.testing.assert_array_equal(run(x), x.reshape(2, 3, 4))

    def test_numbers_near_one_are_not_one(self):
        graph = made([SIZE], lambda b, x: nodes.mul(x, b.constant(np.float32(1.00001))))
        self.assertEqual(counts(graph.compile()), {})


def bodies(is_known=False):
    """Graphs that compute relu(x) * x in the bodies of control flow, by an input that says whether or how often, or by a constant."""
    results = {"count": 1, "dtypes": [0], "ranks": [2]}
    inner = tenon.graph.Builder()
    _, going, state = inner.input("trip", "i64", []), inner.input("going", "bool", []), inner.input("x", "f32", list(SIZE))
    looped = inner.finish({"going": nodes.identity(going), "y": nodes.mul(nodes.relu(state), state)})
    inner = tenon.graph.Builder()
    row = inner.input("row", "f32", [SIZE[1]])
    scanned = inner.finish({"y": nodes.mul(nodes.relu(row), row)})
    once = made([SIZE], lambda b, x: nodes.mul(nodes.relu(x), x))
    other = made([SIZE], lambda b, x: nodes.neg(x))

    def write(dtype, value, build):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", list(SIZE))
        known = b.constant(value) if is_known else b.input("known", dtype, [])
        return b.finish(build(x, known))

    def choose(inside):
        return write("bool", np.bool_(True), lambda x, known: nodes.if_(known, [x], then=inside, else_=other, **results))

    def choose_twice(x, known):
        b = tenon.graph.Builder()
        inputs = b.input("x", "f32", list(SIZE)), b.input("known", "bool", [])
        inside = b.finish(nodes.if_(inputs[1], [inputs[0]], then=once, else_=other, **results))
        return nodes.if_(known, [x, known], then=inside, else_=inside, **results)

    return {"if": choose(once), "loop": write("i64", np.int64(1), lambda x, known: nodes.loop([x], [], known, body=looped, **results)),
            "scan": write("i64", np.int64(1), lambda x, known: nodes.scan([], [x], [], body=scanned, **results)),
            "nested": write("bool", np.bool_(True), choose_twice)}


class Loops(unittest.TestCase):
    def loop(self, trips, ends=False, stacked=1, condition=None, repeats=1):
        """A loop whose body takes the sine of its state `repeats` times, adds the iteration, and stacks states doubled."""
        inner = tenon.graph.Builder()
        trip, going, x = inner.input("trip", "i64", []), inner.input("going", "bool", []), inner.input("x", "f32", list(SIZE))
        y = nodes.add(x, nodes.cast(trip, to="f32"))
        for _ in range(repeats):
            y = nodes.sin(y)
        results = {"going": nodes.less(trip, inner.constant(np.int64(1))) if ends else nodes.identity(going), "y": y}
        if stacked:
            results["z"] = nodes.add(y, y)
        body, b = inner.finish(results), tenon.graph.Builder()
        x = b.input("x", "f32", list(SIZE))
        condition = None if condition is None else b.constant(np.bool_(condition))
        found = nodes.loop([x], [], b.constant(np.int64(trips)), condition, body=body, count=1 + stacked, dtypes=[0] * (1 + stacked), ranks=[2, 3][:1 + stacked])
        return b.finish({f"y{i}": y for i, y in enumerate(found)})

    def test_loops_of_few_iterations_are_unrolled(self):
        for count, *arguments in ((1, 1), (1, 3), (1, 8, False, 0), (1, 0, False, 0), (1, 1, True), (1, 5, False, 0, False), (1, 2, False, 1, True),
                                  (None, 9), (None, 3, True), (None, 0), (None, 5, False, 1, False), (None, 8, False, 0, None, 9)):
            with self.subTest(arguments):
                graph = self.loop(*arguments)
                run = graph.compile()
                self.assertEqual(counts(run).get("unrolled_loop"), count)
                x = values_for(graph)
                found, expected = (np.atleast_1d(result) if isinstance(result, np.ndarray) else result for result in (run(*x), graph.compile(plain=True)(*x)))
                for one, other in zip(found, expected):
                    np.testing.assert_allclose(one, other, rtol=1e-6)
                    self.assertEqual(one.shape, other.shape)

    def test_branches_in_branches_are_taken(self):
        graph = bodies(True)["nested"]
        run = graph.compile()
        self.assertEqual(counts(run)["taken_branch"], 2)
        self.assertNotIn("core::if", run.dump("graph"))

    def test_loops_in_loops_do_not_grow_without_bounds(self):
        graph = self.loop(8, False, 0)
        for _ in range(12):  # 8 to the power of 13 iterations of the innermost body
            inner = tenon.graph.Builder()
            _, going, x = inner.input("trip", "i64", []), inner.input("going", "bool", []), inner.input("x", "f32", list(SIZE))
            inside = nodes.if_(nodes.identity(going), [x], then=graph, else_=graph, count=1, dtypes=[0], ranks=[2])
            body, b = inner.finish({"going": going, "y": inside[0]}), tenon.graph.Builder()
            x = b.input("x", "f32", list(SIZE))
            graph = b.finish(nodes.loop([x], [], b.constant(np.int64(8)), body=body, count=1, dtypes=[0], ranks=[2]))
        run = graph.compile()
        self.assertLess(run.dump("graph").count("core::"), 5000)


class Libraries(unittest.TestCase):
    def write(self, name, rules):
        source = f"{FOLDER}/{name}.c"
        with open(source, "w", encoding="utf-8") as file:
            file.write(GATED.format(name=name, rules=rules))
        return source

    def graph(self):
        return made([SIZE, SIZE], lambda b, x, y: nodes.mul(nodes.relu(x), y))

    def test_a_rule_of_a_library_works_like_a_built_in_one(self):
        graph = self.graph()
        library = tenon.load(built(self.write("bringer", 'TENON_REWRITE("gate: core::mul(core::relu(x), y) -> gated(x, y)"),')), unloadable=True)
        self.assertIn("bringer::gate", [rule.name for rule in tenon.graph.rewrites()])
        run = graph.compile()
        self.assertEqual(counts(run), {"bringer::gate": 1})
        self.assertIn("bringer::gated", run.dump("graph"))
        inputs = values_for(graph)
        np.testing.assert_array_equal(run(*inputs), np.maximum(inputs[0], 0) * inputs[1])
        self.assertEqual(counts(graph.compile(without="bringer::gate")), {})
        with self.assertRaisesRegex(tenon.Error, "held by 1"):
            library.unload()  # the executable has a node of the library
        del run
        library.unload()
        self.assertEqual(counts(graph.compile()), {})

    def test_a_rule_applies_where_its_result_has_the_same_shape(self):
        library = tenon.load(built(self.write("shaped", 'TENON_REWRITE("first: core::mul(core::relu(x), y) -> core::tanh(x)"),')), unloadable=True)
        for shape, expected in (SIZE, {"shaped::first": 1}), ((1, 5), {}):
            graph = made([shape, SIZE], lambda b, x, y: nodes.mul(nodes.relu(x), y))
            self.assertEqual(counts(graph.compile()), expected)
        library.unload()

    def test_switches_hold_in_the_bodies_of_control_flow(self):
        """The rule computes something else, so results show whether it was applied."""
        library = tenon.load(built(self.write("body", 'TENON_REWRITE("wrong: core::mul(core::relu(x), y) -> core::tanh(x)"),')), unloadable=True)
        x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(SIZE)
        for is_known in False, True:
            for name, graph in bodies(is_known).items():
                inputs = [x] if is_known else [x, np.bool_(True) if name in ("if", "nested") else np.int64(1)]
                with self.subTest(name, is_known=is_known):
                    for _ in range(2):  # executables do not share bodies with other switches
                        np.testing.assert_allclose(graph.compile()(*inputs), np.tanh(x), rtol=1e-5)
                        np.testing.assert_array_equal(graph.compile(without="body::wrong")(*inputs), np.maximum(x, 0) * x)
                        np.testing.assert_array_equal(graph.compile(plain=True)(*inputs), np.maximum(x, 0) * x)
        del graph
        library.unload()

    def test_an_isolated_library_cannot_have_rules(self):
        path = built(self.write("apart", 'TENON_REWRITE("gate: core::mul(core::relu(x), y) -> gated(x, y)"),'))
        with self.assertRaisesRegex(tenon.Error, "it has graph passes, rewriting rules or a partitioner"):
            tenon.load(path, isolated=True)

    def test_a_faulty_rule_is_an_error_when_the_library_is_checked(self):
        for number, (rule, words) in enumerate([
            ("gate core::relu(x) -> x", "expected ':' after the name, found 'core'"),
            ("gate: x -> gated(x, x)", "expected a call of an operator"),
            ("gate: core::relu(x) -> gated(x, y)", "'y' does not stand in the text to replace"),
            ("gate: core::relu(x)", "expected '->' and what to put in its place"),
            ("gate: core::relu(x) -> gated(x, core::relu(x))", "expected a name, or one call of an operator"),
            ("gate: core::relu(" + "(" * 40 + "x -> x", "nested more than 32 levels deep"),
        ]):
            with self.subTest(rule):
                source = self.write(f"faulty_{number}", f'TENON_REWRITE("{rule}"),')
                build = subprocess.run([f"{BUILD}/tenon", "build", source, "-o", source[:-2] + ".so"], capture_output=True, text=True)
                self.assertNotEqual(build.returncode, 0)
                self.assertIn(words, build.stdout + build.stderr)


if __name__ == "__main__":
    totals.main()
