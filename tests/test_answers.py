"""Reading answers and telling them apart: cases B23, B24, B25, B28, B29, B30, B32, B34 and B35, each kind of fault."""

import builtins
import doctest
import json
import os
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import delcore.answers
from delcore.answers import (
    KINDS,
    Reading,
    choices,
    cut_at_next_question,
    equal_answers,
    equality,
    expressions,
    numbers,
    plain,
    read_answer,
    statements,
    written,
)
from delcore.errors import InputError

TEN = "ABCDEFGHIJ"

# ---------------------------------------------------------------- one number
# Each row: a text, its strict reading, its flexible reading; the latter is left out where it is the same.

NUMBERS = {
    "B23: a comma after the number": [
        ("That makes 64 stickers, overall.", None, "64"),
        ("The answer is 64, so she has plenty left.", "64"),
        ("#### ,", None),
        ("#### 64,", "64"),
        (",", None),
        (", . , .", None),
        ("$,", None),
        ("The answer is , or so.", None),
        ("It is 7, 8 at most,", None, "8"),
        ("Answer: 12,", "12"),
        ("The answer is 1,200, which is plenty.", "1200"),
        ("64,", "64"),
        ("64.", "64"),
        ("64;", "64"),
        ("\\boxed{64,}", "64"),
    ],
    "B24: thousands, also in LaTeX": [
        (r"\boxed{6,000}", "6000"),
        (r"The answer is \boxed{\$7{,}250}.", "7250"),
        ("#### 12,500", "12500"),
        ("$80,000 + $50,000 = $130,000, minus $60,000, so the profit is $70,000", None, "70000"),
        ("1,234,567.89", "1234567.89"),
        (r"12{,}345{,}678", "12345678"),
        (r"10,\!060", "10060"),
        (r"12,\! 345,\! 600", "12345600"),
        (r"12\,500", "12500"),
        ("12\u202f500", "12500"),
        ("12\u00a0500 g", "12500"),
        ("1'250'000", "1250000"),
        ("1 000 000", "1000000"),
        ("12 050", "12050"),
        ("12 500", None, "500"),
        ("１,０００", "1000"),
        ("-1,000", "-1000"),
        ("1,00", None, "1"),
        ("0,100", None, "100"),
        ("1234,567", None, "567"),
        ("1.000.000", None),
        ("1.250,50", None),
        (r"3{,}14", None, "14"),
    ],
    "B25: money and idle zeros": [
        ("The order costs $35.00.", None, "35"),
        ("The answer is $18.00.", "18"),
        ("4.0", "4"),
        ("50$", "50"),
        ("29.000", "29"),
        ("29.5", "29.5"),
        ("US$5.50", "5.5"),
        ("€ 12", "12"),
        ("£1,250.50", "1250.5"),
        ("Rs. 500", "500"),
        (r"\$18.90", "18.9"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("- $5.00", "-5"),
        ("5 dollars", "5"),
        ("USD 40", "40"),
        ("007", "7"),
        (".50", "0.5"),
        ("0.0", "0"),
        ("-0.00", "0"),
        ("3 dollars and 50 cents", None),
        ("$1.2 million", "1200000"),
    ],
    "B28: percent": [
        ("28%", "28"),
        (r"28\%", "28"),
        ("28 percent", "28"),
        ("28 %", "28"),
        ("0.28", "0.28"),
        ("The answer is 12.5%.", "12.5"),
        (r"\boxed{12.5\%}", "12.5"),
        ("It grew by 7%, to 107.", None, "107"),
        ("-3%", "-3"),
        ("100%", "100"),
        ("1/2%", "1/2"),
        ("٪ 5", None, "5"),
    ],
    "B29: boxes": [
        (r"$\boxed{\frac{3}{4}}$", "3/4"),
        (r"First guess \boxed{4}. After checking, \boxed{6}.", "6"),
        (r"\fbox{9}", "9"),
        (r"\boxed{\text{13}}", "13"),
        (r"\boxed{", None),
        (r"so \boxed{12", None),
        (r"\boxed{}", None),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{ 5 }", "5"),
        (r"\boxed 5", "5"),
        (r"\boxed{\textbf{\$5}}", "5"),
        (r"\\boxed{8}", "8"),
        (r"\boxed{x = 7}", "7"),
        (r"\boxed{7 \text{ apples}}", "7"),
        (r"\boxed{2\sqrt{3}}", None),
        (r"The answer is 3. \boxed{2\pi}", None, "3"),
        (r"\boxed{7.5}, or \boxed{\frac{15}{2}}", "15/2"),
        (r"\boxed{3} and \boxed{4}", None, "4"),
        (r"}} \boxed{\frac{\frac{1}{2}}{3}", None),
        (r"\boxed{4} was wrong; the answer is 5", "4"),
    ],
    "B34: mixed numbers, powers of ten": [
        ("The answer is 9 1/2.", "9.5"),
        ("8 (6/19)", "158/19"),
        ("158/19", "158/19"),
        ("58.19e-6", "0.00005819"),
        ("5.819 x 10^-5", "0.00005819"),
        (r"5.819\times10^{-5}", "0.00005819"),
        (r"5.819 \cdot 10^{-5}", "0.00005819"),
        ("5.819×10⁻⁵", "0.00005819"),
        ("5.819*10**-5", "0.00005819"),
        ("5.819E-05", "0.00005819"),
        ("1e22", "1" + "0" * 22),
        ("10^22", "1" + "0" * 22),
        ("9½", "9.5"),
        ("½", "1/2"),
        ("9 and 1/2", "9.5"),
        ("9 and a half", "9.5"),
        ("-9 1/2", "-9.5"),
        (r"9\frac{1}{2}", "9.5"),
        (r"-1\frac45", "-1.8"),
        (r"\frac{250}7", "250/7"),
        ("2 3/2", None, "3/2"),
        ("3/4", "3/4"),
        ("6/8", "3/4"),
        ("6/3", "2"),
        (r"\dfrac{-3}{4}", "-3/4"),
        ("1/-3", "-1/3"),
        ("1.5/2", "3/4"),
        ("5/0", None),
        (r"0.1\overline{6}", "1/6"),
        ("2.5 million", "2500000"),
        ("2^10", None),
    ],
    "B35: the invented next question": [
        ("First restate the Question. 7*10=70\n#### 70", "70"),
        ("#### 70\n\nQuestion: A car has 4 wheels…\nAnswer: 4", "70"),
        ("It is 70.\nQ: And 4 cars?\nA: 16", None, "70"),
        ("70\n\n**Question 2:** How many? 5", "70"),
        ("70\n### Problem\n5", "70"),
        ("The answer is 70.\nUser: and then? 80", "70"),
        ("The question: is it 70 or 80? The answer is 70", "70"),
        ("Question: how many?\nThe answer is 70.", "70"),
        ("Question: how many?\nAnswer: 70\n\nQuestion: what next?\nAnswer: 4", "70"),
        ("Answer: 70 Question: 80", "70"),
        ("The problem: 7 * 10 = 70", None, "70"),
        ("Answer: 70<|im_end|>", "70"),
        ("I do not know.\n\nQuestion: A car has 4 wheels\nAnswer: 4", None),
    ],
    "signs": [
        ("\u22125", "-5"),
        ("The answer is \u221212.50", "-12.5"),
        ("–5", "-5"),
        ("+5", "5"),
        ("(-5)", "-5"),
        ("- 12", "-12"),
        ("The answer is - 12.", "-12"),
        ("x = -5", "-5"),
        ("10 - 3", None, "3"),
        ("10-3", None, "3"),
        ("60–70", None, "70"),
        ("so 10 - 3 = 7", None, "7"),
        ("from 3 to -5", None, "-5"),
        ("The total:\n- 12 apples", None, "12"),
        ("a 5-year plan", None, "5"),
    ],
    "statements": [
        ("Answer:\n\n**64**", "64"),
        ("**Final Answer**\n\n42", "42"),
        ("#### Final answer\n42", "42"),
        ("ANSWER : 7", "7"),
        ("THE ANSWER IS 7", "7"),
        ("Ans: 7", "7"),
        ("The answer to the second part should be 7.", "7"),
        ("The answer is approximately 3.5.", "3.5"),
        ("The answer is that she has 5 apples.", "5"),
        ("The answer is 3 + 4 = 7.", "7"),
        ("The answer is 64 = 8*8", "64"),
        ("The answer is 64 because 60 + 4 = 64 and 1 = 1.", "64"),
        ("The answer is 64 (8 × 8).", "64"),
        ("The answer is 3 + 4", None, "4"),
        ("The answer is x + 5", None, "5"),
        ("The answer as a percentage: 9 days / 45 days * 100% = 20%", "20"),
        ("The answer is 9 days / 45 days", None, "45"),
        ("The answer is 12/4 = <<12/4=3>>3 weeks", "3"),
        ("The first answer was 4. So 4 + 4 = 8", None, "8"),
        ("It pays 2 points/answer = 48 in all. So 64", None, "64"),
        ("Time for short answer questions: 240 - 195 = 45", None, "45"),
        ("The answer is not 5", None, "5"),
        ("The answer is between 3 and 5", None, "5"),
        ("The answer is 5 apples and 6 pears", None, "6"),
        ("Answer: Tom had 5 apples and gave 2, so he has 3 left.", None, "3"),
        ("The answer is 5. I hope the answer is clear.", "5"),
        ("#### Step 3: halve 10", None, "10"),
        ("The answer is 5. #### 6", "6"),
        ("<b>Answer</b>: `64`", "64"),
        ("The answer is seven.", None),
    ],
    "numbers that are not the answer": [
        ("H2O, mp3, room A4", None),
        ("2020-12-25", None),
        ("12/25/2020", None),
        ("version 1.2.3", None),
        ("call 555-123-4567", None),
        ("1. Add.\n2. So it is 11.\n3. Done", None, "11"),
        ("It makes 64. See step 3", None, "64"),
        ("5 feet 3 inches", None),
        ("40 cm^2", "40"),
        ("40 cm² of it", "40"),
        ("2x = 8", None, "8"),
        ("so 8 = 2x", None, "8"),
        ("5k", None),
        ("43_8", None),
        ("", None),
        ("no number", None),
        ("\0", None),
        ("\ud800", None),
    ],
    "times and ratios": [
        ("3:30", "3:30"),
        ("03:30", "3:30"),
        ("3:30 PM", "15:30"),
        ("12:05 a.m.", "0:05"),
        ("The train leaves at 3:30 pm.", None, "15:30"),
        ("13:30 pm", None),
        ("2:3", "2:3"),
        ("1:02:03", "1:02:03"),
        ("\\boxed{6:15}", "6:15"),
        ("The answer is 4:45, at noon plus.", "4:45"),
    ],
}


def rows(table: dict[str, list[tuple]]) -> list:
    """One parameter set for each row; the flexible reading is the strict one where a row does not tell."""
    return [
        pytest.param(text, Reading(strict, *(flexible or [strict])), id=f"{case.split(':')[0]}-{text[:30]!a}")
        for case, lines in table.items()
        for text, strict, *flexible in lines
    ]


@pytest.mark.parametrize(("text", "reading"), rows(NUMBERS))
def test_number_is_read_as_stated_or_not_at_all(text, reading):
    assert read_answer("number", text) == reading


# ---------------------------------------------------------------- lists of numbers: B30

LISTS = {
    "B30": [
        ("0,1", "0, 1"),
        ("(0,1)", "0, 1"),
        ("0, 1", "0, 1"),
        ("3,11,33", "3, 11, 33"),
        ("115,000", "115000"),
        ("12,34", "12, 34"),
        ("1,000,000, 500,000, 250,000", "1000000, 500000, 250000"),
        ("The answer is 27, 93", "27, 93"),
        ("(1,234)", "1, 234"),
        ("(6,000)", "6000"),
        ("1,000,20", None, "20"),
        ("1,234 and 5,678", "1234, 5678"),
        ("27 and 93", "27, 93"),
        ("27; 93", "27, 93"),
        ("27 & 93", "27, 93"),
        ("{27, 93}", "27, 93"),
        (r"\{27,93\}", "27, 93"),
        ("-1,-2", "-1, -2"),
        ("1, 2, and 3", "1, 2, 3"),
        ("x = 27 and y = -93", "27, -93"),
        ("(x, y) = (27, 93)", "27, 93"),
        (r"\boxed{27} and \boxed{93}", "27, 93"),
        (r"\boxed{x=27,\ y=93}", "27, 93"),
        ("$27 and $93", "27, 93"),
        ("0,1/2", "0, 1/2"),
        ("1 1/2, 3/4", "1.5, 3/4"),
        ("27\n93", "27, 93"),
        ("#### 27, 93", "27, 93"),
        ("The answers are 27 novelists and 93 poets.", "27, 93"),
        ("Novelists: 27, poets: 93", "27, 93"),
        ("There are 27 novelists and 93 poets.", None, "27, 93"),
        ("The answer is 27, 93, because 27 + 93 = 120.", "27, 93"),
        ("The answer is 27, and there are 3 left.", None, "3"),
        ("First 27 and then 93.", None, "93"),
        ("The answer is 64, so she has plenty left.", "64"),
        ("12 shelves, with 4 drawers", None, "4"),
        ("15", "15"),
        ("3 dollars and 50 cents", None),
        ("3:30, 4:00", "3:30, 4:00"),
        ("none", None),
        (",", None),
    ]
}


@pytest.mark.parametrize(("text", "reading"), rows(LISTS))
def test_numbers_are_read_as_a_list_in_the_order_written(text, reading):
    assert read_answer("numbers", text) == reading


# ---------------------------------------------------------------- option letters: B32

OPTIONS = {
    "B32": [
        ("The answer is C because a train stops there.", "C"),
        ("I would go with B - a safe bet.", "B"),
        ("The answer is D. A is a distractor.", "D"),
        ("I think it is C, as I said.", "C"),
        ("b", "B"),
        ("**C**", "C"),
        ("(b)", "B"),
        ("b)", "B"),
        ("[C]", "C"),
        ("$C$", "C"),
        ("Ｂ", "B"),
        ("option C", "C"),
        ("C) 15", "C"),
        ("(D) None of these", "D"),
        ("#### D", "D"),
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{(C)}}", "C"),
        (r"\textbf{(C)}", "C"),
        ("Answer: (B) 42", "B"),
        ("ANSWER:A", "A"),
        ("answer.A", "A"),
        ("Answer D", "D"),
        ("Final Answer:\nA", "A"),
        ("the Answer is, B.", "B"),
        ("The correct option is C", "C"),
        ("So (A) is correct answer.", "A"),
        ("D is the correct choice", "D"),
        ("Let me think.\nB", "B"),
        ("B\n\nExplanation: it adds up.", "B"),
        ("I'd pick (c)", "C"),
        ("the answer is a.", "A"),
        ("The answer is A", "A"),
        ("The answer is a train.", None),
        ("The answer is A train that is late.", None),
        ("A train leaves at nine.", None),
        ("A", "A"),
        ("I", None),
        ("F", None),
        ("The answer is not (A) but (B).", None, "B"),
        ("It is not B but D", None, "D"),
        ("The answer is A and C", None),
        ("Either A or B", None),
        ("C is wrong.", None),
        ("A) 5\nB) 7\nC) 9\nD) 11", None),
        ("(A) 1 (B) 2 (C) 3 (D) 4\nSo (B).", None, "B"),
        ("Answer choices: A) 1, B) 2, C) 3", None),
        ("Point A lies on f(B) = 4", None),
        ("Answer: 42", None),
        ("C\n\nQuestion: next?\nAnswer: B", "C"),
        ("", None),
        ("The rain in Spain", None),
    ]
}


