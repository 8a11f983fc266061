"""Hundreds of runs as one table: their findings, the settings that separate failing runs, and what to try next.

`locations` finds runs, `unit` judges one of them, `workers` distributes the units, `store` keeps the results as tables
of DuckDB, `separating_settings` and `planning` are the statistics, `overview` joins all of it, and `text`, `document`
and `page` render it.
"""
