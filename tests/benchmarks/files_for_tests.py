"""Two rows of each benchmark, of our own, in the shape that its file has and in the shape that the hub has."""

import json
from pathlib import Path

SAT = "What is 2 + 2?\nAnswer Choices: (A) 3 (B) 4 (C) 5 (D) 6"

LOCAL = {
    "gsm8k": (
        "gsm8k_test.jsonl",
        [
            {"question": "Ann has 2 hens and buys 3. How many?", "answer": "2+3=<<2+3=5>>5\n#### 5"},
            {"question": "A farm sells 1,000 eggs for $2. How much?", "answer": "1,000*2=2,000\n#### 2,000"},
        ],
    ),
    "math500": (
        "math500.jsonl",
        [
            {"question": "Half of $3$?", "answer": "It is $\\boxed{\\frac{3}{2}}.$The answer is: \\frac{3}{2}"},
            {"question": "Roots of $x^2=1$?", "answer": "They are $\\boxed{1}$ and $\\boxed{-1}$."},
        ],
    ),
    "svamp": (
        "svamp.json",
        [
            {"ID": "own-1", "Body": "A pack costs 9 dollars", "Question": "How much are two?", "Answer": 18.0},
            {"ID": "own-2", "Body": "Tim ate 2 of 5 figs.", "Question": "How many are left?", "Answer": 2.5},
        ],
    ),
    "simuleq": (
        "simuleq.json",
        [{"question": "Two numbers add up to 5?", "answer": "15"}, {"question": "Prices?", "answer": "0.45"}],
    ),
    "aqua": (
        "aqua.jsonl",
        [
            {"question": "How far?", "options": ["A)1 km", "B)2 km", "C)3", "D)4", "E)None of these"], "correct": "E"},
            {"question": "Who?", "options": ["A)x", "B)y (z)", "C)z", "D)w", "E)v"], "correct": "B"},
        ],
    ),
    "sat": ("sat.json", [{"question": SAT, "answer": "B"}, {"question": SAT.replace("+", "*"), "answer": "B"}]),
    "mmlu": (
        "mmlu_mathematics.json",
        [
            {"question": "24 = 2p?", "subject": "elementary", "choices": ["p = 4", "8", "p = 12", "24"], "answer": 2},
            {"question": "-40 / -8?", "subject": "elementary", "choices": ["1/5", "-5", "-1/5", "5"], "answer": 3},
        ],
    ),
}
"""File name and rows of each task."""

HUB = {
    **{name: rows for name, (_, rows) in LOCAL.items()},
    "math500": [
        {"problem": "Half of $3$?", "solution": "…", "answer": "\\frac{3}{2}", "subject": "Algebra", "level": 1},
        {"problem": "Roots of $x^2=1$?", "solution": "…", "answer": "1, -1", "subject": "Algebra", "level": 2},
    ],
    "math": [
        {
            "problem": "Half of $3$?",
            "level": "Level 1",
            "type": "Algebra",
            "solution": "It is $\\boxed{\\frac{3}{2}}.$",
        },
        {
            "problem": "Roots of $x^2=1$?",
            "level": "Level 1",
            "type": "Algebra",
            "solution": "$\\boxed{1}, \\boxed{-1}$",
        },
    ],
    "svamp": [{**row, "Answer": str(row["Answer"]), "question_concat": "…"} for row in LOCAL["svamp"][1]],
    "sat": [
        {
            "query": f"Q: What is 2 {sign} 2? Answer Choices: (A)3 (B)4 (C)5 (D)6\nA: Among A through D, the answer is",
            "choices": ["(A)3", "(B)4", "(C)5", "(D)6"],
            "gold": [1],
        }
        for sign in "+*"
    ],
}
"""Rows as the hub's sets have them."""

GOLDS = {
    "gsm8k": ["5", "2,000"],
    "math": [r"\frac{3}{2}", "1, -1"],
    "math500": [r"\frac{3}{2}", "1, -1"],
    "svamp": ["18", "2.5"],
    "simuleq": ["15", "0.45"],
    "aqua": ["E", "B"],
    "sat": ["B", "B"],
    "mmlu": ["C", "D"],
}


def write_rows(folder: Path, name: str, rows: list | None = None) -> Path:
    """The file of a task in a folder."""
    file, own = LOCAL[name]
    rows = own if rows is None else rows
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows) if file.endswith("l") else json.dumps(rows, indent=1)
    (folder / file).write_text(text, encoding="utf-8")
    return folder / file


def write_all(folder: Path) -> Path:
    """The files of all tasks that have one."""
    for name in LOCAL:
        write_rows(folder, name)
    return folder
