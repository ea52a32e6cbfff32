"""Threads in a process with Python: runs go on while all other threads are held in a signal handler, signals do not harm runs, Tenon has no more
threads than were asked for, also beside other runtimes, bits are the same in each run on busy processors, and a process runs graphs after a fork.
tests/unit/base/pool_test.c tests the pool itself; here it runs whole graphs, with oneDNN's products, convolutions, pools and LSTMs, which start no
threads of their own. Each test runs in a process of its own, with a limit for those that would never end; no test depends on how fast a thread is."""
import collections
import contextlib
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(ROOT / "tests/adapters"), str(BUILD / "python")]
import totals  # noqa: E402

LIMIT = 120  # seconds; what takes longer hangs
SAMPLES = 1000
REPEATS = 1000
STOPPER = """
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int held, is_open;

static void rest(void) {
  const struct timespec time = {0, 200000};
  nanosleep(&time, NULL);
}

static void hold(int number) {
  const int before = errno;
  (void)number;
  held++;
  while (!is_open)
    rest();
  held--;
  errno = before;
}

/* Returns how many threads are now in the handler: all but the caller. */
int stop_others(void) {
  struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};
  const long self = syscall(SYS_gettid);
  int sent = 0;
  sigaction(SIGUSR1, &action, NULL);
  is_open = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
    const long id = atol(entry->d_name);
    if (id > 0 && id != self) sent += syscall(SYS_tgkill, getpid(), id, SIGUSR1) == 0;
  }
  if (folder) closedir(folder);
  while (held < sent)
    rest();
  return sent;
}

void let_go(void) {
  is_open = 1;
  while (held)
    rest();
}
"""

# A source kernel of which each group sums a share of x. Its result depends on the number of groups.
SHARES = """
#ifndef TENON_ON_DEVICE
#include <string.h>
#include <tenon/source.h>
#endif
TENON_SOURCE_3(add_shares, TENON_IN, float, x, TENON_OUT, float, sums, TENON_BY_VALUE, int64_t, n) {
  float sum = 0;
  TENON_EACH(i, n) { sum += x[i]; }
  sums[get_global_id(0)] = sum;
}
#ifndef TENON_ON_DEVICE
TENON_CODE(code, {"add_shares", add_shares})
static tenon_status_t shares_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n)};
  memset(call->outputs[0]->data, 0, (size_t)tenon_count(call->outputs[0]) * sizeof(float));
  return tenon_each(call, &code, 0, n, arguments, 3);
}
TENON_LIBRARY(shares, "1.0.0",
  TENON_OP("sums(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [n]; out: [256]"), TENON_SOURCE("f32", shares_run)))
#endif
"""

# ---- models; oneDNN's work is large enough to be cut into slices -----------------------------------------------------


def matmul(m):
    x = m.input([192, 320])
    return m.finish(m.node("Relu", m.node("Add", m.node("MatMul", x, m.constant(320, 500)), m.constant(500))), m.node("MatMul", x, m.input([320, 200])))


