"""Arguments of the functions for JAX: lists of arrays, Python numbers that shapes depend on, and what gradient formulas do with them."""
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
import totals

core = tenon.jax.register("core")
x = np.arange(6, dtype=np.float32).reshape(2, 3)


def gradient(function):
    """The gradient of the sum of the results' squares."""
    return np.asarray(jax.jit(jax.grad(lambda x: jnp.sum(function(x) ** 2)))(x))


class Arguments(unittest.TestCase):
    def test_a_list_of_arrays_reaches_the_operator(self):
        found = jax.jit(lambda a, b: core.concat([a, b, a], axis=1))(x, x[:, :1])
        np.testing.assert_array_equal(found, np.concatenate([x, x[:, :1], x], 1))

    def test_an_empty_shape_is_a_list_of_integers(self):
        self.assertEqual(jax.jit(lambda x: core.sum_to(x, ()))(x), x.sum())

    def test_gradients_know_the_numbers_that_the_call_was_given(self):
        np.testing.assert_allclose(gradient(lambda x: core.reduce_sum(x, (1,), keepdims=False)), gradient(lambda x: x.sum(1)))
        np.testing.assert_allclose(gradient(lambda x: core.cum_sum(x, 1)), gradient(lambda x: x.cumsum(1)))
        np.testing.assert_allclose(gradient(lambda x: core.unsqueeze(x, (0, -1))), gradient(lambda x: x))

    def test_numbers_in_formulas_have_the_dtype_of_the_gradient(self):
        places = np.array([[1, 0], [2, 2]])
        np.testing.assert_allclose(gradient(lambda x: core.gather_elements(x, places, axis=1)), gradient(lambda x: jnp.take_along_axis(x, places, 1)))

    def test_formulas_read_shapes_of_results_and_parts_of_shapes(self):
        np.testing.assert_allclose(gradient(lambda x: core.global_max_pool(x[None])), gradient(lambda x: x.max(1)))
        patches = lambda x: core.col2im_backward(x[None, None], (1, 4, 2), (2, 2))  # noqa: E731
        np.testing.assert_allclose(gradient(patches), gradient(lambda x: jnp.stack([x[0, :2], x[0, 1:], x[1, :2], x[1, 1:]])))

    def test_operators_without_formulas_have_forward_derivatives(self):
        """causal_conv declares no gradient, and neither do the operators that compute the gradients of tile and of matmul."""
        w = np.arange(4.0).reshape(2, 1, 2)
        for function in (lambda x: core.causal_conv(x[None], w)[0], lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(core.tile(x, (2, 2)))))(x),
                         lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(core.matmul(x, x[:, :2]))))(x[:, 1:])):
            numbers, step = x.astype(np.float64) / 7, 1e-6
            tangent = jax.jit(lambda x, f=function: jax.jvp(f, (x,), (jnp.cos(x),))[1])(numbers)
            moved = [jax.jit(function)(numbers + sign * step * np.cos(numbers)) for sign in (1, -1)]
            np.testing.assert_allclose(tangent, (moved[0] - moved[1]) / (2 * step), rtol=1e-6, atol=1e-8)
            doubled = jax.jit(lambda x, f=function: jax.grad(lambda x: jnp.sum(jax.jvp(f, (numbers,), (x,))[1] ** 2))(x))(numbers)
            pulled = jax.jit(lambda x, f=function: jax.vjp(f, numbers)[1](2 * jax.jvp(f, (numbers,), (x,))[1])[0])(numbers)
            np.testing.assert_allclose(doubled, pulled, rtol=1e-9, atol=1e-12)

    def test_integers_beyond_those_of_jax_stand_for_the_end_of_an_axis(self):
        with jax.enable_x64(False):
            np.testing.assert_array_equal(jax.jit(lambda x: core.slice(x, (1,), (2**63 - 1,), (1,)))(x), x[:, 1:])
            np.testing.assert_allclose(gradient(lambda x: core.cum_sum(x, 1)), gradient(lambda x: x.cumsum(1)), rtol=1e-6)  # its formula has such numbers

    def test_numbers_have_derivatives_without_jit(self):
        self.assertAlmostEqual(float(jax.grad(jax.grad(core.sin))(1.0)), -np.sin(1))

    def test_a_call_is_not_transposed(self):
        with self.assertRaisesRegex(tenon.UnimplementedError, "use jax.vjp"):
            jax.linear_transpose(lambda x: core.reduce_sum(x, (1,)), x)(x[:, :1])

    def test_a_number_gets_the_dtype_of_the_arrays_that_are_no_conditions(self):
        np.testing.assert_array_equal(jax.jit(lambda x: core.where(x > 2, x, 0.5))(x), np.where(x > 2, x, np.float32(0.5)))

    def test_attributes_may_be_arrays_whose_elements_are_known(self):
        axis = jnp.array(0)
        np.testing.assert_allclose(core.softmax(x, axis=axis), jax.nn.softmax(x, 0), rtol=1e-6)

    def test_optional_attributes_that_are_tensors_can_be_omitted(self):
        np.testing.assert_array_equal(jax.jit(lambda: core.constant_of_shape((2, 3)))(), np.zeros((2, 3), np.float32))


if __name__ == "__main__":
    totals.main()
