"""Graphs that Tenon compiles and runs as a whole, in TensorFlow: beside the same functions in TensorFlow's own operators, and finite differences."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-tensorflow-")
atexit.register(shutil.rmtree, FOLDER)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import numpy as np
import tensorflow as tf

import tenon
import tenon.tensorflow
import totals
from tensorflow_xla import compiles
from tenon.graph import ops
from torch_kinds import GELU

tenon.load(GELU)
rng = np.random.default_rng(7)
SHAPES = {"x": ["n", 4], "w": [4, 3]}


def numbers(*shape):
    return tf.constant(rng.standard_normal(shape), tf.float32)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def two_outputs():
    builder = tenon.graph.Builder()
    x, w = (builder.input(name, "f32", shape) for name, shape in SHAPES.items())
    product = ops.core.matmul(x, w)
    return builder.finish({"y": ops.core.gelu(product), "where": ops.core.arg_max(x), "product": product})


def theirs(x, w):
    return tf.nn.gelu(x @ w), tf.argmax(x, 0), x @ w


def one_output(output, **inputs):
    """A graph of one operator; inputs: dtypes and shapes."""
    builder = tenon.graph.Builder()
    return builder.finish([output(*(builder.input(name, *of) for name, of in inputs.items()))])


def saved(name, graph):
    path = os.path.join(FOLDER, name)
    graph.save(path)
    return path


def run(body):
    """Runs a program in a process of its own, and returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE])}
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


f = tenon.tensorflow.run(two_outputs())


def in_each_mode(function):
    return {"outside of graphs": function, "tf.function": tf.function(function), "XLA": tf.function(function, jit_compile=compiles())}


