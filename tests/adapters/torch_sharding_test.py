"""Operators on DTensors: four processes (gloo) beside one, with each collective counted; gradients, a mesh of two axes,
FSDP2, failures, and every built-in operator with a declaration."""
import atexit
import datetime
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-sharding-")
EXAMPLE = os.path.join(ROOT, "examples", "12_sharding")
os.environ.setdefault("TENON_CACHE", os.path.join(BUILD, "cache"))  # which keeps the compiled node for autograd
os.environ.setdefault("TENON_TORCH_AUTOGRAD", "python")  # one test runs others with the node
os.environ["OMP_NUM_THREADS"] = "1"  # and the processes are forks
sys.path[:0] = [os.path.join(BUILD, "python"), EXAMPLE]
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import tenon
import tenon.torch
import torch_samples
import totals

tenon.torch.register("core")
before = "torch.distributed.tensor" in sys.modules
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: E402
from torch.distributed.tensor import distribute_module, distribute_tensor  # noqa: E402
from torch.distributed.tensor.debug import CommDebugMode  # noqa: E402
import network  # noqa: E402
import tensor_parallel  # noqa: E402

SPLIT = """#include <stdlib.h>
#include <tenon/op.h>
static float *floats(const tenon_tensor_t *t) { return t->data; }
static tenon_status_t copy(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) floats(c->outputs[0])[i] = floats(c->inputs[0])[i];
  return TENON_OK;
}
static tenon_status_t add_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) floats(c->inputs[0])[i] += floats(c->inputs[1])[i];
  return TENON_OK;
}
/* Of the columns of each item of a list, and of one tensor that may be absent, times a factor. */
static tenon_status_t total_run(tenon_call_t *c) {
  const int64_t rows = c->outputs[0]->shape[0], count = c->inputs[0]->shape[0];
  float *out = floats(c->outputs[0]);
  for (int64_t i = 0; i < rows; i++) out[i] = 0;
  for (int64_t k = 0; k <= count; k++) {
    const tenon_tensor_t *t = k < count ? ((tenon_tensor_t **)c->inputs[0]->data)[k] : c->inputs[1];
    for (int64_t i = 0; t && i < tenon_count(t); i++)
      out[i * rows / tenon_count(t)] += (float)c->attrs[0].as.f * floats(t)[i];
  }
  return TENON_OK;
}
TENON_LIBRARY(split, "1.0.0",
  TENON_OP("rows(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_SHARDING("x: [_, n]; out: [_, n]"), TENON_KERNEL("cpu", copy)),
  TENON_OP("opaque(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", copy)),
  TENON_OP("total(Tensor[] xs, Tensor? y=None, *, float by=1.0) -> Tensor",
    TENON_TYPES("xs: f32; y = xs; out = xs"), TENON_SHAPES("xs: [n, _]; y: [n, _]; out: [n]"),
    TENON_TRAITS(TENON_PURE), TENON_SHARDING("xs: [n, k]; y: [n, k]; out: [n]; sum k"),
    TENON_KERNEL("cpu", total_run)),
  TENON_OP("add_(Tensor(a!) x, *, Tensor y) -> ()", TENON_TYPES("x: f32; y = x"),
    TENON_TRAITS(TENON_POINTWISE), TENON_KERNEL("cpu", add_run)))
"""
R, P, S0, S1, S2 = Replicate(), Partial(), Shard(0), Shard(1), Shard(2)
core = torch.ops.core


def load(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


tenon.torch.register(load("split.c", SPLIT))
tenon.torch.register(tenon.load(os.path.join(EXAMPLE, "block.c")))


def join(rank, name, seconds):
    store, timeout = f"file://{os.path.join(FOLDER, name)}", datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=4, timeout=timeout)


def one_of(rank, name, test, arguments):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    join(rank, name, 60)
    torch.manual_seed(0)
    test(*arguments)
    dist.barrier()
    dist.destroy_process_group()


def in_four_processes(test, *arguments):
    """Runs a function in four processes of one group; an error in one of them is raised here."""
    name = f"{test.__name__}-{time.monotonic_ns()}"
    mp.start_processes(one_of, (name, test, arguments), nprocs=4, start_method="fork")


def counted(function, *args):
    """Returns a result, and which collectives were needed."""
    with CommDebugMode() as mode:
        result = function(*args)
    found = {str(name).split(".")[-1]: count for name, count in mode.get_comm_counts().items()}
    return result, {name.split("_into")[0].removesuffix("_tensor"): count for name, count in found.items() if count}


