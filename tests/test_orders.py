"""The order in which a run sees its samples, and those that are held out."""

from collections import Counter
from itertools import islice

import pytest

from delcore import orders
from delcore.arithmetic import Sample
from delcore.errors import InputError
from delcore.orders import iterate_samples, split_heldout

SIXTY_FOUR = [Sample(str(i), str(i)) for i in range(64)]


@pytest.mark.parametrize("samples", [SIXTY_FOUR, SIXTY_FOUR[:1], None], ids=["file", "one sample", "arithmetic"])
def test_order_depends_on_the_seed_alone_and_resumes_anywhere(samples):
    straight = list(islice(iterate_samples(samples, seed=3), 200))
    assert list(islice(iterate_samples(samples, seed=3), 200)) == straight
    for start in (0, 1, 20, 63, 64, 65, 84, 128, 190):
        resumed = list(islice(iterate_samples(samples, seed=3, start=start), 200 - start))
        assert resumed == straight[start:]
    if samples is not SIXTY_FOUR[:1]:
        assert samples is None or len(samples) == 1 or list(islice(iterate_samples(samples, seed=4), 200)) != straight


def test_every_epoch_holds_every_sample_once_in_another_order():
    straight = list(islice(iterate_samples(SIXTY_FOUR, seed=3), 192))
    epochs = [straight[i : i + 64] for i in (0, 64, 128)]
    for epoch in epochs:
        assert Counter(epoch) == Counter(SIXTY_FOUR)
    assert epochs[0] != epochs[1] != epochs[2] != SIXTY_FOUR


def test_order_of_a_large_set_is_shuffled_once_an_epoch(monkeypatch):
    shuffled = []
    monkeypatch.setattr(orders.random.Random, "shuffle", lambda self, order: shuffled.append(len(order)))
    samples = [Sample(str(i), "") for i in range(97)]  # no other test shuffles as many
    for start in (0, 10, 20, 90):
        list(islice(iterate_samples(samples, seed=5, start=start), 10))
    assert shuffled == [97, 97]


# ---------------------------------------------------------------- held-out samples


def test_heldout_samples_are_drawn_by_the_seed_alone_and_never_trained_on():
    train, heldout = split_heldout(SIXTY_FOUR, 10, seed=1)
    assert (len(train), len(heldout)) == (54, 10)
    assert Counter([*train, *heldout]) == Counter(SIXTY_FOUR)
    assert list(train) == [sample for sample in SIXTY_FOUR if sample in list(train)]
    again = split_heldout(SIXTY_FOUR, 10, seed=1)
    assert [list(part) for part in again] == [list(train), list(heldout)]
    assert list(split_heldout(SIXTY_FOUR, 10, seed=2)[1]) != list(heldout)


def test_heldout_parts_are_sequences_like_the_whole():
    train, heldout = split_heldout(SIXTY_FOUR, 0, seed=1)
    assert (list(train), list(heldout)) == (SIXTY_FOUR, [])
    assert (train[-1], list(train[5:2:-1])) == (SIXTY_FOUR[-1], SIXTY_FOUR[5:2:-1])
    with pytest.raises(IndexError):
        train[64]


@pytest.mark.parametrize("count", [64, 65])
def test_heldout_samples_that_leave_nothing_to_train_on_are_refused(count):
    with pytest.raises(InputError, match=rf"`--eval-samples` {count} leaves none of the data's 64 samples"):
        split_heldout(SIXTY_FOUR, count, seed=1)
