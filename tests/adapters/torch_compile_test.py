"""torch.compile(model, backend="tenon"): results beside eager PyTorch, training, shapes, what PyTorch runs, options, errors, and exported programs."""
import concurrent.futures
import gc
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-torch-compile-")
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tenon
import tenon.torch
import tenon.torch.compiler
import totals
from torch_kinds import GELU

warnings.simplefilter("ignore")
SWAP = """#include <tenon/op.h>
static tenon_status_t swap_run(tenon_call_t *c) {
  float *x = c->inputs[0]->data, *y = c->inputs[1]->data;
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) {
    const float kept = x[i];
    x[i] = y[i];
    y[i] = kept + 1;
  }
  return TENON_OK;
}
TENON_LIBRARY(pairs, "1.0.0",
  TENON_OP("swap_(Tensor(a!) x, Tensor(b!) y) -> ()", TENON_TYPES("x: f32; y = x"), TENON_KERNEL("cpu", swap_run)))
"""
ITERATIONS = int(os.environ.get("TENON_TORCH_COMPILATIONS", "1000"))


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (list, tuple)) else []


class Recorder:
    """The backend, and what it compiled."""

    def __init__(self, **options):
        self.explanation, self.options, self.calls = tenon.torch.compiler.Explanation(), options, 0

    def __call__(self, module, inputs):
        self.calls += 1
        return tenon.torch.compiler.backend(module, inputs, **self.options)


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)

    def equal(self, found, expected):
        found, expected = tensors(found), tensors(expected)
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, check_stride=True, equal_nan=True)

    def equal_gradients(self, found, expected):
        """Some gradients are 0 but for rounding (the bias of keys), so that errors count against the greatest gradient of the model."""
        self.assertEqual(len(found), len(expected))
        largest = max((float(t.abs().max()) for t in expected), default=0)
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, rtol=1.3e-6, atol=max(1e-5, 1e-6 * largest), check_stride=True)

    def both(self, make, *calls, train=False, handed_back=(), graphs=None, dynamic=None, **options):
        """Compares a model with its compiled twin: results, gradients of parameters and inputs, and buffers."""
        torch.manual_seed(0)
        plain = make().train(train)
        torch.manual_seed(0)
        twin = make().train(train)
        recorder = Recorder(**options)
        compiled = torch.compile(twin, backend=recorder, dynamic=dynamic)
        for inputs in calls:
            given = [[t.clone().requires_grad_(train and t.is_floating_point()) for t in inputs] for _ in range(2)]
            results = []
            for module, arguments in zip((plain, compiled), given):
                torch.manual_seed(1)
                with torch.set_grad_enabled(train), tenon.torch.compiler.recording(recorder.explanation):
                    results.append(module(*arguments))
                    if train:
                        sum(t.square().sum() for t in tensors(results[-1])).backward()
            self.equal(results[1], results[0])
            if train:
                found, expected = ([*module.parameters(), *arguments] for module, arguments in ((twin, given[1]), (plain, given[0])))
                self.equal_gradients([t.grad for t in found if t.grad is not None], [t.grad for t in expected if t.grad is not None])
                plain.zero_grad()
                twin.zero_grad()
            self.equal(list(twin.buffers()), list(plain.buffers()))
        found = sorted({item.operator for graph in recorder.explanation.graphs for item in graph.handed_back})
        self.assertEqual(found, sorted(handed_back))
        if graphs is not None:
            self.assertEqual(len(recorder.explanation.graphs), graphs, recorder.explanation)
        return recorder


