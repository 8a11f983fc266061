"""Names the module that an import did not find, and the command that installs the packages of an extra."""


def install(extra: str) -> str:
    """Return the command that installs an extra from a checkout, because the package is not on PyPI."""
    return f"from a checkout: pip install '.[{extra}]'"


def lacking(error: ImportError) -> str:
    """Return why an import failed: a missing module, or the error that an installed package reported."""
    return f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error).splitlines()[0]
