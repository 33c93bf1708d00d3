"""MIMIC-III: who dies in intensive care, told from 48 hours of vital signs and laboratory values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.data._mimic3_tables import prepare_mimic3
from tempograd.data.base import Dataset, Split
from tempograd.data.loading import choose_variant, dataset
from tempograd.errors import DataError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HOURS = 48
LABS = (
    *("ANION GAP", "ALBUMIN", "BICARBONATE", "BILIRUBIN", "CREATININE", "CHLORIDE", "GLUCOSE", "HEMATOCRIT"),
    *("HEMOGLOBIN", "LACTATE", "MAGNESIUM", "PHOSPHATE", "PLATELET", "POTASSIUM", "PTT", "INR", "PT", "SODIUM"),
    *("BUN", "WBC"),
)
VITALS = ("HeartRate", "SysBP", "DiasBP", "MeanBP", "RespRate", "SpO2", "Glucose", "Temp")
STATIC = ("gender", "age", "ethnicity", "first_icu_stay")
CHANNELS = LABS + VITALS + STATIC
LAB_UNITS = (  # as the database has them
    *("mEq/L", "g/dL", "mEq/L", "mg/dL", "mg/dL", "mEq/L", "mg/dL", "%"),
    *("g/dL", "mmol/L", "mg/dL", "mg/dL", "K/µL", "mEq/L", "s", "", "s", "mEq/L"),
    *("mg/dL", "K/µL"),
)
VITAL_UNITS = ("beats/min", "mmHg", "mmHg", "mmHg", "breaths/min", "%", "mg/dL", "°C")
UNITS = (*LAB_UNITS, *VITAL_UNITS, "", "years", "", "")
MEASURED = len(LABS) + len(VITALS)
TRAIN_SHARE = 0.8
SEED = 42
EPSILON = 1e-5


@dataclass(frozen=True)
class Rules:
    """What the variants disagree about."""

    label: str
    as_published: bool = False


VARIANTS = {
    "icu_death": Rules("icu_death"),
    "hospital_death": Rules("hospital_death"),
    "published": Rules("icu_death", as_published=True),
}


@dataset("mimic3", VARIANTS, needs_files=True)
def load_mimic3(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""48 hours of intensive care (hourly, 32 channels, mostly unobserved); class 1 is a patient who died.

    Read from the CSV tables of MIMIC-III v1.4 or of its open demo, without a database server; the first call makes
    hourly means of them, later ones find these in a cache (:func:`~tempograd.data.prepare_mimic3`).

    Stays of at least 48 hours outside PICU and NICU, of patients whose age is known, with at least one valid
    vital sign in the first 48 hours; in the order of patient, admission and stay. ``ids`` are the ICUSTAY_ID.
    Hours count from the first vital sign; a cell is the mean of its hour. Channels: 20 laboratory values, 8 vital
    signs, and gender (1 = M), age in whole years, ethnicity (1 … 5: white, black, hispanic, asian, other) and
    whether this is the first ICU stay of the admission, which are the same at every hour.

    With the mean :math:`\mu` and the standard deviation :math:`\sigma` (divisor :math:`n - 1`) of a channel's
    observed cells in all training stays, an observed cell is :math:`(x - \mu) / (\sigma + 10^{-5})` and an
    unobserved one 0. A channel that was observed less than twice there keeps its scale.

    Parameters
    ----------
    root : path
        The data root; the tables lie in its folder ``MIMIC3``, ``MIMIC3-demo`` or ``mimiciii`` or in itself.
    variant : {"icu_death", "hospital_death", "published"}, optional
        * ``"icu_death"`` (the default): death in the ICU. Every fifth patient tests, with all their stays, drawn
          with a fixed seed among those who died in the ICU, later in the hospital, and not. A value measured on
          the full hour belongs to the hour that starts.
        * ``"hospital_death"``: the same stays and split; death before leaving the hospital.
        * ``"published"``: what the released code does (section 4.4 of the protocol). Label: death in the ICU,
          which the paper calls in-hospital mortality. The first 80 % of the stays train, so that a patient may be
          on both sides. A value measured exactly n hours after the first vital sign is dropped, the first vital
          sign itself among them; on the demo that is one vital sign in three. A stay is dropped where a vital sign
          was measured but never inside an hour. A channel that was never measured in a stay counts as observed
          with the raw value 0 in all 48 hours, which also enters the mean and the standard deviation.

    fold : int, optional
        0 … 4: cut the training stays by the published rule, which is by stay and not by patient.

    References
    ----------
    .. [1] A. Johnson et al., "MIMIC-III, a freely accessible critical care database", Scientific Data 3, 2016.
       https://doi.org/10.1038/sdata.2016.35
    .. [2] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821
    """
    variant = choose_variant("mimic3", variant, VARIANTS)
    rules = VARIANTS[variant]
    stays, cells = prepare_mimic3(root).read()
    x, observed = hourly_series(stays, cells, inside=rules.as_published)
    kept, test = np.ones(len(x), dtype=bool), patients_that_test(stays)
    if rules.as_published:
        measured = measured_at_all(cells, len(x))
        kept = ~lost_vital(measured, observed)
        observed[..., :MEASURED] |= ~measured[:, None]
        test = np.arange(kept.sum()) >= int(TRAIN_SHARE * kept.sum())
    if not kept.any():
        raise DataError(f"No ICU stay in {root} fits the cohort: 48 hours or longer, vital signs charted.")
    x, observed = x[kept], observed[kept]
    x, centre, scale = standardise(x, observed, train=~test)
    whole = Split(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(stays[rules.label][kept]).long(),
        mask=torch.from_numpy(observed),
        ids=torch.from_numpy(stays["icustay_id"][kept]),
    )
    train, held_out = whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test))
    return Dataset(
        name="mimic3",
        train=train,
        validation=None,
        test=held_out,
        classes=2,
        channels=CHANNELS,
        variant=variant,
        centre=torch.from_numpy(centre),
        scale=torch.from_numpy(scale),
        units=UNITS,
    ).fold(fold)


