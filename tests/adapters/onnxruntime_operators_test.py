"""Tenon's operators in ONNX Runtime: values, shapes, attributes, errors, and the ways in which ONNX Runtime runs models."""
import atexit
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-onnxruntime-operators-")
atexit.register(shutil.rmtree, FOLDER)
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.dirname(os.path.abspath(__file__))]
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import tenon
import tenon.onnxruntime
import onnxruntime_samples as samples
import totals
from torch_kinds import GELU, KINDS, grown

MORE = r"""#include <tenon/op.h>
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
  return TENON_OK;
}
static tenon_status_t reuse_run(tenon_call_t *c) { /* adds 1, and says whether it happened in place */
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->outputs[0]->data)[i] = ((const float *)c->inputs[0]->data)[i] + 1;
  *(int64_t *)c->outputs[1]->data = c->inputs[0]->data == c->outputs[0]->data;
  return TENON_OK;
}
static tenon_status_t twice_run(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((float *)loop->data[1])[i] = 2 * ((const float *)loop->data[0])[i];
  return TENON_OK;
}
static tenon_status_t both_run(tenon_call_t *c) { /* the largest element, and where it is if somebody wants to know */
  const float *x = c->inputs[0]->data;
  int64_t at = 0;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) if (x[i] > x[at]) at = i;
  *(float *)c->outputs[0]->data = x[at];
  if (c->outputs[1]) *(int64_t *)c->outputs[1]->data = at;
  return TENON_OK;
}
static tenon_status_t parts_infer(tenon_infer_t *infer) {
  TENON_TRY(infer->host->list(infer, 0, (uint32_t)infer->attrs[0].as.i));
  for (uint32_t k = 0; k < infer->outputs[0]->count; k++) {
    infer->outputs[0]->items[k]->ndim = 1;
    infer->outputs[0]->items[k]->dims[0] = tenon_extent(k + 1);
  }
  return TENON_OK;
}
static tenon_status_t parts_run(tenon_call_t *c) { /* item k has k + 1 elements */
  const float *x = c->inputs[0]->data;
  for (int64_t k = 0; k < c->outputs[0]->shape[0]; k++)
    for (int64_t i = 0; i <= k; i++) ((float *)tenon_item(c->outputs[0], k)->data)[i] = x[0] + (float)(10 * k + i);
  return TENON_OK;
}
static tenon_status_t nothing_run(tenon_call_t *c) { return c ? TENON_OK : TENON_INVALID; }
TENON_LIBRARY(more, "1.0.0",
  TENON_OP("values(Tensor x, *, bool flag=True, int number=3, float epsilon=1e-5, str text='a\\'b', str['one', 'two'] choice='two', dtype dtype=f64, int[] numbers=[1, 2],"
           " float[] floats=[0.5], str[] texts=[], int? maybe=None) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: [10]"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", values_run)),
  TENON_OP("reuse(Tensor x) -> (Tensor y, Tensor is_same)", TENON_TYPES("x: f32; y = x; is_same = i64"), TENON_SHAPES("y = x; is_same: []"), TENON_REUSE("y: x"), TENON_KERNEL("cpu", reuse_run)),
  TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", twice_run)),
  TENON_OP("both(Tensor x) -> (Tensor largest, Tensor? place)", TENON_TYPES("x: f32; largest = x; place = i64"), TENON_SHAPES("largest: []; place: []"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", both_run)),
  TENON_OP("parts(Tensor x, *, int n) -> Tensor[n] ys", TENON_TYPES("x: f32; ys = x"), TENON_INFER(parts_infer), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", parts_run)),
  TENON_OP("nothing(Tensor x) -> ()", TENON_TYPES("x: f32"), TENON_KERNEL("cpu", nothing_run)),
  TENON_OP("later(Tensor x) -> Tensor", TENON_VERSION(3), TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", twice_run)))
"""


