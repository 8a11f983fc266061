"""Reads remote runs with the official client of their store and the user's credentials.

The addresses of `TRACKERS` contain runs, each of which becomes a history and a configuration. Any other address
contains files, which fsspec lists and copies. Stores are never written to.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..extras import install
from .input import ReadError
from .log_names import has_name_of_log, is_passed_over

HISTORY = "history.jsonl"
"""Name of the file to which a run of a tracker is written."""
_FOLDED = re.compile(r"([a-z][a-z0-9+]+):/(?=[^/])")
"""An address that was converted to a path by pathlib, which merges two slashes into one slash."""
_RUN_PAGE = re.compile(r"https?://([\w.:-]+)/([^/]+)/([^/]+)(?:/runs/([^/?#]+))?")
"""The page of a run or a project on a W&B server."""

Rows = Iterable[Mapping[str, Any]]
Renaming = Callable[[str], str]


class Tracked(NamedTuple):
    """A run of a tracker: its address, a version string, its settings and its rows."""

    address: str
    changed: str
    settings: Mapping[str, Any]
    rows: Callable[[], Rows]

    @property
    def place(self) -> str:
        """Return the address without the scheme, which is the folder for the files of the run."""
        return self.address.partition("://")[2]


# -- addresses ---------------------------------------------------------------------------------------------------


def is_remote(place: str) -> bool:
    """Return whether a place is an address, not a path."""
    return "://" in place


def address_of(path: Path) -> str | None:
    """Return the address that a command received as a path, or None for a local path."""
    folded = _FOLDED.match(str(path))
    return None if folded is None or path.exists() else _canonical(_FOLDED.sub(r"\1://", str(path), count=1))


def _canonical(address: str) -> str:
    """Convert the page address of a W&B run to a ``wandb://`` address. Pages of other servers stay unchanged, so that
    the API key is not sent to another server."""
    page = _RUN_PAGE.match(address)
    server = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).netloc.removeprefix("api.")
    if page is None or page[1] != server:
        return address
    return "wandb://" + "/".join(part for part in page.groups()[1:] if part)


# -- trackers ----------------------------------------------------------------------------------------------------


def _wandb(entity: str, project: str, *run: str) -> Iterator[Tracked]:
    import wandb

    api = wandb.Api()
    place = "/".join((entity, project, *run))
    for found in [api.run(place)] if run else api.runs(place, lazy=False):
        changed = f"{found.state} {found.heartbeat_at}"
        settings = {"run_name": found.name, **found.config}
        yield Tracked(f"wandb://{entity}/{project}/{found.id}", changed, settings, found.scan_history)


def _mlflow(experiment: str, *run: str) -> Iterator[Tracked]:
    from mlflow import MlflowClient

    client = MlflowClient()
    for found in [client.get_run(run[0])] if run else _experiment(client, experiment):
        info, data = found.info, found.data
        yield Tracked(
            f"mlflow://{experiment}/{info.run_id}",
            f"{info.status} {info.end_time} {sorted(data.metrics.items())}",
            {"run_name": info.run_name, **data.params},
            partial(_by_step, client, info.run_id, tuple(data.metrics)),
        )


def _experiment(client: Any, experiment: str) -> Iterator[Any]:
    """Yield the runs of an experiment that is given by name or number."""
    known = client.get_experiment_by_name(experiment) or client.get_experiment(experiment)
    token = None
    while True:
        found = client.search_runs([known.experiment_id], page_token=token)
        yield from found
        if not (token := found.token):
            return


def _by_step(client: Any, run_id: str, keys: Iterable[str]) -> Rows:
    rows: dict[int, dict[str, Any]] = {}
    for key in keys:
        for metric in client.get_metric_history(run_id, key):
            rows.setdefault(metric.step, {"step": metric.step})[key] = metric.value
    return [rows[step] for step in sorted(rows)]


def _trackio(*parts: str) -> Iterator[Tracked]:
    """Yield the runs of a project in a Space (``OWNER/SPACE/PROJECT``), or on the server in ``TRACKIO_SERVER_URL``."""
    from huggingface_hub import get_token
    from trackio.remote_client import RemoteClient

    space, (project, *run) = (parts[:2], parts[2:]) if len(parts) > 2 else ((), parts)
    if space:  # the Hub token must not be sent to other servers
        server = RemoteClient("/".join(space), hf_token=get_token())
    else:
        server = RemoteClient(os.environ["TRACKIO_SERVER_URL"])
    settings = server.predict(project, api_name="/get_run_configs")
    for record in server.predict(project, api_name="/get_runs_for_project"):
        name = record["name"]
        if run and name != run[0]:
            continue
        logs: list[dict[str, Any]] = server.predict(project, name, api_name="/get_logs")
        address = "/".join((*space, project, name))
        known = {"run_name": name, **(settings.get(name) or {})}
        yield Tracked(f"trackio://{address}", str(len(logs)), known, partial(iter, logs))


class Tracker(NamedTuple):
    """A tracker: the function that lists its runs, and the form of its addresses with the possible numbers of parts."""

    runs: Callable[..., Iterator[Tracked]]
    form: str
    parts: range


TRACKERS = {
    "wandb": Tracker(_wandb, "wandb://ENTITY/PROJECT or wandb://ENTITY/PROJECT/RUN", range(2, 4)),
    "mlflow": Tracker(_mlflow, "mlflow://EXPERIMENT or mlflow://EXPERIMENT/RUN", range(1, 3)),
    "trackio": Tracker(_trackio, "trackio://OWNER/SPACE/PROJECT or trackio://OWNER/SPACE/PROJECT/RUN", range(1, 5)),
}
"""The trackers by the scheme of their addresses. The extra that installs a client has the same name as the scheme."""


def tracked(address: str) -> list[Tracked] | None:
    """Return the runs at an address of a tracker, or None if the address contains files. Raises `ReadError`."""
    address = _canonical(address)
    scheme, _, place = address.partition("://")
    tracker = TRACKERS.get(scheme)
    if tracker is None:
        return None
    parts = [part for part in place.split("/") if part]
    if len(parts) not in tracker.parts:
        raise ReadError(f"{address}: write {tracker.form}")
    if scheme == "trackio" and len(parts) < 3 and "TRACKIO_SERVER_URL" not in os.environ:
        raise ReadError(f"{address}: write {tracker.form}, or set TRACKIO_SERVER_URL; pass a local project as its .db")
    with _plain_failures(address):
        found = list(tracker.runs(*parts))
    if not found:
        raise ReadError(f"{address}: no runs there")
    return found


def write(run: Tracked, folder: Path) -> Path:
    """Write a run of a tracker as a log in a subfolder of ``folder``, and return the subfolder. Raises `ReadError`."""
    home = folder.joinpath(*_inside(run.place))
    home.mkdir(parents=True, exist_ok=True)
    with _plain_failures(run.address), (home / HISTORY).open("w", encoding="utf-8") as file:
        file.write(json.dumps({"type": "config", **run.settings}, default=str) + "\n")
        file.writelines(json.dumps(dict(row), default=str) + "\n" for row in run.rows())
    return home


# -- files -------------------------------------------------------------------------------------------------------


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path within the file system. Raises `ReadError` if a library is
    missing or the address is invalid."""
    scheme = address.partition("://")[0]
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(address)
    except ImportError:
        raise ReadError(f"{address}: {_missing(scheme)}") from None
    except ValueError as error:
        raise ReadError(f"{address}: {error}") from None
    return system, path


