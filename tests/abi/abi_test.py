"""Compatibility: layouts against the headers, symbols against libtenon, and libraries of each header in hosts of each version."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
WORK = os.path.join(BUILD, "abi")
sys.path.insert(0, os.path.join(ROOT, "abi"))
sys.path.insert(0, os.path.join(ROOT, "tests", "adapters"))

import layout  # noqa: E402
import totals  # noqa: E402
import update  # noqa: E402
from changes import BREAKS, GROWS  # noqa: E402

LATER = {"1.1": ["1.1.patch"], "1.2": ["1.1.patch", "1.2.patch"]}  # synthetic: until there are such
CFLAGS = ["-std=c11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
PLAIN = "plain 1.0.0 back 3 2 1 halve 0.5 1 1.5 large 2 3 scale 2.5 5 7.5 sum 6 twice 1 1.5 2 2.5 3 3.5"
WIDE = "wide 1.0.0 value 3 6 9, on box 10 20 30, after wide::same 3 6 9, after wide::cutter 3 6 9"


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def must(*command, **options):
    made = run(*command, **options)
    if made.returncode:
        raise AssertionError(f"{' '.join(command)}:\n{made.stdout[-3000:]}{made.stderr[-3000:]}")
    return made.stdout


def patched(folder, patches, only_include=False):
    for patch in patches:
        limit = ["--include=include/*"] if only_include else []
        made = run("git", "apply", "--whitespace=nowarn", *limit, os.path.join(HERE, patch), cwd=folder, env={**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder)})
        if made.returncode:
            raise AssertionError(f"tests/abi/{patch} does not apply any more; write it anew against the sources as they are:\n{made.stderr}")


def include_of(version):
    """The folder of a version's headers: a snapshot, or one that is made of the last snapshot and patches."""
    if version not in LATER:
        return os.path.join(ROOT, "abi", version, "include")
    folder = os.path.join(WORK, "headers-" + version)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "abi", update.snapshots()[-1], "include"), os.path.join(folder, "include"))
    patched(folder, LATER[version], only_include=True)
    return os.path.join(folder, "include")


def put(tree, into):
    """Makes `into` the same as `tree`; files that are, keep their times, so that little is compiled again."""
    wanted = {os.path.relpath(os.path.join(folder, name), tree) for folder, _, names in os.walk(tree) for name in names}
    for folder, _, names in os.walk(into):
        for name in names:
            if os.path.relpath(os.path.join(folder, name), into) not in wanted:
                os.remove(os.path.join(folder, name))
    for name in wanted:
        source, target = os.path.join(tree, name), os.path.join(into, name)
        with open(source, "rb") as file:
            data = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == data:
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)


def host(name, fill):
    """The program tests/abi/host.c with libtenon of a tree, which fill(folder) makes."""
    tree, made = os.path.join(WORK, name, "tree"), os.path.join(WORK, name, "build")
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        put(folder, tree)
    generator = [] if os.path.exists(os.path.join(made, "CMakeCache.txt")) or not shutil.which("ninja") else ["-G", "Ninja"]
    must("cmake", *generator, "-S", HERE, "-B", made, f"-DTREE={tree}")
    must("cmake", "--build", made, "--parallel", "2")
    return os.path.join(made, "host")


