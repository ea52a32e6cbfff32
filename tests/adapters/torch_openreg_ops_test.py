"""Operators, gradients, autocast and random numbers of a Tenon device in PyTorch: OpenReg's tests ops, opinfo, device_type, autograd,
autocast, rng, rnn, sdpa and utils, on sim."""
import contextlib
import io
import os
import threading
import unittest

import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.utils._python_dispatch import TorchDispatchMode
from torch_openreg import MORE, Device, again, numbers, program, sim, td, there
import totals


class Factories(Device):
    def test_factories_make_tensors_of_the_device_with_the_values_of_the_cpu(self):
        for make in (lambda d: torch.zeros(2, 3, device=d), lambda d: torch.ones(2, 3, device=d), lambda d: torch.full((2, 3), 7.5, device=d), lambda d: torch.tensor([1, 2], device=d),
                     lambda d: torch.ones_like(torch.empty(4, device=d)), lambda d: torch.arange(10, device=d), lambda d: torch.eye(3, device=d), lambda d: torch.linspace(0, 1, 5, device=d),
                     lambda d: torch.tensor((), device=d), lambda d: torch.zeros(3, dtype=torch.bool, device=d), lambda d: torch.triu_indices(3, 3, device=d), lambda d: torch.tensor(2.5, device=d)):
            self.check(make("sim"), make("cpu"))

    def test_expanded_tensors_can_be_filled(self):
        for fill in (lambda t: t.fill_(5), lambda t: t.zero_()):
            x, y = torch.ones(3, 1), torch.ones(3, 1, device="sim")
            fill(x.expand(2, 3, 4)), fill(y.expand(2, 3, 4))
            self.check(y, x)

    def test_empty_tensors_have_the_strides_and_formats_that_are_asked_for(self):
        self.assertEqual(torch.empty_strided((3, 4), (1, 3), device="sim").stride(), (1, 3))
        self.assertEqual(torch.empty(2, 3, 4, 4, device="sim", memory_format=torch.channels_last).stride(), (48, 1, 12, 3))
        self.assertEqual(torch.empty_like(there(numbers(3, 4)).t()).stride(), (1, 4))

    def test_random_factories_give_every_dtype(self):
        for dtype in torch.float32, torch.float64, torch.float16, torch.bfloat16:
            x = torch.randn(100, dtype=dtype, device="sim")
            self.assertEqual((x.device.type, x.dtype), ("sim", dtype))
            self.assertGreater(x.float().std().item(), 0.3)
        x = torch.randint(0, 5, (100,), device="sim")
        self.assertTrue(x.dtype == torch.int64 and 0 <= x.min().item() and x.max().item() < 5)
        self.assertEqual(torch.randperm(20, device="sim").sort()[0].tolist(), list(range(20)))

    def test_fakes_know_their_device(self):
        with FakeTensorMode():
            x = torch.empty(3, 3, device="sim")
            self.assertEqual([t.device.type for t in (x, x + 1, x + torch.empty(3, 3, device="sim:0"))], ["sim"] * 3)

    def test_tensors_without_dense_layout_are_refused_clearly(self):
        self.assertRaisesRegex(NotImplementedError, "dense|[Ss]parse", torch.empty, (2, 2), layout=torch.sparse_coo, device="sim")


