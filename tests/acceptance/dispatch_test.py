#!/usr/bin/env python3
"""The same registrations made in PyTorch and in Tenon: both must compute the same dispatch tables, by the same resolution order. Every combination
of kernels for two backends, composites, and gradients (none, a kernel, a fallthrough), then seeded sequences of registering, overriding and
undoing. Each is one case: its table entries are compared by the name of the resolution and by the registration in the entry, without a backend's
fallback, with one, and with one of the gradient layer. Where the two differ, the difference must be a row of
docs/decisions/0007-dispatch-differences.md, at exactly the entries that the row states; a row that no case shows is an error, too. Needs torch;
the build is TENON_BUILD, else `build`."""
import collections
import ctypes as c
import itertools
import os
import pathlib
import random
import re
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
PAGE = ROOT / "docs/decisions/0007-dispatch-differences.md"

try:
    import torch
except ImportError:
    print("skip: torch is not installed, there is nothing to compare with\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

# Keys by name. Registrations are made for all of them; entries are compared for those that are not aliases.
KEYS = {"CPU": "cpu", "PrivateUse1": "npu", "Meta": "meta", "AutogradCPU": "autograd cpu", "AutogradPrivateUse1": "autograd npu",
        "AutogradMeta": "autograd meta"}
ALIASES = {"Autograd": "autograd", "CompositeImplicitAutograd": "composite", "CompositeExplicitAutograd": "composite_explicit"}
PLACES = {**KEYS, **ALIASES}
RULES = {"kernel": "kernel", "default backend kernel": "composite explicit", "math kernel": "composite", "autograd kernel": "autograd",
         "backend fallback": "fallback"}
OVERRIDE = 1


# ---- Tenon ----------------------------------------------------------------------------------------------------------

class Item(c.Structure):
    _fields_ = [("tag", c.c_uint32), ("reserved", c.c_uint32), ("number", c.c_int64), ("text", c.c_char_p), ("function", c.c_void_p)]


class Descriptor(c.Structure):
    _fields_ = [("size", c.c_uint32), ("abi", c.c_uint32), ("layout", c.c_uint32), ("required", c.c_uint32), ("name", c.c_char_p),
                ("version", c.c_char_p), ("items", c.c_void_p)]


class SlotInfo(c.Structure):
    _fields_ = [("size", c.c_uint32), ("is_missing", c.c_uint32), ("rule", c.c_char_p), ("kernel", c.c_char_p), ("library", c.c_char_p),
                ("number", c.c_uint64)]


RUN = c.CFUNCTYPE(c.c_int32, c.c_void_p)
kernel = RUN(lambda call: 0)  # never called: only the tables are compared
TAG_OP, TAG_TYPES, TAG_TRAITS, TAG_KERNEL, POINTWISE = 1, 3, 6, 18, 2


class Tenon:
    def __init__(self, names):
        self.library = c.CDLL(str(BUILD / "libtenon.so"))
        self.library.tenon_error.restype = c.c_char_p
        self.library.tenon_kernel_add.argtypes = [c.c_char_p, c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint32, c.c_void_p]
        self.library.tenon_fallback_add.argtypes = [c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint32, c.c_void_p]
        self.library.tenon_registration_release.argtypes = [c.c_void_p]
        self.library.tenon_op_slot.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
        items = []
        for name in names:  # an operator needs a kernel, so this one is for a backend that is not compared
            items += [Item(TAG_OP, 0, 0, f"{name}(Tensor x) -> Tensor".encode(), None), Item(TAG_TYPES, 0, 0, b"x: any; out = x", None),
                      Item(TAG_TRAITS, 0, POINTWISE, None, None), Item(TAG_KERNEL, 0, 0, b"elsewhere", c.cast(kernel, c.c_void_p))]
        items = (Item * (len(items) + 1))(*items, Item())
        descriptor = Descriptor(c.sizeof(Descriptor), 0x10000, 64 | 16 << 8 | 32 << 16 | 16 << 24, 0, b"compared", b"1.0.0",
                                c.cast(items, c.c_void_p))
        self.check(self.library.tenon_library_add(c.byref(descriptor), None, None, None))
        self.ops, self.number, self.sources = {}, None, {}
        for name in names:
            op = c.c_void_p()
            self.check(self.library.tenon_op_find(f"compared::{name}".encode(), c.byref(op)))
            self.ops[name] = op
        self.check(self.library.tenon_device_find(b"npu", 0, c.byref(c.c_int64())))  # this names the backend
        self.tell_number(names[0])

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.tenon_error().decode())

    def tell_number(self, name):
        """Tells Tenon's side the number of the next registration; registrations are counted over the process."""
        handle = self.add(name, "cpu", "kernel", -1, 0)
        self.number = self.slot(name, "cpu")[2]
        self.remove(handle)

    def add(self, name, where, what, source, flags):
        handle = c.c_void_p()
        passes = what == "fallthrough"
        self.check(self.library.tenon_kernel_add(f"compared::{name}".encode(), (where + " fallthrough" * passes).encode(),
                                                 None if passes else c.cast(kernel, c.c_void_p), None, None, flags, c.byref(handle)))
        if self.number is not None:
            self.number += 1
            self.sources[self.number] = source
        return handle

    def fallback(self, key):
        handle = c.c_void_p()
        self.check(self.library.tenon_fallback_add(key.encode(), c.cast(kernel, c.c_void_p), None, None, 0, c.byref(handle)))
        return handle

    def remove(self, handle):
        self.library.tenon_registration_release(handle)

    def slot(self, name, key):
        info = SlotInfo(size=c.sizeof(SlotInfo))
        self.check(self.library.tenon_op_slot(self.ops[name], key.encode(), c.byref(info)))
        return info.rule.decode(), bool(info.is_missing), info.number

    def table(self, name):
        """{key: (rule, registration or None)}"""
        out = {}
        for key in KEYS.values():
            rule, is_missing, number = self.slot(name, key)
            assert is_missing == (rule == "missing")
            out[key] = rule, self.sources[number] if number else None
        return out


