"""Tenon's devices as platforms of JAX: the plug-in libtenon_pjrt.so, which XLA calls through PJRT.

Values are those of JAX on the CPU, in the same process. Run with .venv-jax's Python.
"""
import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
LIBRARY = os.path.join(BUILD, "libtenon_pjrt.so")
PLUGINS = [os.path.join(BUILD, "pjrt"), os.path.join(BUILD, "python")]
sys.path[:0] = PLUGINS
os.environ["JAX_PLATFORMS"] = "tenon_sim,cpu"
import jax
import jax.numpy as jnp
import numpy as np

import stablehlo_cases
import tenon.jax
import totals
from jax_network import loss, network
from jaxlib import xla_client

FUNCTIONS = os.path.join(ROOT, "bridges", "pjrt", "functions.h")
PAGE = os.path.join(ROOT, "docs", "decisions", "0039-pjrt.md")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e4m3", "float8_e3m4",
          "float8_e8m0fnu")
INVALID, UNIMPLEMENTED = 3, 12


def setUpModule():
    if jax.__version_info__ < (0, 10):
        raise unittest.SkipTest(f"the plug-in states version 0.105 of PJRT, which JAX 0.10 speaks, and JAX {jax.__version__} is installed")


def numbers(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def parameters():
    return [(numbers(8, 16) / 4, numbers(16)), (numbers(16, 4) / 4, numbers(4))]


def step(layers, x, y):
    value, gradients = jax.value_and_grad(loss)(layers, x, y)
    return jax.tree.map(lambda old, slope: old - 0.1 * slope, layers, gradients), value


def on(platform, function, *arguments):
    """The result of a jitted function on the first device of a platform, as arrays of NumPy."""
    with jax.default_device(jax.devices(platform)[0]):
        return jax.tree.map(np.asarray, jax.jit(function)(*arguments))


def sim():
    return jax.devices("tenon_sim")


def resident():
    """The bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(program, **environment):
    path = os.pathsep.join(PLUGINS)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "tenon_sim", **environment})


class Values(unittest.TestCase):
    """What programs compute."""

    def same(self, function, *arguments, rtol=2e-5):
        ours, theirs = on("tenon_sim", function, *arguments), on("cpu", function, *arguments)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), ours, theirs)

    def test_a_network_and_its_gradient_have_the_values_of_the_cpu(self):
        x, y = numbers(5, 8), numbers(5, 4)
        self.same(network, parameters(), x)
        self.same(jax.value_and_grad(loss), parameters(), x, y)

    def test_results_are_on_the_device_of_tenon(self):
        y = jax.jit(network)(parameters(), numbers(5, 8))
        self.assertEqual([d.platform for d in y.devices()], ["tenon_sim"])
        self.assertEqual(y.sharding.memory_kind, "device")

    def test_a_training_loop_deletes_what_it_donates(self):
        x, y = numbers(5, 8), numbers(5, 4)
        losses = {}
        for platform in "tenon_sim", "cpu":
            device = jax.devices(platform)[0]
            layers = jax.device_put(parameters(), device)
            inputs = jax.device_put((x, y), device)
            train = jax.jit(step, donate_argnums=0)
            losses[platform] = []
            for _ in range(20):
                before = layers
                layers, value = train(layers, *inputs)
                losses[platform].append(float(value))
                self.assertTrue(all(a.is_deleted() for a in jax.tree.leaves(before)), platform)
                self.assertFalse(any(a.is_deleted() for a in inputs), platform)
        np.testing.assert_allclose(losses["tenon_sim"], losses["cpu"], rtol=1e-4)
        self.assertLess(losses["tenon_sim"][-1], losses["tenon_sim"][0] / 2)

    def test_a_donated_argument_cannot_be_used_again(self):
        x = jax.device_put(numbers(4))
        jax.jit(lambda a: a + 1, donate_argnums=0)(x)
        with self.assertRaisesRegex(RuntimeError, "deleted"):
            np.asarray(x)

    def test_an_argument_that_is_donated_and_used_once_more_is_read_first(self):
        x = jax.device_put(numbers(4))
        y = jax.jit(lambda a, b: a + 2 * b, donate_argnums=0)(x, x)
        np.testing.assert_allclose(y, 3 * numbers(4), rtol=1e-6)
        self.assertTrue(x.is_deleted())

    def test_several_programs_live_side_by_side(self):
        programs = [jax.jit(lambda x, k=k: x * k + k) for k in range(5)]
        compiled = {(k, n): f for k, f in enumerate(programs) for n in (1, 3, 7)}
        for _ in range(3):
            for (k, n), f in compiled.items():
                np.testing.assert_array_equal(f(np.ones(n, np.float32)), np.full(n, 2 * k, np.float32))

    def test_control_flow_and_random_numbers_have_the_values_of_the_cpu(self):
        self.same(lambda x: jax.lax.fori_loop(0, 5, lambda i, a: a * 0.5 + i, x), numbers(3))
        self.same(lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), numbers(3))
        self.same(lambda: jax.random.normal(jax.random.key(7), (3, 5)))

    def test_programs_without_arguments_or_with_arguments_as_results_work(self):
        np.testing.assert_array_equal(jax.jit(lambda: jnp.arange(4) * 2)(), [0, 2, 4, 6])
        x = jax.device_put(numbers(3))
        a, b = jax.jit(lambda x: (x, x))(x)
        del x
        np.testing.assert_array_equal(a, numbers(3))
        np.testing.assert_array_equal(b, numbers(3))

    def test_operators_of_tenon_run_on_the_device_with_their_gradients(self):
        ops = tenon.jax.register("core")
        x = numbers(3, 4)
        self.same(lambda x: ops.gelu(x) * 2, x)
        self.same(jax.grad(lambda x: (ops.gelu(x) @ ops.softmax(x).T).sum()), x)
        np.testing.assert_allclose(on("tenon_sim", ops.tanh, x), np.tanh(x), rtol=1e-5)
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "draws random numbers by a key of JAX"):
            jax.jit(lambda key: ops.normal(shape=[3], key=key))(jax.random.key(0))

    def test_the_compiled_program_says_what_it_needs(self):
        compiled = jax.jit(network).lower(parameters(), numbers(5, 8)).compile()
        self.assertGreater(compiled.cost_analysis()["nodes"], 2)
        memory = compiled.memory_analysis()
        self.assertEqual(memory.argument_size_in_bytes, 4 * (8 * 16 + 16 + 16 * 4 + 4 + 5 * 8))
        self.assertEqual(memory.output_size_in_bytes, 4 * 5 * 4)


class Operations(unittest.TestCase):
    """Every operation that the reader of StableHLO knows, on the device."""
    parts = 0

    def test_each_operation_gives_what_the_cpu_gives(self):
        for name, (function, arguments, *rest) in stablehlo_cases.operations().items():
            tolerance = rest[0] if rest else 1e-5
            with self.subTest(name):
                ours = jax.tree.leaves(on("tenon_sim", function, *arguments))
                theirs = jax.tree.leaves(on("cpu", rest[1] if len(rest) > 1 else function, *arguments))
                for value, right in zip(ours, theirs, strict=True):
                    self.assertEqual((value.dtype, value.shape), (right.dtype, right.shape))
                    scale = max(1.0, np.abs(right[np.isfinite(right)].astype(np.float64)).max(initial=0)) if right.dtype.kind == "f" else 0
                    np.testing.assert_allclose(value.astype(np.float64), right.astype(np.float64), rtol=tolerance if scale else 0, atol=tolerance * scale)
                Operations.parts += 1


class Transfers(unittest.TestCase):
    """Arrays between the host and devices."""

    def test_all_dtypes_survive_a_round_trip(self):
        with jax.enable_x64(True):
            for name in DTYPES:
                dtype = jnp.dtype(name)
                for shape in (), (3,), (2, 0, 3), (2, 3, 5):
                    raw = np.random.default_rng(1).integers(0, 2, size=(*shape, dtype.itemsize), dtype=np.uint8)
                    array = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
                    moved = jax.device_put(array, sim()[0])
                    self.assertEqual((moved.dtype, moved.shape), (dtype, shape))
                    self.assertEqual(np.asarray(moved).tobytes(), array.tobytes(), name)

    def test_a_dtype_below_a_byte_is_refused(self):
        for name in "int4", "uint4", "float4_e2m1fn":
            with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "element type [0-9]+ of PJRT is not supported"):
                jax.device_put(np.zeros(4, jnp.dtype(name)), sim()[0])
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "an input or output has elements of fewer than 8 bits"):
            on("tenon_sim", lambda x: x.astype(jnp.int4), np.zeros(4, np.int8))

    def test_arrays_with_strides_are_copied_as_they_read(self):
        array = numbers(4, 6, 5)
        for view in array.T, array[::2], array[:, ::-1], array[1:, 2:4, ::3], np.broadcast_to(array[0, 0], (3, 5)):
            np.testing.assert_array_equal(np.asarray(jax.device_put(view, sim()[0])), view)

    def test_the_host_may_change_an_array_after_it_was_copied(self):
        array = np.arange(1000, dtype=np.float32)
        moved = jax.device_put(array, sim()[0], may_alias=False)
        expected = array.copy()
        array[:] = -1
        np.testing.assert_array_equal(moved, expected)

    def test_arrays_move_between_devices(self):
        first, second = sim()
        x = jax.device_put(numbers(3, 4), first)
        y = jax.device_put(x, second)
        self.assertEqual((x.devices(), y.devices()), ({first}, {second}))
        z = jax.jit(lambda a: a * 2)(y)
        self.assertEqual(z.devices(), {second})
        np.testing.assert_array_equal(z, 2 * numbers(3, 4))
        host = jax.device_put(z, jax.devices("cpu")[0])
        np.testing.assert_array_equal(host, 2 * numbers(3, 4))
        np.testing.assert_array_equal(jax.device_put(host, first), host)


class Errors(unittest.TestCase):
    """What cannot be done, and what is said then."""

    def test_an_operation_without_a_lowering_is_named(self):
        call = jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((3,), jnp.float32))
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "(?s)UNIMPLEMENTED: program: .*custom_call.*no_such_target"):
            jax.jit(call)(numbers(3))
        np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(np.ones(3, np.float32)), [2, 2, 2])

    def test_a_program_for_two_devices_is_refused(self):
        mesh = jax.sharding.Mesh(np.array(sim()), "x")
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "partitions is not supported"):
            jax.jit(lambda a: a.sum())(jax.device_put(numbers(4), sharding))

    def test_complex_arguments_of_a_program_are_refused_with_a_remedy(self):
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "real and imaginary parts"):
            jax.jit(lambda x: x * 2)(np.ones(3, np.complex64))

    def test_a_backend_that_does_not_exist_is_named(self):
        done = run("import jax; jax.devices()", TENON_PJRT="nosuch", JAX_PLATFORMS="tenon_nosuch")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "backend 'nosuch' of Tenon: there is no device 'nosuch'; there are: cpu")

    def test_a_name_that_cannot_be_a_backend_is_refused(self):
        for name in "../sim", "Sim", "sim;cpu", "a" * 33:
            done = run("import tenon.jax.pjrt as p; p.backends()", TENON_PJRT=name)
            self.assertIn(f"expected names of backends of Tenon, such as sim,opencl; found {name!r}", done.stderr)


class Use(unittest.TestCase):
    """Long use, threads, and the end."""

    def test_ten_thousand_calls_need_no_more_memory_than_a_hundred(self):
        function = jax.jit(lambda x, y: (x * y + 1, x - y))
        x, y = jax.device_put((numbers(16), numbers(2)[:1]), sim()[0])

        def repeat(count):
            for _ in range(count):
                np.asarray(function(x, y)[0])
            gc.collect()
            return sim()[0].memory_stats()["bytes_in_use"], resident()

        repeat(1000)
        before = repeat(100)
        after = repeat(10000)
        self.assertEqual(after[0], before[0])
        self.assertLess(after[1] - before[1], 4 << 20)

    def test_programs_give_their_memory_back(self):
        def make(count):
            for _ in range(count):
                jax.clear_caches()
                np.asarray(jax.jit(lambda x: x * 2 + 1)(np.ones(4, np.float32)))
            gc.collect()
            return sim()[0].memory_stats()["bytes_in_use"]

        before = make(3)
        self.assertEqual(make(10), before)

    def test_two_threads_compute_at_the_same_time(self):
        wrong = []

        def work(seed):
            function = jax.jit(lambda x: jnp.tanh(x) @ x.T + seed)
            array = numbers(6 + seed, 5)
            expected = np.tanh(array) @ array.T + seed
            for _ in range(200):
                if not np.allclose(function(jax.device_put(array, sim()[seed % 2])), expected, rtol=1e-4, atol=1e-5):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
x = np.arange(12, dtype=np.float32).reshape(3, 4)
y = jax.jit(lambda x: jnp.tanh(x / 12) @ x.T)(x)
print(jax.devices()[0].platform, np.abs(np.asarray(y) - np.tanh(x / 12) @ x.T).max() < 1e-5)
"""

    REPEATED = """
import jax, jax.numpy as jnp, numpy as np
program = jax.jit(lambda x: jnp.tanh(x) @ x.T)
for _ in range(3):
    try:
        print(np.asarray(program(np.ones((30, 40), np.float32))).shape)
    except jax.errors.JaxRuntimeError as error:
        print(error)
"""

    def test_a_failure_of_the_device_is_an_error_with_its_reason(self):
        for settings, code, reason, then in (("fault=3", "INTERNAL", "sim: launch .* fails because a setting says so", "INTERNAL: .*fails because"),
                                             ("fail=launch:2", "UNAVAILABLE", "core::matmul.*fails because a setting says so", r"\(30, 30\)"),
                                             ("fail=copy:2", "UNAVAILABLE", "copy.*fails because a setting says so", r"\(30, 30\)"),
                                             ("lose=0:4", "ABORTED", "ordinal 0 is lost", "ABORTED: .*ordinal 0 is lost"),
                                             ("memory=6000", "RESOURCE_EXHAUSTED", "has no memory for 4800 bytes", "RESOURCE_EXHAUSTED")):
            done = run(self.REPEATED, TENON_SIM=settings)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.splitlines()
            self.assertEqual(len(lines), 3, done.stdout)
            self.assertRegex(lines[0], f"^{code}: .*{reason}")
            for line in lines[1:]:
                self.assertRegex(line, f"^{then}")

    def test_a_process_ends_cleanly_with_arrays_alive(self):
        for settings in "", "delay=300,seed=3", "handles=1,delay=50":
            done = run(self.PROGRAM, TENON_SIM=settings)
            self.assertEqual((done.returncode, done.stdout), (0, "tenon_sim True\n"), done.stderr)
            self.assertEqual([line for line in done.stderr.splitlines() if "experimental" not in line], [])

    def test_the_cpu_of_tenon_is_a_platform_too(self):
        done = run(self.PROGRAM, TENON_PJRT="cpu,sim", JAX_PLATFORMS="tenon_cpu")
        self.assertEqual((done.returncode, done.stdout), (0, "tenon_cpu True\n"), done.stderr)

    def test_without_jax_platforms_the_cpu_of_jax_stays_the_default(self):
        done = run("import jax; print(jax.devices()[0].platform)", JAX_PLATFORMS="")
        self.assertEqual((done.returncode, done.stdout), (0, "cpu\n"), done.stderr)


class Arguments(ctypes.Structure):
    """The start of every structure of PJRT, with room for the rest."""
    _fields_ = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 30)]


