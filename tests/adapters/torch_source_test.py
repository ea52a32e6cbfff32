"""PyTorch's own test_torch.py, test_ops.py, test_view_ops.py and test_indexing.py on a Tenon device.

    torch_source_test.py [FILE] [PATTERN]      only that file (test_indexing), and tests whose names contain PATTERN

TORCH_SOURCE names a checkout of PyTorch, or a folder with the files.  TORCH_SOURCE_SHARE=2/25 takes every 25th test of
each file, from the third on.  TORCH_SOURCE_CUDA=1 runs the tests that are restricted to CUDA, too: those that need CUDA
itself then fail.  TORCH_SOURCE_LOG=FILE keeps the result of each test, one line of JSON each, and TORCH_SOURCE_LIMIT is
the time limit of one test in seconds.

Each test runs on the device and on the CPU, because the files of another release than the PyTorch that runs contain
tests that fail on the CPU, too.  Those do not count.  A worker process for each of both runs the tests one after the
other, so that a crash or a hang is the finding of one test.  Results of the CPU are kept in the build folder.  The
exit status is 0 if no test fails except those that torch_source_known.txt lists with the reason.
"""
import fnmatch
import hashlib
import importlib.util
import io
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SOURCE = os.environ.get("TORCH_SOURCE", "") and os.path.abspath(os.environ["TORCH_SOURCE"])
DEVICE = os.environ.get("TORCH_SOURCE_DEVICE", "sim")
LIMIT = float(os.environ.get("TORCH_SOURCE_LIMIT", "300"))
FILES = ("test_indexing", "test_view_ops", "test_torch", "test_ops")
WORK = os.path.join(BUILD, "torch-source")


# ---- the worker --------------------------------------------------------------------------------

def add_old_names():
    """Restores the helpers that files of older releases import and that PyTorch has moved or removed since."""
    from torch.testing._internal import common_cuda, common_device_type, common_methods_invocations, common_utils
    if not hasattr(common_methods_invocations, "skipOps"):
        common_methods_invocations.skip, common_methods_invocations.xfail = common_device_type.skip, common_device_type.xfail
        common_methods_invocations.skipOps = lambda *arguments: common_device_type.skipOps(arguments[-1])  # without the names of class and test
    if not hasattr(common_utils, "skipIfMps"):
        common_utils.skipIfMps = common_utils.skipIfMPS
    if not hasattr(common_cuda, "tf32_is_not_fp32"):
        common_cuda.tf32_is_not_fp32 = lambda: False


def tests_of(path, device):
    """Returns the tests that the file makes for the device: {name with the device as DEVICE: (class, method)}."""
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.argv = [path]  # PyTorch's helpers read the arguments of the program
    spec.loader.exec_module(module)
    from torch.testing._internal import common_device_type
    base = common_device_type.CPUTestBase if device == "cpu" else common_device_type.PrivateUse1TestBase
    found, suffix = {}, re.compile(rf"(CPU|PRIVATEUSE1|{device.upper()})$")  # the first class for a device, and the others
    for name, item in vars(module).items():
        if not isinstance(item, type) or not issubclass(item, base) or item is base:
            continue
        for method in unittest.defaultTestLoader.getTestCaseNames(item):
            generic = re.sub(rf"_{device}(?=_|$)(?!.*_{device}(?=_|$))", "_DEVICE", method)
            found[f"{suffix.sub('', name)}.{generic}"] = (item, method)
    return found


