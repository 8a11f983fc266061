"""What a key means in which framework, and what its absence means: names, defaults and versions, as tables.

A setting has one name here, that of the checks, whatever the framework calls it. A row of a table is that name and
the framework's keys for it, the first that stands in a configuration counts. Versions are those whose source was
read: a default that changed between versions is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Framework:
    """One framework.

    Attributes:
        name, version: as its users write them; the version is the one whose source the tables follow, empty where that
            was a snapshot of its repository which is no release.
        program: pattern of the commands and calls that start it.
        signs: keys that tell its documents; each counts once.
        names: setting to the framework's keys.
        defaults: setting to the value that an absent key has.
        flat: whether keys are told by their last part, as those of a dataclass are.
        rollouts_apart: whether an engine of its own writes the responses, or the trainer takes care of it.
        fields: every key that the trainer's configuration takes or took; empty where no list was made.
        removed: keys that the version no longer takes: the version that took them away, and what to write instead.
        added: keys that versions before the one told did not take.
        library: the package that a requirement pins, empty where the framework has no versions.
        trained: the section of the policy that is trained, where pipelines that only evaluate have all but that.
    """

    name: str
    version: str
    program: str
    signs: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    flat: bool = False
    rollouts_apart: bool = True
    fields: frozenset[str] = frozenset()
    removed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    added: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    trained: str = ""


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Rows of a setting and its keys; an indented row continues the one before."""
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in filter(None, text.splitlines()):
        words = line.split()
        if not line.startswith(" "):
            name, *words = words
        found[name] = (*found.get(name, ()), *words)
    return found


def _gone(text: str) -> dict[str, tuple[str, str]]:
    """Rows of a key that is no longer taken: the version that took it away, and what came in its place."""
    rows = (line.split(maxsplit=2) for line in filter(None, text.splitlines()))
    return {key: (version, rest[0] if rest else "") for key, version, *rest in rows}


_SAMPLING = """
temperature temperature
top_p top_p
top_k top_k
min_p min_p
repetition_penalty repetition_penalty
presence_penalty presence_penalty
frequency_penalty frequency_penalty
"""

_TRAINER = """
learning_rate learning_rate
per_device_train_batch_size per_device_train_batch_size
per_device_eval_batch_size per_device_eval_batch_size
gradient_accumulation_steps gradient_accumulation_steps
gradient_checkpointing gradient_checkpointing
max_grad_norm max_grad_norm
evaluation eval_strategy evaluation_strategy
logging_steps logging_steps
max_steps max_steps
epochs num_train_epochs
seed seed
model model.model_name model_name_or_path model.model_name_or_path
    model.pretrained_model_name_or_path model_name model model_id base_model trainer.model
lora_r lora.r lora_r lora.lora_r peft_lora_r lora_rank peft.r
lora_dropout lora.lora_dropout lora_dropout
adapter_targets lora_target_modules target_modules lora_target lora.target_modules
optimizer optim optimizer
use_peft use_peft use_lora lora.enabled
processes env.NPROC_PER_NODE nproc_per_node num_processes num_gpus
devices env.CUDA_VISIBLE_DEVICES env.ASCEND_RT_VISIBLE_DEVICES
nodes nnodes env.NNODES num_machines
"""

_TRL = _table(
    _SAMPLING
    + _TRAINER
    + """
group_size num_generations rloo_k
kl_coef beta
max_prompt_tokens max_prompt_length
max_new_tokens max_completion_length
model_length vllm_max_model_length vllm_max_model_len model.max_seq_length
num_iterations num_iterations
steps_per_generation steps_per_generation
generation_batch_size generation_batch_size
epsilon epsilon
epsilon_high epsilon_high
loss_type loss_type
scale_rewards scale_rewards
importance_sampling_level importance_sampling_level
mask_truncated_completions mask_truncated_completions
use_vllm use_vllm
vllm_mode vllm_mode
disable_dropout disable_dropout
sync_ref_model sync_ref_model
ref_model_sync_steps ref_model_sync_steps
eval_group_size num_generations_eval
reward_functions trainer.reward_funcs reward_funcs
reward_weights reward_weights
entropy_coef entropy_coef
entropy_target entropy_target
use_adaptive_entropy use_adaptive_entropy
gpu_share vllm_gpu_memory_utilization gpu_memory_utilization
use_liger use_liger_kernel use_liger_loss
importance_correction vllm_importance_sampling_correction
importance_mode vllm_importance_sampling_mode
sleep_mode vllm_enable_sleep_mode
top_entropy_quantile top_entropy_quantile
off_policy_mask off_policy_mask_threshold
tool_iterations max_tool_calling_iterations
own_loss code.own_loss
refused_rewards code.refused_rewards
strict_rewards code.strict_rewards
lacking_column code.lacking_column
wrong_form code.wrong_form
plain_prompts code.plain_prompts
mask_without_eos code.mask_without_eos
drops_unknown code.drops_unknown
"""
)
_TRL["learning_rate"] = ("learning_rate", "lr")
_TRL["kl_coef"] = ("beta", "kl_beta")
_TRL["use_peft"] = ("use_peft", "use_lora", "lora.enabled", "trainer.peft_config")

_TRL_FIELDS = """
beta bf16 cache_implementation cast_lm_head_to_fp32 chat_template_kwargs delta disable_dropout ds3_gather_for_generation
entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target epsilon epsilon_high
generation_batch_size generation_kwargs gradient_accumulation_steps gradient_checkpointing importance_sampling_level
learning_rate log_completions log_completions_hub_repo log_multimodal log_unique_prompts logging_steps loss_type
lr_scheduler_kwargs mask_truncated_completions max_completion_length max_prompt_length max_tool_calling_iterations min_p
model_init_kwargs multi_objective_aggregation num_completions_to_print num_generations num_generations_eval
num_iterations off_policy_mask_threshold pad_to_multiple_of per_device_train_batch_size ref_model_mixup_alpha
ref_model_sync_steps remove_unused_columns repetition_penalty reward_weights router_aux_loss_coef sapo_temperature_neg
sapo_temperature_pos scale_rewards shuffle_dataset steps_per_generation sync_ref_model temperature top_entropy_quantile
top_k top_p torch_empty_cache_steps transformers_continuous_batching_config trust_remote_code use_adaptive_entropy
use_bias_correction_kl use_liger_kernel use_liger_loss use_transformers_continuous_batching use_transformers_paged
use_vllm vespo_k_neg vespo_k_pos vespo_lambda_neg vespo_lambda_pos vllm_device vllm_dtype vllm_enable_prefix_caching
vllm_enable_sleep_mode vllm_gpu_memory_utilization vllm_group_port vllm_guided_decoding_regex
vllm_importance_sampling_cap vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min
vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_max_model_len vllm_max_model_length vllm_mode
vllm_model_impl vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout
vllm_structured_outputs_regex vllm_tensor_parallel_size wandb_log_unique_prompts
"""
"""Of `GRPOConfig`, from TRL 0.14 to 1.16."""

