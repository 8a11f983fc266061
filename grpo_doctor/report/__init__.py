"""Shared by all report formats: the model of a report, charts, redaction. The formats are in ``reports/``."""
