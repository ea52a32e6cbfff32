"""sim as a backend of PyTorch: `torch.device("sim:0")`, by torch_device.cc."""
import os
import subprocess
import types

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SIM = os.path.join(BUILD, "devices", "sim.so")


def build():
    """Builds the library, which stays in the build folder for each release of PyTorch."""
    source, root = os.path.join(ROOT, "tests", "adapters", "torch_device.cc"), os.path.dirname(torch.__file__)
    path = os.path.join(BUILD, f"torch_device-{torch.__version__}.so")
    headers = [os.path.join(ROOT, *parts) for parts in (("include", "tenon", "device.h"), ("include", "tenon", "op.h"), ("devices", "sim", "sim.h"))]
    if not os.path.exists(path) or os.path.getmtime(path) <= max(map(os.path.getmtime, (source, *headers))):
        folders = [f"-I{os.path.join(ROOT, 'include')}", f"-I{os.path.join(ROOT, 'devices')}", f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include"]
        flags = ["-std=c++20", "-O0", "-w", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
        part = f"{path}.{os.getpid()}"
        subprocess.run([os.environ.get("CXX", "c++"), *flags, *folders, source, "-o", part, f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"], check=True)
        os.replace(part, path)
    return path


def start(tenon, with_streams):
    """Returns the functions that tests use: open, races, set, counts."""
    module = types.ModuleType("torch.sim")
    module.is_available = module.is_initialized = lambda: True
    module.device_count, module.current_device = lambda: 2, lambda: 0
    module._is_in_bad_fork, module.manual_seed_all = lambda: False, lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    torch.utils.rename_privateuse1_backend("sim")
    torch._register_device_module("sim", module)
    torch.ops.load_library(build())
    tenon.load(SIM)  # from this file, so that the backend finds the table that Tenon uses
    for ordinal in range(2):
        tenon.tensor(0.0, "f32", device=f"sim:{ordinal}")
    torch.ops.sim_backend.open(SIM, with_streams)
    return torch.ops.sim_backend
