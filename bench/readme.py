"""Writes the performance figures of bench/results into README.md, between its two marks.

run.py calls write() after it has run all benchmarks.
"""
import json
import os

import report

README = os.path.join(report.ROOT, "README.md")
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
MODELS = {"minilm_16": "MiniLM, 16 tokens", "minilm_128": "MiniLM, 128 tokens", "bert_base_128": "BERT base, 128 tokens", "resnet50": "ResNet-50",
          "mobilenetv2": "MobileNetV2", "vit_small": "ViT small", "convnext_tiny": "ConvNeXt tiny", "lstm": "LSTM",
          "mlp_small": "small MLP", "chain_small": "380 pointwise nodes, 1x256", "chain_big": "380 pointwise nodes, 64x16384"}


def load(name):
    with open(os.path.join(report.RESULTS, f"{name}.json")) as file:
        return json.load(file)


def figures():
    calls, libraries, build, memory, models = (load(name) for name in ("calls", "load", "build", "memory", "models"))
    machine, nanoseconds = models["machine"], calls["figures"]["nanoseconds"]
    over = {count: times["run"]["p10"] - times["direct"]["p10"] for count, times in nanoseconds.items()}
    versions = models["versions"]
    dates = sorted({part["date"] for part in (calls, libraries, build, memory, models)})
    yield (f"Processor: {machine['cpu']}, {machine['cores']} cores. Dates: {' to '.join(sorted({dates[0], dates[-1]}))}. `make bench` repeats the measurements, writes them to "
           "`bench/results/*.json` and updates this section.")
    yield ""
    yield "| measurement | result |"
    yield "|---|---|"
    yield (f"| Overhead of calling an operator with three tensors (`tenon_op_run`), compared with a direct C call | {over['10']:.1f} ns; with 1,000 registered operators "
           f"{over['1000']:.1f} ns, with 100,000 {over['100000']:.1f} ns |")
    yield f"| The whole call when types and shapes are inferred and checked (`tenon_op_call_into`) | {nanoseconds['10']['call_into']['p10']:.0f} ns |"
    yield f"| The whole call when the results are also created and released (`tenon_op_call`) | {nanoseconds['10']['call']['p10']:.0f} ns |"
    yield f"| Loading a library of {libraries['figures']['operators']:,} operators | {libraries['figures']['load']['median_us'] / 1000:.1f} ms |"
    yield f"| Building the library above with `tenon build` | {build['figures']['tenon']['median_ms'] / 1000:.2f} s |"
    peaks = memory["figures"]["minilm_128"]
    yield f"| Peak memory of a process that runs MiniLM with 128 tokens | {peaks['tenon']['peak'] / 1024:.0f} MiB (ONNX Runtime: {peaks['onnxruntime']['peak'] / 1024:.0f} MiB) |"
    yield ""
    yield (f"Speed in f32 relative to ONNX Runtime {versions['onnxruntime']} and OpenVINO {versions['openvino'].split('-')[0]}. The runs alternate in one process. "
           "1.24 means that Tenon is 1.24 times as fast; below 1 Tenon is slower.")
    yield ""
    yield "| model | vs ONNX Runtime, 1 thread | vs ONNX Runtime, 2 threads | vs OpenVINO, 1 thread | vs OpenVINO, 2 threads |"
    yield "|---|---|---|---|---|"
    for key, title in MODELS.items():
        row = models["figures"].get(key, {})
        cells = [f"{row[threads][f'over_{peer}']['median']:.2f}" if threads in row else "-" for peer in ("onnxruntime", "openvino") for threads in ("1", "2")]
        yield f"| {title} | " + " | ".join(cells) + " |"


def write():
    with open(README) as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(README, "w") as file:
        file.write(before + BEGIN + "\n" + "\n".join(figures()) + "\n" + END + after)


if __name__ == "__main__":
    write()
