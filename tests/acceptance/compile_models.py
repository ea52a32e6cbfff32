"""The models that compile_models_test.py runs under torch.compile: small ones of transformers and timm, and others.

MODELS[name]() returns a Case. Weights and inputs are random, from a fixed seed, and nothing is downloaded. Only the
Python of .venv-compile has all packages that this file imports.
"""
import functools
import os
import sys
import tempfile
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
import timm  # noqa: E402, F401 (forked processes inherit it)
import torch_nets  # noqa: E402
import transformers  # noqa: E402
import transformers.modeling_utils  # noqa: E402, F401 (the same)

SEED = 7
LENGTHS = range(5, 65, 3)  # of the dynamic dimension: 20 of them


class Case(NamedTuple):
    """A module and its arguments by name. A module in training mode returns a loss, and is for a training step."""

    module: nn.Module
    inputs: dict
    others: list = []  # inputs with other lengths


# ---- models of libraries: (inputs, settings of the configuration, names) --------------------------------------------

# Short forms of inputs; {0} is the length of a text or the extent of an image.
FORMS = {
    "text": "input_ids=2,{0} attention_mask=2,{0}",
    "causal": "input_ids=2,{0}",
    "tokens": "input_ids=2,{0}",  # for networks whose graph depends on the length
    "seq2seq": "input_ids=2,{0} attention_mask=2,{0} decoder_input_ids=2,6",
    "image": "pixel_values=2,3,{0},{0}",
    "x": "x=2,3,{0},{0}",
}
DYNAMIC = "text", "causal", "seq2seq"
BOTH = "encoder", "decoder"
WIDTH = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
GROUPED = {**WIDTH, "num_key_value_heads": 2, "head_dim": 16}
HEADS = {"hidden_size": 64, "num_attention_heads": 4}
SEQ2SEQ = {"d_model": 64, **{f"{side}_attention_heads": 4 for side in BOTH}, **{f"{side}_ffn_dim": 96 for side in BOTH}}
VISION = {**WIDTH, "image_size": 32, "patch_size": 8}
SPEECH = {**WIDTH, "conv_dim": (32,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
STATES = {"hidden_size": 64, "state_size": 8}
MAMBA2 = {**STATES, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8}
TOWERS = {f"{tower}_config.{key}": value for tower, part in (("text", WIDTH), ("vision", VISION))
          for key, value in part.items()}
SERIES = {"num_input_channels": 5, "context_length": 128, "d_model": 32, "num_attention_heads": 4, "ffn_dim": 64}

TRANSFORMERS = [
    ("text:14", WIDTH, "bert roberta electra albert mpnet deberta-v2 layoutlm rembert esm roformer modernbert"
                       " nomic_bert fnet convbert nystromformer longformer big_bird"),
    ("text:14", {**WIDTH, "embedding_size": 64}, "squeezebert"),
    ("text:14", {"dim": 64, "hidden_dim": 96, "n_heads": 4}, "distilbert"),
    ("text:14", {"emb_dim": 64, "n_heads": 4}, "xlm flaubert"),
    ("text:14", {"d_model": 64, "n_head": 4, "d_inner": 96}, "xlnet"),
    ("causal:14", HEADS, "gpt2 gpt_bigcode openai-gpt opt biogpt"),
    ("causal:14", {**HEADS, "rotary_dim": 8}, "gptj codegen"),
    ("causal:14", {"hidden_size": 64, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}, "gpt_neo"),
    ("causal:14", {"hidden_size": 64, "n_head": 4}, "bloom"),
    ("causal:14", WIDTH, "gpt_neox persimmon falcon"),
    ("causal:14", GROUPED, "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 stablelm cohere olmo2 granite"
                           " starcoder2 mixtral qwen2_moe gpt_oss"),
    ("tokens:14", STATES, "mamba"),
    ("tokens:14", MAMBA2, "mamba2"),
    ("tokens:14", {"hidden_size": 64}, "rwkv"),
    ("tokens:14", {**GROUPED, "lru_width": 64}, "recurrent_gemma"),
    ("seq2seq:14", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4}, "t5 umt5 switch_transformers"),
    ("seq2seq:14", SEQ2SEQ, "bart mbart pegasus marian led"),
    ("input_features=2,80,64 decoder_input_ids=2,6", {**SEQ2SEQ, "max_source_positions": 32}, "whisper"),
    ("input_values=2,2000", SPEECH, "wav2vec2 wavlm"),
    ("image:32", VISION, "vit deit beit dinov2 dinov3_vit"),
    ("image:64", {}, "swinv2 segformer convnext pvt_v2 focalnet"),
    ("image:64", {"initializer_range": 0.2}, "mobilevit"),
    ("image:64", {"image_size": 64, "window_size": 2}, "swin"),
    ("input_ids=2,12 pixel_values=2,3,32,32", TOWERS, "clip siglip"),
    ("past_values=2,128,5", SERIES, "patchtsmixer"),
]
TIMM = [
    ("x:64", {}, "resnet18 resnext50_32x4d resnetv2_50 resnest14d mobilenetv2_050 mobilenetv3_small_100"
                 " mobilenetv4_conv_small efficientnet_b0 regnetx_002 regnety_002 densenet121 vgg11_bn convnext_atto"
                 " convnextv2_atto ghostnet_100 hrnet_w18_small nfnet_l0 edgenext_xx_small fastvit_t8 poolformer_s12"
                 " rexnet_100 repvgg_a0 starnet_s050 mambaout_femto inception_next_atto dla34 cspdarknet53 pvt_v2_b0"),
    ("x:64", {"img_size": 64}, "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s16_224 gmlp_ti16_224 resmlp_12_224"
                               " cait_xxs24_224 xcit_nano_12_p8_224 swin_tiny_patch4_window7_224 swinv2_cr_tiny_224"
                               " coat_lite_tiny coatnet_nano_rw_224 levit_128s pit_ti_224 volo_d1_224 twins_svt_small"
                               " tnt_s_patch16_224 maxvit_rmlp_pico_rw_256 mvitv2_tiny"),
    ("x:64", {"img_size": 64, "depth": 2, "head_init_scale": 1.0}, "beit_base_patch16_224 eva02_tiny_patch14_224"),
]


def draw_inputs(text, length=None):
    """Tensors for the inputs of a row. The last text of a batch is two tokens shorter than the others."""
    form, _, size = text.partition(":")
    inputs = breadth_export.make_inputs(FORMS[form].format(length or size) if form in FORMS else text)
    if "attention_mask" in inputs:
        inputs["attention_mask"][-1, -2:] = 0
    return inputs


def prepare(module, inputs):
    """Gives a module weights with which its results depend on its inputs: no zeros, and statistics that fit."""
    module.eval()
    breadth_export.disturb(module)
    for parameter in module.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.1)
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train().momentum = None  # one batch replaces the statistics
    if norms:
        with torch.no_grad():
            module(**{name: torch.randn(16, *value.shape[1:]) for name, value in inputs.items()})
    for norm in norms:
        norm.running_var.clamp_(min=1e-4)  # a division by less would magnify rounding errors
    return module.eval()


