"""Draws the plan of an executable as SVG: which memory each value has, and during which actions."""
import re

from ._picture import escape

_STAGE = re.compile(r"stage (\d+): nodes (\d+) to (\d+), (\d+) actions, arena (\d+) bytes, lower bound (\d+) ")
_VALUE = re.compile(r"  (?P<name>.*?) +arena +(?P<type>.*?) ?offset (?P<offset>\d+) size (?P<size>\d+) alive (?P<first>\d+)\.\.(?P<last>\d+)$")
_REGION = re.compile(r"  action (\d+): (region of .*)$")
_LEFT, _TOP, _HEIGHT, _BOTTOM = 8, 24, 320, 40
_COLUMN = 16  # the width of an action, unless there are many
_WIDEST = 1600
_LETTER = 6.6
_FILLS = {"(workspace": "#cbd5e1", "(dense": "#fde68a"}  # by the first word of the name; other values are blue


def _stages(text):
    """Reads the dump of a plan: (numbers of the first line, values, regions) of each stage."""
    stages = []
    for line in text.splitlines():
        if stage := _STAGE.match(line):
            stages.append(([int(number) for number in stage.groups()], [], []))
        elif stages and (value := _VALUE.match(line)):
            numbers = {key: int(value[key]) for key in ("offset", "size", "first", "last")}
            stages[-1][1].append({"name": value["name"].strip(), "type": value["type"].strip(), **numbers})
        elif stages and (region := _REGION.match(line)):
            stages[-1][2].append((int(region[1]), region[2]))
    return stages


def _value_box(value, column, scale, base):
    x, width = _LEFT + value["first"] * column, (value["last"] - value["first"] + 1) * column
    height = value["size"] * scale
    y = base - value["offset"] * scale - height
    fill = _FILLS.get(value["name"].split(" ")[0], "#bfdbfe")
    title = escape(f"{value['name']}\n{value['type']}\n{value['size']:,} bytes at {value['offset']:,}\nactions {value['first']} to {value['last']}")
    label = ""
    letters = int((width - 6) / _LETTER)
    if height >= 12 and letters >= 2:
        label = f'<text x="{x + 3:.1f}" y="{y + height / 2 + 4:.1f}">{escape(value["name"][-letters:])}</text>'
    return f'<g><title>{title}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="#1d4ed8" stroke-width="0.5"/>{label}</g>'


def _live_line(values, actions, column, scale, base):
    """The bytes that are alive during each action: no plan can take less than their maximum."""
    points = []
    for action in range(actions):
        live = sum(value["size"] for value in values if value["first"] <= action <= value["last"])
        points += [f"{_LEFT + x * column:.1f},{base - live * scale:.1f}" for x in (action, action + 1)]
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="#dc2626"><title>bytes alive</title></polyline>'


def _region_mark(region, column, base):
    action, label = region
    return (f'<g><title>action {action}: {escape(label)}</title>'
            f'<rect x="{_LEFT + action * column:.1f}" y="{base + 2:.1f}" width="{column:.1f}" height="8" fill="#16a34a" stroke="#fff" stroke-width="0.5"/></g>')


def _stage_picture(stage, top):
    """Returns the drawing of a stage and its width."""
    (number, first, last, actions, arena, bound), values, regions = stage
    columns = max([actions] + [value["last"] + 1 for value in values])
    column = min(_COLUMN, _WIDEST / columns)
    scale = _HEIGHT / max(arena, 1)
    base = top + _TOP + _HEIGHT
    title = f"stage {number}: nodes {first} to {last}, {actions} actions, {arena:,} bytes; at most {bound:,} are alive at a time"
    note = f"{len(regions)} of the actions are regions (green); red: bytes alive"
    drawn = [f'<text x="{_LEFT}" y="{top + 14}" font-weight="bold">{title}</text>', f'<text x="{_LEFT}" y="{base + 24}" fill="#475569">{note}</text>']
    drawn += [_value_box(value, column, scale, base) for value in values]
    drawn += [_region_mark(region, column, base) for region in regions]
    if values:
        drawn.append(_live_line(values, columns, column, scale, base))
    return "".join(drawn), max(columns * column, len(title) * (_LETTER + 0.6)) + 2 * _LEFT


def svg(text):
    """The text of an SVG file for the dump of a plan: time from left to right, addresses from bottom to top.  None: there is no plan."""
    drawn, width, top = [], 0, 0
    for stage in _stages(text):
        part, part_width = _stage_picture(stage, top)
        drawn.append(part)
        width, top = max(width, part_width), top + _TOP + _HEIGHT + _BOTTOM
    if not drawn:
        return None
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top}" viewBox="0 0 {width:.0f} {top}" '
            f'font-family="monospace" font-size="11" fill="#0f172a">{"".join(drawn)}</svg>\n')
