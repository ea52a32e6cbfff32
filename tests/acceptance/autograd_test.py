"""Gradients against PyTorch's: every core operator that has one, in f64 to 1e-9 and in f32 against PyTorch's own error, on
several shapes with broadcasting, empty and strided inputs; second derivatives.

Cases are in gradient_cases*.py.  Kinks are left out as in tests/unit/autograd/cases.h."""
import os
import sys
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import gradient_cases
import gradient_cases_index
import gradient_cases_norms
import gradient_cases_sampling
import gradient_cases_sequence
import gradient_cases_spatial
from gradient_classes import WITHOUT, arguments, classes, float_names, operators
from gradients import CASES, TENSOR, Op, array_of, away, check, emptied, given, ints, lib, mapped, stepped, taken, tenon_gradients, torch_gradients, transposed, weights_of, without_data

FORMS = (np.array, transposed, stepped)
LEFT_OUT = {"dropout": "its mask is drawn; tests/unit/autograd/ops_test.c has differences for it",
            "matmul_nbits": "it takes no f64; tests/unit/ops/matmul_nbits_test.c compares its gradient with sums of doubles",
            **dict.fromkeys(("to_dense", "to_sparse"), "PyTorch's sparse tensors are not Tenon's; tests/unit/dispatch/sparse_test.c has their gradients")}
# Operators that are not pointwise and broadcast.
BROADCASTS = {"attention", "einsum", "gemm", "matmul"}
# Windows over an axis without elements are refused here, while PyTorch returns padding or nothing, so only the listed cases run.
# For groups without elements PyTorch's gradient of the scale is NaN; here it is an empty sum.
# Heads, gates, pairs and filters without elements are refused.
NOT_EMPTIED = {"attention", "average_pool", "causal_conv", "conv", "conv_transpose", "deform_conv", "deform_patches", "group_norm", "gru", "instance_norm", "linear_attention", "lp_pool", "lstm", "max_pool", "rnn", "rotary_embedding"}
SCALARS = {"range"}
# PyTorch has none of these either.
NO_SECOND = {"deform_conv", "deform_patches", "grid_sample"}
NEVER_EMPTY = {"range": "its inputs are single numbers", "space_to_depth": "PyTorch refuses"}


def extents_of(case):
    """Shapes of the inputs that are floats."""
    return [v.shape for a in case[3] if a is not None for v in (a if isinstance(a, list) else [a]) if v.dtype.kind == "f"]


