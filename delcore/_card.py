"""The card of the embedded family as Markdown, made from the numbers of card.json alone."""

from collections.abc import Sequence
from typing import Any

from delcore.arithmetic import READINGS

ENOUGH = 0.7
"""Share of the way from the base's entropy to the equilibrium that a model is meant to cover."""

TOO_FAR = 1.5
"""A share above this is remarked on."""

SMALLEST_WAY_NATS = 0.02
"""A way shorter than this is not worth a share: the base's own error is of that size."""


def format_card(card: dict[str, Any]) -> str:
    """The card as Markdown: how the family was made, and what was measured on the shipped files."""
    base, tune, models = card["base"], card["tune"], card["models"]
    lines = [
        "# The embedded family",
        "",
        "Eight Llama models of 886,272 parameters over bytes: a base, and one copy of it fine-tuned with each loss.",
        "They exist so that everything works without a download, and know nothing but the generated text of",
        "`delcore/arithmetic.py`. Made by, and remade with (about two hours on two CPU cores):",
        "",
        f"    {card['command']}",
        "",
        f"Base: {base['steps']:,} steps of {base['batch_size']} samples, learning rate {base['learning_rate']:g}, "
        f"every token learned. Fine-tuning: {tune['steps']:,} steps of {tune['batch_size']}, learning rate "
        f"{tune['learning_rate']:g}, responses only, default α, the same samples in the same order. One seed.",
        "",
        "## Held-out problems",
        "",
        "Exact match of the greedy answer; digits under teacher forcing. No training sample states these problems; "
        "most sums may have been trained with their operands swapped, and *either way* counts those that were not.",
        "",
        *_problem_table(models),
        "",
        f"n: {_counts(models['base'])}; {models['base']['digits']['count']:,} digits."
        + _repeats(models["base"]["exact_match"], card["distinct"]),
        "",
        "## Readings of a known law",
        "",
        f"Mean over the {len(models['base']['readings'])} digits of {len(READINGS)} instruments, in nats. *Gap* is the "
        "model's entropy less the law's: negative is over-sharp, positive over-flat. *Covered* is the share of the way "
        "from the base's entropy to the loss's equilibrium, computed with "
        f"α · {card['tokens_per_digit']:.3f} (supervised tokens per digit) and, for DEL, the weight u of each place: "
        "2, 4, 6 for units, tens, hundreds, 0.961 and 0.942 behind the point.",
        "",
        *_reading_table(models),
        "",
        _verdict(models),
        "",
    ]
    return "\n".join(lines)


def _problem_table(models: dict[str, Any]) -> list[str]:
    kinds = list(models["base"]["exact_match"])
    head = ["model", *kinds, "digit accuracy", "digit entropy (nats)", "digit mass", "abs(E[k] − c)"]
    rows = []
    for name, facts in models.items():
        exact = [match["correct"] / match["count"] for match in facts["exact_match"].values()]
        d = facts["digits"]
        numbers = [f"{d['accuracy']:.1%}", f"{d['entropy_nats']:.3f}", f"{d['mass']:.4f}"]
        rows.append([name, *(f"{share:.1%}" for share in exact), *numbers, f"{d['expected_digit_error']:.3f}"])
    return _table(head, rows)


def _reading_table(models: dict[str, Any]) -> list[str]:
    head = ["model", "entropy", "gap to the law", "KL(law, model)", "digit mass", "equilibrium", "covered"]
    rows = []
    for name, facts in models.items():
        readings, way = facts["readings"], facts["equilibrium"]
        mean = {
            key: sum(r[key] for r in readings) / len(readings)
            for key in ("entropy_nats", "law_entropy_nats", "kl_nats", "mass")
        }
        share = "–" if way is None or way["share_covered"] is None else f"{way['share_covered']:.0%}"
        target = "–" if way is None else f"{way['equilibrium_entropy_nats']:.4f}"
        gap = f"{mean['entropy_nats'] - mean['law_entropy_nats']:+.4f}"
        numbers = [f"{mean['entropy_nats']:.4f}", gap, f"{mean['kl_nats']:.4f}", f"{mean['mass']:.4f}"]
        rows.append([name, *numbers, target, share])
    return _table(head, rows)


def _counts(facts: dict[str, Any]) -> str:
    return ", ".join(f"{match['count']} {kind}" for kind, match in facts["exact_match"].items())


def _repeats(exact: dict[str, Any], distinct: dict[str, int]) -> str:
    """What is to be said where some problems were asked more than once."""
    fewer = [f"{n} for {kind}" for kind, n in distinct.items() if n < exact[kind]["count"]]
    if not fewer:
        return ""
    return f" Drawn with replacement, so some problems were asked again; different ones: {', '.join(fewer)}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _verdict(models: dict[str, Any]) -> str:
    ways = {name: facts["equilibrium"] for name, facts in models.items() if facts["equilibrium"]}
    unbiased = [name for name, way in ways.items() if way["share_covered"] is None]
    short = [n for n, way in ways.items() if way["share_covered"] is not None and way["share_covered"] < ENOUGH]
    text = f"Meant to be covered: {ENOUGH:.0%}. " + (f"Not reached by {', '.join(short)}." if short else "All did.")
    if unbiased:
        text += (
            f" For {', '.join(unbiased)} the equilibrium lies within {SMALLEST_WAY_NATS} nats of the base, "
            "so there is no way to cover; the gap says how near they stayed."
        )
    return text + _far(ways, models)


def _far(ways: dict[str, Any], models: dict[str, Any]) -> str:
    """What is to be said of models that went well beyond their equilibrium."""
    told = ""
    for name, way in ways.items():
        if way["share_covered"] is None or way["share_covered"] < TOO_FAR:
            continue
        told += f" {name} went beyond its equilibrium"
        if way["equilibrium_level"] is not None:
            readings = models[name]["readings"]
            mass = sum(r["mass"] for r in readings) / len(readings)
            told += (
                f", and has not settled: it also lowers all ten digit logits together, whose log-sum went from "
                f"{way['base_level']:.2f} to {way['level']:.2f} and would come to rest at "
                f"{way['equilibrium_level']:.2f}; the digit mass is down to {mass:.3f}"
            )
        told += "."
    return told
