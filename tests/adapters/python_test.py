"""The Python package: operators on NumPy arrays, on PyTorch tensors and on anything with __dlpack__; without copies, and with exceptions of the
right class. Run with a Python that has NumPy (.venv), and with one that has PyTorch too (.venv-zoo)."""
import array
import ast
import gc
import hashlib
import importlib
import inspect
import json
import keyword
import math
import os
import pydoc
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
if not os.environ.get("TENON_INSTALLED"):  # otherwise the package installed in this Python is tested
    sys.path.insert(0, os.path.join(BUILD, "python"))

import numpy as np  # noqa: E402

import tenon  # noqa: E402
import totals  # noqa: E402
from tenon import stubs  # noqa: E402

try:
    import onnx
    import onnx.numpy_helper
except ImportError:
    onnx = None
try:
    import torch
except ImportError:
    torch = None
try:
    import tvm_ffi
except ImportError:
    tvm_ffi = None
FOLDER = tempfile.mkdtemp(prefix="tenon-python-")
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
SAYS_READ_ONLY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # NumPy's DLPack
core = tenon.ops.core
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(tenon.__file__)))


def built(source):
    path = os.path.join(FOLDER, os.path.basename(source)[:-2] + ".so")
    if not os.path.exists(path):
        subprocess.run([os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, source), "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


LATER = """#include <tenon/op.h>
static tenon_status_t same(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i];
  return TENON_OK;
}
TENON_LIBRARY(later, "1.0.0", TENON_OP("same(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", same)))
"""


def library():
    return tenon.load(built("tests/adapters/libraries/python.c"))


def leaks(calls, times):
    """Returns by how many bytes the process has grown in each of ten parts of so many rounds, if it grew in most parts by more than three bytes a
    round; otherwise nothing. Memory that is allocated once and kept makes only one or two parts grow."""
    sizes, least = [], max(3 * times // 10, 16 << 10)
    for _ in range(11):
        for _ in range(times // 10):
            for call in calls:
                call()
        with open("/proc/self/statm", encoding="ascii") as file:
            sizes.append(int(file.read().split()[1]) * 4096)
    grown = [after - before for before, after in zip(sizes, sizes[1:])]
    return grown if sum(g >= least for g in grown) > 3 else []


class Arrays(unittest.TestCase):
    def test_results_equal_those_of_numpy(self):
        x = np.linspace(-3, 3, 35, dtype=np.float32).reshape(5, 7)
        y = core.exp(x)
        self.assertIs(type(y), np.ndarray)
        np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)

    def test_every_dtype_survives_the_way_there_and_back(self):
        for name in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128 longlong ulonglong".split():
            x = np.arange(6).reshape(2, 3).astype(name)
            y = core.transpose(x)
            self.assertEqual(y.dtype, np.dtype(name).newbyteorder("="), name)
            np.testing.assert_array_equal(y, x.T)

    def test_strides_of_every_kind(self):
        x = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
        for view in (x.T, x[::-1], x[:, ::2, 1:4], np.broadcast_to(x[0], (2, 4, 5)), x[1, 2, 3:3], x[0, 0, 0]):
            np.testing.assert_array_equal(core.add(view, view), view + view)

    def test_scalar_arrays_and_empty_ones(self):
        self.assertEqual(core.add(np.float32(2) * np.ones(()), np.ones(())).shape, ())
        self.assertEqual(core.exp(np.zeros((0, 3), np.float32)).shape, (0, 3))

    def test_memory_is_not_copied(self):
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        view = core.transpose(x)
        self.assertEqual(view.ctypes.data, x.ctypes.data)
        tensor = tenon.from_dlpack(x)
        self.assertEqual(tensor.data_ptr, x.ctypes.data)
        self.assertEqual(tensor.numpy().ctypes.data, x.ctypes.data)
        self.assertEqual(np.from_dlpack(tensor).ctypes.data, x.ctypes.data)

    def test_a_view_keeps_its_memory(self):
        x = np.arange(100000, dtype=np.float64)
        before = sys.getrefcount(x)
        view = core.reshape(x, np.array([10, 10000]))
        self.assertGreater(sys.getrefcount(x), before)
        del x
        gc.collect()
        self.assertEqual(view.sum(), 100000 * 99999 / 2)

    def test_results_can_be_given(self):
        x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
        self.assertIs(core.neg(x, out=out), out)
        np.testing.assert_array_equal(out, -x)
        with self.assertRaisesRegex(tenon.InvalidError, "out: expected dtype f32, found f64"):
            core.neg(x, out=np.zeros(6))
        with self.assertRaisesRegex(tenon.InvalidError, r"out: expected shape \[6\], found \[5\]"):
            core.neg(x, out=np.zeros(5, np.float32))
        out.flags.writeable = False
        with self.assertRaisesRegex(tenon.InvalidError, "read-only"):
            core.neg(x, out=out)

    def test_results_can_be_added_to_a_given_array(self):
        x, out = np.arange(6, dtype=np.float32), np.full(6, 10, np.float32)
        self.assertIs(core.mul(x, x, out=out, add=True), out)
        np.testing.assert_array_equal(out, 10 + x * x)
        core.mul(x, x, out=out, add=False)
        np.testing.assert_array_equal(out, x * x)
        a, turned = np.arange(12, dtype=np.float64).reshape(3, 4), np.ones((3, 3), np.float64).T
        core.matmul(a, a.T, out=turned, add=1)
        np.testing.assert_array_equal(turned, 1 + a @ a.T)
        largest, where = np.full((1,), 5, np.float32), None
        self.assertEqual(core.top_k(x, np.array([1]), out=(largest, where), add=True), (largest, None))
        np.testing.assert_array_equal(largest, [10])
        with self.assertRaisesRegex(TypeError, "core::mul: add: expected the tensors to add to in out=, found none"):
            core.mul(x, x, add=True)
        with self.assertRaisesRegex(tenon.InvalidError, "core::add has no dtype bool"):
            core.less(x, x, out=np.zeros(6, bool), add=True)

    def test_arrays_that_cannot_be_tensors_are_refused(self):
        for bad, words in ((np.array(["2020-01-01"], "M8[D]"), "has no counterpart in Tenon"), (np.arange(3, dtype=">f4"), "byte order"),
                           (np.zeros(3, np.dtype([("a", "i1"), ("b", "f4")]))["b"], "not aligned|not multiples")):
            with self.assertRaisesRegex(tenon.InvalidError, words):
                core.neg(bad)

    def test_numbers_take_the_dtype_of_the_tensor(self):
        x = np.arange(4, dtype=np.float16)
        self.assertEqual(core.add(x, 2.5).dtype, np.float16)
        np.testing.assert_array_equal(core.sub(10, x), 10 - x)
        with self.assertRaisesRegex(tenon.InvalidError, "expected i64"):
            core.add(np.arange(3), 2.5)

    def test_numpy_scalars_keep_their_dtype(self):
        self.assertEqual(core.neg(np.float64(2)).dtype, np.float64)
        self.assertEqual(core.neg(np.int16(2)).dtype, np.int16)
        with self.assertRaisesRegex(TypeError, "out: expected a tensor"):
            core.neg(np.ones((), np.float32), out=np.float32(0))

    def test_numbers_may_have_a_class_of_their_own(self):
        class Mine(int):
            pass
        np.testing.assert_array_equal(core.add(np.arange(3), Mine(2)), [2, 3, 4])

    def test_string_tensors(self):
        a, b = np.array([["ä", "bb"], ["", "d"]]), np.array(["x", "y"], object)
        joined = core.string_concat(a, b)
        self.assertEqual((type(joined), joined.dtype, joined.tolist()), (np.ndarray, np.dtype(object), [["äx", "bby"], ["x", "dy"]]))
        self.assertEqual(core.string_concat(np.array([b"a", b"bc"]), np.array("!")).tolist(), ["a!", "bc!"])
        self.assertEqual((core.string_concat(np.array("a"), np.array("b")).shape, core.string_concat(np.array("a"), np.array("b")).item()), ((), "ab"))
        pieces, counts = core.string_split(np.array(["a b", "c"]))
        self.assertEqual((pieces.tolist(), counts.tolist()), ([["a", "b"], ["c", ""]], [2, 1]))
        t = tenon.tensor(["p", "q"])
        self.assertEqual((t.dtype, t.shape, t.tolist()), ("string", (2,), ["p", "q"]))
        self.assertEqual(core.string_concat(t, t).tolist(), ["pp", "qq"])
        self.assertEqual(core.string_concat(a.T[::-1], b).tolist(), [["bbx", "dy"], ["äx", "y"]])
        with self.assertRaisesRegex(tenon.InvalidError, "element 1 of an array of strings: expected a str, found 3"):
            core.string_concat(np.array(["a", 3], object), b)

    def test_subclasses_are_arrays(self):
        class Mine(np.ndarray):
            pass
        x = np.arange(3, dtype=np.float32).view(Mine)
        np.testing.assert_array_equal(core.neg(x), -np.arange(3, dtype=np.float32))


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ops = library()
        cls.x = np.ones(3, np.float32)

    def test_attributes_of_every_kind(self):
        for given, expected in (({}, 32e8), ({"b": True}, 32e8 + 1), ({"i": -3}, 32e8 - 30), ({"f": 0.25}, 32e8 + 0.25), ({"f": 2}, 32e8 + 2), ({"s": "äb"}, 32e8 + 3),
                                ({"c": "two"}, 32e8 + 1000), ({"ints": [1, 2]}, 32e8 + 3e4), ({"ints": (4,)}, 32e8 + 4e4), ({"floats": [0.5, 1]}, 32e8 + 1.5e5),
                                ({"strs": ["abc", "d"]}, 32e8 + 4e6), ({"may": 5}, 32e8 + 5e7), ({"may": None}, 32e8), ({"d": "f64"}, 64e8), ({"d": np.int8}, 8e8),
                                ({"d": np.dtype("float16")}, 16e8), ({"i": np.int64(7)}, 32e8 + 70)):
            for _ in range(2):  # the second round uses what the first one cached
                self.assertEqual(float(self.ops.weigh(self.x, **given)), expected, given)

    def test_changed_attributes_take_effect(self):
        numbers = [1]
        self.assertEqual(float(self.ops.weigh(self.x, ints=numbers)), 32e8 + 1e4)
        numbers.append(2)
        self.assertEqual(float(self.ops.weigh(self.x, ints=numbers)), 32e8 + 3e4)

    def test_wrong_attributes_are_errors(self):
        for given, words in (({"i": 1.5}, "argument i: expected an int, found 1.5"), ({"f": "a"}, "argument f: expected a number"), ({"s": 3}, "argument s: expected a str"),
                             ({"ints": "12"}, "argument ints: expected a list of int"), ({"ints": [1.5]}, "argument ints: expected a list of int"),
                             ({"strs": [1]}, "argument strs"), ({"b": "yes"}, "argument b: expected a bool"), ({"i": None}, "argument i")):
            with self.assertRaisesRegex(TypeError, words):
                self.ops.weigh(self.x, **given)
        for given, words in (({"c": "three"}, "one.*two"), ({"d": "f33"}, "expected a dtype")):
            with self.assertRaisesRegex(tenon.InvalidError, words):
                self.ops.weigh(self.x, **given)
        self.assertEqual(float(self.ops.weigh(self.x)), 32e8)

    def test_arity_and_keywords(self):
        for call, words in ((lambda: self.ops.weigh(), r"pytest::weigh\(\) is missing argument x"), (lambda: self.ops.weigh(1, 2), "at most 1 positional argument, but 2 were given"),
                            (lambda: self.ops.weigh(self.x, q=1), "no argument named 'q'; its arguments are x, b, i"), (lambda: self.ops.weigh(self.x, x=self.x), "multiple values for argument 'x'"),
                            (lambda: self.ops.weigh("x"), "argument x: expected a tensor"), (lambda: self.ops.weigh(self.x, out=(1, 2)), "out: expected 1 tensors")):
            with self.assertRaisesRegex(TypeError, words):
                call()

    def test_names_that_are_keywords_of_python(self):
        self.assertEqual(core.if_.name, "core::if")
        with self.assertRaisesRegex(TypeError, "is missing argument|expected a graph"):
            core.if_(np.ones((), bool), else_=None, then=None)
        with self.assertRaisesRegex(TypeError, "no argument named 'alse_'"):
            core.if_(np.ones((), bool), alse_=None)
        np.testing.assert_array_equal(core.and_(np.array([True, True]), np.array([True, False])), [True, False])

    def test_an_argument_named_out(self):
        result = np.empty(3, np.float32)
        self.assertIs(self.ops.negated(out=self.x, out_=result), result)
        np.testing.assert_array_equal(result, -self.x)
        self.assertEqual(list(inspect.signature(self.ops.negated).parameters), ["out", "out_", "add"])

    def test_by_tuple_and_dictionary(self):
        self.assertEqual(float(self.ops.weigh.__call__(*[self.x], **{"i": 1, "".join(["o", "ut"]): None})), 32e8 + 10)

    def test_an_argument_that_is_written_to(self):
        y = np.zeros(3, np.float32)
        self.assertIs(self.ops.add_to(y, self.x, alpha=2.5), y)
        np.testing.assert_array_equal(y, [2.5] * 3)
        y.flags.writeable = False
        with self.assertRaisesRegex(tenon.InvalidError, "argument y.*read-only"):
            self.ops.add_to(y, self.x)

    def test_lists_and_optionals(self):
        self.assertEqual(float(self.ops.sum_all([self.x, self.x, self.x])), 9)
        self.assertEqual(float(self.ops.sum_all((self.x,), np.float32(2))), 6)
        self.assertEqual(float(self.ops.sum_all([self.x], scale=None)), 3)
        with self.assertRaisesRegex(TypeError, "expected a list of tensors"):
            self.ops.sum_all(self.x)
        parts = core.split(np.arange(6, dtype=np.float32), count=3)
        self.assertEqual([p.tolist() for p in parts], [[0, 1], [2, 3], [4, 5]])

    def test_a_result_whose_size_only_run_knows(self):
        np.testing.assert_array_equal(self.ops.positive(np.array([-1, 2, -3, 4], np.float32)), [2, 4])

    def test_a_kernels_error_is_raised_and_the_next_call_works(self):
        for _ in range(3):
            with self.assertRaisesRegex(tenon.Error, "the kernel of fails says no") as caught:
                self.ops.fails(self.x)
            self.assertIsInstance(caught.exception, RuntimeError)
            np.testing.assert_array_equal(core.neg(self.x), -self.x)

    def test_the_interpreter_lock_is_released_during_a_call(self):
        x = np.zeros(2, np.float32)

        def write():
            while x[1] == 0:  # until the kernel runs
                time.sleep(0.001)
            x[0] = 100
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        found = float(self.ops.waits(x, milliseconds=60000))  # the limit: the call ends when the other thread has written
        x[1] = 1
        thread.join()
        self.assertEqual(found, 1)

    def interrupted(self, call):
        """Sends Ctrl-C while the call runs and returns the steps that it had made."""
        self.ops.steps(self.x)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins without it
        self.addCleanup(signal.signal, signal.SIGINT, before)
        for _ in range(3):
            timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                call()
                time.sleep(10)  # a late signal interrupts this
            timer.join()
        return int(self.ops.steps(self.x, count=1))

    def test_ctrl_c_ends_a_long_call(self):
        for threads in 1, 2:
            with tenon.threads(threads):
                self.assertLess(self.interrupted(lambda: self.ops.steps(self.x, count=30000)), 30000)
                self.assertLess(self.interrupted(lambda: self.ops.steps(self.x, count=30000, goes_on=True)), 30000)
        handler, seen = signal.getsignal(signal.SIGINT), []
        try:
            signal.signal(signal.SIGINT, lambda *_: seen.append(1))  # this handler lets the call continue
            threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT)).start()
            self.ops.steps(self.x)
            self.assertEqual((int(self.ops.steps(self.x, count=1000)), seen), (1000, [1]))
        finally:
            signal.signal(signal.SIGINT, handler)

    def test_a_cancellation_ends_calls_by_time_and_by_another_thread(self):
        for threads in 1, 2:
            with tenon.threads(threads):
                self.ops.steps(self.x)
                begin = time.monotonic()
                with tenon.Cancellation(timeout=0.1), self.assertRaisesRegex(tenon.DeadlineError, "the time limit of 0.1 s has passed") as caught:
                    self.ops.steps(self.x, count=100000)
                self.assertIsInstance(caught.exception, TimeoutError)
                self.assertLess(time.monotonic() - begin, 30)  # all steps take minutes
                self.assertLess(int(self.ops.steps(self.x, count=1)), 100000)

    def test_a_cancellation_by_another_thread_ends_calls_of_a_thread_that_is_not_the_main_one(self):
        cancellation, found = tenon.Cancellation(), []

        def work():
            try:
                with cancellation, tenon.Cancellation(timeout=3600):  # the inner one says nothing; the outer one ends the call
                    self.ops.steps(self.x, count=100000)
            except tenon.Error as error:
                found.append(error)
        self.ops.steps(self.x)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.1)
        self.assertFalse(cancellation.is_cancelled)
        cancellation.cancel()
        thread.join()
        self.assertTrue(cancellation.is_cancelled)
        self.assertEqual([(type(error), str(error)) for error in found], [(tenon.CancelledError, "cancelled by Cancellation.cancel()")])
        self.ops.steps(self.x)
        self.assertEqual(int(self.ops.steps(self.x, count=3)), 3)

    def test_a_cancellation_ends_a_run_and_the_next_one_works(self):
        b = tenon.graph.Builder()
        x = b.input("x", "f32", [1000, 1000])
        for _ in range(50):
            x = tenon.graph.ops.core.matmul(x, x)
        run = b.finish({"y": x}).compile()
        zeros = np.zeros((1000, 1000), np.float32)
        with tenon.Cancellation(timeout=0.02), self.assertRaises(tenon.DeadlineError):
            run(zeros)
        with tenon.Cancellation(timeout=None), tenon.Cancellation(timeout=float("inf")):
            np.testing.assert_array_equal(run(zeros), zeros)
        cancelled = tenon.Cancellation()
        cancelled.cancel()  # before it is entered
        with cancelled, self.assertRaises(tenon.CancelledError):
            run(zeros)

    def test_a_cancellation_is_refused_where_it_makes_no_sense(self):
        for timeout in -1, float("nan"):
            with self.assertRaisesRegex(tenon.InvalidError, "timeout: expected a number of seconds of at least 0, or None, found (-1|nan)"):
                tenon.Cancellation(timeout=timeout)
        with self.assertRaises(TypeError):
            tenon.Cancellation(timeout="soon")
        outer, inner = tenon.Cancellation(), tenon.Cancellation()
        with outer:
            with self.assertRaisesRegex(tenon.Error, "this cancellation was already entered"):
                outer.__enter__()
            inner.__enter__()
            with self.assertRaisesRegex(tenon.Error, "the last entered one first"):
                outer.__exit__(None, None, None)
            inner.__exit__(None, None, None)

    def test_ctrl_c_ends_a_run(self):
        b = tenon.graph.Builder()
        value = b.input("x", "f32", [])
        for _ in range(1000):
            value = tenon.graph.ops.pytest.steps(value, count=20)
        run = b.finish({"y": value}).compile()
        self.assertLess(self.interrupted(lambda: run(np.float32(0))), 20000)

    def test_many_threads(self):
        results = []

        def call():
            for i in range(200):
                results.append(float(self.ops.weigh(self.x, i=i)) == 32e8 + 10 * i)
        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 800)

    def test_groups_of_channels_are_reduced_and_centred_as_numpy_does_it(self):
        random = np.random.default_rng(1)
        # Groups of 1 to 17 adjacent channels; rows of up to 512 numbers are folded together, and longer ones are not.
        for rows, groups, size in ((1, 32, 4), (1000, 32, 4), (37, 3, 1), (9, 5, 16), (9, 5, 17), (3, 128, 4), (3, 129, 4), (70000, 2, 2)):
            for dtype in (np.float32, np.float64, np.int32, np.float16):
                x = random.integers(-8, 8, (2, rows, groups, size)).astype(dtype)
                for name in ("sum", "max", "mean"):
                    if dtype == np.float16 and rows > 1000 or name == "mean" and dtype == np.int32:
                        continue
                    found = getattr(core, "reduce_" + name)(x, np.array([1, 3]), keepdims=True)
                    right = getattr(x.astype(np.float64), name)((1, 3), keepdims=True)
                    np.testing.assert_allclose(found, right, 1e-3 if dtype == np.float16 else 1e-6, 1e-3 if dtype == np.float16 else 1e-6)
                np.testing.assert_array_equal(core.sub(x, x[:1, :1, :, :1]), x - x[:1, :1, :, :1])
                np.testing.assert_array_equal(core.mul(x[:1, :1, :, :1], x), x * x[:1, :1, :, :1])

    def test_memory_does_not_grow_over_many_calls(self):
        x, out, objects, texts = np.ones((4, 4), np.float32), np.empty((4, 4), np.float32), [1, 2], np.array(["a", "bc"])
        calls = [lambda: core.add(x, x, out=out), lambda: core.add(x, x), lambda: self.ops.weigh(x, ints=objects, f=0.1), lambda: core.transpose(x),
                 lambda: self.ops.sum_all([x, x]), lambda: self.raises(x)]
        rarer = [lambda: core.string_concat(texts, texts), lambda: core.matmul._infer([("f32", [-1, -2]), ("f32", [-3, 5]), None], {}, 3), lambda: tenon.tensor([1, 2]).tolist()]
        for call in calls + rarer:
            call(), call()
        counts = [sys.getrefcount(o) for o in (x, out, objects)]
        for some, times in (calls, 200000), (rarer, 30000):
            self.assertEqual(leaks(some, times), [])
        self.assertEqual([sys.getrefcount(o) for o in (x, out, objects)], counts)

    def raises(self, x):
        try:
            self.ops.fails(x)
        except tenon.Error:
            pass


