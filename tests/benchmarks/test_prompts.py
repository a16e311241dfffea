"""Styles, and the program in a text."""

import doctest

import pytest

from delcore import InputError
from delcore.benchmarks import prompts
from delcore.benchmarks.prompts import CUTS, check_style, find_program


def test_docstring_examples_hold():
    assert doctest.testmod(prompts).failed == 0


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("x = 5\nprint(x)\n", "x = 5\nprint(x)\n"),
        ("Here it is:\n```python\nprint(5)\n```\nIt prints 5.", "print(5)\n"),
        ("```\nprint(5)\n```", "print(5)\n"),
        ("```py\nprint(5)", "print(5)"),
        ("  ```Python\n  print(5)\n  ```", "  print(5)\n"),
        ("```python\nprint(5)\n```\nOr:\n```python\nprint(6)\n```", "print(5)\n"),
        ("print(5)\n### Instruction:\nprint(6)", "print(5)\n"),
        ("print(5)\n\nQuestion: print(6)?", "print(5)\n\n"),
        ("The answer is 5.", None),
        ("", None),
    ],
)
def test_program_is_the_first_block_or_a_text_that_prints(text, program):
    assert find_program(text) == program


def test_programs_are_asked_for_only_where_they_run():
    check_style("cot", run_programs=False)
    check_style("pot", run_programs=True)
    for style, runs, words in (
        ("pot", False, "--run-programs"),
        ("cot", True, "--style pot"),
        ("few-shot", False, "must be cot or pot; got 'few-shot'"),
    ):
        with pytest.raises(InputError, match=words):
            check_style(style, run_programs=runs)


def test_each_part_has_its_own_end():
    text = "x = 5\n# Question: which?\nprint(x)\nQuestion: Next"
    assert CUTS["program"](text) == "x = 5\n# Question: which?\nprint(x)\n"
    assert CUTS["text"](text) == "x = 5\n"
