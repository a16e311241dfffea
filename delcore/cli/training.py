"""`delcore train` and `delcore sweep`, and the settings of a run as options."""

import argparse
import ast
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delcore.cli.output import LOSS_NAMES, print_text, say
from delcore.config import TrainConfig, process_rank
from delcore.errors import InputError

TRAIN_HELP: dict[str, tuple[Any, str]] = {
    "model": (str, "hub id, folder, .gguf file, embedded[:LOSS] or scratch"),
    "data": (str, "arithmetic; a .jsonl, .json or .parquet file, or a folder of them; or a dataset of the hub"),
    "split": (str, "of a dataset with several"),
    "template": (str, "how a row becomes a prompt: plain, alpaca, or chat for the tokenizer's own"),
    "steps": (int, "optimiser steps"),
    "epochs": (float, "passes over the data, in place of --steps"),
    "batch_size": (int, "samples per step, over all micro-batches and processes"),
    "micro_batch_size": (int, "samples that a process holds at once; changes memory, not the result"),
    "learning_rate": (float, "peak learning rate"),
    "warmup": (float, "share of steps in which it rises"),
    "weight_decay": (float, "of AdamW"),
    "beta2": (float, "second decay rate of AdamW"),
    "clip": (float, "limit of the gradient norm; 0 for none"),
    "max_length": (int, "tokens of a sample"),
    "supervise": (str, "response, or all to learn the prompt too"),
    "seed": (int, "of sample order and everything random"),
    "alpha": (float, "weight of the digit term; the loss's own if left out"),
    "precision": (str, "float32, bf16-mixed (float32 weights) or bf16"),
    "lora_rank": (int, "rank of LoRA adapters on all linear layers; 0 trains all weights"),
    "lora_alpha": (int, "scale of the adapters; twice the rank if left out"),
    "eval_every": (int, "steps between two measurements on held-out samples; 0 for none"),
    "eval_data": (str, "where those come from; some of --data, then never trained on, if left out"),
    "eval_split": (str, "split of --eval-data"),
    "eval_samples": (int, "how many"),
    "log_every": (int, "steps between two lines of metrics.jsonl"),
    "save_every": (int, "steps between two checkpoints; 0 for one only when the run is stopped"),
    "device": (str, "auto, cpu, cuda ..."),
}
"""Options of `train` that take a value: its kind, and what it is."""

TRAIN_FLAGS = {
    "resume": "go on from the newest whole checkpoint in --out; begin where there is none",
    "gradient_checkpointing": "compute activations twice instead of keeping them",
    "tensorboard": "write the metrics for TensorBoard too",
    "trust_remote_code": "run Python files that come with the model",
    "allow_low_coverage": "train though digits are merged into tokens",
    "ignore_memory": "start although the estimate says that memory will not do",
}


def add_train(commands: Any) -> None:
    """`delcore train`."""
    parser = commands.add_parser("train", help="fine-tune a model under one loss")
    parser.add_argument("--loss", required=True, help=f"one of {', '.join(LOSS_NAMES)}")
    parser.add_argument("--out", required=True, type=_folder, help="folder of the run; must not exist, or be empty")
    add_settings(parser, [*TRAIN_HELP], [*TRAIN_FLAGS])
    parser.set_defaults(run=_run_train)


def add_settings(parser: Any, names: Sequence[str], flags: Sequence[str]) -> None:
    """Settings of a run; what is not given stays out of the arguments, so that a recipe may set it."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    parser.add_argument("--recipe", help="named settings to begin from, such as qwen2.5-0.5b-lora")
    for name in names:
        kind, text = TRAIN_HELP[name]
        shown = "" if defaults[name] is None else f" (default: {defaults[name]})"
        parser.add_argument(
            _flag(name), type=kind, default=argparse.SUPPRESS, help=text + shown, metavar=_metavar(kind)
        )
    for name in flags:
        parser.add_argument(_flag(name), action="store_true", default=argparse.SUPPRESS, help=TRAIN_FLAGS[name])
    parser.add_argument(
        "--full-logits",
        dest="lean",
        action="store_false",
        default=argparse.SUPPRESS,
        help="make the [tokens, vocabulary] logits",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the loss")


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; name a folder")
    return Path(text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _metavar(kind: type) -> str:
    return {str: "TEXT", int: "N", float: "X"}[kind]


def train_config(arguments: argparse.Namespace, **fixed: Any) -> TrainConfig:
    """The run that the arguments ask for."""
    from delcore.recipes import config_from

    names = [field.name for field in dataclasses.fields(TrainConfig) if hasattr(arguments, field.name)]
    given = {name: getattr(arguments, name) for name in names}
    return config_from(arguments.recipe, **{**given, "options": parse_options(arguments.set), **fixed})


def _run_train(arguments: argparse.Namespace) -> None:
    config = train_config(arguments)
    from delcore.models import quiet_libraries
    from delcore.train import finetune_to_end

    quiet_libraries()
    run = finetune_to_end(config, say)
    if process_rank() == 0:
        say(f"Saved {run.path}")


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` pairs as loss options: numbers, true and false are read as such, the rest is text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"`--set` takes NAME=VALUE, such as place=none; got {pair!r}.")
        options[name] = _parse_value(text)
    return options


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float) else text


def add_sweep(commands: Any) -> None:
    """`delcore sweep`."""
    parser = commands.add_parser("sweep", help="train every loss with every seed, and tabulate")
    some = f"names with commas of {', '.join(LOSS_NAMES)}; or all but the last (default: %(default)s)"
    parser.add_argument("--losses", default="all", help=some)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on (default: %(default)s)")
    parser.add_argument("--out", required=True, type=_folder, help="folder of the runs and the table; resumed if there")
    add_settings(
        parser,
        [name for name in TRAIN_HELP if name != "seed"],
        [name for name in TRAIN_FLAGS if name != "resume"],
    )
    parser.set_defaults(run=_run_sweep)


def _run_sweep(arguments: argparse.Namespace) -> None:
    if arguments.seeds < 1:
        raise InputError(f"`--seeds` must be at least 1; got {arguments.seeds}.")
    base = train_config(arguments, loss="mle")
    from delcore.models import quiet_libraries
    from delcore.sweep import format_rows, parse_losses, sweep

    quiet_libraries()
    rows = sweep(base, parse_losses(arguments.losses), range(arguments.seeds), say)
    if process_rank() != 0:
        return
    from delcore.plots import plot_sweep, write_page

    write_page(plot_sweep(rows), base.out / "figure.html", "Sweep")
    say(f"Saved table.md, table.csv, table.json and figure.html in {base.out}")
    print_text(format_rows(rows))
