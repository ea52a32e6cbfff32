"""Tenon as an execution provider of ONNX Runtime: groups, runs, options, failures and saved groups, beside ONNX Runtime's CPU provider."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import onnxruntime_models as models
import tenon
import tenon.onnxruntime
import tenon.onnxruntime.execution_provider as provider
import totals

SOURCE = os.environ.get("ONNXRUNTIME_SOURCE", "")
FOLDER = tempfile.TemporaryDirectory(prefix="tenon-onnxruntime-provider-")
F, I = TensorProto.FLOAT, TensorProto.INT64
rng = np.random.default_rng(3)
onnxruntime.set_default_logger_severity(4)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


def model(nodes, inputs, outputs, opset=20, domains=(), **constants):
    """inputs, outputs: {name: (element type, shape)}."""
    values = [[helper.make_tensor_value_info(name, *of) for name, of in side.items()] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *values, [numpy_helper.from_array(np.asarray(c), name) for name, c in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)], ir_version=10)


def text(made):
    """What InferenceSession takes: the bytes of a model, or the path of a file."""
    return made.SerializeToString() if isinstance(made, onnx.ModelProto) else made


def alone(made):
    return onnxruntime.InferenceSession(text(made), providers=["CPUExecutionProvider"])


def first(made, config=None, session_options=None, **settings):
    """A session with Tenon first, and the lines of the report about it."""
    options = session_options or onnxruntime.SessionOptions()
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    provider.report(clear=True)
    session = onnxruntime.InferenceSession(text(made), provider.options(options, **settings))
    session.disable_fallback()
    return session, provider.report(clear=True)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def mlp():
    """ONNX Runtime makes a Gemm of the product and the sum."""
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "d"), node("Softmax", "d", "e", axis=-1), node("Mul", "e d", "y")]
    return model(nodes, {"x": (F, ["n", 6])}, {"y": (F, ["n", 5])}, w=floats(6, 5), b=floats(5))


THREADS = r"""
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <tenon/op.h>
/* Writes the number of the thread that computes an element, which takes some time. */
static tenon_status_t note(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  (void)argument;
  const struct timespec pause = {0, 20000};
  for (int64_t i = begin; i < end; i++) {
    ((float *)call->outputs[0]->data)[i] = (float)syscall(SYS_gettid);
    nanosleep(&pause, NULL);
  }
  return TENON_OK;
}
static tenon_status_t who(tenon_call_t *call) { return call->host->parallel(call, 64, 1, note, NULL); }
TENON_LIBRARY(threads, "1.0.0",
  TENON_OP("who(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", who)))
