#!/usr/bin/env python3
"""Faults that keep libraries from being loaded: sanitizers, and the problems that `tenon doctor` reports about files that compilers made. And the
number of threads that it reports."""
import math
import os
import pathlib
import re
import shutil
import sys
import unittest

from debug_kit import *


def setUpModule():
    build_toy()


class Sanitizers(unittest.TestCase):
    BAD = r"""
#include <tenon/op.h>
#include <stdlib.h>
static tenon_status_t past(tenon_call_t *call) {
  char *room = malloc(10);
  room[call->size - call->size + 10] = 1;
  *(float *)call->outputs[0]->data = room[3];
  free(room);
  return TENON_OK;
}
static tenon_status_t fine(tenon_call_t *call) { return *(float *)call->outputs[0]->data = 1, TENON_OK; }
TENON_LIBRARY(toy, "1.0.0",
  TENON_OP("past(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", past)),
  TENON_OP("fine(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fine)))
"""

    def check(self, compiler):
        if not shutil.which(compiler):
            self.skipTest(f"{compiler} is not installed")
        path = library(f"sanitized_{compiler}", self.BAD, "-fsanitize=address", compiler=compiler)
        for command in (("ops", path), ("doctor", path)):
            out, err = tenon(*command, code=1)
            found = re.search(r"built with -fsanitize=address.*LD_PRELOAD=(\S+) in its environment", out + err)
            self.assertTrue(found, out + err)
        self.assertIn("toy::past", tenon("ops", path, env={"LD_PRELOAD": found[1], "ASAN_OPTIONS": "detect_leaks=0"})[0])
        one = lambda kind: model(f"sanitized_{kind}", node(kind, "x", "y", "node", "toy"))
        quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
        tenon("run", one("fine"), "--ops", path, "--input", "ones", "--sanitizer", env=quiet)
        _, err = tenon("run", one("past"), "--ops", path, "--input", "ones", "--sanitizer", env=quiet, code=None)
        self.assertIn("AddressSanitizer: heap-buffer-overflow", err)
        self.assertRegex(err, rf"in past .*sanitized_{compiler}\.c:6")

    def test_a_library_sanitized_by_gcc_says_what_to_preload_and_then_works(self):
        self.check("gcc")

    def test_a_library_sanitized_by_clang_says_what_to_preload_and_then_works(self):
        self.check("clang")


