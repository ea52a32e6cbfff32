"""torch.NAME: the module of a device, with the functions that PyTorch and its users expect of one."""
import os
import types

import torch

from . import interface


class DeviceProperties:
    """What is known about a device: name, total_memory in bytes, multi_processor_count, driver, target."""

    def __init__(self, backend, name, driver, target, memory, units):
        self.backend, self.name, self.driver, self.target = backend, name, driver, target
        self.total_memory, self.multi_processor_count = memory, units

    def __repr__(self):
        return (f"DeviceProperties(name={self.name!r}, backend={self.backend!r}, driver={self.driver!r}, target={self.target!r}, "
                f"total_memory={self.total_memory >> 20} MiB, multi_processor_count={self.multi_processor_count})")


def make(name, functions):
    """Makes the module; `functions` is torch.ops.tenon_device."""
    m = types.ModuleType(f"torch.{name}")
    m.__doc__ = f"The device {name}, a Tenon device (tenon.torch.device)."
    m._initialized = True  # torch.utils.checkpoint then keeps the states of the random numbers
    creator = os.getpid()

    def index_of(device):
        """Returns the index that a device, an index, a text or None (the current device) stands for."""
        if device is None:
            return m.current_device()
        if isinstance(device, int):
            return device
        device = torch.device(device)
        if device.type != name:
            raise ValueError(f"expected a device of type {name}, found {device}")
        return m.current_device() if device.index is None else device.index

    def public(function):
        setattr(m, function.__name__, function)
        return function

    # ---- devices

    @public
    def is_available():
        return functions.count() > 0

    @public
    def device_count():
        return functions.count()

    @public
    def current_device():
        return torch.accelerator.current_device_index()

    @public
    def set_device(device):
        if (index := index_of(device)) >= 0:
            torch.accelerator.set_device_index(index)

    @public
    def synchronize(device=None):
        torch.accelerator.synchronize(index_of(device))

    @public
    def get_device_name(device=None):
        return get_device_properties(device).name

    @public
    def get_device_properties(device=None):
        index = index_of(device)
        memory, _, units, *_ = functions.numbers(index)
        return DeviceProperties(*functions.properties(index), memory, units)

    @public
    def get_device_capability(device=None):
        return torch.accelerator.get_device_capability(index_of(device))

    @public
    def init():
        _lazy_init()

    @public
    def is_initialized():
        return not _is_in_bad_fork()

    @public
    def _is_in_bad_fork():
        if os.getpid() == creator:
            return False
        try:  # a plug-in may survive a fork
            functions.numbers(-1)
            torch.accelerator.synchronize()
        except RuntimeError:
            return True
        return False

    @public
    def _lazy_init():
        if _is_in_bad_fork():
            raise RuntimeError(f"device {name} was used before this process was forked, and it does not survive a fork: start processes with "
                               "torch.multiprocessing.set_start_method('spawn')")

    class device:
        """A context that makes a device the current one: an index, a text or a torch.device; -1 and None change nothing."""

        def __init__(self, device):
            self.index = -1 if device is None else index_of(device)
            self.before = -1

        def __enter__(self):
            if self.index >= 0:
                self.before = current_device()
                set_device(self.index)

        def __exit__(self, *_):
            if self.before >= 0:
                set_device(self.before)

    class device_of(device):
        """A context that makes the device of a tensor the current one; tensors on other types of devices change nothing."""

        def __init__(self, tensor):
            super().__init__(tensor.get_device() if tensor.device.type == name else None)
    m.device, m.device_of = device, device_of

    @public
    def _exchange_device(index):
        before = current_device()
        if index >= 0:
            set_device(index)
        return before
    m._maybe_exchange_device = _exchange_device

    # ---- streams and events

    class Stream(torch.Stream):
        """A stream of the device: work in it runs in order, and beside the work of other streams."""

        def __new__(cls, device=None, priority=0, **named):
            if "stream_id" in named:
                return super().__new__(cls, **named)
            return super().__new__(cls, torch.device(name, index_of(device)), priority=priority)

        def __repr__(self):
            return f"<torch.{name}.Stream device={self.device} id={self.stream_id:#x}>"

    class Event(torch.Event):
        """A position in a stream; with enable_timing=True, elapsed_time returns the milliseconds between two of them."""

        def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
            if interprocess:
                raise NotImplementedError(f"events of {name} cannot be shared between processes")
            return super().__new__(cls, device=name, enable_timing=enable_timing, blocking=blocking)
    m.Stream, m.Event = Stream, Event

    def stream_from(s):
        return Stream(stream_id=s.stream_id, device_index=s.device_index, device_type=s.device_type)

    @public
    def current_stream(device=None):
        return stream_from(torch.accelerator.current_stream(index_of(device)))

    @public
    def default_stream(device=None):
        return Stream(stream_id=0, device_index=index_of(device), device_type=int(torch._C._autograd.DeviceType.PrivateUse1))

    @public
    def set_stream(stream):
        if stream is not None:
            torch.accelerator.set_stream(stream)

    class StreamContext:
        """A context in which the stream is the current one of its device, and its device the current device; None changes nothing."""

        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            if self.stream is None:
                return self
            self.device = current_device()
            self.before = current_stream(self.stream.device)
            set_stream(self.stream)
            return self

        def __exit__(self, *_):
            if self.stream is not None:
                set_stream(self.before)
                set_device(self.device)
    m.StreamContext = StreamContext

    @public
    def stream(stream):
        return StreamContext(stream)

    # ---- memory

    @public
    def memory_stats(device=None):
        return torch.accelerator.memory_stats(index_of(device))

    @public
    def memory_allocated(device=None):
        return torch.accelerator.memory_allocated(index_of(device))

    @public
    def max_memory_allocated(device=None):
        return torch.accelerator.max_memory_allocated(index_of(device))

    @public
    def memory_reserved(device=None):
        return torch.accelerator.memory_reserved(index_of(device))

    @public
    def max_memory_reserved(device=None):
        return torch.accelerator.max_memory_reserved(index_of(device))

    @public
    def reset_peak_memory_stats(device=None):
        torch.accelerator.reset_peak_memory_stats(index_of(device))

    @public
    def reset_accumulated_memory_stats(device=None):
        torch.accelerator.reset_accumulated_memory_stats(index_of(device))

    @public
    def mem_get_info(device=None):
        memory, free, *_ = functions.numbers(index_of(device))
        return free, memory

    @public
    def empty_cache():
        torch.accelerator.empty_cache()

    @public
    def set_per_process_memory_fraction(fraction, device=None):
        if not 0 <= fraction <= 1:
            raise ValueError(f"expected a fraction between 0 and 1, found {fraction}")
        index = index_of(device)
        functions.limit_memory(index, max(1, int(functions.numbers(index)[0] * fraction)))

    # ---- random numbers

    class Generators:
        """The default generators of the devices, by index."""

        def __len__(self):
            return device_count()

        def __getitem__(self, index):
            if not -len(self) <= index < len(self):
                raise IndexError(index)
            return functions.generator(index % len(self))
    m.default_generators = Generators()

    @public
    def manual_seed(seed):
        functions.generator(current_device()).manual_seed(int(seed))

    @public
    def manual_seed_all(seed):
        for index in range(device_count()):
            functions.generator(index).manual_seed(int(seed))

    @public
    def seed():
        functions.generator(current_device()).seed()

    @public
    def seed_all():
        value = torch.Generator().seed()
        manual_seed_all(value)

    @public
    def initial_seed():
        return functions.generator(current_device()).initial_seed()

    @public
    def get_rng_state(device=name):
        return functions.generator(index_of(device)).get_state()

    @public
    def get_rng_state_all():
        return [get_rng_state(i) for i in range(device_count())]

    @public
    def set_rng_state(new_state, device=name):
        functions.generator(index_of(device)).set_state(new_state)

    @public
    def set_rng_state_all(new_states):
        for index, state in enumerate(new_states):
            set_rng_state(state, index)

    # ---- precision

    @public
    def get_amp_supported_dtype():
        return [torch.float16, torch.bfloat16]

    @public
    def is_bf16_supported(including_emulation=True):
        return including_emulation

    amp = types.ModuleType(f"torch.{name}.amp")
    amp.autocast = lambda *a, **named: torch.autocast(name, *a, **named)
    amp.GradScaler = lambda *a, **named: torch.amp.GradScaler(name, *a, **named)
    m.amp = amp
    interface.register(name, m)
    return m
