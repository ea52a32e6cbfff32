"""Devices of PyTorch that are Tenon's."""
import torch

from .. import _backends, device


def device_name(where):
    """The name that a device of PyTorch has in Tenon, such as "cpu" or "sim:1"; None: it is not Tenon's."""
    if where.type == "cpu":
        return "cpu"
    backend, name = device._enabled or (None, None)
    kind = "privateuseone" if where.type == torch._C._get_privateuse1_backend_name() else where.type
    backend = backend if name == where.type else _backends.get(kind)
    return backend and f"{backend}:{where.index or 0}"
