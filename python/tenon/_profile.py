"""Looking at what happens: profiles of models, traces of calls, reasons of the dispatcher."""
from . import _core


class profile(_core.Profile):
    """Where the time of a model's run goes: `with tenon.profile() as p: model(x)`, then print(p), p.write("trace.json"), p.spans, p.memory.

    It is of the last run of this thread inside.
    """

    def _rows(self):
        """Operators, the slowest first: (operator, nodes, nanoseconds, share)."""
        sums = {}
        for _, kind, depth, begin, end in self.spans:
            if depth == 0:
                count, time = sums.get(kind, (0, 0))
                sums[kind] = count + 1, time + end - begin
        whole = sum(time for _, time in sums.values()) or 1
        return sorted(((kind, count, time, time / whole) for kind, (count, time) in sums.items()), key=lambda row: -row[2])

    def __repr__(self):
        rows = self._rows()
        width = max((len(row[0]) for row in rows), default=0)
        return "\n".join(f"{kind:{width}}  {count:5} x  {time / 1e6:9.3f} ms  {share:5.1%}" for kind, count, time, share in rows) or "<tenon profile of no run>"

    def _repr_html_(self):
        import html
        rows = "".join(f"<tr><td>{html.escape(kind)}</td><td>{count}</td><td>{time / 1e6:.3f}</td><td><div style='background:#58a;height:0.8em;width:{200 * share:.0f}px'></div></td></tr>"
                       for kind, count, time, share in self._rows())
        return f"<table><tr><th>operator</th><th>nodes</th><th>ms</th><th></th></tr>{rows}</table>"


class trace:
    """Calls as they are made, with their keys and kernels: `with tenon.trace(): ...` prints on stderr, file="calls.json" writes a file for
    ui.perfetto.dev.  `what`: "dispatch", "args" and "time", with commas between.  It is the process's; for good without `with`."""

    def __init__(self, what="dispatch", file=None):
        _core.trace_set(f"{what},file={file}" if file is not None else what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.trace_set(None)


class explain:
    """Says on stderr for each call which kernel was taken, and why no other: once for each operator and reason, or, all=True, each time."""

    def __init__(self, all=False):
        _core.explain_set(2 if all else 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _core.explain_set(0)
