"""The command line: `delcore probe`, `train`, `sweep`, `evaluate`, `bench`, `dashboard`.

Parsing loads nothing heavy; each command imports what it needs when it runs. Bad input is one line on standard
error and exit code 2.
"""

import argparse
import ast
import dataclasses
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delcore import __version__
from delcore.config import TrainConfig, process_rank
from delcore.errors import InputError, StoppedError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except InputError as error:
        if process_rank() == 0:  # of several processes one is enough to say it
            sys.stderr.write(f"delcore: {error}\n")
        return 2
    except StoppedError as stopped:
        return 128 + int(stopped.args[0])  # as shells say it
    except KeyboardInterrupt:
        sys.stderr.write("delcore: interrupted.\n")
        return 130
    except BrokenPipeError:
        # The reader has had enough, as `| head` does. Python would complain once more when it flushes at exit.
        sys.stdout = None
        return 0
    except OSError as error:
        sys.stderr.write(f"delcore: {error}\n")
        return 1
    finally:
        _leave_group()
    return 0


def _leave_group() -> None:
    """Take leave of the other processes of a launcher: threads of theirs that still run at exit end in an abort."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = argparse.ArgumentParser(prog="delcore", description="Numeric learning in language models.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_probe(commands)
    _add_train(commands)
    _add_sweep(commands)
    _add_evaluate(commands)
    _add_bench(commands)
    _add_dashboard(commands)
    return parser


# ---------------------------------------------------------------- probe


def _add_probe(commands: Any) -> None:
    parser = commands.add_parser("probe", help="the ten digit probabilities of the next token of a prompt")
    parser.add_argument("prompt", help='any text, such as "12 + 35 = "')
    parser.add_argument("--loss", help='a loss of the embedded family, "base" or "all" (default: all)')
    parser.add_argument("--model", help="a folder, .gguf file or hub id in place of the embedded family")
    parser.add_argument("--all-positions", action="store_true", help="also each digit of the prompt")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python files that come with the model")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.set_defaults(run=_run_probe)


def _run_probe(arguments: argparse.Namespace) -> None:
    if arguments.model is not None and arguments.loss is not None:
        raise InputError("`--loss` picks from the embedded family, so it does not go with `--model`. Leave one out.")
    names = embedded_names(arguments.loss or "all") if arguments.model is None else [arguments.model]
    if not arguments.prompt.strip():
        raise InputError('The prompt is empty. Type some text, such as "12 + 35 = ".')
    from delcore.models import load_model, quiet_libraries
    from delcore.probe import probe

    quiet_libraries()

    loaded = [load_model(name, trust_remote_code=arguments.trust_remote_code) for name in names]
    models = {one.card.name.removeprefix("embedded:"): one for one in loaded}
    record = probe(arguments.prompt, models, all_positions=arguments.all_positions)
    _print(
        json.dumps(record, ensure_ascii=not _can_print(record["prompt"])) if arguments.json else format_probe(record)
    )


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _print(text: str) -> None:
    """Write and flush, so that a reader that has left is noticed here; letters that cannot be shown are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()


def embedded_names(loss: str) -> list[str]:
    """Model names of the embedded family for `--loss`."""
    from delcore.models import EMBEDDED_NAMES

    if loss == "all":
        return [f"embedded:{name}" for name in EMBEDDED_NAMES]
    if loss not in EMBEDDED_NAMES:
        raise InputError(f"`--loss` must be all or one of {', '.join(EMBEDDED_NAMES)}; got {loss!r}.")
    return [f"embedded:{loss}"]


def format_probe(record: dict[str, Any]) -> str:
    """The record of `probe` as a table for people."""
    width = max([len("model"), *(len(name) for name in record["positions"][0]["models"])])
    header = f"{'model':<{width}}  " + " ".join(f"{digit:>5}" for digit in range(10))
    header += "   mass  entropy  expected"
    blocks = []
    for position in record["positions"]:
        title = f"digit {position['text']} at token {position['index']}" if position["text"] else "next token"
        if position["place"] is not None:
            title += f", place {position['place']}, weight {position['weight']:.4f}"
        rows = [f"{name:<{width}}  {_format_model(facts)}" for name, facts in position["models"].items()]
        blocks.append("\n".join([title, header, *rows]))
    note = "Digits: probability given that the token is a digit. Mass: share of the whole softmax. Entropy: nats."
    return "\n\n".join([repr(record["prompt"]), *blocks, note])


