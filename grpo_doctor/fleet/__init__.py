"""Summarises hundreds of runs: their findings, the settings that separate failing runs, and the number of seeds that a
gain needs.

`locations` finds runs and groups them into units, `unit` judges one unit, `workers` distributes the units, and `store`
keeps the results as DuckDB tables. `separating_settings` and `planning` compute the statistics, `overview` combines all
results, and `text`, `document` and `page` render the overview.
"""