class Names(unittest.TestCase):
    def test_signature_and_help(self):
        ops = library()
        signature = inspect.signature(ops.weigh)
        self.assertEqual(list(signature.parameters), ["x", "b", "i", "f", "s", "c", "ints", "floats", "strs", "may", "d", "out", "add"])
        self.assertEqual(signature.parameters["c"].annotation, "Literal['one', 'two']")
        self.assertEqual(signature.parameters["c"].default, "one")
        self.assertEqual(signature.parameters["may"].default, None)
        self.assertEqual(signature.parameters["x"].default, inspect.Parameter.empty)
        self.assertTrue(ops.weigh.__doc__.startswith("Adds its attributes up."))
        self.assertIn("Schema: weigh(Tensor x", ops.weigh.__doc__)
        self.assertEqual(ops.weigh.__name__, "weigh")
        self.assertEqual((ops.weigh.name, ops.weigh.traits), ("pytest::weigh", ["pure", "brief"]))

    def test_every_operator_has_a_signature(self):
        for name in dir(core):
            op = getattr(core, name)
            parameters = inspect.signature(op).parameters
            self.assertEqual([p.removesuffix("_") for p in list(parameters)[: len(op.parameters)]], [p["name"] for p in op.parameters], name)

    def test_stubs(self):
        text = stubs.stubs("pytest", {op.name.split("::")[1]: op for op in library()})
        tree = ast.parse(text)
        methods = {f.name: f for f in tree.body[-1].body}
        self.assertEqual(sorted(methods), ["add_to", "fails", "negated", "positive", "steps", "sum_all", "waits", "weigh"])
        self.assertEqual(tree.body[-1].name, "Pytest")
        self.assertEqual(ast.unparse(methods["weigh"].args),
                         "self, x: T, *, b: bool=False, i: int=0, f: float=0.0, s: str='', c: Literal['one', 'two']='one', ints: Sequence[int]=[], floats: Sequence[float]=[], "
                         "strs: Sequence[str]=[], may: int | None=None, d: Any='f32', out: Tensor | None=None, add: bool=False")
        self.assertEqual(ast.unparse(methods["sum_all"].args), "self, x: Sequence[T], scale: Tensor | None=None, *, out: Tensor | None=None, add: bool=False")
        path = os.path.join(FOLDER, "core_ops.pyi")
        run = [sys.executable, "-m", "tenon.stubs", "core", "-o", path]
        subprocess.run(run, check=True, env={**os.environ, "PYTHONPATH": PACKAGE})
        with open(path, encoding="utf-8") as file:
            found = {f.name for f in ast.parse(file.read()).body[-1].body}
        self.assertEqual({name.removesuffix("_") if keyword.iskeyword(name[:-1]) else name for name in found}, {name for name in dir(core) if name.isidentifier()})
        wrong = subprocess.run([*run[:3], "nowhere"], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True)
        self.assertEqual((wrong.returncode, "expected the file of a library or a namespace with operators" in wrong.stderr), (1, True))

    def test_the_namespaces(self):
        ops = library()
        self.assertIn("pytest", dir(tenon.ops))
        self.assertIn("weigh", dir(tenon.ops.pytest))
        self.assertEqual(tenon.ops.pytest.weigh.schema, ops.weigh.schema)
        self.assertEqual((ops.name, ops.version, len(ops)), ("pytest", "1.2.3", 8))
        with self.assertRaisesRegex(AttributeError, "did you mean 'pytest::weigh'"):
            tenon.ops.pytest.wiegh
        with self.assertRaisesRegex(AttributeError, "library 'pytest' has no operator 'other'"):
            ops.other
        with self.assertRaisesRegex(AttributeError, "no loaded operator is in the namespace nobody::"):
            tenon.ops.nobody

    def test_reloading(self):
        def write(text, header="#define BY 1\n", schema="more(Tensor x) -> Tensor"):
            for name, words in (("by.h", header), ("again.c", text % schema)):
                with open(os.path.join(FOLDER, "again", name), "w", encoding="utf-8") as file:
                    file.write(words)

        text = ('#include <tenon/op.h>\n#include "by.h"\nstatic tenon_status_t f(const tenon_loop_t *l) {\n'
                '  for (int64_t i = 0; i < l->count; i++) ((float *)l->data[1])[i] = ((const float *)l->data[0])[i] + BY;\n  return TENON_OK;\n}\n'
                'TENON_LIBRARY(again, "1.0.0", TENON_OP("%s", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", f)))\n')
        os.makedirs(os.path.join(FOLDER, "again"))
        write(text)
        one, builder = np.ones(1, np.float32), tenon.graph.Builder()
        ops = tenon.load(os.path.join(FOLDER, "again/again.c"), unloadable=True)
        more, other, compiled = ops.more, tenon.ops.again.more, builder.finish([tenon.graph.ops.again.more(builder.input("x", "f32", [1]))]).compile()
        del builder
        watched = tenon.watch(ops, interval=0.01)
        self.assertIsNone(next(watched))
        self.assertEqual((float(more(one)[0]), float(compiled(one)[0])), (2, 2))
        write(text, "#define BY 5\n")  # only the header changes
        self.assertIsNone(next(watched))
        self.assertEqual([float(f(one)[0]) for f in (more, other, ops.more, tenon.ops.again.more, compiled)], [6] * 5)
        write(text, "#define BY nothing\n")
        self.assertIn("nothing", str(next(watched)))
        self.assertEqual([float(f(one)[0]) for f in (more, ops.more, compiled)], [6] * 3)
        write(text, "#define BY 8\n", "more(Tensor x, *, int a=1) -> Tensor")
        with self.assertRaisesRegex(tenon.Error, "again::more: its schema changed from .* and it is held by"):
            ops.reload()
        self.assertEqual(float(compiled(one)[0]), 6)
        del compiled, watched
        gc.collect()
        ops.reload()
        self.assertEqual(float(ops.more(one, a=2)[0]), 9)
        with self.assertRaisesRegex(tenon.Error, "find it anew"):
            more(one)
        ops.unload()
        for ended in more, other:
            with self.assertRaisesRegex(tenon.Error, "its library was unloaded"):
                ended(one)

    def test_unloading(self):
        path = os.path.join(FOLDER, "gone.so")
        source = os.path.join(FOLDER, "gone.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include <tenon/op.h>\nstatic tenon_status_t f(tenon_call_t *c) { *(float *)c->outputs[0]->data = 7; return TENON_OK; }\n'
                       'TENON_LIBRARY(gone, "1.0.0", TENON_OP("seven(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", f)))\n')
        subprocess.run([os.path.join(BUILD, "tenon"), "build", source, "-o", path], check=True, stdout=subprocess.DEVNULL)
        ops = tenon.load(path, unloadable=True)
        seven, other = ops.seven, tenon.ops.gone.seven
        again = tenon.load(path, unloadable=True)
        self.assertEqual(float(seven(np.ones(1, np.float32))), 7)
        ops.unload()
        for ended in seven, other:
            with self.assertRaisesRegex(tenon.Error, "its library was unloaded"):
                ended(np.ones(1, np.float32))
            self.assertEqual((ended.schema, ended.kernels, ended.parameters, ended.results), (None, [], [], []))
        self.assertEqual(len(again), 0)
        with self.assertRaisesRegex(AttributeError, "it was unloaded"):
            again.seven
        ops.unload()
        for _ in range(3):
            once = tenon.load(path, unloadable=True)
            self.assertEqual(float(once.seven(np.ones(1, np.float32))), 7)
            del once
            tenon.load(path, unloadable=True).unload()
        with self.assertRaises(AttributeError):
            tenon.ops.gone.seven
        self.assertEqual(repr(seven), "<tenon operator gone::seven>")

        class Unloads:  # unloads the library while the operator reads this argument
            def __init__(self, library):
                self.library = library

            def __dlpack_device__(self):
                self.library.unload()

            def __dlpack__(self, **_):
                self.library.unload()
        for _ in range(20):  # a library that is loaded next tends to get the address of the last one
            once = tenon.load(path, unloadable=True)
            past, at = once.seven, once.seven.handle
            once.unload()
            once = tenon.load(path, unloadable=True)
            with self.assertRaisesRegex(tenon.Error, "a call of one of its operators is in progress"):
                once.seven(Unloads(once))
            self.assertEqual(float(once.seven(np.ones(1, np.float32))), 7)
            with self.assertRaisesRegex(tenon.Error, "its library was unloaded"):
                past(np.ones(1, np.float32))
            same = once.seven.handle == at
            once.unload()
            if same:
                break

    def test_isolated_libraries(self):
        source, path = os.path.join(FOLDER, "apart.c"), os.path.join(FOLDER, "apart.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include <tenon/op.h>\n#include <unistd.h>\n#include <stdio.h>\n'
                       'static tenon_status_t f(tenon_call_t *c) { const float *x = c->inputs[0]->data; float *y = c->outputs[0]->data;\n'
                       '  if (x[0] == 1) *(volatile int *)0 = 1;\n  if (x[0] == 2) for (;;) pause();\n'
                       '  if (x[0] == 3) { FILE *file = fopen("/etc/passwd", "r"); y[0] = file ? 30 : -30; if (file) fclose(file); return TENON_OK; }\n'
                       '  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) y[i] = x[i] + 1;\n  return TENON_OK; }\n'
                       'TENON_LIBRARY(apart, "1.0.0", TENON_OP("next(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_BRIEF), TENON_KERNEL("cpu", f)))\n')
        subprocess.run([os.path.join(BUILD, "tenon"), "build", source, "-o", path], check=True, stdout=subprocess.DEVNULL)
        apart = tenon.load(path, unloadable=True, isolated={"deadline": 2})
        good = np.array([5, 6], np.float32)
        for number, words in (1, "crashed: SIGSEGV at address 0x0"), (2, "exceeded its deadline of 2000 ms"), (3, "opened '/etc/passwd'"):
            with self.assertRaisesRegex(tenon.Error, f"apart::next: its isolated process .*{words}"):
                apart.next(np.array([number, 0], np.float32))
            np.testing.assert_array_equal(apart.next(good), [6, 7])
        x = apart.empty((2,))
        np.asarray(x)[:] = good
        np.testing.assert_array_equal(apart.next(x), [6, 7])
        with self.assertRaisesRegex(tenon.Error, "isolated with other settings"):
            tenon.load(path, unloadable=True, isolated=True)
        apart.unload()
        with self.assertRaises(tenon.Error):
            apart.empty((2,))
        apart = tenon.load(path, unloadable=True, isolated={"allow": ["read"], "deadline": None, "processes": 2})
        self.assertEqual(float(apart.next(np.array([3], np.float32))[0]), 30)
        apart.unload()
        with self.assertRaisesRegex(ValueError, "everything"):
            tenon.load(path, isolated={"allow": ["everything"]})
        built = tenon.load(source, unloadable=True, isolated=True)
        self.assertEqual(float(built.next(good)[0]), 6)
        built.unload()
        with self.assertRaisesRegex(tenon.Error, "absolute path"):
            tenon.load(path, isolated={"readable": ["here"]})
        self.assertEqual(float(tenon.load(path).next(good)[0]), 6)
        with self.assertRaisesRegex(tenon.Error, "not isolated"):
            tenon.load(path).empty((2,))

    def test_sources(self):
        def write(name, text):
            with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
                file.write(text)
            return os.path.join(FOLDER, name)
        text = ('#include <tenon/op.h>\nfloat value(void);\n'
                'static tenon_status_t f(tenon_call_t *c) { *(float *)c->outputs[0]->data = value(); return TENON_OK; }\n'
                'TENON_LIBRARY(made, "1.0.0", TENON_OP("it(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", f)))\n')
        whole = write("made.c", text + "float value(void) { return VALUE; }\n")
        part, value = write("part.c", text), write("value.cc", 'extern "C" float value() { return 9; }\nstatic int nobody;\n')
        x = np.ones(1, np.float32)
        for number in 3, 4:
            made = tenon.load(whole, options=[f"-DVALUE={number}"], unloadable=True)
            self.assertEqual(float(made.it(x)), number)
            made.unload()
        for fresh in False, False, True:
            with self.assertWarnsRegex(RuntimeWarning, "nobody"):
                made = tenon.load(part, value, unloadable=True, fresh=fresh)
            self.assertEqual(float(made.it(x)), 9)
            made.unload()
        with self.assertRaisesRegex(tenon.InvalidError, r"(?s)made.c does not compile: cc failed.*made.c:5:.*VALUE"):
            tenon.load(whole)
        with self.assertRaisesRegex(tenon.NotFoundError, "none.c: no such file"):
            tenon.load("none.c")
        with self.assertRaisesRegex(TypeError, "is not a source file"):
            tenon.load("some.so", options=["-O1"])

    def test_policies_for_loading(self):
        good, other = os.path.join(FOLDER, "rules", "good.so"), os.path.join(FOLDER, "rules", "other.so")
        os.makedirs(os.path.dirname(good))
        for path, name in ((good, "ruled"), (other, "ruled_too")):
            with open(path[:-3] + ".c", "w", encoding="utf-8") as file:
                file.write(LATER.replace("later", name))
            subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.join(ROOT, "include"), path[:-3] + ".c", "-o", path], check=True)
        with open(good, "rb") as file:
            accepted = hashlib.sha256(file.read()).hexdigest()
        self.addCleanup(tenon.policy)
        tenon.policy(folders=["/nowhere"])
        with self.assertRaisesRegex(tenon.DeniedError, r"good.so: rule folders \(tenon_policy_set\): it is not in /nowhere"):
            tenon.load(good)
        tenon.policy(folders=[os.path.relpath(FOLDER)], hashes=[accepted], inert=True)
        tenon.load(good, unloadable=True).unload()
        with self.assertRaisesRegex(tenon.DeniedError, "rule sha256"):
            tenon.load(other)
        os.chmod(good, 0o666)
        tenon.policy(private=True)
        with self.assertRaisesRegex(tenon.DeniedError, r"good.so is writable by everybody \(mode 0666\)"):
            tenon.load(good)
        with self.assertRaisesRegex(tenon.InvalidError, "hash 'abc': expected SHA-256"):
            tenon.policy(hashes=["abc"])
        with self.assertRaises(TypeError):
            tenon.policy(folders="/opt/ops")
        with self.assertRaises(tenon.DeniedError):  # the policy set before still applies
            tenon.load(good)
        tenon.policy()
        tenon.load(good, unloadable=True).unload()

    def test_a_name_is_not_searched_in_the_current_folder(self):
        before = os.getcwd()
        os.chdir(FOLDER)
        self.addCleanup(os.chdir, before)
        with open("planted.so", "w", encoding="utf-8"):
            pass
        with self.assertRaisesRegex(tenon.NotFoundError, "the file of that name in the current folder is ./planted.so"):
            tenon.load("planted.so")

    def test_libraries_that_cannot_be_loaded_are_errors(self):
        with self.assertRaisesRegex(tenon.NotFoundError, "nowhere.so"):
            tenon.load("nowhere.so")
        with self.assertRaises(tenon.Error):
            tenon.load(__file__)
        self.assertTrue(issubclass(tenon.NotFoundError, LookupError) and issubclass(tenon.NotFoundError, tenon.Error))
        folder, path = os.path.join(FOLDER, "later", "tenon"), os.path.join(FOLDER, "later.so")
        os.makedirs(folder)
        with open(os.path.join(ROOT, "include/tenon/op.h"), encoding="utf-8") as file:
            header = file.read()
        for version, number in (("2.7", "0x20007u"), ("1.900", "0x10384u")):
            with open(os.path.join(folder, "op.h"), "w", encoding="utf-8") as file:
                file.write(re.sub(r"#define TENON_ABI 0x\w+", f"#define TENON_ABI {number}", header))
            with open(path[:-3] + ".c", "w", encoding="utf-8") as file:
                file.write(LATER)
            subprocess.run(["cc", "-shared", "-fPIC", "-I", os.path.dirname(folder), path[:-3] + ".c", "-o", path], check=True)
            if version[0] == "1":  # a later minor version loads
                tenon.load(path)
                continue
            with self.assertRaisesRegex(tenon.InvalidError, rf"later.so: contract {version}: this host has 1\.\d+ and loads every library of major version 1: update libtenon"):
                tenon.load(path)

    def test_another_interpreter_is_refused(self):
        new = sys.version_info >= (3, 13)
        interpreters = importlib.import_module("_interpreters" if new else "_xxsubinterpreters")
        code = f"import sys; sys.path.insert(0, {PACKAGE!r})\ntry:\n import tenon\nexcept ImportError as e:\n assert %r in str(e), e\nelse: raise AssertionError"
        shared = interpreters.create("legacy") if new else interpreters.create(isolated=False)
        pythons = "does not support loading in subinterpreters"  # Python itself refuses interpreters with a lock of their own, and all of them if there is no lock
        self.assertIsNone(interpreters.run_string(shared, code % (pythons if sysconfig.get_config_var("Py_GIL_DISABLED") else "main interpreter only")))
        if sys.version_info >= (3, 12):
            self.assertIsNone(interpreters.run_string(interpreters.create(), code % pythons))

    def test_types_that_only_the_package_creates(self):
        for made in tenon.Tensor, tenon.Operator, type(library()._core):
            with self.assertRaisesRegex(TypeError, "cannot be created by calling it"):
                made()


