"""Models of TensorFlow as graphs of Tenon (tenon.tensorflow.convert), each beside TensorFlow itself."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="tenon-convert-")
atexit.register(shutil.rmtree, FOLDER)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import keras
import numpy as np
import tensorflow as tf
from keras import layers

import tenon
import tenon.keras
import tenon.tensorflow
import tensorflow_convert_cases as cases
import tensorflow_models
import totals
from tenon.tensorflow.conversion.calls import ROWS
from torch_kinds import GELU

tf.get_logger().setLevel("ERROR")
LIBRARY = os.path.join(FOLDER, "gelu.so")
subprocess.run([os.path.join(BUILD, "tenon"), "build", GELU, "-o", LIBRARY], check=True, stdout=subprocess.DEVNULL)
tenon.load(LIBRARY)
own = tenon.tensorflow.register("demo")
rng = np.random.default_rng(5)
errors = tf.errors


def f32(*shape):
    return rng.standard_normal(shape, np.float32)


def function(body, *specs):
    return tf.function(body, input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in specs])


def listed(results):
    return [np.asarray(y) for y in (results if isinstance(results, (list, tuple)) else [results])]


def types(graph):
    """The operations of a function and of those that it calls."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {node.op for node in nodes}


def run(body):
    """Runs a program in a process of its own, and returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE])}
    done = subprocess.run([sys.executable, *body], capture_output=True, text=True, env=env, cwd=FOLDER, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Conversion(unittest.TestCase):
    def assert_equal(self, found, right, tolerance=1e-5):
        found, right = listed(found), listed(right)
        self.assertEqual([(y.shape, y.dtype) for y in found], [(y.shape, y.dtype) for y in right])
        for a, b in zip(found, right):
            if b.dtype.kind in "biu":
                np.testing.assert_array_equal(a, b)
                continue
            a, b = a.astype(np.float64), b.astype(np.float64)
            scale = np.abs(b[np.isfinite(b)]).max(initial=0) or 1
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)

    def assert_converts(self, model, *inputs, tolerance=1e-5, **options):
        """Converts once, and compares with TensorFlow for these inputs and, if the batch is not fixed, for three times the batch."""
        graph = tenon.tensorflow.convert(model, **options)
        compiled = graph.compile()
        is_open = any(extents and extents[0] == "batch" for _, _, extents in graph.inputs)
        for times in (1, 3) if is_open else (1,):
            given = [np.concatenate([x] * times) if extents and extents[0] == "batch" else x for x, (_, _, extents) in zip(inputs, graph.inputs)]
            tensors = [tf.constant(x) for x in given]
            right = tf.nest.flatten(model(tensors[0] if len(tensors) == 1 else tensors, training=False) if isinstance(model, keras.Model) else model(*tensors))
            self.assert_equal(compiled(*given), right, tolerance)
        return graph


class Operations(Conversion):
    seen = set()

    def test_each_operation_is_as_in_tensorflow(self):
        for name, body, inputs in cases.CASES:
            first, *more = [(x.shape, x.dtype) for x in inputs]
            is_open = bool(first[0])
            for shapes in [[first, *more], [((None, *first[0][1:]), first[1]), *more]][:1 + is_open]:
                with self.subTest(name, shapes=str(shapes)):
                    traced = tf.function(body, input_signature=[tf.TensorSpec(*s) for s in shapes])
                    compiled = tenon.tensorflow.convert(traced, batch=None).compile()
                    self.assert_equal(compiled(*inputs), tf.nest.flatten(traced(*(tf.constant(x) for x in inputs))))
                    Operations.seen |= types(traced.get_concrete_function().graph)

    def test_the_cases_have_every_operation_of_the_table(self):
        elsewhere = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall", "ReadVariableOp", "ResourceGather", "Tenon>Graph",
                     "TensorListFromTensor", "TensorListReserve", "TensorListGetItem", "TensorListSetItem", "TensorListStack", "TensorListLength"}
        refused = {"EmptyTensorList", "VarHandleOp"}
        if not Operations.seen:
            self.test_each_operation_is_as_in_tensorflow()
        self.assertEqual(sorted(set(ROWS) - Operations.seen - elsewhere - refused), [])


    def test_the_documentation_lists_the_table(self):
        with open(os.path.join(ROOT, "docs", "tensorflow.md"), encoding="utf-8") as file:
            listed_there = file.read().split("<!-- operations:")[1].split("```")[1].split()
        self.assertEqual(listed_there, sorted(set(ROWS) - {"EmptyTensorList", "VarHandleOp"}))  # these two say what to do instead


class Control(Conversion):
    def test_loops(self):
        for body in (lambda x: tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 0.5 + x), (0, x)), lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 100, lambda y: (y * 2 + 1,), (tf.abs(x),)),
                     lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, x], 0)), (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 4]))),
                     lambda x: tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y + 1), (0, x))):
            self.assert_converts(function(body, ((None, 4), tf.float32)), f32(3, 4))

    def test_a_loop_in_a_loop_with_a_branch(self):
        weight = tf.Variable(f32(4, 4) / 4)

        def inner(i, x):
            return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x @ weight), lambda: x - tf.cast(i, tf.float32) * weight[0])

        def outer(i, x):
            return i + 1, tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, inner(j, y)), (0, x))[1]
        self.assert_converts(function(lambda x: tf.while_loop(lambda i, y: i < 4, outer, (0, x))[1], ((None, 4), tf.float32)), f32(3, 4))

    def test_branches(self):
        for number in (1, -1):
            self.assert_converts(function(lambda x, n: tf.cond(n > 0, lambda: (x * 2, n), lambda: (x[:1], n - 1)), ((None, 4), tf.float32), ((), tf.int32)), f32(3, 4), np.int32(number))
        for index in (-3, 0, 1, 2, 7):
            branches = [lambda x: x * 2, lambda x: x - 1, lambda x: x * x, lambda x: tf.exp(x)]
            self.assert_converts(function(lambda x, i: tf.switch_case(i, [lambda f=f: f(x) for f in branches]), ((None, 4), tf.float32), ((), tf.int32)), f32(3, 4), np.int32(index))

    def test_functions_are_inlined(self):
        @tf.function
        def square(x):
            return x * x
        graph = self.assert_converts(function(lambda x: square(square(x) + 1), ((None, 4), tf.float32)), f32(3, 4))
        self.assertEqual([node.op for node in graph.nodes], ["core::mul", "core::add", "core::mul"])

    def test_arrays(self):
        def running(x):
            def step(i, total, array):
                total = total + tf.gather(x, i, axis=1)
                return i + 1, total, array.write(i, total)
            array = tf.TensorArray(tf.float32, 5, element_shape=[None, 3])
            _, total, array = tf.while_loop(lambda i, *_: i < 5, step, (0, tf.zeros_like(x[:, 0]), array))
            return total, array.stack(), array.size()
        self.assert_converts(function(running, ((None, 5, 3), tf.float32)), f32(2, 5, 3))

        def sparsely(x):  # elements that are not written are 0; one is written twice
            array = tf.TensorArray(tf.float32, 6, element_shape=[3])
            return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.write(2 * (i % 2), x[i])), (0, array))[1].stack()
        self.assert_converts(function(sparsely, ((5, 3), tf.float32)), f32(5, 3))
        self.assert_converts(function(lambda x: tf.map_fn(lambda row: row * tf.reduce_sum(row), x), ((None, 3), tf.float32)), f32(5, 3))


class Networks(Conversion):
    def test_mobilenet(self):
        keras.utils.set_random_seed(1)
        model = keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), classes=50, classifier_activation=None)
        graph = self.assert_converts(tensorflow_models.settle(model, 64), f32(2, 64, 64, 3))
        kinds = [node.op for node in graph.nodes]
        self.assertEqual((kinds.count("core::conv"), kinds.count("core::mul"), kinds.count("core::batch_norm")), (52, 0, 0))  # the normalisations are in the weights

    def test_an_encoder(self):
        model = tensorflow_models.encoder(depth=2, width=64, heads=4, length=24, vocabulary=100)
        graph = self.assert_converts(model.keras, *model.inputs(2))
        self.assertEqual([(name, dtype, extents) for name, dtype, extents in graph.inputs], [(name, "i32", ["batch", 24]) for name in ("ids", "kinds", "mask")])
        self.assertNotIn("core::einsum", [node.op for node in graph.nodes])

    def test_an_encoder_with_an_operator_of_a_library(self):
        model = tensorflow_models.encoder(depth=2, width=64, heads=4, length=24, vocabulary=100, gelu=lambda: tenon.keras.layer("demo::gelu"))
        graph = self.assert_converts(model.keras, *model.inputs(2))
        self.assertEqual([node.op for node in graph.nodes].count("demo::gelu"), 2)

    def test_recurrent_layers(self):
        x = f32(3, 10, 8)
        for stack in ([layers.LSTM(16, return_sequences=True), layers.LSTM(8)], [layers.Bidirectional(layers.GRU(6, return_sequences=True)), layers.GRU(8, go_backwards=True)],
                      [layers.SimpleRNN(8, return_sequences=True), layers.TimeDistributed(layers.Dense(3))], [layers.LSTM(8, unroll=True), layers.Dense(2)]):
            self.assert_converts(keras.Sequential([keras.Input((10, 8)), *stack]), x)
        self.assert_converts(keras.Sequential([keras.Input((None, 8)), layers.LSTM(16, return_sequences=True), layers.LSTM(8)]), x)
        words = rng.integers(0, 4, (3, 10)).astype(np.int32)
        self.assert_converts(keras.Sequential([keras.Input((10,), dtype="int32"), layers.Embedding(20, 8, mask_zero=True), layers.GRU(16, return_sequences=True), layers.LSTM(5)]), words)

    def test_images(self):
        stack = [layers.Rescaling(1 / 255, offset=-1), layers.Normalization(mean=[1, 2, 3], variance=[1, 2, 4]), layers.Resizing(14, 14), layers.CenterCrop(10, 10), layers.ZeroPadding2D(2), layers.UpSampling2D(2),
                 layers.UpSampling2D(2, interpolation="bilinear"), layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.LayerNormalization(), layers.GroupNormalization(2),
                 layers.AveragePooling2D(3, padding="same", strides=2), layers.SeparableConv2D(6, 3), layers.Conv2D(4, 3, dilation_rate=2, padding="same"), layers.Flatten()]
        self.assert_converts(keras.Sequential([keras.Input((20, 30, 3)), *stack]), (255 * rng.random((2, 20, 30, 3))).astype(np.float32))

    def test_signals_and_activations(self):
        stack = [layers.Conv1D(8, 3, padding="same", activation="gelu"), layers.MaxPooling1D(2), layers.Conv1D(8, 3, padding="causal"), layers.BatchNormalization(), layers.GlobalMaxPooling1D()]
        self.assert_converts(keras.Sequential([keras.Input((20, 6)), *stack]), f32(2, 20, 6))
        names = ("hard_swish", "mish", "hard_sigmoid", "elu", "selu", "softplus", "softsign", "tanh", "sigmoid", "silu", "relu6", "exponential", "log_softmax", "leaky_relu", "celu", "gelu", "glu")
        self.assert_converts(keras.Sequential([keras.Input((20,)), *map(layers.Activation, names)]), f32(2, 20))

    def test_mixed_precision(self):
        for policy, tolerance in (("mixed_float16", 4e-3), ("mixed_bfloat16", 3e-2)):  # some units in the last place of the narrow type
            stack = [layers.Conv2D(8, 3), layers.BatchNormalization(), layers.ReLU(), layers.MaxPool2D(), layers.DepthwiseConv2D(3), layers.LayerNormalization(), layers.GlobalAveragePooling2D(), layers.Dense(5)]
            keras.config.set_dtype_policy(policy)
            try:
                image = keras.Sequential([keras.Input((16, 16, 3)), *(type(layer).from_config({**layer.get_config(), "dtype": policy}) for layer in stack), layers.Activation("softmax", dtype="float32")])
                words = keras.Input((12,), dtype="int32")
                x = layers.Embedding(50, 32)(words)
                text = keras.Model(words, layers.LSTM(8)(layers.LayerNormalization()(layers.MultiHeadAttention(4, 8)(x, x))))
            finally:
                keras.config.set_dtype_policy("float32")
            graph = self.assert_converts(image, f32(3, 16, 16, 3), tolerance=tolerance)
            narrow = "f16" if policy.endswith("float16") and "bfloat" not in policy else "bf16"
            self.assertIn(narrow, {text.split("[")[0] for text in graph.values.values()})
            self.assert_converts(text, rng.integers(0, 50, (3, 12)).astype(np.int32), tolerance=tolerance)


class Forms(Conversion):
    def setUp(self):
        keras.utils.set_random_seed(2)
        self.model = keras.Sequential([keras.Input((4,), name="x"), tenon.keras.layer("demo::gelu"), layers.Dense(3, name="y")])
        self.x = f32(2, 4)
        self.right = np.asarray(self.model(self.x))

    def assert_gives(self, graph, inputs, outputs):
        self.assertEqual([name for name, _, _ in graph.inputs], inputs)
        self.assertEqual([name for name, _, _ in graph.outputs], outputs)
        self.assert_equal(graph.compile()(self.x), self.right)
        self.assertIn("demo::gelu", [node.op for node in graph.nodes])

    def test_a_folder_that_keras_exports(self):
        folder = os.path.join(FOLDER, "exported")
        self.model.export(folder, verbose=False)
        self.assert_gives(tenon.tensorflow.convert(folder), ["x"], ["output_0"])
        self.assert_gives(tenon.tensorflow.convert(folder, signature="serve"), ["x"], ["output_0"])
        self.assert_gives(tenon.tensorflow.convert(tf.saved_model.load(folder)), ["x"], ["output_0"])

    def test_a_file_of_keras(self):
        path = os.path.join(FOLDER, "model.keras")
        self.model.save(path)
        self.assert_gives(tenon.tensorflow.convert(path), ["x"], ["y"])

    def test_functions_and_modules(self):
        f = tf.function(lambda values: {"scores": self.model(values)}, input_signature=[tf.TensorSpec((None, 4), name="values")])
        self.assert_gives(tenon.tensorflow.convert(f), ["values"], ["scores"])
        self.assert_gives(tenon.tensorflow.convert(f.get_concrete_function()), ["values"], ["scores"])
        module = tf.Module()
        module.model, module.f = self.model, f
        folder = os.path.join(FOLDER, "module")
        tf.saved_model.save(module, folder, signatures={"first": f, "second": tf.function(lambda a, b: {"sum": a + b}, input_signature=[tf.TensorSpec((None,), name="a"), tf.TensorSpec((None,), name="b")])})
        self.assert_gives(tenon.tensorflow.convert(folder, signature="first"), ["values"], ["scores"])
        graph = tenon.tensorflow.convert(folder, signature="second", batch=None)
        self.assertEqual(graph.inputs, [("a", "f32", ["a.0"]), ("b", "f32", ["b.0"])])

    def test_a_model_that_another_process_saved(self):
        run(["-c", f"""
