"""ONNX's backend test suite, at ONNX's own tolerances, through `tenon verify`. A case counts as failed if it gives a wrong result or crashes.
For random operators the suite stores one draw of its own generator, so `tenon verify` compares distributions. A case may be skipped only where an optional library is missing. The floor keeps coverage from shrinking unnoticed."""
import os
import re
import subprocess
import sys

import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
FLOOR = 1905  # cases that pass or need a library that is missing; raise it when more do
# Why a case may be skipped: an optional library is missing, and the reason names it.
MISSING = r"is not installed: on Debian, install|needs the library companions/images\.so"


def main():
    command = [os.path.join(BUILD, "tenon"), "verify", "--isolate", "--timeout", "120", "--jobs", str(os.cpu_count() or 1)]
    images = os.path.join(BUILD, "companions/images.so")
    if os.path.exists(images):
        command += ["--ops", images]
    for family in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        folder = os.path.join(DATA, family)
        command += [os.path.join(folder, case) for case in sorted(os.listdir(folder))]
    run = subprocess.run(command, capture_output=True, text=True)
    totals = r"(?m)^(\d+) passed, (\d+) failed, (\d+) skipped\n"
    print(re.sub(totals, "", run.stdout), run.stderr, sep="")
    total = re.search(totals, run.stdout)
    if not total:
        sys.exit("tenon verify gave no totals")
    passed, failed, skipped = map(int, total.groups())
    missing = 0
    for count, reason in re.findall(r"(?m)^ +(\d+)  (.*)$", run.stdout.partition("skipped:\n")[2]):
        if re.search(MISSING, reason):
            missing += int(count)
        else:
            print(f"FAIL {count} cases are skipped for a reason that names no optional library: {reason}")
            failed += 1
    if passed + missing < FLOOR:
        print(f"FAIL only {passed} cases pass, and {missing} need a missing library: together {FLOOR} did before")
        failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
