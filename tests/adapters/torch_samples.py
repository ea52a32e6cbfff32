"""Arguments for calls of those built-in operators that have no gradient case: found by trying values that their schemas and types allow. For the
operators that compute gradients, the arguments of calls by gradients are used."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tenon.torch

SHAPES = (3, 4), (2, 3, 4), (4, 4), (5,), (), (1, 3, 5, 5), (2, 3, 4, 5)
DTYPES = torch.float32, torch.int64, torch.bool, torch.uint8, torch.int8, torch.int32, torch.complex64, torch.float64
ATTRIBUTES = {"int": 1, "dim": 1, "bool": True, "float": 1.0, "int[]": [1], "dim[]": [2], "float[]": [1.0], "dtype": torch.float32, "device": torch.device("cpu")}
UNSERVED = {"to_sparse": "PyTorch's sparse tensors are not Tenon's", "string_concat": "PyTorch has no texts", "string_normalizer": "PyTorch has no texts", "string_split": "PyTorch has no texts", "regex_full_match": "PyTorch has no texts",
            "allocate": "its result is uninitialised memory", "empty": "its result is uninitialised memory", "empty_like": "its result is uninitialised memory", "empty_pinned": "its result is uninitialised memory", "empty_strided": "its result is uninitialised memory",
            "copy_from_and_resize": "it gives a tensor other memory", "resize_": "it gives a tensor other memory", "set_.none": "it gives a tensor other memory", "set_.strided": "it gives a tensor other memory",
            "set_.tensor": "it gives a tensor other memory", "tree_ensemble": "its trees are attributes, whose contents a fake tensor lacks"}

_one, _zero = torch.tensor(0.5), torch.tensor(1, dtype=torch.uint8)
_u8 = torch.arange(12, dtype=torch.uint8)
GIVEN = {
    "conv_weight_backward": ([torch.randn(1, 2, 3, 3), torch.randn(1, 3, 4, 4), torch.tensor([2, 2])], {}),
    "dequantize_linear": ([_u8.reshape(3, 4), _one, _zero], {}),
    "dropout_backward": ([torch.randn(3, 4), torch.randn(3, 4) > 0], {}),
    "label_encode": ([torch.tensor([1, 2, 7])], {"keys": torch.tensor([1, 2]), "values": torch.tensor([0.5, 1.5]), "otherwise": torch.tensor(-1.0)}),
    "map_bytes": ([torch.arange(256, dtype=torch.uint8).flip(0), _u8.reshape(3, 4)], {}),
    "matmul_nbits": ([torch.randn(4, 20), torch.arange(48, dtype=torch.uint8).reshape(3, 2, 8), torch.rand(3, 2)], {"block_size": 16}),
    "mel_weights": ([torch.tensor(3), torch.tensor(16), torch.tensor(8192), torch.tensor(0.0, dtype=torch.float64), torch.tensor(4096.0, dtype=torch.float64)], {}),
    "ngram_counts": ([torch.tensor([[1, 2, 1, 2]])], {"pool": torch.tensor([1, 2, 1, 2]), "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "min_gram_length": 1,
                                                       "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}),
    "non_max_suppression": ([torch.rand(1, 6, 4), torch.rand(1, 2, 6), torch.tensor([3]), torch.tensor([0.5]), torch.tensor([0.1])], {}),
    "pairwise_classes": ([torch.randn(4, 3)], {"classes": 3}),
    "qlinear_add": ([_u8.reshape(3, 4), _one, _zero, _u8.flip(0).reshape(3, 4), _one, _zero, _one, _zero], {}),
    "qlinear_conv": ([_u8.reshape(1, 1, 3, 4), _one, _zero, _u8[:4].reshape(1, 1, 2, 2), _one, _zero, _one, _zero], {}),
    "qlinear_matmul": ([_u8.reshape(3, 4), _one, _zero, _u8.reshape(4, 3), _one, _zero, _one, _zero], {}),
    "roi_align_second": ([torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6, 6), torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([0])], {"output_height": 2, "output_width": 2}),
}


def operators():
    """The names of all built-in operators that PyTorch has, without the namespace."""
    tenon.torch.register("core")
    return [name.split("::")[1] for name, (_, why) in tenon.torch._names["core"].items() if not why]


def tensor(shape, dtype):
    numbers = torch.arange(max(1, torch.Size(shape).numel())).reshape(shape) % 3
    return numbers % 2 == 0 if dtype == torch.bool else numbers.to(dtype)


def sample(name):
    """Returns (positional, named) arguments of a call that works, or None if none was found."""
    if name in GIVEN:
        return GIVEN[name]
    op, call = tenon._core.find("core::" + name), tenon.torch.overload("core::" + name)
    for shape in SHAPES:
        for dtype in DTYPES:
            positional, named = [], {}
            for p in op.parameters:
                if p["has_default"]:
                    continue
                value = tensor(shape, dtype) if p["kind"] == "Tensor" else [tensor(shape, dtype), tensor(shape, dtype)] if p["kind"] == "Tensor[]" else p["choices"][0] if p["kind"] == "choice" else ATTRIBUTES.get(p["kind"])
                if p["keyword"]:
                    named[p["name"]] = value
                else:
                    positional.append(value)
            try:
                call(*positional, **named)
                return positional, named
            except Exception:  # these arguments do not work
                continue
    return None


class Recorder(TorchDispatchMode):
    """Keeps the arguments of the first call of each built-in operator."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "core" and function not in self.calls:
            def kept(value):
                return value.detach().clone() if isinstance(value, torch.Tensor) else [kept(v) for v in value] if isinstance(value, (list, tuple)) else value
            self.calls[function] = [kept(a) for a in args], {key: kept(value) for key, value in (kwargs or {}).items()}
        return function(*args, **(kwargs or {}))
