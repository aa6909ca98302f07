"""Scripts and argument files: ``--flag value``, ``--flag=value`` and ``key.path=value``, read as text, never run.

``$NAME`` is replaced where the file sets NAME itself; whatever would have to be run or looked up in the environment is
left as it stands, and unclear where it matters.
"""

from __future__ import annotations

import re

from iscope.recipes.configs.entries import Entry, UnreadableError, check_count, join
from iscope.recipes.configs.words import Word, split_words

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w.\-/@]*)=(.*)", re.ASCII | re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^{}$]*))?\}|([A-Za-z_]\w*))", re.ASCII)
_FLAG = re.compile(r"--([A-Za-z][\w.\-]*)(?:=(.*))?", re.ASCII | re.DOTALL)
# What begins something else than a value: another flag, or an override of a dotted path.
_STARTS = re.compile(r"--|-[A-Za-z]|\+{1,2}\w|[A-Za-z_]\w*\.[\w.]+=", re.ASCII)
_UNKNOWN = re.compile(r"\$[({\w]|`", re.ASCII)
_REFERENCE = re.compile(r"\$\{[\w.:]*[.:]", re.ASCII)
_ENDS = (")", ";", "&&", "||", "|", "&", "do", "done", "then", "fi", "else", ">", "2>&1")


def read(text: str, *, script: bool) -> dict[str, Entry]:
    """Return the settings in a script or an argument file; of one given twice the later, as argument parsers do it.

    Args:
        text: its content.
        script: whether a ``name=value`` without a dot sets a shell variable rather than a setting.

    Raises:
        UnreadableError: when its quotes do not close, or it holds no setting.
    """
    reader = _Reader(script)
    words = list(split_words(text))
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        flag = _FLAG.fullmatch(word.text)
        if flag is None:
            reader.assignment(word)
            continue
        values = [flag[2]] if flag[2] is not None else []
        while flag[2] is None and position < len(words) and _is_value(words[position], word):
            values.append(words[position].text)
            position += 1
        reader.put(flag[1], values, word)
    if not reader.found:
        raise UnreadableError("there is no --flag and no key.path=value in it")
    return reader.found


class _Reader:
    """What has been read of a file so far: its settings, and the shell variables that it sets."""

    def __init__(self, script: bool) -> None:
        self.script = script
        self.found: dict[str, Entry] = {}
        self._variables: dict[str, str] = {}

    def assignment(self, word: Word) -> None:
        """Take a ``name=value`` or a ``~name``; any other word says nothing."""
        if word.text.startswith("~"):
            self.found.pop(join("", word.text[1:].partition("=")[0]), None)
            return
        override = _OVERRIDE.fullmatch(word.text)
        if override is None:
            return
        plus, name, value = override.groups()
        variable = _NAME.fullmatch(name) is not None and not plus
        if variable:
            self._variables[name] = self._expanded(value)
        if not variable or not self.script:
            self.put(name, [value], word)

    def put(self, name: str, values: list[str], word: Word) -> None:
        """Take a setting; without values it is a switch that is on."""
        texts = [self._expanded(value) for value in values]
        texts = [text[1:-1] if len(text) > 1 and text[0] == text[-1] in "'\"" else text for text in texts]
        value: object = True if not texts else texts[0] if len(texts) == 1 else texts
        unknown = next((text for text in texts if _UNKNOWN.search(text) and not _REFERENCE.match(text)), "")
        reason = f"{unknown} is not told by this file alone; write its value" if unknown else ""
        path = join("", name)
        self.found.pop(path, None)
        self.found[path] = Entry(value, f"line {word.line}", reason)
        check_count(len(self.found))

    def _expanded(self, text: str) -> str:
        def known(match: re.Match[str]) -> str:
            default: str = match[0] if match[2] is None else match[2]
            return self._variables.get(match[1] or match[3], default)

        return _VARIABLE.sub(known, text)


def _is_value(word: Word, flag: Word) -> bool:
    """Whether a word is a value of the flag: of the same command, and nothing of the shell's own."""
    if word.command != flag.command or (_STARTS.match(word.text) and not word.quoted):
        return False
    return word.quoted or not (word.text in _ENDS or "[@]" in word.text)
