"""Checks the order of the folders of src/: a folder includes and calls only the folders below it.

Usage: layers.py [BUILD]

Two witnesses are asked.  The text of every source file shows its includes, its POSIX headers, and names that two headers define
differently.  The objects of a build (build/CMakeFiles/tenon_core.dir, or $TENON_BUILD) show which unit really calls which: a call
through tenon.h, or through a header that declares too much, is an include of nothing.  Without a build, or without `nm`, the second
half is skipped with the reason.  Each finding is one line that names the place and the remedy.
"""
import collections
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORDER = ["base", "toolchain", "core", "device", "operator", "storage", "drivers", "dispatch", "registry", "inspect", "layers",
         "isolation", "loader", "autograd", "graph", "import", "dump"]
TOP = "start"  # src/start.c, above every folder
PARALLEL = {("loader", "autograd"), ("autograd", "loader")}  # neither may see the other
PUBLIC = {"ops": {"tenon/op.h", "tenon/check.h", "tenon/iterator.h", "tenon/source.h", "tenon/device.h"}, "devices": {"tenon/op.h", "tenon/device.h", "tenon/iterator.h"}, "tools": {"tenon/op.h", "tenon/tenon.h"},
          "bridges": {"tenon/op.h", "tenon/bridge.h", "tenon/device.h", "tenon/graph.h", "tenon/tenon.h", "tenon/tensorflow.h", "tenon/torch.h", "tenon/tvm_ffi.h"}, "python": {"tenon/op.h", "tenon/tenon.h"},
          "examples": {"tenon/op.h", "tenon/check.h", "tenon/iterator.h", "tenon/source.h", "tenon/device.h", "tenon/tenon.h", "tenon/tenon.hpp"}}
LEAVES = {"base/arena.h", "base/json.h", "base/memory.h", "base/status.h", "base/text.h", "core/schema.h"}  # which a bridge compiles into itself
COMPONENT_MOST = 10  # units that may all reach each other
# Folders in which a header declares what its own unit defines and nothing else; elsewhere several units may share a header.
ONE_HEADER = {"operator", "storage", "drivers", "dispatch", "registry", "inspect", "layers"}
READ_BY_TOOLS = {"tenon_debug_layout"}  # gdb reads it by name: no header declares it
# Units that share the header of another unit: platform variants of one interface.
VARIANT = re.compile(r"_(posix|x86|other)$")
POSIX = re.compile(r'#\s*include\s*<(unistd|pthread|dlfcn|fcntl|sched|dirent|regex|sys/[a-z]+)\.h>')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.S)


def code_of(text):
    """The text without comments and literals, whose words are no names; line breaks stay."""
    return COMMENT.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " " + "\n" * m.group(0).count("\n"), text)


# ---- the text of one file ------------------------------------------------------------------------------------------


def include_offences(path, text):
    room = path.split("/")
    for kind, name in INCLUDE.findall(text):
        top = name.split("/")[0]
        if room[0] == "src" and len(room) > 2 and top in ORDER and kind == '"' and room[1] in ORDER:
            mine = ORDER.index(room[1])
            if ORDER.index(top) > mine or (room[1], top) in PARALLEL:
                yield f"{path}: {room[1]} includes {name}, which is above it"
        public = "tenon/tenon.h" if name.startswith("tenon/api/") else name  # the parts of tenon.h
        if room[0] in PUBLIC and name.startswith("tenon/") and public not in PUBLIC[room[0]]:
            yield f"{path}: {room[0]} sees {name}; it may see {', '.join(sorted(PUBLIC[room[0]]))}"
        if room[0] in PUBLIC and kind == '"' and (top in ORDER or name.startswith("../src")) and not (room[0] == "bridges" and name in LEAVES):
            yield f"{path}: {room[0]} includes {name}, which is internal"
        if room[0] == "include" and not (kind == "<" or name.startswith("tenon/")):
            yield f"{path}: a public header includes {name}"


