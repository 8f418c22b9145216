"""Finding the causes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import lossleuth.causes
from lossleuth.catalogue import HEADINGS, cause, causes, chosen_causes, page
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Stage

FOLDER = Path(lossleuth.causes.__file__).parent


def test_every_file_in_a_stages_folder_is_a_cause_of_that_name_and_stage() -> None:
    files = {
        (path.parent.name, path.stem)
        for path in FOLDER.glob("*/*.py")
        if path.name != "__init__.py" and "CAUSE = " in path.read_text(encoding="utf-8")
    }
    assert {(c.stage.value, c.id) for c in causes()} == files


def test_names_are_unique_and_earlier_stages_come_first() -> None:
    names = [c.id for c in causes()]
    assert len(set(names)) == len(names) >= 30
    order = [list(Stage).index(c.stage) for c in causes()]
    assert order == sorted(order)


@pytest.mark.parametrize("known", causes(), ids=lambda c: c.id)
def test_every_page_has_all_headings(known: Cause) -> None:
    text = page(known)
    places = [text.find(heading) for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)
    assert re.match(r"\S", text)


def test_what_overlaps_is_known() -> None:
    names = {c.id for c in causes()}
    assert [c.id for c in causes() if not set(c.overlaps) <= names] == []


def test_a_cause_is_found_by_its_name() -> None:
    assert cause("label_offset").id == "label_offset"
    with pytest.raises(BadInput, match="see `lossleuth causes`"):
        cause("label_ofset")


def test_a_measured_dose_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "doses.json"
    monkeypatch.setattr("lossleuth.catalogue.DOSES", path)
    assert "How little" not in page(cause("lr_too_high"))
    known = {"lr_too_high": {"ladder": [100.0, 10.0, 3.0], "smallest_proven": 10.0}}
    path.write_text(json.dumps(known))
    assert "100, 10, 3" in page(cause("lr_too_high"))
    assert "10 is the smallest dose proven" in page(cause("lr_too_high"))
    known["lr_too_high"]["smallest_proven"] = None  # type: ignore[assignment]  # none at all
    path.write_text(json.dumps(known))
    assert "none was proven" in page(cause("lr_too_high"))


def test_causes_are_chosen_by_name() -> None:
    assert [c.id for c in chosen_causes(["label_offset"])] == ["label_offset"]
    assert len(chosen_causes([])) > 30
    with pytest.raises(BadInput, match="see `lossleuth causes` for all of them"):
        chosen_causes(["label_offset", "bad_luck"])
