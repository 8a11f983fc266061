"""Decides which folders of a user's own checks may be executed: folders that the user has trusted and whose content is
unchanged.

A configuration file is part of the analysed repository, so a folder that it names is not trusted for that reason. The
user gives permission on the command line, in the environment, or in a file of the user that lists trusted folders by
path and content.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..config import Config, ConfigError


def trusted(config: Config) -> tuple[Path, ...]:
    """Return the folders of checks that the settings name. Raises `ConfigError` if a folder may not be executed."""
    if config.checks and not config.trust_checks:
        known = read()
        for folder in config.checks:
            _refuse_untrusted(folder, config.origin, known)
    return tuple(config.checks)


def _refuse_untrusted(folder: Path, origin: str, known: dict[str, str]) -> None:
    place = str(folder.resolve())
    if place in known and known[place] == digest(folder):
        return
    why = "has changed since it was trusted" if place in known else "is not trusted"
    raise ConfigError(
        f"{origin}: checks: {place} holds Python that would be executed, and it {why}; read it, then run "
        f"`grpo-doctor trust {place}`, or pass --trust-checks for this call"
    )


def store() -> Path:
    """Return the file that names the trusted folders. Raises `ConfigError` if the user has no home directory."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    base = given if given.is_absolute() else Path(os.path.expanduser("~")) / ".config"
    if not base.is_absolute():  # a path below the current folder could come with the repository
        raise ConfigError("no home directory is known; set XDG_CONFIG_HOME, or pass --trust-checks")
    return base / "grpo-doctor" / "trusted-checks.json"


def read() -> dict[str, str]:
    """Return the digest of each trusted folder by its absolute path. Raises `ConfigError`."""
    path = store()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}; remove it, and trust the folders again") from None


def digest(folder: Path) -> str:
    """Return a hash over the names and contents of all files in a folder. Raises `ConfigError` if the hash cannot be
    computed.

    Compiled files in ``__pycache__`` are excluded: the catalogue never reads them for a user's own checks.
    """
    import hashlib

    if not folder.is_dir():
        raise ConfigError(f"{folder}: not a folder of checks; see checks in [tool.grpo-doctor]")
    found = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_symlink() and path.is_dir():
                raise ConfigError(f"{path}: a link to a folder cannot be trusted; put the files into {folder}")
            if path.is_file() and "__pycache__" not in name.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                found.update(f"{content} {name.as_posix()}\0".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    return found.hexdigest()