_TRAINING_ARGUMENTS = """
accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor adam_beta1 adam_beta2 adam_epsilon
auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval data_seed dataloader_drop_last
dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers
dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb
ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed disable_tqdm dispatch_batches do_eval do_predict
do_train enable_jit_checkpoint eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_steps
eval_strategy eval_use_gather_object evaluation_strategy fp16 fp16_backend fp16_full_eval fp16_opt_level fsdp
fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap full_determinism gradient_accumulation_steps
gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length half_precision_backend
hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip
include_for_metrics include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second jit_mode_eval
label_names label_smoothing_factor learning_rate length_column_name liger_kernel_config load_best_model_at_end
local_rank log_level log_level_replica log_on_each_node logging_dir logging_first_step logging_nan_inf_filter
logging_steps logging_strategy lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_steps metric_for_best_model
mp_parameters neftune_noise_alpha no_cuda num_train_epochs optim optim_args optim_target_modules output_dir
overwrite_output_dir parallelism_config past_index per_device_eval_batch_size per_device_train_batch_size
per_gpu_eval_batch_size per_gpu_train_batch_size prediction_loss_only project push_to_hub push_to_hub_model_id
push_to_hub_organization push_to_hub_token ray_scope remove_unused_columns report_to
restore_callback_states_from_checkpoint resume_from_checkpoint run_name save_on_each_node save_only_model
save_safetensors save_steps save_strategy
save_total_limit seed skip_memory_metrics split_batches sharded_ddp tf32 torch_compile torch_compile_backend
torch_compile_mode torch_empty_cache_steps torchdynamo tp_size tpu_metrics_debug tpu_num_cores trackio_bucket_id
trackio_space_id trackio_static_space_id train_sampling_strategy use_cache use_cpu use_ipex use_legacy_prediction_loop
use_liger_kernel use_mps_device warmup_ratio warmup_steps weight_decay xpu_backend
"""
"""Of transformers' `TrainingArguments`, from 4.40 to 5.23."""

RENAMED = {
    "vllm_max_model_len": "vllm_max_model_length",
    "vllm_guided_decoding_regex": "vllm_structured_outputs_regex",
    "use_liger_loss": "use_liger_kernel",
    "wandb_log_unique_prompts": "log_unique_prompts",
    "evaluation_strategy": "eval_strategy",
}
"""Keys that mean the same under another name today."""

_TRL_REMOVED = {
    "max_prompt_length": ("0.28", "filter the dataset by prompt length instead"),
    "vllm_device": ("0.18", "vllm_mode says where vLLM runs"),
    "vllm_dtype": ("0.18", ""),
    "vllm_enable_prefix_caching": ("0.18", ""),
    "vllm_max_model_len": ("0.18", "vllm_max_model_length from 0.26 on"),
    "vllm_guided_decoding_regex": ("0.28", "vllm_structured_outputs_regex"),
    "use_liger_loss": ("0.28", "use_liger_kernel"),
    "wandb_log_unique_prompts": ("0.27", "log_unique_prompts"),
}
"""From the fields of `GRPOConfig` at every tag from v0.14.0 to v1.9.0, and of 1.16."""

_TRL_ADDED = {
    key: version
    for version, keys in {
        "0.15": "log_completions ref_model_mixup_alpha ref_model_sync_steps reward_weights sync_ref_model "
        "vllm_dtype vllm_max_model_len",
        "0.16": "cache_implementation epsilon epsilon_high min_p num_iterations repetition_penalty scale_rewards top_k "
        "top_p vllm_enable_prefix_caching vllm_guided_decoding_regex vllm_server_host vllm_server_port "
        "vllm_server_timeout",
        "0.17": "disable_dropout loss_type mask_truncated_completions num_completions_to_print shuffle_dataset "
        "use_liger_loss wandb_log_unique_prompts",
        "0.18": "delta generation_batch_size steps_per_generation vllm_mode vllm_server_base_url "
        "vllm_tensor_parallel_size",
        "0.19": "generation_kwargs",
        "0.20": "importance_sampling_level top_entropy_quantile use_transformers_paged",
        "0.21": "vllm_model_impl",
        "0.23": "vllm_enable_sleep_mode vllm_importance_sampling_cap vllm_importance_sampling_correction",
        "0.25": "cast_lm_head_to_fp32 chat_template_kwargs",
        "0.26": "log_unique_prompts num_generations_eval sapo_temperature_neg sapo_temperature_pos "
        "use_bias_correction_kl vllm_importance_sampling_mode vllm_max_model_length",
        "0.27": "max_tool_calling_iterations multi_objective_aggregation off_policy_mask_threshold vllm_group_port "
        "vllm_structured_outputs_regex",
        "0.28": "log_completions_hub_repo",
        "1.0": "pad_to_multiple_of vespo_k_neg vespo_k_pos vespo_lambda_neg vespo_lambda_pos",
        "1.6": "vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min",
        "1.7": "router_aux_loss_coef transformers_continuous_batching_config trust_remote_code "
        "use_transformers_continuous_batching",
        "1.8": "entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target use_adaptive_entropy",
        "1.9": "log_multimodal",
    }.items()
    for key in keys.split()
}
"""The version of TRL whose `GRPOConfig` first took a key; what 0.14 took is not listed."""

_UNSLOTH_FIELDS = """
vllm_sampling_params unsloth_num_chunks unsloth_logit_chunk_multiplier unsloth_grpo_mini_batch max_seq_length
embedding_learning_rate unsloth_max_seq_length use_agent_framework
"""

_UNSLOTH = {**_TRL, "model_length": (*_TRL["model_length"], "max_seq_length")}
"""TRL's, and the window of the engine that it starts."""

_SWIFT = _table(
    _SAMPLING
    + _TRAINER
    + """
group_size num_generations
kl_coef beta
kl_reward_coef kl_coef
max_new_tokens max_completion_length
model_length vllm_max_model_len
num_iterations num_iterations num_ppo_epochs
steps_per_generation steps_per_generation
generation_batch_size generation_batch_size
global_batch_size global_batch_size
epsilon epsilon cliprange
epsilon_high epsilon_high
loss_type loss_type
adv_estimator advantage_estimator
importance_sampling_level importance_sampling_level
use_vllm use_vllm
vllm_mode vllm_mode
tuner tuner_type train_type sft_type
teacher teacher_model teacher_model_server
ref_adapters ref_adapters
engine_lora vllm_enable_lora
sleep_level sleep_level
reward_functions reward_funcs
reward_weights reward_weights
algorithm rlhf_type
async_level async_generate
"""
)
_SWIFT["learning_rate"] = ("learning_rate", "lr")

_SWIFT_REMOVED = _gone("""
use_liger 3.3 use_liger_kernel
train_sampler_random 3.3 train_dataloader_shuffle
mini_batch_size 3.4 steps_per_generation
use_lmdeploy 3.5
num_infer_workers 3.6
multi_turn_func 3.10 multi_turn_scheduler
train_type 4.1 tuner_type
""")
"""Arguments of ms-swift at the last tag of every minor version from v3.0 to v4.5 that nothing takes any longer."""

