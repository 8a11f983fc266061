"""What the keys of other trainers mean: foreign key to record field, with its unit. Meaning, not names.

Two tables, asked in this order. `FRAMEWORKS` holds the exact keys of known trainers, and `TRAPS` those whose
name misleads. `WORDS` holds names by hand as sets of words, so that ``mean_rew``, ``Avg Reward`` and
``reward/mean`` are one entry. What stands in neither is unread: an ambiguous key is reported, never guessed.
Keys further left are preferred where several of one log mean the same field.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ..record import NUMBER_FIELDS
from .settings import declared


class Alias(NamedTuple):
    """A field and how its value is computed: ``offset + scale * value``; a lower rank is preferred."""

    field: str
    scale: float = 1.0
    offset: float = 0.0
    rank: int = 0


FRAMEWORKS = """
reward_mean         critic/score/mean objective/scores ppo/mean_scores exp_scores/mean rollout_scores/mean
                    reward/avg_raw_reward loss/avg_final_rewards avg_final_rewards task_reward/avg final_reward/avg
                    rollout/raw_reward reward/evaluate_response/avg_total_reward
                    env/all/reward/total reward reward/mean
                    reward/all/mean scores reward/total reward/total/mean reward/total_mean rewards/total reward/overall
                    critic/rewards/mean combined_reward final_reward overall_reward rm proxy_reward proxy_reward/mean
                    reward/proxy proxy_score proxy_rm_score rm_score
reward_std          reward_std reward/std ppo/std_scores exp_scores/std rollout_scores/std
reward_min          critic/score/min critic/rewards/min reward/min
reward_max          critic/score/max critic/rewards/max reward/max
success_rate        env/all/correct objective/verifiable_correct_rate successes rewards/accuracies
                    rewards_train/accuracies reward_accuracies reward_accuracy preference_accuracy pairwise_accuracy
all_correct_groups  batch/solve_all
all_wrong_groups    batch/solve_none
live_groups         batch/solve_partial
valid_rate          env/all/format
chosen_logp         log_probs/chosen
rejected_logp       log_probs/rejected
loss                loss actor/loss loss/total_avg loss/mean train_loss dpo_loss orpo_loss simpo_loss kto_loss
                    preference_loss sft_loss gpt_loss
eval_loss           eval_loss eval/loss val_loss val/loss valid_loss validation_loss
policy_loss         policy_loss actor/pg_loss loss/policy_avg pg_loss act_loss actor_loss/avg pg
value_loss          critic/vf_loss loss/value_avg ppo/loss/value critic_loss cri_loss cri vf_loss policy/critic_loss
                    critic/critic_loss ppo_critic/update/critic_loss/avg
value_explained_variance critic/vf_explained_var vf_explained_var explained_var critic/explained_var
value_clip_fraction critic/vf_clipfrac vf_clipfrac
kl_loss             loss/kl_avg
grad_norm           grad_norm policy/raw_grad_norm actor/grad_norm actor_grad_norm optim/grad_norm grad_norm/actor
                    raw_grad_norm grad grad_magnitude
learning_rate       learning_rate actor/lr actor_lr act_lr optim/lr lr train/lr-pg_0 learning_rate_group_0
                    policy/policy_lr policy_lr
kl                  kl actor/kl_loss train/kl_loss critic/kl actor/reward_kl_penalty objective/kl_avg objective/kl3_avg
                    objective/kl2_avg objective/kl1_avg objective/kl0_avg kl_policy_base kl_divergence
                    policy/policy_kl policy_kl
kl_sequence         objective/kl
kl_coef             objective/kl_coef kl_ctl_value actor/kl_coef critic/kl_coeff actor/reward_kl_penalty_coeff beta
entropy_mean        entropy actor/entropy actor/entropy_loss policy/entropy_avg approx_entropy entropy/mean
                    entropy/all/mean optim/entropy train/entropy_loss entropy/avg
