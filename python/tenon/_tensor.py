"""What tenon.Tensor does like other Python objects: indexing, truth value, numbers, copies and pickling.

tenon.Tensor is a type defined in C; add_to() adds these methods to it.
"""
from . import _core


def _only(tensor, what):
    """Returns the only element as a Python number."""
    if tensor.size != 1:
        raise TypeError(f"a tenon.Tensor of {tensor.size} elements has no {what}: expected one element; use x.numpy() for more")
    return tensor.item()


def _bool(self):
    return bool(_only(self, "truth value"))


def _float(self):
    return float(_only(self, "value as a float"))


def _int(self):
    return int(_only(self, "value as an int"))


def _getitem(self, key):
    """A tensor over the memory of the elements, or a copy where NumPy's indexing makes one."""
    if self.device != "cpu":
        raise TypeError(f"cannot index a tensor on {self.device}: call x.to('cpu') first")
    array = self.numpy()
    if isinstance(array, _core.Tensor):
        raise TypeError(f"cannot index a tensor of {self.dtype}: NumPy has no such type")
    import numpy
    return _core.from_dlpack(numpy.asarray(array[key]))


def _iter(self):
    return (self[index] for index in range(len(self)))


def _copy(self):
    return self.copy()


def _deepcopy(self, memo):
    return self.copy()


def _sparse(make, values, indices, indptr, shape):
    return _core.csr(values, indices, indptr, shape) if make == "csr" else _core.row_sparse(values, indices, shape)


def _dense(array, device):
    made = _core.from_dlpack(array)
    return made if device == "cpu" else made.to(device)


def _reduce(self):
    """Pickles the elements.  A tensor of a device is restored on a device of the same name."""
    if self.layout in ("csr", "row_sparse"):
        return _sparse, (self.layout, self.values, self.indices, self.indptr, self.shape)
    if self.layout != "dense":
        raise TypeError(f"cannot pickle a tensor of layout {self.layout}: pickle its parts")
    array = self.numpy()
    if isinstance(array, _core.Tensor):
        raise TypeError(f"cannot pickle a tensor of {self.dtype}, a type that NumPy does not have: pickle x.numpy() of a cast to f32")
    return _dense, (array.copy(), self.device)


def add_to(type_):
    """Adds the methods to tenon.Tensor."""
    type_.__bool__, type_.__float__, type_.__int__ = _bool, _float, _int
    type_.__getitem__, type_.__iter__ = _getitem, _iter
    type_.__copy__, type_.__deepcopy__, type_.__reduce__ = _copy, _deepcopy, _reduce
