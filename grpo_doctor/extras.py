"""Names the command that installs the packages of an extra."""


def install(extra: str) -> str:
    """Return how to install an extra; the package is not on PyPI."""
    return f"from a checkout: pip install '.[{extra}]'"