@pytest.mark.parametrize(("text", "reading"), rows(OPTIONS))
def test_option_is_read_and_words_are_not(text, reading):
    assert read_answer("choice", text) == reading


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("The answer is E since I integrated twice.", "E"),
        ("I integrated twice, so the answer is J.", "J"),
        ("I think it is C, as I said.", "C"),
        ("The answer is I.", "I"),
        ("(i)", "I"),
        ("I", "I"),
        ("I am not sure", None),
        ("I'm not sure", None),
        ("The answer is I think seven", None),
        ("A long text by I", None),
    ],
)
def test_pronoun_is_no_option_even_among_ten(text, strict):
    assert read_answer("choice", text, options=TEN).strict == strict


def test_option_outside_the_options_is_not_read():
    assert read_answer("choice", "The answer is E.", options="ABCD") == (None, None)


# ---------------------------------------------------------------- LaTeX: B29, B30

EXPRESSIONS = {
    "B29": [
        (r"$\boxed{\frac{3}{4}}$", "3/4"),
        (r"First guess \boxed{4}. After checking, \boxed{6}.", "6"),
        (r"\fbox{9}", "9"),
        (r"\boxed{\text{13}}", "13"),
        (r"\boxed{", None),
        (r"so \boxed{\frac{1}{2}", None),
        (r"\boxed{\left( 7, \dfrac{\pi}{5} \right)}", r"(7, \frac{\pi}{5})"),
        (r"\boxed{\begin{pmatrix} 1 \\ -2 \end{pmatrix}}", r"\begin{pmatrix}1 \\-2\end{pmatrix}"),
        (r"\boxed{x = 2 \text{ or } x = 3}", "x=2, x=3"),
        (r"\boxed{16+3\pi}", r"16+3\pi"),
        (r"\boxed{5\text{ m}}", "5"),
        (r"\boxed{432 \mbox{ inches}^2}", "432"),
        (r"\boxed{90^\circ}", "90"),
        (r"\boxed{\text{(C)}}", "C"),
        (r"\boxed{.0000531}", "0.0000531"),
        (r"\boxed{\$21,\!456}", "21456"),
        (r"\boxed{1\frac{4}{5}}", "1.8"),
        (r"\boxed{7.5} or \boxed{\frac{15}{2}}", "15/2"),
        (r"\boxed{2} or \boxed{-3}", "2, -3"),
    ],
    "B30": [
        ("0,1", "0, 1"),
        ("(0,1)", "(0, 1)"),
        ("3,11,33", "3, 11, 33"),
        ("115,000", "115000"),
        ("12,34", "12, 34"),
        ("(1,234)", "(1, 234)"),
        ("12, 342", "12, 342"),
        (r"(-\infty, 4) \cup (6, \infty)", r"(-\infty, 4)\cup(6, \infty)"),
    ],
    "statements": [
        (r"The answer is: \left( 7, \frac{\pi}{5} \right)", r"(7, \frac{\pi}{5})"),
        (r"The answer is 3\sqrt{2}, since it is a diagonal.", r"3\sqrt{2}"),
        ("The answer is $x=2$ or $x=-3$.", "x=2, x=-3"),
        (r"The final answer is \[ \frac{3}{4} \]", "3/4"),
        ("The answer is 64 stickers in every one of the books.", "64"),
        ("The answer is $5$. I hope the answer is correct.", "5"),
        ("The answer is Marta.", "Marta"),
        ("Answer: s - t", "s-t"),
        ("#### 70", "70"),
        ("#### Step 2: compute", None),
        ("4r^6", "4r^6"),
        ("2k", "2k"),
        ("2√13", r"2\sqrt{13}"),
        ("so the value of $x$ is 5.", None, "5"),
        ("so it is $\\sqrt{5}$ in all", None, r"\sqrt{5}"),
        ("She has 5", None, "5"),
        ("A train leaves", None),
        ("", None),
    ],
}