class Results(Compiled):
    def test_pytorch_finds_the_backend_by_its_name(self):
        self.assertIn("tenon", torch._dynamo.list_backends())
        x = torch.randn(4)
        self.equal(torch.compile(lambda t: t.sin() + 1, backend="tenon")(x), x.sin() + 1)

    def test_a_network_of_layers(self):
        self.both(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1)), (torch.randn(5, 8),), graphs=1)

    def test_convolutions_pooling_and_batch_norm(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3, stride=2)

            def forward(self, x):
                return self.c(F.max_pool2d(F.relu(self.b(self.a(x))), 2))
        for train in (False, True):
            self.both(Net, (torch.randn(2, 3, 16, 16),), (torch.randn(2, 3, 16, 16),), train=train, graphs=1 + train)

    def test_results_have_the_strides_of_pytorch(self):
        class Turned(nn.Module):
            def forward(self, x):
                y = x * 2
                return y.t(), y.permute(1, 0).contiguous(), y[None].expand(3, 4, 5), y.t()[:, :1]
        x = torch.randn(4, 5)
        compiled = torch.compile(Turned(), backend="tenon")
        for found, expected in zip(compiled(x)[:2], Turned()(x)[:2]):
            self.assertEqual(found.stride(), expected.stride())
        self.assertEqual([t.tolist() for t in compiled(x)], [t.tolist() for t in Turned()(x)])

    def test_arguments_are_updated_as_in_pytorch(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(3))
                self.layer = nn.Linear(3, 3)

            def forward(self, x):
                self.count.add_(x.mean(0))
                y = self.layer(x)
                y[:, 0] = 0
                x.mul_(2)
                return y + self.count
        x = torch.randn(4, 3)
        given = x.clone(), x.clone()
        torch.manual_seed(0)
        plain = Counter()
        torch.manual_seed(0)
        twin = Counter()
        with torch.no_grad():
            compiled = torch.compile(twin, backend="tenon")
            for _ in range(2):
                self.equal(compiled(given[1]), plain(given[0]))
        self.equal([twin.count, given[1]], [plain.count, given[0]])

    def test_arguments_and_views_of_them_are_results(self):
        def run(x):
            y = x + 1
            return x, x.view(-1), y, y, None, 3
        x = torch.randn(2, 3)
        found = torch.compile(run, backend="tenon")(x)
        self.assertIs(found[0], x)
        self.assertEqual(found[1].data_ptr(), x.data_ptr())
        self.equal(found, run(x))
        self.assertEqual(found[4:], (None, 3))

    def test_tensors_that_are_strided_empty_or_without_axes(self):
        def run(x, y, s):
            return x * s + 1, torch.cat([y, y * 2]), y.sum(), s + 1
        for x in (torch.randn(4, 6).t(), torch.randn(4, 6)[::2, ::3], torch.randn(1, 6).expand(4, 6)):
            inputs = x, torch.empty(0, 3), torch.tensor(2.0)
            torch._dynamo.reset()
            self.equal([t.contiguous() for t in torch.compile(run, backend="tenon")(*inputs)], [t.contiguous() for t in run(*inputs)])

    def test_tensors_whose_sign_is_kept_beside_their_memory(self):
        x, z = torch.randn(4), torch.randn(4, dtype=torch.complex64)
        compiled = torch.compile(lambda t: t * 2 + 1, backend="tenon")
        for t in (x, torch._neg_view(x), z.conj().imag, z, z.conj(), torch._neg_view(z), x):
            self.equal(compiled(t), t * 2 + 1)

    def test_dtypes(self):
        def run(x):
            return x * 2 + 1, x.float().mean(), x > 1
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
            torch._dynamo.reset()
            x = torch.arange(6).to(dtype)
            self.equal(torch.compile(run, backend="tenon")(x), run(x))

    def test_autocast(self):
        def run(x, w):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return (x @ w).float()
        x, w = torch.randn(8, 16), torch.randn(16, 4)
        self.equal(torch.compile(run, backend="tenon")(x, w), run(x, w))


class HalfPrecision(Compiled):
    def test_variances_are_rounded_once(self):
        for dtype in (torch.float16, torch.bfloat16):
            x = (torch.randn(64, 9) * 8).to(dtype)
            for function in (torch.var, torch.std, torch.var_mean, torch.std_mean):
                found = torch.compile(lambda x, f=function: f(x, dim=1), backend="tenon")(x)
                for a, e in zip(*(list(r) if isinstance(r, tuple) else [r] for r in (found, function(x.double(), dim=1)))):
                    torch.testing.assert_close(a.double(), e, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-6)


