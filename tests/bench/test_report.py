"""The report: every picture is drawn, and the page needs nothing from outside."""

import copy
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from .support import whole_run

pytest.importorskip("matplotlib")

from falcon.bench import figures, report


@pytest.fixture(scope="module")
def found():
    return whole_run()


class Page(HTMLParser):
    """Checks that tags are closed, and collects what the page refers to."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.refers, self.tags = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.refers += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_and_its_pictures(found, tmp_path):
    path = report.write(found, tmp_path / "new" / "folder")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("img") == len(figures.FIGURES)
    assert all(x.startswith("data:image/svg+xml;base64,") for x in page.refers)
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import", text)
    for name, title, _, _ in figures.FIGURES:
        assert title in text
        assert (path.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        drawing = ElementTree.parse(path.parent / f"{name}.svg").getroot()
        assert drawing.tag.endswith("svg")
    for word in ("Test", "pip install", "1.200 ±0.000", "falcon, 1.200 times as fast as numpy",
                 "absent: mkl", "strassen (cpu)"):  # fmt: skip
        assert word in text


def test_the_same_records_give_the_same_report(found, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FIGURES", figures.FIGURES[:1])
    first, second = (report.write(found, tmp_path / x) for x in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_what_is_not_there_is_left_out(found, tmp_path):
    less = copy.deepcopy(found)
    less["cases"], less["peak"] = [], None
    path = report.write(less, tmp_path)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.tags.count("img") == 0
    assert not (tmp_path / "rates.png").exists()


def test_words_of_others_are_escaped(found):
    harmful = copy.deepcopy(found)
    harmful["peers"][0]["version"] = "<script>alert(1)</script>"
    harmful["cases"][0]["label"] = "<b>harm"
    harmful["machine"]["cpu"] = "A & B"
    text = report.page(harmful, [])
    assert "<script>" not in text
    assert "<b>harm" not in text
    assert "A &amp; B" in text


def test_warnings_and_wrong_results(found):
    doubtful = copy.deepcopy(found)
    doubtful["cases"][0]["speedups"]["numpy"].update(known=False, uncertainty=0.3)
    doubtful["cases"][0]["sides"]["numpy"]["correct"] = False
    text = report.page(doubtful, [])
    Page(text)
    assert '<p class="severe">WRONG RESULT: numpy' in text
    assert '<p class="warning">1 of 8 ratios not known to 2 %' in text


def test_legends_are_whole(found):
    """A side of one dtype only is in the legend, whichever panel it is drawn in."""
    more = copy.deepcopy(found)
    case = more["cases"][-1]
    case["sides"]["onednn"] = copy.deepcopy(case["sides"]["numpy"])
    case["speedups"]["onednn"] = copy.deepcopy(case["speedups"]["numpy"])
    with figures.style():
        for draw in (figures.rates, figures.speedups):
            (legend,) = draw(more).legends
            assert "onednn" in {x.get_text() for x in legend.get_texts()}
