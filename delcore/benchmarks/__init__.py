"""Evaluation on benchmarks."""
