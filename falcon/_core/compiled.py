"""Modules in Python that Cython compiles as well: the compiled file runs as long as it is current.

Python prefers a compiled file to the source of the same name. After an edit of the source it would
go on running what was compiled before, and say nothing. So setup.py gives each compiled module the
checksum of its source, and the package that holds both asks here before it imports the module.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from zlib import crc32

_log = logging.getLogger("falcon")


def load(package: str, name: str) -> bool:
    """Import a module: compiled, if it is compiled from the source beside it, else that source.

    Parameters
    ----------
    package : str
        Full name of the package that holds the module, and is being imported.
    name : str
        The module's own name. The compiled one has an attribute ``SOURCE_CRC32``.

    Returns
    -------
    bool
        Whether it is compiled.
    """
    full = f"{package}.{name}"
    found = find_spec(full)
    if found is None or found.origin is None or not isinstance(found.loader, ExtensionFileLoader):
        return False
    path = Path(found.origin).with_name(f"{name}.py")
    try:
        checksum = crc32(path.read_bytes()) & 0x7FFFFFFF  # setup.py: what a C int holds
    except OSError:  # installed without the source
        return True
    with suppress(Exception):  # a file of another day may ask for what is no longer there
        if getattr(import_module(full), "SOURCE_CRC32", None) == checksum:
            return True
    _log.warning(
        "falcon: %s is out of date: it was compiled from another %s.py. The source runs instead, "
        "but slower; to compile it: python setup.py build_ext --inplace",
        found.origin,
        name,
    )
    source = spec_from_file_location(full, path)
    assert source is not None and source.loader is not None  # for type checkers
    module = module_from_spec(source)
    sys.modules[full] = module
    source.loader.exec_module(module)
    setattr(sys.modules[package], name, module)
    return False
