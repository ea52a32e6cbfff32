"""Finds a C++ part for the release of PyTorch that runs: prebuilt in the package libtenon-torch, or compiled once and kept in Tenon's cache.

A part is a folder of bridges: torch_device, or torch_autograd for the autograd node.  A library has no run path: libtenon and the libraries of
PyTorch are in the process already when it is opened.
"""
import atexit
import concurrent.futures
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import torch

from ... import _core

TESTED = "2.13"  # the release of PyTorch for which the C++ part is written; older ones cannot compile it
PACKAGE = "libtenon_torch"  # has the prebuilt libraries (scripts/torch_wheel.py)
_PARTS = {"torch_device": "a Tenon device in PyTorch", "torch_autograd": "Tenon's autograd node for PyTorch"}
_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-missing-field-initializers",
          "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]  # as cmake/TenonHarden.cmake
_LINK_FLAGS = ["-shared", "-Wl,-z,relro,-z,now"]
_SHOWN = 8  # lines of a compiler's output in an error message


def _numbers(version):
    """Returns (2, 13) of "2.13.0+cpu"."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def check_release(part="torch_device"):
    """Raises RuntimeError if this PyTorch is too old for the C++ part."""
    if _numbers(torch.__version__) < _numbers(TESTED):
        raise RuntimeError(f"{_PARTS[part]} needs PyTorch {TESTED}, and PyTorch {torch.__version__} was found, whose C++ interface "
                           f"differs: install PyTorch {TESTED} (pip install 'torch=={TESTED}.*'); tenon.torch.register works with older releases, too")


def library(part="torch_device", compiles=True):
    """Returns the path of the library of a part, which is compiled if it is neither prebuilt nor in the cache.

    compiles: if False, returns None instead of compiling.

    Raises RuntimeError with what to do if there is none, and tenon.DeniedError if the rules for loading refuse it.
    """
    check_release(part)
    libtenon = _libtenon()
    folder, headers = _folders(part)
    path = _prebuilt(part)
    if path is None:
        if not compiles and os.environ.get("TENON_CACHE") == "off":
            return None
        path = os.path.join(_cache(compiles), f"{part}-{torch.__version__}-{_key(folder, headers, torch.__version__, _root())}.so")
        if not _is_own(path) and not compiles:
            return None
        if not _is_own(path):
            with _one_process(os.path.dirname(path), part):
                if not _is_own(path):
                    _build(part, path, folder, headers, libtenon)
    _core.check_policy(os.fsencode(path))
    return path


def _key(folder, headers, *more):
    """Returns what tells a library for this PyTorch and this Tenon from all others."""
    digest = hashlib.sha256()
    for path in _sources(folder) + sorted(os.path.join(folder, f) for folder, _, files in os.walk(headers) for f in files if f.endswith(".h")):
        with open(path, "rb") as file:
            digest.update(file.read())
    # git_version tells builds of one release from builds of changed sources; the build for CPUs and that for CUDA have the same one.
    pytorch = (release(), torch.version.git_version, torch._C._GLIBCXX_USE_CXX11_ABI)
    digest.update(repr((pytorch, platform.machine(), _FLAGS, _LINK_FLAGS, more)).encode())
    return digest.hexdigest()[:16]


def release():
    """Returns "2.13.0" of PyTorch 2.13.0+cpu."""
    return torch.__version__.split("+")[0]


def _sources(folder):
    return [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.endswith((".cc", ".h"))]


def _root():
    return os.path.dirname(torch.__file__)


def _folders(part):
    """Returns the folders of the sources of a part and of Tenon's headers."""
    here = os.path.dirname(os.path.realpath(__file__))
    package, tree = os.path.normpath(os.path.join(here, "..", "..")), os.path.normpath(os.path.join(here, *[os.pardir] * 4))
    places = [(os.path.join(package, "share", part), os.path.join(package, "include")),  # a wheel
              (os.path.join(tree, "bridges", part), os.path.join(tree, "include"))]  # a source tree
    found = next((p for p in places if all(map(os.path.isdir, p))), None)
    if found is None:
        raise RuntimeError(f"the sources of {_PARTS[part]} were not found in {' or '.join(p[0] for p in places)}: reinstall Tenon")
    return found


