"""The options of the commands, each declared once with its help text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import typer

from iscope.errors import UsageError
from iscope.render import EXTENSIONS, RENDERERS

_INPUT, _QUESTION, _NUMBERS, _OUTPUT = "Two-sided dumps", "What to look at", "How to read values", "Output"
_RUN = "How to run"
_FOLLOWING = "A run under way"

Precision = Literal["float32", "float64"]
Unscored = Literal["exclude", "neutral"]
Device = Literal["auto", "cpu", "cuda"]

Dump = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DUMP",
        show_default=False,
        help="Files, folders or quoted globs of rollouts, here or as URLs: Parquet, or what frameworks write.",
    ),
]
Trainer = Annotated[
    list[str] | None,
    typer.Option("--trainer", metavar="FILE", rich_help_panel=_INPUT, help="Trainer side. Repeatable."),
]
Vllm = Annotated[
    list[str] | None,
    typer.Option("--vllm", metavar="FILE", rich_help_panel=_INPUT, help="Inference side. Repeatable."),
]
Current = Annotated[
    list[str] | None,
    typer.Option("--current", metavar="FILE", rich_help_panel=_INPUT, help="Current policy's side. Repeatable."),
]
Ref = Annotated[
    list[str] | None,
    typer.Option("--ref", metavar="FILE", rich_help_panel=_INPUT, help="Reference policy's side. Repeatable."),
]
On = Annotated[
    str,
    typer.Option("--on", metavar="KEY", rich_help_panel=_INPUT, help="Column that pairs the sides."),
]
Recipes = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe",
        metavar="RECIPE",
        rich_help_panel=_QUESTION,
        help="Correction to replay, such as trl/token_mask:clip_min=0.5,clip_max=2, instead of the default list. "
        "Repeatable. See: iscope recipes.",
    ),
]
_LIKE = "A framework's own configuration, FRAMEWORK:FILE, such as trl:args.json or verl:run.sh: "
Like = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        metavar="FRAMEWORK:FILE",
        rich_help_panel=_QUESTION,
        help=_LIKE + "its recipe is replayed too. Repeatable. The file is read, never run.",
    ),
]
OneLike = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        metavar="FRAMEWORK:FILE",
        rich_help_panel=_QUESTION,
        help=_LIKE + "its recipe is replayed instead of --recipe. The file is read, never run.",
    ),
]
OneRecipe = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe",
        metavar="RECIPE",
        rich_help_panel=_QUESTION,
        help="The correction to replay, such as trl/token_mask:clip_min=0.5,clip_max=2. See: iscope recipes.",
    ),
]
OwnRecipes = Annotated[
    list[str] | None,
    typer.Option(
        "--recipes",
        metavar="FILE",
        rich_help_panel=_QUESTION,
        help="A TOML file of your own recipes, which --recipe can then name. Repeatable.",
    ),
]
Batch = Annotated[
    str,
    typer.Option(
        "--batch",
        metavar="all|step|N",
        rich_help_panel=_NUMBERS,
        help="What losses and weights are normalised over and filters sort: the whole dump, each step, or N rollouts "
        "in a row.",
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        "--fit",
        metavar="keep=SHARE",
        rich_help_panel=_QUESTION,
        help="Set the bounds on ratios that --recipe leaves at their default so that each rule keeps this share of the "
        "dump: keep=.95.",
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="KEY",
        rich_help_panel=_QUESTION,
        help="Break figures down by step, lag, length, group, p (probability of the token) or a column. Repeatable.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        rich_help_panel=_QUESTION,
        help="Look only at rollouts whose columns meet it: \"step >= 10 AND env = 'math'\".",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAME=COLUMN,...",
        rich_help_panel=_NUMBERS,
        help="Which column holds what, where names do not tell: trainer=old_logp,inference=logprobs.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        rich_help_panel=_NUMBERS,
        show_default=False,
        help="Whose files these are, where it cannot be told: prime-rl, nemo-rl, slime, skyrl, miles, verl, trl, vllm, "
        "long (one row per token), jsonl or parquet.",
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision", rich_help_panel=_NUMBERS, help="Arithmetic of ratios and bounds; trainers use float32."
    ),
]
UnscoredOption = Annotated[
    Unscored,
    typer.Option(
        "--unscored",
        rich_help_panel=_NUMBERS,
        help="Loss tokens without a usable logprob: leave them out, or give them ratio 1.",
    ),
]
DeviceOption = Annotated[
    Device,
    typer.Option(
        "--device",
        rich_help_panel=_NUMBERS,
        help="Where tokens are measured; auto is a GPU where there is one with memory left.",
    ),
]
HealthyK3 = Annotated[
    float | None,
    typer.Option(
        "--healthy-k3",
        metavar="NATS",
        rich_help_panel=_QUESTION,
        show_default=False,
        help="k3 per token up to which your stack is healthy, for the verdict; by default 0.002, a dense model's in "
        "bf16. See: iscope explain.",
    ),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        rich_help_panel=_FOLLOWING,
        help="Read files as they are finished and keep the report up to date. Ctrl-C ends with the report, code 0.",
    ),
]
QuietFor = Annotated[
    float | None,
    typer.Option(
        "--quiet-for",
        metavar="SECONDS",
        rich_help_panel=_FOLLOWING,
        show_default=False,
        help="How long a file must not change to be finished, where no marker says so; by default 5.",
    ),
]
FollowUntil = Annotated[
    int | None,
    typer.Option(
        "--follow-until", metavar="STEP", rich_help_panel=_FOLLOWING, help="End once this step has been measured."
    ),
]
IdleTimeout = Annotated[
    float | None,
    typer.Option(
        "--idle-timeout",
        metavar="SECONDS",
        rich_help_panel=_FOLLOWING,
        help="End after so long without a new file; by default never.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", rich_help_panel=_NUMBERS, help="Stop at the first bad row instead of counting it."),
]
LedgerFile = Annotated[
    str | None,
    typer.Option("--ledger", metavar="FILE", rich_help_panel=_OUTPUT, help="Keep the per-rollout sums in this file."),
]
IncludeText = Annotated[
    bool,
    typer.Option(
        "--include-text",
        rich_help_panel=_OUTPUT,
        help="Show the text of the worst rollouts in HTML and JSON reports, where the dump has it; without this no "
        "report holds any.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray",
        rich_help_panel=_RUN,
        help="What measures the dump: this process, or a Ray cluster (of RAY_ADDRESS or ray start, else its own).",
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="FOLDER",
        rich_help_panel=_RUN,
        show_default=False,
        help="Keep what is done in this folder; the same command goes on from there after it was interrupted or "
        "killed.",
    ),
]
ResumeEvery = Annotated[
    float,
    typer.Option(
        "--resume-every",
        metavar="SECONDS",
        rich_help_panel=_RUN,
        help="Work that may be lost with --resume.",
    ),
]
AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing",
        rich_help_panel=_RUN,
        help="Leave out what cannot be measured; the coverage says what is missing.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(RENDERERS),
        rich_help_panel=_OUTPUT,
        show_default=False,
        help="Format of the report. By default from the extension of -o, else terminal.",
    ),
]
OutputFile = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        rich_help_panel=_OUTPUT,
        help=f"Where the report goes ({', '.join(EXTENSIONS)}); - is the standard output.",
    ),
]
WeightsFile = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        rich_help_panel=_OUTPUT,
        show_default=False,
        help="The Parquet file to write: one row per rollout, with weight, keep and coefficient of every token.",
    ),
]
Silent = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=_OUTPUT, help="Print errors only.")]
Force = Annotated[bool, typer.Option("--force", rich_help_panel=_OUTPUT, help="Overwrite the file of -o.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel=_OUTPUT, help="The verdict only, and no progress.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=_OUTPUT, help="Every figure, row and example.")
]


def column_map(pieces: Sequence[str]) -> dict[str, str]:
    """Return ``--columns`` as a map from what a column holds to its name.

    Raises:
        UsageError: when a piece is not NAME=COLUMN, or a name comes twice.
    """
    found: dict[str, str] = {}
    for piece in (piece for text in pieces for piece in text.split(",")):
        name, equals, column = (part.strip() for part in piece.partition("="))
        if not (name and equals and column):
            raise UsageError(f"--columns: {piece!r} is not NAME=COLUMN; write --columns trainer=..,inference=..")
        if name in found:
            raise UsageError(f"--columns: {name!r} is given twice.")
        found[name] = column
    return found


def fit_share(text: str | None) -> float | None:
    """Return the share of ``--fit keep=.95``.

    Raises:
        UsageError: when it is no such share.
    """
    if text is None:
        return None
    name, equals, share = (part.strip() for part in text.partition("="))
    try:
        value = float(share)
    except ValueError:
        value = math.nan
    if name != "keep" or not equals or not 0 < value < 1:
        raise UsageError(f"--fit takes keep=SHARE with a share between 0 and 1, such as keep=.95, not {text!r}.")
    return value


def check_sources(dump: Sequence[str], sides: Mapping[str, Sequence[str]]) -> None:
    """Refuse a combination of dumps and sides that cannot be read.

    Args:
        dump: the positional dumps.
        sides: the files of each side, by option name.

    Raises:
        UsageError: when there is nothing to read, a side without its partner, or dumps beside sides.
    """
    given = [name for name, files in sides.items() if files]
    if not dump and not given:
        raise UsageError("There is nothing to analyze: name a DUMP, or --trainer FILE and --vllm FILE.")
    if dump and given:
        raise UsageError(
            f"{dump[0]!r} stands beside --{given[0]} but belongs to no side: repeat the option before each file, "
            "or quote a glob ('steps/*.parquet') so that the shell does not expand it."
        )
    missing = [name for name in ("trainer", "vllm") if given and not sides[name]]
    if missing:
        raise UsageError(f"--{given[0]} needs --{missing[0]} FILE beside it: a ratio takes both sides.")
