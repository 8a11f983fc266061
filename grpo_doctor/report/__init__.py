"""What every report format shares: the model of a report, charts, redaction. The formats are in ``reports/``."""