class Training(Compiled):
    def test_convolutions_with_any_number_of_filters(self):
        # oneDNN keeps weights in blocks of filters, the last of which may be padded.
        for filters, channels, kernel, groups in itertools.product((1, 16, 40, 50, 97), (3, 32), (1, 3), (1, 2)):
            if filters % groups or channels % groups:
                continue
            layer, x = nn.Conv2d(channels, filters, kernel, padding=kernel // 2, groups=groups), torch.randn(2, channels, 9, 9)
            torch._dynamo.reset()
            with self.subTest(filters=filters, channels=channels, kernel=kernel, groups=groups):
                expected, found = layer(x), torch.compile(layer, backend="tenon")(x)
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
                starts = torch.randn_like(expected)
                gradients = (torch.autograd.grad(result, layer.weight, starts)[0] for result in (found, expected))
                torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)

    def test_forward_and_backward_are_graphs_of_tenon(self):
        made = self.both(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (torch.randn(5, 8),), train=True, graphs=2)
        self.assertEqual([(g.kind, g.parts) for g in made.explanation.graphs], [("forward", 1), ("backward", 1)])

    def test_attention_with_several_lengths_is_compiled_once(self):
        calls = [(torch.randn(2, n, 32),) for n in (7, 9, 12, 30)]
        self.both(lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), *calls, train=True, dynamic=True, graphs=2)

    def test_dropout_draws_the_numbers_of_pytorch_before_one_graph(self):
        made = self.both(lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)), (torch.randn(4, 8),), train=True,
                         handed_back=["aten.bernoulli.p"])
        self.assertEqual([g.parts for g in made.explanation.graphs], [1, 1])

    def test_random_numbers_equal_eager_pytorch(self):
        class Noise(nn.Module):
            def forward(self, x):
                return x + torch.rand_like(x) + torch.randn(x.shape) + torch.randint(0, 9, x.shape)
        made = self.both(Noise, (torch.randn(3, 4),), handed_back=["aten.randint.low", "aten.randn.default", "aten.uniform.default"])
        self.assertEqual([g.parts for g in made.explanation.graphs], [1])

    def test_random_operators_keep_their_order(self):
        class Net(nn.Module):
            def forward(self, x):
                p = torch.sigmoid(x)
                chosen = torch.bernoulli(p)  # waits for the graph, and the next one does not
                return chosen + torch.rand(50) + p
        self.both(Net, (torch.randn(50),), handed_back=["aten.bernoulli.default", "aten.rand.default"])

    def test_random_choices_equal_eager_pytorch(self):
        for dtype in (torch.float32, torch.float64):
            torch._dynamo.reset()
            run, x = torch.compile(lambda t: torch.bernoulli(t) * 2, backend="tenon"), torch.rand(50, dtype=dtype)
            torch.manual_seed(3)
            expected = torch.bernoulli(x) * 2
            torch.manual_seed(3)
            self.equal(run(x), expected)

    def test_random_numbers_for_strided_tensors_equal_eager_pytorch(self):
        class Noise(nn.Module):
            def forward(self, x):
                return x + torch.rand_like(x) + torch.randn_like(x)
        for make, operators in ((lambda: nn.Dropout(0.5), ["aten.native_dropout.default"]), (Noise, ["aten.rand_like.default", "aten.randn_like.default"])):
            torch._dynamo.reset()
            self.both(make, (torch.randn(6, 4).t(),), train=True, handed_back=operators)

    def test_a_step_of_an_optimiser(self):
        losses = []
        for compiles in (False, True):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
            optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            run = torch.compile(net, backend="tenon") if compiles else net
            x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
            losses.append([])
            for _ in range(10):
                optimiser.zero_grad()
                loss = F.cross_entropy(run(x), y)
                loss.backward()
                optimiser.step()
                losses[-1].append(loss.item())
        torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]))

    def test_checkpoints_recompute_in_the_graph(self):
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

            def forward(self, x):
                return checkpoint(self.layer, x, use_reentrant=False) + x
        self.both(Net, (torch.randn(4, 8),), train=True)