def put(tensor, mesh, placements):
    """A tensor that all processes have as a DTensor, without a collective."""
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)


def compare(case, found, expected):
    """Compares a DTensor with the tensor of one process."""
    if found.shape != expected.shape or found.stride() != torch.empty(expected.shape).stride():
        raise AssertionError(f"{case}: {found.shape} with strides {found.stride()}, expected {expected.shape}")
    tolerance = {"rtol": 2e-4, "atol": 2e-5, "equal_nan": True}
    torch.testing.assert_close(found.full_tensor(), expected, **tolerance, msg=lambda text: f"{case}: {text}")


def both(case, function, mesh, arguments, gradients=True):
    """Calls a function with tensors and with DTensors, and compares results and gradients.

    arguments: pairs of a tensor and its placements.
    Returns the placements of the result, and the collectives of forward and backward.
    """
    alone = [t.clone().requires_grad_(gradients and t.is_floating_point()) for t, _ in arguments]
    split = [put(t, mesh, p).requires_grad_(gradients and t.is_floating_point()) for t, p in arguments]
    expected = function(*alone)
    found, forward = counted(function, *split)
    compare(case, found, expected)
    if not gradients:
        return found.placements, forward, {}
    weights = torch.arange(expected.numel()).reshape(expected.shape) % 5 - 1.5
    expected.backward(weights)
    into = [R if p.is_partial() else p for p in found.placements]
    _, backward = counted(found.backward, put(weights, mesh, into))
    for i, (part, whole) in enumerate(zip(split, alone)):
        if (part.grad is None) != (whole.grad is None):
            raise AssertionError(f"{case}: gradient {i}: {part.grad}, expected {whole.grad}")
        if whole.grad is not None:
            compare(f"{case}, gradient {i}", part.grad, whole.grad)
    return found.placements, forward, backward


def check(case, found, *expected):
    if found != expected:
        raise AssertionError(f"{case}: found {found}, expected {expected}")


def counts():
    mesh = init_device_mesh("cpu", (4,))
    x, w, y, wide = torch.randn(8, 12), torch.randn(12, 4), torch.randn(12), torch.randn(8, 4, 12)
    linear, total = torch.ops.block.linear, torch.ops.split.total
    def transposed(a, b):
        return core.matmul(a, b, transpose_b=True)
    gather, reduce, scatter = {"all_gather": 1}, {"all_reduce": 1}, {"reduce_scatter": 1}
    for case, function, arguments, placements, forward, backward in (
            ("rows of a product", linear, ((wide, [S1]), (w, [R])), (S1,), {}, {}),
            ("columns of a product", linear, ((wide, [R]), (w, [S1])), (S2,), {}, {}),
            ("a sum that is split", linear, ((wide, [S2]), (w, [S0])), (P,), {}, {}),
            ("a sum of which one factor is split", linear, ((wide, [R]), (w, [S0])), (P,), {}, {}),
            ("leading extents", core.matmul, ((wide, [S0]), (w, [R])), (S0,), {}, {}),
            ("matmul, rows", core.matmul, ((x, [S0]), (w, [R])), (S0,), {}, {}),
            ("matmul, columns", core.matmul, ((x, [R]), (w, [S1])), (S1,), {}, {}),
            ("matmul, sum", core.matmul, ((x, [S1]), (w, [S0])), (P,), {}, {}),
            ("matmul, transposed", transposed, ((x, [R]), (w.t().contiguous(), [S0])), (S1,), {}, {}),
            ("matmul, columns with bias", core.matmul, ((x, [R]), (w, [S1]), (w[0], [S0])), (S1,), {}, {}),
            ("matmul, sum with bias", core.matmul, ((x, [S1]), (w, [R]), (w[0], [R])), (R,), gather, gather),
            ("the cheaper one of two moves", core.matmul, ((x, [S0]), (w, [S1])), (S0,), gather, gather),
            ("pointwise", core.gelu, ((x, [S1]),), (S1,), {}, {}),
            ("broadcast", core.mul, ((x, [S1]), (y, [S0])), (S1,), {}, {}),
            ("broadcast of a whole tensor", core.mul, ((x, [S0]), (y, [R])), (S0,), {}, {}),
            ("an extent of 1 is not split", core.mul, ((x, [S0]), (x[:1], [R])), (S0,), {}, {}),
            ("rows of softmax", core.softmax, ((x, [S0]),), (S0,), {}, {}),
            ("softmax of what is split", core.softmax, ((x, [S1]),), (R,), gather, {}),
            ("along another axis", lambda a: core.softmax(a, axis=0), ((x, [S1]),), (R,), gather, {}),
            ("layer_norm", lambda a, s: core.layer_norm(a, s)[0], ((x, [S0]), (y, [R])), (S0,), {}, {}),
            ("rms_norm", core.rms_norm, ((x, [S0]), (y, [R])), (S0,), {}, {})):
        check(case, both(case, function, mesh, arguments), placements, forward, backward)
    for case, function, arguments, placements, forward in (
            ("an operator without a declaration", torch.ops.split.opaque, ((x, [S0]),), (R,), gather),
            ("an extent without a name", torch.ops.split.rows, ((x, [S0]),), (R,), gather),
            ("an extent with a name", torch.ops.split.rows, ((x, [S1]),), (S1,), {}),
            ("a rank that the declaration does not have", torch.ops.split.opaque, ((wide, [S1]),), (R,), gather),
            ("an extent with fewer elements than parts", core.gelu, ((x[:3], [S0]),), (R,), gather),
            ("uneven parts", core.gelu, ((x[:6], [S0]),), (S0,), {}),
            ("a list", lambda a, b: total([a, b, a], by=2.0), ((x, [S0]), (x + 1, [R])), (S0,), {}),
            ("a list and an optional tensor", lambda a, b: total([a], b), ((x, [S1]), (x, [S1])), (P,), {}),
            ("a list that disagrees", lambda a, b: total([a, b]), ((x, [S0]), (x, [S1])), (S0,), gather)):
        check(case, both(case, function, mesh, arguments, gradients=False), placements, forward, {})
    part = torch.full((8, 12), 0.25) * torch.arange(12)
    summed, moved = counted(core.gelu, DTensor.from_local(part, mesh, [P]))
    check("a sum is added up before an operator that is not linear", (moved, summed.placements), reduce, (R,))
    summed, moved = counted(core.add, DTensor.from_local(part, mesh, [P]), put(x, mesh, [S0]))
    check("and scattered where another argument is split", (moved, summed.placements), scatter, (S0,))
    compare("its value", summed, 4 * part + x)


