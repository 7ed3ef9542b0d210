"""Draw a line chart with logarithmic axes as SVG, readable on light and dark pages.

Each line has a colour, a marker at every point and its name at its end. A dashed line shows linear growth.

Rule: the same figures give the same bytes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 900, 500
LEFT, RIGHT, TOP, BOTTOM = 70, 320, 30, 50
LABEL_SPACING_PIXELS = 16
"""Minimum distance between the labels of two lines."""

COLOURS = ("#2f6fd0", "#c8501e", "#2d8a4e", "#8a4fbf", "#a8790a", "#c2407a", "#16808c")
"""Line colours; each has a contrast of at least 3 to 1 against white and against GitHub's dark grey."""

STYLE = """
text { font: 13px sans-serif; fill: #1f2328 } .axis { stroke: #8c959f } .grid { stroke: #d1d9e0 }
.slope { stroke: #6e7781; stroke-dasharray: 5 5; fill: none } .back { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #3d444d } .slope { stroke: #9198a1 } .back { fill: #0d1117 }
}
""".strip()


@dataclass(frozen=True, slots=True)
class Axes:
    """Map values to pixels; each axis covers whole decades."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, point: Point) -> Point:
        across = _share(point[0], *self.x) * (WIDTH - LEFT - RIGHT) + LEFT
        down = (1 - _share(point[1], *self.y)) * (HEIGHT - TOP - BOTTOM) + TOP
        return round(across, 1), round(down, 1)


def plot(series: Mapping[str, Sequence[Point]], x: str, y: str) -> str:
    """Return the chart as SVG; raise ValueError for a value that is not above 0, which has no logarithm."""
    points = [point for line in series.values() for point in line]
    if any(value <= 0 for point in points for value in point):
        raise ValueError("a logarithmic axis cannot show values of 0 or less")
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    axes = Axes((min(xs), max(xs)), (10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))))
    parts = [*_frame(axes, sorted(set(xs)), x, y), *_slope(axes), *_lines(axes, series)]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def _share(value: float, low: float, high: float) -> float:
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) if high > low else 0.5


def _frame(axes: Axes, ticks: Sequence[float], x: str, y: str) -> Iterator[str]:
    yield f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>'
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in ticks:
        across, _ = axes.at((tick, axes.y[0]))
        yield f'<line class="grid" x1="{across}" y1="{TOP}" x2="{across}" y2="{bottom}"/>'
        yield f'<text x="{across}" y="{bottom + 18}" text-anchor="middle">{tick:,g}</text>'
    low, high = (round(math.log10(end)) for end in axes.y)
    for decade in range(low, high + 1):
        _, down = axes.at((axes.x[0], 10.0**decade))
        yield f'<line class="grid" x1="{LEFT}" y1="{down}" x2="{right}" y2="{down}"/>'
        yield f'<text x="{LEFT - 8}" y="{down + 4}" text-anchor="end">{10.0**decade:,g}</text>'
    yield f'<path class="axis" fill="none" d="M{LEFT},{TOP} V{bottom} H{right}"/>'
    yield f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>'
    yield f'<text x="{LEFT}" y="{TOP - 12}" text-anchor="middle">{escape(y)}</text>'


def _slope(axes: Axes) -> Iterator[str]:
    """Draw the line of linear growth across the chart, as far as it fits."""
    (left, right), (low, high) = axes.x, axes.y
    start = low * 2
    end = min(right, left * high / start)
    (x1, y1), (x2, y2) = axes.at((left, start)), axes.at((end, start * end / left))
    yield f'<path class="slope" d="M{x1},{y1} L{x2},{y2}"/>'
    yield f'<text x="{x1 + 12}" y="{y1 + 14}">linear</text>'


def _lines(axes: Axes, series: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    names = _apart({name: axes.at(max(line))[1] for name, line in series.items()})
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [axes.at(point) for point in sorted(line)]
        path = " L".join(f"{across},{down}" for across, down in places)
        yield f'<path fill="none" stroke="{colour}" stroke-width="2" d="M{path}"/>'
        yield from (f'<circle cx="{across}" cy="{down}" r="3.5" fill="{colour}"/>' for across, down in places)
        across, down = places[-1]
        yield f'<path fill="none" stroke="{colour}" d="M{across},{down} L{WIDTH - RIGHT + 14},{names[name] - 4}"/>'
        yield f'<text x="{WIDTH - RIGHT + 18}" y="{names[name]}">{escape(name)}</text>'


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Return the positions in order, moved down where labels would overlap."""
    placed: dict[str, float] = {}
    free = 0.0
    for name, height in sorted(heights.items(), key=lambda one: one[1]):
        placed[name] = max(height + 4, free)
        free = placed[name] + LABEL_SPACING_PIXELS
    return placed
