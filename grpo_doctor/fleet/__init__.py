"""Hundreds of runs as one table: what ails them, which settings separate the failing ones, and what to try next.

`places` finds the folders of runs, `judge` makes lines of one of them, `workers` maps the one over the other, `store`
keeps the lines as tables of DuckDB, `separate` and `planning` are the statistics, `overview` joins all of it, and
`text`, `document` and `page` tell it.
"""
