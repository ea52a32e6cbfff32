"""Every program and library of the build tree and of an installed tree: no folder in its run path depends on the current folder, and what is
shipped is hardened.  TENON_BUILD names the build tree."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests/adapters"))
import totals  # noqa: E402

# What users start or load. Kernels and devices are built as their authors build them; tests are not shipped.
SHIPPED = ("tenon", "libtenon.so.*", "libtenon_torch.so", "libexec/tenon/isolate", "bridges/*.so", "exports/*.so", "python/tenon/_core.*.so",
           "tests/check_operator", "tests/check_device")
INSTALLED = ("bin/tenon", "lib*/libtenon.so.*", "lib*/*/libtenon.so.*", "libexec/tenon/*", "lib*/tenon/bridges/*.so", "lib*/tenon/exports/*.so")


def elf_files(folder):
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("CMakeFiles", "cache", "logs", "zoo")]
        for name in names:
            path = Path(place, name)
            if path.is_symlink() or not path.is_file():
                continue
            with open(path, "rb") as file:
                head = file.read(18)
            if head[:4] == b"\x7fELF" and head[16] in (2, 3):
                yield path


def tags(path):
    with open(path, "rb") as file:
        sections = [s for s in ELFFile(file).iter_sections() if isinstance(s, DynamicSection)]
        return [(tag.entry.d_tag, getattr(tag, "runpath", getattr(tag, "rpath", tag.entry.d_val))) for s in sections for tag in s.iter_tags()]


def bad_parts(path):
    for tag, value in tags(path):
        if tag in ("DT_RPATH", "DT_RUNPATH"):
            for part in value.split(":"):
                if not part.startswith(("/", "$ORIGIN")):
                    yield f"{path}: {tag} '{value}' has the part '{part}'"


class Trees(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.place.name, "prefix with blank")
        for _ in range(2):  # the second installation finds the files of the first
            subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_no_run_path_of_the_build_tree_names_the_current_folder(self):
        files = list(elf_files(BUILD))
        self.assertGreater(len(files), 5)
        self.assertEqual([bad for file in files for bad in bad_parts(file)], [])

    def test_no_run_path_of_the_installed_tree_names_the_current_folder_or_the_build_tree(self):
        files = list(elf_files(self.prefix))
        self.assertGreater(len(files), 5)
        self.assertEqual([bad for file in files for bad in bad_parts(file)], [])
        inside = [(file, value) for file in files for tag, value in tags(file) if tag in ("DT_RPATH", "DT_RUNPATH") and str(ROOT) in value]
        self.assertEqual(inside, [])

    def test_no_program_looks_for_a_library_in_the_current_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (BUILD / "tenon", BUILD / "libexec/tenon/isolate", BUILD / "tests/check_operator", self.prefix / "bin/tenon", self.prefix / "libexec/tenon/isolate"):
                said = subprocess.run([command, "--version"], cwd=folder, capture_output=True, text=True, env={**os.environ, "LD_DEBUG": "libs", "LD_LIBRARY_PATH": "/usr/lib"}).stderr
                tried = [line.split("file=")[1] for line in said.splitlines() if "trying file=" in line]
                self.assertTrue(tried, said)
                self.assertEqual([path for path in tried if not path.startswith("/")], [], command)

    def test_the_installed_command_runs(self):
        said = subprocess.run([self.prefix / "bin/tenon", "--version"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)

    def check_hardened(self, folder, patterns):
        files = sorted({Path(f).resolve() for pattern in patterns for f in glob.glob(str(folder / pattern))})
        self.assertGreater(len(files), 3)
        for path in files:
            with self.subTest(path=path), open(path, "rb") as file:
                elf = ELFFile(file)
                kinds = {s.header.p_type: s.header for s in elf.iter_segments()}
                self.assertIn("PT_GNU_RELRO", kinds)
                self.assertFalse(kinds["PT_GNU_STACK"].p_flags & 1, "executable stack")
                self.assertFalse([s for s in elf.iter_segments() if s.header.p_type == "PT_LOAD" and s.header.p_flags & 3 == 3], "writable code")
                flags = dict((tag, value) for tag, value in tags(path) if tag in ("DT_FLAGS", "DT_FLAGS_1", "DT_BIND_NOW"))
                self.assertTrue("DT_BIND_NOW" in flags or flags.get("DT_FLAGS", 0) & 8 or flags.get("DT_FLAGS_1", 0) & 1, "symbols are bound late")
                if "isolate" not in path.name:  # its main only calls libtenon, and has no array to guard
                    names = {s.name for s in elf.get_section_by_name(".dynsym").iter_symbols()}
                    self.assertIn("__stack_chk_fail", names)

    def test_what_the_build_tree_ships_is_hardened(self):
        self.check_hardened(BUILD, SHIPPED)

    def test_what_is_installed_is_hardened(self):
        self.check_hardened(self.prefix, INSTALLED)

    def test_copies_of_libtenon_are_checked_for_their_length(self):
        with open((BUILD / "libtenon.so").resolve(), "rb") as file:
            names = {s.name for s in ELFFile(file).get_section_by_name(".dynsym").iter_symbols()}
        self.assertTrue(names & {"__snprintf_chk", "__vsnprintf_chk", "__memcpy_chk"}, "no function of _FORTIFY_SOURCE is used")


if __name__ == "__main__":
    totals.main()
