#!/usr/bin/env python3
"""Runs networks that nobody tuned Tenon for beside ONNX Runtime: are the results right, and how fast is each.

The networks are those of models/breadth.txt, with random weights; set 1 may be used for tuning, set 2 is only measured. Each is exported
to build/breadth, compared with ONNX Runtime, and timed in blocks that alternate in one process. Results are kept after each model in
build/breadth/results.json; bench/results/breadth.json and breadth.md are written at the end. Both keep the figures of each processor apart,
and a run replaces only those of its own processor. Exit status 1: a result is wrong or refused.

Usage: breadth.py [--set N] [--only PATTERN] [--limit N] [--export | --exported] [--delete] [--resume] [--threads N,...] [--seconds S], in
.venv-breadth. Exports load both cores for long: on a shared machine, write the files first (--export), then measure them (--exported).
"""
import argparse
import datetime
import fnmatch
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import models
import report

HERE = Path(__file__).resolve().parent
FOLDER = Path(report.BUILD) / "breadth"
STATE = FOLDER / "results.json"
MOST_BYTES = 2 << 30  # of exported models at a time
TOLERANCES = {"f16": 2e-2, "quantised": 5e-2}  # of the largest value; 1e-3 for the others
MADE_FROM = "f16", "quantised", "ort"
SLOW = 0.8
PATIENCE = 120  # seconds for a measurement


# ---- the table ------------------------------------------------------------------------------------------------------


def read_settings(text):
    value = lambda word: int(word) if word.isdigit() else {"True": True, "False": False}.get(word, word)
    return {key: value(word) for key, word in (item.split("=") for item in text.split(",") if item != "-")}