_VERL = _table("""
group_size env.rollout.n es_manager.train.group_size actor_rollout_ref.rollout.n_trajectories
    actor_rollout_ref.rollout.n_repeat actor_rollout_ref.rollout.n_agent agent.num_chains actor_rollout_ref.rollout.n
    rollout.n
learning_rate actor_rollout_ref.actor.optim.lr actor_rollout_ref.actor.lr
optimizer actor_rollout_ref.actor.optim.optimizer actor_rollout_ref.actor.optim.optim_name
    actor_rollout_ref.actor.optim.type
kl_coef actor_rollout_ref.actor.kl_loss_coef
kl_reward_coef algorithm.kl_ctrl.kl_coef
use_kl_loss actor_rollout_ref.actor.use_kl_loss
use_kl_in_reward algorithm.use_kl_in_reward
kl_estimator actor_rollout_ref.actor.kl_loss_type
adv_estimator algorithm.adv_estimator
norm_adv_by_std algorithm.norm_adv_by_std_in_grpo
temperature actor_rollout_ref.rollout.temperature
top_p actor_rollout_ref.rollout.top_p
top_k actor_rollout_ref.rollout.top_k
repetition_penalty actor_rollout_ref.rollout.repetition_penalty
max_prompt_tokens data.max_prompt_length
max_new_tokens data.max_response_length
model_length actor_rollout_ref.rollout.max_model_len
batched_tokens actor_rollout_ref.rollout.max_num_batched_tokens
chunked_prefill actor_rollout_ref.rollout.enable_chunked_prefill
rollout_prompts data.train_batch_size
update_prompts actor_rollout_ref.actor.ppo_mini_batch_size
micro_responses actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu
sequence_parallel actor_rollout_ref.actor.ulysses_sequence_parallel_size
strategy actor_rollout_ref.actor.strategy
megatron actor_rollout_ref.actor.megatron.tensor_model_parallel_size
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size
megatron_tensor actor_rollout_ref.actor.megatron.tensor_model_parallel_size
megatron_pipeline actor_rollout_ref.actor.megatron.pipeline_model_parallel_size
megatron_context actor_rollout_ref.actor.megatron.context_parallel_size
hydra_config config_name
dynamic_batch actor_rollout_ref.actor.use_dynamic_bsz
num_iterations actor_rollout_ref.actor.ppo_epochs
epsilon actor_rollout_ref.actor.clip_ratio_low actor_rollout_ref.actor.clip_ratio
epsilon_high actor_rollout_ref.actor.clip_ratio_high
loss_type actor_rollout_ref.actor.policy_loss.loss_mode
loss_agg_mode actor_rollout_ref.actor.loss_agg_mode
entropy_coef actor_rollout_ref.actor.entropy_coeff
max_grad_norm actor_rollout_ref.actor.grad_clip actor_rollout_ref.actor.optim.clip_grad
gradient_checkpointing actor_rollout_ref.model.enable_gradient_checkpointing
model actor_rollout_ref.model.path
lora_r actor_rollout_ref.model.lora_rank actor_rollout_ref.model.lora.rank
evaluation trainer.test_freq
epochs trainer.total_epochs
max_steps trainer.total_training_steps
devices_per_node trainer.n_gpus_per_node
nodes trainer.nnodes
tensor_parallel actor_rollout_ref.rollout.tensor_model_parallel_size
engine_nodes rollout.nnodes rollout.n_gpus_per_node actor_rollout_ref.rollout.nnodes
gpu_share actor_rollout_ref.rollout.gpu_memory_utilization
rollout_engine actor_rollout_ref.rollout.name
rollout_mode actor_rollout_ref.rollout.mode
free_cache actor_rollout_ref.rollout.free_cache_engine
merge_lora actor_rollout_ref.model.lora.merge
multi_turn actor_rollout_ref.rollout.multi_turn.enable
older_micro actor_rollout_ref.actor.ppo_micro_batch_size
""")

_VERL_REMOVED = _gone("""
actor_rollout_ref.actor.fsdp_config.grad_offload 0.3 param_offload takes the gradients along
trainer.remove_previous_ckpt_in_save 0.3 trainer.max_actor_ckpt_to_keep
trainer.val_generations_to_log_to_wandb 0.4 trainer.log_val_generations
actor_rollout_ref.actor.checkpoint.contents 0.4.1 checkpoint.save_contents and checkpoint.load_contents
actor_rollout_ref.rollout.chat_scheduler 0.4.1
actor_rollout_ref.rollout.multi_turn.max_turns 0.4.1 max_assistant_turns and max_user_turns
actor_rollout_ref.rollout.use_fire_sampling 0.5
actor_rollout_ref.rollout.multi_turn.completion_callback 0.6
algorithm.rollout_is 0.6.1 algorithm.rollout_correction.rollout_is
algorithm.rollout_is_threshold 0.6.1 algorithm.rollout_correction.rollout_is_threshold
algorithm.rollout_is_threshold_lower 0.6.1
algorithm.rollout_is_level 0.6.1 algorithm.rollout_correction.rollout_is
algorithm.rollout_is_mode 0.6.1
algorithm.rollout_is_veto_threshold 0.6.1
actor_rollout_ref.rollout.update_weights_bucket_megabytes 0.7.1 the same in rollout.checkpoint_engine
algorithm.rollout_correction.rollout_rs_threshold_lower 0.7.1
algorithm.rollout_correction.rollout_token_veto_threshold 0.7.1
reward_model.launch_reward_fn_async 0.7.1
reward_model.max_length 0.7.1
reward_model.micro_batch_size 0.7.1
reward_model.micro_batch_size_per_gpu 0.7.1
reward_model.forward_max_token_len_per_gpu 0.7.1
reward_model.model.input_tokenizer 0.7.1
reward_model.model.use_remove_padding 0.7.1
reward_model.model.fsdp_config.param_offload 0.7.1
actor_rollout_ref.rollout.skip_rollout 0.8 skip.rollout
actor_rollout_ref.rollout.multi_turn.interaction_config_path 0.8
trainer.use_legacy_worker_impl 0.8
""")
"""Of the composed ``ppo_trainer.yaml`` at every tag of verl from v0.2 to v0.9.0; hydra refuses what is not there."""

_OPENRLHF = _table("""
group_size rollout.n_samples_per_prompt n_samples_per_prompt
learning_rate actor.adam.lr actor_learning_rate actor.learning_rate learning_rate
kl_coef algo.kl.init_coef init_kl_coef
use_kl_loss algo.kl.use_loss use_kl_loss
kl_estimator algo.kl.estimator kl_estimator
adv_estimator algo.advantage.estimator advantage_estimator
temperature rollout.temperature temperature
top_p rollout.top_p top_p
max_prompt_tokens prompt_max_len
max_new_tokens rollout.max_new_tokens generate_max_len
model_length data.max_len
rollout_prompts rollout.batch_size rollout_batch_size
update_responses train.batch_size train_batch_size
num_iterations train.max_epochs max_epochs
epochs train.num_episodes num_episodes
epsilon actor.eps_clip eps_clip
loss_type actor.policy_loss_type policy_loss_type
entropy_coef actor.entropy_coef entropy_loss_coef
gradient_checkpointing actor.gradient_checkpointing_enable gradient_checkpointing
model actor.model_name_or_path pretrain
lora_r ds.lora.rank lora_rank
adapter_targets ds.lora.target_modules target_modules
lora_dropout ds.lora.dropout lora_dropout
evaluation eval.steps eval_steps
tensor_parallel vllm.tensor_parallel_size vllm_tensor_parallel_size
devices_per_node actor.num_gpus_per_node actor_num_gpus_per_node
nodes actor.num_nodes actor_num_nodes
engines vllm.num_engines vllm_num_engines
colocated train.colocate_all colocate_all_models
agent train.agent_func_path agent_func_path
async_level train.async_enable async_train
""")

_OPENRLHF_REMOVED = {
    flat: ("0.10.2", keys[0]) for keys in _OPENRLHF.values() if "." in keys[0] for flat in keys[1:] if "." not in flat
} | _gone("""
use_kl_estimator_k3 0.6.0 algo.kl.estimator
pretrain_data 0.7.1
flash_attn 0.8.10 attn_implementation
bf16 0.9.2 param_dtype
use_icepop 0.9.3
generate_max_len 0.9.8 rollout.max_new_tokens
prompt_max_len 0.9.8
""")
"""Of ``train_ppo_ray.py`` at every tag of OpenRLHF from v0.5.0 to v0.11.0: 0.10.2 gave every flag a section."""

_SLIME = _table("""
group_size n_samples_per_prompt
learning_rate lr
optimizer optimizer
algorithm loss_type
kl_coef kl_loss_coef
kl_reward_coef kl_coef
use_kl_loss use_kl_loss
kl_estimator kl_loss_type
adv_estimator advantage_estimator
temperature rollout_temperature
top_p rollout_top_p
top_k rollout_top_k
max_prompt_tokens rollout_max_prompt_len
max_new_tokens rollout_max_response_len
model_length sglang_context_length
rollout_prompts rollout_batch_size
update_responses global_batch_size
minibatches num_steps_per_rollout
max_steps num_rollout
epochs num_epoch
epsilon eps_clip
epsilon_high eps_clip_high
entropy_coef entropy_coef
model hf_checkpoint
evaluation eval_interval
dropout hidden_dropout
attention_dropout attention_dropout
devices_per_node actor_num_gpus_per_node
nodes actor_num_nodes
truncated_importance use_tis
per_token_loss calculate_per_token_loss
normalize_advantages normalize_advantages
megatron_context context_parallel_size
""")

