"""Import Python modules that are also compiled by Cython: compiled only if that file is current.

Python prefers a compiled file to the source of the same name. After an edit of the source it would
silently keep running the old compiled code. So setup.py stores the checksum of the source in each
compiled module, and the package calls `load` before it imports the module.
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
    """Import a module: the compiled file if it matches the source beside it, else the source.

    Parameters
    ----------
    package : str
        Full name of the package that holds the module; the package is being imported.
    name : str
        The module's own name. The compiled one has an attribute ``SOURCE_CRC32``.

    Returns
    -------
    bool
        Whether the compiled file was imported.
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
    with suppress(Exception):  # an old file may import names that no longer exist
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