import tensorflow as tf, numpy as np, tenon, tenon.tensorflow
ops = tenon.tensorflow.register(tenon.load({LIBRARY!r}))
class Net(tf.Module):
    def __init__(self):
        self.w = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3))
    @tf.function(input_signature=[tf.TensorSpec((None, 4), name="x")])
    def __call__(self, x):
        return {{"y": ops.gelu(x) @ self.w}}
net = Net()
tf.saved_model.save(net, "elsewhere", signatures=net.__call__)
np.save("elsewhere.npy", net(tf.constant(np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)))["y"])
"""])
        graph = tenon.tensorflow.convert(os.path.join(FOLDER, "elsewhere"))
        self.assert_equal(graph.compile()(np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)), np.load(os.path.join(FOLDER, "elsewhere.npy")))

    def test_a_graph_of_tenon_inside(self):
        builder = tenon.graph.Builder()
        x = builder.input("x", "f32", ["n", 4])
        inner = tenon.tensorflow.run(builder.finish({"y": tenon.graph.ops.core.mul(x, x), "z": tenon.graph.ops.demo.gelu(x)}))
        self.assert_converts(function(lambda x: [y + 1 for y in inner(x * 2)], ((None, 4), tf.float32)), self.x)

    def test_the_file_runs_without_tensorflow(self):
        self.model.export(os.path.join(FOLDER, "deployed"), verbose=False)
        np.save(os.path.join(FOLDER, "x.npy"), self.x)
        run(["-m", "tenon.tensorflow", "deployed", "deployed.onnx", "--ops", LIBRARY])
        command = [os.path.join(BUILD, "tenon"), "run", "deployed.onnx", "--ops", LIBRARY, "-i", "x=@x.npy", "-o", "found"]
        subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)
        self.assert_equal(np.load(os.path.join(FOLDER, "found", "output_0.npy")), self.right)

    def test_variables_are_those_of_the_conversion(self):
        w = tf.Variable([1.0, 2.0])
        f = function(lambda x: x * w, ((None, 2), tf.float32))
        compiled = tenon.tensorflow.convert(f).compile()
        w.assign([5.0, 5.0])
        np.testing.assert_array_equal(compiled(np.ones((1, 2), np.float32)), [[1, 2]])


class Refusals(unittest.TestCase):
    def refuse(self, kind, words, model, *specs, **options):
        with self.assertRaises(kind) as caught:
            tenon.tensorflow.convert(function(model, *specs) if specs else model, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_operations_are_named_with_the_remedy(self):
        x = ((None, 3), tf.float32)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4]), -1)
        state = tf.Variable(0.0)
        missing = errors.UnimplementedError
        self.refuse(missing, ["LookupTableFindV2", "look up outside of the model"], lambda x: table.lookup(x), ((None,), tf.int32))
        self.refuse(missing, ["AsString", "strings are not supported"], lambda x: tf.strings.length(tf.strings.as_string(x)), x)
        self.refuse(missing, ["AssignAddVariableOp", "changes a state", "training=False"], lambda x: x + state.assign_add(1.0), x)
        self.refuse(missing, ["RandomStandardNormal", "draws random numbers"], lambda x: x + tf.random.normal([3]), x)
        self.refuse(missing, ["named (Svd)", "is not supported"], lambda x: tf.raw_ops.Svd(input=x, name="named")[0], x)
        self.refuse(missing, ["TensorArray its size"], lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, x)), (0, tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None, 3])))[1].stack(), x)
        self.refuse(missing, ["FusedBatchNormV3", "training=False"], lambda x: tf.compat.v1.nn.fused_batch_norm(x, [1.0] * 3, [0.0] * 3)[0], ((2, 4, 4, 3), tf.float32))
        self.refuse(missing, ["Sum", "a constant as the axes"], lambda x, i: tf.reduce_sum(x, i), x, ((), tf.int32))
        self.refuse(missing, ["core::bernoulli", "draws random numbers"], lambda x: tenon.tensorflow.register("core").bernoulli(tf.sigmoid(x), seed=(1, 2)), x)

    def test_models_that_cannot_be_opened(self):
        wrong = errors.InvalidArgumentError
        self.refuse(errors.NotFoundError, ["nowhere", "no such file or folder"], os.path.join(FOLDER, "nowhere"))
        self.refuse(wrong, [FOLDER, "saved_model.pb"], FOLDER)
        self.refuse(wrong, [".keras"], GELU)
        self.refuse(wrong, ["expected the folder of a SavedModel", "int"], 3)
        self.refuse(wrong, ["input_signature"], tf.function(lambda x: x))
        self.refuse(wrong, ["no known inputs", "input_signature"], keras.Sequential([layers.Dense(2)]))
        self.refuse(wrong, ["ragged"], tf.function(lambda x: x.values, input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)]))
        self.refuse(wrong, ["signature='s'", "only a SavedModel"], function(lambda x: x, ((2,), tf.float32)), signature="s")
        for name, content in (("broken.keras", b"no archive"), ("broken/saved_model.pb", b"\xff\xff no protobuf")):
            path = os.path.join(FOLDER, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            self.refuse(wrong, ["broken", "cannot load the model"], path if name.endswith("keras") else os.path.dirname(path))

    def test_signatures_that_do_not_exist(self):
        folder = os.path.join(FOLDER, "two")
        module = tf.Module()
        f = function(lambda x: x + 1, ((2,), tf.float32))
        module.f = f
        tf.saved_model.save(module, folder, signatures={"a": f, "b": f})
        self.refuse(errors.InvalidArgumentError, ["state which one", "a, b"], folder)
        self.refuse(errors.InvalidArgumentError, ["no signature 'c'", "a, b"], folder, signature="c")
        tf.saved_model.save(tf.Module(), folder)
        self.refuse(errors.InvalidArgumentError, ["the model has no signature"], folder)

    def test_an_operator_whose_library_is_not_loaded(self):
        folder = os.path.join(FOLDER, "needs_demo")
        module = tf.Module()
        module.f = function(own.gelu, ((None, 3), tf.float32))
        tf.saved_model.save(module, folder, signatures=module.f)
        told = run(["-c", f"""
import tensorflow as tf, tenon.tensorflow
try:
    tenon.tensorflow.convert({folder!r})
except tf.errors.NotFoundError as error:
    print(error)
"""])
        self.assertIn("Tenon>Demo>Gelu", told)
        self.assertIn("tenon.tensorflow.register before", told)

    def test_a_failure_leaves_no_file(self):
        path = os.path.join(FOLDER, "never.onnx")
        self.refuse(errors.UnimplementedError, ["Svd"], lambda x: tf.linalg.svd(x)[0], ((None, 3), tf.float32), path=path)
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    totals.main()
