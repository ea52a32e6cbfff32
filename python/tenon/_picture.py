"""Draws graphs as SVG.  Boxes stand in layers, from inputs at the top to outputs at the bottom.  Each layer is ordered so that few
edges cross; then boxes move towards the boxes that they are connected with.  The module needs nothing but Python."""
import re
import unicodedata

from . import _core

MOST = 300  # the largest number of nodes that are drawn by default
# Width of a letter, height of a line, distance between boxes, distance between layers, room for an edge that passes a layer.
_LETTER, _LINE, _GAP, _BETWEEN, _EDGE = 6.7, 15, 18, 36, 10
_COLOURS = {"input": ("#dbeafe", "#3b82f6"), "output": ("#dcfce7", "#16a34a"), "core": ("#f8fafc", "#94a3b8"), "other": ("#ffedd5", "#f97316")}


def escape(text):
    """Returns the text escaped for XML, with U+FFFD for the characters that XML does not allow."""
    import html  # not needed to import tenon, and its table of entities is large
    return html.escape(re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def cut(text, most):
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most - 1] + "…"


def _wide(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class _Box:
    """An item of a layer: an input, a node or an output; or, without lines, the place where an edge passes the layer."""

    def __init__(self, kind, lines=(), title=""):
        self.kind, self.title, self.layer, self.x, self.y = kind, title, 0, 0.0, 0.0
        self.lines = [cut(line, 44) for line in lines if line]
        self.width = max((_wide(line) for line in self.lines), default=0) * _LETTER + 16 if lines else _EDGE
        self.height = _LINE * len(self.lines) + 8 if lines else 0
        self.above, self.below = [], []  # in the next layers


def _is_pure(op, known):
    if op not in known:
        known[op] = {"pure", "random"} & set(_core.find(op).traits) == {"pure"}
    return known[op]


def _boxes(graph, most):
    """Returns the boxes, and the edges as {(source box, target box): values}.

    A value that is computed from constants alone counts as a constant, and its nodes are not drawn."""
    values, nodes, (inputs, outputs) = graph._values(), graph._nodes(), graph._ports()
    boxes, edges, maker, fixed, known, left_out = [], {}, {}, {i for i, value in enumerate(values) if value[2]}, {}, 0

    def join(value, box):
        if value in maker:
            edges.setdefault((maker[value], box), []).append(value)

    for value in inputs:
        maker[value] = _Box("input", values[value][:2], "input")
        boxes.append(maker[value])
    for name, op, operands, results, attributes in nodes:
        flat = [value for operand in operands if operand is not None for value in (operand if isinstance(operand, list) else [operand])]
        if flat and fixed.issuperset(flat) and _is_pure(op, known):
            fixed.update(results)
            continue
        if most <= 0:
            left_out += 1
            continue
        most -= 1
        constants = [value for value in flat if value in fixed]
        weights = "with " + ", ".join(values[value][1] for value in constants) if constants else ""
        said = [f"{values[value][0]}: {values[value][1]}" for value in constants] + [f"{key}={value!r}" for key, value in attributes.items() if value is not None]
        space, short = op.split("::", 1)
        box = _Box("core" if space == "core" else "other", [short if space == "core" else op, ", ".join(values[value][1] for value in results), weights],
                   "\n".join([name, op, *said]))
        boxes.append(box)
        for value in flat:
            join(value, box)
        for value in results:
            maker[value] = box
    for value, (name, _, _) in zip(outputs, graph.outputs):
        if value in maker or value in fixed:
            boxes.append(_Box("output", [name, values[value][1]], "output"))
            join(value, boxes[-1])
    return boxes, edges, values, left_out


def _layers(boxes, edges):
    """Returns the boxes of each layer, and a route for each edge: the boxes at its ends and a place in each layer that it passes."""
    for source, to in edges:  # all that lead to a source stand before: nodes are in an order to run
        to.layer = max(to.layer, source.layer + 1)
    nearest = {}
    for source, to in edges:
        nearest[source] = min(nearest.get(source, to.layer), to.layer)
    led_to = {to for _, to in edges}
    for box in boxes:
        if box not in led_to and box in nearest:
            box.layer = nearest[box] - 1
    layers, routes, places = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))], {}, {}
    for box in boxes:
        layers[box.layer].append(box)
    for source, to in edges:
        route = [source]
        for layer in range(source.layer + 1, to.layer):
            if (source, layer) not in places:  # edges of one value go together
                place = places[source, layer] = _Box("place")
                place.layer = layer
                layers[layer].append(place)
                route[-1].below.append(place)
                place.above.append(route[-1])
            route.append(places[source, layer])
        route[-1].below.append(to)
        to.above.append(route[-1])
        routes[source, to] = route + [to]
    return layers, routes


def _order(layers):
    """Orders each layer by the average position of the connected boxes, in passes down and up."""
    for turn in range(8):
        down = turn % 2 == 0
        for layer in layers if down else reversed(layers):
            at = {}
            for i, box in enumerate(layer):
                others = box.above if down else box.below
                at[box] = sum(other.x for other in others) / len(others) if others else i / len(layer)
            layer.sort(key=at.get)
            for i, box in enumerate(layer):
                box.x = (i + 0.5) / len(layer)