entropy_min         entropy/min entropy/all/min
entropy_max         entropy/max entropy/all/max
clip_fraction       clip_ratio/region_mean policy/ppo_clip_ratio actor/pg_clipfrac policy/clipfrac_avg train/pg_clipfrac
                    clip_ratio/avg ppo_clip_ratio clip_ratio
ratio_mean          probs_ratio val/ratio ratios importance_weight/avg ois
ratio_max           probs_ratio_max
rollout_mismatch_kl rollout_corr/k3_kl rollout_correction/k3_kl mismatch/mismatch_k3_kl gen_kl_error
                    mismatch_kl/all/mean mismatch_kl/mean optim/kl_sample_train_v2 vllm_kl rollout_corr/kl
                    rollout_correction/kl mismatch/mismatch_kl train_rollout_kl debug/vllm_local_reverse_kl
                    behave_approx_kl/avg behave_kl/avg
rollout_logp_diff sampling/sampling_logp_difference/mean train_rollout_logprob_abs_diff
                    policy/rollout_train_logprobs_abs_diff_mean rollout_train_logprobs_abs_diff_mean
                    debug/vllm_vs_local_logprob_diff_mean mismatch/mismatch_logprob_abs_diff
rollout_logp_diff_max sampling/sampling_logp_difference/max policy/rollout_train_logprobs_abs_diff_max
                    rollout_train_logprobs_abs_diff_max debug/vllm_vs_local_logprob_diff_max
rollout_prob_diff training/rollout_probs_diff_mean rollout_probs_diff_mean
rollout_prob_diff_max training/rollout_probs_diff_max rollout_probs_diff_max
rollout_prob_correlation training/rollout_actor_probs_pearson_corr rollout_actor_probs_pearson_corr
rollout_mult_prob_error token_mult_prob_error
rollout_weight_mean sampling/importance_sampling_ratio/mean rollout_corr/rollout_is_mean tis behave_imp_weight/avg
                    actor/train_infer_ratio_mean rollout_correction/rollout_is_mean sampling_importance_ratio
                    mismatch/rollout_is_mean val/rho_weight policy/loss_metrics/is_ratio_mean
rollout_weight_min sampling/importance_sampling_ratio/min rollout_corr/rollout_is_min behave_imp_weight/min
                    actor/train_infer_ratio_min rollout_correction/rollout_is_min mismatch/rollout_is_min
                    policy/loss_metrics/is_ratio_min
rollout_weight_max sampling/importance_sampling_ratio/max rollout_corr/rollout_is_max behave_imp_weight/max
                    actor/train_infer_ratio_max rollout_correction/rollout_is_max mismatch/rollout_is_max
                    policy/loss_metrics/is_ratio_max
rollout_weight_std  rollout_corr/rollout_is_std rollout_correction/rollout_is_std mismatch/rollout_is_std
                    behave_imp_weight/std policy/loss_metrics/is_ratio_std
effective_sample_share rollout_corr/rollout_is_eff_sample_size rollout_correction/rollout_is_eff_sample_size
                    mismatch/rollout_is_eff_sample_size
weight_clip_fraction rollout_corr/rollout_rs_masked_fraction rollout_correction/rollout_rs_masked_fraction
                    rollout_corr/rollout_is_oob_ratio tis_clipfrac val/rho_clipfrac val/rho_drop_frac
                    is_masked/all/mean is_masked/mean rs_filtered_fraction policy/loss_metrics/outlier_seq_masked_ratio
staleness           off_policy/mean off_policy/trajectory_staleness/mean staleness/avg sample_staleness/avg
                    staleness/mean async/staleness_mean version_stats/sample_staleness_theta_avg
staleness_max       off_policy/max off_policy/trajectory_staleness/max staleness/max async/staleness_max
                    version_stats/sample_staleness_theta_max
teacher_kl          teacher_kl kl_teacher teacher/kl
advantage_mean      critic/advantages/mean advantages/mean val/advantages_mean rollout/advantages
                    loss/avg_raw_advantages
