"""Tenon's operators on tensors of another device than the CPU: PyTorch's PrivateUse1, with sim below it (torch_device.cc), whose checker finds
work that is out of order. With TENON_WITHOUT_STREAMS=1 the backend reports no streams, as before PyTorch 2.13."""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-torch-device-")
HAS_STREAMS = "TENON_WITHOUT_STREAMS" not in os.environ
os.environ["TENON_CACHE"] = os.path.join(FOLDER, "cache")
os.environ["TENON_SIM"] = "delay=100,check=count" + ("" if HAS_STREAMS else ",handles=1")
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(ROOT, "tests", "acceptance")]
import onnx
import torch
from torch._subclasses import FakeTensorMode

import tenon
import tenon.torch
import gradient_cases, gradient_cases_index, gradient_cases_norms, gradient_cases_sampling, gradient_cases_sequence, gradient_cases_spatial  # noqa: F401, E401
import torch_backend
import totals
from gradients import CASES, results_of, torch_of
from torch_kinds import KINDS, grown

warnings.simplefilter("ignore")
core, sim = torch.ops.core, torch_backend.start(tenon, HAS_STREAMS)
SCALE = """#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif
TENON_SOURCE_4(scale, IN, float, x, OUT, float, y, VALUE, int64_t, n, VALUE, float, by) {
  TENON_EACH(i, n) y[i] = x[i] * by;
}
#ifndef TENON_ON_DEVICE
TENON_CODE(code, {"scale", scale})
static tenon_status_t scale_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  float by = (float)call->attrs[0].as.f;
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n), TENON_VALUE(by)};
  return tenon_each(call, &code, 0, n, arguments, 4);
}
TENON_LIBRARY(there, "1.0.0",
  TENON_OP("scale(Tensor x, *, float by) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: scale(grad, by=by)"), TENON_SOURCE("f32", scale_run)))
#endif
"""


def library(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return tenon.load(path)


def said(call):
    try:
        call()
    except Exception as error:
        return str(error)
    return "nothing was raised"


def alive(expected=None):
    """Blocks of PyTorch's allocator that tensors hold; autograd's threads may release some a little later."""
    gc.collect()
    end = time.monotonic() + 10
    while expected is not None and sim.counts()[1] != expected and time.monotonic() < end:
        time.sleep(0.01)
    return sim.counts()[1]


def numbers(*shape):
    return torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape)


def there(value, ordinal=0):
    if isinstance(value, list):
        return [there(v, ordinal) for v in value]
    return value.to(f"sim:{ordinal}") if isinstance(value, torch.Tensor) else value


def flat(values):
    return [t for v in values for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)]


tenon.torch.register("core")
for name, text in ("there.c", SCALE), ("kinds.c", KINDS):
    tenon.torch.register(library(name, text))
before = {"unmapped": said(lambda: core.add(there(numbers(3)), 1.0 * there(numbers(3)))), "type": said(lambda: tenon.torch.device("npu", "sim")),
          "backend": said(lambda: tenon.torch.device("sim", "nosuch"))}
tenon.torch.device("sim", "sim")
before["missing"] = said(lambda: core.nonzero(there(numbers(3))))
before["scale"] = there(numbers(5)).requires_grad_()  # its operators have kernels on the device, since no fallback is allowed yet
before["scaled"] = torch.ops.there.scale(before["scale"], by=3.0)
before["scaled"].sum().backward()
tenon.fallback_to_cpu("sim")


