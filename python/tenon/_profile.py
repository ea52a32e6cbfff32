"""Observation of a running program: profiles of models, traces of calls, and the dispatcher's reasons."""
from . import _core


class profile(_core.Profile):
    """Measures where the time of a model run goes: `with tenon.profile() as p: model(x)`.

    Afterwards print(p) shows a table, p.write("trace.json") writes a trace, and p.spans, p.work
    (bytes and operations of each span) and p.memory hold the figures.
    The profile covers the last run that the current thread made inside the `with` block.
    """

    def _rows(self):
        """Returns (operator, nodes, nanoseconds, share of the whole, bytes, operations), the slowest operator first."""
        sums = {}
        for (_, kind, depth, begin, end), work in zip(self.spans, self.work):
            if depth == 0:
                added = 1, end - begin, *work
                sums[kind] = [a + b for a, b in zip(sums.get(kind, (0, 0, 0, 0)), added)]
        whole = sum(row[1] for row in sums.values()) or 1
        return sorted(((kind, count, time, time / whole, *work) for kind, (count, time, *work) in sums.items()), key=lambda row: -row[2])

    @staticmethod
    def _rate(work, time):
        return f"{work / time:.1f}" if work and time else "-"

    def __repr__(self):
        rows = self._rows()
        width = max((len(row[0]) for row in rows), default=0)
        lines = [f"{kind:{width}}  {count:5} x  {time / 1e6:9.3f} ms  {share:5.1%}  {self._rate(size, time):>7} GB/s  {self._rate(operations, time):>7} GFLOP/s"
                 for kind, count, time, share, size, operations in rows]
        return "\n".join(lines) or "<tenon profile of no run>"

    def _repr_html_(self):
        import html
        rows = "".join(f"<tr><td>{html.escape(kind)}</td><td>{count}</td><td>{time / 1e6:.3f}</td><td>{self._rate(size, time)}</td><td>{self._rate(operations, time)}</td>"
                       f"<td><div style='background:#58a;height:0.8em;width:{200 * share:.0f}px'></div></td></tr>"
                       for kind, count, time, share, size, operations in self._rows())
        return f"<table><tr><th>operator</th><th>nodes</th><th>ms</th><th>GB/s</th><th>GFLOP/s</th><th></th></tr>{rows}</table>"


class trace:
    """Traces every call with its dispatch key and kernel: `with tenon.trace(): ...` prints the calls on stderr.

    what: "dispatch", "args" and "time", separated by commas.
    file: write the trace to this file, for ui.perfetto.dev, instead of stderr.

    The setting applies to the whole process.  Without `with` it stays in effect.
    """

    def __init__(self, what="dispatch", file=None):
        _core.trace_set(f"{what},file={file}" if file is not None else what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.trace_set(None)


class explain:
    """Prints on stderr which kernel each call uses and why other kernels were not chosen.

    Each combination of operator and reason is printed once; all=True prints it for every call.
    """

    def __init__(self, all=False):
        _core.explain_set(2 if all else 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.explain_set(0)