class Shapes(Compiled):
    def test_twenty_lengths_are_compiled_once(self):
        calls = [(torch.randn(2, n, 16),) for n in range(3, 43, 2)]
        self.both(lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), *calls, dynamic=True, graphs=1)

    def test_lengths_become_symbols_by_themselves(self):
        recorder = Recorder()
        compiled = torch.compile(lambda x: torch.cat([x, x[:1]]).reshape(-1, 2).sum(0), backend=recorder)
        for n in (3, 5, 7, 9, 11):
            x = torch.randn(n, 4)
            self.equal(compiled(x), torch.cat([x, x[:1]]).reshape(-1, 2).sum(0))
        self.assertEqual(recorder.calls, 2)  # the first length, and all others

    def test_arithmetic_of_extents(self):
        def run(x, y):
            n, m = x.shape[0], y.shape[0]
            padded = F.pad(x, (0, 0, 0, 1))
            return x.reshape(n // 2, 2, -1), torch.arange(n * m + 1), torch.full((n - 1, m % 3 + 1), 2.0), padded[: n // 2 + 1], x.new_zeros(max(n, m)), x[m - 1] * n
        compiled = torch.compile(run, backend="tenon", dynamic=True, fullgraph=True)
        for n, m in ((4, 3), (8, 5), (10, 7)):
            x, y = torch.randn(n, 4), torch.randn(m)
            self.equal(compiled(x, y), run(x, y))

    def test_extents_that_depend_on_data(self):
        def run(n, x):
            found = torch.nonzero(x > 0)
            return x[found[:, 0], found[:, 1]].sum() + found.shape[0], x[: n.item()] * 2
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            compiled = torch.compile(run, backend="tenon", fullgraph=True)
            for n in (1, 3, 2):
                x = torch.randn(4, 3)
                self.equal(compiled(torch.tensor(n), x), run(torch.tensor(n), x))

    def test_a_number_that_depends_on_data(self):
        def run(n, x, y):
            return x * n.item() + y
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            compiled = torch.compile(run, backend="tenon", fullgraph=True)
            for n in (1, 3, -2):
                x, y = torch.randn(4), torch.randn(4)
                self.equal(compiled(torch.tensor(n), x, y), run(torch.tensor(n), x, y))

    def test_checks_of_the_program_are_made(self):
        def run(x):
            found = torch.nonzero(x > 0)
            torch._check(found.shape[0] < 3)
            return found.sum(0)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compiled = torch.compile(run, backend="tenon", fullgraph=True)
            self.equal(compiled(torch.tensor([[-1.0, 2.0]])), torch.tensor([0, 1]))
            with self.assertRaises(RuntimeError):
                compiled(torch.ones(3, 3))


class Branches(Compiled):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda t: self.a(t).relu(), lambda t: self.b(t) * 2, (x,)) + x

    def test_both_branches_are_graphs(self):
        for train in (False, True):
            made = self.both(self.Net, (torch.ones(3, 4),), (-torch.ones(3, 4),), train=train)
            self.assertEqual({g.parts for g in made.explanation.graphs}, {1})

    def test_an_exported_program_has_both(self):
        net = self.Net().eval()
        compiled = tenon.torch.compile(torch.export.export(net, (torch.ones(3, 4),)))
        for x in (torch.ones(3, 4), -torch.ones(3, 4)):
            self.equal(compiled(x), net(x).detach())


