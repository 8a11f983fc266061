"""Generated secrets of every common kind, wherever a log or a user can put them, appear in no output of any command."""

from __future__ import annotations

import json
import random
import re
import string
import sys
import time
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from grpo_doctor.agents import answers
from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.integrations.scalars import LoggedRun
from grpo_doctor.report import check_pages
from grpo_doctor.report.redaction import clean, cleaned, inert, one_line, redact, visible
from grpo_doctor.run import Sample

DRAW = random.Random(7)
BASE64 = string.ascii_letters + string.digits + "+/"
PLAIN = string.ascii_letters + string.digits


def made(length: int, alphabet: str = PLAIN) -> str:
    """A random string with both cases and a digit, like a key."""
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


HEXES = "0123456789abcdef"


def drawn(length: int, alphabet: str = PLAIN) -> str:
    return "".join(DRAW.choices(alphabet, k=length))


UPPER = string.ascii_uppercase + "23456789"
SHAPES: dict[str, str] = {
    "age": f"AGE-SECRET-KEY-1{drawn(58, UPPER)}",
    "anthropic-openai": f"sk-svcacct-{made(40)}",
    "artifactory": f"AKCp{made(69)}",
    "atlassian": f"ATATT3{made(186)}",
    "aws-bedrock": f"ABSK{made(109)}",
    "aws-id": f"ABIA{drawn(16, UPPER)}",
    "cerebras": f"csk-{drawn(48, string.ascii_lowercase + string.digits)}",
    "databricks": f"dapi{drawn(32, HEXES)}",
    "digitalocean": f"doo_v1_{drawn(64, HEXES)}",
    "discord-bot": f"M{made(25)}.{drawn(6)}.{made(38)}",
    "discord-mfa": f"mfa.{made(84)}",
    "doppler": f"dp.pt.{made(43)}",
    "dynatrace": f"dt0c01.{made(24)}.{made(64)}",
    "fireworks": f"fw_{made(22)}",
    "flyio": f"fm2_{made(100)}",
    "github": f"ghp_{made(36)}",
    "gitlab": f"glrt-{made(20)}",
    "google": f"AIza{made(35)}",
    "google-oauth": f"ya29.{made(60)}",
    "grafana": f"glsa_{made(32)}_{drawn(8, HEXES)}",
    "heroku": f"HRKU-AA{made(58)}",
    "hugging-face": f"api_org_{drawn(34, string.ascii_letters)}",
    "jwt": f"eyJ{made(20)}.eyJ{made(40)}.{made(43)}",
    "langsmith": f"lsv2_pt_{drawn(32, HEXES)}_{drawn(10, HEXES)}",
    "mailgun": f"key-{drawn(32, HEXES)}",
    "new-relic": f"NRAK-{drawn(27, UPPER)}",
    "notion": f"ntn_{drawn(11, string.digits)}{made(35)}",
    "npm-replicate-and-others": f"r8_{made(37)}",
    "nvidia-pypi-and-others": f"nvapi-{made(64)}",
    "one-password": f"ops_eyJ{made(250)}",
    "planetscale": f"pscale_tkn_{made(43)}",
    "postman": f"PMAK-{drawn(24, HEXES)}-{drawn(34, HEXES)}",
    "sendgrid": f"SG.{made(22)}.{made(43)}",
    "sentry": f"sntryu_{drawn(64, HEXES)}",
    "slack": f"xoxe.xoxp-1-{made(163)}",
    "stripe": f"rk_prod_{made(24)}",
    "twilio": f"SK{drawn(32, HEXES)}",
    "vault": f"hvs.{made(90)}",
    "wandb-v1": f"wandb_v1_{made(40)}",
}
"""One example of each entry of ``[keys]``; the whole of it is the secret."""
WORDED = "correct horse battery staple"
PHRASES: dict[str, tuple[str, str]] = {
    "authorization": (f"Authorization: Digest {drawn(8)}pwD1", "pwD1"),
    "bearer": (f"-H 'bearer {made(30)}'", DRAW_TAIL := "aZ7"),
    "basic": (f"basic {made(30)}==", DRAW_TAIL),
    "token": (f"token {made(30)}", DRAW_TAIL),
    "cookie": ("Cookie: session=opaque_value_of_it; theme=dark", "opaque_value_of_it"),
    "curl-user": ("curl -s -u me:hunter-two https://host/x", "hunter-two"),
    "sshpass": ("sshpass -p hunter-two ssh host", "hunter-two"),
    "slack-hook": (f"https://hooks.slack.com/services/T0/B0/{made(24)}", DRAW_TAIL),
    "discord-hook": (f"https://discord.com/api/webhooks/1122334455/{made(68)}", DRAW_TAIL),
    "teams-hook": (f"https://a.webhook.office.com/webhookb2/{made(40)}", DRAW_TAIL),
    "azure-signature": (
        "https://a.blob.core.windows.net/c?sv=2024&sig=abcdefghijklmnop%2Bqr%3D&se=1",
        "abcdefghijklmnop",
    ),
    "azure-shared-access": ("SharedAccessSignature=abcdefghijklmnopqrstuv", "abcdefghijklmnop"),
    "amazon-signature": ("?X-Amz-Signature=abcdefghijklmnopqrstuv", "abcdefghijklmnop"),
}
"""One example of each entry of ``[phrases]``, with what of it is the secret."""
MORE: dict[str, tuple[str, str]] = {
    "redis": ("redis://:hunter-two@cache:6379/0", "hunter-two"),
    "at-sign": ("postgres://me:hunter@two-2@db:5432/x", "two-2"),
    "slash": ("amqp://me:hunter/two-2@mq/x", "two-2"),
    "db-pass": ("DB_PASS=12345678", "12345678"),
    "mysql-pwd": ("MYSQL_PWD=hunter-two mysql", "hunter-two"),
    "pgpassword": ("PGPASSWORD=hunter-two psql", "hunter-two"),
    "bare-token": ("token: abcd1234efgh", "abcd1234efgh"),
    "bare-token-json": ('{"token": "abcd1234efgh", "step": 1}', "abcd1234efgh"),
    "hf-token-option": ("train.py --hf_token abcdefghijkl --lr 1", "abcdefghijkl"),
    "password-option": ("train.py --password hunter", "hunter"),
    "words": (f"password: {WORDED}", "staple"),
    "words-quoted": (f"passphrase='{WORDED}' next=1", "staple"),
    "words-json": (json.dumps({"db_password": WORDED}), "staple"),
    "words-escaped": (json.dumps({"note": json.dumps({"password": WORDED})}), "staple"),
    "number": ("password=123456", "123456"),
    "docker": ('{"auths": {"https://index.docker.io/v1/": {"auth": "bWU6aHVudGVyLXR3bw=="}}}', "aHVudGVyLXR3bw"),
    "curl-long": ('curl --user "me:hunter two" https://host', "hunter two"),
    "sshpass-joined": ("sshpass -phunter-two ssh host", "hunter-two"),
    "aws-session": (f"session {made(800, BASE64)}", DRAW_TAIL),
    "twilio-token": (f"sent with {drawn(31, HEXES)}a", "a"),
    "hex-64": (f"x {drawn(62, HEXES)}a0", "a0"),
    "base64-unnamed": (f"x {made(43, BASE64)}=", DRAW_TAIL),
    "base32-unnamed": (f"x {'A7B2C3D' * 8}", "A7B2C3D"),
    "pgp": (
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nab{WORDED}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
        "staple",
    ),
    "pem-encrypted": (
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENC\n\n{WORDED}\n-----END RSA PRIVATE KEY-----",
        "staple",
    ),
    "after-escaped-newline": (json.dumps(f"a\nsk-{made(30)}"), DRAW_TAIL),
}
"""Redacted by place or characters, not by a shape of the table."""
TABLE = tomllib.loads(files("grpo_doctor.report").joinpath("secret_shapes.toml").read_text(encoding="utf-8"))


