"""The labelled public logs as a benchmark that others can fetch: the manifest, and what fetches and scores it."""