# ---- PyTorch --------------------------------------------------------------------------------------------------------

LINE = re.compile(r"^(\w+): (fallthrough )?registered at (.*):\d+ \[(.*)\]$")


def library_named(source, namespace="compared", kind="FRAGMENT"):
    """A library whose registrations show this name as the file that they come from."""
    scope = {"Library": torch.library.Library}
    exec(compile(f"made = Library({namespace!r}, {kind!r})", source, "exec"), scope)
    return scope["made"]


class Torch:
    def __init__(self, names):
        self.definitions = torch.library.Library("compared", "FRAGMENT")
        for name in names:
            self.definitions.define(f"{name}(Tensor x) -> Tensor")

    def add(self, name, key, what, source):
        library = library_named(f"registration_{source}")
        function = torch.library.fallthrough_kernel if what == "fallthrough" else lambda x: x
        library.m.impl(name, key, function, False)  # Library.impl refuses meta kernels beside a composite
        return library

    def fallback(self, key):
        library = library_named("fallback_of_the_test", "_", "IMPL")
        library.fallback(lambda op, *arguments: None, key)
        return library

    def remove(self, library):
        library._destroy()

    def table(self, name):
        out = {key: ("missing", None) for key in KEYS.values()}
        for line in torch._C._dispatch_dump_table(f"compared::{name}").splitlines():
            match = LINE.match(line)
            if not match or match[1] not in KEYS:
                continue
            rule, source = RULES[match[4]], re.fullmatch(r"registration_(\d+)", match[3])
            if rule == "fallback" and match[3] != "fallback_of_the_test":
                rule = "fallback of PyTorch"
            assert source or rule.startswith("fallback"), line
            out[KEYS[match[1]]] = ("fallthrough", None) if match[2] else (rule, int(source[1]) if source else None)
        return out


# ---- differences ----------------------------------------------------------------------------------------------------

def listed():
    """Returns {(keys, rule in PyTorch, rule in Tenon)} of the page's table."""
    rows = set()
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5:
            rows.add(tuple(cell.strip("`") for cell in cells[:3]))
    return rows


def expected_difference(key, live):
    """Returns the row of the page that applies to an entry, or None if the two must agree; `live` has the registrations, {(place, what)}."""
    has = {place for place, what in live}
    if key == "meta":
        serves = has & {"meta", "composite", "composite_explicit"}
        return None if serves else ("meta", "fallback of PyTorch", "infer")
    if not key.startswith("autograd "):
        return None
    backend = key.split()[1]
    decomposes = "composite" in has and "composite_explicit" not in has
    if has & {key, "autograd"} or (decomposes and backend not in has):
        return None
    return ("autograd B", "fallback of PyTorch", "composite" if decomposes else "fallthrough")


class Comparison:
    def __init__(self):
        self.kinds, self.failures, self.slots = collections.Counter(), [], 0  # kinds: listed differences that were seen

    def compare(self, label, live, theirs, ours):
        good = True
        for key in KEYS.values():
            self.slots += 1
            expected = expected_difference(key, set(live.values()))
            same = theirs[key] == ours[key] if expected is None else (theirs[key][0], ours[key][0]) == expected[1:]
            self.kinds[expected] += bool(expected and same)
            if not same:
                good = False
                self.failures.append(f"{label}: {key}: PyTorch {theirs[key]}, Tenon {ours[key]}, expected difference {expected}; "
                                     f"registered: {live}")
        return good


