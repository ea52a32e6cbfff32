#!/usr/bin/env python3
"""Isolated libraries that misbehave, a share of the rounds: isolation_test.py [ROUNDS]; and that nothing is left of them when
the program itself is killed.  `make isolation` runs a hundred rounds of each kind.  A library that forges its replies: single
forgeries, and a share of random ones (TENON_REPLIES of each kind; `make isolation-fuzz REPLIES=N`)."""
import os
import signal
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
PROGRAM = os.path.join(BUILD, "tests", "isolation_rounds")
FOLDER = os.path.join(BUILD, "tests", "libraries", "misbehave")
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 10
MARK = "TENON_TEST_MARK"
FORGERIES = os.path.join(BUILD, "tests", "isolation_forgeries")
REPLIES = int(os.environ.get("TENON_REPLIES", "20000"))
CHUNK = 50000  # replies of one program, whose seed is the number of the chunk


def marked(mark):
    """Processes that have the mark in their environment: all descendants of a program, whoever their parents are now."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}\0".encode() in file.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


class Isolation(unittest.TestCase):
    def test_rounds_of_misbehaviour_leave_others_right_and_nothing_behind(self):
        run = subprocess.run([PROGRAM, str(ROUNDS), FOLDER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, MARK: f"rounds-{os.getpid()}"}, timeout=1800)
        print(run.stdout.strip())
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(marked(f"rounds-{os.getpid()}"), [])
        self.assertEqual([name for name in os.listdir(FOLDER) if name.startswith("written-") and name != "written--1"], [])  # -1: test_isolation_library's

    def test_its_processes_are_gone_after_the_program_is_killed_during_a_call(self):
        for number in range(min(ROUNDS, 20)):
            mark = f"killed-{os.getpid()}-{number}"
            program = subprocess.Popen([PROGRAM, "1", FOLDER, "hang"], stdout=subprocess.PIPE, text=True, env={**os.environ, MARK: mark})
            self.assertEqual(program.stdout.readline(), "hanging\n")
            time.sleep(0.002 * number)
            self.assertGreaterEqual(len(marked(mark)), 5)  # itself, two supervisors, two worker processes
            program.send_signal(signal.SIGKILL)
            program.wait()
            program.stdout.close()
            end = time.monotonic() + 20  # this takes milliseconds unless the machine is busy
            while marked(mark) and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(marked(mark), [])


def forgeries(*arguments):
    """Runs the program that calls a forging library; a crash of it is a negative exit status."""
    return subprocess.run([FORGERIES, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=3000)


class Forgeries(unittest.TestCase):
    def names(self, word):
        return [line.split()[1] for line in forgeries("list").stdout.splitlines() if line.startswith(word)]

    def test_each_forgery_is_refused_with_its_reason_and_changes_nothing(self):
        names = self.names("case")
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name):
                run = forgeries(FOLDER, "case", name)
                self.assertEqual((run.returncode, run.stdout), (0, "0 failures\n"))

    def test_random_replies_end_in_an_error_or_in_a_result_that_can_be_true(self):
        for name in self.names("kind"):
            accepted = 0
            for seed, begin in enumerate(range(0, REPLIES, CHUNK)):
                with self.subTest(name, seed=seed):
                    run = forgeries(FOLDER, name, min(CHUNK, REPLIES - begin), seed)
                    line = next((line for line in run.stdout.splitlines() if " replies, " in line), "no total")
                    print(line, f"(seed {seed})", flush=True)
                    self.assertEqual(run.returncode, 0, f"{name}, seed {seed}: {run.stdout[-2000:]}")
                    accepted += int(line.split(" replies, ")[1].split()[0])
            if name in ("run", "open", "infer", "view", "list", "string", "known"):  # of the others, nearly nothing can be true
                self.assertGreater(accepted, 0, name)  # the forgeries come close to real replies


if __name__ == "__main__":
    unittest.main()
