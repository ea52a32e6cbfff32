"""A Tenon device in PyTorch beside other parts of it: OpenReg's tests storage, misc, profiler, compile, distributed and testing, on sim, with
forks, data loaders and other processes."""
import copy
import io
import json
import os
import tempfile
import types
import unittest
from unittest import mock

import torch
import torch.autograd.profiler
import torch.multiprocessing
import torch.nn.functional as F
from torch._dynamo.device_interface import get_interface_for_device
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.utils.rnn import pack_sequence
from torch.profiler import ProfilerActivity
from torch_openreg import OPENING, Device, numbers, program, sim, td, there
import totals


def saved(value, **named):
    file = io.BytesIO()
    torch.save(value, file, **named)
    file.seek(0)
    return file


class Serialization(Device):
    def test_storages_are_tagged_with_their_device_and_restored_there(self):
        for text, tag in (("sim", "sim:0"), ("sim:0", "sim:0"), ("sim:1", "sim:1")):
            self.assertEqual(torch.serialization.location_tag(torch.UntypedStorage(4, device=text)), tag)
        for tag in "sim:0", "sim:1":
            restored = torch.serialization.default_restore_location(torch.UntypedStorage(4), tag)
            self.assertTrue(restored.is_sim and str(restored.device) == tag)

    def test_saved_tensors_return_to_their_device_or_to_that_of_map_location(self):
        x = there(numbers(3, 4), 1)
        self.check(torch.load(saved(x)), numbers(3, 4), "sim:1")
        self.check(torch.load(saved(x), weights_only=True), numbers(3, 4), "sim:1")
        for location in "sim:0", torch.device("sim:0"), {"sim:1": "sim:0"}, "sim":
            self.check(torch.load(saved(x), map_location=location), numbers(3, 4))
        found = torch.load(saved(x), map_location="cpu")
        self.assertTrue(found.is_cpu and torch.equal(found, numbers(3, 4)))
        self.check(torch.load(saved(numbers(5)), map_location="sim:1"), numbers(5), "sim:1")

    def test_views_of_one_storage_are_saved_once_and_stay_views(self):
        x = there(numbers(4, 4))
        a, b = torch.load(saved([x, x.t()]))
        self.assertEqual(a.data_ptr(), b.data_ptr())
        self.check(b, numbers(4, 4).t())

    def test_models_and_optimizers_are_saved_and_loaded(self):
        model = torch.nn.Linear(3, 2).to("sim")
        optimizer = torch.optim.Adam(model.parameters())
        model(there(numbers(4, 3))).sum().backward()
        optimizer.step()
        state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), map_location="sim:1")
        other = torch.nn.Linear(3, 2).to("sim:1")
        other.load_state_dict(state["model"])
        again = torch.optim.Adam(other.parameters())
        again.load_state_dict(state["optimizer"])
        self.check(other.weight, model.weight, "sim:1")
        self.assertEqual({str(t["exp_avg"].device) for t in again.state.values()}, {"sim:1"})
        self.check(copy.deepcopy(model).bias, model.bias)

    def test_a_file_is_read_in_another_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            torch.save({"x": there(numbers(6), 1), "y": there(torch.tensor([1, 2]))}, path)
            out = program(f"""
                found = torch.load({path!r})
                print(found["x"].device, found["y"].tolist(), torch.load({path!r}, map_location="sim:0")["x"].sum().item())
                """)
            self.assertEqual(out, "sim:1 [1, 2] 3.0")
            without = "import torch\n"
            self.assertEqual(program(f"print(torch.load({path!r}, map_location='cpu')['y'].tolist())", opening=without), "[1, 2]")

    def test_tensors_have_no_metadata_of_the_backend(self):
        x = there(numbers(3))
        self.assertEqual(torch._utils.get_tensor_metadata(x), {})
        self.assertEqual(torch._utils.get_tensor_metadata(torch.load(saved(x), map_location="cpu")), {})

    def test_tensors_without_storage_are_saved_by_way_of_the_cpu(self):
        x = there(numbers(3))
        with mock.patch.object(torch._C, "_has_storage", return_value=False):
            rebuild = x._reduce_ex_internal(2)[0]
            self.assertIs(rebuild, torch._utils._rebuild_device_tensor_from_cpu_tensor)
            file = saved(x)
            self.check(torch.load(file, weights_only=True), numbers(3))
            file.seek(0)
            self.assertTrue(torch.load(file, map_location="cpu", weights_only=True).is_cpu)
            with torch.serialization.skip_data():
                self.assertRaisesRegex(RuntimeError, "Cannot serialize tensors on backends with no storage", saved, x)

    def test_tensors_saved_as_arrays_of_numpy_are_restored_on_the_device(self):
        made = torch._utils._rebuild_device_tensor_from_numpy(numbers(2, 3).numpy(), torch.float32, "sim:0", False)
        self.check(made, numbers(2, 3))


