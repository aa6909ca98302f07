"""What one recipe does to a dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iscope.model.figure import Figures, nodes_from_json, nodes_to_json


@dataclass(frozen=True)
class RecipeReport:
    """What one recipe does to the dump.

    Attributes:
        name: the recipe without options.
        spec: its canonical full form.
        options: every option in force, short names, None for no bound.
        level: over what its ratio is taken (none, token, sequence, geometric).
        unit: what its weights are counted in (tokens, rollouts).
        named: True where the user asked for it.
        like: the configuration it was read from, ``trl:args.json``; empty where it came from none.
        fitted: options whose value is a quantile of this very dump, short names.
        figures: raw, applied, masked, truncated, modified, kept, ess, ...
        framework: the metrics its framework logs, under its names.
        why: why it could not be replayed on this dump; it then has no figures.
    """

    name: str
    spec: str
    options: dict[str, Any]
    level: str
    unit: str
    named: bool
    figures: Figures
    framework: Figures
    why: str | None = None
    like: str = ""
    fitted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; the figures stand beside the name, not below it."""
        head = {
            "name": self.name,
            "spec": self.spec,
            "options": self.options,
            "level": self.level,
            "unit": self.unit,
            "named": self.named,
        }
        if self.like:
            head["like"] = self.like
        if self.fitted:
            head["fitted"] = list(self.fitted)
        if self.why is not None:
            head["why"] = self.why
        figures: dict[str, Any] = nodes_to_json(self.figures)
        return head | figures | {"framework": nodes_to_json(self.framework)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RecipeReport:
        """Read what ``to_dict`` wrote."""
        head = ("name", "spec", "options", "level", "unit", "named")
        aside = (*head, "framework", "why", "like", "fitted")
        rest = {name: nodes_from_json(value) for name, value in data.items() if name not in aside}
        framework = {name: nodes_from_json(value) for name, value in data["framework"].items()}
        said = {"why": data.get("why"), "like": data.get("like", ""), "fitted": tuple(data.get("fitted", ()))}
        return cls(**{name: data[name] for name in head}, figures=rest, framework=framework, **said)