advantage_std       advantages/std val/advantages_std
advantage_min       critic/advantages/min advantages/min val/advantages_min
advantage_max       critic/advantages/max advantages/max val/advantages_max
zero_variance_share frac_reward_zero_std 1-env/all/by_group/frac_mixed 1-baseline_reward/pct_mixed
                    1-dynamic_filtering_pass_rate zvf advantage/code_zero_rate
response_length_mean completions/mean_length response_length/mean response_length val/sequence_lengths
                    rollout/response_len/mean rollout/response_lengths mean_gen_tokens_per_sample completion_length
                    env/all/ac_tokens_per_turn gen_len generate/avg_num_tokens glen
response_length_min completions/min_length response_length/min val/sequence_lengths_min rollout/response_len/min
response_length_max generate/max_num_tokens completions/max_length response_length/max val/sequence_lengths_max
                    rollout/response_len/max
truncated_rate      completions/clipped_ratio clipped_ratio response_length/clip_ratio response_clip_ratio truncated
                    no_eos_ratios/avg
                    rollout/truncated_ratio truncation_rate is_truncated/all/mean is_truncated/mean
eos_rate            1-completions/clipped_ratio val/stop_rate natural_termination_rate
tokens_seen         num_tokens
wall_time           _runtime wall_time
epoch               epoch training/epoch progress/epoch train/epoch
optimizer_step      optimizer_step
entropy_coef        entropy_coef actor/entropy_coeff
temperature         temperature
group_size          group_size num_generations
groups              num_groups
prompts_per_update  progress/tasks
tokens_per_update   progress/tokens val/num_step_tokens global_valid_toks
repetition_rate     repetition_frac rollout/repetition_frac rollout_metrics/stuck_in_a_loop_ratio
turns_per_response  num_turns/mean num_turns avg_turns_per_sample turns_per_sample/mean agg/all/num_turns/mean
                    env/all/turns_per_episode turns/mean
tool_calls_per_response tools/call_frequency tool_call_counts/mean tools/aggregate/avg_calls_per_rollout
                    rollout_metrics/tool_calls_per_traj_mean
tool_failure_rate   tools/failure_frequency tools/aggregate/failure_rate
aborted_rate        response/aborted_ratio agg/all/cancelled/mean
environment_failure_rate agg/all/has_error/mean
update_applied      update_applied 1-skipped
eval_score          eval_reward eval/reward val/reward_score eval_rewards/mean eval_score eval_accuracy eval/accuracy
                    eval/answer_accuracy
                    eval/score eval/pass@1 test/env/all/reward/total test/env/all/correct
                    eval_rewards/accuracies rewards_eval/accuracies eval_reward_accuracies eval_preference_accuracy
                    eval/all/avg_score gold_reward gold_reward/mean reward/gold gold_score gold_rm_score true_reward
                    true_reward/mean reward/true oracle_reward
"""
"""Field, then the keys of trainers that hold it; ``1-key`` is the complement of a share."""

TRAPS = frozenset(
    "objective/entropy objective/rlhf_reward objective/non_score_reward policy/approxkl_avg "
    "actor/ppo_kl train/ppo_kl ppo_kl approx_kl approxkl kl_penalty_sum seq_len "
    "critic/grad_norm critic/lr critic/entropy policy/kl actor/kl max_completion_length".split()
)
"""Keys that look like a field and are another thing: sums over the sequence (``objective/entropy``), the movement
within an update (``ppo_kl``, exactly 0 on-policy), values after shaping, another network, TRL's limit of a response."""