# ---- cases ----------------------------------------------------------------------------------------------------------

def combinations():
    three = (None, "kernel", "fallthrough")
    places = [("CPU", three), ("PrivateUse1", three), ("Meta", three[:2]), ("CompositeImplicitAutograd", three[:2]),
              ("CompositeExplicitAutograd", three[:2]), ("Autograd", three), ("AutogradPrivateUse1", three)]
    for choice in itertools.product(*[choices for _, choices in places]):
        yield [(key, what) for (key, _), what in zip(places, choice) if what]


def sequences(count, seed):
    """Registrations and undoings in any order; a number undoes the registration at that position."""
    draw = random.Random(seed)
    for _ in range(count):
        steps, alive, added = [], [], 0
        for _ in range(draw.randint(6, 16)):
            if alive and draw.random() < 0.4:
                steps.append(alive.pop(draw.randrange(len(alive))))
                continue
            key = draw.choice(list(PLACES))
            what = "kernel" if key.startswith("Composite") or draw.random() < 0.7 else "fallthrough"
            steps.append((key, what))
            alive.append(added)
            added += 1
        yield steps


class Case:
    """One operator in both systems, and its registrations."""

    def __init__(self, name, torch_side, tenon):
        self.name, self.torch, self.tenon, self.all, self.live = name, torch_side, tenon, [], {}

    def add(self, key, what):
        source, where = len(self.all), PLACES[key]
        flags = OVERRIDE if any(place == where for place, _ in self.live.values()) else 0
        self.all.append((self.torch.add(self.name, key, what, source), self.tenon.add(self.name, where, what, source, flags)))
        self.live[source] = where, what

    def undo(self, source):
        theirs, ours = self.all[source]
        self.torch.remove(theirs), self.tenon.remove(ours)
        del self.live[source]

    def compare(self, comparison, label):
        return comparison.compare(f"{self.name} {label}", self.live, self.torch.table(self.name), self.tenon.table(self.name))

    def compare_gradients(self, comparison):
        """With a fallback for gradients on both sides. PyTorch lets only that of PrivateUse1 be replaced, which stands for npu."""
        key = "autograd npu"
        theirs, ours = self.torch.table(self.name)[key], self.tenon.table(self.name)[key]
        expected = expected_difference(key, set(self.live.values()))
        if expected:
            same = theirs[0] == "fallback" and ours[0] == ("composite" if expected[2] == "composite" else "fallback")
        else:
            same = theirs == ours
        comparison.slots += 1
        if not same:
            comparison.failures.append(f"{self.name} with a fallback of gradients: PyTorch {theirs}, Tenon {ours}; registered: {self.live}")
        return same


def main():
    warnings.simplefilter("ignore")
    plain, undone = list(combinations()), list(sequences(250, 20260103))
    names = [f"case_{i}" for i in range(len(plain) + len(undone))]
    torch_side, tenon, comparison = Torch(names), Tenon(names), Comparison()
    cases = [Case(name, torch_side, tenon) for name in names]
    good = [True] * len(cases)
    for i, steps in enumerate(plain + undone):
        for step in steps:
            cases[i].undo(step) if isinstance(step, int) else cases[i].add(*step)
            if i >= len(plain):
                good[i] &= cases[i].compare(comparison, "after a step")
        good[i] &= cases[i].compare(comparison, "alone")

    theirs, ours = torch_side.fallback("PrivateUse1"), tenon.fallback("npu")
    good = [case.compare(comparison, "with a fallback of npu") and ok for case, ok in zip(cases, good)]
    torch_side.remove(theirs), tenon.remove(ours)
    good = [case.compare(comparison, "after the fallback is gone") and ok for case, ok in zip(cases, good)]
    theirs, ours = torch_side.fallback("AutogradPrivateUse1"), tenon.fallback("autograd")  # the last: PyTorch's own never comes back
    good = [case.compare_gradients(comparison) and ok for case, ok in zip(cases, good)]

    page, shown = listed(), {kind for kind, count in comparison.kinds.items() if count}
    if page != shown:
        comparison.failures.append(f"{PAGE.name} lists {sorted(page - shown)} that no case shows, and lacks {sorted(shown - page)}")
    for failure in comparison.failures[:20]:
        print(failure)
    for (keys, theirs, ours), count in sorted((kind, count) for kind, count in comparison.kinds.items() if count):
        print(f"differs as listed, {count} slots: {keys}: {theirs} in PyTorch, {ours} in Tenon")
    print(f"{len(plain)} combinations, {len(undone)} sequences, {comparison.slots} slots compared with torch {torch.__version__}")
    failed = good.count(False) + (page != shown)
    print(f"{good.count(True) + (page == shown)} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
