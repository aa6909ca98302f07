"""What the tokens of a strip are, and the text of a rollout, as a report carries them."""

from __future__ import annotations

from dataclasses import dataclass, field

from iscope.model.figure import Figures, Node


@dataclass(frozen=True)
class StripTokens:
    """The tokens of a strip, one by one.

    Attributes:
        ids: the token id of each, None where the dump has a null; empty where it has none of them.
        why: why there are no ids.
        texts: the text of each, None where the dump has a null; empty where it has none, or text was not asked for.
    """

    ids: list[int | None] = field(default_factory=list)
    why: str = ""
    texts: list[str | None] = field(default_factory=list)

    def to_dict(self) -> Figures:
        """Return what a strip of the report holds besides its log-ratios."""
        ids: Node = [*self.ids] if self.ids else {"why": self.why}
        return {"token_ids": ids, **({"texts": [*self.texts]} if self.texts else {})}

    @classmethod
    def from_dict(cls, strip: Figures) -> StripTokens:
        """Read a strip of a report, whatever is in it."""
        ids, texts = strip.get("token_ids"), strip.get("texts")
        why = ids.get("why") if isinstance(ids, dict) else None
        return cls(
            ids=[_integer(node) for node in ids] if isinstance(ids, list) else [],
            why=why if isinstance(why, str) else "",
            texts=[node if isinstance(node, str) else None for node in texts] if isinstance(texts, list) else [],
        )


@dataclass(frozen=True)
class Completion:
    """The text of a rollout.

    Attributes:
        text: its beginning and its end where it is long; empty where there is none.
        characters: how many characters the whole has.
        why: why there is none.
    """

    text: str = ""
    characters: int = 0
    why: str = ""

    def to_dict(self) -> Figures:
        """Return what a rollout of the report holds as ``completion``."""
        return {"why": self.why} if self.why else {"text": self.text, "characters": self.characters}

    @classmethod
    def from_dict(cls, node: Node) -> Completion | None:
        """Read a ``completion`` of a report; None where it is none."""
        if not isinstance(node, dict):
            return None
        text, characters, why = node.get("text"), node.get("characters"), node.get("why")
        if isinstance(text, str):
            return cls(text, characters if isinstance(characters, int) else len(text))
        return cls(why=why) if isinstance(why, str) else None


def _integer(node: Node) -> int | None:
    return node if isinstance(node, int) and not isinstance(node, bool) else None