WORDS = """
reward_mean         reward | reward mean | total reward mean | batch reward | batch mean reward | train reward
                    train mean reward | ep reward mean | episode reward mean | episode reward | ep reward
                    total reward | total score | episode return | ep return | return | mean r | group reward
                    reward score | episode score | episode scores | ep score | proxy | proxy reward | proxy score
                    proxy reward mean | proxy return | proxy r | response reward | response reward mean
                    raw reward | raw reward mean | rollout reward | rollout reward mean
                    overall reward | overall reward mean | total r
reward_std          reward std | reward mean std | total reward std | batch reward std | response reward std
                    rollout reward std
reward_min          reward min | response reward min | batch reward min | rollout reward min
reward_max          reward max | response reward max | batch reward max | rollout reward max
success_rate        answer accuracy | accuracy | accuracy rate | success rate | success | correct rate | correct
                    pass rate | hard pass rate | strict pass rate | reward pass rate | reward hard pass rate
                    solve rate | resolve rate | preference accuracy | exact match
                    exact match rate | accuracy mean | train accuracy | train answer accuracy | win rate
                    batch accuracy | correct example rate | pass 1 | pass at 1 | reward rate | solved | resolved
chosen_reward       chosen reward | train chosen reward | accepted reward
rejected_reward     rejected reward | train rejected reward
reward_margin       reward margin | train reward margin | margin
chosen_logp         chosen logp | train chosen logp | chosen policy logp
rejected_logp       rejected logp | train rejected logp | rejected policy logp
valid_rate          valid rate | 1-invalid rate | valid | format accuracy | format rate | format correct | format
                    parse rate
                    parse success rate | train format accuracy | format valid rate
fallback_rate       fallback rate | fallback
loss                loss | total loss | train loss | loss mean | rl loss | policy loss with kl penalty
                    train mean nll | train nll
policy_loss         policy loss | policy grad loss | action loss | grpo loss | ppo loss | surrogate loss
value_loss          value loss | critic loss | value function loss | vf loss
value_explained_variance explained variance | value explained variance | critic explained variance
kl_loss             kl loss
grad_norm           grad norm | total grad norm
learning_rate       learning rate | optimizer learning rate
kl                  kl | kl ref | kl from ref | kl mean | kl ref mean | kl token | kl token mean | kl exact
                    kl approximate policy vs ref
kl_coef             kl coef | kl beta
kl_k3               kl k3
kl_k1               kl k1
kl_loss_share       kl rate | kl loss rate
entropy_mean        entropy | entropy mean | entropy token | entropy token mean | entropy policy | entropy policy mean
                    entropy policy token
entropy_min         entropy min
entropy_max         entropy max
entropy_loss        entropy loss
entropy_coef        entropy coef
clip_fraction       clip rate | train clip rate | rate response token where ppo ratio was clipped
ratio_mean          ratio | ratio mean | importance ratio | importance ratio mean | policy ratio | policy ratio mean
ratio_max           ratio max | importance ratio max
advantage_mean      advantage mean | advantage | train advantage
advantage_std       advantage std
advantage_min       advantage min
advantage_max       advantage max
zero_variance_share zero std | zero std rate | zero variance rate | zero std group rate | zero variance group rate
                    dead group rate | zero variance share | degenerate group rate | reward zero std rate
                    advantage zero rate | zero advantage rate | 1-rate response with nonzero advantage
live_groups         mixed group | live group
zero_variance_groups zero variance group | dead group | zero std group | degenerate group | skipped group
response_length_mean response length mean | response length | length mean | length | response token length
                    response length token mean | length token mean | response token mean | response token count
                    response token count mean
response_length_median response length median | length median
response_length_min response length min | length min | response token length min
response_length_max response length max | length max | response token length max
truncated_rate      truncated rate | truncated | truncated response rate | cut rate
                    rate response that hit max new token limit
eos_rate            eos rate | stop rate | finished rate | terminated rate
unique_rate         unique rate | distinct rate | unique response rate
logit_max           logit max
logit_gap           logit gap
top1_prob           top1 prob | max prob
eval_score          eval reward | eval reward mean | eval accuracy | eval answer accuracy | eval score
                    eval success rate
                    eval win rate | eval total reward | eval total reward mean
                    eval pass rate | eval correct | eval exact match | eval score mean | eval accuracy mean
                    eval response reward | eval response reward mean
eval_loss           eval loss | eval loss mean
eval_perplexity     eval perplexity | eval perplexity mean | eval response perplexity
temperature         temperature
group_size          group size | num response
groups              num group | group | total group
epoch               epoch
weight_delta        weight delta | weight change
judge_failure_rate  judge failure rate
tool_calls_per_response tool call mean | tool call count mean | num tool call mean | tool call response
                    eval tool call mean
tool_failure_rate   tool failure rate | tool call failure rate | tool error rate | tool call error rate
                    failed tool call rate | 1-tool success rate | 1-tool call success rate
rollout_mismatch_kl kl mismatch | kl rollout train | response kl error
staleness           staleness | staleness mean | sample staleness | sample staleness mean
staleness_max       staleness max | sample staleness max
effective_sample_share ess rate | effective sample size rate | normalized ess | normalized effective sample size
repetition_rate     repetition rate | response repetition rate | repeated response rate
other_script_rate   other script rate | language mixing rate | language mix rate | off language rate
prompt_echo_rate    prompt echo rate | echo rate | prompt copy rate
aborted_rate        aborted rate | abort rate | aborted rollout rate | cancelled rate | rollout abort rate
environment_failure_rate env failure rate | environment failure rate | env error rate | environment error rate
                    sandbox failure rate | sandbox error rate
"""
"""Field, then names by hand as sets of canonical words."""

