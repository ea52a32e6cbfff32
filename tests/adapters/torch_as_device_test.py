"""A Tenon device as a device of PyTorch (tenon.torch.device): training on `sim`, strict mode, operators of libraries, and errors.

Each program below has a process of its own, because a process has one such device.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
HERE = os.path.join(ROOT, "tests", "adapters")
FOLDER = tempfile.mkdtemp(prefix="tenon-torch-as-device-")
SEEDS = int(os.environ.get("TENON_TORCH_SEEDS", "1"))
STEPS = int(os.environ.get("TENON_TORCH_STEPS", "20"))
sys.path[:0] = [os.path.join(BUILD, "python"), HERE]
import totals

HEAD = """
import os, sys, torch
import torch.nn.functional as F
import tenon, tenon.torch
import tenon.torch.device as td
def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"
def expect(text, call):
    found = said(call)
    assert text in found, f"expected {text!r}, found {found!r}"
"""


def run(body, status=0, **environment):
    """Runs a program; it fails if its exit status is not `status`.  Returns what it wrote."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), HERE]), "OMP_NUM_THREADS": "1", **environment}
    program = HEAD + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, env=env, cwd=FOLDER, check=False)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def built(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


TRAIN = """
    from torch_nets import ResNet, Transformer
    from torch.utils.data import DataLoader, TensorDataset
    if os.environ.get("PLUGIN"):
        tenon.load(os.environ["PLUGIN"])
    HERE = os.environ["DEVICE"]
    td.enable(HERE)
    STEPS = int(os.environ["STEPS"])
    def train(net, kind, device, amp, pause=None):
        torch.manual_seed(1)
        data = TensorDataset(*kind.batch(64))
        loader = DataLoader(data, batch_size=16, pin_memory=device != "cpu")
        optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9) if kind is ResNet else torch.optim.AdamW(net.parameters(), 1e-3)
        scaler = torch.amp.GradScaler(device, enabled=amp, init_scale=2.0 ** 8)
        losses = []
        while len(losses) < STEPS:
            for x, y in loader:
                x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
                optimizer.zero_grad()
                with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
                    loss = F.cross_entropy(net(x).float().flatten(0, -2), y.flatten())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.detach())
                if len(losses) == STEPS // 2 and pause:
                    pause(net, optimizer)
                if len(losses) == STEPS:
                    break
        return torch.stack(losses).cpu()
    losses = []
    for kind in (Transformer, ResNet):
        for amp in (False, True):
            torch.manual_seed(0)
            net = kind()
            with torch.no_grad():
                [p.mul_(1 + float(os.environ.get("CHANGE", 0))) for p in net.parameters()]
            losses.append(train(net.to(HERE), kind, HERE, amp))
            assert losses[-1][-1] < losses[-1][0], losses[-1]
            if not amp:
                torch.manual_seed(0)
                losses.append(train(kind(), kind, "cpu", amp))
    torch.accelerator.synchronize()
    torch.save(losses, os.environ["LOSSES"])
"""


class Training(unittest.TestCase):
    def test_losses_follow_those_of_the_cpu_whatever_the_delays_of_the_device(self):
        """With autocast, the CPU's losses are those on the device vx, which has no kernels: PyTorch's kernels for the CPU, with the casts that
        a device gets.  (Autocast on the CPU itself casts other operators.)  A float32 result that differs in its last bit may round to another
        bfloat16, so these losses are compared as closely as they are defined: with what a change of all weights by one bit does to them."""
        import torch
        path = os.path.join(FOLDER, "losses.pt")

        def losses(device, plugin="", **environment):
            run(TRAIN, DEVICE=device, PLUGIN=plugin, STEPS=str(STEPS), LOSSES=path, **environment)
            return torch.load(path)

        def distance(a, b):
            return (a - b).abs().max().item()
        vx = os.path.join(BUILD, "tests", "vx.so")
        reference = losses("vx", vx)
        changed = [losses("vx", vx, CHANGE=change) for change in ("1.2e-7", "-1.2e-7")]
        defined = [max(distance(c[i], reference[i]) for c in changed) for i in (2, 5)]
        for seed in range(1, SEEDS + 1):
            with self.subTest(seed=seed):
                found = losses("sim", TENON_SIM=f"delay=50,seed={seed}")
                exact = [distance(found[i], found[i + 1]) for i in (0, 3)]
                cast = [distance(found[i], reference[i]) for i in (2, 5)]
                print(f"seed {seed}, {STEPS} steps: the losses of the transformer and the residual network differ by {exact[0]:.1e} and {exact[1]:.1e}, "
                      f"with autocast by {cast[0]:.1e} and {cast[1]:.1e} (one bit of the weights: {defined[0]:.1e} and {defined[1]:.1e})")
                self.assertLess(max(exact), 1e-5)
                for i in range(2):
                    self.assertLess(cast[i], 4 * defined[i])

    def test_a_checkpoint_is_continued_by_another_process(self):
        path = os.path.join(FOLDER, "net.pt")
        body = """
            from torch_nets import Transformer
            td.enable("sim")
            torch.manual_seed(0)
            net = Transformer().to("sim")
            optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
            words, targets = Transformer.batch(8)
            path, is_second, device = sys.argv[1:] if len(sys.argv) > 1 else (os.environ["NET"], os.environ["SECOND"] == "1", "sim")
            if is_second:
                state = torch.load(path, map_location="sim")
                assert all(v.device.type == "sim" for v in state["net"].values())
                net.load_state_dict(state["net"]); optimizer.load_state_dict(state["optimizer"])
            for _ in range(5):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(words.to("sim")).flatten(0, -2), targets.to("sim").flatten())
                loss.backward()
                optimizer.step()
                print(f"{loss.item():.6f}")
                if not is_second and _ == 1:
                    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
        """
        whole = run(body, NET=path, SECOND="0").split()
        rest = run(body, NET=path, SECOND="1").split()
        self.assertEqual(whole[2:], rest[:3])

    def test_memory_on_the_device_is_flat(self):
        run("""
            from torch_nets import Transformer
            td.enable("sim")
            net = Transformer().to("sim")
            optimizer = torch.optim.SGD(net.parameters(), 0.01)
            words, targets = (t.to("sim") for t in Transformer.batch(2))
            def step():
                optimizer.zero_grad()
                F.cross_entropy(net(words).flatten(0, -2), targets.flatten()).backward()
                optimizer.step()
            for _ in range(20):
                step()
            torch.sim.synchronize()
            before = torch.sim.memory_allocated(), torch.sim.memory_reserved()
            for _ in range(int(os.environ["ITERATIONS"])):
                step()
            torch.sim.synchronize()
            after = torch.sim.memory_allocated(), torch.sim.memory_reserved()
            assert before == after, (before, after)
        """, ITERATIONS=os.environ.get("TENON_TORCH_ITERATIONS", "300"))


class Strict(unittest.TestCase):
    STEP = """
        from torch_nets import ResNet, Transformer
        tenon.load(os.environ["PLUGIN"]) if os.environ.get("PLUGIN") else None
        name = td.enable(os.environ["BACKEND"]).__name__.split(".")[1]
        def step(kind):
            torch.manual_seed(0)
            net = kind().to(name)
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            x, y = kind.batch(4)
            loss = F.cross_entropy(net(x.to(name)).flatten(0, -2), y.to(name).flatten())
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                return net.eval()(x.to(name)).cpu()
    """

    def test_a_device_without_kernels_is_told_all_operators_that_it_lacks(self):
        library = os.path.join(BUILD, "tests", "vx.so")
        output = run(self.STEP + """
        def all_of(kind):
            with td.strict():
                step(kind)
        for kind, words in ((Transformer, ("aten::addmm.out", "aten::native_layer_norm ", "aten::nll_loss_forward.output")),
                            (ResNet, ("aten::convolution_overrideable ", "aten::native_batch_norm ", "aten::convolution_backward_overrideable "))):
            text = said(lambda: all_of(kind))
            assert "operators ran on the CPU instead of vx:" in text, text
            for word in words:
                assert word in text, (word, text)
        def first():
            with td.strict(immediately=True):
                torch.ones(2, device="vx").exp()
        expect("aten::exp.out has no kernel on device vx (core::exp: no kernel for vx and dtype f32), and strict mode does not let it run on the CPU", first)
        assert torch.ones(2, device="vx").exp().cpu()[0] > 2.7, "strict mode ended"
        """, PLUGIN=library, BACKEND="vx")
        self.assertEqual(output, "")

    def test_a_device_that_compiles_source_trains_both_networks_without_the_cpu(self):
        for backend in ("sim", "opencl"):
            with self.subTest(backend=backend):
                run(self.STEP + """
        with td.strict():
            found = [step(Transformer), step(ResNet)]
        assert not td.fallbacks(), td.fallbacks()
        name = "cpu"
        for a, b in zip(found, [step(Transformer), step(ResNet)]):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
                """, BACKEND=backend)


class Operators(unittest.TestCase):
    LIBRARY = """#include <tenon/op.h>
static tenon_status_t twice(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) y[i] = 2 * x[i];
  return TENON_OK;
}
TENON_LIBRARY(forms, "1.0.0",
  TENON_OP("plain(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", twice)),
  TENON_OP("both(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_GRADIENT("x: both(grad)"),
    TENON_KERNEL("cpu", twice)))
"""

    def test_an_operator_of_a_library_runs_on_the_device_in_each_form(self):
        run("""
            library = tenon.load(os.environ["LIBRARY"])
            tenon.torch.register(library)
            td.enable("sim")
            x = torch.arange(3.0, device="sim", requires_grad=True)
            expect("forms::plain", lambda: torch.ops.forms.plain(x.detach()))
            tenon.fallback_to_cpu("sim")
            td.fallbacks(clear=True)
            assert torch.ops.forms.plain(x.detach()).cpu().tolist() == [0, 2, 4]
            assert td.fallbacks() == {"forms::plain": 1}, td.fallbacks()
            y = torch.ops.forms.both(x)
            assert y.device == torch.device("sim:0")
            y.sum().backward()
            assert x.grad.cpu().tolist() == [2, 2, 2]
            expect("RuntimeError", lambda: torch.ops.forms.plain(x).sum().backward())
            for name in "forms::both", "forms::plain":
                lines = dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(name).splitlines() if ": " in line)
                for key in "PrivateUse1", "CPU", "Meta", "AutogradPrivateUse1":
                    assert lines[key].startswith("registered at") and lines[key].endswith("[kernel]"), (name, key, lines[key])
            meta = torch.ops.forms.both(torch.empty(5, device="meta"))
            assert meta.shape == (5,) and meta.is_meta
            compiled = torch.compile(lambda t: torch.ops.forms.both(t) + 1, backend="aot_eager")
            assert compiled(x.detach()).cpu().tolist() == [1, 3, 5]
        """, LIBRARY=built("forms.c", self.LIBRARY))

    def test_numbers_that_are_easy_to_get_wrong_are_those_of_the_cpu(self):
        run("""
            td.enable("sim")
            x = torch.zeros(2, 3); x[0, 0] = -torch.inf
            there = x.to("sim")
            for targets in ([-100, 1], [-100, -100]):
                y = torch.tensor(targets)
                a, b = x.clone().requires_grad_(), there.clone().requires_grad_()
                p, q = F.nll_loss(a, y), F.nll_loss(b, y.to("sim"))
                p.backward(); q.backward()
                torch.testing.assert_close(q.cpu(), p, equal_nan=True)
                torch.testing.assert_close(b.grad.cpu(), a.grad)
            half = torch.zeros(3, device="sim", dtype=torch.half)
            assert (half == 1e6).cpu().tolist() == [False] * 3
            expect("RuntimeError", lambda: torch.empty(0, 3, device="sim").copy_(torch.ones(7)))
            a = torch.randn(3, dtype=torch.complex64).conj()
            b = torch.zeros(3, dtype=torch.complex128, device="sim")
            b.conj().copy_(a)
            torch.testing.assert_close(b.cpu(), a.conj().to(torch.complex128))
            out, places = torch.empty(0, device="sim"), torch.empty(0, dtype=torch.long, device="sim")
            torch._C._nn.max_pool2d_with_indices(torch.ones(1, 1, 4, 4, device="sim"), 2, out=(out, places))
            assert out.shape == places.shape == (1, 1, 2, 2)
            number = torch.tensor(0.0)
            expect("Error", lambda: torch.std(torch.arange(3.0, device="sim"), 0, out=number))
            for index in (100, -2):
                expect("does not exist", lambda: torch.accelerator.reset_peak_memory_stats(index))
            x = torch.arange(4.0, device="sim")
            y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
            expect("cannot be resized", lambda: y.resize_(8))
        """)

    def test_a_row_of_a_vendor_replaces_that_of_the_table(self):
        run("""
            tenon.load(os.environ["LIBRARY"])
            tenon.fallback_to_cpu("sim")
            td.enable("sim", operators={"aten::hardshrink.out": "forms::plain(self)"})
            assert F.hardshrink(torch.ones(2, device="sim")).cpu().tolist() == [2, 2]
            assert td.table()["aten::hardshrink.out"] == ["forms::plain(self)"]
        """, LIBRARY=built("forms.c", self.LIBRARY))

    def test_a_row_that_is_not_valid_says_what_is_wrong(self):
        for row, why in (({"aten::relu": "core::relu(x)"}, "has no argument x; it has self"),
                         ({"aten::relu": "core::relu(self, self)"}, "core::relu has 1 arguments: x"),
                         ({"aten::relu": "core::softmax(self, axe=1)"}, "core::softmax has no argument axe; it has x, axis"),
                         ({"aten::var_mean.correction": "core::relu(self)"}, "its last call has fewer results than aten::var_mean.correction"),
                         ({"aten::relu": "core::transpose(self, perm='10')"}, "the value of perm is of another kind"),
                         ({"aten::relu": "core::reduce_sum(self, keepdims=0.5)"}, "the value of keepdims is of another kind"),
                         ({"aten::relu": "core::relu(core::copy(self, self))"}, "a call "),
                         ({"aten::relu": "core::uniform_(self)"}, "a call writes to its argument"),
                         ({"aten::relu": "relu("}, "is not valid")):
            with self.subTest(row=row):
                is_found_by_python = any(word in why for word in ("has", "is not valid")) and "results" not in why
                again = "\ntd.enable('sim')" if is_found_by_python else ""
                run(f"expect({why!r}, lambda: td.enable('sim', operators={row!r}))" + again)


    def test_the_page_of_operators_is_that_of_the_tables(self):
        env = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "torch_operators.py"), "--check"], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(done.stdout + done.stderr, "")


