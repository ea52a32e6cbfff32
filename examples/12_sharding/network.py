"""A network of transformer blocks with the operators of block.c, which does not know whether its tensors are split."""
import torch

core = torch.ops.core


class Linear(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(rows, columns) / rows**0.5)

    def forward(self, x):
        return torch.ops.block.linear(x, self.weight)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (Linear(width, width) for _ in range(4))
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x):
        def split(y):  # [batch, length, heads * size] to [batch, heads, length, size]
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = core.rms_norm(x)
        y = torch.ops.block.attend(split(self.q(y)), split(self.k(y)), split(self.v(y)))
        x = x + self.o(y.transpose(1, 2).flatten(-2))
        return x + self.down(core.silu(self.up(core.rms_norm(x))))


class Network(torch.nn.Module):
    """Blocks between two matrices; learns to say by how much a walk turned up to each of its steps."""

    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.first, self.last = Linear(2, width), Linear(width, 1)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(depth))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(core.rms_norm(x))


def walks(count, seed, length=16):
    """Returns the steps of walks on a plane, and how far the walks turned up to each step."""
    generator = torch.Generator().manual_seed(seed)
    turns = torch.rand(count, length, 1, generator=generator)
    angles = turns.cumsum(1)
    return torch.cat([angles.cos(), angles.sin()], -1), angles / length


def report(parts, whole, found, expected, more=""):
    """Prints how many of the weights a process has, and how far its losses are from those of one process."""
    of_process = sum(p.to_local().numel() for p in parts.parameters())
    print(f"{of_process} of {sum(p.numel() for p in whole.parameters())} weights in a process{more}")
    difference = max(abs(a - b) for a, b in zip(found, expected))
    print(f"loss {found[0]:.4f} to {found[-1]:.4f}; largest difference from one process {difference:.1e}")
