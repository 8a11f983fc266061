"""``grpo-doctor trust``: allows a folder of own checks to be executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from . import common


def trust(
    folder: Annotated[Path, typer.Argument(help="Folder of your own checks, as named in checks = [...].")],
) -> None:
    """Trusts a folder of your own checks: commands that load it execute its Python files.

    Path and content are remembered in your own configuration folder, so a change of any file asks again. Read the
    files first.
    """
    from ..trust import digest, read, store

    with common.plain_errors():
        place = str(folder.resolve())
        known = read() | {place: digest(folder)}
        common.replace_file(store(), msgspec.json.format(msgspec.json.encode(known)).decode())
    common.say(f"trusted {place} as it is now, in {store()}")
