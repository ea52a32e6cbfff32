"""The reason of a failure is that of the function that failed. A function of a library may fail without a reason, or return a status that does not
exist; then the error says so, and never repeats the text of an earlier failure."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "adapters")]

import totals  # noqa: E402

LIBRARY = r"""
#include <tenon/op.h>
static tenon_status_t run(tenon_call_t *call) { (void)call; KERNEL; }
static tenon_status_t infer(tenon_infer_t *call) { (void)call; INFER; }
static tenon_status_t create(tenon_node_t *node) { (void)node; CREATE; }
static tenon_status_t prepare(tenon_node_t *node) { (void)node; PREPARE; }
static tenon_status_t open_library(tenon_node_t *node) { (void)node; OPEN; }
static void release(void *state) { (void)state; }
static tenon_status_t good(tenon_call_t *call) { *(float *)call->outputs[0]->data = 1; return TENON_OK; }
static tenon_status_t says(tenon_call_t *call) { return tenon_fail(call, TENON_INVALID, "a reason of its own"); }
static tenon_status_t nested(tenon_call_t *call) { /* fails with a reason, and then makes a call that succeeds */
  tenon_tensor_t *in[] = {call->inputs[0]}, *out[] = {call->outputs[0]};
  tenon_status_t status = tenon_fail(call, TENON_INVALID, "the reason before the cleanup");
  (void)call->host->invoke(call, call->uses[0], NULL, in, out);
  return status;
}
static tenon_status_t around(tenon_call_t *call) { /* returns the failure of another operator */
  tenon_tensor_t *in[] = {call->inputs[0]}, *out[] = {call->outputs[0]};
  return call->host->invoke(call, call->uses[0], NULL, in, out);
}
#define ONE(schema, ...) TENON_OP(schema, TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [n]; out = x"), __VA_ARGS__)
TENON_LIBRARY(NAME, "1.0.0", TENON_OPEN(open_library, release),
  ONE("f(Tensor x) -> Tensor", TENON_INFER(infer) STATE PREPARED, TENON_KERNEL("cpu", run)),
  ONE("good(Tensor x) -> Tensor", TENON_KERNEL("cpu", good)), ONE("says(Tensor x) -> Tensor", TENON_KERNEL("cpu", says)),
  ONE("nested(Tensor x) -> Tensor", TENON_USES("NAME::good"), TENON_KERNEL("cpu", nested)), ONE("around(Tensor x) -> Tensor", TENON_USES("NAME::says"), TENON_KERNEL("cpu", around)))
