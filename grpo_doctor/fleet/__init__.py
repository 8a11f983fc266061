"""Presents hundreds of runs as one table: their findings, the settings that separate failing runs, and a seed plan.

`locations` finds runs and groups them into units, `unit` judges one unit, `workers` distributes the units, and `store`
keeps the results as DuckDB tables. `separating_settings` and `planning` compute the statistics, `overview` combines all
results, and `text`, `document` and `page` render the overview.
"""
