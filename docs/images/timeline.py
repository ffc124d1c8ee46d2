"""Draws a few locations of an archive as SVG, from what `nccl-otf2 print --json` says.

    nccl-otf2 print --json trace | python3 docs/images/timeline.py FROM_MS TO_MS 'LABEL=LOCATION' … > picture.svg

A LABEL that ends with `:` and has no `=` is a heading. `NOTE@MS-MS=TEXT`
shades a time. Times count from the first event of the archive.
"""

import json
import sys
from html import escape

WIDTH, LEFT, RIGHT, TOP, ROW = 1120, 190, 20, 58, 24
COLOURS = {
    "ncclAllReduce": "#2f6db5",
    "ncclGroup": "#5b6b7b",
    "ncclKernelLaunch": "#8a5fb0",
    "ncclLaunchPlan": "#b8a5cf",
    "ncclKernelChannel": "#4a9d8e",
    "initial_sync": "#9ccfc4",
    "compute": "#2e7d6b",
    "final_sync": "#bfe3da",
    "netSend": "#c98a2b",
    "netRecv": "#d9ae6a",
    "queued": "#efdcb8",
    "SendGPUWait": "#d8d8d8",
    "SendPeerWait": "#c4413b",
    "SendWait": "#e0a63c",
    "RecvWait": "#c4413b",
    "RecvFlushWait": "#e0a63c",
    "RecvGPUWait": "#d8d8d8",
}


def intervals(lines, wanted):
    """For each wanted location: (depth, region, begin, end), in ms."""
    found = {name: [] for name in wanted}
    stacks = {name: [] for name in wanted}
    first = None
    for line in lines:
        record = json.loads(line)
        time = record["time"]
        first = time if first is None else first
        name = record["location"]
        if name not in stacks:
            continue
        stack, at = stacks[name], (time - first) / 1e6
        if record["event"] == "Enter":
            stack.append((record["region"], at))
        elif record["event"] == "Leave" and stack:
            region, begin = stack.pop()
            found[name].append((len(stack), region, begin, at))
    return {name: sorted(items) for name, items in found.items()}


def text(x, y, words, size=12, colour="#24313d", anchor="start", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(words)}</text>'
    )


def rect(x, y, width, height, colour, title="", extra=""):
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height}" fill="{colour}" '
        f"{extra}>{inside}</rect>"
    )


def boxes(items, y, begin, end, place):
    """The boxes of one location: what is deeper is lower."""
    parts = []
    for depth, region, start, stop in items:
        if stop < begin or start > end:
            continue
        x, right = place(max(start, begin)), place(min(stop, end))
        colour = COLOURS.get(region, "#9aa7b3")
        inset = min(depth, 2) * 4
        parts.append(rect(x, y + 3 + inset, right - x, ROW - 6 - inset, colour, f"{region} {stop - start:.2f} ms"))
        dark = colour in ("#d8d8d8", "#efdcb8", "#bfe3da", "#9ccfc4")
        if right - x > 7.2 * len(region) + 8 and inset == 0:
            parts.append(text(x + 5, y + 16, region, 11, "#24313d" if dark else "#ffffff"))
    return parts


def main():
    begin, end = float(sys.argv[1]), float(sys.argv[2])
    rows, notes = [], []
    for argument in sys.argv[3:]:
        label, _, location = argument.partition("=")
        if label.startswith("NOTE@"):
            start, stop = map(float, label[5:].split("-"))
            notes.append((start, stop, location))
        else:
            rows.append((label, location))
    found = intervals(sys.stdin, [location for _, location in rows if location])
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)

    def place(ms):
        return LEFT + (ms - begin) * scale

    height = TOP + ROW * len(rows) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif">',
        rect(0, 0, WIDTH, height, "#ffffff", "", 'rx="6"'),
    ]
    for start, stop, words in notes:
        x, right = place(start), place(stop)
        parts.append(rect(x, TOP - 4, right - x, height - TOP - 6, "#fbeceb"))
        parts.append(text((x + right) / 2, 20, words, 13, "#a3302b", "middle", "bold"))
    step = 100 if end - begin > 300 else 20
    tick = -(-int(begin) // step) * step
    while tick <= end:
        parts.append(rect(place(tick), TOP - 4, 0.8, height - TOP - 6, "#e3e8ec"))
        parts.append(text(place(tick), TOP - 12, f"{tick} ms", 11, "#6b7986", "middle"))
        tick += step
    for number, (label, location) in enumerate(rows):
        y = TOP + ROW * number
        if not location:
            parts.append(text(12, y + 17, label.rstrip(":"), 13, weight="bold"))
            continue
        parts.append(rect(LEFT, y + ROW - 0.5, WIDTH - LEFT - RIGHT, 0.5, "#e3e8ec"))
        parts.append(text(22, y + 16, label))
        parts += boxes(found[location], y, begin, end, place)
    parts.append("</svg>")
    print("\n".join(parts))


if __name__ == "__main__":
    main()
