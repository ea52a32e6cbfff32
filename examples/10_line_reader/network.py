"""The network that reads a line. For every two columns of a picture it returns the logarithms of the probabilities of
the characters of render.ALPHABET, classes 1 and up, and of the blank, class 0. The operators that compute the loss and
the text from them are compiled from source, or taken from the cache, and registered with PyTorch."""
import pathlib

import tenon
import tenon.torch
import torch
from torch import nn

import render

HERE = pathlib.Path(__file__).resolve().parent
library = tenon.load(HERE / "ctc.c", HERE / "decode.c")  # the next line adds its operators to torch.ops.reader
tenon.torch.register(library)

CHANNELS = 24, 40, 56, 64
HIDDEN = 80  # of each direction of the LSTM
BEAM = 16  # number of texts that the search keeps
CLASSES = 1 + len(render.ALPHABET)


class Network(nn.Module):
    """[n, render.HEIGHT, width] u8, to log_probs [(width + 1) // 2, n, CLASSES] f32."""

    def __init__(self):
        super().__init__()
        one, two, three, four = CHANNELS
        self.features = nn.Sequential(
            *layer(1, one, 5, 2, 2),  # 16 rows, half of the columns
            *layer(one, two, 3, (2, 1), 1),  # 8 rows
            *layer(two, three, 3, (2, 1), 1),  # 4 rows
            *layer(three, four, (4, 3), 1, (0, 1)),  # 1 row
        )
        self.lstm = nn.LSTM(four, HIDDEN, bidirectional=True)
        self.classes = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, pictures):
        x = pictures.float()
        x = x - x.mean((1, 2), keepdim=True)
        x = x / (x.square().mean((1, 2), keepdim=True).sqrt() + 1)  # paper and ink may have any two grey values
        x = self.features(x.unsqueeze(1)).squeeze(2)  # [n, channels, columns]
        x, _ = self.lstm(x.permute(2, 0, 1))
        return self.classes(x).log_softmax(-1)


class Reader(nn.Module):
    """The module that is deployed: [render.HEIGHT, width] u8, to the text and the logarithm of its probability."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, picture):
        log_probs = self.network(picture.unsqueeze(0))
        frames = torch.full((1,), log_probs.shape[0], dtype=torch.int64)
        return torch.ops.reader.ctc_decode(log_probs, frames, alphabet=render.ALPHABET, beam=BEAM)


def layer(inputs, outputs, kernel, stride, padding):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
