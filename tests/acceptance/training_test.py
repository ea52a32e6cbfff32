"""Training by compiled graphs, beside PyTorch: the loss of 100 steps, and the memory that forward keeps for backward.

A model is exported by PyTorch to ONNX together with its loss, differentiated by Graph.gradients and compiled.  The weights, which
are constants of the file, are inputs of the graph with gradients.
"""
import os
import re
import shutil
import sys
import tempfile
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
sys.path[:0] = [os.path.join(BUILD, "python")]
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch import nn

import tenon
import tenon.graph

STEPS, RATE = 100, 0.05
# Two operators with gradients: bend(x) = x + sin(x), and gate(a, b) = a * tanh(b).
OPERATORS = r"""
#include <math.h>
#include <tenon/op.h>

static tenon_status_t bend(const tenon_loop_t *l) {
  const float *x = (const float *)l->data[0];
  float *y = (float *)l->data[1];
  for (int64_t i = 0; i < l->count; i++) y[i] = x[i] + sinf(x[i]);
  return TENON_OK;
}
static tenon_status_t bend_backward(const tenon_loop_t *l) {
  const float *dy = (const float *)l->data[0], *x = (const float *)l->data[1];
  float *dx = (float *)l->data[2];
  for (int64_t i = 0; i < l->count; i++) dx[i] = dy[i] * (1 + cosf(x[i]));
  return TENON_OK;
}
static tenon_status_t gate(const tenon_loop_t *l) {
  const float *a = (const float *)l->data[0], *b = (const float *)l->data[1];
  float *y = (float *)l->data[2];
  for (int64_t i = 0; i < l->count; i++) y[i] = a[i] * tanhf(b[i]);
  return TENON_OK;
}
static tenon_status_t gate_backward(const tenon_loop_t *l) {
  const float *dy = (const float *)l->data[0], *a = (const float *)l->data[1], *b = (const float *)l->data[2];
  float *db = (float *)l->data[3];
  for (int64_t i = 0; i < l->count; i++) db[i] = dy[i] * a[i] * (1 - tanhf(b[i]) * tanhf(b[i]));
  return TENON_OK;
}
#define PLAIN TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
TENON_LIBRARY(trained, "1.0.0",
  TENON_OP("bend(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), PLAIN,
    TENON_GRADIENT("x: trained::bend_backward(grad, x)"), TENON_LOOP("f32 -> f32", bend)),
  TENON_OP("bend_backward(Tensor dy, Tensor x) -> Tensor", TENON_TYPES("dy, x: f32; out = x"), PLAIN,
    TENON_LOOP("f32, f32 -> f32", bend_backward)),
  TENON_OP("gate(Tensor a, Tensor b) -> Tensor", TENON_TYPES("a, b: f32; out = a"), PLAIN,
    TENON_GRADIENT("a: trained::gate(grad, b); b: trained::gate_backward(grad, a, b)"), TENON_LOOP("f32, f32 -> f32", gate)),
  TENON_OP("gate_backward(Tensor dy, Tensor a, Tensor b) -> Tensor", TENON_TYPES("dy, a, b: f32; out = a"), PLAIN,
    TENON_LOOP("f32, f32, f32 -> f32", gate_backward)))
"""


class Block(nn.Module):
    """A layer of a transformer, with attention by hand."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks, self.norm, self.head = nn.Sequential(Block(width, 4), Block(width, 4)), nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x):
        y = self.head(self.norm(self.blocks(self.words(x) + self.places)))
        return y.reshape(-1, y.shape[-1])


def mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), torch.randn(64, 32), 64, 10


def cnn():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2), nn.SiLU(), nn.Flatten(), nn.Linear(16 * 9, 10))
    return net, torch.randn(16, 3, 16, 16), 16, 10


def transformer():
    return Transformer(30, 16, 32), torch.randint(0, 30, (4, 16)), 64, 30


class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        return -(torch.log_softmax(self.net(x), -1) * target).sum() / target.shape[0]


def kept_by_torch(model, *inputs):
    """Bytes that PyTorch's forward keeps, without parameters and inputs."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *inputs)}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(*inputs)
    return sum(kept.values())