class HandedBack(Compiled):
    def test_what_tenon_lacks_runs_in_pytorch(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                x = self.a(x)
                return self.b(torch.linalg.svdvals(x)[None] + x).relu()
        made = self.both(Net, (torch.randn(4, 4),), handed_back=["aten._linalg_svd.default"])
        self.assertEqual([g.parts for g in made.explanation.graphs], [2])

    def test_graph_breaks_are_kept(self):
        class Net(nn.Module):
            def forward(self, x):
                y = x.exp()
                torch._dynamo.graph_break()
                return y + (1 if y.sum() > 0 else 2)
        made = self.both(Net, (torch.randn(4),))
        self.assertEqual(len(made.explanation.breaks), 2, made.explanation)

    def test_the_limit_of_recompilations_is_pytorchs(self):
        recorder = Recorder()
        compiled = torch.compile(lambda x, k: x * k, backend=recorder, dynamic=False)
        with torch._dynamo.config.patch(recompile_limit=3):
            for k in range(8):
                self.equal(compiled(torch.ones(2), k), torch.ones(2) * k)
        self.assertEqual(recorder.calls, 3)

    def test_complex_numbers(self):
        def run(x):
            return torch.view_as_real(torch.polar(x, x) * 2).sum() + x.sum()
        x = torch.rand(4)
        self.equal(torch.compile(run, backend="tenon")(x), run(x))


class Operators(Compiled):
    @classmethod
    def setUpClass(cls):
        tenon.torch.register(tenon.load(GELU))
        path = os.path.join(FOLDER, "swap.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SWAP)
        tenon.torch.register(tenon.load(path))
        tenon.torch.register("core")

    def test_operators_of_tenon_are_nodes_of_the_graph(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 8)

            def forward(self, x):
                return torch.ops.core.softplus(torch.ops.demo.gelu(self.layer(x)) * 2)
        for train in (False, True):
            made = self.both(Net, (torch.randn(4, 8),), (torch.randn(6, 8),), train=train, dynamic=True)
            self.assertEqual({g.parts for g in made.explanation.graphs}, {1})


    def test_operators_that_write_to_arguments_are_nodes(self):
        class Net(nn.Module):
            def forward(self, x, y):
                a, b = x * 2, y + 1
                torch.ops.pairs.swap_(a, b)
                torch.ops.pairs.swap_(x, b)
                return a - b
        made = self.both(Net, (torch.randn(3), torch.randn(3)))
        self.assertEqual([g.parts for g in made.explanation.graphs], [1])
        x, y = torch.randn(3), torch.randn(3)
        given = x.clone(), x.clone()
        Net()(given[0], y)
        torch.compile(Net(), backend="tenon")(given[1], y)
        self.equal(given[1], given[0])

    def test_random_operators_of_tenon_take_their_seeds_from_pytorch(self):
        class Net(nn.Module):
            def forward(self, x):
                return torch.ops.core.bernoulli(x.sigmoid()) + x
        self.both(Net, (torch.randn(50),), handed_back=["core.bernoulli.default"])


class Options(Compiled):
    def test_frozen_parameters_follow_changes(self):
        net = nn.Linear(8, 4)
        compiled = torch.compile(net, backend="tenon", options={"freeze": True})
        x = torch.randn(3, 8)
        with torch.no_grad():
            for change in (lambda: None, lambda: net.weight.mul_(2), lambda: None, lambda: setattr(net, "bias", nn.Parameter(torch.ones(4))),
                           lambda: setattr(net.weight, "data", torch.ones(4, 8)), lambda: net.load_state_dict(nn.Linear(8, 4).state_dict()), *[lambda: net.bias.add_(1)] * 4):
                change()
                self.equal(compiled(x), net(x))
                self.equal(compiled(x), net(x))
        self.equal(compiled(x), net(x))  # with gradients, parameters are arguments

    def test_frozen_parameters_are_constants(self):
        net, x, execution = nn.Linear(8, 4), torch.randn(3, 8), tenon.torch.compiler.execution
        compiled = torch.compile(net, backend="tenon", options={"freeze": True})
        with torch.no_grad(), unittest.mock.patch.object(execution, "_Constants", wraps=execution._Constants) as made:
            self.equal([compiled(x), compiled(x)], [net(x)] * 2)
        self.assertEqual([sorted(t.dim() for t in call.args[1].values()) for call in made.call_args_list], [[1, 2]])

    def test_inference_tensors(self):
        for options in ({}, {"freeze": True}):
            torch._dynamo.reset()
            with torch.inference_mode():
                net, x = nn.Linear(8, 4), torch.randn(3, 8)
                compiled = torch.compile(net, backend="tenon", options=options)
                self.equal(compiled(x), net(x))
                net.weight.mul_(2)
                self.equal(compiled(x), net(x))

    def test_a_rule_without_which_a_graph_is_faster_is_left_out(self):
        b, nodes = tenon.graph.Builder(), tenon.graph.ops.core
        x = b.input("x", "f32", [4, 8])
        graph = b.finish([nodes.gelu(nodes.add(nodes.matmul(x, b.constant(torch.randn(8, 8))), b.constant(torch.randn(8))))])
        executable, asked = graph.compile(), []

        def seconds(executable, given, pool):
            asked.append(executable)
            return 1 / len(asked)
        with unittest.mock.patch("tenon.torch.compiler.tuning._seconds", seconds):
            chosen = tenon.torch.compiler.tuning.tuned(graph, executable, (), 0)
        self.assertIs(chosen, asked[-1])
        self.assertTrue(executable.dump("rewrites").strip())
        self.assertFalse(chosen.dump("rewrites").strip())

    def test_the_first_call_chooses_what_is_fastest(self):
        make = lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.GELU(), nn.Flatten(), nn.Linear(512, 4))  # noqa: E731
        execution = tenon.torch.compiler.execution
        for options in ({}, {"freeze": True}):
            with unittest.mock.patch.object(execution, "tuned", wraps=execution.tuned) as tuned:
                self.both(make, (torch.randn(2, 3, 8, 8),), mode="max-autotune", options=options)
            self.assertEqual(tuned.call_count, 1)
            self.both(make, *[(torch.randn(2, 3, 8, 8),)] * 3, mode="max-autotune", options=options)

    def test_operators_can_be_handed_back(self):
        made = self.both(lambda: nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)), (torch.randn(2, 4),), handed_back=["aten.gelu.default"],
                         options={"hand_back": ["aten.gelu"]})
        self.assertEqual([g.parts for g in made.explanation.graphs], [2])

    def test_wrong_options_name_what_is_possible(self):
        for named, text in (({"mode": "fast"}, "expected one of default"), ({"options": {"freez": True}}, "there is no option 'freez'; the options are freeze"),
                            ({"options": {"freeze": 1}}, "expected True or False, found 1"), ({"options": {"hand_back": "aten.gelu"}}, "expected a list of names")):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, text):
                torch.compile(lambda x: x + 1, backend="tenon", **named)(torch.ones(2))


