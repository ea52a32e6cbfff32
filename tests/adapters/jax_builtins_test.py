"""The built-in operators as functions of JAX beside jax.numpy's: values and gradients under jit, vmap, second derivatives, jax.export; random operators
and operators whose results depend on data. The reference of every comparison is written in jax.numpy; the cases are in jax_cases_*.py."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
import tenon
import tenon.jax
import jax_cases_pointwise, jax_cases_index, jax_cases_spatial, jax_cases_sequence  # noqa: F401, E401
import totals
from jax_cases import CASES, converted, floats_of, kept_results, masked, results_and_gradients, weighted

core = tenon.jax.register("core")
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}  # compile quickly
TOGETHER = 40  # the cases in one jitted function
covered = {"values": set(), "gradients": set(), "forward": set(), "vmap": set(), "second": set(), "export": set()}


def close(found, expected, units, what=""):
    """Compares results; the tolerance is in units of the rounding of the expected dtype, at the largest element."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == expected.dtype or expected.dtype.kind in "iu" and found.dtype.kind in "iu", f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        np.testing.assert_array_equal(found, expected, what)
        return
    epsilon = float(jnp.finfo(expected.dtype).eps)
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=units * epsilon, atol=units * epsilon * max(largest, 1e-3), err_msg=what)


def chunks(items):
    return [items[i:i + TOGETHER] for i in range(0, len(items), TOGETHER)]


class Comparison(unittest.TestCase):
    """Runs pairs of functions, many in one jitted function, and compares what they return."""

    def agree(self, pairs):
        """pairs: of (case, arrays, found, expected, units): two functions of the arrays.  Returns the cases that agreed."""
        agreed = []
        for chunk in chunks(pairs):
            agreed += self._agree(chunk)
        return agreed

    def _agree(self, pairs):
        errors = {}

        def both(arrays):
            made = []
            for i, ((case, _, found, expected, _), a) in enumerate(zip(pairs, arrays)):
                try:
                    made.append((found(a), expected(a)))
                except Exception as error:  # reported below, as the failure of this case alone
                    errors[i] = error
                    made.append(None)
            return made
        try:
            made = jax.block_until_ready(jax.jit(both, compiler_options=QUICK)([arrays for _, arrays, *_ in pairs]))
        except Exception:  # an operator failed when it ran: find out which
            if len(pairs) > 1:
                middle = len(pairs) // 2
                return self._agree(pairs[:middle]) + self._agree(pairs[middle:])
            errors, made = {0: sys.exc_info()[1]}, [None]
        agreed = []
        for i, ((case, arrays, _, _, units), pair) in enumerate(zip(pairs, made)):
            with self.subTest(op=case.name, attrs=case.attrs, arrays=[f"{a.dtype}{list(a.shape)}" for a in arrays]):
                if i in errors:
                    raise errors[i]
                found, expected = jax.tree.leaves(pair[0]), jax.tree.leaves(pair[1])
                self.assertEqual(len(found), len(expected))
                for k, (f, e) in enumerate(zip(found, expected)):
                    close(f, e, units, f"result or gradient {k}")
                agreed.append(case)
        return agreed


def operator(case):
    """The operator of a case, with only the results that the reference has."""
    function, kept = getattr(core, case.name), kept_results(case)
    return masked(lambda *args, **attrs: function(*args, **attrs, **case.only), kept)


def first_cases(names=None):
    """The first case of each operator."""
    found = {}
    for case in CASES:
        if (names is None or case.name in names) and case.name not in found and not case.only and case.arrays:
            found[case.name] = case
    return list(found.values())