class Counted(unittest.TestCase):
    """What runs in host memory in place of the device is counted."""

    def test_casts_and_copies_in_host_memory_are_counted_and_fills_are_the_devices(self):
        run("""
            tenon.load(os.environ["PLUGIN"])
            td.enable("vx")
            x = torch.ones(4, 4, device="vx")
            x.zero_(), x.fill_(2), x[1].fill_(3)
            assert td.fallbacks() == {}, td.fallbacks()
            assert x.cpu()[0, 0] == 2 and x.cpu()[1, 3] == 3
            x.half()
            assert td.fallbacks(clear=True) == {"aten::_copy_from": 1}
            x.t().contiguous()
            assert td.fallbacks(clear=True) == {"aten::_copy_from": 1}
            with td.strict(immediately=True):
                expect("aten::_copy_from has no kernel on device vx (", x.half)
                expect("aten::_copy_from has no kernel on device vx, and strict mode", x.t().contiguous)
            td.deny_fallback("aten::_copy_from")
            expect("its fallback to the CPU is denied", x.half)
            expect("PyTorch has no operator aten::nonsense", lambda: td.deny_fallback("aten::nonsense"))
        """, PLUGIN=os.path.join(BUILD, "tests", "vx.so"))

    def test_the_reason_why_the_device_did_not_serve_a_call_is_told(self):
        run("""
            td.enable("sim")
            torch.ones(2, device="sim").to(torch.float8_e5m2) == 1
            reason = td.fallback_reasons()["aten::eq.Scalar_out"]
            assert "core::equal" in reason and "f8e5m2" in reason, reason
            def step():
                with td.strict():
                    torch.ones(2, device="sim").to(torch.float8_e5m2) == 1
            expect(f"aten::eq.Scalar_out  1 time: {reason}", step)
        """)

    def test_a_reason_is_that_of_the_call_that_fell_back(self):
        run("""
            td.enable("sim")
            x = torch.tensor([True, False], device="sim")
            assert (x & x).tolist() == [True, False]  # its first row is for ints, and the second one serves it
            assert td.fallbacks() == {}
            torch.ones(2, device="sim").erfc()
            assert td.fallbacks() == {"aten::erfc.out": 1} and td.fallback_reasons() == {}, td.fallback_reasons()
        """)

    def test_contexts_of_strict_mode_do_not_end_each_other(self):
        run("""
            td.enable("sim")
            x = torch.ones(2, device="sim")
            with td.strict(immediately=True):
                with td.strict(immediately=True):
                    pass
                expect("strict mode", x.erfc)
            x.erfc()
            def step():
                with td.strict():
                    x.erfc()
                    td.fallbacks(clear=True)
            expect("aten::erfc.out  1 time", step)
            assert td.fallbacks() == {}
        """)

    def test_lists_of_bools_are_joined_on_the_device(self):
        run("""
            td.enable("sim")
            x = torch.tensor([True, False], device="sim")
            with td.strict():
                assert torch.cat([x, x]).tolist() == [True, False, True, False]
        """)