class Names(Device):
    def test_the_name_is_set_once_and_another_is_an_error(self):
        self.assertEqual(torch._C._get_privateuse1_backend_name(), "sim")
        torch.utils.rename_privateuse1_backend("sim")
        self.assertRaisesRegex(RuntimeError, "has already been set", torch.utils.rename_privateuse1_backend, "dev")
        self.assertRaisesRegex(RuntimeError, "Expected one of cpu", torch._register_device_module, "dev", types.ModuleType("dev"))
        self.assertRaisesRegex(RuntimeError, "The runtime module of", torch._register_device_module, "sim", types.ModuleType("sim"))
        self.assertRaisesRegex(RuntimeError, "The custom device module of", torch.utils.generate_methods_for_privateuse1_backend)

    def test_enable_may_be_repeated_and_refuses_what_cannot_be(self):
        self.assertIs(td.enable("sim"), sim)
        self.assertRaisesRegex(RuntimeError, "PyTorch has one PrivateUse1 device in a process: it is already Tenon's backend 'sim' as 'sim'", td.enable, "sim", "other")
        opening = OPENING.replace('sim = td.enable("sim")\n', "")
        out = program("""
            def said(*a, **n):
                try: td.enable(*a, **n)
                except Exception as e: print(type(e).__name__, str(e)[:70])
            said("sim", name="cuda"); said("sim", name="not a name"); said("nosuch")
            print(td.enable("sim", name="npu").device_count(), torch.ones(2, device="npu:1").npu(0))
            said("sim")
            """, opening=opening)
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith("ValueError 'cuda' is a device of PyTorch's own"), out)
        self.assertTrue(lines[1].startswith("ValueError the name of a device of PyTorch consists of letters and"), out)
        self.assertTrue(lines[2].startswith("RuntimeError Tenon's backend 'nosuch' cannot be a device of PyTorch"), out)
        self.assertEqual(lines[3], "2 tensor([1., 1.], device='npu:0')")
        self.assertTrue(lines[4].startswith("RuntimeError PyTorch has one PrivateUse1 device"), out)

    def test_another_name_for_privateuse1_before_enable_is_a_clear_error(self):
        out = program("""
            torch.utils.rename_privateuse1_backend("other")
            try: td.enable("sim")
            except RuntimeError as e: print(e)
            """, opening=OPENING.replace('sim = td.enable("sim")\n', ""))
        self.assertIn("PyTorch's PrivateUse1 is already called 'other' by another package", out)

    def test_enumerations_have_the_name(self):
        for kind in ProfilerActivity, torch._C._autograd.DeviceType:
            self.assertEqual(kind.SIM, kind.PrivateUse1)
            self.assertEqual((repr(kind.SIM), str(kind.SIM), kind.SIM.name), (f"<{kind.__name__}.SIM: {kind.SIM.value}>", f"{kind.__name__}.SIM", "SIM"))

    def test_functions_of_the_module_are_found_by_their_name(self):
        from torch.utils.backend_registration import _get_custom_mod_func
        self.assertEqual(_get_custom_mod_func("device_count")(), 2)
        self.assertRaisesRegex(RuntimeError, "Try to call torch.sim.nosuch|Try to call torch.sim", _get_custom_mod_func, "nosuch")
        self.assertIs(torch.get_device_module("sim"), sim)

    def test_tensors_storages_modules_and_packed_sequences_have_methods_of_the_device(self):
        x = numbers(3)
        for argument, index in ((), 0), ((0,), 0), ((1,), 1), ((torch.device("sim:1"),), 1), (("sim:1",), 1):
            y = x.sim(*argument)
            self.assertTrue(y.is_sim and y.device.index == index and not x.is_sim)
        module = torch.nn.Linear(2, 2)
        self.assertIs(module.sim(1), module)
        self.assertEqual({str(p.device) for p in module.parameters()}, {"sim:1"})
        self.assertIsInstance(module.weight, torch.nn.Parameter)
        s = x.untyped_storage().sim()
        self.assertTrue(s.is_sim and not x.untyped_storage().is_sim)
        t = x.storage().sim(1)
        self.assertTrue(t.is_sim and t.size() == 3 and t.device.index == 1)
        p = pack_sequence([numbers(3), numbers(2)]).sim()
        self.assertTrue(p.is_sim and p.data.is_sim and p.batch_sizes.is_cpu)

    def test_types_have_texts_of_the_device(self):
        texts = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.int32: "Int", torch.int64: "Long", torch.int16: "Short", torch.int8: "Char",
                 torch.uint8: "Byte", torch.bool: "Bool"}
        for dtype, text in texts.items():
            self.assertEqual(torch.empty(2, dtype=dtype, device="sim").type(), f"torch.sim.{text}Tensor")
        x = there(numbers(3))
        self.assertEqual(x.storage().type(), "torch.storage.TypedStorage")
        sim.FloatStorage = mock.Mock(__module__="torch.sim", __name__="FloatStorage")
        try:
            self.assertEqual(x.storage().type(), "torch.sim.FloatStorage")
            self.assertEqual(x.int().storage().type(), "torch.storage.TypedStorage")
        finally:
            del sim.FloatStorage


