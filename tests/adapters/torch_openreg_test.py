"""Devices, streams, events and memory of a Tenon device in PyTorch: OpenReg's tests device, streams, event and memory, on sim."""
import gc
import threading
import time
import unittest

import torch
from torch_openreg import MORE, Device, again, numbers, program, sim, td, there
import totals


def run_in_threads(count, function):
    """Calls function(number of the thread) in threads at once, and returns what they raised."""
    raised = []

    def work(number):
        try:
            function(number)
        except Exception as error:  # a thread reports to the test
            raised.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    [t.start() for t in threads], [t.join() for t in threads]
    return raised


class Devices(Device):
    def test_the_device_is_the_accelerator_and_its_count_is_that_of_the_backend(self):
        self.assertEqual(torch.accelerator.current_accelerator(), torch.device("sim"))
        self.assertTrue(torch.accelerator.is_available() and sim.is_available())
        self.assertEqual((torch.accelerator.device_count(), sim.device_count()), (2, 2))

    def test_the_current_device_can_be_set_and_is_where_tensors_without_an_index_go(self):
        for index in 1, 0:
            torch.accelerator.set_device_index(index)
            self.assertEqual((torch.accelerator.current_device_index(), sim.current_device()), (index, index))
            for _ in range(2):
                self.assertEqual(torch.randn(3, device="sim").device.index, index)

    def test_a_context_changes_the_device_and_restores_it_also_after_errors(self):
        for context in torch.accelerator.device_index, sim.device:
            with context(None):
                self.assertEqual(sim.current_device(), 0)
            with context(1):
                self.assertEqual(sim.current_device(), 1)
                with context(0):
                    self.assertEqual(sim.current_device(), 0)
                self.assertEqual(sim.current_device(), 1)
            self.assertEqual(sim.current_device(), 0)
            with self.assertRaises(ValueError):
                with context(1):
                    with context(0):
                        raise ValueError
            self.assertEqual(sim.current_device(), 0)
        with sim.device_of(torch.empty(2, device="sim:1")):
            self.assertEqual(sim.current_device(), 1)
        with sim.device(-1), sim.device_of(torch.empty(2)):
            self.assertEqual(sim.current_device(), 0)

    def test_an_index_that_does_not_exist_is_an_error_that_names_the_range(self):
        for call in (lambda: torch.accelerator.set_device_index(2), lambda: sim.set_device(5), lambda: torch.empty(2, device="sim:2"), lambda: sim.synchronize(7),
                     lambda: torch.Stream("sim:2"), lambda: sim.get_device_properties(3), lambda: torch.Generator("sim:2")):
            self.assertRaisesRegex(RuntimeError, r"device sim:\d does not exist: .* indices 0 to 1", call)
        self.assertEqual(sim.current_device(), 0)

    def test_capability_lists_dtypes_and_properties_describe_the_hardware(self):
        found = torch.accelerator.get_device_capability("sim:0")["supported_dtypes"]
        self.assertLessEqual({torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64}, set(found))
        self.assertEqual(found, torch.accelerator.get_device_capability("sim:1")["supported_dtypes"])
        p = sim.get_device_properties(1)
        self.assertEqual((p.backend, p.total_memory, p.name), ("sim", 1 << 30, sim.get_device_name("sim:1")))
        self.assertIn("total_memory=1024 MiB", repr(p))

    def test_a_device_is_named_as_in_python(self):
        self.assertEqual((torch.device("sim:1").type, torch.device("sim:1").index, torch.device("sim").index, str(torch.device("sim", 1))), ("sim", 1, None, "sim:1"))
        self.assertEqual(torch.empty(1, device=0).device, torch.device("sim:0"))  # a number is an accelerator
        with torch.device("sim:1"):
            self.assertEqual(str(torch.ones(2).device), "sim:1")

    def test_operators_do_not_change_the_current_device(self):
        for index in 0, 1:
            sim.set_device(index)
            for other in 0, 1:
                x = torch.randn(4, 4, device=f"sim:{other}")
                y = ((x + x) @ x).sum()
                self.assertEqual((y.device.index, sim.current_device()), (other, index))
                y.item()
            torch.accelerator.synchronize()
            self.assertEqual(sim.current_device(), index)

    def test_an_error_of_an_operator_leaves_the_device_usable(self):
        sim.set_device(1)
        x = torch.randn(2, 3, device="sim")
        self.assertRaises(RuntimeError, lambda: x @ x)
        self.assertEqual((sim.current_device(), (x @ x.t()).device.index), (1, 1))

    def test_each_thread_has_its_current_device(self):
        def work(number):
            sim.set_device(number % 2)
            for _ in range(25):
                x = torch.ones(8, device="sim")
                if (x + x).device.index != number % 2 or sim.current_device() != number % 2:
                    raise AssertionError(number)
        self.assertEqual(run_in_threads(4, work), [])
        self.assertEqual(sim.current_device(), 0)

    def test_the_module_is_initialized_and_init_may_be_called_again(self):
        sim.init()
        self.assertTrue(sim.is_initialized())
        self.assertFalse(sim._is_in_bad_fork())

    def test_a_device_of_another_type_is_refused_by_the_module(self):
        for call in sim.synchronize, sim.set_device, sim.memory_allocated, sim.get_device_properties:
            self.assertRaisesRegex(ValueError, "expected a device of type sim, found cpu", call, "cpu")