def built(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


demo, kinds, more = tenon.load(GELU), built("kinds.c", KINDS), built("more.c", MORE)
core = tenon.ops.core
rng = np.random.default_rng(1)
x = rng.standard_normal((4, 3)).astype(np.float32)
compared = set()


def options_of(*operators):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    tenon.onnxruntime.register(options, *operators)
    return options


def session(model, *operators, options=None):
    return onnxruntime.InferenceSession(model, options or options_of(*(operators or (demo, kinds, more))), providers=["CPUExecutionProvider"])


def node(name, inputs, outputs, **attributes):
    domain, _, kind = name.rpartition("::")
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def run_one(name, *arrays, outputs=1, shapes=False, **attributes):
    """Runs a model of one node; None stands for an absent input."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    feeds = {n: a for n, a in zip(names, arrays) if n}
    outs = [f"y{i}" for i in range(outputs)]
    made = session(samples.model_of([node(name, names, outs, **attributes)], feeds, outs, shapes)).run(None, feeds)
    return made[0] if outputs == 1 else made


def listed(made):
    return [t for m in made for t in listed(m)] if isinstance(made, (list, tuple)) else [np.asarray(made)]


class Builtins(unittest.TestCase):
    """The built-in operators beside Tenon, with the example calls that they declare."""
    RANDOM = {"allocate", "bernoulli", "dropout", "empty", "empty_like", "empty_pinned", "empty_strided", "normal", "normal_", "randint", "randn", "uniform", "uniform_"}
    # Those that need tensors of the host, that have no dense result, and those whose dtypes depend on a tensor that is an attribute.
    OTHER = {"copy_from_and_resize", "resize_", "set_.none", "set_.strided", "set_.tensor", "to_sparse", "label_encode", "copy", "copy_from"}

    def one(self, op, arguments):
        wanted = listed(op(**{name: value for name, value in arguments.items() if value is not None}))
        outputs = [f"y{i}" for i in range(len(wanted))]
        made, feeds = samples.node_of(op, arguments, outputs)
        for shapes in (True, False) if op.name != "core::constant_of_shape" else (True,):  # its rank is an extent
            run = session(samples.model_of([made], feeds, outputs, shapes), op)
            for _ in range(2):  # a new shape, and a known one
                for found, expected in zip(run.run(None, feeds), wanted, strict=True):
                    if expected.dtype.kind in "OU":
                        self.assertEqual(found.tolist(), expected.tolist())
                        continue
                    self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
                    np.testing.assert_array_equal(found, expected)

    def test_values(self):
        left_out = tenon.onnxruntime.left_out("core")
        lists = {name for name, why in left_out.items() if "lists of tensors" in why}
        self.assertEqual(set(left_out) - lists, {"core::if", "core::list_map", "core::loop", "core::scan"})
        self.assertEqual({name[6:] for name in lists}, {"list", "list_at", "list_concat", "list_erase", "list_insert", "list_length", "list_split", "optional", "optional_get", "optional_has"})
        for name in sorted(name for name in tenon._core.names() if name.startswith("core::")):
            if name in left_out or name[6:] in self.RANDOM | self.OTHER:
                continue
            op = tenon._core.find(name)
            for arguments in list(samples.samples_of(op))[:2]:
                if any(p["tensor"] and arguments[p["name"]] is None and not p["optional"] for p in op.parameters):
                    continue  # of a dtype that NumPy lacks
                with self.subTest(name):
                    self.one(op, arguments)
                    compared.add(name)
        self.assertGreater(len(compared), 240)


class Models(unittest.TestCase):
    def chain(self):
        """Standard operators, and operators of three libraries."""
        nodes = [node("Relu", ["x"], ["a"]), node("demo::gelu", ["a"], ["b"]), node("Add", ["b", "x"], ["c"]), node("kinds::scale_", ["c"], ["d"], by=0.5),
                 node("kinds::total", ["d", "b", "a"], ["e"], choice="two", extra=2.5), node("kinds::powers", ["a"], ["f"], n=2), node("Mul", ["f", "e"], ["g"]), node("more::twice", ["g"], ["h"]),
                 node("kinds::positive", ["h"], ["p"]), node("kinds::count", ["x"], ["n"]), node("more::both", ["h"], ["l", "w"]), node("MatMul", ["h", "m"], ["y"])]
        return samples.model_of(nodes, {"x": x, "m": np.ones((3, 2), "f4")}, ["y", "p", "n", "l", "w"], False)

    def wanted(self, x, m, number):
        a = np.maximum(x, 0)
        b = np.asarray(demo.gelu(a))
        d = (b + x) * np.float32(0.5)
        e = np.asarray(kinds.total([d, b], a, choice="two", extra=2.5))
        h = 2 * (np.asarray(kinds.powers(a, n=2)) * e)
        largest, place = (np.asarray(t) for t in more.both(h))
        return [h @ m, np.asarray(kinds.positive(h)), np.float32(number), largest, place]

    def test_operators_beside_standard_nodes(self):
        run = session(self.chain())
        for number, rows in enumerate((4, 7, 1, 4), 1):  # dynamic shapes, and a state of the node
            fed = {"x": rng.standard_normal((rows, 3)).astype("f4"), "m": np.ones((3, 2), "f4")}
            for found, expected in zip(run.run(None, fed), self.wanted(*fed.values(), number), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_threads_share_a_session(self):
        run, errors = session(self.chain()), []

        def work(seed):
            random = np.random.default_rng(seed)
            for k in range(30):
                fed = {"x": random.standard_normal((1 + (seed + k) % 20, 3)).astype("f4"), "m": np.ones((3, 2), "f4")}  # more shapes than are kept
                try:
                    for i, (found, expected) in enumerate(zip(run.run(None, fed), self.wanted(*fed.values(), 0), strict=True)):
                        if i != 2:  # how often the node was called
                            np.testing.assert_allclose(found, expected, rtol=1e-6)
                except Exception as error:  # noqa: BLE001 - the test reports it
                    errors.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(run.run(None, {"x": x, "m": np.ones((3, 2), "f4")})[2], 181)

    def test_sessions_in_several_threads(self):
        made = []
        model = self.chain()
        threads = [threading.Thread(target=lambda: made.append(session(model).run(None, {"x": x, "m": np.ones((3, 2), "f4")})[0])) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(made), 4)
        for y in made:
            np.testing.assert_array_equal(y, made[0])

    def test_parallel_execution(self):
        options = options_of(demo)
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = options.intra_op_num_threads = 2
        nodes = [node("demo::gelu", ["x"], [f"y{i}"]) for i in range(8)]
        outputs = [f"y{i}" for i in range(8)]
        for y in session(samples.model_of(nodes, {"x": x}, outputs), options=options).run(None, {"x": x}):
            np.testing.assert_array_equal(y, np.asarray(demo.gelu(x)))

    def test_profiling_shows_the_nodes(self):
        options = options_of(demo, kinds, more)
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(FOLDER, "profile")
        run = session(self.chain(), options=options)
        run.run(None, {"x": x, "m": np.ones((3, 2), "f4")})
        with open(run.end_profiling(), encoding="utf-8") as file:
            kinds_of_nodes = {event["args"].get("op_name") for event in json.load(file) if event.get("cat") == "Node"}
        self.assertLessEqual({"gelu", "scale_", "total", "twice", "positive", "both"}, kinds_of_nodes)

    def test_io_binding_writes_to_memory_of_the_caller(self):
        run = session(samples.model_of([node("demo::gelu", ["x"], ["y"])], {"x": x}, ["y"], False))
        made = np.zeros_like(x)
        binding = run.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu", 0, np.float32, made.shape, made.ctypes.data)
        for _ in range(2):
            made[:] = 0
            run.run_with_iobinding(binding)
            np.testing.assert_array_equal(made, np.asarray(demo.gelu(x)))

    def test_shapes_and_types_reach_the_outputs(self):
        model = samples.model_of([node("demo::gelu", ["x"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=1), node("more::both", ["y"], ["l", "w"])], {"x": x}, ["y", "l", "w"], False)
        self.assertEqual([(o.type, o.shape) for o in session(model).get_outputs()], [("tensor(float)", ["x_0", None]), ("tensor(float)", []), ("tensor(int64)", [])])
        fixed = samples.model_of([node("core::matmul", ["x", "w"], ["y"])], {"x": x, "w": np.ones((3, 5), "f4")}, ["y"])
        self.assertEqual(session(fixed, "core").get_outputs()[0].shape, [4, 5])

    def test_types_are_known_where_no_rank_is(self):
        unknown = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
        places = helper.make_tensor_value_info("i", TensorProto.INT64, None)
        graph = helper.make_graph([node("core::gather", ["x", "i"], ["a"], axis=0), node("Relu", ["a"], ["y"])], "g", [unknown, places], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("core", 1)], ir_version=8).SerializeToString()
        np.testing.assert_array_equal(session(model, core.gather).run(None, {"x": x, "i": np.int64([2, 0])})[0], np.maximum(x[[2, 0]], 0))

    def test_an_operator_in_a_branch(self):
        def branch(name, made):
            return helper.make_graph([made], name, [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
        nodes = [node("If", ["c"], ["y"], then_branch=branch("t", node("demo::gelu", ["x"], ["b"])), else_branch=branch("e", node("Relu", ["x"], ["b"])))]
        run = session(samples.model_of(nodes, {"c": np.bool_([True]).reshape(()), "x": x}, ["y"], domains=["demo"]))
        np.testing.assert_array_equal(run.run(None, {"c": np.array(True), "x": x})[0], np.asarray(demo.gelu(x)))
        np.testing.assert_array_equal(run.run(None, {"c": np.array(False), "x": x})[0], np.maximum(x, 0))

    def test_memory_of_an_input_that_nothing_else_needs_is_used_again(self):
        nodes = [node("Neg", ["x"], ["a"]), node("more::reuse", ["a"], ["b", "same"]), node("Neg", ["b"], ["y"])]
        options = options_of(more)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        run = session(samples.model_of(nodes, {"x": x}, ["same", "y"]), options=options)
        for _ in range(3):
            same, y = run.run(None, {"x": x})
            np.testing.assert_array_equal(y, x - 1)
            self.assertEqual(same, 1)

    def test_models_that_tenon_writes(self):
        builder = tenon.graph.Builder()
        ops = tenon.graph.ops
        graph = builder.finish({"y": ops.kinds.scale_(ops.demo.gelu(builder.input("x", "f32", ["n", 3])), by=0.1)})
        path = os.path.join(FOLDER, "written.onnx")
        graph.export(path)
        np.testing.assert_array_equal(session(path).run(None, {"x": x})[0], np.asarray(kinds.scale_(np.asarray(demo.gelu(x)), by=0.1)))

    def test_calls_need_no_memory(self):
        run = session(samples.model_of([node("demo::gelu", ["x"], ["y"])], {"x": x}, ["y"]))
        run.run(None, {"x": x})
        gc.collect()
        self.assertLess(grown(lambda: run.run(None, {"x": x}), 500), 5000)

    def test_registrations_need_no_memory(self):
        options_of(demo)
        self.assertLess(grown(lambda: options_of(demo), 100), 40000)


class Arguments(unittest.TestCase):
    def test_an_input_that_is_written_to_becomes_an_output(self):
        kept = x.copy()
        np.testing.assert_array_equal(run_one("kinds::scale_", x, by=3.0), kept * np.float32(3))
        np.testing.assert_array_equal(x, kept)

    def test_lists_and_optional_inputs(self):
        self.assertEqual(run_one("kinds::total", x, x, x, choice="one"), np.asarray(kinds.total([x, x], x, choice="one")))
        self.assertEqual(run_one("kinds::total", x, x, operand_counts=[2, 0]), np.asarray(kinds.total([x, x])))
        self.assertEqual(run_one("kinds::total", x, operand_counts=[0, 1]), np.asarray(kinds.total([], x)))

    def test_lists_of_results(self):
        made = run_one("more::parts", x, outputs=3)  # the outputs state the attribute n
        self.assertEqual([p.tolist() for p in made], [p.tolist() for p in map(np.asarray, more.parts(x, n=3))])

    def test_optional_results(self):
        self.assertEqual(run_one("more::both", x), x.max())
        self.assertEqual([t.item() for t in run_one("more::both", x, outputs=2)], [x.max(), x.argmax()])

    def test_results_whose_size_depends_on_data(self):
        for shapes in (True, False):
            np.testing.assert_array_equal(run_one("kinds::positive", x, shapes=shapes), np.asarray(kinds.positive(x)))

    def test_strings(self):
        a, b = np.array(["ab", "x" * 40, ""], dtype=object), np.array(["c", "é" * 30, "d"], dtype=object)
        made = session(samples.model_of([node("core::string_concat", ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"]), core.string_concat).run(None, {"a": a, "b": b})
        self.assertEqual(made[0].tolist(), [p + q for p, q in zip(a, b)])

    def test_states_belong_to_a_node(self):
        run = session(samples.model_of([node("kinds::count", ["x"], ["y"]), node("kinds::count", ["x"], ["z"])], {"x": x}, ["y", "z"]))
        self.assertEqual([[t.item() for t in run.run(None, {"x": x})] for _ in range(2)], [[1, 1], [2, 2]])

    def test_random_numbers_depend_on_the_seed(self):
        def model(**attributes):
            return session(samples.model_of([node("kinds::noise", ["x"], ["y"], **attributes)], {"x": x}, ["y"]))
        one, same, other = model(seed=7), model(seed=7), model(seed=8)
        first = one.run(None, {"x": x})[0]
        np.testing.assert_array_equal(first, same.run(None, {"x": x})[0])
        self.assertTrue((first != other.run(None, {"x": x})[0]).any())
        self.assertTrue((first != one.run(None, {"x": x})[0]).any())  # the next numbers
        tenon.seed(7)
        np.testing.assert_array_equal(first, np.asarray(kinds.noise(x)))
        tenon.seed(7)
        np.testing.assert_array_equal(first, model().run(None, {"x": x})[0])  # without a seed: those of the thread

    def test_quantised_inputs_have_a_scale_in_the_node(self):
        q = np.int8([[1, 2, 3]])
        self.assertEqual(run_one("kinds::real", q).tolist(), [[1, 2, 3]])
        self.assertEqual(run_one("kinds::real", q, x_scale=0.5, x_zero_point=1).tolist(), [[0, 0.5, 1]])
        self.assertEqual(run_one("kinds::real", q, x_scale=[0.5, 1.0, 2.0], x_zero_point=[0, 1, 2], x_axis=1).tolist(), [[0.5, 1, 2]])

    def test_attributes(self):
        default = [1, 3, 1, 3, 1, 64, 2, 0.5, 0, -1]
        given = dict(flag=0, number=-5, epsilon=2, text="é\n'\"", choice="one", dtype=TensorProto.FLOAT16, numbers=[7, 8, 9], floats=[2.5, 1.0], texts=["a", "é'", ""], maybe=4)
        self.assertEqual(run_one("more::values", x).tolist(), default)
        self.assertEqual(run_one("more::values", x, **given).tolist(), [0, -5, 0, 5, 0, 16, 9, 2.5, 3, 4])
        self.assertEqual(run_one("more::values", x, dtype="bf16", floats=[3, 4]).tolist()[5:8:2], [16, 3])
        exact = helper.make_tensor("e", TensorProto.DOUBLE, [], [1e-5])
        self.assertEqual([run_one("more::values", x, epsilon=e)[2] for e in (1e-5, exact)], [0, 1])  # 32 bits round, a tensor does not

    def test_versions(self):
        model = samples.model_of([node("more::later", ["x"], ["y"])], {"x": x}, ["y"])
        with self.assertRaisesRegex(Exception, "more:later"):  # the model imports version 1
            session(model)
        newer = helper.make_model(helper.make_graph([node("more::later", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [4, 3])], [helper.make_tensor_value_info("y", 1, [4, 3])]),
                                  opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("more", 3)], ir_version=8)
        np.testing.assert_array_equal(session(newer.SerializeToString()).run(None, {"x": x})[0], 2 * x)


class Errors(unittest.TestCase):
    def test_nodes(self):
        ints, doubles = np.int64([[1]]), x.astype("f8")
        table = {
            "more::values: attribute 'number': expected an int, found a float": lambda: run_one("more::values", x, number=1.5),
            "more::values: attribute 'number': expected an int, found a list of ints": lambda: run_one("more::values", x, number=[1]),
            "more::values: attribute 'epsilon': expected a float, found a string": lambda: run_one("more::values", x, epsilon="a"),
            "more::values: attribute 'text': expected a string, found an int": lambda: run_one("more::values", x, text=1),
            "more::values: attribute 'numbers': expected a list of ints, found a list of floats": lambda: run_one("more::values", x, numbers=[1.5]),
            "more::values: attribute 'floats': expected a list of floats, found a string": lambda: run_one("more::values", x, floats="a"),
            "more::values: attribute 'texts': expected a list of strings, found an int": lambda: run_one("more::values", x, texts=1),
            "more::values: attribute 'dtype': expected the number of an element type in ONNX, or a name as \"f32\", found a string": lambda: run_one("more::values", x, dtype="float"),
            "attribute 'choice'.*'one', 'two'": lambda: run_one("more::values", x, choice="three"),
            "'kinds::powers' needs a value for attribute 'n'": lambda: run_one("kinds::powers", x),
            "kinds::total: attribute 'operand_counts': expected 2 numbers of tensors": lambda: run_one("kinds::total", x, operand_counts=[1]),
            "kinds::total: the node has 2 inputs, but total.* takes 1": lambda: run_one("kinds::total", x, x, operand_counts=[1, 0]),
            "Type 'tensor\\(int64\\)' of input parameter \\(x0\\) of operator \\(gelu\\)": lambda: run_one("demo::gelu", ints),
            "Type 'tensor\\(double\\)' of input parameter": lambda: run_one("kinds::scale_", doubles, by=1.0),
            "kinds::fails: this is all that it does": lambda: run_one("kinds::fails", x),
            "demo:nothing": lambda: run_one("demo::nothing", x),
            "more::parts: .*attribute n|more::parts: result 'ys'": lambda: run_one("more::parts", x, outputs=3, n=2),
        }
        for message, call in table.items():
            with self.subTest(message), self.assertRaisesRegex(Exception, message):
                call()
        wrong = samples.model_of([node("core::matmul", ["a", "b"], ["y"])], {"a": x, "b": x}, ["y"], False)
        with self.assertRaisesRegex(Exception, "core::matmul: .*3.*4"):
            session(wrong, "core").run(None, {"a": x, "b": x})
        sparse = samples.model_of([node("core::to_sparse", ["x"], ["y"], layout="csr")], {"x": x}, ["y"])
        with self.assertRaisesRegex(Exception, "core::to_sparse: result 'out' is csr, which an output of ONNX Runtime cannot hold"):
            session(sparse, "core").run(None, {"x": x})

    def test_a_session_works_on_after_an_error(self):
        run = session(samples.model_of([node("core::matmul", ["a", "b"], ["y"])], {"a": x, "b": x.T}, ["y"], False), "core")
        for _ in range(2):
            with self.assertRaisesRegex(Exception, "core::matmul"):
                run.run(None, {"a": x, "b": x})
            np.testing.assert_array_equal(run.run(None, {"a": x, "b": x.T})[0], np.asarray(core.matmul(x, x.T)))

    def test_registration(self):
        options = options_of(kinds.powers)
        tenon.onnxruntime.register(options, "kinds::powers", demo)  # what is there is not added again
        with self.assertRaisesRegex(tenon.ExistsError, "the options have other operators of the domain 'kinds' already"):
            tenon.onnxruntime.register(options, kinds)
        with self.assertRaisesRegex(tenon.UnimplementedError, "core::if cannot be an operator of ONNX Runtime: it has a graph"):
            options_of("core::if")
        with self.assertRaisesRegex(tenon.UnimplementedError, "more::nothing cannot be an operator of ONNX Runtime: it has no results"):
            options_of(more.nothing)
        with self.assertRaisesRegex(tenon.NotFoundError, "core::sotfmax"):
            options_of("core::sotfmax")
        with self.assertRaisesRegex(tenon.NotFoundError, "no loaded library has operators in the namespace 'none'"):
            options_of("none")
        with self.assertRaisesRegex(TypeError, "expected an operator, a library, or the name of one, found int"):
            options_of(3)
        self.assertEqual(tenon.onnxruntime.left_out(more), {"more::nothing": "it has no results"})

    def test_the_library_registers_everything(self):
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(tenon.onnxruntime.library())
        nodes = [node("demo::gelu", ["x"], ["a"]), node("core::softmax", ["a"], ["b"]), node("more::twice", ["b"], ["y"])]
        run = session(samples.model_of(nodes, {"x": x}, ["y"]), options=options)
        np.testing.assert_array_equal(run.run(None, {"x": x})[0], 2 * np.asarray(core.softmax(demo.gelu(x))))


class Export(unittest.TestCase):
    """A library that `tenon export` makes, in a C program with the libonnxruntime of the wheel."""

    @classmethod
    def setUpClass(cls):
        cls.tenon = os.path.join(BUILD, "tenon")
        for name, source in (("gelu", GELU), ("more", os.path.join(FOLDER, "more.c"))):
            cls.command("build", source, "-o", cls.path(f"{name}.so"))
        cls.exported = cls.command("export", "--to", "onnxruntime", cls.path("more.so"), "-o", cls.path("exported.so"))
        cls.program = cls.path("deploy")
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/bridges", os.path.join(ROOT, "tests", "adapters", "onnxruntime_deploy.c"), "-o", cls.program, "-ldl", "-lpthread"], check=True)
        with open(cls.path("model.onnx"), "wb") as file:
            file.write(samples.model_of([node("Relu", ["x"], ["a"]), node("more::twice", ["a"], ["y"])], {"x": np.zeros((2, 2), "f4")}, ["y"]))

    @staticmethod
    def path(name):
        return os.path.join(FOLDER, name)

    @classmethod
    def command(cls, *arguments):
        return subprocess.run([cls.tenon, *arguments], check=True, capture_output=True, text=True).stdout

    def deploy(self, library, *more, **environment):
        package = os.path.dirname(onnxruntime.__file__)
        real = next(os.path.join(package, "capi", f) for f in os.listdir(os.path.join(package, "capi")) if f.startswith("libonnxruntime.so"))
        env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        return subprocess.run([self.program, real, library, self.path("model.onnx"), *more], capture_output=True, text=True, timeout=120, env={**env, **environment})

    def test_what_was_exported(self):
        self.assertEqual(self.exported, f"exported {self.path('exported.so')}: 6 operators; not exported:\n  more::nothing: it has no results\n")
        needed = subprocess.run(["readelf", "-d", self.path("exported.so")], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("libtenon", needed)
        self.assertNotIn("libonnxruntime", needed)

    def test_a_program_in_c(self):
        done = self.deploy(self.path("exported.so"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0 2 4 6\n" * 8, ""))

    def test_python_without_tenon(self):
        text = f"import numpy as np, onnxruntime\no = onnxruntime.SessionOptions()\no.register_custom_ops_library({self.path('exported.so')!r})\n" \
               f"s = onnxruntime.InferenceSession({self.path('model.onnx')!r}, o, providers=['CPUExecutionProvider'])\nprint(s.run(None, {{'x': np.float32([[-1, 1], [2, 3]])}})[0].tolist())"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout, done.stderr), ("[[0.0, 2.0], [4.0, 6.0]]\n", ""))

    def test_libtenon_and_the_library_are_found_beside_the_exported_one(self):
        moved = self.path("moved")
        os.mkdir(moved)
        for name in ("exported.so", "more.so"):
            shutil.copy(self.path(name), moved)
        os.rename(self.path("more.so"), self.path("more.away"))
        try:
            self.assertEqual(self.deploy(os.path.join(moved, "exported.so")).stdout, "0 2 4 6\n" * 8)
            os.remove(os.path.join(moved, "more.so"))
            done = self.deploy(os.path.join(moved, "exported.so"))
            self.assertRegex(done.stderr, "more.so")
            self.assertEqual(done.returncode, 1)
        finally:
            os.rename(self.path("more.away"), self.path("more.so"))

    def test_an_older_onnx_runtime_is_told(self):
        done = self.deploy(self.path("exported.so"), "1.17.3")
        self.assertEqual((done.returncode, done.stderr), (1, "Tenon: expected ONNX Runtime 1.18 or newer, found 1.17.3\n"))

    def test_mistakes_of_the_command(self):
        cases = ((["--to", "onnxruntime", self.path("more.so"), "more::nothing"], "more::nothing: it has no results"),
                 (["--to", "onnxruntime", self.path("more.so"), "--prefix", "x"], "in ONNX Runtime the domain is the namespace"),
                 (["--to", "onnxruntime", self.path("more.so"), "more::none"], "no operator 'more::none'"))
        for arguments, words in cases:
            with self.subTest(words):
                done = subprocess.run([self.tenon, "export", *arguments, "-o", self.path("none.so")], capture_output=True, text=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertFalse(os.path.exists(self.path("none.so")))


if __name__ == "__main__":
    totals.main()
