"""A folder to publish a scheme, and its proof, which needs neither falcon nor NumPy."""

import json
import re
import subprocess
import sys
from fractions import Fraction

import pytest

from falcon import schemes
from falcon.schemes.certificate import failures


def proved(folder):
    """Run the proof with Python's standard library alone, without site-packages."""
    call = [sys.executable, "-I", "-S", "verify.py"]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["strassen", "2x3x4:20", "fractions"])
def test_bundle(tmp_path, name):
    scheme = schemes.get("strassen" if name == "fractions" else name)
    if name == "fractions":
        U, V, W = scheme.U, scheme.V, scheme.W
        scheme = schemes.Scheme(3 * U, V, W.astype(object) * Fraction(1, 3), name)
    written = schemes.bundle(scheme, tmp_path / "new" / "folder")
    assert all(x.stat().st_size for x in written)
    folder = written[0].parent
    m, k, n = scheme.format
    size = f"<{m},{k},{n};{scheme.rank}>"
    assert proved(folder) == (0, f"{size}: all {(m * k * n) ** 2} equations hold\n")
    assert schemes.load(folder / "scheme.json") == scheme
    assert schemes.load(folder / "formulas.txt").same_coefficients(scheme)
    about = (folder / "README.md").read_text(encoding="utf-8")
    assert all(x.name in about for x in written if x.name != "README.md")
    tex = (folder / "formulas.tex").read_text(encoding="utf-8")
    assert tex.count("&=") == scheme.rank + m * n and "aligned" not in tex
    bib = (folder / "scheme.bib").read_text(encoding="utf-8")
    assert bib.count("{") == bib.count("}")
    assert not re.search(r"(?<!\\)[#&]", bib)


def test_the_proof_finds_what_is_wrong(tmp_path):
    schemes.bundle(schemes.get("strassen"), tmp_path)
    path = tmp_path / "scheme.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["W"][0][0] = 2
    path.write_text(json.dumps(record), encoding="utf-8")
    status, out = proved(tmp_path)
    failing = schemes.check(path).violations
    assert status == 1
    assert out.startswith(f"<2,2,2;7>: {len(failing)} of 64 equations fail\n")
    assert "entries 1 of A, 1 of B, 1 of C: 2" in out
    record["U"].pop()
    assert failures(record) == ["U is not 7 rows of 4 coefficients"]


def test_the_source_is_escaped(tmp_path):
    scheme = schemes.get("strassen").renamed("my_scheme", r"50 % of A & B_1, <2>, \x^~")
    schemes.bundle(scheme, tmp_path)
    bib = (tmp_path / "scheme.bib").read_text(encoding="utf-8")
    assert r"50 \% of A \& B\_1, \textless{}2\textgreater{}, \textbackslash{}x\^{}\~{}" in bib
    assert r"@misc{my_scheme," in bib and r"{my\_scheme $" in bib
