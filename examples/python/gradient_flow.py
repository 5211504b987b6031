# SPDX-License-Identifier: Apache-2.0
"""How a gradient flows, drawn: which element wins each window, where each dy lands, and how taps share one.

    python gradient_flow.py [gradient_flow.svg]

Cells begin at "# %%": editors that know notebooks run them one by one.
"""

# %% What backpass computes
import colorsys
import math
import sys
from pathlib import Path

import backpass
import numpy as np

WINDOW, STRIDE = 3, 2
x = np.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7], [9, 3, 2, 3, 8, 4, 6], [2, 6, 4, 3, 3, 8, 3],
              [2, 7, 9, 5, 0, 2, 8], [8, 4, 1, 9, 7, 1, 6], [9, 3, 9, 9, 3, 7, 5]], np.float32)  # fmt: skip
dy = np.arange(1, 10, dtype=np.float32).reshape(3, 3)

pooling = dict(window=WINDOW, strides=STRIDE)
_, winners = backpass.max_pool(x[None, None], winners="flat", **pooling)
dx = backpass.max_pool_grad(dy[None, None], x=x[None, None], **pooling)[0, 0]

# Row o of the map's matrix has the weights of output o: the gradient of each unit dy.
IN, OUT = 4, 7
weights = np.stack([backpass.resample_grad(unit, x_shape=(IN,)) for unit in np.eye(OUT)])
row_dy = np.arange(1, OUT + 1, dtype=np.float64)
row_dx = backpass.resample_grad(row_dy, x_shape=(IN,))

# %% What it is drawn with
INK, FAINT, LINE, PAPER, CELL = "#1f2733", "#8a94a3", "#dfe4ea", "#ffffff", 46
parts = []


def color(i, count):
    red, green, blue = colorsys.hls_to_rgb((0.58 + i / count) % 1, 0.46, 0.62)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def add(element, text=None, **attributes):
    names = (
        f'{name.replace("_", "-")}="{number(v) if isinstance(v, (int, float)) else v}"'
        for name, v in attributes.items()
    )
    parts.append(f"<{element} {' '.join(names)}" + ("/>" if text is None else f">{text}</{element}>"))


def write(x, y, text, size=15, fill=INK, anchor="middle", weight="400"):
    add("text", text, x=x, y=y + size * 0.35, font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)


def box(x, y, width, height, **style):
    add("rect", x=x, y=y, width=width, height=height, **{"rx": 6, **style})


def pie(x, y, radius, fills):
    """A disc that several windows share."""
    if len(fills) == 1:
        add("circle", cx=x, cy=y, r=radius, fill=fills[0])
        return
    for i, fill in enumerate(fills):
        begin, end = (2 * math.pi * (i + k) / len(fills) - math.pi / 2 for k in (0, 1))
        points = [number(v) for a in (begin, end) for v in (x + radius * math.cos(a), y + radius * math.sin(a))]
        r = number(radius)
        add(
            "path",
            d=f"M{number(x)} {number(y)}L{points[0]} {points[1]}A{r} {r} 0 0 1 {points[2]} {points[3]}Z",
            fill=fill,
        )


def flow(begin, end, stroke, width, opacity=0.6, upright=False, **style):
    (x0, y0), (x1, y1) = begin, end
    bend = (x0, (y0 + y1) / 2, x1, (y0 + y1) / 2) if upright else ((x0 + x1) / 2, y0, (x0 + x1) / 2, y1)
    curve = " ".join(map(number, (*bend, x1, y1)))
    add("path", d=f"M{number(x0)} {number(y0)}C{curve}", fill="none", stroke=stroke, stroke_width=width,
        stroke_opacity=opacity, stroke_linecap="round", **style)  # fmt: skip


def cells(left, top, shape):
    for row, column in np.ndindex(shape):
        box(left + column * CELL + 1, top + row * CELL + 1, CELL - 2, CELL - 2, fill="#f4f6f9", rx=5)


def values(left, top, array, shared, fill):
    """The numbers of a matrix; those of the elements that are shared stand on a disc."""
    for place in np.ndindex(array.shape):
        middle = center(left, top, CELL, *place)
        if place in shared:
            pie(*middle, 16, shared[place])
        write(
            *middle,
            number(array[place]),
            fill=PAPER if place in shared else fill,
            weight="600" if place in shared else "400",
        )


