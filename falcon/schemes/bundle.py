"""A folder to publish a scheme: coefficients, a proof for other programs, formulas, a picture."""

from __future__ import annotations

import io
import re
from os import PathLike
from pathlib import Path

from ._scheme import Scheme
from .formulas import head
from .writing import to_json

_TEX = r"""\documentclass{article}
\usepackage[margin=1.5cm,landscape]{geometry}
\usepackage{amsmath}
\allowdisplaybreaks
\begin{document}
\noindent %s
{\small
%s
}
\end{document}
"""
_BIB = """%% Add the authors.
@misc{%s,
  author = {},
  title = {{%s}: %d products for matrices of %d x %d by %d x %d blocks}%s
}
"""
_ABOUT = {
    "scheme.json": "U, V and W, a row of coefficients per product",
    "verify.py": "`python verify.py`: all Brent equations, exactly, by Python's standard library",
    "formulas.txt": "the formulas; `falcon.schemes.load` reads them",
    "formulas.tex": "the same for LaTeX",
    "scheme.bib": "an entry for BibTeX, to which the authors are to be added",
    "scheme.svg": "the coefficients of each product as coloured grids",
}


def bundle(scheme: Scheme, folder: str | PathLike[str]) -> list[Path]:
    """Write what publishing a scheme needs to a folder.

    Parameters
    ----------
    scheme : Scheme
    folder : path
        It is made; files of these names in it are replaced.

    Returns
    -------
    list of Path
        scheme.json; verify.py, which proves it again with nothing but Python; formulas.txt and
        formulas.tex; scheme.bib; scheme.svg, if matplotlib is installed; README.md.

    Raises
    ------
    OSError
        A file cannot be written.

    Examples
    --------
    >>> import falcon, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(falcon.schemes.bundle(falcon.schemes.get("strassen"), folder)[1].name)
    verify.py
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    m, k, n = scheme.format
    aligned = re.sub(r"(begin|end)\{aligned\}", r"\1{align*}", scheme.to_latex())
    title = rf"{_in_tex(scheme.name)} $\langle {scheme._signature}\rangle$"
    note = f",\n  note = {{{_in_tex(scheme.source)}}}" if scheme.source else ""
    key = re.sub(r"\W+", "-", scheme.name)
    texts = {
        "scheme.json": to_json(scheme),
        "verify.py": Path(__file__).with_name("certificate.py").read_text(encoding="utf-8"),
        "formulas.txt": f"{scheme.to_formulas()}\n",
        "formulas.tex": _TEX % (title, aligned),
        "scheme.bib": _BIB % (key, title, scheme.rank, m, k, k, n, note),
    }
    try:
        drawn = io.StringIO()
        scheme.draw().savefig(drawn, format="svg", metadata={"Date": None})
        texts["scheme.svg"] = drawn.getvalue()
    except ImportError:
        pass
    files = [f"- {name}: {_ABOUT[name]}" for name in texts]
    about = [f"# {scheme.name}", head(scheme), scheme.source, "\n".join(files)]
    texts["README.md"] = "\n\n".join(filter(None, about)) + "\n"
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")
    return [path / name for name in texts]


def _in_tex(text: str) -> str:
    words = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "<": r"\textless{}"}
    words |= {">": r"\textgreater{}", **{x: rf"\{x}" for x in "#$%&_{}"}}
    return "".join(words.get(x, x) for x in text)
