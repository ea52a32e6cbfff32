#!/usr/bin/env python3
"""Writes reference.json, with which check.py compares: losses and gradients of PyTorch's ctc_loss, the most probable
text by adding up all alignments, and for narrow beams the text by the published prefix beam search. Needs PyTorch 2.13
(.venv-zoo)."""
import itertools
import json
import math
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
RANDOM = np.random.default_rng(7)


def log_probs(frames, lines, classes, spread=2.0):
    logits = RANDOM.normal(0, spread, (frames, lines, classes))
    return np.round(logits - np.log(np.exp(logits).sum(-1, keepdims=True)), 3)


# ---- the loss ----


def torch_loss(x, targets, input_lengths, target_lengths, weights, blank, dtype):
    x = torch.tensor(x, dtype=dtype, requires_grad=True)
    loss = torch.nn.functional.ctc_loss(x, torch.tensor(targets, dtype=torch.int64), torch.tensor(input_lengths), torch.tensor(target_lengths), blank=blank, reduction="none")
    loss.backward(torch.tensor(weights, dtype=dtype))
    return loss.detach().double().numpy(), x.grad.double().numpy()


def loss_case(name, x, targets, input_lengths, target_lengths, blank=0, dtype="f64"):
    """`error`, for f32: the largest difference between PyTorch's own f32 and its f64 on the same numbers."""
    x = x.astype(np.float32 if dtype == "f32" else np.float64).astype(np.float64)
    weights = np.round(RANDOM.uniform(0.5, 2, len(input_lengths)), 2)
    arguments = (x, targets, input_lengths, target_lengths, weights, blank)
    loss, gradient = torch_loss(*arguments, torch.float64)
    error = [float(np.abs(a - b).max()) for a, b in zip(torch_loss(*arguments, torch.float32), (loss, gradient))] if dtype == "f32" else None
    numbers = {"weights": weights, "log_probs": np.round(x, 3), "targets": np.array(targets, np.int64), "input_lengths": np.array(input_lengths), "target_lengths": np.array(target_lengths)}
    expected = {"loss": loss, "gradient": gradient}
    shapes = {key: list(value.shape) for key, value in (numbers | expected).items()}
    flat = {key: value.ravel().tolist() for key, value in numbers.items()} | {key: [float(f"{v:.11g}") for v in value.ravel()] for key, value in expected.items()}
    return {"name": name, "dtype": dtype, "blank": blank, "error": error, "shapes": shapes, **flat}


def loss_cases():
    impossible = log_probs(6, 2, 4)
    impossible[2, 0, 3] = impossible[4, 1, 1] = -np.inf
    return [
        loss_case("plain", log_probs(8, 2, 5), [[1, 2, 3], [4, 1, 2]], [8, 8], [3, 3]),
        loss_case("f32, lines of all lengths, padding that is no class", log_probs(14, 5, 4), [[1, 2, 3, 1], [2, 1, 99, -1], [3, 99, 99, 99], [1, 3, 2, 99], [2, 2, 2, 99]], [14, 9, 3, 11, 7], [4, 2, 1, 3, 3], dtype="f32"),
        loss_case("the same classes in a row", log_probs(7, 2, 4), [[1, 1, 2, 2], [3, 3, 3, 0]], [7, 6], [4, 3]),
        loss_case("an empty target beside one that is not", log_probs(5, 2, 4), [[9, 9], [2, 3]], [5, 4], [0, 2]),
        loss_case("targets without width", log_probs(3, 2, 3), np.zeros((2, 0), np.int64), [3, 2], [0, 0]),
        loss_case("one frame", log_probs(1, 3, 4), [[3], [0], [1]], [1, 1, 1], [1, 0, 1]),
        loss_case("no alignment: a class twice and no frame for the blank between", log_probs(3, 2, 4), [[2, 2], [2, 1]], [2, 2], [2, 2]),
        loss_case("fewer frames than the target has classes", log_probs(4, 2, 5), [[1, 2, 3], [1, 2, 3]], [2, 4], [3, 3]),
        loss_case("no frames", log_probs(2, 3, 3), [[1], [1], [2]], [0, 0, 2], [0, 1, 1]),
        loss_case("another blank", log_probs(6, 2, 5), [[0, 4, 1], [3, 3, 0]], [6, 5], [3, 2], blank=2),
        loss_case("the last class is the blank, f32", log_probs(6, 2, 4), [[0, 0, 1], [2, 1, 0]], [6, 6], [3, 3], blank=3, dtype="f32"),
        loss_case("impossible classes, one of them of a target", impossible, [[1, 2], [1, 3]], [6, 6], [2, 2]),
    ]