# Operators whose second derivatives are compared.
TWICE = ("abs asin atan atanh celu clip cos elu erf exp gelu hard_swish log mish reciprocal rsqrt selu sigmoid silu sin sinh softplus softsign sqrt tan tanh add div max mul pow prelu sub where "
         "softmax log_softmax matmul gemm einsum concat split expand transpose slice gather gather_elements scatter_elements pad tile cum_sum cum_prod reduce_sum reduce_mean reduce_prod reduce_l2 "
         "reduce_max reduce_log_sum_exp layer_norm rms_norm batch_norm lp_norm conv average_pool max_pool resize dft det").split()
# Operators that are compared in f16 and bf16.
HALVES = ("abs add mul div sub exp tanh sigmoid relu gelu silu softmax matmul gemm conv layer_norm rms_norm reduce_sum reduce_mean reduce_max concat split transpose gather pad average_pool where "
          "softmax_backward gelu_backward cum_sum").split()
# Operators whose gradients have no gradient, so forward derivatives and second ones do not exist.
REVERSE_ONLY = {"grid_sample", "deform_conv", "deform_patches"}
# Operators that are exported with a symbolic batch, and the arguments that have it as their first axis.
BATCHED = {**{name: (0,) for name in ("abs cos elu erf exp gelu hard_swish leaky_relu log mish relu sigmoid silu softplus sqrt tanh clip cast softmax log_softmax hardmax flatten transpose unsqueeze tile cum_sum top_k arg_max "
                                      "reduce_sum reduce_mean reduce_max reduce_log_sum_exp layer_norm rms_norm batch_norm group_norm lrn conv conv_transpose max_pool average_pool global_average_pool matmul resize "
                                      "depth_to_space lp_norm is_nan").split()},
           **{name: (0, 1) for name in ("add", "sub", "mul", "div", "max", "min", "pow", "relu_backward", "gelu_backward", "gather_elements")}, "concat": (0,), "where": (0, 1), "attention": (0, 1, 2), "causal_conv": (0,),
           "rotary_embedding": (0, 1, 2)}