class Result(unittest.TestResult):
    """The result of one test: passed, failed or skipped, and why."""

    def __init__(self):
        super().__init__()
        self.outcome, self.why = "passed", ""

    def note(self, outcome, why):
        if self.outcome != "failed":
            self.outcome, self.why = outcome, why

    def addError(self, test, err):
        super().addError(test, err)
        text = "".join(traceback.format_exception(*err))
        self.note("failed", text if len(text) < 6000 else text[:2500] + "\n...\n" + text[-3500:])
    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            self.addError(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note("skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note("failed", "unexpected success: PyTorch expects this test to fail")


def worker(device, path):
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the tests print
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device
    import torch
    torch.set_num_threads(1)
    if device != "cpu":
        import tenon.torch.device as td
        td.enable(device)
    add_old_names()
    from torch.testing._internal.common_device_type import PrivateUse1TestBase
    PrivateUse1TestBase.bypass_device_restrictions = bool(os.environ.get("TORCH_SOURCE_CUDA"))
    tests = tests_of(path, device)
    print(json.dumps(sorted(tests)), file=answers, flush=True)
    for line in sys.stdin:
        case, method = tests[line.strip()]
        result, start = Result(), time.monotonic()
        sys.stdout = sys.stderr = io.StringIO()
        try:
            unittest.TestSuite([case(method)]).run(result)
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        print(json.dumps({"outcome": result.outcome, "why": result.why, "seconds": round(time.monotonic() - start, 2)}), file=answers, flush=True)


class Worker:
    """A worker process, which is started when it is needed, and anew after a crash or a hang."""

    def __init__(self, device, path):
        self.device, self.path, self.process = device, path, None
        self.log = os.path.join(WORK, f"worker-{device}-{os.getpid()}.log")

    def start(self):
        environment = {"TENON_SIM": "memory=8589934592", **os.environ, "OMP_NUM_THREADS": "1",  # enough memory for the large tensors of these tests
                       "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), os.environ.get("PYTHONPATH", "")])}
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", self.device, self.path], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True)
        line = self.read(600)
        if not line:
            self.stop()
            raise RuntimeError(f"{self.path} cannot be read as tests on {self.device}:\n{self.end_of_log()}")
        return json.loads(line)

    def read(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline() if ready else None

    def end_of_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def run(self, name):
        if self.process is not None and self.process.poll() is not None:
            self.stop()  # it ended after its last answer
        if self.process is None:
            self.start()
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.read(LIMIT)
        if line:
            return json.loads(line)
        why = f"the test did not end within {LIMIT:.0f} s" if line is None else f"the process ended with {self.process.wait()}\n{self.end_of_log()}"
        self.stop()
        return {"outcome": "failed", "why": why, "seconds": 0}

    def stop(self):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the processes that its tests started
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None


# ---- the run -----------------------------------------------------------------------------------

class CpuResults:
    """The outcomes on the CPU of the tests of one file, which a file in the build folder keeps."""

    def __init__(self, path, version):
        with open(path, "rb") as file:
            key = hashlib.sha256(file.read() + version.encode()).hexdigest()[:16]
        self.path, self.known = os.path.join(WORK, f"cpu-{os.path.basename(path)[:-3]}-{key}.jsonl"), {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    name, outcome, why = json.loads(line)
                    self.known[name] = {"outcome": outcome, "why": why}

    def add(self, name, result):
        self.known[name] = result
        if result["why"].startswith("the test did not end"):
            return  # that depends on what else runs
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([name, result["outcome"], result["why"][-1000:]]) + "\n")


def read_known():
    """Returns the failures that torch_source_known.txt lists: [(pattern, reason)]."""
    found, reason = [], ""
    with open(os.path.join(HERE, "torch_source_known.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("[") and line.rstrip().endswith("]"):
                reason = line.strip()[1:-1]
            elif line.strip() and not line.startswith("#"):
                found.append((line.strip(), reason))
    return found


def run_file(name, pattern, share, version, log):
    """Runs the tests of one file. Returns a list of (test, outcome on the device, outcome on the CPU, why)."""
    path = next((p for p in (os.path.join(SOURCE, "test", f"{name}.py"), os.path.join(SOURCE, f"{name}.py")) if os.path.exists(p)), None)
    if path is None:
        print(f"{name}: {SOURCE} has no test/{name}.py")
        return None
    device, cpu, results = Worker(DEVICE, path), Worker("cpu", path), CpuResults(path, version)
    try:
        tests, on_cpu = [t for t in device.start() if pattern in t], set(cpu.start())
    except RuntimeError as error:
        print(error)
        device.stop()
        return None
    if share:
        index, count = map(int, share.split("/"))
        tests = tests[index % count::count]
    waiting, found = queue.Queue(), {}

    def run_on_cpu():
        while (test := waiting.get()) is not None:
            results.add(test, cpu.run(test))

    thread = threading.Thread(target=run_on_cpu)
    thread.start()
    start = told = time.monotonic()
    try:
        for i, test in enumerate(tests):
            found[test] = device.run(test)
            if found[test]["outcome"] != "skipped" and test in on_cpu and test not in results.known:
                waiting.put(test)
            log.write(json.dumps({"file": name, "test": test, **found[test]}) + "\n")
            log.flush()
            if time.monotonic() - told > 60:
                told = time.monotonic()
                bad = sum(r["outcome"] == "failed" for r in found.values())
                print(f"{name}: {i + 1} of {len(tests)} tests in {told - start:.0f} s, {bad} failed so far on {DEVICE}", file=sys.stderr, flush=True)
    finally:
        waiting.put(None)
        thread.join()
        device.stop()
        cpu.stop()
    return [(t, r["outcome"], results.known.get(t, {}).get("outcome", "none") if t in on_cpu else "none", r["why"]) for t, r in found.items()]


def summary_of(why):
    """Returns one line of a traceback that says what went wrong."""
    lines = [line for line in why.strip().split("\n") if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Failure)\b", line)]
    return (errors[-1] if errors else lines[-1] if lines else "")[:200]


def report(name, results, known):
    """Prints what happened in one file. Returns the numbers (passed, unexpectedly failed, known to fail, skipped)."""
    counted = [r for r in results if r[1] != "skipped" and r[2] != "failed"]
    passed = sum(outcome == "passed" for _, outcome, _, _ in counted)
    other = sum(r[1] != "skipped" and r[2] == "failed" for r in results)
    skipped = sum(r[1] == "skipped" for r in results)
    expected, wrong = {}, 0
    for test, outcome, _, why in counted:
        if outcome == "passed":
            continue
        full = f"{name}.{test}"
        reason = next((reason for pattern, reason in known if fnmatch.fnmatchcase(full, pattern)), None)
        if reason:
            expected.setdefault(reason, []).append(test)
        else:
            wrong += 1
            print(f"failed: {full}: {summary_of(why)}")
    for reason, tests in expected.items():
        print(f"{name}: {len(tests)} fail as listed: {reason}")
    all_known = sum(map(len, expected.values()))
    print(f"{name}: {passed} of {len(counted)} passed ({100 * passed / max(1, len(counted)):.1f} % of those that are of this release), {wrong + all_known} failed, "
          f"{skipped} skipped, {other} not of this release (they fail on the CPU)", flush=True)
    return passed, wrong, all_known, skipped


def main():
    if not SOURCE:
        print("skipped: TORCH_SOURCE names no checkout of PyTorch: make torch-source TORCH_SOURCE=DIR")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    import torch
    os.makedirs(WORK, exist_ok=True)
    arguments = sys.argv[1:]
    files = [arguments.pop(0).removesuffix(".py")] if arguments and arguments[0].removesuffix(".py") in FILES else FILES
    pattern, share = arguments[0] if arguments else "", os.environ.get("TORCH_SOURCE_SHARE", "")
    known, sums = read_known(), [0, 0, 0, 0]
    with open(os.environ.get("TORCH_SOURCE_LOG", os.devnull), "a", encoding="utf-8") as log:
        for name in files:
            results = run_file(name, pattern, share, torch.__version__, log)
            numbers = (0, 1, 0, 0) if results is None else report(name, results, known)
            sums = [a + b for a, b in zip(sums, numbers, strict=True)]
    passed, wrong, all_known, skipped = sums
    print(f"{100 * passed / max(1, passed + wrong + all_known):.1f} % of the tests that are of this release passed; {all_known} failed as listed")
    print(f"{passed} passed, {wrong} failed, {skipped + all_known} skipped")
    return int(wrong > 0)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(*sys.argv[2:])
    else:
        sys.exit(main())
