"""One training step as one flat record, and its JSONL codec.

A missing value is unknown, never 0. JSON has no NaN, and fast encoders write NaN as ``null``, which would lose the
information. Non-finite numbers are therefore written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. The
decoder also accepts bare ``NaN``.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Self, get_args, get_type_hints

import msgspec

SCHEMA = 1

Number = float | None
Count = int | None
Flag = bool | None
Text = str | None
Numbers = list[float] | None


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event at a step. ``kind`` is update, collapse, recovery, log-warning, restart, nan, or one of `run.EndKind`
    for the end of the log."""

    kind: str
    message: str = ""
    line: int | None = None


class StepRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The known values of one training step. Every field except ``step`` may be unknown (``None``)."""

    step: Annotated[int, "the trainer's own step number", msgspec.Meta(ge=-(2**62), le=2**62)]

    # time
    epoch: Annotated[Number, "epochs of the prompt set so far"] = None
    wall_time: Annotated[Number, "seconds since the start of training"] = None
    tokens_seen: Annotated[Number, "prompt and response tokens since the start"] = None
    optimizer_step: Annotated[Count, "optimizer steps taken so far"] = None

    # sharpness over response positions, before logits processors and temperature
    logit_max: Annotated[Number, "mean of the largest logit"] = None
    logit_gap: Annotated[Number, "mean of largest minus second largest logit"] = None
    topk_probs: Annotated[Numbers, "mean probabilities of the five most likely tokens"] = None
    top1_prob: Annotated[Number, "mean top-1 probability, 0 to 1"] = None

    # entropy
    entropy_mean: Annotated[Number, "nats per token, full vocabulary, T=1, mean over response tokens"] = None
    entropy_min: Annotated[Number, "nats per token, smallest of the step"] = None
    entropy_max: Annotated[Number, "nats per token, largest of the step"] = None
    entropy_coef: Annotated[Number, "coefficient of the entropy bonus"] = None
    entropy_loss: Annotated[Number, "logged entropy term of the loss"] = None

    # advantage
    advantage_mean: Annotated[Number, "mean advantage of the batch"] = None
    advantage_std: Annotated[Number, "standard deviation of the advantages of the batch"] = None
    advantage_min: Annotated[Number, "smallest advantage"] = None
    advantage_max: Annotated[Number, "largest advantage"] = None
    advantage_abs_values: Annotated[Numbers, "distinct |A| of groups with reward variance, at most 8"] = None
    advantage_rms_live: Annotated[Number, "root mean square of A over groups with reward variance"] = None
    group_size: Annotated[Number, "responses per prompt, K"] = None
    groups: Annotated[Number, "prompts (groups) in the step"] = None
    zero_variance_groups: Annotated[Number, "groups whose rewards are all equal"] = None
    zero_variance_share: Annotated[Number, "share of groups with equal rewards, if no counts are known"] = None
    all_correct_groups: Annotated[Number, "zero-variance groups at the highest reward"] = None
    all_wrong_groups: Annotated[Number, "zero-variance groups at the lowest reward"] = None
    live_groups: Annotated[Number, "groups whose rewards differ"] = None
    group_rewards: Annotated[list[list[float]] | None, "raw rewards, one list of K per group"] = None
    normaliser: Annotated[Text, "group, batch, none or rank: the divisor of the advantage"] = None
    advantage_ddof: Annotated[Count, "0 or 1: degrees of freedom of the group standard deviation"] = None
    advantage_rank_mode: Annotated[Text, "how ties are ranked: index, average"] = None

    # reward
    reward_mean: Annotated[Number, "mean reward of the batch, before advantages are computed"] = None
    reward_after_kl: Annotated[Number, "mean reward after a KL penalty is subtracted, which is trained"] = None
    reward_std: Annotated[Number, "standard deviation of the rewards over the whole batch"] = None
    reward_min: Annotated[Number, "smallest reward"] = None
    reward_max: Annotated[Number, "largest reward"] = None
    reward_components: Annotated[dict[str, float] | None, "mean of each reward function, by name"] = None
    success_rate: Annotated[Number, "share of correct responses (reward accuracy for preference pairs), 0 to 1"] = None
    valid_rate: Annotated[Number, "share of responses in the required format, 0 to 1"] = None
    fallback_rate: Annotated[Number, "share of responses replaced by a fallback, 0 to 1"] = None
    eval_score: Annotated[Number, "score on held-out prompts, or a metric that is not rewarded"] = None
    judge_failure_rate: Annotated[Number, "share of responses that the judge failed to score, 0 to 1"] = None

    # pairs of preference training; each mean is over the responses or the pairs of the batch
    chosen_reward: Annotated[Number, "implicit reward of the chosen responses, beta x log(policy / reference)"] = None
    rejected_reward: Annotated[Number, "the same for the rejected responses"] = None
    reward_margin: Annotated[Number, "implicit reward of the chosen minus that of the rejected response"] = None
    chosen_logp: Annotated[Number, "log-probability of the chosen responses, nats, by response or by token"] = None
    rejected_logp: Annotated[Number, "the same for the rejected responses"] = None

    # KL
    kl: Annotated[Number, "KL to the reference policy, nats per token"] = None
    kl_k1: Annotated[Number, "the same with the k1 estimator"] = None
    kl_k3: Annotated[Number, "the same with the k3 estimator"] = None
    kl_sequence: Annotated[Number, "signed KL to the reference, summed over the response, nats"] = None
    kl_estimator: Annotated[Text, "k1, k2, k3 or full: the estimator of kl"] = None
    kl_coef: Annotated[Number, "coefficient of the KL term, beta"] = None
    teacher_kl: Annotated[Number, "KL to the teacher of a distillation (not the reference model), nats per token"] = (
        None
    )
    kl_loss_share: Annotated[Number, "share of the KL term in the value of the loss, 0 to 1"] = None
    kl_grad_share: Annotated[Number, "share of the KL term in the gradient norm, 0 to 1"] = None

    # loss
    loss: Annotated[Number, "value of the whole loss"] = None
    policy_loss: Annotated[Number, "value of the policy-gradient term"] = None
    value_loss: Annotated[Number, "value of the critic's loss (PPO)"] = None
    value_explained_variance: Annotated[
        Number, "share of the returns' variance that the critic explains, at most 1"
    ] = None
    value_clip_fraction: Annotated[Number, "share of clipped critic values, 0 to 1"] = None
    eval_loss: Annotated[Number, "validation loss on held-out data"] = None
    eval_perplexity: Annotated[Number, "perplexity of held-out text or responses, at least 1"] = None
    kl_loss: Annotated[Number, "value of the KL term, coefficient included"] = None
    grad_norm: Annotated[Number, "gradient norm before clipping"] = None
    learning_rate: Annotated[Number, "learning rate of this update"] = None
    clip_fraction: Annotated[Number, "share of tokens whose ratio was clipped, 0 to 1"] = None
    ratio_mean: Annotated[Number, "mean probability ratio of new to old policy"] = None
    ratio_max: Annotated[Number, "largest probability ratio of new to old policy"] = None
    ratio_first_minibatch: Annotated[Number, "mean |ratio - 1| before any step on the rollout"] = None

    # agreement
    rollout_mismatch_kl: Annotated[
        Number, "k3 KL (k1 if only that is logged) of trainer against the rollout engine's final scores, nats per token"
    ] = None
    rollout_mismatch_raw_kl: Annotated[
        Number, "k3 KL of trainer against the rollout engine's raw logits, nats per token"
    ] = None
    rollout_mismatch_k1: Annotated[
        Number, "mean of rollout engine minus trainer log-probability (k1), nats per token"
    ] = None
    rollout_surprise: Annotated[Number, "mean negative log-probability of the sampled tokens in the engine, nats"] = (
        None
    )
    trainer_surprise: Annotated[Number, "the same in the trainer before the update, nats"] = None
    rollout_logp_diff: Annotated[Number, "mean |trainer minus rollout engine log-probability|, nats per token"] = None
    rollout_logp_diff_max: Annotated[Number, "largest |trainer minus rollout engine log-probability|, nats"] = None
    rollout_prob_diff: Annotated[Number, "mean |trainer minus rollout engine probability|, 0 to 1"] = None
    rollout_prob_diff_max: Annotated[Number, "largest |trainer minus rollout engine probability|, 0 to 1"] = None
    rollout_mult_prob_error: Annotated[Number, "mean of exp |log-probability difference|, 1 if they agree"] = None
    rollout_weight_mean: Annotated[Number, "mean importance weight of trainer to rollout engine, 1 if they agree"] = (
        None
    )
    rollout_weight_min: Annotated[Number, "smallest importance weight of trainer to rollout engine"] = None
    rollout_weight_max: Annotated[Number, "largest importance weight of trainer to rollout engine"] = None
    rollout_prob_correlation: Annotated[
        Number, "Pearson correlation of the two probabilities of the sampled tokens, -1 to 1"
    ] = None
    rollout_weight_std: Annotated[
        Number, "standard deviation of the importance weights of trainer to rollout engine"
    ] = None
    weight_clip_fraction: Annotated[
        Number,
        "share of tokens (of responses, if whole ones are rejected) whose importance weight of trainer to "
        "rollout engine is truncated or masked, 0 to 1",
    ] = None
    effective_sample_share: Annotated[
        Number, "effective sample size of the importance weights, (sum w)^2 / sum w^2, as a share of the batch, 0 to 1"
    ] = None
    staleness: Annotated[Number, "updates between the sampling of a response and its use, mean of the batch"] = None
    staleness_max: Annotated[Number, "updates between the sampling of a response and its use, largest"] = None
    mismatch_causes: Annotated[
        dict[str, list[float]] | None,
        "causes of the difference between trainer and rollout engine in a token batch: name to [share of the squared "
        "difference that it explains, size of its effect]",
    ] = None
    policy_movement_kl: Annotated[Number, "k3 KL of the policy before against after the update, nats per token"] = None
    first_token_valid_rate: Annotated[Number, "share of responses with a valid first token"] = None
    reward_recomputed_gap: Annotated[Number, "validity as scored minus validity recomputed from response ids"] = None
    logp_advantage_cov: Annotated[Number, "covariance of token log-probability and advantage"] = None

    # update
    update_applied: Annotated[Flag, "the optimizer stepped"] = None
    update_skipped_reason: Annotated[Text, "why the optimizer did not step"] = None
    weight_delta: Annotated[Number, "norm of the weight change of this update"] = None
    prompts_per_update: Annotated[Number, "prompts in the batch of one optimizer step"] = None
    tokens_per_update: Annotated[Number, "tokens in the batch of one optimizer step"] = None

    # length
    response_length_mean: Annotated[Number, "tokens"] = None
    response_length_median: Annotated[Number, "tokens"] = None
    response_length_min: Annotated[Number, "tokens"] = None
    response_length_max: Annotated[Number, "tokens"] = None
    truncated_rate: Annotated[Number, "share of responses truncated at the limit, 0 to 1"] = None
    eos_rate: Annotated[Number, "share of responses that ended with EOS, 0 to 1"] = None
    eos_suppressed_rate: Annotated[
        Number, "share of responses whose EOS was suppressed before min_new_tokens, 0 to 1"
    ] = None
    eos_probability: Annotated[Number, "mean probability of EOS over response positions, 0 to 1"] = None

    # boundary
    prompt_tokens_in_mask: Annotated[Number, "prompt tokens inside the completion mask"] = None
    pad_tokens_in_mask: Annotated[Number, "padding tokens inside the completion mask"] = None
    response_tokens_outside_mask: Annotated[Number, "response tokens that the mask excludes"] = None
    eot_per_response: Annotated[Number, "end-of-turn tokens per response"] = None
    chat_header_rate: Annotated[Number, "share of responses that contain a template token, 0 to 1"] = None

    # turns
    turns_per_response: Annotated[Number, "model turns in a multi-turn response"] = None
    tool_calls_per_response: Annotated[Number, "tool calls per response"] = None
    tool_failure_rate: Annotated[Number, "share of tool calls that failed, 0 to 1"] = None
    repeated_call_rate: Annotated[
        Number, "share of tool calls that repeat an earlier call of the same response, 0 to 1"
    ] = None
    unparsed_call_rate: Annotated[Number, "share of tool calls that could not be parsed, 0 to 1"] = None
    aborted_rate: Annotated[Number, "share of rollouts aborted without a response, 0 to 1"] = None
    environment_failure_rate: Annotated[
        Number, "share of rollouts in which the environment or its sandbox failed, 0 to 1"
    ] = None
    failures_at_floor: Annotated[
        Number, "share of rollouts with a failed environment that got the lowest reward of the step, 0 to 1"
    ] = None

    # generation state
    generation_training_mode: Annotated[Flag, "the model was in train mode while it generated"] = None
    generation_checkpointing: Annotated[Flag, "gradient checkpointing was on while it generated"] = None
    temperature: Annotated[Number, "sampling temperature"] = None
    top_p: Annotated[Number, "nucleus sampling, 1 is off"] = None
    top_k: Annotated[Number, "top-k sampling, 0 is off"] = None
    min_new_tokens: Annotated[Number, "tokens before EOS is allowed"] = None
    max_new_tokens: Annotated[Number, "limit of the response, tokens"] = None

    # diversity
    unique_rate: Annotated[Number, "distinct responses divided by all responses, 0 to 1"] = None
    top_pattern_share: Annotated[Number, "share of the most frequent response, 0 to 1"] = None
    pattern_entropy: Annotated[Number, "entropy of the distribution of responses, nats"] = None

    # text health
    repetition_rate: Annotated[Number, "share of responses that repeat themselves, 0 to 1"] = None
    other_script_rate: Annotated[Number, "share of response letters in a different script than the prompts, 0 to 1"] = (
        None
    )
    prompt_echo_rate: Annotated[Number, "share of responses that repeat their prompt, 0 to 1"] = None

    refusal_rate: Annotated[Number, "share of responses that refuse or apologise, 0 to 1"] = None
    prompt_recovery: Annotated[
        Number,
        "how often the response most similar to a response answers the same prompt: 0 as often as by chance, 1 always",
    ] = None

    # outcomes of the responses whose texts are known
    right_chars_mean: Annotated[Number, "mean length of correct responses, characters"] = None
    wrong_chars_mean: Annotated[Number, "mean length of wrong responses, characters"] = None
    response_chars_mean: Annotated[Number, "mean length of responses, characters"] = None
    length_reward_correlation: Annotated[
        Number, "Pearson correlation of reward and length in characters within the step, -1 to 1"
    ] = None
    right_unrewarded_rate: Annotated[
        Number, "share of responses with the reference answer that are not rewarded, 0 to 1"
    ] = None
    wrong_rewarded_rate: Annotated[
        Number, "share of responses with a different number than the reference answer that are rewarded, 0 to 1"
    ] = None
    taskless_reward: Annotated[
        Number, "mean reward of responses that do not depend on the prompt: empty, copied or one text for many prompts"
    ] = None

    # fields of each task, and the events of the step
    by_task: Annotated[dict[str, dict[str, Any]] | None, "the same fields for each task, by task name"] = None
    events: Annotated[list[Event] | None, "what happened at this step"] = None


_hints = get_type_hints(StepRecord, include_extras=True)
FIELDS: dict[str, str] = {name: get_args(hint)[1] for name, hint in _hints.items()}
"""Every field with its meaning and unit."""

_kinds = {name: get_args(hint)[0] for name, hint in _hints.items()}
NUMBER_FIELDS = tuple(n for n, kind in _kinds.items() if kind in (Number, Count, Flag))
WHOLE = {n: bool if kind == Flag else int for n, kind in _kinds.items() if kind in (Count, Flag)}
"""Number fields that are counts or flags, and their type."""
TEXT_FIELDS = tuple(n for n, kind in _kinds.items() if kind == Text)
OBJECT_FIELDS = tuple(n for n in FIELDS if n not in (*NUMBER_FIELDS, *TEXT_FIELDS, "step", "events"))

ADDED_UP = frozenset(
    "groups zero_variance_groups all_correct_groups all_wrong_groups live_groups "
    "prompt_tokens_in_mask pad_tokens_in_mask response_tokens_outside_mask".split()
)
"""Fields that are counts: the values of all rows of a step are summed."""

LARGEST = frozenset(
    "grad_norm ratio_max response_length_max reward_max advantage_max "
    "rollout_logp_diff_max rollout_prob_diff_max rollout_weight_max staleness_max".split()
)
"""Fields for which a step keeps the largest value of its rows."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(StepRecord, strict=False)


