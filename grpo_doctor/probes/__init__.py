"""Probes: call a trainer's own functions with crafted inputs and prove a property in seconds."""

from __future__ import annotations

from .seams import RESOURCES, SEAMS, Adapter, AdapterError, Batch, Seams, load_adapter

__all__ = ["RESOURCES", "SEAMS", "Adapter", "AdapterError", "Batch", "Seams", "load_adapter"]
