"""Threads outside the collection, found by searching for common complaints."""

from __future__ import annotations

from .thread import Thread, jsonl, markdown, slime, trl, verl

FOUND = (
    Thread(
        "greyhaven-ai/autocontext#1067",
        "the limit of 256 tokens cuts every answer before its last line, so all are scored 0",
        trl(
            {
                "loss": "0x12",
                "grad_norm": "0x12",
                "reward": "0x12",
                "reward_std": "0x12",
                "frac_reward_zero_std": "1x12",
                "completions/mean_length": "256x12",
                "completions/clipped_ratio": "1x12",
                "completions/mean_terminated_length": "0x12",
            }
        ),
        names=("LEN003",),
        symptoms=("REW001", "STL001"),
    ),
    Thread(
        "jsboige/CoursIA#13596",
        "every completion is cut at 80 tokens: shortest and longest have 80 on 40 of 40 steps",
        trl(
            {
                "loss": "0.01x40",
                "grad_norm": "0.4x40",
                "reward": "0.31 0.28 0.3 0.33 0.29 0.3 0.32 0.27x3 0.31x10 0.3x10 0.29x10",
                "reward_std": "0.2x40",
                "completions/mean_length": "80x40",
                "completions/min_length": "80x40",
                "completions/max_length": "80x40",
            }
        ),
        names=("LEN003",),
        symptoms=("STL001",),
    ),
    Thread(
        "unslothai/unsloth#2291",
        "as it should be: the loss is beta x KL, and the KL is still small",
        markdown(
            {
                "Training Loss": "0 0 0 0 0 0 0 0 0.0001 0.0001 0.0001 0.0001",
                "reward": "-17.25 -10.5 0 -18.75 -4 -17.25 -13.75 7.5 -3 -11.5 -17.25 -15.25",
                "reward_std": "1.5 1.732 0 1.5 0 1.5 1.5 2 1.732 1.732 1.5 1.893",
                "completion_length": "445.5 389.25 452 340 358.75 378.75 440.75 373.25 318.5 313.5 364.5 319",
                "kl": "0 0 0.00001 0.000028 0.000056 0.000156 0.000446 0.000658 0.001667 0.0023 0.002576 0.0025",
            }
        ),
        answer="Why is the loss",
    ),
    Thread(
        "huggingface/open-r1#239",
        "as it should be: the loss is beta x KL and rises with it",
        trl(
            {
                "loss": "0.0007 0.0019 0.0005 0.0012 0.0021 0.0026",
                "grad_norm": "1.66 0.77 0.83 0.9 0.8 0.85",
                "rewards/accuracy_reward": "0.333 0.433 0.433 0.4 0.45 0.47",
                "rewards/format_reward": "0x6",
                "reward": "1.164 1.483 1.45 1.4 1.5 1.52",
                "reward_std": "0.9 1.19 1.1 1 0.95 0.9",
                "kl": "0.0184 0.0486 0.0125 0.03 0.0525 0.065",
            }
        ),
        answer="loss = 0.04 x KL",
    ),
    Thread(
        "aburkov/theLMbook#6",
        "as it should be: the policy moves on while the reward stands, so the KL and with it the loss grow",
        trl(
            {
                "loss": "0.0004 0.0012 0.002 0.004 0.008 0.012 0.016 0.02",
                "grad_norm": "0.3x8",
                "reward": "1.8 1.82 1.79 1.81 1.8 1.82 1.81 1.8",
                "reward_std": "0.3x8",
                "kl": "0.01 0.03 0.05 0.1 0.2 0.3 0.4 0.5",
            }
        ),
        answer="loss = 0.04 x KL",
    ),
    Thread(
        "vllm-project/vime#274",
        "the conversion of the attention weights for the engine is wrong on this device",
        slime(
            {"rollout/raw_reward": "0.1 0.12 0.1 0.11 0.09 0.1 0.12 0.1 0.11 0.1"},
            {"train/train_rollout_logprob_abs_diff": "1.9x10", "train/pg_loss": "0x10", "train/grad_norm": "0.1x10"},
        ),
        names=("RAT004",),
        says="check the engine (weights",
    ),
    Thread(
        "Gen-Verse/OpenClaw-RL#69",
        "two epochs on each rollout: trainer and generator differ by 0.2 to 0.4 nats",
        slime(
            {"rollout/raw_reward": "0.4 0.42 0.38 0.41 0.4 0.39 0.42 0.4 0.41 0.4"},
            {
                "train/train_rollout_logprob_abs_diff": "0.2 0.25 0.31 0.4 0.33 0.28 0.36 0.3 0.4 0.35",
                "train/grad_norm": "0.5x10",
            },
        ),
        names=("RAT004",),
    ),
    Thread(
        "verl-project/verl#3894",
        "the engine's kernels for this model give other probabilities, by 0.5 on average",
        verl(
            {
                "critic/score/mean": "0.5 0.52 0.51 0.5 0.53 0.52 0.51 0.5 0.52 0.51",
                "training/rollout_probs_diff_mean": "0.48 0.5 0.51 0.49 0.5 0.5 0.52 0.5 0.49 0.5",
                "actor/grad_norm": "0.4x10",
            }
        ),
        names=("RAT004",),
    ),
    Thread(
        "THUDM/slime#1527",
        "every reward is 0 from the first rollout on, in the evaluation before training too",
        slime(
            {"rollout/raw_reward": "0x12", "rollout/rewards": "0x12", "rollout/log_probs": "-0.22x12"},
            {"train/loss": "0x12", "train/grad_norm": "0x12"},
        ),
        names=("REW001", "STL001"),
        expect="silent",
    ),
    Thread(
        "modelscope/ms-swift#5890",
        "this version of DeepSpeed logs a gradient norm of 0",
        trl(
            {
                "loss": "0x10",
                "grad_norm": "0x10",
                "learning_rate": "1e-6x10",
                "reward": "0.66 0.78 0.7 0.64 0.72 0.69 0.75 0.7 0.66 0.71",
                "reward_std": "0.14 0.2 0.16 0.2 0.15 0.18 0.2 0.17 0.16 0.15",
                "frac_reward_zero_std": "0.375x10",
                "kl": "0 4.3e-05 8e-05 1e-04 1.5e-04 2e-04 2.2e-04 2.4e-04 2.6e-04 3e-04",
            }
        ),
        names=("STL004",),
        says="DeepSpeed",
    ),
    Thread(
        "marin-community/marin#7784 (TACO)",
        "an objective without an anchor: entropy runs away from 0.32 to 9 nats, then every group is 0",
        jsonl(
            {
                "reward_mean": "0.2 0.22 0.24 0.25 0.26 0.27 0.28 0.27 0.26 0.22 0.16 0.1 0.05 0.02 0.01 0x10",
                "entropy": "0.32 0.33 0.33 0.35 0.4 0.5 0.7 1 1.6 2.4 3.4 4.6 5.8 6.8 7.6 8.4 8.9 9x8",
                "truncated_rate": "0.05x12 0.1x13",
            }
        ),
        names=("ENT003",),
        symptoms=("REW009",),
    ),
    Thread(
        "marin-community/marin#8955",
        "stale rollouts without a correction: after 100 updates 98% of the responses are cut",
        jsonl(
            {
                "reward_mean": "0.5 0.52 0.55 0.56 0.58 0.56 0.55 0.5 0.42 0.33 0.25 0.18 0.12 0.08 0.05 0.03 0.02x6",
                "truncated_rate": "0.14 0.14 0.15 0.16 0.18 0.2 0.25 0.33 0.45 0.55 0.65 0.75 0.83 0.88 0.92 0.95 0.97 0.98x5",
            }
        ),
        names=("LEN003",),
        symptoms=("REW009",),
    ),
    Thread(
        "huggingface/open-r1#257",
        "the policy leaves its reference: the KL is huge and the accuracy 0 at the end",
        trl(
            {
                "loss": "0 0 0.001 0.003 0.008 0.01 0.02 0.05 0.2 0.6 2 5 9 12 14 15x5",
                "grad_norm": "0.95 0.49 0.6 0.7 0.9 1.1 1.6 3 8 20 40x10",
                "rewards/accuracy_reward": "0.275 0.1625 0.25 0.3 0.33 0.35 0.37 0.4 0.35 0.2 0.1 0.05 0x8",
                "reward": "0.9 0.71 0.95 1.1 1.2 1.25 1.3 1.35 1.2 0.7 0.3 0.1 0x8",
                "reward_std": "0.83 0.74 0.8x8 0.4x2 0x8",
                "kl": "0.00009 0.001 0.02 0.08 0.2 0.25 0.5 1.2 5 15 50 125 225 300 350 375x5",
            }
        ),
        names=("KL001",),
        symptoms=("REW009", "GRD002", "REW001"),
    ),
    Thread(
        "huggingface/open-r1#257, its last row",
        "the policy has left its reference",
        jsonl({"step": "410", "loss": "15", "reward": "0", "reward_std": "0", "kl": "375", "grad_norm": "40"}),
        names=("KL010",),
    ),
    Thread(
        "GAIR-NLP/ToRL#27",
        "the sandbox has the address of a placeholder: 61.7% of the executions end in an unknown error",
        verl(
            {
                "tool/failure_rate": "0.62 0.61 0.63 0.6 0.62 0.61 0.62 0.63 0.61 0.62 0.6 0.62",
                "critic/score/mean": "0.21 0.2 0.22 0.21 0.2 0.21 0.22 0.2 0.21 0.2 0.22 0.21",
                "actor/grad_norm": "0.2x12",
            }
        ),
        names=("GEN009",),
    ),
    Thread(
        "verl-project/verl#751",
        "the exponential in the low-variance KL overflows backwards; from then on every token is '!'",
        verl(
            {
                "actor/kl_loss": "0.01 0.02 0.03 0.05 0.08 0.1 0.2 0.4 nan nan nan",
                "actor/grad_norm": "0.3 0.31 0.3 0.4 0.3 0.5 0.6 0.9 nan nan nan",
                "critic/score/mean": "0.3 0.32 0.33 0.35 0.36 0.38 0.4 0.41 0 0 0",
            }
        ),
        names=("GRD001",),
        says="clamp the log-ratio before exp",
    ),
    Thread(
        "openpsi-project/ReaLHF#14",
        "the captured graph generates with other weights: the clip fraction is very high and nothing is learnt",
        verl(
            {
                "actor/pg_clipfrac": "0.62 0.6 0.63 0.61 0.62 0.6 0.64 0.62 0.61 0.63 0.62 0.6",
                "actor/grad_norm": "0.8x12",
                "critic/score/mean": "0.2 0.21 0.19 0.2 0.2 0.21 0.19 0.2 0.21 0.2 0.19 0.2",
            }
        ),
        names=("RAT001", "RAT003"),
    ),
    Thread(
        "jjyaoao/HelloAgents#108",
        "the supervised learning rate of 5e-5 is used for GRPO: the accuracy falls from 0.57 to 0.02",
        trl(
            {
                "loss": "0.01x20",
                "grad_norm": "0.4x10 1.5x10",
                "learning_rate": "5e-5x20",
                "reward": "0.57 0.56 0.58 0.57 0.55 0.56 0.5 0.44 0.36 0.28 0.2 0.14 0.1 0.07 0.05 0.04 0.03 0.02 0.02 0.02",
                "reward_std": "0.4x10 0.1x10",
                "kl": "0 0.01 0.02 0.05 0.1 0.2 0.4 0.7 1.1 1.4 1.8 2.1 2.4 2.6 2.8 2.9 3 3 3 3",
            },
            "GRPOConfig(learning_rate=5e-05, num_generations=8)\nmodel_name: Qwen/Qwen3-0.6B",
        ),
        names=("CFG002", "KL001", "STL003"),
        says="learning_rate",
        symptoms=("REW009",),
    ),
    Thread(
        "BytedTsinghua-SIA/DAPO#23",
        "as it should be: with one update per rollout no clip range can bind",
        verl(
            {
                "actor/pg_clipfrac": "0x10",
                "actor/pg_loss": "0.01 -0.02 0.005 -0.01 0.02 -0.005 0.01 -0.01 0.01 0",
                "actor/grad_norm": "0.2x10",
                "critic/score/mean": "0.1 0.14 0.18 0.22 0.25 0.28 0.31 0.34 0.36 0.38",
            }
        ),
        answer="Why is the clip fraction 0?",
    ),
    Thread(
        "tulerfeng/Video-R1#86",
        "no response earns anything: every group is all wrong from the first step on",
        trl(
            {
                "loss": "0x12",
                "grad_norm": "1.93 1.8 1.7 1.9 1.85 1.95 1.9 1.8 1.7 1.9 1.85 1.9",
                "zero_var_ratio": "1x12",
                "rewards/accuracy_reward": "0x12",
                "rewards/format_reward": "0x12",
                "all_wrong": "1x12",
                "reward": "0x12",
                "reward_std": "0x12",
            }
        ),
        names=("REW001", "STL001", "ADV003"),
    ),
    Thread(
        "rllm-org/rllm#54",
        "the reward looks for tags that this model never writes: every score is 0",
        verl(
            {
                "critic/score/mean": "0",
                "critic/score/min": "0",
                "critic/score/max": "0",
                "critic/advantages/mean": "0",
                "critic/advantages/min": "0",
                "critic/advantages/max": "0",
                "actor/grad_norm": "0.004",
                "actor/kl_loss": "0.006",
                "response_length/mean": "610",
            }
        ),
        names=("ADV015",),
        answer="The only row has no learning signal: every advantage is 0 and every reward is 0.",
    ),
    Thread(
        "zhaochenyang20/Awesome-ML-SYS-Tutorial#106",
        "the responses of each group are all scored alike, though the prompts' rewards differ",
        verl(
            {
                "critic/score/mean": "0.91",
                "critic/score/min": "0",
                "critic/score/max": "1",
                "critic/advantages/mean": "0",
                "critic/advantages/min": "0",
                "critic/advantages/max": "0",
                "actor/grad_norm": "0.006",
                "actor/kl_loss": "0.02",
            }
        ),
        names=("ADV015",),
        answer="all responses within each group get the same reward",
    ),
    Thread(
        "verl-project/verl#498",
        "the critic's loss and gradient are NaN, while the actor's are numbers",
        verl(
            {
                "critic/vf_loss": "nan",
                "critic/grad_norm": "nan",
                "critic/vf_explained_var": "-71",
                "actor/pg_loss": "-0.01",
                "actor/grad_norm": "9.7",
                "critic/score/mean": "0.6",
            }
        ),
        names=("GRD001",),
        says="value_loss",
    ),
    Thread(
        "NVIDIA-NeMo/ProRL-Agent-Server#40",
        "the gradient norm is thousands of millions from the first step on, while every loss is ordinary",
        jsonl({"train/loss": "0.1 0.14", "train/kl_loss": "0 7e-4", "train/grad_norm": "2.9e9 2.3e9"}),
        names=("GRD002",),
        says="is 2.3e+09",
    ),
    Thread(
        "Yifan-Song793/ETO#14",
        "no token of the responses is scored: log-probabilities, margins and rewards are 0, the loss stays at ln 2",
        trl(
            {
                "loss": "0.6931x60",
                "learning_rate": "5e-7x60",
                "rewards/chosen": "0x60",
                "rewards/rejected": "0x60",
                "rewards/accuracies": "0x60",
                "rewards/margins": "0x60",
                "logps/rejected": "0x60",
                "logps/chosen": "0x60",
            }
        ),
        names=("PRF002",),
        says="no token is scored",
    ),
    Thread(
        "huggingface/trl#1236",
        "the policy is not its reference: both responses earn some 10 before the first update, then every pair is learnt",
        trl(
            {
                "loss": "0.41 3.9 3.2 1.3 0.9 0.1 0.02 0x3",
                "learning_rate": "3e-6 6e-6 9e-6 1.2e-5 1.5e-5 1.8e-5 1e-4x4",
                "rewards/chosen": "8.9 9.4 9.1 8 7.2 6 4 3 3 3",
                "rewards/rejected": "6.1 13 12 8.5 7 3 -6 -11 -12 -14",
                "rewards/accuracies": "1 0.5 0 0.5 0.5 1x5",
                "logps/chosen": "-360 -420 -480 -390 -400 -410 -500 -600 -560 -580",
                "logps/rejected": "-230 -310 -300 -290 -310 -320 -420 -640 -600 -690",
            }
        ),
        names=("PRF004",),
    ),
    Thread(
        "OpenRLHF/OpenRLHF#931",
        "the KL leaps at random, by ratios of single tokens; no run dies of it, and those with fewer leaps end better",
        jsonl(
            {
                "reward": " ".join(f"{0.2 + 0.004 * n:.3f}" for n in range(100)),
                "kl": "0.02x30 5e4 0.03x20 8e2 0.03x17 3e6 0.04x12 90 0.04x17",
            }
        ),
        names=("KL008",),
        says="single tokens",
    ),
    Thread(
        "esmaeil-abedi-dev/verifier-as-reward",
        "sampled REINFORCE collapses to one answer, a refusal of everything (its README)",
        jsonl(
            {
                "accuracy": "0.9917 0.725 0.6833 0.575 0.6x17",
                "mean_reward": "? 0.32 0.08 0.65 0.55 0.3 0.17 0.3 -0.2 -0.33 0.17x2 -0.2x2 -0.08x2 0.17 -0.08 -0.2 0.04x2",
                "loss": "? 0.0121 0x19",
            }
        ),
        names=("STL007",),
        says="to 0.6 and was constant",
    ),
    Thread(
        "Harikishanth/CloudSRE",
        "no episode is ever resolved, and what is paid are penalties",
        jsonl(
            {
                "reward": "-6.545x2 -6.585 -6.545x12 -5.945 -6.545x9 -6.585 -6.545x14 -6.585x2 -6.545x8",
                "resolved": "0x50",
            }
        ),
        names=("STL008",),
    ),
    Thread(
        "xiaoman654/WarmGiGPO-WebShop",
        "from a cold start hardly an episode is won, and held-out ones are not either",
        jsonl(
            {
                "reward_mean": "-0.003 0 -0.005 0x3 1.026 0 -0.002 -0.003 0x9 0.789 0x3 -0.002 0x2 -0.003 0x4 -0.003",
                "success_rate": "0x6 0.125 0x12 0.125 0x12",
                "eval/success_rate": "0.016 ?x7 0 ?x7 0 ?x7 0 ?x6 0.016",
            }
        ),
        names=("STL008",),
    ),
    Thread(
        "Rohanjain2312/grpo-reward-hacking-demo",
        "the reward model is gamed (its README): the perplexity quadruples while the reward comes to its top",
        jsonl(
            {
                "train_reward": "0.69 0.56 0.56 0.63 0.87 0.52 0.66 0.69 0.79 0.71 0.89 0.9 0.93 0.93 0.97 0.96 0.97 0.95 "
                "0.95 0.99 0.996x20",
                "kl": "0x3 0.002 0.002 0.002 0.003 0.007 0.01 0.03 0.05 0.09 0.15 0.17 0.23 0.35 0.28 0.39 0.35 0.38 1x20",
                "eval_reward": "0.556 ?x9 0.77 ?x9 0.98 ?x9 0.996 ?x9",
                "eval_perplexity": "4.47 ?x4 4.41 ?x4 6.5 ?x4 8.9 ?x4 10.4 ?x4 15.4 ?x4 16.1 ?x4 18.3 ?x4",
            }
        ),
        names=("REW016",),
        says="the reward favours unlikely text",
    ),
    Thread(
        "huggingface/trl#1311",
        "the policy is its reference a third of an epoch long",
        trl(
            {
                "loss": "0.6932x3",
                "learning_rate": "1.372e-05 1.367e-05 1.362e-05",
                "rewards/chosen": "0x3",
                "rewards/rejected": "0x3",
                "rewards/accuracies": "0x3",
                "rewards/margins": "0x3",
                "logps/chosen": "-76.77 -74.36 -73.86",
                "logps/rejected": "-93.46 -96.18 -98.59",
                "epoch": "0.38 0.41 0.45",
            }
        ),
        names=("PRF002",),
    ),
    Thread(
        "huggingface/trl#5697",
        "the default limit of 256 tokens cuts every answer, so all are scored 0",
        "Step  loss  grad_norm  reward_mean  clipped_ratio  mean_length\n"
        + "".join(f"{n}     0     0          0            1.0            256\n" for n in range(1, 11)),
        names=("LEN003",),
    ),
    Thread(
        "unslothai/unsloth#3485",
        "both responses of the group score 4, so there is nothing to learn from",
        trl(
            {
                "loss": "0",
                "grad_norm": "0",
                "learning_rate": "3e-8",
                "completions/mean_length": "77.5",
                "reward": "4",
                "reward_std": "0",
                "frac_reward_zero_std": "1",
                "kl": "0",
            }
        ),
        names=("ADV015",),
        answer="The only row has no learning signal: all groups have zero variance.",
    ),
    Thread(
        "modelscope/ms-swift#5571",
        "not found: no gradient, although the rewards of each group differ",
        trl(
            {
                "loss": "0",
                "grad_norm": "0",
                "learning_rate": "2.6e-7",
                "reward": "0.34",
                "reward_std": "0.44",
                "frac_reward_zero_std": "0",
                "kl": "0",
            }
        ),
        names=("GRD008",),
        answer="although rewards differ in 100% of the groups",
    ),
    Thread(
        "NovaSky-AI/SkyRL#1864",
        "not found: the KL to the reference model is 0.6 one update after the start",
        slime(
            {"rollout/raw_reward": "0.4"}, {"train/kl_loss": "0.626", "train/pg_loss": "0", "train/grad_norm": "0.04"}
        ),
        names=("KL006",),
    ),
    *(
        Thread(
            at,
            "as it should be: both responses become less likely, and only their difference is trained",
            trl(
                {
                    "loss": loss,
                    "rewards/chosen": chosen,
                    "rewards/rejected": rejected,
                    "rewards/accuracies": accuracy,
                    "rewards/margins": margin,
                }
            ),
            answer="Why is the reward of the chosen responses negative?",
        )
        for at, loss, chosen, rejected, accuracy, margin in (
            ("wdndev/tiny-llm-zh#15", "0.24", "-0.28", "-7.67", "0.88", "7.39"),
            (
                "eric-mitchell/direct-preference-optimization#36",
                *("0.34 0.31", "-2.33 -2.45", "-9.35 -10.95", "0.86 0.88", "7.03 8.5"),
            ),
        )
    ),
    Thread(
        "verl-project/verl#1037",
        "the gradient is NaN at the second step, while the losses are numbers",
        verl(
            {
                "actor/pg_loss": "0.006",
                "actor/kl_loss": "0",
                "actor/grad_norm": "nan",
                "critic/score/mean": "0.903",
                "response_length/mean": "369",
            }
        ),
        names=("GRD001",),
        says="grad_norm",
    ),
)