_NEMO = _table("""
group_size grpo.num_generations_per_prompt rloo.num_generations_per_prompt ppo.num_generations_per_prompt
    distillation.num_generations_per_prompt
learning_rate policy.optimizer.kwargs.lr policy.megatron_cfg.optimizer.lr
optimizer policy.optimizer.name
kl_coef loss_fn.reference_policy_kl_penalty
use_kl_in_reward loss_fn.use_kl_in_reward
kl_estimator loss_fn.reference_policy_kl_type
adv_estimator grpo.adv_estimator.name ppo.adv_estimator.name
temperature policy.generation.temperature
top_p policy.generation.top_p
top_k policy.generation.top_k
max_new_tokens policy.generation.max_new_tokens
total_tokens policy.max_total_sequence_length
model_length policy.generation.vllm_cfg.max_model_len
rollout_prompts grpo.num_prompts_per_step ppo.num_prompts_per_step distillation.num_prompts_per_step
num_iterations ppo.ppo_epochs
update_responses policy.train_global_batch_size
epsilon loss_fn.ratio_clip_min
epsilon_high loss_fn.ratio_clip_max
model policy.model_name
max_steps grpo.max_num_steps ppo.max_num_steps
epochs grpo.max_num_epochs ppo.max_num_epochs
evaluation grpo.val_period ppo.val_period
importance_correction loss_fn.use_importance_sampling_correction
by_sequence loss_fn.sequence_level_importance_ratios
teacher teacher.model_name
max_grad_norm policy.max_grad_norm
dynamic_sampling grpo.use_dynamic_sampling
reward_shaping grpo.reward_shaping.enabled
gradient_checkpointing policy.dtensor_cfg.activation_checkpointing
by_megatron policy.megatron_cfg.enabled
megatron_rate policy.megatron_cfg.optimizer.lr
use_peft policy.dtensor_cfg.lora_cfg.enabled
megatron_peft policy.megatron_cfg.peft.enabled
lora_r policy.dtensor_cfg.lora_cfg.dim policy.megatron_cfg.peft.dim
devices_per_node cluster.gpus_per_node
nodes cluster.num_nodes
""")

_PRIME = _table("""
group_size orchestrator.group_size orchestrator.rollouts_per_example rollouts_per_example group_size
    orchestrator.train.source.0.group_size train.source.0.group_size
learning_rate trainer.optim.lr optim.lr optim.optim.lr learning_rate
adv_estimator orchestrator.algo.type algo.type
temperature orchestrator.train.sampling.temperature orchestrator.sampling.temperature train.sampling.temperature
    sampling.temperature temperature
max_new_tokens orchestrator.train.sampling.max_completion_tokens orchestrator.sampling.max_tokens
    orchestrator.train.sampling.max_tokens train.sampling.max_completion_tokens sampling.max_tokens
rollout_responses orchestrator.batch_size batch_size
model_length seq_len orchestrator.seq_len trainer.model.seq_len inference.model.max_model_len
model model.name orchestrator.model.name trainer.model.name
max_steps max_steps orchestrator.max_steps trainer.max_steps
lora_r trainer.model.lora.rank trainer.model.experimental.lora.rank
async_level max_async_level orchestrator.max_async_level orchestrator.max_off_policy_steps max_off_policy_steps
evaluation orchestrator.eval.interval eval.interval
max_grad_norm trainer.optim.max_norm optim.max_norm
devices_per_node deployment.num_train_gpus
""")

_AREAL = _table("""
group_size gconfig.n_samples actor.group_size group_size
learning_rate actor.optimizer.lr
optimizer actor.optimizer.type
kl_reward_coef actor.kl_ctl ppo.kl_ctl
temperature gconfig.temperature ppo.gen.temperature
top_p gconfig.top_p ppo.gen.top_p
top_k gconfig.top_k ppo.gen.top_k
max_new_tokens gconfig.max_new_tokens ppo.gen.max_new_tokens
min_new_tokens gconfig.min_new_tokens ppo.gen.min_new_tokens
max_prompt_tokens train_dataset.max_length dataset.max_prompt_len
rollout_prompts train_dataset.batch_size dataset.train_bs_n_seqs
minibatches actor.ppo_n_minibatches ppo.ppo_n_minibatches
epsilon actor.eps_clip ppo.eps_clip
epsilon_high actor.eps_clip_higher
importance_sampling_level actor.importance_sampling_level
gradient_checkpointing actor.gradient_checkpointing
disable_dropout actor.disable_dropout
lora_r actor.lora_rank
use_peft actor.use_lora
model actor.path
async_level rollout.max_head_offpolicyness
epochs total_train_epochs
max_steps total_train_steps
evaluation evaluator.freq_steps evaluator.freq_epochs
max_grad_norm actor.optimizer.gradient_clipping
devices_per_node cluster.n_gpus_per_node
nodes cluster.n_nodes
seed seed
""")

_SKYRL = _table("""
group_size generator.n_samples_per_prompt
learning_rate trainer.policy.optimizer_config.lr
kl_coef trainer.algorithm.kl_loss_coef
use_kl_loss trainer.algorithm.use_kl_loss
use_kl_in_reward trainer.algorithm.use_kl_in_reward
kl_estimator trainer.algorithm.kl_estimator_type
adv_estimator trainer.algorithm.advantage_estimator
norm_adv_by_std trainer.algorithm.grpo_norm_by_std
loss_agg_mode trainer.algorithm.loss_reduction
temperature generator.sampling_params.temperature
top_p generator.sampling_params.top_p
top_k generator.sampling_params.top_k
max_prompt_tokens trainer.max_prompt_length
max_new_tokens generator.sampling_params.max_generate_length
model_length generator.max_model_len generator.engine_init_kwargs.max_model_len
rollout_prompts trainer.train_batch_size
update_prompts trainer.policy_mini_batch_size
micro_responses trainer.micro_train_batch_size_per_gpu
sequence_parallel trainer.policy.sequence_parallel_size
strategy trainer.strategy
num_iterations trainer.update_epochs_per_batch
epsilon trainer.algorithm.eps_clip_low
epsilon_high trainer.algorithm.eps_clip_high
loss_type trainer.algorithm.policy_loss_type
entropy_coef trainer.algorithm.entropy_loss_coef
model trainer.policy.model.path
lora_r trainer.policy.model.lora.rank
evaluation trainer.eval.interval trainer.eval_interval
epochs trainer.epochs
max_steps trainer.max_training_steps
lora_dropout trainer.policy.model.lora.dropout
gradient_checkpointing trainer.gradient_checkpointing
devices_per_node trainer.placement.policy_num_gpus_per_node
nodes trainer.placement.policy_num_nodes
seed trainer.seed
max_grad_norm trainer.policy.optimizer_config.max_grad_norm
async_level trainer.fully_async.max_staleness_steps
step_wise generator.step_wise_trajectories
""")

_ROLL = _table("""
group_size train_env_manager.group_size num_return_sequences_in_group
learning_rate actor_train.training_args.learning_rate
kl_coef kl_loss_coef
kl_reward_coef init_kl_coef
use_kl_loss use_kl_loss
use_kl_in_reward add_token_level_kl
adv_estimator adv_estimator
temperature actor_infer.generating_args.temperature
top_p actor_infer.generating_args.top_p
top_k actor_infer.generating_args.top_k
repetition_penalty actor_infer.generating_args.repetition_penalty
max_prompt_tokens prompt_length
max_new_tokens response_length actor_infer.generating_args.max_new_tokens
total_tokens sequence_length
rollout_prompts rollout_batch_size
num_iterations ppo_epochs
epsilon pg_clip
epsilon_low_apart pg_clip_low
epsilon_high pg_clip_high
clip_apart use_pg_clip_range
entropy_coef entropy_loss_coef
model pretrain
max_steps max_steps
evaluation eval_steps
advantage_clip advantage_clip
logging_steps logging_steps
max_grad_norm max_grad_norm
lora_r actor_train.model_args.lora_rank
seed seed
async_level async_generation_ratio
per_device_train_batch_size actor_train.training_args.per_device_train_batch_size
gradient_accumulation_steps actor_train.training_args.gradient_accumulation_steps
""")

