"""Servers on the loopback interface that provide what the official clients of trackers and stores request for one run
of 60 steps."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

STEPS = 60
ROWS = [{"reward": 0.1 + 0.01 * step, "entropy": 1.0, "loss": 0.1} for step in range(STEPS)]
SETTINGS = {"learning_rate": 1e-6, "num_generations": 8, "reward_fn": "exact"}
STATE = json.dumps({"log_history": [{"step": step + 1, **row} for step, row in enumerate(ROWS)], "global_step": STEPS})

Asked = tuple[str, str, dict[str, list[str]], bytes]
Answered = tuple[int, dict[str, str], bytes]
Answer = Callable[[Asked], Answered]
NOT_FOUND: Answered = (404, {}, b"{}")


def as_json(value: Any) -> Answered:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[Asked]]]:
    """The address of a server, and the requests that it received."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, address.path, parse_qs(address.query, keep_blank_values=True), body))
            status, headers, content = answer(asked[-1])
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = _do  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- wandb -------------------------------------------------------------------------------------------------------

WANDB_RUN: dict[str, Any] = {
    "id": "UnVuOg==", "name": "run1", "displayName": "brave-1", "state": "finished", "tags": [], "sweepName": None,
    "config": json.dumps({name: {"value": value} for name, value in SETTINGS.items()}), "group": None, "jobType": None,
    "commit": None, "readOnly": True, "createdAt": "2026-11-01T00:00:00Z", "heartbeatAt": "2026-11-01T01:00:00Z",
    "description": "", "notes": "", "systemMetrics": "{}", "summaryMetrics": "{}", "historyLineCount": STEPS,
    "historyKeys": {"lastStep": STEPS - 1, "keys": {}}, "user": {"name": "u", "username": "u"}, "projectId": "1",
}  # fmt: skip


def wandb(asked: Asked) -> Answered:
    if asked[1] != "/graphql":
        return NOT_FOUND
    question = json.loads(asked[3])
    query, run = question["query"], (question.get("variables") or {}).get("name", "run1")
    data: dict[str, Any] = {"viewer": {"id": "1", "entity": "ent", "username": "u", "email": "", "flags": "{}",
                                       "teams": {"edges": []}}}  # fmt: skip
    if "istory(" in query or "historyKeys" in query:
        rows = [json.dumps({"_step": step, **row}) for step, row in enumerate(ROWS)]
        keys: dict[str, Any] = {
            "historyKeys": WANDB_RUN["historyKeys"],
            "parquetHistory": {"liveData": [], "parquetUrls": []},
        }
        data["project"] = {"run": {**WANDB_RUN, "history": rows, **keys}}
    if "query Run(" in query:
        data["project"] = {"internalId": "1", "run": WANDB_RUN if run == "run1" else None}
    if "query Runs(" in query:
        page = {"endCursor": None, "hasNextPage": False}
        runs = {"edges": [{"node": WANDB_RUN, "cursor": ""}], "pageInfo": page}
        data["project"] = {"internalId": "1", "runCount": 1, "readOnly": True, "runs": runs}
    return as_json({"data": data})


# -- mlflow ------------------------------------------------------------------------------------------------------

MLFLOW_RUN = {
    "info": {"run_id": "0" * 32, "run_uuid": "0" * 32, "run_name": "brave-1", "experiment_id": "7", "status": "FINISHED",
             "start_time": 1, "end_time": 2, "lifecycle_stage": "active", "artifact_uri": ""},
    "data": {"metrics": [{"key": key, "value": value, "timestamp": 1, "step": STEPS - 1} for key, value in ROWS[-1].items()],
             "params": [{"key": key, "value": str(value)} for key, value in SETTINGS.items()]},
}  # fmt: skip