class Device(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")  # unittest has reset the filter
        self.races = sim.races()
        self.x, self.y = there(numbers(3, 4)), there(numbers(3, 4) ** 2)

    def tearDown(self):
        self.assertEqual(sim.races(), self.races)

    def check(self, found, expected, **limits):
        self.assertEqual(str(found.device), "sim:0")
        torch.testing.assert_close(found.detach().cpu(), expected.detach().cpu(), **limits)


class Errors(Device):
    def test_a_device_unknown_to_tenon_is_refused_and_the_known_ones_are_listed(self):
        self.assertEqual(before["unmapped"], "core::add: a: the tensor is on privateuseone:0, which is not mapped to a Tenon device: map it with "
                         "tenon.torch.device (in C tenon_torch_device) or move the tensor to the CPU; mapped so far: cuda to cuda")

    def test_an_impossible_mapping_of_a_device_type_is_an_error(self):
        self.assertEqual(before["type"], "device type 'npu': expected cuda, xpu or privateuseone")
        self.assertRegex(before["backend"], "device type privateuseone cannot be mapped to Tenon's backend nosuch: .*nosuch")
        self.assertEqual(said(lambda: tenon.torch.device("cuda", "sim")), "device type cuda is already mapped to Tenon's backend cuda and cannot be mapped to sim")
        self.assertEqual(said(lambda: tenon.torch.device("sim", "sim")), "nothing was raised")  # again

    def test_arguments_in_several_places_are_an_error_that_names_them(self):
        self.assertEqual(said(lambda: core.add(self.x, there(numbers(3, 4), 1))), "core::add: b: the tensor is on privateuseone:1, but earlier arguments are on privateuseone:0: move all tensors to one device")
        self.assertIn("core::add: arguments in host memory: b, beside a on sim:0", said(lambda: core.add(self.x, numbers(3, 4))))
        self.assertIn("core::add: arguments in host memory: a, beside b on sim:0", said(lambda: core.add(numbers(3, 4), self.x)))
        self.check(core.add(self.x, torch.tensor(2.0)), numbers(3, 4) + 2)  # a number on the CPU may be an argument

    def test_what_a_device_cannot_do_is_an_error_until_it_may_fall_back(self):
        self.assertIn("core::nonzero: no kernel for sim", before["missing"])

    def test_errors_leave_no_memory_behind(self):
        live = alive()
        for _ in range(3):
            self.assertIn("matmul", said(lambda: core.matmul(self.x, self.y)))
            self.assertIn("this is all that it does", said(lambda: torch.ops.kinds.fails(self.x)))
            self.assertIn("the tensor is on privateuseone:1", said(lambda: core.concat([self.x, there(numbers(3, 4), 1)], axis=0)))
        self.assertEqual(alive(live), live)
        allocations = sim.counts()[0]
        a = tenon.tensor([1.0, 2.0], "f32", device="sim:0")  # Tenon's own calls use Tenon's allocator
        b = tenon.ops.core.add(a, a)
        self.assertEqual((b.device, sim.counts()[0]), ("sim:0", allocations))


class Values(Device):
    def test_builtin_operators_give_what_they_give_on_the_cpu_and_so_do_their_gradients(self):
        torch.manual_seed(0)
        sim.set("delay=0")
        for name, _, attrs, arrays, wanted in CASES:
            with self.subTest(op=name, attrs=attrs):
                self.agree(name, attrs, arrays, wanted)
        sim.set("delay=100")

    def agree(self, name, attrs, arrays, wanted):
        found = tenon._core.find("core::" + name)
        op, parameters = tenon.torch.overload("core::" + name), [p for p in found.parameters if not p["keyword"]]
        named = {k: tenon.torch.dtypes.DTYPES[v] if k in ("to", "dtype") else v.strip("'") if isinstance(v, str) else list(v) if isinstance(v, tuple) else v for k, v in attrs.items()}
        args = [[torch_of(i) for i in a] if isinstance(a, list) else None if a is None else torch_of(a) for a in arrays]
        while args and args[-1] is None and parameters[len(args) - 1]["has_default"]:
            args.pop()

        def leaf(value, i):
            if isinstance(value, list):
                return [leaf(v, i) for v in value]
            return value.clone().requires_grad_() if isinstance(value, torch.Tensor) and i in wanted and value.is_floating_point() else value
        here, away = [leaf(a, i) for i, a in enumerate(args)], [leaf(a if parameters[i]["host"] else there(a), i) for i, a in enumerate(args)]
        is_away = any(t.device.type == "sim" for t in flat(away))
        expected, results = (results_of(lambda *a: op(*a, **named), a) for a in (here, away))
        for e, r, result in zip(expected, results, found.results):
            for a, b in zip(flat([e]), flat([r])):
                self.assertEqual(b.device.type, "sim" if is_away and not result["host"] else "cpu")
                torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-5, atol=1e-6)
        starts = [[t for t in flat(values) if t.requires_grad] for values in (expected, results)]
        leaves = [[t for t in flat(values) if t.requires_grad] for values in (here, away)]
        if starts[0]:
            weights = [torch.randn_like(t) for t in starts[0]]
            gradients = [torch.autograd.grad(s, l, [w.to(t.device) for w, t in zip(weights, s)], allow_unused=True) for s, l in zip(starts, leaves)]
            for a, b, l in zip(*gradients, leaves[1]):
                self.assertEqual(a is None, b is None)
                if a is not None:
                    self.assertEqual(b.device, l.device)
                    torch.testing.assert_close(b.cpu(), a, rtol=1e-5, atol=1e-6)

    def test_an_operator_with_a_kernel_for_the_device_runs_there_with_its_gradient(self):
        self.check(before["scaled"], 3 * numbers(5))
        self.check(before["scale"].grad, torch.full((5,), 3.0))

    def test_operators_that_fall_back_are_counted(self):
        self.check(core.nonzero(self.x), torch.nonzero(numbers(3, 4)).T)
        self.assertIn("core::nonzero", tenon.fallback_report())
        self.assertNotIn("there::scale", tenon.fallback_report())

    def test_tensors_of_any_strides_and_offsets_are_taken_as_they_are(self):
        whole, parts = there(numbers(4, 6)), numbers(4, 6)
        self.check(core.add(whole.t(), whole.t()), 2 * parts.t())
        self.check(core.mul(whole[1:3, 2:], whole[2:, :4]), parts[1:3, 2:] * parts[2:, :4])
        self.check(core.relu(whole[3]), torch.relu(parts[3]))
        self.check(core.matmul(whole, whole.t()), parts @ parts.t())
        self.assertEqual(core.add(whole[:0], whole[:0]).shape, (0, 6))

    def test_results_that_are_views_are_copies_and_lists_are_lists(self):
        a, b = core.split(self.x, count=2, axis=1)
        self.check(a, numbers(3, 4)[:, :2]), self.check(b, numbers(3, 4)[:, 2:])
        self.check(core.transpose(self.x, perm=[1, 0]), numbers(3, 4).t())
        shape = core.shape(self.x)
        self.assertEqual((shape.device.type, shape.tolist()), ("cpu", [3, 4]))
        self.check(torch.ops.kinds.total([self.x, self.y], there(torch.ones(1)), choice="two", extra=0.25), numbers(3, 4).sum() + (numbers(3, 4) ** 2).sum() + 102.25)

    def test_an_operator_that_writes_changes_the_tensor_itself(self):
        torch.ops.kinds.scale_(self.x, by=2.0)
        torch.ops.kinds.scale_(self.y[1], by=3.0)
        expected = numbers(3, 4) ** 2
        expected[1] *= 3
        self.check(self.x, 2 * numbers(3, 4)), self.check(self.y, expected)

    def test_random_numbers_are_repeated_by_torch_manual_seed(self):
        def draw():
            torch.manual_seed(7)
            return core.randn(shape=[5], dtype=torch.float32, device="sim:1"), torch.ops.kinds.noise(self.x)
        (a, b), (c, d) = draw(), draw()
        self.assertEqual(str(a.device), "sim:1")
        self.assertTrue(torch.equal(a.cpu(), c.cpu()) and torch.equal(b.cpu(), d.cpu()))

    def test_models_take_and_give_tensors_of_the_device(self):
        helper, path = onnx.helper, os.path.join(FOLDER, "tanh.onnx")
        ports = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4])] for name in ("x", "y")]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "tanh", *ports), opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        for device in "cpu", "sim:0":
            model, w = tenon.torch.load(path, device=device), self.x.clone().requires_grad_()
            y = model(w)
            self.check(y, torch.tanh(numbers(3, 4)))
            y.sum().backward()
            self.check(w.grad, 1 - torch.tanh(numbers(3, 4)) ** 2, atol=1e-6, rtol=1e-5)


