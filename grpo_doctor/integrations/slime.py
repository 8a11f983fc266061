"""slime: reads every sample of a rollout.

    --custom-rollout-log-function-path grpo_doctor.integrations.slime.log_rollout_data

slime calls the function in its rollout manager once per rollout, before slime's own logging, which stays unchanged.
Another process logs the metrics of the update (gradient norm, loss, KL), so they are unknown here. For the metrics of
the update, run `grpo-doctor watch` on the TensorBoard folder or console. To set options, name your own function:

    log_rollout_data = grpo_doctor.integrations.slime.Hook(on="error=stop", out="runs/mine")

Written against slime's docs/en/get_started/customization.md (August 2026); not tested on slime, which needs a GPU.
"""

from __future__ import annotations

import atexit
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..rollouts import rollouts_of
from ..run import Sample
from .scalars import LoggedRun


class Hook:
    """A function for ``--custom-rollout-log-function-path``; the options are those of `LoggedRun`."""

    def __init__(self, *, out: str = "runs/slime", on: str = "error=warn") -> None:
        self.out, self.on = out, on
        self.run: LoggedRun | None = None

    def __call__(
        self, rollout_id: int, args: Any, samples: Sequence[Any], rollout_extra_metrics: Any, rollout_time: float
    ) -> bool:
        """Check a rollout. Return False, so that slime logs the rollout as well. Raises `TrainingStopped` if a finding
        requires a stop."""
        if self.run is None:
            self.run = LoggedRun(vars(args), framework="slime", out=self.out, on=self.on)
            atexit.register(self.run.finish)
        flat = list(chain.from_iterable(s if isinstance(s, Sequence) else [s] for s in samples))
        key = getattr(args, "reward_key", None)
        metrics = {**(rollout_extra_metrics or {}), **_metrics(flat, key)}
        rollouts = [one for sample in flat for one in _rollouts(rollout_id, sample, key)]
        self.run.log(rollout_id, metrics, rollouts=rollouts)
        self.run.raise_requested_stop()
        return False


def _rollouts(step: int, sample: Any, key: str | None) -> Iterator[Sample]:
    """Convert one of slime's samples to a rollout; return None if the sample has no response yet."""
    fields = {"prompt": sample.prompt, "response": sample.response, "reward": _reward(sample, key)}
    status = str(getattr(sample.status, "value", sample.status))
    return rollouts_of({**fields, "status": status, "group": sample.group_index}, step)


def _reward(sample: Any, key: str | None) -> Any:
    return sample.reward[key] if isinstance(sample.reward, Mapping) and key else sample.reward


def _metrics(samples: Iterable[Any], key: str | None) -> dict[str, Any]:
    """Return the rewards of groups, the response lengths, and the share of truncated responses."""
    groups: dict[Any, list[float]] = defaultdict(list)
    lengths, cut = [], []
    for sample in samples:
        reward = _reward(sample, key)
        if isinstance(reward, int | float):
            groups[sample.group_index].append(float(reward))
        lengths.append(sample.response_length)
        cut.append(getattr(sample.status, "value", sample.status) == "truncated")
    if not lengths:
        return {}
    figures = {"mean": sum(lengths) / len(lengths), "min": min(lengths), "max": max(lengths)}
    found: dict[str, Any] = {f"response_length/{name}": figure for name, figure in figures.items()}
    return found | {"truncated_rate": sum(cut) / len(cut), "group_rewards": list(groups.values())}


log_rollout_data = Hook()
