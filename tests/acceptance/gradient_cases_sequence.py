"""Gradients of einsum, attention and layers with a state, beside PyTorch's. Left out: peepholes, clip and unusual activations, which PyTorch's
layers do not have; tests/unit/autograd/sequence_cases.h checks those by finite differences."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gradients import away, several

# ---- einsum

for equation, shapes in (("ij,jk->ik", [(2, 3), (3, 4)]), ("ij->j", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii,ij->j", [(3, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
                         ("...ij,jk->...k", [(2, 5, 3), (3, 4)]), ("...i,...i->...", [(2, 1, 3), (4, 3)]), ("i,j,k->kji", [(2,), (3,), (4,)]), ("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,kl->j", [(2, 3), (4, 5)])):
    several("einsum", lambda xs, e=equation: torch.einsum(e, *xs), [([[away(s) for s in shapes]], [0])], equation=f"'{equation}'")

# ---- attention


def rotated(interleaved, width, heads):
    def function(x, cos, sin, positions=None):
        four = x.dim() == 4
        y = x if four else x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
        size = width or y.shape[-1]
        cos, sin = (a[positions] if positions is not None else a for a in (cos, sin))
        cos, sin = cos[:, None], sin[:, None]
        head = y[..., :size]
        a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
        real, imaginary = a * cos - b * sin, a * sin + b * cos
        head = torch.stack([real, imaginary], -1).flatten(-2) if interleaved else torch.cat([real, imaginary], -1)
        y = torch.cat([head, y[..., size:]], -1)
        return y if four else y.transpose(1, 2).reshape(x.shape)
    return function


several("rotary_embedding", rotated(False, 0, 0), [([away((2, 3, 5, 4)), away((2, 5, 2)), away((2, 5, 2))], [0, 1, 2]), ([away((1, 1, 3, 6)), away((1, 3, 3)), away((1, 3, 3))], [0, 1, 2]), ([away((2, 1, 0, 6)), away((2, 0, 3)), away((2, 0, 3))], [0, 1, 2])])
several("rotary_embedding", rotated(True, 2, 3), [([away((2, 5, 12)), away((7, 1)), away((7, 1)), np.array([[1, 2, 0, 6, 6], [3, 3, 3, 4, 5]])], [0, 1, 2])], interleaved=True, rotary_embedding_dim=2, num_heads=3)
several("rotary_embedding", rotated(False, 4, 2), [([away((2, 5, 12)), away((7, 2)), away((7, 2)), np.array([[1, 2, 0, 6, 6], [3, 3, 3, 4, 5]])], [0, 1, 2])], rotary_embedding_dim=4, num_heads=2)


def scaled(**options):
    """PyTorch's own attention, by the implementation that has second derivatives."""
    def function(q, k, v, mask=None):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, mask, **options)
    return function


