"""``grpo-doctor trust``: allows a folder of custom checks to be executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from . import common


def trust(
    folder: Annotated[Path, typer.Argument(help="Folder of custom checks, as listed in checks = [...].")],
) -> None:
    """Trusts a folder of your own checks: commands that load it execute its Python files.

    Review the files first. The path and a hash of the content are stored in your user configuration. After any change,
    you must trust the folder again.
    """
    from ..diagnosis.trust import digest, read, store

    with common.plain_errors():
        place = str(folder.resolve())
        known = read() | {place: digest(folder)}
        common.replace_file(store(), msgspec.json.format(msgspec.json.encode(known)).decode())
    common.say(f"trusted the current content of {place} (stored in {store()})")