"""

COUNT = 0


def build(folder, **macros):
    """Builds LIBRARY under a name of its own, and returns the name and the path."""
    global COUNT
    COUNT += 1
    name = f"reason{COUNT}"
    source = os.path.join(folder, name + ".c")
    with open(source, "w", encoding="utf-8") as to:
        values = {"STATE": "", "PREPARED": "", **{key: "return TENON_OK" for key in ("KERNEL", "INFER", "CREATE", "PREPARE", "OPEN")}, **macros}
        to.write("".join(f"#define {key} {value}\n" for key, value in values.items()) + LIBRARY.replace("NAME", name))
    library = os.path.join(folder, name + ".so")
    run = subprocess.run(["cc", "-O1", "-w", "-fPIC", "-shared", "-I", os.path.join(ROOT, "include"), source, "-o", library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return name, library


class Reasons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="reason")

    def error_of(self, call, earlier=True):
        """The message of the call, made after another operator has failed with a text of its own."""
        import numpy
        import tenon
        if earlier:
            with self.assertRaises(tenon.Error):
                tenon.ops.core.matmul(numpy.ones((2, 3), "f4"), numpy.ones((2, 3), "f4"))
        with self.assertRaises(tenon.Error) as raised:
            call(numpy.ones(3, "f4"))
        return str(raised.exception)

    def load(self, isolated=False, **macros):
        import tenon
        name, path = build(self.folder, **macros)
        return name, tenon.load(path, isolated=isolated)

    def test_a_kernel_without_a_reason_does_not_have_that_of_another_operator(self):
        for isolated in False, True:
            with self.subTest(isolated=isolated):
                name, library = self.load(KERNEL="return TENON_INTERNAL", isolated=isolated)
                for earlier in True, False, True:
                    self.assertEqual(self.error_of(library.f, earlier), f"{name}::f: its kernel failed (internal) and gave no reason")

    def test_a_status_that_does_not_exist_is_named(self):
        for isolated in False, True:
            for status in 77, -5, 1 << 30:
                with self.subTest(isolated=isolated, status=status):
                    name, library = self.load(KERNEL=f"return (tenon_status_t){status}", isolated=isolated)
                    self.assertEqual(self.error_of(library.f), f"{name}::f: its kernel returned status {status}, which does not exist")

    def test_a_reason_with_a_status_that_does_not_exist_is_kept(self):
        name, library = self.load(KERNEL='tenon_fail(call, TENON_INVALID, "really"); return (tenon_status_t)77')
        self.assertEqual(self.error_of(library.f), f"{name}::f: its kernel returned status 77, which does not exist: {name}::f: really")

    def test_infer_and_create_without_a_reason_say_so(self):
        for isolated in False, True:
            name, library = self.load(INFER="return TENON_INTERNAL", isolated=isolated)
            self.assertEqual(self.error_of(library.f), f"{name}::f: its infer failed (internal) and gave no reason")
            name, library = self.load(INFER="return (tenon_status_t)77", isolated=isolated)
            self.assertEqual(self.error_of(library.f), f"{name}::f: its infer returned status 77, which does not exist")
            name, library = self.load(STATE=", TENON_STATE(create, release)", CREATE="return (tenon_status_t)77", isolated=isolated)
            self.assertEqual(self.error_of(library.f), f"{name}::f: its create returned status 77, which does not exist")

    def test_TENON_OPEN_without_a_reason_says_so(self):
        import tenon
        name, path = build(self.folder, OPEN="return TENON_INTERNAL")
        for isolated in False, True:
            said = self.error_of(lambda _: tenon.load(path, isolated=isolated))
            self.assertIn("TENON_OPEN function failed (internal) and gave no reason", said)
            self.assertNotIn("matmul", said)

    def test_a_reason_outlives_a_call_that_the_kernel_makes_afterwards(self):
        name, library = self.load()
        self.assertIn("the reason before the cleanup", self.error_of(library.nested))

    def test_the_reason_of_a_nested_call_is_passed_on(self):
        name, library = self.load()
        self.assertIn("a reason of its own", self.error_of(library.around))

    def test_calls_that_succeed_between_failures_change_nothing(self):
        import numpy
        name, library = self.load(KERNEL="return TENON_INTERNAL")
        self.error_of(library.says)
        for _ in range(3):
            library.good(numpy.ones(3, "f4"))
        self.assertEqual(self.error_of(library.f, earlier=False), f"{name}::f: its kernel failed (internal) and gave no reason")

    def test_prepare_without_a_reason_says_so(self):
        name, path = build(self.folder, PREPARED=", TENON_PREPARE(prepare, release)", PREPARE="return TENON_INTERNAL")
        model = os.path.join(self.folder, "prepared.onnx")
        made = subprocess.run([TENON, "model", f"{name}::f", "--ops", path, "-i", "x=f32[4]", "-o", model], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        run = subprocess.run([TENON, "run", model, "--ops", path, "-i", "ones"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"{name}::f: its prepare failed (internal) and gave no reason", run.stderr)

    def test_a_model_names_the_node_and_the_operator_that_gave_no_reason(self):
        name, path = build(self.folder, KERNEL="return TENON_INTERNAL")
        model = os.path.join(self.folder, "silent.onnx")
        made = subprocess.run([TENON, "model", f"{name}::f", "--ops", path, "-i", "x=f32[4]", "-o", model], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        for extra in [], ["--isolate-ops"]:
            run = subprocess.run([TENON, "run", model, "--ops", path, "-i", "ones", *extra], capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"{name}::f: its kernel failed (internal) and gave no reason", run.stderr)


DEVICE = r"""
#include "vx.h"
#include <stdlib.h>
const tenon_descriptor_t *tenon_library_vx(void);
TENON_EXPORT const tenon_descriptor_t *tenon_library(void);
static tenon_device_table_t correct, table;
static tenon_status_t answer(tenon_on_t on) { /* fails as TENON_TEST_STATUS says: a status alone, or with a reason */
  const char *text = getenv("TENON_TEST_STATUS");
  return *text == '-' ? tenon_fail(on, (tenon_status_t)atoi(text + 1), "a reason of its own") : (tenon_status_t)atoi(text);
}
#define SILENT(name, parameters) static tenon_status_t silent_##name parameters { return answer(on); }
SILENT(enumerate, (tenon_device_context_t *on, int32_t *count))
SILENT(start, (tenon_device_context_t *on))
SILENT(properties, (tenon_on_t on, tenon_device_properties_t *out))
static tenon_status_t silent_allocate(tenon_on_t on, uint64_t bytes, void **handle) { return bytes < 1 << 23 ? correct.allocate(on, bytes, handle) : answer(on); }
SILENT(copy, (tenon_on_t on, void *stream, const tenon_copy_t *copy))
static tenon_status_t silent_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault) { correct.stream_synchronize(on, stream, fault); return answer(on); }
#define CHOOSE(name) if (!strcmp(getenv("TENON_TEST_FUNCTION"), #name)) table.name = silent_##name
const tenon_descriptor_t *tenon_library(void) {
  static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, 0, 0}};
  static tenon_descriptor_t descriptor;
  descriptor = *tenon_library_vx();
  descriptor.items = items;
  table = correct = *(const tenon_device_table_t *)tenon_library_vx()->items[0].text;
  CHOOSE(enumerate); CHOOSE(start); CHOOSE(properties); CHOOSE(allocate); CHOOSE(copy); CHOOSE(stream_synchronize);
  return &descriptor;
}
"""
CALLS = """
import sys, numpy, tenon
tenon.load(sys.argv[1])
try:
    tenon.ops.core.matmul(numpy.ones((2, 3), "f4"), numpy.ones((2, 3), "f4"))
