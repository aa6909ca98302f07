"""Recipes that kill the process which replays them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import iscope
from iscope.recipes.model import Pair

# The driver's process, and the file that says that a worker was killed; both reach the workers with the environment.
DRIVER, KILLED = "ISCOPE_TEST_DRIVER", "ISCOPE_TEST_KILLED"
DEADLY = -77.0


@iscope.recipe("deadly/once")
def once(view):
    """The token ratio; the first worker that computes it dies."""
    marker = os.environ.get(KILLED)
    if marker is not None and os.environ[DRIVER] != str(os.getpid()):
        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return view.weight(Pair.TRAINER_INFERENCE)
        os.kill(os.getpid(), signal.SIGKILL)
    return view.weight(Pair.TRAINER_INFERENCE)


@iscope.recipe("deadly/token")
def token(view):
    """The token ratio; every worker that meets a certain inference logprob dies."""
    if bool((view.inference == DEADLY).any()) and os.environ.get(DRIVER) != str(os.getpid()):
        os.kill(os.getpid(), signal.SIGKILL)
    return view.weight(Pair.TRAINER_INFERENCE)
