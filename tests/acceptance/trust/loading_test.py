"""What a library, a failure dump or a model can make a process open: libraries that a file names in other ways than DT_NEEDED, initialisers that
only have the compiler's names, libraries of dumps, weights behind links; and what a model declares of its outputs."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/adapters"))
import totals  # noqa: E402

BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
SOURCE = """#include <tenon/op.h>
#include <fcntl.h>
#include <stdlib.h>
%s
static tenon_status_t twice(const tenon_loop_t *l) {
  const float *from = (const float *)l->data[0];
  float *to = (float *)l->data[1];
  for (int64_t i = 0; i < l->count; i++) to[i] = 2 * from[i];
  return TENON_OK;
}
TENON_LIBRARY(%s, "1", TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", twice)))
"""
TOUCH = 'static void touch(void) { int file = open("%s", O_CREAT | O_WRONLY, 0600); (void)file; }\n'


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name).resolve()
        self.mark = self.folder / "ran"

    def cc(self, name, text, *flags):
        source = self.folder / (name + ".c")
        source.write_text(text)
        path = self.folder / (name + ".so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'include'}", source, "-o", path, *map(str, flags)], check=True)
        path.chmod(0o755)
        return path

    def python(self, text):
        head = f"import sys; sys.path.insert(0, {str(BUILD / 'python')!r}); import tenon, numpy as np\n"
        return subprocess.run([sys.executable, "-c", head + text], cwd=self.folder, capture_output=True, text=True)

    def tenon(self, *words):
        return subprocess.run([BUILD / "tenon", *map(str, words)], cwd=self.folder, capture_output=True, text=True)

    def strict(self, path):
        done = self.python(f"try: tenon.load({str(path)!r}, strict=True); print('loaded')\nexcept tenon.Error as error: print(error)")
        return done.stdout + done.stderr


class OtherLibraries(Case):
    def open_folder(self):
        """A library with a constructor, in a folder that everybody may write to."""
        place = self.folder / "open"
        place.mkdir()
        made = self.cc("extra", "#include <fcntl.h>\n" + TOUCH % self.mark + "__attribute__((constructor)) static void start(void) { touch(); }")
        shutil.move(made, place / "libextra.so")
        place.chmod(0o777)
        return place

    def test_filters_and_auxiliary_libraries_must_be_private_too(self):
        place = self.open_folder()
        for option in ("--filter", "--auxiliary"):
            for path, flags in ((place / "libextra.so", ()), ("libextra.so", (f"-Wl,-rpath,{place}",)), ("$ORIGIN/open/libextra.so", ())):
                with self.subTest(option=option, path=path):
                    made = self.cc("named" + str(len(list(self.folder.iterdir()))), SOURCE % ("", "named"), f"-Wl,{option},{path}", *flags)
                    said = self.strict(made)
                    self.assertIn("rule private", said)
                    self.assertIn("libextra.so", said)
                    self.assertFalse(self.mark.exists())
                    self.assertIn("libextra.so", self.tenon("doctor", made).stdout)

    def test_a_needed_library_named_by_origin_is_checked(self):
        place = self.open_folder()
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", self.folder / "stub.so", "-Wl,-soname,$ORIGIN/open/libextra.so"], check=True)
        made = self.cc("origin", SOURCE % ("", "origin"), "-Wl,--no-as-needed", self.folder / "stub.so")
        self.assertTrue((place / "libextra.so").exists())
        self.assertIn("rule private", self.strict(made))
        self.assertFalse(self.mark.exists())

    def test_audits_are_refused_and_shown(self):
        for option, name in (("--audit", "libaudit.so"), ("--depaudit", "libaudit.so")):
            made = self.cc("audited", SOURCE % ("", "audited"), f"-Wl,{option}={name}")
            self.assertIn("DT_AUDIT", self.strict(made))
            self.assertIn(name, self.tenon("doctor", made).stdout)

    def test_run_paths_that_depend_on_the_current_folder_or_the_system_are_refused(self):
        self.open_folder()
        for part in ("", "lib", "$LIB", "/opt/$LIB", "$ORIGIN/$PLATFORM", "/usr/lib:"):
            with self.subTest(part=part):
                made = self.cc("path", SOURCE % ("", "path"), f"-Wl,-rpath,/usr:{part}")
                self.assertIn("rule private", self.strict(made))

    def test_a_semicolon_is_part_of_a_folder_of_a_run_path(self):
        """The system's loader searches '/a;b', so a private library in '/a' says nothing."""
        place = self.open_folder()
        good = self.folder / "good"
        good.mkdir(mode=0o755)
        shutil.copy(place / "libextra.so", good / "libextra.so")
        (self.folder / "good;x").mkdir()
        shutil.copy(place / "libextra.so", self.folder / "good;x" / "libextra.so")
        (self.folder / "good;x").chmod(0o777)
        made = self.cc("semicolon", SOURCE % ("", "semicolon"), "-Wl,--no-as-needed", place / "libextra.so", f"-Wl,-rpath,{self.folder}/good;x")
        # The library has no own name, so the linker stored its path: store the plain name instead.
        data = made.read_bytes().replace(str(place / "libextra.so").encode() + b"\0", b"libextra.so".ljust(len(str(place / "libextra.so")), b"\0") + b"\0")
        made.write_bytes(data)
        self.assertIn("good;x", self.strict(made))
        self.assertFalse(self.mark.exists())


class Inert(Case):
    def test_a_constructor_with_the_name_of_the_compilers_is_refused(self):
        for name in ("frame_dummy", "__do_init", "__cpu_indicator_init"):
            with self.subTest(name=name):
                made = self.cc("named", SOURCE % (TOUCH % self.mark + f"__attribute__((constructor)) static void {name}(void) {{ touch(); }}", "named"), "-nostartfiles" if name == "frame_dummy" else "-g")
                self.assertIn("rule inert", self.strict(made))
                self.assertFalse(self.mark.exists())

    def test_a_single_nameless_constructor_of_a_stripped_file_is_refused(self):
        parts = [subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip() for name in ("crti.o", "crtn.o")]
        text = SOURCE % (TOUCH % self.mark + "__attribute__((constructor)) static void start(void) { touch(); }", "stripped")
        made = self.cc("stripped", text, "-nostartfiles", "-s", *parts)
        self.assertIn("rule inert", self.strict(made))
        self.assertFalse(self.mark.exists())

    def test_a_jump_in_the_section_init_is_refused(self):
        code = TOUCH % self.mark + '__attribute__((used)) static void start(void) { touch(); }\n__asm__(".section .init\\n.globl _init\\n_init: jmp start\\n.text");'
        made = self.cc("jump", SOURCE % (code, "jump"), "-nostartfiles")
        self.assertIn("rule inert", self.strict(made))
        self.assertFalse(self.mark.exists())

    def test_honest_files_are_accepted_also_stripped(self):
        for flags in ((), ("-s",), ("-g",)):
            self.assertIn("loaded", self.strict(self.cc("honest", SOURCE % ("", "honest"), *flags)), flags)


class Dumps(Case):
    def setUp(self):
        super().setUp()
        self.library = self.cc("dumped", SOURCE % (TOUCH % self.mark + "__attribute__((constructor)) static void start(void) { touch(); }", "dumped"))
        self.mark.unlink(missing_ok=True)
        self.dump = self.folder / "dump"
        self.dump.mkdir()
        np.save(self.dump / "x.npy", np.ones(2, "f4"))
        np.save(self.dump / "y.npy", np.full(2, 2, "f4"))

    def write(self, path, digest=None):
        call = {"operator": "dumped::twice", "inputs": [{"file": "x.npy"}], "outputs": [{"file": "y.npy"}], "library_path": str(path)}
        if digest:
            call["library_hash"] = digest
        (self.dump / "call.json").write_text(json.dumps(call))

    def digest(self):
        return hashlib.sha256(self.library.read_bytes()).hexdigest()

    def check_refused(self, words):
        for said in (self.tenon("replay", self.dump), self.tenon("replay", self.folder / "dump", "--gdb"),
                     self.python(f"print(tenon.replay({str(self.dump)!r})())")):
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(words, said.stdout + said.stderr)
            self.assertFalse(self.mark.exists(), "the library of the dump ran")

    def test_the_library_that_the_dump_was_made_with_is_loaded(self):
        self.write(self.library, self.digest())
        self.assertIn("the same results", self.tenon("replay", self.dump).stdout)
        self.assertIn("2.", self.python(f"print(np.asarray(tenon.replay({str(self.dump)!r})()[0]))").stdout)

    def test_another_build_is_refused_unless_it_is_named(self):
        self.write(self.library, "0" * 64)
        self.check_refused("another build")
        self.assertIn("the same results", self.tenon("replay", self.dump, "--ops", self.library).stdout)

    def test_a_dump_without_a_hash_is_refused(self):
        self.write(self.library)
        self.check_refused("library_hash")

    def test_a_relative_path_is_refused(self):
        for path in ("./dumped.so", "dumped.so"):
            with self.subTest(path=path):
                self.write(path, self.digest())
                self.check_refused("relative")

    def test_a_library_in_the_dump_is_refused_also_through_links(self):
        inside = self.dump / "x.so"
        shutil.copy(self.library, inside)
        (self.folder / "link.so").symlink_to(inside)
        (self.folder / "way").symlink_to(self.dump)
        for path in (inside, self.folder / "link.so", self.folder / "way/x.so"):
            self.write(path, self.digest())
            self.check_refused("in the dump itself")


class Restarts(Case):
    """The process of an isolated library that crashed is started again with the same file."""
    SOURCE = """#include <stdlib.h>
#include <tenon/op.h>
static tenon_status_t value(tenon_call_t *call) { *(float *)call->outputs[0]->data = VALUE; return TENON_OK; }
static tenon_status_t die(tenon_call_t *call) { (void)call; abort(); }
#define ONE(schema, run) TENON_OP(schema, TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", run))
TENON_LIBRARY(restarts, "1", ONE("value(Tensor x) -> Tensor", value), ONE("die(Tensor x) -> Tensor", die))
"""
    PROGRAM = """
import ctypes, random, threading, time
library, x = tenon.load("one/library.so", isolated=True), np.ones(1, "f4")
def exchange():  # the folders, so that both files and their times stay as they are
    assert ctypes.CDLL(None).renameat2(-100, b"one", -100, b"two", 2) == 0
def exchange_soon(delay):
    time.sleep(delay)
    exchange()
found = {float(library.value(x)[0])}
for number in range(200):
    try: library.die(x)
    except tenon.Error: pass
    thread = threading.Thread(target=exchange_soon, args=(random.random() * 0.002,))
    thread.start()
    try: found.add(float(library.value(x)[0]))
    except tenon.Error: pass
    thread.join()
    exchange()
print(found)
"""

    def test_a_file_that_takes_the_place_of_the_library_during_the_start_is_refused(self):
        for name, value in (("one", 1), ("two", 2)):
            (self.folder / name).mkdir()
            shutil.move(self.cc(name, self.SOURCE, f"-DVALUE={value}"), self.folder / name / "library.so")
        said = self.python(self.PROGRAM)
        self.assertEqual((said.returncode, said.stdout), (0, "{1.0}\n"), said.stderr)


def save_model(folder, location, name="model.onnx"):
    weights = numpy_helper.from_array(np.arange(2, dtype="f4"), "w")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weights])
    path = folder / name
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


