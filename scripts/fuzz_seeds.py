#!/usr/bin/env python3
"""Seeds of fuzzing from the sources of operators: the texts of each, one file an operator, in the two forms that
tests/fuzz/text_fuzz.c and tests/fuzz/descriptor_fuzz.c read.

Usage: fuzz_seeds.py OUT: writes OUT/seeds-text and OUT/seeds-descriptor."""
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


if __name__ == "__main__":
    main(sys.argv[1])