def test_each_shape_has_an_example() -> None:
    assert SHAPES.keys() == TABLE["keys"].keys()
    assert PHRASES.keys() == TABLE["phrases"].keys()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("around", ["{}", "x = {}", '{{"note": "{}"}}', "(a,{},b)", "url?x={}&y=1", "a\\n{}\\n"])
def test_redacts_a_key_in_any_context(name: str, around: str) -> None:
    assert redact(around.format(SHAPES[name])) == around.format("[redacted]")


@pytest.mark.parametrize("name", PHRASES | MORE)
def test_redacts_a_secret_after_its_name(name: str) -> None:
    text, secret = (PHRASES | MORE)[name]
    for shown in (redact(text), redact(f"step 1\n{text}\nstep 2"), clean(text), cleaned([text])[0]):
        assert secret not in shown.replace("[redacted]", "")
    assert "[redacted]" in redact(text)


@pytest.mark.parametrize("known", ["db_password", "HF_TOKEN", "apiKey", "token", "auth"])
def test_a_setting_of_a_secret_name_is_redacted(known: str) -> None:
    assert cleaned({known: "abcd1234efgh"}) == {known: "[redacted]"}
    assert cleaned({known: None, "eos_token": "<|im_end|>", "max_tokens": 512}) == {
        known: None,
        "eos_token": "<|im_end|>",
        "max_tokens": 512,
    }