SIZES = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "bool": 1}
VIEWS = {"identity", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "untranspose", "expand", "slice", "split", "spread"}


def kept_by_graph(text):
    """Bytes of the values that nodes of forward make and nodes of backward, whose names end with .grad, read; of a view, of its source."""
    made, kept = {}, {}
    for line in text.splitlines():
        match = re.match(r"  (.+?) = (\w+)::(\w+)\((.*)\)  # (.*)$", line)
        if not match:
            continue
        results, _, op, arguments, name = match.groups()
        operands = [a for a in re.split(r"[\[\], ]+", arguments) if a and "=" not in a]
        if name.endswith(".grad"):
            kept.update({made[a][0]: made[a][1] for a in operands if a in made})
        else:
            for result, dtype, extents in re.findall(r"(\S+): (\w+)\[([\d, ]*)\]", results):
                size = SIZES[dtype] * int(np.prod([int(e) for e in extents.split(", ") if e] or [1]))
                source = made.get(operands[0], (operands[0], 0)) if op in VIEWS else (result, size)  # inputs are there anyway
                made[result] = source
    return sum(kept.values())


def train_torch(model, inputs, names):
    """The loss of each step."""
    losses, parameters = [], dict(model.named_parameters())
    for _ in range(STEPS):
        loss = model(*inputs)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for name in names:
                parameters[name] -= RATE * parameters[name].grad
                parameters[name].grad = None
    return losses