class Values(unittest.TestCase):
    def test_a_graph_is_a_function_in_each_mode(self):
        x, w = numbers(5, 4), numbers(4, 3)
        for mode, function in in_each_mode(f).items():
            with self.subTest(mode):
                y, where, product = function(x, w)
                close(y, tf.nn.gelu(x @ w))
                close(product, x @ w)
                self.assertEqual(where.numpy().ravel().tolist(), x.numpy().argmax(0).tolist())

    def test_gradients_are_those_of_tensorflow_and_of_finite_differences(self):
        x, w, v = numbers(5, 4), numbers(4, 3), numbers(5, 3)

        def gradients(function, x, w):
            with tf.GradientTape() as tape:
                tape.watch([x, w])
                y, _, product = function(x, w)
                loss = tf.reduce_sum(y * v) + tf.reduce_sum(product ** 2)
            return tape.gradient(loss, [x, w])
        expected = gradients(theirs, x, w)
        for mode, function in in_each_mode(lambda x, w: gradients(f, x, w)).items():
            with self.subTest(mode):
                for found, other in zip(function(x, w), expected):
                    close(found, other, 2e-5)
        step = 1e-2
        direction = numbers(5, 4)
        moved = [tf.reduce_sum(f(x + s * direction, w)[0] * v).numpy() for s in (step, -step)]
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(f(x, w)[0] * v)
        close(tf.reduce_sum(tape.gradient(loss, x) * direction), (moved[0] - moved[1]) / (2 * step), 5e-3)

    def test_gradients_that_share_memory_are_not_overwritten(self):
        # The gradients of the inputs of an addition share memory in Tenon; TensorFlow writes to memory of its own tensors that nothing else needs.
        add = tenon.tensorflow.run(one_output(lambda a, b: ops.core.tanh(ops.core.add(a, b)), a=("f32", ["n"]), b=("f32", ["n"])))

        @tf.function
        def both(a, b):
            da, db = tf.gradients(tf.reduce_sum(add(a, b)), [a, b])
            first = tf.exp(tf.negative(da))
            with tf.control_dependencies([first]):
                return first, tf.exp(db)
        a, b = numbers(1000), numbers(1000)
        slope = 1 - tf.tanh(a + b) ** 2
        found = both(a, b)
        close(found[0], tf.exp(-slope))
        close(found[1], tf.exp(slope))

    def test_outputs_that_are_inputs_or_constants_stay_as_they_are(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", ["n"])
        c = builder.constant(np.arange(64, dtype=np.float32), "c")
        g = tenon.tensorflow.run(builder.finish({"same": ops.core.identity(x), "first": ops.core.identity(c), "again": ops.core.identity(c)}))

        @tf.function
        def chain(x):
            same, c, again = g(x)
            return tf.exp(-same), tf.exp(-c), again
        x = numbers(64)
        for _ in range(3):
            made = chain(x)
            close(made[0], tf.exp(-x))
            close(made[1], np.exp(-np.arange(64)))
            close(made[2], np.arange(64))

    def test_the_gradient_of_an_input_that_is_not_used_is_zero(self):
        g = tenon.tensorflow.run(one_output(lambda a, b: ops.core.identity(a), a=("f32", [2]), b=("f32", [2])))
        a, b = numbers(2), numbers(2)
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            made = g(a, b)
        close(tape.gradient(made, [a, b])[1], [0, 0])

    def test_a_second_derivative_is_refused(self):
        x, w = numbers(2, 4), numbers(4, 3)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x, w)[0]
            slope = inner.gradient(y, x)
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "the gradient of a graph cannot be differentiated again"):
            outer.gradient(slope, x)

    def test_strings_and_whole_numbers(self):
        double = tenon.tensorflow.run(one_output(lambda x: ops.core.add(x, x), x=("i64", ["n"])))
        self.assertEqual(double([1, 2]).numpy().tolist(), [2, 4])
        same = tenon.tensorflow.run(one_output(ops.core.identity, x=("string", ["n"])))
        self.assertEqual(same(tf.constant(["a", "a long text of more than 22 bytes"])).numpy().tolist(), [b"a", b"a long text of more than 22 bytes"])

    def test_several_threads_run_one_graph(self):
        function, wrong = tf.function(f, reduce_retracing=True), []

        def work(seed):
            local = np.random.default_rng(seed)
            for n in range(1, 20):
                x, w = tf.constant(local.standard_normal((n, 4)), tf.float32), tf.constant(local.standard_normal((4, 3)), tf.float32)
                for call in (f, function):
                    if not np.allclose(call(x, w)[0], tf.nn.gelu(x @ w), atol=1e-5):
                        wrong.append((seed, n))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Shapes(unittest.TestCase):
    def test_shapes_are_those_that_the_graph_states(self):
        shapes = []

        @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([4, 3])])
        def unknown(x, w):
            y, where, _ = f(x, w)
            shapes.append((y.shape.as_list(), y.dtype))
            return y
        x, w = numbers(5, 4), numbers(4, 3)
        close(unknown(x, w), theirs(x, w)[0])
        close(unknown(x[:2], w), theirs(x[:2], w)[0])
        self.assertEqual(shapes, [([None, 3], tf.float32)])
        self.assertEqual(tf.function(f).get_concrete_function(x, w).structured_outputs[0].shape, [5, 3])

    def test_an_unknown_batch_is_compiled_by_xla(self):
        compiled = tf.function(lambda x, w: f(x, w)[0], jit_compile=compiles(), input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([4, 3])])
        w = numbers(4, 3)
        for n in (5, 2):
            x = numbers(n, 4)
            close(compiled(x, w), theirs(x, w)[0])

    def test_a_shape_that_the_graph_does_not_state_is_found_when_it_runs(self):
        g = tenon.tensorflow.run(one_output(lambda x, shape: ops.core.reshape(x, shape), x=("f32", None), shape=("i64", [1])))
        x = numbers(2, 3)
        close(g(x, [-1]), tf.reshape(x, [-1]))
        close(tf.function(g)(x, [-1]), tf.reshape(x, [-1]))
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "does not state the shape of an output in terms of its inputs, which XLA needs"):
            tf.function(g, jit_compile=compiles())(x, [-1])


