"""Networks on graphs, tables, fields and games, written with torch.nn."""
import torch
from torch import nn
from torch.nn import functional as F

from .registry import Attention, Block, Residual, architecture, conv, draw, ids, images


def graph(nodes, edges, width=8):
    return {"x": draw(nodes, width), "edges": ids(nodes, 2, edges)}


class Gcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 4)])

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.ones_like(x[:, 0]).index_add(0, target, torch.ones_like(source, dtype=x.dtype))
        scale = degree.rsqrt()
        for index, layer in enumerate(self.layers):
            x = layer(x)
            passed = x[source] * (scale[source] * scale[target])[:, None]
            x = x * (scale * scale)[:, None] + torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(passed), passed)
            x = x.relu() if index == 0 else x
        return x.log_softmax(1)


@architecture()
def graph_convolution():
    return Gcn(), graph(7, 12), graph(23, 61)


class Gat(nn.Module):
    """Softmax over the edges that enter a node, by the greatest score of each node and sums by index."""
    def __init__(self, heads=2):
        super().__init__()
        self.project, self.left, self.right, self.heads = nn.Linear(8, 12), nn.Parameter(draw(heads, 6)), nn.Parameter(draw(heads, 6)), heads

    def forward(self, x, edges):
        y = self.project(x).unflatten(1, (self.heads, 6))
        source, target = edges[0], edges[1]
        scores = F.leaky_relu((y * self.left).sum(-1)[source] + (y * self.right).sum(-1)[target], 0.2)
        index = target[:, None].expand_as(scores)
        top = torch.full_like(y[..., 0], -1e9).scatter_reduce(0, index, scores, "amax", include_self=True)
        weights = (scores - top.gather(0, index)).exp()
        total = torch.zeros_like(top).scatter_add(0, index, weights)
        passed = y[source] * (weights / total.gather(0, index))[..., None]
        return torch.zeros_like(y).index_add(0, target, passed).flatten(1)


@architecture("dynamo")  # the other exporter writes reductions by index whose ranks differ
def graph_attention():
    return Gat(), graph(7, 12), graph(23, 61)


@architecture()
def graph_sage():
    """The mean and the maximum of the neighbours, and the sum over each graph of a batch."""
    class Sage(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.near, self.head = nn.Linear(8, 12), nn.Linear(16, 12), nn.Linear(12, 3)

        def forward(self, x, edges, batch):
            passed, target = x[edges[0]], edges[1][:, None].expand(-1, x.shape[1])
            count = torch.zeros_like(x[:, 0]).index_add(0, edges[1], torch.ones_like(passed[:, 0])).clamp(min=1)
            mean = torch.zeros_like(x).scatter_add(0, target, passed) / count[:, None]
            most = torch.zeros_like(x).scatter_reduce(0, target, passed, "amax", include_self=True)
            y = F.normalize(self.own(x) + self.near(torch.cat([mean, most], 1)), dim=1)
            return self.head(torch.zeros(4, 12).index_add(0, batch, y))

    def inputs(nodes, edges):
        return {**graph(nodes, edges), "batch": ids(4, nodes)}
    return Sage(), inputs(7, 12), inputs(23, 61)


@architecture()
def message_passing():
    """Edge features, a network for each message, and a GRU cell that takes in their sum, three times."""
    class Messages(nn.Module):
        def __init__(self):
            super().__init__()
            self.edge, self.cell, self.out = nn.Sequential(nn.Linear(20, 16), nn.Mish(), nn.Linear(16, 8)), nn.GRUCell(8, 8), nn.Linear(16, 2)

        def forward(self, x, edges, features):
            state = x
            for _ in range(3):
                message = self.edge(torch.cat([state[edges[0]], state[edges[1]], features], 1))
                state = self.cell(torch.zeros_like(state).index_add(0, edges[1], message), state)
            return self.out(torch.cat([x, state], 1)).sum(0)

    def inputs(nodes, edges):
        return {**graph(nodes, edges), "features": draw(edges, 4)}
    return Messages(), inputs(7, 12), inputs(23, 61)


class Dlrm(nn.Module):
    """Bags of embeddings beside a network of numbers, and the products of all pairs."""
    def __init__(self, width=8):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(30, width, mode=mode) for mode in ("sum", "mean", "max"))
        self.bottom, self.top = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, width)), nn.Sequential(nn.Linear(width + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers, x):
        dense = self.bottom(numbers)
        every = torch.stack([dense] + [bag(x[:, i]) for i, bag in enumerate(self.bags)], 1)
        pairs = every @ every.transpose(1, 2)
        rows, columns = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([dense, pairs[:, rows, columns]], 1)).sigmoid()