class Explained(Compiled):
    def test_a_report_names_operators_reasons_lines_and_breaks(self):
        def run(x):
            y = torch.linalg.svdvals(x)  # the line of the operator
            torch._dynamo.graph_break()
            return y * 2
        x = torch.randn(3, 3)
        found = tenon.torch.explain(run, x)
        self.equal(found.result, run(x))
        text = str(found)
        for part in ("2 graphs, 1 graph break", "PyTorch runs aten._linalg_svd.default", "Tenon has no lowering for this operator", "the line of the operator",
                     "graph 2 (inference): 1 of 1 operator run in 1 graph of Tenon", "graph break: ", "torch._dynamo.graph_break()", os.path.basename(__file__)):
            self.assertIn(part, text)

    def test_an_error_of_a_run_names_the_line_of_the_model(self):
        table = nn.Embedding(5, 4)
        compiled = torch.compile(lambda i: table(i) + 1, backend="tenon")
        self.equal(compiled(torch.tensor([1, 2])), table(torch.tensor([1, 2])) + 1)
        with self.assertRaisesRegex(tenon.RangeError, r"(?s)node 'embedding'.*index 9.*from aten.embedding.default, File \"[^\"]*torch_compile_test.py\", line \d+.*without torch.compile"):
            compiled(torch.tensor([1, 9]))