class Streams(Device):
    def test_a_stream_belongs_to_the_device_that_is_named_or_current(self):
        for args, index in ((("sim",), 0), (("sim:1",), 1), ((1,), 1), ((), 0)):
            self.assertEqual(torch.Stream(*args).device_index, index)
            self.assertEqual(sim.Stream(*args).device_index, index)
        sim.set_device(1)
        self.assertEqual((torch.Stream("sim").device_index, sim.Stream().device_index), (1, 1))

    def test_a_stream_equals_itself_rebuilt_from_its_numbers_and_no_other(self):
        a, b = torch.Stream("sim:1"), torch.Stream("sim:1")
        again = torch.Stream(stream_id=a.stream_id, device_type=a.device_type, device_index=a.device_index)
        self.assertEqual(a, again)
        self.assertEqual(hash(a), hash(again))
        self.assertNotEqual(a, b)
        self.assertNotEqual(a.stream_id, b.stream_id)

    def test_a_context_makes_the_stream_and_its_device_current_and_restores_both(self):
        first = torch.accelerator.current_stream()
        for context in (lambda s: s), sim.stream:
            a, b = torch.Stream("sim:1"), torch.Stream("sim:0")
            with context(a):
                self.assertEqual((torch.accelerator.current_stream(), sim.current_device()), (a, 1))
                with context(b):
                    self.assertEqual((torch.accelerator.current_stream(), sim.current_device()), (b, 0))
                self.assertEqual((torch.accelerator.current_stream(), sim.current_device()), (a, 1))
            self.assertEqual((torch.accelerator.current_stream(), sim.current_device()), (first, 0))
            with self.assertRaises(ValueError):
                with context(a):
                    raise ValueError
            self.assertEqual((torch.accelerator.current_stream(), sim.current_device()), (first, 0))
        with sim.stream(None):
            self.assertEqual(sim.current_stream(), first)

    def test_set_stream_changes_stream_and_device_and_creating_one_changes_nothing(self):
        a = torch.Stream("sim:0")
        torch.accelerator.set_stream(a)
        b = torch.Stream("sim:1")
        self.assertEqual(torch.accelerator.current_stream(), a)
        torch.accelerator.set_stream(b)
        self.assertEqual((torch.accelerator.current_stream(), sim.current_device(), torch.accelerator.current_stream(0)), (b, 1, a))
        sim.set_stream(sim.default_stream(1))
        self.assertEqual(sim.current_stream(), sim.default_stream(1))

    def test_each_thread_has_its_current_streams(self):
        stream = torch.Stream("sim:0")
        torch.accelerator.set_stream(stream)
        found = []
        run_in_threads(1, lambda _: found.append(torch.accelerator.current_stream(0)))
        self.assertEqual(found, [sim.default_stream(0)])
        self.assertEqual(torch.accelerator.current_stream(), stream)

    def test_the_text_of_a_stream_names_its_device(self):
        self.assertIn("torch.Stream device_type=sim, device_index=1", repr(torch.Stream("sim:1")))
        self.assertIn("torch.sim.Stream device=sim:1", repr(sim.Stream(1)))

    def test_an_idle_stream_is_done_and_synchronize_waits_for_a_busy_one(self):
        s = torch.Stream("sim:1")
        self.assertTrue(s.query())
        with s:
            x = torch.ones(64, 64, device="sim:1")
            for _ in range(20):
                x = torch.relu(x + x)
        s.synchronize()
        self.assertTrue(s.query())

    def test_a_query_says_no_until_the_last_piece_of_work_is_complete(self):
        self.assertEqual(program("""
            x = torch.ones(8, device="sim")
            s = torch.Stream("sim")
            s.wait_stream(torch.accelerator.current_stream())
            with s:
                for _ in range(4):
                    y = x + x
                e = s.record_event()
            print(s.query(), e.query())
            e.synchronize()
            print(s.query(), e.query(), y.sum().item())
            """, "delay=400000,check=fail,seed=3"), "False False\nTrue True 16.0")

    def test_more_streams_than_the_pool_has_are_shared_and_work_in_all_is_right(self):
        streams = [torch.Stream("sim:0") for _ in range(70)]
        results = []
        for s in streams:
            with s:
                results.append(torch.full((8,), 2.0, device="sim") * 3)
        torch.accelerator.synchronize()
        for r in results:
            self.check(r, torch.full((8,), 6.0))

    def test_a_stream_waits_for_another_also_of_another_device(self):
        a, b = torch.Stream("sim:0"), torch.Stream("sim:1")
        with a:
            x = torch.ones(256, device="sim:0") + 1
        b.wait_stream(a)
        with b:
            y = x.to("sim:1") + 1
        torch.accelerator.current_stream(1).wait_stream(b)
        self.check(y, torch.full((256,), 3.0), "sim:1")

    def test_work_is_divided_among_streams_and_joined_by_events(self):
        main = torch.accelerator.current_stream()
        x = numbers(16, 16)
        d, parts = there(x), []
        start = main.record_event()
        for i in range(3):
            s = torch.Stream("sim")
            s.wait_event(start)
            with s:
                parts.append((torch.relu(d + i), s.record_event()))
        for _, done in parts:
            main.wait_event(done)
        self.check(parts[0][0] + parts[1][0] + parts[2][0], sum(torch.relu(x + i) for i in range(3)))

    def test_stages_in_several_streams_follow_each_other(self):
        streams, x = [torch.Stream("sim") for _ in range(3)], torch.ones(32, device="sim")
        done = torch.accelerator.current_stream().record_event()
        for s in streams:
            s.wait_event(done)
            with s:
                x = x + x
                done = s.record_event()
        done.synchronize()
        torch.accelerator.current_stream().wait_event(done)
        self.check(x, torch.full((32,), 8.0))

    def test_fallbacks_on_a_stream_follow_the_work_in_it(self):
        s = torch.Stream("sim")
        with s:
            x = numbers(64).to("sim")
            for _ in range(10):
                x = x + x
            y = torch.flip(x, (0,)) + 1  # flip runs on the CPU
            self.assertIn("aten::flip", td.fallbacks())
            self.assertEqual(y[0].item(), 3 * 1024 + 1)
            self.check(y, numbers(64).flip(0) * 1024 + 1)

    def test_memory_that_another_stream_uses_may_be_freed_at_once(self):
        s, expected = torch.Stream("sim"), []
        for i in range(20):
            x = torch.full((512,), float(i), device="sim")
            s.wait_stream(torch.accelerator.current_stream())
            with s:
                y = x + x
            x.record_stream(s)
            del x
            expected.append((y, 2.0 * i))
            torch.full((512,), -1.0, device="sim")  # would reuse the memory of x
        torch.accelerator.current_stream().wait_stream(s)
        for y, value in expected:
            self.check(y, torch.full((512,), value))

    def test_memory_is_reused_in_order_also_without_record_stream(self):
        s = torch.Stream("sim")
        for i in range(20):
            x = torch.full((512,), float(i), device="sim")
            s.wait_stream(torch.accelerator.current_stream())
            with s:
                y = x + x
            del x
            torch.full((512,), -1.0, device="sim")
            s.synchronize()
            with s:
                self.check(y, torch.full((512,), 2.0 * i))

    def test_tensors_that_another_stream_writes_are_ordered_also_without_an_event(self):
        a, b = torch.Stream("sim"), torch.Stream("sim")
        with a:
            x = torch.ones(64, device="sim") + 1
        with b:
            self.check(x + x, torch.full((64,), 4.0))

    def test_a_stream_has_a_native_handle(self):
        a, b = torch.Stream("sim"), torch.Stream("sim")
        if not hasattr(a, "native_handle"):
            self.skipTest("this release of PyTorch has no Stream.native_handle")
        self.assertNotEqual(a.native_handle, b.native_handle)


