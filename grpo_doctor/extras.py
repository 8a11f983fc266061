"""Names the module that an import lacks, and the command that installs the packages of an extra."""


def install(extra: str) -> str:
    """Return the command that installs an extra; the package is not on PyPI."""
    return f"from a checkout: pip install '.[{extra}]'"


def lacking(error: ImportError) -> str:
    """Return why an import failed: the missing module, or the error that an installed package reported."""
    return f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error).splitlines()[0]
