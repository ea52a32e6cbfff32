"""Calls from Python leak nothing: runs tests/adapters/leaks.py under valgrind; leaks.supp lists the leaks of other libraries. leaks_test.py
[torch]: with PyTorch, too, which takes minutes."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = ("libtenon", "_core.")


def frames(error):
    return [(frame.findtext("fn") or "?", os.path.basename(frame.findtext("obj") or "")) for frame in error.find("stack").findall("frame")]


def run(rounds, *arguments):
    """Returns valgrind's errors, or None if leaks.py failed."""
    with tempfile.TemporaryDirectory(prefix="tenon-leaks-") as folder:
        report = os.path.join(folder, "report.xml")
        command = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--keep-debuginfo=yes", "--num-callers=200", f"--suppressions={HERE}/leaks.supp", "--xml=yes", f"--xml-file={report}",
                   sys.executable, os.path.join(HERE, "leaks.py"), *arguments]
        done = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "malloc", "LEAKS_ROUNDS": str(rounds)}, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:], f"FAIL leaks.py ended with {done.returncode}", sep="\n")
            return None
        return xml.etree.ElementTree.parse(report).getroot().findall("error")


def is_leak(error):
    return error.findtext("kind").startswith("Leak_")


def lost(errors):
    """Returns {stack: blocks} of the leaks whose stack contains our code."""
    found = collections.Counter()
    for error in filter(is_leak, errors):
        stack = tuple(frames(error))
        if any(library.startswith(OURS) for _, library in stack):
            found[stack[:25]] += int(error.find("xwhat").findtext("leakedblocks"))
    return found


def show(what, stack):
    print(f"FAIL {what}:", *(f"  {function} ({library})" for function, library in stack[:25]), sep="\n")


def with_numpy():
    """Returns the number of problems; no leak at all is allowed."""
    errors = run(10)
    if errors is None:
        return 1
    bad = [error for error in errors if is_leak(error) or frames(error)[0][1].startswith(OURS)]  # invalid reads and writes of our code count, too
    for error in bad:
        show(error.findtext("what") or error.find("xwhat").findtext("text"), frames(error))
    return len(bad)


def with_torch():
    """In a process of PyTorch, valgrind reports memory of its globals and ours as leaked, so only more leaks after more calls count."""
    few, many = run(5, "torch"), run(25, "torch")
    if few is None or many is None:
        return 1
    before, after = lost(few), lost(many)
    grown = {stack: count - before[stack] for stack, count in after.items() if count - before[stack] >= 15}
    for stack, count in grown.items():
        show(f"{count} blocks more are lost by 20 more rounds", stack)
    return len(grown)


def main():
    if not shutil.which("valgrind"):
        print("skip: leaks of calls from Python: valgrind is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    bad = with_torch() if "torch" in sys.argv else with_numpy()
    print(f"{int(not bad)} passed, {bad} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