class Errors(unittest.TestCase):
    def test_wrong_inputs_are_named(self):
        x, w = numbers(5, 4), numbers(4, 3)
        wrong = {r"expected 2 inputs \(x, w\), found 1": (x,), "input w: expected dtype float32, found int32": (x, tf.ones([4, 3], tf.int32)),
                 r"input x: expected shape \[n, 4\], found \[5, 3\]": (numbers(5, 3), w), r"input w: expected shape \[4, 3\], found \[12\]": (x, numbers(12))}
        for message, inputs in wrong.items():
            for function in (f, tf.function(f)):
                with self.subTest(message), self.assertRaisesRegex(tf.errors.InvalidArgumentError, message):
                    function(*inputs)

    def test_a_shape_that_turns_out_wrong_when_the_function_runs(self):
        loose = tf.function(f, input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None, None])])
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "x"):
            loose(numbers(5, 3), numbers(4, 3))

    def test_a_file_that_is_missing_or_damaged(self):
        with self.assertRaisesRegex(tf.errors.NotFoundError, "nothing.onnx"):
            tenon.tensorflow.run(os.path.join(FOLDER, "nothing.onnx"))
        path = saved("good.onnx", two_outputs())
        with open(path, "rb") as file:
            good = file.read()
        for size in (0, 7, len(good) // 2, len(good) - 1):
            damaged = os.path.join(FOLDER, "damaged.onnx")
            with open(damaged, "wb") as file:
                file.write(good[:size])
            with self.subTest(size), self.assertRaisesRegex(tf.errors.OpError, "damaged.onnx"):
                tenon.tensorflow.run(damaged)

    def test_damaged_nodes_are_errors(self):
        path, x = saved("nodes.onnx", two_outputs()), numbers(2, 4)

        def node(inputs, dtypes, path=path, **attributes):
            def call():
                from tensorflow.python.framework import op_def_library
                return op_def_library.apply_op("Tenon>Graph", inputs=inputs, Tout=dtypes, path=path, **{"grads": [], "given": 0, "requested": 0, "group": "", **attributes})
            return tf.function(call, autograph=False)
        wrong = {"the model has 2 inputs, and the call has 1": node([x], [tf.float32]), "the node has 1 outputs, and its graph has 3": node([x, x], [tf.float32]),
                 "gradients of inputs or outputs that the model does not have": node([x, x], [tf.float32], given=1 << 40, requested=1, grads=[x]),
                 "wrong numbers of gradients": node([x, x], [tf.float32], given=3, requested=1, grads=[x]), "not_there": node([x], [tf.float32], path="/not_there.onnx"),
                 "the node was made for": node([x, tf.ones([4, 3])], [tf.float64, tf.int64, tf.float32])}
        for message, call in wrong.items():
            with self.subTest(message), self.assertRaisesRegex(tf.errors.OpError, message):
                call()


class Files(unittest.TestCase):
    def test_a_model_of_onnx_with_an_operator_of_a_library(self):
        path = saved("it's a model.onnx", one_output(ops.demo.gelu, x=("f32", ["a", "b"])))
        g, x = tenon.tensorflow.run(path), numbers(3, 2)
        for mode, function in in_each_mode(g).items():
            with self.subTest(mode):
                close(function(x), tf.nn.gelu(x))

    def test_a_model_in_standard_operators(self):
        path = os.path.join(FOLDER, "standard.onnx")
        two_outputs().export(path)
        x, w = numbers(5, 4), numbers(4, 3)
        close(tenon.tensorflow.run(path)(x, w)[0], theirs(x, w)[0])

    def test_a_saved_model_needs_the_file_at_its_path(self):
        path = saved("kept.onnx", two_outputs())
        module = tf.Module()
        g = tenon.tensorflow.run(path)
        module.run = tf.function(lambda x, w: g(x, w)[0], input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([4, 3])])
        tf.saved_model.save(module, os.path.join(FOLDER, "saved"))
        x, w = numbers(2, 4), numbers(4, 3)
        np.savez(os.path.join(FOLDER, "case.npz"), x=x, w=w, y=theirs(x, w)[0])
        body = """
import numpy as np, tensorflow as tf, tenon.tensorflow
tenon.tensorflow.register("core")
case = np.load("case.npz")
loaded = tf.saved_model.load("saved")
try:
    w = tf.constant(case["w"])
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = loaded.run(case["x"], w)
    print(abs(y - case["y"]).numpy().max() < 1e-5, tape.gradient(y, w).shape)
except tf.errors.NotFoundError as error:
    print("kept.onnx" in str(error))
"""
        self.assertEqual(run(body).split(), ["True", "(4,", "3)"])
        os.rename(path, path + ".away")
        self.assertEqual(run(body).split(), ["True"])


if __name__ == "__main__":
    totals.main()