@architecture()
def dlrm():
    return Dlrm(), {"numbers": draw(1, 5), "x": ids(30, 1, 3, 4)}, {"numbers": draw(6, 5), "x": ids(30, 6, 3, 4)}


@architecture()
def deep_and_wide():
    """A factorisation machine, a deep network and a cross network on the same embeddings."""
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.linear, self.deep = nn.Embedding(60, 6), nn.Embedding(60, 1), nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
            self.cross = nn.ModuleList([nn.Linear(24, 24), nn.Linear(24, 24)])
            self.register_buffer("offsets", torch.arange(4) * 15)

        def forward(self, x):
            x = x + self.offsets
            e = self.embedding(x)
            pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
            flat = crossed = e.flatten(1)
            for layer in self.cross:
                crossed = flat * layer(crossed) + crossed
            return (self.linear(x).sum(1) + pairs + self.deep(flat)).sigmoid(), crossed
    return Deep(), {"x": ids(15, 1, 4)}, {"x": ids(15, 7, 4)}


@architecture()
def two_towers():
    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.Linear(16, 8)), nn.Sequential(nn.Linear(9, 16), nn.Softsign(), nn.Linear(16, 8))

        def forward(self, first, second):
            a, b = self.left(first), self.right(second)
            scores = F.normalize(a, dim=1) @ F.normalize(b, dim=1).t()
            best, index = scores.topk(3, 1)
            return best, index, F.cosine_similarity(a[:1], b), F.pairwise_distance(a[:1], b)
    return Towers(), {"first": draw(1, 6), "second": draw(5, 9)}, {"first": draw(4, 6), "second": draw(13, 9)}


class Fourier(nn.Module):
    """A Fourier neural operator: products with weights at the lowest frequencies of two axes."""
    def __init__(self, width=6, modes=3):
        super().__init__()
        self.enter, self.leave, self.side, self.modes = nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1), nn.Conv2d(width, width, 1), modes
        self.weight = nn.Parameter(draw(2, 2, width, width, modes, modes) * 0.3)

    def mix(self, x, weight):
        a, b = torch.einsum("bixy,ioxy->boxy", x[..., 0], weight[0]), torch.einsum("bixy,ioxy->boxy", x[..., 1], weight[1])
        c, d = torch.einsum("bixy,ioxy->boxy", x[..., 0], weight[1]), torch.einsum("bixy,ioxy->boxy", x[..., 1], weight[0])
        return torch.stack([a - b, c + d], -1)

    def forward(self, x):
        x, m = self.enter(x), self.modes
        f = torch.view_as_real(torch.fft.rfft2(x))
        low, high = self.mix(f[:, :, :m, :m], self.weight[0]), self.mix(f[:, :, -m:, :m], self.weight[1])
        left = torch.cat([low, torch.zeros_like(f[:, :, m:-m, :m]), high], 2)
        f = torch.cat([left, torch.zeros_like(f[:, :, :, m:])], 3)
        y = torch.fft.irfft2(torch.view_as_complex(f), s=(16, 12))
        return self.leave(F.gelu(y + self.side(x)))


@architecture("dynamo")
def fourier_operator():
    return images(Fourier(), (1, 1, 16, 12), (3, 1, 16, 12))


@architecture("dynamo")
def fourier_mixing():
    """FNet: the real part of a Fourier transform over both axes stands for attention."""
    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(16), nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x):
            x = self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
            return x + self.mlp(x)
    return images(nn.Sequential(Mix(), Mix()), (1, 12, 16), (3, 12, 16))