class Builtins(Comparison):
    def compare(self, cases, dtype):
        pairs = [(case, converted(case, dtype), results_and_gradients(case, operator(case)), results_and_gradients(case, case.function), case.units) for case in cases]
        for case in self.agree(pairs):
            covered["values"].add(case.name)
            if floats_of(case):
                covered["gradients"].add(case.name)

    def test_values_and_gradients_are_those_of_jax(self):
        self.compare(CASES, np.float64)

    @totals.takes_turns
    def test_values_and_gradients_of_f32_are_those_of_jax(self):
        """In JAX's default mode, which has neither f64 nor i64."""
        self.enterContext(jax.enable_x64(False))
        self.compare([case for case in CASES if case.narrow and any(a.dtype == np.float64 for _, a in case.arrays)], np.float32)

    def test_values_and_gradients_of_narrow_floats_are_close_to_those_of_jax(self):
        for dtype in jnp.float16, jnp.bfloat16:
            self.compare([case._replace(units=16) for case in first_cases(HALVES)], dtype)

    @totals.takes_turns
    def test_vmap_equals_a_loop(self):
        """Some cases have all arrays of floats batched along the first axis, the others the first array along the last axis."""
        def compared(case, number):
            floats = [k for k, (_, a) in enumerate(case.arrays) if a.dtype.kind == "f"] or [0]
            axes = [None] * len(case.arrays)
            for k in floats if number % 2 else floats[:1]:
                axes[k] = 0 if number % 2 else case.arrays[k][1].ndim
            arrays = [a if axis is None else np.stack([np.roll(a, n) for n in range(3)], axis) for (_, a), axis in zip(case.arrays, axes)]
            function = results_and_gradients(case, operator(case))

            def loop(arrays):
                each = [function([a if axis is None else jnp.take(a, n, axis) for a, axis in zip(arrays, axes)]) for n in range(3)]
                return jax.tree.map(lambda *parts: jnp.stack(parts), *each)
            return case, arrays, jax.vmap(function, in_axes=(axes,)), loop, 64
        for case in self.agree([compared(case, number) for number, case in enumerate(first_cases())]):
            covered["vmap"].add(case.name)

    @totals.takes_turns
    def test_forward_derivatives_are_those_of_jax(self):
        def pushed(case, function):
            def made(arrays):
                places = floats_of(case)

                def results(floats):
                    mixed = list(arrays)
                    for k, f in zip(places, floats):
                        mixed[k] = f
                    return [r for r in case.call(function, mixed) if r is not None and jnp.issubdtype(r.dtype, jnp.floating)]
                floats = [arrays[k] for k in places]
                return jax.jvp(results, (floats,), ([jnp.cos(3 * f) for f in floats],))
            return made
        cases = [case for case in first_cases() if floats_of(case) and case.name not in REVERSE_ONLY]
        for case in first_cases(REVERSE_ONLY):
            with self.subTest(op=case.name), self.assertRaisesRegex(Exception, "has no gradient"):  # not derivatives of 0
                jax.block_until_ready(jax.jit(pushed(case, operator(case)))([a for _, a in case.arrays]))
        for case in self.agree([(case, [a for _, a in case.arrays], pushed(case, operator(case)), pushed(case, case.function), case.units) for case in cases]):
            covered["forward"].add(case.name)

    @totals.takes_turns
    def test_second_derivatives_are_those_of_jax(self):
        def scalar(case, function):
            k = floats_of(case)[0]
            return k, lambda arrays: lambda x: weighted([jnp.sin(r) for r in case.call(function, [*arrays[:k], x + 0.01 * x * x, *arrays[k + 1:]]) if r is not None])

        def compared(case):
            k, loss = scalar(case, operator(case))
            _, expected = scalar(case, case.function)

            def twice(arrays):
                hessian = jax.hessian(loss(arrays))(arrays[k])
                return hessian, jax.jacrev(jax.jacrev(loss(arrays)))(arrays[k])

            def reference(arrays):
                hessian = jax.hessian(expected(arrays))(arrays[k])
                return hessian, hessian
            return case, [a for _, a in case.arrays], twice, reference, 2**14
        for case in self.agree([compared(case) for case in first_cases(TWICE)]):
            covered["second"].add(case.name)

    @totals.takes_turns
    def test_exported_programs_serve_every_batch(self):
        cases, symbolic = first_cases(BATCHED), jax.export.symbolic_shape("batch")
        specs = [[jax.ShapeDtypeStruct(symbolic + a.shape[1:] if i in BATCHED[case.name] else a.shape, a.dtype) for i, a in case.arrays] for case in cases]

        def values_and_slopes(case, function):
            def made(arrays):
                def loss(arrays):
                    results = [r for r in case.call(function, arrays) if r is not None]
                    return sum(jnp.sum(jnp.sin(r)) for r in results if r.dtype.kind == "f"), results
                places = floats_of(case)
                if not places or case.name == "is_nan":
                    return loss(arrays)[1]
                return jax.grad(lambda x: loss([*arrays[:places[0]], x, *arrays[places[0] + 1:]]), has_aux=True)(arrays[places[0]])
            return made
        errors = {}

        def every(groups):
            made = []
            for case, arrays in zip(cases, groups):
                try:
                    made.append(values_and_slopes(case, operator(case))(arrays))
                except Exception as error:  # reported below
                    errors[case.name] = error
                    made.append(None)
            return made
        exported = jax.export.export(jax.jit(every), disabled_checks=tenon.jax.disabled_checks())(specs)
        program = jax.export.deserialize(exported.serialize())
        for batch in 2, 5:
            groups = [[np.resize(a, (batch, *a.shape[1:])) if i in BATCHED[case.name] else a for i, a in case.arrays] for case in cases]
            found = jax.jit(program.call, compiler_options=QUICK)(groups)
            expected = jax.jit(lambda groups: [values_and_slopes(case, case.function)(arrays) for case, arrays in zip(cases, groups)], compiler_options=QUICK)(groups)
            for case, f, e in zip(cases, found, expected):
                with self.subTest(op=case.name, batch=batch):
                    if case.name in errors:
                        raise errors[case.name]
                    for one, other in zip(jax.tree.leaves(f), jax.tree.leaves(e), strict=True):
                        close(one, other, max(case.units, 1024))
                    covered["export"].add(case.name)


