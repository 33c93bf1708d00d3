"""The result of an explainer: signed scores with error bars, and everything needed to use them again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief, listed, printable, warn
from tempograd.core.question import Asked
from tempograd.core.series import Series, is_nested
from tempograd.engine import Model, Predictor, fingerprint
from tempograd.engine.outputs import class_count, link_words, output_of, outputs_of
from tempograd.explanation import files
from tempograd.explanation.diagnostics import assumed, sentence
from tempograd.explanation.record import Blocks, Record, as_table, check_fields
from tempograd.targets import in_words
from tempograd.typing import ArrayLike, Inputs, Picker

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Record):
    """How much each value of each series pushed a prediction up (positive) or down (negative).

    Attributes
    ----------
    values : Tensor of shape (series, time, channel)
        Signed where the method is. Unobserved cells hold 0; ``mask`` tells which they are.
    signed : bool
        Whether the signs of values mean something.
    standard_error, n_draws, ess : Tensor like ``values``, optional
        Monte-Carlo error of each value (infinite below two draws), how many draws counted for it, and how many
        equally weighted ones they are worth (the effective sample size). None where it means nothing.
    n_evals : Tensor of shape (series,), optional
        How often the model was evaluated for each series: the path points that it got.
    delta : Tensor of shape (series,), optional
        Explained score of the series minus that of its baseline; None where it was not read.
    prediction : Tensor of shape (series,), optional
        The explained score of each series: a probability, or the model's output as it is; over several steps their
        sum. None where it was not read.
    gradient_check : GradientCheck, optional
        Whether the gradient is that of the score that the model computes, for methods that follow a path; None
        for others, and where it was switched off. :meth:`verdict` begins with it where it is not.
    target : Tensor, optional
        Explained class, (series,) or (series, time); None if a function picked the score. A single probability is
        that of class 1, and 0 is its complement.
    columns : int, optional
        Numbers that the model returns per series, or per step. None in files of versions that did not know:
        there, 0 was the name of a single probability.
    output : str
        ``"probability"``, ``"raw"`` or the link of the task: what was differentiated and is measured.
    steps : Tensor or "own", optional
        Explained steps, (series, time), for models with one output per step.
    baseline, mask, x : Tensor like ``values``
        The series, what they were compared with, and which of their cells were observed.
    facts : Facts
        What the method promises, which the verdict builds on.
    method, parameters, seed : str, dict and int
        What made the values.
    fingerprint, version : str
        A hash of the model's weights, and the release of tempograd.
    draws, varies, mixes_series : int, bool and bool
        Realisations that were averaged, whether the model's outputs for the same series differ, and whether they
        depend on the rest of a batch. If only the last is true, each series was run by itself.
    ids : Tensor of shape (series,)
        Numbers of the series.
    channels, times, names : tuple of str, optional
        What people call the channels, the time steps and the series. ``times`` may hold such a tuple for each
        series.
    classes, units : tuple of str, optional
        What people call the model's outputs, and the units of the channels' values.
    raw : Tensor like ``values``, optional
        The values as people know them, before they were scaled for the model.
    task : str, optional
        What the model's output is; None where that is not known.
    call : Call
        How the model is called with the series.
    output_shape : tuple of int
        Shape of one output with several axes, whose cells are then the columns; empty for plain columns.
    y : Tensor, optional
        The labels, or true values, that came with the series.
    truth : Tensor of bool like ``values``, optional
        Which cells are known to decide the label, where the series told that.
    question : Question
        What was asked: target, output, steps and baseline as they were given, and ``background`` by its number of
        series and a hash of their values.
    findings : tuple of Finding
        What the call assumed or found out; :attr:`assumptions` has the sentences of the former.
    """

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.values.shape))
        if self.call.packing is not None:
            inputs = [f"{name} {' × '.join(map(str, self[name].values.shape[1:])) or 1}" for name in self.inputs]
            shape = f"{len(self)} series, {', '.join(map(printable, inputs))}"
        draws = self.draws if self.draws > 1 else None
        settings = {"baseline": self.baseline_kind, "seed": self.seed, "draws": draws, **self.parameters}
        named = ", ".join(f"{name}={value!r}" for name, value in settings.items() if value not in (None, []))
        more = f"\nAssumed: {assumed([self])}" if self.assumptions else ""
        words = "" if self.output == "raw" or self.columns is None else f" ({link_words(self.link, self.columns)})"
        return f"Explanation({shape}, method={self.method!r}, output={self.output!r}{words}, {named}){more}"

    @classmethod
    def of(
        cls,
        model: Model | Predictor,
        series: Inputs | Series,
        values: Any,
        method: str = "mine",
        **question: Unpack[Asked],
    ) -> "Explanation":
        """Return scores that were made elsewhere as an explanation, to evaluate, compare, draw, report and save.

        Parameters
        ----------
        model : nn.Module, callable or Predictor
            What the scores explain; it tells the prediction and, where none is named, the target.
        series : Tensor or array of shape (series, time, channel), or Series
        values : Tensor or array like the series
            One score per value. Scores that are nowhere below 0 have no direction.
        method : str
            What made them.
        **question
            What they are about, as in :func:`tempograd.explain`: ``target``, ``output``, ``steps``, ``baseline``.

        Examples
        --------
        >>> import torch
        >>> x = torch.tensor([[[1.0], [2.0]]])
        >>> mine = Explanation.of(lambda z: z.sum(1), x, x, "times one", output="raw", target=0)
        >>> mine.method, mine.values.flatten().tolist(), float(mine.prediction)
        ('times one', [1.0, 2.0], 3.0)
        """
        from tempograd.explainers.by_name import OwnScores, explain  # noqa: PLC0415  # above

        return explain(model, series, OwnScores(method, lambda *_: values), **question)

    @property
    def series(self) -> Series | None:
        """The series as the model read them, with everything that belongs to them; None where they were not kept.

        Series of unequal length are a list, several inputs a mapping or a tuple, as they were given.
        """
        if self.x is None:
            return None
        cells = (self.mask, self.raw, self.truth)
        mask, raw, truth = (None if part is None else self.apart(part) for part in cells)
        if isinstance(mask, dict | tuple | list):  # what lies between inputs, and behind the ends, is no gap
            rows = mask.values() if isinstance(mask, dict) else mask
            mask = None if all(bool(row.all()) for row in rows) else mask
        end = None if self.call.lengths is None else max(self.call.lengths, default=0)
        y = self.y if self.y is None or self.y.shape[1:2] != self.values.shape[1:2] else self.y[:, :end]
        texts = self.names is not None and [validation.text_key(name) for name in self.names] == self.ids.tolist()
        times, parts = self.times, () if self.call.packing is None else self.call.packing.parts

        def stamps(steps: slice) -> Any:
            return tuple(row[steps] for row in times) if is_nested(times) else times and times[steps]

        labels: dict[str, Any] = {"channels": self.channels, "units": self.units, "times": stamps(slice(end))}
        if parts:
            flat = ("channels", "units")
            labels |= {n: labels[n] and {p.name: labels[n][p.channels] for p in parts} for n in flat}
            labels["times"] = times and {p.name: stamps(p.steps) for p in parts if not p.is_static}
        return Series(
            self.apart(self.x),
            y,
            mask=mask,
            fill=None if bool(self.x.isnan().any()) else 0,
            ids=self.names if texts else self.ids,
            raw=raw,
            truth=truth,
            fixed=self.call.fixed,
            **labels,
        )

    @property
    def picker(self) -> Picker | None:
        """The function that picked the score; files keep those of ``tempograd.targets``, of others their words."""
        target = self.question.target
        return target if callable(target) and not isinstance(target, Tensor) else None

    @property
    def target_text(self) -> str:
        """What was explained, in words, where ``target`` does not tell it."""
        target, picker = self.question.target, self.picker
        words = target if self.target is None and isinstance(target, str) else ""
        return printable(words if picker is None else in_words(picker))  # type: ignore[no-any-return]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed of model and series, since nobody said it, one sentence each."""
        return tuple(finding.say() for finding in self.findings if finding.severity == "assumption")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs that were explained; empty for a model of one input."""
        return () if self.call.packing is None else self.call.packing.names

    @property
    def baseline_kind(self) -> Literal["zero", "average", "background", "own"]:
        """Return what the scores compare with: ``"own"`` are any other numbers.

        Without the series an average is not recognised.
        """
        if self.background is not None:
            return "background"
        if not bool(validation.unexpanded(self.baseline).any()):
            return "zero"
        x = self.x
        means = None if x is None else validation.average(x, self.mask).expand_as(x)
        return "own" if means is None or not torch.allclose(self.baseline.to(means), means) else "average"

    @property
    def n_outputs(self) -> int | None:
        """Return how many outputs, or classes, the model has: a single probability stands for two classes."""
        return None if self.columns is None else class_count(self.columns, self.link)

    @property
    def link(self) -> str:
        """Return what makes ``output`` of the model's columns.

        That is "raw", or what the task says, such as "probability" (softmax, or a sigmoid of a single one).
        """
        return "raw" if self.output == "raw" else outputs_of(self.task).link

    def verdict(self, i: int | None = None) -> str:
        """Say in one line how good the scores are and what would make them better.

        Parameters
        ----------
        i : int, optional
            Position of a series; by default the line is about all of them.
        """
        return sentence(self, i)

    def describe(self, i: int | str = 0) -> str:
        """Say in one sentence what was predicted of series ``i``, what is true, and what drove the prediction.

        Neighbouring values of a channel that push one way are one driver; two to four are named, each with its
        values, its time and the sum of its scores with the standard error (at most: errors of neighbours are added
        up). Uncertain ones come last and are called so. The page "The answer in a sentence" has the rule.

        Parameters
        ----------
        i : int or str
            Position of the series, or its name.
        """
        from tempograd.views.drivers import describe_series  # noqa: PLC0415  # above

        text = describe_series(self, i)
        return f"{text}; assumed: {assumed([self])}" if self.assumptions else text

    def blocks(self, rows: ArrayLike | None = None, *, steps: int | None = None) -> Blocks:
        """Return the mean attribution of each channel in each block of steps, over a group of series.

        Parameters
        ----------
        rows : sequence of int or bool, optional
            The series of the group, by position or as one flag each; by default all.
        steps : int, optional
            How many steps a block has. By default there are eight blocks.

        Returns
        -------
        Blocks
            With 95 % intervals over the series.
        """
        from tempograd.views.groups import blocks_of  # noqa: PLC0415  # above

        return blocks_of(self, rows, steps=steps)

    @property
    def shown(self) -> Tensor | None:
        """Return the values that people are shown: ``raw`` where it is known, else ``x``."""
        return self.x if self.raw is None else self.raw

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per observed cell, in the order of series, time and channel.

        Columns: ``id``, of several inputs ``input``, ``time``, ``channel``, ``attribution`` and, where they are
        known, the ``value`` as people know it (``raw``, else ``x``), its ``unit``, the name of the explained
        ``class``, the limits ``low`` and ``high`` of the 95 % interval, ``standard_error`` and ``n_draws``.
        """
        seen = torch.ones_like(self.values, dtype=torch.bool) if self.mask is None else self.mask
        row, time, channel = (index.cpu().numpy() for index in seen.nonzero(as_tuple=True))
        parts = () if self.call.packing is None else self.call.packing.parts
        owners = [part.name for part in parts for _ in range(part.depth)]
        stamps = self.times and [self.times_of(i) for i in range(len(self))]
        classes = None
        if self.classes is not None and self.target is not None and self.n_outputs is not None:
            target = self.target.cpu().numpy()
            classes = [self.classes[k] for k in (target[row] if target.ndim == 1 else target[row, time])]
        low, high = (None, None) if self.ess is None else self.interval()
        content: dict[str, Any] = {
            "id": self.ids.numpy()[row] if self.names is None else [self.names[r] for r in row],
            "input": [owners[c] for c in channel] if parts else None,
            "time": [stamps[r][t] for r, t in zip(row, time, strict=True)] if stamps else time,
            "channel": channel if self.channels is None else [self.channels[c] for c in channel],
            "attribution": self.values,
            "value": self.shown,
            "unit": self.units and [self.units[c] for c in channel],
            "class": classes,
            "low": low,
            "high": high,
            "standard_error": self.standard_error,
            "n_draws": self.n_draws,
        }
        known = {name: part for name, part in content.items() if part is not None}
        return as_table({n: p[seen].cpu().numpy() if isinstance(p, Tensor) else p for n, p in known.items()})

    def plot(self, i: int | str = 0, **options: Any) -> "Figure":
        """Draw series ``i``, a position or a name; the options are those of :func:`tempograd.plots.series`."""
        from tempograd.plots import series  # noqa: PLC0415  # above

        return series(self, i, **options)

    def _repr_html_(self) -> str:
        """Show the first series where a notebook would print the explanation."""
        from tempograd.html_report.notebook import as_html  # noqa: PLC0415  # above

        return as_html(self)

    def save(self, path: str | Path, *, series: bool = True, force: bool = False) -> Path:
        """Write a safetensors file with a JSON header and a checksum; ``series=False`` leaves the series out.

        Fixed inputs are always kept: without them the model could not be called again.

        An explanation that was saved before is replaced, another file only with ``force=True``.
        """
        return files.write_explanations(path, [self], None, series=series, force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote, also by versions that knew less.

        A file that was damaged, whose parts do not fit each other, or that a newer version wrote in another way is
        refused. Files of schema 1 do not tell the facts of their method, so that nothing is claimed of it.
        """
        explanations, _ = files.read_explanations(path, cls)
        if len(explanations) > 1:
            raise InputError(f"{path} holds {len(explanations)} targets: read it by tempograd.Explanations.load.")
        return explanations[0]

    def verify(self) -> None:
        """Refuse fields, made by hand or read from a file, that do not fit together or that no explanation has."""
        values, packing = self.values, self.call.packing
        if not isinstance(values, Tensor) or values.ndim != 3 or not values.is_floating_point():
            raise InputError(f"values must be a float tensor (series, time, channel), got {brief(values)}.")
        if packing is not None and (packing.time, packing.channels) != tuple(values.shape[1:]):
            raise InputError(f"values must hold all inputs, got {tuple(values.shape[1:])}.")
        sizes = dict(zip(("series", "time", "channel"), values.shape, strict=True))
        sizes["steps"] = sizes["time"] if packing is None else packing.first.time
        check_fields(self, sizes)
        validation.check_choice(self.output, "output", ("raw", output_of(self.task)))
        validation.check_classes(self.classes, self.n_outputs)
        validation.check_ids(self.ids, len(self))
        if self.raw is not None:
            validation.check_raw(self.raw, values, self.mask)
        limit = 2**31 if self.n_outputs is None else self.n_outputs
        if self.target is not None and bool(((self.target < 0) | (self.target >= limit)).any()):
            raise InputError(f"target must lie in 0 … {limit - 1}.")
        if self.gradient_check is not None:
            self.gradient_check.verify()


def require(value: Any) -> Explanation:
    """Refuse what is no explanation, or several of them."""
    if isinstance(value, Explanation):
        return value
    if isinstance(value, Mapping) and value and all(isinstance(part, Explanation) for part in value.values()):
        first, named = next(iter(value)), listed(map(str, value), 60)
        raise InputError(f"There are {len(value)} targets, {named}: take one, such as explanations[{first!r}].")
    raise InputError(f"An Explanation was expected, as tempograd.explain returns it, got {brief(value)}.")


def warn_of_another_model(model: Model, explanations: Mapping[str, Explanation]) -> str:
    """Warn if some of the explanations are not of ``model``, and return what was said, nothing if all are.

    An explanation without a fingerprint, made by hand, may be of any model.
    """
    here = fingerprint(model)()
    others = {name: part.fingerprint for name, part in explanations.items() if part.fingerprint not in {"", here}}
    if not others:
        return ""
    names, there = ", ".join(others), next(iter(others.values()))
    message = f"{names} explained another model ({there}) than the one given here ({here}): pass that one."
    warn(message)
    return message


def label_accuracy(explanation: Explanation) -> float | None:
    """Return the share of labels that the model predicts; None without labels, or where a target was asked for."""
    y, predicted = explanation.y, explanation.target
    if explanation.columns == 1 and explanation.prediction is not None:  # that of class 1
        predicted = explanation.prediction > 0.5
    if y is None or predicted is None or explanation.question.target is not None or predicted.shape != y.shape:
        return None
    if y.is_floating_point() or explanation.n_outputs == 1 or outputs_of(explanation.task).kind != "classes":
        return None  # one raw output says no class
    right = predicted.cpu() == y.cpu()
    if right.ndim == 2:  # steps of the padding have no label
        seen = validation.lengths(explanation.mask, explanation.values).cpu()
        right = right[torch.arange(right.shape[1]) < seen[:, None]]
    return float(right.double().mean())
