"""The Python package used by several threads at once: shared objects stay correct, and objects that cannot be shared raise an error. With the
interpreter lock the threads take turns often here; a free-threaded Python runs them at the same time (PYTHON_GIL=0). Each test lasts
TENON_THREADS_SECONDS, 1 unless it is set."""
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
if not os.environ.get("TENON_INSTALLED"):  # otherwise the package installed in this Python is tested
    sys.path.insert(0, os.path.join(BUILD, "python"))

import numpy as np  # noqa: E402

import tenon  # noqa: E402
import totals  # noqa: E402

SECONDS = float(os.environ.get("TENON_THREADS_SECONDS", "1"))
FOLDER = tempfile.TemporaryDirectory(prefix="tenon-threads-")
GONE = """#include <tenon/op.h>
static tenon_status_t f(tenon_call_t *c) { *(float *)c->outputs[0]->data = 7; return TENON_OK; }
TENON_LIBRARY(gone, "1.0.0", TENON_OP("seven(Tensor x, *, int i=0) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", f)))
"""
core, nodes = tenon.ops.core, tenon.graph.ops.core


def built(source):
    path = os.path.join(FOLDER.name, os.path.basename(source)[:-2] + ".so")
    if not os.path.exists(path):
        subprocess.run([os.path.join(BUILD, "tenon"), "build", source, "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


def together(*jobs, each=3, enough=lambda: True):
    """Calls each job with a random number generator, over and over, in so many threads, and goes on until enough() if a busy machine did little.
    Raises the exception of a thread, and returns how often each job was called."""
    failures, counts, end = [], [0] * len(jobs), time.monotonic() + SECONDS
    start = threading.Barrier(len(jobs) * each)

    def work(job, number, seed):
        chance, calls = random.Random(seed), 0
        start.wait()
        try:
            while (not calls or time.monotonic() < end or not enough()) and not failures:
                job(chance)
                calls += 1
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)
        with lock:
            counts[number] += calls
    lock = threading.Lock()
    threads = [threading.Thread(target=work, args=(job, number, number * each + k)) for number, job in enumerate(jobs) for k in range(each)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return counts


class Array:
    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **named):
        return self.of.__dlpack__(**named)

    def __dlpack_device__(self):
        return 1, 0


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        cls.ops = tenon.load(built(os.path.join(ROOT, "tests/adapters/libraries/python.c")))
        cls.x = np.ones((3, 4), np.float32)

    @classmethod
    def tearDownClass(cls):
        sys.setswitchinterval(cls.interval)

    def test_attributes_of_one_operator(self):
        def numbers(chance):
            i = chance.randrange(5)
            self.assertEqual(float(self.ops.weigh(self.x, i=i)), 32e8 + 10 * i)

        def lists(chance):
            ints = [chance.randrange(5) for _ in range(3)]
            self.assertEqual(float(self.ops.weigh(self.x, ints=ints)) - 32e8, 1e4 * sum(ints))

        def axes(chance):
            axis = chance.choice([0, 1, -1])
            self.assertEqual(core.concat([self.x, self.x], axis=axis).shape, (6, 4) if axis == 0 else (3, 8))

        def shown(chance):
            self.assertIn("weigh(", self.ops.weigh.schema)
            self.assertEqual(repr(self.ops.weigh), f"<tenon operator {tenon.ops['pytest::weigh'].schema}>")
            self.assertEqual(self.ops.weigh.parameters[0]["name"], "x")
            self.assertTrue(tenon.dispatch.has_kernel("pytest::weigh", "cpu"))
        counts = together(numbers, lists, axes, shown)
        self.assertTrue(all(counts), counts)

    def test_each_thread_has_its_own_errors(self):
        def kernel(chance):
            with self.assertRaisesRegex(tenon.Error, "the kernel of fails says no"):
                self.ops.fails(self.x)

        def attribute(chance):
            with self.assertRaisesRegex(TypeError, "argument i: expected an int, found 'no'"):
                self.ops.weigh(self.x, i="no")

        def shape(chance):
            extent = chance.randrange(5, 50)
            with self.assertRaisesRegex(tenon.InvalidError, f"{extent}"):
                core.add(self.x, np.ones(extent, np.float32))

        def name(chance):
            missing = f"no_{chance.randrange(1000)}"
            with self.assertRaisesRegex(AttributeError, missing):
                getattr(core, missing)
        self.assertTrue(all(together(kernel, attribute, shape, name)))

    def test_libraries_come_and_go(self):
        source = os.path.join(FOLDER.name, "gone.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(GONE)
        path = built(source)
        ended = "was unloaded|has no operator|no operator|no loaded operator"

        def call(chance):
            ops = tenon.load(path, unloadable=True)
            try:
                seven = ops.seven
                for i in range(20):
                    self.assertEqual(float(seven(self.x, i=i % 3)), 7)
            except (tenon.Error, AttributeError) as error:
                self.assertRegex(str(error), ended)
            time.sleep(chance.random() / 200)

        def find(chance):
            try:
                seven = tenon.ops.gone.seven
                self.assertIn(seven.schema, (None, "gone::seven(Tensor x, *, int i=0) -> Tensor", "seven(Tensor x, *, int i=0) -> Tensor"))
                self.assertIn(len(seven.parameters), (0, 2))
                tenon.dispatch.table("gone::seven")
            except (tenon.Error, AttributeError) as error:
                self.assertRegex(str(error), ended)
            self.assertIn("core", dir(tenon.ops))
            time.sleep(chance.random() / 200)

        def unload(chance):
            try:
                tenon.load(path, unloadable=True).unload()
                unloaded.append(1)
            except tenon.Error as error:
                self.assertRegex(str(error), "cannot unload library gone")
        unloaded = []
        together(call, find, unload, each=2, enough=lambda: unloaded)
        tenon.load(path, unloadable=True).unload()  # nothing uses it now
        self.assertGreater(len(unloaded), 0)

    def test_operators_of_python(self):
        made = iter(range(10**9))
        lock = threading.Lock()

        @tenon.op("threads::shared(Tensor x, *, float by=1.0) -> Tensor", types="x: f32; out = x")
        def shared(x, *, by):
            return x + np.float32(by)

        @tenon.meta(shared)
        def shape(x, *, by):
            return tuple(extent * 1 for extent in x.shape)

        def call(chance):
            by = chance.randrange(9)
            self.assertEqual(shared(self.x, by=by)[0, 0], 1 + by)

        def state(chance):
            tenon.meta(shared)(shape if chance.random() < 0.5 else lambda x, *, by: x.shape)

        def define(chance):
            with lock:
                number = next(made)

            @tenon.op(f"threads::f{number}(Tensor x) -> Tensor", types="x: f32; out = x", shapes="out = x")
            def f(x):
                if number % 2:
                    raise KeyError(number)
                return x + number
            if number % 2:
                with self.assertRaisesRegex(KeyError, str(number)):
                    f(self.x)
            else:
                self.assertEqual(f(self.x)[0, 0], 1 + number)
            undoing = [threading.Thread(target=f.registration.undo) for _ in range(2)]
            [t.start() for t in undoing], [t.join() for t in undoing]
            self.assertFalse(hasattr(tenon.ops.threads, f"f{number}"))
        self.assertTrue(all(together(call, state, define, each=2)))
        shared.registration.undo()

    def test_graphs(self):
        weights = np.arange(4, dtype=np.float32)

        def build(chance):
            by = chance.randrange(9)
            b = tenon.graph.Builder()
            x = b.input("x", "f32", ["n", 4])
            y = nodes.softmax(nodes.mul(nodes.add(x, by), b.constant(weights)), axis=chance.choice([1, -1]))
            run = b.finish({"y": y}).compile()
            expected = np.exp((self.x + by) * weights)
            np.testing.assert_allclose(run(self.x), expected / expected.sum(-1, keepdims=True), rtol=1e-5)
        b = tenon.graph.Builder()
        x = b.input("x", "f32", ["n", 4])
        one = b.finish({"y": nodes.add(x, 1)}).compile()

        def run(chance):
            rows = chance.randrange(1, 9)
            np.testing.assert_array_equal(one(np.full((rows, 4), rows, np.float32)), np.full((rows, 4), rows + 1))

        def profiled(chance):
            with tenon.profile() as p:
                one(self.x)
            self.assertEqual([span[1] for span in p.spans if span[2] == 0], ["core::add"])
        self.assertTrue(all(together(build, run, profiled, each=2)))

    def test_a_builder_shared_by_threads_is_right_or_an_error(self):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", ["n", 4])
        values = [x]

        def use(chance):
            try:
                value = values[chance.randrange(len(values))]
                if len(values) < 200:
                    values.append(nodes.add(value, 1))
                    b.constant(self.x)
                self.assertEqual((value.dtype, value.shape), ("f32", ["n", 4]))
                self.assertIn("f32", repr(value) + "f32")
            except tenon.InvalidError as error:
                self.assertIn("the builder is in use by", str(error))
        together(use, each=4)
        self.assertEqual(b.finish({"y": values[-1]}).outputs, [("y", "f32", ["n", 4])])

    def test_one_profile_is_entered_once(self):
        profile, entered = tenon.profile(), []

        def enter(chance):
            try:
                profile.__enter__()
            except tenon.Error as error:
                self.assertIn("already entered", str(error))
                return
            entered.append(1)
            self.assertEqual(len(entered), 1)
            entered.pop()
            profile.__exit__()
        together(enter, each=4)

    def test_arrays_of_many_types(self):
        tensor = tenon.tensor([1.0, 2.0], "f32")

        def made(chance):
            own = type("Own", (Array,), {})
            self.assertEqual(core.add(own(tensor), own(tensor)).tolist(), [2, 4])

        def mixed(chance):
            values = [tensor, np.ones(2, np.float32), Array(tensor), np.float32(1), 1.0, 1]
            a, b = chance.choice(values[:3]), chance.choice(values)
            self.assertEqual(np.asarray(core.add(a, b))[0], 2)
        self.assertTrue(all(together(made, mixed)))

    def test_lists_that_other_threads_change(self):
        items, results = [Array(tenon.tensor([1.0], "f32"))], [np.empty(1, np.float32)]

        def call(chance):
            try:
                self.assertGreater(len(core.concat(items, axis=0).tolist()), 0)
                core.add(np.ones(1, np.float32), np.ones(1, np.float32), out=results)
            except (TypeError, tenon.InvalidError):  # another thread emptied the list
                pass

        def change(chance):
            items[:] = [Array(tenon.tensor([1.0], "f32")) for _ in range(chance.randrange(5))]
            results[:] = [np.empty(1, np.float32) for _ in range(chance.randrange(1, 3))]
        self.assertTrue(all(together(call, change)))

    @unittest.skipUnless(sysconfig.get_config_var("Py_GIL_DISABLED"), "this Python has the interpreter lock")
    def test_importing_the_package_leaves_the_interpreter_lock_off(self):
        code = "import sys, tenon; assert not sys._is_gil_enabled()"
        environment = {**{k: v for k, v in os.environ.items() if k != "PYTHON_GIL"}, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)


if __name__ == "__main__":
    try:
        totals.main()
    finally:
        FOLDER.cleanup()
