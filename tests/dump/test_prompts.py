from __future__ import annotations

import polars as pl
import pytest

from iscope.dump import Sides, open_dump
from iscope.dump.prompts import prompts_of


def table(prompts, name="prompt_token_ids"):
    rows = len(prompts)
    return pl.DataFrame(
        {
            "rollout_id": [str(row) for row in range(rows)],
            "trainer_logprobs": [[-1.0, -2.0]] * rows,
            "inference_logprobs": [[-1.0, -2.1]] * rows,
            name: prompts,
        }
    )


def of(*tables):
    return prompts_of(open_dump(list(tables)))


def test_prompts_are_a_set_whatever_their_order_number_and_file():
    count, digest = of(table([[1, 2], [3], [1, 2]]))
    assert count == 2
    assert of(table([[3], [1, 2]])) == (2, digest)
    assert of(table([[3]]), table([[1, 2], [3]])) == (2, digest)
    assert of(table([[3], [2, 1]])) != (2, digest)
    assert of(table([[3], [1], [2]]))[1] != digest


def test_the_digest_is_the_same_on_every_machine_and_version():
    assert of(table([[1, 2], [3]])) == (2, "12b7a9c3755ea7f5")


@pytest.mark.parametrize("prompt", ["text", [{"role": "user", "content": "hi"}], b"bytes", 3])
def test_prompts_of_any_type(prompt):
    assert of(table([prompt, prompt], "prompt"))[0] == 1


def test_without_a_column_of_prompts_there_are_none():
    assert of(table([[1]], "other")) is None
    assert of(table([[1]]), table([[1]], "other")) is None
    assert of(table([None, None], "prompt")) is None


def test_of_two_sides_either_may_have_the_prompts():
    whole = table([[1, 2], [3]])
    trainer = whole.select("rollout_id", "trainer_logprobs")
    engine = whole.select("rollout_id", "inference_logprobs", "prompt_token_ids")
    assert prompts_of(open_dump([], sides=Sides(trainer, engine))) == of(whole)
    assert prompts_of(open_dump([], sides=Sides(trainer, engine.drop("prompt_token_ids")))) is None
