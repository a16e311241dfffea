"""Many runs, one table: every loss with every seed, compared in pairs.

    delcore sweep --losses all --seeds 3 --steps 300 --out runs/sweep

Each run is a folder of its own, LOSS-SEED, and is resumed or passed over when the command is given again. All losses
see the same samples in the same order under one seed, so a difference between two losses is taken seed by seed.
"""

import csv
import dataclasses
import functools
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delcore.adapters import read_record
from delcore.checkpoints import write_json, write_whole
from delcore.config import TrainConfig, process_rank
from delcore.errors import InputError
from delcore.intervals import Interval, t_interval
from delcore.losses import LOSSES, get_loss
from delcore.models import LoadedModel, load_model
from delcore.prepare import check_options, check_same_run, first_samples, identify, is_finished, load_data, settle
from delcore.run_logs import HELDOUT, TABLE, read_whole
from delcore.train import finetune_to_end

REFERENCE = "mle"
MEASURES = ("cross_entropy", "digit_entropy_nats", "digit_accuracy", "digit_mass")
"""Columns of heldout.jsonl that a table compares."""


@dataclass(frozen=True)
class Row:
    """One loss and one measure.

    Args:
        loss: key of `LOSSES`.
        measure: one of `MEASURES`.
        value: over the seeds.
        difference: to `mle` of the same seed, over the seeds; None for `mle` itself, or where it was not run.
    """

    loss: str
    measure: str
    value: Interval
    difference: Interval | None


