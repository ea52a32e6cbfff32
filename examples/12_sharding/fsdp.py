"""Trains the network by FSDP2, with a part of each batch and of each weight in each process:
torchrun --nproc-per-node 4 fsdp.py block.so
"""
import copy
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tenon
import tenon.torch
from network import Network, report, walks


def losses(network, part, parts, steps=40):
    """Trains a network on a part of each batch, and returns the losses of the batches."""
    optimizer, found = torch.optim.Adam(network.parameters(), 3e-3), []
    for step in range(steps):
        x, y = (t.chunk(parts)[part] for t in walks(16, step))
        loss = ((network(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    found = torch.stack(found)
    if parts > 1:
        dist.all_reduce(found)
    return (found / parts).tolist()


def main():
    tenon.torch.register("core")
    tenon.torch.register(tenon.load(sys.argv[1]))
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    torch.manual_seed(0)
    whole = Network()
    parts = copy.deepcopy(whole)
    for block in parts.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(parts, mesh=mesh)
    found, expected = losses(parts, dist.get_rank(), mesh.size()), losses(whole, 0, 1)
    if dist.get_rank() == 0:
        report(parts, whole, found, expected)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