_SAME = {
    "reward": "rew rewards rwd récompense récompenses recompensa recompensas belohnung ricompensa награда ödül nagroda "
    "المكافأة مكافأة",
    "mean": "avg average mu moyenne media médio média medio promedio mittel mittlere mittlerer durchschnitt средняя "
    "среднее средний ortalama średnia rata متوسط",
    "std": "stddev stdev sd sigma",
    "min": "minimum",
    "max": "maximum",
    "entropy": "ent entropies entropie entropía entropia энтропия",
    "length": "len lens lengths länge longueur longitud longitude comprimento lunghezza длина",
    "response": "resp responses completion completions gen generated generation generations output outputs antwort "
    "réponse respuesta resposta ответа",
    "token": "tokens tok toks",
    "loss": "losses perte pérdida perda perdita verlust потери лосс kayıp strata kerugian الخسارة خسارة",
    "grad": "gradient gradients gradiente",
    "norm": "norme norma",
    "accuracy": "acc accuracies précision precisión genauigkeit точность acurácia",
    "policy": "pg actor",
    "kl": "kld kls",
    "ref": "reference",
    "coef": "coeff coefficient",
    "beta": "β",
    "advantage": "adv advs advantages vorteil avantage ventaja vantagem",
    "rate": "frac fraction share pct percent percentage proportion",
    "truncated": "truncation trunc",
    "format": "fmt",
    "temperature": "temp",
    "group": "groups",
    "variance": "var",
    "num": "n number",
    "eval": "val validation test testing dev evaluation heldout",
    "logit": "logits",
    "train": "training",
    "valid": "validity",
    "success": "succ",
    "return": "ret",
    "episode": "episodes",
    "rejected": "reject",
    "margin": "margins",
    "logp": "logps logprob logprobs",
    "perplexity": "ppl perplexities",
    "response length": "reslen resplen genlen",
    "learning rate": "lr lernrate",
    "grad norm": "gnorm gradnorm",
    "clip rate": "clipfrac",
    "policy loss": "pgloss",
    "tool": "tools",
    "example": "examples",
    "call": "calls",
    "failure": "failures",
    "error": "errors",
    "preference": "pref preferences",
    "exact match": "em",
    "step": "schritt paso étape passo шаг",
}
_CANONICAL = {word: canon for canon, words in _SAME.items() for word in words.split()}
_DROPPED = frozenset("div divergence of the per to current cur stats statistics".split())
_NAMESPACES = frozenset(
    "train training metrics metric rl grpo ppo actor policy optim rollout rollouts charts stats log logs "
    "progress env environment episode episodes epoch epochs iteration iterations batch update updates trainer learner "
    "global scalars losses perf performance selfplay objective".split()
)
"""Words of which the parts of a path before a name are made that say nothing of it: ``ppo_policy/entropy``."""
_OF_EPISODES = frozenset(
    "env environment episode episodes epoch epochs iteration iterations objective selfplay".split()
)
"""Those under which nobody knows whether a KL is of a token or the sum over a response."""
_UNSPACED = {
    "均值": "mean", "比例": "rate", "验证集": "eval", "测试集": "eval", "训练集": "train", "成功率": "success rate",
    "胜率": "win rate", "通过率": "pass rate", "応答長": "response length", "検証": "eval", "ノルム": "norm",
    "梯度范数": "grad norm", "学习率": "learning rate", "學習率": "learning rate", "学習率": "learning rate",
    "平均": "mean", "奖励": "reward", "獎勵": "reward", "報酬": "reward", "损失": "loss", "損失": "loss",
    "熵": "entropy", "エントロピー": "entropy", "准确率": "accuracy", "正确率": "accuracy", "準確率": "accuracy",
    "正解率": "accuracy", "长度": "length", "長度": "length", "長さ": "length", "生成": "response", "回复": "response",
    "响应": "response", "回答": "response", "応答": "response", "散度": "", "优势": "advantage", "優勢": "advantage",
    "标准差": "std", "標準偏差": "std", "方差": "variance", "最大": "max", "最小": "min", "截断率": "truncated rate",
    "截断": "truncated", "零方差组": "zero variance group", "温度": "temperature",
    "梯度": "grad", "勾配": "grad",
    "策略": "policy", "总": "total", "验证": "eval", "测试": "eval", "值": "", "有效率": "valid rate",
    "回退率": "fallback rate", "格式": "format", "训练": "train",
    "평균": "mean", "보상": "reward", "손실": "loss", "엔트로피": "entropy", "학습률": "learning rate",
    "길이": "length", "응답": "response", "생성": "response",
    "정확도": "accuracy", "기울기": "grad", "그래디언트": "grad", "노름": "norm", "검증": "eval", "정책": "policy",
    "phần thưởng": "reward", "trung bình": "mean", "mất mát": "loss",
    "성공률": "success rate", "표준편차": "std", "최대": "max", "최소": "min", "발산": "", "토큰": "token",
}  # fmt: skip
"""Words of languages that put no space between them, longest first where one holds another."""