class RecordError(ValueError):
    """A line that is not a record; the message states the line and the reason."""


def portable(value: Any) -> Any:
    """Return the value with non-finite floats as strings, because JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [portable(item) for item in value]
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    return value


def encode(record: StepRecord) -> bytes:
    """Return one JSON line without its newline; unknown fields are omitted."""
    known = {
        name: value if name == "events" else portable(value)
        for name in record.__struct_fields__
        if (value := getattr(record, name)) is not None
    }
    document = {"schema": SCHEMA, **known}
    try:
        return _encoder.encode(document)
    except UnicodeEncodeError:  # half of a surrogate pair, which must be escaped
        return json.dumps(msgspec.to_builtins(document), separators=(",", ":"), ensure_ascii=True).encode()


def decode(line: bytes | str) -> StepRecord:
    """Return the record of one JSON line. Raises `RecordError` for any other line."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as failed:
        try:  # other writers use bare NaN, which strict JSON rejects
            return msgspec.convert(json.loads(line), StepRecord, strict=False)
        except (ValueError, RecursionError):
            raise RecordError(str(failed)) from None


class RecordWriter:
    """Writes records to a file, one flushed line per step, so that a killed process loses no finished step."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = open(path, "ab" if append else "wb")  # noqa: SIM115 - closed with the writer

    def write(self, record: StepRecord) -> None:
        self._file.write(encode(record) + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def read_records(path: Path) -> Iterator[StepRecord]:
    """Yield the records of a file that `RecordWriter` wrote; an incomplete last line is skipped. Raises `RecordError`
    for any other invalid line."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                try:
                    yield decode(line)
                except RecordError as error:
                    raise RecordError(f"{path}:{number}: not a record: {error}") from None
