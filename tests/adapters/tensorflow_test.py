"""Tenon's operators in TensorFlow: arguments, shapes, errors, and the ways in which TensorFlow runs functions."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
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
from torch_kinds import GELU, KINDS, grown

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
NAMES = """#include <tenon/op.h>
static tenon_status_t same_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->outputs[0]->data)[i] = ((const float *)c->inputs[0]->data)[i];
  return TENON_OK;
}
static tenon_status_t values_run(tenon_call_t *c) { /* each attribute as a number */
  float *y = c->outputs[0]->data;
  const tenon_value_t *a = c->attrs;
  y[0] = (float)a[0].as.i;
  y[1] = (float)a[1].as.i;
  y[2] = (float)(a[2].as.f == 1e-5);
  y[3] = (float)a[3].count;
  y[4] = (float)a[4].as.i;
  y[5] = (float)a[5].as.dtype.bits;
  y[6] = a[6].count ? (float)a[6].as.ints[a[6].count - 1] : -1;
  y[7] = a[7].count ? (float)a[7].as.floats[0] : -1;
  y[8] = (float)a[8].count;
  y[9] = a[9].kind == TENON_KIND_NONE ? -1 : (float)a[9].as.i;
  y[10] = a[10].kind == TENON_KIND_NONE ? -1 : (float)a[10].count;
  y[11] = a[11].kind == TENON_KIND_NONE ? -1 : (float)a[11].as.dtype.bits;
  return TENON_OK;
}
static tenon_status_t address_run(tenon_call_t *c) {
  *(int64_t *)c->outputs[0]->data = (int64_t)(uintptr_t)c->inputs[0]->data;
  return TENON_OK;
}
static tenon_status_t touch_run(tenon_call_t *c) { return c ? TENON_OK : TENON_INVALID; }
TENON_LIBRARY(names, "1.0.0",
  TENON_OP("address(Tensor x) -> Tensor", TENON_TYPES("x: any; out = i64"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", address_run)),
  TENON_OP("touch_(Tensor(a!) x) -> Tensor(a!)", TENON_TYPES("x: any; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", touch_run)),
  TENON_OP("mean(Tensor Lambda, Tensor name) -> Tensor out", TENON_TYPES("Lambda: f32; name = Lambda; out = Lambda"), TENON_SHAPES("out = Lambda"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", same_run)),
  TENON_OP("a_b(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", same_run)),
  TENON_OP("aB(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", same_run)),
  TENON_OP("nothing(Tensor x) -> ()", TENON_TYPES("x: f32"), TENON_KERNEL("cpu", same_run)),
  TENON_OP("values(Tensor x, *, bool flag=True, int number=3, float epsilon=1e-5, str text='a\\\\'b', str['one', 'two'] choice='two', dtype dtype=f64, int[] numbers=[1, 2],"
           " float[] floats=[0.5], str[] texts, int? maybe=None, int[]? some=None, dtype? other=None) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: [12]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", values_run)))
"""


def built(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


demo = tenon.tensorflow.register(tenon.load(GELU))
kinds = tenon.tensorflow.register(built("kinds.c", KINDS))
names = tenon.tensorflow.register(built("names.c", NAMES))
core = tenon.tensorflow.register("core")
rng = np.random.default_rng(1)


def floats(*shape):
    return tf.constant(rng.standard_normal(shape), tf.float32)


def close(found, expected, tolerance=2e-6):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def gradient(function, *inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(*inputs)
    return tape.gradient(value, inputs)


def run(body, **environment):
    """Runs a program in a process of its own, and returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), "FOLDER": FOLDER, **environment}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Arguments(unittest.TestCase):
    def test_operators_are_listed_and_those_that_tensorflow_cannot_have_are_named_with_a_reason(self):
        self.assertIn("softmax", dir(core))
        self.assertEqual(core.left_out["core::if"], "it has a graph as an attribute")
        self.assertEqual(names.left_out["names::nothing"], "it has no results")
        self.assertIs(tenon.tensorflow.register("core"), core)
        self.assertIn("approximate", str(core.gelu.__signature__))
        self.assertIn("Schema: gelu", core.gelu.__doc__)
        with self.assertRaisesRegex(AttributeError, "core::if cannot be called in TensorFlow: it has a graph"):
            core.if_

    def test_names_that_tensorflow_would_not_tell_apart_are_refused(self):
        self.assertEqual(set(dir(names)) & {"a_b", "aB"}, {"a_b", "aB"})
        [left_out] = {"names::a_b", "names::aB"} & set(names.left_out)
        self.assertRegex(names.left_out[left_out], "TensorFlow has an operator Tenon>Names>AB already")

    def test_names_that_python_or_tensorflow_reserve_have_another_spelling(self):
        close(names.mean(tf.constant([1.0]), tf.constant([2.0])), [1.0])
        close(names.mean(Lambda=tf.constant([1.0]), name=tf.constant([2.0]), name_="node"), [1.0])

    def test_attributes_have_defaults(self):
        expected = [1, 3, 1, 3, 1, 64, 2, 0.5, 1, -1, -1, -1]
        close(names.values(floats(1), texts=["a"]), expected)
        close(tf.function(lambda x: names.values(x, texts=["a"]))(floats(1)), expected)

    def test_attributes_of_every_kind(self):
        def call(x):
            return names.values(x, flag=False, number=-5, epsilon=2, text="é\n'\"", choice="one", dtype=tf.float16, numbers=(7, 8, 9), floats=[2.5, 1], texts=["a", "é'", ""], maybe=4, some=[1], other="f32")
        expected = [0, -5, 0, 5, 0, 16, 9, 2.5, 3, 4, 1, 32]
        close(call(floats(1)), expected)
        close(tf.function(call)(floats(1)), expected)
        close(tf.function(call, jit_compile=compiles())(floats(1)), expected)

    def test_attributes_may_be_numbers_of_numpy_and_of_tensorflow(self):
        x = floats(1)
        close(names.values(x, texts=[], number=np.int32(4), epsilon=np.float64(1e-5), numbers=np.array([5, 6]), maybe=tf.constant(7))[1:10].numpy()[[0, 1, 5, 8]], [4, 1, 6, 7])

    def test_wrong_attributes_are_named_with_the_operator(self):
        x = floats(2, 3)
        wrong = {"attribute axis: expected int of 64 bits, found 'a'": lambda: core.softmax(x, axis="a"), "attribute axis: expected int of 64 bits, found 1.5": lambda: core.softmax(x, axis=1.5),
                 "attribute approximate: expected one of 'none', 'tanh', found 'foo'": lambda: core.gelu(x, approximate="foo"), "attribute dtype: expected dtype": lambda: names.values(x, texts=[], dtype="qint8"),
                 r"attribute texts: expected str\[\], found 'a'": lambda: names.values(x, texts="a"), "attribute flag: expected bool, found 1": lambda: names.values(x, texts=[], flag=1)}
        for message, call in wrong.items():
            for function in (call, tf.function(call, autograph=False)):
                with self.subTest(message), self.assertRaisesRegex(tf.errors.InvalidArgumentError, "(core|names)::[a-z]+: " + message):
                    function()

    def test_lists_optional_arguments_and_several_results(self):
        a, b = floats(3), floats(4)

        def total(a, b):
            return kinds.total([a, b], b, choice="two", extra=2.5)
        close(kinds.total([a, b]), tf.reduce_sum(a) + tf.reduce_sum(b) + 0.5)
        for function in (total, tf.function(total), tf.function(total, jit_compile=compiles())):
            close(function(a, b), tf.reduce_sum(a) + tf.reduce_sum(b) + 100 * b[0] + 2 + 2.5, 1e-5)
        parts = core.split(tf.range(6.0), [2, 4], count=2)
        self.assertEqual([p.shape.as_list() for p in parts], [[2], [4]])
        values, indices = core.top_k(tf.constant([3.0, 1.0, 2.0]), 2)
        self.assertEqual((values.numpy().tolist(), indices.numpy().tolist()), ([3, 2], [0, 2]))

    def test_python_numbers_have_the_dtype_of_the_tensors_beside_them(self):
        for dtype in (tf.float64, tf.float16, tf.bfloat16):
            made = core.add(tf.ones([2], dtype), 0.5)
            self.assertEqual((made.dtype, made.numpy().tolist()), (dtype, [1.5, 1.5]))
        self.assertEqual(core.add(1.0, 0.5).dtype, tf.float32)
        self.assertEqual(demo.gelu([1.0, 2.0]).dtype, tf.float32)

    def test_all_dtypes_of_tensorflow_pass_through(self):
        for name in "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split():
            x = tf.cast(tf.constant([[0, 1, 2]]), getattr(tf, name))
            with self.subTest(dtype=name):
                made = core.transpose(x)
                self.assertEqual((made.dtype, made.shape.as_list()), (x.dtype, [3, 1]))
                self.assertEqual(made[:, 0].numpy().tolist(), x[0].numpy().tolist())

    def test_strings(self):
        a, b = tf.constant(["ab", "x" * 40, ""]), tf.constant(["c", "é" * 30, "d"])
        expected = [b"abc", b"x" * 40 + "é".encode() * 30, b"d"]
        self.assertEqual(core.string_concat(a, b).numpy().tolist(), expected)
        self.assertEqual(tf.function(core.string_concat)(a, b).numpy().tolist(), expected)
        self.assertEqual(core.concat([a, b], axis=0).numpy().tolist(), [*a.numpy().tolist(), *b.numpy().tolist()])
        joined = tf.strings.join([a, b])  # strings that share memory or point elsewhere
        self.assertEqual(core.string_concat(joined[1:], a[:2]).numpy().tolist(), [expected[1] + b"ab", b"d" + b"x" * 40])

    def test_views_of_arguments_do_not_change_with_them(self):
        v = tf.Variable(tf.range(6.0))
        flat = core.reshape(v, [2, 3])
        v.assign_add(tf.ones([6]))
        close(flat, [[0, 1, 2], [3, 4, 5]])
        turned = core.transpose(core.reshape(v, [2, 3]))
        close(turned, [[1, 4], [2, 5], [3, 6]])

    def test_variables_are_read_and_those_that_an_operator_writes_to_are_assigned(self):
        v = tf.Variable([1.0, 2.0])
        close(demo.gelu(v), tf.nn.gelu(v))
        close(kinds.scale_(v, by=3.0), [3, 6])
        close(v, [3, 6])
        tf.function(lambda: kinds.scale_(v, by=2.0))()
        close(v, [6, 12])
        x = tf.constant([1.0, 2.0])
        close(kinds.scale_(x, by=3.0), [3, 6])
        close(x, [1, 2])

    def test_inputs_that_nothing_else_needs_are_written_to_in_place(self):
        @tf.function
        def addresses(x, is_kept):
            y = x * 2
            first = names.address(y)
            with tf.control_dependencies([first]):
                z = names.touch_(y)
            return first, names.address(z), y if is_kept else z
        for is_kept in (False, True):
            before, after, _ = addresses(floats(1000), is_kept)
            self.assertEqual(int(before) == int(after), not is_kept)

    def test_strings_that_an_operator_writes_to_are_refused(self):
        for function in (names.touch_, tf.function(names.touch_)):
            with self.assertRaisesRegex(tf.errors.UnimplementedError, "names::touch_: argument x: strings of TensorFlow cannot be written to"):
                function(tf.constant(["a", "b"]))

    def test_random_numbers_depend_on_the_seed(self):
        x = tf.zeros([100])
        one = kinds.noise(x, seed=[1, 2])
        np.testing.assert_array_equal(one, kinds.noise(x, seed=tf.constant([1, 2])))
        np.testing.assert_array_equal(one, tf.function(lambda x, s: kinds.noise(x, seed=s))(x, tf.constant([1, 2])))
        np.testing.assert_array_equal(one, tf.function(lambda x, s: kinds.noise(x, seed=s), jit_compile=compiles())(x, tf.constant([1, 2])))
        self.assertEqual(len({kinds.noise(x, seed=s).numpy()[0] for s in ([1, 2], [2, 1], [1, 3], [-1, 2])}), 4)
        tf.random.set_seed(7)
        first = [kinds.noise(x).numpy() for _ in range(2)]
        tf.random.set_seed(7)
        np.testing.assert_array_equal(first, [kinds.noise(x).numpy() for _ in range(2)])
        self.assertTrue((first[0] != first[1]).any())
        drawn = tf.function(lambda: kinds.noise(x))
        self.assertTrue((drawn().numpy() != drawn().numpy()).any())

    def test_operators_with_a_state(self):
        x = floats(1)
        before = float(kinds.count(x))
        self.assertEqual([float(kinds.count(x)) for _ in range(3)], [before + 1, before + 2, before + 3])
        twice = tf.function(lambda x: (kinds.count(x), kinds.count(x)))(x)  # the two calls are not made one
        self.assertEqual(sorted(map(float, twice)), [before + 4, before + 5])
        close(kinds.powers(tf.constant([2.0, 3.0]), n=3), [8, 27])

    def test_empty_tensors_and_tensors_without_axes(self):
        self.assertEqual(demo.gelu(tf.zeros([0, 3])).shape.as_list(), [0, 3])
        self.assertEqual(demo.gelu(tf.constant(1.0)).shape.as_list(), [])
        self.assertEqual(core.concat([tf.zeros([0, 2]), tf.zeros([1, 2])], axis=0).shape.as_list(), [1, 2])