def two_axes():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    x, w, back = torch.randn(4, 6, 8), torch.randn(8, 12), torch.randn(12, 8)
    linear = torch.ops.block.linear

    def two(x, w, back):
        return linear(core.silu(linear(x, w)), back)
    for case, function, arguments, placements, forward, backward in (
            ("data and columns", linear, ((x, [S0, R]), (w, [R, S1])), (S0, S2), {}, {}),
            ("data and sum", linear, ((x, [S0, S2]), (w, [R, S0])), (S0, P), {}, {}),
            ("one extent twice", linear, ((x, [S0, S0]), (w, [R, R])), (S0, S0), {}, {}),
            ("rows and batch", core.softmax, ((x, [S1, S0]),), (S1, S0), {}, {}),
            ("both", two, ((x, [S0, R]), (w, [R, S1]), (back, [R, S0])), (S0, P), {}, {}),
            ("an axis that must be whole", core.softmax, ((x, [S0, S2]),), (S0, R), {"all_gather": 1}, {})):
        check(case, both(case, function, mesh, arguments), placements, forward, backward)
    q, k, v = torch.randn(3, 4, 4, 5, 8).unbind()
    for attend in torch.ops.block.attend, lambda *a: core.attention(*a, is_causal=True)[0]:
        check("heads", both("heads", attend, mesh, [(t, [S0, S1]) for t in (q, k, v)]), (S0, S1), {}, {})


def blocks():
    """The example's network: its matrices over all processes; then batch and matrices over two axes of a mesh."""
    x, y = network.walks(8, 0)
    whole = network.Network(16, 4, 2)
    loss = ((whole(x) - y) ** 2).mean()
    loss.backward()
    for shape, placements, sums in (((4,), [R], 4), ((2, 2), [S0, R], 4)):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor")[-len(shape):])
        parts = network.Network(16, 4, 2)
        parts.load_state_dict(whole.state_dict())

        def split(name, module, mesh):
            tensor_parallel.split(name, module, mesh["tensor"])
            if len(shape) > 1 and isinstance(module, network.Linear):
                weight = module.weight.detach()
                weight = DTensor.from_local(weight.to_local(), mesh, [R, *weight.placements], run_check=False)
                module.weight = torch.nn.Parameter(weight)
        distribute_module(parts, mesh, split)
        found, forward = counted(parts, put(x, mesh, placements))
        check(f"{shape}: forward", (forward,), {"all_reduce": sums})
        compare(f"{shape}: result", found, whole(x).detach())
        _, backward = counted((((found - put(y, mesh, placements)) ** 2).mean()).backward)
        check(f"{shape}: backward", (backward,), {"all_reduce": sums})
        for (name, part), expected in zip(parts.named_parameters(), whole.parameters()):
            compare(f"{shape}: {name}", part.grad, expected.grad)


