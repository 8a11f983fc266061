from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column, moving_max


@check(
    "STL004",
    severity="error",
    confidence="medium",
    explains=("STL001", "KL003"),
    rivals=(
        Rival(
            "advantages that are all zero",
            "a dead zone or a floor sets them to 0 although rewards differ",
            "the largest |A| of the step (ADV004)",
        ),
        Rival("the mask is empty", "no token counts in the loss", "probe PAD002"),
    ),
    remedies=(
        remedy(
            "prove-the-gradient",
            "Prove that the gradient reaches trainable parameters",
            trl="trainer.model.print_trainable_parameters(); enable_input_require_grads() with checkpointing and LoRA",
            verl="actor.model.enable_gradient_checkpointing with use_reentrant=False",
            openrlhf="--actor.gradient_checkpointing_enable with --actor.gradient_checkpointing_reentrant off",
            by_hand="loss.backward(); assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in "
            "model.parameters()); build the optimizer after the model is wrapped",
            evidence="frozen inputs under re-entrant checkpointing give grad None for every parameter",
            source="torch.utils.checkpoint documentation; huggingface/peft troubleshooting",
        ),
    ),
)
def parameters_not_trainable_or_not_stepped(
    grad_norm: Column, dead_share: Column, *, rows: int = 8, dead: float = 0.5
) -> Fires:
    """No gradient reaches the parameters although the rewards differ.

    ## What it sees
    A gradient norm of exactly 0 on 8 recorded steps in a row, on each of which at least half of the groups have rewards
    that differ.

    ## Why it matters
    Live groups have advantages other than zero, so the gradient of a working loss is not zero. Exactly 0 means that
    nothing is connected: frozen parameters, a detached log-probability, an optimizer over other tensors.

    ## Known false alarms
    A logger that rounds small norms to 0.

    ## Remedy
    One backward pass by hand, and look at the gradients.

    ## Sources
    huggingface/trl#3857 is the other case: grad_norm 0.0 with every group dead, which is expected.
    """
    largest, most_dead = moving_max(grad_norm, rows), moving_max(dead_share, rows)
    return fires(
        (largest <= 0) & (most_dead <= dead),
        "The gradient norm is exactly 0 on {rows} steps in a row, although at most {dead:.0%} of the groups were dead.",
        hold=(1, 1),
        rows=rows,
        dead=most_dead,
    )