class Copies(Device):
    def test_to_gives_the_same_tensor_unless_something_changes(self):
        x = there(numbers(3, 4))
        self.assertIs(x.to("sim"), x)
        self.assertEqual(x.to("sim:0").data_ptr(), x.data_ptr())
        y = x.to("sim", copy=True)
        self.assertNotEqual(y.data_ptr(), x.data_ptr())
        self.check(y, numbers(3, 4))
        z = x.clone()
        self.assertNotEqual(z.data_ptr(), x.data_ptr())
        self.check(z, numbers(3, 4))
        self.assertTrue(torch.equal(x.cpu(), numbers(3, 4)))

    def test_copies_change_dtypes_on_the_device_and_between_devices(self):
        x = numbers(3, 4)
        for dtype in torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64, torch.uint8, torch.float8_e4m3fn:
            source = x.abs() if dtype == torch.uint8 else x
            expected = source.to(dtype)
            for found in there(source).to(dtype), source.to("sim", dtype), there(source, 1).to("sim:0", dtype), torch.empty(3, 4, dtype=dtype, device="sim").copy_(source):
                self.assertEqual((found.dtype, str(found.device)), (dtype, "sim:0"))
                self.assertTrue(torch.equal(found.cpu().to(torch.complex64), expected.to(torch.complex64)), dtype)
            self.assertTrue(torch.equal(there(source).to("cpu", dtype).to(torch.complex64), expected.to(torch.complex64)), dtype)

    def test_copies_change_memory_formats_and_take_any_strides(self):
        x = numbers(2, 3, 4, 4)
        y = there(x).to(memory_format=torch.channels_last)
        self.assertTrue(y.is_contiguous(memory_format=torch.channels_last))
        self.check(y, x)
        self.check(x.to("sim", memory_format=torch.channels_last), x)
        self.check(y.contiguous(), x)
        self.check(there(x.transpose(1, 3)[:, ::2]), x.transpose(1, 3)[:, ::2])
        z = there(torch.zeros(4, 6))
        z.t()[1:3, ::2].copy_(numbers(2, 2))
        expected = torch.zeros(4, 6)
        expected.t()[1:3, ::2].copy_(numbers(2, 2))
        self.check(z, expected)
        z.copy_(torch.tensor([1.0, 2, 3, 4, 5, 6]))  # broadcast
        self.check(z, torch.tensor([1.0, 2, 3, 4, 5, 6]).expand(4, 6))

    def test_copies_that_do_not_block_are_in_the_order_of_the_stream(self):
        x = there(numbers(1000))
        y = torch.empty_like(x)
        y.copy_(x + 1, non_blocking=True)
        self.assertTrue(torch.equal(y, x + 1))
        self.check(x.to("sim:1", non_blocking=True), numbers(1000), "sim:1")

    def test_conjugate_and_negative_views_are_copied_by_value(self):
        x = torch.randn(4, dtype=torch.complex64)
        self.check(there(x).conj(), x.conj())
        self.check(there(x).conj().imag, x.conj().imag)
        self.check(there(x.conj()), x.conj())

    def test_results_are_written_to_conjugate_and_negative_views(self):
        x, a = torch.randn(3, 3, dtype=torch.complex128), torch.randn(3, 3, dtype=torch.complex128)
        for f in (lambda x, a: x.conj().addmm_(a, a), lambda x, a: torch.mm(a, a, out=x.conj()), lambda x, a: x.conj().add_(a), lambda x, a: x.conj().copy_(a),
                  lambda x, a: torch.mm(a.real, a.real, out=x.conj().imag), lambda x, a: x.conj().imag.mul_(a.real), lambda x, a: torch.asin(a, out=x.conj())):
            expected, found = x.clone(), there(x)
            f(expected, a), f(found, there(a))
            self.check(found, expected)

    def test_an_overlapping_destination_and_a_wrong_shape_are_errors(self):
        x = torch.zeros(1, device="sim").expand(4)
        self.assertRaises(RuntimeError, x.copy_, torch.ones(4, device="sim"))
        self.assertRaises(RuntimeError, torch.zeros(3, device="sim").copy_, torch.ones(4))
        y = there(numbers(6))
        self.assertRaisesRegex(RuntimeError, "single memory location", y[:5].copy_, y[1:])
        self.check(y.copy_(y), numbers(6))

    def test_elements_of_sixteen_bytes_are_copied_between_strides(self):
        x = torch.randn(3, 4, dtype=torch.complex128)
        a = there(x)
        self.check(a.t().contiguous(), x.t().contiguous())
        self.assertTrue(torch.equal(a.t().cpu(), x.t()))
        a.t()[1:3].copy_(a.t()[:2].clone())
        x.t()[1:3] = x.t()[:2].clone()
        self.check(a, x)


class Views(Device):
    def test_views_share_the_memory(self):
        x = there(numbers(4, 4))
        for view in x.view(2, 8), x.reshape(16), x.expand(3, 4, 4), x.t(), x.unsqueeze(0), x.permute(1, 0), x.as_strided((2, 2), (1, 2)), x.diagonal(), x[:2], x.flatten(), x.detach():
            self.assertEqual(view.data_ptr(), x.data_ptr())
        self.check(x.as_strided((2, 2), (1, 2)), numbers(4, 4).as_strided((2, 2), (1, 2)))
        self.check(x.expand(3, 4, 4), numbers(4, 4).expand(3, 4, 4))
        x.view(16)[3] = 9
        self.assertEqual(x[0, 3].item(), 9)
        c = there(torch.randn(3, dtype=torch.complex64))
        self.assertEqual(torch.view_as_real(c).data_ptr(), c.data_ptr())
        self.assertEqual(x.view(torch.int32).dtype, torch.int32)

    def test_a_view_that_does_not_fit_is_an_error(self):
        self.assertRaises(RuntimeError, there(numbers(4, 4)).view, 3, 5)
        self.assertRaises(RuntimeError, there(numbers(4, 4)).t().view, 16)

    def test_set_takes_tensors_and_storages(self):
        x = there(numbers(12))
        self.assertEqual(torch.empty(0, device="sim").set_(x).data_ptr(), x.data_ptr())
        y = torch.empty(0, device="sim").set_(x.untyped_storage(), 4, (2, 3), (3, 1))
        self.check(y, numbers(12)[4:10].view(2, 3))
        self.check(torch.empty(0, device="sim").set_(x.storage(), 0, x.size()), numbers(12))
        self.check(torch.empty(0, device="sim").set_(x.untyped_storage()), numbers(12))
        self.assertTrue(x.is_set_to(x.view(12)))
        self.assertFalse(x.is_set_to(x.clone()))
        y.set_()
        self.assertEqual((y.numel(), y.device.type), (0, "sim"))

    def test_data_of_a_tensor_can_be_exchanged_on_the_device(self):
        p = torch.nn.Parameter(there(numbers(3)))
        p.data = there(numbers(5))
        self.check(p, numbers(5))