class Doctor(unittest.TestCase):
    OP = '#include <tenon/op.h>\n%s\nstatic tenon_status_t f(tenon_call_t *call) { %s; return TENON_OK; }\nTENON_LIBRARY(toy, "1.0.0", ' \
         'TENON_OP("f(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", f)))\n'

    def doctor(self, path, loads=False):
        out, _ = tenon("doctor", path, code=0 if loads else 1)
        if not loads:
            _, err = tenon("ops", path, code=1)  # the library does not load
            self.assertIn("cannot load", err)
        return out

    def stub(self, name, versions, source):
        """A library of that name with symbols of these versions, to link with. It is removed before the other library is loaded."""
        (HERE / "stub.c").write_text(source)
        (HERE / "stub.map").write_text(versions)
        run("gcc", "-shared", "-fPIC", "-nostdlib", "stub.c", f"-Wl,-soname,{name}", "-Wl,--version-script=stub.map", "-o", name)
        return HERE / name

    def test_a_dependency_that_is_not_found_is_reported(self):
        self.stub("libvanished2.so.3", "{ global: *; };", "int vanished(void) { return 1; }")
        path = library("needs", self.OP % ("int vanished(void);", "(void)vanished()"), HERE / "libvanished2.so.3", "-Wl,-rpath,/nowhere/lib")
        (HERE / "libvanished2.so.3").unlink()
        out = self.doctor(path)
        self.assertIn("it needs libvanished2.so.3, which was not found", out)
        self.assertIn("searched: its own run path /nowhere/lib, the system's folders", out)
        self.assertIn("on Debian the package may be libvanished2-3", out)
        self.assertNotIn("which neither it", out)  # the missing dependency would define the symbol

    def test_undefined_symbols_are_named_in_readable_form(self):
        path = library("undefined", self.OP % ("namespace linear { float solve(const float *x, int n); }\nextern \"C\" void cudaFree(void *);\n"
                                               "extern \"C\" void other(void);", "linear::solve(nullptr, 1); cudaFree(nullptr); other()"), compiler="g++")
        out = self.doctor(path)
        self.assertIn("it uses linear::solve(float const*, int) (_ZN6linear5solveEPKfi)", out)
        self.assertIn("other, which neither it nor the libraries that it needs define; link the library that defines it", out)
        self.assertIn("it uses cudaFree, which neither it nor the libraries that it needs define; CUDA's runtime", out)

    def test_a_need_for_a_newer_glibc_is_reported(self):
        stub = self.stub("libc.so.6", "GLIBC_2.99 { global: *; };", "int of_tomorrow(void) { return 1; }")
        path = library("tomorrow", self.OP % ("int of_tomorrow(void);", "(void)of_tomorrow()"), "-nostdlib", stub)
        stub.unlink()
        out = self.doctor(path)
        self.assertRegex(out, r"it was built with glibc 2.99 or newer \(libc.so.6 asks for GLIBC_2.99\), this system has 2\.\d+: build it here")

    def test_a_need_for_a_newer_cplusplus_library_is_reported(self):
        stub = self.stub("libstdc++.so.6", "GLIBCXX_3.4.99 { global: *; };", "int of_tomorrow(void) { return 1; }")
        path = library("modern", self.OP % ("int of_tomorrow(void);", "(void)of_tomorrow()"), stub)
        stub.unlink()
        self.assertRegex(self.doctor(path), r"it was built with the C\+\+ library of a newer gcc \(it asks for GLIBCXX_3.4.99\), \S+ is older")

    def test_cplusplus_linked_by_gcc_instead_of_gplusplus_is_reported(self):
        (HERE / "linker.cc").write_text('#include <stdexcept>\n' + self.OP % ("", 'throw std::runtime_error("no")'))
        run("g++", "-c", "-fPIC", f"-I{ROOT / 'include'}", "linker.cc", "-o", "linker.o")
        run("gcc", "-shared", "linker.o", "-o", "linker.so", "-nodefaultlibs", "-lc")
        out, _ = tenon("doctor", "linker.so", code=None)  # it loads if this process already has the C++ library
        if "problems: none" not in out:
            self.assertIn("the C++ library: link it by g++, not gcc", out)

    def test_a_mix_of_the_two_cplusplus_abis_is_reported(self):
        other = library("old_abi", "#include <string>\nint measure(const std::string &text) { return (int)text.size(); }\n",
                        "-D_GLIBCXX_USE_CXX11_ABI=0", compiler="g++")
        path = library("new_abi", self.OP % ("#include <string>\nint measure(const std::string &text);", 'measure("a")'), other, compiler="g++")
        out = tenon("doctor", path, env={"LD_LIBRARY_PATH": str(HERE)}, code=1)[0]
        self.assertRegex(out, r"it uses measure\(std::__cxx11::basic_string.*uses the other C\+\+ ABI, build both with the same")

    def test_a_compiler_runtime_that_is_not_linked_is_reported(self):
        path = library("covered", self.OP % ("void __gcov_init(void *p);", "__gcov_init(0)"))
        self.assertIn("it uses __gcov_init, which neither it nor the libraries that it needs define; it was built with --coverage", self.doctor(path))

    def test_a_library_for_another_machine_is_reported(self):
        if not shutil.which("clang"):
            self.skipTest("clang is not installed")
        (HERE / "arm.c").write_text("void *tenon_library(void) { return 0; }\n")
        try:
            run("clang", "--target=aarch64-linux-gnu", "-c", "-fPIC", "arm.c", "-o", "arm.o")
        except AssertionError:
            self.skipTest("clang has no aarch64")
        linker = shutil.which("ld.lld") or shutil.which("ld.lld-14") or shutil.which("aarch64-linux-gnu-ld")
        if linker:
            run(linker, "-shared", "arm.o", "-o", "arm.so")
            self.assertIn("built for aarch64, this process is x86-64", self.doctor(HERE / "arm.so"))
        out, _ = tenon("doctor", "arm.o", code=1)
        self.assertIn("built for aarch64, this process is x86-64", out)
        self.assertNotIn("which neither it", out)

    def test_a_library_for_another_libc_is_reported(self):
        stub = self.stub("libc.musl-x86_64.so.1", "{ global: *; };", "int of_musl(void) { return 1; }")
        path = library("musl", self.OP % ("int of_musl(void);", "(void)of_musl()"), stub)
        stub.unlink()
        self.assertIn("it needs libc.musl-x86_64.so.1: it was built for musl", self.doctor(path))

    def test_an_executable_stack_and_text_relocations_are_noted(self):
        path = library("stack", self.OP % ("", "call->phase++"), "-Wl,-z,execstack")
        self.assertIn("it asks for an executable stack", self.doctor(path, loads=True))
        (HERE / "text.s").write_text(".globl here\n.text\nhere: .quad here\n.section .note.GNU-stack,\"\",@progbits\n")
        run("gcc", "-c", "text.s", "-o", "text.o")
        path = library("text", self.OP % ("", "call->phase++"), HERE / "text.o", "-Wl,-z,notext")
        self.assertIn("its code is modified when it is loaded (text relocations)", self.doctor(path, loads=True))

    def test_a_good_library_has_no_problem(self):
        out = self.doctor(HERE / "toy.so", loads=True)
        self.assertIn("problems: none", out)
        self.assertNotIn("note:", out)