@pytest.mark.parametrize(("text", "reading"), rows(EXPRESSIONS))
def test_expression_is_read_as_stated_or_not_at_all(text, reading):
    assert read_answer("math", text) == reading


# ---------------------------------------------------------------- equality

EQUAL = {
    "number": [
        ("$35.00", "35"),
        ("4.0", "4"),
        ("50$", "50"),
        ("29.000", "29"),
        ("28%", "28"),
        (r"28\%", "28"),
        ("28 percent", "28"),
        ("8 (6/19)", "158/19"),
        ("58.19e-6", r"5.819\times10^{-5}"),
        ("5.819 x 10^-5", "5.819e-05"),
        ("1e22", "10^22"),
        (r"\frac{3}{4}", "0.75"),
        ("9 1/2", "9.5"),
        ("1/3", "2/6"),
        ("51.0", "51"),
        ("64 stickers", "64"),
        ("\u22125", "-5"),
        ("1e5000", "10e4999"),
        ("1/" + "8" + "0" * 600, "0." + "0" * 600 + "125"),
        ("9" * 5000, "9" * 5000 + ".0"),
        ("9" * 5000 + "/" + "9" * 5000, "1"),
    ],
    "numbers": [
        ("0,1", "(0,1)"),
        ("0, 1", "(0,1)"),
        ("0,1", "0, 1"),
        ("27, 93", "93, 27"),
        ("x = 27, y = 93", "27 and 93"),
        ("3/4, 2", "2, 0.75"),
        ("115,000", "115000"),
        ("12,34", "12, 34"),
        ("15.0", "15"),
        ("2, 2, 3", "3, 2, 2"),
    ],
    "choice": [("C", "C"), ("(b)", "B"), ("**D**", "D"), ("option A", "a"), ("E.", "E")],
    "math": [
        (r"\frac{3}{4}", "0.75"),
        (r"\frac{3}{4}", "3/4"),
        (r"\text{13}", "13"),
        ("0,1", "(0,1)"),
        ("0, 1", "(0,1)"),
        (r"28\%", "28"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        ("(a+4)(b+3)", "(b+3)(a+4)"),
        ("1.5x", r"\frac{3}{2}x"),
        ("0.1+0.2", "0.3"),
        (r"2\sqrt{13}", r"\sqrt{52}"),
        (r"13\sqrt2", r"13 \sqrt{2}"),
        (r"1-\sin^2 x", r"\cos^2 x"),
        ("x=5", "5"),
        (r"x \in [-3,8]", "[-3,8]"),
        ("[-3,8]", r"-3 \le x \le 8"),
        ("y=2x+3", "y-2x=3"),
        ("f(x)=2x", "2x"),
        ("1,-2", "-2,1"),
        (r"\{3\pm\sqrt{7},-4\}", r"-4, 3+\sqrt7, 3-\sqrt7"),
        (r"2 \pm \sqrt{23}", r"2-\sqrt{23}, 2+\sqrt{23}"),
        (r"(3,14) \cup (14,205)", r"(14,205)\cup (3,14)"),
        (r"\begin{pmatrix} -1/7 \\ 3/7 \end{pmatrix}", r"\begin{bmatrix} -\frac17 \\ \frac37\end{bmatrix}"),
        (r"\text{(C)}", "C"),
        (r"\text{No solution}", "no solution"),
        ("43_{8}", "43_8"),
        (r"90^\circ", "90"),
        (r"10,\!060", "10060"),
        (r"\left[ \frac{\pi^2}{6}, 4 \right]", r"[\pi^2/6, 4]"),
        (r"x<2 \text{ or } x>3", "x > 3 or x < 2"),
        ("7-4i", "-4i+7"),
    ],
}

UNEQUAL = {
    "number": [
        ("29.5", "29"),
        ("0.28", "28%"),
        ("1/3", "0.3333"),
        ("12,34", "1234"),
        ("1,2,3", "123"),
        ("1e999999999", "1e999999998"),
        ("1e-999999999", "0"),
        ("3:30", "3.5"),
        ("3:30", "3:30 pm"),
        ("5", "-5"),
        ("9 1/2", "91/2"),
        ("9" * 5000, "9" * 4999 + "8"),
        ("abc", "abc"),
        ("", ""),
    ],
    "numbers": [
        ("27", "27, 93"),
        ("27, 93", "27, 93, 93"),
        ("0,1", "01"),
        ("0,1", "1"),
        ("12,34", "1234"),
        ("2, 2, 3", "2, 3, 3"),
    ],
    "choice": [("C", "D"), ("C or D", "C"), ("", ""), ("42", "42")],
    "math": [
        ("1/3", "0.3333"),
        (r"\sqrt{2}", "1.41421356237309504880"),
        (r"50\%", "0.5"),
        ("(1,-2)", "(-2,1)"),
        ("(3,4]", "(3,4)"),
        ("[0,1]", "0,1"),
        ("x=5", "y=5"),
        ("3x - 8y + 13z + 6 = 0", "0"),
        ("43_8", "43"),
        ("5t", "5"),
        ("east", "seat"),
        ("7-4i", "7+4i"),
        ("s-t", "t-s"),
        ("(3,14) \\cup (14,205)", "(3,205)"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"1+10^{-30}\pi", "1"),
        ("3,11,33", "31133"),
        ("", ""),
    ],
}


def pairs(table: dict[str, list[tuple[str, str]]]) -> list:
    return [
        pytest.param(kind, *pair, id=f"{kind}-{pair[0][:20]!a}-{pair[1][:20]!a}")
        for kind, lines in table.items()
        for pair in lines
    ]


@pytest.mark.parametrize(("kind", "one", "other"), pairs(EQUAL))
def test_equal_answers_are_equal_both_ways(kind, one, other):
    assert equal_answers(kind, one, other)
    assert equal_answers(kind, other, one)


@pytest.mark.parametrize(("kind", "one", "other"), pairs(UNEQUAL))
def test_different_answers_are_unequal_both_ways(kind, one, other):
    assert not equal_answers(kind, one, other)
    assert not equal_answers(kind, other, one)


@pytest.mark.parametrize("kind", KINDS)
def test_unread_answer_equals_nothing(kind):
    assert not equal_answers(kind, None, "1")
    assert not equal_answers(kind, "1", None)
    assert not equal_answers(kind, None, None)


def test_case_b34_four_forms_are_one_value():
    forms = ("58.19e-6", "5.819 x 10^-5", r"5.819\times10^{-5}", "5.819e-05")
    assert {read_answer("number", form).strict for form in forms} == {"0.00005819"}


# ---------------------------------------------------------------- the next question: B35


def test_cut_leaves_texts_without_a_next_question_as_they_are():
    for text in ("", "Question: only this?", "\n\nQ: first\n5", "no question here", "a Question: inside\na line"):
        assert cut_at_next_question(text) == text


def test_cut_of_a_text_that_arrives_in_parts_is_the_cut_of_the_whole():
    text = "#### 70\n\nQuestion: A car has 4 wheels. How many have 2?\nAnswer: 8"
    kept = cut_at_next_question(text)
    assert kept == "#### 70\n\n"
    for length in range(len(text)):
        # A marker that is split over two parts cuts as soon as it is complete, and at the same place.
        part = cut_at_next_question(text[:length])
        assert part == kept or part == text[:length]


@pytest.mark.parametrize(
    "marker",
    ["Question:", "Q:", "Q2:", "Question 3.", "**Question:**", "### Question", "Problem 2:", "Exercise:", "Human:"]
    + ["## Instruction:", "> Question:", "  Q :", "USER:", "Question #4)"],
)
def test_cut_is_made_at_every_usual_marker_at_a_line_start(marker):
    assert cut_at_next_question(f"It is 5.\n{marker}\nHow many?") == "It is 5.\n"
    assert cut_at_next_question(f"It is 5, {marker} How many?") == f"It is 5, {marker} How many?"


# ---------------------------------------------------------------- bad input


def test_unknown_kind_is_an_input_error_that_names_the_kinds():
    for call in (lambda: read_answer("integer", "5"), lambda: equal_answers("integer", "5", "5")):
        with pytest.raises(InputError, match="`kind` must be one of number, numbers, math, choice; got 'integer'."):
            call()


@pytest.mark.parametrize("options", ["", "AA", "abc", "A1", "ÄB"])
def test_bad_options_are_an_input_error(options):
    with pytest.raises(InputError, match="`options` must be distinct capital letters"):
        read_answer("choice", "A", options=options)


def test_math_without_math_verify_names_the_remedy_and_numbers_need_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    equality._math_verify.cache_clear()
    try:
        assert equal_answers("math", r"\frac{1}{2}", "0.5")
        with pytest.raises(InputError, match="needs a package more: pip install math-verify"):
            equal_answers("math", r"\sqrt{4}", "2")
    finally:
        equality._math_verify.cache_clear()


# ---------------------------------------------------------------- hostile input

HOSTILE = [
    "9" * 100_000,
    "1," * 50_000,
    "1,000," * 16_000,
    "1/" * 50_000,
    "1 1/2 " * 16_000,
    "x = 1, " * 14_000,
    "\\boxed{" * 14_000,
    "\\boxed{" * 7_000 + "}" * 7_000,
    "\\frac{" * 16_000,
    "\\frac{" + "9" * 100_000,
    "\\" * 100_000,
    "\\(" * 50_000,
    "$" * 100_000,
    "answer " * 14_000,
    "The answer is " * 7_000,
    "####" * 25_000,
    " " * 100_000,
    "5" + " " * 100_000 + "x",
    "a" * 100_000,
    "A) " * 33_000,
    "\n" * 100_000,
    "\nQ: " * 25_000,
    "^2" * 50_000,
    "−" * 100_000,
    "\0" * 100_000,
]


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=[f"{text[:12]!a}" for text in HOSTILE])
def test_long_text_is_read_in_time(text):
    # The suite's time limit would end a pattern that tries all splits of 100,000 characters.
    for kind in KINDS:
        assert isinstance(read_answer(kind, text), Reading)


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "1" * 5000 + ".5", "1e999999999", "1e-999999999", "1e5000"])
def test_huge_number_is_its_own_canonical_form(number):
    for kind in ("number", "numbers", "math"):
        assert read_answer(kind, number) == (number, number)
        assert equal_answers(kind, number, number)