_EASYR1 = _table("""
group_size worker.rollout.n
learning_rate worker.actor.optim.lr
optimizer worker.actor.optim.strategy
kl_coef algorithm.kl_coef
use_kl_loss algorithm.use_kl_loss
without_kl algorithm.disable_kl
kl_estimator algorithm.kl_penalty
adv_estimator algorithm.adv_estimator
loss_agg_mode worker.actor.loss_avg_mode
seed data.seed
temperature worker.rollout.temperature
top_p worker.rollout.top_p
top_k worker.rollout.top_k
max_prompt_tokens data.max_prompt_length
max_new_tokens data.max_response_length
model_length worker.rollout.max_model_len
batched_tokens worker.rollout.max_num_batched_tokens
chunked_prefill worker.rollout.enable_chunked_prefill
rollout_prompts data.rollout_batch_size
update_prompts worker.actor.global_batch_size
num_iterations worker.actor.ppo_epochs
epsilon worker.actor.clip_ratio_low
epsilon_high worker.actor.clip_ratio_high
loss_type worker.actor.loss_type
model worker.actor.model.model_path
lora_r worker.actor.model.lora.rank
gradient_checkpointing worker.actor.model.enable_gradient_checkpointing
evaluation trainer.val_freq
epochs trainer.total_epochs trainer.total_episodes
max_steps trainer.max_steps
devices_per_node trainer.n_gpus_per_node
nodes trainer.nnodes
tensor_parallel worker.rollout.tensor_parallel_size
max_grad_norm worker.actor.max_grad_norm
""")

_AXOLOTL = _table(
    _TRAINER
    + """
group_size trl.num_generations ebft.n_samples_per_prompt
kl_coef trl.beta
max_new_tokens trl.max_completion_length ebft.generate_max_len
temperature trl.temperature ebft.temperature
top_p trl.top_p ebft.top_p
top_k trl.top_k
min_p trl.min_p
repetition_penalty trl.repetition_penalty
generation_batch_size trl.generation_batch_size
importance_sampling_level trl.importance_sampling_level
importance_correction trl.vllm_importance_sampling_correction
mask_truncated_completions trl.mask_truncated_completions
use_liger trl.use_liger_loss
vllm_mode trl.vllm_mode
num_iterations trl.num_iterations
epsilon trl.epsilon
epsilon_high trl.epsilon_high
loss_type trl.loss_type
scale_rewards trl.scale_rewards
use_vllm trl.use_vllm
sync_ref_model trl.sync_ref_model
model_length sequence_len
reward_functions trl.reward_funcs
reward_weights trl.reward_weights
adv_estimator ebft.advantage_estimator
tuner adapter
algorithm rl
"""
)
_AXOLOTL["per_device_train_batch_size"] = ("micro_batch_size",)
_AXOLOTL["epochs"] = ("num_epochs",)

_FACTORY = _table(
    _SAMPLING
    + _TRAINER
    + """
max_new_tokens max_new_tokens
num_iterations ppo_epochs
tuner finetuning_type
algorithm stage
max_prompt_tokens cutoff_len
"""
)

_TORCHTUNE = _table("""
group_size grpo_samples inference.group_size
rollout_prompts batch_size
max_new_tokens max_generated_tokens
temperature temperature
top_k top_k
num_iterations ppo_epochs
learning_rate training.optimizer.lr optimizer.lr
optimizer training.optimizer._component_ optimizer._component_
kl_coef training.loss.kl_coeff loss.kl_coeff kl_coeff
epsilon loss.epsilon
epochs epochs num_epochs
max_steps num_steps max_steps_per_epoch
gradient_accumulation_steps gradient_accumulation_steps
gradient_checkpointing enable_activation_checkpointing
model base_model_path checkpointer.checkpoint_dir
min_new_tokens min_response_length
""")

_RLINF = _table("""
group_size algorithm.group_size
learning_rate actor.optim.lr
kl_coef algorithm.kl_beta
adv_estimator algorithm.adv_type
temperature algorithm.sampling_params.temperature algorithm.sampling_params.temperature_train
top_p algorithm.sampling_params.top_p
top_k algorithm.sampling_params.top_k
repetition_penalty algorithm.sampling_params.repetition_penalty
max_new_tokens algorithm.sampling_params.max_new_tokens algorithm.length_params.max_new_token
min_new_tokens algorithm.sampling_params.min_new_tokens
max_prompt_tokens data.max_prompt_length
total_tokens runner.seq_length
rollout_prompts data.rollout_batch_size
num_iterations algorithm.update_epoch
minibatches algorithm.n_minibatches
epsilon algorithm.clip_ratio_low algorithm.ratio_clip_eps
epsilon_high algorithm.clip_ratio_high
entropy_coef algorithm.entropy_bonus
loss_agg_mode algorithm.loss_agg_func
model rollout.model.model_path actor.model.model_path
epochs runner.max_epochs
max_steps runner.max_steps
evaluation runner.val_check_interval
nodes cluster.num_nodes
""")

_TRINITY = _table("""
group_size algorithm.repeat_times
adv_estimator algorithm.advantage_fn algorithm.algorithm_type
learning_rate algorithm.optimizer.lr trainer_config.actor_rollout_ref.actor.optim.lr
kl_coef algorithm.kl_loss_fn_args.kl_coef
epsilon algorithm.policy_loss_fn_args.clip_range_low algorithm.policy_loss_fn_args.clip_range
epsilon_high algorithm.policy_loss_fn_args.clip_range_high
temperature buffer.explorer_input.taskset.rollout_args.temperature
top_p buffer.explorer_input.taskset.rollout_args.top_p
max_prompt_tokens model.max_prompt_tokens
max_new_tokens model.max_response_tokens
model_length model.max_model_len
model model.model_path
lora_r model.lora_configs.0.lora_rank
rollout_prompts buffer.batch_size
update_responses buffer.train_batch_size
max_steps buffer.total_steps
epochs buffer.total_epochs
evaluation explorer.eval_interval
max_grad_norm trainer.grad_clip
async_level synchronizer.sync_offset
nodes cluster.node_num
devices_per_node cluster.gpu_per_node
""")

_PIPELINE = _table("""
group_size attempts finetune.attempts
learning_rate finetune.learning_rate learning_rate
kl_coef finetune.rl.kl_coef rl.kl_coef
epsilon finetune.rl.epsilon_low rl.epsilon_low
epsilon_high finetune.rl.epsilon_high rl.epsilon_high
loss_type finetune.rl.policy_loss rl.policy_loss
entropy_coef finetune.rl.entropy_bonus rl.entropy_bonus
temperature llm.parameters.temperature
top_p llm.parameters.top_p
top_k llm.parameters.top_k
max_new_tokens llm.parameters.max_tokens
model_length vllm_config.vllm_kwargs.max_model_len
model model_path
gradient_checkpointing finetune.gradient_checkpointing
max_grad_norm finetune.gradient_clipping_threshold
max_steps finetune.max_train_steps
evaluation eval_every_n_versions
seed seed
""")

_OAT = _table("""
group_size num_samples
adv_estimator critic_type
learning_rate learning_rate
kl_coef beta
epsilon cliprange
temperature temperature
top_p top_p
max_prompt_tokens prompt_max_length
max_new_tokens generate_max_length
rollout_prompts rollout_batch_size
update_responses train_batch_size
num_iterations num_ppo_epochs
model pretrain
lora_r lora_rank
evaluation eval_steps
processes gpus
""")

