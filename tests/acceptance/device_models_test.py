"""Whole models on devices that compile source kernels, against the CPU: nothing falls back, only the outputs are copied to the host, and few
kernels are compiled. With two operators withheld, those two fall back, with the copies that they need. MiniLM on sim, which offloads subgraphs
of it. A model that is spread over both ordinals of sim, with random delays, gives the bits of one ordinal without delays. Usage:
device_models_test.py [BACKEND | sim-claims | sim-spread]... (opencl sim-claims sim-spread). TENON_ZOO: the folder of the models (build/zoo, see
models_test.py); SIM_SEEDS: the number of seeds for delays (2; `make sim-seeds` uses 1,000), SIM_FROM: the first seed."""
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))
ZOO = os.environ.get("TENON_ZOO", os.path.join(BUILD, "zoo"))
TENON = os.path.join(BUILD, "tenon")
RTOL, SHARE = 1e-3, 1e-5  # relative to an element, and to the largest one
KERNELS = 60  # their compilation should take less than 60 seconds on one idle processor; the time is printed
MODELS = {"minilm_16": ["input_ids=ramp", "attention_mask=ones"], "mobilenetv2": ["random:0"], "resnet50": ["random:0"]}
WITHHELD = """#include <tenon/op.h>
TENON_LIBRARY(withheld, "1.0.0", TENON_EXTEND("core::softmax", TENON_RULE("%s fallback")),
              TENON_EXTEND("core::layer_norm", TENON_RULE("%s fallback")))
"""


def run(model, folder, *more, **environment):
    command = [TENON, "run", os.path.join(ZOO, model + ".onnx"), "--output-dir", folder, *more]
    for value in MODELS[model]:
        command += ["--input", value]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **environment))
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:800])
    return done.stdout