def traced():
    mesh = init_device_mesh("cpu", (4,))
    x, w = torch.randn(8, 12), torch.randn(12, 4)

    def function(x, w):
        return core.gelu(core.matmul(x, w)).redistribute(placements=[Replicate()])
    for placements in ([S0], [R]), ([R], [S1]), ([S1], [S0]):
        results = []
        for f in function, *(torch.compile(function, backend=backend, fullgraph=True) for backend in ("aot_eager", "tenon")):
            leaves = [put(t, mesh, p).requires_grad_() for t, p in zip((x, w), placements)]
            made = f(*leaves)
            made.sum().backward()
            results.append([made, *(leaf.grad for leaf in leaves)])
        for eager, *others in zip(*results):
            for other in others:
                torch.testing.assert_close(other.full_tensor(), eager.full_tensor())
    twice = [t.double().requires_grad_() for t in (x, w)]
    split = [put(t.detach(), mesh, p).requires_grad_() for t, p in zip(twice, ([S0], [R]))]
    seconds = []
    for a, b in twice, split:
        first, = torch.autograd.grad(core.tanh(core.matmul(a, b)).sum(), a, create_graph=True)
        seconds.append(torch.autograd.grad((first**2).sum(), (a, b)))
    for found, expected in zip(seconds[1], seconds[0]):
        torch.testing.assert_close(found.full_tensor(), expected)


def compiled():
    """The example's network over four processes, compiled by Tenon: results, gradients, and collectives."""
    x, y = network.walks(8, 0)
    whole = network.Network(16, 4, 2)
    parts = network.Network(16, 4, 2)
    parts.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cpu", (4,))
    distribute_module(parts, mesh, tensor_parallel.split)
    ((whole(x) - y) ** 2).mean().backward()
    function = torch.compile(parts, backend="tenon", fullgraph=True)
    found = function(put(x, mesh, [R]))
    compare("compiled: result", found, whole(x).detach())
    ((found - put(y, mesh, [R])) ** 2).mean().backward()
    for (name, part), expected in zip(parts.named_parameters(), whole.parameters()):
        compare(f"compiled: {name}", part.grad, expected.grad)
    forward = tenon.torch.explain(parts, put(x, mesh, [R])).graphs[0]
    collectives = [item.operator for item in forward.handed_back if "wait_tensor" not in item.operator]
    if collectives != ["_c10d_functional.all_reduce.default"] * 4:
        raise AssertionError(f"compiled: expected four times all_reduce in the forward graph, found {collectives}")


def refusals():
    mesh, other = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    x = torch.randn(8, 4)
    split = put(x, mesh, [S0])
    for message, call in (
            ("core::dropout draws random numbers, which would differ between processes", lambda: core.dropout(split)),
            ("core::add: argument b is a plain tensor, but others are DTensors", lambda: core.add(split, x)),
            ("core::add: its arguments are DTensors of different meshes",
             lambda: core.add(split, put(x, other, [R, R]))),
            ("split::add_ writes to x, whose placements are .*redistribute x first",
             lambda: torch.ops.split.add_(put(x, mesh, [R]), y=split))):
        try:
            call()
        except Exception as error:
            if not re.search(message, str(error)):
                raise AssertionError(f"expected {message!r}, found {error}") from error
        else:
            raise AssertionError(f"no error: {message}")
    _, moved = counted(lambda: torch.ops.split.add_(split, y=put(x, mesh, [R])))
    check("an operator that writes", (moved,), {})
    compare("what it wrote", split, 2 * x)
    compare("numbers need not be DTensors", core.mul(split, torch.tensor(2.0)), 4 * x)
    compare("a shape on the host", core.reshape(split, torch.tensor([4, 8])), (2 * x).reshape(4, 8))
    check("a result on the host", (core.shape(split).tolist(),), [8, 4])