def convolution(m):
    x = m.node("Relu", m.node("Conv", m.input([2, 16, 40, 40]), m.constant(48, 16, 3, 3), m.constant(48), pads=[1, 1, 1, 1]))
    small = m.node("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return m.finish(m.node("Conv", small, m.constant(64, 48, 1, 1)), m.node("AveragePool", x, kernel_shape=[3, 3]))


def lstm(m):
    width = 192
    weights = m.constant(1, 4 * width, 160), m.constant(1, 4 * width, width), m.constant(1, 8 * width)
    return m.finish(*m.node("LSTM", m.input([6, 8, 160]), *weights, outputs=3, hidden_size=width))


def rows(m):
    x = m.input([400, 700])
    y = m.node("LayerNormalization", x, m.constant(700), m.constant(700))
    return m.finish(m.node("Softmax", x), m.node("Tanh", y), m.node("ReduceSum", y, keepdims=0), m.node("ReduceMean", x, m.constant(values=[0])))


def mixed(m):
    """The first DNN_OUTPUTS outputs are oneDNN's work alone."""
    x = m.input([48, 160])
    product = m.node("MatMul", x, m.constant(160, 320))
    image = m.node("Conv", m.input([1, 16, 24, 24]), m.constant(32, 16, 3, 3), pads=[1, 1, 1, 1])
    norm = m.node("LayerNormalization", product, m.constant(320), m.constant(320))
    return m.finish(product, image, m.node("Softmax", product), norm, m.node("ReduceSum", image, keepdims=0), m.node("ReduceSum", norm, m.constant(values=[0])))


DNN_OUTPUTS = 2
LARGE = (matmul, convolution, lstm, rows)


def write_models(folder):
    """Writes each model as NAME.onnx, and its inputs as NAME.npz."""
    import onnx
    from determinism_test import Model, inputs_of
    for index, kind in enumerate((*LARGE, mixed)):
        proto = kind(Model(np.random.default_rng(index)))
        onnx.save(proto, Path(folder, kind.__name__ + ".onnx"))
        np.savez(Path(folder, kind.__name__ + ".npz"), **inputs_of(proto, 1, np.random.default_rng(50 + index)))


class Graphs:
    """The compiled models of a folder, with their inputs."""
    def __init__(self, folder, kinds=LARGE):
        import tenon
        self.paths = [Path(folder, kind.__name__ + ".onnx") for kind in kinds]
        self.runs = [(tenon.graph.load(path).compile(), dict(np.load(path.with_suffix(".npz")))) for path in self.paths]

    def run(self):
        """Returns the bytes of all outputs."""
        found = [output for executable, inputs in self.runs for output in executable(**inputs)]
        assert all(np.isfinite(output).all() for output in found)
        return [output.tobytes() for output in found]


# ---- threads of a process --------------------------------------------------------------------------------------------


def tasks(process="self"):
    return {int(name) for name in os.listdir(f"/proc/{process}/task")}


def running(process="self"):
    """The threads that run, or would if a processor were free."""
    found = set()
    for task in tasks(process):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{process}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] == "R":
                found.add(task)
    return found


def wait_for_rest():
    """Waits until all other threads have slept for a while."""
    quiet, end = 0, time.monotonic() + LIMIT
    while quiet < 20 and time.monotonic() < end:
        quiet = 0 if running() - {threading.get_native_id()} else quiet + 1
        time.sleep(0.002)
    assert quiet == 20, "threads that have nothing to do run on"


def sample(process, count):
    """Program of its own: prints how often each thread was running, which threads there were, and the sets of those that ran at once."""
    often, seen, at_once = collections.Counter(), set(), set()
    for _ in range(count):
        now = running(process)
        seen |= tasks(process)
        often.update(now)
        at_once.add(tuple(sorted(now)))
    print(json.dumps({"often": dict(often), "seen": sorted(seen), "at_once": sorted(at_once)}))


@contextlib.contextmanager
def sampling():
    """Gives a function that tells whether samples are still being taken, and the samples, after that, in the list `out`."""
    sampler = subprocess.Popen([sys.executable, __file__, "sample", str(os.getpid()), str(SAMPLES)], stdout=subprocess.PIPE, text=True)
    out = []
    try:
        yield lambda: sampler.poll() is None, out
        out.append(json.loads(sampler.communicate(timeout=LIMIT)[0]))
    finally:
        sampler.kill()


# ---- what the processes of the tests do; each prints one JSON value --------------------------------------------------


def run_beside_stopped_threads(folder, stopper):
    library, before = ctypes.CDLL(stopper), tasks()
    graphs = Graphs(folder)
    first = graphs.run()
    started = tasks() - before
    wait_for_rest()  # a thread that has only just been started may be in the middle of malloc()
    found = []
    for _ in range(3):
        stopped = library.stop_others()
        assert stopped >= len(started), (stopped, started)
        found += [graphs.run() == first, Graphs(folder).run() == first]  # also packing and compiling
        library.let_go()
        found.append(graphs.run() == first)
    return {"started": len(started), "same": found}


def run_runtime(name, folder):
    """Runs another runtime on two threads, and returns what keeps its threads alive."""
    model, data = str(Path(folder, "matmul.onnx")), dict(np.load(Path(folder, "matmul.npz")))
    if name == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        session.run(None, data)
    elif name == "openvino":
        import openvino
        session = openvino.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 2})
        session(data)
    else:
        import torch
        torch.set_num_threads(2)
        session = torch.nn.Conv2d(16, 64, 3)
        with torch.no_grad():
            session(torch.ones(4, 16, 60, 60)) @ torch.ones(58, 400)
    return session


