"""The command line: `delcore probe`, `train`, `sweep`, `evaluate`, `bench`, `dashboard`.

Parsing loads nothing heavy; each command imports what it needs when it runs. Bad input is one line on standard
error and exit code 2.
"""

import argparse
import sys
from collections.abc import Sequence

from delcore import __version__
from delcore.cli import bench, dashboard, evaluation, probe, training
from delcore.config import process_rank
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
    probe.add_probe(commands)
    training.add_train(commands)
    training.add_sweep(commands)
    evaluation.add_evaluate(commands)
    bench.add_bench(commands)
    dashboard.add_dashboard(commands)
    return parser