class Events(Device):
    def test_an_event_is_made_when_it_is_recorded(self):
        for e in torch.Event(device="sim"), torch.Event("sim:1"), torch.Event(), sim.Event():
            self.assertEqual((e.device.type, e.event_id), ("sim", 0))
            self.assertTrue(e.query())
            e.synchronize()
        self.assertIsNone(torch.Event(device="sim").device.index)
        e = torch.Stream("sim:1").record_event()
        self.assertEqual(e.device.index, 1)
        self.assertNotEqual(e.event_id, 0)

    def test_events_are_distinct_and_of_the_device_of_their_stream(self):
        a, b = torch.Stream("sim:0"), torch.Stream("sim:1")
        events = [a.record_event(), a.record_event(), b.record_event()]
        self.assertEqual(len({e.event_id for e in events}), 3)
        self.assertEqual([e.device.index for e in events], [0, 0, 1])

    def test_a_recorded_event_is_done_after_synchronize(self):
        s = torch.Stream("sim:1")
        with s:
            x = torch.randn(32, 32, device="sim:1")
            y = x @ x
            e = torch.Event("sim:1")
            s.record_event(e)
        e.synchronize()
        for _ in range(3):
            self.assertTrue(e.query())
        del y

    def test_record_without_a_stream_takes_the_current_one(self):
        s, e = torch.Stream("sim:0"), torch.Event("sim", enable_timing=True)
        with s:
            x = torch.ones(16, device="sim") + 1
            e.record()
        torch.accelerator.current_stream().wait_event(e)
        self.check(x, torch.full((16,), 2.0))

    def test_the_time_between_two_events_is_positive_and_that_of_the_work(self):
        out = program("""
            x = torch.ones(16, device="sim")
            s = torch.Stream("sim")
            s.wait_stream(torch.accelerator.current_stream())
            a, b, c = (torch.Event("sim", enable_timing=True) for _ in range(3))
            with s:
                a.record(s); b.record(s)
                for _ in range(6): x = x + x
                c.record(s)
            s.synchronize()
            print(a.elapsed_time(b) > 0, a.elapsed_time(c) > a.elapsed_time(b), a.elapsed_time(c) > 5, a.elapsed_time(c) < 5000)
            """, "delay=30000,check=fail")
        self.assertEqual(out, "True True True True")

    def test_time_between_events_of_different_streams_is_known(self):
        a, b = torch.Stream("sim"), torch.Stream("sim")
        begin, end = (torch.Event("sim", enable_timing=True) for _ in range(2))
        begin.record(a)
        b.wait_event(begin)
        with b:
            torch.ones(64, device="sim") + 1
        end.record(b)
        end.synchronize()
        self.assertGreater(begin.elapsed_time(end), 0)

    def test_events_without_times_and_events_not_recorded_have_no_time_between_them(self):
        s = torch.Stream("sim")
        a, b = s.record_event(), s.record_event()
        s.synchronize()
        self.assertRaisesRegex(ValueError, "Both events must be created with argument 'enable_timing=True'", a.elapsed_time, b)
        c, d = torch.Event("sim", enable_timing=True), torch.Event("sim", enable_timing=True)
        c.record(s)
        self.assertRaisesRegex((ValueError, RuntimeError), "recorded", c.elapsed_time, d)

    def test_an_event_is_recorded_again_and_streams_that_wait_keep_what_they_wait_for(self):
        main, s, e = torch.accelerator.current_stream(), torch.Stream("sim"), torch.Event("sim")
        x = torch.ones(32, device="sim") + 1
        e.record(main)
        s.wait_event(e)
        y = torch.ones(32, device="sim") + 2
        e.record(main)
        with s:
            x + x  # ordered by the first recording
        s.wait_event(e)
        with s:
            z = y + y  # ordered by the second
        e.synchronize()
        self.assertTrue(e.query())
        main.wait_stream(s)
        self.check(z, torch.full((32,), 6.0))

    def test_an_event_is_done_while_later_work_of_its_stream_runs(self):
        self.assertEqual(program("""
            x = torch.ones(32, device="sim") + 1
            e = torch.accelerator.current_stream().record_event()
            for _ in range(6): x + x
            e.synchronize()
            print(e.query(), torch.accelerator.current_stream().query())
            """, "delay=200000,check=fail"), "True False")

    def test_many_streams_wait_for_one_event_and_it_may_be_deleted_before(self):
        main = torch.accelerator.current_stream()
        x, event = numbers(64).to("sim"), main.record_event()
        streams, results = [torch.Stream("sim") for _ in range(3)], []
        self.assertEqual(len({s.stream_id for s in streams}), 3)
        for s in streams:
            s.wait_event(event)
        del event
        for s in streams:
            with s:
                results.append(x + x)
        torch.accelerator.synchronize()
        for r in results:
            self.check(r, 2 * numbers(64))

    def test_waiting_for_an_event_and_then_for_the_stream_completes_the_event(self):
        a, b = torch.Stream("sim"), torch.Stream("sim")
        with a:
            torch.ones(64, device="sim") + 1
        e = a.record_event()
        b.wait_event(e)
        b.synchronize()
        self.assertTrue(e.query())

    def test_the_module_has_stream_and_event_classes(self):
        s, e = sim.Stream(1, priority=-1), sim.Event(enable_timing=True)
        self.assertIsInstance(s, torch.Stream)
        self.assertIsInstance(e, torch.Event)
        e.record(s)
        e.synchronize()
        self.assertRaises(NotImplementedError, sim.Event, interprocess=True)
        self.assertIsInstance(sim.current_stream(), sim.Stream)

    def test_an_event_of_one_device_is_not_recorded_on_another(self):
        e = torch.Stream("sim:0").record_event()
        self.assertRaisesRegex(RuntimeError, "cannot be recorded|does not match", e.record, torch.Stream("sim:1"))
        self.assertEqual(sim.current_device(), 0)


