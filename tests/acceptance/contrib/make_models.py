"""Rewrites models as ONNX Runtime's own tools do: its optimizer for transformers, its sessions at each level of optimisation, and its quantisers.

Usage: make_models.py PACKAGES FOLDER MODEL.onnx..., in an environment with onnxruntime.  PACKAGES is a folder with onnx_ir, which the quantiser of
4 bits needs.  Beside each MODEL.onnx is MODEL.npz with its inputs (see tests/models_gen/make_exported.py).  Writes MODEL+STEP[+STEP].onnx into FOLDER; prints the names, and why a step was not possible."""
import collections
import logging
import sys
import tempfile
from pathlib import Path

sys.path.append(sys.argv[1])

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnxruntime import quantization  # noqa: E402
from onnxruntime.quantization import matmul_nbits_quantizer  # noqa: E402
from onnxruntime.transformers import optimizer  # noqa: E402
from onnxruntime.transformers.fusion_options import FusionOptions  # noqa: E402

logging.disable(logging.WARNING)
TYPES = {"bert": "bert", "distilbert": "bert", "gpt2": "gpt2", "t5": "t5", "whisper": "bart", "vit": "vit", "llama": "gpt_neox", "phi": "phi", "gemma": "gpt_neox"}
HEADS, HIDDEN = 4, 32  # of the architectures in tests/models_gen
LEVELS = {"basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC, "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED}


class Samples(quantization.CalibrationDataReader):
    """The inputs of a model at each of its sizes, for calibration."""
    def __init__(self, path):
        data = np.load(path, allow_pickle=True)
        sizes = sorted({key.rsplit(".", 1)[1] for key in data})
        self.rows = iter([{key.rsplit(".", 1)[0]: data[key] for key in data if key.endswith(f".{size}")} for size in sizes])

    def get_next(self):
        return next(self.rows, None)


def by_session(source, path, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def by_optimizer(source, path, kind, **wanted):
    options = FusionOptions(TYPES[kind])
    for name, value in wanted.items():
        setattr(options, name, value)
    model = optimizer.optimize_model(str(source), model_type=TYPES[kind], num_heads=HEADS, hidden_size=HIDDEN, opt_level=0, optimization_options=options)
    model.save_model_to_file(str(path))


def dynamic(source, path, **options):
    quantization.quantize_dynamic(source, path, reduce_range=True, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT}, **options)


def static(source, path, samples, form, **options):
    """7 bits for weights: two products of 8 bits by 8 bits leave the 16 bits in which ONNX Runtime adds them on processors without VNNI."""
    quantization.quantize_static(source, path, Samples(samples), quant_format=form, reduce_range=True, **options)


def four_bits(source, path, block, symmetric, kinds):
    model = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(source), block_size=block, is_symmetric=symmetric, op_types_to_quantize=kinds,
                                                        quant_axes=(("MatMul", 0), ("Gather", 1)))
    model.process()
    onnx.save(model.model.model if hasattr(model.model, "model") else model.model, path)


def steps(path):
    """The rewritings of a model: the name of each, and a function (source, path)."""
    kind, form, types = path.stem.split("-")[0].split("_")[0], quantization.QuantFormat, quantization.QuantType
    samples = path.with_suffix(".npz")
    first = {"basic": lambda s, p: by_session(s, p, "basic"), "extended": lambda s, p: by_session(s, p, "extended"),
             "dynamic": dynamic, "dynamic-s8": lambda s, p: dynamic(s, p, weight_type=types.QInt8, per_channel=True),
             "qdq": lambda s, p: static(s, p, samples, form.QDQ), "qoperator": lambda s, p: static(s, p, samples, form.QOperator),
             "qoperator-u8": lambda s, p: static(s, p, samples, form.QOperator, activation_type=types.QUInt8, weight_type=types.QUInt8),
             "four": lambda s, p: four_bits(s, p, 16, True, ("MatMul",)), "four-zeros": lambda s, p: four_bits(s, p, 32, False, ("MatMul", "Gather"))}
    if kind in TYPES:
        first["fused"] = lambda s, p: by_optimizer(s, p, kind)
        first["fused-heads"] = lambda s, p: by_optimizer(s, p, kind, use_multi_head_attention=True)
    then = {"fused": ("dynamic", "four"), "dynamic": ("extended",), "qdq": ("extended",), "qoperator": ("extended",)}
    return first, then


def attempt(function, source, path):
    try:
        function(source, path)
    except Exception as error:
        path.unlink(missing_ok=True)
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    kinds = collections.Counter(n.op_type for n in onnx.load(path, load_external_data=False).graph.node if n.domain == "com.microsoft")
    print(f"{path.stem}: {', '.join(f'{k} {n}' for k, n in sorted(kinds.items()))}", flush=True)
    return None


def main():
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for source in map(Path, sys.argv[3:]):
        with tempfile.TemporaryDirectory() as place:
            plain = Path(place) / "plain.onnx"
            quantization.shape_inference.quant_pre_process(source, plain, skip_symbolic_shape=True)
            first, then = steps(source)
            for name, function in first.items():
                path = folder / f"{source.stem}+{name}.onnx"
                why = attempt(function, plain if not name.startswith("fused") else source, path)
                for after in then.get(name, ()) if not why else ():
                    again = attempt(first[after], path, folder / f"{source.stem}+{name}+{after}.onnx")
                    if again:
                        print(f"skip: {source.stem}+{name}+{after}: {again}")
                if why:
                    print(f"skip: {path.stem}: {why}")


if __name__ == "__main__":
    main()
