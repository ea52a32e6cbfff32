"""Calls of every kind, a few times each, so that a leak checker can look at the process when it ends: leaks.py [torch]. Run it by
PYTHONMALLOC=malloc valgrind --leak-check=full --errors-for-leak-kinds=definite --suppressions=tests/adapters/leaks.supp ... as leaks_test.py
does."""
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build"))), "python"))

import numpy as np  # noqa: E402

import tenon  # noqa: E402
from torch_kinds import KINDS  # noqa: E402

ROUNDS = int(os.environ.get("LEAKS_ROUNDS", "10"))
core = tenon.ops.core
ops, demo = tenon.load(os.path.join(ROOT, "tests/adapters/libraries/python.c")), tenon.load(os.path.join(ROOT, "examples/01_gelu/gelu.c"))


def refused(call, *args, **named):
    try:
        call(*args, **named)
    except Exception:
        return
    raise AssertionError("this call should have failed")


def with_numpy():
    x, texts = np.ones((4, 4), np.float32), np.array(["a", "bc"])

    @tenon.op("leaks::positive(Tensor x, *, str way='up') -> Tensor", types="x: f32; out = x")
    def positive(x, *, way):
        return x[x > 0]
    tenon.meta(positive)(lambda x, way: (tenon.at_most(x.shape[0]),))
    for _ in range(ROUNDS):
        core.add(x, x, out=x), core.transpose(x), core.softmax(x, axis=-1), core.split(x, count=2), core.string_concat(texts, texts)
        ops.sum_all([x, x]), ops.sum_all([x], scale=x[:1, 0]), ops.weigh(x, ints=[1, 2], f=0.1, s="text"), ops.add_to(x[0].copy(), x[0]), ops.positive(x[0])
        refused(ops.fails, x), refused(ops.weigh, x, c="three"), refused(core.matmul, x, x[:3]), refused(core.neg, object())
        t = tenon.tensor([[1, 2], [3, 4]])
        t.tolist(), t.numpy(), repr(t), t.copy(), tenon.from_dlpack(x), np.from_dlpack(t), tenon.from_dlpack(t)
        core.matmul._infer([("f32", [-1, -2]), ("f32", [-3, 5]), None], {}, 3)
        positive(x[0]), positive._infer([("f32", [-1])], {}, 1)
        with tenon.profile() as p:
            core.add(x, x)
        repr(p), tenon.dispatch.table("core::add")
    positive.registration.undo()


def with_torch():
    import torch

    import tenon.torch
    tenon.torch.register(demo), tenon.torch.register(ops)
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kinds.c"), "w", encoding="utf-8") as file:
            file.write(KINDS)
        tenon.torch.register(tenon.load(file.name))
    one, rows = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8), torch.quantize_per_channel(x, torch.ones(4), torch.zeros(4, dtype=torch.int64), 0, torch.qint8)
    model = tenon.torch.load(os.path.join(ROOT, "tests/data/models/convolution.onnx"))
    image = torch.ones([e if isinstance(e, int) else 2 for e in model.inputs[0][2]], requires_grad=True)
    for _ in range(ROUNDS):
        torch.ops.demo.gelu(x), torch.ops.demo.gelu(w).sum().backward(), demo.gelu(x), core.add(x, x)
        torch.ops.pytest.sum_all([x[0], x[1]]), torch.ops.pytest.add_to(torch.ones(3), torch.ones(3)), torch.ops.pytest.positive(x[0])
        refused(torch.ops.pytest.fails, x), refused(torch.ops.demo.gelu, x.int())
        torch.ops.kinds.real(one), torch.ops.kinds.real(rows), refused(torch.ops.demo.gelu, rows), refused(demo.gelu, one)
        model(image)[0].sum().backward(), refused(model, x), refused(torch.ops.tenon.run, [x], model="nowhere")


with_numpy()
if "torch" in sys.argv:
    with_torch()
