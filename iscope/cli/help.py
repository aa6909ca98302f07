"""Help pages in plain text, options in groups: they print without loading rich."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under the titles they were declared with."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section per title, in the order of declaration."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            argument = param.param_type_name == "argument"
            title = getattr(param, "rich_help_panel", None) or ("Arguments" if argument else "Options")
            name = str(getattr(param, "metavar", None) or param.name) if argument else record[0]
            sections.setdefault(title, []).append((name, record[1]))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
