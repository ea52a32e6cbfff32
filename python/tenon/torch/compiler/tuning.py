"""Chooses among compilations of a graph by measuring them: mode="max-autotune"."""
import time

_RUNS = 5  # of each compilation; the fastest counts
_PATIENCE = 10.0  # seconds for a graph
_GAIN = 0.97  # a compilation is better if it takes at most this part of the time


def tuned(graph, executable, given, pool):
    """Returns the fastest executable for these inputs: each rewriting rule that was applied is left out, and stays out if the graph is faster without it."""
    end, best, tried, left_out = time.perf_counter() + _PATIENCE, _seconds(executable, given, pool), set(), []
    while time.perf_counter() < end:
        rule = next((r for r in _applied(executable) if r not in tried), None)
        if rule is None:
            break
        tried.add(rule)
        other = graph.compile(without=",".join([*left_out, rule]))
        seconds = _seconds(other, given, pool)
        if seconds <= _GAIN * best:  # other rules may have been applied in its place
            best, executable = seconds, other
            left_out.append(rule)
    return executable


def _applied(executable):
    return [line.split()[0] for line in executable.dump("rewrites").splitlines() if line.strip()]


def _seconds(executable, given, pool):
    executable._run(given, pool)  # plans the memory
    found = []
    for _ in range(_RUNS):
        begin = time.perf_counter()
        executable._run(given, pool)
        found.append(time.perf_counter() - begin)
    return min(found)
