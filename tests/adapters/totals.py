"""The end of each test program here: the reasons for skipped tests, and the line that scripts/test.sh adds up."""
import sys
import unittest


def main(parts=lambda: 0):
    """Runs the tests of the program; parts() returns how many parts of tests count as passed tests, too."""
    result = unittest.main(exit=False).result
    wrong = len({getattr(test, "test_case", test) for test, _ in result.failures + result.errors})  # several parts of one test may fail
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    skipped = len({getattr(test, "test_case", test) for test, _ in result.skipped})  # as well
    print(f"{max(0, result.testsRun - wrong - skipped) + parts()} passed, {wrong} failed, {skipped} skipped")
    sys.exit(wrong > 0)
