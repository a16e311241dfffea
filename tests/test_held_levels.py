"""Where a loss rests while the level of the digit logits is held."""

import math

import numpy as np
import pytest

from delcore import equilibrium
from delcore.analysis import entropy_nats, scan_held_levels
from delcore.arithmetic import DESIGN_LAW
from delcore.errors import InputError


@pytest.mark.parametrize("u", [1.0, 4.0])
def test_held_level_of_the_equilibrium_rests_at_the_equilibrium(u):
    free = equilibrium("del", DESIGN_LAW, u=u)
    level = math.log(sum(math.exp(a) for a in free.logits))
    held = scan_held_levels("del", DESIGN_LAW, [level], u=u)
    assert held.values[0] == pytest.approx(free.entropy_nats - entropy_nats(DESIGN_LAW), abs=1e-6)


def test_held_level_of_del_high_up_sharpens_and_lower_down_flattens():
    high, low = scan_held_levels("del", DESIGN_LAW, [9.0, 3.0]).values
    assert high < 0 < low


def test_held_level_of_a_loss_that_does_not_see_it_changes_nothing():
    gaps = scan_held_levels("dist2", DESIGN_LAW, [-3.0, 9.0]).values
    expected = equilibrium("dist2", DESIGN_LAW).entropy_nats - entropy_nats(DESIGN_LAW)
    assert np.allclose(gaps, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "levels"), [("del", []), ("del", [math.inf]), ("emo", [1.0])])
def test_held_levels_without_an_answer_are_refused(name, levels):
    with pytest.raises(InputError, match="`levels`|stops a gradient"):
        scan_held_levels(name, DESIGN_LAW, levels)
