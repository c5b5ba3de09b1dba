"""`schemes --verify`: files of schemes or formulas, checked in one table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import falcon
from falcon._core.text import format_table
from falcon.schemes.loaders import FORMULAS, head_of, text_of


def verify_files(paths: list[str]) -> int:
    """Print what a file of schemes holds; of several files, or of formulas, a table."""
    if len(paths) == 1 and not paths[0].lower().endswith(FORMULAS):
        for scheme in falcon.schemes.load_all(paths[0]):
            print(f"{scheme!r}: all Brent equations hold")
            print(str(scheme).split("\n\n", 1)[0])
        return 0
    rows, wrong = [("file", "format", "equations that fail", "additions", "RMS growth", "")], False
    for path in paths:
        whole = None
        try:
            if path.lower().endswith(FORMULAS):
                with suppress(falcon.SchemeError):  # other formats, or `load_all` says why
                    whole = falcon.schemes.check(text_of(head_of(Path(path)), Path(path)))
            found = (
                falcon.schemes.load_all(path) if whole is None else [whole.scheme] if whole else []
            )
        except falcon.SchemeError as error:
            rows.append((Path(path).name, "", "", "", "", str(error)))
            wrong = True
            continue
        if whole is not None and not whole:
            wrong = True
            size = f"<{','.join(map(str, whole.format))};{whole.rank}>"
            count = f"{len(whole.violations)} of {whole.equations}"
            rows.append((Path(path).name, size, count, "", "", "; ".join(whole.differences)))
        rows += [
            (Path(path).name, repr(x).split()[-1][:-1], "0", str(x.additions.reduced),
             f"{x.rms_growth:.2f}", "")
            for x in found
        ]  # fmt: skip
    print(format_table(rows, left=2))
    return 1 if wrong else 0