def build_row(build, name, form, settings):
    torch.manual_seed(SEED)
    inputs, module = draw_inputs(form), build(name, settings).float()
    lengths = LENGTHS if form.partition(":")[0] in DYNAMIC else ()
    return Case(prepare(module, inputs), inputs, [draw_inputs(form, length) for length in lengths])


def models_of(library, rows):
    build = functools.partial(build_row, breadth_export.BUILDERS[library])
    return {f"{library}-{name}": functools.partial(build, name, *row) for *row, names in rows for name in names.split()}


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
    """GPT-2: a step with a cache of `past` tokens, or the prefill if `past` is 0. kind: the class of the cache."""
    torch.manual_seed(SEED)
    config = transformers.GPT2Config()
    module = Decoder(transformers.GPT2LMHeadModel(config)).eval()
    words = torch.randint(config.vocab_size, (1, past + 1 if past else 24))
    if kind == "static":
        cache = transformers.StaticCache(config, max_cache_len=64)
        cache.early_initialization(1, config.n_head, config.n_embd // config.n_head, torch.float32, torch.device("cpu"))
    else:
        cache = transformers.DynamicCache(config=config)
    if past:
        with torch.no_grad():
            module(words[:, :-1], cache)
    return Case(module, {"input_ids": words[:, -1:] if past else words, "cache": cache})


def build_mamba_block():
    torch.manual_seed(SEED)
    model = transformers.MambaModel(transformers.MambaConfig(hidden_size=96, num_hidden_layers=1, vocab_size=100))
    return Case(model.layers[0].eval(), {"hidden_states": torch.randn(2, 16, 96)})


def build_unet():
    torch.manual_seed(SEED)
    inputs = {"x": torch.randn(2, 3, 64, 64)}
    return Case(prepare(breadth_networks.UNet((16, 32, 64)), inputs), inputs)


class Custom(nn.Module):
    """Four operators of two libraries between layers of PyTorch: pointwise, mutating, of a list, and with state."""

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
    import tenon.torch
    from torch_kinds import GELU, KINDS

    with tempfile.NamedTemporaryFile("w", suffix=".c") as kinds:
        kinds.write(KINDS)
        kinds.flush()
        for source in GELU, kinds.name:
            tenon.torch.register(tenon.load(source))
    torch.manual_seed(SEED)

    def draw(length):
        return {"x": torch.randn(length, 16), "degree": torch.randint(8, (length, 8)).float()}

    return Case(Custom().eval(), draw(6), [draw(length) for length in LENGTHS])


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


def make_net(kind):
    return kind(), kind.batch(4)


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
    "train-cnn": functools.partial(build_training, functools.partial(make_net, torch_nets.ResNet)),
    "train-transformer": functools.partial(build_training, functools.partial(make_net, torch_nets.Transformer)),
}
MODELS = {**NAMED, **models_of("transformers", TRANSFORMERS), **models_of("timm", TIMM)}
