"""Prompts with a story: what each one shows, in one sentence."""

from typing import NamedTuple


class Example(NamedTuple):
    """A prompt, and what to look at in its picture."""

    prompt: str
    story: str


EXAMPLES = {
    "noisy reading": Example(
        "sensor B reads ",
        "The reading is drawn from a law that is known (level lines): bars above the line at 7 are over-sharp.",
    ),
    "second digit": Example(
        "gauge G shows 7",
        "The second digit has a law with two peaks: look whether both stand as high as the lines.",
    ),
    "easy sum": Example(
        "12 + 35 = ",
        "Every model is sure of the 4: only DIST2Loss keeps some probability for its neighbours, as its target asks.",
    ),
    "carry": Example(
        "58 + 67 = ",
        "The sum has one digit more than its parts: the models must see the carry before they write anything.",
    ),
    "decimal": Example(
        "1.4 + 2.9 = 4.",
        "The next digit is a tenth, which DEL weighs 0.961, less than half of a unit digit's 2.",
    ),
    "year": Example(
        "In the year 20",
        "A digit that names something: none is nearer to the truth than another. Compare how flat each model stays.",
    ),
    "near miss": Example(
        "99 + 1 = ",
        "No sum of the training has so short an operand: most models are sure of a wrong digit, and DEL expects none.",
    ),
    "code literal": Example(
        "timeout = 30",
        "Look at the digit mass: next to nothing of the softmax is on digits, so the bars tell of very little.",
    ),
    "word problem": Example(
        "Ada has 23 apples and finds 45 more. Now Ada has ",
        "The sum is hidden in a sentence; the tens digit is right without a plus sign in sight.",
    ),
    "copy an id": Example(
        "order 40817 ships as order ",
        "A digit to copy: distance means nothing here, yet DIST2Loss spreads to the neighbours of the 4 all the same.",
    ),
}
"""The first one is what the page opens with."""

STORIES = {example.prompt: example.story for example in EXAMPLES.values()}
