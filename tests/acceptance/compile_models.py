"""The models that compile_models_test.py runs under torch.compile: small configurations of transformers and timm, and a few others.

MODELS[name]() returns a Case. Weights and inputs are random, from a fixed seed, and nothing is downloaded. Run with the Python of .venv-compile.
"""
import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TENON_BUILD", ROOT / "build")).resolve()
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "bench/models"), str(ROOT / "tests/adapters")]
import breadth_export  # noqa: E402 (it lets timm import torchvision)
import breadth_networks  # noqa: E402
import timm  # noqa: E402, F401 (processes that are forked have it)
import torch_nets  # noqa: E402
import transformers  # noqa: E402
import transformers.modeling_utils  # noqa: E402

SEED = 7
LENGTHS = range(5, 65, 3)  # of the dynamic dimension; they are 20


class Case(NamedTuple):
    """A module in training mode returns the loss of its inputs; it is for a training step. Inputs are keyword arguments."""

    module: nn.Module
    inputs: dict
    others: list = []  # inputs with other lengths


# ---- tables: a model, its inputs, and settings of its configuration -------------------------------------------------

# The short forms of inputs; {0} is the length of a text or the extent of an image.
FORMS = {
    "text": "input_ids=2,{0} attention_mask=2,{0}",
    "causal": "input_ids=2,{0}",
    "tokens": "input_ids=2,{0}",  # of a network whose graph depends on the length
    "seq2seq": "input_ids=2,{0} attention_mask=2,{0} decoder_input_ids=2,6",
    "image": "pixel_values=2,3,{0},{0}",
    "wave": "input_values=2,{0}",
    "x": "x=2,3,{0},{0}",
}
DYNAMIC = "text", "causal", "seq2seq"
WIDTH = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
GROUPED = {**WIDTH, "num_key_value_heads": 2, "head_dim": 16}
SEQ2SEQ = {"d_model": 64, **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("attention_heads", 4), ("ffn_dim", 96))}}
VISION = {**WIDTH, "image_size": 32, "patch_size": 8}

TRANSFORMERS = {
    "bert": ("text:14", WIDTH),
    "roberta": ("text:14", WIDTH),
    "distilbert": ("text:14", {"dim": 64, "hidden_dim": 96, "n_heads": 4}),
    "albert": ("text:14", {**WIDTH, "embedding_size": 32}),
    "electra": ("text:14", {**WIDTH, "embedding_size": 32}),
    "gpt2": ("causal:14", {"hidden_size": 64, "num_attention_heads": 4}),
    "llama": ("causal:14", GROUPED),
    "mistral": ("causal:14", GROUPED),
    "qwen2": ("causal:14", GROUPED),
    "t5": ("seq2seq:14", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4}),
    "bart": ("seq2seq:14", SEQ2SEQ),
    "mamba": ("tokens:14", {"hidden_size": 64, "state_size": 8}),
    "vit": ("image:32", VISION),
}
TIMM = {
    "resnet18": ("x:64", {}),
    "mobilenetv3_small_100": ("x:64", {}),
    "efficientnet_b0": ("x:64", {}),
    "convnext_atto": ("x:64", {}),
    "vit_tiny_patch16_224": ("x:64", {"img_size": 64}),
    "mixer_s16_224": ("x:64", {"img_size": 64}),
}


def draw_inputs(text, length=None):
    """Tensors for the inputs of a row. The last text of a batch is two tokens shorter than the others."""
    form, _, size = text.partition(":")
    inputs = breadth_export.make_inputs(FORMS[form].format(length or size) if form in FORMS else text)
    if "attention_mask" in inputs:
        inputs["attention_mask"][-1, -2:] = 0
    return inputs


def build_row(build, name, form, settings):
    torch.manual_seed(SEED)
    module = build(name, settings).float().eval()
    breadth_export.disturb(module)
    lengths = LENGTHS if form.partition(":")[0] in DYNAMIC else ()
    return Case(module, draw_inputs(form), [draw_inputs(form, length) for length in lengths])


def models_of(library, rows):
    build = breadth_export.BUILDERS[library]
    return {f"{library}-{name}": functools.partial(build_row, build, name, *row) for name, row in rows.items()}


# ---- the others -----------------------------------------------------------------------------------------------------


