"""The manifest names every labelled log, and fetching keeps only files that are those of the manifest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.corpus.fetch import fetched, is_of, wanted
from tests.corpus import labels
from tests.corpus_path import CORPUS, needs_corpus

LOG = b'{"step": 1, "reward": 0.5}\n'
FILES = {"/someone/trainer/" + "a" * 40 + "/out/run%20one.jsonl": LOG}


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Address of a server of one file, and the paths that were asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path in FILES else 404)
            self.end_headers()
            self.wfile.write(FILES.get(self.path, b""))

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()


def row(**changed: str) -> dict[str, str]:
    return {
        "id": "R001", "file": "R001-trainer/run one.jsonl", "repo": "someone/trainer", "path": "out/run one.jsonl",
        "commit": "a" * 40, "bytes": str(len(LOG)), "sha256": hashlib.sha256(LOG).hexdigest(),
    } | changed  # fmt: skip


def test_log_is_kept_and_not_asked_for_again(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    assert [fetched(row(), tmp_path, address) for _ in range(2)] == ["", ""]
    assert (tmp_path / "R001-trainer" / "run one.jsonl").read_bytes() == LOG
    assert asked == list(FILES)


def test_file_with_another_checksum_is_not_kept(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    problem = fetched(row(sha256="0" * 64), tmp_path, server[0])
    assert problem.endswith("run%20one.jsonl is not the file of the manifest: its checksum differs")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"path": "out/gone.jsonl"}, "HTTP Error 404: Not Found"),
        ({"commit": "issue", "path": "https://github.com/a/b/issues/1"}, "it was posted in a thread: copy it from"),
    ],
)
def test_missing_log_is_named_with_its_reason(
    tmp_path: Path, server: tuple[str, list[str]], changed: dict[str, str], words: str
) -> None:
    assert words in fetched(row(**changed), tmp_path, server[0])


@needs_corpus
def test_manifest_holds_the_labels_and_checksums_of_every_log() -> None:
    manifest = {entry["id"]: entry for entry in wanted()}
    assert manifest.keys() == {label["id"] for label in labels()}
    for label in labels():
        entry = manifest[label["id"]]
        assert {name: label[name] for name in ("file", "expect", "families", "onset")}.items() <= entry.items()
        assert is_of(entry, (CORPUS / label["file"]).read_bytes())
