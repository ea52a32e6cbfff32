"""Calls of PyTorch's operators on the device `null` (tenon.torch.device) beside the same calls on the CPU, alternating in one process.

    PYTHONPATH=build/python .venv-zoo/bin/python bench/torch_device.py
"""
import time

import torch

import tenon.torch.device as td

ROUNDS, CALLS = 9, 10000


def measure(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e9


def main():
    td.enable("null")
    cpu = torch.ones(4)
    there, out, out_there = cpu.to("null"), torch.empty(4), torch.empty(4, device="null")
    pairs = {"add": (lambda: cpu + cpu, lambda: there + there),
             "add, into a tensor": (lambda: torch.add(cpu, cpu, out=out), lambda: torch.add(there, there, out=out_there)),
             "empty": (lambda: torch.empty(4), lambda: torch.empty(4, device="null")),
             "view": (lambda: cpu.view(2, 2), lambda: there.view(2, 2))}
    for name, (a, b) in pairs.items():
        times = [(measure(a), measure(b)) for _ in range(ROUNDS)]
        on_cpu, on_device = min(t[0] for t in times), min(t[1] for t in times)
        print(f"{name:20} CPU {on_cpu:6.0f} ns   null {on_device:6.0f} ns   {on_device / on_cpu:5.2f} times")
    assert not td.fallbacks(), td.fallbacks()


if __name__ == "__main__":
    main()