class Weights(Case):
    def setUp(self):
        super().setUp()
        self.data = np.array([5, 6], "f4").tobytes()
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.folder / "secret.bin").write_bytes(self.data)

    def load(self, path, **environment):
        program = f"import sys; sys.path.insert(0, {str(BUILD / 'python')!r}); import tenon, numpy as np\nprint(np.asarray(tenon.graph.load({str(path)!r}).compile()(x=np.zeros(2, 'f4'))))"
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, capture_output=True, text=True, env={**os.environ, **environment})
        return done.stdout + done.stderr

    def test_a_link_that_leaves_the_folder_is_refused(self):
        (self.model / "link.bin").symlink_to("../secret.bin")
        (self.model / "absolute.bin").symlink_to(self.folder / "secret.bin")
        (self.model / "way").symlink_to("..")
        (self.model / "twice.bin").symlink_to("link.bin")
        for location in ("link.bin", "absolute.bin", "way/secret.bin", "twice.bin"):
            with self.subTest(location=location):
                said = self.load(save_model(self.model, location))
                self.assertIn("TENON_EXTERNAL_LINKS", said)
                self.assertNotIn("[5. 6.]", said)
                self.assertIn("[5. 6.]", self.load(save_model(self.model, location), TENON_EXTERNAL_LINKS="any"))

    def test_a_link_inside_of_the_folder_is_followed(self):
        (self.model / "sub").mkdir()
        (self.model / "sub/w.bin").write_bytes(self.data)
        (self.model / "link.bin").symlink_to("sub/w.bin")
        (self.folder / "elsewhere").symlink_to(self.model)
        self.assertIn("[5. 6.]", self.load(save_model(self.model, "link.bin")))
        self.assertIn("[5. 6.]", self.load(self.folder / "elsewhere/model.onnx"))

    def test_a_cache_of_hugging_face_is_read(self):
        cache = self.folder / "models--a--b"
        for folder in ("snapshots/rev", "snapshots/rev/onnx"):
            place = cache / folder
            place.mkdir(parents=True, exist_ok=True)
            (cache / "blobs").mkdir(exist_ok=True)
            up = "../" * (len(Path(folder).parts))
            shutil.move(save_model(cache, "model.onnx_data"), cache / "blobs/abc")
            (cache / "blobs/def").write_bytes(self.data)
            (place / "model.onnx").symlink_to(up + "blobs/abc")
            (place / "model.onnx_data").symlink_to(up + "blobs/def")
            self.assertIn("[5. 6.]", self.load(place / "model.onnx"))

    def test_a_cache_whose_blobs_lead_elsewhere_is_refused(self):
        place = self.folder / "cache/snapshots/rev"
        place.mkdir(parents=True)
        (self.folder / "cache/blobs").symlink_to("..")
        (place / "w.bin").symlink_to("../../blobs/secret.bin")
        self.assertIn("TENON_EXTERNAL_LINKS", self.load(save_model(place, "w.bin")))


