"""Runs a function once a program has imported a module, so that programs that do not import it need not load it."""
import importlib.machinery
import sys


class _Finder:
    """Finds the module as Python does, and lets its loader call the function."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self.function()
            spec.loader.exec_module = exec_module
        return spec


def after(name, function):
    """Calls the function when the import of a module ends; at once if the program has imported it."""
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(name, function))