@architecture()
def neural_ode():
    """Eight steps of Runge and Kutta's method of order 4 through a small field."""
    class Ode(nn.Module):
        def __init__(self):
            super().__init__()
            self.field = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4))

        def slope(self, t, x):
            return self.field(torch.cat([x, torch.full_like(x[:, :1], t)], 1))

        def forward(self, x):
            h = 1 / 8
            for step in range(8):
                t = step * h
                a = self.slope(t, x)
                b = self.slope(t + h / 2, x + h / 2 * a)
                c = self.slope(t + h / 2, x + h / 2 * b)
                x = x + h / 6 * (a + 2 * b + 2 * c + self.slope(t + h, x + h * c))
            return x
    return images(Ode(), (1, 4), (7, 4))


@architecture()
def real_nvp():
    """Coupling layers forwards and back again, with the logarithm of the determinant."""
    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nn.ModuleList(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12)) for _ in range(4))
            self.register_buffer("mask", torch.tensor([[1.0, 0, 1, 0, 1, 0], [0, 1.0, 0, 1, 0, 1]] * 2))

        def forward(self, x):
            determinant, z = 0, x
            for mask, net in zip(self.mask, self.nets):
                s, t = net(z * mask).chunk(2, 1)
                s = s.tanh() * (1 - mask)
                z, determinant = z * mask + (1 - mask) * (z * s.exp() + t), determinant + s.sum(1)
            back = z
            for mask, net in reversed(list(zip(self.mask, self.nets))):
                s, t = net(back * mask).chunk(2, 1)
                back = back * mask + (1 - mask) * (back - t) * (-s.tanh()).exp()
            return z, determinant, back
    return images(Flow(), (1, 6), (9, 6))


@architecture()
def mixture_density():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(4, 16), nn.GELU()), nn.Linear(16, 15)

        def forward(self, x, y):
            weight, mean, spread = self.head(self.body(x)).chunk(3, 1)
            spread = F.softplus(spread) + 1e-3
            density = -0.5 * ((y - mean) / spread).square() - spread.log() - 0.9189385
            return torch.logsumexp(weight.log_softmax(1) + density, 1), (weight.softmax(1) * mean).sum(1), 0.5 * (1 + torch.erf((y - mean) / (spread * 1.4142135)))
    return Mixture(), {"x": draw(1, 4), "y": draw(1, 1)}, {"x": draw(8, 4), "y": draw(8, 1)}


