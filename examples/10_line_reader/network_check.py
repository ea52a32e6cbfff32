"""Tests network.py, train.py and export.py, and how well lines are read that training never saw. check.py runs it where
PyTorch, Pillow and the fonts are installed: network_check.py TENON LIBRARY READ FOLDER. READ is the program of read.c,
FOLDER an empty folder."""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import tenon
import torch

import export
import network
import render
import train

TENON, LIBRARY, READ = sys.argv[1:4]
FOLDER = pathlib.Path(sys.argv[4])
HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "reader.onnx"
SEEDS = range(200)
MOST = 0.03  # character error


def gradients():
    """The gradients of the network's weights are the same by reader::ctc_loss and by PyTorch's own loss."""
    torch.manual_seed(2)
    model = network.Network()
    pictures, texts = next(train.pool_of(0, 1, 6))
    found = []
    for loss_of in train.loss_of, torch_loss:
        model.zero_grad()
        loss = loss_of(model, pictures, texts)
        loss.backward()
        found.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


def torch_loss(model, pictures, texts):
    log_probs, lengths = model(pictures), torch.tensor([len(text) for text in texts])
    targets = torch.tensor([1 + render.ALPHABET.index(letter) for text in texts for letter in text])
    frames = torch.full((len(texts),), log_probs.shape[0])
    return (torch.nn.functional.ctc_loss(log_probs, targets, frames, lengths, reduction="none") / lengths).mean()


def steps():
    """A few steps on one batch make its loss fall."""
    torch.manual_seed(1)
    model = network.Network()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = next(train.pool_of(0, 1, 6))
    losses = [train.take_step(model, optimiser, *batch) for _ in range(12)]
    assert losses[-1] < losses[0] / 2, losses
    return losses


def resumed():
    """A training that is interrupted and resumed ends with the weights of one that is not interrupted."""
    train.CHECK, train.CHECKED, train.POOL, train.BATCH = 2, range(900_000, 900_002), 3, 4

    def broken(*arguments, taken=[]):
        taken.append(1)
        if len(taken) > 3:
            raise KeyboardInterrupt
        return take_step(*arguments)

    take_step = train.take_step
    train.train(FOLDER / "whole.pt", 5, False)
    train.take_step = broken
    try:
        train.train(FOLDER / "broken.pt", 5, False)
        raise AssertionError("it was not broken off")
    except KeyboardInterrupt:
        train.take_step = take_step
    train.train(FOLDER / "broken.pt", 5, True)
    states = [torch.load(FOLDER / f"{name}.pt.state") for name in ("whole", "broken")]
    assert [state["step"] for state in states] == [5, 5]
    for name, weight in states[0]["model"].items():
        torch.testing.assert_close(states[1]["model"][name], weight)


def log_probs_of(model, pictures):
    """The log_probs and the texts that Tenon computes with the model of an ONNX file."""
    proto = onnx.load(model)
    decode = proto.graph.node[-1]
    proto.graph.output.append(onnx.helper.make_tensor_value_info(decode.input[0], onnx.TensorProto.FLOAT, None))
    onnx.save(proto, FOLDER / "log_probs.onnx")
    run = tenon.graph.load(str(FOLDER / "log_probs.onnx")).compile()
    return [(results[2], results[0][0]) for results in (run(picture) for picture in pictures)]


def agreement(pictures):
    """The network in PyTorch, its export, and reader.onnx give the same numbers."""
    model = network.Network().eval()
    model.load_state_dict(torch.load(HERE / "reader.pt"))
    export.export(model, FOLDER / "exported.onnx")
    worst = 0
    for picture, (tree, _), (exported, _) in zip(pictures, log_probs_of(MODEL, pictures), log_probs_of(FOLDER / "exported.onnx", pictures)):
        with torch.no_grad():
            expected = model(torch.from_numpy(picture)[None]).numpy()
        np.testing.assert_allclose(tree, expected, rtol=1e-4, atol=2e-4)
        np.testing.assert_array_equal(tree, exported)
        worst = max(worst, float(np.abs(tree - expected).max()))
    return worst


def read(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, f"{command}: {result.stderr[-500:]}"
    return result.stdout


def texts(lines, pictures):
    """Reads the lines by the C program, and some of them by the command; Python must read the same texts."""
    paths = [FOLDER / f"{seed}.pgm" for seed in SEEDS]
    for path, picture in zip(paths, pictures):
        render.write_pgm(path, picture)
    found = read(READ, MODEL, LIBRARY, *paths).splitlines()
    assert len(found) == len(lines)
    for i in range(0, len(lines), 20):
        assert f"text  string [1]  ['{found[i]}']\n" in read(TENON, "run", MODEL, "--ops", LIBRARY, "-i", f"picture=@{paths[i]}"), found[i]
    by_python = [str(text) for _, text in log_probs_of(MODEL, pictures)]
    assert by_python == found
    wrong = sum(train.distance(text, line) for text, line in zip(found, lines))
    return wrong, sum(map(len, lines))


def main():
    assert MODEL.stat().st_size < 1e6 and max(SEEDS) < min(train.CHECKED) < max(train.CHECKED) < train.FIRST_SEED
    assert [train.distance(*pair) for pair in (("", ""), ("ab", ""), ("kitten", "sitting"), ("same", "same"))] == [0, 2, 3, 0]
    gradients()
    losses = steps()
    resumed()
    lines, styles = zip(*(render.random_line(seed) for seed in SEEDS))
    pictures = [render.render(*line) for line in zip(lines, styles)]
    worst = agreement(pictures[:10])
    wrong, count = texts(lines, pictures)
    print(f"12 steps take the loss from {losses[0]:.1f} to {losses[-1]:.1f}; log_probs differ from PyTorch's by {worst:.1g} at most; "
          f"{wrong} of {count} characters of {len(lines)} unseen lines are read wrongly, {wrong / count:.2%}")  # fmt: skip
    assert wrong < MOST * count, f"more than {MOST:.0%}"


if __name__ == "__main__":
    main()
