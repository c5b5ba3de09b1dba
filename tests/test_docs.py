"""Every code block of docs/ runs, every public name is documented, generated tables are current."""

import importlib
import inspect
import json
import re
import sys

import pytest

import falcon
from falcon._core.options import FIELDS, SETTINGS

from .support import ROOT, python

DOCS = ROOT / "docs"
# Sizes that only speed needs, as the tests multiply them.
SMALLER = {"8192": "300", "5000": "520", "4096": "520", "3584": "256", "18944": "300",
           "4608": "320", "2048": "256"}  # fmt: skip
SMALLER_CHUNKS = {"20000": "500", "8000": "200", "4000": "100", "3000": "75", "1000": "25"}
# Run with a stand-in for CuPy in tests/gpu.
ELSEWHERE = {"gpu.md"}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "```python\n" in page.read_text(encoding="utf-8") and page.name not in ELSEWHERE
]
NOTEBOOKS = sorted((DOCS / "learn").glob("[1-9]_*.md"))
NAMES = [f"falcon.{name}" for name in falcon.__all__ if name not in ("schemes", "__version__")] + [
    f"falcon.schemes.{name}" for name in falcon.schemes.__all__ if name != "symmetric"
]
# Packages that are there with an extra: what their `__all__` names.
EXTRAS = [
    f"falcon.{extra}.{name}"
    for extra in ("torch", "dask")
    for name in re.findall(
        r'"(\w+)"', (ROOT / f"falcon/{extra}/__init__.py").read_text("utf-8").split("__all__")[1]
    )
]


def blocks(page, language="python"):
    found = re.findall(
        rf"^( *)```{re.escape(language)}\n(.*?)```", page.read_text("utf-8"), re.M | re.S
    )
    return [re.sub(rf"^{margin}", "", code, flags=re.M) for margin, code in found]


def smaller(code, page):
    sizes = SMALLER_CHUNKS if page.name == "dask.md" else SMALLER
    return re.sub(r"\b\d+\b", lambda found: sizes.get(found[0], found[0]), code)


@pytest.mark.parametrize("page", PAGES, ids=lambda x: str(x.relative_to(DOCS)))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, clean):
    """In turn, as a reader types them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FALCON_CACHE_DIR", str(tmp_path))
    for module in ("torch", "scipy", "dask"):  # whose extra has zarr
        if any(re.search(rf"^(import|from) {module}\b", code, re.M) for code in blocks(page)):
            pytest.importorskip(module)
    place = {}
    for code in blocks(page):
        try:
            exec(compile(smaller(code, page), str(page), "exec"), place)
        except TypeError as error:
            if "need AMX_BF16" not in str(error):
                raise
            pytest.skip("this machine has no AMX")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda x: x.stem)
def test_the_notebooks_run(notebook, monkeypatch):
    """In .ci/run the site's build runs them without a compiler."""
    for module in ("IPython", "matplotlib"):
        pytest.importorskip(module)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.syspath_prepend(str(DOCS / "learn"))
    monkeypatch.syspath_prepend(str(DOCS.parent))
    place = {}
    for code in blocks(notebook, "{code-cell}"):
        exec(compile(code, str(notebook), "exec"), place)
    sys.modules["matplotlib.pyplot"].close("all")


