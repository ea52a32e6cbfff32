"""Calls of operators of the test libraries (mxnet/plain.c, mxnet/header.cc), made by real MXNet and by Tenon with the same arrays."""
import numpy as np

_random = np.random.default_rng(7)


def _array(*shape, dtype=np.float32):
    return (_random.standard_normal(shape) * 4).astype(dtype)


def _sparse(rows, columns, kept):
    dense = np.where(_random.random((rows, columns)) < kept, _array(rows, columns), np.float32(0))
    return dense.astype(np.float32)


def case(op, *inputs, heads=None, wants=None, calls=1, layouts=None, seed=None, where=("nd",), **attributes):
    """heads: gradients of the results, None if they are of no use; wants: the request for each input ("write", "add", "null"); layouts: the layout
    of each input; where: "nd" (a call) or "sym" (a symbol that is bound and run)."""
    return {"op": op, "inputs": list(inputs), "heads": heads, "wants": wants or ["write"] * len(inputs), "calls": calls, "layouts": layouts or ["default"] * len(inputs),
            "seed": seed, "where": where, "attributes": {k: str(v) for k, v in attributes.items()}}


BOTH = ("nd", "sym")
x, y = _array(2, 3), _array(2, 3)
PLAIN = {
    "scale": case("t_scale", x, heads=[y], where=BOTH), "scale by 3": case("t_scale", x, heads=[y], factor=3, where=BOTH),
    "scale f64": case("t_scale", _array(4, dtype=np.float64), heads=[_array(4, dtype=np.float64)], factor=-0.5),
    "scale of three axes": case("t_scale", _array(2, 3, 4), heads=[_array(2, 3, 4)], factor=1e-3),
    "scale of one": case("t_scale", _array(1), heads=[_array(1)]),
    "gradients that are added": case("t_scale", x, heads=[y], wants=["add"], factor=5),
    "product": case("t_gemm", _array(3, 4), _array(4, 2), heads=[_array(3, 2)], where=BOTH),
    "product f64": case("t_gemm", _array(5, 1, dtype=np.float64), _array(1, 6, dtype=np.float64), heads=[_array(5, 6, dtype=np.float64)]),
    "product, one gradient": case("t_gemm", _array(3, 4), _array(4, 2), heads=[_array(3, 2)], wants=["write", "null"]),
    "product, one added": case("t_gemm", _array(3, 4), _array(4, 2), heads=[_array(3, 2)], wants=["null", "add"]),
    "two results": case("t_sumdiff", x, y, heads=[_array(2, 3), _array(2, 3)], where=BOTH),
    "two results f64": case("t_sumdiff", _array(3, dtype=np.float64), _array(3, dtype=np.float64), heads=[_array(3, dtype=np.float64), _array(3, dtype=np.float64)]),
    "join of one": case("t_join", _array(3), heads=[_array(3)], num_args=1),
    "join of three": case("t_join", _array(3), _array(1), _array(4), heads=[_array(8)], num_args=3, where=BOTH),
    "what it writes to": case("t_running", x, y, calls=1), "what it writes to, twice": case("t_running", x, y, calls=2),
    "a counter": case("t_counter", x, heads=[y], factor=2), "a counter of a symbol": case("t_counter", x, heads=[y], factor=3, calls=3, where=("sym",)),
    "sorted": case("t_sort", _array(17)), "sorted f64": case("t_sort", _array(5, dtype=np.float64)),
    "csr to csr": case("t_csr_scale", _sparse(4, 5, 0.4), layouts=["csr"]), "csr of nothing": case("t_csr_scale", _sparse(3, 2, 0), layouts=["csr"]),
    "csr to dense": case("t_csr_dense", _sparse(4, 5, 0.4), layouts=["csr"]),
    "rows": case("t_rows_square", np.concatenate([_array(1, 3), np.zeros((2, 3), np.float32), _array(1, 3)]), layouts=["row_sparse"]),
    **{f"bytes of {np.dtype(d).name}": case("t_bytes", (np.arange(1, 7).reshape(2, 3) * 7 % 101).astype(d))
       for d in (np.float32, np.float64, np.float16, np.uint8, np.int32, np.int8, np.int64)},
    "another dtype": case("t_bytes", x, dtype=4),
}
HEADER = {
    "relu": case("h_relu", x, heads=[y], where=BOTH), "relu of a column": case("h_relu", _array(5, 1), heads=[_array(5, 1)]),
    "noise": case("h_noise", _array(4), seed=128, calls=1), "noise, a second call": case("h_noise", _array(10), seed=5, calls=2),
    "memory": case("h_memory", x, heads=[y], where=BOTH), "memory, cubes": case("h_memory", x, heads=[y], power=3, where=BOTH),
}
