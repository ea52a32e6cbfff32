#!/usr/bin/env python3
"""Isolated libraries that misbehave, a share of the rounds: isolation_test.py [ROUNDS]; and that nothing is left of them when
the program itself is killed.  `make isolation` runs a hundred rounds of each kind."""
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


if __name__ == "__main__":
    unittest.main()
