"""The guides of docs/guides as a reader follows them: each in a fresh folder, block by block. Blocks are files (the line before has the file's
name in code and a colon), shell commands ($) with their output, and one Python session (>>>). The output must equal the output shown; `...`
stands for text that differs from run to run. Run with .venv-zoo's Python; the guides for JAX and TensorFlow run with their own."""
import doctest
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import mxnet_oracle
import totals

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
GUIDES = os.path.join(ROOT, "docs", "guides")
NAMES = "first-operator-from-python", "from-torch-library", "from-cpp-extension", "from-an-onnxruntime-custom-op", "from-mxnet", "one-file-for-a-model", "compile-a-model-with-your-operator", "from-an-xla-ffi-handler", "from-a-tensorflow-operator", "device-in-pytorch", "tvm-ffi-and-tenon"
ENVIRONMENTS = {"from-an-onnxruntime-custom-op": ".venv", "from-an-xla-ffi-handler": ".venv-jax", "from-a-tensorflow-operator": ".venv-tensorflow", "tvm-ffi-and-tenon": ".venv-tvm-ffi-0.1.15"}  # of guides that .venv-zoo cannot follow
CHECKER = doctest.OutputChecker()


def text_of(name):
    with open(os.path.join(GUIDES, name + ".md"), encoding="utf-8") as file:
        return file.read()


def blocks_of(text):
    """[(line, language, name of the file or None, content)]"""
    lines, found, at = text.split("\n"), [], 0
    while at < len(lines):
        fence = re.match(r"```(\w*)$", lines[at])
        if not fence:
            at += 1
            continue
        end = lines.index("```", at + 1)
        before = next(line for line in reversed(lines[:at]) if line.strip())
        file = re.search(r"`([\w.]+)`:$", before)
        found.append((at + 1, fence[1], file and file[1], "\n".join(lines[at + 1:end]) + "\n"))
        at = end + 1
    return found


def files_of(text):
    return {name: content for _, _, name, content in blocks_of(text) if name}


def check(where, command, expected, found):
    expected, found = ("\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n" for text in (expected, found))
    if not CHECKER.check_output(expected, found, doctest.ELLIPSIS):
        sys.exit(f"{where}: {command}\nshown:\n{expected}\nfound:\n{found}")


def run_commands(where, content):
    """The lines after `$ command` are its expected output; without such lines the command only has to succeed."""
    for part in re.split(r"^\$ ", content, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        run = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if not expected and run.returncode:
            sys.exit(f"{where}: {command}: status {run.returncode}\n{run.stdout}")
        if expected:
            check(where, command, expected, run.stdout)


def follow(name):
    """Follows a guide in the current folder; this process is the guide's Python session."""
    session, parser, counts = {"__name__": "__main__"}, doctest.DocTestParser(), {"files": 0, "commands": 0, "examples": 0}
    sys.path.insert(0, os.getcwd())
    for line, language, file, content in blocks_of(text_of(name)):
        where = f"docs/guides/{name}.md:{line}"
        if file:
            with open(file, "w", encoding="utf-8") as out:
                out.write(content)
            counts["files"] += 1
        elif language == "console":
            run_commands(where, content)
            counts["commands"] += content.count("\n$ ") + 1
        elif language == "pycon":
            test = parser.get_doctest(content, session, where, name, line)
            if doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, clear_globs=False).failed:
                sys.exit(1)
            session.update(test.globs)
            counts["examples"] += len(test.examples)
        else:
            sys.exit(f"{where}: a block that is neither a file nor `console` nor `pycon`")
    print(" ".join(f"{count} {what}" for what, count in counts.items()))


def python_of(name):
    return os.path.join(ROOT, ENVIRONMENTS[name], "bin", "python") if name in ENVIRONMENTS else sys.executable


