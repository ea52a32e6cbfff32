#!/usr/bin/env python3
"""Attempts of a hostile isolated library to escape: escape_test.py [-k WORD].

Each attempt of escape_library.c is made by a constructor and by a kernel, as the present user and, where that is root, as an
unprivileged one, with Landlock and without it.  Every attempt must be refused, unless POSSIBLE says otherwise; docs/isolation.md
must list exactly these exceptions.
"""
import collections
import concurrent.futures
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
NOBODY = 65534
SHARED = f"/dev/shm/tenon-escape-{os.getpid()}"  # two runs of this test do not disturb each other
sys.path.insert(0, os.path.join(ROOT, "tests", "adapters"))
import totals  # noqa: E402

OK = 0
ALLOW_WRITE, ALLOW_NETWORK = 2, 4

LOAD, CALL = "load", "call"
# What is possible, stated in docs/isolation.md: the phases, and whether Landlock must be off for it.
Possible = collections.namedtuple("Possible", "phases without_landlock")
WHILE_LOADING = Possible((LOAD,), False)
WHILE_LOADING_WITHOUT_LANDLOCK = Possible((LOAD,), True)
POSSIBLE = {
    **dict.fromkeys(["read_file", "every_flag", "metadata", "statx", "access", "link_target"], WHILE_LOADING),
    **dict.fromkeys(["proc_memory", "proc_environment", "proc_maps", "proc_status", "proc_command", "proc_descriptor", "proc_root",
                     "proc_by_self", "proc_by_working_folder", "proc_thread", "proc_supervisor", "named_memory", "device",
                     "zero_device"], WHILE_LOADING_WITHOUT_LANDLOCK),
    "read_only_memory": Possible((LOAD, CALL), False),
}
# The attempts to read files.  WRITE and NETWORK must not help them.
READERS = [
    "read_file", "read_creat", "open_with_create", "open_old", "every_flag", "open_again", "open_again_to_write", "open_path_again",
    "mode_by_fcntl", "sendfile", "openat2", "handle", "copy_range", "splice", "proc_memory", "kept_memory", "kept_folder", "kept_file",
    "kept_environment", "kept_of_many", "kept_named_memory", "kept_writable", "kept_path", "kept_moving", "faked_filter",
    "faked_filter_and_check", "faked_filter_and_check_to_write", "ignored_signal", "own_handler", "blocked_signal", "thread_of_loading",
]
REFUSALS = re.compile(r"isolated process|isolation does not allow|do not use this library|its threads cannot be started")


def landlock_version():
    libc = ctypes.CDLL(None, use_errno=True)
    return max(libc.syscall(444, None, ctypes.c_size_t(0), 1), 0)


def attempts():
    with open(os.path.join(FOLDER, "escape_library.c"), encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("static const attempt_t attempts[]"):]
    return re.findall(r'(?:ATTEMPT\((\w+)\)|\{"(\w+)", try_\w+, (\w+)\})', text[:text.index("};")])


ATTEMPTS = {plain or named: bool(before) for plain, named, before in attempts()}


