"""Make a dump without a trainer: vLLM samples fixed prompts, Hugging Face scores the very same tokens.

    python examples/ci/make_dump.py --model MODEL -o dump/ && iscope analyze dump/

It measures how far this engine and this forward pass are apart at the same weights: lag 0, no training. Run it in CI
after every change to the engine, its version, its precision or its flags. Needs ``vllm`` and ``transformers``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import iscope

SUBJECTS = ("a river", "prime numbers", "a lighthouse", "bread", "gravity", "a small town", "chess", "the moon")
TASKS = (
    "Explain {} in a few sentences.",
    "Write a short story about {}.",
    "List three facts about {}, then doubt one.",
)
PROMPTS = [task.format(subject) for task in TASKS for subject in SUBJECTS]


@dataclass(frozen=True)
class Sample:
    """One completion: token ids of prompt and completion, and the engine's logprobs [T] in nats."""

    prompt: list[int]
    ids: list[int]
    logprobs: list[float]
    finish_reason: str


def sample(model: str, prompts: Sequence[str], size: int, tokens: int, temperature: float) -> list[list[Sample]]:
    """Sample a group of ``size`` completions for each prompt with vLLM."""
    from vllm import LLM, SamplingParams

    # Processed logprobs are those of the distribution that is sampled from, temperature included.
    engine = LLM(model=model, logprobs_mode="processed_logprobs")
    settings = SamplingParams(n=size, temperature=temperature, max_tokens=tokens, logprobs=0, seed=0)
    groups = []
    for request in engine.generate(list(prompts), settings):
        prompt = list(request.prompt_token_ids)
        groups.append([_sample(prompt, output) for output in request.outputs])
    return groups


def _sample(prompt: list[int], output: Any) -> Sample:
    ids = list(output.token_ids)
    # A position maps token ids to logprobs; the sampled token's own entry counts, wherever it stands.
    logprobs = [entry[token].logprob for token, entry in zip(ids, output.logprobs, strict=True)]
    return Sample(prompt, ids, logprobs, output.finish_reason)


def score(model: Any, one: Sample, temperature: float) -> list[float]:
    """Return the logprobs [T], nats, of a completion's tokens under a causal language model."""
    import torch

    tokens = torch.tensor([one.prompt + one.ids], device=getattr(model, "device", "cpu"))
    with torch.inference_mode():
        logits = model(tokens).logits[0, len(one.prompt) - 1 : -1].float() / temperature
        chosen = torch.tensor(one.ids, device=logits.device)[:, None]
        found: list[float] = logits.log_softmax(-1).gather(1, chosen)[:, 0].tolist()
    return found


def load(model: str, dtype: str) -> Any:
    """Load a model of Hugging Face for scoring."""
    import torch
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).to(device).eval()


def write(groups: Sequence[Sequence[Sample]], model: Any, folder: str, temperature: float) -> int:
    """Score every sample and write the dump; return its number of rollouts."""
    settings = {"temperature": temperature, "logprobs_mode": "processed_logprobs"}
    with iscope.RolloutWriter(folder, settings=settings) as writer:
        for number, group in enumerate(groups):
            writer.add(
                step=0,
                trainer_logprobs=[score(model, one, temperature) for one in group],
                inference_logprobs=[one.logprobs for one in group],
                loss_mask=[[True] * len(one.ids) for one in group],
                token_ids=[one.ids for one in group],
                group_id=number,
                policy_version=0,
                trainer_version=0,
                finish_reason=[one.finish_reason for one in group],
            )
    return sum(map(len, groups))


def _prompts(path: str | None) -> Iterator[str]:
    if path is None:
        yield from PROMPTS
        return
    with open(path, encoding="utf-8") as file:
        yield from (line.strip() for line in file if line.strip())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", required=True, help="a model's name or folder")
    options.add_argument("--prompts", help="a text file, one prompt a line; 24 prompts are built in")
    options.add_argument("--size", type=int, default=8, help="completions of each prompt")
    options.add_argument("--tokens", type=int, default=256, help="tokens of a completion at most")
    options.add_argument("--temperature", type=float, default=1.0)
    options.add_argument("--dtype", default="bfloat16", help="precision of the scoring model")
    options.add_argument("-o", "--output", required=True, help="the folder of the dump")
    given = options.parse_args(arguments)
    groups = sample(given.model, list(_prompts(given.prompts)), given.size, given.tokens, given.temperature)
    rollouts = write(groups, load(given.model, given.dtype), given.output, given.temperature)
    print(f"{given.output}: {rollouts} rollouts in {len(groups)} groups. Next: iscope analyze {given.output}")


if __name__ == "__main__":
    main()