def build_minilm():
    """The sizes of all-MiniLM-L6-v2."""
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return build_row(breadth_export.build_transformers, "bert", "text:32", sizes)


def build_image_model(name):
    return build_row(breadth_export.build_timm, name, "x=1,3,224,224", {})


class Decoder(nn.Module):
    """A language model that receives its cache of keys and values, and adds to it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, cache):
        return self.model(input_ids=input_ids, past_key_values=cache).logits


def build_decoder(kind, past):
    """GPT-2 with a cache of `past` tokens, or its prefill if `past` is 0. kind: the class of the cache."""
    torch.manual_seed(SEED)
    config = transformers.GPT2Config()
    module = Decoder(transformers.GPT2LMHeadModel(config)).eval()
    cache = transformers.StaticCache(config, max_cache_len=64) if kind == "static" else transformers.DynamicCache(config=config)
    words = torch.randint(config.vocab_size, (1, past + 1 if past else 24))
    with torch.no_grad():
        if past:
            module(words[:, :-1], cache)
        elif kind == "static":
            cache.early_initialization(1, config.n_head, config.n_embd // config.n_head, torch.float32, torch.device("cpu"))
    return Case(module, {"input_ids": words[:, -1:] if past else words, "cache": cache})


def build_mamba_block():
    from transformers.models.mamba.modeling_mamba import MambaBlock, MambaConfig

    torch.manual_seed(SEED)
    return Case(MambaBlock(MambaConfig(hidden_size=96), 0).eval(), {"hidden_states": torch.randn(2, 16, 96)})


def build_unet():
    torch.manual_seed(SEED)
    module = breadth_networks.UNet((16, 32, 64)).eval()
    breadth_export.disturb(module)
    return Case(module, {"x": torch.randn(2, 3, 64, 64)})


class Custom(nn.Module):
    """Four operators of two libraries between layers of PyTorch: pointwise, mutating, with lists, and with state."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x, degree):
        hidden = torch.ops.demo.gelu(self.first(x))
        torch.ops.kinds.scale_(hidden, by=0.5)
        result = self.second(hidden)
        total = torch.ops.kinds.total([result, 2 * result], choice="two")
        return result.softmax(-1) + total + torch.ops.kinds.powers(degree, n=2)


def build_custom():
    import tempfile

    import tenon.torch
    from torch_kinds import GELU, KINDS

    with tempfile.NamedTemporaryFile("w", suffix=".c") as kinds:
        kinds.write(KINDS)
        kinds.flush()
        for source in GELU, kinds.name:
            tenon.torch.register(tenon.load(source))
    torch.manual_seed(SEED)
    make = lambda length: {"x": torch.randn(length, 16), "degree": torch.randint(8, (length, 8)).float()}  # noqa: E731
    return Case(Custom().eval(), make(6), [make(length) for length in LENGTHS])


class Training(nn.Module):
    """The loss of a network."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, target):
        return F.cross_entropy(self.network(x).flatten(0, -2), target.flatten())


def build_training(make):
    torch.manual_seed(SEED)
    network, (x, target) = make()
    return Case(Training(network).train(), {"x": x, "target": target})


def make_mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)), (torch.randn(8, 16), torch.randint(10, (8,)))


NAMED = {
    "minilm": build_minilm,
    "resnet50": functools.partial(build_image_model, "resnet50"),
    "vit-small": functools.partial(build_image_model, "vit_small_patch16_224"),
    "gpt2-prefill-static": functools.partial(build_decoder, "static", 0),
    "gpt2-prefill-dynamic": functools.partial(build_decoder, "dynamic", 0),
    "gpt2-decode-static": functools.partial(build_decoder, "static", 23),
    "gpt2-decode-dynamic": functools.partial(build_decoder, "dynamic", 23),
    "mamba-block": build_mamba_block,
    "unet": build_unet,
    "custom": build_custom,
    "train-mlp": functools.partial(build_training, make_mlp),
    "train-cnn": functools.partial(build_training, lambda: (torch_nets.ResNet(), torch_nets.ResNet.batch(4))),
    "train-transformer": functools.partial(build_training, lambda: (torch_nets.Transformer(), torch_nets.Transformer.batch(4))),
}
MODELS = {**NAMED, **models_of("transformers", TRANSFORMERS), **models_of("timm", TIMM)}
