#!/usr/bin/env python3
"""Writes the model zoo of tests and benchmarks: ONNX files with the architectures of real models and random weights.

Random weights do not change the speed in fp32. Models that exist already are kept.

Usage: make_zoo.py OUT_DIR [NAME...]. It needs scripts/requirements-zoo.txt.
"""
import fcntl
import os
import sys
import warnings

import torch
import transformers as T

warnings.filterwarnings("ignore")
out, wanted = sys.argv[1], set(sys.argv[2:])
os.makedirs(out, exist_ok=True)
folder = os.open(out, os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX)  # suites that run at the same time need the same models
torch.manual_seed(0)


class First(torch.nn.Module):
    """Calls a Hugging Face model with keyword inputs and returns its first output."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args):
        r = self.model(**dict(zip(self.names, args))) if self.names else self.model(*args)
        return r if torch.is_tensor(r) else r[0]


def export(name, make, args, names=()):
    if wanted and name not in wanted:
        return
    path = f"{out}/{name}.onnx"
    if os.path.exists(path):
        return
    torch.onnx.export(First(make().eval(), names), args, path + ".part", input_names=list(names) or ["x"], output_names=["y"], opset_version=17, dynamo=False)
    os.replace(path + ".part", path)
    print(f"{name}: {os.path.getsize(path) >> 10} KiB", flush=True)


def text(n):
    return torch.randint(0, 30000, (1, n)), torch.ones(1, n, dtype=torch.long)


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(128, 256, 2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Chain(torch.nn.Module):
    """A chain of pointwise nodes: shows the cost of a node on small tensors, and fusion on large ones."""

    def forward(self, x):
        for i in range(100):
            x = torch.tanh(x * 1.01 + 0.1) if i % 5 == 0 else x * 0.9 + x.abs() * 0.05
        return x


def minilm():
    return T.BertModel(T.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, attn_implementation="eager"))


def twin():
    """MiniLM with two narrow layers, for a test of failures that runs it thousands of times."""
    return T.BertModel(T.BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32, attn_implementation="eager"))


image, text_names = (torch.randn(1, 3, 224, 224),), ("input_ids", "attention_mask")
for n in (16, 128):
    export(f"minilm_{n}", minilm, text(n), text_names)
export("minilm_twin", twin, (torch.randint(0, 100, (1, 8)), torch.ones(1, 8, dtype=torch.long)), text_names)
export("bert_base_128", lambda: T.BertModel(T.BertConfig(attn_implementation="eager")), text(128), text_names)
export("vit_small", lambda: T.ViTModel(T.ViTConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536, attn_implementation="eager")), image, ("pixel_values",))
export("resnet50", lambda: T.ResNetModel(T.ResNetConfig()), image, ("pixel_values",))
export("mobilenetv2", lambda: T.MobileNetV2Model(T.MobileNetV2Config()), image, ("pixel_values",))
export("convnext_tiny", lambda: T.ConvNextModel(T.ConvNextConfig()), image, ("pixel_values",))
export("lstm", Lstm, (torch.randn(1, 64, 128),))
export("mlp_small", lambda: torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU()) for _ in range(20)]), (torch.randn(1, 64),))
export("chain_small", Chain, (torch.randn(1, 256),))
export("chain_big", Chain, (torch.randn(64, 16384),))
