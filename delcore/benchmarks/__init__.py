"""Evaluation on benchmarks: tasks, generation, records, measures.

`tasks` says what is asked and what is right, with `rows` and `readers` for the files it comes from, `prompts` how it is
asked; `generate` lets a model answer, and `scoring` reads the answers. `settings` holds what a run is told and its
header, `records` writes a run folder and `saved_runs` reads it, `runner` puts them together, and `rescore` reads the
answers of a run again. `metrics` measures finished runs, with exact numbers from `values`:

    delcore evaluate --model embedded --benchmark arithmetic
"""
