"""`tenon check` on libraries with one planted defect each (tests/libraries/defects), which it must find and name, and on corrected twins of these
libraries, about which it must report nothing. A comment in the source of a defect gives the check that must find it: "Found as: ID". Arguments:
names of libraries."""
import concurrent.futures
import ctypes.util
import functools
import glob
import json
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SOURCES = os.path.join(ROOT, "tests", "libraries", "defects")
LIBRARIES = os.path.join(BUILD, "tests", "libraries", "defects")
TENON = os.path.join(BUILD, "tenon")
ENVIRONMENT = {**os.environ, "TERM": "dumb"}
LINES = {"crash.signal", "crash.abort", "crash.throws", "crash.stack", "read.beyond", "pointer.kept", "memory.leak"}  # findings of these checks name a source line
HAS_LINES = ctypes.util.find_library("dw") is not None


def planted():
    """Returns {name of a library: the check that must name its defect} for the libraries that were built."""
    found = {}
    for source in sorted(glob.glob(os.path.join(SOURCES, "*.c")) + glob.glob(os.path.join(SOURCES, "*.cc"))):
        name = os.path.splitext(os.path.basename(source))[0]
        with open(source, encoding="utf-8") as text:
            comment = re.sub(r"\n \*(?!/)", "", text.read())  # a comment may be wrapped anywhere
            said = re.search(r"Found as: ([a-z_]+\.[a-z0-9_]+)\s*\*/", comment)
        assert said, f"{source} has no line 'Found as: ID'"
        found[name] = said[1]
    return found


def not_here(name, check):
    """Returns an empty text, or why this processor cannot run the kernel that has the defect."""
    level = check.removeprefix("isa.")
    if level == check or level in processor_levels():
        return ""
    return f"{name}: this processor has no {level}"


@functools.cache
def processor_levels():
    """Returns the instruction sets that `tenon doctor` names."""
    doctor = subprocess.run([TENON, "doctor"], capture_output=True, text=True, timeout=60)
    return re.search(r"^instruction sets (.*)$", doctor.stdout, re.MULTILINE)[1].split()


def run(command):
    """Returns the exit status and the findings of the report."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=ENVIRONMENT)
    try:
        return run.returncode, [r for r in json.loads(run.stdout)["results"] if r["kind"] == "finding"]
    except (ValueError, KeyError):
        return run.returncode, [{"id": "", "found": f"no report: {run.stdout[-300:]}{run.stderr[-300:]}"}]


def wrong_of(name, kind, expected):
    """Returns an empty text, or what is wrong with the findings."""
    limit = ["--limit", "3" if name == "hangs" and kind == "broken" else "60"]  # the machine may be busy
    status, found = run([TENON, "check", os.path.join(LIBRARIES, kind, name + ".so"), "--json", *limit])
    said = "; ".join(f"{f['id']}: {f['found']}" for f in found)[:600]
    if kind == "right":
        return "" if status == 0 and not found else f"the right twin: status {status}, expected 0 and no finding; found {said or 'none'}"
    if status != 1 or {f["id"] for f in found} != {expected}:
        return f"status {status}, expected 1 and {expected}; found {said or 'none'}"
    if expected in LINES and HAS_LINES and f"/{name}." not in found[0]["found"]:
        return f"no line of the source in: {said}"
    status, again = run([TENON, *shlex.split(found[0]["repeat"])[1:], "--json", *limit])
    if status == 1 and expected in {f["id"] for f in again}:
        return ""
    return f"its line repeats nothing: {found[0]['repeat']}: status {status}, {[f['id'] for f in again]}"


def main():
    target = subprocess.run(["cmake", "--build", BUILD, "--parallel", "2", "--target", "defect_libraries"], capture_output=True, text=True)
    if target.returncode:
        print(target.stdout[-3000:], "\n0 passed, 1 failed, 0 skipped")
        return 1
    defects = planted()
    chosen = sys.argv[1:] or sorted(defects)
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        waits = {}
        for name in chosen:
            if not os.path.exists(os.path.join(LIBRARIES, "broken", name + ".so")):
                print(f"skipped: {name}: not built on this machine")
                skipped += 2
                continue
            why = not_here(name, defects[name])
            if why:
                print(f"skipped: {why}")
                skipped += 1
            for kind in ("right",) if why else ("broken", "right"):
                waits[name, kind] = pool.submit(wrong_of, name, kind, defects[name])
        for (name, kind), wait in waits.items():
            wrong = wait.result()
            if wrong:
                print(f"FAIL {name}: {wrong}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