def _format_model(facts: dict[str, Any]) -> str:
    digits = " ".join(f"{probability:5.3f}" for probability in facts["probabilities"])
    return f"{digits}  {facts['digit_mass']:5.3f}  {facts['entropy_nats']:7.4f}  {facts['expected_digit']:8.3f}"


# ---------------------------------------------------------------- train


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


def _add_train(commands: Any) -> None:
    parser = commands.add_parser("train", help="fine-tune a model under one loss")
    parser.add_argument("--loss", required=True, help="one of the losses, such as del")
    parser.add_argument("--out", required=True, type=_folder, help="folder of the run; must not exist, or be empty")
    _add_settings(parser, [*TRAIN_HELP], [*TRAIN_FLAGS])
    parser.set_defaults(run=_run_train)


def _add_settings(parser: Any, names: Sequence[str], flags: Sequence[str]) -> None:
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
    from delcore.train import finetune

    quiet_libraries()
    run = finetune(config, progress=_say)
    if run.stopped_by:
        raise StoppedError(run.stopped_by)
    if process_rank() == 0:
        _say(f"Saved {run.path}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


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


# ---------------------------------------------------------------- sweep


def _add_sweep(commands: Any) -> None:
    parser = commands.add_parser("sweep", help="train every loss with every seed, and tabulate")
    parser.add_argument("--losses", default="all", help="names with commas, or all (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on (default: %(default)s)")
    parser.add_argument("--out", required=True, type=_folder, help="folder of the runs and the table; resumed if there")
    _add_settings(
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
    rows = sweep(base, parse_losses(arguments.losses), range(arguments.seeds), _say)
    from delcore.plots import plot_sweep, write_page

    write_page(plot_sweep(rows), base.out / "figure.html", "Sweep")
    _print(format_rows(rows))


# ---------------------------------------------------------------- evaluate


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="run a model on benchmarks, read its answers, report")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--benchmark", metavar="NAME[,NAME]|all", help="gsm8k, math, math500, …, arithmetic; all: seven")
    what.add_argument("--rescore", type=Path, metavar="RUN", help="read the outputs of a run again, without a model")
    what.add_argument("--report", type=Path, nargs="+", metavar="RUN", help="write a report on finished runs")
    parser.add_argument("--model", default="embedded", help="as in probe (default: %(default)s)")
    parser.add_argument("--data-dir", type=Path, help="folder with the benchmarks' files (default: from the hub)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N items of each")
    parser.add_argument("--out", type=Path, help="folder that gets a run per benchmark; the same command resumes it")
    parser.add_argument("--run-programs", action="store_true", help="ask for programs and run them in a sandbox")
    parser.add_argument("--style", help="cot: in words; pot: programs, words as a fallback (default with programs)")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N", help="prompts at a time (default: 16)")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="longest answer (default: the benchmark's)")
    parser.add_argument("--dtype", default="float32", help="of the weights (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="where to run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="recorded; greedy answers have nothing random")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python files that come with the model")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.set_defaults(run=_run_evaluate)


def _run_evaluate(arguments: argparse.Namespace) -> None:
    from delcore.benchmarks.records import find_runs
    from delcore.benchmarks.rescore import format_summaries, rescore, summarise

    if arguments.report:
        from delcore.benchmarks.report import write_report  # its tests come with it

        write_report([run for path in arguments.report for run in find_runs(path)], arguments.out)
        return
    if arguments.rescore:
        if arguments.out:
            raise InputError("`--rescore` writes into the folder of the run. Leave --out away.")
        runs = [rescore(path, _say) for path in find_runs(arguments.rescore)]
    else:
        runs = _evaluate(arguments)
    if process_rank() == 0:
        rows = [summarise(run) for run in runs]
        _print(json.dumps(rows) if arguments.json else format_summaries(rows))


def _evaluation_config(arguments: argparse.Namespace, **fixed: Any) -> Any:
    from delcore.benchmarks.settings import EvaluationConfig
    from delcore.benchmarks.tasks import parse_benchmarks

    names = [field.name for field in dataclasses.fields(EvaluationConfig) if hasattr(arguments, field.name)]
    given = {name: getattr(arguments, name) for name in names}
    return EvaluationConfig(**{**given, **fixed}, benchmarks=parse_benchmarks(arguments.benchmark, arguments.data_dir))


def _evaluate(arguments: argparse.Namespace) -> list[Any]:
    from delcore.benchmarks.runner import evaluate_model
    from delcore.models import quiet_libraries

    style = arguments.style or ("pot" if arguments.run_programs else "cot")
    config = _evaluation_config(arguments, style=style)
    quiet_libraries()
    try:
        return evaluate_model(config, progress=_say)
    except StoppedError:
        if process_rank() == 0:
            _say("Stopped; what is finished is kept, and the same command goes on from there.")
        raise


# ---------------------------------------------------------------- bench


def _add_bench(commands: Any) -> None:
    parser = commands.add_parser("bench", help="measure what a loss, training or answering costs, as ratios")
    kinds = parser.add_subparsers(title="what", required=True, metavar="WHAT")
    loss = kinds.add_parser("loss", help="forward and backward of a loss against plain cross-entropy")
    loss.add_argument("--losses", default="mle,del,emo", help="names with commas, or all (default: %(default)s)")
    loss.add_argument("--tokens", type=int, default=1024, help="positions (default: %(default)s)")
    loss.add_argument("--supervised", type=float, default=0.5, help="share with a label (default: %(default)s)")
    loss.add_argument("--width", type=int, default=896, help="of hidden states (default: %(default)s)")
    loss.add_argument("--vocab", type=int, default=151_936, help="columns of the head (default: %(default)s)")
    loss.add_argument("--dtype", default="float32", help="of hidden states and head (default: %(default)s)")
    loss.add_argument("--device", default="cpu", help="where to run (default: %(default)s)")
    loss.set_defaults(run=_run_bench_loss)
    train = kinds.add_parser("train", help="the training loop against Hugging Face's Trainer")
    _add_settings(train, BENCH_SETTINGS, [])
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
    result = bench_losses(names, sizes, progress=_say)
    _print(json.dumps(result) if arguments.json else format_bench(result))


def _run_bench_train(arguments: argparse.Namespace) -> None:
    config = train_config(arguments, loss="mle", out=Path("unused"))
    if config.steps < 3 or arguments.rounds < 1:
        raise InputError("`--steps` must be at least 3 and `--rounds` at least 1.")
    from delcore.bench_train import bench_training, format_training
    from delcore.models import quiet_libraries

    quiet_libraries()
    result = bench_training(config, arguments.rounds, progress=_say)
    _print(json.dumps(result) if arguments.json else format_training(result))


def _run_bench_generate(arguments: argparse.Namespace) -> None:
    config = _evaluation_config(arguments)
    from delcore.bench_generate import bench_generation, format_generation
    from delcore.models import quiet_libraries

    quiet_libraries()
    result = bench_generation(config, arguments.rounds, progress=_say)
    _print(json.dumps(result) if arguments.json else format_generation(result))


# ---------------------------------------------------------------- dashboard


def _add_dashboard(commands: Any) -> None:
    parser = commands.add_parser("dashboard", help="open the dashboard in a browser")
    parser.add_argument("--host", default="localhost", help="address to serve on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8501, help="port to serve on (default: %(default)s)")
    parser.add_argument("--headless", action="store_true", help="serve only, open no browser")
    parser.set_defaults(run=_run_dashboard)


def dashboard_app() -> Path:
    """The dashboard's main script: inside an installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_dashboard", here.parent / "dashboard"):
        if (folder / "streamlit_app.py").is_file():
            return folder / "streamlit_app.py"
    raise InputError("The dashboard's files are missing from this installation. Install delcore again.")


def _run_dashboard(arguments: argparse.Namespace) -> None:
    check_port(arguments.host, arguments.port)
    from streamlit.web import cli as streamlit_cli

    flags = {
        "server.address": arguments.host,
        "server.port": arguments.port,
        "server.headless": str(arguments.headless).lower(),
        "server.showEmailPrompt": "false",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.showErrorDetails": "none",
        "runner.magicEnabled": "false",
    }
    command = ["run", str(dashboard_app()), *(f"--{name}={value}" for name, value in flags.items())]
    streamlit_cli.main(command, prog_name="streamlit", standalone_mode=False)


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be served on, before the server starts."""
    if not 0 < port < 65536:
        raise InputError(f"`--port` must lie in [1, 65535]; got {port}.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:  # a host name that is none cannot even be encoded
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot serve on {host}:{port}: {reason}. Pass another --port or --host.") from error


if __name__ == "__main__":
    sys.exit(main())
