"""Small networks that the tests of the PyTorch device train."""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.beside = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.beside = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.beside(x))


class ResNet(nn.Module):
    """A residual network for pictures of 3 x 16 x 16 and 10 classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(nn.functional.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))

    @staticmethod
    def batch(count):
        return torch.randn(count, 3, 16, 16), torch.randint(10, (count,))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Transformer(nn.Module):
    """A language model of 50 words and 8 places."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Parameter(0.02 * torch.randn(8, 16))
        self.blocks = nn.Sequential(Block(16, 2), Block(16, 2))
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 50))

    def forward(self, words):
        return self.head(self.blocks(self.words(words) + self.places))

    @staticmethod
    def batch(count):
        words = torch.randint(50, (count, 9))
        return words[:, :-1], words[:, 1:]