def _spread(layer, wanted, weights):
    """Returns positions in the same order, without overlap, nearest to the wanted ones: least squares, by pooling neighbours."""
    offsets, at = [], 0.0
    for i, box in enumerate(layer):
        if i:
            at += (layer[i - 1].width + box.width) / 2 + _GAP
        offsets.append(at)
    pools = []  # sum of weights, weighted mean, how many
    for want, offset, weight in zip(wanted, offsets, weights):
        pools.append([weight, want - offset, 1])
        while len(pools) > 1 and pools[-2][1] > pools[-1][1]:
            weight_b, mean_b, count_b = pools.pop()
            weight_a, mean_a, count_a = pools[-1]
            pools[-1] = [weight_a + weight_b, (weight_a * mean_a + weight_b * mean_b) / (weight_a + weight_b), count_a + count_b]
    means = [mean for _, mean, count in pools for _ in range(count)]
    for box, mean, offset in zip(layer, means, offsets):
        box.x = mean + offset


def _place(layers):
    """Sets x (the middle) and y (the top) of all boxes."""
    for layer in layers:
        _spread(layer, [0.0] * len(layer), [1.0] * len(layer))
    for turn in range(10):
        down = turn % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted, weights = [], []
            for box in layer:
                others = (box.above if down else box.below) or box.above or box.below
                wanted.append(sum(other.x for other in others) / len(others) if others else box.x)
                weights.append(1.0 if not others else 4.0 if box.kind == "place" else 2.0)
            _spread(layer, wanted, weights)
    left = min((box.x - box.width / 2 for layer in layers for box in layer), default=0.0)
    y = 8.0
    for layer in layers:
        height = max((box.height for box in layer), default=0)
        for box in layer:
            box.x += 8 - left
            if box.kind == "place":  # edges pass beside the boxes, straight
                box.height = height
            box.y = y + (height - box.height) / 2
        y += height + _BETWEEN
    return max((box.x + box.width / 2 for layer in layers for box in layer), default=0.0) + 8, y - _BETWEEN + 8


def _path(route, begin, end):
    """Returns the SVG path of an edge: vertical within the layers that it passes, curved between them."""
    x, y = begin, route[0].y + route[0].height
    text = f"M{x:.1f},{y:.1f}"
    for box in route[1:]:
        to_x, to_y = (box.x, box.y) if box is not route[-1] else (end, box.y - 1)
        middle = (y + to_y) / 2
        text += f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
        x, y = to_x, to_y
        if box is not route[-1]:
            y += box.height
            text += f"V{y:.1f}"
    return text


def _ports(box, others):
    """Returns where the edges meet a box: side by side, in the order of the boxes at their other ends."""
    step = min(12.0, (box.width - 12) / max(len(others), 1))
    return {other: box.x + (i - (len(others) - 1) / 2) * step for i, other in enumerate(sorted(others, key=lambda other: other.x))}


def svg(graph, most=MOST):
    """The text of an SVG file: layers from top to bottom, boxes with operator, types of results and constants; names and attributes
    show under the pointer.  At most `most` nodes are drawn, the first ones that are not of constants alone; a line says how many are
    left out."""
    boxes, edges, values, left_out = _boxes(graph, most)
    layers, routes = _layers(boxes, edges)
    _order(layers)
    width, height = _place(layers)
    ends = {box: _ports(box, box.above) for box in boxes}
    parts = []
    for (source, to), route in routes.items():
        title = "\n".join(f"{values[value][0]}: {values[value][1]}" for value in edges[source, to])
        parts.append(f'<path d="{_path(route, source.x, ends[to][route[-2]])}"><title>{escape(title)}</title></path>')
    drawn = [f'<g fill="none" stroke="#888" marker-end="url(#tenon-arrow)">{"".join(parts)}</g>']
    for box in boxes:
        fill, stroke = _COLOURS[box.kind]
        lines = "".join(f'<text x="{box.x:.1f}" y="{box.y + 16 + _LINE * i:.1f}"{"" if i == 0 else small}>{escape(line)}</text>'
                        for small in [' fill="#475569"'] for i, line in enumerate(box.lines))
        drawn.append(f'<g><title>{escape(box.title)}</title><rect x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
                     f'rx="4" fill="{fill}" stroke="{stroke}"/>{lines}</g>')
    if left_out:
        text = f"{left_out} more nodes are left out: graph.svg(path, most={left_out + most}) draws all nodes"
        width, height = max(width, len(text) * _LETTER + 16), height + 2 * _LINE
        drawn.append(f'<text x="8" y="{height - _LINE + 4:.1f}" text-anchor="start" fill="#888">{escape(text)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11" '
            f'text-anchor="middle" fill="#0f172a"><defs><marker id="tenon-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0,0L8,4L0,8z" fill="#888"/></marker></defs>{"".join(drawn)}</svg>\n')


def line(graph, most=6):
    """Returns the repr of a graph: the number of nodes, the inputs and the outputs."""
    values, texts = graph._values(), []
    for numbers, ports in zip(graph._ports(), (graph.inputs, graph.outputs)):
        shown = [f"{name}: {values[number][1]}" for number, (name, _, _) in zip(numbers, ports)][:most]
        texts.append("(" + ", ".join(shown + [f"{len(ports) - most} more"] * (len(ports) > most)) + ")")
    count = len(graph._nodes())
    return f"<tenon graph {cut(graph.name, 40)}{' ' if graph.name else ''}of {count} node{'' if count == 1 else 's'}: {texts[0]} -> {texts[1]}>"