def count_threads(folder, *runtimes):
    """Samples the threads while only Tenon runs; returns the most of Tenon's that ran at once, and what share of the samples found another one running."""
    kept = [run_runtime(name, folder) for name in runtimes]
    wait_for_rest()
    before, main = tasks(), threading.get_native_id()
    graphs = Graphs(folder)
    first = graphs.run()
    with sampling() as (goes_on, out):
        while goes_on():
            assert graphs.run() == first
    others = before - {main}
    own = (set(out[0]["seen"]) | tasks()) - others
    del kept
    return {"others": len(others), "started": len(own - {main}), "at_once": max(len(own.intersection(ids)) for ids in out[0]["at_once"]),
            "all_at_once": max(map(len, out[0]["at_once"])), "share_of_others": sum(out[0]["often"].get(str(task), 0) for task in others) / SAMPLES}


def count_threads_of_callers(folder, count):
    """The same with several callers at once, each with graphs of its own, which were compiled by the main thread."""
    before = tasks()
    graphs = [Graphs(folder) for _ in range(int(count))]
    first, is_over, same, callers = graphs[0].run(), threading.Event(), [], []

    def call(own):
        callers.append(threading.get_native_id())
        runs = 0
        while not is_over.is_set() or not runs:
            same.append(own.run() == first)
            runs += 1
    threads = [threading.Thread(target=call, args=(own,)) for own in graphs]
    for thread in threads:
        thread.start()
    try:
        with sampling() as (goes_on, out):
            while goes_on():
                time.sleep(0.01)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    started = (set(out[0]["seen"]) | tasks()) - before - set(callers)
    return {"callers": len(callers), "started": len(started), "same": all(same)}


def repeat(folder, count):
    """Returns the runs whose bits differ from those of the first, and a digest of each output."""
    graphs = Graphs(folder, [mixed])
    first = graphs.run()
    return {"differing": [run for run in range(1, int(count)) if graphs.run() != first], "digests": [hashlib.sha256(data).hexdigest() for data in first]}


def sum_shares(folder):
    import tenon
    shares = tenon.load(Path(folder, "shares.c"))
    x = np.random.default_rng(0).random(200_000, np.float32)
    return hashlib.sha256(np.asarray(shares.sums(x)).tobytes()).hexdigest()


def run_in_child(graphs, first, generations):
    """Forks; the child, and its child, run the graphs. Returns the exit status of the child, 0 if all is well there."""
    process = os.fork()
    if not process:
        status = 99
        try:
            status = 1 * (len(tasks()) != 1) + 2 * (graphs.run() != first) + 4 * (len(tasks()) != 2) + 8 * (Graphs(graphs.paths[0].parent).run() != first)
            if generations > 1:
                status += 16 * (run_in_child(graphs, first, generations - 1) != 0)
        finally:
            os._exit(status)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "the child hangs"


def fork(folder):
    graphs = Graphs(folder)
    first = graphs.run()
    children = [run_in_child(graphs, first, 2) for _ in range(3)]
    return {"children": children, "same": graphs.run() == first}