class Documented(unittest.TestCase):
    def test_the_table_of_operators_is_that_of_the_page(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "torch_compile_operators.py"), "--check"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Lifetime(Compiled):
    @staticmethod
    def traced():
        found = []
        compiler = torch._dynamo.backends.common.aot_autograd(fw_compiler=lambda module, inputs: found.append(module) or module.forward)
        with torch.no_grad():
            torch.compile(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)), backend=compiler)(torch.randn(3, 16))
        return found[0]

    def test_compilations_leave_no_memory_behind(self):
        module = self.traced()
        arguments = [torch.randn(node.meta["val"].shape) for node in module.graph.nodes if node.op == "placeholder"]

        def compile_some(count):
            for _ in range(count):
                tenon.torch.compiler.graphs.compile_graph(module, None)(list(arguments))
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = compile_some(200)
        self.assertLess(compile_some(ITERATIONS) - before, 4096)  # KiB

    def test_threads_compile_and_run_at_once(self):
        def work(n):
            torch.manual_seed(n)
            net, x = nn.Sequential(nn.Linear(8, 8 + n), nn.ReLU(), nn.Linear(8 + n, 2)), torch.randn(3, 8)
            with torch.no_grad():
                compiled = torch.compile(net, backend="tenon")
                return all(torch.allclose(compiled(x), net(x), atol=1e-5) for _ in range(20))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(work, range(6))), [True] * 6)
        torch._dynamo.reset()
        module = self.traced()
        arguments = [torch.randn(node.meta["val"].shape) for node in module.graph.nodes if node.op == "placeholder"]
        expected = module(*arguments)

        def compile_graph(_):
            return torch.allclose(tenon.torch.compiler.graphs.compile_graph(module, None)(list(arguments))[0], expected[0], atol=1e-5)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(compile_graph, range(40))), [True] * 40)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x, *, y):
        h = torch.relu(self.norm(self.a(x))) + y
        return {"logits": self.b(h), "rest": [h.sum(1), x]}


