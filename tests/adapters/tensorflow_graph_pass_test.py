"""The graph pass: TensorFlow hands groups of pointwise nodes on the CPU to Tenon.

Values are those of TensorFlow before the pass was enabled, in the same process.  Run with .venv-tensorflow's Python.
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path.insert(0, os.path.join(BUILD, "python"))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

import totals

X = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
# Names and functions, which are traced before the pass is enabled, and again with it.
FUNCTIONS = {
    "a chain": lambda x: tf.tanh(tf.exp(x) * 2.0 + 1.0),
    "results in the middle": lambda x: [y := tf.exp(x) + x, z := tf.sin(y) * y, tf.reduce_sum(z, 0) + z[0]],
    "conditions": lambda x: tf.where((x > 0.2) & (x < 1.0), tf.exp(-x), tf.maximum(x, 0.1 * x)),
    "a path that leaves the group and comes back": lambda x: (lambda a: tf.exp(a) * tf.cumsum(a, 1) + tf.square(a))(tf.sin(x) + 1.0),
    "broadcasting": lambda x: tf.nn.relu6(x[:, :1] * x + x[0]) / (1.0 + tf.abs(x)),
    "f64": lambda x: tf.math.log1p(tf.square(tf.cast(x, tf.float64)) + 0.5) * tf.sqrt(tf.abs(tf.cast(x, tf.float64))) + 1.0,
    "gradients": lambda x: (lambda f: f)(tf.gradients(tf.reduce_sum(tf.tanh(x * x + 1.0) * tf.sigmoid(x)), x)),
    "a loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * 2.0 + 1.0), [0, x])[1],
    "no elements": lambda x: tf.exp(x[:0] * 2.0) + 1.0,
}


def traced(function):
    return tf.function(function, autograph=False)


def flat(made):
    return [np.asarray(t) for t in tf.nest.flatten(made)]


EXPECTED = {name: flat(traced(f)(tf.constant(X))) for name, f in FUNCTIONS.items()}
import tenon.tensorflow.graphs as tg

try:
    tg.report()
except RuntimeError as error:
    DISABLED = str(error)
tg.enable()


class Pass(unittest.TestCase):
    def test_results_are_those_without_the_pass(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                for found, expected in zip(flat(traced(function)(tf.constant(X))), EXPECTED[name], strict=True):
                    self.assertEqual(found.dtype, expected.dtype)
                    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)

    def took(self, function):
        """The nodes that the pass took from a graph: the first numbers of the line."""
        tg.report(clear=True)
        traced(function)(tf.constant(X))
        lines = tg.report()
        self.assertTrue(lines)
        return lines[0]

    def test_the_report_says_what_the_pass_took_and_why_it_left_the_rest(self):
        self.assertRegex(self.took(FUNCTIONS["a chain"]), "^graph of 8 nodes: took 4 in 1 groups; left 0 alone in their group, 0 groups that Tenon refused, and 4")
        self.assertRegex(self.took(FUNCTIONS["a path that leaves the group and comes back"]), "took [4-6] in [12] groups")
        self.assertRegex(self.took(FUNCTIONS["a loop"]), "took nothing: it has loops or branches")
        self.assertIn("call tenon.tensorflow.graphs.enable", DISABLED)

    def test_other_shapes_of_the_same_function_are_computed(self):
        f = tf.function(FUNCTIONS["a chain"], autograph=False, input_signature=[tf.TensorSpec(None, tf.float32)])
        for shape in ((), (3,), (2, 0), (4, 1, 6)):
            x = np.ones(shape, np.float32)
            np.testing.assert_allclose(f(tf.constant(x)).numpy(), np.tanh(np.exp(x) * 2 + 1), rtol=1e-6)

    def test_sessions_and_loaded_models_are_transformed(self):
        tg.report(clear=True)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [None, 7])
            found = session.run(FUNCTIONS["a chain"](x), {x: X})
        np.testing.assert_allclose(found, EXPECTED["a chain"][0], rtol=1e-6)
        self.assertRegex(tg.report(clear=True)[0], "took 3 in 1 groups")  # the last one is fetched by its name
        module = tf.Module()
        module.f = tf.function(FUNCTIONS["a chain"], autograph=False, input_signature=[tf.TensorSpec([None, 7])])
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
            found = tf.saved_model.load(folder).f(tf.constant(X))
        np.testing.assert_allclose(found.numpy(), EXPECTED["a chain"][0], rtol=1e-6)
        self.assertTrue(any("took 4 in 1 groups" in line for line in tg.report(clear=True)))

    def test_without_python_a_variable_names_the_library_and_another_prints_the_report(self):
        program = f"import tensorflow as tf; print(tf.function(lambda x: tf.tanh(tf.exp(x) * 2.0 + 1.0))(tf.zeros([3])).numpy()[0])"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={
            **os.environ, "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": os.path.join(BUILD, "libtenon_tensorflow_graph.so"), "TENON_TENSORFLOW_GRAPHS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertAlmostEqual(float(done.stdout), np.tanh(3), places=6)
        self.assertIn("tenon: graph of 7 nodes: took 4 in 1 groups", done.stderr.replace("graph of 8", "graph of 7"))


if __name__ == "__main__":
    totals.main(lambda: 0)