class Shapes(unittest.TestCase):
    def shape(self, function, *specs):
        return tf.function(function).get_concrete_function(*[tf.TensorSpec(s, tf.float32) for s in specs]).outputs[0].shape

    def test_shapes_are_known_as_far_as_they_follow_from_the_arguments(self):
        self.assertEqual(self.shape(demo.gelu, [None, 3]).as_list(), [None, 3])
        self.assertEqual(self.shape(lambda x, y: core.add(x, y), [None, 1, 3], [4, 1]).as_list(), [None, 4, 3])
        self.assertEqual(self.shape(lambda x, y: core.matmul(x, y), [None, 4, 3], [3, 5]).as_list(), [None, 4, 5])
        self.assertEqual(self.shape(lambda x: core.reshape(x, [-1, 6]), [None, 2, 3]).as_list(), [None, 6])
        self.assertEqual(self.shape(lambda x: core.concat([x, x], axis=1), [None, 3]).as_list(), [None, 6])
        self.assertEqual(self.shape(lambda x: core.max_pool(x, kernel=[2, 2], strides=[2, 2])[0], [None, 3, 8, 8]).as_list(), [None, 3, 4, 4])
        self.assertIsNone(self.shape(demo.gelu, None).rank)

    def test_the_shape_functions_in_c_infer_what_the_functions_in_python_do(self):
        table = core.shapes()
        self.assertEqual((table["core::add"], table["core::reshape"]), ("in C", "in Python"))
        with tf.Graph().as_default():
            x = tf.raw_ops.Placeholder(dtype=tf.float32, shape=[None, 1, 3])
            y = tf.raw_ops.Placeholder(dtype=tf.float32, shape=[4, 1])
            from tensorflow.python.framework import op_def_library
            self.assertEqual(op_def_library.apply_op("Tenon>Core>Add", a=x, b=y).shape.as_list(), [None, 4, 3])
            self.assertEqual(op_def_library.apply_op("Tenon>Demo>Gelu", x=x).shape.as_list(), [None, 1, 3])
            with self.assertRaisesRegex(ValueError, "core::add: .*broadcast"):
                op_def_library.apply_op("Tenon>Core>Add", a=x, b=tf.ones([2]))
            self.assertIsNone(op_def_library.apply_op("Tenon>Core>Softmax", x=x, axis=0).shape.rank)

    def test_dtypes_of_results_that_only_inference_knows(self):
        self.assertEqual(core.cast(floats(2), to="i32").dtype, tf.int32)
        self.assertEqual(core.cast(floats(2), to=tf.float64).dtype, tf.float64)
        self.assertEqual(core.empty(shape=[2], dtype=tf.int8).dtype, tf.int8)


