"""Files of gates: what they may say, and one sentence with file and key for what they may not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.cli.app import run
from iscope.errors import UsageError
from iscope.gates import Gate, find_config, read_config
from iscope.gates.comparable import Terms
from iscope.gates.read import read_gate
from iscope.gates.toml import FILE, PROJECT
from iscope.place import Place

FULL = """
framework = "prime-rl"
healthy_k3 = 0.005
defaults = true

[baseline]
file = "base.json"
prompts = "any"
minus_log_q = 0.2

[[gates]]
figure = "mismatch.by_p[.5-.9].k3"
max = 1
max_ratio = 1.5
level = "warn"
on_noise = "fail"
reason = "because"

[[gates]]
findings = ["IS003", "IS014"]
ignore = ["IS014"]

[[gates]]
figure = "breakdowns.step[*].k3"
max_growth = 2
window = 5

[[gates]]
figure = "mismatch.k1"
beyond_interval = true
"""


def test_all_that_a_file_can_say(tmp_path):
    (tmp_path / FILE).write_text(FULL)
    found = find_config(tmp_path)
    assert (found.framework, found.healthy_k3, found.defaults) == ("prime-rl", 0.005, True)
    assert (found.baseline, found.terms) == (str(tmp_path / "base.json"), Terms(prompts=False, minus_log_q=0.2))
    assert found.gates == (
        Gate(
            "mismatch.by_p[.5-.9].k3",
            max=1.0,
            max_ratio=1.5,
            level="warn",
            on_noise="fail",
            reason="because",
            origin="iscope.toml gates[0]",
        ),
        Gate(findings=("IS003", "IS014"), ignore=("IS014",), origin="iscope.toml gates[1]"),
        Gate("breakdowns.step[*].k3", max_growth=2.0, window=5, origin="iscope.toml gates[2]"),
        Gate("mismatch.k1", beyond_interval="either", origin="iscope.toml gates[3]"),
    )


def test_where_gates_are_looked_for(tmp_path):
    assert find_config(tmp_path).name == ""
    project = tmp_path / PROJECT
    project.write_text("[tool.other]\nx = 1\n")
    assert find_config(tmp_path).name == ""
    project.write_text('[[tool.iscope.gates]]\nfigure = "mismatch.k3"\nmax = 0.5\n')
    found = find_config(tmp_path)
    assert (found.name, found.gates[0].max, found.gates[0].origin) == (str(project), 0.5, "pyproject.toml gates[0]")
    assert read_config(project) == found
    (tmp_path / FILE).write_text('[[gates]]\nfigure = "mismatch.k3"\nmax = 0.25\n')
    assert find_config(tmp_path).gates[0].max == 0.25
    project.write_text("[tool.other]\n")
    with pytest.raises(UsageError, match=r"it has no table \[tool.iscope\]"):
        read_config(project)


def test_default_gates_apply_where_none_are_written(tmp_path):
    file = tmp_path / FILE
    for text, defaults in (
        ("", True),
        ('baseline = "b.json"', True),
        ('[[gates]]\nfindings = "error"', False),
        ('defaults = true\n[[gates]]\nfindings = "error"', True),
    ):
        file.write_text(text)
        assert read_config(file).defaults is defaults
    file.write_text('baseline = "b.json"')
    assert read_config(file).baseline == str(tmp_path / "b.json")


K3 = '[[gates]]\nfigure = "mismatch.k3"\n'
WRONG = {
    "[[gates]]": 'gates[0]: a gate has either a figure, such as "mismatch.k3", or findings',
    K3: "gates[0]: mismatch.k3 has no limit; set one of max, min, ",
    f"{K3}mx = 1": "gates[0]: there is no key 'mx'; the keys are figure, findings,",
    f"{K3}max_rato = 1": "Did you mean 'max_ratio'?",
    "[[gate]]": "there is no key 'gate'; the keys are gates, defaults, framework, healthy_k3, baseline. Did you mean",
    "gates = 3": "gates: it must be a list of tables, [[gates]], not 3",
    "gates = [1]": "gates[0]: a gate is a table, not 1",
    "[[gates]]\nfigure = 3\nmax = 1": "gates[0].figure: it must be text, not 3",
    '[[gates]]\nfigure = "k3"\nmax = 1': "gates[0].figure: 'k3': a figure is under mismatch",
    '[[gates]]\nfigure = "mismatch.k3["\nmax = 1': "gates[0].figure: 'mismatch.k3[' is no path of a figure",
    f'{K3}max = "a"': "gates[0].max: it must be a number, not 'a'",
    f"{K3}max = nan": "gates[0].max: it must be a finite number, not nan",
    f"{K3}max = 1e999": "gates[0].max: it must be a finite number, not inf",
    f"{K3}max = true": "gates[0].max: it must be a number, not true",
    f"{K3}max = 1979-05-27": "gates[0].max: it must be a number, not datetime.date(1979, 5, 27)",
    f"{K3}max = {'9' * 400}": "gates[0].max: it must be finite, not so large a number",
    f"{K3}max = {'9' * 5000}": "it is no TOML file: Exceeds the limit",
    f"{K3}max_ratio = 0": "gates[0].max_ratio: it must be a finite number above 0, not 0",
    f"{K3}max_rise = -1": "gates[0].max_rise: it must not be below 0, not -1",
    f"{K3}max = 1\nmin = 2": "gates[0]: min 2 is above max 1, so that nothing could pass",
    f'{K3}max = 1\nlevel = "fatal"': "gates[0].level: it must be fail or warn, not 'fatal'. Did you mean 'fail'?",
    f'{K3}max = 1\non_noise = "wrn"': "gates[0].on_noise: it must be fail, warn or pass, not 'wrn'. Did you mean",
    f'{K3}beyond_interval = "over"': "gates[0].beyond_interval: it must be above, below or either, not 'over'",
    f"{K3}max = 1\nwindow = 3": "gates[0].window: it goes with max_growth or min_growth",
    f"{K3}max = 1\nreason = 3": "gates[0].reason: it must be text, not 3",
    f'{K3}max = 1\nignore = ["IS003"]': "gates[0].ignore: it goes with findings",
    f'{K3}max = 1\nfindings = "error"': "gates[0]: a gate has either a figure",
    f"{K3}max_slope = 1": "gates[0].figure: a trend is over the rows of one breakdown, such as breakdowns.step[*].k3",
    '[[gates]]\nfigure = "breakdowns.step[3].k3"\nmax_slope = 1': "a trend is over the rows of one breakdown",
    '[[gates]]\nfigure = "breakdowns.step[*].recipes[*].kept.tokens"\nmax_slope = 1': "a trend is over the rows of one",
    '[[gates]]\nfigure = "breakdowns.step[*].k3"\nmax_growth = 2\nwindow = 0': "gates[0].window: it must be",
    '[[gates]]\nfindings = "eror"': "gates[0].findings: it must be error, warning or information, not 'eror'. Did",
    '[[gates]]\nfindings = ["IS999"]': "gates[0].findings: there is no finding 'IS999'; iscope explain lists them",
    "[[gates]]\nfindings = []": "gates[0].findings: it must be a list of codes",
    '[[gates]]\nfindings = "error"\nmax = 1': "gates[0]: findings have no max: such a gate fails on any of them",
    "defaults = false": "it has no gates and turns the default ones off, so that nothing could ever fail",
    'defaults = "no"': "defaults: it must be true or false, not 'no'",
    'framework = "trll"': "framework: there is no framework 'trll'. Did you mean 'trl'?",
    "framework = 3": "framework: it must be the name of a framework, not 3",
    "healthy_k3 = -1": "healthy_k3: it must be a finite number above 0, not -1",
    '[baseline]\nfle = "a"': "baseline: there is no key 'fle'; the keys are file, prompts, minus_log_q. Did you",
    '[baseline]\nprompts = "sme"': "baseline.prompts: it must be same or any, not 'sme'. Did you mean 'same'?",
    "[baseline]\nminus_log_q = 0": "baseline.minus_log_q: it must be a finite number above 0, not 0",
    "baseline = 3": "baseline: it must be a file's name or a table, not 3",
    'baseline = "a\\u0000b"': "baseline.file: it must be the name of a file",
    'baseline = "nothere.json"': "nothere.json: cannot read the baseline: No such file or directory; write one with",
    "a = ": "it is no TOML file: Invalid value (at end of document)",
    f"x = {'[' * 5000}{']' * 5000}": "its values are nested too deeply",
    "#" * 2**21: "it is larger than 1,048,576 bytes, which no file of gates is",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_a_file_that_is_not_sound_is_one_sentence_and_exit_code_2(tmp_path, capfd, text, said):
    saved, file = tmp_path / "report.json", tmp_path / FILE
    saved.write_text('{"schema": {"name": "iscope.report"}}')
    file.write_text(text)
    assert run(["check", str(saved), "--gates", str(file)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("iscope: error: ")
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert FILE in err or "nothere.json" in err


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00"])
def test_what_is_no_text(tmp_path, content):
    file = tmp_path / FILE
    file.write_bytes(content)
    with pytest.raises(UsageError, match="it is no TOML file"):
        read_config(file)


def test_a_file_that_is_not_there(tmp_path):
    for file in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_config(file)


values = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
keys = st.sampled_from(list(Gate.__dataclass_fields__))


@given(st.dictionaries(keys, values, max_size=4))
def test_whatever_stands_in_a_gate_is_a_gate_or_a_usage_error(table):
    with suppress(UsageError):
        assert isinstance(read_gate(table, Place("x")), Gate)