def builtin_samples():
    """Arguments for each declaration of each built-in operator with a TENON_SHARDING."""
    def r(*shape):
        return torch.randn(shape)
    mask, k, heads = torch.rand(4, 4, 4, 5) > 0.2, r(4, 4, 5, 8), {"q_num_heads": 2, "kv_num_heads": 2}
    past, pairs = r(4, 4, 3, 4), [r(8, 5), r(5, 8)]
    return {
        "attention": [([r(4, 4, 4, 8), k, k, mask], {}), ([r(4, 2, 6), r(4, 3, 6), r(4, 3, 6)], heads),
                      ([r(4, 8, 2, 4), past, past, None, past, past], {"is_causal": True})],
        "batch_norm": [([r(4, 5, *more), r(5), r(5), r(5), torch.rand(5) + 1], {}) for more in ((), (4,), (2, 4))],
        "conv": [([r(4, 3, 6), r(4, 3, 2), r(4)], {}), ([r(4, 4, 6), r(4, 2, 2)], {"group": 2}),
                 ([r(4, 3, 6, 5), r(4, 3, 2, 2), r(4), r(4, 4, 5, 4)], {"activation": "relu"}),
                 ([r(4, 4, 6, 5), r(4, 2, 2, 2)], {"group": 2})],
        "gather": [([r(5, 8), torch.randint(5, (4, 6))], {}), ([r(5, 8), torch.randint(8, (4,))], {"axis": 1})],
        "gemm": [([r(4, 8), pairs[transposed], *c], {"trans_b": transposed, "alpha": 0.5})
                 for transposed in (False, True) for c in ((), (r(5),), (r(4, 5),))],
        "layer_norm": [([r(4, 5, 8), r(8), r(8)], {}), ([r(4, 5, 8)], {}), ([r(4, 5, 8), r(5, 8)], {"axis": 1})],
        "log_softmax": [([r(4, 5, 8)], {}), ([r(4, 5, 8)], {"axis": 1})],
        "matmul": [([r(4, 4, 8), pairs[transposed], *bias], {"transpose_b": transposed, "activation": activation})
                   for transposed in (False, True) for bias in ((), (r(5),), (r(4, 5),))
                   for activation in ("none", "relu")]
        + [([r(8), r(8, 4)], {}), ([r(8, 4), r(8, 4)], {"transpose_a": True})],
        "rms_norm": [([r(4, 5, 8), r(8)], {}), ([r(4, 5, 8)], {"axis": 1})],
        "softmax": [([r(4, 5, 8)], {}), ([r(4, 5, 8)], {"axis": 1})],
    }


def tensors_of(result):
    return [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]


def axes_of(arguments):
    for i, t in enumerate(arguments):
        if isinstance(t, torch.Tensor):
            yield from ((i, axis) for axis, extent in enumerate(t.shape) if extent > 1)


def builtins(samples, gradients):
    """Splits each axis of each argument over two or four processes, and compares all results and gradients."""
    meshes = {4: (init_device_mesh("cpu", (4,)), []), 2: (init_device_mesh("cpu", (2, 2)), [R])}

    def leaf(t):
        return t.detach().clone().requires_grad_(gradients and t.is_floating_point())

    def taken(positional, split):
        return [leaf(split(i, t)) if isinstance(t, torch.Tensor) else t for i, t in enumerate(positional)]
    for name, calls in samples().items():
        call, is_split = tenon.torch.overload("core::" + name), False
        for positional, named in calls:
            for at, axis in axes_of(positional):
                case = f"{name}, argument {at}, axis {axis}"
                mesh, more = meshes[4 if positional[at].shape[axis] >= 4 else 2]
                alone = taken(positional, lambda i, t: t)
                parts = taken(positional, lambda i, t: put(t, mesh, [Shard(axis) if i == at else R, *more]))
                expected, found = tensors_of(call(*alone, **named)), tensors_of(call(*parts, **named))
                check(case, (len(found),), len(expected))
                for f, e in zip(found, expected):
                    is_split |= isinstance(f, DTensor) and not f.placements[0].is_replicate()
                    compare(case, f.detach(), e.detach())
                if not gradients:
                    continue
                expected[0].sum().backward()
                found[0].sum().backward()
                for i, (f, e) in enumerate(zip(parts, alone)):
                    if isinstance(e, torch.Tensor) and e.grad is not None:
                        compare(f"{case}: gradient {i}", f.grad, e.grad)
        if calls and not is_split:
            raise AssertionError(f"{name}: nothing was split")


def pointwise_samples():
    found = {name: torch_samples.sample(name) for name in torch_samples.operators() if is_pointwise(name)}
    return {name: [call] for name, call in found.items() if call}


def is_pointwise(name):
    op = tenon._core.find("core::" + name)
    return "pointwise" in op.traits and "pure" in op.traits and "random" not in op.traits


