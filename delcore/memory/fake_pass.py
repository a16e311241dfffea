"""One micro-batch forward and backward on tensors without numbers, and what is alive while it goes."""

import copy
import logging
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from delcore.digits import _cached_ids
from delcore.loss_model import LossModel
from delcore.losses._positions import _cached_values

ENOUGH = 0.75
"""The backward pass is followed until this share of what it began with is left; from there on it only falls."""

COUNTED_ELSEWHERE = -1


class _Enough(Exception):  # the rest of the backward pass cannot be the fullest moment
    pass


class Watch(TorchDispatchMode):
    """Counts the storages that come and go while tensors are computed.

    Args:
        vocab_size: tensors with an axis of this size are counted as "head".
    """

    def __init__(self, vocab_size: int) -> None:
        """Nothing is alive yet."""
        super().__init__()
        self.vocab_size = vocab_size
        self.serials: dict[int, int] = {}  # by address, of the storages that are alive
        self.kinds: list[str] = []  # by serial
        self.events: list[tuple[int, int]] = []  # serial and bytes, negative where they are freed
        self.forward_events = 0
        self.now = self.to_come = self.limit = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what keeps the compiler away, which is never at work here, takes long

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:  # most calls by far; the shortest way to the answer
            return args[0].fake_device
        if func is torch.ops.aten._local_scalar_dense.default:  # a number is asked for, and any will do
            return False if args[0].dtype == torch.bool else 0
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.add(tensor, "head" if self.vocab_size in tensor.shape else "activations")
        if self.now + self.to_come < self.limit:
            raise _Enough
        return out

    def ignore(self, tensors: Iterable[Tensor]) -> None:
        """Never count these tensors' storages, nor views of them."""
        for tensor in tensors:
            self.serials[tensor.untyped_storage()._cdata] = COUNTED_ELSEWHERE

    def add(self, tensor: Tensor, kind: str) -> None:
        """Count a tensor's storage, once."""
        storage = tensor.untyped_storage()
        address, size = storage._cdata, storage.nbytes()
        if address in self.serials:
            return
        self.serials[address] = serial = len(self.kinds)
        self.kinds.append(kind)
        self._note(serial, size)
        weakref.finalize(storage, self._free, address, serial, size)

    def _free(self, address: int, serial: int, size: int) -> None:
        if self.serials.get(address) == serial:
            del self.serials[address]
        self._note(serial, -size)

    def _note(self, serial: int, size: int) -> None:
        self.now += size
        self.events.append((serial, size))

    def begin_backward(self, trained: Iterable[Tensor]) -> None:
        """From now on gradients come, and the rest goes."""
        self.forward_events = len(self.events)
        self.to_come = sum(size_of(tensor) for tensor in trained if tensor.grad is None)
        self.limit = int(ENOUGH * (self.now + self.to_come))

    def keep_gradient(self, parameter: Tensor) -> None:
        """A gradient has come to stay."""
        assert parameter.grad is not None
        self.to_come -= size_of(parameter.grad)
        self.kinds[self.serials[parameter.grad.untyped_storage()._cdata]] = "gradients"

    def fullest(self) -> Counter[str]:
        """Bytes of each kind, "activations", "head" and "gradients", at the fullest moment."""
        totals = list(accumulate(size for _, size in self.events))
        found: Counter[str] = Counter()
        for serial, size in self.events[: totals.index(max(totals)) + 1]:
            found[self.kinds[serial]] += size
        return found

    def forward_bytes(self, limit: int) -> tuple[int, int]:
        """Of storages below `limit` bytes: all that the forward pass made, and what it left alive."""
        sizes = [size for _, size in self.events[: self.forward_events] if abs(size) < limit]
        return sum(size for size in sizes if size > 0), sum(sizes)


def run_fake_pass(
    loss_model: LossModel, size: tuple[int, int], *, vocab_size: int, mixed: bool, accumulates: bool
) -> Watch | None:
    """Send one micro-batch forward and backward, as on a CPU.

    Args:
        loss_model: the model as it will be trained; neither it nor anything random changes.
        size: samples and tokens of each.
        vocab_size: rows of its embedding.
        mixed: under autocast to bfloat16.
        accumulates: gradients of earlier micro-batches are there.

    Returns:
        What was seen; None where the model's code asks for what only numbers can tell.
    """
    watch = Watch(vocab_size)
    try:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        twin = _fake_twin(loss_model, mode)
        with mode, _quiet(logging.getLogger(FakeTensorMode.__module__)):
            watch.ignore([*twin.parameters(), *twin.buffers()])
            trained = [parameter for parameter in twin.parameters() if parameter.requires_grad]
            for parameter in trained:
                if accumulates:
                    parameter.grad = torch.empty_like(parameter)
                    watch.add(parameter.grad, "gradients")
                parameter.register_post_accumulate_grad_hook(watch.keep_gradient)
            _run(twin, torch.zeros(size, dtype=torch.long), trained, watch, mixed)
    except _Enough:
        pass
    except Exception:  # whatever foreign code raises here, an estimate must not stop a run
        return None
    finally:  # they hold fake tensors now
        _cached_ids.cache_clear()
        _cached_values.cache_clear()
    return watch


def _fake_twin(loss_model: LossModel, mode: FakeTensorMode) -> LossModel:
    """A copy with fake weights; a pass that breaks off may leave modules in any state."""
    with mode:
        fakes = {id(tensor): _fake(tensor) for tensor in (*loss_model.parameters(), *loss_model.buffers())}
    twin = copy.deepcopy(loss_model, fakes)
    twin.settings = {**loss_model.settings, "validate": False}
    return twin


def _fake(tensor: Tensor) -> Tensor:
    fake = torch.empty(tensor.shape, dtype=tensor.dtype)
    return nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake


def _run(model: LossModel, ids: Tensor, trained: Sequence[Tensor], watch: Watch, mixed: bool) -> None:
    count = ids.shape[0] * (ids.shape[1] - 1)
    counts = {"step_tokens": count, "step_digits": count, "n_supervised": count}
    with watch:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            total = model(ids, torch.ones_like(ids), ids, **counts).total
        watch.begin_backward(trained)
        total.backward()


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep what a logger says of a failed pass to itself."""
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor's own elements."""
    return tensor.numel() * tensor.element_size()