def lacking(name):
    """Says what a guide needs that this machine does not have; None if it can be followed."""
    if name == "from-mxnet" and not mxnet_oracle.python():
        return "MXNet 1.9 is not there: make test-mxnet makes .venv-mxnet-1.9"
    if not os.path.exists(python_of(name)):
        return f"{ENVIRONMENTS[name]} is missing (make test makes it)"
    if name in ENVIRONMENTS and not shutil.which("c++"):
        return "there is no compiler for C++"
    return None


def start(name):
    """Starts a process that follows a guide in a folder of its own, where python3 is the Python that the guide needs."""
    python = python_of(name)
    folder = tempfile.mkdtemp(prefix="tenon-guide-")
    binaries, work = os.path.join(folder, "bin"), os.path.join(folder, "work")
    os.mkdir(binaries), os.mkdir(work)
    for called, path in {"python3": python, "mxnet-python": mxnet_oracle.python()}.items():  # no links: Python finds a virtual environment by the folder of its program
        with open(os.path.join(binaries, called), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{path}" "$@"\n')
        os.chmod(os.path.join(binaries, called), 0o755)
    environment = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"), "PATH": os.pathsep.join([binaries, BUILD, os.environ["PATH"]]), "TENON_CACHE": os.path.join(folder, "cache"),
                   "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTHONUNBUFFERED": "1",
                   "JAX_TRACEBACK_FILTERING": "off",  # whose notes doctest takes for the message in some releases of Python
                   "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",  # TensorFlow logs nothing when it starts
                   "CXXFLAGS": "-O0 -g0",  # for setup.py: halves the time
                   "MXNET": mxnet_oracle.package() or "", "TENON": ROOT}
    if name == "device-in-pytorch":  # its C++ part takes a minute to compile, and is tested by itself
        environment["TENON_CACHE"] = os.environ.get("TENON_CACHE", os.path.join(BUILD, "cache"))
    log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
    return folder, log, subprocess.Popen([python, os.path.abspath(__file__), "--follow", name], cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


class Guides(unittest.TestCase):
    """Both sources of a guide run there, with the same check: they print the same."""

    @classmethod
    def setUpClass(cls):
        cls.running = {name: start(name) for name in NAMES if not lacking(name)}

    @classmethod
    def tearDownClass(cls):
        for folder, log, process in cls.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            log.close()
            shutil.rmtree(folder)

    def follow(self, name):
        if lacking(name):
            self.skipTest(lacking(name))
        _, log, process = self.running[name]
        status = process.wait(timeout=600)
        log.seek(0)
        said = log.read()
        self.assertEqual(status, 0, said)
        for count in re.findall(r"(\d+) \w+", said.splitlines()[-1]):
            self.assertGreater(int(count), 0, said)  # a guide without one of these blocks was misread

    def test_first_operator_from_python(self):
        self.follow("first-operator-from-python")

    def test_from_torch_library(self):
        self.follow("from-torch-library")

    def test_from_cpp_extension(self):
        self.follow("from-cpp-extension")

    def test_from_an_onnxruntime_custom_op(self):
        self.follow("from-an-onnxruntime-custom-op")

    def test_from_mxnet(self):
        self.follow("from-mxnet")

    def test_one_file_for_a_model(self):
        self.follow("one-file-for-a-model")

    def test_compile_a_model_with_your_operator(self):
        self.follow("compile-a-model-with-your-operator")

    def test_from_an_xla_ffi_handler(self):
        self.follow("from-an-xla-ffi-handler")

    def test_from_a_tensorflow_operator(self):
        self.follow("from-a-tensorflow-operator")

    def test_every_guide_has_a_test(self):
        self.assertEqual(sorted(NAMES), sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(GUIDES, "*.md"))))

    def test_the_same_file_is_the_same_in_each(self):
        seen = {}
        for name in NAMES:
            for file, content in files_of(text_of(name)).items():
                if file in ("swiglu.c", "check.py", "model.py"):
                    self.assertEqual(seen.setdefault(file, content), content, f"{file} of {name}")
        self.assertEqual(len(seen), 3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--follow"]:
        follow(sys.argv[2])
    else:
        totals.main()