def test_number_beyond_all_bounds_is_not_read():
    assert read_answer("number", "1e" + "9" * 30) == (None, None)
    assert read_answer("number", "1/" + "7" * 20_000) == (None, None)
    assert read_answer("number", "1e" + "0" * 5000 + "2").strict == "100"


UNBOUNDED = [
    r"9^{9^{9^{9}}}",
    r"(10^{50})^{9999}",
    r"(x+y)^{9999}",
    r"(99999999)!",
    r"((9!)!)!",
    r"\binom{1000000}{500000}",
    r"\sum_{k=1}^{10^9}k",
    r"(1000000)_{5}",
    r"e^{e^{e^{9}}}",
    "{" * 150 + "x" + "}" * 150,
    "x^{" * 90 + "x" + "}" * 90,
    "x+" * 300 + "x",
    r"\tan(\tan(\tan(x^{9}+1)))",
]


@pytest.mark.parametrize("expression", UNBOUNDED, ids=[text[:20] for text in UNBOUNDED])
def test_expression_that_grows_without_bounds_is_unequal_to_others_and_equal_to_itself(expression):
    assert not equal_answers("math", expression, "x^2+1")
    assert equal_answers("math", expression, expression)


def test_comparison_out_of_budget_is_not_shown_equal_and_leaves_no_trace(monkeypatch):
    equal = (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}")
    assert equal_answers("math", *equal)
    monkeypatch.setattr(equality, "CALL_BUDGET", 100)
    assert not equal_answers("math", *equal)
    assert sys.getprofile() is None
    monkeypatch.undo()
    assert equal_answers("math", *equal)


