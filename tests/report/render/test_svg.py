"""Charts as SVG."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from lossleuth.report.document.blocks import Chart, Level, Series
from lossleuth.report.render.svg import HEIGHT, WIDTH, colours, draw, frame_of


def chart(*ys: float, **options: object) -> Chart:
    line = Series("loss", [float(i) for i in range(len(ys))], list(ys))
    return Chart("Loss", "description", "nats", [line], **options)  # type: ignore[arg-type]  # options of a chart


def paths(picture: str) -> list[str]:
    return [part.split('"')[0] for part in picture.split(' d="')[1:]]


def test_a_gap_lifts_the_pen_and_a_lone_number_is_a_dot() -> None:
    picture = draw(chart(1.0, 2.0, math.nan, 3.0, math.inf, 1.0, 2.0), "p")
    (path,) = paths(picture)
    assert path.count("M") == 3
    assert path.count("L") == 2
    assert picture.count("<circle") == 1


def test_what_is_not_positive_is_a_gap_on_a_logarithmic_scale() -> None:
    (path,) = paths(draw(chart(1.0, 10.0, 0.0, 1.0, 2.0, logarithmic=True), "p"))
    assert path.count("M") == 2


def test_without_any_number_there_is_a_sentence() -> None:
    assert "No data recorded" in draw(chart(math.nan), "p")
    assert frame_of(chart()) is None


def test_everything_lies_inside_the_picture() -> None:
    levels = [Level("ln 8", math.log(8)), Level("far", 1e6), Level("none", math.nan)]
    wide = chart(*[math.sin(i) * 10**i for i in range(6)], levels=levels)
    frame = frame_of(wide)
    assert frame is not None
    for x, y in zip(wide.series[0].xs, wide.series[0].ys, strict=True):
        assert 0 <= frame.x(x) <= WIDTH
        assert 0 <= frame.y(y) <= HEIGHT
    picture = draw(wide, "p")
    assert "ln 8 2.079" in picture
    assert "none" not in picture


def test_higher_numbers_stand_higher_and_later_steps_further_right() -> None:
    frame = frame_of(chart(1.0, 5.0))
    assert frame is not None
    assert frame.y(5.0) < frame.y(1.0)
    assert frame.x(1.0) > frame.x(0.0)


def test_a_single_number_is_draw() -> None:
    picture = draw(chart(2.5), "p")
    assert picture.count("<circle") == 1
    assert "2.5" in picture


def test_one_group_has_one_colour() -> None:
    pair = [Series(f"run {i}", [0.0], [1.0], group="with") for i in range(3)]
    assert colours([*pair, Series("other", [0.0], [1.0])]) == [0, 0, 0, 1]


def test_names_are_text_and_nothing_else() -> None:
    hostile = "</svg><script>alert(1)</script>"
    picture = draw(chart(1.0, 2.0, levels=[Level(hostile, 1.5)]), "p")
    assert "<script" not in picture
    assert "&lt;script&gt;" in picture
    ElementTree.fromstring(picture)


def test_two_heights_never_have_the_same_label_and_no_difference_is_blown_up() -> None:
    picture = draw(chart(9.210340, 9.210341), "p")
    ticks = re.findall(r'text-anchor="end">([^<]*)<', picture)
    assert len(set(ticks)) == len(ticks)
    frame = frame_of(chart(9.210340, 9.210341))
    assert frame is not None
    assert frame.high_y - frame.low_y > 0.05
