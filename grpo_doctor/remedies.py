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
    remedy(
        "clip-higher",
        "Raise the upper clip bound",
        trl="epsilon=0.2, epsilon_high=0.28",
        verl="actor_rollout_ref.actor.clip_ratio_low=0.2 clip_ratio_high=0.28",
        openrlhf="--actor.eps_clip_low_high 0.2 0.28",
        by_hand="ratio.clamp(1 - 0.2, 1 + 0.28); needs more than one update per rollout, else every ratio is 1",
        evidence="AIME24 36 → 38 in DAPO; Qwen2.5-32B average 45.8 → 47.2 in verl's entropy recipe",
        source="arXiv 2503.14476; verl docs/algo/entropy.md",
    ),
    remedy(
        "lower-kl-coefficient",
        "Lower the KL coefficient, do not remove it",
        trl="beta=0.001 to 0.04 (or a third of the present value)",
        verl="actor_rollout_ref.actor.kl_loss_coef=0.001",
        openrlhf="--algo.kl.init_coef 0.001",
        by_hand="beta /= 3 until the KL term has less than 0.3 of the gradient norm",
        evidence="beta 10 → 0.02 at step 31: reward 0.26 → 0.52 at step 70 in the throw-away engine; leaving the term "
        "out altogether gave Lever-Plus a KL of 17",
        source="throw-away engine, remedies table; arXiv 2402.03300 (0.04); verl default 0.001",
    ),
    remedy(
        "correct-rollout-mismatch",
        "Correct for the generator's other probabilities, or make them equal",
        trl='vllm_importance_sampling_correction=True, vllm_importance_sampling_mode="sequence_mask", cap 3.0; '
        "cast_lm_head_to_fp32=True",
        verl="algorithm.rollout_correction.rollout_is=token rollout_is_threshold=2.0; "
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        openrlhf="--algo.advantage.is_correction_enable --algo.advantage.is_correction_threshold 0.5 5.0",
        by_hand="weight = (logp_trainer - logp_generator).exp().clamp(max=2.0).detach(); loss = weight * loss; "
        "use one temperature and one precision on both sides",
        evidence="stale rollouts mended at step 31: reward 0.26 → 0.63 at step 70 in the throw-away engine",
        source="verl docs/algo/rollout_corr.md; NeMo-RL guide; arXiv 2510.26788",
    ),
    remedy(
        "centre-per-group",
        "Subtract the mean reward of the prompt's own group",
        trl='scale_rewards="batch" (keeps the group mean) or "group"',
        verl="algorithm.adv_estimator=grpo or reinforce_plus_plus_baseline; one uid per prompt, set before the repeat",
        openrlhf="--algo.advantage.estimator reinforce_baseline",
        by_hand="A = r.view(-1, K) - r.view(-1, K).mean(1, keepdim=True), before any shuffle of the batch",
        evidence="Search-R1 v0.1 made every sample its own group and degraded; mended upstream (a later collapse near "
        "step 160 had another cause)",
        source="PeterGriffinJin/Search-R1#88; arXiv 2501.03262",
    ),
    remedy(
        "roll-back",
        "Mend the setting, go back to the last healthy checkpoint, and start the optimizer afresh",
        trl="trainer.train() from the healthy checkpoint with its optimizer.pt and scheduler.pt left out",
        verl="trainer.resume_mode=resume_path trainer.resume_from_path=.../global_step_N; "
        "actor checkpoint contents without optimizer",
        openrlhf="--ckpt.load_enable with the checkpoint before the onset",
        by_hand="model.load_state_dict(healthy); optimizer = AdamW(model.parameters(), lr=lr)",
        evidence="after lr x100 mending in place left the reward at 0.00; the rollback took it to 0.54 in 40 steps",
        source="remedies table of the throw-away engine",
    ),
)

REMEDIES: dict[str, Remedy] = {r.id: r for r in _SHARED}
