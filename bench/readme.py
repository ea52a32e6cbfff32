"""The figures of README.md, between its two marks, made of bench/results; run.py calls this after all benchmarks ran."""
import json
import os

import report

README = os.path.join(report.ROOT, "README.md")
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
MODELS = {"minilm_16": "MiniLM, 16 tokens", "minilm_128": "MiniLM, 128 tokens", "bert_base_128": "BERT base, 128 tokens", "resnet50": "ResNet-50",
          "mobilenetv2": "MobileNetV2", "vit_small": "ViT small", "convnext_tiny": "ConvNeXt tiny", "lstm": "LSTM",
          "mlp_small": "small MLP", "chain_small": "20 pointwise nodes, 64x64", "chain_big": "20 pointwise nodes, 2048x2048"}


def load(name):
    with open(os.path.join(report.RESULTS, f"{name}.json")) as file:
        return json.load(file)


def figures():
    calls, libraries, build, memory, models = (load(name) for name in ("calls", "load", "build", "memory", "models"))
    machine, nanoseconds = models["machine"], calls["figures"]["nanoseconds"]
    over = {count: times["run"]["p10"] - times["direct"]["p10"] for count, times in nanoseconds.items()}
    versions = models["versions"]
    yield f"Measured on {machine['cpu']}, {machine['cores']} cores ({models['date']}); `make bench` measures again and writes `bench/results/*.json`."
    yield ""
    yield "| what | figure |"
    yield "|---|---|"
    yield f"| calling an operator with three tensors, over a direct C call | {over['10']:.1f} ns; with 1,000 operators registered {over['1000']:.1f}, with 100,000 {over['100000']:.1f} |"
    yield f"| the same with types and shapes inferred and checked; with results made too | {nanoseconds['10']['call_into']['p10']:.0f} ns; {nanoseconds['10']['call']['p10']:.0f} ns |"
    yield f"| loading a library of {libraries['figures']['operators']:,} operators | {libraries['figures']['load']['median_us'] / 1000:.1f} ms |"
    yield f"| `tenon build` of the library above | {build['figures']['tenon']['median_ms'] / 1000:.2f} s |"
    peaks = memory["figures"]["minilm"]
    yield f"| peak memory of a process that runs MiniLM | {peaks['tenon']['peak'] / 1024:.0f} MiB; ONNX Runtime {peaks['onnxruntime']['peak'] / 1024:.0f} MiB |"
    yield ""
    yield f"How many times faster than ONNX Runtime {versions['onnxruntime']} and OpenVINO {versions['openvino'].split('-')[0]}, f32, runs alternating in one process:"
    yield ""
    yield "| model | over ORT, 1 thread | 2 threads | over OpenVINO, 1 thread | 2 threads |"
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
