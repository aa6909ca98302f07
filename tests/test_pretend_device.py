"""What the pretend device refuses: code that a GPU would refuse must not pass on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.pretend_device import pretend_device


@pytest.fixture
def there():
    with pretend_device() as device:
        yield torch.arange(4.0, device=device)


def test_numpy_cannot_read_it(there):
    for read in (lambda: there.numpy(), lambda: np.asarray(there), lambda: (there + 1).numpy()):
        with pytest.raises(TypeError, match="to numpy"):
            read()
    assert there.cpu().numpy().tolist() == [0, 1, 2, 3]
    assert there.to("cpu").numpy().tolist() == there.tolist()


@pytest.mark.parametrize(
    "mix",
    [
        lambda there, here: there + here,
        lambda there, here: here + there,
        lambda there, here: here.add_(there),
        lambda there, here: torch.cat([there, here]),
        lambda there, here: torch.where(there > 0, there, here),
        lambda there, here: there[here.long()],
        lambda there, here: here[there.long()],
        lambda there, here: there.masked_fill(here > 0, 0.0),
        lambda there, here: there.__setitem__(here > 0, 0.0),
        lambda there, here: torch.zeros(4, out=here) + there,
    ],
)
def test_it_does_not_mix_with_the_cpu(there, mix):
    here = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="one device"):
        mix(there, here)


def test_it_stays_where_it_is(there):
    assert there.device.type == "cuda"
    assert there.is_cuda
    of_one = [there + 1, 2 * there, there.double(), there[1:], there > 1, there.cummin(0).values, *there]
    made = [there.new_zeros(2), torch.zeros_like(there), torch.stack([there, there]), there.to(torch.float64)]
    derived = [*of_one, *made, there + torch.tensor(1.0)]
    assert {one.device.type for one in derived} == {"cuda"}
    assert torch.zeros(2).device.type == there.cpu().device.type == "cpu"
    assert torch.zeros(2).to(there.device).device.type == "cuda"
