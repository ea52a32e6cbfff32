"""Calls every function of tests/adapters/tvm_ffi_libraries/kernels.cc through Tenon, in a process of its own.

    tvm_ffi_cases.py LIBRARY PART

PART: "declared", with declarations; "metadata", with those of the library; "python", with a function that calls Python;
"device", functions for the device `sim`, for which TEST_PROBE is the library of Tenon that finds it.
The process imports tvm_ffi first if TEST_REAL is set.  Values come from NumPy and Python.
"""
import ctypes
import os
import sys
import threading

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
if os.environ.get("TEST_REAL"):
    import tvm_ffi
import tenon
import tenon.tvm_ffi

library, part = sys.argv[1:]
x = np.arange(6, dtype=np.float32)
y = np.linspace(-1, 1, 6, dtype=np.float32)
square = np.arange(9, dtype=np.float32).reshape(3, 3)
DEVICE = "cpu"
number = {"types": "out = i64"}
DECLARED = {
    "add_one": {"schema": "add_one(Tensor x) -> Tensor", "shapes": "out = x", "pure": True},
    "scale_into": {"schema": "scale_into(Tensor x, *, float by=2.0) -> Tensor", "arguments": "out, x, by", "shapes": "out = x"},
    "add3": {"schema": "demo::sum3(Tensor a, Tensor b, Tensor c) -> Tensor", "types": "a, b, c: f32; out = a", "shapes": "b = a; c = a; out = a"},
    "sum_into": {"schema": "sum_into(Tensor[] xs, Tensor(a!) out) -> ()"},
    "into_object": {"schema": "into_object(Tensor x) -> Tensor", "arguments": "owned x, owned out", "shapes": "out = x"},
    "scaled": "scaled(Tensor x, float by=3.0) -> Tensor",
    "own_memory": "own_memory(Tensor x) -> Tensor",
    "identity": {"schema": "identity(Tensor x) -> Tensor", "arguments": "owned x"},
    "first": {"schema": "first(Tensor[] xs) -> Tensor", "types": "xs: f32; out = xs"},
    "split": "split(Tensor x) -> (Tensor a, Tensor b)",
    "swap": {"schema": "swap(Tensor a, Tensor b) -> (Tensor c, Tensor d)", "arguments": "owned a, owned b"},
    "as_int": "as_int(Tensor x) -> Tensor",
    "no_rows": "no_rows(Tensor x) -> Tensor",
    "add_ints": {"schema": "add_ints(int a, int b) -> Tensor @host", **number},
    "mul_floats": {"schema": "mul_floats(float a, float b) -> Tensor @host", "types": "out = f64"},
    "negate": {"schema": "negate(bool a) -> Tensor @host", "types": "out = bool"},
    "greet": {"schema": "greet(str name) -> Tensor @host", "types": "out = string"},
    "length": {"schema": "length(str text) -> Tensor @host", **number},
    "maybe": {"schema": "maybe(int? a=None) -> Tensor @host", **number},
    "maybe_tensor": {"schema": "maybe_tensor(Tensor? x=None) -> Tensor @host", "arguments": "owned x", "types": "x: f32; out = i64"},
    "dtype_bits": {"schema": "dtype_bits(dtype dtype) -> Tensor @host", **number},
    "device_type": {"schema": "device_type(device device) -> Tensor @host", **number},
    "sum_ints": {"schema": "sum_ints(int[] xs) -> Tensor @host", **number},
    "shape_product": {"schema": "shape_product(int[] shape) -> Tensor @host", **number},
    "sum_floats": {"schema": "sum_floats(float[] xs) -> Tensor @host", "types": "out = f64"},
    "join": {"schema": "join(str[] xs) -> Tensor @host", "types": "out = string"},
    "numbers": {"schema": "numbers(int a) -> (Tensor @host a2, Tensor @host half)", "types": "a2 = i64; half = f64"},
    "nothing": "nothing() -> ()",
    "many": {"schema": "many(Tensor x, int a, float b, bool c, str d, dtype e, device f, int? g) -> Tensor @host", "types": "x: f32; out = i64"},
    "stream": {"schema": "stream(Tensor x) -> Tensor @host", "types": "x: f32; out = i64"},
    "fail": "fail(str kind, str text) -> ()",
    "keep": {"schema": "keep(Tensor x) -> ()", "arguments": "owned x"},
    "kept_is_empty": {"schema": "kept_is_empty() -> Tensor @host", **number},
}


def equal(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected), (found, expected)


