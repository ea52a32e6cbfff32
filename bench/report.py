"""Code that all benchmarks share: paths, statistics, the machine, tables, and result files."""
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("TENON_BUILD", os.path.join(ROOT, "build")))
SCRATCH = os.path.join(BUILD, "bench")  # files that benchmarks compile and generate
RESULTS = os.path.join(ROOT, "bench", "results")
CC = os.environ.get("CC", "cc")
PLACES = "TENON_BUILD", "TENON_CACHE", "TENON_MXNET_1_9"  # settings that do not affect figures
INSTRUCTION_SETS = "sse4_2 avx2 fma avx512f avx512bw avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 asimd sve".split()


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values):
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]
    except OSError:
        return ""


def machine():
    lines = open("/proc/cpuinfo").read().split("\n\n")[0].split("\n") if os.path.exists("/proc/cpuinfo") else []
    info = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return {
        "cpu": info.get("model name", platform.processor() or platform.machine()),
        "family": " ".join(info[key] for key in ("vendor_id", "cpu family", "model") if key in info),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cache": info.get("cache size", ""),
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in flags],
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "settings": {key: value for key, value in os.environ.items() if key.startswith(("OMP_", "GOMP_", "TENON_")) and key not in PLACES},
    }


def warn_when_busy():
    """Prints a warning on a busy machine: there, two threads wait for each other more than they compute."""
    if os.getloadavg()[0] > 0.5:
        progress(f"this machine is busy (load {os.getloadavg()[0]:.1f}): figures, above all of several threads, say little")


def versions(*packages):
    found = {"tenon": first_line(os.path.join(BUILD, "tenon"), "--version"), "compiler": first_line(CC, "--version")}
    found["python"] = platform.python_version()
    found.update((name, importlib.metadata.version(name)) for name in packages)
    return found


def save(name, figures, headline, *packages):
    """Stores the figures of a complete run; `headline` is a list of [text, figure as text] for the summary."""
    os.makedirs(RESULTS, exist_ok=True)
    record = {"benchmark": name, "date": datetime.date.today().isoformat(), "machine": machine(),
              "versions": versions(*packages), "headline": headline, "figures": figures}
    with open(os.path.join(RESULTS, f"{name}.json"), "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


def saved_figures(name):
    """The figures of a result file, {} if they are of another processor."""
    path = os.path.join(RESULTS, f"{name}.json")
    record = json.load(open(path)) if os.path.exists(path) else {}
    return record["figures"] if record.get("machine", {}).get("family") == machine()["family"] else {}


def print_table(title, header, rows):
    """Prints a table. Columns are as wide as their contents; the first is text, the others are figures."""
    cells = [list(map(str, row)) for row in [header] + rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join([row[0].ljust(widths[0])] + [text.rjust(width) for text, width in zip(row[1:], widths[1:])]))
    print(flush=True)


def progress(text):
    print(f"... {text}", flush=True)


def compile_c(source, *flags):
    """Compiles a program of bench/micro. Returns the path of the program."""
    os.makedirs(SCRATCH, exist_ok=True)
    program = os.path.join(SCRATCH, os.path.basename(source)[:-2])
    command = [CC, "-std=c11", "-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE", f"-I{ROOT}/include", f"{ROOT}/bench/micro/{source}", "-o", program, *flags]
    subprocess.run(command, check=True)
    return program


def build_library(source):
    """Builds an operator library of bench/micro with tenon build. Returns its path."""
    os.makedirs(SCRATCH, exist_ok=True)
    library = os.path.join(SCRATCH, f"{source[:-2]}.so")
    subprocess.run([os.path.join(BUILD, "tenon"), "build", f"{ROOT}/bench/micro/{source}", "-o", library], check=True, stdout=subprocess.DEVNULL)
    return library


LINK_TENON = (f"-L{BUILD}", "-ltenon", f"-Wl,-rpath,{BUILD}", "-pthread")
