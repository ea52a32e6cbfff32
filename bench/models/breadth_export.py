"""Builds the networks of breadth.txt with random weights and writes them as ONNX files, with their inputs beside them.

bench/breadth.py calls this module. Each export runs in a process of its own, so that a crash or a hang of an exporter costs one model.
"""
import contextlib
import functools
import inspect
import io
import json
import logging
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/models_gen"))
OPSET = 18
PATIENCE = 150  # seconds of processor time for an export
MEMORY = 10 << 30  # bytes of address space for an export
WORDS = 1000  # entries of a vocabulary

# PyPI's torchvision is compiled for CUDA, so its operators cannot be loaded beside the torch for CPUs. Its Python code wants these two declared.
LIBRARY = torch.library.Library("torchvision", "DEF")
for schema in ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"):
    LIBRARY.define(schema)

# Settings that make a configuration of transformers small: depths of 2, a short vocabulary, and no cache. A row of the table adds its own.
DEPTHS = "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers num_decoder_blocks".split()
SMALL = {**dict.fromkeys(DEPTHS, 2), "vocab_size": WORDS, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


# ---- networks -------------------------------------------------------------------------------------------------------


def small_config(config_class, settings):
    """A configuration with SMALL and `settings`; a setting PART.NAME is one of a configuration inside it."""
    from transformers import PretrainedConfig

    default = config_class()
    known = default.to_dict()
    chosen = {key: value for key, value in SMALL.items() if key in known}
    for key, value in vars(default).items():
        if isinstance(value, PretrainedConfig):
            inside = {name[len(key) + 1:]: setting for name, setting in settings.items() if name.startswith(key + ".")}
            chosen[key] = small_config(type(value), inside).to_dict()
    chosen.update((key, value) for key, value in settings.items() if "." not in key)
    return config_class(**chosen)


def build_transformers(name, settings):
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    settings = dict(settings)
    model_class = settings.pop("class", None)
    config = small_config(CONFIG_MAPPING[name], settings)
    if model_class:
        return getattr(transformers, model_class)(config)
    try:
        return transformers.AutoModel.from_config(config)
    except ValueError:
        return transformers.AutoModel.from_config(config, attn_implementation="eager")


def build_timm(name, settings):
    import timm

    return timm.create_model(name, **settings)


def build_torchvision(name, settings):
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    weights = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}
    return builder(**weights, **settings)


def build_torch(name, settings):
    from architectures import audio, others, text, vision  # noqa: F401 (they fill ARCHITECTURES)
    from architectures.registry import ARCHITECTURES

    import breadth_networks

    if name in breadth_networks.NETWORKS:
        return breadth_networks.NETWORKS[name](**settings)
    return ARCHITECTURES[name][0]()[:2]


BUILDERS = {"transformers": build_transformers, "timm": build_timm, "torchvision": build_torchvision, "torch": build_torch}


def draw(name, extents):
    """A tensor for `NAME=EXTENTS`: ones for a mask, entries of the vocabulary for ids, else normal numbers."""
    shape = [int(extent) for extent in extents.split(",")]
    if name.endswith("mask"):
        return torch.ones(shape, dtype=torch.long)
    return torch.randint(3, WORDS, shape) if name.endswith("ids") else torch.randn(shape)


SHORT = {"text": "input_ids=1,{0} attention_mask=1,{0}", "causal": "input_ids=1,{0}", "image": "pixel_values=1,3,{0},{0}", "wave": "input_values=1,{0}",
         "seq2seq": "input_ids=1,{0} decoder_input_ids=1,32", "x": "x=1,3,{0},{0}"}


def make_inputs(text):
    first, _, size = text.partition(":")
    if first in SHORT and "=" not in first:
        text = SHORT[first].format(size)
    return {name: draw(name, value) for name, value in (item.split("=") for item in text.split())}


def disturb(module):
    """Weights of norms, biases and statistics that are neither 0 nor 1, so that a result shows whether they were used."""
    for parameter in module.parameters():
        if parameter.dim() <= 1 and parameter.is_floating_point():
            parameter.data += 0.1 * torch.randn_like(parameter)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer += 0.2 * torch.randn_like(buffer)
        if name.endswith("running_var"):
            buffer *= 0.5 + torch.rand_like(buffer)


class Positional(torch.nn.Module):
    """Gives a module its named inputs by position, and its floating-point results as a tuple."""

    def __init__(self, module, names):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *values):
        results = []
        collect(self.module(**dict(zip(self.names, values))) if self.names else self.module(*values), results)
        return tuple(results)


def collect(result, results):
    """Appends the tensors of a result, which may be nested, to a list."""
    if isinstance(result, torch.Tensor):
        if result.is_floating_point() and len(results) < 4:
            results.append(result)
    elif isinstance(result, dict):
        for value in result.values():
            collect(value, results)
    elif isinstance(result, (tuple, list)):
        for value in result:
            collect(value, results)


class ExportError(Exception):
    """No exporter could write a network; the text has the reason of each."""


# ---- export ---------------------------------------------------------------------------------------------------------