def refused(error, words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error as found:
        assert all(word in str(found) for word in words), (str(found), words)
        return
    raise AssertionError(f"{call} did not fail with {words}")


def text(found):
    return str(np.asarray(found).item())


def check_values(ops):
    """What is the same with declarations and with metadata."""
    equal(ops.scaled(x, 3.0), x * 3)
    equal(ops.own_memory(x), x + 100)
    equal(ops.identity(x), x)
    for found, expected in zip(ops.split(x), (x / 2, x - x / 2)):
        equal(found, expected)
    equal(ops.no_rows(x), np.zeros((0, 3), np.float32))
    equal(ops.add_ints(2**40, -3), np.int64(2**40 - 3))
    equal(ops.mul_floats(0.5, 3), np.float64(1.5))
    equal(ops.negate(True), np.bool_(False))
    assert text(ops.greet("you")) == "hi you" and text(ops.greet("a" * 300)) == "hi " + "a" * 300
    equal(ops.length(""), np.int64(0))
    equal(ops.length("äö"), np.int64(4))
    equal(ops.maybe(), np.int64(-1)) if part == "declared" else equal(ops.maybe(None), np.int64(-1))
    equal(ops.maybe(7), np.int64(7))
    equal(ops.maybe_tensor(square), np.int64(2))
    equal(ops.maybe_tensor(None), np.int64(-1))
    equal(ops.dtype_bits("bf16"), np.int64(16))
    equal(ops.device_type("cpu"), np.int64(1))
    equal(ops.sum_ints([1, 2, 40]), np.int64(43))
    equal(ops.sum_ints([]), np.int64(0))
    equal(ops.shape_product([2, 3, 7]), np.int64(42))
    equal(ops.sum_floats([0.5, 2]), np.float64(2.5))
    assert text(ops.join(["a", "long text of it", ""])) == "along text of it"
    for found, expected in zip(ops.numbers(5), (np.int64(5), np.float64(2.5))):
        equal(found, expected)
    ops.nothing()
    equal(ops.many(x, 1, 2.9, True, "four", "f64", "cpu", 5), np.int64(6 + 1 + 2 + 1 + 4 + 64 + 1 + 5))
    equal(ops.many(x, 1, 2.9, True, "four", "f64", "cpu", None), np.int64(6 + 1 + 2 + 1 + 4 + 64 + 1))
    equal(ops.stream(x), np.int64(0))
    refused(tenon.InvalidError, ["as_int", "expected f32, found dtype code 0 with 32 bits", "state `types`"], ops.as_int, x)


def check_errors(ops):
    for kind, error in {"ValueError": tenon.InvalidError, "TypeError": tenon.InvalidError, "IndexError": tenon.RangeError, "RuntimeError": tenon.Error}.items():
        refused(error, [f"fail: {kind}: the text of {kind}"], ops.fail, kind, f"the text of {kind}")
    refused(tenon.Error, ["a plain exception"], ops.fail, "std", "a plain exception")
    refused(tenon.InvalidError, ["a string with a zero byte"], ops.length, "a\0b")
    refused(tenon.Error, ["keep keeps a tensor argument after the call"], ops.keep, x)
    equal(ops.kept_is_empty(), np.int64(1))
    equal(ops.scaled(x, 2.0), x * 2)  # the next call works


def check_flat_memory(ops):
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def many(count):
        for _ in range(count):
            ops.scaled(x, 2.0)
            ops.add_one(x, out) if part == "metadata" else ops.add_one(x)
            ops.sum_ints([1, 2])
            try:
                ops.fail("ValueError", "no")
            except tenon.InvalidError:
                pass
    out = np.empty_like(x)
    many(2000)
    before = resident()
    many(int(os.environ.get("TEST_CALLS", 20000)) // 4)
    assert resident() - before < 2 << 20, f"memory grew by {resident() - before} bytes"


def check_threads(ops):
    wrong = []

    def call(k):
        for i in range(300):
            value = x * np.float32(k)
            if not np.array_equal(ops.scaled(value, 2.0), value * 2) or int(ops.add_ints(k, i)) != k + i:
                wrong.append((k, i))
    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def declared():
    ops = tenon.tvm_ffi.load(library, DECLARED, unloadable=True)
    equal(ops.add_one(x), x + 1)
    equal(ops.add_one(square[0, ::2].copy()), square[0, ::2] + 1)
    equal(ops.add_one(square[:, 1]), square[:, 1] + 1)  # strided: the function gets a dense copy
    refused(tenon.InvalidError, ["add_one: ValueError: x must have one axis, found 2"], ops.add_one, square)
    equal(ops.scale_into(x, by=0.5), x * np.float32(0.5))
    equal(tenon.ops.demo.sum3(x, y, x), x + y + x)
    out = np.empty_like(x)
    ops.sum_into([x, y, y], out)
    equal(out, x + y + y)
    equal(ops.into_object(x), -x)
    equal(ops.first([y, x]), y)
    for found, expected in zip(ops.swap(x, y), (y, x)):
        equal(found, expected)
    equal(ops.scaled(x), x * 3)
    check_values(ops)
    check_errors(ops)
    check_threads(ops)
    check_flat_memory(ops)
    refused(tenon.ExistsError, ["loaded already"], tenon.tvm_ffi.load, library, DECLARED)
    kept = ops.own_memory(x)
    ops.unload()
    assert not list(ops)
    equal(kept, x + 100)  # its memory and the code that frees it outlive the library
    del kept
    again = tenon.tvm_ffi.load(library, {"scaled": DECLARED["scaled"]})
    equal(again.scaled(x, 4.0), x * 4)


def metadata():
    ops = tenon.load(library)
    out = np.empty_like(x)
    ops.add_one(x, out)
    equal(out, x + 1)
    ops.scale_into(out, x, 2.5)
    equal(out, x * np.float32(2.5))
    ops.sum_into([x, y], out)
    equal(out, x + y)
    assert "swap" not in dir(ops) and "apply" not in dir(ops), "the types of their results or arguments have no form in Tenon"
    check_values(ops)
    check_errors(ops)
    check_threads(ops)
    check_flat_memory(ops)


def python():
    """A function that calls one of Python: the call released the interpreter lock, and the function takes it."""
    ops = tenon.tvm_ffi.load(library, call_global={"schema": "call_global(str name, Tensor x) -> Tensor @host", "arguments": "name, owned x", "types": "x: f32; out = i64"})
    seen = []

    @tvm_ffi.register_global_func("tenon_test.count")
    def count(tensor):
        seen.append(np.from_dlpack(tensor).copy())
        return int(seen[-1].sum())

    @tvm_ffi.register_global_func("tenon_test.fail")
    def fail(tensor):
        raise IndexError("from Python")
    equal(ops.call_global("tenon_test.count", x), np.int64(x.sum()))
    equal(seen[0], x)
    refused(tenon.RangeError, ["IndexError: from Python"], ops.call_global, "tenon_test.fail", x)
    results = []
    threads = [threading.Thread(target=lambda: results.append(int(ops.call_global("tenon_test.count", x)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [15] * 4, results


def device():
    """Functions that enqueue work on the device `sim`, which delays it: memory of the device, and streams of the environment."""
    probe = tenon.load(os.environ["TEST_PROBE"])
    ops = tenon.tvm_ffi.load(library, used_stream={"schema": "used_stream(Tensor x) -> Tensor @host", "types": "x: f32; out = i64", "backends": "sim cpu"},
                             negate={"schema": "negate(Tensor x, int table, int ordinal) -> Tensor", "arguments": "x, out, table, ordinal", "shapes": "out = x", "backends": "sim"})
    there = tenon.tensor(x, device="sim")
    table, ordinal = probe.addresses(there).tolist()
    streams = Streams()

    def check():
        found = there
        for _ in range(10):
            found = tenon.ops.core.add(ops.negate(found, table, ordinal), there)  # each step waits for the one before
        assert str(found.device) == str(there.device), found.device
        equal(found.to("cpu"), x)  # x, 0, x, 0, ...
    check()
    usual = int(ops.used_stream(there))
    for _ in range(2):
        stream = streams.create()
        before = streams.use(stream)
        own = int(ops.used_stream(there))
        check()
        streams.use(before)
        assert own != usual and int(ops.used_stream(there)) == usual, (own, usual)
        streams.release(stream)
    equal(ops.used_stream(x), np.int64(0))  # the stream of one device is not that of another
    refused(tenon.Error, ["negate"], ops.negate, x, table, ordinal)  # no kernel for the CPU


class Streams:
    """Streams of a device by libtenon's own functions."""

    def __init__(self):
        class Device(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]
        self.tenon = ctypes.CDLL(os.path.join(BUILD, "libtenon.so.1"))
        self.device = Device()
        self.check(self.tenon.tenon_device_find(b"sim", 0, ctypes.byref(self.device)))
        self.tenon.tenon_stream_release.restype = None

    def check(self, status):
        assert status == 0, status

    def create(self):
        stream = ctypes.c_void_p()
        self.check(self.tenon.tenon_stream_create(self.device, ctypes.byref(stream)))
        return stream

    def use(self, stream):
        before = ctypes.c_void_p()
        self.check(self.tenon.tenon_stream_use(self.device, stream, ctypes.byref(before)))
        return before

    def release(self, stream):
        self.tenon.tenon_stream_release(stream)


{"declared": declared, "metadata": metadata, "python": python, "device": device}[part]()
print("fine")
