"""What torch.compile asks a device: a DeviceInterface.

It is registered when torch._dynamo is imported, because this import takes long and enable() does not need it.
"""
import importlib.abc
import sys

import torch

_MODULE = "torch._dynamo.device_interface"


def register(name, module):
    """Registers the interface of torch.NAME, at once if torch._dynamo is imported and else right after it is."""
    if _MODULE in sys.modules:
        _register(name, module)
    else:
        sys.meta_path.insert(0, _AfterImport(name, module))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets the finders after it find the module, wherever it is, and registers the interface when the module has been executed."""

    def __init__(self, name, module):
        self.name, self.module, self.is_done = name, module, False

    def find_spec(self, fullname, path, target=None):
        if fullname != _MODULE:
            if hasattr(sys.modules.get(_MODULE), "register_interface_for_device"):  # a finder before this one has found it
                self.finish()
            return None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 if self in finders else 0:]:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def finish(self):
        if not self.is_done:
            self.is_done = True
            _register(self.name, self.module)


class _Loader(importlib.abc.Loader):
    """Executes a module by its own loader, and tells the finder."""

    def __init__(self, loader, finder):
        self._loader, self._finder = loader, finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader  # the module shows no trace of this one
        self._loader.exec_module(module)
        self._finder.finish()
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)


def _register(name, m):
    dynamo = sys.modules[_MODULE]

    class Interface(dynamo.DeviceInterface):
        device, Stream, Event = m.device, m.Stream, m.Event
        current_device = staticmethod(m.current_device)
        set_device = staticmethod(m.set_device)
        device_count = staticmethod(m.device_count)
        is_available = staticmethod(m.is_available)
        exchange_device = staticmethod(m._exchange_device)
        maybe_exchange_device = staticmethod(m._maybe_exchange_device)
        stream = staticmethod(m.stream)
        current_stream = staticmethod(m.current_stream)
        set_stream = staticmethod(m.set_stream)
        synchronize = staticmethod(m.synchronize)
        memory_allocated = staticmethod(m.memory_allocated)
        is_bf16_supported = staticmethod(m.is_bf16_supported)

        class Worker:
            """What the processes that compile kernels may ask."""
            set_device = staticmethod(m.set_device)
            current_device = staticmethod(m.current_device)
            get_device_properties = staticmethod(m.get_device_properties)

        @staticmethod
        def get_compute_capability(device=None):
            return m.get_device_properties(device).target

        @staticmethod
        def get_raw_stream(device_index):
            return m.current_stream(device_index).stream_id

        @staticmethod
        def _set_stream_by_id(stream_id, device_index, device_type):
            m.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    dynamo.register_interface_for_device(name, Interface)
    for index in range(m.device_count()):
        dynamo.register_interface_for_device(f"{name}:{index}", Interface)