def test_comparison_under_a_profiler_leaves_the_profiler_in_place():
    calls = []

    def count(frame, event, argument):
        calls.append(event)

    sys.setprofile(count)
    try:
        assert equal_answers("math", "x+1", "1+x")
        assert sys.getprofile() is count
    finally:
        sys.setprofile(None)
    assert calls


def test_comparison_works_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(equal_answers("math", "(x+1)^2", "x^2+2x+1")))
    thread.start()
    thread.join()
    assert results == [True]


def test_nothing_from_a_text_is_evaluated(monkeypatch):
    equal_answers("math", "x+1", "1+x")  # what importing sympy evaluates is not from a text

    def refuse(*args, **kwargs):
        raise AssertionError("a text was evaluated")

    monkeypatch.setattr(builtins, "eval", refuse)
    monkeypatch.setattr(builtins, "exec", refuse)
    for text in ("__import__('os').abort()", "9**9", "[x for x in (1,2)]", r"\sqrt{2}+x", "(1+1)x", "1+1"):
        for kind in KINDS:
            read_answer(kind, text)
            equal_answers(kind, text, "(2+0)x")


# ---------------------------------------------------------------- properties

PIECES = (
    "0 1 7 12 34 000 3.5 .5 1,000 12,34 1/2 3/4 1/0 - − + , . ; ( ) [ ] { } = < ^ ^2 _8 ! % $ : e5 ×10^5 10^22 ½ ² 3:30"
    r" \{ \} \frac{1}{2} \frac12 \sqrt{2} \pi \pm \cup \in x A B a I \text{a} \boxed{ \boxed{6} \fbox{5} #### \left("
    r" \$ \! \, answer Answer: and or not because million feet option pm è ٣ １ ∞ √5 \( \) \\ & * ** ` ~ ' Question:"
).split()
texts = st.lists(st.sampled_from([*PIECES, " ", " ", "\n", "The answer is ", "\0", "\ud800"]), max_size=9).map("".join)


