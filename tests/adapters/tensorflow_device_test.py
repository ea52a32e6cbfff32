"""Tenon's devices as pluggable devices of TensorFlow: the plug-in libtenon_tensorflow_device.so.

Values are those of TensorFlow on the CPU, in the same process.  Run with .venv-tensorflow's Python.  TENON_TENSORFLOW_SEEDS and TENON_TENSORFLOW_STEPS set
how many seeds of delays and how many steps are tried.
"""
import ctypes
import gc
import glob
import os
import subprocess
import sys
import tempfile
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
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import totals
from tensorflow_device_share import loading

SEEDS = int(os.environ.get("TENON_TENSORFLOW_SEEDS", "2"))
STEPS = int(os.environ.get("TENON_TENSORFLOW_STEPS", "300"))
DEVICE = f"{KIND}:0"


LONG = ("test_a_network_", "test_a_transformer_", "test_a_residual_", "test_a_recurrent_", "test_random_delays_", "test_a_failure_", "test_running_out_", "test_steps_",
        "test_only_shapes_")
load_tests = loading(lambda test: test.id().split(".")[-1].startswith(LONG))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def network():
    keras.utils.set_random_seed(1)
    return keras.Sequential([
        keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu", padding="same"), keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(5)])


def transformer():
    keras.utils.set_random_seed(1)
    words = keras.layers.Input((6,), dtype="int32")
    x = keras.layers.Embedding(20, 16)(words) + keras.layers.Embedding(6, 16)(keras.ops.arange(6))
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 8)(x, x))
    inner = keras.layers.Dense(32, activation="gelu")(x)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(16)(inner))
    return keras.Model(words, keras.layers.Dense(20)(x))


def residual():
    keras.utils.set_random_seed(1)
    pixels = keras.layers.Input((8, 8, 1))
    x = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(pixels)
    inner = keras.layers.ReLU()(keras.layers.BatchNormalization()(keras.layers.DepthwiseConv2D(3, padding="same")(x)))
    x = keras.layers.AveragePooling2D(2)(x + keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3, padding="same")(inner)))
    return keras.Model(pixels, keras.layers.Dense(5)(keras.layers.GlobalAveragePooling2D()(x)))


def recurrent():
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.layers.Input((4, 3)), keras.layers.LSTM(6, return_sequences=True), keras.layers.GRU(5), keras.layers.Dense(5)])


def blocks():
    return residual(), *pictures()[1:]


def series():
    return recurrent(), tf.constant(numbers(16, 4, 3)), tf.constant(np.random.default_rng(1).integers(0, 5, size=16))


def pictures():
    return network(), tf.constant(numbers(32, 8, 8, 1)), tf.constant(np.random.default_rng(1).integers(0, 5, size=32))


def sentences():
    words = np.random.default_rng(1).integers(0, 20, size=(8, 6))
    return transformer(), tf.constant(words, dtype=tf.int32), tf.constant(np.roll(words, -1, axis=1))


def train(device, steps, task, optimizer, in_graph, inspect=lambda run: None):
    """Trains a network on a device.  Returns the losses and the weights.  `inspect` gets the function of a step."""
    with tf.device(device):
        model, x, y = task()
        rule = optimizer()
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step():
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            rule.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        run = tf.function(step) if in_graph else step
        losses = [run() for _ in range(steps)]
        inspect(run)
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
                tf.math.lgamma(tf.nn.softmax(x))
        self.assertEqual(dict(counts), {"SIM": {"Softmax": 1}, "CPU": {"Lgamma": 1}})

        @tf.function
        def find(x):
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.math.digamma(y)), [0, tf.math.lgamma(x @ x)])[1]
        with tf.device(DEVICE):
            self.assertEqual(td.left_on_cpu(find.get_concrete_function(tf.zeros([3, 3])), KIND), {"Lgamma": 1, "Digamma": 1})

    def test_a_dtype_without_a_kernel_runs_on_the_cpu_inside_of_the_kernel_and_is_counted(self):
        before = td.fallbacks().get("core::cast", 0)
        with tf.device(DEVICE):
            y = tf.cast(tf.constant([1, 2], tf.int64), tf.float64)
        self.assertEqual((y.numpy().tolist(), td.fallbacks()["core::cast"] - before), ([1.0, 2.0], 1))

    def test_a_second_call_of_enable_does_nothing_and_wrong_names_are_errors(self):
        self.assertEqual(td.enable("sim"), KIND)
        self.assertEqual(td.enabled(), {"sim": KIND})
        with self.assertRaisesRegex(RuntimeError, "only letters and '_'"):
            td.enable("npu2")
        with self.assertRaisesRegex(RuntimeError, "has no device"):
            td.enable("nowhere")


class Pages(unittest.TestCase):
    def test_the_page_of_operators_is_what_the_table_says(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "tensorflow_operators.py"), BUILD, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


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

    def test_reading_a_destroyed_variable_is_an_error(self):
        with tf.device(DEVICE):
            v = tf.Variable(1.0)
            tf.raw_ops.DestroyResourceOp(resource=v.handle)
            with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "Could not find variable"):
                v.read_value()