class Memory(Device):
    def test_results_come_from_pytorchs_allocator(self):
        gc.collect()
        allocations, live, _ = sim.counts()
        y = core.add(self.x, self.x)
        self.assertEqual(sim.counts(), [allocations + 1, live + 1, 48])
        z = torch.ops.kinds.positive(self.x.view(-1))  # at most 12 elements
        self.assertEqual(sim.counts()[1], live + 2)
        self.check(z, numbers(12)[numbers(12) > 0])
        found = core.unique(self.x)  # the number of elements depends on the data
        self.assertEqual(sim.counts()[1], live + 2 + len(found))
        self.check(found[0], torch.unique(numbers(3, 4)))
        for t in (y, z, *found):
            self.assertEqual(str(t.untyped_storage().device), "sim:0")
        del y, z, found, t
        self.assertEqual(sim.counts()[1], live)

    def test_a_result_lives_as_long_as_pytorch_holds_it(self):
        kept = [core.mul(self.x, self.x) for _ in range(8)]
        for _ in range(32):
            core.add(self.x, self.y)
        for y in kept:
            self.check(y, numbers(3, 4) ** 2)

    @totals.takes_turns
    def test_nothing_leaks_over_thousands_of_calls(self):
        sim.set("delay=0")
        w, grad, matrix, q, k = self.x.clone().requires_grad_(), torch.ones_like(self.x), there(numbers(4, 4)), there(numbers(1, 1, 3, 4)).requires_grad_(), there(numbers(1, 1, 3, 4))
        kernels = (lambda: core.add(self.x, self.y), lambda: core.matmul(self.x, self.y.t()), lambda: core.split(self.x, count=2, axis=1), lambda: said(lambda: core.add(self.x, numbers(3, 4))),
                   lambda: said(lambda: core.matmul(self.x, self.y)), lambda: torch.autograd.grad(core.mul(w, self.y), w, grad))
        fallbacks = (lambda: core.nonzero(self.x), lambda: torch.ops.kinds.positive(self.x.view(-1)), lambda: torch.autograd.grad(core.relu(core.matmul(w, matrix)), w, grad),
                     lambda: torch.autograd.grad(core.attention(q, k, k)[0].sum(), q))
        for call in kernels + fallbacks:
            def waited():
                for _ in range(50):
                    call()
                sim.synchronize()
            waited()
            live = alive()
            most = 300_000 if call in fallbacks else 2000  # bytes in 1,000 calls; sim remembers so many bytes about copies
            found = [grown(waited, 20)]
            while found[-1] >= most and len(found) < 5:  # PyTorch's thread for gradients may free something only after the measurement
                found.append(grown(waited, 20))
            self.assertLess(found[-1], most, found)
            self.assertEqual(alive(live), live)
        sim.set("delay=100")


