"""Random streams: what a seed means."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gradstep.problem import Readout
from gradstep.simulation import streams
from gradstep.simulation.instance import fit_sample, initial_readout, initial_weights, weight_blocks
from gradstep.simulation.streams import BLOCK_ROWS, Drawing, Purpose, block_count, generator, normal_blocks


def test_smaller_sample_is_the_start_of_a_larger_one() -> None:
    small = np.concatenate(list(normal_blocks(3, Purpose.FIT_INPUTS, BLOCK_ROWS + 5, 2)))
    large = np.concatenate(list(normal_blocks(3, Purpose.FIT_INPUTS, 2 * BLOCK_ROWS + 7, 2)))
    np.testing.assert_array_equal(small, large[: BLOCK_ROWS + 5])


def test_blocks_have_the_fixed_size_and_cover_all_rows() -> None:
    sizes = [block.shape[0] for block in normal_blocks(0, Purpose.STEP_INPUTS, 2 * BLOCK_ROWS + 1, 1)]
    assert sizes == [BLOCK_ROWS, BLOCK_ROWS, 1]
    assert [block_count(rows) for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1)] == [1, 1, 2]


def test_threads_that_draw_ahead_draw_the_same_numbers() -> None:
    rows = 6 * BLOCK_ROWS + 3
    alone = list(normal_blocks(1, Purpose.FIT_INPUTS, rows, 2))
    for threads in (2, 16):
        ahead = list(normal_blocks(1, Purpose.FIT_INPUTS, rows, 2, drawing=Drawing(threads)))
        assert len(ahead) == len(alone) == 7
        for own, other in zip(ahead, alone, strict=True):
            np.testing.assert_array_equal(own, other)
    weights = list(weight_blocks(0, rows, 2, "sphere", drawing=Drawing(3)))
    np.testing.assert_array_equal(np.concatenate(weights), initial_weights(0, rows, 2, "sphere"))


def test_blocks_are_drawn_into_the_memory_that_is_given() -> None:
    taken: list[np.ndarray] = []

    def taking(shape: tuple[int, int]) -> np.ndarray:
        taken.append(np.full(shape, np.nan))
        return taken[-1]

    rows = 2 * BLOCK_ROWS + 3
    for threads in (1, 2):
        taken.clear()
        drawn = list(normal_blocks(1, Purpose.FIT_INPUTS, rows, 2, drawing=Drawing(threads, taking)))
        assert {id(block) for block in drawn} == {id(block) for block in taken}
        plain = np.concatenate(list(normal_blocks(1, Purpose.FIT_INPUTS, rows, 2)))
        np.testing.assert_array_equal(np.concatenate(drawn), plain)
    assert plain[0, 0] == generator(1, Purpose.FIT_INPUTS).standard_normal()


def test_the_following_block_is_being_drawn_while_one_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is drawn only when it is asked for does not begin while its predecessor is held."""
    begun = [threading.Event() for _ in range(5)]

    def announced(seed: int, purpose: Purpose, block: int, turn: int) -> np.random.Generator:
        begun[block].set()
        return generator(seed, purpose, block, turn)

    monkeypatch.setattr(streams, "generator", announced)
    blocks = normal_blocks(0, Purpose.FIT_INPUTS, len(begun) * BLOCK_ROWS, 2, drawing=Drawing(2))
    for following in begun[1:]:
        next(blocks)
        assert following.wait(timeout=30), "nothing is drawn ahead"
    next(blocks)
    assert next(blocks, None) is None


def test_threads_hold_few_blocks_and_end_with_the_first_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counted(seed: int, purpose: Purpose, block: int, turn: int) -> np.random.Generator:
        drawn.append(block)
        if block == 3:
            raise MemoryError
        return generator(seed, purpose, block, turn)

    monkeypatch.setattr(streams, "generator", counted)
    blocks = normal_blocks(0, Purpose.FIT_INPUTS, 9 * BLOCK_ROWS, 2, drawing=Drawing(2))
    next(blocks)
    blocks.close()
    assert set(drawn) <= {0, 1, 2}
    # Only two blocks of this width may be drawn ahead of the one in use.
    monkeypatch.setattr(streams, "_AHEAD", 2 * 8 * BLOCK_ROWS * 2)
    drawn.clear()
    blocks = normal_blocks(0, Purpose.FIT_INPUTS, 9 * BLOCK_ROWS, 2, drawing=Drawing(16))
    next(blocks)
    blocks.close()
    assert set(drawn) <= {0, 1, 2}
    with pytest.raises(MemoryError):
        list(normal_blocks(0, Purpose.FIT_INPUTS, 9 * BLOCK_ROWS, 2, drawing=Drawing(2)))


def test_streams_differ_between_seeds_purposes_and_blocks() -> None:
    keys = [(s, p, b) for s in (0, 1, 2**32 - 1) for p in Purpose for b in (0, 1)]
    first = {generator(*key).standard_normal() for key in keys}
    assert len(first) == len(keys)


def test_a_sample_gives_the_same_rows_each_time() -> None:
    sample = fit_sample(1, 10, 3)
    for (x, e), (x_again, e_again) in zip(sample.blocks(), sample.blocks(), strict=True):
        np.testing.assert_array_equal(x, x_again)
        np.testing.assert_array_equal(e, e_again)


def test_gaussian_rows_have_variance_one_over_d_and_sphere_rows_their_direction() -> None:
    d, width = 50, 4000
    rows = initial_weights(0, width, d, "gaussian")
    squares = np.sum(rows**2, axis=1)  # chi-squared with d degrees of freedom over d: variance 2/d
    assert abs(squares.mean() - 1) < 5 * np.sqrt(2 / d / width)
    assert abs(squares.var() * d / 2 - 1) < 0.2
    sphere = initial_weights(0, width, d, "sphere")
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(sphere * np.sqrt(squares)[:, None], rows, rtol=1e-13)


def test_vocabulary_has_its_exact_proportions_in_random_order() -> None:
    law = Readout.parse({-1.0: 0.25, 0.5: 0.25, 2.0: 0.5})
    values = initial_readout(0, 400, law)
    assert [int(np.sum(values == v)) for v in law.values] == [100, 100, 200]
    assert np.any(np.diff(values) < 0)
    assert not np.array_equal(values, initial_readout(1, 400, law))


def test_gaussian_readout_is_standard_normal() -> None:
    values = initial_readout(5, 20_000, Readout("gaussian"))
    assert abs(values.mean()) < 5 / np.sqrt(values.size)
    assert abs(np.mean(values**2) - 1) < 5 * np.sqrt(2 / values.size)