class Threads(unittest.TestCase):
    LINE = re.compile(r"^threads +(\d+) \(TENON_THREADS changes it\); the machine has (\d+) processors"
                      r"(?:, the affinity mask allows (\d+))?(?:, the quota of the control group allows the time of (\d+\.\d\d))?$", re.M)

    def threads(self, *before, **env):
        """What the line of `tenon doctor` says: threads, processors, mask, quota. The last two are None where they set no limit."""
        out, _ = run(*before, build / "tenon", "doctor", env={"TENON_THREADS": "", **env})
        found = self.LINE.findall(out)
        self.assertEqual(len(found), 1, out)
        count, online, mask, quota = found[0]
        self.assertEqual(int(online), os.sysconf("SC_NPROCESSORS_ONLN"))
        return int(count), int(online), int(mask) if mask else None, float(quota) if quota else None

    def test_the_number_of_threads_is_the_least_of_what_the_machine_the_mask_and_the_quota_allow(self):
        count, online, mask, quota = self.threads()
        allowed = len(os.sched_getaffinity(0))
        self.assertEqual(mask, None if allowed == online else allowed)
        self.assertEqual(count, max(1, min(online, allowed, math.ceil(quota or online))))

    def test_TENON_THREADS_changes_it(self):
        self.assertEqual(self.threads(TENON_THREADS="3")[0], 3)

    def test_an_affinity_mask_of_one_processor_gives_one_thread(self):
        if not shutil.which("taskset"):
            self.skipTest("taskset is not installed")
        count, online, mask, _ = self.threads("taskset", "-c", min(os.sched_getaffinity(0)))
        self.assertEqual((count, mask), (1, None if online == 1 else 1))

    def hierarchies(self):
        """Folders of the control groups of this process that may limit processor time, with the file of the quota and its content."""
        groups = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            words = line.split()
            kind, _, options = words[words.index("-") + 1 :]
            for _, controllers, group in groups:
                is_v1 = kind == "cgroup" and "cpu" in options.split(",") and "cpu" in controllers.split(",")
                if is_v1 or kind == "cgroup2" and not controllers:
                    below = group[len(words[3]) :] if words[3] != "/" and group.startswith(words[3]) else group
                    yield (pathlib.Path(words[4] + below), *(("cpu.cfs_quota_us", "100000") if is_v1 else ("cpu.max", "100000 100000")))

    def test_a_quota_of_one_processor_gives_one_thread(self):
        reasons = []
        for folder, file, text in self.hierarchies():
            group = folder / f"tenon_test_{os.getpid()}"
            try:
                group.mkdir()
            except OSError as error:
                reasons.append(str(error))
                continue
            self.addCleanup(group.rmdir)
            if not (group / file).exists():  # opening it would try to create it
                reasons.append(f"{group} has no {file}")
                continue
            try:
                (group / file).write_text(text)
            except OSError as error:
                reasons.append(str(error))
                continue
            count, _, _, quota = self.threads("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group)
            self.assertEqual(count, 1)
            self.assertTrue(quota and quota <= 1, quota)
            return
        self.skipTest("no control group can limit the processor time here: " + ("; ".join(reasons) or "none is mounted"))


if __name__ == "__main__":
    sys.exit(main())