class Exported(Compiled):
    def program(self):
        net, batch = Net().eval(), torch.export.Dim("batch", min=2)
        x, y = torch.randn(5, 4), torch.randn(5, 8)
        return net, torch.export.export(net, (x,), {"y": y}, dynamic_shapes={"x": {0: batch}, "y": {0: batch}})

    def test_a_program_runs_with_other_extents(self):
        net, program = self.program()
        compiled = tenon.torch.compile(program)
        for n in (2, 5, 9):
            x, y = torch.randn(n, 4), torch.randn(n, 8)
            with torch.no_grad():
                self.equal(compiled(x, y=y), net(x, y=y))
        self.assertEqual([name for name, *_ in compiled.graph.inputs], ["x", "y"])
        self.assertEqual([name for name, *_ in compiled.graph.outputs], ["logits", "rest.0", "rest.1"])

    def test_an_artifact_runs_without_python(self):
        net, program = self.program()
        path, x, y = os.path.join(FOLDER, "net.tenon"), torch.randn(3, 4), torch.randn(3, 8)
        tenon.torch.compile(program).save(path)
        expected = net(x, y=y)["logits"].detach().numpy()
        for name, tensor in (("x", x), ("y", y)):
            with open(os.path.join(FOLDER, f"{name}.npy"), "wb") as file:
                np.save(file, tensor.numpy())
        tool = os.path.join(BUILD, "tenon")
        found = subprocess.run([tool, "run", path, "-i", f"x=@{FOLDER}/x.npy", "-i", f"y=@{FOLDER}/y.npy", "-o", FOLDER], capture_output=True, text=True, check=False)
        self.assertEqual(found.returncode, 0, found.stderr)
        np.testing.assert_allclose(np.load(f"{FOLDER}/logits.npy"), expected, rtol=1e-5, atol=1e-6)

    def test_torchscript_scripted_traced_and_from_a_file(self):
        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 8)

            def forward(self, x):
                return torch.sigmoid(self.layer(x)) * 2
        net, x = Small().eval(), torch.randn(5, 4)
        for made in (torch.jit.script(net), torch.jit.trace(net, (x,))):
            self.equal(tenon.torch.compile(made, (x,))(x), net(x).detach())
            path = os.path.join(FOLDER, "small.pt")
            made.save(path)
            self.equal(tenon.torch.compile(path, (x,))(x), net(x).detach())

    def test_conversions_constants_and_complex_numbers_inside(self):
        class Kinds(nn.Module):
            def forward(self, x):
                # torch.export adds checks of the metadata around .to(), which always succeed here.
                waves = torch.fft.fft(x.to(torch.float64)).real.to(torch.float32)
                larger = nn.functional.interpolate(x[None, None], scale_factor=2)  # torch.export keeps this operator whole
                return {"none": None, "waves": waves, "three": 3, "parts": torch.view_as_real(torch.polar(x.abs(), x)), "larger": larger}
        x = torch.randn(5, 4)
        found = tenon.torch.compile(torch.export.export(Kinds(), (x,)))(x)
        expected = Kinds()(x)
        self.assertEqual((list(found), found["none"], found["three"]), (list(expected), None, 3))
        for name in ("waves", "parts", "larger"):
            self.equal(found[name], expected[name])

    def test_what_cannot_be_compiled_is_named(self):
        class Checked(nn.Module):
            def forward(self, x):
                assert x.max().item() < 5
                return x + 1

        class Turned(nn.Module):
            def forward(self, x):
                return torch.polar(x, x)

        class Real(nn.Module):
            def forward(self, x):
                return torch.view_as_real(x)

        class Svd(nn.Module):
            def forward(self, x):
                return torch.linalg.svdvals(x) + 1

        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(1))

            def forward(self, x):
                self.count.add_(1)
                return x + self.count
        x = torch.randn(3, 3)
        missing, empty, archive = (os.path.join(FOLDER, f"{name}.pt2") for name in ("missing", "empty", "archive"))
        with open(empty, "wb"), zipfile.ZipFile(archive, "w") as file:
            file.writestr("a", "b")
        for make, text in ((lambda: tenon.torch.compile(missing), "missing.pt2: there is no such file"),
                           (lambda: tenon.torch.compile(empty), "empty.pt2: expected a program of torch.export, found no ZIP archive: write the file with torch.export.save"),
                           (lambda: tenon.torch.compile(archive), "archive.pt2: expected .* found a file that PyTorch cannot load"),
                           (lambda: tenon.torch.compile(FOLDER, (x,)), "expected a module of TorchScript, found no ZIP archive"),
                           (lambda: tenon.torch.compile(torch.export.export(Svd(), (x,))), r"(?s)aten._linalg_svd.default \(node .*torch_compile_test.py"),
                           (lambda: tenon.torch.compile(torch.export.export(Counter(), (x,))), "writes to count"),
                           (lambda: tenon.torch.compile(torch.export.export(Checked(), (x,))), r"(?s)_assert_scalar.* the check may fail.*torch_compile_test.py"),
                           (lambda: tenon.torch.compile(torch.export.export(Turned(), (x,))), "the result output has the dtype torch.complex64"),
                           (lambda: tenon.torch.compile(torch.export.export(Real(), (torch.polar(x, x),))), "an argument of torch.complex64"),
                           (lambda: tenon.torch.compile(torch.jit.script(nn.Linear(3, 3))), "expected inputs="),
                           (lambda: tenon.torch.compile(nn.Linear(3, 3)), r"found Linear: call torch.export.export\(model, inputs\) first"),
                           (lambda: tenon.torch.compile(self.program()[1])(x), "by name: y")):
            with self.assertRaisesRegex(tenon.Error, text):
                make()


if __name__ == "__main__":
    totals.main()