class Shortcuts(unittest.TestCase):
    def test_a_call_that_a_shortcut_does_not_serve_is_that_of_pytorch(self):
        """Operators without `out` take the rows of those with it only if all tensors are alike; PyTorch checks and promotes the others."""
        run("""
            td.enable("sim")
            def same(call, *tensors):
                found, expected = call(*[t.to("sim") for t in tensors]), call(*tensors)
                assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride()), (found, expected)
                assert torch.equal(found.cpu(), expected)
            x, whole = torch.arange(24.).view(2, 3, 2, 2), torch.arange(4)
            same(torch.add, x, x), same(torch.add, x, x[0]), same(torch.add, whole, whole), same(torch.add, x, torch.tensor(2.))
            last = x.contiguous(memory_format=torch.channels_last)
            same(torch.add, last, last), same(torch.mul, last, x), same(torch.neg, x.transpose(1, 3))
            same(lambda a: a.amax(0), last), same(lambda a: a.sum(0), whole.int()), same(torch.add, x[0], x)
            same(torch.eq, x, x), same(lambda a: a.sum(1), x), same(lambda a: a.sum(0), whole), same(lambda a: a.sum(1), x.half())
            same(torch.div, whole, whole + 1), same(lambda a: a.sum(1, dtype=torch.float64), x), same(lambda a: torch.add(a, a, alpha=3), x)
            same(torch.mm, x.view(6, 4), x.view(4, 6)), same(lambda a: a.softmax(-1), x), same(torch.add, x[:0], x[:0])
            y = x.to("sim")
            expect("must match the size", lambda: y + y.view(3, 8)[:, :5])
            expect("Dimension out of range", lambda: y.sum(7))
            expect("mat1 and mat2 shapes cannot be multiplied", lambda: y.view(6, 4) @ y.view(6, 4))
        """)


