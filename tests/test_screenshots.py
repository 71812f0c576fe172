"""The pictures of README and docs show the screens as they are."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.screenshots import ALL, PICTURES, Picture, drawn, file_of
from tests.support.still import Still
from tests.support.svg import svg

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("picture", ALL, ids=lambda picture: picture.name)
async def test_the_picture_is_fresh(picture: Picture) -> None:
    now = await drawn(picture)
    fresh = file_of(picture).read_text() == now
    assert fresh, "the screen has changed: python -m tests.support.screenshots makes its picture anew; look at it"


def test_every_picture_is_shown_somewhere_and_nothing_else_is_kept() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"screenshots/(\w+)\.svg", page.read_text())}
    assert shown == {picture.name for picture in ALL} == {file.stem for file in PICTURES.iterdir()}


def test_a_picture_has_each_run_in_its_place_and_stands_alone() -> None:
    still = Still(
        6, ((("<b> ", "bold #ffffff on #000000"), ("x", "reverse #111111 on #222222")), ((" é", "#ffffff on #000000"),))
    )
    root = ElementTree.fromstring(svg(still, "a & b"))
    texts = {text.text: text.attrib for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert list(texts) == ["<b>", "x", "é"]
    assert (texts["x"]["fill"], texts["<b>"].get("font-weight")) == ("#222222", "bold")
    assert float(texts["é"]["y"]) > float(texts["x"]["y"]) and float(texts["x"]["x"]) > float(texts["é"]["x"])
    assert "http" not in svg(still, "").replace("http://www.w3.org/2000/svg", "")