@settings(max_examples=400, deadline=None)
@given(texts | st.text(max_size=40))
@example("1,0000.\\overline{6}0.\\overline{6}")
def test_reading_never_fails_and_is_its_own_canonical_form(text):
    for kind in KINDS:
        reading = read_answer(kind, text)
        assert "" not in reading
        assert reading.strict is None or reading.strict == reading.flexible
        if kind != "math" and reading.flexible is not None:
            assert read_answer(kind, reading.flexible).strict == reading.flexible
            assert equal_answers(kind, reading.flexible, reading.flexible)


atoms = st.sampled_from(
    ["2", "-3", "1/2", "0.25", "1{,}000", r"\frac{3}{4}", r"\sqrt{2}", r"2\pi", "x", "x+1", r"\infty"]
)
lists = st.lists(atoms, min_size=2, max_size=3).map(", ".join)
latex = (
    atoms | lists | lists.map(lambda inner: f"({inner})") | lists.map(r"\{{{}\}}".format) | atoms.map("x = {}".format)
)


@settings(max_examples=150, deadline=None)
@given(latex)
def test_canonical_expression_is_its_own_canonical_form(text):
    canonical = read_answer("math", text).strict
    assert canonical is not None
    assert read_answer("math", canonical) == (canonical, canonical)
    assert equal_answers("math", text, canonical)


