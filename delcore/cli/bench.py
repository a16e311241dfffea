"""`delcore bench`: what losses, the loop and generation cost, as ratios."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from delcore.cli.evaluation import evaluation_config
from delcore.cli.output import LOSS_NAMES, print_text, say
from delcore.cli.training import add_settings, train_config
from delcore.errors import InputError


def add_bench(commands: Any) -> None:
    """`delcore bench`."""
    parser = commands.add_parser("bench", help="measure what a loss, training or answering costs, as ratios")
    kinds = parser.add_subparsers(title="what", required=True, metavar="WHAT")
    loss = kinds.add_parser("loss", help="forward and backward of a loss against plain cross-entropy")
    some = f"names with commas of {', '.join(LOSS_NAMES)}; or all (default: %(default)s)"
    loss.add_argument("--losses", default="mle,del,emo", help=some)
    loss.add_argument("--tokens", type=int, default=1024, help="positions (default: %(default)s)")
    loss.add_argument("--supervised", type=float, default=0.5, help="share with a label (default: %(default)s)")
    loss.add_argument("--width", type=int, default=896, help="of hidden states (default: %(default)s)")
    loss.add_argument("--vocab", type=int, default=151_936, help="columns of the head (default: %(default)s)")
    loss.add_argument("--dtype", default="float32", help="of hidden states and head (default: %(default)s)")
    loss.add_argument("--device", default="cpu", help="where to run (default: %(default)s)")
    loss.set_defaults(run=_run_bench_loss)
    train = kinds.add_parser("train", help="the training loop against Hugging Face's Trainer")
    add_settings(train, BENCH_SETTINGS, [])
    train.set_defaults(run=_run_bench_train)
    generate = kinds.add_parser("generate", help="answers in batches against one prompt at a time")
    generate.add_argument("--model", default="embedded", help="as in probe (default: %(default)s)")
    generate.add_argument("--benchmark", default="arithmetic", metavar="NAME", help="one (default: %(default)s)")
    generate.add_argument("--data-dir", type=Path, help="folder with the benchmark's file (default: from the hub)")
    for name, default in (("--limit", 16), ("--batch-size", 16), ("--max-new-tokens", 64)):
        generate.add_argument(
            name, type=int, default=default, metavar="N", help="as in evaluate (default: %(default)s)"
        )
    generate.add_argument("--dtype", default="float32", help="of the weights (default: %(default)s)")
    generate.add_argument("--device", default="auto", help="where to run (default: %(default)s)")
    generate.set_defaults(run=_run_bench_generate)
    for one in (loss, train, generate):
        one.add_argument("--rounds", type=int, default=7, help="rounds that count (default: %(default)s)")
        one.add_argument("--json", action="store_true", help="print the ratios as JSON")


BENCH_SETTINGS = (
    *("model", "data", "split", "template", "steps", "batch_size", "micro_batch_size", "learning_rate", "max_length"),
    *("precision", "lora_rank", "device"),
)


def _run_bench_loss(arguments: argparse.Namespace) -> None:
    from delcore.bench import Sizes, bench_losses, format_bench
    from delcore.losses import LOSSES

    sizes = Sizes(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Sizes)})
    names = list(LOSSES) if arguments.losses == "all" else arguments.losses.split(",")
    result = bench_losses(names, sizes, progress=say)
    print_text(json.dumps(result) if arguments.json else format_bench(result))


def _run_bench_train(arguments: argparse.Namespace) -> None:
    config = train_config(arguments, loss="mle", out=Path("unused"))
    if config.steps < 3 or arguments.rounds < 1:
        raise InputError("`--steps` must be at least 3 and `--rounds` at least 1.")
    from delcore.bench_train import bench_training, format_training
    from delcore.models import quiet_libraries

    quiet_libraries()
    result = bench_training(config, arguments.rounds, progress=say)
    print_text(json.dumps(result) if arguments.json else format_training(result))


def _run_bench_generate(arguments: argparse.Namespace) -> None:
    config = evaluation_config(arguments)
    from delcore.bench_generate import bench_generation, format_generation
    from delcore.models import quiet_libraries

    quiet_libraries()
    result = bench_generation(config, arguments.rounds, progress=say)
    print_text(json.dumps(result) if arguments.json else format_generation(result))
