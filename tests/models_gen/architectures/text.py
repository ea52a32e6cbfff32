"""Networks on text and other sequences, written with torch.nn: recurrent ones, transformers, and what followed them."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .registry import Attention, Block, architecture, attend, draw, ids


def tokens(module, small=(1, 7), large=(3, 12), limit=50):
    return module, {"x": ids(limit, *small)}, {"x": ids(limit, *large)}


class Recurrent(nn.Module):
    """A stack of recurrent layers on embeddings, with scores for each token and its last states."""
    def __init__(self, kind, **options):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(50, 16), kind(16, 24, **options)
        self.head = nn.Linear(24 * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, x):
        y, state = self.cell(self.embedding(x))
        return (self.head(y).log_softmax(-1), *(state if isinstance(state, tuple) else (state,)))


@architecture("dynamo", "dynamo-23", "script")
def lstm_tagger():
    return tokens(Recurrent(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True))


@architecture("script")  # the other exporter writes the batch into a Reshape
def lstm_time_first():
    return tokens(Recurrent(nn.LSTM, num_layers=3), (7, 1), (12, 3))


@architecture()
def gru_classifier():
    return tokens(Recurrent(nn.GRU, num_layers=2, bidirectional=True, batch_first=True))


@architecture("script")  # the other exporter fixes the length
def rnn_elman():
    return tokens(Recurrent(nn.RNN, num_layers=2, nonlinearity="relu", batch_first=True))


class Seq2Seq(nn.Module):
    """A GRU that encodes, cells that decode with additive attention over all states, teacher-forced for six steps."""
    def __init__(self):
        super().__init__()
        self.source, self.target, self.encoder, self.cell = nn.Embedding(50, 16), nn.Embedding(40, 16), nn.GRU(16, 24, batch_first=True), nn.GRUCell(40, 24)
        self.key, self.query, self.score, self.head = nn.Linear(24, 16, bias=False), nn.Linear(24, 16), nn.Linear(16, 1, bias=False), nn.Linear(48, 40)

    def forward(self, source, target):
        memory, state = self.encoder(self.source(source))
        state, keys, given, out = state[0], self.key(memory), self.target(target), []
        for step in range(6):
            weights = self.score(torch.tanh(keys + self.query(state)[:, None])).squeeze(-1).softmax(-1)
            context = torch.bmm(weights[:, None], memory).squeeze(1)
            state = self.cell(torch.cat([given[:, step], context], 1), state)
            out.append(self.head(torch.cat([state, context], 1)))
        return torch.stack(out, 1), weights


@architecture()
def seq2seq():
    return Seq2Seq(), {"source": ids(50, 1, 5), "target": ids(40, 1, 6)}, {"source": ids(50, 3, 9), "target": ids(40, 3, 6)}


class Bert(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(60, width), nn.Embedding(40, width), nn.Embedding(2, width)
        self.norm, self.layers = nn.LayerNorm(width), nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 64, 0.0, "gelu", batch_first=True) for _ in range(2))
        self.pooler = nn.Linear(width, width)

    def forward(self, x, kinds, mask):
        x = self.norm(self.words(x) + self.places(torch.arange(x.shape[1])) + self.kinds(kinds))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        return x, self.pooler(x[:, 0]).tanh()


@architecture("dynamo")  # the other exporter writes the batch into a Reshape
def bert_torch_layers():
    def inputs(batch, length):
        mask = torch.arange(length).expand(batch, -1) >= length - torch.arange(batch)[:, None]
        return {"x": ids(60, batch, length), "kinds": ids(2, batch, length), "mask": mask.clone()}
    return Bert(), inputs(1, 8), inputs(3, 13)


@architecture("dynamo")  # the other exporter writes the batch into a Reshape
def transformer_torch():
    class Translate(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target, self.head = nn.Embedding(50, 32), nn.Embedding(40, 32), nn.Linear(32, 40)
            self.body = nn.Transformer(32, 4, 2, 2, 64, 0.0, batch_first=True)

        def forward(self, source, target):
            mask = torch.triu(torch.full((target.shape[1], target.shape[1]), -torch.inf), 1)
            return self.head(self.body(self.source(source), self.target(target), tgt_mask=mask, tgt_is_causal=True))
    return Translate(), {"source": ids(50, 1, 6), "target": ids(40, 1, 5)}, {"source": ids(50, 3, 9), "target": ids(40, 3, 8)}


class Gpt2(nn.Module):
    """Takes keys and values of earlier tokens and returns those of all tokens."""
    def __init__(self, width=32, layers=2, heads=4):
        super().__init__()
        self.words, self.places, self.heads = nn.Embedding(60, width), nn.Embedding(64, width), heads
        self.norms, self.last = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers)), nn.LayerNorm(width)
        self.qkv, self.out = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers)), nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)) for _ in range(layers))

    def forward(self, x, keys, values):
        past, length = keys.shape[3], x.shape[1]
        at = torch.arange(past, past + length)
        x = self.words(x) + self.places(at)
        mask = torch.arange(past + length)[None] <= at[:, None]
        new_keys, new_values = [], []
        for layer, (qkv, out, mlp) in enumerate(zip(self.qkv, self.out, self.mlp)):
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv(self.norms[2 * layer](x)).chunk(3, -1))
            k, v = torch.cat([keys[layer], k], 2), torch.cat([values[layer], v], 2)
            scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~mask, torch.finfo(q.dtype).min)
            x = x + out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + mlp(self.norms[2 * layer + 1](x))
            new_keys.append(k)
            new_values.append(v)
        return self.last(x) @ self.words.weight.t(), torch.stack(new_keys), torch.stack(new_values)


def cached(batch, length, past, heads, width, limit=60, layers=2):
    return {"x": ids(limit, batch, length), "keys": draw(layers, batch, heads, past, width), "values": draw(layers, batch, heads, past, width)}


@architecture("dynamo", "dynamo-23", "script")
def gpt2_with_cache():
    return Gpt2(), cached(1, 4, 3, 4, 8), cached(3, 2, 11, 4, 8)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Llama(nn.Module):
    """Rotary embedding, two heads of keys for four of queries, a gated SiLU network, and a cache of keys and values."""
    def __init__(self, width=32, layers=2, heads=4, shared=2):
        super().__init__()
        self.words, self.head, self.norms = nn.Embedding(60, width), nn.Linear(width, 60, bias=False), nn.ModuleList(RmsNorm(width) for _ in range(2 * layers + 1))
        size = width // heads
        self.heads, self.shared, self.size, self.layers = heads, shared, size, layers
        self.q, self.k, self.v, self.o = (nn.ModuleList(nn.Linear(i, o, bias=False) for _ in range(layers)) for i, o in ((width, width), (width, shared * size), (width, shared * size), (width, width)))
        self.gate, self.up, self.down = (nn.ModuleList(nn.Linear(i, o, bias=False) for _ in range(layers)) for i, o in ((width, 48), (width, 48), (48, width)))
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(0, size, 2) / size))

    def rotate(self, x, at):
        angle = at[:, None] * self.frequency
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x, keys, values):
        past, length = keys.shape[3], x.shape[1]
        at = torch.arange(past, past + length)
        mask = torch.arange(past + length)[None] <= at[:, None]
        x, kept = self.words(x), []
        for layer in range(self.layers):
            y = self.norms[2 * layer](x)
            q, k, v = (project[layer](y).unflatten(-1, (heads, self.size)).transpose(1, 2) for project, heads in ((self.q, self.heads), (self.k, self.shared), (self.v, self.shared)))
            q, k = self.rotate(q, at), torch.cat([keys[layer], self.rotate(k, at)], 2)
            v = torch.cat([values[layer], v], 2)
            kept.append((k, v))
            out = F.scaled_dot_product_attention(q, k.repeat_interleave(self.heads // self.shared, 1), v.repeat_interleave(self.heads // self.shared, 1), attn_mask=mask)
            x = x + self.o[layer](out.transpose(1, 2).flatten(2))
            y = self.norms[2 * layer + 1](x)
            x = x + self.down[layer](F.silu(self.gate[layer](y)) * self.up[layer](y))
        return self.head(self.norms[-1](x)), torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])


@architecture("dynamo", "dynamo-23", "script")
def llama_with_cache():
    return Llama(), cached(1, 4, 3, 2, 8), cached(3, 1, 11, 2, 8)


@architecture("dynamo", "dynamo-23", "script")
def llama_f16():
    def half(inputs):
        return {name: value.half() if value.is_floating_point() else value for name, value in inputs.items()}
    return Llama().half(), half(cached(1, 4, 3, 2, 8)), half(cached(2, 3, 6, 2, 8))


class T5(nn.Module):
    """Buckets of relative positions, computed in the graph, as a bias of the attention of both halves."""
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.words, self.bias, self.heads = nn.Embedding(50, width), nn.Embedding(16, heads), heads
        self.encoder, self.decoder = Block(width, heads, act=nn.ReLU), Block(width, heads, cross=True, act=nn.ReLU)

    def relative(self, length, two_sided):
        apart = torch.arange(length)[None] - torch.arange(length)[:, None]
        count = 8 if two_sided else 16
        bucket = (apart > 0).long() * count if two_sided else torch.zeros_like(apart)
        distance = apart.abs() if two_sided else (-apart).clamp(min=0)
        far = count // 2 + (torch.log(distance.clamp(min=1).float() / (count // 2)) / math.log(32 / (count // 2)) * (count // 2)).long()
        return self.bias(bucket + torch.where(distance < count // 2, distance, far.clamp(max=count - 1))).permute(2, 0, 1)[None]

    def forward(self, x, target):
        memory = self.encoder(self.words(x), mask=self.relative(x.shape[1], True))
        hidden = torch.full((target.shape[1], target.shape[1]), -1e9).triu(1)
        return self.decoder(self.words(target), memory, self.relative(target.shape[1], False) + hidden) @ self.words.weight.t()


@architecture("dynamo", "dynamo-23", "script")
def t5():
    return T5(), {"x": ids(50, 1, 9), "target": ids(50, 1, 4)}, {"x": ids(50, 3, 23), "target": ids(50, 3, 7)}


class Experts(nn.Module):
    """A mixture of four experts; each token goes to its two best, through masks and sums by index."""
    def __init__(self, width=16, count=4):
        super().__init__()
        self.words, self.gate = nn.Embedding(50, width), nn.Linear(width, count)
        self.up, self.down = nn.Parameter(draw(count, width, 32) * 0.2), nn.Parameter(draw(count, 32, width) * 0.2)

    def forward(self, x):
        flat = self.words(x).flatten(0, 1)
        weights, chosen = self.gate(flat).softmax(-1).topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        each = torch.zeros_like(self.gate(flat)).scatter(1, chosen, weights)
        hidden = F.gelu(torch.einsum("tw,ewh->teh", flat, self.up))
        return torch.einsum("teh,ehw,te->tw", hidden, self.down, each).unflatten(0, (x.shape[0], x.shape[1])), chosen


@architecture()
def mixture_of_experts():
    return tokens(Experts())


@architecture("dynamo")
def sparse_experts():
    """Only the tokens of an expert pass through it: their number depends on the data."""
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.experts = nn.Linear(16, 3), nn.ModuleList(nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 16)) for _ in range(3))

        def forward(self, x):
            chosen, out = self.gate(x).argmax(1), torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                rows = (chosen == number).nonzero()[:, 0]
                out = out.index_add(0, rows, expert(x.index_select(0, rows)))
            return out
    return Sparse(), {"x": draw(5, 16)}, {"x": draw(23, 16)}


class Mamba(nn.Module):
    """A selective state space with a causal depthwise convolution; the scan is a loop over eight steps."""
    def __init__(self, width=16, states=4):
        super().__init__()
        self.enter, self.conv, self.project, self.step = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 4, padding=3, groups=width), nn.Linear(width, 2 * states + 1), nn.Linear(1, width)
        self.rate, self.skip, self.leave = nn.Parameter(torch.rand(width, states)), nn.Parameter(draw(width)), nn.Linear(width, width)

    def forward(self, x):
        y, gate = self.enter(x).chunk(2, -1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., :8].transpose(1, 2))
        step, b, c = self.project(y).split([1, 4, 4], -1)
        step = F.softplus(self.step(step))
        decay, enters = torch.exp(-step[..., None] * self.rate.exp()), step[..., None] * b[:, :, None] * y[..., None]
        state, out = torch.zeros_like(enters[:, 0]), []
        for at in range(8):
            state = decay[:, at] * state + enters[:, at]
            out.append((state * c[:, at, None]).sum(-1))
        return self.leave((torch.stack(out, 1) + y * self.skip) * F.silu(gate)), state


@architecture()
def mamba_scan():
    return Mamba(), {"x": draw(1, 8, 16)}, {"x": draw(4, 8, 16)}


class LinearAttention(nn.Module):
    """Attention without softmax as sums of outer products over the past."""
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("btk,btv->btkv", k, v).cumsum(1)
        norm = torch.einsum("btk,btk->bt", q, k.cumsum(1))
        return self.out(torch.einsum("btk,btkv->btv", q, state) / norm[..., None])


@architecture()
def linear_attention():
    return LinearAttention(), {"x": draw(1, 6, 16)}, {"x": draw(3, 11, 16)}


@architecture()
def linear_attention_f64():
    return LinearAttention().double(), {"x": draw(1, 6, 16).double()}, {"x": draw(3, 11, 16).double()}


class Retention(nn.Module):
    """Retention in parallel form: a decay by distance instead of softmax, and a norm of groups."""
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.q, self.k, self.v, self.g = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.norm = heads, nn.GroupNorm(heads, width)
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-5 - torch.arange(heads))))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        at = torch.arange(x.shape[1])
        apart = (at[:, None] - at[None]).float()
        decay = torch.exp(apart * self.decay[:, None, None]).masked_fill(apart < 0, 0.0)
        y = ((q @ k.transpose(-1, -2)) * decay @ v).transpose(1, 2).flatten(2)
        return F.silu(self.g(x)) * self.norm(y.flatten(0, 1)).unflatten(0, (x.shape[0], x.shape[1]))


@architecture("dynamo", "dynamo-23", "script")
def retention():
    return Retention(), {"x": draw(1, 6, 16)}, {"x": draw(3, 11, 16)}


class Rwkv(nn.Module):
    """Mixing with the token before, and a weighted average of the past that is kept stable by its maximum."""
    def __init__(self, width=16):
        super().__init__()
        self.mix, self.decay, self.bonus = nn.Parameter(torch.rand(3, width)), nn.Parameter(draw(width)), nn.Parameter(draw(width))
        self.k, self.v, self.r, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        k, v, r = (layer(x * mix + before * (1 - mix)) for layer, mix in zip((self.k, self.v, self.r), self.mix))
        top, num, den, out = torch.full_like(x[:, 0], -1e38), torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), []
        for at in range(6):
            new = torch.maximum(top, k[:, at] + self.bonus)
            old, now = torch.exp(top - new), torch.exp(k[:, at] + self.bonus - new)
            out.append((old * num + now * v[:, at]) / (old * den + now))
            new = torch.maximum(top - self.decay.exp(), k[:, at])
            old, now = torch.exp(top - self.decay.exp() - new), torch.exp(k[:, at] - new)
            top, num, den = new, old * num + now * v[:, at], old * den + now
        return self.o(r.sigmoid() * torch.stack(out, 1))


@architecture()
def rwkv_steps():
    return Rwkv(), {"x": draw(1, 6, 16)}, {"x": draw(3, 6, 16)}


class CharCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.paths = nn.Embedding(50, 8), nn.ModuleList(nn.Conv1d(8, 12, kernel) for kernel in (2, 3, 4))
        self.gate, self.change, self.head = nn.Linear(36, 36), nn.Linear(36, 36), nn.Linear(36, 4)

    def forward(self, x):
        y = self.embedding(x).transpose(1, 2)
        y = torch.cat([path(y).relu().amax(2) for path in self.paths], 1)
        gate = self.gate(y).sigmoid()
        return self.head(gate * self.change(y).relu() + (1 - gate) * y)


@architecture()
def char_cnn_highway():
    return tokens(CharCnn())


class Pointer(nn.Module):
    """An encoder whose two last states point at the positions of an answer; the positions after a first choice are found by a mask."""
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.start, self.end = nn.Embedding(50, 16), nn.LSTM(16, 12, batch_first=True, bidirectional=True), nn.Linear(24, 1), nn.Linear(48, 1)

    def forward(self, x):
        y, _ = self.cell(self.embedding(x))
        start = self.start(y).squeeze(-1)
        first = start.argmax(1)
        chosen = y.gather(1, first[:, None, None].expand(-1, 1, y.shape[2])).expand(-1, y.shape[1], -1)
        end = self.end(torch.cat([y, chosen], -1)).squeeze(-1)
        end = end.masked_fill(torch.arange(x.shape[1])[None] < first[:, None], -1e4)
        return start.softmax(1), end.softmax(1), end.argmax(1)


@architecture()
def pointer_network():
    return tokens(Pointer())


class Memory(nn.Module):
    """An end-to-end memory network: three hops over sentences."""
    def __init__(self):
        super().__init__()
        self.a, self.c, self.hop, self.places = nn.Embedding(50, 16), nn.Embedding(50, 16), nn.Linear(16, 16), nn.Parameter(draw(5, 16))

    def forward(self, story, question):
        keys, values, state = (self.a(story) * self.places).sum(2), (self.c(story) * self.places).sum(2), self.a(question).sum(1)
        for _ in range(3):
            weights = (keys @ state[..., None]).squeeze(-1).softmax(1)
            state = self.hop(state) + (weights[..., None] * values).sum(1)
        return state @ self.c.weight.t()


@architecture()
def memory_network():
    return Memory(), {"story": ids(50, 1, 4, 5), "question": ids(50, 1, 3)}, {"story": ids(50, 3, 7, 5), "question": ids(50, 3, 6)}


class Inference(nn.Module):
    """Two sentences, each attended by the other with masks of their lengths, compared by differences and products."""
    def __init__(self):
        super().__init__()
        self.embedding, self.compare, self.head = nn.Embedding(50, 16), nn.Sequential(nn.Linear(64, 24), nn.CELU()), nn.Bilinear(24, 24, 3)

    def forward(self, first, second):
        a, b = self.embedding(first), self.embedding(second)
        scores = a @ b.transpose(1, 2)
        full, empty = scores.masked_fill((second == 0)[:, None], -1e9), scores.masked_fill((first == 0)[:, :, None], -1e9)
        of_b, of_a = full.softmax(2) @ b, empty.softmax(1).transpose(1, 2) @ a
        left, right = (self.compare(torch.cat([x, y, x - y, x * y], -1)).mean(1) for x, y in ((a, of_b), (b, of_a)))
        return self.head(left, right)


@architecture("dynamo")  # the other exporter has no bilinear
def sentence_inference():
    return Inference(), {"first": ids(50, 1, 5), "second": ids(50, 1, 6)}, {"first": ids(50, 3, 8), "second": ids(50, 3, 4)}


class Sparse(nn.Module):
    """Attention to a window around each token and to the first two tokens, by a mask of positions."""
    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.attention, self.norm = nn.Embedding(50, width), Attention(width, 4), nn.LayerNorm(width, bias=False)

    def forward(self, x):
        at = torch.arange(x.shape[1])
        near = ((at[:, None] - at[None]).abs() <= 2) | (at[None] < 2) | (at[:, None] < 2)
        y = self.embedding(x)
        return self.norm(y + self.attention(y, mask=near))


@architecture("dynamo", "dynamo-23", "script")
def window_attention():
    return tokens(Sparse())


class Alibi(nn.Module):
    """A bias by distance with a slope for each head, and one head of keys and values for all."""
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.embedding, self.q, self.kv, self.out, self.heads = nn.Embedding(50, width), nn.Linear(width, width), nn.Linear(width, 2 * width // heads), nn.Linear(width, width), heads
        self.register_buffer("slopes", 2.0 ** -(torch.arange(1, heads + 1) * 2.0))

    def forward(self, x):
        y, at = self.embedding(x), torch.arange(x.shape[1])
        bias = -(at[:, None] - at[None]).abs() * self.slopes[:, None, None]
        bias = bias.masked_fill(at[None] > at[:, None], -torch.inf)
        k, v = self.kv(y).chunk(2, -1)
        return self.out(attend(self.q(y), k.repeat(1, 1, self.heads), v.repeat(1, 1, self.heads), self.heads, bias))


@architecture("dynamo", "dynamo-23", "script")
def alibi_multi_query():
    return tokens(Alibi())


class Decode(nn.Module):
    """Greedy decoding in the graph: a loop whose end depends on the data."""
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(20, 12), nn.Linear(28, 16), nn.Linear(16, 20)

    def forward(self, state, limit: torch.Tensor):
        token, out = torch.zeros(state.shape[0], dtype=torch.long), torch.zeros(state.shape[0], 1, dtype=torch.long)
        count = torch.zeros((), dtype=torch.long)
        while bool(count < limit):
            state = torch.tanh(self.cell(torch.cat([self.embedding(token), state], 1)))
            token = self.head(state).argmax(1)
            out = torch.cat([out, token[:, None]], 1)
            count = count + 1
        return out, state


@architecture("script")  # torch.export does not trace loops of Python that depend on data
def greedy_decoder():
    return torch.jit.script(Decode()), {"state": draw(1, 16), "limit": torch.tensor(3)}, {"state": draw(4, 16), "limit": torch.tensor(9)}