class Operators(Device):
    def test_arithmetic_equals_the_cpu_also_with_numbers_and_broadcasting(self):
        x, y = numbers(3, 4), numbers(3, 4) ** 2 + 1
        a, b = there(x), there(y)
        for f in (lambda p, q: p + q, lambda p, q: p * q, lambda p, q: p - q, lambda p, q: p / q, lambda p, q: p + 2, lambda p, q: 3 - p, lambda p, q: q ** 2, lambda p, q: p - q[0],
                  lambda p, q: torch.maximum(p, q), lambda p, q: torch.minimum(p, q), lambda p, q: p @ q.t(), lambda p, q: p.abs(), lambda p, q: p.clone().add_(q), lambda p, q: p > q,
                  lambda p, q: torch.add(p, q, alpha=3), lambda p, q: p.sum(), lambda p, q: p.mean(0), lambda p, q: torch.cat([p, q]), lambda p, q: p.t().abs(), lambda p, q: p.add(torch.tensor(2.0))):
            self.check(f(a, b), f(x, y))
        self.check(torch.tensor(2.0) * a, 2 * x)  # a number on the CPU comes first
        self.check(2 / b, 2 / y)

    def test_a_number_on_the_cpu_may_come_first_also_in_operators_that_fall_back(self):
        x, one = numbers(3, 4) ** 2 + 1, torch.tensor(5.0)
        for f in torch.atan2, torch.fmod, torch.pow, torch.remainder, torch.hypot, torch.copysign, torch.floor_divide, torch.lt:
            with self.subTest(f=f.__name__):
                self.check(f(one, there(x)), f(one, x))
                self.check(f(there(x), one), f(x, one))

    def test_numbers_of_python_do_not_change_the_dtype_also_in_operators_that_fall_back(self):
        x = torch.tensor(2.5, dtype=torch.float16)
        for f in (lambda t: torch.floor_divide(t, -7.1), lambda t: torch.floor_divide(7.1, t), lambda t: torch.xlogy(t, 3.5), lambda t: torch.xlogy(3.5, t), lambda t: t % 1.7):
            self.check(f(there(x)), f(x))

    def test_the_sign_of_nan_is_zero(self):
        for x in torch.tensor([float("nan"), -0.0, 0.0, 2, -3, float("inf")]), torch.tensor([-3, 0, 4]), torch.tensor([True, False]):
            self.check(there(x).sign(), x.sign())

    def test_pointwise_results_keep_the_order_of_strides(self):
        for x in numbers(2, 3, 4, 4).to(memory_format=torch.channels_last), numbers(3, 4, 5).permute(2, 0, 1), numbers(6, 4).t()[::2]:
            for f in (torch.abs, torch.relu, torch.sign, torch.logical_not, torch.round, lambda t: torch.where(t > 0, t, -t), lambda t: t + t[0], lambda t: t[0] * t,
                      lambda t: torch.add(t, 1, out=torch.empty(0, device=t.device)), lambda t: torch.logical_not(t, out=torch.empty(0, device=t.device))):
                found, expected = f(there(x)), f(x)
                self.check(found, expected)
                self.assertEqual(found.stride(), expected.stride())

    def test_results_on_another_device_or_over_a_part_of_an_argument_are_refused(self):
        x = there(numbers(6))
        for f in torch.abs, torch.erfinv:  # on the device and on the CPU
            for out in torch.empty(6), torch.empty(6, device="sim:1"):
                self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device", f, x, out=out)
        self.assertRaisesRegex(RuntimeError, "device", torch.ones(6).add_, x)
        self.assertRaisesRegex(RuntimeError, "single memory location", torch.abs, x[:5], out=x[1:])
        self.assertRaisesRegex(RuntimeError, "single memory location", torch.zeros(1, device="sim").expand(6).add_, 1)
        self.assertRaisesRegex(RuntimeError, "single memory location", torch.cat, [x, x], out=x)
        self.check(torch.abs(x, out=x), numbers(6).abs())

    def test_out_arguments_keep_their_memory_and_any_strides(self):
        x = numbers(2, 2, 2)
        for device in "cpu", "sim":
            self.out_into(x, device)
        out = torch.empty(3, 4, device="sim")
        pointer = out.data_ptr()
        self.assertIs(torch.add(there(numbers(3, 4)), 1, out=out), out)
        self.assertEqual(out.data_ptr(), pointer)
        self.check(out, numbers(3, 4) + 1)

    def out_into(self, x, device):
        base = torch.zeros(2, 2, 4, device=device)
        torch.abs(x.to(device), out=base[..., ::2])
        expected = torch.zeros(2, 2, 4)
        expected[..., ::2] = x.abs()
        self.assertTrue(torch.equal(base.cpu(), expected))
        resized = torch.empty(0, device=device)
        torch.abs(x.to(device), out=resized)
        self.assertTrue(torch.equal(resized.cpu(), x.abs()))

    def test_a_nonempty_out_argument_of_another_size_is_resized_as_on_the_cpu(self):
        results = []
        for device in "cpu", "sim":
            base = torch.zeros(2, 2, 8, device=device)
            out = base[..., ::3]
            torch.abs(numbers(2, 2, 2).to(device), out=out)
            results.append((out.cpu(), base.cpu()))
        self.assertEqual(results[0][0].shape, results[1][0].shape)
        for a, b in zip(*results):
            self.assertTrue(torch.equal(a, b))

    def test_indexing_masks_lists_and_reading_single_values_equal_the_cpu(self):
        x = numbers(4, 4)
        a, i = there(x), torch.tensor([3, 0, 2])
        self.check(torch.masked_select(a, a > 0), torch.masked_select(x, x > 0))
        self.check(a[there(i), there(i)], x[i, i])
        self.check(a[i], x[i])
        self.check(a[a > 0], x[x > 0])
        for p, q in zip(torch._foreach_add([a, 2 * a], 1), (x + 1, 2 * x + 1)):
            self.check(p, q)
        a[1, ::2] = 5
        a[there(i)] = 0
        expected = x.clone()
        expected[1, ::2] = 5
        expected[i] = 0
        self.check(a, expected)
        self.assertEqual((torch.tensor(5.0, device="sim").item(), int(torch.tensor(3, device="sim")), bool(torch.tensor(True, device="sim"))), (5.0, 3, True))
        self.assertEqual(there(i).tolist(), [3, 0, 2])
        self.assertTrue(torch.all(torch.zeros(3, device="sim") == 0).item())
        self.assertRaisesRegex(RuntimeError, "Empty tensor not supported", torch.ops.aten._local_scalar_dense, torch.empty(0, device="sim"))

    def test_tensors_are_printed_with_their_device(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            print(there(torch.tensor([1.5, -2.0])), there(torch.tensor([1, 2]), 1), torch.empty(0, device="sim"), there(torch.tensor([True])))
        for part in "tensor([ 1.5000, -2.0000], device='sim:0')", "tensor([1, 2], device='sim:1')", "tensor([], device='sim:0'", "tensor([True], device='sim:0')":
            self.assertIn(part, out.getvalue())

    def test_tensors_of_two_devices_in_one_call_are_an_error(self):
        for other in torch.ones(3), torch.ones(3, device="sim:1"):
            self.assertRaisesRegex(RuntimeError, "device", lambda: torch.ones(3, device="sim") + other)
            self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device", torch.dot, torch.ones(3, device="sim"), other)  # falls back

    def test_shapes_of_layer_norm_are_checked(self):
        x = there(numbers(2, 6))
        for message, arguments in (("Given normalized_shape", ((5,), None, None)), ("Expected weight", ((6,), there(numbers(3)), None)),
                                   ("Expected bias", ((6,), None, there(numbers(2, 6)))), ("at least 1-dimensional", ((), None, None))):
            self.assertRaisesRegex(RuntimeError, message, torch.native_layer_norm, x, *arguments, 1e-5)

    def test_tensors_of_more_axes_than_tenon_has_are_those_of_the_cpu(self):
        for count in 64, 65:
            x = numbers(1, 2).view([1] * (count - 1) + [2])
            self.check(there(x).abs().flatten(), x.abs().flatten())
            self.check((there(x) + 1).flatten(), (x + 1).flatten())
        with self.assertRaisesRegex(RuntimeError, "only tensors with up to 64 dims are supported"):
            there(x).amax(0)

    def test_fallbacks_are_counted_and_can_be_denied(self):
        x = there(numbers(5))
        td.fallbacks(clear=True)
        self.check(torch.flip(x, (0,)), numbers(5).flip(0))
        self.assertEqual(td.fallbacks(), {"aten::flip": 1})
        td.deny_fallback("flip")
        try:
            self.assertRaisesRegex(NotImplementedError, "aten::flip has no kernel on device sim, and its fallback to the CPU is denied", torch.flip, x, (0,))
        finally:
            td.deny_fallback("flip", deny=False)
        self.check(torch.flip(x, (0,)), numbers(5).flip(0))

    def test_strict_mode_lists_fallbacks_or_stops_at_the_first(self):
        x = there(numbers(5))
        with self.assertRaisesRegex(NotImplementedError, r"aten::flip  2 times"):
            with td.strict():
                torch.flip(x, (0,)), torch.flip(x, (0,))
        with self.assertRaisesRegex(NotImplementedError, "aten::flip"):
            with td.strict(immediately=True):
                torch.flip(x, (0,))
        with td.strict():
            x + x

    def test_quantize_of_one_tensor_works_or_is_a_clear_error(self):
        try:
            found = torch.quantize_per_tensor(there(numbers(10)), 0.1, 10, torch.qint8)
        except (RuntimeError, NotImplementedError) as error:
            self.assertRegex(str(error), "quantize_per_tensor|[Qq]uantized|QuantizedPrivateUse1|_empty_affine_quantized")
        else:
            self.assertEqual(found.device.type, "sim")

    def test_scaled_dot_product_attention_equals_the_cpu(self):
        q, k, v = (torch.randn(2, 2, 8, 16) for _ in range(3))
        mask = torch.randn(8, 8)
        for named in {}, {"attn_mask": mask}, {"is_causal": True}, {"attn_mask": mask > 0}, {"scale": 0.3}:
            away = {n: there(t) if isinstance(t, torch.Tensor) else t for n, t in named.items()}
            self.check(F.scaled_dot_product_attention(there(q), there(k), there(v), **away), F.scaled_dot_product_attention(q, k, v, **named), rtol=1e-4, atol=1e-5)
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        moved = [there(t).requires_grad_() for t in (q, k, v)]
        F.scaled_dot_product_attention(*leaves).sum().backward()
        F.scaled_dot_product_attention(*moved).sum().backward()
        for a, b in zip(leaves, moved):
            self.check(b.grad, a.grad, rtol=1e-4, atol=1e-5)
        y = F.scaled_dot_product_attention(there(q).half(), there(k).half(), there(v).half(), dropout_p=0.1)
        self.assertEqual((y.shape, y.dtype, y.device.type), (q.shape, torch.float16, "sim"))

    def test_inputs_that_are_not_contiguous_give_equal_values_and_gradients(self):
        for f in torch.add, torch.mul:
            a, b = there(numbers(4, 6)), there(numbers(6, 4))
            found = []
            for p, q in ((a, b.t()), (a.contiguous(), b.t().contiguous())):
                p, q = p.detach().requires_grad_(), q.detach().requires_grad_()
                y = f(p, q)
                found.append((y, *torch.autograd.grad(y.sum(), (p, q))))
            for m, n in zip(*found):
                self.assertTrue(torch.equal(m, n))

    def test_subclasses_and_dispatch_modes_see_the_operators(self):
        class Sub(torch.Tensor):
            pass

        class Count(TorchDispatchMode):
            seen = []

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.seen.append(str(func))
                return func(*args, **(kwargs or {}))
        x = there(numbers(3)).as_subclass(Sub)
        self.assertIsInstance(x + 1, Sub)
        with Count() as mode:
            there(numbers(3)) * 2
        self.assertIn("aten.mul.Tensor", mode.seen)

    def test_deterministic_algorithms_can_be_required(self):
        torch.use_deterministic_algorithms(True)
        try:
            x = torch.empty(4, device="sim")  # is filled with NaN
            self.assertTrue(torch.isnan(x).all().item())
            self.assertTrue(torch.equal(torch.zeros(3, device="sim").index_add_(0, there(torch.tensor([0, 0, 2])), torch.ones(3, device="sim")).cpu(), torch.tensor([2.0, 0, 1])))
            self.check(there(numbers(4)).cumsum(0), numbers(4).cumsum(0))
            self.check(torch.empty(2, device="sim").resize_(4).fill_(1), torch.ones(4))
        finally:
            torch.use_deterministic_algorithms(False)


class Gradients(Device):
    def test_a_backward_pass_gives_gradients_on_the_device(self):
        a, b = (there(numbers(*s)).requires_grad_() for s in ((2, 3), (3, 2)))
        (a @ b).sum().backward()
        self.check(a.grad, (torch.ones(2, 2) @ numbers(3, 2).t()))
        self.assertEqual(b.grad.shape, (3, 2))

    def test_each_device_has_a_thread_of_autograd(self):
        there(numbers(3)).requires_grad_().sum().backward()
        names = set()
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
                names.add(file.read().strip())
        self.assertLessEqual({"pt_autograd_0", "pt_autograd_1"}, names)

    def test_grad_mode_detach_and_kept_gradients_work_as_on_the_cpu(self):
        x = there(numbers(3)).requires_grad_()
        y = x * 2
        self.assertTrue(y.grad_fn is not None and x.grad is None)
        with torch.no_grad():
            z = x * 2
            self.assertTrue(z.grad_fn is None and not z.requires_grad)
        d = y.detach()
        self.assertTrue(not d.requires_grad and (d * 2).grad_fn is None)
        y.retain_grad()
        y.sum().backward()
        self.check(y.grad, torch.ones(3))
        self.check(x.grad, torch.full((3,), 2.0))

    def test_gradients_add_up_and_flow_to_other_devices(self):
        x = there(numbers(3)).requires_grad_()
        for _ in range(2):
            (x * 2).sum().backward()
        self.check(x.grad, torch.full((3,), 4.0))
        leaf = numbers(4).requires_grad_()
        (leaf.to("sim") * 3).to("sim:1").sum().backward()
        self.assertTrue(leaf.grad.is_cpu and torch.equal(leaf.grad, torch.full((4,), 3.0)))

    def test_hooks_see_gradients_of_the_device(self):
        seen, layer = [], torch.nn.Linear(4, 2).to("sim")
        layer.register_full_backward_hook(lambda module, into, out: seen.extend([into[0].device.type, out[0].device.type]))
        x = there(numbers(3, 4)).requires_grad_()
        x.register_hook(lambda g: seen.append(g.device.type))
        layer(x).sum().backward()
        self.assertEqual(seen, ["sim"] * 3)

    def test_threads_run_backward_passes_at_once(self):
        wrong = []

        def work(number):
            w = there(numbers(8, 8), number % 2).requires_grad_()
            for _ in range(10):
                w.grad = None
                torch.relu(w @ w).sum().backward()
            c = numbers(8, 8).requires_grad_()
            torch.relu(c @ c).sum().backward()
            if not torch.allclose(w.grad.cpu(), c.grad, atol=1e-4):
                wrong.append(number)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_backward_uses_the_stream_of_the_forward_call(self):
        s, x = torch.Stream("sim"), there(numbers(8)).requires_grad_()
        s.wait_stream(torch.accelerator.current_stream())
        with s:
            y = torch.relu(x * 3)
        torch.accelerator.current_stream().wait_stream(s)
        y.sum().backward()
        self.check(x.grad, 3.0 * (numbers(8) > 0))

    def test_functions_of_the_user_have_their_gradients(self):
        class Half(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * 0.5
        x = there(numbers(3)).requires_grad_()
        Half.apply(x).sum().backward()
        self.check(x.grad, torch.full((3,), 0.5))

    def test_checkpoints_repeat_the_random_numbers(self):
        def block(t):
            return F.dropout(t * 2, 0.5)
        x = torch.ones(200, device="sim", requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, y.detach()))

    def test_a_model_is_trained_by_optimizers_and_its_gradients_are_scaled(self):
        torch.manual_seed(0)
        start = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        for optimizer in torch.optim.SGD, torch.optim.AdamW:
            losses = []
            for device in "cpu", "sim":
                torch.manual_seed(1)
                model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
                model.load_state_dict(start.state_dict())
                step, scaler = optimizer(model.parameters(), lr=0.05), torch.amp.GradScaler(device, init_scale=4.0)
                for _ in range(4):
                    step.zero_grad()
                    loss = F.mse_loss(model(numbers(5, 4).to(device)), torch.ones(5, 1, device=device))
                    scaler.scale(loss).backward()
                    scaler.step(step)
                    scaler.update()
                    losses.append(loss.item())
            torch.testing.assert_close(losses[:4], losses[4:], rtol=1e-4, atol=1e-5)
            self.assertLess(losses[-1], losses[4])


class Autocast(Device):
    def setUp(self):
        super().setUp()
        self.default = torch.get_autocast_dtype("sim")
        self.x, self.y = there(numbers(4, 4)), there(numbers(4, 4))

    def tearDown(self):
        torch.set_autocast_dtype("sim", self.default)
        super().tearDown()

    def test_products_are_computed_in_the_dtype_of_autocast(self):
        for dtype in torch.float16, torch.bfloat16:
            with torch.autocast("sim", dtype=dtype):
                half = self.x.to(dtype)
                for a, b in ((self.x, self.y), (self.x, half), (half, half)):
                    self.assertEqual(torch.mm(a, b).dtype, dtype)
                self.check(torch.mm(self.x, self.y), numbers(4, 4).to(dtype) @ numbers(4, 4).to(dtype))

    def test_functions_that_need_precision_are_computed_in_float32(self):
        for dtype in torch.float16, torch.bfloat16:
            with torch.autocast("sim", dtype=dtype):
                for x in self.x.to(dtype), self.x:
                    self.assertEqual(torch.asin(x).dtype, torch.float32)
                    self.assertEqual(torch.mm(torch.mm(x, x), self.y).dtype, dtype)

    def test_other_functions_keep_their_dtype(self):
        with torch.autocast("sim", dtype=torch.float16):
            self.assertEqual((self.x + self.y).dtype, torch.float32)

    def test_the_default_dtype_is_half_and_can_be_set(self):
        out = program("print(torch.get_autocast_dtype('sim'))")
        self.assertEqual(out, "torch.float16")
        for dtype in torch.bfloat16, torch.float16:
            torch.set_autocast_dtype("sim", dtype)
            self.assertEqual(torch.get_autocast_dtype("sim"), dtype)
            with torch.autocast("sim"):
                self.assertEqual(torch.mm(self.x, self.y).dtype, dtype)

    def test_contexts_are_nested_and_switched_off(self):
        def dtype():
            return torch.mm(self.x, self.y).dtype
        with torch.autocast("sim", dtype=torch.float16):
            self.assertEqual(dtype(), torch.float16)
            with torch.autocast("sim", dtype=torch.bfloat16):
                self.assertEqual(dtype(), torch.bfloat16)
            self.assertEqual(dtype(), torch.float16)
            with torch.autocast("sim", enabled=False):
                self.assertEqual(dtype(), torch.float32)
        self.assertEqual(dtype(), torch.float32)
        with torch.autocast("sim", dtype=torch.float16, cache_enabled=True):
            self.assertEqual((dtype(), dtype()), (torch.float16,) * 2)
        with sim.amp.autocast(dtype=torch.bfloat16):
            self.assertEqual(dtype(), torch.bfloat16)

    def test_gradients_pass_through_autocast(self):
        a, b = self.x.requires_grad_(), self.y.requires_grad_()
        with torch.autocast("sim", dtype=torch.float16):
            y = torch.mm(a, b)
        self.assertTrue(y.dtype == torch.float16 and y.requires_grad)
        y.sum().backward()
        self.assertEqual((a.grad.dtype, b.grad.dtype), (torch.float32, torch.float32))

    def test_a_dtype_that_autocast_does_not_know_switches_it_off_with_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "In sim autocast, but the target dtype is not supported. Disabling autocast.\n.*supports dtypes of torch.float16, torch.bfloat16 currently"):
            with torch.autocast("sim", dtype=torch.float32):
                self.assertEqual(torch.mm(self.x, self.y).dtype, torch.float32)

    def test_binary_cross_entropy_is_refused_under_autocast(self):
        p, t = torch.rand(3, device="sim"), torch.ones(3, device="sim")
        with torch.autocast("sim", dtype=torch.float16):
            self.assertRaisesRegex(RuntimeError, "unsafe to autocast", F.binary_cross_entropy, p, t)