def _libtenon():
    """Returns the path of the libtenon that this process uses."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/libtenon.so" in line]
    if not paths:
        raise RuntimeError("libtenon.so is not loaded in this process: import tenon first")
    removed = " (deleted)"  # what the system appends
    if paths[0].endswith(removed) and not os.path.exists(paths[0]):
        raise RuntimeError(f"{paths[0][:-len(removed)]} was replaced or removed after this process had loaded it, so the files of Tenon beside it do not fit "
                           "this process: restart the process (after an upgrade), or reinstall Tenon")
    return paths[0]


# The prebuilt library

def prebuilt_name(part="torch_device"):
    """Returns the name of a prebuilt library for this PyTorch and this Tenon."""
    return f"{part}-{release()}-{_key(*_folders(part))}.so"


def _prebuilt_folders():
    spec = importlib.util.find_spec(PACKAGE)
    return list(spec.submodule_search_locations or ()) if spec else []


def _prebuilt(part):
    """Returns the path of the prebuilt library for this PyTorch and this Tenon; None if there is none."""
    paths = [os.path.join(folder, prebuilt_name(part)) for folder in _prebuilt_folders()]
    return next(filter(os.path.exists, paths), None)


def _misfit(part):
    """Says why the installed package does not fit; "" if there is none."""
    files = [name for folder in _prebuilt_folders() for name in sorted(os.listdir(folder)) if name.startswith(f"{part}-")]
    if not files:
        return ""
    built = files[0].split("-")[1]
    return f"the installed package libtenon-torch is for {f'PyTorch {built}' if built != release() else 'another build of Tenon or of PyTorch'}"


# The cache

def _cache(is_made=True):
    """Returns the folder of the cache; with TENON_CACHE=off, a folder that the process removes at its end."""
    if os.environ.get("TENON_CACHE") == "off":
        folder = tempfile.mkdtemp(prefix="tenon-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    folder = os.environ.get("TENON_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tenon")
    if is_made:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _is_own(path):
    """Is there a file that nobody else can have written?"""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


@contextlib.contextmanager
def _one_process(folder, part):
    """Lets one process at a time compile: those of a distributed job start together."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"tenon: waiting for a process that compiles {_PARTS[part]}", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some file systems have no locks: then each process compiles
            pass
        yield
    finally:
        os.close(handle)


# Compiling

class _Failed(Exception):
    """A command that failed: what it was for, and its output."""

    def __init__(self, command, what, status, output):
        super().__init__(what)
        self.command, self.what, self.status, self.output = command, what, status, output


def _compiler(part):
    wanted = os.environ.get("CXX")
    candidates = [wanted] if wanted else ["c++", "g++", "clang++"]
    for candidate in candidates:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return words
    prebuilt = _misfit(part)
    if not prebuilt and _numbers(torch.__version__) == _numbers(TESTED):
        prebuilt = f"for PyTorch {TESTED}, pip install 'libtenon[torch]' installs the library prebuilt"
    raise RuntimeError(f"{_PARTS[part]} needs a C++ compiler once, because PyTorch has no C interface for it, and {' or '.join(candidates)} was not "
                       f"found: install one (Debian: apt install g++), or set CXX{'; ' * bool(prebuilt)}{prebuilt}")


def _run(command, what):
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise _Failed(command, what, done.returncode, (done.stderr + done.stdout).decode(errors="replace"))


def _build(part, path, folder, headers, libtenon):
    compiler = _compiler(part)
    reason = _misfit(part)
    print(f"tenon: compiling {_PARTS[part]} {torch.__version__}, once (a minute or two){': ' * bool(reason)}{reason}", file=sys.stderr, flush=True)
    try:
        _compile(path, compiler, _sources(folder), headers, libtenon)
    except _Failed as failure:
        raise RuntimeError(_words(failure, path)) from None


def _compile(path, compiler, sources, headers, libtenon):
    include = os.path.join(_root(), "include")
    flags = [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-I{headers}",
             "-isystem", include, "-isystem", os.path.join(include, "torch", "csrc", "api", "include")]
    with tempfile.TemporaryDirectory(prefix="tenon-") as folder:
        units = [s for s in sources if s.endswith(".cc")]
        objects = [os.path.join(folder, os.path.basename(u) + ".o") for u in units]
        pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        try:
            for job in [pool.submit(_run, [*compiler, *flags, "-c", u, "-o", o], f"compiling {os.path.basename(u)}") for u, o in zip(units, objects)]:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)
        part = f"{path}.{os.getpid()}"
        _run([*compiler, *_LINK_FLAGS, *objects, "-o", part, libtenon, f"-L{os.path.join(_root(), 'lib')}", "-ltorch", "-ltorch_cpu", "-lc10"], "linking")
        os.chmod(part, 0o755)  # whatever the umask is: _is_own
        os.replace(part, path)


def _words(failure, path):
    """Returns the message about a failure, and writes the whole output to a file."""
    log = _write_log(path, f"{shlex.join(failure.command)}\n{failure.output}")
    lines = failure.output.splitlines()
    errors = [n for n, line in enumerate(lines) if re.search(r"\berror: |undefined reference|cannot find", line)]
    first = errors[0] if errors else 0
    shown = "\n".join(line[:300] for line in lines[first:first + _SHOWN])
    newer = ""
    if _numbers(torch.__version__) > _numbers(TESTED):
        newer = f". This PyTorch is newer than {TESTED}, the release that this Tenon was tested with: install PyTorch {TESTED}, or a newer Tenon"
    return (f"{failure.what} failed for PyTorch {torch.__version__}, with exit status {failure.status}{newer}. The first error, of {len(lines)} lines of output in "
            f"{log}:\n{shown}")


def _write_log(path, text):
    """Writes a log beside the library, or, with TENON_CACHE=off, to a file that stays.  Returns its path."""
    if os.environ.get("TENON_CACHE") == "off":
        handle, log = tempfile.mkstemp(prefix=f"tenon-{os.path.basename(path).split('-')[0]}-", suffix=".log")
        part = log
    else:
        log = path[:-len(".so")] + ".log"
        handle, part = tempfile.mkstemp(prefix=os.path.basename(log), dir=os.path.dirname(log))
    with open(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(part, log)
    return log