def test_the_course_for_jupyter(tmp_path, monkeypatch):
    """The notebooks of the archive hold the pages' text and code, and find reference/ in it."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    importlib.import_module("notebooks").write(tmp_path)
    for page in NOTEBOOKS:
        made = json.loads((tmp_path / "learn" / f"{page.stem}.ipynb").read_text("utf-8"))
        kinds = {"code": [], "markdown": []}
        for cell in made["cells"]:
            kinds[cell["cell_type"]].append("".join(cell["source"]))
        assert kinds["code"] == [x.strip() for x in blocks(page, "{code-cell}")]
        text = "\n".join(kinds["markdown"])
        assert text.startswith("# ")
        assert text.count("<details>") == 1
        assert not re.search(r"```\{|\]\(\.\./", text)
    for name in ("strassen.svg", "strassen.png", "3x4x4_38-1.svg", "3x4x4_38-2.png", "flow.svg"):
        assert (tmp_path / "pictures" / name).stat().st_size > 0
    code = "import course, sys; print(course.COMPILED, *sys.path, sep='\\n')"
    done = python("-c", code, where={"cwd": tmp_path / "learn"}, FALCON_ISA="none")
    assert done.stderr == "", "the site's build takes what a cell says there for a warning"
    assert {"False", str(tmp_path)} <= {*done.stdout.splitlines()}


@pytest.mark.parametrize("name", NAMES + EXTRAS)
def test_a_public_name_has_an_example_and_is_in_the_reference(name):
    module, _, last = name.rpartition(".")
    if name in EXTRAS:
        pytest.importorskip(module.removeprefix("falcon."), exc_type=ImportError)
    value = getattr(importlib.import_module(module), last)
    assert ">>> " in inspect.getdoc(value)
    pages = "".join(x.read_text(encoding="utf-8") for x in (DOCS / "reference").glob("*.md"))
    places = {name, f"falcon.schemes.{last}"} if last in falcon.schemes.__all__ else {name}
    assert any(re.search(rf":: {re.escape(x)}(\(|$)", pages, re.M) for x in places)


def test_the_tables_of_options_are_current(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    tables = importlib.import_module("tables")
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.updated(page) == text, "run: python docs/_ext/tables.py"
    for name in SETTINGS:
        assert f"`{FIELDS[name].metadata['variable']}`" in tables.environment()


def test_one_setting_fills_all_links(tmp_path, monkeypatch):
    """And today, with none, no page has a link to the repository or a placeholder."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    address = importlib.import_module("address")
    files = [tmp_path / x for x in ("pyproject.toml", "CITATION.cff", *address.PAGES)]
    for file in files:
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text((ROOT / file.relative_to(tmp_path)).read_text("utf-8"), "utf-8")
    before = [x.read_text("utf-8") for x in files]
    address.write(tmp_path)
    assert [x.read_text("utf-8") for x in files] == before, "run: python docs/_ext/address.py"
    url = "https://github.com/someone/something"
    was, *_ = before
    if not address.repository():
        assert not re.search("github.com|OWNER|REPOSITORY|colab", "".join(before[1:]))
        files[0].write_text(f'{was}\n[project.urls]\nRepository = "{url}"\n', "utf-8")
        address.write(tmp_path)
        _, cite, readme, lessons, install = (x.read_text("utf-8") for x in files)
        assert f"\nrepository-code: {url}\nversion: " in cite
        assert f"git clone {url} falcon" in install
        for page in readme, lessons:
            assert "colab.research.google.com/github/someone/something/blob/main/docs/" in page
            assert "mybinder.org/v2/gh/someone/something/main?urlpath=lab/tree/docs/" in page
        first, *rest = json.loads((tmp_path / address.LESSON).read_text("utf-8"))["cells"]
        assert f"git clone --quiet --depth 1 {url} falcon" in "".join(first["source"])
        assert any("from course import" in "".join(x["source"]) for x in rest)
        files[0].write_text(was, "utf-8")
        address.write(tmp_path)
        assert [x.read_text("utf-8") for x in files] == before
        assert not (tmp_path / address.LESSON).exists()


def test_the_citation_has_the_version_and_a_date():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {falcon.__version__}\n" in text
    assert re.search(r"\ndate-released: \d{4}-\d\d-\d\d\n", text)


def test_pictures_have_their_versions():
    """For phones and dark pages; small files."""
    pictures = [x for x in (DOCS / "benchmarks").rglob("*.*g") if x.suffix in (".png", ".svg")]
    assert len(pictures) > 20
    for x in pictures:
        assert x.stat().st_size < (60_000 if x.suffix == ".png" else 40_000)
        end = "-dark" if x.suffix == ".svg" else "-narrow"
        if not x.stem.endswith(end):
            assert x.with_stem(x.stem.removesuffix("-light") + end) in pictures


def anchors(page):
    """What links into a page may name: its headings, as the site and hosts of repositories do."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#{1,4} +(.+)", text, re.M)
    return {re.sub(r"[^\w\- ]", "", x.lower()).replace(" ", "-") for x in titles}


def test_links_lead_somewhere():
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    links = [
        (page, *link.partition("#")[::2])
        for page in pages
        if "_build" not in page.parts
        for link in re.findall(r"\]\(([\w./-]*(?:#[\w-]+)?)\)", page.read_text("utf-8"))
    ]
    assert sum(bool(anchor) for *_, anchor in links) > 50
    copied = {DOCS / "contributing.md", DOCS / "changelog.md"}  # docs/conf.py makes them
    for page, file, anchor in links:
        to = (page.parent / file).resolve() if file else page
        if to in copied:
            to = ROOT / (to.stem.upper() + ".md")
        assert to.exists(), f"{page.name} links to {file}"
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to), f"{page.name} links to {file}#{anchor}"
