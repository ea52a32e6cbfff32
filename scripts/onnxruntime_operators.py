"""Writes the table of docs/onnxruntime_operators.md: for each operator of ONNX Runtime's domain com.microsoft, whether its nodes are imported.

    scripts/onnxruntime_operators.py BUILD            writes the table
    scripts/onnxruntime_operators.py BUILD --check    fails if the table is not what the importer does

The operators are those of the installed onnxruntime. `tenon run` says which of them it refuses, and why. What an imported operator leaves out is
stated in PARTLY.
"""
import os
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from page import write

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "onnxruntime_operators.md")
BEGIN, END = "<!-- operators: written by make support -->\n", "<!-- end of operators -->\n"
DOMAIN, ABSENT = "com.microsoft", "NoOperatorHasThisName"
REFUSED = "this operator of ONNX Runtime is not supported: "
PARTLY = {
    "Attention": "not `do_rotary`, `past_present_share_buffer`, masks of four axes",
    "BiasDropout": "for inference; not the output `mask`",
    "CDist": "f32",
    "CausalConvWithState": "one axis after the channels; not `dilation`, `channels_last`, `state_window`",
    "ConvTransposeWithDynamicPads": "`Pads` is a constant",
    "CropAndResize": "`crop_size` is a constant; bilinear",
    "DynamicQuantizeLSTM": "the activations are not quantised",
    "GatherBlockQuantized": "not 2 bits; packed data are quantised along the last axis",
    "GroupQueryAttention": "not `smooth_softmax`, `head_sink`, quantised caches, norms of queries and keys, the output `output_qk`",
    "LinearAttention": "not `state_window`",
    "MatMulNBits": "packed weights are constants; not `weight_prepacked`",
    "MultiHeadAttention": "not packed inputs, `past_sequence_length`, `cache_indirection`, the output `qk`",
    "QAttention": "as Attention",
    "RotaryEmbedding": "not `scale`, `is_packed_batching`",
    "SkipLayerNormalization": "not the outputs `mean` and `inv_std_var`",
    "SkipSimplifiedLayerNormalization": "not the outputs `mean` and `inv_std_var`",
}


def refusals(build, schemas):
    """Loads one model with a node of each operator, and returns why operators are refused, by name. The inputs of all nodes come from a node that
    does not exist, so nothing else can be wrong with them."""
    nodes = [helper.make_node(ABSENT, [], ["x"], name="absent", domain=DOMAIN)]
    for schema in schemas:
        nodes.append(helper.make_node(schema.name, ["x"] * len(schema.inputs), [schema.name], name="node", domain=DOMAIN))
    graph = helper.make_graph(nodes, "g", [], [helper.make_empty_tensor_value_info(schema.name) for schema in schemas])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)], ir_version=9)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        onnx.save(model, path)
        said = subprocess.run([os.path.join(build, "tenon"), "run", path], capture_output=True, text=True, check=False).stderr
    found = dict(re.findall(r"\((\w+), domain 'com\.microsoft', opset 1\): (.*)", said))
    if found.pop(ABSENT, "") != "the operator is unknown":
        sys.exit(f"the answer of tenon is not a list of operators: {said}")
    if not found.get("BeamSearch"):
        sys.exit("BeamSearch is not among the refused operators")
    return found


def row(kind, reason):
    if reason is None:
        return f"| `{kind}` | {'partly' if kind in PARTLY else 'imported'} | {PARTLY.get(kind, '')} |"
    if not reason.startswith(REFUSED):
        sys.exit(f"{kind} is neither imported nor refused by name (src/import/onnx/lower_contrib_refused.c): {reason}")
    return f"| `{kind}` | refused | {reason[len(REFUSED):]} |"


def table(build):
    schemas = sorted((schema for schema in get_all_operator_schema() if schema.domain == DOMAIN), key=lambda schema: schema.name)
    refused = refusals(build, schemas)
    stale = set(PARTLY) - {schema.name for schema in schemas}
    if stale:
        sys.exit(f"PARTLY names operators that this onnxruntime does not have: {sorted(stale)}")
    rows = [row(schema.name, refused.get(schema.name)) for schema in schemas]
    return "\n".join(["| operator | nodes are | what is left out, or what to do |", "|---|---|---|", *rows]) + "\n"


def page(build):
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(build) + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.exit(write("onnxruntime_operators.md", page(sys.argv[1])))