class Training(unittest.TestCase):
    def check(self, steps, task, optimizer, in_graph):
        expected, expected_weights = train("CPU:0", steps, task, optimizer, in_graph)
        found, weights = train(DEVICE, steps, task, optimizer, in_graph)
        self.assertLess(expected[-1], expected[0])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        for e, f in zip(expected_weights, weights):
            np.testing.assert_allclose(f, e, atol=1e-5)

    def test_a_network_follows_the_cpu_for_50_steps(self):
        # With a rate of 0.05 a change of the first weights by 3e-6 changes losses of the CPU itself by 1e-3.
        self.check(50, pictures, lambda: keras.optimizers.SGD(0.02, momentum=0.9), True)

    def test_a_network_follows_the_cpu_with_adam_step_by_step(self):
        self.check(10, pictures, lambda: keras.optimizers.Adam(1e-3), False)

    def test_a_transformer_follows_the_cpu_for_50_steps(self):
        self.check(50, sentences, lambda: keras.optimizers.SGD(0.02), True)

    def test_a_residual_network_follows_the_cpu_for_20_steps(self):
        self.check(20, blocks, lambda: keras.optimizers.SGD(0.02), True)

    def test_a_recurrent_network_follows_the_cpu_for_20_steps(self):
        self.check(20, series, lambda: keras.optimizers.SGD(0.05), True)

    def test_only_shapes_and_lists_of_the_steps_of_networks_stay_on_the_cpu(self):
        for task, left in ((pictures, {"Prod"}), (blocks, {"Prod"}), (sentences, {"Prod", "StridedSlice", "Pack"}), (series, {"Prod", "ZerosLike", "AddN"})):
            found = []
            with self.subTest(task.__name__):
                train(DEVICE, 1, task, lambda: keras.optimizers.Adam(1e-3), True, lambda run: found.append(td.left_on_cpu(run.get_concrete_function(), KIND)))
                self.assertEqual(set(found[0]), left)  # integers in host memory, and lists of tensors

    def test_the_step_of_a_network_runs_on_the_device(self):
        with tf.device(DEVICE), td.counting() as counts:
            train(DEVICE, 1, pictures, lambda: keras.optimizers.Adam(1e-3), True)
        for op in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "MaxPool", "MaxPoolGrad", "MatMul", "ReluGrad", "AssignSubVariableOp"):
            self.assertGreater(counts[KIND][op], 0, op)


def run(program, *arguments, **variables):
    """Runs a function of this file in a process of its own, with variables of the environment."""
    text = f"import sys; sys.argv = [{__file__!r}]; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); " \
        f"import tensorflow_device_test as t; t.{program}({', '.join(map(repr, arguments))})"
    return subprocess.run([sys.executable, "-c", text], env={**os.environ, **variables}, capture_output=True, text=True, timeout=600)


def print_steps():
    for task, in_graph in ((pictures, True), (sentences, True), (pictures, False)):
        losses, _ = train(DEVICE, 5, task, lambda: keras.optimizers.Adam(1e-3), in_graph)
        print(*losses)


def print_products():
    x = np.eye(3, dtype=np.float32) * 2
    with tf.device(DEVICE):
        for _ in range(4):
            try:
                print(float(tf.reduce_sum(tf.nn.relu(tf.constant(x) @ tf.constant(x))).numpy()))
            except tf.errors.OpError as error:
                print(type(error).__name__, str(error).replace("\n", " "))


def print_memory_errors():
    with tf.device(DEVICE):
        for _ in range(2):
            kept = [tf.ones([256, 256])]
            try:
                while True:
                    kept.append(kept[0] + 1.0)
            except tf.errors.ResourceExhaustedError as error:
                print("ResourceExhaustedError", str(error).replace("\n", " "))
            kept.clear()
            print(float(tf.reduce_sum(tf.ones([256, 256])).numpy()))


class Delays(unittest.TestCase):
    def test_random_delays_change_no_loss(self):
        expected = run("print_steps")
        self.assertEqual(expected.returncode, 0, expected.stderr[-2000:])
        for seed in range(1, SEEDS + 1):
            with self.subTest(seed=seed):
                found = run("print_steps", TENON_SIM=f"delay=200,seed={seed}")
                self.assertEqual(found.returncode, 0, found.stderr[-2000:])
                self.assertEqual(found.stdout, expected.stdout)


class Failures(unittest.TestCase):
    def test_a_failure_of_the_device_is_an_error_of_tensorflow_and_the_next_step_works(self):
        for settings, expected in (("fault=1", "InternalError .*fails because a setting says so"),
                                   ("fault=3", "InternalError .*core::matmul failed on sim:0"),
                                   ("fault=6", "InternalError .*fails because a setting says so"),
                                   ("fail=launch:2", "UnavailableError .*fails because a setting says so"),
                                   ("fail=copy:2", "UnavailableError .*fails because a setting says so"),
                                   ("fail=copy:3", "UnavailableError .*fails because a setting says so")):
            with self.subTest(settings=settings):
                done = run("print_products", TENON_SIM=settings)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                first, *rest = done.stdout.splitlines()
                self.assertRegex(first, expected)
                self.assertEqual(rest, ["12.0"] * 3)

    def test_running_out_of_memory_is_an_error_of_tensorflow_and_the_next_step_works(self):
        done = run("print_memory_errors", TENON_SIM="memory=8388608")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        lines = done.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["ResourceExhaustedError", "65536.0"] * 2, done.stdout)


