"""`delcore probe`: the ten digit probabilities of a prompt."""

import argparse
import json
import sys
from typing import Any

from delcore.cli.output import print_text
from delcore.errors import InputError
from delcore.models import EMBEDDED_NAMES


def add_probe(commands: Any) -> None:
    """`delcore probe`."""
    parser = commands.add_parser("probe", help="the ten digit probabilities of the next token of a prompt")
    parser.add_argument("prompt", help='any text, such as "12 + 35 = "')
    parser.add_argument("--loss", help=f"of the embedded family: {', '.join(EMBEDDED_NAMES)}, or all (default: all)")
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
    print_text(
        json.dumps(record, ensure_ascii=not _can_print(record["prompt"])) if arguments.json else format_probe(record)
    )


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
