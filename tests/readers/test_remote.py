"""Runs of trackers and stores: read by the official clients, against servers on the loopback interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.fleet.locations import find
from grpo_doctor.readers import ReadError, remote, survey
from tests.readers import fake_stores
from tests.readers.fake_stores import STEPS, Answer

STORES: dict[str, tuple[str, str, Answer]] = {
    "wandb": ("wandb", "wandb://ent/proj/run1", fake_stores.wandb),
    "mlflow": ("mlflow", f"mlflow://sweep/{'0' * 32}", fake_stores.mlflow),
    "trackio": ("trackio", "trackio://proj/run1", fake_stores.trackio),
    "hf": ("huggingface_hub", "hf://owner/repo", fake_stores.hub),
    "s3": ("s3fs", "s3://bucket/sweep", fake_stores.s3),
}
"""Module of the client, address of a run, and server."""
TRACKERS = ("wandb", "mlflow", "trackio")


def grpo_doctor(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grpo_doctor", *words],
        capture_output=True, text=True, env=fake_stores.environment(url), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("scheme", STORES)
def test_a_store_gives_a_run_and_a_fleet_and_is_only_read(scheme: str) -> None:
    client, address, answer = STORES[scheme]
    if find_spec(client) is None:
        pytest.skip(f"{client} is not installed; from a checkout: pip install '.[{scheme}]'")
    project = address.rpartition("/")[0] if scheme in TRACKERS else address
    with fake_stores.served(answer) as (url, asked):
        analyzed = grpo_doctor(url, "analyze", address, "-f", "json")
        together = grpo_doctor(url, "fleet", project, "-f", "json", "--jobs", "1")
    assert (analyzed.returncode, together.returncode) == (0, 0), analyzed.stderr + together.stderr
    for done in (analyzed, together):
        (found,) = json.loads(done.stdout)["runs"]
        assert (found["verdict"], found["steps"]) == ("healthy", STEPS)
        assert found["source"].startswith(address)
        if scheme in TRACKERS:
            assert found["settings"].items() >= {"learning_rate": 1e-6, "group_size": 8}.items()
    assert {method for method, *_ in asked} <= {"GET", "HEAD", "POST"}
    assert not [body for *_, body in asked if b"mutation" in body]
    if scheme in TRACKERS:
        with fake_stores.served(answer if scheme == "wandb" else lambda asked: fake_stores.NOT_FOUND) as (url, _):
            gone = grpo_doctor(url, "analyze", address.replace("run1", "gone"))
        assert gone.returncode == 2
        assert gone.stderr.splitlines()[-1].startswith(f"grpo-doctor: {address.replace('run1', 'gone')}: ")
        assert "Traceback" not in gone.stderr


def test_the_page_of_a_run_on_the_users_server_is_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:8080")
    page = "http://127.0.0.1:8080/ent/proj/runs/run1?nw=nwuser"
    assert remote.address_of(Path(page)) == "wandb://ent/proj/run1"


def test_a_page_of_another_server_is_not_asked_with_the_key_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    page = "https://{}/ent/proj/runs/run1"
    assert remote.address_of(Path(page.format("wandb.ai"))) == "wandb://ent/proj/run1"
    assert remote.address_of(Path(page.format("wandb.example"))) == page.format("wandb.example")


@pytest.mark.parametrize("scheme", ["wandb", "mlflow", "trackio", "gs"])
def test_without_the_client_one_line_names_what_to_install(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_SERVER_URL", "http://127.0.0.1:9")
    for client in ("wandb", "mlflow", "trackio", "huggingface_hub", "gcsfs"):
        monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(ReadError) as raised:
        survey(Path(f"{scheme}://a/b"))
    assert str(raised.value).endswith(
        f"the client of {scheme} is not installed; from a checkout: pip install '.[{scheme}]'"
    )


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("wandb://ent", "write wandb://ENTITY/PROJECT or wandb://ENTITY/PROJECT/RUN"),
        ("mlflow://a/b/c", "write mlflow://EXPERIMENT or mlflow://EXPERIMENT/RUN"),
        ("nowhere://a/b", "Protocol not known: nowhere"),
    ],
)
@pytest.mark.parametrize("ask", [lambda address: survey(Path(address)), lambda address: find([address])])
def test_an_invalid_address_gets_the_expected_form(address: str, told: str, ask: Callable[[str], Any]) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(ReadError, match=f"{address}: {told}"):
        ask(address)


def test_a_path_that_exists_is_not_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "train.log").write_text("step 1 loss 0.1\n", encoding="utf-8")
    assert remote.address_of(Path("s3:/train.log")) is None
    assert remote.address_of(Path("C:/logs/train.log")) is None
    assert remote.address_of(Path("s3://bucket/train.log")) == "s3://bucket/train.log"


def test_names_of_a_store_do_not_lead_out_of_the_folder_of_the_copies(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")

    class Hostile(fsspec.AbstractFileSystem):  # type: ignore[misc, name-defined]
        protocol = "hostile"

        def find(self, path: str, **_: Any) -> dict[str, dict[str, Any]]:
            return {"bucket/../../../evil.log": {"size": 1}}

        def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
            Path(lpath).write_text("step 1 loss 0.1\n", encoding="utf-8")

    fsspec.register_implementation("hostile", Hostile, clobber=True)
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    remote.copy("hostile://bucket", ["bucket/../../../evil.log"], inner)
    assert [path.relative_to(inner).as_posix() for path in tmp_path.rglob("*.log")] == ["bucket/evil.log"]