def shared_weights():
    """FSDP2, and FSDP2 of matrices that are split as well."""
    whole = network.Network(16, 4, 2)
    x, y = network.walks(8, 0)
    for shape in (4,), (2, 2):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor")[:len(shape)])
        alone, parts = (network.Network(16, 4, 2) for _ in range(2))
        for each in alone, parts:
            each.load_state_dict(whole.state_dict())
        data, row = mesh["data"], mesh["data"].get_local_rank()
        if len(shape) > 1:
            distribute_module(parts, mesh["tensor"], tensor_parallel.split)
        for block in parts.blocks:
            fully_shard(block, mesh=data)
        fully_shard(parts, mesh=data)
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (alone, parts)]
        for step in range(3):
            ((alone(x) - y) ** 2).mean().backward()
            mine = [t.chunk(data.size())[row] for t in (x, y)]
            if len(shape) > 1:
                mine = [put(t, mesh["tensor"], [R]) for t in mine]
            ((parts(mine[0]) - mine[1]) ** 2).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        for (name, part), expected in zip(parts.named_parameters(), alone.parameters()):
            torch.testing.assert_close(part.full_tensor(), expected, rtol=1e-4, atol=1e-5,
                                       msg=lambda text: f"{shape}: {name}: {text}")


def ends_early(mesh):
    x = put(torch.randn(8, 12), mesh, [S1])
    core.softmax(x)  # which gathers
    if dist.get_rank() == 3:
        os._exit(7)
    for _ in range(100):
        core.softmax(x)


def one_that_may_end(rank, name):
    """Writes the error that the death of another process causes to a file."""
    join(rank, name, 20)
    try:
        ends_early(init_device_mesh("cpu", (4,)))
    except Exception as error:
        with open(os.path.join(FOLDER, f"{name}-{rank}"), "w", encoding="utf-8") as file:
            file.write(str(error))
        os._exit(3)
    os._exit(0)


class Sharding(unittest.TestCase):
    def test_only_what_the_declaration_keeps_whole_is_gathered(self):
        in_four_processes(counts)

    def test_a_mesh_of_two_axes(self):
        in_four_processes(two_axes)

    def test_a_network_over_four_processes_is_the_network_of_one(self):
        in_four_processes(blocks)

    def test_fully_sharded_training(self):
        in_four_processes(shared_weights)

    def test_compiled_functions_and_second_derivatives(self):
        in_four_processes(traced)

    def test_a_network_compiled_by_tenon(self):
        in_four_processes(compiled)

    def test_what_cannot_be_split_is_refused(self):
        in_four_processes(refusals)

    def test_every_builtin_with_a_declaration(self):
        declared = {name for name in torch_samples.operators() if tenon._core.find("core::" + name).sharding}
        self.assertEqual(declared, set(builtin_samples()))
        in_four_processes(builtins, builtin_samples, True)

    def test_every_pointwise_builtin(self):
        in_four_processes(builtins, pointwise_samples, False)

    def test_a_process_that_dies_ends_the_others_with_an_error(self):
        name, begin = f"dies-{time.monotonic_ns()}", time.monotonic()
        programs = [mp.get_context("fork").Process(target=one_that_may_end, args=(rank, name)) for rank in range(4)]
        for program in programs:
            program.start()
        for program in programs:
            program.join(60)
        self.assertEqual([program.exitcode for program in programs], [3, 3, 3, 7])
        self.assertLess(time.monotonic() - begin, 40)
        for rank in range(3):
            with open(os.path.join(FOLDER, f"{name}-{rank}"), encoding="utf-8") as file:
                self.assertRegex(file.read(), "(?i)connection|timed out|reset|peer")

    def test_gradients_with_the_compiled_node(self):
        if not shutil.which(os.environ.get("CXX", "c++")):
            self.skipTest("there is no compiler for C++, which the autograd node needs")
        tests = (self.test_only_what_the_declaration_keeps_whole_is_gathered,
                 self.test_a_network_over_four_processes_is_the_network_of_one,
                 self.test_every_builtin_with_a_declaration)
        command = [sys.executable, "-W", "ignore", __file__, *(f"Sharding.{test.__name__}" for test in tests)]
        env = {**os.environ, "TENON_TORCH_AUTOGRAD": "compile"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])

    def test_the_rules_come_with_the_import_of_dtensors_alone(self):
        self.assertFalse(before, "tenon.torch imported torch.distributed.tensor, which the program did not ask for")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
    totals.main()
