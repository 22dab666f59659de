#!/usr/bin/env python3
"""Draws Results/latest.json as bars: the processor time of each stream server beside that of plain C, case by case.

chart.svg has all cases, summary.svg those of the first page.
"""

import json
from html import escape

from harness import HERE, is_steady

RESULTS = HERE / "Results" / "latest.json"
CHART = HERE / "Results" / "chart.svg"
SUMMARY = HERE / "Results" / "summary.svg"

BASELINE = "raw-c"
# Ours are blue, dark for the thread of the sockets; neighbours among the others differ in lightness, not only in hue.
COLOURS = {
    "swift-reactor": ("ActorSockets, on the reactor", "#1d4ed8"),
    "swift-pool": ("ActorSockets, on the pool", "#7aa5f8"),
    "nio-handler": ("SwiftNIO, ChannelHandler", "#b45309"),
    "nio-async": ("SwiftNIO, NIOAsyncChannel", "#f0b35a"),
    "flying": ("FlyingSocks", "#6d28a8"),
    "go": ("Go net", "#2f9e77"),
}
CASES = {
    "echo-1": "64-byte echo, 1 connection",
    "echo-128": "64-byte echo, 128 connections",
    "echo-1024": "64-byte echo, 1,024 connections",
    "echo-8192": "64-byte echo, 8,192 connections",
    "pipelined": "64-byte echo, 16 in flight each",
    "echo-64k": "64 KiB echo",
    "one-way": "one-way stream",
    "tenth": "64-byte echo, a tenth of the load",
    "churn": "accept, echo, close",
    "fanout": "one message to 9,000 connections",
    "hose": "fire hose beside quiet ones",
}
# For the first page, which has half a screen for it.
SUMMARY_CASES = ("echo-1", "echo-128", "echo-8192", "echo-64k", "churn")
SUMMARY_SERVERS = ("swift-reactor", "swift-pool", "nio-handler", "flying", "go")

WIDTH = 860
LEFT = 232  # of the bars
RIGHT = 70
BAR = 11
GAP = 3  # between bars
BETWEEN_CASES = 16
TOP = 118
# Longer bars are cut off, and say so: one slow server must not press all others together.
LONGEST = 5.0
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
BACKGROUND, INK, FAINT, LINE = "#ffffff", "#1f2328", "#59636e", "#d5dae0"


def text(x, y, words, size=12, colour=INK, anchor="start", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{escape(words)}</text>'
    )


def rectangle(x, y, width, height, colour, radius=0):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" fill="{colour}"/>'


def line(x, top, bottom, colour, dashes=""):
    return (
        f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{colour}"'
        f' stroke-dasharray="{dashes}"/>'
    )


class Scale:
    """Ratios as places on the horizontal axis."""

    def __init__(self, ratios):
        self.end = min(LONGEST, max(ratios) * 1.05)
        self.unit = (WIDTH - LEFT - RIGHT) / self.end

    def width(self, ratio):
        return min(ratio, self.end) * self.unit

    @property
    def marks(self):
        return [number / 2 for number in range(int(self.end * 2) + 1)]


def is_published(case):
    return is_steady([result[case["cost"]] for result in case["rounds"][BASELINE]])


def ratios_of(results, servers):
    """By case whose yardstick is steady, of each of these servers that it has: the ratio, or None of one that did not finish."""
    cases = results["streams"]["cases"]
    return {
        key: {
            name: cases[key]["summary"][name].get("cpu_ratios", {}).get(BASELINE, {}).get("median")
            for name in servers
            if name in cases[key]["summary"]
        }
        for key in CASES
        if key in cases and is_published(cases[key])
    }


def draw_legend(names):
    parts = []
    for index, name in enumerate(names):
        label, colour = COLOURS[name]
        x, y = 24 + index % 3 * 265, 62 + index // 3 * 20
        parts += [rectangle(x, y, BAR, BAR, colour, 2), text(x + BAR + 6, y + BAR - 1, label)]
    return parts


def draw_bar(scale, y, name, ratio):
    if ratio is None:
        return [text(LEFT + 4, y + BAR - 1, f"{COLOURS[name][0]}: did not finish", 10, FAINT)]
    width = scale.width(ratio)
    cut = " ..." if ratio > scale.end else ""
    bar = rectangle(LEFT, y, width, BAR, COLOURS[name][1], 1)
    # A figure beside a bar that ends just before a line would be crossed out by it.
    gap = rectangle(LEFT + width, y, 28, BAR, BACKGROUND)
    return [gap, bar, text(LEFT + width + 5, y + BAR - 1.5, f"{ratio:.2f}{cut}", 10, FAINT)]


def draw_case(scale, y, title, ratios):
    height = len(ratios) * (BAR + GAP) - GAP
    parts = [text(LEFT - 12, y + height / 2 + 4, title, anchor="end")]
    for index, (name, ratio) in enumerate(ratios.items()):
        parts += draw_bar(scale, y + index * (BAR + GAP), name, ratio)
    return parts, y + height


def draw_axis(scale, bottom):
    parts = []
    for mark in scale.marks:
        x = LEFT + scale.width(mark)
        is_baseline = mark == 1
        parts.append(line(x, TOP - 8, bottom + 6, INK if is_baseline else LINE, "" if is_baseline else "2 3"))
        if mark == int(mark):
            parts.append(text(x, bottom + 20, "plain C" if is_baseline else f"{mark:.0f}", 11, FAINT, "middle"))
    return parts


def draw_origin(results, y):
    """Where and when, with what."""
    machine, versions = results["machine"], results["versions"]
    swift = (versions["swift"] or "Swift").split(" (")[0]
    go = " ".join((versions.get("go") or "no Go").split()[:3]).replace("go version go", "Go ")
    where = f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, {results['date'][:10]}"
    peers = f"SwiftNIO {versions['swift-nio']}, FlyingFox {versions['FlyingFox']}, {go}"
    return [text(24, y, where, 11, FAINT), text(24, y + 16, f"{swift}, {peers}", 11, FAINT)]


def draw(results, keys=tuple(CASES), servers=tuple(COLOURS)):
    """The chart of some cases and servers as SVG. It has a background of its own, for pages that are dark."""
    cases = {key: ratios for key, ratios in ratios_of(results, servers).items() if key in keys}
    ratios = [ratio for servers in cases.values() for ratio in servers.values() if ratio]
    if not ratios:
        raise ValueError(f"nothing to draw: no figures beside those of {BASELINE}")
    scale = Scale(ratios)
    names = [name for name in COLOURS if any(name in servers for servers in cases.values())]
    bars, y = [], TOP
    for key, servers in cases.items():
        parts, y = draw_case(scale, y, CASES[key], servers)
        bars += parts
        y += BETWEEN_CASES
    bottom = y - BETWEEN_CASES
    height = bottom + 74
    parts = [
        rectangle(0, 0, WIDTH, height, BACKGROUND, 6),
        text(24, 28, "Processor time of the server, beside plain C", 16, weight="600"),
        text(24, 46, "Same work, same load; shorter is better. Medians of the ratios in each round.", 12, FAINT),
        *draw_legend(names),
        *draw_axis(scale, bottom),
        *bars,
        *draw_origin(results, bottom + 48),
    ]
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    header = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}">'
    title = "<title>Processor time of each server as a ratio to plain C</title>"
    return "\n".join([header, title, *parts, "</svg>"]) + "\n"


def write(results):
    CHART.write_text(draw(results))
    SUMMARY.write_text(draw(results, SUMMARY_CASES, SUMMARY_SERVERS))


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
