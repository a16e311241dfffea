"""The command line of the studies."""

import argparse
import logging
import sys
from collections.abc import Sequence

import delcore.studies
from delcore.errors import InputError, StoppedError
from delcore.models import quiet_libraries
from delcore.studies import claims, embeddings, finetuning, smollm2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one study."""
    parser = argparse.ArgumentParser(prog="python -m delcore.studies", description=delcore.studies.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    studies = parser.add_subparsers(required=True)
    for name, study in finetuning.STUDIES.items():
        finetuning.add_arguments(studies.add_parser(name, help=study.title), study)
    embeddings.add_arguments(studies.add_parser("embeddings", help="the order of the ten digits in embeddings"))
    smollm2.add_arguments(studies.add_parser("smollm2", help="SmolLM2-135M with LoRA on GSM8K under four losses"))
    claims.add_arguments(studies.add_parser("claims", help="the ledger of the paper's claims, from the stored results"))
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    quiet_libraries()
    try:
        arguments.run(arguments)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except StoppedError as stopped:
        return 128 + int(stopped.args[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
