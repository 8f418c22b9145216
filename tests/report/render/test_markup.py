"""Escaping."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from lossleuth.report.render.markup import Markup, closed, escaped, joined, tag, visible, void


class Reader(HTMLParser):
    """What a browser would see: texts, and the elements around them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_whatever_stands_in_it_there_is_one_element_with_that_text(text: str, value: str) -> None:
    reader = Reader()
    reader.feed(tag("p", text, title=value))
    reader.close()
    assert reader.text.replace("\r", "") == visible(text)
    assert reader.elements == [("p", {"title": visible(value)})]


def test_what_is_markup_already_is_not_escaped_again() -> None:
    assert tag("b", tag("i", "<")) == "<b><i>&lt;</i></b>"
    assert joined(["<", Markup("<hr>")]) == "&lt;<hr>"
    assert escaped(3.5) == "3.5"


def test_attributes_that_are_none_are_left_out() -> None:
    assert void("input", class_="a", id=None, aria_hidden="true") == (
        '<input class="a" aria-hidden="true">'
    )


def test_elements_of_a_picture_are_closed() -> None:
    assert closed("path", d='M0 0"') == '<path d="M0 0&quot;"/>'


def test_marks_that_turn_the_direction_are_shown_as_their_numbers() -> None:
    assert visible("a\u202eb\x1b[2J\u2066") == "a\\u202eb\\x1b[2J\\u2066"
    assert visible("two\nlines\tand a tab, é") == "two\nlines\tand a tab, é"