def offences(path, text):
    room = path.split("/")
    yield from include_offences(path, text)
    if room[0] == "src" and len(room) > 2 and room[1] not in ORDER:
        yield f"{path}: folder src/{room[1]} has no place in the order: add it to ORDER in tests/layers.py"
    if room[0] == "src" and room[-1] != "environment_posix.c" and re.search(r"\bgetenv\(", text):
        yield f"{path}: getenv belongs in src/base/environment_posix.c: tn_environment does not heed it in set-uid programs"
    if room[0] in ("devices", "ops", "bridges") and re.search(r"\bgetenv\(", text):
        yield f"{path}: what libtenon loads asks by secure_getenv, which gives nothing in set-uid programs"
    if room[0] in ("src", "tools") and not path.endswith("_posix.c") and POSIX.search(text):
        yield f"{path}: POSIX headers belong in *_posix.c"


# ---- names that are defined twice ------------------------------------------------------------------------------------


def enumerations(code):
    """For each enumeration its enumerators as (name, value as it is written, "" if none)."""
    for match in re.finditer(r"\benum\b[^;{]*\{([^{}]*)\}", code):
        items = [item.strip() for item in re.sub(r"^\s*#.*$", "", match.group(1), flags=re.M).split(",")]
        pairs = [(item.split("=", 1)[0].strip(), " ".join(item.split("=", 1)[1].split()) if "=" in item else "") for item in items if item]
        yield [(name, value) for name, value in pairs if re.fullmatch(r"(TN|TENON)_\w+", name)]


def macros(code):
    for name, parameters, value in re.findall(r"^[ \t]*#[ \t]*define[ \t]+((?:TN|TENON)_\w+)(\([^)]*\))?[ \t]*((?:[^\n\\]|\\\n|\\)*)", code, re.M):
        yield name, " ".join((parameters + value.replace("\\\n", " ")).split())


def prefix_of(names):
    """The words that all names begin with, "TN_RULE_"; "": they share none beyond the first."""
    shared = os.path.commonprefix(names)
    shared = shared[:shared.rfind("_") + 1]
    return shared if shared.count("_") > 1 else ""


def reach(path, files, seen=None):
    """The headers of src/ that a file includes, and those that they include."""
    seen = set() if seen is None else seen
    for _, name in INCLUDE.findall(files[path]):
        if f"src/{name}" in files and f"src/{name}" not in seen:
            seen.add(f"src/{name}")
            reach(f"src/{name}", files, seen)
    return seen


def double_names(files):
    """Constants and macros of src/ that two files define differently, and prefixes of enumerators that two headers share which
    some unit sees together."""
    seen, prefixes = collections.defaultdict(dict), collections.defaultdict(dict)
    for path, text in files.items():
        if not path.startswith("src/"):
            continue
        code = code_of(text)
        for name, value in macros(code):
            if not re.search(rf"^[ \t]*#[ \t]*undef[ \t]+{name}\b", code, re.M):  # X-macros of one list
                seen[name].setdefault(path, value)
        for place, items in enumerate(enumerations(code)):
            for position, (name, value) in enumerate(items):
                seen[name].setdefault(path, value or f"enumerator {position} of {items[0][0]}")
            prefix = prefix_of([name for name, _ in items]) if len(items) > 2 else ""
            if prefix and path.endswith(".h"):
                prefixes[prefix].setdefault(path, (place, items[0][0]))
    for name, places in sorted(seen.items()):
        if len(set(places.values())) > 1:
            told = ", ".join(f"{path} ({value[:40]})" for path, value in sorted(places.items()))
            yield f"{sorted(places)[0]}: {name} is defined differently in {told}: give each its own name, or one header the definition"
    reached = {path: reach(path, files) for path in files if path.startswith("src/") and path.endswith(".c")}
    for prefix, places in sorted(prefixes.items()):
        if len(places) > 1 and any(len(seen_here & set(places)) > 1 for seen_here in reached.values()):
            told = ", ".join(f"{path} ({first}, ...)" for path, (_, first) in sorted(places.items()))
            yield f"{sorted(places)[0]}: two enumerations have the prefix {prefix}: {told}: give each a prefix of its own"


