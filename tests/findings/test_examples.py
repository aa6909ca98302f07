"""Where findings say that something is: rollout ids, positions from the first loss token, counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.findings.factory import healthy


def found(rollouts, code):
    return {finding.code: finding for finding in rollouts.report().findings}[code]


def behind_a_prompt(rollouts):
    """Put five prompt tokens before each rollout, which the mask leaves out."""
    prompt = np.full(5, -0.3)
    return replace(
        rollouts,
        trainer=[np.concatenate([prompt - 2, t]) for t in rollouts.trainer],
        inference=[np.concatenate([0 * prompt, v]) for v in rollouts.inference],
        mask=[np.arange(len(t) + 5) >= 5 for t in rollouts.trainer],
    )


def test_placeholders():
    rollouts = healthy()
    for row in (3, 50, 111):
        rollouts.inference[row][2], rollouts.trainer[row][2] = 0.0, -4.0
    for dump in (rollouts, behind_a_prompt(rollouts)):
        finding = found(dump, "IS001")
        assert (finding.tokens, finding.rollouts) == (3, 3)
        places = {(example["rollout_id"], example["position"]) for example in finding.examples}
        assert places == {("r0003", 2), ("r0050", 2), ("r0111", 2)}
        assert finding.evidence["side"] == "inference"


def test_unusable():
    rollouts = healthy()
    last = len(rollouts.inference[7]) - 1
    rollouts.inference[7][1] = float("nan")
    rollouts.inference[7][last] = float("nan")
    for dump in (rollouts, behind_a_prompt(rollouts)):
        finding = found(dump, "IS002")
        assert (finding.severity, finding.tokens, finding.rollouts) == ("warning", 2, 1)
        assert [example["position"] for example in finding.examples] == [1, last]
        assert {example["rollout_id"] for example in finding.examples} == {"r0007"}
        assert f"positions are 1 to {last}, 1 in the median, and 1 are a rollout's last token" in finding.message


def test_at_most_five_examples_and_reading_back():
    finding = found(healthy().edit(lambda t, v, rng: (t, np.where(np.arange(len(v)) == 1, np.inf, v))), "IS002")
    assert finding.rollouts == 192
    assert len(finding.examples) == 5
    assert type(finding).from_dict(finding.to_dict()) == finding


def test_messages_say_what_it_is_no_evidence_of_and_titles_do_not():
    finding = found(healthy(noise=0.4), "IS015")
    assert "it is no evidence of stale weights" in finding.message
    assert "stale" not in finding.title