class Errors(unittest.TestCase):
    def test_a_process_has_one_such_device(self):
        run("""
            assert td.enable("sim") is td.enable("sim")
            expect("PyTorch has one PrivateUse1 device in a process: it is already Tenon's backend 'sim' as 'sim'", lambda: td.enable("null"))
        """)

    def test_names_that_pytorch_has_are_refused_or_changed(self):
        run("""
            expect("'cuda' is a device of PyTorch's own: choose another name", lambda: td.enable("sim", name="cuda"))
            for name in ("my device", "npu2", "fx"):
                expect("consists of letters and '_'", lambda: td.enable("sim", name=name))
            td.enable("sim", name="npu")
            assert torch.empty(1, device="npu").device.type == "npu" and torch.npu.device_count() == 2
        """)

    def test_a_backend_that_does_not_exist_is_named(self):
        run('expect("nonesuch", lambda: td.enable("nonesuch"))')

    def test_torch_compile_runs_whole_graphs_on_the_device(self):
        run("""
            from torch import nn
            td.enable("sim")
            def made():
                torch.manual_seed(0)
                return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
            net, twin = made(), made().to("sim")
            reports = []
            for n in (4, 5, 7):
                x = torch.randn(n, 6)
                with torch.no_grad(), td.strict():
                    found = tenon.torch.explain(twin, x.to("sim")) if n == 4 else compiled(x.to("sim"))
                if n == 4:
                    assert [(g.kind, g.parts, g.handed_back) for g in found.graphs] == [("inference", 1, [])], found
                    found, compiled = found.result, torch.compile(twin, backend="tenon", dynamic=True)
                assert found.device.type == "sim"
                torch.testing.assert_close(found.cpu(), net(x).detach())
            loss = net(x).square().mean()
            loss.backward()
            with td.strict():
                made_loss = compiled(x.to("sim")).square().mean()
                made_loss.backward()
            torch.testing.assert_close(made_loss.detach().cpu(), loss.detach())
            for p, q in zip(net.parameters(), twin.parameters()):
                torch.testing.assert_close(q.grad.cpu(), p.grad)
            mixed = tenon.torch.explain(lambda a, b: (a * 2).cpu() + b, torch.ones(3).to("sim"), torch.ones(3))
            assert mixed.result.tolist() == [3, 3, 3] and "it has tensors on" in str(mixed), mixed
        """)

    def test_a_missing_compiler_says_what_to_install(self):
        run("""expect("needs a C++ compiler once", lambda: td.enable("sim"))
expect("apt install g++", lambda: td.enable("sim"))""", CXX="/nonexistent/c++", TENON_CACHE=os.path.join(FOLDER, "empty"))

    def test_a_package_with_the_library_that_does_not_fit_is_named(self):
        for name, words in (("torch_device-2.12.0-0123456789abcdef.so", "the installed package libtenon-torch is for PyTorch 2.12.0"),
                            ("torch_device-2.13.0-0123456789abcdef.so", "the installed package libtenon-torch is for another build of Tenon or of PyTorch")):
            folder = tempfile.mkdtemp(dir=FOLDER)
            os.mkdir(os.path.join(folder, "libtenon_torch"))
            for file in "__init__.py", name:
                open(os.path.join(folder, "libtenon_torch", file), "w", encoding="utf-8").close()
            run(f"""
                sys.path.append({folder!r})
                expect("or set CXX; {words}", lambda: td.enable("sim"))
            """, CXX="/nonexistent/c++", TENON_CACHE=os.path.join(folder, "cache"))

    def test_a_prebuilt_library_fits_the_builds_of_one_commit(self):
        run("""
            from tenon.torch.device import build
            name = build.prebuilt_name()
            torch.__version__ = build.release() + "+cu130"
            assert build.prebuilt_name() == name
            torch.version.git_version = "Unknown"
            assert build.prebuilt_name() != name
        """)

    def test_an_older_pytorch_is_refused_before_anything_is_compiled(self):
        run("""
            torch.__version__ = "2.12.1+cpu"
            expect("RuntimeError: a Tenon device in PyTorch needs PyTorch 2.13, and PyTorch 2.12.1+cpu was found", lambda: td.enable("sim"))
            expect("install PyTorch 2.13 (pip install 'torch==2.13.*')", lambda: td.enable("nonesuch"))
        """, CXX="/nonexistent/c++", TENON_CACHE=os.path.join(FOLDER, "empty"))

    def test_an_error_of_the_compiler_is_shown_from_its_beginning_and_kept_whole(self):
        compiler = built("failing", r"""#!/usr/bin/env python3
import sys
lines = [b"a.h:1:1: warning: first", b"\xfft.h:2:3: error: no member named \xe9", b"  2 | int"] + [b"t.h:9:9: note: %d" % i for i in range(500)]
sys.stderr.buffer.write(b"\n".join(lines + [b"last", b""]))
sys.exit(4)
""")
        os.chmod(compiler, 0o755)
        for version, words in (("2.13.0", "exit status 4. The first error, of 504 lines"), ("2.14.0", "This PyTorch is newer than 2.13, the release that this Tenon was tested with")):
            for cache in os.path.join(FOLDER, "failing-cache"), "off":
                run(f"""
                    import re
                    torch.__version__ = {version!r}
                    text = said(lambda: td.enable("sim"))
                    assert {words!r} in text and "failed for PyTorch {version}, with exit status 4" in text, text
                    assert "\\ufffdt.h:2:3: error: no member named \\ufffd\\n  2 | int\\nt.h:9:9: note: 0" in text, text
                    assert len(text) < 1200 and "warning" not in text and "last" not in text, text
                    log = re.search(r"output in (.*):\\n", text)[1]
                    with open(log, encoding="utf-8") as file:
                        lines = file.read().splitlines()
                    assert "failing" in lines[0] and "warning" in lines[1] and lines[-1] == "last", lines
                    os.remove(log)
                """, CXX=compiler, TENON_CACHE=cache)

    def test_processes_that_start_together_compile_once(self):
        run("""
            import shutil, threading, time
            from tenon.torch.device import build
            made, calls = build.library(), []
            os.environ["TENON_CACHE"] = os.environ["EMPTY"]
            def compile(path, *rest):
                calls.append(path)
                time.sleep(0.3)
                shutil.copy(made, path)
            build._compile = compile
            threads = [threading.Thread(target=build.library) for _ in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert len(calls) == 1 and build.library() == calls[0], calls
        """, EMPTY=os.path.join(FOLDER, "together"))

    def test_a_libtenon_that_was_replaced_under_the_process_is_refused(self):
        folder = tempfile.mkdtemp(dir=FOLDER)
        shutil.copy(os.path.join(BUILD, "libtenon.so.1"), folder)
        run("""
            from tenon.torch.device import build
            path = os.environ["LD_LIBRARY_PATH"] + "/libtenon.so.1"
            assert build._libtenon() == path
            os.remove(path)
            open(path, "w").close()
            expect(f"RuntimeError: {path} was replaced or removed after this process had loaded it", lambda: td.enable("sim"))
            expect("restart the process", lambda: td.enable("sim"))
        """, LD_LIBRARY_PATH=folder)

    def test_the_rules_for_loading_hold_for_the_library(self):
        run("""
            tenon.policy(folders=["/nowhere"])
            expect("rule folders (tenon_policy_set): it is not in /nowhere", lambda: td.enable("sim"))
            expect("DeniedError: cannot load /", lambda: td.enable("sim"))
            tenon.policy(inert=True)
            expect("DeniedError", lambda: td.enable("sim"))
            tenon.policy(folders=[os.environ["TENON_CACHE"]])
            td.enable("sim")
            assert torch.ones(3, device="sim").sum().item() == 3
        """, TENON_CACHE=os.environ.get("TENON_CACHE", os.path.join(BUILD, "cache")))

    def test_running_out_of_memory_is_an_error_with_a_report_and_the_next_call_works(self):
        run("""
            td.enable("sim")
            torch.sim.set_per_process_memory_fraction(0.01)
            try:
                torch.empty(1 << 30, device="sim")
            except torch.OutOfMemoryError as error:
                assert "sim:0" in str(error), error
            else:
                raise AssertionError("nothing was raised")
            assert torch.ones(3, device="sim").sum().item() == 3
        """)

    def test_a_stream_that_nobody_made_is_an_error(self):
        run("""
            td.enable("sim")
            made = torch.Stream("sim")
            assert torch.sim.Stream(stream_id=made.stream_id, device_index=0, device_type=made.device_type).query()
            for id in (1, made.stream_id + 8, -1):
                expect(f"device sim:0 has no stream with the id {id}", torch.Stream(stream_id=id, device_index=0, device_type=made.device_type).query)
        """)

    def test_a_row_for_an_operator_that_pytorch_decomposes_is_refused(self):
        run("""
            expect("aten::linear consists of other operators", lambda: td.enable("sim", operators={"aten::linear": "core::relu(input)"}))
        """)

    def test_a_device_index_that_does_not_exist_is_an_error(self):
        run("""
            td.enable("sim")
            expect("sim:7 does not exist: this machine has 2 device(s)", lambda: torch.empty(1, device="sim:7"))
            expect("sim:7 does not exist", lambda: torch.sim.set_device(7))
            assert torch.empty(1, device="sim").device.index == 0
        """)

    def test_tensors_on_two_devices_are_an_error_also_in_operators_that_fall_back(self):
        run("""
            td.enable("sim")
            a, b = torch.ones(2, 2, device="sim:0"), torch.ones(2, 2, device="sim:1")
            for call in (lambda: a + b, lambda: torch.hypot(a, b), lambda: torch.linalg.solve(a, b), lambda: torch.mm(a, b)):
                expect("device", call)
        """)

    def test_a_library_that_others_may_write_to_is_not_loaded(self):
        import tenon  # noqa: F401  (loads libtenon)
        from tenon.torch.device import build
        path = os.path.join(FOLDER, "library.so")
        self.assertFalse(build._is_own(path))
        for mode, is_own in ((0o755, True), (0o775, False), (0o757, False)):
            with open(path, "w", encoding="utf-8"):
                os.chmod(path, mode)
            self.assertEqual(build._is_own(path), is_own)

    def test_a_layout_that_the_device_lacks_is_an_error(self):
        run("""
            td.enable("sim")
            expect("NotImplementedError", lambda: torch.eye(2).to_sparse().to("sim"))
            assert torch.ones(2, device="sim").sum().item() == 2
        """)

    def test_the_child_of_a_fork_is_told_that_the_device_is_lost(self):
        run("""
            td.enable("opencl")
            x = torch.ones(2, device="tenon_opencl")
            torch.tenon_opencl.synchronize()
            if (pid := os.fork()) == 0:
                text = said(lambda: (x + 1).cpu())
                os._exit(0 if "fork" in text else (print(text, flush=True), 1)[1])
            assert os.waitpid(pid, 0)[1] == 0
            assert (x + 1).cpu().tolist() == [2, 2]
        """)

    def test_a_device_that_survives_a_fork_works_in_the_child(self):
        run("""
            td.enable("sim")
            x = torch.ones(2, device="sim")
            torch.sim.synchronize()  # work that is in flight does not survive
            child = os.fork()
            if not child:
                torch.sim.init()
                torch.manual_seed(0)
                os._exit(not (torch.sim.is_initialized() and (torch.ones(2, device="sim") + 1).tolist() == [2, 2]))
            assert os.waitpid(child, 0)[1] == 0
        """)

    def test_failed_work_names_the_operator_and_the_other_device_works(self):
        run("""
            td.enable("sim")
            x = torch.ones(4, device="sim")
            (x + x).cpu()
            tenon.load  # the simulated device is lost at its next piece of work
            y = torch.ones(4, device="sim:1")
            for _ in range(3):
                expect("sim:0", lambda: [(x + x).cpu() for _ in range(20)])
            assert (y + y).cpu().tolist() == [2.0] * 4
        """, TENON_SIM="lose=0:12")


class Vendors(unittest.TestCase):
    def test_a_package_enables_its_device_by_the_entry_point_of_pytorch(self):
        package = os.path.join(FOLDER, "site")
        os.makedirs(os.path.join(package, "npu_torch-1.0.dist-info"), exist_ok=True)
        with open(os.path.join(package, "npu_torch.py"), "w", encoding="utf-8") as file:
            file.write("def load():\n    import tenon.torch.device as td\n    td.enable('sim', name='npu')\n")
        for name, text in (("METADATA", "Metadata-Version: 2.1\nName: npu_torch\nVersion: 1.0\n"), ("entry_points.txt", "[torch.backends]\nnpu = npu_torch:load\n")):
            with open(os.path.join(package, "npu_torch-1.0.dist-info", name), "w", encoding="utf-8") as file:
                file.write(text)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(BUILD, "python"), package])}
        program = "import torch; x = torch.ones(3, device='npu'); print(x.sum().item(), torch.npu.device_count())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(done.stdout.split(), ["3.0", "2"], done.stderr)


if __name__ == "__main__":
    totals.main()