# ---- the objects of a build --------------------------------------------------------------------------------------------


class Objects:
    """Which unit defines each symbol, and which symbols each unit uses, for the objects of one folder of a build.

    A unit is the path of its source below `sources`, a folder of the tree, without ".c"."""

    def __init__(self, folder, sources):
        files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".c.o")]
        source = {file: os.path.normpath(os.path.join(ROOT, sources, os.path.relpath(file, folder)[:-2].replace("__", ".."))) for file in files}
        files = [file for file in files if os.path.exists(source[file])]  # others are left over from sources that were removed
        self.definer, self.uses, self.count, self.stale = {}, collections.defaultdict(set), len(files), None
        self.units = sorted(os.path.relpath(file, folder)[:-4] for file in files)
        if not files:
            return
        for file in files:
            if os.path.getmtime(file) < os.path.getmtime(source[file]):
                self.stale = os.path.relpath(file, folder)
        run = subprocess.run(["nm", "-A", "-P", *files], capture_output=True, text=True, check=True)
        for line in run.stdout.splitlines():
            file, rest = re.match(r"(.*?\.o): ?(.*)", line).groups()
            unit, (symbol, kind) = os.path.relpath(file, folder)[:-4], rest.split()[:2]
            if kind == "U":
                self.uses[unit].add(symbol)
            elif kind in "TDBRVWC":
                self.definer[symbol] = unit

    def calls(self):
        """(unit, unit, symbols) for each pair of which the first uses symbols of the second."""
        for unit in self.units:
            by_unit = collections.defaultdict(list)
            for symbol in sorted(self.uses[unit]):
                other = self.definer.get(symbol, unit)
                if other != unit:
                    by_unit[other].append(symbol)
            for other, symbols in sorted(by_unit.items()):
                yield unit, other, symbols


def folder_of(unit):
    return unit.split("/")[0] if "/" in unit else TOP


def height(folder):
    return len(ORDER) if folder == TOP else ORDER.index(folder) if folder in ORDER else -1