_ALIGNER = _table("""
group_size trainer.reinforce.num_rollouts_per_prompt trainer.rs.num_rollouts_per_prompt
learning_rate model.optim.lr
kl_reward_coef trainer.ppo.initial_policy_kl_penalty trainer.reinforce.initial_policy_kl_penalty
temperature model.ppo.sampling_params.temperature model.reinforce.sampling_params.temperature
    model.rs.sampling_params.temperature
top_p model.ppo.sampling_params.top_p model.reinforce.sampling_params.top_p model.rs.sampling_params.top_p
top_k model.ppo.sampling_params.top_k model.reinforce.sampling_params.top_k model.rs.sampling_params.top_k
max_new_tokens model.ppo.length_params.max_length model.reinforce.length_params.max_length
    model.rs.length_params.max_length
model_length model.encoder_seq_length
rollout_prompts model.ppo.num_rollout_samples model.reinforce.num_rollout_samples model.rs.num_rollout_samples
update_responses model.global_batch_size
epsilon model.ppo.ratio_eps
entropy_coef model.ppo.entropy_bonus
epochs trainer.ppo.max_epochs trainer.reinforce.max_epochs
max_steps trainer.ppo.max_steps trainer.reinforce.max_steps
evaluation trainer.ppo.val_check_interval trainer.reinforce.val_check_interval
max_grad_norm trainer.ppo.gradient_clip_val trainer.reinforce.gradient_clip_val
model pretrained_checkpoint.restore_from_path
nodes trainer.num_nodes
devices_per_node trainer.devices
""")
"""Of the ``gpt_*_actor.yaml`` at v0.7.0; a rollout takes ``num_rollout_samples`` prompts."""

_INSTRUCT = _table(
    _TRAINER
    + """
group_size num_samples_per_prompt_rollout number_samples_per_prompt
learning_rate learning_rate lr
kl_coef beta
temperature temperature
max_prompt_tokens max_prompt_token_length
max_new_tokens response_length
rollout_prompts num_unique_prompts_rollout
minibatches num_mini_batches
num_iterations num_epochs
epsilon clip_lower
epsilon_high clip_higher
async_level async_steps
evaluation local_eval_every
"""
)
"""Of `GRPOExperimentConfig` and `StreamingDataLoaderConfig`, where ``num_epochs`` counts passes over a rollout."""

_TUNIX = _table("""
group_size grpo_config.num_generations agentic_grpo_config.num_generations
learning_rate rl_training_config.actor_optimizer_config.peak_value
    rl_training_config.actor_optimizer_config.learning_rate
kl_coef grpo_config.beta agentic_grpo_config.beta ppo_config.beta
epsilon grpo_config.epsilon agentic_grpo_config.epsilon ppo_config.epsilon
num_iterations grpo_config.num_iterations agentic_grpo_config.num_iterations ppo_config.num_iterations
loss_agg_mode grpo_config.loss_agg_mode agentic_grpo_config.loss_agg_mode
temperature rollout_config.temperature
top_p rollout_config.top_p
top_k rollout_config.top_k
max_prompt_tokens rollout_config.max_prompt_length
max_new_tokens rollout_config.total_generation_steps
rollout_prompts batch_size
max_steps rl_training_config.max_steps
epochs num_train_epochs
evaluation rl_training_config.eval_every_n_steps
max_grad_norm rl_training_config.actor_optimizer_config.max_grad_norm
model model_config.model_id model_config.model_name
lora_r actor_model_config.lora_config.rank
""")

_TINKER = _table("""
group_size group_size dataset_builder.group_size
learning_rate learning_rate
kl_reward_coef kl_penalty_coef
temperature temperature
max_new_tokens max_tokens
rollout_prompts groups_per_batch dataset_builder.batch_size
minibatches num_substeps
loss_type loss_fn
model model_name
lora_r lora_rank
async_level max_steps_off_policy async_config.max_steps_off_policy
evaluation eval_every
max_steps max_steps
seed seed
""")

_RLLM = _table("""
group_size training.group_size
learning_rate training.learning_rate
adv_estimator algorithm.adv_estimator rllm.algorithm.adv_estimator
temperature sampling.train.temperature sampling.temperature
top_p sampling.train.top_p sampling.top_p
max_prompt_tokens data.max_prompt_length
max_new_tokens data.max_response_length
rollout_prompts data.train_batch_size
epochs trainer.total_epochs rllm.trainer.total_epochs
evaluation trainer.test_freq rllm.trainer.test_freq
model model.name
lora_r model.lora_rank
""")
"""Of the backends of rLLM that are not verl, whose keys are verl's."""

_COSMOS = _table("""
group_size rollout.n_generation
learning_rate train.optm_lr
optimizer train.optm_name
algorithm train.train_policy.type
kl_coef train.train_policy.kl_beta
epsilon train.train_policy.epsilon_low
epsilon_high train.train_policy.epsilon_high
num_iterations train.train_policy.mu_iterations
temperature rollout.sampling_config.temperature train.train_policy.temperature
top_p rollout.sampling_config.top_p
top_k rollout.sampling_config.top_k
repetition_penalty rollout.sampling_config.repetition_penalty
max_new_tokens rollout.max_response_length
model_length policy.model_max_length
model policy.model_name_or_path
gradient_checkpointing policy.model_gradient_checkpointing
lora_r policy.lora.r
lora_dropout policy.lora.lora_dropout
max_grad_norm train.optm_grad_norm_clip
epochs train.epoch
max_steps train.max_num_steps
seed train.seed
""")

_FORGE = _table("""
group_size group_size
learning_rate trainer.optimizer.lr trainer.learning_rate
optimizer trainer.optimizer.name
max_prompt_tokens max_req_tokens
max_new_tokens max_res_tokens
temperature generator.sampling_params.temperature policy.sampling_params.temperature policy.sampling_config.temperature
top_p generator.sampling_params.top_p policy.sampling_params.top_p policy.sampling_config.top_p
model_length generator.engine_args.max_model_len policy.engine_args.max_model_len
model model
max_grad_norm trainer.training.max_norm
max_steps trainer.training.steps
async_level off_by_n
""")

_CHAT = _table("""
learning_rate actor_learning_rate
max_prompt_tokens max_prompt_seq_len
max_new_tokens max_answer_seq_len
num_iterations ppo_epochs
lora_r actor_lora_dim
dropout actor_dropout
model actor_model_name_or_path
gradient_checkpointing actor_gradient_checkpointing
gradient_accumulation_steps gradient_accumulation_steps
epochs num_train_epochs
seed seed
""")

_TRLX = _table("""
learning_rate optimizer.kwargs.lr train.learning_rate_init train.lr_init
kl_reward_coef method.init_kl_coef
rollout_responses method.num_rollouts
update_responses train.batch_size
num_iterations method.ppo_epochs
epsilon method.cliprange
temperature method.gen_kwargs.temperature
top_p method.gen_kwargs.top_p
top_k method.gen_kwargs.top_k
max_new_tokens method.gen_kwargs.max_new_tokens
model_length train.seq_length
model model.model_path
max_steps train.total_steps
epochs train.epochs
evaluation train.eval_interval
seed train.seed
""")

_RL4LMS = _table("""
learning_rate alg.args.learning_rate
kl_reward_coef alg.kl_div.coeff
num_iterations alg.args.n_epochs
update_responses alg.args.batch_size
max_prompt_tokens env.args.max_prompt_length
max_new_tokens alg.policy.args.generation_kwargs.max_new_tokens
temperature alg.policy.args.generation_kwargs.temperature
top_k alg.policy.args.generation_kwargs.top_k
top_p alg.policy.args.generation_kwargs.top_p
model alg.policy.args.model_name
evaluation train_evaluation.eval_every
algorithm alg.id
""")

_GENERATION = _table(
    _SAMPLING
    + """
max_new_tokens max_new_tokens
eos_tokens eos_token_id
pad_token pad_token_id
"""
)