_CAMEL = re.compile(r"([a-z])([A-Z])")
_SCALE = re.compile(r"\((\d+(?:\.\d+)?e[-+]?\d+)\)")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_AVERAGED = re.compile(r"[_\s](?:mean[_\s])?(?:over|across)[_\s].*$", re.IGNORECASE)
"""What a long name says of the things that it was averaged over, ``reward_across_all_groups``."""


def _entries(table: str) -> list[tuple[str, list[str]]]:
    fields: list[tuple[str, list[str]]] = []
    for line in table.strip().splitlines():
        head, _, rest = line.partition(" ") if not line.startswith(" ") else ("", "", line)
        if head:
            fields.append((head, []))
        fields[-1][1].append(rest.strip())
    return fields


def _exact() -> dict[str, tuple[Alias, ...]]:
    found: dict[str, tuple[Alias, ...]] = {}
    for name, lines in _entries(FRAMEWORKS):
        for rank, key in enumerate(" ".join(lines).split()):
            alias = Alias(name, -1.0, 1.0, rank) if key.startswith("1-") else Alias(name, rank=rank)
            found[key.removeprefix("1-")] = (*found.get(key.removeprefix("1-"), ()), alias)
    return found


def _worded() -> dict[frozenset[str], Alias]:
    found: dict[frozenset[str], Alias] = {}
    for name, lines in _entries(WORDS):
        for rank, entry in enumerate(" | ".join(lines).split(" | ")):
            alias = Alias(name, rank=100 + rank)
            if entry.startswith("1-"):
                alias = alias._replace(scale=-1.0, offset=1.0)
            found[frozenset(entry.removeprefix("1-").split())] = alias
    return found