def run_among_signals(folder, count):
    """A timer interrupts the calling thread, whose handler runs on its stack: oneDNN's kernels must not use the register of the stack for other memory."""
    graphs, signals = Graphs(folder), []
    first, same = graphs.run(), True
    signal.signal(signal.SIGALRM, lambda *_: signals.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    while len(signals) < int(count) and same:
        same = graphs.run() == first
    signal.setitimer(signal.ITIMER_REAL, 0)
    return same


PARTS = {part.__name__: part for part in (run_beside_stopped_threads, run_among_signals, count_threads, count_threads_of_callers, repeat, sum_shares, fork)}

# ---- the tests -------------------------------------------------------------------------------------------------------


def lacks(python, module):
    """Returns why a runtime cannot be used by an interpreter, or None."""
    if not Path(python).exists():
        return f"{python} is missing (make setup makes it)"
    found = subprocess.run([python, "-c", f"import {module}, numpy"], capture_output=True, text=True)
    return found.stderr.strip().splitlines()[-1] if found.returncode else None


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder, cls.stopper = place.name, Path(place.name, "stopper.so")
        write_models(cls.folder)
        source = Path(place.name, "stopper.c")
        source.write_text(STOPPER)
        Path(place.name, "shares.c").write_text(SHARES)
        subprocess.run(["cc", "-std=c11", "-O1", "-fPIC", "-shared", source, "-o", cls.stopper], check=True)

    def run_part(self, part, *arguments, threads=2, python=sys.executable, **environment):
        """Runs a part in a process of its own and returns what it printed."""
        variables = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "TENON_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1", **environment}
        variables.pop("OMP_NUM_THREADS", None)
        command = [python, __file__, part.__name__, self.folder, *map(str, arguments)]
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                out, error = process.communicate(timeout=LIMIT + 30)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)  # also what it has started
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                self.fail(f"{part.__name__} with {threads} threads hangs")
        self.assertEqual(process.returncode, 0, f"{part.__name__} with {threads} threads: {error[-3000:]}")
        return json.loads(out.splitlines()[-1])

    def test_graphs_run_while_all_other_threads_are_held(self):
        for threads in 2, 3:
            with self.subTest(threads=threads):
                self.assertEqual(self.run_part(run_beside_stopped_threads, self.stopper, threads=threads), {"started": threads - 1, "same": [True] * 9})

    def test_signals_interrupt_runs_without_harm(self):
        for threads in 1, 2:
            with self.subTest(threads=threads):
                self.assertTrue(self.run_part(run_among_signals, 500, threads=threads))

    def test_no_more_threads_than_were_asked_for(self):
        for threads in 1, 2, 3:
            with self.subTest(threads=threads):
                found = self.run_part(count_threads, threads=threads)
                self.assertEqual(found["started"], threads - 1)
                self.assertLessEqual(found["at_once"], threads)

    def check_beside(self, python, *runtimes):
        found = self.run_part(count_threads, *runtimes, python=python)
        self.assertGreaterEqual(found["others"], 1, "the other runtime has threads that are asleep")
        self.assertEqual(found["started"], 1)
        self.assertLessEqual(found["at_once"], 2)
        self.assertLessEqual(found["all_at_once"], 2, "the threads of all runtimes together")
        self.assertLess(found["share_of_others"], 0.25, "threads of the other runtime work for Tenon")

    def test_the_same_beside_ONNX_Runtime_and_OpenVINO(self):
        lacking = {name: why for name in ("onnxruntime", "openvino") if (why := lacks(sys.executable, name))}
        if len(lacking) == 2:
            self.skipTest(str(lacking))
        for name, why in lacking.items():
            print(f"skip: {name}: {why}")
        self.check_beside(sys.executable, *({"onnxruntime", "openvino"} - set(lacking)))

    def test_the_same_beside_PyTorch(self):
        python = sys.executable if lacks(sys.executable, "torch") is None else ROOT / ".venv-zoo/bin/python"
        if lacks(python, "torch"):
            self.skipTest(lacks(python, "torch"))
        self.check_beside(python, "torch")

    def test_callers_at_once_share_the_threads_of_the_pool(self):
        self.assertEqual(self.run_part(count_threads_of_callers, 4), {"callers": 4, "started": 1, "same": True})

    def test_each_run_gives_the_same_bits_on_busy_processors(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            one, two = (self.run_part(repeat, REPEATS, threads=threads) for threads in (1, 2))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        self.assertEqual((one["differing"], two["differing"]), ([], []))
        self.assertEqual(one["digests"][:DNN_OUTPUTS], two["digests"][:DNN_OUTPUTS], "oneDNN's bits depend on the number of threads")

    def test_TENON_DETERMINISTIC_gives_the_same_bits_for_any_number_of_threads(self):
        found = [self.run_part(repeat, 30, threads=threads, TENON_DETERMINISTIC="1") for threads in (1, 2, 3, 7)]
        self.assertEqual(found, [found[0]] * 4)
        self.assertEqual(found[0]["differing"], [])

    def test_TENON_DETERMINISTIC_gives_source_kernels_the_same_groups_for_any_number_of_threads(self):
        without = [self.run_part(sum_shares, threads=threads) for threads in (1, 2, 3)]
        self.assertEqual(len(set(without)), 3, "the sums tell how many groups there were")
        found = [self.run_part(sum_shares, threads=threads, TENON_DETERMINISTIC="1") for threads in (1, 2, 3, 7)]
        self.assertEqual(found, [found[0]] * 4)

    def test_a_child_runs_graphs_after_a_fork(self):
        self.assertEqual(self.run_part(fork), {"children": [0] * 3, "same": True})


if __name__ == "__main__":
    if sys.argv[1:2] == ["sample"]:
        sample(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] and sys.argv[1] in PARTS:
        print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
    else:
        totals.main()
