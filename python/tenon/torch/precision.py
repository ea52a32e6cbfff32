"""Support of torch.autocast: operators behave as under Tenon's own autocast (docs/dispatch.md)."""
import functools

import torch

FLOATS = torch.float16, torch.bfloat16, torch.float32, torch.float64


def register(op, name, overload, home):
    """Makes an operator run in the dtypes that Tenon's autocast chooses: lower precision, f32, or, for an operator in neither list, the widest dtype
    of the inputs that must have the same dtype."""
    lower, single = ("autocast " + word in op.kernels for word in ("lower", "f32"))
    groups = () if lower or single else _groups(op)
    if not lower and not single and not groups:
        return
    for key, device in (("AutocastCPU", "cpu"), ("AutocastCUDA", "cuda"), ("AutocastXPU", "xpu"), ("AutocastPrivateUse1", None)):
        kernel = _widening_kernel(op, overload, groups, key) if groups else _kernel(overload, lower, key, device)
        home.impl(name.split("::")[1], kernel, key)


def _groups(op):
    """The names of the tensors that must have the same dtype, by TENON_TYPES ("x, y: f32|bf16; w = x"), in groups of two or more, or
    of one list."""
    lists = {p["name"] for p in op.parameters if p["kind"].endswith("[]")}
    inputs = [p["name"] for p in op.parameters if p["tensor"]]
    if any(p["written"] for p in op.parameters):
        return ()
    source = {}
    for rule in filter(str.strip, (op.types or "").split(";")):
        names, same, like = rule.partition("=")
        names = [name.strip() for name in (names if same else rule.partition(":")[0]).split(",")]
        source.update({name: like.strip() if same else names[0] for name in names})

    def lead(name):
        while source.get(name, name) != name:
            name = source[name]
        return name
    leads = {name: lead(name) for name in inputs}
    groups = [[name for name in inputs if leads[name] == each] for each in dict.fromkeys(leads.values()) if each != "?"]
    return [group for group in groups if len(group) > 1 or group[0] in lists]


def _widening_kernel(op, overload, groups, key):
    below = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    names = [p["name"] for p in op.parameters]

    def tensors(value):
        return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else [value] if isinstance(value, torch.Tensor) else []

    def cast(value, dtype):
        if isinstance(value, (list, tuple)):
            return [cast(v, dtype) for v in value]
        return value.to(dtype) if isinstance(value, torch.Tensor) else value

    def run(*args, **named):
        given = {**dict(zip(names, args)), **named}
        for group in groups:
            dtypes = {t.dtype for name in group for t in tensors(given.get(name))}
            if len(dtypes) > 1 and dtypes <= set(FLOATS):
                given.update({name: cast(given[name], functools.reduce(torch.promote_types, dtypes)) for name in group if name in given})
        with torch._C._ExcludeDispatchKeyGuard(below):
            return overload()(*(given[name] for name in names[:len(args)]), **{name: given[name] for name in named})
    return run


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