class RandomNumbers(Device):
    def draws(self, **named):
        return [f(**named).cpu() for f in (lambda **n: torch.randn(8, device="sim", **n), lambda **n: torch.rand(8, device="sim", **n), lambda **n: torch.randint(0, 99, (8,), device="sim", **n),
                                           lambda **n: torch.randperm(8, device="sim", **n), lambda **n: torch.empty(8, device="sim").normal_(**n),
                                           lambda **n: torch.bernoulli(torch.full((8,), 0.5, device="sim"), **n), lambda **n: torch.multinomial(torch.ones(8, device="sim"), 4, **n))]

    def same(self, a, b):
        return all(torch.equal(p, q) for p, q in zip(a, b))

    def test_torch_manual_seed_repeats_the_numbers_of_the_device(self):
        torch.manual_seed(42)
        a = self.draws()
        self.assertEqual(sim.initial_seed(), 42)
        torch.manual_seed(42)
        self.assertTrue(self.same(a, self.draws()))
        torch.manual_seed(43)
        self.assertFalse(self.same(a, self.draws()))

    def test_a_generator_has_a_device_a_seed_and_a_state(self):
        for index in 0, 1:
            g = torch.Generator(f"sim:{index}")
            self.assertEqual(g.device, torch.device("sim", index))
            g.manual_seed(2024)
            self.assertEqual(g.initial_seed(), 2024)
        g = torch.Generator("sim")
        state = g.get_state()
        a = self.draws(generator=g)
        g.set_state(state)
        self.assertTrue(self.same(a, self.draws(generator=g)))
        self.assertFalse(self.same(a, self.draws(generator=g)))
        h = g.clone_state()
        self.assertTrue(torch.equal(torch.randn(4, device="sim", generator=g), torch.randn(4, device="sim", generator=h)))

    def test_equal_seeds_on_two_devices_give_equal_numbers(self):
        found = [torch.randn(8, device=f"sim:{i}", generator=torch.Generator(f"sim:{i}").manual_seed(5)).cpu() for i in (0, 1)]
        self.assertTrue(torch.equal(*found))
        sim.manual_seed_all(7)
        self.assertTrue(torch.equal(torch.randn(8, device="sim:0").cpu(), torch.randn(8, device="sim:1").cpu()))

    def test_devices_draw_independently_of_each_other_and_of_the_cpu(self):
        torch.manual_seed(3)
        a = torch.randn(8, device="sim:0").cpu()
        torch.manual_seed(3)
        torch.randn(8, device="sim:1"), torch.randn(8)
        self.assertTrue(torch.equal(a, torch.randn(8, device="sim:0").cpu()))
        with sim.device(1):
            sim.manual_seed(9)
            self.assertEqual(sim.initial_seed(), 9)
        self.assertEqual(sim.initial_seed(), 3)

    def test_states_are_read_and_set_by_index_text_and_device_and_for_all(self):
        for device in 1, "sim:1", torch.device("sim:1"):
            state = sim.get_rng_state(device)
            self.assertTrue(state.is_cpu and state.dtype == torch.uint8)
            a = torch.randn(4, device="sim:1")
            sim.set_rng_state(state, device)
            self.assertTrue(torch.equal(a, torch.randn(4, device="sim:1")))
        states = sim.get_rng_state_all()
        a = [torch.randn(4, device=f"sim:{i}") for i in (0, 1)]
        sim.set_rng_state_all(states)
        for i in 0, 1:
            self.assertTrue(torch.equal(a[i], torch.randn(4, device=f"sim:{i}")))
        with torch.random.fork_rng(devices=[0], device_type="sim"):
            b = torch.randn(4, device="sim")
        self.assertTrue(torch.equal(b, torch.randn(4, device="sim")))
        sim.seed()
        first = sim.initial_seed()
        sim.seed_all()
        self.assertNotEqual(first, sim.initial_seed())
        self.assertEqual([g.device.index for g in sim.default_generators], [0, 1])

    def test_a_generator_of_another_device_is_refused(self):
        self.assertRaises(RuntimeError, torch.randn, 4, device="sim", generator=torch.Generator("cpu"))
        self.assertRaises(RuntimeError, torch.randn, 4, device="cpu", generator=torch.Generator("sim"))

    def test_dropout_uses_the_generator_of_the_device(self):
        x = torch.ones(1000, device="sim")
        torch.manual_seed(1)
        a = F.dropout(x, 0.3)
        torch.manual_seed(1)
        self.assertTrue(torch.equal(a, F.dropout(x, 0.3)))
        self.assertTrue(0.6 < (a != 0).float().mean().item() < 0.8)


