"""A pytest plugin: the fixture ``iscope_check`` holds a dump against gates, and fails the test where one fails.

pytest loads it wherever iscope is installed, so it imports nothing but pytest until the fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from iscope.model.check import CheckResult

_PROPERTY = "iscope"
_NOT_ASKED = object()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for gates and baselines."""
    group = parser.getgroup("iscope", "iscope: gates on the trainer/vLLM mismatch")
    group.addoption(
        "--iscope-gates",
        metavar="FILE",
        default=None,
        help="file of gates of every iscope_check that names none; by default iscope.toml or [tool.iscope] of "
        "pyproject.toml in the root directory",
    )
    group.addoption(
        "--iscope-baseline",
        metavar="FILE",
        default=None,
        help="baseline of every iscope_check that names none; by default what the file of gates names",
    )
    group.addoption(
        "--iscope-write-baseline",
        action="store_true",
        default=False,
        help="write the baselines that tests name anew, each from the dump of its test, unless a gate fails",
    )


class Checker:
    """What the fixture ``iscope_check`` gives: a function that checks a dump and fails the test where a gate fails."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Remember the test and the options of the command line."""
        self._config, self._node = request.config, request.node

    def __call__(
        self,
        *dump: Any,
        gates: Any = _NOT_ASKED,
        baseline: Any = _NOT_ASKED,
        fail: bool = True,
        **options: Any,
    ) -> CheckResult:
        """Hold the figures of a dump, or of a report, against gates.

        Args:
            *dump: as of ``iscope.check``, like all arguments that are not described here.
            gates: None looks in pytest's root directory; left out, it is what ``--iscope-gates`` says.
            baseline: left out, it is what ``--iscope-baseline`` says. ``--iscope-write-baseline`` writes it anew.
            fail: whether a gate that fails fails the test; else the result says so.
            **options: the other arguments of ``iscope.check``.

        Returns:
            The verdicts; warnings are listed in pytest's summary.

        Raises:
            GateFailure: an ``AssertionError`` that says which gates failed, and why.
            UsageError: like ``iscope.check``.
            DataError: like ``iscope.check``.
        """
        from iscope.checking import check, read_gates
        from iscope.gates.toml import find_config
        from iscope.render.check.terminal import render

        asked = self._file("--iscope-gates") if gates is _NOT_ASKED else gates
        config = find_config(self._config.rootpath) if asked is None else read_gates(asked)
        named = self._file("--iscope-baseline") if baseline is _NOT_ASKED else baseline
        named = config.baseline if named is None else named
        write = self._config.getoption("--iscope-write-baseline") and named is not None
        there = named is not None and os.path.exists(named)
        result = check(
            *dump,
            gates=config,
            baseline=named if there or not write else None,
            write_baseline=named if write and not there else None,
            update_baseline=bool(write and there),
            **options,
        )
        self._node.add_report_section("call", "iscope", render(result, width=100))
        self._node.user_properties.append((_PROPERTY, f"{result.word}: {result.message}"))
        self._node.user_properties += [(_PROPERTY, f"WARN {gate.message}") for gate in result.warnings]
        if fail:
            result.raise_for_failures()
        return result

    def _file(self, option: str) -> str | None:
        """The file of an option, from where pytest was started."""
        named = self._config.getoption(option)
        return None if named is None else os.path.join(self._config.invocation_params.dir, str(named))


@pytest.fixture
def iscope_check(request: pytest.FixtureRequest) -> Checker:
    """Check a dump against gates: ``iscope_check("dump/")`` fails the test where a gate fails."""
    return Checker(request)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the warnings of all checks, those of other processes too."""
    said = list(_warnings(terminalreporter.stats))
    if said:
        terminalreporter.section("iscope: gates that warn", sep="-")
        for line in said:
            terminalreporter.line(line)


def _warnings(stats: dict[str, list[Any]]) -> Iterator[str]:
    """The warnings of checks, by test."""
    for report in (one for outcome in ("passed", "failed") for one in stats.get(outcome, ())):
        if getattr(report, "when", None) == "call":
            for name, said in report.user_properties:
                if name == _PROPERTY and str(said).startswith("WARN "):
                    yield f"{report.nodeid}: {_printable(str(said).removeprefix('WARN '))}"


def _printable(text: str) -> str:
    from iscope.render.strings import prose

    return prose(text)