def sweep(
    base: TrainConfig,
    losses: Sequence[str],
    seeds: Sequence[int],
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """Run what is missing, then write `table.json`, `table.csv` and `table.md` into `base.out`.

    Args:
        base: every setting but loss, seed and folder; its `out` holds the runs. Without `eval_every` the held-out
            samples are measured once, at the end. Its options go to the losses that take them.
        losses: keys of `LOSSES`.
        seeds: of the runs.
        progress: called with one line of text from time to time.

    Raises:
        InputError: no losses or seeds, an option that none of the losses takes, settings that no run can have, or a
            finished run that had others.
        StoppedError: a signal ended a run, and with it the sweep.
    """
    for name, some in {"losses": losses, "seeds": seeds}.items():
        if not some:
            raise InputError(f"`{name}` must not be empty.")
    progress = progress if process_rank() == 0 else None
    notes = deal_options(base.options, losses)
    finals: dict[str, dict[int, dict[str, float]]] = {loss: {} for loss in losses}
    configs = [run_config(base, loss, seed) for seed in seeds for loss in losses]
    for config in configs:
        check_options(config)
    if progress and notes:
        progress(" ".join(notes))
    load = functools.cache(lambda: load_model(base.model, trust_remote_code=base.trust_remote_code))
    for number, config in enumerate(configs, 1):
        if progress:
            progress(f"run {number} of {len(configs)}: {config.loss}, seed {config.seed}")
        finals[config.loss][config.seed] = finish_run(config, progress, load)
        rows = tabulate(finals)  # after every run, so that a sweep can be watched
        if process_rank() == 0:
            write_tables(base.out, rows)
    return rows


def deal_options(options: Mapping[str, Any], losses: Sequence[str]) -> list[str]:
    """What is to be said of options that only some of the losses take.

    Raises:
        InputError: none of them takes one.
    """
    told = []
    for name in options:
        takers = [loss for loss in losses if name in get_loss(loss).options]
        if not takers:
            known = sorted({option for loss in losses for option in get_loss(loss).options}) or ["no options"]
            hint = " The weight of the digit term is --alpha." if name == "alpha" else ""
            raise InputError(f"`--set` {name}: none of the losses takes it; they take {', '.join(known)}.{hint}")
        if len(takers) < len(losses):
            told.append(f"`{name}` is set for {', '.join(takers)}; the other losses do not take it.")
    return told


def run_config(base: TrainConfig, loss: str, seed: int) -> TrainConfig:
    """The configuration of one run of a sweep."""
    alpha = base.alpha if LOSSES[loss].alpha is not None else None
    return dataclasses.replace(
        base,
        loss=loss,
        seed=seed,
        alpha=alpha,
        options={name: value for name, value in base.options.items() if name in LOSSES[loss].options},
        out=base.out / f"{loss}-{seed}",
        eval_every=base.eval_every or base.steps,
        resume=True,
    )


def finished(config: TrainConfig, load: Callable[[], LoadedModel]) -> dict[str, float] | None:
    """The last held-out line of a run that is done, or None.

    Raises:
        InputError: it was done with other settings, weights or data.
    """
    record = finished_record(config, load)
    try:
        lines = (config.out / HELDOUT).read_text(encoding="utf-8").splitlines()
        last: dict[str, float] = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return None
    return last if record is not None and last["step"] == record["steps_done"] else None


def finished_record(config: TrainConfig, load: Callable[[], LoadedModel]) -> dict[str, Any] | None:
    """The record of a run that is done, or None.

    Raises:
        InputError: it was done with other settings, weights or data.
    """
    record = read_record(config.out)
    if record is None or not is_finished(record):
        return None
    _, tokenizer, card = load()
    samples, heldout = load_data(config, tokenizer)
    facts = identify(config, first_samples(config, samples), heldout, card)
    check_same_run(settle(config, samples, card), facts, record)
    return record


def finish_run(
    config: TrainConfig,
    progress: Callable[[str], None] | None = None,
    load: Callable[[], LoadedModel] | None = None,
) -> dict[str, float]:
    """The last held-out line of a run, which is trained or resumed unless it is done; it needs `eval_every`.

    Args:
        config: the run.
        progress: called with one line of text from time to time.
        load: gives the model to compare a finished run with; None for one that loads it here.

    Raises:
        InputError: settings that no run can have, or a folder with another run.
        StoppedError: the run was stopped.
    """
    load = load or (lambda: load_model(config.model, trust_remote_code=config.trust_remote_code))
    if (line := finished(config, load)) is not None:
        return line
    return finetune_to_end(config, progress).heldout[-1]


# ---------------------------------------------------------------- the table


def tabulate(finals: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[Row]:
    """Means and paired differences from the last held-out line of every run, by loss and seed."""
    rows = []
    for loss, by_seed in finals.items():
        for measure in MEASURES if by_seed else ():
            values = {seed: line[measure] for seed, line in by_seed.items() if line[measure] is not None}
            reference = {seed: line[measure] for seed, line in finals.get(REFERENCE, {}).items()}
            pairs = [value - reference[seed] for seed, value in values.items() if reference.get(seed) is not None]
            difference = t_interval(pairs) if pairs and loss != REFERENCE else None
            if values:
                rows.append(Row(loss, measure, t_interval(list(values.values())), difference))
    return rows


def write_tables(out: Path, rows: Sequence[Row]) -> None:
    """The rows as JSON, CSV and Markdown."""
    flat = [_flatten(row) for row in rows]
    write_json(out / TABLE, [dataclasses.asdict(row) for row in rows])
    write_whole(out / "table.md", format_rows(rows) + "\n")
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(flat[0]) if flat else [])
    writer.writeheader()
    writer.writerows(flat)
    write_whole(out / "table.csv", text.getvalue())


def read_table(out: Path) -> list[Row]:
    """The rows of a sweep that `write_tables` has written.

    Raises:
        InputError: there is no table, or a damaged one.
    """
    try:
        found = json.loads((out / TABLE).read_text(encoding="utf-8"), parse_int=read_whole)
        return [_read_row(row) for row in found]
    except FileNotFoundError:
        raise InputError(f"{out} holds no {TABLE}. Name the --out of a `delcore sweep`.") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{out / TABLE} cannot be read ({type(error).__name__}). Run the sweep again.") from None


def _read_row(row: Mapping[str, Any]) -> Row:
    loss, measure, difference = row["loss"], row["measure"], row["difference"]
    if not (isinstance(loss, str) and isinstance(measure, str)):
        raise TypeError("a row needs the names of its loss and its measure")
    return Row(loss, measure, _read_interval(row["value"]), _read_interval(difference) if difference else None)


def _read_interval(found: Mapping[str, Any]) -> Interval:
    one = Interval(**found)
    ends = [end for end in (one.low, one.high) if end is not None]
    if not all(isinstance(number, int | float) for number in (one.mean, one.count, *ends)):
        raise TypeError("an interval is made of numbers")
    return one


def _flatten(row: Row) -> dict[str, Any]:
    difference = dataclasses.asdict(row.difference) if row.difference else {}
    value = {f"value_{key}": one for key, one in dataclasses.asdict(row.value).items()}
    names = ("mean", "low", "high", "count")
    return {"loss": row.loss, "measure": row.measure, **value, **{f"difference_{n}": difference.get(n) for n in names}}


def format_rows(rows: Sequence[Row]) -> str:
    """A Markdown table: one line per loss, one column per measure, and its paired difference to `mle`."""
    lines = ["| loss | " + " | ".join(MEASURES) + " |", "|---" * (len(MEASURES) + 1) + "|"]
    by_loss: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_loss.setdefault(row.loss, {})[row.measure] = row
    for loss, cells in by_loss.items():
        shown = [_format_cell(cells[measure]) if measure in cells else "–" for measure in MEASURES]
        lines.append(f"| `{loss}` | " + " | ".join(shown) + " |")
    note = (
        f"Means over seeds on held-out samples with 95 % intervals; in brackets the paired difference to `{REFERENCE}`."
    )
    return "\n".join([*lines, "", note])


def _format_cell(row: Row) -> str:
    value = _format_interval(row.value, "")
    return value if row.difference is None else f"{value} ({_format_interval(row.difference, '+')})"


def _format_interval(one: Interval, sign: str) -> str:
    if one.low is None or one.high is None:
        return f"{one.mean:{sign}.4f}"
    return f"{one.mean:{sign}.4f} ± {(one.high - one.low) / 2:.4f}"


def parse_losses(text: str) -> list[str]:
    """Loss names from "all", or from names with commas."""
    names = [name for name in LOSSES if name != "del_released"] if text == "all" else text.split(",")
    if len(set(names)) < len(names):
        raise InputError(f"`--losses` names a loss twice: {text!r}.")
    return [get_loss(name).name for name in names]