class Streams(Device):
    @unittest.skipUnless(HAS_STREAMS, "the backend tells no streams")
    def test_work_goes_to_the_stream_that_pytorch_uses(self):
        a, b, matrix = torch.Stream(device="sim:0"), torch.Stream(device="sim:0"), there(numbers(4, 4))
        b.wait_stream(torch.accelerator.current_stream()), a.wait_stream(torch.accelerator.current_stream())
        with a:
            y = core.matmul(core.add(self.x, self.y), matrix)
        b.wait_stream(a)
        with b:
            self.check(core.relu(y), torch.relu((numbers(3, 4) + numbers(3, 4) ** 2) @ numbers(4, 4)))
        self.assertEqual(sim.races(), self.races)
        with a:
            y = core.add(self.x, self.y)
        y.cpu()  # on the first stream, which waits for no other
        self.assertEqual(sim.races(), self.races + 1)
        self.races += 1
        sim.synchronize()

    @unittest.skipUnless(HAS_STREAMS, "the backend tells no streams")
    def test_gradients_go_back_in_the_streams_of_the_calls(self):
        w, stream = self.x.clone().requires_grad_(), torch.Stream(device="sim:0")
        stream.wait_stream(torch.accelerator.current_stream())
        with stream:
            y = core.relu(core.mul(w, self.y))
        torch.accelerator.current_stream().wait_stream(stream)
        core.add(y, y).sum().backward()
        c = numbers(3, 4).requires_grad_()
        (2 * torch.relu(c * numbers(3, 4) ** 2)).sum().backward()
        self.check(w.grad, c.grad)

    def test_threads_call_at_once(self):
        wrong, matrix = [], there(numbers(4, 4))
        expected = torch.relu((2 * numbers(3, 4)) @ numbers(4, 4))

        def work(ordinal):
            stream = torch.Stream(device=f"sim:{ordinal}")
            with stream:
                x, m = there(numbers(3, 4), ordinal), there(numbers(4, 4), ordinal)
                for _ in range(50):
                    if not torch.allclose(core.relu(core.matmul(core.add(x, x), m)).cpu(), expected):
                        wrong.append(ordinal)
        threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(wrong, [])
        self.check(core.matmul(matrix, matrix), numbers(4, 4) @ numbers(4, 4))


