"""What stands beside the verdicts of the claims that take training: other losses, real models' answers, budgets."""

from collections.abc import Mapping
from typing import Any

from delcore._panels import look_of
from delcore.benchmarks.tasks import TASKS
from delcore.intervals import Interval
from delcore.studies.evidence import (
    Evidence,
    Runs,
    budget,
    change,
    interval_text,
    interval_texts,
    runs_of,
    value_of,
)
from delcore.studies.stored import SOLVED
from delcore.studies.trained_claims import GAP, LAWFUL, below_the_ceiling, judged_groups


def beside_bias(evidence: Evidence) -> str:
    """MixCE and EMO, which have no α, and the budget."""
    runs = runs_of(evidence, "losses")
    moved = [f"{look_of(name).title} {interval_text(change(runs, name, LAWFUL, GAP))}" for name in ("mixce", "emo")]
    return f"beside, less MLE's: {', '.join(moved)} [nats; {_budgets(evidence)}]"


def beside_gentle(evidence: Evidence) -> str:
    """DEL's own changes by place, then as `beside_bias`."""
    groups = {"before the point (α 0.1, u 2, 4, 6)": "reading integers", "behind it (u 0.96, 0.94)": "reading decimals"}
    own = [
        f"{where} {interval_text(change(runs_of(evidence, 'losses'), 'del', [group], GAP))}"
        for where, group in groups.items()
    ]
    return f"DEL's change {', '.join(own)}; {beside_bias(evidence)}"


def beside_accuracy(evidence: Evidence) -> str:
    """The shares themselves, SmolLM2's answers, and the budget."""
    runs = runs_of(evidence, "losses")
    return (
        f"DEL answers exactly: {_exact_shares(runs)}; right answers of SmolLM2 under DEL less under MLE: "
        f"{_right_answers(evidence)} [at our scale only; {_budgets(evidence)}]"
    )


def _right_answers(evidence: Evidence) -> str:
    answers = evidence.studies["smollm2"]["answers"]
    changes = [Interval(**models["del"]["change_to_mle"]["difference"]) for models in answers.values()]
    told = zip(answers, interval_texts(changes), strict=True)
    text = ", ".join(f"{TASKS[task].title} {change}" for task, change in told)
    return f"{text}{_about_form(answers['sat']) if 'sat' in answers else ''}"


def _about_form(models: Mapping[str, Any]) -> str:
    """SAT-Math asks for an option, and the adapters learned on GSM8K to end with a number."""
    unread = {name: f"{100 * models[name]['unread']['mean']:.0f} %" for name in ("del", "mle")}
    return (
        f" ({TASKS['sat'].title}'s is about form: the adapters, trained on GSM8K, end with a number where an option is "
        f"asked for; {unread['del']} of DEL's and {unread['mle']} of MLE's answers name none)"
    )


def _exact_shares(runs: Runs) -> str:
    """How many of each group DEL answers exactly, as a mean over seeds, and where every run answers all."""
    own = {group: value_of(runs, "del", [group], "exact_match") for group in SOLVED}
    told = {group: f"{group} {sum(values.values()) / len(values):.3f}" for group, values in own.items()}
    for group in set(SOLVED) - set(judged_groups(runs)):
        told[group] += " (as every run: a ceiling, not judged)"
    return ", ".join(told.values())


def beside_distance(evidence: Evidence) -> str:
    """NTL-WAS, which has the distance in it, the errors of SmolLM2's final answers, and the budget."""
    runs = runs_of(evidence, "losses")
    texts = interval_texts([change(runs, "ntl_was", [group], "distance") for group in SOLVED])
    theirs = ", ".join(f"{group} {text}" for group, text in zip(SOLVED, texts, strict=True))
    return (
        f"beside, NTL-WAS: {theirs}; final answers of SmolLM2, log10(1 + abs error) less MLE's: "
        f"{_final_answers(evidence)} [digits; at our scale only; α 0.1; {_budgets(evidence)}]"
    )


def _final_answers(evidence: Evidence) -> str:
    """DEL's, and those of the model before any fine-tuning, on each benchmark that is answered with a number."""
    told = []
    for task, models in evidence.studies["smollm2"]["answers"].items():
        stored = {
            "DEL": models["del"]["log_error_change_to_mle"],
            "the base": models["base"]["log_error_change_to_mle"],
        }
        found = {name: Interval(**change) for name, change in stored.items() if change}
        texts = zip(found, interval_texts([*found.values()]), strict=True)
        told += [f"{TASKS[task].title} {', '.join(f'{name} {text}' for name, text in texts)}"] * bool(found)
    return "; ".join(told)


def beside_weights(evidence: Evidence) -> str:
    """What could not be judged of the place weights, then as `beside_ablations`."""
    judged = "decimals" in below_the_ceiling(runs_of(evidence, "ablations"))
    return ("" if judged else "decimals most: not judged, ceiling; ") + beside_ablations(evidence)


def beside_ablations(evidence: Evidence) -> str:
    """How much exact match there is to win, how hard each variant pulls, and the budget."""
    study, runs = evidence.studies["ablations"], runs_of(evidence, "ablations")
    names = ("del", "del-distance-l1", "del-place-none", "del-place-integer")
    pulls = {one["name"]: one["pull"] for one in study["variants"]}
    pulled = ", ".join(f"{name} {pulls[name]:.3g}" for name in names)
    own = f"exact match of DEL: {_exact_shares(runs)}"
    return f"{own}; strengths not matched, pull at the base: {pulled} [{budget(study)}]"


def _budgets(evidence: Evidence) -> str:
    smollm2 = evidence.studies["smollm2"]
    settings = smollm2["run"]["settings"]
    return (
        f"{budget(evidence.studies['losses'])}; SmolLM2-135M one seed, {settings['steps']} steps of "
        f"{settings['batch_size']}, interval over {smollm2['items']} answers"
    )
