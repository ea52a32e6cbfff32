"""Nothing is lost by calls from Python: tests/adapters/leaks.py under valgrind, where what others lose is listed in leaks.supp.
leaks_test.py [torch]: with PyTorch too, which takes minutes."""
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = ("libtenon", "_core.abi3")


def frames(error):
    return [(frame.findtext("fn") or "?", os.path.basename(frame.findtext("obj") or "")) for frame in error.find("stack").findall("frame")]


def main():
    if not shutil.which("valgrind"):
        print("skip: leaks of calls from Python: valgrind is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="tenon-leaks-") as folder:
        report = os.path.join(folder, "report.xml")
        command = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=60", f"--suppressions={HERE}/leaks.supp", "--xml=yes", f"--xml-file={report}",
                   sys.executable, os.path.join(HERE, "leaks.py"), *sys.argv[1:]]
        done = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "malloc"}, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:], f"FAIL leaks.py ended with {done.returncode}", "0 passed, 1 failed, 0 skipped", sep="\n")
            return 1
        errors = xml.etree.ElementTree.parse(report).getroot().findall("error")
    lost = [error for error in errors if error.findtext("kind").startswith("Leak_")]
    bad = lost + [error for error in errors if error not in lost and frames(error)[0][1].startswith(OURS)]  # reads and writes of ours
    for error in bad:
        what = error.findtext("what") or error.find("xwhat").findtext("text")
        print(f"FAIL {what}:", *(f"  {function} ({library})" for function, library in frames(error)[:25]), sep="\n")
    print(f"{int(not bad)} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