def train_graph(executable, inputs, weights):
    losses = []
    for _ in range(STEPS):
        loss, *gradients = executable(*inputs, *weights)
        losses.append(float(loss))
        for weight, gradient in zip(weights, gradients):
            weight -= RATE * np.asarray(gradient)
    return losses


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        torch.set_num_threads(2)
        cls.folder = tempfile.mkdtemp(prefix="tenon-training-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def follows(self, build):
        torch.manual_seed(1)
        net, x, rows, classes = build()
        model, target = Loss(net), F.one_hot(torch.randint(0, classes, (rows,)), classes).float()
        path = os.path.join(self.folder, "model.onnx")
        torch.onnx.export(model, (x, target), path, input_names=["x", "target"], output_names=["loss"], dynamo=False, opset_version=17,
                          do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
        names = [name for name, _ in model.named_parameters()]
        weights = [p.detach().clone().numpy() for p in model.parameters()]
        executable = tenon.graph.load(path).gradients(names).compile()
        kept = kept_by_torch(model, x, target)
        found, expected = train_graph(executable, (x.numpy(), target.numpy()), weights), train_torch(model, (x, target), names)
        self.assertLess(expected[-1], 0.9 * expected[0])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        for weight, parameter in zip(weights, model.parameters()):
            np.testing.assert_allclose(weight, parameter.detach().numpy(), rtol=1e-3, atol=1e-4)
        mine = kept_by_graph(executable.dump("graph"))
        print(f"{build.__name__}: loss {expected[0]:.3f} -> {expected[-1]:.3f}, at most {np.abs(np.subtract(found, expected)).max():.1e} from PyTorch's; kept for backward: {mine} bytes, PyTorch {kept}")
        self.assertGreater(mine, kept // 4)  # the lines of the graph were understood
        self.assertLessEqual(mine, kept)

    def test_mlp(self):
        self.follows(mlp)

    def test_cnn(self):
        self.follows(cnn)

    def test_transformer(self):
        self.follows(transformer)

    def test_operators_of_a_library(self):
        source = os.path.join(self.folder, "trained.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(OPERATORS)
        tenon.load(source)
        generator = np.random.default_rng(3)
        x, target = generator.standard_normal((64, 8), np.float32), generator.standard_normal((64, 4), np.float32)
        shapes = {"w1": (8, 16), "b1": (16,), "w2": (16, 16), "w3": (16, 4)}
        weights = {name: generator.standard_normal(shape, np.float32) * np.float32(0.3) for name, shape in shapes.items()}
        ops, core = tenon.graph.ops.trained, tenon.graph.ops.core
        builder = tenon.graph.Builder("library")
        a, t = builder.input("x", "f32", [64, 8]), builder.input("target", "f32", [64, 4])
        v = {name: builder.constant(weight, name=name) for name, weight in weights.items()}
        h = ops.bend(core.add(core.matmul(a, v["w1"]), v["b1"]))
        h = core.matmul(ops.gate(h, core.mul(core.matmul(h, v["w2"]), 2)), v["w3"])
        difference = core.sub(h, t)
        loss = core.reduce_mean(core.mul(difference, difference), keepdims=False)
        executable = builder.finish({"loss": loss}).gradients(list(weights)).compile()
        found = train_graph(executable, (x, target), list(weights.values()))
        plan = executable.dump("plan")
        for name in "gate", "bend_backward", "gate_backward":
            self.assertRegex(plan, rf"region of .* trained::{name}\b")

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                for name, shape in shapes.items():
                    setattr(self, name, nn.Parameter(torch.tensor(initial[name])))

            def forward(self, x, target):
                z = x @ self.w1 + self.b1
                h = z + torch.sin(z)
                return ((h * torch.tanh(h @ self.w2 * 2) @ self.w3 - target) ** 2).mean()

        generator = np.random.default_rng(3)
        generator.standard_normal((64, 8), np.float32), generator.standard_normal((64, 4), np.float32)
        initial = {name: generator.standard_normal(shape, np.float32) * np.float32(0.3) for name, shape in shapes.items()}
        expected = train_torch(Net(), (torch.tensor(x), torch.tensor(target)), list(shapes))
        self.assertLess(expected[-1], 0.9 * expected[0])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)

    def test_gradient_nodes_of_models(self):
        def model(nodes, **attributes):
            nodes = [*nodes, helper.make_node("Gradient", ["x", "w"], ["dx", "dw"], domain="ai.onnx.preview.training", **attributes)]
            ports = [[helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in which] for which in ([("x", ["n", 2])], [("dx", ["n", 2]), ("dw", [2, 3])])]
            graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(weight, "w")])
            sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
            return tenon.graph.load(helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString())

        generator = np.random.default_rng(4)
        weight = generator.standard_normal((2, 3), np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])]
        run = model(nodes, xs=["x", "w"], y="y").compile()
        for n in 1, 4:
            x = torch.tensor(generator.standard_normal((n, 2), np.float32), requires_grad=True)
            w = torch.tensor(weight, requires_grad=True)
            torch.tanh(x @ w).sum().backward()
            for found, expected in zip(run(x.detach().numpy()), (x.grad, w.grad)):
                np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
        for attributes, message in (({"xs": ["x", "q"], "y": "y"}, "no value 'q' is defined before the node"),
                                    ({"xs": ["x"], "y": "y"}, "an output for each of the 1 names in xs"),
                                    ({"xs": ["x", "w"]}, "the attribute 'y' is missing")):
            with self.assertRaisesRegex(tenon.InvalidError, message):
                model(nodes, **attributes)

    def test_what_cannot_be_differentiated_is_named(self):
        builder = tenon.graph.Builder("refused")
        x = builder.input("x", "f32", [3])
        graph = builder.finish({"y": tenon.graph.ops.core.sin(x, name="wave")})
        with self.assertRaisesRegex(tenon.NotFoundError, "no input and no constant named 'z'"):
            graph.gradients(["z"])
        with self.assertRaisesRegex(TypeError, "values: expected a list of names"):
            graph.gradients("x")
        with self.assertRaisesRegex(TypeError, "outputs: item 0 is no string"):
            graph.gradients(outputs=[1])
        given = graph.gradients(["x"], given=True)
        self.assertEqual([name for name, _, _ in given.inputs], ["x", "y.grad"])
        self.assertEqual([name for name, _, _ in given.outputs], ["y", "x.grad"])
        ones = np.ones(3, np.float32)
        np.testing.assert_allclose(given.compile()(ones, 2 * ones)[1], 2 * np.cos(ones), rtol=1e-6)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "tests/adapters"))
    import totals

    totals.main()