@settings(max_examples=40, deadline=None)
@given(latex, latex)
def test_equality_of_expressions_is_symmetric(one, other):
    assert equal_answers("math", one, other) == equal_answers("math", other, one)


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.integers(-30, 30))
def test_every_fraction_and_power_is_read_exactly(value, exponent):
    assert equal_answers("number", f"{value.numerator}/{value.denominator}", str(value))
    assert equal_answers("number", f"{value.numerator}e{exponent}", str(value.numerator * Fraction(10) ** exponent))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**15), st.decimals(0, 1, places=3, allow_nan=False))
def test_grouped_number_is_read_as_the_number(whole, part):
    text = f"{whole:,}{str(part)[1:]}" if part < 1 else f"{whole:,}"
    plain_text = text.replace(",", "")
    for spelling in (
        text,
        f"${text}",
        text.replace(",", "{,}"),
        f"The answer is {text}.",
        f"#### {text}",
        f"{text} kg",
    ):
        assert equal_answers("number", read_answer("number", spelling).strict, plain_text)


# ---------------------------------------------------------------- the examples in docstrings


def test_docstring_examples_hold():
    for module in (delcore.answers, choices, equality, expressions, numbers, plain, statements, written):
        assert doctest.testmod(module).failed == 0


# ---------------------------------------------------------------- the public test sets