def mlflow(asked: Asked) -> Answered:
    _, path, query, _ = asked
    path = path.partition("/mlflow/")[2]
    if path == "experiments/get-by-name" and query["experiment_name"] == ["sweep"]:
        experiment = {"experiment_id": "7", "name": "sweep", "lifecycle_stage": "active", "artifact_location": ""}
        return as_json({"experiment": experiment})
    if path == "runs/search":
        return as_json({"runs": [MLFLOW_RUN]})
    if path == "runs/get":
        return as_json({"run": MLFLOW_RUN})
    if path == "metrics/get-history":
        (key,) = query["metric_key"]
        metrics = [{"key": key, "value": row[key], "timestamp": 1, "step": step} for step, row in enumerate(ROWS)]
        return as_json({"metrics": metrics})
    return 404, {}, json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}).encode()


# -- trackio -----------------------------------------------------------------------------------------------------


def trackio(asked: Asked) -> Answered:
    path = asked[1].rpartition("/")[2]
    answers: dict[str, Any] = {
        "version": {"api_version": 1},
        "get_run_configs": {"data": {"run1": SETTINGS}},
        "get_runs_for_project": {"data": [{"name": "run1", "id": "1"}]},
        "get_logs": {"data": [{"step": step, **row} for step, row in enumerate(ROWS)]},
    }
    return as_json(answers[path]) if path in answers else NOT_FOUND


# -- files -------------------------------------------------------------------------------------------------------


def hub(asked: Asked) -> Answered:
    """The Hugging Face Hub with one model: a checkpoint's trainer_state.json next to 10 GB of weights."""
    method, path, _, _ = asked
    name, commit = "checkpoint-60/trainer_state.json", "a" * 40
    files = [{"type": "file", "path": name, "size": len(STATE), "oid": "b" * 40},
             {"type": "file", "path": "model.safetensors", "size": 10**10, "oid": "c" * 40}]  # fmt: skip
    if path == "/api/models/owner/repo":
        siblings = [{"rfilename": file["path"]} for file in files]
        return as_json({"id": "owner/repo", "modelId": "owner/repo", "sha": commit, "siblings": siblings})
    if path.startswith("/api/models/owner/repo/tree/"):
        return as_json(files)
    if path.startswith("/api/models/owner/repo/paths-info/"):
        return as_json([file for file in files if str(file["path"]).encode() in asked[3].replace(b"%2F", b"/")])
    if path.endswith("/" + name) and path.startswith("/owner/repo/resolve/"):
        headers = {"ETag": '"1"', "X-Repo-Commit": commit, "Content-Length": str(len(STATE)), "Accept-Ranges": "bytes"}
        return 200, headers, STATE.encode()
    return 404, {"X-Error-Code": "EntryNotFound" if method else ""}, b""


def s3(asked: Asked) -> Answered:
    """A bucket with one run and a file of weights."""
    _, path, query, _ = asked
    log, dated = "sweep/run1/trainer_state.json", "2026-11-01T00:00:00.000Z"
    if path.rstrip("/") == "/bucket" and "list-type" in query:
        (prefix,) = query.get("prefix", [""])
        found = [
            (name, size) for name, size in ((log, len(STATE)), ("sweep/run1/model.bin", 9)) if name.startswith(prefix)
        ]
        contents = "".join(
            f"<Contents><Key>{name}</Key><LastModified>{dated}</LastModified><ETag>1</ETag><Size>{size}</Size></Contents>"
            for name, size in found
        )
        text = f"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        return 200, {"Content-Type": "application/xml"}, text.encode()
    if path == f"/bucket/{log}":
        return 200, {"ETag": '"1"', "Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}, STATE.encode()
    return NOT_FOUND


def environment(url: str) -> dict[str, str]:
    """Return the environment that sends each client only to a local server; the keys are not real."""
    return {
        **os.environ,
        "WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40, "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_TRACKING_URI": url, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_DISABLE_TELEMETRY": "true",
        "TRACKIO_SERVER_URL": url,
        "HF_ENDPOINT": url, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": "hf_" + "0" * 34,
        "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "0", "AWS_SECRET_ACCESS_KEY": "0", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
