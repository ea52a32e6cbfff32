"""Writes abi/ anew: `update.py update BUILD` (--layouts: without libtenon.abi, which takes seconds) after something was added to the headers, `update.py snapshot` for a release.

Nothing is written where it would break libraries or programs that were built before; then every offence is said, with the field's name.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import layout

ABI = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(ABI)
INCLUDE = os.path.join(ROOT, "include")
SYMBOLS, DUMP, ASSERTS = (os.path.join(ABI, name) for name in ("libtenon.symbols", "libtenon.abi", "layout.c"))
DUMP_OPTIONS = ["--exported-interfaces-only", "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--headers-dir", INCLUDE]
# Exported, but not promised: the built-in libraries, because libraries export; what debuggers read.
UNPROMISED = {*(f"tenon_library_{name}" for name in ("core", "null", "sim", "opencl", "cuda")), "tenon_debug_layout"}


def golden(header):
    path = os.path.join(ABI, header + ".layout")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return layout.parse(file.read())


def snapshots():
    """Folders of released headers, the oldest first."""
    return sorted((name for name in os.listdir(ABI) if re.fullmatch(r"\d+\.\d+", name)), key=lambda name: [int(part) for part in name.split(".")])


def breaks(now):
    """What in `now` is not as abi/*.layout and the snapshots of its major version have it."""
    for header in layout.HEADERS:
        was = golden(header)
        if was is not None:
            yield from layout.differences(header, was, now[header])
    major = now["op"]["constants"]["TENON_ABI"] >> 16
    for name in snapshots():
        if int(name.split(".")[0]) == major:
            for header, was in layout.read(os.path.join(ABI, name, "include")).items():
                yield from (f"{offence} (in {name})" for offence in layout.differences(header, was, now[header]))


def unnumbered(now):
    """What was added since the last snapshot to a header that still has that snapshot's version."""
    for name in snapshots()[-1:]:
        for header, was in layout.read(os.path.join(ABI, name, "include")).items():
            macro = layout.VERSIONS.get(header)
            home = "op" if macro == "TENON_ABI" else header
            added = list(layout.growth(was, now[header]))
            if macro and added and now[home]["constants"][macro] == layout.read(os.path.join(ABI, name, "include"))[home]["constants"][macro]:
                yield (f"{header}.h: {', '.join(added)}: added since {name}, but {macro} is still {now[home]['constants'][macro]:#x}: raise it, "
                       f"or, as long as {name} is not released, `make abi-snapshot`")


def exports(library):
    run = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return sorted(words[2] for words in map(str.split, run.stdout.splitlines()) if words[1] in "TDBRWV" and words[2] not in UNPROMISED and not words[2].startswith("_"))


def listed():
    with open(SYMBOLS, encoding="utf-8") as file:
        return file.read().split()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def debug_library(folder):
    """libtenon with debug information; abidw needs it, and the usual build has none."""
    host = os.path.join(ROOT, "tests", "abi")
    configure = ["cmake", "-S", host, "-B", folder, f"-DTREE={ROOT}", "-DCMAKE_BUILD_TYPE=Debug"]
    for command in (configure, ["cmake", "--build", folder, "--target", "tenon", "--parallel", "2"]):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"abi: {' '.join(command)} failed:\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return os.path.join(folder, "libtenon.so")


def dump(library, path):
    subprocess.run(["abidw", *DUMP_OPTIONS, "--out-file", path, library], check=True)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    write(path, text.replace(ROOT + "/", ""))  # no place of this machine
    return path


def opaque():
    """Structures that headers only name; src/ says what they are, in files whose names may be those of headers."""
    texts = layout.headers_of(INCLUDE)
    known = {name for header in texts for name in (golden(header) or {"structs": ()})["structs"]}
    return sorted({name for text in texts.values() for name in re.findall(r"^typedef struct (tenon_\w+) \1;", text, re.M)} - known)


def difference(old, new):
    """abidiff's status (4: something changed, 8: it breaks) and report.  Of two dumps: it cannot read one beside a library without private types."""
    with tempfile.NamedTemporaryFile("w", suffix=".suppr") as rules:
        rules.write(f"[suppress_type]\n  name_regexp = ^(tn_.*|{'|'.join(opaque())})$\n")
        rules.flush()
        run = subprocess.run(["abidiff", "--no-added-syms", "--suppressions", rules.name, old, new], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def update(build, is_whole):
    now = layout.read(INCLUDE)
    offences = list(breaks(now))
    names = exports(os.path.join(build, "libtenon.so"))
    if os.path.exists(SYMBOLS):
        offences += [f"libtenon.so: {name}: no longer exported" for name in listed() if name not in names]
    if offences:
        sys.exit("\n".join(["abi: nothing was written: these would break what was built before (docs/compatibility.md)", *dict.fromkeys(offences)]))
    for header, one in now.items():
        write(os.path.join(ABI, header + ".layout"), layout.text(header, one))
    write(ASSERTS, layout.asserts(now))
    write(SYMBOLS, "\n".join(names) + "\n")
    if not is_whole:
        return
    if not shutil.which("abidw"):
        print("abi: libtenon.abi was not written: abidw is missing (apt-get install abigail-tools)")
        return
    made = dump(debug_library(os.path.join(build, "abi", "debug")), os.path.join(build, "abi", "libtenon.abi"))
    if os.path.exists(DUMP):
        status, said = difference(DUMP, made)
        if status & 11:  # 4 is a change: what was added, or what the layouts allowed
            sys.exit(f"abi: libtenon.abi was not written:\n{said}")
    shutil.copy(made, DUMP)


def snapshot():
    """Cuts the headers as they are into abi/MAJOR.MINOR, of the version of the project."""
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(tenon VERSION (\d+\.\d+)", file.read()).group(1)
    tags = subprocess.run(["git", "-C", ROOT, "tag", "--list", f"v{version}.*"], capture_output=True, text=True, check=False).stdout.split()
    folder = os.path.join(ABI, version)
    if tags and os.path.exists(folder):
        sys.exit(f"abi: {version} is released ({tags[0]}): its snapshot stays as it is; raise the version in CMakeLists.txt first")
    others = [name for name in snapshots() if name != version]
    for name in others:
        old, now = layout.read(os.path.join(ABI, name, "include")), layout.read(INCLUDE)
        offences = [offence for header in old for offence in layout.differences(header, old[header], now[header])]
        if offences and name.split(".")[0] == version.split(".")[0]:
            sys.exit("\n".join([f"abi: no snapshot was cut: this would break what was built with {name}", *offences]))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(INCLUDE, "tenon"), os.path.join(folder, "include", "tenon"))
    print(f"abi: {os.path.relpath(folder, ROOT)} is the snapshot of {version}")


def main():
    if sys.argv[1:] == ["snapshot"]:
        snapshot()
    elif sys.argv[1:2] == ["update"]:
        update(os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "build")), "--layouts" not in sys.argv)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