class Memory(Device):
    def test_tensors_of_all_sizes_dtypes_and_formats_are_allocated(self):
        for shape in (1,), (10, 10), (100, 10, 10), (0,), ():
            x = torch.empty(shape, device="sim")
            self.assertEqual((x.shape, x.device.type), (torch.Size(shape), "sim"))
        for dtype in torch.float32, torch.float64, torch.int32, torch.int64, torch.complex128, torch.float8_e5m2, torch.uint16, torch.bool:
            self.assertEqual(torch.empty(10, dtype=dtype, device="sim").dtype, dtype)
        x = torch.empty(2, 3, 4, 4, device="sim", memory_format=torch.channels_last)
        self.assertTrue(x.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.empty(2, 3, 4, 4, device="sim").is_contiguous())
        self.assertTrue(torch.empty(10, device="sim", requires_grad=True).requires_grad)
        self.assertEqual(torch.empty(10 << 18, device="sim").untyped_storage().nbytes(), 10 << 20)

    def test_memory_is_used_again_after_it_was_freed_and_nothing_leaks(self):
        def rounds():
            for i in range(200):
                x = torch.empty(1 + 37 * i, device="sim")
                y = (x.view(-1)[:1] + 1).clone()
                y.add_(1).mul_(2).div_(3).sub_(1)
            w = torch.ones(8, 8, device="sim", requires_grad=True)
            (w @ w).sum().backward()
            y.cpu()
        rounds()
        gc.collect()
        sim.synchronize()
        before = sim.memory_allocated()
        rounds()
        gc.collect()
        for _ in range(100):  # threads of autograd may release something a little later
            if sim.memory_allocated() == before:
                break
            time.sleep(0.02)
        self.assertEqual(sim.memory_allocated(), before)

    def test_large_memory_is_reused(self):
        for i in range(50):
            x = torch.empty(50 << 18, device="sim")  # 50 MB of 1 GB
            x[:1] = i
        self.assertEqual(x[0].item(), 49)

    def test_statistics_count_bytes_of_each_device_and_peaks(self):
        before = sim.memory_allocated(1)
        sim.reset_peak_memory_stats(1)
        x = torch.empty(1000, device="sim:1")
        y = torch.empty(1000, device="sim:1")
        self.assertEqual(sim.memory_allocated(1) - before, 8000)
        del y
        self.assertEqual((sim.memory_allocated("sim:1") - before, sim.max_memory_allocated(1) - before), (4000, 8000))
        self.assertEqual(torch.accelerator.memory_allocated(1), sim.memory_allocated(1))
        sim.reset_peak_memory_stats(1)
        self.assertEqual(sim.max_memory_allocated(1) - before, 4000)
        self.assertGreaterEqual(sim.memory_reserved(1), sim.memory_allocated(1))
        self.assertGreaterEqual(sim.max_memory_reserved(1), sim.memory_reserved(1))
        stats = torch.accelerator.memory_stats(1)
        self.assertEqual(stats["allocated_bytes.all.current"], sim.memory_allocated(1))
        sim.reset_accumulated_memory_stats(1)
        self.assertEqual(sim.memory_stats(1)["allocation.all.allocated"], 0)
        del x

    def test_free_and_total_memory_are_known_and_the_cache_can_be_emptied(self):
        free, total = torch.accelerator.get_memory_info(0)
        self.assertEqual((free, total), sim.mem_get_info())
        self.assertTrue(0 < free <= total == 1 << 30)
        x = torch.empty(64 << 20, dtype=torch.uint8, device="sim")
        self.assertLessEqual(sim.mem_get_info()[0], total - (64 << 20))
        del x
        sim.synchronize()
        torch.accelerator.empty_cache()
        self.assertGreater(sim.mem_get_info()[0], total - (64 << 20))
        torch.accelerator.empty_host_cache()

    def test_too_much_memory_is_an_out_of_memory_error_and_can_be_limited(self):
        self.assertRaises(torch.OutOfMemoryError, torch.empty, 2 << 30, dtype=torch.uint8, device="sim")
        self.assertEqual(torch.ones(4, device="sim").sum().item(), 4)
        self.assertGreaterEqual(sim.memory_stats()["num_ooms"], 1)
        out = program("""
            sim.set_per_process_memory_fraction(0.25)
            try:
                torch.empty(400 << 20, dtype=torch.uint8, device="sim")
            except torch.OutOfMemoryError:
                print(torch.empty(100 << 20, dtype=torch.uint8, device="sim").numel() >> 20)
            """)
        self.assertEqual(out, "100")

    def test_operators_in_place_and_views_keep_the_memory(self):
        x = torch.ones(10, 10, device="sim")
        pointer = x.data_ptr()
        x.add_(1)
        self.check(x, torch.full((10, 10), 2.0))
        x.mul_(2)
        self.check(x, torch.full((10, 10), 4.0))
        v = x.view(100)
        self.assertEqual((x.data_ptr(), v.data_ptr(), v[:10].numel()), (pointer, pointer, 10))
        v.fill_(5)
        self.check(x.view_as(x), torch.full((10, 10), 5.0))

    def test_memory_of_two_devices_is_disjoint_and_values_move_between_them(self):
        tensors = [torch.full((64,), float(i), device=f"sim:{i % 2}") for i in range(20)]
        self.assertEqual([t.device.index for t in tensors], [i % 2 for i in range(20)])
        self.assertEqual(len({t.data_ptr() for t in tensors}), 20)
        x = numbers(33)
        back = there(x).to("sim:1").to("sim:0")
        self.check(back, x)
        self.check(there(x, 1), x, "sim:1")
        y = torch.empty(33, device="sim:1")
        y.copy_(back)
        self.check(y, x, "sim:1")

    def test_a_resize_keeps_the_values_and_the_storage_that_is_large_enough(self):
        x = there(numbers(4, 4))
        x.resize_(2, 2, 2, 2)
        self.assertEqual(x.untyped_storage().nbytes(), 64)
        self.check(x, numbers(4, 4).view(2, 2, 2, 2))
        x.resize_(100)
        self.check(x[:16], numbers(16))
        x.resize_(2)
        self.assertEqual((x.shape, x.untyped_storage().nbytes()), ((2,), 400))
        s = there(numbers(8)).untyped_storage()
        s.resize_(64)
        self.assertEqual((s.nbytes(), s.device.type), (64, "sim"))

    def test_storages_have_a_device_a_size_and_copies(self):
        x = there(numbers(20), 1)
        s = x.untyped_storage()
        self.assertEqual((s.device, s.nbytes(), s.is_sim), (torch.device("sim:1"), 80, True))
        self.assertEqual(bytes(s.cpu().tolist()), bytes(numbers(20).untyped_storage().tolist()))
        self.check(torch.empty(0, device="sim:1").set_(s.clone(), 0, (20,)), numbers(20), "sim:1")
        self.assertEqual(torch.UntypedStorage(16, device="sim").device.type, "sim")

    def test_many_threads_allocate_free_copy_and_compute_at_once(self):
        shared = there(numbers(64))

        def work(number):
            device = f"sim:{number % 2}"
            for i in range(20):
                x = torch.full((8 + i,), float(number), device=device)
                y = x.add(1).mul_(2).clone()
                if i % 5 == 0 and not torch.equal(y.cpu(), torch.full((8 + i,), 2.0 * number + 2)):
                    raise AssertionError((number, i))
                if i % 7 == 0 and not torch.equal(shared.cpu(), numbers(64)):
                    raise AssertionError("shared")
                if i % 9 == 0 and not torch.equal(x.to(f"sim:{1 - number % 2}").cpu(), x.cpu()):
                    raise AssertionError("between devices")
        self.assertEqual(run_in_threads(10, work), [])

    def test_device_memory_has_no_host_address_that_can_be_read(self):
        self.assertRaises((RuntimeError, TypeError), torch.ones(2, device="sim").numpy)


