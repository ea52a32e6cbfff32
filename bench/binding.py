"""Tenon through ctypes: the part of tenon.h that benchmarks need: a model, its ports, tensors over given memory, runs.

It imports nothing but ctypes, so that it adds as little as possible to the memory of a process.
"""
import ctypes as c
import os


class Error(RuntimeError):
    pass


class Dtype(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Axis(c.Structure):
    _fields_ = [("extent", c.c_int64), ("name", c.c_char_p)]


class Port(c.Structure):
    _fields_ = [("size", c.c_uint32), ("name", c.c_char_p), ("dtype", Dtype), ("ndim", c.c_int32), ("axes", c.POINTER(Axis))]


class Span(c.Structure):
    _fields_ = [("size", c.c_uint32), ("depth", c.c_int32), ("name", c.c_char_p), ("kind", c.c_char_p), ("begin", c.c_int64), ("end", c.c_int64)]


class Tenon:
    def __init__(self, build):
        self.library = c.CDLL(os.path.join(build, "libtenon.so"))
        self.library.tenon_error.restype = c.c_char_p
        self.library.tenon_version.restype = c.c_char_p
        for name in ("tenon_graph_input_count", "tenon_graph_output_count", "tenon_executable_run"):
            getattr(self.library, name).argtypes = [c.c_void_p] * (4 if name.endswith("run") else 1)
        self.library.tenon_tensor_borrow.argtypes = [c.c_void_p, Dtype, c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p]
        self.library.tenon_threads_set.argtypes = [c.c_int32]

    def check(self, status):
        if status != 0:
            raise Error(self.library.tenon_error().decode())

    def version(self):
        return self.library.tenon_version().decode()

    def threads_set(self, count):
        self.library.tenon_threads_set(count)

    def tensor(self, address, dtype, shape):
        """Makes a tensor over memory of the caller, which must outlive it; `dtype` is (code, bits)."""
        made, extents = c.c_void_p(), (c.c_int64 * len(shape))(*shape)
        self.check(self.library.tenon_tensor_borrow(address, Dtype(*dtype, 1), len(shape), extents, None, None, None, c.byref(made)))
        return made

    def load(self, path):
        return Model(self, path)


class Model:
    """An executable. `inputs` and `outputs` are lists of (name, (dtype code, bits), shape with -1 for symbols)."""

    def __init__(self, tenon, path):
        self.tenon, library = tenon, tenon.library
        graph, self.executable = c.c_void_p(), c.c_void_p()
        tenon.check(library.tenon_graph_load(path.encode(), None, c.byref(graph)))
        tenon.check(library.tenon_executable_create(graph, None, c.byref(self.executable)))
        self.inputs = [self.port(graph, library.tenon_graph_input, i) for i in range(library.tenon_graph_input_count(graph))]
        self.outputs = [self.port(graph, library.tenon_graph_output, i) for i in range(library.tenon_graph_output_count(graph))]
        library.tenon_graph_release(graph)

    def port(self, graph, get, index):
        port = Port(c.sizeof(Port))
        self.tenon.check(get(graph, index, c.byref(port)))
        return port.name.decode(), (port.dtype.code, port.dtype.bits), [port.axes[d].extent for d in range(port.ndim)]

    def bind(self, inputs, outputs):
        """Sets the tensors that runs read and fill. Each run makes an output that is None; release_outputs frees it."""
        self.input_array = (c.c_void_p * len(inputs))(*inputs)
        self.output_array = (c.c_void_p * len(outputs))(*outputs)
        self.made = [i for i, output in enumerate(outputs) if output is None]
        run, check = self.tenon.library.tenon_executable_run, self.tenon.check
        arguments = (self.executable, self.input_array, self.output_array, None)
        self.run = lambda: check(run(*arguments))

    def run_profiled(self):
        """Runs the model once. Returns (node, operator, nanoseconds) of each node."""
        library, profile, spans = self.tenon.library, c.c_void_p(), []
        self.tenon.check(library.tenon_profile_create(c.byref(profile)))
        self.tenon.check(library.tenon_executable_run(self.executable, self.input_array, self.output_array, profile))
        for i in range(library.tenon_profile_count(profile)):
            span = Span(c.sizeof(Span))
            self.tenon.check(library.tenon_profile_span(profile, i, c.byref(span)))
            if span.depth == 0:
                spans.append((span.name.decode(), span.kind.decode(), span.end - span.begin))
        library.tenon_profile_release(profile)
        return spans

    def release_outputs(self):
        for i in self.made:
            self.tenon.library.tenon_tensor_release(c.c_void_p(self.output_array[i]))
            self.output_array[i] = None
