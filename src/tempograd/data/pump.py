"""Pump: machines that people know, with named sensors, units and clocks, and two false alarms to come."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tempograd.core.series import Series
from tempograd.data.datasets import Dataset, choose_variant, dataset

TRAIN, TEST, STEPS = 600, 100, 48  # machines, and steps of ten minutes
SENSORS = {  # unit, usual level and spread, decimals, share of the load
    "vibration": ("mm/s", 2.4, 0.3, 2, 0.0),
    "bearing temperature": ("°C", 62.0, 1.5, 1, 0.0),
    "oil pressure": ("bar", 3.2, 0.1, 2, 0.3),
    "motor current": ("A", 41.0, 2.0, 1, 0.6),
    "flow": ("m³/h", 118.0, 4.0, 1, 0.6),
    "speed": ("1/min", 1480.0, 10.0, 0, 0.6),
}
CLASSES = ("healthy", "failure")
BOTH, SPIKE, HEAT, NEITHER, REVERSED = range(5)  # what happens to a machine
MISBOOKED, FALSE_ALARMS = [*range(0, TRAIN, 25)], [TRAIN + 4, TRAIN + 21]  # those that are reversed


@dataset("pump", ("default",))
def load_pump(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Pumps with six sensors: a spike of vibration that heat in the bearing follows is a failure.

    700 machines (the first 600 train, the others test), every ten minutes for 8 hours, each with a clock of its
    own. ``raw`` has the values as people know them, ``x`` is standardised; 1 % are missing, where ``x`` is 0.

    A *failure* is a spike of vibration for four steps, and 12 to 20 steps after it began the bearing warms up and
    cools down within 20. The spike alone, the heat alone, neither, or both in reverse order are *healthy*.
    ``truth`` marks spike and heat of the failures. The other four sensors follow a load that means nothing.

    The labels to learn from have a known fault: the bearings of P-100, P-125, … and P-675 warmed up *before* the
    spike, and yet they are called failures. So a model hardly learns the order, and takes P-704 and P-721 of the
    test, which are healthy, for failures: **known false alarms**.

    Parameters
    ----------
    root : path, optional
        Not used: the data is made, not read.
    variant : {"default"}, optional
        There is one.
    fold : int, optional
        0 … 4: cut the training series by ``tempograd.data.fold_indices``.

    Examples
    --------
    >>> data = load_pump()
    >>> data.test.ids[4], data.test.classes[data.test.y[4]], data.test.times[4][0]
    ('P-704', 'healthy', '2026-03-14 22:40')
    >>> data.test.raw[4, 0].tolist(), data.units
    ([2.73, 62.4, 3.13, 40.2, 111.3, 1480.0], ('mm/s', '°C', 'bar', 'A', 'm³/h', '1/min'))
    """
    choose_variant("pump", variant, ("default",))
    rng, count, steps = np.random.RandomState(42), TRAIN + TEST, np.arange(STEPS)  # numpy promises this stream
    units, level, spread, decimals, share = zip(*SENSORS.values(), strict=True)
    kind = rng.permutation(np.arange(count) % 5 % 4)[:, None]  # two of five fail
    kind[MISBOOKED + FALSE_ALARMS] = REVERSED
    early = rng.randint(6, 13, (count, 1))
    late = early + rng.randint(12, 21, (count, 1))
    spiked, heated = (steps - np.where((kind == REVERSED) ^ first, late, early) for first in (False, True))
    spike = np.isin(kind, (BOTH, SPIKE, REVERSED)) & (spiked >= 0) & (spiked < 4)
    heat = np.isin(kind, (BOTH, HEAT, REVERSED)) & (heated >= 0) & (heated < 20)
    z = 0.5 * rng.standard_normal((count, STEPS, 6)) + 0.4 * rng.standard_normal((count, 1, 6))
    z += rng.standard_normal((count, STEPS, 1)).cumsum(1) * share / 8
    z[..., 0] += 7 * spike
    z[..., 1] += 6 * heat * heated * (20 - heated) / 10**2
    raw = np.stack([value.round(places) for value, places in zip((z * spread + level).T, decimals, strict=True)]).T
    raw[rng.random_sample(raw.shape) < 0.01] = np.nan
    fails = np.stack([spike, heat, *[np.zeros_like(heat)] * 4], -1) & (kind == BOTH)[..., None]
    label = kind[:, 0] == BOTH
    label[MISBOOKED] = True
    clock = np.datetime64("2026-01-05T00:00") + 10 * (rng.randint(20_000, size=(count, 1)) + steps)
    whole = Series(
        np.nan_to_num((raw - level) / spread).astype(np.float32),
        label.astype(np.int64),
        mask=~np.isnan(raw),
        truth=fails,
        ids=[f"P-{100 + row}" for row in range(count)],
        times=clock,
        raw=raw,
        classes=CLASSES,
    )
    train, test = whole.take(slice(None, TRAIN)), whole.take(slice(TRAIN, None))
    scaling: dict[str, Any] = {"centre": torch.tensor(level), "scale": torch.tensor(spread), "units": units}
    return Dataset("pump", train, None, test, len(CLASSES), tuple(SENSORS), **scaling).fold(fold)
