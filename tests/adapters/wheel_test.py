"""The wheel: pip builds it in an environment of its own, and it is installed into a clean environment for each Python from 3.9 on that is found
(on PATH, or pyenv's), where the tests of the package run. It is also used where there is no compiler. Each free-threaded Python builds its own
wheel."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t"]
WHICH = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
USE = """
import sys, numpy, tenon
ops = tenon.load(sys.argv[1])
x = numpy.linspace(-1, 1, 3, dtype="f4")
assert abs(ops.gelu(x)[2] - 0.8413447) < 1e-6
import ctypes, os
assert ctypes.CDLL(os.path.join(os.path.dirname(tenon.__file__), "lib", "libtenon_torch.so")).tenon_torch_register
for folder in tenon.include_dir(), tenon.cmake_dir():
    assert folder.startswith(sys.prefix), folder
"""


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, **options)
    assert result.returncode == 0, f"{' '.join(map(str, command))}: {result.stdout[-3000:]}"
    return result.stdout


def pythons():
    """Returns {version: program} of the Pythons that are found."""
    found, folders = {}, os.environ["PATH"].split(os.pathsep) + glob.glob(os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions/*/bin"))
    for version in VERSIONS:
        for program in filter(os.path.exists, (os.path.join(folder, f"python{version}") for folder in folders)):
            said = subprocess.run([program, "-c", WHICH], capture_output=True, text=True)  # pyenv's programs on PATH run one version only
            if version not in found and said.stdout.strip() == version:
                found[version] = program
    return found


def build(python, folder):
    """Returns the wheel that a Python builds."""
    run(python, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "-q", ROOT, "-w", folder, cwd=os.path.dirname(folder))
    (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
    print(f"{os.path.basename(wheel)}: {os.path.getsize(wheel) / 1e6:.1f} MB")
    return wheel


def tests(python, folder, *command):
    """Returns the line with the totals."""
    said = run(python, *command, cwd=folder, env={**os.environ, "TENON_INSTALLED": "1", "TENON_BUILD": BUILD})
    return said.strip().splitlines()[-1]


def install(python, wheel, folder):
    run(python, "-m", "venv", folder)
    run(os.path.join(folder, "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", "numpy", wheel, "numpy")
    return os.path.join(folder, "bin/python")


def in_python(version, program, wheel, library, folder):
    """Returns whether the wheel works in that Python."""
    try:
        tag = "cp39-abi3"
        if version.endswith("t"):
            tag = "cp{0}-cp{0}t".format(version.replace(".", "")[:-1])
            wheel = build(program, os.path.join(folder, tag))
        assert re.match(rf"libtenon-[0-9.]+-{tag}-linux_", os.path.basename(wheel)), wheel
        python = install(program, wheel, os.path.join(folder, version))
        nothing = {"PATH": os.path.join(folder, "no-such-folder"), "HOME": folder}  # no compiler, no tools
        run(python, "-c", USE, library, cwd=folder, env=nothing)
        assert "1.0.0" in run(os.path.join(folder, version, "bin/tenon"), "--version", cwd=folder, env=nothing)
        assert "created mine, pointwise" in run(os.path.join(folder, version, "bin/tenon"), "new", "mine", cwd=os.path.join(folder, version), env=nothing)
        calls = tests(python, folder, os.path.join(ROOT, "tests/adapters/python_test.py"), "Arrays", "Calls", "Names", "Shapes", "Tensors")
        threads = tests(python, folder, os.path.join(ROOT, "tests/adapters/threads_test.py"))
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"FAIL Python {version}: {error}")
        return False
    print(f"Python {version}: {calls}; threads: {threads}")
    return True


def holds_the_device_of_pytorch(wheel):
    """Returns whether the wheel has the sources of the device in PyTorch, and the headers that they are compiled against."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"tenon/share/torch_device/{os.path.basename(f)}" for f in glob.glob(os.path.join(ROOT, "bridges", "torch_device", "*.*"))}
    expected = sources | {"tenon/include/tenon/tenon.h", "tenon/include/tenon/torch.h", "tenon/torch/device/__init__.py", "tenon/torch/device/build.py"}
    if missing := expected - names:
        print(f"FAIL: the wheel lacks {', '.join(sorted(missing))}")
    return not missing


def main():
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        wheel = build(sys.executable, os.path.join(folder, "wheel"))
        library = os.path.join(folder, "gelu.so")
        run(os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "examples/01_gelu/gelu.c"), "-o", library)
        here = pythons()
        good = [holds_the_device_of_pytorch(wheel), *pool.map(lambda item: in_python(*item, wheel, library, folder), here.items())]
    for version in VERSIONS:
        if version not in here:
            print(f"skipped: the wheel in Python {version}: there is no python{version} here")
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, {len(VERSIONS) - len(here)} skipped")
    return not all(good) or not good


if __name__ == "__main__":
    sys.exit(main())
