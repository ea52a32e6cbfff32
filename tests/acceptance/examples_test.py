"""Each numbered example with a check.py is a test: it builds, runs, and compares with a reference of its own. One that lacks something exits with
status 77, and its last line says what."""
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
SKIPPED = 77


def main():
    failed, skipped = 0, 0
    checks = sorted(glob.glob(os.path.join(ROOT, "examples/*/check.py")))
    for check in checks:
        run = subprocess.run([sys.executable, check, os.path.join(BUILD, "tenon")], capture_output=True, text=True)
        said = run.stdout.strip().splitlines()[-1:]
        if run.returncode == SKIPPED:
            print(f"skip: {os.path.relpath(check, ROOT)}: {''.join(said)}")
            skipped += 1
            continue
        print("ok  " if run.returncode == 0 else "FAIL", os.path.relpath(check, ROOT), said)
        if run.returncode:
            print(run.stderr[-2000:])
        failed += run.returncode != 0
    print(f"{len(checks) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
