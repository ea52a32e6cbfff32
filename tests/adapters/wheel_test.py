"""The wheel: pip builds it in an environment of its own, and it is installed into a clean environment for each Python from 3.9 on that is found
(on PATH, or pyenv's), where the tests of the package run; in a run of all suites the others than this Python take turns. It is also used where there is no compiler. Each free-threaded Python builds its own
wheel. The C++ part of the wheel libtenon-torch comes from the cache, which the suite torch-device uses too, so that one of the two compiles it."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import totals

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
from tenon._library import adapter
assert ctypes.CDLL(adapter("tensorflow_device")).SE_InitPlugin and adapter("tensorflow_device").startswith(sys.prefix)
assert ctypes.CDLL(adapter("tensorflow_graph")).TF_InitGraph and adapter("tensorflow_graph").startswith(sys.prefix)
assert ctypes.CDLL(adapter("onnxruntime_provider")).CreateEpFactories and adapter("onnxruntime_provider").startswith(sys.prefix)
for folder in tenon.include_dir(), tenon.cmake_dir():
    assert folder.startswith(sys.prefix), folder
"""
ZOO = os.path.join(ROOT, ".venv-zoo", "bin", "python")  # has PyTorch
PURELIB = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
DEVICE = """
import torch, tenon.torch.device as td
from tenon.torch.device import build
x = torch.randn(2, 3)
try:
    td.enable("sim")
    y = x.to("sim").t().sort().values  # sim compiles its kernels from C: sort has none
    assert torch.equal(y.cpu(), x.t().sort().values) and td.fallbacks() == {"aten::sort.values_stable": 1}, td.fallbacks()
    print("from", build.library().split("/")[-2])
except RuntimeError as error:
    print("RuntimeError:", error)
"""
NODE = """
import torch, tenon.torch
tenon.torch.register("core")
x = torch.ones(3, requires_grad=True)
y = torch.ops.core.exp(x)
y.sum().backward()
print("recorded by the node" if y.grad_fn.name() == "core::expBackward" and torch.equal(x.grad, y) else y.grad_fn)
"""
TENSORFLOW = os.path.join(ROOT, ".venv-tensorflow", "bin", "python")  # has TensorFlow
IN_TENSORFLOW = """
import sys
import tenon.tensorflow.device as td
kind = td.enable("sim")
import numpy as np, tensorflow as tf, tenon, tenon.tensorflow
assert tenon.__file__.startswith(sys.argv[2]), tenon.__file__
ops = tenon.tensorflow.register(sys.argv[1])
x = tf.constant([-1.0, 0.5, 2.0])
with tf.device("CPU:0"):
    for function in (ops.gelu, tf.function(ops.gelu), tf.function(ops.gelu, jit_compile=True)):
        np.testing.assert_allclose(function(x), tf.nn.gelu(x), rtol=1e-5, atol=1e-6)
assert [d.name for d in tf.config.list_physical_devices(kind)] == ["/physical_device:SIM:0", "/physical_device:SIM:1"]
with tf.device(kind + ":0"), td.counting() as counts:
    np.testing.assert_allclose(tf.nn.softmax(x + x), tf.nn.softmax(2 * x).numpy(), rtol=1e-5)
assert counts[kind]["Softmax"], counts
print("works in TensorFlow", tf.__version__)
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


def has_turn(version):
    """Returns whether this run takes that Python."""
    return totals.THIRD in (None, str(VERSIONS.index(version) % 3)) or version == "%d.%d" % sys.version_info[:2]


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


def holds_the_parts_for_pytorch(wheel):
    """Returns whether the wheel has the sources of the device and of the autograd node for PyTorch, and the headers that they are compiled against."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"tenon/share/{part}/{os.path.basename(f)}" for part in ("torch_device", "torch_autograd") for f in glob.glob(os.path.join(ROOT, "bridges", part, "*.*"))}
    expected = sources | {"tenon/include/tenon/tenon.h", "tenon/include/tenon/torch.h", "tenon/torch/device/__init__.py", "tenon/torch/device/build.py"}
    if missing := expected - names:
        print(f"FAIL: the wheel lacks {', '.join(sorted(missing))}")
    return not missing


def build_part(folder):
    """Writes the wheel with the C++ part of devices in PyTorch to a folder."""
    cache = os.environ.get("TENON_CACHE", os.path.join(BUILD, "cache"))
    print(run(ZOO, os.path.join(ROOT, "scripts", "torch_wheel.py"), folder, env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "TENON_CACHE": cache}).splitlines()[-1])