class Table(unittest.TestCase):
    """The table of functions, called without JAX."""

    @classmethod
    def setUpClass(cls):
        with open(FUNCTIONS, encoding="utf-8") as file:
            cls.rows = re.findall(r"^  (READY|MISSING)\((\w+)", file.read(), re.M)
        library = ctypes.CDLL(LIBRARY)
        library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_size_t)
        cls.words = library.GetPjrtApi()

    def call(self, index, arguments):
        """Calls a function by its place in the table, and returns the code and the message of its error, or None."""
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        error = function(self.words[5 + index])(ctypes.addressof(arguments))
        if not error:
            return None
        text = Arguments(size=40)
        text.rest[0] = error
        function(self.words[5 + 1])(ctypes.addressof(text))
        message = ctypes.string_at(text.rest[1], text.rest[2]).decode()
        number = Arguments(size=28)
        number.rest[0] = error
        function(self.words[5 + 2])(ctypes.addressof(number))
        function(self.words[5])(ctypes.addressof(text))
        return number.rest[1] & 0xffffffff, message

    def test_the_table_has_the_size_that_it_states(self):
        self.assertEqual(self.words[0], 8 * (5 + len(self.rows)))
        self.assertEqual(self.words[4], 0 | 105 << 32)

    def test_every_missing_function_names_itself(self):
        for index, (kind, name) in enumerate(self.rows):
            if kind == "MISSING":
                self.assertEqual(self.call(index, Arguments(size=256)), (UNIMPLEMENTED, f"Tenon's plug-in does not implement PJRT_{name}"))

    def test_every_function_refuses_a_structure_that_is_too_short(self):
        for index, (kind, name) in enumerate(self.rows):
            if kind == "READY":
                code, message = self.call(index, Arguments(size=15))
                self.assertEqual(code, INVALID, name)
                self.assertRegex(message, f"^PJRT_{name}: the structure of the caller has 15 bytes, expected at least [0-9]+")

    def named(self, name, arguments):
        return self.call([row for _, row in self.rows].index(name), arguments)

    def client(self, backend=b"cpu", name=b"backend"):
        option = Arguments(size=56)
        texts = ctypes.create_string_buffer(name), ctypes.create_string_buffer(backend)
        option.rest[0], option.rest[1], option.rest[3], option.rest[4] = ctypes.addressof(texts[0]), len(name), ctypes.addressof(texts[1]), len(backend)
        create = Arguments(size=72)
        create.rest[0], create.rest[1] = ctypes.addressof(option), 1
        return self.named("Client_Create", create), create.rest[6]

    def compile(self, client, form, code, options):
        held = [ctypes.create_string_buffer(text, len(text) + 1) for text in (code, form, options)]
        program, call = Arguments(size=48), Arguments(size=56)
        program.rest[0:4] = ctypes.addressof(held[0]), len(code), ctypes.addressof(held[1]), len(form)
        call.rest[0:4] = client, ctypes.addressof(program), ctypes.addressof(held[2]), len(options)
        return self.named("Client_Compile", call)

    def test_a_client_needs_a_backend(self):
        self.assertEqual(self.named("Client_Create", Arguments(size=72))[0], INVALID)
        self.assertIn("the option `backend` is missing", self.named("Client_Create", Arguments(size=72))[1])
        self.assertIn("has no option 'devices'", self.client(name=b"devices")[0][1])
        self.assertIn("must be a text of 1 to 33 characters", self.client(backend=b"a" * 34)[0][1])

    def test_damaged_compilations_are_refused(self):
        error, client = self.client()
        self.assertIsNone(error)
        good = bytes.fromhex("1a044a020801")
        cases = [(b"mlir", b"not a program", good, INVALID, "program: "),
                 (b"mlir", b"ML\xefR", good, INVALID, "program: "),
                 (b"mlir", b"", b"", INVALID, "program: "),
                 (b"hlo", b"", good, UNIMPLEMENTED, "in the format 'hlo'"),
                 (b"mlir", b"", good[:-1], INVALID, "expected a serialised CompileOptionsProto"),
                 (b"mlir", b"", b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", INVALID, "expected a serialised CompileOptionsProto"),
                 (b"mlir", b"", bytes.fromhex("1a022004"), UNIMPLEMENTED, "4 replicas of 1 partitions is not supported"),
                 (b"mlir", b"", bytes.fromhex("1a020807"), INVALID, "has no device 7: expected 0 to 0")]
        for form, code, options, status, message in cases:
            found = self.compile(client, form, code, options)
            self.assertEqual(found[0], status, found)
            self.assertIn(message, found[1])
        real = xla_client.CompileOptions().SerializeAsString()
        draw = np.random.default_rng(2026)
        for size in range(len(real)):
            self.assertIsNotNone(self.compile(client, b"mlir", b"", real[:size]))
        for _ in range(2000):
            changed = bytearray(real)
            changed[draw.integers(len(real))] = draw.integers(256)
            self.assertIsNotNone(self.compile(client, b"mlir", b"", bytes(changed)))
        destroy = Arguments(size=24)
        destroy.rest[0] = client
        self.assertIsNone(self.named("Client_Destroy", destroy))

    def test_the_page_names_every_missing_function_and_the_numbers(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        missing = {name for kind, name in self.rows if kind == "MISSING"}
        listed = set(re.findall(r"`(\w+_\w+|Compile)`", page[page.index("## Missing"):page.index("## Completing")]))
        self.assertEqual(listed & {name for _, name in self.rows}, missing)
        self.assertIn(f"{len(self.rows) - len(missing)} of {len(self.rows)} functions", page)


if __name__ == "__main__":
    totals.main(lambda: Operations.parts)
