"""Trains the network with the matrices of its blocks split over all processes:
torchrun --nproc-per-node 4 tensor_parallel.py block.so
"""
import copy
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import tenon
import tenon.torch
from network import Linear, Network, report, walks

COLUMNS, ROWS = ("q", "k", "v", "up"), ("o", "down")  # which axis of a matrix is split


def added_up(module, inputs, y):
    return y.redistribute(placements=[Replicate() if p.is_partial() else p for p in y.placements])


def split(name, module, mesh):
    """Splits the matrix of a layer; where it is split by rows, the results of the processes are added."""
    if not isinstance(module, Linear):
        return
    own = name.split(".")[-1]
    placement = Shard(1) if own in COLUMNS else Shard(0) if own in ROWS else Replicate()
    module.weight = torch.nn.Parameter(distribute_tensor(module.weight, mesh, [placement]))
    if own in ROWS:
        module.register_forward_hook(added_up)


def losses(network, put, steps=40):
    """Trains a network, and returns the losses.  put: makes a tensor what the network takes."""
    optimizer, found = torch.optim.Adam(network.parameters(), 3e-3), []
    for step in range(steps):
        x, y = walks(16, step)
        loss = ((network(put(x)) - put(y)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.full_tensor().item() if hasattr(loss, "full_tensor") else loss.item())
    return found


def main():
    tenon.torch.register("core")
    tenon.torch.register(tenon.load(sys.argv[1]))
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    torch.manual_seed(0)
    whole = Network()
    parts = distribute_module(copy.deepcopy(whole), mesh, split)

    def put(x):
        return distribute_tensor(x, mesh, [Replicate()])
    x = put(walks(16, 0)[0])
    with CommDebugMode() as moved:
        parts(x)
    counts = {str(name).split(".")[-1]: count for name, count in moved.get_comm_counts().items()}
    found, expected = losses(parts, put), losses(whole, lambda x: x)
    if dist.get_rank() == 0:
        report(parts, whole, found, expected, f"; forward: {counts}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