def components(units, edges):
    """Sets of units that reach each other (Tarjan), the trivial ones left out."""
    index, low, stack, found = {}, {}, [], []

    def visit(unit):
        work = [(unit, iter(edges[unit]))]
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        while work:
            at, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in stack:
                    low[at] = min(low[at], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    place = stack.index(at)
                    found.append(sorted(stack[place:]))
                    del stack[place:]

    for unit in units:
        if unit not in index:
            visit(unit)
    return [group for group in found if len(group) > 1]


def call_offences(objects):
    for unit, other, symbols in objects.calls():
        mine, its = folder_of(unit), folder_of(other)
        if height(its) > height(mine) or (mine, its) in PARALLEL:
            yield (f"src/{unit}.c: {mine} uses {', '.join(symbols)} of src/{other}.c, which is above it: move the function down, "
                   f"or let {its} install a hook that {mine} calls")


def component_offences(objects, sources):
    edges = collections.defaultdict(list)
    for unit, other, _ in objects.calls():
        edges[unit].append(other)
    for group in components(objects.units, edges):
        if len(group) > COMPONENT_MOST:
            yield (f"{os.path.normpath(os.path.join(sources, group[0]))}.c: {len(group)} units all reach each other ({', '.join(group)}): move functions "
                   f"into units below, or cut a call back by a hook; at most {COMPONENT_MOST} units may depend on each other")


def header_of(unit, headers):
    """The header that declares what a unit defines: its own name, or that of the interface whose variant it is."""
    for stem in (unit, VARIANT.sub("", unit)):
        if f"src/{stem}.h" in headers:
            return f"src/{stem}.h"
    return None


def declaration_offences(objects, files):
    """Functions and variables with linkage that no header declares, or that the header of another unit does."""
    declared = collections.defaultdict(set)
    pasted = [stem for path, text in files.items() if path.startswith("src/") for stem in re.findall(r"\b((?:tn|tenon)_\w+?)\s*##", text)]  # lists of declarations
    for path, text in files.items():
        if path.startswith(("src/", "include/")) and path.endswith(".h"):
            for name in set(re.findall(r"\b(?:tn|tenon)_\w+", code_of(text))):
                declared[name].add(path)
    for symbol, unit in sorted(objects.definer.items()):
        homes = declared.get(symbol, set())
        if symbol.startswith(tuple(pasted)) and not homes:
            continue
        if not re.match(r"(tn|tenon)_", symbol) or symbol in READ_BY_TOOLS or any(home.startswith("include/") for home in homes):
            continue  # the public ones are compared with the headers by tests/abi
        own = header_of(unit, files)
        if not homes:
            yield f"src/{unit}.c: {symbol} has linkage and no header declares it: make it static, or declare it in {own or f'src/{unit}.h'}"
        elif own not in homes and folder_of(unit) in ONE_HEADER:
            yield f"src/{unit}.c: {symbol} is declared in {', '.join(sorted(homes))}: a header declares what its own unit defines, here {own or f'src/{unit}.h'}"


# ---- all of it ---------------------------------------------------------------------------------------------------------


def read_sources():
    files = {}
    for folder, _, names in os.walk(ROOT):
        path = os.path.relpath(folder, ROOT)
        if path.split("/")[0].startswith((".", "build")) and path != ".":
            continue
        for name in names:
            if name.endswith((".c", ".h", ".cc", ".cpp", ".hpp")):
                file = os.path.normpath(os.path.join(path, name))
                with open(os.path.join(ROOT, file), encoding="utf-8") as source:
                    files[file] = source.read()
    return files


def other_object_folders(build):
    """The folders with the objects of everything but libtenon's core and the tests, each with the folder of its sources."""
    for folder, folders, _ in os.walk(build):
        if os.path.basename(folder) != "CMakeFiles":
            continue
        sources = os.path.relpath(os.path.dirname(folder), build)
        if sources.split(os.sep)[0] != "tests":
            for name in sorted(folders):
                if name.endswith(".dir") and name != "tenon_core.dir":
                    yield os.path.join(folder, name), sources


def check_objects(build, files):
    """Findings of the objects, and the reason why they were not asked, or None."""
    if not shutil.which("nm"):
        return [], "nm is not installed (binutils)"
    if not build or not os.path.isdir(os.path.join(build, "CMakeFiles", "tenon_core.dir")):
        return [], f"there is no build in {os.path.relpath(build, ROOT) if build else 'build'}: `make` makes one"
    objects = Objects(os.path.join(build, "CMakeFiles", "tenon_core.dir", "src"), "src")
    units = [path for path in files if path.startswith("src/") and path.endswith(".c")]
    if objects.count < len(units) - 10:  # some are of other platforms
        return [], f"{os.path.relpath(build, ROOT)} holds {objects.count} objects of {len(units)} units: build libtenon first"
    if objects.stale:
        return [], f"{objects.stale} is older than its source: build libtenon first"
    found = [*call_offences(objects), *component_offences(objects, "src"), *declaration_offences(objects, files)]
    for folder, sources in other_object_folders(build):
        found += component_offences(Objects(folder, sources), sources)
    return list(dict.fromkeys(found)), None  # a device is built twice: into libtenon and as a library


def main():
    files = read_sources()
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TENON_BUILD") or os.path.join(ROOT, "build")
    found = [offence for path, text in files.items() for offence in offences(path, text)]
    found += double_names(files)
    of_objects, reason = check_objects(build, files)
    found += of_objects
    print("\n".join(found))
    if reason:
        print(f"skip: calls between objects are not checked: {reason}")
    failed = len({offence.split(":")[0] for offence in found})
    print(f"{len(files) - failed} passed, {failed} failed, {1 if reason else 0} skipped")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
