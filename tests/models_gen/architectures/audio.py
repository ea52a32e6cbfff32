"""Networks on sound and on series of numbers, written with torch.nn."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .registry import Attention, Block, Residual, architecture, conv, draw, ids, images


class Whisper(nn.Module):
    """Two convolutions on a spectrogram and transformer layers, then one decoder layer on tokens."""
    def __init__(self, width=32):
        super().__init__()
        self.one, self.two, self.words = nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1), nn.Embedding(40, width)
        self.encoder, self.decoder, self.norm, self.width = Block(width), Block(width, causal=True, cross=True), nn.LayerNorm(width), width

    def forward(self, mel, x):
        y = F.gelu(self.two(F.gelu(self.one(mel)))).transpose(1, 2)
        angle = torch.arange(y.shape[1])[:, None] * torch.exp(-math.log(10000) * torch.arange(self.width // 2) / (self.width // 2 - 1))
        memory = self.norm(self.encoder(y + torch.cat([angle.sin(), angle.cos()], 1)))
        return self.decoder(self.words(x), memory) @ self.words.weight.t()


@architecture("dynamo", "dynamo-23", "script")
def whisper_like():
    return Whisper(), {"mel": draw(1, 20, 30), "x": ids(40, 1, 4)}, {"mel": draw(2, 20, 47), "x": ids(40, 2, 7)}


class Conformer(nn.Module):
    """Half steps of a feed-forward network around attention with relative positions and a gated depthwise convolution."""
    def __init__(self, width=24, heads=4):
        super().__init__()
        self.feed = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 48), nn.SiLU(), nn.Linear(48, width)) for _ in range(2))
        self.norm, self.qkv, self.out, self.place = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.u, self.v, self.heads, self.width = nn.Parameter(draw(heads, 1, width // heads)), nn.Parameter(draw(heads, 1, width // heads)), heads, width
        self.enter, self.leave = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1)), nn.Sequential(nn.Conv1d(width, width, 7, padding=3, groups=width), nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1))
        self.last = nn.LayerNorm(width)

    def attend(self, x):
        length = x.shape[1]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        angle = torch.arange(length - 1, -length, -1)[:, None] / 10000 ** (torch.arange(self.width // 2) / (self.width // 2))
        place = self.place(torch.cat([angle.sin(), angle.cos()], 1)).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        shifted = F.pad((q + self.v) @ place.transpose(1, 2), (1, 0)).flatten(2)[..., length:].unflatten(2, (length, 2 * length - 1))[..., :length]
        scores = ((q + self.u) @ k.transpose(2, 3) + shifted) / math.sqrt(self.width // self.heads)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + 0.5 * self.feed[0](x)
        x = x + self.attend(x)
        x = x + self.leave(self.enter(x.transpose(1, 2))).transpose(1, 2)
        return self.last(x + 0.5 * self.feed[1](x))


@architecture("dynamo", "dynamo-23", "script")
def conformer():
    return images(Conformer(), (1, 9, 24), (3, 14, 24))


class WaveNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.first, self.rates = nn.Conv1d(1, width, 1), (1, 2, 4, 8)
        self.gates, self.side, self.skip = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=rate) for rate in self.rates), nn.ModuleList(nn.Conv1d(width, width, 1) for _ in self.rates), nn.ModuleList(nn.Conv1d(width, 16, 1) for _ in self.rates)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(16, 16, 1), nn.ReLU(), nn.Conv1d(16, 32, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for rate, gates, side, skip in zip(self.rates, self.gates, self.side, self.skip):
            a, b = gates(F.pad(x, (rate, 0))).chunk(2, 1)
            y = a.tanh() * b.sigmoid()
            x, total = x + side(y), total + skip(y)
        return self.head(total)


@architecture()
def wavenet():
    return images(WaveNet(), (1, 1, 40), (2, 1, 73))


@architecture()
def tcn():
    class Causal(nn.Module):
        def __init__(self, width, rate):
            super().__init__()
            self.conv, self.rate = nn.utils.parametrizations.weight_norm(nn.Conv1d(width, width, 3, dilation=rate)), rate

        def forward(self, x):
            return self.conv(F.pad(x, (2 * self.rate, 0))).relu()
    return images(nn.Sequential(nn.Conv1d(4, 16, 1), Residual(Causal(16, 1), Causal(16, 1)), nn.ReLU(), Residual(Causal(16, 4)), nn.Conv1d(16, 3, 1)), (1, 4, 30), (3, 4, 51))


class Ctc(nn.Module):
    """Convolutions, a bidirectional GRU and scores per frame; the best path has its repeats and blanks marked."""
    def __init__(self):
        super().__init__()
        self.conv, self.gru, self.head = nn.Sequential(nn.Conv2d(1, 8, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20)), nn.GRU(80, 24, 1, batch_first=True, bidirectional=True), nn.Linear(48, 12)

    def forward(self, x):
        y, _ = self.gru(self.conv(x[:, None]).flatten(1, 2).transpose(1, 2))
        scores = self.head(y).log_softmax(-1)
        best = scores.argmax(-1)
        kept = torch.cat([torch.ones_like(best[:, :1], dtype=torch.bool), best[:, 1:] != best[:, :-1]], 1) & (best != 0)
        return scores, torch.where(kept, best, -1)


@architecture()
def ctc_speech():
    return images(Ctc(), (1, 20, 25), (3, 20, 40))


@architecture()
def hifi_gan():
    def block(width):
        return Residual(nn.LeakyReLU(0.1), nn.Conv1d(width, width, 3, dilation=3, padding=3), nn.LeakyReLU(0.1), nn.Conv1d(width, width, 3, padding=1))
    body = nn.Sequential(nn.Conv1d(20, 32, 7, padding=3), nn.LeakyReLU(0.1), nn.ConvTranspose1d(32, 16, 8, 4, 2), block(16), nn.LeakyReLU(0.1), nn.ConvTranspose1d(16, 8, 4, 2, 1), block(8), nn.Conv1d(8, 1, 7, padding=3), nn.Tanh())
    return images(body, (1, 20, 9), (2, 20, 17))


class ConvTasNet(nn.Module):
    """Learnt bases, a mask for each of two speakers from separable convolutions with global norms."""
    def __init__(self, width=16):
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, width, 16, 8, bias=False), nn.ConvTranspose1d(width, 1, 16, 8, bias=False)
        self.body = nn.Sequential(nn.GroupNorm(1, width), nn.Conv1d(width, 12, 1), *[Residual(nn.Conv1d(12, 24, 1), nn.PReLU(), nn.GroupNorm(1, 24), nn.Conv1d(24, 24, 3, padding=r, dilation=r, groups=24), nn.PReLU(), nn.Conv1d(24, 12, 1)) for r in (1, 2)],
                                  nn.Conv1d(12, 2 * width, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.encoder(x)
        masks = self.body(y.relu()).unflatten(1, (2, -1))
        return self.decoder((masks * y[:, None]).flatten(0, 1)).reshape(x.shape[0], 2, -1)


@architecture()
def conv_tasnet():
    return images(ConvTasNet(), (1, 1, 80), (3, 1, 136))


class Spectrogram(nn.Module):
    """A short-time Fourier transform, mel filters and a classifier."""
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("filters", torch.rand(10, 17))
        self.head = nn.Sequential(conv(1, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))

    def forward(self, x):
        spectrum = torch.stft(x, 32, 16, window=self.window, center=False, return_complex=False) if torch.jit.is_tracing() else torch.view_as_real(torch.stft(x, 32, 16, window=self.window, center=False, return_complex=True))
        mel = (self.filters @ spectrum.square().sum(-1) + 1e-6).log()
        return mel, self.head(mel[:, None])


@architecture()
def mel_spectrogram():
    return images(Spectrogram(), (1, 160), (3, 256))


class Demucs(nn.Module):
    """A U-Net on waves with gated units and an LSTM in the middle."""
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Sequential(nn.Conv1d(i, o, 8, 4, 2), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1)) for i, o in ((2, 8), (8, 16))])
        self.lstm, self.join = nn.LSTM(16, 8, bidirectional=True), nn.Linear(16, 16)
        self.up = nn.ModuleList([nn.Sequential(nn.Conv1d(o, 2 * o, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(o, i, 8, 4, 2)) for i, o in ((8, 16), (2, 8))])

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        y, _ = self.lstm(x.permute(2, 0, 1))
        x = self.join(y).permute(1, 2, 0)
        for layer in self.up:
            x = layer(x + kept.pop())
        return x


@architecture()
def demucs():
    return images(Demucs(), (1, 2, 64), (3, 2, 160))


class Tacotron(nn.Module):
    """Attention that knows where it has been, over six frames."""
    def __init__(self):
        super().__init__()
        self.embedding, self.encoder, self.cell, self.frame = nn.Embedding(30, 16), nn.LSTM(16, 8, batch_first=True, bidirectional=True), nn.LSTMCell(26, 16), nn.Linear(32, 10)
        self.query, self.key, self.place, self.score = nn.Linear(16, 12), nn.Linear(16, 12, bias=False), nn.Conv1d(1, 12, 5, padding=2), nn.Linear(12, 1)

    def forward(self, x):
        memory, _ = self.encoder(self.embedding(x))
        keys, total, frame, frames = self.key(memory), torch.zeros_like(memory[..., 0]), memory.new_zeros(x.shape[0], 10), []
        context = memory.mean(1)
        h = c = memory.new_zeros(x.shape[0], 16)
        for _ in range(6):
            h, c = self.cell(torch.cat([frame, context], 1), (h, c))
            weights = self.score(torch.tanh(keys + self.query(h)[:, None] + self.place(total[:, None]).transpose(1, 2))).squeeze(-1).softmax(1)
            total, context = total + weights, (weights[..., None] * memory).sum(1)
            frame = self.frame(torch.cat([h, context], 1))
            frames.append(frame)
        return torch.stack(frames, 1), total


@architecture()
def tacotron():
    return Tacotron(), {"x": ids(30, 1, 6)}, {"x": ids(30, 3, 11)}


@architecture()
def length_regulator():
    """Repeats each state as often as its duration says, as FastSpeech does, in 40 frames."""
    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.out = nn.Embedding(30, 16), nn.Linear(16, 8)

        def forward(self, x, ends):
            index = (torch.arange(40)[:, None] >= ends).sum(1).clamp(max=x.shape[0] - 1)
            return self.out(self.embedding(x).index_select(0, index)), index
    return Speech(), {"x": ids(30, 5), "ends": torch.tensor([2, 5, 6, 6, 9])}, {"x": ids(30, 7), "ends": torch.tensor([4, 8, 11, 12, 20, 33, 38])}


class NBeats(nn.Module):
    """Blocks that take their backcast off the input and add a forecast with trends and seasons as bases."""
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8)) for _ in range(2))
        t, s = torch.arange(24) / 24, torch.arange(6) / 24 + 1
        self.register_buffer("trend", torch.stack([t ** i for i in range(4)])), self.register_buffer("trend_next", torch.stack([s ** i for i in range(4)]))
        self.register_buffer("season", torch.stack([torch.cos(2 * math.pi * t), torch.sin(2 * math.pi * t)] * 2)), self.register_buffer("season_next", torch.stack([torch.cos(2 * math.pi * s), torch.sin(2 * math.pi * s)] * 2))

    def forward(self, x):
        total = 0
        for block, back, ahead in zip(self.blocks, (self.trend, self.season), (self.trend_next, self.season_next)):
            a, b = block(x).split(4, 1)
            x, total = x - a @ back, total + b @ ahead
        return total, x


@architecture()
def n_beats():
    return images(NBeats(), (1, 24), (5, 24))


class PatchSeries(nn.Module):
    """Each series normalised by itself, cut into overlapping patches, and forecast by a transformer, as PatchTST does."""
    def __init__(self):
        super().__init__()
        self.project, self.block, self.head = nn.Linear(8, 16), Block(16), nn.Linear(16 * 7, 6)

    def forward(self, x):
        mean, spread = x.mean(1, keepdim=True), x.std(1, keepdim=True, unbiased=False) + 1e-5
        y = ((x - mean) / spread).transpose(1, 2).unfold(2, 8, 4)
        y = self.block(self.project(y.flatten(0, 1)))
        return self.head(y.flatten(1)).unflatten(0, (x.shape[0], x.shape[2])).transpose(1, 2) * spread + mean


@architecture()
def patch_series():
    return images(PatchSeries(), (1, 32, 3), (4, 32, 3))


class AutoCorrelation(nn.Module):
    """Seasons and trend apart by moving averages, and the most alike delays found by a Fourier transform."""
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(6, 8)

    def forward(self, x):
        wide = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
        trend = F.avg_pool1d(wide.transpose(1, 2), 5, 1).transpose(1, 2)
        season = x - trend
        q, k, v = self.q(season).transpose(1, 2), self.k(season).transpose(1, 2), self.v(season).transpose(1, 2)
        alike = torch.fft.irfft(torch.fft.rfft(q) * torch.conj(torch.fft.rfft(k)), n=16).mean(1)
        weights, delays = alike.topk(3)
        weights, out = weights.softmax(1), torch.zeros_like(v)
        double = torch.cat([v, v], 2)
        for number in range(3):
            index = torch.arange(16)[None] + delays[:, number:number + 1]
            out = out + weights[:, number, None, None] * double.gather(2, index[:, None].expand(-1, 8, -1))
        return out, trend


@architecture("dynamo")
def auto_correlation():
    return images(AutoCorrelation(), (1, 16, 6), (3, 16, 6))


class FusedSeries(nn.Module):
    """Gated residual networks choose variables, an LSTM follows them, and attention reads the result with quantiles at its end."""
    def __init__(self, width=12):
        super().__init__()
        self.embed, self.choose = nn.ModuleList(nn.Linear(1, width) for _ in range(4)), nn.Sequential(nn.Linear(4, width), nn.ELU(), nn.Linear(width, 4), nn.Softmax(-1))
        self.lstm, self.gate, self.norm, self.attention, self.head = nn.LSTM(width, width, batch_first=True), nn.Sequential(nn.Linear(width, 2 * width), nn.GLU()), nn.LayerNorm(width), Attention(width, 2), nn.Linear(width, 3)

    def forward(self, x):
        parts = torch.stack([layer(x[..., i:i + 1]) for i, layer in enumerate(self.embed)], -1)
        y = (parts * self.choose(x)[..., None, :]).sum(-1)
        y = self.norm(y + self.gate(self.lstm(y)[0]))
        length = x.shape[1]
        y = y + self.attention(y, mask=torch.ones(length, length, dtype=torch.bool).tril())
        return self.head(y).cumsum(-1)


@architecture("dynamo", "dynamo-23", "script")
def fused_series():
    return images(FusedSeries(), (1, 8, 4), (3, 13, 4))
