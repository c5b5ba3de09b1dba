"""What docstrings and the command line need of Sphinx: a role and a directive."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.docutils import SphinxDirective, SphinxRole

import falcon.__main__
from falcon._grade.command import SIDES
from falcon._grade.page import page

ROOT = Path(__file__).parents[2]
PUBLIC = {*falcon.__all__, *falcon.schemes.__all__}


class Name(SphinxRole):
    """What docstrings put in single backticks: a link for a public name, else code.

    Sphinx's own role "autolink" takes a parameter `m` for an attribute of some class.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the node."""
        first = self.text.partition(".")[0]
        if first == "falcon" or first in PUBLIC:
            return PyXRefRole()(
                "py:obj", self.rawtext, self.text, self.lineno, self.inliner, self.options
            )
        return [nodes.literal(self.rawtext, self.text)], []


class CommandLine(SphinxDirective):
    """A section per command, with its help."""

    def run(self) -> list[nodes.Node]:
        """Write the sections as Markdown, and parse it."""
        parser = falcon.__main__._parser()
        (commands,) = (x for x in parser._actions if isinstance(x, argparse._SubParsersAction))
        lines: list[str] = []
        for name, command in commands.choices.items():
            command.prog = f"python -m falcon {name}"
            lines += [f"## {name}", "", "```text", *command.format_help().splitlines(), "```", ""]
        self.content = StringList(lines, source=self.get_source_info()[0])
        return self.parse_content_to_nodes(allow_section_headings=True)


class Grades(SphinxDirective):
    """Pages of grades, side by side: NumPy, PyTorch if it is installed, falcon, bfloat16 parts."""

    def run(self) -> list[nodes.Node]:
        """Write the page into the site, and show it."""
        sys.path.insert(0, str(ROOT / "tests" / "grade"))
        from simulated import by_parts

        grades = []
        sides = {x: SIDES[x] for x in ("NumPy", "PyTorch", "falcon") if find_spec(SIDES[x].library)}
        for name, f in {
            **{x: y.function() for x, y in sides.items()},
            "by parts": by_parts(8, 2),
        }.items():
            grades.append(falcon.grade(f, size=480))
            grades[-1].of = name
        out = Path(self.env.app.outdir) / "_static" / "grades.html"
        out.parent.mkdir(exist_ok=True, parents=True)
        out.write_text(page(grades), encoding="utf-8")
        frame = (
            '<iframe src="_static/grades.html" title="grades" style="width: 100%; height: 60rem">'
        )
        return [nodes.raw("", f"{frame}</iframe>", format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and the directive."""
    # Napoleon takes the words before a colon in a property's docstring for its type.
    NumpyDocstring._parse_attribute_docstring = lambda self: list(self._lines)
    app.add_role("name", Name())
    app.add_directive("command-line", CommandLine)
    app.add_directive("grades", Grades)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
