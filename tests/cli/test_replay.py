from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
DUMP = str(ROOT / "sample_data" / "train_async.parquet")
TRAINER, VLLM = (str(ROOT / "sample_data" / "train_async" / f"{side}.parquet") for side in ("trainer_fp32", "vllm"))
SPEC = "trl/token_mask:clip_min=0.5,clip_max=2"
FAKE = """
import sys, types
from pathlib import Path
api = types.ModuleType("iscope.api")
def replay(*dump, **options):
    print(dump, sorted(options.items()))
    sys.exit(7)
api.replay = replay
sys.modules["iscope.api"] = api
from iscope.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


def python(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


def replay(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return python("-m", "iscope", "replay", *words, cwd=cwd)


def test_a_file_and_one_line(tmp_path: Path) -> None:
    done = replay(DUMP, "--recipe", SPEC, "-o", "w.parquet", cwd=tmp_path)
    frame = pl.read_parquet(tmp_path / "w.parquet")
    tokens = frame.select(pl.col("keep", "coefficient").explode()).drop_nulls()
    assert frame.columns == ["rollout_id", "weight", "keep", "coefficient"]
    assert frame["rollout_id"].equals(pl.read_parquet(DUMP)["rollout_id"])
    head, _, loss = done.stderr.partition(", loss ")
    assert head == f"w.parquet: 416 rollouts, {tokens['keep'].sum():,} of {tokens.height:,} scored tokens kept"
    assert loss.endswith(f" ({SPEC}).\n")
    # On-policy the loss is -A w summed, and so are the coefficients.
    assert float(loss.split()[0]) == pytest.approx(tokens["coefficient"].cast(pl.Float64).sum(), rel=1e-4)
    assert (done.returncode, done.stdout) == (0, "")
    assert os.listdir(tmp_path) == ["w.parquet"]


def test_two_sides_give_the_same_file_as_their_join(tmp_path: Path) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    words = ["--recipe", "prime-rl/seq_mis", "--batch", "step", "--quiet"]
    assert replay(DUMP, *words, "-o", str(one)).stderr == ""
    assert replay("--trainer", TRAINER, "--vllm", VLLM, *words, "-o", str(two)).stderr == ""
    joined, paired = pl.read_parquet(one), pl.read_parquet(two)
    assert paired.sort("rollout_id").equals(joined.sort("rollout_id"))


def test_several_batches_and_no_advantages(tmp_path: Path) -> None:
    done = replay(DUMP, "--recipe", "none", "--batch", "64", "-o", str(tmp_path / "a.parquet"))
    assert "scored tokens kept, mean loss " in done.stderr
    assert done.stderr.endswith(" of 7 batches (none).\n")
    pl.read_parquet(DUMP).drop("advantage").write_parquet(tmp_path / "dump.parquet")
    done = replay(str(tmp_path / "dump.parquet"), "--recipe", "none", "-o", str(tmp_path / "b.parquet"))
    assert done.stderr.endswith("scored tokens kept, no loss (the dump has no advantages) (none).\n")
    assert done.returncode == 0


def test_overwriting_needs_force(tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    path.write_text("old")
    words = [DUMP, "--recipe", "none", "-o", str(path)]
    done = replay(*words)
    assert (done.returncode, path.read_text()) == (2, "old")
    assert done.stderr == f"iscope: error: -o {path}: the file exists; add --force to overwrite it.\n"
    assert replay(*words, "--force").returncode == 0
    assert pl.read_parquet(path).height == 416
    assert os.listdir(tmp_path) == ["w.parquet"]


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    pl.read_parquet(DUMP).head(2).write_parquet(path)
    before = path.read_bytes()
    for source in (path, tmp_path, tmp_path / "*.parquet"):
        done = replay(str(source), "--recipe", "none", "-o", str(path), "--force")
        assert (done.returncode, path.read_bytes()) == (2, before)
        assert done.stderr.endswith("name another one.\n")
    assert os.listdir(tmp_path) == ["dump.parquet"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe", "none", "-o", "w.parquet"], "There is nothing to analyze: name a DUMP, or --trainer FILE and"),
        (["a", "--recipe", "none"], "replay writes a file: name it with -o FILE."),
        (["a", "--recipe", "none", "-o", "-"], "-o -: a Parquet file cannot go to the standard output; name a file."),
        (["a", "-o", "w.parquet"], "replay takes exactly one recipe; name it with --recipe NAME:option=value,..."),
        (["a", "--recipe", "none", "--recipe", "tis", "-o", "w.parquet"], "replay takes exactly one recipe; 2 were "),
        (["a", "--recipe", "nne", "-o", "w.parquet"], "There is no recipe 'nne'. Did you mean 'none'?"),
        (["a", "--recipe", "none", "--batch", "stp", "-o", "w.parquet"], "The batch must be all, step or a number of "),
        (["a", "--recipe", "none", "-o", "no/w.parquet"], "-o no/w.parquet: there is no folder"),
    ],
)
def test_usage_errors_do_not_wait_for_torch(words: list[str], message: str, tmp_path: Path) -> None:
    code = "import sys; from iscope.cli.app import run; code = run(sys.argv[1:]); print(code, 'torch' in sys.modules)"
    done = python("-c", code, "replay", *words, cwd=tmp_path)
    assert done.stdout == "2 False\n"
    assert done.stderr.startswith(f"iscope: error: {message}")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_data_errors(tmp_path: Path) -> None:
    done = replay(DUMP, "--recipe", "prime-rl/ref_kl", "-o", str(tmp_path / "w.parquet"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"iscope: error: {DUMP}: there is no column 'ref_logprobs', which prime-rl/ref_kl")
    (tmp_path / "broken.parquet").write_bytes(Path(DUMP).read_bytes()[:5000])
    done = replay(str(tmp_path / "broken.parquet"), "--recipe", "none", "-o", str(tmp_path / "w.parquet"))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert os.listdir(tmp_path) == ["broken.parquet"]


def test_every_option_reaches_the_replay(tmp_path: Path) -> None:
    words = "--trainer t1 --trainer t2 --vllm v --current c --ref r --on uid --where step>1 --batch 12"
    words += " --columns trainer=x --from slime --device cpu"
    more = "--precision float64 --unscored neutral --strict --quiet -o w.parquet"
    done = python("-c", FAKE, "replay", *words.split(), "--recipe", SPEC, *more.split(), cwd=tmp_path)
    expected = {
        "trainer": ["t1", "t2"],
        "vllm": ["v"],
        "current": ["c"],
        "ref": ["r"],
        "on": "uid",
        "where": "step>1",
        "recipe": SPEC,
        "columns": {"trainer": "x"},
        "from_format": "slime",
        "batch": 12,
        "device": "cpu",
        "precision": "float64",
        "unscored": "neutral",
        "strict": True,
        "output": tmp_path / "w.parquet",
        "progress": None,
    }
    assert done.stdout == f"() {sorted(expected.items())}\n"
    assert done.returncode == 7


def test_help_is_complete_and_light() -> None:
    code = "import sys; from iscope.cli.app import run; run(sys.argv[1:]); print('torch' in sys.modules)"
    done = python("-c", code, "replay", "--help")
    options = "trainer vllm current ref on where recipe columns batch precision unscored strict output force quiet"
    assert all(f"--{option}" in done.stdout for option in options.split())
    assert done.stdout.endswith("False\n")
    assert max(map(len, done.stdout.splitlines())) <= 80