class Declarations(Case):
    def model(self, kind, shape, extent=2):
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [extent])],
                                  [helper.make_tensor_value_info("y", kind, shape)])
        path = self.folder / "declared.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        return path

    def run_model(self, *arguments, **more):
        done = self.python(f"print(np.asarray(tenon.graph.load({str(self.model(*arguments, **more))!r}).compile()(x=np.ones(2, 'f4'))))")
        return done.returncode, done.stdout + done.stderr

    def test_an_output_of_another_type_is_refused(self):
        code, said = self.run_model(TensorProto.INT64, [2])
        self.assertNotEqual(code, 0)
        self.assertIn("output 'y' is declared as i64, but its node gives f32", said)

    def test_an_output_of_another_shape_is_a_warning(self):
        for shape in ([5], [2, 1], []):
            code, said = self.run_model(TensorProto.FLOAT, shape)
            self.assertEqual(code, 0, said)
            self.assertIn(f"output 'y' is declared with the shape {shape}, but its node gives [2]", said)

    def test_what_agrees_is_not_mentioned(self):
        for shape in ([2], ["n"], None):
            code, said = self.run_model(TensorProto.FLOAT, shape)
            self.assertEqual((code, "declared" in said), (0, False), said)

    def test_a_negative_extent_of_an_input_is_refused(self):
        code, said = self.run_model(TensorProto.FLOAT, [2], extent=-3)
        self.assertNotEqual(code, 0)
        self.assertIn("input 'x' has the extent -3", said)


if __name__ == "__main__":
    totals.main()
