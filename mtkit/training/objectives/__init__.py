"""Losses that training minimises, with their batches and validation."""