class Others(unittest.TestCase):
    """Operators that draw random numbers, that write to their arguments, or whose results depend on data in a way that cases cannot state."""

    @classmethod
    def setUpClass(cls):
        cls.key = jax.random.key(3)

    def spread(self, name, draw, mean, deviation):
        """Checks that the key alone determines the numbers, and their mean and standard deviation."""
        first, again, other = jax.jit(lambda k: (draw(k), draw(k), draw(jax.random.fold_in(k, 1))))(self.key)
        np.testing.assert_array_equal(first, again)
        self.assertGreater(np.mean(np.asarray(first) != np.asarray(other)), 0.05)
        numbers = np.asarray(first, np.float64)
        self.assertAlmostEqual(numbers.mean(), mean, delta=5 * deviation / numbers.size**0.5)
        self.assertAlmostEqual(numbers.std(), deviation, delta=0.05 * deviation)
        np.testing.assert_array_equal(jax.jit(jax.vmap(draw))(jax.random.split(self.key, 2)), [draw(k) for k in jax.random.split(self.key, 2)])
        covered["values"].add(name)
        covered["vmap"].add(name)
        return np.asarray(first)

    def test_random_numbers_follow_from_the_key_and_have_their_distribution(self):
        size = 40, 250
        numbers = self.spread("uniform", lambda k: core.uniform(size, low=-1.0, high=3.0, key=k), 1, 4 / 12**0.5)
        self.assertTrue(numbers.min() >= -1 and numbers.max() < 3)
        self.spread("normal", lambda k: core.normal(size, mean=2.0, scale=0.5, key=k), 2, 0.5)
        self.spread("randn", lambda k: core.randn(shape=size, key=k), 0, 1)
        numbers = self.spread("randint", lambda k: core.randint(low=-2, high=5, shape=size, key=k), 1, 2)
        self.assertEqual(sorted(set(numbers.ravel())), list(range(-2, 5)))
        self.spread("bernoulli", lambda k: core.bernoulli(jnp.full(size, 0.3), key=k), 0.3, 0.21**0.5)
        self.spread("uniform_", lambda k: core.uniform_(jnp.zeros(size), low=0.0, high=2.0, key=k), 1, 2 / 12**0.5)
        self.spread("normal_", lambda k: core.normal_(jnp.zeros(size), mean=-1.0, std=3.0, key=k), -1, 3)

    def test_dropout_keeps_a_share_and_its_gradient_is_the_mask(self):
        x = jnp.linspace(1, 2, 10000)
        (_, (y, mask)), grad = jax.jit(jax.value_and_grad(lambda x: (lambda y, m: (y.sum(), (y, m)))(*core.dropout(x, ratio=0.25, key=self.key)), has_aux=True))(x)
        self.assertAlmostEqual(np.mean(np.asarray(mask)), 0.75, delta=0.03)
        np.testing.assert_allclose(y, jnp.where(mask, x / 0.75, 0), rtol=1e-12)
        np.testing.assert_allclose(grad, jnp.where(mask, 1 / 0.75, 0), rtol=1e-12)
        covered["values"].add("dropout"), covered["gradients"].add("dropout")

    def test_arguments_that_are_written_to_are_returned(self):
        x, y = np.arange(6.0).reshape(2, 3), np.zeros((2, 3), np.float32)
        for name in "copy", "copy_from":
            function = getattr(core, name)
            given = x.astype(np.float32) if name == "copy" else x
            found = jax.jit(lambda x, y, f=function: (f(x, y), y))(given, y)
            np.testing.assert_array_equal(found[0], x)
            np.testing.assert_array_equal(found[1], 0)
            covered["values"].add(name)

    def test_boxes_that_overlap_a_better_one_are_dropped(self):
        boxes, scores = np.random.default_rng(2).uniform(0, 4, (2, 6, 4)).astype(np.float32), np.random.default_rng(3).uniform(size=(2, 2, 6)).astype(np.float32)

        def chosen(boxes, scores):  # of one image and class, whether each box remains
            y, x = (jnp.sort(boxes[:, k::2], 1) for k in (0, 1))
            area = (y[:, 1] - y[:, 0]) * (x[:, 1] - x[:, 0])
            sides = [jnp.maximum(0, jnp.minimum(t[:, None, 1], t[:, 1]) - jnp.maximum(t[:, None, 0], t[:, 0])) for t in (y, x)]
            common = sides[0] * sides[1]
            overlap = common / (area[:, None] + area - common) > 0.2

            def take(kept, best):
                return kept.at[best].set(~jnp.any(kept & overlap[best])), None
            return jax.lax.scan(take, jnp.zeros(len(boxes), bool), jnp.argsort(-scores))[0]
        expected = np.argwhere(jax.jit(jax.vmap(lambda b, s: jax.vmap(lambda s: chosen(b, s))(s)))(boxes, scores))
        found, count = jax.jit(lambda b, s: core.non_max_suppression(b, s, 6, np.float32(0.2), size=24))(boxes, scores)
        self.assertEqual(sorted(map(tuple, np.asarray(found[:count]))), sorted(map(tuple, expected)))
        covered["values"].add("non_max_suppression")

    def test_empty_tensors_have_the_shape_and_dtype_of_those_of_jax(self):
        x = jnp.zeros((2, 3), jnp.float32)
        for found, expected in ((core.empty(shape=(2, 3), dtype=jnp.int16), jnp.empty((2, 3), jnp.int16)), (core.empty_like(x), jnp.empty_like(x)), (core.empty_like(x, dtype=jnp.int32), jnp.empty_like(x, jnp.int32)),
                                (core.empty_strided(shape=(2, 3), strides=(3, 1)), x)):
            self.assertEqual((found.shape, found.dtype), (expected.shape, expected.dtype))

    def test_unique_pads_its_results(self):
        x = np.array([3, 1, 3, 7, 1, 1])
        out, indices, inverse, counts, *extents = jax.jit(lambda x: core.unique(x, size=5))(x)
        for found, expected in zip((out, indices, inverse, counts), jnp.unique(x, return_index=True, return_inverse=True, return_counts=True)):
            np.testing.assert_array_equal(found[:expected.shape[0]], expected)
            np.testing.assert_array_equal(found[expected.shape[0]:], 0)
        self.assertEqual(extents[0], 3)
        found = jax.jit(lambda x: core.unique(x, axis=0, size=3))(np.array([[1, 2], [0, 5], [1, 2]]))[0]
        np.testing.assert_array_equal(found, [[0, 5], [1, 2], [0, 0]])
        covered["values"].add("unique")


class Total(unittest.TestCase):
    """Runs last, since test classes run in the order of their names."""

    def test_most_built_in_operators_are_covered(self):
        for name, least in (("values", 240), ("gradients", 200), ("forward", 180), ("vmap", 240), ("second", 60), ("export", 50)):
            is_whole = name in ("values", "gradients") or totals.THIRD is None  # the other tests take turns
            with self.subTest(what=name):
                self.assertGreaterEqual(len(covered[name]), least if is_whole else 0)


def report():
    for name, operators in covered.items():
        print(f"{name}: {len(operators)} built-in operators")
    print("not covered:", *sorted(set(dir(core)) - covered["values"] - covered["gradients"]))
    return 0


if __name__ == "__main__":
    totals.main(report)
