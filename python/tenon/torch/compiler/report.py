"""Says what became of a model: its graphs, the nodes that PyTorch runs and why, and where torch.compile broke it."""
import contextlib
import threading
from typing import NamedTuple

_recording = threading.local()


class HandedBack(NamedTuple):
    """A node that PyTorch runs.

    operator: the operator of PyTorch.  node: the name of the node.  reason: why Tenon does not run it.
    place: the line of the model that it comes from.
    """
    operator: str
    node: str
    reason: str
    place: str


class Graph(NamedTuple):
    """A graph that was compiled: a forward graph, a backward graph, or one for inference.

    operators: the number of operators.  parts: the number of Tenon graphs that they became.  handed_back: those that PyTorch runs.
    """
    kind: str
    operators: int
    parts: int
    handed_back: list


class Explanation:
    """What became of a model.

    graphs: a list of Graph.  breaks: where torch.compile broke the model, with the reasons.  result: what the model returned.
    """

    def __init__(self):
        self.graphs, self.breaks, self.result = [], [], None

    def __str__(self):
        lines = [f"{_counted(len(self.graphs), 'graph')}, {_counted(len(self.breaks), 'graph break')}"]
        for number, graph in enumerate(self.graphs, 1):
            own = graph.operators - len(graph.handed_back)
            lines.append(f"graph {number} ({graph.kind}): {own} of {_counted(graph.operators, 'operator')} run in {_counted(graph.parts, 'graph')} of Tenon")
            for item in graph.handed_back:
                lines += [f"  PyTorch runs {item.operator} (node {item.node}): {item.reason}", f"    {item.place}"]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)

    __repr__ = __str__


def _counted(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place_of(node):
    """The line of the model that a node comes from, as text."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.strip().splitlines()]
    frames = [i for i, line in enumerate(lines) if line.startswith("File ")]
    return "; ".join(lines[frames[-1]:frames[-1] + 2]) if frames else "a line of the model that PyTorch does not name"


@contextlib.contextmanager
def recording(explanation):
    """Adds what this thread compiles to the explanation."""
    before = getattr(_recording, "explanation", None)
    _recording.explanation = explanation
    try:
        yield
    finally:
        _recording.explanation = before


def note_graph(kind, module, refused, parts):
    explanation = getattr(_recording, "explanation", None)
    if explanation is not None:
        operators = [n for n in module.graph.nodes if n.op == "call_function" and hasattr(n.target, "_schema")]
        handed_back = [HandedBack(str(n.target), n.name, reason, place_of(n)) for n, reason in refused.items()]
        explanation.graphs.append(Graph(kind, len(operators), parts, handed_back))


def note_break(reason):
    """reason: of torch._dynamo, why a graph ends; None: it is the last one."""
    explanation = getattr(_recording, "explanation", None)
    if explanation is not None and reason is not None and reason.graph_break:
        frame = reason.user_stack[-1] if reason.user_stack else None
        place = f" ({frame.filename}:{frame.lineno}: {frame.line})" if frame else ""
        explanation.breaks.append(reason.reason.strip().splitlines()[0] + place)