def attention(causal=False, q_heads=0, kv_heads=0, scale=None, softcap=0.0, presents=False):
    def function(q, k, v, mask=None, past_key=None, past_value=None, nonpad=None):
        three = q.dim() == 3
        if three:
            q, k, v = (t.reshape(*t.shape[:2], n, -1).transpose(1, 2) for t, n in ((q, q_heads), (k, kv_heads), (v, kv_heads)))
        past = 0 if past_key is None else past_key.shape[2]
        if past:
            k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        present = k, v
        many = q.shape[1] // max(1, k.shape[1])
        scores = q @ k.repeat_interleave(many, 1).transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
        scores = softcap * torch.tanh(scores / softcap) if softcap else scores
        rows, columns = scores.shape[-2:]
        if causal:
            scores = scores.masked_fill(torch.arange(columns) > torch.arange(rows)[:, None] + past, -math.inf)
        if nonpad is not None:
            scores = scores.masked_fill(torch.arange(columns) >= nonpad.reshape(-1, 1, 1, 1), -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        out = scores.softmax(-1) @ v.repeat_interleave(many, 1)
        out = out.transpose(1, 2).flatten(2) if three else out
        return (out, *present) if presents else out
    return function


several("attention", scaled(), [([away((0, 3, 4, 5)), away((0, 3, 6, 5)), away((0, 3, 6, 7))], [0, 1, 2]), ([away((2, 3, 4, 5)), away((2, 3, 6, 5)), away((2, 3, 6, 7))], [0, 1, 2]), ([away((1, 2, 1, 3)), away((1, 2, 4, 3)), away((1, 2, 4, 3))], [0, 1, 2])])
several("attention", scaled(enable_gqa=True, is_causal=True), [([away((2, 2, 0, 3)), away((2, 2, 4, 3)), away((2, 2, 4, 3))], [0, 1, 2]), ([away((2, 4, 5, 3)), away((2, 2, 5, 3)), away((2, 2, 5, 3))], [0, 1, 2])], is_causal=True)
several("attention", scaled(), [([away((2, 3, 4, 5)), away((2, 3, 6, 5)), away((2, 3, 6, 5)), away((3, 4, 6))], [0, 1, 2, 3]), ([away((2, 3, 4, 5)), away((2, 3, 6, 5)), away((2, 3, 6, 5)), np.tri(4, 6, 2) > 0], [0, 1, 2])])
several("attention", attention(True, 4, 2, None, 1.5, True), [([away((2, 3, 8)), away((2, 5, 4)), away((2, 5, 6)), away((2, 1, 3, 7)), away((2, 2, 2, 2)), away((2, 2, 2, 3))], [0, 1, 2, 3, 4, 5])],
        is_causal=True, q_num_heads=4, kv_num_heads=2, softcap=1.5)
several("attention", attention(scale=0.3), [([away((2, 3, 4, 5)), away((2, 3, 6, 5)), away((2, 3, 6, 7)), None, None, None, np.array([4, 6])], [0, 1, 2])], scale=0.3)


def linear_attention(q_heads, heads, gated, delta, scale=0.0):
    def function(q, k, v, state=None, decay=None, beta=None):
        batch, length = q.shape[:2]
        q, k, v = (t.reshape(batch, length, n, t.shape[2] // n) for t, n in ((q, q_heads), (k, heads), (v, heads)))
        state = torch.zeros(batch, heads, k.shape[-1], v.shape[-1], dtype=q.dtype) if state is None else state
        outs = []
        for t in range(length):
            if gated:
                state = state * decay[:, t].exp().reshape(batch, heads, decay.shape[2] // heads, 1)
            row = v[:, t]
            if delta:
                row = (row - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
            state = state + k[:, t, :, :, None] * row[:, :, None]
            each = state.repeat_interleave(q_heads // heads, 1)
            outs.append((scale or q.shape[-1] ** -0.5) * torch.einsum("bhk,bhkv->bhv", q[:, t], each).flatten(1))
        return torch.stack(outs, 1), state
    return function


several("linear_attention", linear_attention(4, 2, True, True), [([away((2, 3, 12)), away((2, 3, 6), -0.7, 0.7), away((2, 3, 10)), away((2, 2, 3, 5)), away((2, 3, 6), -1, 0), away((2, 3, 2), 0, 1)], [0, 1, 2, 3, 4, 5]),
                                                                   ([away((1, 5, 4)), away((1, 5, 2), -0.7, 0.7), away((1, 5, 6)), None, away((1, 5, 2), -1, 0), away((1, 5, 1), 0, 1)], [0, 1, 2, 4, 5])], q_num_heads=4, kv_num_heads=2)
several("linear_attention", linear_attention(2, 2, False, False, 0.4), [([away((2, 3, 6)), away((2, 3, 6)), away((2, 3, 4))], [0, 1, 2]), ([away((0, 3, 6)), away((0, 3, 6)), away((0, 3, 4))], [0, 1, 2])], q_num_heads=2, kv_num_heads=2, update_rule="linear", scale=0.4)



def causal_conv(silu):
    def function(x, w, bias=None, past=None):
        past = torch.zeros(*x.shape[:2], w.shape[2] - 1, dtype=x.dtype) if past is None else past
        both = torch.cat([past, x], 2)
        windows = both.unfold(2, w.shape[2], 1) if x.shape[2] else both.new_zeros(*x.shape, w.shape[2]) * both.sum()
        out = (windows * w).sum(3) + (0 if bias is None else bias[:, None])
        return F.silu(out) if silu else out, both[:, :, x.shape[2]:]
    return function


several("causal_conv", causal_conv(False), [([away((2, 3, 5)), away((3, 1, 4))], [0, 1]), ([away((1, 4, 2)), away((4, 1, 5)), away((4,)), away((1, 4, 4))], [0, 1, 2, 3]), ([away((2, 3, 4)), away((3, 1, 1)), away((3,))], [0, 1, 2]),
                                            ([away((2, 3, 0)), away((3, 1, 4)), away((3,)), away((2, 3, 3))], [0, 1, 2, 3]), ([away((0, 3, 5)), away((3, 1, 4)), away((3,)), away((0, 3, 3))], [0, 1, 2, 3]),
                                            ([away((2, 0, 5)), away((0, 1, 4)), away((0,)), away((2, 0, 3))], [0, 1, 2, 3])])
several("causal_conv", causal_conv(True), [([away((2, 3, 7)), away((3, 1, 4)), away((3,)), away((2, 3, 3))], [0, 1, 2, 3]), ([away((2, 2, 5)), away((2, 1, 2)), None, away((2, 2, 1))], [0, 1, 3])], activation="silu")

# ---- layers with a state

ORDER = {"lstm": [0, 2, 3, 1], "gru": [1, 0, 2], "rnn": [0]}  # gates of PyTorch among those of ONNX


def layer(kind, directions, batch_first):
    def function(x, w, r, b=None, lengths=None, h=None, c=None):
        hidden, gates = r.shape[2], len(ORDER[kind])
        weights = []
        for d in range(directions):
            parts = [w[d], r[d]] + ([] if b is None else [b[d, :gates * hidden], b[d, gates * hidden:]])
            weights += [torch.cat([p.split(hidden)[g] for g in ORDER[kind]]) for p in parts]
        batch = x.shape[0 if batch_first else 1]
        start = [torch.zeros(directions, batch, hidden, dtype=x.dtype) if s is None else s.transpose(0, 1) if batch_first else s for s in ((h, c) if kind == "lstm" else (h,))]
        rest = b is not None, 1, 0.0, False, directions == 2, batch_first
        call = {"lstm": torch.lstm, "gru": torch.gru, "rnn": torch.rnn_tanh}[kind]
        y, *states = call(x, start if kind == "lstm" else start[0], weights, *rest)
        y = y.reshape(*y.shape[:2], directions, hidden)
        return (y if batch_first else y.transpose(1, 2), *(s.transpose(0, 1) if batch_first else s for s in states))
    return function


for kind, more in (("lstm", {}), ("gru", {"linear_before_reset": True}), ("rnn", {})):
    gates = len(ORDER[kind])
    for directions, batch_first in ((1, False), (2, False), (2, True)):
        for steps, batch, inputs, hidden in ((4, 3, 2, 5), (1, 2, 3, 4)):
            x, state = (batch, steps, inputs) if batch_first else (steps, batch, inputs), (batch, directions, hidden) if batch_first else (directions, batch, hidden)
            bare = [away(x), away((directions, gates * hidden, inputs), -1, 1), away((directions, gates * hidden, hidden), -1, 1)]
            full = bare + [away((directions, 2 * gates * hidden), -1, 1), None, away(state)] + ([away(state)] if kind == "lstm" else [])
            several(kind, layer(kind, directions, batch_first), [(bare, [0, 1, 2]), (full, [0, 1, 2, 3, 5] + [6] * (kind == "lstm"))], **more,
                    direction="bidirectional" if directions == 2 else "forward", layout=int(batch_first))
    empty = [np.zeros((2, 0, 3)), away((1, gates * 4, 3), -1, 1), away((1, gates * 4, 4), -1, 1)]
    several(kind, lambda x, w, r, kind=kind: tuple((x.sum() + w.sum() + r.sum()) * torch.zeros(s, dtype=x.dtype) for s in ((2, 1, 0, 4), (1, 0, 4), (1, 0, 4))[:3 if kind == "lstm" else 2]),
            [(empty, [0, 1, 2])], **more)
