"""Pictures: scales, ticks, and positions of marks and labels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.report.canvas import NARROW, TICK_SIZE, WIDE, Panel, Scale, Sheet, grid, log, near_zero, text_width, tick

ENDS = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)


def texts(svg: str) -> dict[str, tuple[float, float]]:
    texts = re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"[^>]*>([^<]*)</text>', svg)
    return {text: (float(x), float(y)) for x, y, text in texts}


def dots(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([-\d.]+)" cy="([-\d.]+)"', svg)]


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (0, 7, 9, [0, 1, 2, 3, 4, 5, 6, 7]),
        (0, 7, 4, [0, 2, 4, 6]),
        (-0.24, 0.11, 5, [-0.2, -0.1, 0, 0.1]),
        (-3200, 170, 3, [-2000, 0]),
        (0.3, 1.7, 1, [0.5, 1.0, 1.5]),
    ],
)
def test_ticks_are_round_numbers_and_at_most_as_many_as_allowed(
    low: float, high: float, most: int, ticks: list[float]
) -> None:
    assert Scale(low, high).ticks(most) == pytest.approx(ticks)


@given(st.lists(ENDS, min_size=1, max_size=5), st.integers(1, 9))
def test_every_axis_has_at_least_two_ticks(values: list[float], most: int) -> None:
    scale = Scale.around(values, 0.06)
    ticks = scale.ticks(most)
    assert len(ticks) >= 2
    assert all(map(scale.shows, ticks))
    assert all(0 < scale.share(value) < 1 for value in values), "a margin at both ends"


def test_scale_of_an_axis_can_be_logarithmic_or_reversed() -> None:
    assert Scale(1, 100, log).share(10) == pytest.approx(0.5)
    bend = near_zero(0.01, 0.67)
    assert [bend(value) for value in (0, 0.01, 0.1, -0.1)] == pytest.approx([0, 0.67, 1.67, -1.67])
    assert Scale(3, 0).share(2) == pytest.approx(1 / 3), "an axis may run the other way"


def test_tick_labels_have_no_trailing_zeros() -> None:
    assert [tick(each) for each in (0.0, 0.1 + 0.2, 1000.0, -25.0)] == ["0", "0.3", "1,000", "\N{MINUS SIGN}25"]


def drawn(width: int, columns: int = 2) -> str:
    """Return a picture of four panels. Each has a dot in two corners of its axes and one dot outside of them."""
    panels = []
    for index, name in enumerate(("a", "b", "c", "a much longer name")):
        panel = Panel(title=f"title {index}", x=Scale(0, 40_000), y=Scale(0, 1), y_ticks={0.5: f"{name} {index}"})
        for x, y in ((0, 0), (40_000, 1), (90_000, 5)):
            panel.dot(x, y, "arm1", 4)
        panels.append(panel)
    return grid(width, panels, 120, columns=columns).svg("name", "Title", "A <description>")


def test_axes_of_a_picture_with_several_panels_are_aligned() -> None:
    marks = dots(drawn(WIDE))
    corners = [marks[3 * index : 3 * index + 2] for index in range(4)]
    assert corners[0][0][0] == corners[2][0][0] < corners[1][0][0] == corners[3][0][0]
    assert corners[0][0][1] == corners[1][0][1] < corners[2][0][1] == corners[3][0][1]
    assert len({round(right[0] - left[0], 0) for left, right in corners}) == 1, "axes of one width"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_labels_are_inside_the_picture(width: int) -> None:
    svg = drawn(width)
    for text, (x, y) in texts(svg).items():
        before = text_width(text, TICK_SIZE) if "name" in text else 0
        assert before <= x <= width, text
        assert 0 < y < float(re.findall(r'viewBox="0 0 \d+ (\d+)"', svg)[0])
    last, (x, _) = max(((t, p) for t, p in texts(svg).items() if "0,000" in t), key=lambda each: each[1][0])
    assert x + text_width(last, TICK_SIZE) / 2 <= width


def test_tick_labels_do_not_overlap_on_narrow_panels() -> None:
    panel = Panel(x=Scale(0, 1_900_000))
    for pixels in (60, 120, 300):
        words = [tick(each) for each in panel.x_marks(pixels)]
        if len(words) > 2:
            assert sum(text_width(word, TICK_SIZE) for word in words) < pixels


def test_points_outside_of_a_panel_are_clipped() -> None:
    svg = drawn(WIDE)
    clips = re.findall(r'<clipPath id="([^"]+)"><path d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)', svg)
    assert [name for name, *_ in clips] == [f"name-{index}" for index in range(4)]
    assert all(f'clip-path="url(#{name})"' in svg for name, *_ in clips)
    _, left, top, right, bottom = clips[0]
    inside, edge, beyond = dots(svg)[:3]
    assert (inside, edge) == ((float(left), float(bottom)), (float(right), float(top)))
    assert beyond[0] > float(right)


def test_markup_in_labels_of_a_picture_is_escaped() -> None:
    panel = Panel(title="<a>\nb", y_ticks={0.5: "c & d\ne"})
    panel.word(0.5, 0.5, '"<script>"')
    svg = Sheet(WIDE, [panel], [100]).svg("name", "<t>", "<d>")
    assert "<script>" not in svg
    assert {"&lt;a&gt;", "b", "c &amp; d", "e"} <= set(texts(svg))
    assert '<desc id="name-desc">&lt;d&gt;</desc>' in svg


@pytest.mark.slow
def test_making_a_report_imports_no_slow_library(tmp_path: Path) -> None:
    code = (
        "import json, pathlib, sys; from tests.report.results import mongodb; from costof.report import write_reports; "
        "import costof.results, costof.statistics.intervals; costof.statistics.intervals.estimate([1.0, 2.0, 4.0]); "
        f"write_reports(mongodb(), pathlib.Path({str(tmp_path)!r})); print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"matplotlib", "pandas", "scipy.stats", "scipy.optimize"}