def load_benchmark(name: str) -> list[dict]:
    folder = os.environ.get("DELCORE_BENCHMARKS")
    if not folder:
        pytest.skip("DELCORE_BENCHMARKS is not set")
    text = (Path(folder) / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def assert_all_read(kind: str, texts_and_golds: list[tuple[str, str]], **options) -> None:
    wrong = [
        (text[-80:], gold)
        for text, gold in texts_and_golds
        if not equal_answers(kind, read_answer(kind, text, **options).strict, gold)
    ]
    assert wrong == []


def assert_neighbours_differ(kind: str, golds: list[str]) -> None:
    clashes = [(a, b) for a, b in zip(golds, golds[1:], strict=False) if a != b and equal_answers(kind, a, b)]
    assert clashes == []


@pytest.mark.parametrize("kind", ["number", "numbers"])
@pytest.mark.parametrize("name", ["gsm8k_test.jsonl", pytest.param("gsm8k_train.jsonl", marks=pytest.mark.slow)])
def test_gsm8k_solutions_are_read_as_their_gold(name, kind):
    solutions = [row["answer"] for row in load_benchmark(name)]
    golds = [solution.rsplit("####", 1)[1].strip() for solution in solutions]
    assert_all_read(kind, list(zip(solutions, golds, strict=True)))
    assert_neighbours_differ(kind, golds)


def test_svamp_golds_are_read_alone_and_stated():
    golds = [str(row["Answer"]) for row in load_benchmark("svamp.json")]
    assert_all_read("number", [(gold, gold) for gold in golds])
    assert_all_read("number", [(f"The answer is {float(gold):,.2f} of them.", gold) for gold in golds])
    assert_neighbours_differ("number", golds)


def test_simuleq_golds_are_read_alone_stated_and_within_a_pair():
    golds = [row["answer"] for row in load_benchmark("simuleq.json")]
    assert_all_read("numbers", [(gold, gold) for gold in golds])
    assert_all_read("numbers", [(f"So the answer is {gold}.", gold) for gold in golds])
    assert_all_read("numbers", [(f"The answer is x = {gold} and y = 1/7.", f"1/7, {gold}") for gold in golds])
    assert_neighbours_differ("numbers", golds)


WAYS = (
    ["{}", "({})", "{}.", "{})", "**{}**", "The answer is {}.", "Answer: {}", "ANSWER : {}", "Option {}"]
    + ["The correct answer is option ({}).", "I would go with {} - a safe bet.", "#### {}", "$\\boxed{{{}}}$"]
    + ["\\boxed{{\\text{{({})}}}}", "So ({}) is correct answer.", "{} is the correct choice", "So it is ({})."]
    + ["The answer is {} because a train stops there.", "The answer is {}. A is a distractor."]
    + ["I think it is {}, as I said.", "A line, a point.\n\nFinal Answer:\n{}", "Therefore, the correct option is {}"]
)


@pytest.mark.parametrize(
    ("name", "options"), [("aqua.jsonl", "ABCDE"), ("sat.json", "ABCD"), ("mmlu_mathematics.json", "ABCD")]
)
def test_gold_options_are_read_however_written(name, options):
    rows = load_benchmark(name)
    golds = [row["correct"] if name.startswith("aqua") else row["answer"] for row in rows]
    golds = [options[gold] if isinstance(gold, int) else gold for gold in golds]
    assert_all_read("choice", [(way.format(gold), gold) for gold in golds for way in WAYS], options=options)
    assert_neighbours_differ("choice", golds)


def test_aqua_rationales_are_read_right_or_not_at_all():
    rows = load_benchmark("aqua.jsonl")
    readings = [(read_answer("choice", row["rationale"]).strict, row["correct"]) for row in rows]
    assert all(strict in (None, gold) for strict, gold in readings)
    # The others of the 254 name no option, or name it in passing.
    assert sum(strict is not None for strict, _ in readings) >= 237


def math_golds() -> list[tuple[str, str]]:
    solutions = [row["answer"] for row in load_benchmark("math500.jsonl")]
    return [(solution, solution.rsplit("The answer is:", 1)[1].strip()) for solution in solutions]


def test_math500_solutions_are_read_as_their_gold_by_box_and_by_statement():
    texts_and_golds = math_golds()
    boxed = [(solution.rsplit("The answer is:", 1)[0], gold) for solution, gold in texts_and_golds]
    stated = [(f"The answer is: {gold}.", gold) for _, gold in texts_and_golds]
    for version in (texts_and_golds, boxed, stated):
        assert_all_read("math", version)


@pytest.mark.slow
def test_math500_golds_differ_from_their_neighbours():
    golds = [gold for _, gold in math_golds()]
    # "5" and "x=5" stand side by side, and are one answer.
    assert_neighbours_differ("math", [gold.removeprefix("x=") for gold in golds])
