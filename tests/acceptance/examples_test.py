"""Each numbered example with a check.py is a test: it builds, runs, and compares with a reference of its own."""
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))


def main():
    failed = 0
    checks = sorted(glob.glob(os.path.join(ROOT, "examples/*/check.py")))
    for check in checks:
        run = subprocess.run([sys.executable, check, os.path.join(BUILD, "tenon")], capture_output=True, text=True)
        print("ok  " if run.returncode == 0 else "FAIL", os.path.relpath(check, ROOT), run.stdout.strip().splitlines()[-1:])
        if run.returncode:
            print(run.stderr[-2000:])
        failed += run.returncode != 0
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