def _spelt(key: str) -> str:
    """A key as tables spell it, whose columns part words by ``_``, ``.`` or ``:`` where trainers write a slash."""
    return _PARTED.sub("_", key)


def _loose() -> dict[str, tuple[Alias, ...]]:
    """The keys of trainers as tables spell them; a key that is itself so spelt comes first."""
    found: dict[str, tuple[Alias, ...]] = {}
    for key, aliases in _EXACT.items():
        found.setdefault(_spelt(key), aliases)
    return found | {key: aliases for key, aliases in _EXACT.items() if "/" not in key}


_PARTED = re.compile(r"[/.:\s-]+")
_EXACT = _exact()
_LOOSE = _loose()
_LOOSE_TRAPS = frozenset(_spelt(key) for key in TRAPS)
_WORDED = _worded()
STEP_KEYS = tuple(
    "step global_step train/global_step training/global_step trainer/global_step grpo_step train_step training_step "
    "rl_step ppo_step rollout_step policy_step system/step progress/step progress/batch train/step training_iteration "
    "iteration current_steps global_step/max_steps iter update timesteps total_timesteps "
    "time/total_timesteps it rollout_id rollout/step _step".split()
)
"""Keys that count the rows, the surest first."""
WEAK_STEP_KEYS = ("episode", "batch", "round", "epoch")
"""Keys that may count the rows where no other key does and no value comes twice."""

PREFERENCE_KEYS = frozenset(
    "rewards/chosen rewards/rejected rewards/margins rewards/accuracies logps/chosen logps/rejected dpo_loss "
    "logits/chosen logits/rejected orpo_loss simpo_loss kto_loss cpo_loss nll_loss/chosen margin "
    "preference_loss reward_accuracies reward_accuracy rewards_accuracies rewards_accuracy reward_margins "
    "reward_margin rewards_margins rewards_margin preference_accuracy pairwise_accuracy margins "
    "pref_acc pref_accuracy preference_acc".split()
)
"""Keys that only preference training and reward models write."""


def words(key: str) -> frozenset[str]:
    """The canonical words of a key: ``Avg-Rew`` and ``reward/mean`` both give {mean, reward}."""
    for foreign, canon in _UNSPACED.items():
        if foreign in key:
            key = key.replace(foreign, f" {canon} ")
    found: list[str] = []
    for word in _WORD.findall(_CAMEL.sub(r"\1 \2", key)):
        low = word.lower()
        found += _CANONICAL.get(low, low).split()
    return frozenset(found) - _DROPPED


def plain(key: str) -> tuple[str, float]:
    """The key in lower case without a scale in parentheses, and that scale: ``actor/lr(1e-4)`` is (actor/lr, 1e-4)."""
    low = key.strip().lower().replace(" / ", "/")
    scale = 1.0
    if "(" in low and (match := _SCALE.search(low)):
        scale, low = float(match[1]), low.replace(match[0], "")
    return low, scale


OF_VERL = ("val/test_score/", "val-core/")
"""verl's scores on held-out data, a key for each data set."""
OF_BATCHES = frozenset(
    "val/sequence_lengths val/ratio val/stop_rate val/num_eos_tokens val/advantages_mean val/solve_rate_hist".split()
)
"""What TRL's PPO and open-instruct keep under ``val/`` of the batches that they train on: beside these no ``val/`` is a
validation."""


