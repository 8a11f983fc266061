"""Which notes of a probed trainer report an unjudged property."""

from __future__ import annotations

from grpo_doctor.diagnosis.verdict import Diagnosis

FORMULA = "The loss is "
"""How the note begins that describes the measured policy loss."""


def open_notes(diagnosis: Diagnosis) -> list[str]:
    """All notes but the description of the loss, which every trainer with a loss gets."""
    return [note for note in diagnosis.notes if not note.startswith(FORMULA)]