class Profiler(Device):
    def profile(self, work, **named):
        with torch.autograd.profiler.profile(use_device="sim", **named) as found:
            work()
        return found

    def train(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to("sim")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autograd.profiler.record_function("forward"):
            y = model(there(numbers(4, 8)))
            with torch.autograd.profiler.record_function("loss"):
                loss = F.mse_loss(y, torch.zeros(4, 4, device="sim"))
        with torch.autograd.profiler.record_function("backward_pass"):
            loss.backward()
        optimizer.step()

    def test_operators_and_ranges_of_the_user_are_in_the_profile(self):
        names = [e.name for e in self.profile(self.train).function_events]
        for name in "forward", "loss", "backward_pass", "aten::linear", "aten::addmm":
            self.assertIn(name, names)
        self.assertTrue(any("Backward" in n for n in names))
        self.assertIsInstance(self.profile(lambda: None).function_events, list)

    def test_averages_tables_traces_and_shapes_are_made(self):
        found = self.profile(self.train, record_shapes=True)
        for row in found.key_averages(group_by_input_shape=True):
            self.assertTrue(row.key and row.count > 0 and row.cpu_time_total >= 0)
        self.assertIn("aten::addmm", found.key_averages().table())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            found.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
        self.assertTrue(trace["traceEvents"] if isinstance(trace, dict) else trace)

    def test_times_of_the_device_are_those_of_its_work(self):
        out = program("""
            import torch.autograd.profiler
            x = torch.ones(8, device="sim")
            sim.synchronize()
            with torch.autograd.profiler.profile(use_device="sim") as found:
                for _ in range(6): x + x
                sim.synchronize()
            row = next(r for r in found.key_averages() if r.key == "aten::add")
            print(row.count >= 6, 2000 < row.device_time_total < 2000000)
            """, "delay=20000,check=fail")
        self.assertEqual(out.splitlines()[-1], "True True")

    def test_streams_devices_transfers_and_errors_may_be_profiled(self):
        def work():
            for device in "sim:0", "sim:1":
                with torch.Stream(device):
                    x = numbers(16).to(device)
                    (x + x).cpu()
        names = [e.name for e in self.profile(work).function_events]
        self.assertTrue("aten::add" in names and ("aten::copy_" in names or "aten::_copy_from" in names))
        with self.assertRaises(ValueError):
            with torch.autograd.profiler.profile(use_device="sim"):
                raise ValueError
        for _ in range(3):
            self.assertGreater(len(self.profile(lambda: [there(numbers(3)) * 2 for _ in range(40)]).function_events), 100)
        self.check(there(numbers(3)) * 2, 2 * numbers(3))

    def test_the_new_profiler_knows_the_device(self):
        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.SIM]) as found:
            self.train()
        self.assertIn("aten::addmm", [e.key for e in found.key_averages()])
        self.assertEqual(found.use_device, "sim")


