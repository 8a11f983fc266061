"""``--notify``: sends findings of ``watch`` to the desktop, trackio, W&B, a command or a webhook."""

from __future__ import annotations

import base64
import json
import netrc
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ..config import ConfigError

LIMIT = 10.0
"""Timeout of a notification in seconds, so that a notification does not block ``watch``."""

_ALERT = """mutation(
  $entity: String!, $project: String!, $run: String!, $title: String!, $text: String!, $level: AlertSeverity
) {
  notifyScriptableRunAlert(input: {
    entityName: $entity, projectName: $project, runName: $run, title: $title, text: $text, severity: $level
  }) { success }
}"""
"""The request that ``run.alert`` of wandb 0.31 sends to the server."""

Channel = Callable[[Mapping[str, str]], str | None]
"""Function that sends a finding (code, name, severity, onset_step, message and log), and returns an error message or
None."""


def channel(word: str) -> Channel:
    """Return the channel for ``desktop``, ``trackio``, ``wandb:ENTITY/PROJECT/RUN``, a URL or a command.

    Raises `ConfigError` if the channel cannot be used.
    """
    if word in ("desktop", "trackio"):
        return {"desktop": _desktop, "trackio": _trackio}[word]()
    if word.startswith("wandb:"):
        return _wandb(word)
    if word.startswith(("http://", "https://")):
        return lambda told: _in_time(lambda: _hook(word, told))
    command = shlex.split(word)
    if not command or shutil.which(command[0]) is None:
        raise ConfigError(
            f"--notify {word}: command not found; use desktop, trackio, wandb:ENTITY/PROJECT/RUN, a URL or a command"
        )
    return lambda told: _run(command, {f"GRPO_DOCTOR_{name.upper()}": value for name, value in told.items()})


def _desktop() -> Channel:
    if shutil.which("notify-send"):
        return lambda told: _run(["notify-send", "--app-name=grpo-doctor", "--", *_words(told)], {})
    if sys.platform == "darwin":
        script = 'display notification (system attribute "GD_TEXT") with title (system attribute "GD_TITLE")'
        return lambda told: _run(
            ["osascript", "-e", script], dict(zip(("GD_TITLE", "GD_TEXT"), _words(told), strict=True))
        )
    raise ConfigError("--notify desktop: needs notify-send (package libnotify-bin) or macOS")


def _trackio() -> Channel:
    """Return the channel that writes alerts to the watched trackio store, in trackio's own table and under its lock."""
    try:
        trackio: Any = import_module("trackio.sqlite_storage")
    except ImportError:
        raise ConfigError("--notify trackio: needs trackio: pip install trackio") from None

    def send(told: Mapping[str, str]) -> str | None:
        path, _, name = told["log"].partition(" (")  # "FILE (run)" in a store with several runs
        store, room = Path(path).absolute(), Path(trackio.TRACKIO_DIR).absolute()
        if store.parent != room:
            return f"trackio: {path} is not in the trackio folder {room}; set TRACKIO_DIR"
        try:
            runs = [run for run in trackio.SQLiteStorage.get_run_records(store.stem) if name in ("", f"{run['name']})")]
            level = "warn" if told["severity"] in ("info", "warning") else "error"
            words = (
                [f"grpo-doctor: {told['code']} {told['name']}"],
                [told["message"]],
                [level],
                [int(told["onset_step"])],
            )
            for run in runs[-1:]:
                trackio.SQLiteStorage.bulk_alert(store.stem, run["name"], *words, run_id=run["id"])
        except (sqlite3.Error, OSError) as error:
            return f"trackio: {error}"
        return None if runs else f"trackio: {path} contains no run of this name"

    return send


def _wandb(word: str) -> Channel:
    """Return the channel that sends alerts of a W&B run directly to the server. The wandb library sends alerts only
    from the process that opened the run. A second process that resumed the run would overwrite the run's summary."""
    from urllib.parse import urlsplit

    parts = word.removeprefix("wandb:").split("/")
    if len(parts) != 3 or not all(parts):
        raise ConfigError(f"--notify {word}: expected wandb:ENTITY/PROJECT/RUN, as in wandb.ai/ENTITY/PROJECT/runs/RUN")
    base = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").rstrip("/")
    if (key := os.environ.get("WANDB_API_KEY") or _logged_in(urlsplit(base).hostname or "")) is None:
        raise ConfigError(f"--notify {word}: set WANDB_API_KEY or run `wandb login`")
    headers = {"Authorization": "Basic " + base64.b64encode(f"api:{key}".encode()).decode()}
    where = dict(zip(("entity", "project", "run"), parts, strict=True))

    def send(told: Mapping[str, str]) -> str | None:
        level = "WARN" if told["severity"] in ("info", "warning") else "ERROR"
        text = f"Since step {told['onset_step']}: {told['message']}"
        said = where | {"title": f"grpo-doctor: {told['code']} {told['name']}", "text": text, "level": level}
        answer, failed = _post(f"{base}/graphql", {"query": _ALERT, "variables": said}, headers)
        return failed or (None if b'"success":true' in answer.replace(b" ", b"") else f"W&B refused: {answer[:200]!r}")

    return lambda told: _in_time(lambda: send(told))


def _logged_in(host: str) -> str | None:
    """Return the key that ``wandb login`` stored for this host."""
    try:
        found = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return found[2] if found else None


def _words(told: Mapping[str, str]) -> tuple[str, str]:
    return f"{told['severity']}: {told['code']} {told['name']}", f"{told['log']}: {told['message']}"


def _run(command: list[str], environment: Mapping[str, str]) -> str | None:
    """Run a command without a shell; return an error message or None."""
    try:
        code = subprocess.run(command, env=os.environ | environment, timeout=LIMIT, check=False).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return f"{command[0]}: exit code {code}" if code else None


def _hook(url: str, told: Mapping[str, str]) -> str | None:
    """Post to a webhook; return an error message or None. Slack, Mattermost and Discord-compatible hooks show the field
    ``text``."""
    title, message = _words(told)
    return _post(url, {"text": f"{title}. {message}", **told}, {})[1]


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[bytes, str | None]:
    """Post JSON; return the first part of the answer, and an error message or None."""
    from http.client import HTTPException
    from urllib.request import Request, build_opener

    from .redirect import WithoutKey

    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    try:
        with build_opener(WithoutKey).open(request, timeout=LIMIT) as answer:
            return answer.read(1 << 12), None
    except (OSError, ValueError, HTTPException) as error:
        said = " ".join(str(error).split())[:200]
        return b"", f"{url.split('?')[0]}: {said or type(error).__name__}"


def _in_time(send: Callable[[], str | None]) -> str | None:
    """Return the result of ``send``, or an error message after the timeout."""
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(send()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    return said[0] if said else f"no answer within {LIMIT:.0f} s"