@architecture()
def spline_network():
    """Sums of B-splines on every edge, as Kolmogorov-Arnold networks have them."""
    class Splines(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("knots", (torch.arange(-3, 9) * 0.4 - 1).expand(4, -1).contiguous())
            self.weight, self.base = nn.Parameter(draw(3, 4, 8) * 0.3), nn.Linear(4, 3)

        def forward(self, x):
            x = x.clamp(-0.99, 0.99)
            y, knots = x[..., None], self.knots
            bases = ((y >= knots[:, :-1]) & (y < knots[:, 1:])).to(x.dtype)
            for k in range(1, 4):
                left = (y - knots[:, :-(k + 1)]) / (knots[:, k:-1] - knots[:, :-(k + 1)])
                right = (knots[:, k + 1:] - y) / (knots[:, k + 1:] - knots[:, 1:-k])
                bases = left * bases[..., :-1] + right * bases[..., 1:]
            return self.base(F.silu(x)) + torch.einsum("bik,oik->bo", bases, self.weight)
    return images(Splines(), (1, 4), (9, 4))


class TabNet(nn.Module):
    """Three decisions with masks by sparsemax, which sorts and sums."""
    def __init__(self, width=8):
        super().__init__()
        self.norm, self.masks, self.steps, self.head = nn.BatchNorm1d(width), nn.ModuleList(nn.Linear(6, width) for _ in range(3)), nn.ModuleList(nn.Sequential(nn.Linear(width, 24), nn.GLU()) for _ in range(4)), nn.Linear(6, 2)

    @staticmethod
    def sparsemax(z):
        ordered = z.sort(1, descending=True).values
        total, rank = ordered.cumsum(1), torch.arange(1, z.shape[1] + 1)
        count = (1 + rank * ordered > total).sum(1, keepdim=True)
        return ((z - (total.gather(1, count - 1) - 1) / count)).clamp(min=0)

    def forward(self, x):
        x = self.norm(x)
        prior, out, attended = torch.ones_like(x), 0, self.steps[3](x)[:, 6:]
        for mask, step in zip(self.masks, self.steps):
            chosen = self.sparsemax(mask(attended) * prior)
            prior = prior * (1.3 - chosen)
            decided, attended = step(x * chosen).split(6, 1)
            out = out + decided.relu()
        return self.head(out), prior


@architecture()
def tabnet():
    return images(TabNet(), (1, 8), (6, 8))


@architecture("dynamo", "dynamo-23", "script")
def set_transformer():
    class Sets(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.points, self.seed = nn.Linear(3, 16), nn.Parameter(draw(4, 16)), nn.Parameter(draw(2, 16))
            self.one, self.two, self.pool, self.head = Attention(16, 4), Attention(16, 4), Attention(16, 4), nn.Linear(32, 5)

        def forward(self, x):
            y = self.enter(x)
            inner = self.one(self.points.expand(x.shape[0], -1, -1), y)
            y = y + self.two(y, inner)
            return self.head(self.pool(self.seed.expand(x.shape[0], -1, -1), y).flatten(1))
    return images(Sets(), (1, 6, 3), (3, 17, 3))


@architecture()
def hyper_network():
    """One network writes the weights of another, for each sample."""
    class Hyper(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(), nn.Linear(16, 6 * 5 + 5))

        def forward(self, x, task):
            weights, bias = self.weights(task).split([30, 5], 1)
            return torch.baddbmm(bias[:, None], x, weights.unflatten(1, (6, 5))).sin()
    return Hyper(), {"x": draw(1, 7, 6), "task": draw(1, 4)}, {"x": draw(3, 11, 6), "task": draw(3, 4)}


@architecture()
def duelling_q():
    class Duel(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 16, 4, 2), nn.ReLU(), nn.Flatten())
            self.value, self.advantage = nn.Linear(64, 1), nn.Linear(64, 6)

        def forward(self, x):
            y = self.body(x.float() / 255)
            advantage = self.advantage(y)
            q = self.value(y) + advantage - advantage.mean(1, keepdim=True)
            return q, q.argmax(1)
    return Duel(), {"x": torch.randint(0, 256, (1, 4, 28, 28), dtype=torch.uint8)}, {"x": torch.randint(0, 256, (3, 4, 28, 28), dtype=torch.uint8)}


@architecture()
def policy_value():
    """A board, residual blocks, and two heads; moves that are not allowed have no probability."""
    class Board(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(conv(2, 16), Residual(conv(16, 16), conv(16, 16, act=None)), nn.ReLU())
            self.policy, self.value = nn.Sequential(conv(16, 2, 1), nn.Flatten(), nn.Linear(50, 25)), nn.Sequential(conv(16, 1, 1), nn.Flatten(), nn.Linear(25, 8), nn.ReLU(), nn.Linear(8, 1), nn.Tanh())

        def forward(self, x):
            y = self.body(x)
            taken = x.sum(1).flatten(1) != 0
            return self.policy(y).masked_fill(taken, -torch.inf).softmax(1), self.value(y)
    return Board(), {"x": torch.sign(draw(1, 2, 5, 5)).clamp(min=0) * ids(2, 1, 2, 5, 5)}, {"x": ids(2, 4, 2, 5, 5).float()}


@architecture()
def gaussian_policy():
    """A soft actor: a squashed Gaussian with given noise, its logarithm of probability, and the smaller of two critics."""
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.critics = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 6)), nn.ModuleList(nn.Linear(8, 1) for _ in range(2))

        def forward(self, x, noise):
            mean, spread = self.body(x).chunk(2, 1)
            spread = spread.clamp(-5, 2).exp()
            raw = mean + spread * noise
            action = raw.tanh()
            probability = (-0.5 * noise.square() - spread.log() - torch.log1p(-action.square() + 1e-6)).sum(1)
            both = torch.cat([x, action], 1)
            return action, probability, torch.minimum(self.critics[0](both), self.critics[1](both))
    return Actor(), {"x": draw(1, 5), "noise": draw(1, 3)}, {"x": draw(8, 5), "noise": draw(8, 3)}