class Memory(unittest.TestCase):
    def live(self):
        """The allocations of the device that are alive."""
        stats = (ctypes.c_uint64 * 16)()
        ctypes.cast(stats, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(stats) - 16  # the first field of tenon_memory_stats_t is its size
        device = (ctypes.c_int32 * 2)()
        self.assertEqual(self.library.tenon_device_find(b"sim", 0, device), 0)
        self.library.tenon_memory_stats.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        packed = ctypes.cast(device, ctypes.POINTER(ctypes.c_uint64))[0]
        self.assertEqual(self.library.tenon_memory_stats(packed, stats), 0)
        return stats[1]

    def test_steps_leave_the_memory_of_the_device_and_of_the_process_as_it_was(self):
        self.library = ctypes.CDLL(td.adapter("tensorflow_device"))
        with tf.device(DEVICE):
            weights, x = tf.Variable(np.eye(8, dtype=np.float32)), tf.constant(numbers(4, 8))

            @tf.function
            def step():
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((x @ weights - 1.0) ** 2)
                weights.assign_sub(0.01 * tape.gradient(loss, weights))
                return loss

            def steps(count):
                for i in range(count):
                    loss = step()
                    if i % 10 == 0:
                        loss.numpy()
                        tf.Variable(loss)  # forgotten at once
                loss.numpy()
                gc.collect()
                tf.Variable(0.0)  # the values of forgotten variables are dropped when a variable is made
                return self.live(), resident()
            live, size = steps(200)
            live_then, size_then = steps(STEPS)
        self.assertLessEqual(live_then, live + 4)
        self.assertLess(size_then - size, 4 << 20)


class Profiler(unittest.TestCase):
    def test_the_profiler_shows_the_kernels_of_the_device_with_their_times(self):
        with tempfile.TemporaryDirectory() as folder, tf.device(DEVICE):
            x = tf.ones([8, 8])
            (x @ x).numpy()
            tf.profiler.experimental.start(folder)
            for _ in range(3):
                y = tf.nn.softmax(x @ x)
            y.numpy()
            tf.profiler.experimental.stop()
            planes = {}
            for path in glob.glob(folder + "/**/*.xplane.pb", recursive=True):
                space = xplane_pb2.XSpace()
                with open(path, "rb") as file:
                    space.ParseFromString(file.read())
                planes.update({plane.name: plane for plane in space.planes})
        plane = planes[f"/device:{KIND}:0"]
        events = sorted((e.offset_ps, plane.event_metadata[e.metadata_id].name, e.duration_ps) for e in plane.lines[0].events)
        self.assertEqual([name for _, name, _ in events], ["MatMul", "Softmax"] * 3)
        self.assertTrue(all(duration > 0 for _, _, duration in events), events)


OPENCL = """
import sys
import tenon.tensorflow.device as td
try:
    kind = td.enable("opencl")
except RuntimeError as error:
    sys.exit("no device: " + str(error) if "has no device" in str(error) else str(error))
import numpy as np, tensorflow as tf, tenon.tensorflow
core = tenon.tensorflow.register("core")
x, w = np.random.default_rng(1).normal(size=(2, 2, 6, 6, 3)).astype("f")[0], np.random.default_rng(2).normal(size=(3, 3, 3, 4)).astype("f")
results = []
for device in ("CPU:0", kind + ":0"):
    with tf.device(device), td.counting() as counts:
        v = tf.Variable(w)
        losses = []
        for _ in range(5):
            with tf.GradientTape() as tape:
                y = core.softmax(tf.einsum("nc,cd->nd", tf.reduce_mean(tf.nn.conv2d(tf.constant(x), v, 1, "SAME"), [1, 2]), tf.constant(w[0, 0].T @ w[0, 0])))
                loss = tf.reduce_mean((y - 0.5) ** 2)
            v.assign_sub(0.1 * tape.gradient(loss, v))
            losses.append(loss.numpy())
    results.append(losses + [v.numpy()])
for expected, found in zip(*results):
    np.testing.assert_allclose(found, expected, atol=1e-5)
print(*(counts[kind][op] for op in ("Conv2D", "Einsum", "Tenon>Core>Softmax", "AssignSubVariableOp")))
"""


class OpenCL(unittest.TestCase):
    def test_steps_on_opencl_follow_the_cpu(self):
        done = subprocess.run([sys.executable, "-c", OPENCL], capture_output=True, text=True, timeout=600, env={
            **os.environ, "LD_BIND_NOW": "1", "PYTHONPATH": os.path.join(BUILD, "python")})
        if done.returncode and "no device:" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(done.stdout.split(), ["5", "15", "5", "5"])


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    totals.main(lambda: 0)
