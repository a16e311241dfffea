"""`delcore` with weights shared between CPU processes, by the settings of `delcore/launch/fsdp.yaml`.

accelerate takes FSDP for a matter of GPUs and passes over it on a CPU, so its state is told once it has started; what
follows, `prepare`, clipping and saving, is then the code that a GPU would run.
"""

import os
import sys
from pathlib import Path

import yaml
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

import delcore
from delcore import train
from delcore.cli import main

SETTINGS = Path(delcore.__file__).parent / "launch" / "fsdp.yaml"
start = train.make_accelerator


def make_sharding_accelerator(config):
    accelerator = start(config)
    settings = yaml.safe_load(SETTINGS.read_text())["fsdp_config"]
    os.environ.update({name.upper(): str(value) for name, value in settings.items()})  # as `accelerate launch` does
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
    accelerator.state.distributed_type = DistributedType.FSDP
    return accelerator


if __name__ == "__main__":
    train.make_accelerator = make_sharding_accelerator
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking Python down aborts now and then, after all is saved, in threads that FSDP has on CPUs
