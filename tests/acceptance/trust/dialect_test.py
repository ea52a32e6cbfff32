"""One dialect of C in all ways to build a library, also where Tenon lies in a path with blanks."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/adapters"))
import totals  # noqa: E402

BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
# Names of POSIX and of the system, which C11 without extensions hides.
USES = """
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
double uses_names(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); char *copy = strdup("x"); free(copy); return M_PI + (double)now.tv_sec; }
"""


class Dialect(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.prefix = Path(self.place.name, "a path with blanks")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.prefix], check=True, stdout=subprocess.DEVNULL)
        self.tenon = self.prefix / "bin/tenon"
        self.run_in(self.place.name, self.tenon, "new", "mine", "--kind", "pointwise")
        self.folder = Path(self.place.name, "mine")
        with open(self.folder / "mine.c", "a") as source:
            source.write(USES)

    def run_in(self, folder, *command):
        done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "TENON_CACHE": "off"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_tenon_build(self):
        self.run_in(self.folder, self.tenon, "build", "mine.c")

    def test_load_of_a_source(self):
        program = f"import sys; sys.path.insert(0, {str(BUILD / 'python')!r}); import tenon; tenon.load('./mine.c')"
        self.run_in(self.folder, sys.executable, "-c", program)

    def test_make(self):
        self.run_in(self.folder, "make", f"TENON={self.tenon}")
        self.run_in(self.folder, "make", "run", f"TENON={self.tenon}")

    def test_cmake(self):
        folder = self.run_in(self.folder, self.tenon, "--cmake").strip()
        self.run_in(self.folder, "cmake", "-B", "build", f"-Dtenon_DIR={folder}")
        self.run_in(self.folder, "cmake", "--build", "build")


if __name__ == "__main__":
    totals.main()
