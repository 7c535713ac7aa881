"""A bar for each contender, as SVG that reads on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.cases import BRIDGE
from benchmarks.results import Results

WIDTH, LABELS, VALUES = 760, 190, 150
"""Pixels: all, what is left of the bars, and what is right of the longest."""
BAR, GAP, TOP = 22, 10, 58
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #1f2733 }
@media (prefers-color-scheme: dark) { text { fill: #e6e9ef } }
</style>"""
OURS, OTHERS = "#2f6fdf", "#8a94a6"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float


def cpu_picture(results: Results) -> str | None:
    """CPU per event to Kafka, the cheapest first. None where it was not measured."""
    found = results.measured.get("kafka", {})
    bars = [Bar(name, value) for name, each in found.items() if (value := each.median("cpu_us")) is not None]
    if not any(bar.label == BRIDGE for bar in bars):
        return None
    return picture("CPU per event, watch to Kafka", "µs", sorted(bars, key=lambda bar: bar.value))


def picture(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Values are above 0; the one called as the bridge is what the others are compared with."""
    longest = max(bar.value for bar in bars)
    ours = next(bar.value for bar in bars if bar.label == BRIDGE)
    height = TOP + len(bars) * (BAR + GAP)
    box = f'viewBox="0 0 {WIDTH} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{escape(title)}">',
        STYLE,
        f'<text x="0" y="20" style="font-weight:600">{escape(title)}</text>',
        '<text x="0" y="40" style="font-size:12px">One 7.8 KB pod an event; shorter is better</text>',
    ]
    for place, bar in enumerate(bars):
        top = TOP + place * (BAR + GAP)
        width = max(2, bar.value / longest * (WIDTH - LABELS - VALUES))
        fill = OURS if bar.label == BRIDGE else OTHERS
        says = f"{bar.value:,.0f} {unit}" + ("" if bar.label == BRIDGE else f" · {bar.value / ours:.1f}×")
        lines += [
            f'<text x="{LABELS - 10}" y="{top + 16}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{LABELS}" y="{top}" width="{width:.1f}" height="{BAR}" rx="3" fill="{fill}"/>',
            f'<text x="{LABELS + width + 8:.1f}" y="{top + 16}">{escape(says)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
