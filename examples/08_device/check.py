"""Builds the device outside the tree, with the public headers alone, and runs the conformance suite on it."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TENON = os.path.abspath(sys.argv[1])
BUILD = os.path.dirname(TENON)
HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(BUILD, "tests", "check_device")


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}: {result.stdout[-1500:]}{result.stderr[-1500:]}"
    return result.stdout


def main():
    run("cmake", "--build", BUILD, "--target", "check_device")
    with tempfile.TemporaryDirectory() as folder:
        for file in glob.glob(os.path.join(HERE, "*.[ch]")):
            shutil.copy(file, folder)
        run(TENON, "build", "vx.c", "stream.c", "memory.c", "-o", "vx.so", cwd=folder)
        shown = run(CHECK, os.path.join(folder, "vx.so"), "--quick")
    passed, failed, skipped = map(int, re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", shown, re.M).groups())
    assert passed >= 250 and failed == 0, shown
    print(f"the device passes {passed} cases on its two ordinals; {skipped} skipped")


if __name__ == "__main__":
    main()
