"""Models with Tenon's operators outside of the process that made them: SavedModels in a new process, and in a C program without Python."""
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
FOLDER = tempfile.mkdtemp(prefix="tenon-tensorflow-")
atexit.register(shutil.rmtree, FOLDER)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import numpy as np
import tensorflow as tf

import tenon
import tenon.tensorflow
import totals

LIBRARY = os.path.join(FOLDER, "ten.so")
subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "tests", "libraries", "hosts", "ten.c"), "-o", LIBRARY], check=True, stdout=subprocess.DEVNULL)
ten = tenon.tensorflow.register(tenon.load(LIBRARY))
core = tenon.tensorflow.register("core")
MODEL, WITH_GRAPH, GRAPH = os.path.join(FOLDER, "model"), os.path.join(FOLDER, "with_graph"), os.path.join(FOLDER, "graph.onnx")
X = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32))
        self.bias = tf.Variable(tf.ones([4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x):
        y = ten.layer(x, self.weight, self.bias)
        y = core.concat([ten.affine(y, None, self.bias, extra=0.5), ten.smooth(y, width=5)], axis=1)
        return core.gelu(core.reshape(ten.wave(y, tf.constant(2.0)), [-1, 8]), approximate="tanh")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def slope(self, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = self(x)
        return tape.gradient(y, x)


class WithGraph(tf.Module):
    """A model with a graph that Tenon compiles, in a file."""

    def __init__(self):
        super().__init__()
        builder = tenon.graph.Builder()
        x, w = builder.input("x", "f32", ["n", 3]), builder.constant(np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8), "w")
        builder.finish([tenon.graph.ops.core.matmul(x, w)]).save(GRAPH)
        self.graph, self.scale = tenon.tensorflow.run(GRAPH), tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x):
        return self.scale * self.graph(x)


network = Network()
tf.saved_model.save(network, MODEL, signatures=network.__call__.get_concrete_function())
EXPECTED, SLOPE = network(X).numpy(), network.slope(X).numpy()
np.save(os.path.join(FOLDER, "x.npy"), X)


def run(body):
    """Runs a program in a process of its own, and returns the finished process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), "FOLDER": FOLDER}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(body)], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)


class SavedModels(unittest.TestCase):
    def test_a_model_is_loaded_in_a_new_process(self):
        done = run("""
            import numpy as np, tensorflow as tf, tenon, tenon.tensorflow
            tenon.tensorflow.register(tenon.load("./ten.so"))
            tenon.tensorflow.register("core")
            model, x = tf.saved_model.load("model"), np.load("x.npy")
            np.save("y.npy", model(x))
            np.save("slope.npy", model.slope(x))
            with tf.GradientTape() as tape:
                tape.watch(t := tf.constant(x))
                y = model(t)
            np.save("outer.npy", tape.gradient(y, t))
            print(model.__call__.concrete_functions[0].output_shapes)
        """)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_array_equal(np.load(os.path.join(FOLDER, "y.npy")), EXPECTED)
        np.testing.assert_array_equal(np.load(os.path.join(FOLDER, "slope.npy")), SLOPE)
        np.testing.assert_allclose(np.load(os.path.join(FOLDER, "outer.npy")), SLOPE, rtol=1e-6, atol=1e-6)
        self.assertIn("(None, 8)", done.stdout)

    def test_a_process_without_the_library_says_which_operator_is_missing(self):
        done = run("""
            import tensorflow as tf, tenon.tensorflow
            tenon.tensorflow.register("core")
            tf.saved_model.load("model")
        """)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "Op type not registered 'Tenon>Ten>")


    def test_loading_by_tenon_registers_what_the_model_needs(self):
        done = run("""
            import numpy as np, tensorflow as tf, tenon, tenon.tensorflow
            tenon.load("./ten.so")
            model, x = tenon.tensorflow.load("model"), np.load("x.npy")
            np.save("y.npy", model(x))
            np.save("slope.npy", model.slope(x))
        """)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_array_equal(np.load(os.path.join(FOLDER, "y.npy")), EXPECTED)
        np.testing.assert_array_equal(np.load(os.path.join(FOLDER, "slope.npy")), SLOPE)

    def test_loading_by_tenon_names_everything_that_is_missing(self):
        older = os.path.join(FOLDER, "older.c")
        with open(older, "w", encoding="utf-8") as file:
            file.write("""#include <tenon/op.h>
                static tenon_status_t wave(tenon_call_t *c) { return c ? TENON_OK : TENON_INVALID; }
                TENON_LIBRARY(ten, "0.1.0", TENON_OP("wave(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", wave)))""")
        done = run("""
            import tensorflow as tf, tenon, tenon.tensorflow
            for path in "model", "nothing":
                try:
                    tenon.tensorflow.load(path)
                except tf.errors.NotFoundError as error:
                    print(error.message)
            tenon.load("./older.c")
            try:
                tenon.tensorflow.load("model")
            except tf.errors.NotFoundError as error:
                print(error.message)
        """)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertRegex(done.stdout, "model needs what is missing here:\n  Tenon>Ten>Affine, .*Tenon>Ten>Wave.*: no library with these operators is loaded: call tenon.load with it")
        self.assertRegex(done.stdout, "ten::layer: no library with this operator is loaded: call tenon.load with it")
        self.assertRegex(done.stdout, "nothing is no SavedModel that can be read")
        self.assertRegex(done.stdout, "Tenon>Ten>Affine, [^\n]*: the library that is loaded does not have them: load the version with which the model was saved")

    def test_loading_by_tenon_finds_the_files_of_graphs(self):
        path = os.path.join(FOLDER, "moved")
        with_graph = WithGraph()
        tf.saved_model.save(with_graph, path)
        program = """
            import numpy as np, tensorflow as tf, tenon.tensorflow
            print(tenon.tensorflow.load("moved")(np.ones([1, 3], np.float32)).numpy().tolist())
        """
        done = run(program)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertEqual(done.stdout.strip(), str(with_graph(np.ones([1, 3], np.float32)).numpy().tolist()))
        os.rename(GRAPH, GRAPH + ".away")
        done = run(program)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "moved needs what is missing here:\n  the graph .*graph.onnx, which a node runs: put the file there")


def compiled():
    """Builds the C program."""
    program, package = os.path.join(FOLDER, "deploy"), os.path.dirname(tf.__file__)
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", os.path.join(HERE, "tensorflow_deploy.c"), "-I" + os.path.join(ROOT, "include"), "-isystem", tf.sysconfig.get_include(), "-L" + BUILD, "-L" + package,
               "-ltenon_tensorflow", "-ltenon", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{BUILD}:{package}", "-o", program]
    subprocess.run(command, check=True)
    return program


@unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = compiled()
        X.tofile(os.path.join(FOLDER, "x.bin"))

    def run_model(self, *more, library=LIBRARY, model=MODEL):
        result = os.path.join(FOLDER, "result.bin")
        done = subprocess.run([self.program, model, os.path.join(FOLDER, "x.bin"), result, library, *more], capture_output=True, text=True, timeout=300)
        return done, np.fromfile(result, np.float32).reshape(-1, 8) if done.returncode == 0 else None

    def test_a_model_runs_after_the_library_was_loaded_by_tenon(self):
        done, found = self.run_model()
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_array_equal(found, EXPECTED)

    def test_a_model_runs_after_tf_load_library(self):
        done, found = self.run_model(os.path.join(BUILD, "libtenon_tensorflow_ops.so"))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_array_equal(found, EXPECTED)

    def test_a_graph_runs_from_the_file_at_its_path(self):
        with_graph = WithGraph()
        tf.saved_model.save(with_graph, WITH_GRAPH, signatures=with_graph.__call__.get_concrete_function())
        done, found = self.run_model(model=WITH_GRAPH)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        np.testing.assert_allclose(found, 2 * X @ np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8), rtol=1e-6, atol=1e-6)
        os.rename(GRAPH, GRAPH + ".away")
        done, _ = self.run_model(model=WITH_GRAPH)
        self.assertEqual(done.returncode, 1)
        self.assertIn("graph.onnx", done.stderr)

    def test_a_missing_library_is_named(self):
        done, _ = self.run_model(library="/nowhere/ten.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tenon_tensorflow_load: cannot load /nowhere/ten.so: No such file", done.stderr)

    def test_a_damaged_library_is_named(self):
        damaged = os.path.join(FOLDER, "damaged.so")
        with open(damaged, "w", encoding="utf-8") as file:
            file.write("no library")
        done, _ = self.run_model(library=damaged)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "tenon_tensorflow_load: cannot load .*damaged.so: not a shared library: ")

    def test_a_model_whose_library_is_not_loaded_names_the_operator(self):
        other = os.path.join(FOLDER, "gelu.so")
        subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "examples", "01_gelu", "gelu.c"), "-o", other], check=True, stdout=subprocess.DEVNULL)
        for plugin in ([], [os.path.join(BUILD, "libtenon_tensorflow_ops.so")]):
            done, _ = self.run_model(*plugin, library=other)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "TF_LoadSessionFromSavedModel: Op type not registered 'Tenon>Ten>")

    def test_a_shape_that_does_not_fit_names_the_operator(self):
        wide = os.path.join(FOLDER, "wide")
        module = tf.Module()
        module.weight = tf.Variable(tf.ones([5, 7]))
        module.run = tf.function(lambda x: ten.dot(x, module.weight), input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
        tf.saved_model.save(module, wide, signatures=module.run.get_concrete_function())
        done, _ = self.run_model(model=wide)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "TF_SessionRun: .*ten::dot")


if __name__ == "__main__":
    totals.main()