def shapes_of(arrays):
    return [None if a is None else [v.shape for v in a] if isinstance(a, list) else a.shape for a in arrays]


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def agrees(self, case, arrays, weights, second, **tolerance):
        name, function, attrs, _, wanted = case
        found = tenon_gradients(name, attrs, arrays, wanted, weights, second)
        expected = torch_gradients(function, arrays, wanted, weights, second)
        for f, e in zip(found, expected):
            self.assertEqual(f.shape, e.shape)
            np.testing.assert_allclose(f, e, **tolerance)

    def test_f64_gradients_are_those_of_pytorch(self):
        for case in CASES:
            name, function, attrs, arrays, _ = case
            weights = weights_of(function, arrays)
            for form in FORMS:
                with self.subTest(op=name, attrs=attrs, shapes=shapes_of(arrays), form=form.__name__):
                    self.agrees(case, [mapped(a, form) for a in arrays], weights, False, rtol=1e-9, atol=1e-12)

    def test_f64_gradients_of_empty_inputs_have_their_shapes(self):
        for case in CASES:
            for empty in emptied(case) if case[0] not in NOT_EMPTIED else ():
                name, function, attrs, arrays, _ = empty
                with self.subTest(op=name, attrs=attrs, shapes=shapes_of(arrays)):
                    self.agrees(empty, arrays, weights_of(function, arrays), False, rtol=1e-9, atol=1e-12)

    def test_f32_gradients_are_as_exact_as_those_of_pytorch(self):
        for name, function, attrs, arrays, wanted in CASES:
            narrow = [mapped(a, lambda v: np.asarray(v, np.float32) if v.dtype == np.float64 else v) for a in arrays]
            wide = [mapped(a, lambda v: np.asarray(v, np.float64) if v.dtype == np.float32 else v) for a in narrow]
            weights = [None if w is None else w.astype(np.float32).astype(np.float64) for w in weights_of(function, wide)]
            with self.subTest(op=name, attrs=attrs, shapes=shapes_of(arrays)):
                found = tenon_gradients(name, attrs, narrow, wanted, weights, False)
                own = torch_gradients(function, narrow, wanted, weights, False)
                exact = torch_gradients(function, wide, wanted, weights, False)
                for f, o, e in zip(found, own, exact):
                    error, allowed = np.linalg.norm(f - e), 4 * np.linalg.norm(o - e) + 1e-6 * np.linalg.norm(e)
                    self.assertLessEqual(error, allowed)

    def test_second_derivatives_are_those_of_pytorch(self):
        done = set()
        for case in CASES:
            name, function, attrs, arrays, _ = case
            if name in NO_SECOND:
                continue
            with self.subTest(op=name, attrs=attrs, shapes=shapes_of(arrays)):
                self.agrees(case, arrays, weights_of(function, arrays), True, rtol=1e-9, atol=1e-11)
                done.add(name)
        self.assertGreaterEqual(len(done), 30)
        print(f"{len(done)} operators have second derivatives", file=sys.stderr)

    def test_batch_norm_is_trained_as_by_pytorch(self):
        """In training mode, batch_norm uses the mean and the variance of the batch, and gradients flow through both."""
        for shape in ((4, 3, 5, 2), (5, 3), (2, 3, 4)):
            x, scale, bias = away(shape), away((3,)), away((3,))
            axes, weights = ints(0, *range(2, x.ndim)), np.sin(1 + np.arange(x.size)).reshape(shape)
            leaves = [given(a) for a in (x, scale, bias)]
            for leaf in leaves:
                check(lib.tenon_tensor_require_grad(leaf, 1))
            (mean,), (kept,) = (Op("reduce_mean", {"keepdims": keep})([leaves[0], given(axes)]) for keep in (False, True))
            (centred,) = Op("sub", {})([leaves[0], kept])
            (var,) = Op("reduce_mean", {"keepdims": False})([*Op("mul", {})([centred, centred]), given(axes)])
            (out,), grads = Op("batch_norm", {})([*leaves, mean, var]), (TENSOR * 3)()
            check(lib.tenon_gradients(array_of(out), array_of(given(weights)), 1, array_of(*leaves), 3, 0, grads))
            expected = torch_gradients(lambda x, s, b: F.batch_norm(x, None, None, s, b, True), [x, scale, bias], [0, 1, 2], [weights], False)
            with self.subTest(shape=shape):
                for g, e in zip(grads, expected):
                    np.testing.assert_allclose(taken(g), e, rtol=1e-9, atol=1e-12)

    def test_every_operator_has_a_gradient_or_is_listed_with_the_reason(self):
        has, nothing, without = classes()
        self.assertEqual(without, set(WITHOUT))
        print(f"{len(has)} operators with a gradient, {len(nothing)} whose gradient is zero, {len(WITHOUT)} without", file=sys.stderr)

    def test_every_operator_with_a_gradient_has_a_case_or_is_left_out(self):
        has = {name for name in classes()[0] if not name.endswith(("_backward", "_second"))}
        here = {case[0] for case in CASES}
        self.assertEqual(has - here, set(LEFT_OUT))
        print(f"{len(here)} operators, {len(CASES)} cases", file=sys.stderr)

    def test_every_operator_has_three_shapes_with_an_empty_and_a_broadcast_one(self):
        ops = operators()
        shapes, empty, broadcast = {}, set(), set()
        for case in CASES:
            name, function, attrs, arrays, _ = case
            shapes.setdefault(name, set()).add(str(shapes_of(arrays)))
            empty |= {name} if " 0" in str(shapes_of(arrays)) or "(0" in str(shapes_of(arrays)) or name not in NOT_EMPTIED and any(emptied(case)) else set()
            broadcast |= {name} if len({s for s in extents_of(case)}) > 1 else set()
        several = {name for name in shapes if ops[name]["pointwise"] and len(float_names(ops[name]) & set(arguments(ops[name]["schema"])[0])) > 1}
        self.assertEqual({name for name in shapes if len(shapes[name]) < 3}, SCALARS)
        self.assertEqual(set(shapes) - empty, set(NEVER_EMPTY))
        self.assertEqual((several | BROADCASTS) - broadcast, set())

    def test_composite_operators_infer_shapes_without_data(self):
        results = {"attention": 1, "causal_conv": 2, "gru": 2, "linear_attention": 2, "lstm": 3, "rnn": 2, "rotary_embedding": 1}
        for name, _, attrs, arrays, _ in CASES:
            if name not in results:
                continue
            with self.subTest(op=name, attrs=attrs, shapes=shapes_of(arrays)):
                wanted = (1 << results[name]) - 1
                found = Op(name, attrs)([None if a is None else without_data(a) for a in arrays], wanted)
                expected = Op(name, attrs)([None if a is None else given(a) for a in arrays], wanted)
                for f, e in zip(found, expected):
                    self.assertEqual([f.contents.shape[i] for i in range(f.contents.ndim)], list(taken(e).shape))


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "adapters"))
    import totals

    totals.main()