class Escape(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tenon-escape-")
        os.chmod(cls.folder, 0o755)
        cls.library = os.path.join(cls.folder, "escape.so")
        cls.host = os.path.join(cls.folder, "escape_host")
        include = "-I" + os.path.join(ROOT, "include")
        for command in (
            ["cc", "-O1", "-w", "-shared", "-fPIC", include, f'-DNAMED_MEMORY="{SHARED}"', os.path.join(FOLDER, "escape_library.c"), "-o", cls.library, "-lpthread"],
            ["cc", "-O1", "-w", include, os.path.join(FOLDER, "escape_host.c"), "-o", cls.host, "-L" + BUILD, "-ltenon", "-Wl,-rpath," + BUILD],
        ):
            subprocess.run(command, check=True)
        with open(SHARED, "w", encoding="utf-8") as file:
            file.write("shared by other processes")
        os.chmod(SHARED, 0o644)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        os.unlink(SHARED)

    def run_host(self, name, phase, user, landlock, allow):
        """Runs the program that makes one attempt.  Returns: the finished program, and its standard output."""
        output = os.path.join(self.folder, f"{name}-{phase}-{user}-{landlock}-{allow}")
        target = output + "-file"
        with open(target, "w", encoding="utf-8") as file:
            file.write("every user may read and write this file")
        os.chmod(target, 0o666)
        with open(output, "w+", encoding="utf-8") as file:
            environment = {**os.environ, "TENON_ISOLATION_LANDLOCK": "on" if landlock else "off", "TENON_ESCAPE_FILE": target}
            run = subprocess.run([self.host, self.library, str(user), name, phase, str(allow)], stdout=file, stderr=subprocess.PIPE, text=True,
                                 env=environment, timeout=120, start_new_session=True)
            file.seek(0)
            printed = file.read()
        os.unlink(output)
        return run, printed

    def attempt(self, name, phase, user, landlock, allow=0):
        """Makes one attempt.  Returns: what was achieved, or None."""
        run, printed = self.run_host(name, phase, user, landlock, allow)
        found = re.search(r"^RESULT (\d+) (\S+) (\S+) (.*)$", run.stderr, re.M)
        if run.returncode != 0 or not found:
            return f"the program ended with {run.returncode}: {run.stderr[-300:]}"
        status, answer, changed, message = int(found[1]), float(found[2]), found[3], found[4]
        if changed != "nothing":
            return f"it changed {changed} of the program"
        if printed != "begun\n":
            return f"the output is {printed!r}"
        if status == OK and answer > 0:
            return "it succeeded"
        if status != OK and not REFUSALS.search(message):
            return f"an error that says nothing of isolation: {status} {message}"
        return None

    def outcomes(self, user, landlock):
        cases = [(name, phase) for name, has_first_step in ATTEMPTS.items() for phase in (LOAD, CALL) if phase == CALL or not has_first_step]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda case: self.attempt(*case, user, landlock), cases))
        return dict(zip(cases, found))

    def check(self, user, landlock):
        """Compares all outcomes with what is stated."""
        wrong = []
        for (name, phase), found in self.outcomes(user, landlock).items():
            possible = POSSIBLE.get(name)
            may = possible and phase in possible.phases and not (landlock and possible.without_landlock)
            if found and not may:
                wrong.append(f"{name} ({phase}): {found}")
        self.assertEqual(wrong, [], "\n".join(["not refused:"] + wrong))

    def check_readers(self, names, allow):
        """No attempt of a kernel to read a file succeeds with these rights, as any user, with Landlock or without it."""
        users = [-1, NOBODY] if os.getuid() == 0 else [-1]
        cases = [(name, CALL, user, landlock, allow) for name in names for user in users
                 for landlock in ((True, False) if landlock_version() else (False,))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda case: self.attempt(*case), cases))
        wrong = [f"{case}: {what}" for case, what in zip(cases, found) if what]
        self.assertEqual(wrong, [], "\n".join(["not refused:"] + wrong))

    def test_files_cannot_be_read_with_write_alone(self):
        self.check_readers(READERS, ALLOW_WRITE)

    def test_the_error_says_that_opening_for_reading_and_writing_needs_both(self):
        run, _ = self.run_host("read_creat", CALL, -1, False, ALLOW_WRITE)
        self.assertIn("opened for reading and writing '/etc/passwd' (openat), which isolation does not allow: load the library with "
                      "TENON_ALLOW_READ and TENON_ALLOW_WRITE if it may", run.stderr)

    def test_files_cannot_be_read_with_network_alone(self):
        self.check_readers(["kept_sent", "kept_file", "kept_writable"], ALLOW_NETWORK)

    def test_there_are_enough_attempts(self):
        self.assertGreaterEqual(len(ATTEMPTS), 60)

    def test_the_page_on_isolation_lists_what_is_possible(self):
        with open(os.path.join(ROOT, "docs", "isolation.md"), encoding="utf-8") as file:
            text = file.read()
        table = text[text.index("## What a hostile library can still do"):].split("\n\nIn every setting")[0]
        named = {name for row in table.splitlines() if row.startswith("|") for name in re.findall(r"`(\w+)`", row.rsplit("|", 2)[1])}
        self.assertEqual(named, set(POSSIBLE))

    @unittest.skipUnless(landlock_version(), "this kernel has no Landlock")
    def test_attempts_are_refused_with_landlock(self):
        self.check(-1, True)

    def test_attempts_are_refused_without_landlock(self):
        self.check(-1, False)

    @unittest.skipUnless(os.getuid() == 0, "only root can become another user")
    @unittest.skipUnless(landlock_version(), "this kernel has no Landlock")
    def test_attempts_are_refused_with_landlock_as_nobody(self):
        self.check(NOBODY, True)

    @unittest.skipUnless(os.getuid() == 0, "only root can become another user")
    def test_attempts_are_refused_without_landlock_as_nobody(self):
        self.check(NOBODY, False)


if __name__ == "__main__":
    totals.main()
