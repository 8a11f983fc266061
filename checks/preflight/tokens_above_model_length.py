from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, fmax, isnan, where


@check("CFG020", severity="warning", confidence="medium")
def tokens_above_model_length(
    model: Column = any_of("settings.model_length"),
    needed: Column = any_of("settings.total_tokens_needed", optional=True),
    response: Column = any_of("settings.max_new_tokens", optional=True),
    whole: Column = any_of("settings.prompt_within_response_limit", optional=True),
    of_training: Column = any_of("settings.model_length_is_of_training", optional=True),
) -> Fires:
    """Prompt and response together exceed the engine's maximum length.

    ## What it sees
    The check fires if the declared prompt and response limits together exceed the engine's maximum length. Without a
    prompt limit, the check fires if the response limit leaves no token for the prompt.

    ## Why it matters
    The engine refuses the request, truncates the prompt, or ends the response at the engine's own limit. In the last
    case, the log does not count the response as truncated.

    ## Example
    ```python
    GRPOConfig(max_prompt_length=512, max_completion_length=2048, vllm_max_model_length=2048)
    ```
    Warning: Prompt and response of up to 2560 tokens do not fit into the engine's maximum length (2048).

    ```python
    GRPOConfig(max_prompt_length=512, max_completion_length=2048, vllm_max_model_length=4096)
    ```
    No finding.

    ## Known false alarms
    The check also fires for datasets whose prompts are much shorter than the prompt limit. Some limits cover prompt and
    response together (ms-swift's `max_length`, OpenRLHF's `data.max_len`). The check does not add these limits to the
    response limit. NeMo-RL's own configurations use the same length for engine and response, and request only the
    tokens that remain after the prompt. The settings `sequence_len` of axolotl and `seq_len` of prime-rl are not engine
    limits: longer samples are truncated before training.

    ## Remedy
    Raise the engine's maximum length to at least the sum of the prompt and response limits.

    ## Sources
    verl-project/verl#673; huggingface/trl#4358; modelscope/ms-swift#3876 (1024 of both); vLLM `max_model_len`.
    """
    full = (response == model) & ~(whole == 1)
    alone = isnan(needed) & ((response > model) | full)
    return fires(
        (needed > model) | alone,
        "{what} of up to {tokens:.0f} tokens {why} {into} ({length:.0f}).",
        tokens=fmax(needed, response),
        what=where(alone, "Responses", "Prompt and response"),
        why=where(alone, "leave no room for the prompt within", "do not fit into"),
        into=where(of_training == 1, "the training sample length", "the engine's maximum length"),
        length=model,
    )