def test_json_stays_json() -> None:
    row = {"password": 12345, "api_key": None, "token": "abcd1234efgh", "note": "password: a b", "x": 0.5}
    shown = json.loads(redact(json.dumps(row)))
    assert shown == {**row, "password": "[redacted]", "token": "[redacted]", "note": "password: [redacted]"}


def test_the_rest_of_a_line_stays() -> None:
    assert redact("password=hunter2,loss=0.5,kl=0.1") == "password=[redacted],loss=0.5,kl=0.1"
    assert redact("Config(password='hunter2', lr=1e-5)") == "Config(password='[redacted]', lr=1e-5)"
    assert redact("Config(password=hunter2, lr=1e-5)") == "Config(password=[redacted], lr=1e-5)"


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
        "commit 2cd2efce1c0622bfd77899c555357107706a0c54",
        "commit_hash=2cd2efce1c0622bfd77899c555357107706a0c54",
        '{"git_sha": "2cd2efce1c0622bfd77899c555357107706a0c54"}',
        "HEAD is now at 2cd2efc",
        "git+https://github.com/a/b.git@2cd2efce1c0622bfd77899c555357107706a0c54",
        "/root/.cache/huggingface/hub/models--a/snapshots/2cd2efce1c0622bfd77899c555357107706a0c54/model.safetensors",
        "image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "run_id: 69efd756a9d0af41f6b7663401000000",
        "mlruns/0/69efd756a9d0af41f6b7663401000000/metrics/loss",
        "Actor(MetricLogger, 0249b3c3f640fab3050fc2ba01000000)",
        "wandb: Run data is saved locally in wandb/run-20240101_120000-3k2j1h9x",
        "123e4567-e89b-12d3-a456-426614174000",
        "Qwen2ForCausalLM IndexBackward0 0x77ad95f6c1b6",
        "meta-llama/Llama-3.1-8B-Instruct mistralai/Mixtral-8x7B-Instruct-v0.1",
        "loss=1.2345678901234567e-05 kl=0.12345678901234567",
        "{'token': 'the', 'prob_token': 1.2345e-05, 'per_token': 0.5}",
        "num_tokens: 123456789, pass@1: 0.5, forward_pass=0.123, bypass: 12, PWD=/home/me/a1b2c3d4",
        "auth: disabled",
        "sha256sum 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  model.bin",
        "AutoModelForCausalLMWithValueHead1 GRPOTrainerWithVeryLongClassName2ForQwen3MoeModels",
        "eos_token='<|im_end|>', hub_token=<HUB_TOKEN>, push_to_hub_token=<PUSH_TO_HUB_TOKEN>",
        "password: null",
        "HF_TOKEN=${HF_TOKEN} password=*** api_key: None",
        "http://localhost:8080/a@b",
        "git@github.com:a/b.git ssh://git@github.com/a/b.git",
        "sort_key=step key=reward_mean monkey: 5",
        "shared_tensor_0123456789 account balance: 5",
    ],
)
def test_words_that_are_not_secrets_stay(text: str) -> None:
    assert redact(text) == text


def test_terminal_escapes_and_line_breaks_go() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07end") == "red end"
    assert one_line("a.log\n::error::pwned") == "a.log : :error::pwned"


@pytest.mark.parametrize(
    "code",
    [
        0x00,
        0x0B,
        0x7F,
        0x9B,
        0xAD,
        0x61C,
        0x180E,
        0x200B,
        0x200D,
        0x202E,
        0x2060,
        0x2066,
        0xFEFF,
        0xE0000,
        0xE0041,
        0xE007F,
    ],
)
def test_an_invisible_character_is_an_escape(code: int) -> None:
    shown = clean(f"a{chr(code)}b")
    assert chr(code) not in shown
    assert re.fullmatch(r"a\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})b", shown)
    assert int(shown[3:-1], 16) == code


@pytest.mark.parametrize("text", ["naïve ☃ 奖励 🎉\ufe0f", "tab\tand\nline"])
def test_visible_characters_are_kept(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "command", ["::add-mask::x", "  ::error::x", "\t::set-env name=a::b", "a ##[add-mask]x", "##vso[task.x]"]
)
def test_no_line_is_a_command_to_a_ci_service(command: str) -> None:
    for shown in (clean(f"a\n{command}"), clean(command), one_line(command), inert(f"{command}\n{command}")):
        assert not re.search(r"(?m)^\s*::|##\[|##vso\[", shown)
    assert inert(inert(command)) == inert(command)
    assert inert("tests/a.py::test_b") == "tests/a.py::test_b"