def read_table():
    rows = []
    for line in (HERE / "models" / "breadth.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        number, library, name, inputs, settings = (cell.strip() for cell in line.split("|"))
        row = {"set": int(number), "library": library, "name": name, "inputs": inputs, "settings": read_settings(settings)}
        row["id"] = f"{library}-{name}" + (f"-{row['settings']['form']}" if library == "quantised" else "")
        rows.append(row)
    return rows


# ---- one model, in a process of its own -----------------------------------------------------------------------------


def start_onnxruntime(path, threads, values, is_optimised=True):
    """Returns a function that runs the model, and the arrays that it fills."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if not is_optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in session.run(None, values)]
    for port, output in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(port.name, output)
    return lambda: session.run_with_iobinding(binding), [output.numpy() for output in outputs]


def difference(outputs, reference):
    """The largest difference of an output as a share of its largest value; infinite if NaNs are in other places."""
    import numpy as np

    worst = 0.0
    for found, expected in zip(outputs, reference):
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0, np.abs(found - expected))
        largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-30)
        worst = max(worst, math.inf if np.isnan(apart).any() else float(np.max(apart, initial=0)) / float(largest))
    return worst


def time_block(run, seconds):
    time.sleep(models.PAUSE)
    run()
    begin, times = time.perf_counter(), []
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return report.median(times)


def measure(path, threads, seconds, tolerance):
    """Compares and times a model. Returns its figures, with a status of one word and the reason where it is not "ok"."""
    import numpy as np

    values = dict(np.load(Path(path).with_suffix(".npz")))
    try:
        theirs, outputs = start_onnxruntime(path, threads, values)
        reference = [output.copy() for output in outputs]
        theirs()  # fails if the model declares a wrong shape
    except Exception as error:
        return {"status": "unsupported", "reason": f"ONNX Runtime: {' '.join(str(error).split())[:200]}"}
    try:
        ours, found = models.bind_tenon(path, threads, values, reference)
        ours.run()
    except Exception as error:
        return {"status": "refused", "reason": str(error)[:300]}
    result = {"status": "ok", "difference": float(f"{difference(found, reference):.2g}")}
    if result["difference"] > tolerance:
        _, plain = start_onnxruntime(path, threads, values, is_optimised=False)
        theirs()  # some models draw random numbers
        change = max(difference(plain, reference), difference(outputs, reference))
        result["status"] = "unstable" if 2 * change >= result["difference"] else "mismatch"
        result["reason"] = f"ONNX Runtime without its optimisations, or in a second run, differs by {change:.2g} from itself"
    rounds, begin = [], time.perf_counter()
    while len(rounds) < 3 or time.perf_counter() - begin < seconds:
        rounds.append([time_block(run, seconds / 20) for run in (ours.run, theirs)])
    result["ms"] = [round(1e3 * report.median(times), 4) for times in zip(*rounds)]
    result["ratio"] = round(report.median([b / a for a, b in rounds]), 3)
    return result


# ---- all models -----------------------------------------------------------------------------------------------------


def measure_apart(row, threads, options):
    tolerance = TOLERANCES.get(row["library"], 1e-3)
    command = [sys.executable, os.path.abspath(__file__), "--one", str(FOLDER / f"{row['id']}.onnx"), "--threads", str(threads),
               "--seconds", str(options.seconds), "--tolerance", str(tolerance)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"status": "refused", "reason": f"the measurement took more than {PATIENCE} s"}
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    why = f"signal {-run.returncode}" if run.returncode < 0 else run.stderr.strip().split("\n")[-1]
    return {"status": "refused", "reason": f"the measurement ended early: {why[:200]}"}


def find_export(row):
    """What an earlier export of the row recorded; None: there is no file, and nothing says why."""
    note = FOLDER / f"{row['id']}.json"
    made = json.loads(note.read_text()) if note.exists() else {}
    return made if "failure" in made or (made and (FOLDER / f"{row['id']}.onnx").exists()) else None


def run_row(row, rows, options):
    """Exports and measures a row. Returns its record for the result file."""
    record = {"set": row["set"], "library": row["library"], "name": row["name"]}
    made = find_export(row)
    if not made:
        import breadth_export

        breadth_export.prepare()
        made = breadth_export.export_apart(row, FOLDER, rows)
    if "failure" in made:
        return {**record, "status": "no file", "reason": made["failure"][:300]}
    record["exporter"] = made["exporter"]
    if options.export:
        return record
    for threads in options.threads:
        found = measure_apart(row, threads, options)
        for key in ("ms", "ratio"):
            if key in found:
                record.setdefault(key, {})[str(threads)] = found.pop(key)
        if record.get("status", "ok") == "ok":
            record.update(found)
    return record


def bytes_exported():
    return sum(file.stat().st_size for file in FOLDER.glob("*.onnx"))


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def groups_of(records):
    """The groups of the report: (title, records)."""
    for number in (1, 2):
        of_set = [record for record in records.values() if record["set"] == number]
        for library in dict.fromkeys(record["library"] for record in of_set):
            yield f"set {number}, {library}", [record for record in of_set if record["library"] == library]
        yield f"set {number}, all", of_set
        yield f"set {number}, f32 networks", [record for record in of_set if record["library"] not in (*TOLERANCES, "trees")]


def summary_of(records, threads):
    """Rows of the summary: group, files, counts by status, and geometric means of ONNX Runtime's time over Tenon's."""
    rows = []
    for title, group in groups_of(records):
        timed = [(record["ratio"][threads], record["ms"][threads][1]) for record in group if threads in record.get("ratio", {})]
        if not group:
            continue
        counts = [sum(record.get("status") == status for record in group) for status in ("ok", "mismatch", "refused", "unstable", "unsupported", "no file")]
        means = [geometric_mean([ratio for ratio, _ in timed]), geometric_mean([ratio for ratio, ms in timed if ms >= 1])]
        rows.append([title, *counts, *(f"{mean:.2f}" for mean in means), sum(ratio < SLOW for ratio, _ in timed)])
    return rows


HEADER = ["group", "right", "wrong", "refused", "unstable", "ORT cannot", "no file", "ORT / Tenon", "where >= 1 ms", f"below {SLOW}"]


def troubles_of(records):
    """(id, text) of each wrong result, refusal and export that failed."""
    return [(name, f"{record['status']}: " + (f"differs by {record['difference']:.2g}; " if "difference" in record else "") + record.get("reason", ""))
            for name, record in sorted(records.items()) if record.get("status") not in (None, "ok", "unstable")]


def slow_of(records, threads):
    found = [(record["ratio"][threads], name, record["ms"][threads]) for name, record in records.items() if record.get("ratio", {}).get(threads, 1) < SLOW]
    return [[name, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.2f}"] for ratio, name, (ours, theirs) in sorted(found)]


def markdown_table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |\n" for line in lines) + "\n"


def processor_of(machine):
    """The name under which the figures of a machine are kept: its processor and the instruction sets that decide about kernels."""
    return f"{machine['cpu']}, {' '.join(machine['instruction_sets'])}"


def text_of(processor, part):
    """The section of the report about one processor."""
    records = part["networks"]
    counts = sorted({threads for record in records.values() for threads in record.get("ratio", {})}, key=int)
    text = f"## {processor}\n\nONNX Runtime {part['versions']['onnxruntime']}. Date: {part['date']}.\n\n"
    for threads in counts:
        text += f"### {threads} thread(s)\n\n" + markdown_table(HEADER, summary_of(records, threads))
        text += f"#### Below {SLOW}\n\n" + markdown_table(["network", "Tenon", "ONNX Runtime", "ratio"], slow_of(records, threads))
    text += "### Wrong results, refusals, and networks without a file\n\n" + markdown_table(["network", "what happened"], troubles_of(records))
    text += "### All\n\n"
    cells = lambda record, threads: [*record["ms"][threads], record["ratio"][threads]] if threads in record.get("ms", {}) else ["", "", ""]
    header = ["network", "set", "exporter", "status", "difference"] + [f"{word}, {threads} t" for threads in counts for word in ("Tenon", "ORT", "ratio")]
    return text + markdown_table(header, [[name, record["set"], record.get("exporter", ""), record.get("status", ""), record.get("difference", ""),
                                           *(cell for threads in counts for cell in cells(record, threads))] for name, record in sorted(records.items())])


def write_markdown(parts):
    text = "# Networks that nobody tuned Tenon for\n\nWritten by `bench/breadth.py`. A ratio is ONNX Runtime's time over Tenon's: above 1, Tenon is the "
    text += "faster one. Times are medians in milliseconds. Each processor has a section of its own; times of two processors cannot be compared.\n\n"
    (HERE / "results" / "breadth.md").write_text(text + "".join(text_of(*item) for item in parts.items()))


def show(records, options):
    headline = []
    for threads in map(str, options.threads):
        rows = summary_of(records, threads)
        report.print_table(f"Speed over ONNX Runtime at {threads} thread(s), geometric means", HEADER, rows)
        report.print_table(f"Slower than {SLOW} at {threads} thread(s)", ["network", "Tenon", "ORT", "ratio"], slow_of(records, threads))
        headline += [[f"breadth, {row[0]}, {threads} thread(s): speed over ONNX Runtime", row[-3]] for row in rows if row[0].endswith(("all", "networks"))]
    for name, text in troubles_of(records):
        print(f"{name}: {text}")
    packages = "numpy", "onnx", "onnxruntime", "torch", "transformers", "timm", "torchvision"
    machine = report.machine()
    kept = HERE / "results" / "breadth.json"
    parts = json.loads(kept.read_text())["figures"] if kept.exists() else {}
    parts[processor_of(machine)] = {"date": datetime.date.today().isoformat(), "machine": machine, "versions": report.versions(*packages), "networks": records}
    report.save("breadth", parts, headline, *packages)
    write_markdown(parts)


def select_rows(rows, options):
    return [row for row in rows if options.set in (None, row["set"]) and fnmatch.fnmatch(row["id"], options.only)]


def is_due(row, records, options):
    """Whether the row is to be exported (`--export`) or measured now."""
    if row["id"] in records:
        return False
    if options.exported:
        return find_export(row) is not None
    return not (options.export and options.resume and find_export(row))


def run_all(options):
    sys.path.insert(0, str(HERE / "models"))
    FOLDER.mkdir(parents=True, exist_ok=True)
    processor = processor_of(report.machine())
    kept = json.loads(STATE.read_text()) if STATE.exists() else {}
    records = kept[processor] = kept.get(processor, {}) if options.resume else {}
    rows = read_table()
    for row in rows:
        row["exporters"] = ("script", "dynamo") if options.script else ("dynamo", "script")
    chosen = [row for row in select_rows(rows, options) if is_due(row, records, options)][: options.limit]
    for index, row in enumerate(chosen):
        if options.export and bytes_exported() > MOST_BYTES:
            sys.exit(f"breadth: the files in {FOLDER} have {MOST_BYTES >> 30} GB: measure them (--exported --delete), then export the others")
        record = run_row(row, rows, options)
        note = record.get("reason", "") if record.get("status") != "ok" else f"{record.get('ratio')}"
        report.progress(f"{index + 1}/{len(chosen)} {row['id']}: {record.get('status', 'exported')} {note}")
        if options.export:
            continue
        records[row["id"]] = record
        STATE.write_text(json.dumps(kept))
        if options.delete or bytes_exported() > MOST_BYTES:
            (FOLDER / f"{row['id']}.onnx").unlink(missing_ok=True)
    if options.export:
        return 0
    show(records, options)
    return int(any(record["status"] in ("mismatch", "refused") for record in records.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", type=int, choices=(1, 2))
    parser.add_argument("--only", default="*", metavar="PATTERN", help="rows whose LIBRARY-NAME fits, such as 'timm-*'")
    parser.add_argument("--limit", type=int, help="only the first N of the rows that are left")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--export", action="store_true", help="only write the files, up to 2 GB of them")
    which.add_argument("--exported", action="store_true", help="measure only files that are there")
    parser.add_argument("--resume", action="store_true", help="keep this processor's results in build/breadth/results.json, and measure the other rows")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each model and number of threads")
    parser.add_argument("--script", action="store_true", help="export by TorchScript first, which is several times faster than torch.export")
    parser.add_argument("--delete", action="store_true", help="delete each file when it is measured")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--tolerance", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, int(options.threads), options.seconds, options.tolerance)))
        return 0
    options.threads = [int(count) for count in options.threads.split(",")]
    report.warn_when_busy()
    return run_all(options)


if __name__ == "__main__":
    sys.exit(main())