class Shapes(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(core.add._infer([("f32", [2, 1]), ("f32", [3])], {}, 0), ([("f32", [2, 3])], []))
        self.assertEqual(core.nonzero._infer([("f32", [4])], {}, 0)[0][0][1][1][0], "bound")
        self.assertEqual(core.split._infer([("f32", [6, 2]), None], {"count": 3}, 0)[0], [[("f32", [2, 2])] * 3])

    def test_symbols(self):
        results, facts = core.matmul._infer([("f32", [-1, -2]), ("f32", [-3, 5]), None], {}, 3)
        self.assertEqual(results, [("f32", [("symbol", 0), 5])])
        self.assertEqual(len(facts), 1)  # the two inner extents are equal
        self.assertEqual({facts[0][0], facts[0][1][1]}, {1, 2})
        results, _ = core.concat._infer([[("f32", [-1]), ("f32", [-2])]], {"axis": 0}, 2)
        (operation, _, a, b), = results[0][1]
        self.assertEqual((operation, {a, b}), ("add", {("symbol", 0), ("symbol", 1)}))
        results, facts = core.matmul._infer([("f32", [2, -1]), ("f32", [7, 5]), None], {}, 1)
        self.assertEqual(facts, [(0, 7)])

    def test_values_of_integer_tensors(self):
        shape = lambda *values: ("i64", [len(values)], list(values))
        self.assertEqual(core.reshape._infer([("f32", [2, 6]), shape(3, 4)], {}, 0), ([("f32", [3, 4])], []))
        self.assertEqual(core.reshape._infer([("f32", [2, 6]), shape((-1,), 4)], {}, 1)[0], [("f32", [("symbol", 0), 4])])
        self.assertEqual(core.reshape._infer([("f32", [2, 6]), ("i64", [-1])], {}, 1)[0], [("f32", None)])  # only run knows the number of axes
        self.assertEqual(core.max_pool._infer([("f32", [1, 2, 4, 4])], {"kernel": [2, 2]}, 0, 1)[0], [("f32", [1, 2, 3, 3]), None])
        for values in ((), 3, [None], [(-9,)]):
            if values != ():
                with self.assertRaises((TypeError, tenon.Error)):
                    core.reshape._infer([("f32", [2, 6]), ("i64", [2], values)], {}, 0)

    def test_impossible_arguments_are_errors(self):
        for tensors, attributes, symbols in (([("f32", [2, 3]), ("f32", [4, 5]), None], {}, 0), ([("f32", [2, 3])], {}, 0), ([("f99", [2, 3]), None, None], {}, 0),
                                             ([("f32", [-1, 3]), ("f32", [3, 3]), None], {}, 0), ([3, None, None], {}, 0)):
            with self.assertRaises(tenon.Error):
                core.matmul._infer(tensors, attributes, symbols)


class Definitions(unittest.TestCase):
    def test_a_function_is_an_operator(self):
        kept = []

        @tenon.op("mine::scale(Tensor x, int times=1, *, float by=2.0, str['up', 'down'] way='up') -> Tensor", types="x: f32|f64; out = x", shapes="out = x", gradient="x: mine::scale(grad, times, by=by, way=way)")
        def scale(x, times, *, by, way):
            """Multiplies x, as often as asked for."""
            kept.append(x)
            return x * x.dtype.type((by if way == "up" else 1 / by) ** times)
        x = np.arange(4, dtype=np.float32).reshape(2, 2)
        np.testing.assert_array_equal(scale(x), 2 * x)
        np.testing.assert_array_equal(tenon.ops.mine.scale(x.T, 2, by=3.0), 9 * x.T)
        np.testing.assert_array_equal(scale(x.astype("f8"), way="down"), x / 2)
        self.assertEqual((scale.doc, scale.name), ("Multiplies x, as often as asked for.", "mine::scale"))
        x[:] = -1
        np.testing.assert_array_equal(kept[0], [[0, 1], [2, 3]])  # it is a copy, which may be kept
        scale.registration.undo()
        with self.assertRaises(AttributeError):
            tenon.ops.mine.scale

    def test_several_results_lists_and_absent_inputs(self):
        @tenon.op("mine::both(Tensor[] xs, Tensor? more=None) -> (Tensor sum, Tensor count)", types="xs: f32; more = xs; sum = xs; count = i64", shapes="sum: []; count: []")
        def both(xs, more):
            return np.float32(sum(float(x.sum()) for x in xs) + (0 if more is None else float(more.sum()))), np.array(len(xs))
        x = np.ones(3, np.float32)
        total, count = both([x, 2 * x])
        self.assertEqual((float(total), int(count)), (9, 2))
        self.assertEqual(float(both([x], x)[0]), 6)

    def test_help_describes_the_operator(self):
        @tenon.op("mine::shown(Tensor x) -> Tensor", types="x: f32; out = x", shapes="out = x")
        def shown(x):
            """Returns x unchanged."""
            return x
        text = pydoc.render_doc(shown, renderer=pydoc.plaintext)
        self.assertIn("Returns x unchanged.", text)
        self.assertIn("Schema: mine::shown(Tensor x) -> Tensor", text)
        self.assertNotIn("registration", text)

    def test_a_name_without_a_namespace(self):
        with self.assertRaisesRegex(tenon.InvalidError, r"schema 'plain\(Tensor x.*: expected a namespace before the operator's name, as in 'demo::plain'"):
            tenon.op("plain(Tensor x) -> Tensor", types="x: f32; out = x", shapes="out = x")
        self.assertNotIn("program::plain", tenon._core.names())

    def test_results_of_another_shape(self):
        @tenon.op("mine::whole(Tensor x) -> Tensor", types="x: f32; out = x", shapes="x: [n, m]; out: [n]")
        def whole(x):
            return x.sum()
        with self.assertRaisesRegex(tenon.InvalidError, r"mine::whole: its kernel returned a tensor of dtype f32 and shape \(\) as result 0: expected dtype f32 and shape \(2,\)"):
            whole(np.ones((2, 3), np.float32))

    def test_kernels_for_operators_of_others(self):
        @tenon.op("mine::half(Tensor x) -> Tensor", types="x: f32|f64; out = x", shapes="out = x")
        def half(x):
            return x / 2

        @tenon.impl("mine::half", "cpu f64")
        def wide(x):
            return x / 2 + 100
        x = np.array([2.0])
        self.assertEqual((float(half(x)[0]), float(half(x.astype("f4"))[0])), (101, 1))
        wide.registration.undo()
        self.assertEqual(float(half(x)[0]), 1)
        with self.assertRaises(tenon.ExistsError):
            tenon.impl(half, "cpu")(lambda x: x)
        tenon.impl(half, "cpu", override=True)(lambda x: x + 5)
        self.assertEqual(float(half(x)[0]), 7)

    def test_shapes_by_a_function(self):
        @tenon.op("mine::windows(Tensor x, *, int size=2) -> (Tensor sums, Tensor count)", types="x: f32; sums = x; count = i64")
        def windows(x, *, size):
            return np.array([x[..., i:i + size].sum(-1) for i in range(x.shape[-1] - size + 1)]).T, np.array(x.shape[-1])
        x = np.arange(10, dtype=np.float32).reshape(2, 5)
        with self.assertRaisesRegex(tenon.InvalidError, 'mine::windows: its shapes are unknown: pass shapes= or the trait "pointwise" to tenon.op'):
            windows(x)
        seen = []

        @tenon.meta(windows)
        def windows_shape(x, *, size):
            seen.append(x)
            return (*x.shape[:-1], x.shape[-1] - size + 1), ()
        sums, count = windows(x)
        np.testing.assert_array_equal(sums, x[:, :-1] + x[:, 1:])
        self.assertEqual((int(count), seen[0]), (5, ("f32", (2, 5))))
        results, _ = windows.operator._infer([("f32", [-1, -2])], {"size": 3}, 2)
        self.assertEqual(results[1][1], [])
        self.assertEqual(repr(seen[-1].shape[0]), "<unknown extent>")
        with self.assertRaisesRegex(tenon.InvalidError, "an inference that has ended"):
            seen[-1].shape[0] + 1
        for wrong, error, message in ((lambda x, size: (x.shape, "ab"), TypeError, "shape of result 1"), (lambda x, size: (x.shape,), TypeError, "a tuple of 2 shapes"), (lambda x, size: ((1.5,), ()), TypeError, "extent 0: expected a number, found 1.5"),
                                      (lambda x, size: ((-1,), ()), tenon.InvalidError, "extent 0: expected a number >= 0, found -1"), (lambda x, size: 1 / 0, ZeroDivisionError, "division"), (lambda x, size: ((1 << 70,), ()), OverflowError, "")):
            tenon.meta("mine::windows")(wrong)
            with self.assertRaisesRegex(error, message):
                windows(x)
        tenon.meta(windows)(lambda x, size: (x.shape if x.shape[0] == 2 else (), ()))
        with self.assertRaisesRegex(TypeError, "an unknown extent cannot be compared"):
            windows.operator._infer([("f32", [-1, -2])], {"size": 3}, 2)
        with self.assertRaisesRegex(ValueError, "defined by tenon.op without shapes="):
            tenon.meta("core::add")
        tenon.meta(windows)(windows_shape)
        del seen[:]
        self.assertEqual(leaks([lambda: (windows(x), seen.clear())], 10000), [])

    def test_a_result_whose_size_only_the_kernel_knows(self):
        @tenon.op("mine::positive(Tensor x) -> Tensor", types="x: f32; out = x")
        def positive(x):
            return x[x > 0] if x[0] != 7 else np.ones(9, np.float32)

        @tenon.meta(positive)
        def positive_shape(x):
            return (tenon.at_most(x.shape[0]),)
        np.testing.assert_array_equal(positive(np.array([1, -2, 3, 0], np.float32)), [1, 3])
        self.assertEqual(positive(np.zeros(3, np.float32)).shape, (0,))
        with self.assertRaisesRegex(tenon.InvalidError, "as result 0"):
            positive(np.full(3, 7, np.float32))
        with self.assertRaisesRegex(tenon.InvalidError, "tenon.meta"):
            tenon.at_most(3)

    def test_impossible_gradients_are_refused(self):
        @tenon.op("mine::cube(Tensor x, *, float by=1.0) -> Tensor y", types="x: f64; y = x", shapes="y = x")
        def cube(x, *, by):
            return by * x ** 3
        with self.assertRaisesRegex(tenon.InvalidError, "has a parameter 'z': expected grad"):
            tenon.gradient(cube)(lambda grad, z: grad)
        with self.assertRaises(tenon.NotFoundError):
            tenon.gradient("mine::nothing")(lambda grad: grad)
        with self.assertRaisesRegex(tenon.InvalidError, "single tensors that are not written to"):
            tenon.gradient("core::concat")(lambda grad: grad)
        first = tenon.gradient(cube)(lambda grad, x, y, by: 3 * grad * by * x ** 2)
        with self.assertRaises(tenon.ExistsError):
            tenon.gradient(cube)(lambda grad: grad)
        first.registration.undo()
        tenon.gradient(cube)(lambda grad: grad)

    def test_exceptions_of_the_function_are_raised(self):
        class Own(Exception):
            pass

        @tenon.op("mine::raising(Tensor x, *, int how=0) -> Tensor", types="x: f32; out = x", shapes="out = x")
        def raising(x, *, how):
            if how == 0:
                raise Own("for a reason")
            return [x, x.astype("f8"), x[:1], "no tensor", None][how - 1]
        x = np.ones(2, np.float32)
        with self.assertRaisesRegex(Own, "for a reason"):
            raising(x)
        np.testing.assert_array_equal(raising(x, how=1), x)
        for how in 2, 3:
            with self.assertRaisesRegex(tenon.InvalidError, "mine::raising: its kernel returned a tensor of dtype f.*as result 0"):
                raising(x, how=how)
        for how in 4, 5:
            with self.assertRaises(TypeError):
                raising(x, how=how)
        np.testing.assert_array_equal(raising(x, how=1), x)
        for wrong in ({"types": "x: f33; out = x"}, {"types": "x: f32; out = x", "gradient": "y: none"}):
            with self.assertRaises(tenon.Error):
                tenon.op("mine::wrong(Tensor x) -> Tensor", shapes="out = x", **wrong)(lambda x: x)
        with self.assertRaises(ValueError):
            tenon.op("mine::wrong(Tensor x) -> Tensor", types="x: f32; out = x", traits=("odd",))(lambda x: x)

    def test_threads_call_it_and_nothing_leaks(self):
        @tenon.op("mine::plus(Tensor x) -> Tensor", types="x: f32; out = x", shapes="out = x")
        def plus(x):
            return x + 1
        x, failures = np.zeros(8, np.float32), []

        def work():
            for _ in range(300):
                if plus(x)[0] != 1:
                    failures.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(failures, [])
        plus(x)
        self.assertEqual(leaks([lambda: plus(x)], 20000), [])


class Dispatch(unittest.TestCase):
    def test_traces_and_explanations(self):
        path = os.path.join(FOLDER, "calls.json")
        with tenon.trace("dispatch,args", file=path):
            core.add(np.ones(2, np.float32), np.ones(2, np.float32))
        core.sub(np.ones(2, np.float32), np.ones(2, np.float32))
        with open(path, encoding="utf-8") as file:
            text = json.dumps(json.load(file))
        self.assertIn("core::add", text)
        self.assertNotIn("core::sub", text)
        code = "import numpy, tenon\nwith tenon.explain(all=True): tenon.ops.core.exp(numpy.ones(2, 'f4'))\nwith tenon.trace(): tenon.ops.core.log(numpy.ones(2, 'f4'))\ntenon.ops.core.sin(numpy.ones(2, 'f4'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue("core::exp" in done.stderr and "core::log" in done.stderr and "core::sin" not in done.stderr, done.stderr)
        with self.assertRaises(tenon.Error):
            tenon.trace("nothing such")

    def test_dispatch_tables_and_their_entries(self):
        table = tenon.dispatch.table("core::matmul")
        self.assertIn("cpu", table)
        self.assertEqual(table, tenon.dispatch.table(core.matmul))
        slot = tenon.dispatch.slot(core.add, "cpu")
        self.assertEqual((slot["rule"], slot["library"], slot["is_missing"]), ("kernel", "core", False))
        self.assertEqual(tenon.dispatch.slot(core.add, "autograd")["rule"], "gradient")
        self.assertTrue(tenon.dispatch.dump(core.add).startswith("add(Tensor a, Tensor b) -> Tensor\n  library: core\n  kernel: "))
        self.assertTrue(tenon.dispatch.has_kernel(core.add, "cpu") and tenon.dispatch.has_kernel(core.add) and not tenon.dispatch.has_kernel(core.add, "autograd"))
        self.assertTrue(tenon.dispatch.has_computed_kernel(core.add, "autograd") and not tenon.dispatch.is_fallthrough(core.add, "cpu"))
        self.assertIn("core::matmul", tenon.dispatch.registrations("cpu"))
        self.assertIsNone(tenon.dispatch.check(core.add))
        keys = tenon.dispatch.keys()
        self.assertLess(keys.index("cpu"), keys.index("autograd"))
        self.assertIn("Whether a call", tenon.dispatch.has_computed_kernel.__doc__)

    def test_wrong_questions_are_errors(self):
        for question in (lambda: tenon.dispatch.table(3), lambda: tenon.dispatch.slot(None, "cpu"), lambda: tenon.dispatch.slot(core.add), lambda: tenon.dispatch.keys(1)):
            with self.assertRaises(TypeError):
                question()
        with self.assertRaisesRegex(tenon.NotFoundError, "core::ad"):
            tenon.dispatch.table("core::ad")
        with self.assertRaises(tenon.Error):
            tenon.dispatch.slot(core.add, "nobody")


@unittest.skipUnless(onnx, "this Python has no onnx")
class Graphs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        helper, cls.w = onnx.helper, np.arange(12, dtype=np.float32).reshape(4, 3)
        values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", ["n", 4]), ("y", [3]))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Add", ["product", "y"], ["sum"]), helper.make_node("Identity", ["x"], ["same"]),
                 helper.make_node("gelu", ["sum"], ["out"], domain="demo")]
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("out", "same")]
        graph = helper.make_graph(nodes, "test", values, outputs, [onnx.numpy_helper.from_array(cls.w, "w")])
        cls.path = os.path.join(FOLDER, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("demo", 1)], ir_version=9), cls.path)
        tenon.load(built("examples/01_gelu/gelu.c"))
        cls.x, cls.y = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), np.array([1, 2, 3], np.float32)
        s = (cls.x @ cls.w + cls.y).astype(np.float64)
        cls.expected = np.array([[0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in s])

    def test_profiles(self):
        model = tenon.graph.load(self.path).compile(plain=True)
        self.assertEqual(repr(tenon.profile()), "<tenon profile of no run>")
        with tenon.profile() as p:
            model(self.x, self.y)
            with tenon.profile() as inner:
                model(self.x, self.y)
        kinds = [kind for _, kind, depth, begin, end in p.spans if depth == 0 and begin <= end]
        self.assertEqual(sorted(kinds), ["core::add", "core::matmul", "demo::gelu"])
        self.assertEqual(len(inner.spans), len(p.spans))
        self.assertRegex(repr(p), r"(?m)^core::matmul +1 x +[0-9.]+ ms +[0-9.]+% +[0-9.]+ GB/s +[0-9.]+ GFLOP/s$")
        work = dict(zip(kinds, p.work))
        rows, inner_extent, columns = self.x.shape[0], 4, 3
        self.assertEqual(work["core::matmul"][1], 2 * rows * inner_extent * columns)
        self.assertIn("<td>demo::gelu</td>", p._repr_html_())
        self.assertTrue(all(device == "cpu" and size >= 0 for device, _, size in p.memory))
        path = os.path.join(FOLDER, "profile.json")
        p.write(path)
        with open(path, encoding="utf-8") as file:
            self.assertIn("demo::gelu", json.dumps(json.load(file)))
        before = len(p.spans)
        model(self.x, self.y)  # outside the profile
        self.assertEqual(len(p.spans), before)
        with self.assertRaises(tenon.Error):
            p.__exit__(None, None, None)
        with self.assertRaises(tenon.Error):
            p.write("/nowhere/at/all.json")

    @staticmethod
    def softmax_chain(shape):
        """Four softmaxes, along the first and the last axis in turn: each result is a value of its own in the plan."""
        helper, names = onnx.helper, ["x", "a", "b", "c", "y"]
        nodes = [helper.make_node("Softmax", [before], [after], axis=i % 2) for i, (before, after) in enumerate(zip(names, names[1:]))]
        ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
        graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:])
        return tenon.graph.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())

    def test_the_plan_of_a_run_can_be_drawn(self):
        executable = self.softmax_chain((4, 1024)).compile(plain=True)
        with self.assertRaisesRegex(tenon.Error, "there is no plan to draw: run the executable first"):
            executable.svg()
        executable(np.ones((4, 1024), np.float32))
        path = os.path.join(FOLDER, "plan.svg")
        self.assertIsNone(executable.svg(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text, executable.svg())
        titles = [node.text for node in xml.etree.ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles[-1], "bytes alive")
        # a, b and c have 16,384 bytes each; c may be where a was
        self.assertEqual([title.split("\n")[0] for title in titles[:-1]], ["a", "b", "c"])
        self.assertTrue(all("f32[4, 1024]\n16384 bytes at " in title for title in titles[:-1]), titles)
        self.assertIn("32768 bytes; at most 32768 are alive at a time", text)

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_runs_with_random_lengths_take_no_more_memory(self):
        executable, random = self.softmax_chain(("n", 1024)).compile(), np.random.default_rng(5)

        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        x = random.standard_normal((128, 1024)).astype(np.float32)
        lengths = [128, *random.integers(1, 129, 1200)]
        for i, n in enumerate(lengths):
            y = executable(x[:n])
            if i == 200:
                before = resident()
        self.assertEqual(y.shape, (lengths[-1], 1024))
        # a plan has 0.5 MB on average: if 1,000 of them were kept, this would be 500 MB
        self.assertLess(resident() - before, 5e6)

    def test_reading(self):
        graph = tenon.graph.load(self.path)
        self.assertEqual(graph.inputs, [("x", "f32", ["n", 4]), ("y", "f32", [3])])
        self.assertEqual([name for name, _, _ in graph.outputs], ["out", "same"])
        self.assertIn("demo::gelu", graph.text())
        self.assertEqual(repr(graph), "<tenon graph test of 4 nodes: (x: f32[n, 4], y: f32[3]) -> (out: f32[n, 3], same: f32[n, 4])>")
        with self.assertRaises(tenon.Error):
            tenon.graph.load(__file__)
        with self.assertRaises(tenon.NotFoundError):
            tenon.graph.load("nowhere.onnx")

    def test_running(self):
        run = tenon.graph.load(self.path).compile()
        for out, same in (run(self.x, self.y), run(self.x, y=self.y), run(y=self.y, x=self.x)):
            np.testing.assert_allclose(out, self.expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(same, self.x)
        out, _ = run(np.concatenate([self.x, self.x]), self.y)
        self.assertEqual(out.shape, (4, 3))
        self.assertEqual(run.graph.inputs[0][0], "x")
        self.assertIn("gelu", run.dump("graph"))

    def test_results_outlive_the_executable(self):
        x = self.x.copy()
        out, same = tenon.graph.load(self.path).compile()(x, self.y)
        del x
        gc.collect()
        np.testing.assert_allclose(out, self.expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(same, self.x)

    def test_wrong_calls_are_errors(self):
        run = tenon.graph.load(self.path).compile()
        for call, error, words in ((lambda: run(self.x), TypeError, "input 'y' \\(position 1\\) was not given"), (lambda: run(self.x, self.y, self.x), TypeError, "2 inputs, but 3 were given"),
                                   (lambda: run(self.x, self.y, x=self.x), TypeError, "'x' was given twice"), (lambda: run(self.x, self.y, z=1), TypeError, "there is no input 'z'; the graph has: x, y"),
                                   (lambda: run("a", self.y), TypeError, "argument x: expected a tensor"), (lambda: run(self.x.T, self.y), tenon.InvalidError, "x"),
                                   (lambda: run(self.x.astype(np.float64), self.y), tenon.InvalidError, "f32"), (lambda: run.dump("everything"), tenon.InvalidError, "everything"),
                                   (lambda: run.graph.compile("nothing"), tenon.Error, "nothing"), (lambda: run.graph.compile("cpu", pins={"a": "cpu"}), tenon.NotFoundError, "pin 'a'")):
            with self.assertRaisesRegex(error, words):
                call()
        np.testing.assert_allclose(run(self.x, self.y)[0], self.expected, rtol=1e-5, atol=1e-5)

    def test_on_devices(self):
        graph = tenon.graph.load(self.path)
        with self.assertRaisesRegex(tenon.UnimplementedError, "no kernel for sim"):
            graph.compile("sim")(self.x, self.y)
        tenon.fallback_to_cpu("sim"), tenon.fallback_to_cpu("sim")
        with self.assertRaisesRegex(tenon.Error, "no name for a backend"):
            tenon.fallback_to_cpu("a b")
        for options in ({"device": "sim"}, {"device": ["sim", "cpu"]}, {"device": ["sim", "cpu"], "pins": {"*": "cpu"}}, {"device": "cpu", "plain": True}):
            run = graph.compile(**options)
            np.testing.assert_allclose(run(self.x, self.y)[0], self.expected, rtol=1e-5, atol=1e-5)
        self.assertIn("sim", graph.compile(device=["sim", "cpu"]).dump("placement"))
        self.assertIn("demo::gelu", tenon.fallback_report())

    def test_memory_does_not_grow(self):
        run = tenon.graph.load(self.path).compile()
        self.assertEqual(leaks([lambda: run(self.x, self.y)], 100000), [])
        self.assertEqual(leaks([lambda: tenon.graph.load(self.path).compile()(self.x, self.y)], 2000), [])


class Tensors(unittest.TestCase):
    def test_a_tensor_describes_itself(self):
        t = tenon.tensor([[1, 2, 3], [4, 5, 6]], dtype="f32")
        self.assertEqual((t.shape, t.strides, t.dtype, t.device, t.ndim, t.size, len(t)), ((2, 3), (3, 1), "f32", "cpu", 2, 6, 2))
        self.assertEqual(repr(t), "tenon.Tensor(f32[2, 3], cpu)\n[[1. 2. 3.]\n [4. 5. 6.]]")
        self.assertEqual(t.tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(tenon.tensor(3.5).item(), 3.5)
        with self.assertRaisesRegex(tenon.InvalidError, "expected a dtype of Tenon .*, found 'f99'"):
            tenon.empty((2,), "f99")
        with self.assertRaises(tenon.InvalidError):
            tenon.empty((-1,))

    def test_on_a_device(self):
        t = tenon.tensor([1, 2, 3], dtype="f32", device="sim:1")
        self.assertEqual(t.device, "sim:1")
        self.assertEqual(core.add(t, t).to("cpu").tolist(), [2, 4, 6])
        self.assertEqual(core.add(t, t).tolist(), [2, 4, 6])
        self.assertIs(t.to("sim:1"), t)
        with self.assertRaises(tenon.Error):
            t.to("nothing")
        with self.assertRaisesRegex(tenon.InvalidError, "expected a device"):
            t.to("sim:x")

    def test_dlpack_both_forms(self):
        t = tenon.tensor([1.5, 2.5])
        self.assertEqual(t.__dlpack_device__(), (1, 0))
        self.assertIn("dltensor_versioned", repr(t.__dlpack__(max_version=(1, 0))))
        self.assertNotIn("versioned", repr(t.__dlpack__()))
        with self.assertRaisesRegex(tenon.InvalidError, "stream=3"):
            t.__dlpack__(stream=3)
        with self.assertRaises(BufferError):
            t.__dlpack__(dl_device=(2, 0))
        copy = tenon.from_dlpack(Producer(t, copy=True))
        self.assertNotEqual(copy.data_ptr, t.data_ptr)
        same = tenon.from_dlpack(Producer(t))
        self.assertEqual(same.data_ptr, t.data_ptr)
        old = tenon.from_dlpack(OldProducer(t))
        self.assertEqual(old.data_ptr, t.data_ptr)
        del t
        self.assertEqual(old.tolist(), [1.5, 2.5])

    @unittest.skipUnless(tvm_ffi, "this Python has no tvm-ffi")
    def test_the_table_of_c_functions(self):
        t, echo = tenon.tensor([[1.5, 2.5]]), tvm_ffi.get_global_func("testing.echo")
        for made in t, tenon.empty((0, 3), "i32"), core.transpose(tenon.tensor([[1, 2, 3], [4, 5, 6]])):
            back = echo(made)  # exported by the table, and imported again
            self.assertIsInstance(back, tenon.Tensor)
            self.assertEqual((back.data_ptr, back.shape, back.strides, back.dtype), (made.data_ptr, made.shape, made.strides, made.dtype))
        self.assertEqual(core.neg(echo(t)).tolist(), [[-1.5, -2.5]])
        with self.assertRaisesRegex(tenon.Error, "dtype string"):
            echo(core.string_concat(tenon.from_dlpack(np.array(["a"])), tenon.from_dlpack(np.array(["b"]))))
        self.assertEqual(leaks([lambda: echo(t)], 100000), [])

    def test_the_tables_functions(self):
        """Also the allocator, which tvm-ffi does not call here: it creates tensors, and reports why it cannot."""
        import ctypes as c
        class Tensor(c.Structure):
            _fields_ = [("data", c.c_void_p), ("device", c.c_int32 * 2), ("ndim", c.c_int32), ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16),
                        ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]
        error = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_char_p)
        class Table(c.Structure):
            _fields_ = [("version", c.c_uint32 * 2), ("previous", c.c_void_p), ("allocate", c.PYFUNCTYPE(c.c_int, c.POINTER(Tensor), c.POINTER(c.c_void_p), c.c_void_p, error)),
                        ("from_object", c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(c.c_void_p))), ("to_object", c.PYFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.py_object))),
                        ("view", c.c_void_p), ("stream", c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p)))]
        pointer = c.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
        table = Table.from_address(pointer(tenon.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
        self.assertEqual((list(table.version), table.previous, table.view), ([1, 3], None, None))
        said, managed, made, stream = [], c.c_void_p(), c.py_object(), c.c_void_p(1)
        say = error(lambda _, kind, message: said.append((kind, message)))
        like = Tensor(None, (1, 0), 2, 2, 32, 1, (c.c_int64 * 2)(2, 3), None, 0)
        self.assertEqual(table.allocate(like, managed, None, say), 0)
        self.assertEqual(table.to_object(managed, made), 0)
        self.assertEqual((made.value.shape, made.value.dtype), ((2, 3), "f32"))
        self.assertEqual((table.stream(1, 0, stream), stream.value), (0, None))
        like.shape[0] = -1
        self.assertEqual(table.allocate(like, managed, None, say), -1)
        self.assertEqual(len(said), 1)
        self.assertIn(b"-1", said[0][1])
        if not SAYS_READ_ONLY:
            return
        x = np.ones(3, np.float32)
        x.flags.writeable = False
        self.assertEqual(table.from_object(tenon.from_dlpack(Producer(x)), managed), 0)
        self.assertEqual(table.to_object(managed, made), 0)
        with self.assertRaisesRegex(tenon.InvalidError, "read-only"):
            core.neg(np.ones(3, np.float32), out=made.value)

    def test_read_only_stays_read_only(self):
        if not SAYS_READ_ONLY:
            self.skipTest("NumPy 2.1 is the first whose DLPack can say it")
        x = np.ones(3, np.float32)
        x.flags.writeable = False
        t = tenon.from_dlpack(Producer(x))
        with self.assertRaisesRegex(tenon.InvalidError, "read-only"):
            core.neg(np.ones(3, np.float32), out=t)
        with self.assertRaises(BufferError):
            t.__dlpack__()  # the legacy form cannot express read-only

    def test_anything_with_dlpack_is_an_argument(self):
        t = tenon.tensor([1.0, 2.0], dtype="f32")
        self.assertEqual(core.neg(Producer(t)).tolist(), [-1, -2])
        with self.assertRaisesRegex(TypeError, "expected an unused DLPack capsule"):
            core.neg(Liar())
        with self.assertRaisesRegex(TypeError, "expected a tensor"):
            core.neg(array.array("f", [1]))


class Producer:
    def __init__(self, of, **options):
        self.of, self.options = of, options

    def __dlpack__(self, *, max_version=None):
        return self.of.__dlpack__(max_version=max_version, **self.options)

    def __dlpack_device__(self):
        return 1, 0


class OldProducer(Producer):
    def __dlpack__(self):
        return self.of.__dlpack__()


class Liar:
    def __dlpack__(self, **_):
        return 3


class Guide(unittest.TestCase):
    def test_the_commands_of_the_guide_work(self):
        with open(os.path.join(ROOT, "docs/python.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```sh\n(.*?)^```", file.read(), re.S | re.M)
        with tempfile.TemporaryDirectory() as folder:
            for name in "examples", ".venv":
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
            os.symlink(BUILD, os.path.join(folder, "build"))
            run = subprocess.run(["bash", "-e", "-c", "".join(blocks)], cwd=folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[-0.04550", run.stdout)  # GELU of -2 is -2 times 0.0227501
        self.assertIn("Gaussian error linear unit", run.stdout)


@unittest.skipUnless(torch, "this Python has no PyTorch")
class Torch(unittest.TestCase):
    def test_results_are_torch_tensors(self):
        x = torch.randn(5, 7)
        y = core.exp(x)
        self.assertIs(type(y), torch.Tensor)
        torch.testing.assert_close(y, torch.exp(x))

    def test_every_dtype(self):
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
            x = torch.arange(6).reshape(2, 3).to(dtype)
            y = core.transpose(x)
            self.assertEqual(y.dtype, dtype)
            self.assertTrue(torch.equal(y, x.t()))

    def test_memory_is_not_copied(self):
        x = torch.arange(12.0).reshape(3, 4)
        self.assertEqual(core.transpose(x).data_ptr(), x.data_ptr())
        out = torch.empty(3, 4)
        self.assertIs(core.neg(x, out=out), out)
        self.assertTrue(torch.equal(out, -x))
        view = core.transpose(x)
        del x
        self.assertEqual(view.sum(), 66)

    def test_strides_and_lists(self):
        x = torch.arange(24.0).reshape(2, 3, 4)
        self.assertTrue(torch.equal(core.neg(x.permute(2, 0, 1)), -x.permute(2, 0, 1)))
        self.assertTrue(torch.equal(core.concat([x, x], axis=0), torch.cat([x, x])))

    def test_written_to_in_place(self):
        y, ops = torch.zeros(3), library()
        self.assertIs(ops.add_to(y, torch.ones(3), alpha=2), y)
        self.assertEqual(y.tolist(), [2, 2, 2])

    def test_dtypes_as_attributes(self):
        self.assertEqual(float(library().weigh(torch.ones(1), d=torch.float64)), 64e8)

    def test_memory_does_not_grow(self):
        x, out = torch.ones(4), torch.empty(4)
        shape = np.array([2, 2])
        self.assertEqual(leaks([lambda: core.add(x, x, out=out), lambda: core.add(x, x), lambda: core.reshape(x, shape)], 350000), [])


if __name__ == "__main__":
    totals.main()
