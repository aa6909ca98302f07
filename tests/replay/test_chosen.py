from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iscope.replay import chosen
from iscope.replay.gathered import Gathered, places_of, segments_left
from iscope.replay.segments import Segments

FLAGS = st.lists(st.booleans(), max_size=40)


@given(FLAGS, st.data())
def test_flagged_tokens_are_taken(flags: list[bool], data: st.DataObject) -> None:
    column = torch.arange(len(flags), dtype=torch.float32) * 0.5
    mask = torch.tensor(flags, dtype=torch.bool)
    kept = [index for index, flag in enumerate(flags) if flag]
    assert places_of(mask).tolist() == kept
    gathered = Gathered({"trainer": column}, mask)
    assert gathered["trainer"].tolist() == [index * 0.5 for index in kept]
    assert gathered.places is not None
    assert gathered.places.tolist() == kept
    some = [place for place in range(len(kept)) if data.draw(st.booleans())]
    part = gathered.take(torch.tensor(some, dtype=torch.int64))
    assert part["trainer"].tolist() == [kept[place] * 0.5 for place in some]
    assert part.places is not None
    assert part.places.tolist() == [kept[place] for place in some]


def test_all_tokens_are_meant_where_nothing_is_said() -> None:
    gathered = Gathered({"trainer": torch.tensor([1.0, 2.0])})
    assert gathered["trainer"].tolist() == [1.0, 2.0]
    assert gathered.places is None
    assert gathered.get("ref") is None


@given(st.lists(FLAGS, max_size=6))
def test_the_layout_that_is_left(rollouts: list[list[bool]]) -> None:
    offsets = torch.tensor([0, *np.cumsum([len(flags) for flags in rollouts], dtype=int)])
    mask = torch.tensor([flag for flags in rollouts for flag in flags], dtype=torch.bool)
    assert segments_left(Segments(offsets), mask).lengths.tolist() == [sum(flags) for flags in rollouts]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(values=st.lists(st.floats(width=32), max_size=40))
def test_unusable_and_positive_values_are_seen(kind: type, values: list[float]) -> None:
    wrong, positive = chosen.unusable_or_positive(np.array(values, dtype=kind), kind(-9000.0), kind(0.2))
    limit = float(kind(0.2))
    assert bool(wrong) == any(not (-9000.0 < value <= limit) for value in values)
    assert bool(positive) == any(value > 0 for value in values)