def export_network(row, path):
    """Writes a network by the first exporter that can: torch.export, then TorchScript, unless the row says otherwise. Returns its name."""
    torch.manual_seed(7)
    made = BUILDERS[row["library"]](row["name"], row["settings"])
    module, inputs = made if isinstance(made, tuple) else (made, make_inputs(row["inputs"]))
    module = module.float().eval()
    disturb(module)
    names, values = list(inputs), tuple(inputs.values())
    wrapped = Positional(module, names if row["library"] == "transformers" else None).eval()  # else an exporter that fails sets it to training
    common = {"input_names": names, "opset_version": OPSET, "verbose": False}
    failures = {}
    with torch.no_grad():
        wrapped(*values)
        for exporter in row.get("exporters", ("dynamo", "script")):
            settings = {"dynamo": True, "external_data": False} if exporter == "dynamo" else {"dynamo": False}
            try:
                torch.onnx.export(wrapped, values, str(path), **settings, **common)
                break
            except Exception as error:
                failures[exporter] = reason_of(error)
        else:
            raise ExportError("; ".join(f"{exporter}: {why}" for exporter, why in failures.items()))
    save_inputs(path, {name: value.numpy() for name, value in inputs.items()})
    return exporter


def save_inputs(path, inputs):
    """Stores the inputs that the model has; an exporter drops those that no result depends on."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    kept = {port.name for port in model.graph.input}
    np.savez(path.with_suffix(".npz"), **{name: value for name, value in inputs.items() if name in kept})


def reason_of(error):
    while error.__cause__:  # the exporters wrap the reason in general advice
        error = error.__cause__
    text = " ".join(str(error).split())
    return text if isinstance(error, ExportError) else f"{type(error).__name__}: {text[:160]}"


def derive(row, base, path):
    """Writes a model in f16, quantised, or optimised by ONNX Runtime, from the file of another row."""
    import onnx

    inputs = dict(np.load(base.with_suffix(".npz")))
    if row["library"] == "f16":
        from onnxruntime.transformers import float16

        onnx.save(float16.convert_float_to_float16(onnx.load(str(base)), keep_io_types=False), str(path))
        inputs = {name: value.astype(np.float16) if value.dtype == np.float32 else value for name, value in inputs.items()}
    elif row["library"] == "ort":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath, options.log_severity_level = str(path), 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        onnxruntime.InferenceSession(str(base), options, providers=["CPUExecutionProvider"])
    else:
        quantise(row["settings"].get("form", "qdq"), base, path, inputs)
    save_inputs(path, inputs)
    return "from " + base.stem


def quantise(form, base, path, inputs):
    from onnxruntime import quantization as q

    if form == "dynamic":
        q.quantize_dynamic(str(base), str(path))
        return

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.left = [inputs]

        def get_next(self):
            return self.left.pop() if self.left else None

    q.quantize_static(str(base), str(path), Reader(), quant_format=q.QuantFormat.QOperator if form == "qoperator" else q.QuantFormat.QDQ,
                      per_channel=form != "qoperator", activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8, extra_options={"ForceQuantizeNoInputCheck": False})


def export_trees(row, path):
    """Writes a model of scikit-learn, XGBoost or LightGBM that tests/models_gen/make_classic.py defines."""
    import make_classic

    folder = path.parent / "classic"
    folder.mkdir(exist_ok=True)
    if row["name"] in make_classic.SKLEARN:
        make_classic.of_sklearn(folder, row["name"], *make_classic.SKLEARN[row["name"]]())
    elif not (folder / f"{row['name']}.onnx").exists():
        make_classic.make_boosted(folder)
    inputs = np.load(folder / f"{row['name']}.npz", allow_pickle=True)
    os.replace(folder / f"{row['name']}.onnx", path)
    np.savez(path.with_suffix(".npz"), **{key[:-5]: inputs[key] for key in inputs.files if key.endswith(".many")})
    return "converter"


def export_row(row, folder, rows):
    """Exports one row into the folder, and what it is made from before. Returns the exporter; raises if that fails."""
    path = folder / f"{row['id']}.onnx"
    if row["library"] == "trees":
        return export_trees(row, path)
    if row["library"] not in ("f16", "quantised", "ort"):
        return export_network(row, path)
    base = next(other for other in rows if other["id"] == row["name"])
    source = folder / f"{base['id']}.onnx"
    if not source.exists():
        export_network(base, source)
    return derive(row, source, path)


def export_apart(row, folder, rows):
    """Exports one row in a child process. Returns {"exporter", "seconds"} or {"failure"}; it is kept beside the model."""
    note, begin = folder / f"{row['id']}.json", time.monotonic()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(io.StringIO()):
                exporter = export_row(row, folder, rows)
            note.write_text(json.dumps({"exporter": exporter, "seconds": round(time.monotonic() - begin, 1)}))
        except BaseException as error:
            note.write_text(json.dumps({"failure": reason_of(error)}))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        (folder / f"{row['id']}.onnx").unlink(missing_ok=True)
        note.write_text(json.dumps({"failure": f"the exporter ended by signal {status & 127}" + (f" (after {PATIENCE} s of processor time)" if status & 127 == signal.SIGXCPU else "")}))
    return json.loads(note.read_text())


@functools.cache
def prepare():
    """Loads once what all exports need."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporters do not know the operators of this path
    import timm  # noqa: F401
    import torchvision  # noqa: F401
    import transformers  # noqa: F401

    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(torch.nn.Identity(), (torch.ones(2),), dynamo=True, verbose=False)
