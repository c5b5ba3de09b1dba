"""Versions of pictures: ``rates-narrow.png`` of ``rates.png``, ``x-dark.svg`` of ``x-light.svg``.

Where one lies beside a picture of a page, the page has both; falcon.css and the theme show one.
"""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

# Name of a picture, of its version, and the classes of both.
VERSIONS = (("", "-narrow", "wide", "narrow"), ("-light", "-dark", "only-light", "only-dark"))


class Versions(SphinxTransform):
    """Add the other version of each picture behind it."""

    default_priority = 500

    def apply(self, **kwargs: object) -> None:
        """Look for files."""
        page = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            stem, dot, suffix = image["uri"].rpartition(".")
            for end, other, *classes in VERSIONS:
                uri = f"{stem.removesuffix(end)}{other}{dot}{suffix}"
                if stem.endswith(end) and (page / uri).is_file():
                    version = image.deepcopy()
                    version["uri"] = uri
                    for x, name in zip((image, version), classes, strict=True):
                        x["classes"].append(name)
                    image.parent.insert(image.parent.index(image) + 1, version)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Versions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
