"""The directive ``generated``: reference pages made from what falcon says of itself.

``{generated} environment`` is the table of environment variables, ``settings`` the options of calls
and of `falcon.config`, ``command_line`` the help of every command.
"""

import argparse
import re
from collections.abc import Callable

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.util.docutils import SphinxDirective, SphinxRole

import falcon.__main__
from falcon._core.options import FIELDS, OTHER_VARIABLES

PUBLIC = {*falcon.__all__, *falcon.schemes.__all__}


def _described(text: str) -> tuple[str, str]:
    """Split the documentation of an option into its type and one line of text."""
    kind, _, rest = text.partition("\n")
    return kind.strip(), " ".join(rest.split())


def environment() -> str:
    """Return the table of environment variables, those of options first."""
    lines = ["| variable | sets | means |", "| --- | --- | --- |"]
    for name, option in FIELDS.items():
        _, text = _described(option.metadata["text"])
        lines.append(f"| `{option.metadata['variable']}` | `{name}` | {_code(text)} |")
    lines += [f"| `{name}` | | {_code(text)} |" for name, text in OTHER_VARIABLES.items()]
    return "\n".join(lines)


def settings() -> str:
    """Return the table of options: their types, defaults, and where they may be given."""
    lines = ["| option | type | default | keyword of a call | means |", "| --- | --- | --- | --- | --- |"]
    for name, option in FIELDS.items():
        kind, text = _described(option.metadata["text"])
        keyword = "yes" if option.metadata["keyword"] else "no: `config`, `set_config`"
        lines.append(f"| `{name}` | {kind} | `{option.default!r}` | {keyword} | {_code(text)} |")
    return "\n".join(lines)


def command_line() -> str:
    """Return a section per command, with its help."""
    parser = falcon.__main__._parser()
    parser.prog = "python -m falcon"
    (commands,) = (x for x in parser._actions if isinstance(x, argparse._SubParsersAction))
    parts = []
    for name, command in commands.choices.items():
        command.prog = f"python -m falcon {name}"
        parts.append(f"## {name}\n\n```text\n{command.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


def _code(text: str) -> str:
    """Mark quoted values and names of functions as code; a bar would end the cell."""
    return re.sub(r"(?<!`)(\"[^\"]*\")", r"`\1`", text).replace("|", "\\|")


MAKERS: dict[str, Callable[[], str]] = {
    maker.__name__: maker for maker in (environment, settings, command_line)
}


class Generated(SphinxDirective):
    """Insert the Markdown that one of `MAKERS` returns."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the Markdown as part of the page, headings included."""
        lines = MAKERS[self.arguments[0]]().splitlines()
        self.content = StringList(lines, source=self.get_source_info()[0])
        return self.parse_content_to_nodes(allow_section_headings=True)


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


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the role."""
    app.add_directive("generated", Generated)
    app.add_role("name", Name())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
