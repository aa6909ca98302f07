"""Tokens a second of iscope against the frameworks' own code on padded batches of 64 rollouts of the same dump.

python -m benchmarks.peers [--peer verl,trl] [--peer-python FILE] [--tokens 30_000_000] [--dump FILE] [--repeats 3]

verl runs its helper with each of its ten decoupled presets, TRL its four modes. They get a part of the dump, iscope
all of it, each in a fresh process on a warm file. Their time is taken three times over: of the replay alone, on tensors
that are padded already; with the padding; and with padding and decoding, which has the bar. iscope always decodes, and
makes its report.

iscope is measured twice: ``analyze`` with its default recipes, and with the same settings that the peers replay. What
is not installed is left out, with a line that says so. Where the frameworks live in another environment,
``--peer-python`` names its interpreter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.analyze import HERE, WARM_UP_TOKENS, make, measure, size_of
from benchmarks.bars import HEAD, Bar, add_choice

INSTALL = {
    "verl": "pip install trl ray tensordict omegaconf hydra-core codetiming orjson && pip install --no-deps verl",
    "trl": "pip install trl",
}
RECIPE = {"verl": "verl/{}", "trl": "trl/{}:clip_max=3"}
STAGES = {"replay": "replay", "padding": "padding, replay", "decode": "decode, padding, replay"}
TIMES_FASTER = 50.0
# Tokens of the dump that the frameworks get, unless a tenth of it is less.
PART = 200_000


@dataclass(frozen=True)
class Peer:
    """What a framework's own code took.

    Attributes:
        name: ``verl`` or ``trl``.
        version: of the package.
        what: was called.
        settings: that were replayed.
        threads: of torch, one or all, whichever was quicker.
        tokens: of the part of the dump.
        cells: of its batches, padding included.
        seconds: wall seconds of each run by stage, of ``STAGES``; ``cpu`` is the processor time of the last of them.
    """

    name: str
    version: str
    what: str
    settings: list[str]
    threads: int
    tokens: int
    cells: int
    seconds: Mapping[str, list[float]]

    def each(self, stage: str) -> list[float]:
        """Seconds for a token, of each run, all settings together."""
        return [seconds / self.tokens for seconds in self.seconds[stage]]

    @property
    def one_setting(self) -> list[float]:
        """Seconds for a token from the file on, of each run: the mean of the settings."""
        return [seconds / len(self.settings) for seconds in self.each("decode")]

    @property
    def recipes(self) -> list[str]:
        """The same settings as recipes of iscope."""
        return [RECIPE[self.name].format(setting) for setting in self.settings]

    @property
    def heading(self) -> str:
        """What was called, and on what."""
        return (
            f"{self.version}: {len(self.settings)} settings by {self.what}, {self.tokens:,} tokens in {self.cells:,} "
            f"padded places, torch threads: {self.threads}"
        )


def called(name: str, python: str, dump: Path, tokens: int, repeats: int) -> Peer | str:
    """Measure a framework in a fresh process on so many tokens; a sentence where that is not possible."""
    command = [python, "-m", "benchmarks.peer_calls", "--peer", name, "--dump", str(dump.resolve())]
    command += ["--tokens", str(tokens), "--repeats", str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    if done.returncode:
        return f"{name}: its code could not be called: {done.stderr.strip().splitlines()[-1]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "missing" in found:
        return f"{name}: not measured, {found['missing']}. To measure it: {INSTALL[name]}"
    return Peer(name, **found)


def faster(what: str, ours: Sequence[float], theirs: Sequence[Sequence[float]], limit: float | None = None) -> Bar:
    """Return how many times the tokens a second of peers, one after the other, iscope's are.

    Args:
        what: the row.
        ours: iscope's seconds for a token, of each run.
        theirs: of each peer the same.
        limit: the bar, if there is one.
    """
    total = sum(statistics.median(each) for each in theirs)
    slowest, quickest = (sum(choose(each) for each in theirs) for choose in (max, min))
    runs = [quickest / max(ours), slowest / min(ours)]
    return Bar(what, total / statistics.median(ours), runs, limit, "{:.1f}", at_least=True)


def bars(ours: Mapping[str, Sequence[float]], peers: Sequence[Peer]) -> Iterator[Bar]:
    """Yield how many times faster iscope is: than all together, which has the bar, and than each.

    Args:
        ours: seconds for a token: ``default`` and ``same``, the recipes, and ``cpu``, processor time of ``default``.
        peers: what the frameworks took.
    """
    names = " + ".join(peer.name for peer in peers)
    whole = {peer.name for peer in peers} == set(INSTALL)
    for stage, said in reversed(STAGES.items()):
        limit = TIMES_FASTER if whole and stage == "decode" else None
        yield faster(f"tokens/s / {names} ({said})", ours["default"], [peer.each(stage) for peer in peers], limit)
    yield faster("  the same, processor time", ours["cpu"], [peer.each("cpu") for peer in peers])
    same = sum(len(peer.settings) for peer in peers)
    yield faster(f"  with the same {same} settings", ours["same"], [peer.each("decode") for peer in peers])
    theirs = [peer.one_setting if peer.name == "verl" else peer.each("decode") for peer in peers]
    if whole:
        yield faster("  with one preset of verl, the mean of them", ours["default"], theirs)
    spent: dict[str, Sequence[float]]
    spent = {f"{peer.name}, ns a token ({said})": peer.each(stage) for peer in peers for stage, said in STAGES.items()}
    spent |= {f"iscope, ns a token ({name} recipes)": ours[name] for name in ("default", "same")}
    for what, each in spent.items():
        runs = [1e9 * seconds for seconds in each]
        yield Bar(f"  {what}", statistics.median(runs), runs, None, "{:,.0f}")


def compared(names: Sequence[str], python: str, dump: Path, repeats: int) -> Iterator[Bar | str]:
    """Measure and yield the rows of the table, and sentences beside it."""
    tokens, _ = size_of(dump)
    part = min(PART, tokens // 10)
    found = [called(name, python, dump, part, repeats) for name in names]
    yield from (one if isinstance(one, str) else one.heading for one in found)
    peers = [one for one in found if not isinstance(one, str)]
    if not peers:
        return
    recipes = [recipe for peer in peers for recipe in peer.recipes]
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.parquet"
        make(warm_up, "--tokens", str(WARM_UP_TOKENS))
        measure("floor", dump, warm_up)
        runs = [(measure("analyze", dump, warm_up), measure("analyze", dump, warm_up, recipes)) for _ in range(repeats)]
    ours = {
        "default": [plain["seconds"] / tokens for plain, _ in runs],
        "cpu": [plain["cpu"] / tokens for plain, _ in runs],
        "same": [same["seconds"] / tokens for _, same in runs],
    }
    yield from bars(ours, peers)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which peers there are and where."""
    add_choice(parser, "--peer", "peer", INSTALL)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter they are installed for")


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description="Tokens a second against the frameworks' own code.")
    add_options(parser)
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the dump that is made")
    parser.add_argument("--dump", type=Path, help="the dump, one file; made there if it is missing")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dump = options.dump or Path(folder) / "dump.parquet"
        make(dump, "--tokens", str(options.tokens))
        print(HEAD, flush=True)
        for row in compared(options.peer, options.peer_python, dump, options.repeats):
            print(row if isinstance(row, str) else row.line, flush=True)


if __name__ == "__main__":
    main()
