"""Which core operators have a gradient, and why the others have none."""
import json
import os
import subprocess

from gradients import BUILD

FLOATS = {"f16", "bf16", "f32", "f64", "c64", "c128", "float", "complex", "number", "any"}
# Operators with floats as inputs and results that have no gradient.
WITHOUT = {
    **dict.fromkeys(("list", "list_at", "list_concat", "list_erase", "list_insert", "list_split", "optional", "optional_get"), "its values are lists, which have no history"),
    "as_strided": "its strides may repeat elements or leave some out; says error",
    "local_scalar": "leaves the device and its history; says error",
    "reshape_alias": "as as_strided; says error",
    "category_one_hot": "its input has categories, also where they are floats",
    "classify": "ends a trained model: labels and scores; PyTorch trains such models by other operators",
    "dequantize_linear": "its scale is f32 or narrower, and constant where it is used",
    "dynamic_quantize_linear": "rounds; scale and zero_point belong to what was rounded",
    "gelu_second": "third derivatives",
    "deform_patches_backward": "second derivatives, which torchvision has not either",
    "grid_sample_backward": "second derivatives, which PyTorch has not either",
    "if": "its body is a graph, and graphs make no record",
    "label_encode": "its input has keys, also where they are floats",
    "list_map": "its body is a graph, and graphs make no record",
    "mel_weights": "rounds its edges to frequencies of the transform",
    "loop": "its body is a graph, and graphs make no record",
    "pairwise_classes": "counts votes; its probabilities are the result of an iteration",
    "quantize_linear": "rounds",
    "scan": "its body is a graph, and graphs make no record",
    "squared_distance": "serves trained support vector machines in f32; matmul trains them in any float",
    "tree_ensemble": "constant between the splits",
    "unique": "equal elements, which it is for, are a kink; PyTorch has no gradient for it either",
}


def operators():
    ops = json.loads(subprocess.check_output([os.path.join(BUILD, "tenon"), "ops", "--json"]))
    return {op["name"].removeprefix("core::"): op for op in ops}


def arguments(schema):
    """Returns the names of inputs, and those of results."""
    before, after = schema.rsplit("->", 1)
    before = before[before.index("(") + 1:before.rindex(")")]
    inputs = [part.split("=")[0].split()[-1] for part in before.split(",") if part.strip().startswith("Tensor")]
    parts = [part.replace("@host", "").split() for part in after.strip().strip("()").split(",") if part.strip()]
    many = len(parts) > 1
    return inputs, [part[1] if len(part) > 1 else f"out{i}" if many else "out" for i, part in enumerate(parts)]


def float_names(op):
    """Returns the arguments that may be floats, according to TENON_TYPES."""
    sources = {}
    for rule in op["types"].split(";"):
        names, is_set, said = rule.partition(":")
        if not is_set:
            names, _, said = rule.partition("=")
        for name in names.split(","):
            sources[name.strip()] = {word.strip() for word in said.split("|" if is_set else "_or_")}

    def is_float(name):
        words = sources.get(name)
        if words is None:  # the dtype is given by an attribute, fixed, or determined by infer
            return name in FLOATS or name == "?" or name.endswith("dtype") or name == "to"
        return any(is_float(word) if word != name else True for word in words)

    return {name for name in sources if is_float(name)}


def classes():
    """Returns the operators with a gradient, with one that is zero or nothing, and without; operators without floats on both sides are in none."""
    has, nothing, without = set(), set(), set()
    for name, op in operators().items():
        inputs, outputs = arguments(op["schema"])
        floats = float_names(op)
        if not floats & set(inputs) or not floats & set(outputs):
            continue
        rules = [rule.partition(":")[2].strip() for rule in (op["gradient"] or "").split(";") if rule]
        has_graph = "graph " in op["schema"]
        is_composite = any(kernel.startswith("composite") for kernel in op["kernels"]) and not has_graph
        if "error" in rules or not (rules or is_composite):
            without.add(name)
        elif rules and all(rule == "none" for rule in rules):
            nothing.add(name)
        else:
            has.add(name)
    return has, nothing, without