class Errors(unittest.TestCase):
    def both(self, kind, message, function, *inputs):
        """Outside of a graph, and in one."""
        for call in (function, tf.function(function, autograph=False)):
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                call(*inputs)

    def test_wrong_dtypes(self):
        self.both(tf.errors.InvalidArgumentError, "demo::gelu: argument x: expected a tensor of dtype float16, bfloat16, float32, found int32", demo.gelu, tf.constant([1]))
        self.both(tf.errors.InvalidArgumentError, "core::add: argument b: expected a tensor of dtype float32, found int32", core.add, floats(1), tf.constant([1]))

    def test_wrong_shapes(self):
        self.both(tf.errors.InvalidArgumentError, "core::matmul: a of shape .2, 3. has 3 columns but b of shape .2, 3. has 2 rows", core.matmul, floats(2, 3), floats(2, 3))
        self.both(tf.errors.InvalidArgumentError, "core::softmax: axis 7 is outside", lambda x: core.softmax(x, axis=7), floats(2, 3))

    def test_wrong_shapes_that_are_found_when_the_function_runs(self):
        function = tf.function(core.matmul, input_signature=[tf.TensorSpec([None, None], tf.float32)] * 2)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "core::matmul: a of shape .2, 3. has 3 columns"):
            function(floats(2, 3), floats(2, 3))

    def test_kernels_that_fail(self):
        self.both(tf.errors.InvalidArgumentError, "kinds::fails: this is all that it does", kinds.fails, floats(1))

    def test_tensors_that_are_no_plain_tensors(self):
        self.both(tf.errors.InvalidArgumentError, "demo::gelu: argument x: expected a tensor, found a RaggedTensor", demo.gelu, tf.ragged.constant([[1.0], [2.0, 3.0]]))
        self.both(tf.errors.InvalidArgumentError, "demo::gelu: argument x: expected a tensor, found a SparseTensor", demo.gelu, tf.sparse.from_dense([[1.0]]))

    def test_quantised_tensors_are_refused_by_name(self):
        x = tf.quantization.quantize([1.0], 0.0, 2.0, tf.quint8).output
        self.both(tf.errors.InvalidArgumentError, "core::transpose: .*quint8.*pass its integers, its scale and its zero point", core.transpose, x)

    def test_missing_arguments_and_unknown_ones(self):
        self.both(TypeError, "missing 1 required positional argument: 'x'", lambda: demo.gelu())
        self.both(TypeError, "unexpected keyword argument 'foo'", lambda: demo.gelu(floats(1), foo=1))
        self.both(tf.errors.InvalidArgumentError, "core::add: argument b: expected a tensor, found None", lambda: core.add(floats(1), None))

    def test_unknown_operators_and_libraries(self):
        with self.assertRaisesRegex(AttributeError, "did you mean 'core::softmax'"):
            core.softmaxx
        with self.assertRaisesRegex(tf.errors.NotFoundError, "no loaded library has operators in the namespace 'nope': load it first"):
            tenon.tensorflow.register("nope")

    def test_a_registered_library_cannot_be_unloaded(self):
        path = os.path.join(FOLDER, "held.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(NAMES.replace("TENON_LIBRARY(names", "TENON_LIBRARY(held"))
        library = tenon.load(path, unloadable=True)
        held = tenon.tensorflow.register(library)
        with self.assertRaises(tenon.Error):
            library.unload()
        close(held.values(floats(1), texts=[])[1], 3)

    def test_a_second_copy_of_the_bridge_names_the_operator_that_exists(self):
        written = run("""
            import ctypes, os, shutil
            import tensorflow as tf, tenon, tenon.tensorflow
            from tenon._library import adapter
            tenon.tensorflow.register("core")
            copy = os.path.join(os.environ["FOLDER"], "second.so")
            shutil.copy(adapter("tensorflow"), copy)
            library = ctypes.CDLL(copy)
            error = ctypes.c_char_p()
            print(library.tenon_tensorflow_register(b"core", None, ctypes.byref(error)), error.value.decode())
        """)
        self.assertRegex(written, "TensorFlow has an operator Tenon>\\S+ already, from another library of this process: only one copy of Tenon")

    def test_a_process_without_tensorflow_says_so(self):
        written = run("""
            import ctypes, tenon
            from tenon._library import adapter
            library = ctypes.CDLL(adapter("tensorflow"))
            error = ctypes.c_char_p()
            print(library.tenon_tensorflow_register(b"core", None, ctypes.byref(error)), error.value.decode())
        """)
        self.assertIn("TensorFlow is not loaded in this process: import tensorflow", written)


class Modes(unittest.TestCase):
    def test_functions_compiled_by_xla(self):
        x = floats(4, 3)
        function = tf.function(lambda x: demo.gelu(x) * 2, jit_compile=compiles())
        close(function(x), tf.nn.gelu(x) * 2)
        batch = tf.function(lambda x: core.softmax(core.reshape(core.concat([x, x], axis=0), [-1, 3]), axis=1), jit_compile=compiles(), input_signature=[tf.TensorSpec([None, 3], tf.float32)])
        for rows in (1, 5):
            x = floats(rows, 3)
            close(batch(x), tf.nn.softmax(tf.concat([x, x], 0)))
        compiled = tf.function(lambda x: demo.gelu(x), jit_compile=compiles()).experimental_get_compiler_ir(x)(stage="hlo")
        self.assertIn("tenon_cpu", compiled)

    def test_functions_compiled_by_xla_call_operators_in_loops_and_branches(self):
        def body(x):
            y = x
            for _ in tf.range(3):
                y = demo.gelu(y)
            return tf.cond(tf.reduce_sum(y) > 0, lambda: core.mul(y, y), lambda: core.neg(y))
        x = floats(3)
        expected = tf.nn.gelu(tf.nn.gelu(tf.nn.gelu(x)))
        expected = expected ** 2 if tf.reduce_sum(expected) > 0 else -expected
        close(tf.function(body)(x), expected)
        close(tf.function(body, jit_compile=compiles())(x), expected)

    def test_what_xla_cannot_do_is_refused_when_the_function_is_traced(self):
        wrong = {"kinds::positive: the shape of its result depends on values that are not known.*call it outside of functions with jit_compile=True": (kinds.positive, floats(3)),
                 "core::string_concat: XLA has no tensors of dtype string": (lambda x: core.string_concat(x, x), tf.constant(["a"])),
                 "core::reshape: the shape of its result depends on values that are not known": (lambda s: core.reshape(tf.ones([6]), s), tf.constant([2, 3]))}
        for message, (function, x) in wrong.items():
            with self.subTest(message), self.assertRaisesRegex((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError), message):
                tf.function(function, jit_compile=compiles()).get_concrete_function(x)

    def test_errors_of_kernels_in_compiled_functions(self):
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "kinds::fails: this is all that it does"):
            tf.function(kinds.fails, jit_compile=compiles())(floats(1))

    def test_auto_clustering_leaves_operators_outside(self):
        written = run("""
            import numpy as np, tensorflow as tf, tenon, tenon.tensorflow
            from tensorflow.python.eager import context
            from torch_kinds import GELU
            demo = tenon.tensorflow.register(tenon.load(GELU))
            x = tf.random.normal([64, 64])
            f = tf.function(lambda x: tf.tanh(demo.gelu(tf.sin(x) * 2 + 1) * 3 + x) * x)
            context.context().enable_run_metadata()
            made = f(x)
            nodes = [n.op for part in context.context().export_run_metadata().partition_graphs for n in part.node]
            np.testing.assert_allclose(made, tf.tanh(tf.nn.gelu(tf.sin(x) * 2 + 1) * 3 + x) * x, rtol=1e-5, atol=1e-5)
            print(nodes.count("_XlaRun"), nodes.count("Tenon>Demo>Gelu"), nodes.count("Sin") + nodes.count("Tanh"))
        """, TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=1")
        self.assertEqual(written.split(), ["2", "1", "0"])  # a cluster before the operator, and one after it

    def test_custom_gradients_around_operators_are_seen(self):
        @tf.custom_gradient
        def doubled(x):
            return demo.gelu(x), lambda dy: core.mul(dy, 2.0)
        x = floats(3)
        close(gradient(doubled, x)[0], [2, 2, 2])
        close(tf.function(lambda x: gradient(lambda x: demo.gelu(doubled(x)), x)[0])(x), 2 * gradient(tf.nn.gelu, tf.nn.gelu(x))[0])

    def test_recomputed_gradients(self):
        x = floats(3)
        close(gradient(tf.recompute_grad(lambda x: core.tanh(demo.gelu(x))), x)[0], gradient(lambda x: tf.tanh(tf.nn.gelu(x)), x)[0])

    def test_forward_derivatives(self):
        x, t = floats(3), floats(3)
        with tf.autodiff.ForwardAccumulator(x, t) as accumulator:
            y = core.tanh(x)
        close(accumulator.jvp(y), t / tf.cosh(x) ** 2)

    def test_jacobians(self):
        x = floats(3)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = core.tanh(x)
        close(tape.jacobian(y, x), tf.linalg.diag(1 / tf.cosh(x) ** 2))

    def test_vectorized_map_equals_a_loop(self):
        x = floats(5, 4, 3)
        close(tf.vectorized_map(demo.gelu, x), tf.nn.gelu(x))
        close(tf.vectorized_map(lambda x: core.softmax(x, axis=0), x), tf.nn.softmax(x, 1))
        close(tf.vectorized_map(lambda x: core.matmul(x, tf.transpose(x)), x), tf.matmul(x, x, transpose_b=True), 1e-5)

    def test_map_fn_and_while_loops(self):
        x = floats(5, 3)
        close(tf.map_fn(demo.gelu, x), tf.nn.gelu(x))

        @tf.function
        def looped(x):
            return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, demo.gelu(x)), [0, x])[1]
        close(looped(x), tf.nn.gelu(tf.nn.gelu(tf.nn.gelu(x))))
        close(gradient(looped, x)[0], gradient(lambda x: tf.nn.gelu(tf.nn.gelu(tf.nn.gelu(x))), x)[0])

    def test_maps_of_data_sets(self):
        x = floats(20, 3)
        data = tf.data.Dataset.from_tensor_slices(x).map(demo.gelu, num_parallel_calls=4).batch(20)
        close(next(iter(data)), tf.nn.gelu(x))

    def test_several_threads(self):
        x, failures = floats(64, 64), []
        expected = tf.nn.gelu(x).numpy()
        function = tf.function(demo.gelu)

        def work(shift):
            try:
                for i in range(50):
                    part = x[:(i + shift) % 64 + 1]
                    close(demo.gelu(part), expected[:part.shape[0]])
                    close(function(part), expected[:part.shape[0]])
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=work, args=(k * 7,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_mirrored_strategy_on_two_logical_devices(self):
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())
        x = floats(4, 3)
        with strategy.scope():
            w = tf.Variable(tf.ones([3]))

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(demo.gelu(core.mul(x, w)))
            return tape.gradient(loss, w)
        halves = strategy.experimental_distribute_values_from_function(lambda context: x[2 * context.replica_id_in_sync_group:][:2])
        made = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(halves,)), axis=None)
        close(made, tf.reduce_sum(gradient(tf.nn.gelu, x)[0] * x, 0), 1e-5)

    def test_graphs_and_sessions_of_tensorflow_1(self):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [None, 3])
            y = demo.gelu(x)
            [dx] = tf.compat.v1.gradients(y, [x])
            value = np.ones([2, 3], np.float32)
            close(session.run(y, {x: value}), 0.8413447 * value)
            close(session.run(dx, {x: value}), 1.0833155 * value)

    def test_calls_leave_no_memory_behind(self):
        x = floats(8, 8)
        for call in (lambda: demo.gelu(x), lambda: core.concat([x, x], axis=0), lambda: core.reshape(x, [-1]), lambda: core.string_concat(tf.constant(["a" * 40]), tf.constant(["b" * 40]))):
            call()
            self.assertLess(grown(call, 2000), 2000 * 16)


if __name__ == "__main__":
    totals.main()
