"""`tenon watch`: the tests save sources as an author does, and look at what it builds, runs and prints."""
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
TENON = os.path.join(BUILD, "tenon")

SOURCE = """
#include <tenon/op.h>
#include "by.h"
static tenon_status_t more(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++) ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] + BY;
  return TENON_OK;
}
TENON_LIBRARY(toy, "1.0.0", TENON_OP(SCHEMA, TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", more)))
"""
HEADER = '#define BY %s\n#define SCHEMA "more(Tensor x%s) -> Tensor"\n'


class Watch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {**os.environ, "TENON_CACHE": self.path("cache")}
        os.mkdir(self.path("headers"))
        self.write("toy.c", SOURCE)
        self.header("1")
        subprocess.run([TENON, "build", "toy.c", "-Iheaders", "-o", "first.so"], cwd=self.folder.name, env=self.env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([TENON, "model", "toy::more", "--ops", "./first.so", "-i", "x=f32[2]"], cwd=self.folder.name, env=self.env, check=True, stdout=subprocess.DEVNULL)
        self.process = None

    def tearDown(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))  # as editors do

    def header(self, by, more=""):
        with open(self.path("headers/by.h"), "w", encoding="utf-8") as file:
            file.write(HEADER % (by, more))

    def begin(self, *words):
        self.process = subprocess.Popen([TENON, "watch", "toy.c", "-Iheaders", *words], cwd=self.folder.name, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = b""

    def until(self, pattern):
        """Returns the output up to this text."""
        end = time.monotonic() + 120
        while not re.search(pattern, self.said.decode()):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            self.assertTrue(piece, f"waiting for {pattern}: {self.said.decode()}")
            self.said += piece
        said, self.said = self.said.decode(), b""
        return said

    def test_a_saved_source_is_built_put_in_place_and_run(self):
        self.begin("--run", "model.onnx", "-i", "x=0", "--", "echo", "and", "this")
        said = self.until(r"watching toy\.c, headers/by\.h")
        self.assertRegex(said, r"built toy\.so[^$]*out +f32 \[2\] +min 1 +max 1[^$]*and this\n")
        self.header("5")
        self.assertRegex(self.until("watching"), r"headers/by\.h changed[^$]*built[^$]*min 5 +max 5[^$]*and this")
        self.write("toy.c", SOURCE.replace("+ BY", "+ 2 * BY"))
        self.assertRegex(self.until("watching"), r"toy\.c changed[^$]*built[^$]*min 10 ")
        self.header("nothing")
        said = self.until("watching")
        self.assertRegex(said, r"nothing[^$]*does not compile")
        self.assertNotIn("built", said)
        self.header("*(volatile float *)8")
        self.assertRegex(self.until("watching"), r"toy\.so failed while it was running: ended by signal 11")
        self.header("7")
        self.assertRegex(self.until("watching"), r"built[^$]*min 14 ")
        self.header("8", ", *, int a=1")
        self.assertRegex(self.until("watching"), r"toy::more: its schema changed[^$]*held by 2 graphs; the model is loaded again[^$]*min 16 ")
        with open(self.path("unrelated.h"), "w", encoding="utf-8") as file:
            file.write("nothing to see")
        self.header("9", ", *, int a=1")
        self.assertNotIn("unrelated", self.until("watching"))

    def test_times_limits_the_builds_and_the_exit_status_is_that_of_the_last(self):
        self.begin("--times", "1")
        self.until("built")
        self.assertEqual(self.process.wait(60), 0)
        self.process.stdout.close()
        self.header("nothing")
        self.begin("--times", "1")
        self.until("does not compile")
        self.assertEqual(self.process.wait(60), 1)

    def test_a_failing_command_is_reported(self):
        self.begin("--times", "1", "--", "false")
        self.assertIn("'false' ended with exit status 1", self.until("exit status 1"))
        self.assertEqual(self.process.wait(60), 0)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bad > 0)