def device_without_compiler(wheel, folder):
    """Returns whether the extra `torch` lets a device of PyTorch work where there is no compiler, and whether its lack is told."""
    try:
        build_part(os.path.dirname(wheel))
        run(ZOO, "-m", "venv", "--without-pip", os.path.join(folder, "device"))
        python = os.path.join(folder, "device", "bin", "python")
        with open(os.path.join(run(python, "-c", PURELIB).strip(), "zoo.pth"), "w", encoding="utf-8") as file:
            file.write(run(ZOO, "-c", PURELIB))  # PyTorch and what it requires, and pip
        pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
        run(*pip, "install", "--no-index", "--find-links", os.path.dirname(wheel), "libtenon[torch]")
        nothing = {"PATH": os.path.join(folder, "no-such-folder"), "HOME": folder, "TENON_CACHE": os.path.join(folder, "device", "cache")}

        def says(words, **more):
            said = run(python, "-c", DEVICE, cwd=folder, env={**nothing, **more})
            assert words in said, said
        says("from libtenon_torch\n")
        says("from libtenon_torch\n", CXX="/nonexistent/c++")
        assert "recorded by the node" in run(python, "-c", NODE, cwd=folder, env=nothing), "the autograd node of the package was not used"
        assert not os.path.exists(nothing["TENON_CACHE"]), "something was compiled"
        run(*pip, "uninstall", "-y", "libtenon-torch")
        says("RuntimeError: a Tenon device in PyTorch needs a C++ compiler once")
        says("/nonexistent/c++ was not found: install one (Debian: apt install g++), or set CXX; for PyTorch 2.13, pip install 'libtenon[torch]' installs",
             CXX="/nonexistent/c++")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"FAIL the device in PyTorch without a compiler: {error}")
        return False
    return True


def in_tensorflow(wheel, library, folder):
    """Returns whether the wheel works with the TensorFlow that the tests have, and says what is missing if files of it are."""
    try:
        site = os.path.join(folder, "tensorflow")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        env = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": site, "TF_CPP_MIN_LOG_LEVEL": "2"}  # sim compiles its kernels
        print("the wheel", run(TENSORFLOW, "-c", IN_TENSORFLOW, library, site, cwd=folder, env=env).strip().splitlines()[-1])
        use = "import tenon.tensorflow\ntry:\n    tenon.tensorflow.register('core')\nexcept Exception as error:\n    print(type(error).__name__, error)"
        os.remove(os.path.join(site, "tenon", "lib", "libtenon_tensorflow.so"))
        said = run(TENSORFLOW, "-c", use, cwd=folder, env=env)
        assert re.search("NotFoundError libtenon_tensorflow.so was not found in .*: reinstall Tenon", said), said
        for module in glob.glob(os.path.join(site, "tenon", "_core*.so")):
            os.remove(module)
        said = subprocess.run([TENSORFLOW, "-c", use], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False).stderr
        assert re.search("ImportError: .*_core.* reinstall Tenon", said), said
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"FAIL the wheel with TensorFlow: {error}")
        return False
    return True


def lacks_pytorch():
    """Says why the wheel of the device in PyTorch cannot be made; "" if it can."""
    if not os.path.exists(ZOO):
        return ".venv-zoo is missing (make test makes it)"
    return "" if shutil.which(os.environ.get("CXX", "c++")) else "there is no compiler for C++"


def main():
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        wheel = build(sys.executable, os.path.join(folder, "wheel"))
        library = os.path.join(folder, "gelu.so")
        run(os.path.join(BUILD, "tenon"), "build", os.path.join(ROOT, "examples/01_gelu/gelu.c"), "-o", library)
        found = pythons()
        here = {version: program for version, program in found.items() if has_turn(version)}
        device = None if lacks_pytorch() else pool.submit(device_without_compiler, wheel, folder)
        good = [holds_the_parts_for_pytorch(wheel), *pool.map(lambda item: in_python(*item, wheel, library, folder), here.items())]
        if os.path.exists(TENSORFLOW):
            good.append(in_tensorflow(wheel, library, folder))
        if device:
            good.append(device.result())
    for version in VERSIONS:
        if version not in here:
            why = "it is the turn of others (make test-wheel runs all)" if version in found else f"there is no python{version} here"
            print(f"skipped: the wheel in Python {version}: {why}")
    if not os.path.exists(TENSORFLOW):
        print("skipped: the wheel with TensorFlow: .venv-tensorflow is missing (make test makes it)")
    if not device:
        print(f"skipped: the wheel of the device in PyTorch: {lacks_pytorch()}")
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, {len(VERSIONS) - len(here) + (not device) + (not os.path.exists(TENSORFLOW))} skipped")
    return not all(good) or not good


if __name__ == "__main__":
    sys.exit(main())
