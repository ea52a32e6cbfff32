"""What the test programs here share: long tests that take turns, and at the end the reasons for skipped tests, and the line that
scripts/test.sh adds up."""
import os
import sys
import unittest
import zlib

# 0, 1 or 2: which long tests a run of all suites takes; without it all of them run, as they do in programs that a test starts
THIRD = os.environ.pop("TEST_THIRD", None)


def takes_turns(test):
    """Marks a test that takes long. Three runs of all suites in a row, of three commits, run it once; a run of its suite alone always does."""
    turn = zlib.crc32(test.__qualname__.encode()) % 3
    return unittest.skipUnless(THIRD in (None, str(turn)), "takes long, and it is the turn of others (make test-NAME runs all)")(test)


def main(parts=lambda: 0):
    """Runs the tests of the program; parts() returns how many parts of tests count as passed tests, too."""
    result = unittest.main(exit=False).result
    wrong = len({getattr(test, "test_case", test) for test, _ in result.failures + result.errors})  # several parts of one test may fail
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    skipped = len({getattr(test, "test_case", test) for test, _ in result.skipped})  # as well
    print(f"{max(0, result.testsRun - wrong - skipped) + parts()} passed, {wrong} failed, {skipped} skipped")
    sys.exit(wrong > 0)
