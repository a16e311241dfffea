"""`delcore evaluate`: benchmarks, reading again, reports."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from delcore.cli.output import print_text, say
from delcore.config import process_rank
from delcore.errors import InputError, StoppedError


def add_evaluate(commands: Any) -> None:
    """`delcore evaluate`."""
    parser = commands.add_parser("evaluate", help="run a model on benchmarks, read its answers, report")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--benchmark", metavar="NAME[,NAME]|all", help="gsm8k, math, math500, …, arithmetic; all: seven")
    what.add_argument("--rescore", type=Path, metavar="RUN", help="read the outputs of a run again, without a model")
    what.add_argument("--report", type=Path, nargs="+", metavar="RUN", help="write a report on finished runs")
    parser.add_argument("--model", default="embedded", help="as in probe (default: %(default)s)")
    parser.add_argument("--data-dir", type=Path, help="folder with the benchmarks' files (default: from the hub)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N items of each")
    where = "gets a run per benchmark; the same command resumes it (default: one of its own below runs/evaluate)"
    parser.add_argument("--out", type=Path, help=where)
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
    if process_rank() != 0 and not arguments.benchmark:
        return  # reading needs one process
    from delcore.benchmarks.records import find_runs
    from delcore.benchmarks.rescore import format_summaries, rescore, summarise

    if arguments.report:
        from delcore.reports.report import write_report

        paths = write_report([run for path in arguments.report for run in find_runs(path)], arguments.out)
        print_text("\n".join(str(path) for path in paths))
        return
    if arguments.rescore:
        if arguments.out:
            raise InputError("`--rescore` writes into the folder of the run. Leave --out away.")
        runs = [rescore(path, say) for path in find_runs(arguments.rescore)]
    else:
        runs = _evaluate(arguments)
    if process_rank() == 0:
        rows = [summarise(run) for run in runs]
        say(f"Saved {', '.join(str(run.path) for run in runs)}")
        print_text(json.dumps(rows) if arguments.json else format_summaries(rows))


def evaluation_config(arguments: argparse.Namespace, **fixed: Any) -> Any:
    """The evaluation that the arguments ask for."""
    from delcore.benchmarks.settings import EvaluationConfig
    from delcore.benchmarks.tasks import parse_benchmarks

    names = [field.name for field in dataclasses.fields(EvaluationConfig) if hasattr(arguments, field.name)]
    given = {name: getattr(arguments, name) for name in names}
    return EvaluationConfig(**{**given, **fixed}, benchmarks=parse_benchmarks(arguments.benchmark, arguments.data_dir))


def _evaluate(arguments: argparse.Namespace) -> list[Any]:
    from delcore.benchmarks.runner import evaluate_model
    from delcore.models import quiet_libraries

    style = arguments.style or ("pot" if arguments.run_programs else "cot")
    config = evaluation_config(arguments, style=style)
    quiet_libraries()
    try:
        return evaluate_model(config, progress=say)
    except StoppedError:
        if process_rank() == 0:
            say("Stopped; what is finished is kept, and the same command goes on from there.")
        raise