except tenon.Error as error:
    print("earlier:", error)
try:
    x = tenon.tensor(numpy.ones(4 << 20, "f4")).to("vx:0")
    print(x.to("cpu").numpy()[0])
except (tenon.Error, MemoryError) as error:
    print("failed:", error)
"""


class Devices(unittest.TestCase):
    """A function of a device, too, fails without a reason or with a status that does not exist."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        source, cls.library = os.path.join(cls.folder.name, "silent.c"), os.path.join(cls.folder.name, "silent.so")
        with open(source, "w", encoding="utf-8") as to:
            to.write(DEVICE)
        example = os.path.join(ROOT, "examples", "08_device")
        sources = [os.path.join(example, name) for name in sorted(os.listdir(example)) if name.endswith(".c")]
        run = subprocess.run(["cc", "-O1", "-w", "-fPIC", "-shared", "-DTENON_STATIC", "-I", os.path.join(ROOT, "include"), "-I", example, source, *sources,
                              "-o", cls.library, "-pthread"], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr

    def said(self, function, status):
        environment = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "TENON_TEST_FUNCTION": function, "TENON_TEST_STATUS": status}
        run = subprocess.run([sys.executable, "-c", CALLS, self.library], env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(run.returncode, 0, run.stderr)
        earlier, last = run.stdout.strip().split("\n")
        self.assertIn("earlier: core::matmul", earlier)
        return last

    def test_a_function_without_a_reason_is_named(self):
        for function in "enumerate", "start", "properties", "allocate", "copy", "stream_synchronize":
            with self.subTest(function):
                said = self.said(function, "8" if function == "allocate" else "13")
                self.assertRegex(said, f"device vx(:0)?: its {function} failed .* and gave no reason")
                self.assertNotIn("matmul", said)

    def test_a_status_that_does_not_exist_is_named(self):
        for function in "enumerate", "start", "properties", "allocate", "copy", "stream_synchronize":
            with self.subTest(function):
                self.assertRegex(self.said(function, "99"), f"device vx(:0)?: its {function} returned status 99, which does not exist")

    def test_a_reason_is_passed_on(self):
        for function in "start", "allocate", "copy", "stream_synchronize":
            with self.subTest(function):
                said = self.said(function, "-13")
                self.assertIn("a reason of its own", said)
                self.assertNotIn("gave no reason", said)

    def test_the_device_works_otherwise(self):
        self.assertEqual(self.said("none", "0"), "1.0")


if __name__ == "__main__":
    totals.main()
