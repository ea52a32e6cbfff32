"""Networks of plain PyTorch with the channel counts and extents of real ones. Each function returns a module and its inputs."""
import torch
from torch import nn
from torch.nn import functional as F


def conv_norm(inputs, outputs, kernel=3, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        pair = lambda inputs, outputs: nn.Sequential(conv_norm(inputs, outputs), conv_norm(outputs, outputs))
        self.down = nn.ModuleList(pair(inputs, outputs) for inputs, outputs in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(outputs, inputs, 2, 2) for inputs, outputs in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(pair(2 * inputs, inputs) for inputs in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for index, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if index else x)
            kept.append(x)
        for index in reversed(range(len(self.up))):
            x = self.merge[index](torch.cat([self.up[index](x), kept[index]], 1))
        return self.head(x)


class WaveNet(nn.Module):
    def __init__(self, width=64, layers=16):
        super().__init__()
        self.first, self.last = nn.Conv1d(1, width, 1), nn.Conv1d(width, 256, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** (i % 8)) for i in range(layers))
        self.mixes = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))

    def forward(self, x):
        x, total = self.first(x), 0
        for gate, mix in zip(self.gates, self.mixes):
            a, b = gate(F.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            skip, step = mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + step, total + skip
        return self.last(F.relu(total))


class Recurrent(nn.Module):
    def __init__(self, kind, width=256, layers=2):
        super().__init__()
        self.embed, self.body = nn.Embedding(1000, width), kind(width, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 32)

    def forward(self, x):
        return self.head(self.body(self.embed(x))[0])


class Separator(nn.Module):
    """Conv-TasNet's separation: depthwise convolutions along time with growing dilation."""

    def __init__(self, width=128, inner=256, layers=8):
        super().__init__()
        self.encode, self.decode = nn.Conv1d(1, width, 16, 8), nn.ConvTranspose1d(width, 1, 16, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner), nn.Conv1d(inner, inner, 3, padding=2**i, dilation=2**i, groups=inner),
                                                  nn.PReLU(), nn.GroupNorm(1, inner), nn.Conv1d(inner, width, 1)) for i in range(layers))

    def forward(self, x):
        mixed = self.encode(x)
        y = mixed
        for block in self.blocks:
            y = y + block(y)
        return self.decode(mixed * torch.sigmoid(y))


class SuperResolution(nn.Module):
    def __init__(self, width=64, layers=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1))
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)) for _ in range(layers))

    def forward(self, x):
        x = self.first(x)
        y = x
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.last(x + y)


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (3, 64, 64, 64, 128, 1024)
        self.body = nn.Sequential(*(nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()) for a, b in zip(widths, widths[1:])))
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, x):
        return self.head(self.body(x).amax(2))


class LineReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv_norm(1, 64), nn.MaxPool2d(2), conv_norm(64, 128), nn.MaxPool2d(2), conv_norm(128, 256), nn.MaxPool2d((2, 1)), conv_norm(256, 256), nn.MaxPool2d((2, 1)))
        self.reader, self.head = nn.LSTM(512, 256, batch_first=True, bidirectional=True), nn.Linear(512, 80)

    def forward(self, x):
        return self.head(self.reader(self.body(x).flatten(1, 2).transpose(1, 2))[0])


def dcgan():
    widths = (100, 512, 256, 128, 64)
    layers = [nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for i, (a, b) in enumerate(zip(widths, widths[1:]))]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), {"x": torch.randn(1, 100, 1, 1)}


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True), 3, enable_nested_tensor=False), {"src": torch.randn(1, 128, 512)}


def vae():
    down = [conv_norm(a, b, 3, 2) for a, b in ((3, 32), (32, 64), (64, 128), (128, 256))]
    up = [nn.Sequential(nn.Upsample(scale_factor=2), conv_norm(a, b)) for a, b in ((256, 128), (128, 64), (64, 32), (32, 32))]
    return nn.Sequential(*down, nn.Flatten(), nn.Linear(256 * 64, 256), nn.Linear(256, 256 * 64), nn.Unflatten(1, (256, 8, 8)), *up, nn.Conv2d(32, 3, 3, padding=1)), {"x": torch.randn(1, 3, 128, 128)}


def tcn():
    blocks = [nn.Sequential(nn.Conv1d(64 if i else 16, 64, 3, padding=2**i, dilation=2**i), nn.BatchNorm1d(64), nn.ReLU()) for i in range(7)]
    return nn.Sequential(*blocks, nn.Conv1d(64, 10, 1)), {"x": torch.randn(1, 16, 2000)}


NETWORKS = {
    "unet-real": lambda: (UNet(), {"x": torch.randn(1, 3, 256, 256)}),
    "wavenet-real": lambda: (WaveNet(), {"x": torch.randn(1, 1, 4000)}),
    "lstm-real": lambda: (Recurrent(nn.LSTM), {"x": torch.randint(0, 1000, (1, 64))}),
    "gru-real": lambda: (Recurrent(nn.GRU), {"x": torch.randint(0, 1000, (1, 64))}),
    "conv-tasnet-real": lambda: (Separator(), {"x": torch.randn(1, 1, 16000)}),
    "edsr-real": lambda: (SuperResolution(), {"x": torch.randn(1, 3, 64, 64)}),
    "pointnet-real": lambda: (Points(), {"x": torch.randn(4, 3, 1024)}),
    "crnn-real": lambda: (LineReader(), {"x": torch.randn(1, 1, 32, 256)}),
    "dcgan-real": dcgan,
    "encoder-real": encoder,
    "vae-real": vae,
    "tcn-real": tcn,
}
