"""Random signs: NumPy's stream, as a function of seed and position."""

import numpy as np
import pytest
from support.party_examples import SEED, signs_of

from primo_scale.parties.columns import add_to_mixtures
from primo_scale.verify.document import Mixtures


@pytest.mark.parametrize("n_mixtures", [1, 7, 256, 257, 700])
def test_signs_do_not_depend_on_pieces_or_order(n_mixtures: int) -> None:
    signs = Mixtures(n_mixtures, SEED)
    whole = signs_of(signs, np.arange(50))
    assert whole.shape == (50, n_mixtures)
    assert set(np.unique(whole)) <= {-1, 1}
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(signs_of(signs, order), whole[order])
    np.testing.assert_array_equal(signs_of(signs, np.arange(20, 30)), whole[20:30])


def test_signs_are_those_of_numpys_stream_from_the_start() -> None:
    stream = np.random.Philox(key=int(SEED, 16), counter=0).random_raw(4 * 30).view(np.uint8)
    expected = 2.0 * np.unpackbits(stream).reshape(30, 256) - 1
    np.testing.assert_array_equal(signs_of(Mixtures(256, SEED), np.arange(30)), expected)


@pytest.mark.parametrize("n_mixtures", [1, 9, 1024, 1500])
@pytest.mark.parametrize("largest", [1, 130, 2**20])
def test_mixtures_are_the_products_of_signs_and_values(n_mixtures: int, largest: int) -> None:
    """Values at both ends, and people in several pieces and in any order."""
    signs, rng = Mixtures(n_mixtures, SEED), np.random.default_rng(2)
    units = rng.integers(-largest, largest + 1, (60, 3))
    units[:2] = [[largest] * 3, [-largest] * 3]
    people, sums = rng.permutation(60), np.zeros((n_mixtures, 3), dtype=np.int64)
    for piece in (people[:1], people[1:1], people[1:37], people[37:]):
        add_to_mixtures(sums, signs, piece, units[piece])
    expected = signs_of(signs, np.arange(60)).T @ units
    np.testing.assert_array_equal(sums, expected)