"""


class Provider(unittest.TestCase):
    def same(self, found, expected, tolerance=1e-6):
        for f, e in zip(found, expected, strict=True):
            self.assertEqual(np.asarray(f).dtype, np.asarray(e).dtype)
            if np.asarray(e).dtype.kind == "f":
                np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(f, e)

    def compare(self, made, feed, **settings):
        session, lines = first(made, **settings)
        self.same(session.run(None, feed), alone(made).run(None, feed))
        return session, lines

    def test_the_provider_is_a_device_of_onnx_runtime(self):
        self.assertEqual(tenon.onnxruntime.provider(), provider.path())
        device, = provider.devices()
        self.assertEqual((device.ep_name, device.ep_vendor), ("tenon", "tenon"))
        session, lines = first(mlp())
        self.assertEqual(session.get_providers(), ["tenon", "CPUExecutionProvider"])
        self.assertEqual(lines, ["graph 'graph' of 4 nodes: took 4 in 1 groups; left 0"])

    def test_shapes_that_change_from_run_to_run(self):
        made = mlp()
        session, _ = first(made)
        peer = alone(made)
        for n in 1, 7, 0, 64, 3:
            x = floats(n, 6)
            self.same(session.run(None, {"x": x}), peer.run(None, {"x": x}))

    def test_shapes_that_only_a_run_finds(self):
        made = model([node("NonZero", "x", "i"), node("Abs", "x", "z"), node("Cast", "i", "y", to=F)], {"x": (F, ["n"])}, {"y": (F, [1, "k"]), "z": (F, ["n"])})
        session, lines = self.compare(made, {"x": np.array([0, 1, 0, -2], np.float32)})
        self.assertIn("took 3 in 1 groups", lines[0])
        self.same(session.run(None, {"x": np.zeros(3, np.float32)}), alone(made).run(None, {"x": np.zeros(3, np.float32)}))

    def test_groups_never_wait_for_themselves(self):
        """Softmax stays outside: what reads its result cannot be in the group of what it reads."""
        _, lines = self.compare(mlp(), {"x": floats(4, 6)}, leave=["Softmax"])
        self.assertEqual(lines, ["graph 'graph' of 4 nodes: took 3 in 2 groups; left 1; 1 Softmax: the option leave names it"])

    def test_random_graphs_in_random_groups(self):
        for seed in range(12):
            dice = np.random.default_rng(seed)
            names, nodes = ["x", "x"], []
            for k in range(20):
                op = dice.choice(["Add", "Mul", "Tanh", "Sigmoid", "Neg", "Sub"])
                read = dice.choice(names, 2 if op in ("Add", "Mul", "Sub") else 1)
                nodes.append(node(op, " ".join(read), f"v{k}"))
                names.append(f"v{k}")
            made = model(nodes, {"x": (F, [3])}, {name: (F, [3]) for name in names[-3:]})
            with self.subTest(seed=seed):
                self.compare(made, {"x": floats(3)}, leave=list(dice.choice(["Add", "Mul", "Tanh", "Sigmoid"], 2)))

    def test_control_flow_is_taken_as_a_whole(self):
        then = helper.make_graph([node("Mul", "x w", "t")], "then", [], [helper.make_tensor_value_info("t", F, None)])
        other = helper.make_graph([node("Neg", "x", "e")], "else", [], [helper.make_tensor_value_info("e", F, None)])
        made = model([node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"), node("If", "c", "y", then_branch=then, else_branch=other)],
                     {"x": (F, [4])}, {"y": (F, [4])}, w=floats(4), zero=np.float32(0))
        session, lines = first(made)
        self.assertEqual(lines, ["graph 'graph' of 3 nodes: took 3 in 1 groups; left 0"])
        for sign in 1, -1:
            self.same(session.run(None, {"x": np.full(4, sign, np.float32)}), alone(made).run(None, {"x": np.full(4, sign, np.float32)}))
        session, lines = first(made, leave=["If"])
        self.assertIn("graph 'then' of 1 nodes: took 1 in 1 groups; left 0", lines)
        self.same(session.run(None, {"x": np.ones(4, np.float32)}), alone(made).run(None, {"x": np.ones(4, np.float32)}))

    def test_strings(self):
        S = TensorProto.STRING
        made = model([node("StringConcat", "a b", "y"), node("Identity", "a", "z")], {"a": (S, ["n"]), "b": (S, ["n"])}, {"y": (S, ["n"]), "z": (S, ["n"])})
        self.compare(made, {"a": np.array(["x", "", "Grüße"], object), "b": np.array(["1", "", "a longer text than others"], object)})

    def test_several_threads_run_one_session(self):
        made = mlp()
        session, _ = first(made)
        feeds = [floats(k + 1, 6) for k in range(8)]
        expected = [alone(made).run(None, {"x": x}) for x in feeds]
        wrong = []

        def work(k):
            for _ in range(50):
                try:
                    self.same(session.run(None, {"x": feeds[k]}), expected[k])
                except Exception as error:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_io_binding_and_profiling(self):
        options = onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(FOLDER.name, "profile")
        made = mlp()
        session, _ = first(made, session_options=options)
        x, binding = floats(2, 6), session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        self.same(binding.copy_outputs_to_cpu(), alone(made).run(None, {"x": x}))
        with open(session.end_profiling(), encoding="utf-8") as file:
            self.assertIn("tenon_", file.read())

    def test_large_weights_are_used_where_they_are(self):
        made = model([node("MatMul", "x w", "y")], {"x": (F, ["n", 256])}, {"y": (F, ["n", 300])}, w=floats(256, 300))
        session, _ = first(made)
        x = floats(5, 256)
        self.same(session.run(None, {"x": x}), alone(made).run(None, {"x": x}), 1e-4)

    def test_operators_of_loaded_libraries_are_taken(self):
        """The library tells ONNX Runtime the schema, and its operators run in Tenon, in one group with their neighbours."""
        made = os.path.join(FOLDER.name, "libops.so")
        subprocess.run(["cc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DAPI=18", os.path.join(HERE, "onnxruntime_libraries", "ops.c"), "-o", made], check=True)
        peer = os.path.join(FOLDER.name, "libpeer.so")
        with open(made, "rb") as source, open(peer, "wb") as copy:
            copy.write(source.read())
        tenon.load(made)
        nodes = [node("Abs", "x", "a"), helper.make_node("Scale", ["a"], ["b"], domain="test.api18", factor=3.0), node("Sqrt", "b", "y")]
        graph = model(nodes, {"x": (F, ["n"])}, {"y": (F, ["n"])}, domains=["test.api18"])
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(peer)
        session, lines = first(graph, session_options=options)
        self.assertEqual(lines, ["graph 'graph' of 3 nodes: took 3 in 1 groups; left 0"])
        x = floats(4)
        self.same(session.run(None, {"x": x}), [np.sqrt(np.abs(x) * 3)])

    @unittest.skipUnless(hasattr(tenon.onnxruntime, "register"), "tenon.onnxruntime registers no operators")
    def test_operators_that_tenon_registers_are_taken(self):
        from torch_kinds import GELU
        ops = tenon.load(GELU)
        options = onnxruntime.SessionOptions()
        tenon.onnxruntime.register(options, ops)
        nodes = [node("Abs", "x", "a"), helper.make_node("gelu", ["a"], ["b"], domain=ops.name), node("Sqrt", "b", "y")]
        session, lines = first(model(nodes, {"x": (F, ["n"])}, {"y": (F, ["n"])}, domains=[ops.name]), session_options=options)
        self.assertEqual(lines, ["graph 'graph' of 3 nodes: took 3 in 1 groups; left 0"])
        x = floats(4)
        self.same(session.run(None, {"x": x}), [np.sqrt(ops.gelu(np.abs(x)))])


ZOO = os.path.join(BUILD, "zoo")


class Zoo(unittest.TestCase):
    @unittest.skipUnless(os.path.isdir(ZOO), "there is no zoo: scripts/zoo.sh makes it")
    def test_models_are_taken_whole_and_equal_the_cpu_provider(self):
        names = sorted(name for name in os.listdir(ZOO) if name.endswith(".onnx"))
        for name in names if os.environ.get("TENON_CASES") == "all" else [name for name in names if name == "mobilenetv2.onnx"]:
            with self.subTest(model=name):
                path = os.path.join(ZOO, name)
                session, lines = first(path)
                feed = {}
                for value in session.get_inputs():
                    shape = [d if isinstance(d, int) else 2 for d in value.shape]
                    feed[value.name] = np.ones(shape, np.int64) if "int64" in value.type else floats(*shape)
                self.assertRegex(lines[-1], r"in 1 groups; left 0$")
                for found, expected in zip(session.run(None, feed), alone(path).run(None, feed), strict=True):
                    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max()))


class Options(unittest.TestCase):
    def refused(self, expected, made=None, **settings):
        with self.assertRaises(Exception) as caught:
            onnxruntime.capi._pybind_state.InferenceSession(provider.options(**settings), text(made or mlp()), False, False).initialize_session([], [], set())
        self.assertIn(expected, str(caught.exception))

    def test_wrong_options_are_refused_with_the_right_ones(self):
        self.refused("unknown option 'speed'; there are threads, smallest_group, optimize, leave, report_file", speed="high")
        self.refused("option threads: expected a number from 0 to 1048576; found 'many'", threads="many")
        self.refused("option optimize: expected full or plain; found 'no'", optimize="no")
        for device, expected in (":1", "expected a name such as cpu or sim:0; found ':1'"), ("nothing:0", "nothing"), ("sim:7", "'sim' has "), ("sim:x", "found 'sim:x'"):
            with self.assertRaises(Exception) as caught:
                provider.devices(device)
            self.assertIn(expected, str(caught.exception))
        self.refused("option smallest_group: expected a number from 1", smallest_group=0)

    def test_options_do_what_they_say(self):
        x = floats(3, 6)
        expected = alone(mlp_model := mlp()).run(None, {"x": x})
        report = os.path.join(FOLDER.name, "report.txt")
        for settings in {"threads": 1}, {"optimize": "plain"}, {"report_file": report}:
            session, lines = first(mlp_model, **settings)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], expected[0], rtol=1e-6, atol=1e-6)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), lines)
        _, lines = first(mlp_model, smallest_group=6)
        self.assertIn("took 0 in 0 groups; left 4", lines[0])
        self.assertIn("the option smallest_group is 6", lines[0])

    def test_loops_run_on_the_threads_of_the_session(self):
        source = os.path.join(FOLDER.name, "threads.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(THREADS)
        program = ("import os, sys, numpy, onnx, onnxruntime, tenon, tenon.onnxruntime\nimport tenon.onnxruntime.execution_provider as p\n"
                   "ops = tenon.load(sys.argv[1])\noptions = onnxruntime.SessionOptions()\noptions.intra_op_num_threads = int(sys.argv[3])\n"
                   "tenon.onnxruntime.register(options, ops)\n"
                   "s = onnxruntime.InferenceSession(sys.argv[2], p.options(options))\n"
                   "x, before = numpy.zeros(64, 'f4'), len(os.listdir('/proc/self/task'))\n"
                   "seen = set().union(*(s.run(None, {'x': x})[0].tolist() for _ in range(40)))\n"
                   "print(p.report()[0].split('took')[1].split(';')[0], len(seen), len(os.listdir('/proc/self/task')) - before)\n")
        made = model([helper.make_node("who", ["x"], ["y"], domain="threads")], {"x": (F, [64])}, {"y": (F, [64])}, domains=["threads"])
        path = os.path.join(FOLDER.name, "threads.onnx")
        onnx.save(made, path)
        env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "TENON_THREADS": "4"}
        for threads in 1, 3:
            done = subprocess.run([sys.executable, "-c", program, source, path, str(threads)], check=True, env=env, timeout=120, capture_output=True, text=True)
            *taken, seen, started = done.stdout.split()
            self.assertEqual((taken, started), (["1", "in", "1", "groups"], "0"))
            self.assertLessEqual(int(seen), threads)
        self.assertGreater(int(seen), 1)

    def test_a_simulated_device_with_memory_of_its_own_and_random_delays(self):
        made = mlp()
        x = floats(9, 6)
        program = ("import sys, numpy, onnxruntime\nimport tenon.onnxruntime.execution_provider as p\n"
                   "s = onnxruntime.InferenceSession(sys.argv[1], p.options(device='sim:0', leave=['Softmax']))\n"
                   "for _ in range(20): y = s.run(None, {'x': numpy.load(sys.argv[2])})[0]\nnumpy.save(sys.argv[3], y)\n")
        session, lines = first(made, device="sim:0")
        self.assertEqual((session.get_providers()[0], lines), ("tenon:sim:0", ["graph 'graph' of 4 nodes: took 4 in 1 groups; left 0"]))
        paths = [os.path.join(FOLDER.name, name) for name in ("sim.onnx", "sim-x.npy", "sim-y.npy")]
        onnx.save(made, paths[0])
        np.save(paths[1], x)
        for seed in "1", "2", "3":
            env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "TENON_SIM": f"delay=200,seed={seed}"}
            subprocess.run([sys.executable, "-c", program, *paths], check=True, env=env, timeout=120)
            np.testing.assert_allclose(np.load(paths[2]), alone(made).run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


class Failures(unittest.TestCase):
    def test_a_run_that_fails_says_why_and_the_session_works_on(self):
        made = model([node("Gather", "x i", "y")], {"x": (F, [4]), "i": (I, ["k"])}, {"y": (F, ["k"])})
        session, _ = first(made)
        x, good = floats(4), np.array([1, 3])
        for _ in range(3):
            with self.assertRaises(Exception) as caught:
                session.run(None, {"x": x, "i": np.array([1, 9])})
            self.assertIn("tenon", str(caught.exception))
            self.assertIn("9", str(caught.exception))
            np.testing.assert_array_equal(session.run(None, {"x": x, "i": good})[0], x[good])

    def test_what_tenon_cannot_import_stays_with_onnx_runtime(self):
        made = model([node("Abs", "x", "a"), node("SequenceConstruct", "a x", "s"), node("ConcatFromSequence", "s", "y", axis=0)], {"x": (F, [3])}, {"y": (F, [6])})
        session, lines = first(made)
        x = floats(3)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.concatenate([np.abs(x), x]))
        self.assertIn("SequenceConstruct: one of its values is no tensor", lines[0])


class Contexts(unittest.TestCase):
    def save(self, name, embed, made=None, **settings):
        """Writes a model with saved groups; returns its path."""
        folder = os.path.join(FOLDER.name, name)
        os.makedirs(folder)
        plain, path = os.path.join(folder, "plain.onnx"), os.path.join(folder, "context.onnx")
        onnx.save(made or mlp(), plain)
        first(plain, {"ep.context_enable": "1", "ep.context_embed_mode": embed, "ep.context_file_path": path}, **settings)
        return plain, path

    def test_a_saved_model_runs_in_another_process(self):
        program = ("import sys, numpy, onnxruntime\nimport tenon.onnxruntime.execution_provider as p\n"
                   "s = onnxruntime.InferenceSession(sys.argv[1], p.options())\nnumpy.save(sys.argv[3], s.run(None, {'x': numpy.load(sys.argv[2])})[0])\nprint(p.report()[0])\n")
        for embed in "0", "1":
            with self.subTest(embed=embed):
                plain, path = self.save(f"process-{embed}", embed, leave=["Softmax"])
                kinds = [n.op_type for n in onnx.load(path).graph.node]
                self.assertEqual(sorted(kinds), ["EPContext", "EPContext", "Softmax"])
                os.rename(plain, plain + ".away")
                x, paths = floats(3, 6), [path + ".x.npy", path + ".y.npy"]
                np.save(paths[0], x)
                env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
                done = subprocess.run([sys.executable, "-c", program, path, *paths], env=env, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertIn("of 3 nodes: took 3 in 3 groups", done.stdout)
                np.testing.assert_allclose(np.load(paths[1]), alone(plain + ".away").run(None, {"x": x})[0], rtol=1e-6, atol=1e-6)

    def changed(self, path, old, new):
        """Replaces bytes of the saved group, in the model."""
        made = onnx.load(path)
        attribute = next(a for a in made.graph.node[0].attribute if a.name == "ep_cache_context")
        self.assertIn(old, attribute.s)
        attribute.s = attribute.s.replace(old, new)
        return made.SerializeToString()

    def test_saved_groups_that_do_not_fit_are_refused(self):
        _, path = self.save("refused", "1")
        for old, new, expected in ((b"format=1", b"format=9", "has format 9 and is of Tenon"), (b"tenon-context", b"other-context", "damaged: it does not begin with tenon-context"),
                                   (b"device=cpu", b"device=npu", "is for the device npu; this provider is for cpu"), (b"processor=", b"processor=z80,", "is for the processor z80,"),
                                   (b"Softmax", b"Softmix", "Softmix")):
            with self.subTest(expected=expected):
                with self.assertRaises(Exception) as caught:
                    first(self.changed(path, old, new))
                self.assertIn(expected, str(caught.exception))

    def test_a_file_that_is_missing_or_elsewhere_is_refused(self):
        _, path = self.save("missing", "0")
        stored = next(name for name in os.listdir(os.path.dirname(path)) if name.endswith(".bin"))
        os.remove(os.path.join(os.path.dirname(path), stored))
        with self.assertRaises(Exception) as caught:
            first(path)
        self.assertIn("cannot be read", str(caught.exception))
        made = onnx.load(path)
        next(a for a in made.graph.node[0].attribute if a.name == "ep_cache_context").s = b"../" + stored.encode()
        onnx.save(made, path)
        with self.assertRaises(Exception) as caught:
            first(path)
        self.assertIn("expected a file beside the model", str(caught.exception))


STRUCTURES = "OrtNodeFusionOptions OrtNodeComputeInfo OrtDataTransferImpl OrtSyncNotificationImpl OrtSyncStreamImpl OrtEp OrtEpFactory OrtEpApi".split()


@unittest.skipUnless(SOURCE, "ONNXRUNTIME_SOURCE names no source tree of ONNX Runtime (make onnxruntime-source ONNXRUNTIME_SOURCE=DIR)")
class Layout(unittest.TestCase):
    """The declarations of the provider against the original headers."""

    def offsets(self, name, includes, lines):
        path = os.path.join(FOLDER.name, name)
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n#include <stddef.h>\n" + includes + "int main(void) {\n" + "\n".join(f'  printf("%zu\\n", (size_t)({line}));' for line in lines) + "\n  return 0;\n}\n")
        folders = [os.path.join(SOURCE, "include", "onnxruntime", "core", "session"), os.path.join(ROOT, "bridges"), os.path.join(ROOT, "bridges", "onnxruntime_provider"), os.path.join(ROOT, "include")]
        subprocess.run(["cc", "-w", "-std=gnu11", *("-I" + folder for folder in folders), path + ".c", "-o", path], check=True)
        return subprocess.run([path], check=True, capture_output=True, text=True).stdout.split()

    def test_structures_and_positions(self):
        import re
        with open(os.path.join(ROOT, "bridges", "onnxruntime_provider", "ep_interface.h"), encoding="utf-8") as file:
            ours = file.read()
        fields = []
        for structure in STRUCTURES:
            body = re.search(rf"typedef struct {structure} {{(.*?)\n}}", ours, re.S).group(1)
            fields += [(structure, name) for name in re.findall(r"\(\*(\w+)\)\(", body) + re.findall(r"bool (drop_\w+);", body)]
        with open(os.path.join(ROOT, "bridges", "onnxruntime_provider", "api.h"), encoding="utf-8") as file:
            functions = re.findall(r"(?:STATUS\(|OTHER\([^,]+, )(\w+),", file.read().split("typedef struct api_t")[0])
        mine = self.offsets("ours", '#include "api.h"\n#include "common/ort_functions.h"\n', [f"offsetof({s}, {f})" for s, f in fields] + [f"ORT_AT_{f} * sizeof(void *)" for f in functions])
        real = self.offsets("theirs", '#include "onnxruntime_c_api.h"\n', [f"offsetof({s}, {f})" for s, f in fields] + [f"offsetof(OrtApi, {f})" for f in functions])
        self.assertGreater(len(fields) + len(functions), 120)
        self.assertEqual(dict(zip([*fields, *functions], mine)), dict(zip([*fields, *functions], real)))


if __name__ == "__main__":
    totals.main()