class Tracing(Device):
    def test_fakes_are_on_the_device_that_results_are_on(self):
        with FakeTensorMode() as mode:
            x, one = mode.from_tensor(self.x), torch.ones(())
            for y in core.add(x, x), core.add(one, x), core.split(x, count=2, axis=1)[1], core.matmul(x, x.t()), core.randn(shape=[2], device="sim:0"):
                self.assertEqual(str(y.device), "sim:0")
            self.assertEqual(core.shape(x).device.type, "cpu")

    def test_compiled_functions_give_the_same_values_and_gradients(self):
        def function(x, w):
            return core.relu(core.matmul(torch.ops.there.scale(x, by=2.0), w))
        results = []
        for f in function, torch.compile(function, backend="aot_eager", dynamic=True):
            w = there(numbers(4, 4)).requires_grad_()
            y = f(self.x, w)
            y.sum().backward()
            results.append((y.detach().cpu(), w.grad.cpu()))
        for a, b in zip(*results):
            self.assertTrue(torch.equal(a, b))
        program = torch.export.export(_Net(), (self.x,))
        self.check(program.module()(self.x), 4 * torch.relu(numbers(3, 4)))

    def test_vmap_and_autocast_work_on_the_device(self):
        self.check(torch.vmap(lambda t: core.add(core.relu(t), 1.0 * t))(self.x), torch.relu(numbers(3, 4)) + numbers(3, 4))
        with torch.autocast("sim", dtype=torch.bfloat16):
            y = core.matmul(self.x, self.y.t())
        self.assertEqual((y.dtype, str(y.device)), (torch.bfloat16, "sim:0"))
        self.check(torch.func.grad(lambda t: core.mul(t, t).sum())(self.x), 2 * numbers(3, 4))


class _Net(torch.nn.Module):
    def forward(self, x):
        return torch.ops.there.scale(core.add(core.relu(x), core.relu(x)), by=2.0)


@unittest.skipUnless(HAS_STREAMS, "this is that")
class WithoutStreams(unittest.TestCase):
    @totals.takes_turns
    def test_all_of_this_holds_for_a_backend_that_tells_no_streams_and_whose_memory_has_no_addresses(self):
        done = subprocess.run([sys.executable, os.path.abspath(__file__)], env={**os.environ, "TENON_WITHOUT_STREAMS": "1"}, capture_output=True, text=True, timeout=580)
        self.assertRegex(done.stdout.splitlines()[-1] if done.stdout else "", r"^\d\d passed, 0 failed, 3 skipped$", done.stderr[-3000:])


if __name__ == "__main__":
    totals.main()