@lru_cache(maxsize=4096)
def resolve(key: str) -> tuple[Alias, ...]:
    """What a key means; empty where that is unknown or ambiguous. Usually one field, sometimes a share and its rest."""
    low, scale = plain(key)
    for name in _candidates(low):
        if name in TRAPS:
            return ()
        if name in _EXACT:
            return tuple(a._replace(scale=a.scale * scale) for a in _EXACT[name])
        if (spelt := _spelt(name)) in _LOOSE_TRAPS:
            return ()
        if spelt in _LOOSE:
            return tuple(a._replace(scale=a.scale * scale) for a in _LOOSE[spelt])
    if low.startswith(OF_VERL) and (low.startswith("val/") or "/mean@" in low):
        return (Alias("eval_score", rank=50),)
    head, _, tail = low.rpartition("/")
    said = {part: frozenset(re.split(r"[\W_]+", part)) for part in head.split("/") if part}
    namespaces = [part for part, of in said.items() if not of <= _NAMESPACES]
    names = key.strip(), "/".join((*namespaces, tail))
    for text in (*names, *(cut for name in names if (cut := _AVERAGED.sub("", name)) != name)):
        found = _rates(words(_SCALE.sub("", text)))
        alias = _WORDED.get(found) or _WORDED.get(found - {"mean"})  # what is logged is a mean, said or not
        if alias is not None:
            if alias.field == "kl" and any(of & _OF_EPISODES for of in said.values()):
                return ()
            return (alias._replace(scale=alias.scale * scale),)
    if _scores_held_out(low, words(key)):
        return (Alias("eval_score", rank=150),)
    own = low in NUMBER_FIELDS and declared(low) is None
    return (Alias(low, rank=200),) if own else ()


_GOLDS = frozenset("gold golden true oracle intended hidden".split())
_OF_REWARDS = frozenset("mean reward score rm r model train utility return".split())


@lru_cache(maxsize=256)
def meant_beside(keys: tuple[str, ...]) -> str | None:
    """The key of the reward that is meant, in a row that holds a proxy of it too: ``gold`` beside ``proxy``.

    Alone such a word may be anything: ``gold`` is the right answer to a prompt where no ``proxy`` stands beside it.
    """
    said = {key: words(_SCALE.sub("", key)) - _OF_REWARDS for key in keys}
    golds = [key for key, found in said.items() if len(found) == 1 and found <= _GOLDS]
    return golds[0] if len(golds) == 1 and {"proxy"} in said.values() else None


_AREAL = ("grpo_actor/update/", "ppo_actor/update/", "grpo_actor/", "ppo_actor/")


def _candidates(low: str) -> list[str]:
    names = [low]
    for prefix in ("train/", "training/", "metrics/", "train_", "rl/", "grpo/", *_AREAL):
        if low.startswith(prefix):
            names.append(low[len(prefix) :])
    head, _, path = low.partition("/")
    if "/" in path and not set(re.split(r"[\W_]+", head)) - _NAMESPACES:  # the path that a trainer wrote, below a word
        names.append(path)
    return names


_SCORES = frozenset(
    "accuracy f1 em exact match pass success solve solved correct score reward win bleu rouge ndcg auc return "
    "maj recall mrr".split()
)
_NO_SCORES = frozenset(
    "std min max loss time length num count truncated kl entropy token variance norm seconds size step steps gap "
    "format only not without minus difference diff".split()
)
_HELD_OUT_WORD = re.compile(r"(?:eval|evaluation|val|validation|dev|test|held_?out|valid(?=/))(?![a-z])(?!/?$)")


def _scores_held_out(low: str, found: frozenset[str]) -> bool:
    """Whether a key is a score on held-out data, whatever the data are called: ``eval/gsm8k/pass_at_1``, ``dev_f1``."""
    part = "rewards/" in low  # one function of the reward alone
    return bool(_HELD_OUT_WORD.match(low) and not part and found & _SCORES and not found & _NO_SCORES)


def _rates(found: frozenset[str]) -> frozenset[str]:
    """A ratio is a share, except the importance ratio."""
    if "ratio" in found and len(found) > 1 and not found & {"importance", "policy", "mean", "max", "min"}:
        return found - {"ratio"} | {"rate"}
    return found
