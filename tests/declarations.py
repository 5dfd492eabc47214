"""What the files of exporters and runtimes declare, for tests that make some."""

EXPORTER = {
    "OPTIONS": {},
    "REWRITES": {},
    "VERSIONS": {"a-tool": "frontend"},
    "MEMORY_FACTOR": 1.0,
    "FORKABLE": True,
}
RUNTIME = {
    "DEVICES": ("cpu", "cuda"),
    "TESTS": ("eval", "train"),
    "TAKES": ("precision",),
    "LAZY": False,
    "VERSIONS": {"torch": "torch"},
    "MEMORY_FACTOR": 1.0,
    "FORKABLE": True,
    "COLD_RUN_BESIDE": False,
}


def exporter(**changes) -> str:
    """The text of an exporter's file; a name that is changed to None is left out."""
    return _text(EXPORTER | changes)


def runtime(**changes) -> str:
    """The text of a runtime's file."""
    return _text(RUNTIME | changes)


def _text(declared: dict) -> str:
    return "".join(f"{k} = {v!r}\n" for k, v in declared.items() if v is not None)
