"""Classifies file names: files to read, files that are never logs, and files whose name suggests a log.

Most names are neutral, so every file is read unless its name rules out a log. If nothing could be read from a file
whose name suggests a log, data may be lost.
"""

from __future__ import annotations

import re

NO_NAME = "not the name of a log"
_KEPT = re.compile(r"(?i)(?:\.(?:gz|bz2|xz|lzma|zst|zstd|zip|old|bak|backup|orig|prev)|[.\-_T:]\d{1,8}|~)+$")
"""Suffixes of compression, rotation and backups, as in ``train.log.2.gz``."""
_NEVER = frozenset(
    "py pyi pyc ipy yaml yml toml cfg ini conf lock sh bash zsh bat ps1 slurm sbatch js ts css scss map c cc cpp cu "
    "cuh h hpp rs go java so o a whl egg tex bib rst jinja jinja2 j2 patch diff xml proto safetensors bin pt pth ckpt "
    "model onnx gguf npy distcp tiktoken png jpg jpeg gif svg webp pdf mp4 wav mp3 ttf woff woff2".split()
)
"""Suffixes of files that are not logs, such as code, configurations, weights and pictures."""
_NO_LOGS = frozenset(
    "tokenizer.json tokenizer_config.json config.json generation_config.json special_tokens_map.json vocab.json "
    "added_tokens.json adapter_config.json preprocessor_config.json processor_config.json README.md requirements.txt "
    "package.json wandb-metadata.json samples.jsonl LICENSE license.txt merges.txt model.safetensors.index.json "
    "args.json all_results.json train_results.json eval_results.json .gitignore .gitattributes .DS_Store "
    "Makefile Dockerfile".split()
)
_SURELY = frozenset("log out err jsonl ndjson ipynb parquet wandb db sqlite sqlite3 swanlab".split())
_DATA = frozenset("jsonl ndjson json csv tsv parquet wandb db sqlite sqlite3 swanlab".split())
_ARCHIVES = frozenset("zip tar tgz tbz tbz2 txz 7z rar lz4 br".split())
_PROMISING = re.compile(
    r"(?i)(?:^|[^a-z])(?:logs?|metrics?|history|progress|scalars|trainer[_-]?state|stdout|stderr|console)(?:[^a-z]|$)"
)
_SKIPPED_FOLDERS = frozenset(
    "__pycache__ node_modules site-packages .git .hg .svn .venv venv .ipynb_checkpoints .cache .mypy_cache "
    ".pytest_cache .ruff_cache .tox .nox .eggs .idea .vscode .github".split()
)


def has_name_of_log(name: str) -> bool:
    """Return whether a file with this name may be a log."""
    plain = _plain(name)
    return "tfevents" in name or not (plain in _NO_LOGS or name.startswith("._") or _ending(plain) in _NEVER)


def is_surely_a_log(name: str) -> bool:
    """Return whether a file with this name is certainly a log, so that data is lost if it cannot be read."""
    return _ending(_plain(name)) in _SURELY or "tfevents" in name


def holds_data(name: str) -> bool:
    """Return whether a file with this name should contain rows, so that an empty file has lost its rows. Other files
    may be empty because a process printed nothing."""
    return _ending(_plain(name)) in _DATA or "tfevents" in name


def promises_a_log(name: str) -> bool:
    """Return whether a file with this name is named like a log, or is an archive that may contain a log."""
    plain = _plain(name)
    return bool({_ending(name), _ending(plain)} & _ARCHIVES or _PROMISING.search(plain))


def is_passed_over(folder: str) -> bool:
    """Return whether a folder with this name is skipped, because it contains packages or caches, not logs."""
    return folder in _SKIPPED_FOLDERS


def _plain(name: str) -> str:
    """Return a name without the suffixes of compression, rotation and backups."""
    return _KEPT.sub("", name) or name


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