# ---- the text ----


def text_of(classes, blank, alphabet):
    kept = [c for c, _ in itertools.groupby(classes) if c != blank]
    return "".join(alphabet[c - (c > blank)] for c in kept)


def all_alignments(x, blank, alphabet):
    """The most probable text of one line and the logarithm of its probability."""
    sums = {}
    for classes in itertools.product(range(x.shape[1]), repeat=len(x)):
        text = text_of(classes, blank, alphabet)
        sums[text] = sums.get(text, 0) + math.exp(sum(x[t, c] for t, c in enumerate(classes)))
    best, second = sorted(sums.values())[::-1][:2]
    assert best > second * 1.001, "a tie is no reference"
    return max(sums, key=sums.get), math.log(best)


def prefix_beam(x, blank, alphabet, beam):
    """Hannun et al., 2014, figure 1, without a language model. `kept` maps a text to its probabilities with and without
    a blank as the last frame."""
    kept = {(): (1.0, 0.0)}
    for row in np.exp(x):
        found = {}

        def add(text, in_blank, in_label):
            a, b = found.get(text, (0.0, 0.0))
            found[text] = (a + in_blank, b + in_label)

        for text, (in_blank, in_label) in kept.items():
            add(text, (in_blank + in_label) * row[blank], in_label * row[text[-1]] if text else 0.0)
            for c in range(len(row)):
                if c != blank:
                    add(text + (c,), 0.0, (in_blank if text[-1:] == (c,) else in_blank + in_label) * row[c])
        kept = dict(sorted(found.items(), key=lambda item: -sum(item[1]))[:beam])
    text = max(kept, key=lambda key: sum(kept[key]))
    return "".join(alphabet[c - (c > blank)] for c in text), math.log(sum(kept[text]))


def decode_case(name, x, alphabet, lengths, beam, blank=0, dtype="f64"):
    found = []
    for n, length in enumerate(lengths):
        line = x[:length, n].astype(np.float32 if dtype == "f32" else np.float64).astype(np.float64)
        found.append(prefix_beam(line, blank, alphabet, beam) if beam < 1000 else all_alignments(line, blank, alphabet))
    return {"name": name, "dtype": dtype, "blank": blank, "beam": beam, "alphabet": alphabet, "shapes": {"log_probs": list(x.shape)}, "log_probs": x.ravel().tolist(), "lengths": lengths,
            "text": [text for text, _ in found], "score": [float(f"{score:.10g}") for _, score in found]}


def decode_cases():
    never = log_probs(5, 2, 4)
    never[:, 0, 2] = never[2, 1, 1] = -np.inf
    greedy = np.round(np.log(np.full((2, 1, 2), [0.6, 0.4])), 3)
    return [
        decode_case("all alignments", log_probs(6, 3, 3, 1.0), "ab", [6, 5, 1], 1000),
        decode_case("all alignments, another blank, letters of two and three bytes", log_probs(5, 3, 4, 1.0), "ä漢z", [5, 5, 4], 1000, blank=1),
        decode_case("all alignments, the last class is the blank, f32", log_probs(5, 2, 4, 1.5), "xyz", [5, 5], 2000, blank=3, dtype="f32"),
        decode_case("all alignments, impossible classes", never, "abc", [5, 5], 1000),
        decode_case("the most probable class of each frame is not the most probable text", greedy, "a", [2], 1000),
        decode_case("a beam of 1", log_probs(16, 2, 5, 1.0), "abcd", [16, 12], 1),
        decode_case("a beam of 2", log_probs(16, 2, 5, 0.7), "abcd", [16, 15], 2),
        decode_case("a beam of 4, which texts leave and come back to", log_probs(16, 6, 3, 1.5), "ab", [16] * 6, 4),
        decode_case("a beam of 5", log_probs(20, 2, 6, 0.5), "abcde", [20, 20], 5),
        decode_case("a beam of 16, f32", log_probs(20, 2, 6, 0.5), "abcde", [20, 19], 16, dtype="f32"),
    ]


def main():
    groups = {"losses": loss_cases(), "texts": decode_cases()}
    lines = ["%s: [\n%s\n]" % (json.dumps(key), ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)) for key, cases in groups.items()]
    (HERE / "reference.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
