"""From finds to the catalogue, and the table in the documentation."""

from pathlib import Path

import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.discover.catalogue import collect, table
from falcon.schemes import loaders

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["schemes.md", "finding.md"])
def test_the_table_is_current(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert table.updated(text) == text, (
        "run: python -m falcon.discover.catalogue.table docs/schemes.md docs/finding.md"
    )  # fmt: skip


def test_the_tables_have_every_scheme_and_format():
    schemes_of, formats = table.of_schemes(), table.of_formats()
    for scheme in table.stored():
        assert f"`{scheme.name}`" in schemes_of
        assert f"\n| {'x'.join(map(str, scheme.format))}:" in formats
        rank, additions = table.known()[scheme.format]
        assert scheme.rank >= rank, f"{scheme!r} is better than the best known: say so"
        assert additions == "" or int(additions) > 0


def test_a_document_without_a_place():
    with pytest.raises(ValueError, match="the document lacks"):
        table.updated("nothing here")


def test_update(tmp_path):
    path = tmp_path / "some.md"
    place = "<!-- table of {} by hand -->\nold<!-- end of table -->\n"
    path.write_text(f"before\n{place.format('formats')}between\n{place.format('schemes')}after\n")
    assert table.main([str(path)]) == 0
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    formats, of_schemes = text.split("between")
    assert "| 3x3x3:23 | 23 |" in formats and "| `3x3x3:23` | 23 |" in of_schemes


def test_collect(tmp_path, capsys):
    """A better find replaces what is stored; a worse one does not."""
    finds, out = tmp_path / "finds", tmp_path / "out"
    finds.mkdir(), out.mkdir()
    source = "falcon's own flip-graph search; a command; seed 3, worker 0"
    for name in ("winograd", "strassen"):
        scheme = schemes.get(name).renamed("2x2x2:7", source)
        loaders.dump(scheme, finds / f"{name}.json")
    assert collect.main([str(finds), "--rounds", "50", "--out", str(out)]) == 0
    written = sorted(path.name for path in out.iterdir())
    assert "2x2x2_7.json" in written and "2x2x2_7-adds.json" in written
    sparse, short = (schemes.load(out / f"2x2x2_7{x}.json") for x in ("", "-adds"))
    assert (sum(sparse.nnz), sparse.rms_growth) == (36, 2.0)
    assert short.additions.reduced == 15
    assert short.source == f"{source}; fewest additions found"
    capsys.readouterr()
    assert collect.main([str(finds), "--rounds", "50", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""  # nothing has changed


def test_finds_of_a_higher_rank(tmp_path):
    """They are kept where they are sparser or grow less than all of lower ranks."""
    finds, out = tmp_path / "finds", tmp_path / "out"
    finds.mkdir(), out.mkdir()
    source = "falcon's own flip-graph search; a command; seed 3, worker 0"
    classical = schemes.get("2x2x2:8")
    assert sum(classical.nnz) < 36
    loaders.dump(classical.renamed("2x2x2:8", source), finds / "classical.json")
    assert collect.main([str(finds), "--rounds", "50", "--out", str(out)]) == 0
    assert (out / "2x2x2_8.json").exists()
    assert not (out / "2x2x2_8-adds.json").exists()
    assert not (out / "3x4x5_48.json").exists()  # no new find of this rank
    winograd, strassen = schemes.get("winograd"), schemes.get("strassen")
    assert collect._beats(classical, [winograd, strassen])
    assert not collect._beats(winograd, [classical, strassen])
    assert not collect._beats(strassen, [winograd, strassen])


def test_wanted_formats():
    assert collect.wanted((2, 2, 2)) and collect.wanted((5, 5, 5)) and collect.wanted((8, 4, 2))
    assert not collect.wanted((1, 2, 2)) and not collect.wanted((2, 5, 6))
    assert not collect.wanted((4, 4, 9))