PUMPED = [
    "token ", "token: ", "password: a ", "password=", "api_key", "://", "://a:", "@", "://a:b@", "curl -u ", "curl ", "/",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----" + "a" * 300, "-", "a1B", "A7", "0a", "sk-", "eyJ", "eyJa.",
    "\\", '\\"', '"password":"', "'", "secret ", "Basic ", "basic a", "sig=", "cookie:", "hash=", "a" * 31 + "/", "\n::",
    "dp.pt.", "SG.", "eyJ-", "SG.aaaaaaaaaaaaaaaaa-", "http://a:b ", "M1a2B3c4D5e6F7g8H9i0J1k2.", "_", "-p", " --token", "actor(", "commit", "sshpass -p", "\x1b]", "\x1b[", "=",
]  # fmt: skip


def test_redaction_takes_time_in_proportion_to_the_length() -> None:
    def seconds(unit: str, length: int) -> float:
        text, began = unit * (length // len(unit)), time.process_time()
        redact(text)
        inert(visible(text))
        return time.process_time() - began

    # eight times the length: eight times the time where it is linear, 64 times where it is quadratic
    slow = [unit for unit in PUMPED if seconds(unit, 40_000) > 0.15 + 30 * seconds(unit, 5_000)]
    assert slow == []


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
    ["advisories", BODY],
    ["convert", LOG, "-v"],
    ["convert", LOG, f"{OUT}/records.jsonl"],
    ["convert", LOG, f"{OUT}/records.csv"],
    ["convert", LOG, f"{OUT}/shared", "--anonymize"],
    ["share", LOG, "--out", f"{OUT}/copy"],
    ["preflight", CONFIG],
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
    ["trust", f"{OUT}/{BODY}/{BODY}"],
    ["new-adapter", f"{OUT}/adapter.py"],
    ["init", "--folder", OUT],
    ["faults"],
    ["agent"],
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
    """Return the secrets in the printed or written text."""
    written = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    names = [path.name for path in folder.rglob("*")]
    return [name for name, (_, secret) in SECRETS.items() if any(secret in text for text in (said, *written, *names))]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_no_command_prints_a_secret(tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = planted(tmp_path)
    for name in ("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "GRPO_DOCTOR_SECRET"):
        monkeypatch.setenv(name, BODY)
    words = [re.sub("|".join(known), lambda found: known[found[0]], word) for word in command]
    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.output or any(Path(known[OUT]).iterdir())
    for store in Path(known[OUT]).glob("fleet.db*"):
        store.unlink()  # it knows files by their real names, and is not a report
    assert leaked(done.output, Path(known[OUT])) == []


COMMANDS_TO_CI = (
    "\n::add-mask::x",
    "\n   ::error::y",
    " ##[add-mask]z",
    "\r\n::set-output name=a::b",
    " ::stop-commands::q",
)


@pytest.mark.parametrize(
    "command",
    [
        *(
            ["analyze", LOG, "-v", "-f", name]
            for name in ("text", "markdown", "html", "json", "sarif", "junit", "gitlab")
        ),
        ["gate", LOG],
        ["gate", LOG, "-f", "text"],
        ["settings", CONFIG],
        ["settings", CONFIG, "--fix"],
        ["compare", LOG, OTHER],
        ["fleet", FOLDER],
        ["convert", LOG, "-"],
        ["analyze", f"{LOG}.missing\n::add-mask::x"],
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_no_untrusted_line_is_a_command_to_ci(tmp_path: Path, command: list[str]) -> None:
    known = {LOG: "a.jsonl", OTHER: "b.jsonl", CONFIG: "c.yaml", FOLDER: "."}
    known = {name: str(tmp_path / path) for name, path in known.items()}
    text = "a" + "".join(COMMANDS_TO_CI) * 3
    for name in (LOG, OTHER):
        rows: list[dict[str, object]] = [{"config": {"run_name": text, f"k{text}": text}}]
        rows += [
            {
                "step": i,
                "reward": 0.0,
                "loss": float("nan") if i > 9 else 0.1,
                "prompt": text,
                "completion": text,
                f"x/{text}": 1,
            }
            for i in range(1, 31)
        ]
        Path(known[name]).write_text("\n".join([*map(json.dumps, rows), f"WARNING: {text}"]), encoding="utf-8")
    Path(known[CONFIG]).write_text(
        yaml.safe_dump({"num_generations": 1, "beta": 9, "run_name": text, text: text}) + "# \n::add-mask::x\n",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, [re.sub("|".join(known), lambda found: known[found[0]], word) for word in command])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.output
    assert not re.search(r"(?m)^[^\S\n]*::|##\[", done.output)


def test_no_answer_to_an_agent_contains_a_secret(tmp_path: Path) -> None:
    known = planted(tmp_path)
    told = [
        answers.analyze(known[LOG]),
        answers.analyze(known[FOLDER]),
        answers.preflight(known[CONFIG]),
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