class Recurrent(Device):
    def agree(self, lstm, x, *state, **limits):
        expected, (h, c) = lstm(x, *state)
        away = lstm.to("sim")
        found, (h2, c2) = away(x.to("sim"), *[tuple(t.to("sim") for t in s) for s in state])
        for a, b in zip((found, h2, c2), (expected, h, c)):
            self.check(a, b, rtol=1e-4, atol=1e-5)

    def test_lstms_of_all_forms_equal_the_cpu(self):
        x = torch.randn(5, 3, 10)
        for named in {}, {"num_layers": 3}, {"bidirectional": True}, {"batch_first": True}, {"num_layers": 2, "bidirectional": True}, {"bias": False}, {"proj_size": 4}:
            with self.subTest(**named):
                self.agree(torch.nn.LSTM(10, 20, **named), x)
        self.agree(torch.nn.LSTM(10, 20), x, (torch.randn(1, 3, 20), torch.randn(1, 3, 20)))

    def test_gradients_of_an_lstm_equal_the_cpu(self):
        lstm, x = torch.nn.LSTM(4, 5, num_layers=2), torch.randn(3, 2, 4)
        lstm(x)[0].sum().backward()
        expected = [p.grad.clone() for p in lstm.parameters()]
        lstm.zero_grad(set_to_none=True)
        lstm.to("sim")(x.to("sim"))[0].sum().backward()
        for p, e in zip(lstm.parameters(), expected):
            self.check(p.grad, e, rtol=1e-4, atol=1e-5)

    def test_gru_and_rnn_equal_the_cpu(self):
        for kind in torch.nn.GRU, torch.nn.RNN:
            with self.subTest(kind=kind.__name__):
                layer, x = kind(4, 5, num_layers=2), torch.randn(3, 2, 4)
                expected = layer(x)[0]
                self.check(layer.to("sim")(x.to("sim"))[0], expected, rtol=1e-4, atol=1e-5)

    def test_packed_sequences_run_with_their_sizes_on_the_cpu(self):
        lstm = torch.nn.LSTM(4, 6)
        packed = pack_padded_sequence(torch.randn(5, 3, 4), torch.tensor([5, 3, 2]))
        expected = pad_packed_sequence(lstm(packed)[0])[0]
        away = packed.to("sim")
        self.assertTrue(away.batch_sizes.is_cpu and away.data.is_sim)
        self.check(pad_packed_sequence(lstm.to("sim")(away)[0])[0], expected, rtol=1e-4, atol=1e-5)
        self.assertTrue(pack_sequence([there(numbers(3)), there(numbers(2))]).is_sim)


