"""Support of torch.autocast for the operators that Tenon's own autocast converts."""
import torch


def register(op, name, overload, home):
    """Makes an operator that Tenon's autocast runs in lower precision, or in f32, behave the same under torch.autocast."""
    lower, single = ("autocast " + word in op.kernels for word in ("lower", "f32"))
    if not lower and not single:
        return
    for key, device in (("AutocastCPU", "cpu"), ("AutocastCUDA", "cuda"), ("AutocastXPU", "xpu"), ("AutocastPrivateUse1", None)):
        home.impl(name.split("::")[1], _kernel(overload, lower, key, device), key)


def _kernel(overload, lower, key, device):
    below = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def cast(value, dtype):
        if isinstance(value, (list, tuple)):
            return [cast(v, dtype) for v in value]
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.bfloat16, torch.float16) else value

    def run(*args, **named):
        dtype = torch.get_autocast_dtype(device or torch._C._get_privateuse1_backend_name()) if lower else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(below):
            return overload()(*(cast(a, dtype) for a in args), **{k: cast(v, dtype) for k, v in named.items()})
    return run