@architecture()
def world_model():
    """A recurrent state of categories: the best of each group is passed on as a one-hot vector."""
    class World(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.prior, self.decoder = nn.GRUCell(14, 16), nn.Linear(16, 12), nn.Linear(28, 6)

        def forward(self, x, actions):
            state, z, out = x.new_zeros(x.shape[0], 16), x.new_zeros(x.shape[0], 12), []
            for step in range(4):
                state = self.cell(torch.cat([z, actions[:, step]], 1), state)
                z = F.one_hot(self.prior(state).unflatten(1, (3, 4)).argmax(-1), 4).flatten(1).to(x.dtype)
                out.append(self.decoder(torch.cat([state, z], 1)) - x)
            return torch.stack(out, 1)
    return World(), {"x": draw(1, 6), "actions": draw(1, 4, 2)}, {"x": draw(3, 6), "actions": draw(3, 4, 2)}


@architecture()
def kalman_filter():
    """Predictions and updates of a linear state with gains by a closed inverse of 2 x 2 matrices."""
    class Kalman(nn.Module):
        def __init__(self):
            super().__init__()
            self.move, self.see = nn.Parameter(torch.eye(4) + 0.1 * draw(4, 4)), nn.Parameter(draw(2, 4))

        def forward(self, x):
            state, spread = x.new_zeros(x.shape[0], 4, 1), torch.eye(4).expand(x.shape[0], -1, -1)
            for step in range(5):
                state, spread = self.move @ state, self.move @ spread @ self.move.t() + 0.1 * torch.eye(4)
                s = self.see @ spread @ self.see.t() + 0.5 * torch.eye(2)
                determinant = s[:, 0, 0] * s[:, 1, 1] - s[:, 0, 1] * s[:, 1, 0]
                adjugate = torch.stack([torch.stack([s[:, 1, 1], -s[:, 0, 1]], 1), torch.stack([-s[:, 1, 0], s[:, 0, 0]], 1)], 1)
                gain = spread @ self.see.t() @ adjugate / determinant[:, None, None]
                state = state + gain @ (x[:, step, :, None] - self.see @ state)
                spread = spread - gain @ self.see @ spread
            return state.squeeze(-1), spread
    return images(Kalman(), (1, 5, 2), (4, 5, 2))


@architecture()
def recommender_history():
    """Sums over a history that is chosen by a gate, with positions counted from the end and a mask of padding."""
    class History(nn.Module):
        def __init__(self):
            super().__init__()
            self.items, self.gate, self.block = nn.Embedding(40, 16, padding_idx=0), nn.Sequential(nn.Linear(64, 16), nn.PReLU(), nn.Linear(16, 1)), Block(16, 2)

        def forward(self, history, item):
            h, t = self.items(history), self.items(item)[:, None].expand(-1, history.shape[1], -1)
            present = history != 0
            weight = self.gate(torch.cat([h, t, h - t, h * t], -1)).squeeze(-1).masked_fill(~present, 0.0)
            interest = (weight[..., None] * h).sum(1)
            last = self.block(h).gather(1, (present.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, 16)).squeeze(1)
            return (interest + last) @ self.items.weight.t()
    return History(), {"history": torch.tensor([[3, 9, 1, 0, 0]]), "item": ids(40, 1)}, {"history": torch.tensor([[5, 2, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7], [9, 9, 9, 8, 0, 0, 0]]), "item": ids(40, 3)}


@architecture()
def hopfield_energy():
    """Patterns are recalled by repeated softmax, beside the energy of the result."""
    class Hopfield(nn.Module):
        def __init__(self):
            super().__init__()
            self.patterns = nn.Parameter(draw(10, 8))

        def forward(self, x):
            for _ in range(3):
                x = (2.0 * x @ self.patterns.t()).softmax(1) @ self.patterns
            return x, 0.5 * x.square().sum(1) - torch.logsumexp(2.0 * x @ self.patterns.t(), 1) / 2, torch.linalg.vector_norm(x, 1, 1), torch.round(x * 4).to(torch.int32)
    return images(Hopfield(), (1, 8), (6, 8))
