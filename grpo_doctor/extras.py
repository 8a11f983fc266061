"""Explains why an import failed, and returns the command that installs an extra."""


def install(extra: str) -> str:
    """Return the command that installs an extra from a checkout, because the package is not on PyPI."""
    return f"from a checkout: pip install '.[{extra}]'"


def lacking(error: ImportError) -> str:
    """Return why an import failed: a module is missing, or an installed package raised an error."""
    return f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error).splitlines()[0]
