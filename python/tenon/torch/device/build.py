"""Builds the C++ part for the release of PyTorch that runs, once; it is kept in Tenon's cache."""
import atexit
import concurrent.futures
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import torch

_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-missing-field-initializers"]


def _folders():
    """Returns the folders of the sources and of Tenon's headers."""
    here = os.path.dirname(os.path.realpath(__file__))
    package, tree = os.path.normpath(os.path.join(here, "..", "..")), os.path.normpath(os.path.join(here, *[os.pardir] * 4))
    places = [(os.path.join(package, "share", "torch_device"), os.path.join(package, "include")),  # a wheel
              (os.path.join(tree, "bridges", "torch_device"), os.path.join(tree, "include"))]  # a source tree
    found = next((p for p in places if all(map(os.path.isdir, p))), None)
    if found is None:
        raise RuntimeError(f"the sources of the PyTorch device were not found in {' or '.join(p[0] for p in places)}: reinstall Tenon")
    return found


def _compiler():
    wanted = os.environ.get("CXX")
    candidates = [wanted] if wanted else ["c++", "g++", "clang++"]
    for candidate in candidates:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return words
    raise RuntimeError(f"a device of PyTorch needs a C++ compiler once, because PyTorch has no C interface for devices, and {' or '.join(candidates)} was not "
                       "found: install one (Debian: apt install g++), or set CXX")


def _cache():
    """Returns the folder of the cache; with TENON_CACHE=off, a folder that the process removes at its end."""
    if os.environ.get("TENON_CACHE") == "off":
        folder = tempfile.mkdtemp(prefix="tenon-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    folder = os.environ.get("TENON_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tenon")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _is_own(path):
    """Is there a file that nobody else can have written?"""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _libtenon():
    """Returns the path of the libtenon that this process uses."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = [line.split(maxsplit=5)[5].strip() for line in maps if "/libtenon.so" in line]
    if not paths:
        raise RuntimeError("libtenon.so is not loaded in this process: import tenon first")
    return paths[0]


def _run(command, what):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} failed for PyTorch {torch.__version__}, with exit status {done.returncode}: {shlex.join(command)}\n{done.stderr[-4000:]}")


def library():
    """Returns the path of the library, which is built if the cache does not have it."""
    folder, headers = _folders()
    sources = [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.endswith((".cc", ".h"))]
    libtenon, root = _libtenon(), os.path.dirname(torch.__file__)
    key = hashlib.sha256()
    included = sorted(os.path.join(folder, f) for folder, _, files in os.walk(headers) for f in files)
    for path in sources + included:
        with open(path, "rb") as file:
            key.update(file.read())
    key.update(repr((torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI, libtenon, _FLAGS, root)).encode())
    path = os.path.join(_cache(), f"torch_device-{torch.__version__}-{key.hexdigest()[:16]}.so")
    if not _is_own(path):
        _build(path, _compiler(), sources, headers, libtenon, root)
    return path


def _build(path, compiler, sources, headers, libtenon, root):
    print(f"tenon: compiling the device for PyTorch {torch.__version__}, once (a minute or two)", file=sys.stderr, flush=True)
    flags = [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-I{headers}",
             "-isystem", os.path.join(root, "include"), "-isystem", os.path.join(root, "include", "torch", "csrc", "api", "include")]
    with tempfile.TemporaryDirectory(prefix="tenon-") as folder:
        units = [s for s in sources if s.endswith(".cc")]
        objects = [os.path.join(folder, os.path.basename(u) + ".o") for u in units]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for job in [pool.submit(_run, [*compiler, *flags, "-c", u, "-o", o], f"compiling {os.path.basename(u)}") for u, o in zip(units, objects)]:
                job.result()
        part = f"{path}.{os.getpid()}"
        _run([*compiler, "-shared", *objects, "-o", part, libtenon, f"-Wl,-rpath,{os.path.dirname(libtenon)}", f"-L{os.path.join(root, 'lib')}",
              "-ltorch", "-ltorch_cpu", "-lc10"], "linking")
        os.chmod(part, 0o755)  # whatever the umask is: _is_own
        os.replace(part, path)
