"""Code that all report formats share: the model of a report, charts, redaction. The formats are in ``reports/``."""