def prefix_of(address: str, root: str) -> str:
    """Return the prefix, such as ``s3://``, that turns the paths of a file system into addresses."""
    return address.removesuffix(root) if root and address.endswith(root) else address.split("://")[0] + "://"


def listing(address: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Return every file at an address with its metadata, and the root of the listing. Raises `ReadError`."""
    system, root = file_system(address)
    with _plain_failures(address):
        listed = system.find(root, detail=True)
    if not listed:
        raise ReadError(f"{address}: no such file or folder, or nothing in it")
    return listed, root


def may_be_log(path: str, root: str) -> bool:
    """Return whether a listed file may be a log, judged by its name and by the folders between the root and the
    file."""
    inside = posixpath.dirname(posixpath.relpath(path, root)).split("/")
    return has_name_of_log(posixpath.basename(path)) and not any(is_passed_over(part) for part in inside if part)


def copy(address: str, paths: Iterable[str], folder: Path) -> Renaming:
    """Copy the files of an address to a folder. Return a function that replaces the names of the copies in texts by the
    original names."""
    system, root = file_system(address)
    paths = list(paths)
    for path in paths:
        target = folder.joinpath(*_inside(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _plain_failures(address):
            system.get_file(path, str(target))
    prefix = prefix_of(address, root) + "/" * paths[0].startswith("/")
    return lambda text: text.replace(f"{folder}/", prefix)


# -- trackers and files ----------------------------------------------------------------------------------------


@contextmanager
def downloaded(address: str) -> Iterator[tuple[Path, Renaming]]:
    """Yield a temporary folder with the content of an address, and the function that restores the original names in
    texts. Raises `ReadError`."""
    with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as name:
        folder = Path(name)
        runs = tracked(address)
        if runs is None:
            listed, root = listing(address)
            wanted = [path for path in listed if root in listed or may_be_log(path, root)]
            if not wanted:
                raise ReadError(f"{address}: {len(listed)} files, and none has the name of a log")
            yield folder, copy(address, wanted, folder)
            return
        for run in runs:
            write(run, folder)
        yield folder, renaming(address, folder)


def renaming(address: str, folder: Path) -> Renaming:
    """Return a function that replaces the files of a tracker's runs in texts by the addresses of the runs."""
    scheme = _canonical(address).partition("://")[0]
    return lambda text: text.replace(f"/{HISTORY}", "").replace(f"{folder}/", f"{scheme}://")


def _inside(path: str) -> list[str]:
    """Return the parts of a path in a store, except parts that would lead out of the folder for the copies."""
    return [part for part in PurePosixPath(path).parts if part not in ("/", "..")]


def _missing(scheme: str) -> str:
    return f"the client of {scheme} is not installed; {install(scheme)}"


@contextmanager
def _plain_failures(address: str) -> Iterator[None]:
    """Convert any error of a client to a `ReadError` with one line."""
    try:
        yield
    except ImportError:
        raise ReadError(f"{address}: {_missing(address.partition('://')[0])}") from None
    except Exception as error:  # noqa: BLE001 - each client has its own exceptions
        raise ReadError(f"{address}: cannot be read: {type(error).__name__}: {error}") from None