def outputs(folder):
    return {name: np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def difference(found, expected):
    for name, reference in expected.items():
        limit = RTOL * np.abs(reference) + SHARE * np.max(np.abs(reference), initial=0)
        if found[name].shape != reference.shape or not np.all(np.abs(found[name] - reference) <= limit):
            return f"{name} differs by up to {np.max(np.abs(found[name] - reference)):.3g}"
    return None


def copied_out(text, backend):
    section = text[text.index(f"{backend}:0"):].split("\n" + "  " + f"{backend}:1")[0]
    found = re.search(r"copied out\s+(\d+) times", section)
    return int(found[1]) if found else 0


def fallbacks(text):
    if "ran on the CPU instead (fallback):" not in text:
        return {}
    lines = text.split("ran on the CPU instead (fallback):\n")[1].split("\n")
    return {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("core::")}


def check_model(backend, model):
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as here, \
            tempfile.TemporaryDirectory() as cache:
        begin = time.time()
        text = run(model, there, "--device", backend, "--dump", "devices", TENON_CACHE="off", POCL_CACHE_DIR=cache)
        seconds = time.time() - begin
        run(model, here)
        expected = outputs(here)
        kernels = int(re.search(r"source kernels: (\d+) compiled", text)[1])
        print(f"  {model} on {backend}: {kernels} kernels, {seconds:.1f} s with their compilation, "
              f"{copied_out(text, backend)} copies to the host")
        if fallbacks(text):
            return f"fell back: {fallbacks(text)}"
        if copied_out(text, backend) != len(expected):
            return f"{copied_out(text, backend)} copies to the host for {len(expected)} outputs"
        if kernels > KERNELS:
            return f"{kernels} kernels; at most {KERNELS}"
        return difference(outputs(there), expected)


def check_withheld(backend):
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as here, \
            tempfile.TemporaryDirectory() as own:
        source, library = os.path.join(own, "withheld.c"), os.path.join(own, "withheld.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(WITHHELD % (backend, backend))
        subprocess.run([TENON, "build", source, "-o", library], check=True, capture_output=True)
        text = run("minilm_16", there, "--device", backend, "--ops", library, "--dump", "devices")
        run("minilm_16", here)
        expected = outputs(here)
        # softmax reads one tensor; layer_norm reads x, scale and bias
        if fallbacks(text) != {"core::softmax": 6, "core::layer_norm": 13}:
            return f"fell back: {fallbacks(text)}"
        if copied_out(text, backend) != 6 + 3 * 13 + len(expected):
            return f"{copied_out(text, backend)} copies to the host"
        return difference(outputs(there), expected)


def check_spread():
    """Puts the later half of the layers on the other ordinal; a race would end the run."""
    with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as here:
        run("minilm_16", alone, "--device", "sim")
        run("minilm_16", here)
        expected = outputs(alone)
        why = difference(expected, outputs(here))
        first, seeds = int(os.environ.get("SIM_FROM", "1")), int(os.environ.get("SIM_SEEDS", "2"))
        for seed in range(first, first + seeds):
            with tempfile.TemporaryDirectory() as there:
                pins = [word for i in (3, 4, 5) for word in ("--pin", f"/model/encoder/layer.{i}/*=sim:1")]
                text = run("minilm_16", there, "--device", "sim", *pins, "--dump", "placement",
                           TENON_SIM=f"delay=100,seed={seed},check=abort,peers={seed % 2}")
                share = re.search(r"sim:0: (\d+) nodes, sim:1: (\d+) nodes, cpu: 0 nodes", text)
                found = outputs(there)
            if not share or min(int(share[1]), int(share[2])) < 50:
                return f"seed {seed}: {text.splitlines()[1]}"
            if any(not np.array_equal(found[name], reference) for name, reference in expected.items()):
                return f"seed {seed}: other bits than on one ordinal"
        return why


def claims(text):
    """Returns the counts of the report: offloaded subgraphs, rejected ones, and those that were compiled or read from files."""
    found = re.search(r"offload to sim:0: (\d+) subgraphs? with (\d+) of", text)
    made = re.search(r"offloaded subgraphs: (\d+) compiled, (\d+) from files", text)
    return int(found[1]), text.count("rejected: "), int(made[1]), int(made[2])


def check_claims():
    """Offloads all subgraphs, then again from files; one subgraph; one of which the first does not compile; with delays between all."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as cache:
        run("minilm_16", here)
        expected = outputs(here)
        steps = [("claim=1", "on", (13, 0, 8, 5)),  # five of the six subgraphs of attention scores equal the first one
                 ("claim=1,handles=1,delay=200", "on", (13, 0, 0, 13)),
                 ("claim=1", "groups=1", (1, 0, 1, 0)),
                 ("claim=1,fail=group_compile:1", "groups=2", (1, 1, 1, 0)),
                 ("claim=1,delay=100", "on --record", (13, 0, 0, 13)),
                 ("claim=1,delay=100", "on --pin */encoder/layer.3/*=sim:1", (14, 0, 4, 10))]  # the neighbours of this layer differ
        for settings, claim, wanted in steps:
            with tempfile.TemporaryDirectory() as there:
                text = run("minilm_16", there, "--device", "sim", "--claim", *claim.split(), "--dump", "claims", "--dump", "devices",
                           TENON_SIM=settings, TENON_CACHE=cache)
                if claims(text) != wanted:
                    return f"{settings}, --claim {claim}: claimed, handed back, compiled, read: {claims(text)}, expected {wanted}"
                wrong = difference(outputs(there), expected)
                if wrong:
                    return f"{settings}, --claim {claim}: {wrong}"
                print(f"  minilm_16 on sim, {settings}, --claim {claim}: {wanted[0]} groups")
    return None


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def count(name, why):
        counts["failed" if why else "passed"] += 1
        if why:
            print(f"FAILED: {name}: {why}")

    sims = {"sim-claims": ("claimed groups of minilm_16 on sim", check_claims),
            "sim-spread": ("minilm_16 over two ordinals of sim", check_spread)}
    for backend in sys.argv[1:] or ["opencl", *sims]:
        if backend in sims:
            if os.path.exists(os.path.join(ZOO, "minilm_16.onnx")):
                count(sims[backend][0], sims[backend][1]())
            else:
                counts["skipped"] += 1
                print(f"skipped: {sims[backend][0]}: not in {ZOO}; bench/models/make_zoo.py makes it")
            continue
        listed = subprocess.run([TENON, "devices"], capture_output=True, text=True).stdout
        if f"{backend}:0" not in listed:
            counts["skipped"] += len(MODELS) + 1
            print(f"skipped: {backend}: there is no such device here")
            continue
        for model in MODELS:
            if not os.path.exists(os.path.join(ZOO, model + ".onnx")):
                counts["skipped"] += 1
                print(f"skipped: {model}: not in {ZOO}; bench/models/make_zoo.py makes it")
                continue
            try:
                count(f"{model} on {backend}", check_model(backend, model))
            except RuntimeError as error:
                count(f"{model} on {backend}", error)
        if os.path.exists(os.path.join(ZOO, "minilm_16.onnx")):
            count(f"two operators withheld on {backend}", check_withheld(backend))
    print(", ".join(f"{counts[name]} {name}" for name in counts))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