def hourly_series(
    stays: Mapping[str, NDArray[Any]], cells: Mapping[str, NDArray[Any]], *, inside: bool
) -> tuple[Floats, Bools]:
    """Raw series (stays, 48, 32), 0 where nothing was observed, and where something was."""
    x = np.zeros((len(stays["stay"]), HOURS, len(CHANNELS)))
    observed = np.zeros(x.shape, dtype=bool)
    value = cells["inside" if inside else "value"]
    told = (cells["hour"] >= 0) & (cells["hour"] < HOURS) & ~np.isnan(value)
    place = (cells["stay"][told], cells["hour"][told], cells["channel"][told])
    x[place], observed[place] = value[told], True
    for channel, name in enumerate(STATIC, start=MEASURED):
        x[..., channel], observed[..., channel] = stays[name][:, None], True
    return x, observed


def measured_at_all(cells: Mapping[str, NDArray[Any]], stays: int) -> Bools:
    """Which of the 28 measured channels occur in a stay's 48 hours, (stays, 28), value or not."""
    measured = np.zeros((stays, MEASURED), dtype=bool)
    measured[cells["stay"], cells["channel"]] = True
    return measured


def lost_vital(measured: Bools, observed: Bools) -> Bools:
    """Stays where some vital sign was measured and has no value in any hour."""
    vitals = slice(len(LABS), MEASURED)
    return np.asarray((measured[:, vitals] & ~observed[..., vitals].any(axis=1)).any(axis=1))


def patients_that_test(stays: Mapping[str, NDArray[Any]]) -> Bools:
    """Stays of the patients drawn to test: a fifth of those with each outcome, whatever the label is."""
    patients, owner = np.unique(stays["subject_id"], return_inverse=True)
    outcome = np.zeros(len(patients), dtype=np.int64)
    np.maximum.at(outcome, owner, stays["icu_death"] + stays["hospital_death"])
    drawn = np.zeros(len(patients), dtype=bool)
    rng = np.random.RandomState(SEED)  # numpy promises never to change this stream
    for level in range(3):
        group = rng.permutation(np.flatnonzero(outcome == level))
        drawn[group[: round((1 - TRAIN_SHARE) * len(group))]] = True
    return drawn[owner]


def standardise(x: Floats, observed: Bools, train: Bools) -> tuple[Floats, Floats, Floats]:
    """Centre and scale every channel by its observed cells in the training stays; the unobserved become 0.

    Returns the series, and the centre and the scale of each channel.
    """
    result = np.zeros_like(x)
    centre, scale = np.zeros(x.shape[2]), np.ones(x.shape[2])
    for channel in range(x.shape[2]):
        seen = observed[..., channel]
        known = x[train, :, channel][seen[train]]
        if len(known):
            centre[channel] = known.mean()
        if len(known) > 1:
            scale[channel] = known.std(ddof=1) + EPSILON
        result[seen, channel] = (x[seen, channel] - centre[channel]) / scale[channel]
    return result, centre, scale
