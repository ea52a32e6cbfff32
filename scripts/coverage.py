#!/usr/bin/env python3
"""Line coverage of src/ by what ran in a build with gcov's counters: a table by folder and file, and the lines that nothing
reached in coverage.txt of the build folder.

Usage: coverage.py BUILD [--under FOLDER]... [--at-least PERCENT:PATH[,PATH...]]...
--under: lists the files of these folders one by one (all of src/ otherwise).  --at-least: fails when the files and folders
named have less.  A line counts as reached if any object that has it reached it.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def notes_of(build):
    for folder, _, names in os.walk(build):
        for name in names:
            if name.endswith(".gcno") and "/src/" in f"{folder}/":
                yield os.path.join(folder, name)


def lines_of(path):
    """{file: {line: count}} of one object; without counters (it never ran) all counts are 0."""
    data = path[:-4] + "gcda"
    result = subprocess.run(["gcov", "--json-format", "--stdout", data if os.path.exists(data) else path], capture_output=True, cwd=os.path.dirname(path), check=False)
    found = {}
    for text in result.stdout.splitlines():
        report = json.loads(text)
        for entry in report["files"]:
            name = os.path.relpath(os.path.realpath(os.path.join(report["current_working_directory"], entry["file"])), ROOT)
            if not name.startswith("src/"):
                continue
            lines = found.setdefault(name, {})
            for line in entry["lines"]:
                lines[line["line_number"]] = max(lines.get(line["line_number"], 0), line["count"])
    return found


def gather(build):
    total = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lines_of, sorted(notes_of(build))):
            for name, lines in found.items():
                mine = total.setdefault(name, {})
                for number, count in lines.items():
                    mine[number] = mine.get(number, 0) + count
    return total


def share(total, prefixes):
    parts = [lines for name, lines in total.items() if any(name == p or name.startswith(p.rstrip("/") + "/") for p in prefixes)]
    reached, count = sum(sum(1 for c in lines.values() if c) for lines in parts), sum(map(len, parts))
    return reached, count, 100 * reached / count if count else 0


def row(name, reached, count, percent):
    print(f"{name:44} {reached:6} of {count:6} {percent:6.1f} %")


def ranges(numbers):
    text, numbers = [], sorted(numbers)
    while numbers:
        first = last = numbers.pop(0)
        while numbers and numbers[0] == last + 1:
            last = numbers.pop(0)
        text.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--under", action="append", default=[])
    parser.add_argument("--at-least", action="append", default=[])
    options = parser.parse_args()
    total = gather(os.path.abspath(options.build))
    if not total:
        sys.exit(f"coverage: {options.build} has no counters; build with the coverage preset")
    with open(os.path.join(options.build, "coverage.txt"), "w", encoding="utf-8") as out:
        for name, lines in sorted(total.items()):
            missed = [n for n, c in lines.items() if not c]
            out.write(f"{name}: {len(lines) - len(missed)} of {len(lines)}{': not ' + ranges(missed) if missed else ''}\n")
    for folder in sorted({os.path.dirname(name) for name in total}):
        row(folder + "/", *share(total, [folder]))
        for name in sorted(n for n in total if os.path.dirname(n) == folder):
            if not options.under or any(name.startswith(u) for u in options.under):
                row("  " + os.path.basename(name), *share(total, [name]))
    row("src/", *share(total, ["src"]))
    failed = 0
    for aim in options.at_least:
        percent, paths = aim.split(":")
        reached, count, found = share(total, paths.split(","))
        failed += found < float(percent)
        print(f"{'ok  ' if found >= float(percent) else 'FAIL'} {found:5.1f} % of {paths}: at least {percent} %")
    print(f"{len(options.at_least) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