def center(left, top, cell, row, column):
    return left + (column + 0.5) * cell, top + (row + 0.5) * cell


# %% Max pooling: windows, winners, and where each dy lands
SIDE = 7 * CELL
LEFT, TOP, GAP, BIG = 48, 132, 112, 58
MIDDLE = LEFT + SIDE + GAP
RIGHT = MIDDLE + 3 * BIG + GAP
WIDTH, HEIGHT = RIGHT + SIDE + LEFT, 850

box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, fill=PAPER, stroke=LINE, rx=14)
write(LEFT, 44, "max_pool_grad: every dy goes to the element that won its window", 20, anchor="start", weight="600")
write(LEFT, 74, f"window {WINDOW}, stride {STRIDE}: the first of equals wins, and one element may win several windows",
      14, FAINT, "start")  # fmt: skip
for left, width, label in (LEFT, SIDE, "x"), (MIDDLE, 3 * BIG, "dy"), (RIGHT, SIDE, "dx"):
    write(left + width / 2, TOP - 22, label, 16, weight="600")

won = {}
for i, flat in enumerate(winners.ravel()):
    won.setdefault(divmod(int(flat), 7), []).append(color(i, 9))

for left in LEFT, RIGHT:
    cells(left, TOP, x.shape)
for i in range(9):
    row, column = (STRIDE * k for k in divmod(i, 3))
    side = WINDOW * CELL - 8
    box(LEFT + column * CELL + 4, TOP + row * CELL + 4, side, side, fill="none", stroke=color(i, 9), stroke_width=2,
        stroke_opacity=0.75, rx=9)  # fmt: skip
middle_top = TOP + (SIDE - 3 * BIG) / 2
for i, flat in enumerate(winners.ravel()):
    start = center(MIDDLE, middle_top, BIG, *divmod(i, 3))
    winner = divmod(int(flat), 7)
    flow(center(LEFT, TOP, CELL, *winner), start, color(i, 9), 1.5, 0.5, stroke_dasharray="1 5")
    flow(start, center(RIGHT, TOP, CELL, *winner), color(i, 9), 3)
values(LEFT, TOP, x, won, INK)
values(RIGHT, TOP, dx, won, "#b4bcc7")
for i, value in enumerate(dy.ravel()):
    row, column = divmod(i, 3)
    box(MIDDLE + column * BIG + 5, middle_top + row * BIG + 5, BIG - 10, BIG - 10, fill=color(i, 9), rx=9)
    write(*center(MIDDLE, middle_top, BIG, row, column), number(value), 17, PAPER, weight="600")

# %% Resample: each dy is shared by the taps that its output was made of
UP, DOWN = 640, 780
box(LEFT, 498, WIDTH - 2 * LEFT, 1, fill=LINE, rx=0)
write(LEFT, 538, f"resample_grad: every dy is shared by the taps of its output, {IN} elements to {OUT}", 20,
      anchor="start", weight="600")  # fmt: skip
write(LEFT, 568, "half-pixel, linear: a stream is as wide as its weight, and dx is the sum of what arrives", 14, FAINT,
      "start")  # fmt: skip


def column_center(i, count):
    return LEFT + 60 + (i + 0.5) * (WIDTH - 2 * LEFT - 60) / count


for o, i in np.argwhere(weights):
    flow((column_center(o, OUT), UP), (column_center(i, IN), DOWN), color(o, OUT), 30 * weights[o, i], 0.5,
         upright=True)  # fmt: skip
for label, y, row in ("dy", UP, row_dy), ("dx", DOWN, row_dx):
    write(LEFT, y, label, 16, anchor="start", weight="600")
    for i, value in enumerate(row):
        where = column_center(i, len(row))
        fill = color(i, OUT) if label == "dy" else INK
        box(where - 30, y - 21, 60, 42, fill=fill, rx=9)
        write(where, y, number(value), 16, PAPER, weight="600")

# %% The picture
svg = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, sans-serif">
<!-- SPDX-License-Identifier: Apache-2.0; written by gradient_flow.py -->
<title>How the gradients of max pooling and of resample flow</title>
{chr(10).join(parts)}
</svg>
"""
Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".svg")).write_text(svg)
