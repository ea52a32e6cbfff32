"""Layers of Keras that call Tenon's operators: training, saving, loading in a new process, mixed precision."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-keras-")
atexit.register(shutil.rmtree, FOLDER)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import keras
import numpy as np
import tensorflow as tf

import tenon
import tenon.keras
import totals
from tensorflow_xla import compiles

LIBRARY = os.path.join(FOLDER, "ten.so")
subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "tests", "libraries", "hosts", "ten.c"), "-o", LIBRARY], check=True, stdout=subprocess.DEVNULL)
tenon.load(LIBRARY)
rng = np.random.default_rng(3)
X = rng.standard_normal((64, 6)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True)).astype(np.float32)


def network(jit):
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((6,)), tenon.keras.layer("ten::layer", weights={"weight": (None, 8), "bias": (8,)}), tenon.keras.layer("core::gelu", approximate="tanh"),
                              tenon.keras.layer("ten::affine", weights={"gain": ((8,), "ones"), "bias": (8,)}, extra=0.25), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=jit and compiles())
    return model


def own(jit):
    """The same network in Keras' own layers."""
    keras.utils.set_random_seed(5)

    class Scale(keras.layers.Layer):
        def build(self, shape):
            self.gain = self.add_weight(shape=(8,), initializer="ones")
            self.bias = self.add_weight(shape=(8,), initializer="zeros")

        def call(self, x):
            return x * self.gain + self.bias + 0.25
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Activation(lambda x: keras.activations.gelu(x, approximate=True)), Scale(), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=jit and compiles())
    return model


class Layers(unittest.TestCase):
    def test_training_equals_that_of_keras_own_layers(self):
        for jit in (False, True):
            with self.subTest(jit_compile=jit):
                model, other = network(jit), own(jit)
                other.set_weights(model.get_weights())
                losses = [m.fit(X, Y, batch_size=16, epochs=3, shuffle=False, verbose=0).history["loss"] for m in (model, other)]
                np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
                self.assertLess(losses[0][-1], losses[0][0])

    def test_a_saved_model_continues_in_a_new_process_with_the_same_loss(self):
        model = network(False)
        model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        model.save(os.path.join(FOLDER, "model.keras"))
        np.savez(os.path.join(FOLDER, "data.npz"), x=X, y=Y)
        expected = [model.evaluate(X, Y, verbose=0), *model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]]
        program = """
            import keras, numpy as np, tenon, tenon.keras
            tenon.load("./ten.so")
            model, data = keras.saving.load_model("model.keras"), np.load("data.npz")
            found = [model.evaluate(data["x"], data["y"], verbose=0), *model.fit(data["x"], data["y"], batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]]
            np.save("losses.npy", found)
        """
        env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_allclose(np.load(os.path.join(FOLDER, "losses.npy")), expected, rtol=1e-6)

    def test_a_model_without_its_library_names_the_operator(self):
        network(False).save(os.path.join(FOLDER, "alone.keras"))
        env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        done = subprocess.run([sys.executable, "-c", "import keras, tenon.keras\nkeras.saving.load_model('alone.keras')"], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "needs the operator ten::layer: load its library with tenon.load first")

    def test_a_saved_model_of_tensorflow_serves_every_batch(self):
        model = network(False)
        model.export(os.path.join(FOLDER, "exported"))
        loaded = tf.saved_model.load(os.path.join(FOLDER, "exported"))
        for rows in (1, 7):
            np.testing.assert_allclose(loaded.serve(X[:rows]), model(X[:rows]), rtol=1e-6, atol=1e-6)

    def test_mixed_precision(self):
        layer = tenon.keras.layer("core::gelu", dtype="mixed_float16")
        made = layer(X)
        self.assertEqual(made.dtype, tf.float16)
        np.testing.assert_allclose(made, tf.nn.gelu(X), rtol=1e-2, atol=1e-2)
        dense = tenon.keras.layer("core::matmul", weights={"b": (None, 4)}, dtype="mixed_bfloat16")
        self.assertEqual((dense(X).dtype, dense.weights[0].dtype), (tf.bfloat16, "float32"))

    def test_layers_with_several_inputs_and_with_lists(self):
        a, b = keras.Input((3,)), keras.Input((3,))
        model = keras.Model([a, b], [tenon.keras.layer("core::add")(a, b), tenon.keras.layer("core::concat", axis=1)([a, b])])
        p, q = X[:, :3], X[:, 3:]
        total, joined = model([p, q])
        np.testing.assert_allclose(total, p + q)
        np.testing.assert_allclose(joined, X)

    def test_random_layers_draw_other_numbers_in_each_call(self):
        if keras.__version__ < "3":
            with self.assertRaisesRegex(ImportError, "ten::jitter draws random numbers, for which tenon.keras needs Keras 3"):
                tenon.keras.layer("ten::jitter", seed=3, by=1.0)
            return
        layer = tenon.keras.layer("ten::jitter", seed=3, by=1.0)
        first, second = layer(X).numpy(), layer(X).numpy()
        self.assertTrue((first != second).any())
        again = tenon.keras.Operator.from_config(layer.get_config())
        np.testing.assert_array_equal(again(X), first)

    def test_wrong_layers_are_named(self):
        for message, make in {"needs the operator ten::nothing: load its library": lambda: tenon.keras.layer("ten::nothing"),
                              "core::gelu has no attribute 'foo'": lambda: tenon.keras.layer("core::gelu", foo=1),
                              "core::gelu has no tensor argument 'w'; there are: x": lambda: tenon.keras.layer("core::gelu", weights={"w": (1,)}),
                              "ten::accumulate_ writes to its inputs": lambda: tenon.keras.layer("ten::accumulate_")}.items():
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                make()


if __name__ == "__main__":
    totals.main()
