"""Invented records and run folders; their numbers mean nothing."""

import json


def record(index=0, gold="42", strict="42", flexible=None, *, kind="number", right=None, **fields):
    flexible = strict if flexible is None else flexible
    return {
        "index": index,
        "id": f"item-{index}",
        "prompt": "What is it?",
        "output": f"The answer is {strict}.",
        "tokens": 5,
        "finish": "end",
        "kind": kind,
        "strict": strict,
        "flexible": flexible,
        "gold": gold,
        "correct_strict": strict is not None and (strict == gold if right is None else right),
        "correct_flexible": flexible is not None and (flexible == gold if right is None else right),
        "from": "text",
        "outcome": None,
    } | fields


def records(*answers, gold="42", **fields):
    """One record for each answer, in order."""
    return [record(i, gold, answer, **fields) for i, answer in enumerate(answers)]


def header(items, **fields):
    return {
        "format": 1,
        "task": "gsm8k",
        "task_version": 1,
        "reader_version": 1,
        "style": "cot",
        "model": "model-a",
        "model_source": "hub",
        "model_fingerprint": "a" * 64,
        "settings": {"limit": None, "max_new_tokens": 512},
        "seed": 0,
        "versions": {"delcore": "0.1.0"},
        "data_sha256": "d" * 64,
        "items": items,
        "seconds": 12.5,
    } | fields


def write_run(folder, lines, **fields):
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps(header(len(lines), **fields)))
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
