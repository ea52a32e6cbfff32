"""The list of architectures, and what their definitions share: random inputs and a few layers.

An architecture is a function that returns a module and its inputs at two sizes, each a dictionary from the names of the module's arguments to
tensors.  An extent that differs between the two sizes becomes a dynamic axis of the model, unless the architecture is `fixed`: then each size
is a model of its own, because the exporter writes the extents into the graph."""
import torch
from torch import nn

ARCHITECTURES = {}  # name: (function, exporters, fixed)


def architecture(*exporters, fixed=False):
    """Adds a function to the list; `exporters` are those that can write the module: dynamo and script unless some
    are stated; dynamo-23 writes operators of opset 23 such as Attention."""
    def add(function):
        ARCHITECTURES[function.__name__.strip("_").replace("_", "-")] = (function, exporters or ("dynamo", "script"), fixed)
        return function
    return add


def draw(*shape):
    return torch.randn(*shape)


def ids(limit, *shape):
    return torch.randint(0, limit, shape)


def images(module, small=(1, 3, 32, 32), large=(3, 3, 48, 40)):
    """A module with one argument `x`, and images at two sizes."""
    return module, {"x": draw(*small)}, {"x": draw(*large)}


def conv(inputs, outputs, kernel=3, stride=1, groups=1, act=nn.ReLU, dilation=1):
    """A convolution that keeps the extents at stride 1, with its normalisation and activation."""
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel - 1) // 2, dilation, groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


def attend(q, k, v, heads, mask=None, causal=False):
    """Attention of several heads on tensors [batch, length, width]."""
    def split(t):
        return t.unflatten(-1, (heads, -1)).transpose(1, 2)
    out = nn.functional.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=mask, is_causal=causal)
    return out.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x, memory=None, mask=None):
        k, v = self.kv(x if memory is None else memory).chunk(2, -1)
        return self.out(attend(self.q(x), k, v, self.heads, mask, self.causal))


class Block(nn.Module):
    """A transformer layer that normalises first; `cross` adds attention to a memory."""
    def __init__(self, width, heads=4, causal=False, cross=False, act=nn.GELU):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.attention = Attention(width, heads, causal)
        self.cross = Attention(width, heads) if cross else None
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width))

    def forward(self, x, memory=None, mask=None):
        x = x + self.attention(self.norms[0](x), mask=mask)
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.mlp(self.norms[1](x))


class Residual(nn.Module):
    def __init__(self, *layers, shortcut=None):
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*layers), shortcut or nn.Identity()

    def forward(self, x):
        return self.shortcut(x) + self.body(x)


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def pool():
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