class Compile(Device):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def test_compiled_functions_give_values_gradients_and_devices_as_without(self):
        def function(x, w):
            return torch.relu((x + 1) @ w) * 2
        for backend in "eager", "aot_eager":
            for dynamic in False, True:
                compiled, grads = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True), []
                for f in function, compiled:
                    w = there(numbers(4, 4)).requires_grad_()
                    y = f(there(numbers(3, 4)), w)
                    y.sum().backward()
                    grads.append((y, w.grad))
                self.check(grads[1][0], grads[0][0])
                self.check(grads[1][1], grads[0][1])
                self.check(compiled(there(numbers(7, 4)), there(numbers(4, 4))), function(numbers(7, 4), numbers(4, 4)), rtol=1e-5, atol=1e-5)

    def test_modules_are_compiled_and_trained(self):
        layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU()).to("sim")
        for backend in "eager", "aot_eager":
            found = torch.compile(layer, backend=backend)(there(numbers(2, 4)))
            self.check(found, layer(there(numbers(2, 4))))
        found.sum().backward()
        self.assertEqual(layer[0].weight.grad.device.type, "sim")

    def test_graphs_know_the_device_of_their_inputs(self):
        seen = []

        def backend(graph, inputs):
            seen.extend(n.meta["example_value"].device.type for n in graph.graph.nodes if n.op == "placeholder" and isinstance(n.meta.get("example_value"), torch.Tensor))
            return graph
        torch.compile(lambda a, b: a + b, backend=backend)(there(numbers(3)), there(numbers(3)))
        self.assertEqual(seen, ["sim", "sim"])

    def test_a_function_is_compiled_again_only_for_another_shape_or_device(self):
        counter = CompileCounterWithBackend("eager")
        compiled = torch.compile(lambda t: t * 2, backend=counter, dynamic=False)
        for _ in range(2):
            compiled(there(numbers(4)))
        self.assertEqual(counter.frame_count, 1)
        compiled(there(numbers(8)))
        self.assertEqual(counter.frame_count, 2)
        self.check(compiled(there(numbers(4), 1)), 2 * numbers(4), "sim:1")
        self.assertEqual(counter.frame_count, 3)

    def test_copies_to_the_cpu_breaks_autocast_and_default_devices_are_traced(self):
        found = torch.compile(lambda t: (t + 1).cpu() * 2, backend="aot_eager", fullgraph=True)(there(numbers(3)))
        self.assertTrue(found.is_cpu and torch.equal(found, (numbers(3) + 1) * 2))

        def broken(t):
            t = t + 1
            torch._dynamo.graph_break()
            return t * 2
        counter = CompileCounterWithBackend("eager")
        self.check(torch.compile(broken, backend=counter)(there(numbers(3))), (numbers(3) + 1) * 2)
        self.assertGreater(counter.frame_count, 1)

        def cast(a, b):
            with torch.autocast("sim", dtype=torch.float16):
                return torch.mm(a, b)
        self.assertEqual(torch.compile(cast, backend="aot_eager")(there(numbers(4, 4)), there(numbers(4, 4))).dtype, torch.float16)
        with torch.device("sim:1"):
            self.assertEqual(str(torch.compile(lambda: torch.ones(3) + 1, backend="eager")().device), "sim:1")

    def test_functions_of_the_user_are_compiled(self):
        class Half(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return grad * 0.5
        x = there(numbers(3)).requires_grad_()
        torch.compile(lambda t: Half.apply(t), backend="aot_eager", fullgraph=True)(x).sum().backward()
        self.check(x.grad, torch.full((3,), 0.5))

    def test_the_interface_of_the_device_is_registered(self):
        for name in "sim", "sim:1", torch.device("sim:1"):
            i = get_interface_for_device(name)
            self.assertEqual((i.device_count(), i.current_device(), i.is_available()), (2, 0, True))
        self.assertEqual((i.exchange_device(1), i.current_device(), i.maybe_exchange_device(-1), i.exchange_device(0)), (0, 1, 1, 1))
        s = i.Stream(1)
        with i.stream(s):
            self.assertEqual((i.current_stream(), i.get_raw_stream(1)), (s, s.stream_id))
        i._set_stream_by_id(s.stream_id, s.device_index, s.device_type)
        self.assertEqual(i.current_stream(), s)
        i.set_device(0)
        i.synchronize()
        self.assertEqual(i.Worker.get_device_properties(0).total_memory, 1 << 30)
        self.assertTrue(i.is_bf16_supported(including_emulation=True) and issubclass(i.Event, torch.Event))

    @totals.takes_turns
    def test_the_interface_is_registered_also_when_dynamo_is_imported_later(self):
        out = program("""
            print("torch._dynamo" in sys.modules)
            import torch._dynamo.device_interface as d
            print(d.get_interface_for_device("sim").device_count())
            """)
        self.assertEqual(out.splitlines()[-1], "2")

    @totals.takes_turns
    def test_the_interface_is_registered_whatever_finds_dynamo(self):
        """A finder of another package, before or after that of Tenon, finds the module in a place of its own, as where PyTorch is
        frozen or zipped."""
        for place in "insert(0, Finder())", "append(Finder())":
            out = program(f"""
                import importlib.abc, importlib.machinery, importlib.util, inspect
                NAME = "torch._dynamo.device_interface"
                class Loader(importlib.abc.InspectLoader):
                    def get_source(self, name):
                        with open(torch.__path__[0] + "/_dynamo/device_interface.py") as file:
                            return file.read()
                class Finder(importlib.abc.MetaPathFinder):
                    def find_spec(self, fullname, path, target=None):
                        return importlib.util.spec_from_loader(fullname, Loader()) if fullname == NAME else None
                class Ordinary(importlib.abc.MetaPathFinder):
                    def find_spec(self, fullname, path, target=None):
                        return None if fullname == NAME else importlib.machinery.PathFinder.find_spec(fullname, path, target)
                assert NAME not in sys.modules
                sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Ordinary()
                sys.meta_path.{place}
                import torch._dynamo
                d = sys.modules[NAME]
                print(d.get_interface_for_device("sim").device_count(), type(d.__spec__.loader).__name__, d.__loader__ is d.__spec__.loader)
                """)
            self.assertEqual(out.splitlines()[-1], "2 Loader True", place)

    def test_exported_programs_run_on_the_device(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).to("sim")
        exported = torch.export.export(model, (there(numbers(2, 4)),))
        self.check(exported.module()(there(numbers(2, 4))), model(there(numbers(2, 4))))


def work_in_child(queue):
    """What a spawned process does with the device; this file has enabled it on import."""
    torch.accelerator.set_device_index(1)
    x = torch.randn(4, 4, device="sim")
    queue.put((str(x.device), (x @ x - x @ x).sum().item()))


class Numbers(torch.utils.data.Dataset):
    """A data set of CPU tensors whose workers also draw random numbers."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        torch.manual_seed(index)
        return torch.full((3,), float(index)), torch.rand(1)


class Processes(Device):
    FORK = """
        import os
        x = torch.ones(4, device="sim") + 1
        pid = os.fork()
        if not pid:
            def said(name, call):
                try: print(name, call())
                except Exception as e: print(name, type(e).__name__, e)
            said("init", sim.init); said("is_initialized", sim.is_initialized); said("bad", sim._is_in_bad_fork)
            said("empty", lambda: torch.empty(2, device="sim")); said("cpu", lambda: torch.ones(2).sum().item())
            said("to", lambda: torch.ones(2).to("sim")); said("add", lambda: x + x); said("copy", lambda: x.cpu())
            said("synchronize", torch.accelerator.synchronize); said("stream", lambda: torch.Stream("sim")); said("seed", lambda: torch.manual_seed(3).initial_seed())
            del x
            sys.stdout.flush()
            os._exit(7)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), x.sum().item())
        """

    def test_the_child_of_a_fork_gets_a_clear_error_and_may_use_the_cpu(self):
        lines = dict(line.split(" ", 1) for line in program(self.FORK, timeout=60).splitlines())
        self.assertEqual((lines["child"], lines["is_initialized"], lines["bad"], lines["cpu"], lines["seed"]), ("7 8.0", "False", "True", "2.0", "3"))
        self.assertRegex(lines["init"], "RuntimeError device sim was used before this process was forked, .*'spawn'")
        for name in "empty", "to", "add", "copy", "synchronize":
            self.assertRegex(lines[name], "RuntimeError .*fork", name)

    @totals.takes_turns
    def test_a_spawned_process_uses_the_device(self):
        context = torch.multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=work_in_child, args=(queue,))
        process.start()
        self.assertEqual(queue.get(timeout=120), ("sim:1", 0.0))
        process.join(60)
        self.assertEqual(process.exitcode, 0)

    def test_loaders_with_workers_pin_batches_which_are_copied_to_the_device(self):
        for workers in 0, 2:
            there(numbers(3)) + 1
            total, is_pinned = 0.0, True
            for x, r in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=workers, pin_memory=True, shuffle=True, timeout=60 if workers else 0):
                is_pinned = is_pinned and x.is_pinned() and r.is_pinned()
                total += x.to("sim", non_blocking=True).sum().item()
            self.assertEqual((total, is_pinned), (3.0 * sum(range(24)), True))

    def test_cpu_tensors_are_sent_between_processes_and_device_tensors_are_refused(self):
        queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
        self.assertRaisesRegex(RuntimeError, "only available on CPU", queue.put, there(numbers(3)))
        queue.put(numbers(3))
        self.assertTrue(torch.equal(queue.get(), numbers(3)))

    def test_a_process_ends_well_with_tensors_streams_and_events_alive(self):
        self.assertEqual(program("""
            import threading
            x = torch.ones(1000, device="sim", requires_grad=True)
            s = torch.Stream("sim")
            with s:
                y = (x * 2).sum()
            e = s.record_event(torch.Event("sim", enable_timing=True))
            p = torch.ones(8).pin_memory()
            sys.kept = [x, y, s, e, p, p.to("sim", non_blocking=True), torch.Generator("sim")]
            threading.Thread(target=y.backward).start()
            print("end")
            """, "delay=20000,check=fail"), "end")

    @totals.takes_turns
    def test_failures_of_the_device_are_errors_of_pytorch(self):
        out = program("""
            x = torch.ones(64, device="sim")
            try:
                for _ in range(20): x = x + x
                sim.synchronize()
            except RuntimeError as e:
                print("failed" if "fault" in str(e) or "injected" in str(e) or "sim" in str(e) else e)
            """, "fault=12,check=fail")
        self.assertEqual(out, "failed")


class Distributed(Device):
    def test_a_backend_of_collectives_can_be_registered_for_the_device(self):
        out = program("""
            import torch.distributed as dist
            from torch._C._distributed_c10d import FakeProcessGroup
            from torch.testing._internal.distributed.fake_pg import FakeStore
            dist.Backend.register_backend("some", lambda store, rank, size, timeout: FakeProcessGroup._create_internal(rank, size), devices=["sim"])
            dist.init_process_group("some", rank=0, world_size=2, store=FakeStore())
            t = torch.ones(3, device="sim")
            dist.all_reduce(t)
            print(dist.get_backend(), dist.get_world_size(), dist.get_rank(), t.device)
            dist.destroy_process_group()
            """)
        self.assertEqual(out, "some 2 0 sim:0")

    def test_collectives_of_cpu_tensors_work_and_those_of_the_device_need_a_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            out = program(f"""
                import torch.distributed as dist
                dist.init_process_group("gloo", init_method="file://{folder}/store", rank=0, world_size=1)
                t = torch.ones(3)
                dist.all_reduce(t)
                print(t.tolist())
                try:
                    dist.all_reduce(torch.ones(3, device="sim"))
                except (RuntimeError, ValueError) as error:
                    print("sim" in str(error) or "device" in str(error))
                dist.destroy_process_group()
                """)
        self.assertEqual(out, "[1.0, 1.0, 1.0]\nTrue")


class Testing(Device):
    @totals.takes_turns
    def test_the_test_framework_of_pytorch_makes_tests_for_the_device(self):
        out = program("""
            import unittest, io
            from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyPRIVATEUSE1, onlyCPU, onlyCUDA, dtypes
            from torch.testing._internal.common_utils import TestCase
            class Some(TestCase):
                @onlyPRIVATEUSE1
                @dtypes(torch.float32, torch.int64)
                def test_add(self, device, dtype):
                    x = torch.ones(3, device=device, dtype=dtype)
                    self.assertEqual(x + x, torch.full((3,), 2, dtype=dtype, device=device))
                    self.assertEqual(torch.device(device).type, torch._C._get_privateuse1_backend_name())
                @onlyCPU
                def test_cpu(self, device): raise AssertionError
                @onlyCUDA
                def test_cuda(self, device): raise AssertionError
            class All(TestCase):
                def setUp(self):
                    super().setUp()
                    self.bypass_device_restrictions = True
                @onlyCUDA
                def test_cuda(self, device):
                    self.assertEqual(torch.ones(1, device=device).device.type, "sim")
            for kind in Some, All:
                instantiate_device_type_tests(kind, globals(), only_for="sim")
            for name in "Some", "All":
                kind = next(globals()[name + suffix] for suffix in ("SIM", "PRIVATEUSE1") if name + suffix in globals())
                result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
                print(result.testsRun, len(result.failures), len(result.errors), len(result.skipped))
            """)
        self.assertEqual(out.splitlines()[-2:], ["4 0 0 2", "1 0 0 0"])


if __name__ == "__main__":
    totals.main()
