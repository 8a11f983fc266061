"""Remedies that several checks share, each written once. What a single check recommends stands in its leaf."""

from __future__ import annotations

from .check import Remedy, Step
from .lab_results import of_lab


def remedy(id: str, title: str, *, evidence: str, source: str, **steps: str) -> Remedy:
    """A remedy; steps are named trl, verl, openrlhf and by_hand."""
    listed = tuple(Step(who.replace("_", "-"), do) for who, do in steps.items())
    return Remedy(id, title, listed, evidence, source)


_SHARED = (
    remedy(
        "check-the-reward",
        "Check the reward function, answer extraction, prompt template and EOS first",
        by_hand="score one right and one wrong answer by hand: the rewards must differ; print five decoded responses "
        "with special tokens and what the extraction finds in them",
        trl="call the function in reward_funcs on one right and one wrong completion; log_completions=True",
        verl="call compute_score on one right and one wrong solution; trainer.log_val_generations=5",
        openrlhf="call reward_func of --remote_rm_url's file on one right and one wrong answer",
        evidence="none of its own: equal rewards have no gradient by identity",
        source="arXiv 2402.03300, section 4.1; rllm-org/rllm#54; huggingface/trl#3857",
    ),
    remedy(
        "raise-learning-rate",
        "Raise the learning rate",
        trl="learning_rate=1e-6 (full) or 1e-5 (LoRA)",
        verl="actor_rollout_ref.actor.optim.lr=1e-6",
        openrlhf="--actor.learning_rate 1e-6",
        by_hand="multiply it by 3 to 10, and compare the policy's log-probabilities before and after ten updates",
        evidence=of_lab("lr-too-low"),
        source="TRL, verl and OpenRLHF defaults",
    ),
    remedy(
        "estimate-kl-on-its-own-samples",
        "Sample from the very distribution whose KL is estimated",
        trl="top_p=1.0, top_k=0, min_p=None, repetition_penalty=1.0; no min_new_tokens in generation_kwargs",
        verl="rollout.top_p=1.0 rollout.top_k=-1 rollout.temperature=1.0",
        openrlhf="--rollout.top_p 1.0 --rollout.temperature 1.0",
        by_hand="d = ref - new; k3 = d.exp() - d - 1 per token, never negative; new is the policy that sampled",
        evidence="negative KL was 'almost always a precursor for failed training', 3 of 10 runs",
        source="huggingface/trl#235, #417",
    ),
    remedy(
        "skip-exploding-updates",
        "Skip updates whose gradient norm is far beyond the usual, and clip lower",
        trl="max_grad_norm=0.2; grpo_doctor.attach(trainer, on='error=skip-update')",
        verl="actor_rollout_ref.actor.grad_clip=0.2",
        openrlhf="--max_norm 0.2",
        by_hand="norm = clip_grad_norm_(params, 0.2)\nif norm < 10 * median(last_20_norms): optimizer.step()\n"
        "optimizer.zero_grad(set_to_none=True)",
        evidence="a clipped spike of 2.9e9 left a run healthy (78 %); infinities at steps 113, 184, 193 and 194 "
        "came before NaN at 195",
        source="ShibukiZero/assignment5-alignment, no-clip and clip runs of the early stack",
    ),
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
        evidence=of_lab("train-mode-generation"),
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
        "more-prompts-per-update",
        "Take at least 32 prompts with differing rewards into each update",
        trl="per_device_train_batch_size x gradient_accumulation_steps x processes = 32 x num_generations",
        verl="data.train_batch_size=128 or more",
        openrlhf="--rollout.batch_size 128 or more",
        by_hand="accumulate gradients until at least 8 live groups are in",
        evidence="P30 had 3 prompts a step, of which 0.53 were alive",
        source="beita6969/colab-grpo log; framework defaults",
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
        evidence=f"{of_lab('kl-dominates')}; leaving the term out altogether gave Lever-Plus a KL of 17",
        source="arXiv 2402.03300 (0.04); verl default 0.001",
    ),
    remedy(
        "correct-rollout-mismatch",
        "Correct for the generator's other probabilities, or make them equal",
        # the default, sequence_mask, multiplies the ratios of all tokens: trl#5814
        trl='vllm_importance_sampling_correction=True, vllm_importance_sampling_mode="token_truncate", '
        "vllm_importance_sampling_clip_max=2.0 (before 1.6: vllm_importance_sampling_cap); cast_lm_head_to_fp32=True",
        verl="algorithm.rollout_correction.rollout_is=token rollout_is_threshold=2.0; "
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        openrlhf="--algo.advantage.is_correction_enable --algo.advantage.is_correction_threshold 0.5 5.0",
        by_hand="weight = (logp_trainer - logp_generator).exp().clamp(max=2.0).detach(); loss = weight * loss; "
        "use one temperature and one precision on both sides",
        evidence=of_lab("stale-rollout-weights"),
        source="verl docs/algo/rollout_corr.md; NeMo-RL guide; arXiv 2510.26788; huggingface/trl#5814",
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
        evidence=f"{of_lab('lr-too-high')}; {of_lab('lr-too-high', 'rolled-back')}",
        source="fault `lr-too-high` of the engine",
    ),
    remedy(
        "prove-entropy-sign",
        "Prove the sign of the entropy term before touching its coefficient",
        by_hand="set all advantages and beta to 0, take one step, and measure entropy on the same tokens before and "
        "after: it must rise (grpo-doctor probe, ENT006). loss = policy_loss - coef * entropy.mean(); never "
        "loss - coef * (-entropy.mean())",
        trl="Nothing to do in GRPOTrainer (loss - coef * entropy); probe a subclass that overrides compute_loss.",
        verl="Nothing to do in the built-in actor (policy_loss -= entropy_agg * entropy_coeff); probe a custom loss.",
        openrlhf="Nothing to do in the built-in actor (loss -= entropy_loss * coef); probe a custom loss.",
        evidence="in grpo-dual the coefficient went 0.2 → 6.0 while the entropy stayed at 0.03, because the applied "
        "sign was flipped",
        source="BoBaCai/grpo-dual",
    ),
    remedy(
        "entropy-bonus",
        "Hold entropy at a target with an adaptive coefficient",
        trl="use_adaptive_entropy=True, entropy_target=0.2, entropy_coef_delta=0.005, entropy_coef_max=0.05",
        verl="actor_rollout_ref.actor.entropy_coeff=0.001, or policy_loss.loss_mode=kl_cov (or clip_cov)",
        openrlhf="--actor.entropy_coef 0.001",
        by_hand="coef += 0.005 * sign(target - entropy), clamped to [0, 0.05]; loss = policy_loss - coef * entropy",
        evidence="Qwen2.5-7B average 38.6 → 40.6 and 32B 45.8 → 52.2 with KL-Cov",
        source="arXiv 2505.22617; verl docs/algo/entropy.md",
    ),
    remedy(
        "drop-entropy-bonus",
        "Take the entropy bonus out",
        trl="entropy_coef=0.0, use_adaptive_entropy=False",
        verl="actor_rollout_ref.actor.entropy_coeff=0",
        openrlhf="leave --actor.entropy_coef out",
        by_hand="coef = 0; after an explosion also go back to the last healthy checkpoint with a fresh optimizer",
        evidence=f"{of_lab('entropy-coefficient-huge')}; {of_lab('entropy-coefficient-huge', 'rolled-back')}",
        source="verl PR #781; rllm#116",
    ),
    remedy(
        "raise-response-limit",
        "Raise the response limit, and count a cut response as wrong",
        trl="max_completion_length=2x",
        verl="data.max_response_length=2x; reward_model.overlong_buffer.enable=True overlong_buffer.len=4096 "
        "overlong_buffer.penalty_factor=1.0",
        openrlhf="--rollout.max_new_tokens 2x; --reward.overlong_buffer_len 4096 --reward.overlong_penalty_factor 1",
        by_hand="max_new_tokens at least the 95th percentile of supervised targets; reward 0 where no EOS was sampled",
        evidence="AIME24 30 → 36 by the overlong filter, 38 → 41 by the soft penalty (DAPO)",
        source="arXiv 2503.14476; verl docs/algo/dapo.md; trl PR#5759",
    ),
    remedy(
        "measure-at-one-place",
        "Take logits, probabilities and entropy from one place",
        by_hand="raw logits of the trainer's forward, float32, response positions, before processors and T: "
        "p = logits.softmax(-1); H = -(p * p.log()).sum(-1); top = logits.topk(2); average all over one mask",
        trl="use the logged `entropy`; grpo_doctor.attach(trainer) records gap and probabilities of the same positions",
        verl="actor_rollout_ref.actor.calculate_entropy=True; log logit statistics in the same forward",
        openrlhf="log them in the actor's loss beside its own entropy",
        evidence="derived: temperature, processors, mask and precision each give one policy another entropy",
        source="TRL's GRPOTrainer, whose logged `entropy` is that of the tempered policy",
    ),
    remedy(
        "fail-invalid-responses",
        "Give an invalid response the lowest reward, whatever a default would have earned",
        trl="in the reward function: return 0.0 (the scale's minimum) before anything is executed",
        verl="in compute_score: return the lowest score before anything is executed; log the share of defaults in "
        "reward_extra_info",
        openrlhf="in reward_func: return the lowest score before anything is executed, and the share of defaults in "
        "extra_logs",
        by_hand="reward = judge(run(text)) if parses(text) else LOWEST; record fallback_rate beside the reward",
        evidence="P30 paid garbage 0.50 against 0.56 for valid workflows, because a default ran in its place",
        source="beita6969/colab-grpo, logs/training_p30.log",
    ),
    remedy(
        "lower-min-new-tokens",
        "Lower the minimum length",
        by_hand="min_new_tokens=0, or at most the 25th percentile of supervised answers; leave forced positions out of "
        "the loss",
        trl='generation_kwargs={"min_new_tokens": 0}',
        verl="actor_rollout_ref.rollout: no min_tokens in the sampling parameters",
        openrlhf="leave min_tokens out of the sampling parameters",
        evidence=of_lab("min-new-tokens"),
        source="BoBaCai/grpo-dual (30 → 5, since 30 forced garbage)",
    ),
    remedy(
        "slice-at-padded-width",
        "Cut the response at the padded width of the prompt batch",
        by_hand="prompts = tokenizer(texts, padding=True, padding_side='left'); out = model.generate(**prompts); "
        "response = out[:, prompts.input_ids.shape[1]:]  # never attention_mask.sum(), which counts no padding",
        trl="GRPOTrainer does this; in a custom rollout_func return prompt_ids and completion_ids apart",
        verl="nothing to do: responses come as ids of their own",
        openrlhf="nothing to do: responses come as ids of their own",
        evidence=f"{of_lab('left-pad-extraction')}; until then only the longest prompt of each batch is judged rightly",
        source="BoBaCai/grpo-dual",
    ),
    remedy(
        "complete-eos-set",
        "Stop at every end-of-turn token, and cut there",
        by_hand="eos_token_id=[eos, eot] in generate; mask = cumsum(is_end).shift(1) == 0, so that the first end "
        "token is inside and all after it are outside",
        trl='generation_kwargs={"eos_token_id": [128001, 128009]} for Llama-3',
        verl="generation_config.json of the model directory: eos_token_id as a list; vLLM stop_token_ids",
        openrlhf="generation_config.json of the model directory: eos_token_id as a list",
        evidence="Llama-3 needs 128001 and 128009; Qwen writes <|im_end|> while the config says <|endoftext|>",
        source="open-r1 PR#663, Qwen3#927, unsloth#3721, ms-swift#3113",
    ),
    remedy(
        "restore-gradient-flow",
        "Find where the gradient is lost",
        trl="log frac_reward_zero_std and grad_norm together; if groups die, filter prompts",
        verl="log critic/advantages/max and actor/pg_clipfrac beside actor/grad_norm",
        openrlhf="log dynamic_filtering_pass_rate; --algo.dynamic_filtering_enable",
        by_hand="print((advantages != 0).float().mean(), mask.sum(), sum(p.grad is not None for p in params)) "
        "after backward",
        evidence="huggingface/trl#3857: loss 0, grad norm 0 and frac_reward_zero_std 1.0 were dead groups",
        source="huggingface/trl#3857, #3452",
    ),
    remedy(
        "print-the-effective-setting",
        "Print the setting where it is used, and hash the effective configuration into the log",
        by_hand="Search the code for the name: a variable that no line reads changes nothing. Log the value where it "
        "is used.",
        trl="print(trainer.args.to_json_string()) once the trainer is built, not the dictionary that built it",
        verl="Compare the resolved configuration that is printed at the start of both runs.",
        evidence="USE_RANK_ADVANTAGE stood in three plans and was read by no line of code",
        source="yunsoft2019/Lever-Plus",
    ),
    remedy(
        "pay-what-is-meant",
        "Let the component that is meant pay before the others are learnt",
        trl="reward_weights with most of the weight on it; partial credit in its function",
        verl="partial credit in compute_score; drop the other terms from the sum until it pays",
        openrlhf="partial credit in reward_func; drop the other terms until it pays",
        by_hand="score 20 responses with it: if none pays, start from easier prompts or a supervised stage",
        evidence="none of its own",
        source="rohunagrawal/reward-hacking-entropy",
    ),
)

REMEDIES: dict[str, Remedy] = {r.id: r for r in _SHARED}
