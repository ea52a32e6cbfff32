#!/usr/bin/env python3
"""MiniLM of examples/02_search against values of sentence-transformers: tests/data/minilm_reference.json. Runs build/tenon on the models that
examples/02_search/make_model.py writes, and the program itself. Missing files are made, except for the program. Options: --build DIR (build);
the others go to unittest."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/02_search"
CASES = json.loads((ROOT / "tests/data/minilm_reference.json").read_text())["cases"]
TEXTS = [case["text"] for case in CASES]
VECTORS = np.array([case["embedding"] for case in CASES])
LEAST_COSINE, MOST_DIFFERENCE = 0.99999, 2e-5

build = ROOT / "build"


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def need(path, sources, *command):
    """Returns the file, which a command makes if it is missing or older than its sources."""
    if not path.exists() or path.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        path.parent.mkdir(parents=True, exist_ok=True)
        result = call(*command)
        if result.returncode:
            raise AssertionError(f"{path} cannot be made: {result.stdout}{result.stderr}")
    return path


def library():
    sources = [EXAMPLE / "text_ops.c", EXAMPLE / "wordpiece.c"]
    path = build / "run/text_ops.so"
    return need(path, sources, build / "tenon", "build", *sources, "-l", ":libutf8proc.a", "-o", path)


def model(name, *options):
    path, script = build / "run" / f"{name}.onnx", EXAMPLE / "make_model.py"
    return need(path, [script], sys.executable, script, *options, "-o", path)


def run(path, texts, *outputs):
    """Runs a model on texts by the command and returns the named outputs."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/text.npy", np.array(texts, np.str_))
        result = call(build / "tenon", "run", path, "--ops", library(), "-i", f"text=@{folder}/text.npy", "-o", folder)
        if result.returncode:
            raise AssertionError(f"tenon run {path}: {result.stdout}{result.stderr}")
        return [np.load(f"{folder}/{name}.npy") for name in outputs]


class Tokens(unittest.TestCase):
    def check(self, order):
        ids, mask = run(model("minilm_tokens", "--tokens"), [TEXTS[i] for i in order], "ids", "mask")
        self.assertEqual(ids.dtype, np.int64)
        self.assertEqual(ids.shape, (len(order), max(len(CASES[i]["input_ids"]) for i in order)))
        for i, row, used in zip(order, ids, mask):
            expected = CASES[i]["input_ids"]
            with self.subTest(text=TEXTS[i]):
                self.assertEqual(list(row[: len(expected)]), expected)
                self.assertEqual(list(used), [j < len(expected) for j in range(len(used))])
                self.assertFalse(row[len(expected) :].any())

    def test_a_batch_has_the_tokens_of_each_text_padded_to_the_longest(self):
        self.check(range(len(CASES)))

    def test_a_text_alone_is_not_padded(self):
        for i in range(len(CASES)):
            self.check([i])

    def test_no_texts_give_no_rows(self):
        ids, _ = run(model("minilm_tokens", "--tokens"), [], "ids", "mask")
        self.assertEqual(ids.shape[0], 0)

    def test_a_vocabulary_without_its_special_words_is_refused_by_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "poor.onnx"
            poor = onnx.load(model("minilm_tokens", "--tokens"))
            (vocab,) = (a for a in poor.graph.node[0].attribute if a.name == "vocab")
            vocab.s = b"[UNK]\nword\n"
            onnx.save(poor, path)
            result = call(build / "tenon", "run", path, "--ops", library(), "-i", "text=word")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("lacks [CLS] [SEP]", result.stderr)


class Vectors(unittest.TestCase):
    def check(self, order):
        (vectors,) = run(model("minilm"), [TEXTS[i] for i in order], "embedding")
        self.assertEqual(vectors.shape, (len(order), VECTORS.shape[1]))
        expected = VECTORS[list(order)]
        cosine = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
        difference = np.abs(vectors - expected).max(1)
        for i, c, d in zip(order, cosine, difference):
            with self.subTest(text=TEXTS[i]):
                self.assertGreaterEqual(c, LEAST_COSINE)
                self.assertLessEqual(d, MOST_DIFFERENCE)

    def test_a_text_alone_has_the_reference_vector(self):
        for i in range(len(CASES)):
            self.check([i])

    def test_eight_texts_of_mixed_lengths_have_the_reference_vectors(self):
        order = np.random.default_rng(8).permutation(len(CASES))
        for start in range(0, len(CASES), 8):
            self.check(list(order[start : start + 8]))

    def test_thirty_two_texts_of_mixed_lengths_have_the_reference_vectors(self):
        self.check(list(np.random.default_rng(32).permutation(np.arange(32) % len(CASES))))


class Program(unittest.TestCase):
    def search(self, *arguments):
        program = build / "run/search"
        if not program.exists():
            self.skipTest(f"{program} is not built; `make run` builds it")
        return call(program, "-m", model("minilm"), "-l", library(), *arguments)

    def test_the_nearest_passage_comes_first(self):
        answers = {
            "How do pets rest?": "Cats sleep for most of the day.",
            "What is the crossing made of?": "The bridge was built of steel in 1890.",
            "What do bakers use?": "Bread is baked from flour.",
        }
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for i, fact in enumerate(answers.values()):
                files.append(f"{folder}/{i}.txt")
                pathlib.Path(files[-1]).write_text(" ".join([fact] * 12) + "\n\n")
            for question, fact in answers.items():
                result = self.search("-q", question, *files)
                self.assertEqual(result.returncode, 0, result.stderr)
                lines = result.stdout.splitlines()
                self.assertEqual(lines[0], question)
                self.assertIn(fact, lines[1])
                self.assertIn("passages a second", result.stdout)

    def test_a_file_that_is_not_there_is_named(self):
        result = self.search("no/such/file")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no/such/file", result.stderr)

    def test_a_model_that_is_not_there_is_named(self):
        result = self.search("-m", "no/such.onnx")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no/such.onnx", result.stderr)

    def test_help_says_how_to_use_it(self):
        result = self.search("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("usage: search", result.stdout)


if __name__ == "__main__":
    if "--build" in sys.argv:
        at = sys.argv.index("--build")
        build = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at : at + 2]
    unittest.main()