_TOKENIZER = _table("""
eos_token eos_token.content eos_token
pad_token pad_token.content pad_token
chat_template chat_template chat_template.0.template
""")

TRL_NAMES = frozenset((_TRL_FIELDS + _TRAINING_ARGUMENTS).split())
"""Every option of `trl grpo` and of the arguments of Transformers, which ms-swift and others take too."""
_TRL_DEFAULTS = {
    "group_size": 8,
    "learning_rate": 1e-6,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_iterations": 1,
    "epsilon": 0.2,
    "evaluation": "no",
    "top_p": 1.0,
}
"""Of `GRPOConfig` from 0.14 to 1.16; beta, temperature, loss_type and max_completion_length changed in between."""
_ON_POLICY = (
    *("reward_model_path", "missing_eos_penalty", "stop_token", "response_length", "num_ppo_epochs", "rloo_k"),
    *("cliprange_value", "num_sample_generations", "local_rollout_forward_batch_size"),
)
"""Fields of `PPOConfig` and `RLOOConfig` of TRL, which share most, and of no other trainer of it."""

FRAMEWORKS = (
    Framework(
        "ms-swift",
        "",
        r"\b(?:swift|megatron)[ ._/]+(?:cli[ ._/]+)?(?:_megatron/)?rlhf|RLHFArguments",
        ("rlhf_type",),
        _SWIFT,
        {"group_size": 8, "temperature": 0.9, "epsilon": 0.2, "num_iterations": 1},
        flat=True,
        removed=_SWIFT_REMOVED,
        library="ms-swift",
    ),
    Framework(
        "OpenRLHF",
        "",
        r"openrlhf[./]\S*train_(?:ppo|grpo|reinforce|rl)|train_ppo_ray",
        ("rollout.n_samples_per_prompt", "algo.advantage.estimator", "micro_rollout_batch_size", "init_kl_coef"),
        _OPENRLHF,
        {"group_size": 1, "temperature": 1.0, "top_p": 1.0, "num_iterations": 1, "adv_estimator": "gae", "lora_r": 0},
        flat=True,
        removed=_OPENRLHF_REMOVED,
        library="openrlhf",
    ),
    Framework(
        "slime",
        "",
        r"\b(?:slime|miles)/(?:\S*/)?train\w*\.py",
        (
            *("rollout_max_response_len", "n_samples_per_prompt", "num_rollout", "rm_type", "hf_checkpoint"),
            *("rollout_function_path", "actor_num_gpus_per_node"),
        ),
        _SLIME,
        {
            "temperature": 1.0,
            "top_p": 1.0,
            "adv_estimator": "grpo",
            "use_kl_loss": False,
            "learning_rate": 1e-6,
            "epsilon": 0.2,
        },
        flat=True,
        library="slime",
    ),
    Framework(
        "verl",
        "",
        r"main_ppo|recipe\S*\.main_|main_dapo|main_grpo",
        ("actor_rollout_ref",),
        _VERL,
        {
            "group_size": 1,
            "adv_estimator": "gae",
            "temperature": 1.0,
            "use_kl_loss": False,
            "use_kl_in_reward": False,
            "num_iterations": 1,
            "epsilon": 0.2,
            "learning_rate": 1e-6,
            "lora_r": 0,
            "top_p": 1.0,
            "evaluation": -1,
            "max_prompt_tokens": 512,
            "max_new_tokens": 512,
            "rollout_prompts": 1024,
            "update_prompts": 256,
        },
        removed=_VERL_REMOVED,
        library="verl",
    ),
    Framework(
        "EasyR1",
        "",
        r"verl\.trainer\.main\b",
        ("worker.rollout", "worker.actor"),
        _EASYR1,
        {
            "num_iterations": 1,
            "adv_estimator": "grpo",
            "temperature": 1.0,
            "top_p": 1.0,
            "learning_rate": 1e-6,
            "epsilon": 0.2,
            "lora_r": 0,
        },
    ),
    Framework(
        "SkyRL",
        "",
        r"skyrl(?!\S*\btinker)",  # with tinker the client says how to train, under names of its own
        ("trainer.policy", "generator.n_samples_per_prompt", "trainer.algorithm"),
        _SKYRL,
        {
            "adv_estimator": "grpo",
            "group_size": 5,
            "num_iterations": 1,
            "temperature": 1.0,
            "top_p": 1.0,
            "lora_r": 0,
            "learning_rate": 1e-6,
            "use_kl_loss": True,
            "use_kl_in_reward": False,
            "kl_coef": 0.001,
            "epsilon": 0.2,
            "epsilon_high": 0.2,
            "max_prompt_tokens": 512,
            "max_new_tokens": 1024,
            "epochs": 1,
        },
        library="skyrl",
    ),
    Framework(
        "NeMo-RL",
        "",
        r"run_(?:vlm_)?grpo|nemo_rl",
        (
            "grpo",
            "policy.generation",
            "policy.train_global_batch_size",
            "loss_fn",
            "policy.megatron_cfg",
            "policy.dtensor_cfg",
            "checkpointing",
        ),
        _NEMO,
        {"adv_estimator": "grpo", "num_iterations": 1},
        library="nemo-rl",
    ),
    Framework(
        "AReaL",
        "",
        r"areal",
        ("gconfig", "rollout.max_head_offpolicyness"),
        _AREAL,
        {"minibatches": 4, "num_iterations": 1, "temperature": 1.0, "top_p": 1.0, "epsilon": 0.2},
        library="areal",
    ),
    Framework(
        "ROLL",
        "",
        r"start_(?:rlvr|agentic)",
        ("actor_train", "actor_infer", "num_return_sequences_in_group", "train_env_manager"),
        _ROLL,
        {"num_iterations": 1, "adv_estimator": "gae", "use_kl_loss": False, "epsilon": 0.2},
        trained="actor_train",
    ),
    Framework(
        "RLinf",
        "",
        r"rlinf",
        ("algorithm.adv_type", "cluster.component_placement", "algorithm.sampling_params"),
        _RLINF,
        {"num_iterations": 1},
    ),
    Framework(
        "prime-rl",
        "",
        r"prime_rl|prime-rl|\buv run rl\b|(?:^| )rl @",
        (
            *("orchestrator", "trainer.optim", "rollouts_per_example", "env.0.id", "train.source.0", "max_async_level"),
            *("max_off_policy_steps", "buffer.online_difficulty_filtering", "weight_broadcast"),
            *("optim.step_per_rollout", "ckpt.rollout_path", "inference_gpu_ids", "trainer_gpu_ids"),
            *("orchestrator.rollouts_per_example", "orchestrator.group_size", "inference.parallel"),
        ),
        _PRIME,
        {"temperature": 1.0, "num_iterations": 1, "adv_estimator": "grpo"},
        library="prime-rl",
    ),
    Framework(
        "Trinity-RFT",
        "",
        r"\btrinity (?:run|train|explore)",
        ("buffer.explorer_input", "explorer.rollout_model", "synchronizer", "algorithm.repeat_times", "explorer"),
        _TRINITY,
        {"temperature": 1.0, "top_p": 1.0},
    ),
    Framework(
        "PipelineRL",
        "",
        "pipelinerl",
        (
            *("finetune.rl", "llm.parameters", "actor.llm_max_rollouts", "rl.policy_loss", "rl.kl_coef"),
            *("gradient_accumulation_passes", "gradient_clipping_threshold"),
        ),
        _PIPELINE,
    ),
    Framework(
        "NeMo-Aligner",
        "0.7.0",
        r"train_gpt_(?:ppo|reinforce|rs)_actor",
        (
            *("trainer.ppo", "trainer.reinforce", "trainer.rs", "model.ppo", "model.reinforce", "model.rs"),
            *("remote_critic_rm", "remote_rm"),
        ),
        _ALIGNER,
        {"num_iterations": 1},
    ),
    Framework(
        "Open-Instruct",
        "",
        r"open_instruct[/.](?:grpo|ppo)|\b(?:grpo_fast|(?:grpo|ppo)_vllm_thread)",
        (
            "num_samples_per_prompt_rollout",
            "num_unique_prompts_rollout",
            "dataset_mixer_list",
            "local_rollout_batch_size",
        ),
        _INSTRUCT,
        {"num_iterations": 1},
        flat=True,
        library="open-instruct",
    ),
    Framework(
        "Tunix",
        "",
        r"tunix\S*(?:grpo|ppo)",
        ("rl_training_config", "grpo_config", "agentic_grpo_config", "ppo_config", "actor_model_config"),
        _TUNIX,
        {"num_iterations": 1, "epsilon": 0.2},
    ),
    Framework(
        "Tinker cookbook",
        "",
        r"tinker_cookbook\S*rl\b",
        ("groups_per_batch", "kl_penalty_coef", "renderer_name", "num_substeps", "dataset_builder.group_size"),
        _TINKER,
        {"temperature": 1.0, "minibatches": 1, "num_iterations": 1, "lora_r": 32},
    ),
    Framework(
        "rLLM",
        "",
        r"rllm\S*tinker|rllm/backend=(?!verl)",
        ("training.group_size", "tinker_base_url", "rllm", "sampling.train", "workflow.use_workflow"),
        _RLLM,
        {"adv_estimator": "grpo"},
    ),
    Framework(
        "Cosmos-RL",
        "",
        r"cosmos[_-]rl",
        (
            *("train.train_policy", "rollout.n_generation", "train.train_batch_per_replica", "rollout.sampling_config"),
            *("policy.parallelism", "train.optm_lr"),
        ),
        _COSMOS,
        {"num_iterations": 1},
    ),
    Framework(
        "torchforge",
        "",
        r"apps\.(?:grpo|rl)\.main",
        ("off_by_n", "max_req_tokens", "max_res_tokens", "replay_buffer"),
        _FORGE,
        {"num_iterations": 1, "adv_estimator": "grpo"},
    ),
    Framework(
        "DeepSpeed-Chat",
        "",
        r"step3_rlhf",
        (
            *("actor_model_name_or_path", "critic_model_name_or_path", "max_answer_seq_len"),
            *("per_device_generation_batch_size", "per_device_training_batch_size"),
        ),
        _CHAT,
        {"adv_estimator": "gae", "num_iterations": 1},
        flat=True,
    ),
    Framework(
        "trlX",
        "0.7.0",
        "",
        ("method.init_kl_coef", "method.num_rollouts", "method.chunk_size", "method.cliprange"),
        _TRLX,
        {"adv_estimator": "gae"},
    ),
    Framework("RL4LMs", "", "", ("alg.kl_div", "alg.args.n_steps", "train_evaluation", "datapool.id"), _RL4LMS),
    Framework(
        "oat",
        "",
        r"\boat[./]\w",
        ("critic_type", "pi_buffer_maxlen_per_device", "rollout_batch_size_per_device", "oracle_type"),
        _OAT,
        {},
        flat=True,
    ),
    Framework(
        "torchtune",
        "",
        r"tune run",
        (
            "grpo_samples",
            "policy_model",
            "reward_and_value_model",
            "ref_checkpointer",
            "tokenizer._component_",
            "checkpointer._component_",
            "model._component_",
        ),
        _TORCHTUNE,
        {},
        flat=True,
        rollouts_apart=False,
    ),
    Framework(
        "axolotl",
        "",
        r"axolotl",
        ("micro_batch_size", "sequence_len", "ebft", "lora_target_linear", "trl"),
        _AXOLOTL,
        {"evaluation": "no"},
        flat=True,
        library="axolotl",
    ),
    Framework(
        "LLaMA-Factory",
        "",
        r"llamafactory|llama-factory",
        ("finetuning_type", "stage", "cutoff_len"),
        _FACTORY,
        {"adv_estimator": "gae", "num_iterations": 4, "temperature": 0.95, "top_p": 0.7, "top_k": 50},
        flat=True,
        rollouts_apart=False,
        library="llamafactory",
    ),
    Framework(
        "Unsloth",
        "",
        r"(?s)(?:GRPO|RLOO)Config.*\bunsloth",
        (),
        _UNSLOTH,
        {
            "group_size": 8,
            "num_iterations": 1,
            "epsilon": 0.2,
            "evaluation": "no",
            "world_size": 1,
            "top_p": 1.0,
            "learning_rate": 5e-5,
        },
        flat=True,
        fields=TRL_NAMES | frozenset(_UNSLOTH_FIELDS.split()),
        library="unsloth",
    ),
    Framework("TRL PPO or RLOO", "1.16", "", _ON_POLICY, _TRL),
    Framework(
        "TRL RLOO",
        "1.16",
        r"RLOOConfig|trl rloo|rloo\.py",
        (),
        _TRL,
        {"group_size": 2, "num_iterations": 1, "adv_estimator": "rloo"},
        flat=True,
    ),
    Framework(
        "TRL PPO", "1.16", r"\w*PPO\w*(?:Config|Args)\b|trl/.*ppo\.py", (), _TRL, {"adv_estimator": "gae"}, flat=True
    ),
    Framework(
        "TRL",
        "1.16",
        r"GRPOConfig|GRPOScriptArguments|trl grpo|open_r1/grpo|\bgrpo[^\s/]*\.py",
        ("num_generations", "max_completion_length", "per_device_train_batch_size", "reward_funcs"),
        _TRL,
        _TRL_DEFAULTS,
        flat=True,
        fields=TRL_NAMES | frozenset(_UNSLOTH_FIELDS.split()),  # which it takes where another module patched it
        removed=_TRL_REMOVED,
        added=_TRL_ADDED,
        library="trl",
    ),
    Framework(
        "generation_config.json",
        "transformers 5",
        "",
        ("transformers_version", "eos_token_id", "do_sample"),
        _GENERATION,
    ),
    Framework(
        "tokenizer_config.json",
        "transformers 5",
        "",
        ("tokenizer_class", "chat_template", "added_tokens_decoder", "model_max_length"),
        _TOKENIZER,
        flat=False,
    ),
)
"""Frameworks, the more particular first: of two that fit a configuration alike the first counts."""

