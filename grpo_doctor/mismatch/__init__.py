"""Explains why the rollout engine and the trainer compute different log-probabilities: token batches, their Parquet
format, and the causes."""

from .batch import BatchError, Response, TokenBatch, read_batch, responses_of, write_batch
from .causes import Cause, causes_of, examined

__all__ = [
    "BatchError",
    "Cause",
    "Response",
    "TokenBatch",
    "causes_of",
    "examined",
    "read_batch",
    "responses_of",
    "write_batch",
]