def later(version):
    def fill(folder):
        for part in ("include", "src"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
        patched(folder, LATER[version])
    return host("host-" + version, fill)


def tagged(tag):
    def fill(folder):
        archive = subprocess.run(["git", "-C", ROOT, "archive", tag, "include", "src"], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return host("host-" + tag.replace("/", "_"), fill)


def this_host(include=os.path.join(ROOT, "include"), name="host"):
    """The same program with the libtenon that was built, compiled with some version's headers."""
    os.makedirs(WORK, exist_ok=True)
    made = os.path.join(WORK, name)
    must("cc", "-std=c11", "-I", include, os.path.join(HERE, "host.c"), "-o", made, "-L", BUILD, "-ltenon", f"-Wl,-rpath,{BUILD}")
    return made


def library(name, version, *flags, source=None):
    folder = os.path.join(WORK, "libraries-" + version)
    os.makedirs(folder, exist_ok=True)
    made = os.path.join(folder, name + ".so")
    must("cc", *CFLAGS, *flags, "-I", include_of(version), os.path.join(ROOT, "tests/libraries/abi", (source or name) + ".c"), "-o", made)
    return made


def answers(program, *libraries):
    lines = must(program, *libraries).splitlines()
    return lines[0].split()[1], {os.path.basename(path): line.split(": ", 1)[1] for path, line in zip(libraries, lines[1:], strict=True)}


# ---- layouts ----------------------------------------------------------------------------------------------------------


def edited(header, *changes):
    """A folder with the headers, one of them changed; of tenon.h also one of its parts, tenon/api/*.h."""
    folder = tempfile.mkdtemp()
    shutil.copytree(os.path.join(ROOT, "include/tenon"), os.path.join(folder, "tenon"))
    parts = sorted(glob.glob(os.path.join(folder, "tenon/api/*.h"))) if header == "tenon" else []
    for old, new in changes:
        path = next((path for path in [os.path.join(folder, "tenon", header + ".h"), *parts] if old in text_of(path)), None)
        if not path:
            raise AssertionError(f"{header}.h has no {old!r} any more: write another change for this test")
        text = text_of(path).replace(old, new, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return folder


class Layouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.now = layout.read(os.path.join(ROOT, "include"))

    def test_the_headers_are_as_the_layouts_say(self):
        for header, one in self.now.items():
            with self.subTest(header=header):
                self.assertEqual(layout.text(header, one), text_of(os.path.join(ROOT, "abi", header + ".layout")), "`make abi-update` writes it anew, if nothing breaks")
        self.assertEqual(list(update.breaks(self.now)), [])
        self.assertEqual(list(update.unnumbered(self.now)), [])

    def test_the_text_of_a_layout_says_all_of_it(self):
        for header, one in self.now.items():
            self.assertEqual(layout.parse(layout.text(header, one)), one, header)

    def test_every_change_that_breaks_is_found_by_its_name(self):
        for what, header, changes, names in BREAKS:
            with self.subTest(what):
                folder = edited(header, *changes)
                self.addCleanup(shutil.rmtree, folder)
                found = "\n".join(layout.differences(header, self.now[header], layout.read(folder)[header]))
                for name in names:
                    self.assertIn(name, found)

    def test_what_is_added_at_the_end_passes(self):
        for header, changes, names in GROWS:
            with self.subTest(names[0]):
                folder = edited(header, *changes)
                self.addCleanup(shutil.rmtree, folder)
                now = layout.read(folder)
                self.assertEqual(list(layout.differences(header, self.now[header], now[header])), [])
                self.assertEqual(sorted(layout.growth(self.now[header], now[header])), sorted(names))
                offences = list(update.unnumbered(now))  # the version is still the snapshot's
                self.assertEqual([name for name in names if header != "tenon" and not any(name in offence and "raise it" in offence for offence in offences)], [])

    def test_padding_is_no_place_for_a_field(self):
        old, new = tempfile.mkdtemp(), tempfile.mkdtemp()
        for folder, last in ((old, ""), (new, "uint32_t late;")):
            self.addCleanup(shutil.rmtree, folder)
            os.mkdir(os.path.join(folder, "tenon"))
            with open(os.path.join(folder, "tenon/op.h"), "w", encoding="utf-8") as file:
                file.write(f"#include <stdint.h>\ntypedef struct tenon_x_t {{ uint32_t size; void *p; uint32_t n; {last} }} tenon_x_t;\n")
        found = list(layout.differences("op", layout.read(old)["op"], layout.read(new)["op"]))
        self.assertEqual(len(found), 1)
        self.assertIn("tenon_x_t.late: added at 20, where 4 bytes of padding were", found[0])

    def test_the_assertions_hold_in_each_compiler_and_find_what_breaks(self):
        golden = {header: update.golden(header) for header in layout.HEADERS}
        source = os.path.join(ROOT, "abi/layout.c")
        with open(source, encoding="utf-8") as file:
            self.assertEqual(file.read(), layout.asserts(golden))
        for compiler in ("gcc", "clang"):
            if shutil.which(compiler):
                must(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), source)
        for what, header, changes, names in BREAKS:
            if "removed" in names[0] or "version" in what:
                continue  # that does not compile, or may be
            with self.subTest(what):
                folder = edited(header, *changes)
                self.addCleanup(shutil.rmtree, folder)
                with open(os.path.join(folder, "tenon/op.h"), encoding="utf-8") as file:
                    text = file.read()
                with open(os.path.join(folder, "tenon/op.h"), "w", encoding="utf-8") as file:
                    file.write(text.replace("? 1 : -1]", "? 1 : 1]"))
                made = run("cc", "-std=c11", "-fsyntax-only", "-I", folder, source)
                subject = re.search(r"TENON_\w+|tenon_\w+[\w.]*", names[-1]).group()
                self.assertNotEqual(made.returncode, 0)
                if ".middle" not in subject and ".more" not in subject:
                    self.assertIn(f'"{subject}"', made.stderr)

    def test_other_machines_of_64_bits_have_the_same_layout(self):
        if not shutil.which("clang"):
            self.skipTest("clang is not installed (apt-get install clang)")
        headers = {header: update.golden(header) for header in layout.HEADERS if header not in ("source", "tenon", "torch", "tvm_ffi")}  # source.h wants a C library
        flags = ["-std=c11", "-ffreestanding", "-nostdlibinc", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-x", "c", "-"]
        for machine in ("aarch64-linux-gnu", "riscv64-linux-gnu", "x86_64-pc-windows-gnu"):
            must("clang", f"--target={machine}", *flags, input=layout.asserts(headers))

    def test_update_writes_what_was_added_and_refuses_what_breaks(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for part in ("abi", "include"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
        tool, header = os.path.join(folder, "abi/update.py"), os.path.join(folder, "include/tenon/op.h")
        golden = os.path.join(folder, "abi/op.layout")
        text, before = text_of(header), text_of(golden)
        with open(header, "w", encoding="utf-8") as file:
            file.write(text.replace("  void *plan;\n  void *stream; ", "  void *stream;\n  void *plan; "))
        made = run(sys.executable, tool, "update", BUILD, "--layouts")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("nothing was written", made.stderr)
        self.assertIn("tenon_call_t.stream: offset was 72, is 64", made.stderr)
        self.assertEqual(text_of(golden), before)
        with open(header, "w", encoding="utf-8") as file:
            file.write(text.replace("(*release)(tenon_call_t *call, tenon_tensor_t *tensor);\n};", "(*release)(tenon_call_t *call, tenon_tensor_t *tensor);\n  void (*more)(void);\n};"))
        must(sys.executable, tool, "update", BUILD, "--layouts")
        self.assertIn("more                     void (*)(void)", text_of(golden))
        with open(header, "w", encoding="utf-8") as file:  # what was added is promised from then on
            file.write(text)
        self.assertIn("tenon_host_t.more: removed", run(sys.executable, tool, "update", BUILD, "--layouts").stderr)


    def test_a_snapshot_is_cut_once_a_release(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for part in ("abi", "include"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
        tool, header = os.path.join(folder, "abi/update.py"), os.path.join(folder, "include/tenon/op.h")
        with open(header, encoding="utf-8") as file:
            text = file.read()

        def cut(version, changed):
            with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write(f"project(tenon VERSION {version} LANGUAGES C)\n")
            with open(header, "w", encoding="utf-8") as file:
                file.write(changed)
            return run(sys.executable, tool, "snapshot")
        longer = text.replace("(*release)(tenon_call_t *call, tenon_tensor_t *tensor);\n};", "(*release)(tenon_call_t *call, tenon_tensor_t *tensor);\n  void (*more)(void);\n};")
        must("git", "init", "-q", folder)
        self.assertEqual(cut("1.0.0", longer).returncode, 0)  # not released: cut again
        self.assertIn("(*more)", text_of(os.path.join(folder, "abi/1.0/include/tenon/op.h")))
        must("git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "release")
        must("git", "-C", folder, "tag", "v1.0.0")
        self.assertIn("1.0 is released (v1.0.0)", cut("1.0.1", text).stderr)
        self.assertIn("no snapshot was cut: this would break what was built with 1.0\nop.h: tenon_host_t.more: removed", cut("1.1.0", text).stderr)
        self.assertEqual(cut("1.1.0", longer).returncode, 0)
        self.assertTrue(os.path.exists(os.path.join(folder, "abi/1.1/include/tenon/op.h")))


class Symbols(unittest.TestCase):
    def test_libtenon_exports_what_is_listed_and_declared(self):
        names = update.exports(os.path.join(BUILD, "libtenon.so"))
        self.assertEqual(names, update.listed(), "`make abi-update` lists what was added")
        declared = update.golden("tenon")["functions"]
        self.assertEqual(sorted(declared), names)

    def test_types_of_libtenon_are_as_they_were(self):
        if not shutil.which("abidiff"):
            self.skipTest("abidiff is missing (apt-get install abigail-tools)")
        library = update.debug_library(os.path.join(WORK, "debug"))
        status, said = update.difference(update.DUMP, update.dump(library, os.path.join(WORK, "libtenon.abi")))
        self.assertEqual(status, 0, f"`make abi-update` writes it anew, if nothing breaks:\n{said}")

    def test_another_type_of_a_function_is_found_by_abidiff(self):
        if not shutil.which("abidiff"):
            self.skipTest("abidiff is missing (apt-get install abigail-tools)")
        folder = edited("tenon", ("tenon_status_t tenon_library_load(const char *path, uint32_t flags,", "tenon_status_t tenon_library_load(const char *path, uint64_t flags,"))
        self.addCleanup(shutil.rmtree, folder)
        made = os.path.join(folder, "one.so")
        text = "#include <tenon/tenon.h>\ntenon_status_t tenon_library_load(const char *p, uint64_t f, tenon_library_t **l) { return p && f && l; }\n"
        must("cc", "-g", "-shared", "-fPIC", "-I", folder, "-x", "c", "-", "-o", made, input=text)
        status, said = update.difference(update.DUMP, update.dump(made, made + ".abi"))
        self.assertEqual(status & 8, 8)  # all others are removed, too
        self.assertIn("parameter 2 of type 'typedef uint32_t' changed", said)

    def test_no_size_is_compared_with_that_of_this_version(self):
        """`p->size < sizeof *p` refuses whoever was built before *p grew: TENON_HAS asks for the last field of 1.0."""
        for folder, _, names in os.walk(os.path.join(ROOT, "src")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found = re.findall(r"if \([^;\n]*->size < sizeof.*|return [^;\n?]*->size < sizeof[^;\n?]*;", file.read())
                self.assertEqual([line for line in found if "?" not in line and "segment_size" not in line and "section_size" not in line], [], name)


# ---- libraries and hosts ----------------------------------------------------------------------------------------------


class Hosts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.versions = [*update.snapshots(), *LATER]
        cls.older = {version: [library("plain", version), library("wide", version)] for version in cls.versions}
        cls.newer = [library("asks", "1.1"), library("needs", "1.1"), library("feature", "1.2"), library("note", "1.2"), library("must", "1.2", "-DMUST=TENON_MUST", source="note")]

    def check_older(self, program):
        """Libraries that need nothing newer than 1.0, whatever they were built with."""
        for version, paths in self.older.items():
            with self.subTest(header=version):
                self.assertEqual(answers(program, *paths)[1], {"plain.so": PLAIN, "wide.so": WIDE})

    def check_refusal(self, line, *words):
        """One message, which names the file, says why, and what to do."""
        self.assertIn("cannot load ", line)
        for word in words:
            self.assertIn(word, line)

    def check_newer_in_old(self, program):
        version, found = answers(program, *self.newer)
        self.assertEqual(found["asks.so"], f"asks 1.0.0 value -1 -1 {version.split('.')[1]}")
        self.check_refusal(found["needs.so"], f"needs a libtenon of contract 1.1, this one has {version}: update it")
        self.check_refusal(found["feature.so"], "requires features 0x1, none of which this host has: update libtenon")
        self.assertEqual(found["note.so"], "note 1.0.0 value 1 2 3")
        self.check_refusal(found["must.so"], f"item 40 is newer than this host (contract {version}) and marked as needed: update libtenon")

    def test_libraries_of_every_header_run_in_this_host(self):
        self.check_older(this_host())

    def test_newer_libraries_in_this_host_do_without_or_are_refused(self):
        self.check_newer_in_old(this_host())

    def test_older_libraries_run_in_later_hosts_and_newer_ones_have_what_is_new(self):
        for version in LATER:
            with self.subTest(host=version):
                program = later(version)
                self.check_older(program)
                known, found = answers(program, *self.newer)
                self.assertEqual(known, version)
                self.assertEqual(found["asks.so"], f"asks 1.0.0 value 42 7 {version.split('.')[1]}")
                self.assertEqual(found["needs.so"], "needs 1.0.0 value 42 42 42")
                self.assertEqual(found["note.so"], "note 1.0.0 value 1 2 3")
                if version == "1.2":
                    self.assertEqual(found["feature.so"], "feature 1.0.0 value 1 2 3")
                    self.assertEqual(found["must.so"], "must 1.0.0 value 1 2 3")
                else:
                    self.check_refusal(found["feature.so"], "requires features 0x1")
                    self.check_refusal(found["must.so"], "item 40 is newer than this host (contract 1.1)")

    def test_programs_built_with_every_header_run_with_this_libtenon(self):
        for version in update.snapshots():
            with self.subTest(header=version):
                self.check_older(this_host(include_of(version), "program-" + version))

    def test_every_library_runs_in_hosts_of_each_release(self):
        tags = os.environ.get("ABI_HOSTS", "").split() or run("git", "-C", ROOT, "tag", "--list", "v[0-9]*").stdout.split()
        if not tags:
            shallow = run("git", "-C", ROOT, "rev-parse", "--is-shallow-repository").stdout.strip()
            self.skipTest({"true": "old hosts: the clone is shallow, and has no tags (git fetch --unshallow --tags)", "false": "old hosts: no version is tagged yet"}.get(shallow, "old hosts: there is no git repository"))
        for tag in tags:
            with self.subTest(host=tag):
                program = tagged(tag)
                self.check_older(program)
                self.check_newer_in_old(program)


if __name__ == "__main__":
    totals.main()
