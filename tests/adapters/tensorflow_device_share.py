"""Which part of the long tests of a device in TensorFlow a run takes."""
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARES = 6


def share(cases):
    """Returns the cases of TENSORFLOW_SHARE: "2/5" is every fifth case, from the third on, "commit" the share of this commit; without it all cases."""
    wanted = os.environ.get("TENSORFLOW_SHARE")
    if not wanted:
        return list(cases)
    if wanted == "commit":
        commits = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
        wanted = f"{int(commits or 0) % SHARES}/{SHARES}"
    index, count = map(int, wanted.split("/"))
    return list(cases)[index % count::count]


def flat(suite):
    return [test for part in suite for test in flat(part)] if isinstance(suite, unittest.TestSuite) else [suite]


def loading(is_long=lambda test: True):
    """Returns the function load_tests of a test program: all tests, but of the long ones the share of this run."""
    def load_tests(loader, suite, pattern):
        tests = sorted(flat(suite), key=lambda test: test.id())
        long = [test for test in tests if is_long(test)]
        taken = {id(test) for test in share(long)}
        if len(taken) < len(long):
            print(f"skipped: of {len(long)} long tests this run takes {len(taken)} (make tensorflow-device takes all)")
        return unittest.TestSuite(test for test in tests if not is_long(test) or id(test) in taken)
    return load_tests
