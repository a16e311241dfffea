"""The numbers of a page as a short script that makes them again; tests run what is written here.

Every text goes in through `repr`, so that no prompt or name can become code.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def explore_code(
    prompt: str,
    continuation: str,
    position: int,
    shown: Sequence[str],
    others: Mapping[str, str],
    context: str | None,
    temperature: float,
) -> str:
    """What Explore shows of one position.

    Args:
        prompt: as asked.
        continuation: what a model wrote after it.
        position: index in the record.
        shown: members of the embedded family.
        others: title to name of other models.
        context: the text that precedes the position, for the other models.
        temperature: of the softmax.
    """
    lines = [
        "from delcore import load_model",
        "from delcore.analysis import entropy_nats, temper_law",
        "from delcore.probe import probe",
        "",
        f"family = {{name: load_model(f'embedded:{{name}}') for name in {list(shown)!r}}}",
        f"record = probe({prompt!r}, family, all_positions=True, continuation={continuation!r})",
        f"models = record['positions'][{position}]['models']",
    ]
    for title, name in others.items() if context else ():
        asked = f"probe({context!r}, {{'other': load_model({name!r})}})"
        lines.append(f"models[{title!r}] = {asked}['positions'][-1]['models']['other']")
    lines += [
        "for name, said in models.items():",
        f"    p = temper_law(said['probabilities'], {temperature!r})",
        "    print(name, f'{entropy_nats(p):.4f} nats', [round(x, 4) for x in p])",
    ]
    return "\n".join(lines) + "\n"


def lab_code(
    law: Sequence[float],
    predicted: Sequence[float],
    true_digit: int | Sequence[float],
    settings: Mapping[str, Mapping[str, Any]],
    digit_mass: float,
) -> str:
    """Value, gradient and equilibrium of every loss."""
    lines = [
        "from delcore import equilibrium",
        "from delcore.analysis import measure_loss_at",
        "",
        f"law = {_list(law)}",
        f"predicted = {_list(predicted)}",
        f"true_digit = {true_digit if isinstance(true_digit, int) else 'law'}",
        "settings = {",
        *(f"    {name!r}: {dict(chosen)!r}," for name, chosen in settings.items()),
        "}",
        "for name, chosen in settings.items():",
        f"    here = measure_loss_at(name, predicted, true_digit, digit_mass={digit_mass!r}, **chosen)",
        "    there = equilibrium(name, law, **chosen)",
        "    print(name, f'value {here.value:.4f}, equilibrium {there.entropy_nats:.4f} nats')",
    ]
    return "\n".join(lines) + "\n"


def numbers_code(text: str, names: Sequence[str]) -> str:
    """How some tokenizers cut a text, and the weights of its digits."""
    return (
        "from delcore.analysis import read_numbers\n"
        "from delcore.models import load_tokenizer\n\n"
        f"for name in {list(names)!r}:\n"
        f"    reading = read_numbers(load_tokenizer(name), {text!r})\n"
        "    print(name, reading.values)\n"
        "    for token in reading.tokens:\n"
        "        print(token.index, repr(token.text), token.place, token.weights, token.note)\n"
    )


def _list(values: Sequence[float]) -> str:
    return f"[{', '.join(f'{value!r}' for value in values)}]"