FILES_OF_MODELS = ("generation_config.json", "tokenizer_config.json")
"""What lies beside the weights; it says how responses are drawn, not how the model is trained."""
HAND_WRITTEN = Framework(
    "hand-written trainer",
    "",
    "",
    (),
    {"mask_without_eos": ("code.mask_without_eos",)},
    flat=True,
    rollouts_apart=False,
)
"""What no framework recognises: keys are told by the names that trainers usually give them."""

END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|end|eot|END_OF_TURN_TOKEN|turn_end)\|>|<end_of_turn>|<turn\|>")
"""Tokens with which chat templates close a turn."""
GROUPED = re.compile(
    r"(?<![a-z])(?:dr_?grpo|grpo|t?rloo|gigpo|gdpo|group|gspo|dapo|cispo|gpg|opo\b|max_?rl|reinforce_plus_plus_baseline"
    r"|reinforce_baseline|reinpp_baseline)",
    re.IGNORECASE,
)
UNGROUPED = re.compile(
    r"(?:token_|step_|agentic_|embodied_)?(?:gae|remax|reinforce|reinforce_plus_plus|reinforce\+\+|reinpp|raft|ppo"
    r"|opd|opsd|rae|raw|sac)",
    re.IGNORECASE,
)


def needs_group(estimator: object) -> bool | None:
    """Whether an advantage estimator takes its baseline from the responses to one prompt; None where unknown."""
    if not isinstance(estimator, str):
        return None
    word = estimator.rsplit(".", 1)[-1].lower()
    if UNGROUPED.fullmatch(word):
        return False
    return True if GROUPED.search(word) else None
