#!/usr/bin/env python3
"""Trains the network on lines that it renders, by reader::ctc_loss, for a few minutes on two cores:

  PYTHONPATH=build/python .venv-zoo/bin/python examples/10_line_reader/train.py -o build/reader.pt

Line i of the training has the seed FIRST_SEED + i; lines with lower seeds are never learned. The file that -o names has
the weights that read best so far. FILE.state, beside it, has everything that --resume needs."""
import argparse
import math
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads then do not stall on a machine with other work

import numpy as np
import torch

import network
import render

FIRST_SEED = 1_000_000  # of training; the lines of CHECKED decide which weights are the best
CHECKED = range(900_000, 900_200)
BATCH, POOL = 32, 16  # lines in a batch; batches that are drawn together and share lines of similar width
STEPS, SHORT_STEPS, SHORT = 2400, 320, 10  # the first lines have few characters: the network then learns sooner where each one is
RATE = 3e-3
REPORT, CHECK = 10, 200  # steps between two lines of progress; steps between two readings of CHECKED


# ---- lines ----


def pool_of(first, count, longest):
    """Batches of the lines with seeds from `first` on: (pictures [n, HEIGHT, width] u8, texts). More paper on the right gives
    all lines of a batch the width of the widest line, so there is no padding, and every frame counts."""
    lines = [render.random_line(seed, longest) for seed in range(first, first + count * BATCH)]
    widths = [style.left + style.right + np.subtract(*render.extent_of(text, style)[::-1]) for text, style in lines]
    order = np.argsort(widths, kind="stable").reshape(count, BATCH)
    for batch in np.random.default_rng(first).permutation(order):
        widest = max(widths[i] for i in batch)
        pictures = [render.render(lines[i][0], lines[i][1]._replace(right=lines[i][1].right + int(widest - widths[i]))) for i in batch]
        yield torch.from_numpy(np.stack(pictures)), [lines[i][0] for i in batch]


def batches(step, steps):
    """The batches from `step` on. They are the same whether or not the training was interrupted."""
    while step < steps:
        skipped = step % POOL
        longest = SHORT if step < SHORT_STEPS else render.LONGEST
        pool = list(pool_of(FIRST_SEED + (step - skipped) * BATCH, POOL, longest))[skipped:]
        yield from pool
        step += len(pool)


# ---- a step ----


def loss_of(model, pictures, texts):
    """The mean over lines of the loss for each character."""
    log_probs = model(pictures)
    lengths = torch.tensor([len(text) for text in texts])
    targets = torch.zeros(len(texts), int(lengths.max()), dtype=torch.int64)
    for row, text in zip(targets, texts):
        row[: len(text)] = torch.tensor([1 + render.ALPHABET.index(letter) for letter in text])
    frames = torch.full((len(texts),), log_probs.shape[0])
    loss, _ = torch.ops.reader.ctc_loss(log_probs, targets, frames, lengths)
    return (loss / lengths).mean()


def take_step(model, optimiser, pictures, texts):
    optimiser.zero_grad()
    loss = loss_of(model, pictures, texts)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimiser.step()
    return loss.item()


def rate_of(step, steps):
    """The learning rate: rises over the first twentieth of the steps, then falls to 0 along a cosine."""
    up = steps / 20
    return RATE * (step / up if step < up else 0.5 + 0.5 * math.cos(math.pi * (step - up) / (steps - up)))


# ---- how well it reads ----


def distance(a, b):
    """The number of characters to insert, delete and replace to turn a into b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def read(model, picture):
    with torch.no_grad():
        log_probs = model(torch.from_numpy(picture)[None]).numpy()
    text, _ = network.library.ctc_decode(log_probs, np.array([len(log_probs)]), alphabet=render.ALPHABET, beam=network.BEAM)
    return str(text[0])


def error_of(model, seeds):
    """The number of wrong characters for each character of the lines."""
    model.eval()
    lines = [render.random_line(seed) for seed in seeds]
    wrong = sum(distance(read(model, render.render(*line)), line[0]) for line in lines)
    model.train()
    return wrong / sum(len(text) for text, _ in lines)


# ---- the training ----


def save(value, path):
    torch.save(value, f"{path}.new")
    os.replace(f"{path}.new", path)


def train(path, steps, resume):
    torch.manual_seed(1)
    model = network.Network()
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    begin, best, seconds = 0, math.inf, 0.0
    if resume:
        state = torch.load(f"{path}.state")
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        begin, best, seconds = state["step"], state["best"], state["seconds"]
    start, losses = time.monotonic() - seconds, []
    for step, batch in enumerate(batches(begin, steps), begin + 1):
        if step > steps:
            break
        for group in optimiser.param_groups:
            group["lr"] = rate_of(step, steps)
        losses.append(take_step(model, optimiser, *batch))
        seconds = time.monotonic() - start
        if step % REPORT == 0 or step == steps:
            left = seconds / step * (steps - step)
            print(f"step {step} of {steps}  loss {np.mean(losses):.3f}  {seconds:.0f} s, about {left:.0f} s left", flush=True)
            losses = []
        if step % CHECK == 0 or step == steps:
            error = error_of(model, CHECKED)
            print(f"step {step}: character error {error:.2%}" + (f", kept in {path}" if error < best else ""), flush=True)
            if error < best:
                best = error
                save(model.state_dict(), path)
            save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step, "best": best, "seconds": time.monotonic() - start}, f"{path}.state")
    return best


def main():
    parser = argparse.ArgumentParser(description="Trains the line reader.")
    parser.add_argument("-o", "--output", required=True, help="a file for the weights")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--resume", action="store_true", help="go on from OUTPUT.state")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    print(f"{sum(p.numel() for p in network.Network().parameters())} parameters")
    best = train(arguments.output, arguments.steps, arguments.resume)
    print(f"best character error {best:.2%} over {len(CHECKED)} lines: {arguments.output}")


if __name__ == "__main__":
    sys.exit(main())
