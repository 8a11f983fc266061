"""Made secrets of every common kind, wherever a log or a user can put them: in no output of any command."""

from __future__ import annotations

import json
import random
import re
import string
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from grpo_doctor.agents import answers
from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.integrations.scalars import LoggedRun
from grpo_doctor.report import check_pages
from grpo_doctor.report.redaction import clean, cleaned, one_line, redact
from grpo_doctor.run import Sample

DRAW = random.Random(7)
BASE64 = string.ascii_letters + string.digits + "+/"
PLAIN = string.ascii_letters + string.digits


def made(length: int, alphabet: str = PLAIN) -> str:
    """A random body that holds both cases and a digit, as keys do."""
    return "".join(DRAW.choices(alphabet, k=length - 3)) + "aZ7"


PREFIXED = {
    "openai": "sk-", "openai-project": "sk-proj-", "anthropic": "sk-ant-api03-", "hugging-face": "hf_",
    "github-personal": "ghp_", "github-oauth": "gho_", "github-app": "ghs_", "github-refresh": "ghr_",
    "github-user": "ghu_", "github-fine": "github_pat_", "gitlab": "glpat-", "slack-bot": "xoxb-", "slack-user": "xoxp-",
    "slack-refresh": "xoxe-", "google-oauth": "ya29.", "google-client": "GOCSPX-", "google-api": "AIza", "groq": "gsk_",
    "nvidia": "nvapi-", "npm": "npm_", "pypi": "pypi-", "replicate": "r8_", "stripe-live": "sk_live_",
    "stripe-restricted": "rk_live_", "stripe-public": "pk_live_", "wandb-v1": "wandb_v1_", "perplexity": "pplx-",
    "together": "tgp-", "xai": "xai_", "digitalocean": "dop_v1_", "shopify": "shpat_", "openrouter": "sk-or-v1-",
}  # fmt: skip
BODY = made(36)
HEX = "".join(DRAW.choices("0123456789abcdef", k=40))
SECRETS: dict[str, tuple[str, str]] = {
    **{name: (prefix + BODY, BODY) for name, prefix in PREFIXED.items()},
    "aws-id": ("AKIAQWERTYUIOPASDF12", "QWERTYUIOPASDF12"),
    "aws-temporary": ("ASIAQWERTYUIOPASDF12", "QWERTYUIOPASDF12"),
    "aws-secret": (secret := made(40, BASE64), secret),
    "aws-secret-named": (f"aws_secret_access_key={secret}", secret),
    "wandb-hex": (HEX, HEX),
    "wandb-named": (f"WANDB_API_KEY={HEX}", HEX),
    "bearer": (f"Authorization: Bearer {BODY}", BODY),
    "basic": (f"Authorization: Basic {BODY}=", BODY),
    "azure": (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={secret}==", secret),
    "azure-signature": (f"SharedAccessSignature={BODY}", BODY),
    "url-password": (f"postgres://me:{BODY}@host/db", BODY),
    "url-token": (f"https://{BODY}@github.com/a/b.git", BODY),
    "slack-hook": (f"hooks.slack.com/services/T0/B0/{BODY}", BODY),
    "flag": (f"python train.py --api-key {BODY} --lr 1", BODY),
    "flag-equals": (f"--hf-token={BODY}", BODY),
    "flag-secret": (f"--client-secret {BODY}", BODY),
    "json": (json.dumps({"api_key": BODY}), BODY),
    "yaml": (f"password: {BODY}", BODY),
    "single-quotes": (f"'auth_token': '{BODY}'", BODY),
    "credentials": (f"credentials={BODY}", BODY),
    "jwt": (f"eyJ{made(20)}.eyJ{BODY}.{made(20)}", BODY),
    "sendgrid": (f"SG.{made(22)}.{BODY}", BODY),
    "private-key": (f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----", BODY),
    "private-key-openssh": (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}\n-----END OPENSSH PRIVATE KEY-----", BODY),
    "private-key-escaped": (f"-----BEGIN PRIVATE KEY-----\\n{BODY}\\n-----END PRIVATE KEY-----", BODY),
    "bare": (BODY, BODY),
    "access-token": (f"access_token={BODY}", BODY),
    "session": (f"session_token: {BODY}", BODY),
}


def test_there_are_sixty() -> None:
    assert len(SECRETS) >= 60


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_redacted(name: str) -> None:
    text, secret = SECRETS[name]
    assert secret not in redact(f"before {text} after")
    assert secret not in json.dumps(cleaned({"note": text}))


@pytest.mark.parametrize(
    "text",
    [
        "generation_in_train_mode_with_checkpointing_and_cache",
        "actor_rollout_ref/rollout/log_prob_micro_batch_size_per_gpu",
        "/home/me/checkpoints/Qwen2.5-7B-Instruct-GRPO-run12/step_1000",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "max_new_tokens: 1234567890, top_k=50, eos_token = <|endoftext|>",
        "basic training of 16 responses",
        "key: value",
        "rollouts of 1234567890123456789012345678901234567890 tokens",
        "https://huggingface.co/Qwen/Qwen2.5-0.5B",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_terminal_escapes_and_line_breaks_go() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07end") == "red end"
    assert one_line("a.log\n::error::pwned") == "a.log ::error::pwned"


ADAPTER = """
from grpo_doctor.probes import Adapter
SECRETS = {secrets!r}

def advantages(rewards):
    raise RuntimeError(SECRETS)

adapter = Adapter(name=SECRETS[0], settings=dict(enumerate(SECRETS)), prompts=SECRETS, seams={{"advantages": advantages}})
"""
TELL = (
    "import os, sys; open(sys.argv[1], 'a').write(str({k: v for k, v in os.environ.items() if k.startswith('GRPO_')}))"
)
LOG, OTHER, FOLDER, CONFIG, CODE, OUT = "LOG", "OTHER", "FOLDER", "CONFIG", "CODE", "OUT"
"""Words of a command in whose place a path stands."""
FORMATS = ("markdown", "html", "json", "sarif", "junit", "github", "gitlab")
COMMANDS: list[list[str]] = [
    ["analyze", LOG, "--verbose"],
    *(["analyze", LOG, "-f", name] for name in (*FORMATS, "summary")),
    ["analyze", f"{LOG}.missing"],
    ["analyze", LOG, "--map", f"{BODY}=reward_mean"],
    ["analyze", LOG, "--select", BODY],
    ["gate", FOLDER],
    ["convert", LOG, "-v"],
    ["convert", LOG, f"{OUT}/records.jsonl"],
    ["convert", LOG, f"{OUT}/records.csv"],
    ["share", LOG, "--out", f"{OUT}/shared"],
    ["settings", CONFIG],
    *(["settings", CONFIG, "-f", name] for name in ("html", "json")),
    ["settings", CONFIG, "--fix"],
    *(["compare", LOG, OTHER, "-f", name] for name in ("text", "markdown", "html", "json", "sarif")),
    ["fleet", FOLDER, "--out", OUT, "--db", f"{OUT}/fleet.db", "--report", f"json={OUT}/a", "--report", f"csv={OUT}/b"],
    *(["probe", CODE, "-v", "-f", name] for name in ("text", "html", "json")),
    ["probe", CODE, "--discover"],
    ["watch", LOG, "--interval", "0.05", "--idle", "0.1", "--notify", f"{sys.executable} -c \"{TELL}\" {OUT}/told",
     "--report", f"html={OUT}/a.html"],
    ["demo", "--no-browser", "--out", f"{OUT}/demo.html"],
    ["gate", LOG, "--against", OTHER, "--baseline", f"{OUT}/known.json", "--write-baseline", "--report", f"sarif={OUT}/a"],
    ["probe", CODE, "--keep", f"{OUT}/test_kept.py"],
    *(["checks", *words] for words in ([BODY], ["--config", CONFIG])),
    ["explain", BODY],
    ["new-check", BODY, BODY, BODY, "--folder", f"{OUT}/{BODY}"],
    ["new-adapter", f"{OUT}/adapter.py"],
    ["init", "--agent", "--folder", OUT],
    ["faults"],
    ["lab", "--fault", BODY, "--out", f"{OUT}/lab"],
    *(["run", *words, "--out", f"{OUT}/run"] for words in (["--set", f"{BODY}=1"], ["--inject", BODY], [CONFIG],
      ["--model", f"{OUT}/{BODY}"])),
]  # fmt: skip


def test_every_command_is_asked() -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert commands - {words[0] for words in COMMANDS} == {"mcp"}, "what it answers is asked below"


def planted(folder: Path) -> dict[str, str]:
    """Two logs with every secret as key, setting, event and response, one in their names; a configuration; an adapter."""
    texts = [text for text, _ in SECRETS.values()]
    paths = {
        LOG: f"a/{BODY}.jsonl",
        OTHER: f"b/{BODY}.jsonl",
        CONFIG: "a/config.yaml",
        CODE: "adapter.py",
        FOLDER: "",
        OUT: "out",
    }
    known = {name: folder / "in" / path if name != OUT else folder / path for name, path in paths.items()}
    for name in (LOG, OTHER):
        rows: list[dict[str, object]] = [
            {"config": {f"note{i}": text for i, text in enumerate(texts)} | {"run_name": BODY}}
        ]
        for step in range(1, 31):
            reward = 0.01 * step if step < 20 or name == LOG else float("nan")
            row: dict[str, object] = {
                "step": step,
                "reward": reward,
                "loss": reward,
                "prompt": texts[-step],
                "completion": texts[step],
            }
            rows.append(row | {f"x/{text}": 1.0 for text in texts[20:40]} | {f"rewards/{texts[step]}/mean": 0.1})
        known[name].parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row) for row in rows] + [f"WARNING: {text}" for text in texts]
        known[name].write_text("\n".join(lines), encoding="utf-8")
    settings = {"num_generations": 1, "beta": 9, "learning_rate": 1, "run_name": BODY, "model": texts[0]}
    known[CONFIG].write_text(
        yaml.safe_dump(settings | {f"key{i}": t for i, t in enumerate(texts)} | dict.fromkeys(texts, 1))
    )
    known[CODE].write_text(ADAPTER.format(secrets=texts), encoding="utf-8")
    known[OUT].mkdir()
    return {name: str(path) for name, path in known.items()}


def leaked(said: str, folder: Path) -> list[str]:
    """The secrets in what was said or written."""
    written = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    names = [path.name for path in folder.rglob("*")]
    return [name for name, (_, secret) in SECRETS.items() if any(secret in text for text in (said, *written, *names))]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_no_command_tells_one(tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = planted(tmp_path)
    for name in ("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "GRPO_DOCTOR_SECRET"):
        monkeypatch.setenv(name, BODY)
    words = [re.sub("|".join(known), lambda found: known[found[0]], word) for word in command]
    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.output or any(Path(known[OUT]).iterdir())
    for store in Path(known[OUT]).glob("fleet.db*"):
        store.unlink()  # it knows files by their true names, and is no report
    assert leaked(done.output, Path(known[OUT])) == []


def test_no_answer_to_an_agent_tells_one(tmp_path: Path) -> None:
    known = planted(tmp_path)
    told = [
        answers.analyze(known[LOG]),
        answers.analyze(known[FOLDER]),
        answers.settings(known[CONFIG]),
        answers.compare(known[LOG], known[OTHER]),
        answers.probe(known[CODE]),
    ]
    assert leaked(json.dumps(told, default=str), Path(known[OUT])) == []


def test_no_hook_in_a_trainer_writes_one(tmp_path: Path) -> None:
    texts = [text for text, _ in SECRETS.values()]
    run = LoggedRun(
        {f"note{i}": text for i, text in enumerate(texts)} | {"api_key": BODY}, framework="verl", out=tmp_path / "run"
    )
    for step, text in enumerate(texts, 1):
        row = {"critic/score/mean": 0.1 if step < 40 else float("nan"), "actor/loss": 0.1, text: 1.0, "note": text}
        run.log(step, row, [Sample(step=step, prompt=text, response=text, reward=0.1)])
    run.finish()
    reports = [path for path in (tmp_path / "run").iterdir() if path.name.startswith("report")]
    assert reports
    assert leaked("".join(path.read_text(encoding="utf-8") for path in reports), tmp_path / "none") == []


@pytest.mark.parametrize("code", load().checks)
def test_nothing_of_a_page_looks_like_a_secret(code: str) -> None:
    page = check_pages.page(load(), load().checks[code])
    assert redact(page) == page