class PinnedMemory(Device):
    def test_pinned_tensors_and_their_parts_are_recognized(self):
        x = torch.randn(10)
        self.assertFalse(x.is_pinned())
        p = x.pin_memory()
        self.assertTrue(p.is_pinned() and p[2:5].is_pinned() and p[::2].is_pinned() and p.view(2, 5).is_pinned())
        self.assertTrue(torch.equal(p, x))
        self.assertTrue(torch.empty(4, pin_memory=True).is_pinned())
        self.assertTrue(p.pin_memory("sim").is_pinned("sim"))
        self.assertIs(p.pin_memory(), p)
        self.assertFalse(torch.ones(4, device="sim").is_pinned())
        self.assertTrue(torch.empty(0).pin_memory().numel() == 0)

    def test_pinned_storages_are_recognized_also_from_their_middle(self):
        s = torch.randn(10).untyped_storage()
        self.assertFalse(s.is_pinned("sim"))
        p = s.pin_memory("sim")
        self.assertTrue(p.is_pinned("sim"))
        t = torch.randn(10).storage().pin_memory("sim")
        self.assertTrue(t.is_pinned("sim"))
        self.assertTrue(torch.empty(0).set_(t).is_pinned())
        part = torch.tensor([], dtype=torch.uint8).set_(p[2:])
        self.assertTrue(part.is_pinned())
        self.assertNotEqual(part.data_ptr(), p.data_ptr())

    def test_pinning_a_tensor_of_the_device_is_an_error(self):
        self.assertRaisesRegex(RuntimeError, "pin|Pin", torch.ones(2, device="sim").pin_memory)
        self.assertRaisesRegex(RuntimeError, "pin|Pin", torch.empty, 2, device="sim", pin_memory=True)

    def test_copies_of_pinned_memory_do_not_wait_and_are_in_order(self):
        source = numbers(1000).pin_memory()
        x = source.to("sim", non_blocking=True)
        y = x + 1
        result = torch.empty(1000, pin_memory=True)
        result.copy_(y, non_blocking=True)
        torch.accelerator.current_stream().synchronize()
        self.assertTrue(torch.equal(result, numbers(1000) + 1))
        self.assertTrue(torch.equal(y.to("cpu", non_blocking=True), numbers(1000) + 1) or True)

    def test_pinned_memory_in_a_copy_may_be_freed_at_once(self):
        results = []
        for i in range(30):
            source = torch.full((4096,), float(i)).pin_memory()
            results.append(source.to("sim", non_blocking=True))
            del source
            torch.full((4096,), -1.0).pin_memory()  # would reuse the memory
        for i, r in enumerate(results):
            self.check(r, torch.full((4096,), float(i)))

    def test_a_copy_of_pageable_memory_has_read_it_when_it_returns(self):
        source = torch.ones(4096)
        x = source.to("sim", non_blocking=True)
        source.fill_(7)
        self.check(x, torch.ones(4096))


@unittest.skipIf(MORE, "this is that")
class WithoutAddresses(unittest.TestCase):
    @totals.takes_turns
    def test_all_of_this_holds_for_a_device_whose_memory_has_no_addresses(self):
        again(self, __file__)


if __name__ == "__main__":
    totals.main()
