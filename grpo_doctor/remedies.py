"""Remedies that several checks share, each written once. What a single check recommends stands in its leaf."""

from __future__ import annotations

from .check import Remedy, Step


def remedy(id: str, title: str, *, evidence: str, source: str, **steps: str) -> Remedy:
    """A remedy; steps are named trl, verl, openrlhf and by_hand."""
    listed = tuple(Step(who.replace("_", "-"), do) for who, do in steps.items())
    return Remedy(id, title, listed, evidence, source)


_SHARED = (
    remedy(
        "generate-in-eval-mode",
        "Generate in eval mode with gradient checkpointing off (or with use_cache=False)",
        by_hand=(
            "model.eval(); model.gradient_checkpointing_disable()\n"
            "try:\n"
            "    out = model.generate(**prompts)\n"
            "finally:\n"
            "    model.gradient_checkpointing_enable(); model.train()\n"
            "# or, slower: model.generate(**prompts, use_cache=False)"
        ),
        trl="Leave generation to GRPOTrainer: unwrap_model_for_generation and disable_gradient_checkpointing do this. "
        "In a custom rollout wrap generate in `with disable_gradient_checkpointing(model): model.eval()`.",
        verl="Roll out through vLLM or SGLang (actor_rollout_ref.rollout.name=vllm); with name=hf call eval() and "
        "switch checkpointing off around generate.",
        openrlhf="Roll out through vLLM (--vllm.num_engines 1 or more); nothing else to do.",
        evidence="agreement with eval generation 0.125 → 1.000 on a tiny Qwen2; collapses after an update 43 of 44 → "
        "0 of 48 steps in the engine that reproduces the P30 run",
        source="huggingface/transformers#36051, huggingface/trl#3683; `grpo-doctor run --inject train-mode-generation`",
    ),
    remedy(
        "raise-group-size",
        "Sample more responses per prompt (K = 8)",
        trl="num_generations=8",
        verl="actor_rollout_ref.rollout.n=8",
        openrlhf="--rollout.n_samples_per_prompt 8",
        by_hand="K = 8; keep prompts × K constant only if at least 32 groups with differing rewards remain",
        evidence="K=2 keeps 97.6 % of what K=16 reaches where nothing is broken: K is signal a step, not collapse",
        source="arXiv 2510.00977; TRL, verl and OpenRLHF documentation",
    ),
    remedy(
        "drop-std-normalisation",
        "Do not divide the advantage by the group's standard deviation",
        trl='scale_rewards="none"',
        verl="algorithm.norm_adv_by_std_in_grpo=False",
        openrlhf="--algo.advantage.estimator dr_grpo",
        by_hand="advantage = rewards - rewards.mean(dim=1, keepdim=True)",
        evidence="removes the difficulty bias of Dr. GRPO; changes nothing about a broken rollout",
        source="arXiv 2503.20783",
    ),
    remedy(
        "lower-learning-rate",
        "Lower the learning rate",
        trl="learning_rate=1e-6 (full) or 1e-5 (LoRA)",
        verl="actor_rollout_ref.actor.optim.lr=1e-6",
        openrlhf="--actor.learning_rate 1e-6",
        by_hand="divide it by 2 to 10 and restart from the last healthy checkpoint with a fresh optimizer",
        evidence="helps when the policy moves too far in one update; changed nothing where generation was broken",
        source="TRL, verl and OpenRLHF defaults; P29 against P30 of beita6969/colab-grpo",
    ),
    remedy(
        "filter-dead-groups",
        "Fill the batch with groups whose rewards differ",
        verl="algorithm.filter_groups: enable=True, metric=acc, max_num_gen_batches=10",
        openrlhf="--algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0 1",
        trl="no dynamic sampling in core: filter the prompts to success rates between 0.05 and 0.95, temperature=1.0",
        by_hand="sample further prompts until at least 32 groups have max(reward) > min(reward)",
        evidence="AIME24 42 → 50, the largest single step of DAPO",
        source="arXiv 2503.14476; verl docs/algo/dapo.md",
    ),
    remedy(
        "temperature-one",
        "Sample rollouts at temperature 1.0",
        trl="temperature=1.0",
        verl="actor_rollout_ref.rollout.temperature=1.0",
        openrlhf="--rollout.temperature 1.0",
        by_hand="temperature=1.0 in generate, and the same temperature in the log-probabilities of the loss",
        evidence="low temperature makes the K responses of a group alike, so that their rewards tie",
        source="TRL, verl and OpenRLHF defaults",
    ),
)

REMEDIES: dict[str, Remedy] = {r.id: r for r in _SHARED}