def through_dlpack(tensor):
    """Returns the tensor over the same memory that DLPack gives.  PyTorch's Tensor.__dlpack_device__ does not know renamed devices, so a capsule is used."""
    return torch.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))


class DLPack(Device):
    def test_a_tensor_goes_through_dlpack_with_its_memory(self):
        for shape in (3, 4), (7,), (2, 3, 4, 5), ():
            x = there(torch.randn(shape))
            y = through_dlpack(x)
            self.assertEqual((y.data_ptr(), y.device, y.shape), (x.data_ptr(), x.device, x.shape))
            self.check(y, x)
            y.add_(1)
            self.check(x, y)
        self.check(through_dlpack(there(numbers(3), 1)), numbers(3), "sim:1")

    def test_dtypes_and_strides_are_kept(self):
        for dtype in torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bfloat16, torch.complex64, torch.bool:
            x = there(torch.ones(4, dtype=dtype))
            self.check(through_dlpack(x), x)
        x = there(numbers(4, 6))
        self.check(through_dlpack(x.t()[1:, ::2]), numbers(4, 6).t()[1:, ::2])

    def test_the_memory_outlives_the_tensor_that_it_came_from(self):
        x = there(numbers(100)) * 2
        y = through_dlpack(x)
        del x
        torch.full((100,), -1.0, device="sim")
        self.check(y, 2 * numbers(100))
        z = through_dlpack(y + 1)[10:] + 1
        self.check(z, 2 * numbers(100)[10:] + 2)

    def test_a_tensor_goes_to_the_cpu_and_back_through_dlpack(self):
        x = there(numbers(5))
        self.check(through_dlpack(x.cpu()).to("sim"), numbers(5))


@unittest.skipIf(MORE, "this is that")
class WithoutAddresses(unittest.TestCase):
    @totals.takes_turns
    def test_all_of_this_holds_for_a_device_whose_memory_has_no_addresses(self):
        again(self, __file__)


if __name__ == "__main__":
    totals.main()
