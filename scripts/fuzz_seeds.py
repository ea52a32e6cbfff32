#!/usr/bin/env python3
"""Seeds of fuzzing from the sources of operators: the texts of each, one file an operator, in the two forms that
tests/fuzz/text_fuzz.c and tests/fuzz/descriptor_fuzz.c read.

Usage: fuzz_seeds.py OUT: writes OUT/seeds-text and OUT/seeds-descriptor and, if the Python package and ONNX's tests are there, a share
of ONNX's cases as texts of graphs to OUT/seeds-graph."""
import glob
import os
import re
import sys

LETTERS = dict(TYPES="t", SHAPES="p", GRADIENT="g", WHERE="w", REUSE="r", BATCHING="b", USES="u", KERNEL="k", LOOP="l", SAMPLES="S")


def tags():
    text = open("include/tenon/op.h", encoding="utf-8").read()
    return {name: number for name, number in re.findall(r"TENON_TAG_(\w+) = (\d+)", text)}


def main(out):
    numbers = tags()
    for kind in ("text", "descriptor"):
        os.makedirs(f"{out}/seeds-{kind}", exist_ok=True)
    for path in sorted(glob.glob("ops/*.c") + glob.glob("tests/libraries/contract/*.c") + glob.glob("examples/*/*.c")):
        source = re.sub(r'"\s*\n\s*"', "", open(path, encoding="utf-8").read())
        for i, (schema, rest) in enumerate(re.findall(r'TENON_OP\("([^"]+)"(.*?)(?=TENON_OP\(|\Z)', source, re.S)):
            items = [(tag, text) for tag, text in re.findall(r'TENON_([A-Z]+)\("([^"]*)"', rest) if tag in numbers]
            name = f"{os.path.basename(path)}-{i}"
            with open(f"{out}/seeds-text/{name}", "w", encoding="utf-8") as file:
                file.write("\n".join([schema] + [LETTERS[tag] + text for tag, text in items if tag in LETTERS]))
            with open(f"{out}/seeds-descriptor/{name}", "w", encoding="utf-8") as file:
                file.write("\n".join(["seed 1.0", f"{numbers['OP']}:{schema}", f"{numbers['INFER']}:"] + [f"{numbers[tag]}:{text}" for tag, text in items]))


def write_graphs(out):
    """Every 15th case of ONNX as text. A seed is the text and its file of weights, joined by a zero byte."""
    import onnx
    sys.path.insert(0, "build/python")
    import tenon

    os.makedirs(f"{out}/seeds-graph", exist_ok=True)
    text, weights = f"{out}/w.graph", f"{out}/w.safetensors"
    for path in sorted(glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node/*/model.onnx")))[::15]:
        try:
            tenon.graph.load(path).save(text)
        except tenon.Error:
            continue
        with open(f"{out}/seeds-graph/{os.path.basename(os.path.dirname(path))}", "wb") as seed, open(text, "rb") as file:
            seed.write(file.read())
            if os.path.exists(weights):
                with open(weights, "rb") as file:
                    seed.write(b"\0" + file.read())
                os.remove(weights)


if __name__ == "__main__":
    main(sys.argv[1])
    write_graphs(sys.argv[1])
