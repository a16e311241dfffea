"""Evaluation on benchmarks: tasks, generation, records.

`tasks` says what is asked and what is right, `prompts` how it is asked, `generate` lets a model answer, `scoring` reads
the answers, `records` keeps a run folder, and `runner` puts them together:

    delcore evaluate --model embedded --benchmark arithmetic
"""
