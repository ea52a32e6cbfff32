"""Tenon's operators in a program without Python: TorchScript files and AOTInductor packages that call them, run by torch_deploy.cc."""
import atexit
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Optional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
FOLDER = tempfile.mkdtemp(prefix="tenon-deploy-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
tempfile.tempdir = os.environ["TMPDIR"] = FOLDER  # for PyTorch's files, too
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER, "inductor")
sys.path[:0] = [os.path.join(BUILD, "python")]
import onnx
import torch

import tenon
import tenon.torch
import totals
from torch_kinds import GELU, KINDS

warnings.simplefilter("ignore")


MODEL = os.path.join(FOLDER, "tanh.onnx")


def save_model():
    helper = onnx.helper
    ports = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4])] for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "tanh", *ports)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)


class Net(torch.nn.Module):
    """A model, and operators with lists, with absent inputs, with texts, that write to inputs, and that return a list."""

    def __init__(self):
        super().__init__()
        self.model, self.w = MODEL, torch.nn.Parameter(torch.linspace(-1, 1, 8).reshape(4, 2), requires_grad=False)

    def forward(self, x, more: Optional[torch.Tensor]):
        y = torch.ops.demo.gelu(x)
        torch.ops.kinds.scale_(y, by=2.0)
        total = torch.ops.kinds.total([x, y], more, choice="two", extra=0.25)
        a, b = torch.ops.core.split(y, count=2, axis=1)
        y = torch.ops.tenon.run([y], model=self.model)[0]
        return torch.ops.core.add(torch.ops.core.matmul(y, self.w), total), torch.ops.core.add(torch.ops.core.sub(a, b), torch.ops.kinds.total([y]))


def expected(x, more, w):
    """The same net by PyTorch's own operators."""
    y = torch.nn.functional.gelu(x) * 2
    a, b = y.chunk(2, 1)
    total, y = x.sum() + y.sum() + 100 * more + 2 + 0.25, torch.tanh(y)
    return y @ w + total, a - b + (y.sum() + 0.5)


def start_compiling():
    """Returns the program, which stays in the build folder for each release of PyTorch, and the process that compiles it, or None."""
    source, root = os.path.join(ROOT, "tests", "adapters", "torch_deploy.cc"), os.path.dirname(torch.__file__)
    program = os.path.join(BUILD, f"torch_deploy-{torch.__version__}")
    newest = max(os.path.getmtime(path) for path in (source, os.path.join(ROOT, "include", "tenon", "torch.h")))
    if os.path.exists(program) and os.path.getmtime(program) > newest:
        return program, None
    folders = [f"-I{os.path.join(ROOT, 'include')}", f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include"]
    libraries = [f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-L{BUILD}", "-ltenon_torch", "-ltenon", f"-Wl,-rpath,{root}/lib:{BUILD}"]
    flags = ["-std=c++20", "-O0", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    return program, subprocess.Popen([os.environ.get("CXX", "c++"), *flags, *folders, source, "-o", program + ".part", *libraries])


class WithoutPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")  # unittest has reset the filter
        begin = time.time()
        cls.program, compiler = start_compiling()
        cls.libraries = [os.path.join(FOLDER, "gelu.so"), os.path.join(FOLDER, "kinds.so")]
        source = os.path.join(FOLDER, "kinds.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(KINDS)
        for path, library in zip((GELU, source), cls.libraries):
            subprocess.run([os.path.join(BUILD, "tenon"), "build", path, "-o", library], check=True, stdout=subprocess.DEVNULL)
            tenon.torch.register(tenon.load(library))
        tenon.torch.register("core")
        save_model()
        tenon.torch.load(MODEL)
        net = Net().eval()
        cls.x, cls.more = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8 - 0.5, torch.ones(1)
        cls.results, cls.w = net(cls.x, cls.more), net.w
        cls.script, cls.package = os.path.join(FOLDER, "net.pt"), os.path.join(FOLDER, "net.pt2")
        torch.jit.script(net).save(cls.script)
        program = torch.export.export(net, (cls.x, cls.more), dynamic_shapes=({0: torch.export.Dim("n")}, None))
        settings = {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False}
        torch._inductor.aoti_compile_and_package(program, package_path=cls.package, inductor_configs=settings)
        made = time.time()
        if compiler:
            if compiler.wait() != 0:
                raise RuntimeError("the program does not compile")
            os.replace(cls.program + ".part", cls.program)
        print(f"made in {made - begin:.0f} s, the program {'in ' + format(time.time() - begin, '.0f') + ' s beside it' if compiler else 'was there'}")

    def run_program(self, libraries, *files):
        done = subprocess.run([self.program, *libraries, "--", *files], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_files_give_in_a_program_without_python_what_they_give_in_python(self):
        for found, reference in zip(self.results, expected(self.x, self.more, self.w)):
            torch.testing.assert_close(found, reference)
        status, text = self.run_program(self.libraries, self.script, self.package)
        *lines, last = text.splitlines()
        self.assertEqual((status, last), (0, "Python in the process: no"), text)
        bits = [" ".join(f"{v & 0xffffffff:08x}" for v in result.view(torch.int32).flatten().tolist()) for result in self.results]
        self.assertEqual(lines, [f"{name} {b}" for name in ("net.pt", "net.pt2") for b in bits])

    def test_a_library_that_was_not_loaded_is_named(self):
        for file in self.script, self.package:
            status, text = self.run_program(self.libraries[1:], file)
            self.assertEqual(status, 3)
            self.assertIn("demo::gelu", text)
        self.assertEqual(self.run_program(["./nowhere.so"], self.script), (2, "not loaded: cannot load ./nowhere.so: No such file or directory\n"))

    def test_a_library_is_registered_once(self):
        bridge, reports = tenon.torch._bridge(), []
        for key in 0, int(torch._C.DispatchKey.AutogradFunctionality):
            report, error = ctypes.c_void_p(), ctypes.c_char_p()
            self.assertEqual(bridge.tenon_torch_register(b"kinds", key, ctypes.byref(report), ctypes.byref(error)), 0)
            reports.append(ctypes.string_at(report).decode())
            bridge.tenon_torch_release(report)
        self.assertEqual(reports[0], reports[1])
        self.assertRegex(reports[0], r"kinds::total\t\ttotal\(Tensor\[\] xs")  # no operator is listed as omitted
        self.assertEqual(bridge.tenon_torch_load(self.libraries[1].encode(), ctypes.byref(error)), 0)


if __name__ == "__main__":
    totals.main()
