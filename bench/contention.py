#!/usr/bin/env python3
"""Measures models on Tenon, ONNX Runtime and OpenVINO while other processes keep the processors busy.

Situations: quiet; one and two competitors (busy loops, each in a session of its own); a competitor that is pinned to one
of the processors of the model; and a quota of one processor for two threads (the controller `cpu` of control groups,
version 1 or 2, which needs the right to make groups). Each runtime has a process of its own, which runs alone; in
"together" all three are in one process and take turns, beside the idle threads of the others. The figures are the median
and the 90th percentile of a run in milliseconds. Exit status 1: something failed.

Usage: contention.py [--threads N] [--seconds S] [--situation NAME,...] [NAME...]
"""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import models
import report

NAMES = ("minilm_128", "bert_base_128", "resnet50", "lstm", "chain_small", "chain_big")
RUNTIMES = ("tenon", "onnxruntime", "openvino")
SITUATIONS = ("quiet", "one", "two", "pinned", "quota", "together")
BUSY = "while True: pass"


# ---- one model, in a process of its own ------------------------------------------------------------------------------


def start(names, path, threads):
    """Returns {runtime: a function that runs the model}, and what must live as long as these are called."""
    runs, outputs = {}, {}
    runs["onnxruntime"], outputs["onnxruntime"], values, ports = models.start_onnxruntime(path, threads)
    runs["onnxruntime"]()
    reference = [array.copy() for array in outputs["onnxruntime"]()]
    if "tenon" in names:
        runs["tenon"], outputs["tenon"] = models.start_tenon(path, threads, values, reference)
        runs["tenon"]()
        assert models.difference(outputs["tenon"](), reference)[1], f"{path}: Tenon's results differ from ONNX Runtime's"
    if "openvino" in names:
        runs["openvino"], outputs["openvino"] = models.start_openvino(path, threads, values, ports, reference)
    if "onnxruntime" not in names:
        del runs["onnxruntime"], outputs["onnxruntime"]  # its threads end
    return {name: runs[name] for name in names}, (outputs, values)  # the runtimes borrow the inputs' memory


def measure(names, path, threads, seconds):
    (runs, kept), times = start(names, path, threads), {name: [] for name in names}
    for name in names:
        for _ in range(3):
            runs[name]()
    end = time.perf_counter() + seconds * len(names)
    while time.perf_counter() < end:
        for name in names:
            times[name] += models.time_block(runs[name])
    del kept
    return {name: [1e3 * report.median(times[name]), 1e3 * report.quantile(times[name], 0.9)] for name in names}


# ---- situations ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def competitors(count, processor=None):
    """Busy loops, which began long enough ago that the scheduler knows them as busy."""
    pin = ["taskset", "-c", str(processor)] if processor is not None else []
    loops = [subprocess.Popen([*pin, sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)]
    try:
        time.sleep(0.5 if loops else 0)
        yield
    finally:
        for loop in loops:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()


def quota_folder():
    """Makes a control group with the time of one processor. Returns its folder, or None and the reason."""
    for root, files in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}), ("/sys/fs/cgroup", {"cpu.max": "100000 100000"})):
        folder = os.path.join(root, f"tenon-bench-{os.getpid()}")
        try:
            os.mkdir(folder)
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(text)
            return folder, ""
        except OSError as error:
            reason = str(error)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    return None, f"no control group can be made: {reason}"


def run_alone(names, name, threads, seconds, group=None):
    """Measures in a process of its own. Returns {runtime: [median, 90th percentile]}, or a text that says what failed."""
    command = [sys.executable, __file__, "--worker", ",".join(names), "--threads", str(threads), "--seconds", str(seconds), name]

    def join():
        if group:
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(os.getpid()))

    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, preexec_fn=join)
    return json.loads(run.stdout) if run.returncode == 0 else (run.stderr.strip().splitlines() or ["failed"])[-1]


def measure_situation(situation, name, threads, seconds):
    if situation == "together":
        return run_alone(RUNTIMES, name, threads, seconds)
    group = None
    if situation == "quota":
        group, reason = quota_folder()
        if not group:
            return reason
    first = sorted(os.sched_getaffinity(0))[0]
    found = {}
    with competitors({"one": 1, "two": 2, "pinned": 1}.get(situation, 0), first if situation == "pinned" else None):
        for runtime in RUNTIMES:
            result = run_alone([runtime], name, threads, seconds, group)
            if isinstance(result, str):
                return result
            found.update(result)
    if group:
        os.rmdir(group)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--situation", default=",".join(SITUATIONS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    if options.worker:
        path = os.path.join(models.ZOO, f"{options.names[0]}.onnx")
        print(json.dumps(measure(options.worker.split(","), path, options.threads, options.seconds)))
        return 0
    wanted = options.situation.split(",")
    if set(wanted) - set(SITUATIONS):
        sys.exit(f"contention: no situation {', '.join(set(wanted) - set(SITUATIONS))}; there are {', '.join(SITUATIONS)}")
    results, failed = [], False
    print(f"{'model':16}{'situation':10}" + "".join(f"{runtime + ' median, p90':>26}" for runtime in RUNTIMES) + "   of the better peer", flush=True)
    for name in options.names:
        for situation in wanted:
            found = measure_situation(situation, name, options.threads, options.seconds)
            if isinstance(found, str):
                print(f"{name:16}{situation:10} {found}", flush=True)
                failed |= situation != "quota"
                continue
            ratios = [found["tenon"][i] / min(found[peer][i] for peer in RUNTIMES[1:]) for i in range(2)]
            print(f"{name:16}{situation:10}" + "".join(f"{found[r][0]:>17.2f}, {found[r][1]:>7.2f}" for r in RUNTIMES) + f"   {ratios[0]:.2f}, {ratios[1]:.2f}", flush=True)
            results.append({"model": name, "situation": situation, "threads": options.threads, "milliseconds": found, "ratios": ratios})
    headline = [[f"{r['model']}, {r['situation']}", f"{r['ratios'][0]:.2f} times the better peer's median, {r['ratios'][1]:.2f} times its 90th percentile"] for r in results]
    if set(wanted) == set(SITUATIONS) and tuple(options.names) == NAMES and not failed:
        report.save("contention", {"results": results}, headline, "numpy", *models.PEERS)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
