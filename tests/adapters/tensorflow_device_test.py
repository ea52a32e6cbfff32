"""Tenon's devices as pluggable devices of TensorFlow: the plug-in libtenon_tensorflow_device.so.

Values are those of TensorFlow on the CPU, in the same process.  Run with .venv-tensorflow's Python.  TENON_TENSORFLOW_SEEDS and TENON_TENSORFLOW_STEPS set
how many seeds of delays and how many steps are tried.
"""
import ctypes
import gc
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path.insert(0, os.path.join(BUILD, "python"))
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tenon.tensorflow.device as td

KIND = td.enable("sim")
import keras
import numpy as np
import tensorflow as tf

import totals

SEEDS = int(os.environ.get("TENON_TENSORFLOW_SEEDS", "2"))
STEPS = int(os.environ.get("TENON_TENSORFLOW_STEPS", "300"))
DEVICE = f"{KIND}:0"


class Sim(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("set", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p))]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def network():
    keras.utils.set_random_seed(1)
    return keras.Sequential([
        keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu", padding="same"), keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(5)])


def train(device, steps, optimizer, in_graph):
    """Trains the network on a device.  Returns the losses and the weights."""
    pictures, labels = numbers(32, 8, 8, 1), np.random.default_rng(1).integers(0, 5, size=32)
    with tf.device(device):
        model, rule = network(), optimizer()
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        x, y = tf.constant(pictures), tf.constant(labels)

        def step():
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            rule.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        run = tf.function(step) if in_graph else step
        losses = [run() for _ in range(steps)]
        return np.array([float(loss) for loss in losses]), [v.numpy() for v in model.trainable_variables]


class Devices(unittest.TestCase):
    def test_tensorflow_lists_the_ordinals_and_places_tensors_on_them(self):
        self.assertEqual([d.name for d in tf.config.list_physical_devices(KIND)], ["/physical_device:SIM:0", "/physical_device:SIM:1"])
        for ordinal in (0, 1):
            with tf.device(f"{KIND}:{ordinal}"):
                x = tf.constant(numbers(3, 4))
                y = x @ tf.transpose(x)
            self.assertIn(f"{KIND}:{ordinal}", y.device)
            np.testing.assert_allclose(y.numpy(), numbers(3, 4) @ numbers(3, 4).T, rtol=1e-5)

    def test_tensors_move_between_ordinals(self):
        with tf.device(f"{KIND}:0"):
            x = tf.constant(numbers(5))
        with tf.device(f"{KIND}:1"):
            y = tf.identity(x) * 2.0
        self.assertIn(f"{KIND}:1", y.device)
        np.testing.assert_array_equal(y.numpy(), numbers(5) * 2)

    def test_what_tenon_lacks_runs_on_the_cpu_and_is_counted(self):
        with tf.device(DEVICE):
            x = tf.constant(numbers(3, 4))
            with td.counting() as counts:
                tf.math.cumsum(tf.nn.softmax(x))
        self.assertEqual(dict(counts), {"SIM": {"Softmax": 1}, "CPU": {"Cumsum": 1}})

        @tf.function
        def find(x):
            return tf.argmax(x @ x, axis=1)
        with tf.device(DEVICE):
            self.assertEqual(td.left_on_cpu(find.get_concrete_function(tf.zeros([3, 3])), KIND), {"ArgMax": 1})

    def test_a_second_call_of_enable_does_nothing_and_wrong_names_are_errors(self):
        self.assertEqual(td.enable("sim"), KIND)
        self.assertEqual(td.enabled(), {"sim": KIND})
        with self.assertRaisesRegex(RuntimeError, "only letters and '_'"):
            td.enable("npu2")
        with self.assertRaisesRegex(RuntimeError, "has no device"):
            td.enable("nowhere")


class Variables(unittest.TestCase):
    def test_a_value_that_was_read_does_not_change_when_the_variable_does(self):
        with tf.device(DEVICE):
            v = tf.Variable(numbers(4))
            before = v.read_value()
            v.assign_add(tf.ones(4))
            v.assign_sub(tf.constant(3.0) * tf.ones(4))
        self.assertIn(KIND, v.device)
        np.testing.assert_array_equal(before.numpy(), numbers(4))
        np.testing.assert_array_equal(v.numpy(), numbers(4) + 1 - 3)

    def test_updates_by_rows_and_gathers_are_those_of_the_cpu(self):
        results = []
        for device in ("CPU:0", DEVICE):
            with tf.device(device):
                v = tf.Variable(numbers(6, 2))
                rows = tf.IndexedSlices(tf.constant(numbers(3, 2)), tf.constant([1, 4, 1]))
                v.scatter_add(rows)
                v.scatter_sub(rows)
                v.scatter_add(rows)
                results.append((v.numpy(), tf.gather(v, [5, 1]).numpy(), tf.shape(v).numpy()))
        for expected, found in zip(*results):
            np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_a_variable_that_python_forgets_gives_its_memory_back(self):
        def fill():
            with tf.device(DEVICE):
                kept = [tf.Variable(tf.zeros([1 << 18])) for _ in range(4)]
            return len(kept)
        fill()
        gc.collect()
        before = None
        for _ in range(60):  # 240 MiB in all
            fill()
            gc.collect()
            used = tf.config.experimental.get_memory_info(DEVICE)["current"] if before else 0
            before = before or max(used, 1)
        with tf.device(DEVICE):
            last = tf.Variable(0.0)
        self.assertEqual(last.numpy(), 0)

    def test_reading_a_destroyed_variable_is_an_error(self):
        with tf.device(DEVICE):
            v = tf.Variable(1.0)
            tf.raw_ops.DestroyResourceOp(resource=v.handle)
            with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "Could not find variable"):
                v.read_value()


class Training(unittest.TestCase):
    def check(self, steps, optimizer, in_graph):
        expected, expected_weights = train("CPU:0", steps, optimizer, in_graph)
        found, weights = train(DEVICE, steps, optimizer, in_graph)
        self.assertLess(expected[-1], expected[0])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        for e, f in zip(expected_weights, weights):
            np.testing.assert_allclose(f, e, atol=1e-5)

    def test_a_network_follows_the_cpu_for_50_steps(self):
        self.check(50, lambda: keras.optimizers.SGD(0.05, momentum=0.9), True)

    def test_a_network_follows_the_cpu_with_adam_step_by_step(self):
        self.check(10, lambda: keras.optimizers.Adam(1e-3), False)


if __name__ == "__main__":
    totals.main(lambda: 0)
