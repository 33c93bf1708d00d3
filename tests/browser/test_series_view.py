"""Numbers of one series in the page are the library's."""

from itertools import groupby

import pytest
import torch

import tempograd as tg

pytestmark = pytest.mark.browser

DIGITS = 1e-5  # relative: numbers in tables are written with at least six digits


def close(found, expected):
    return float(found) == pytest.approx(float(expected), rel=DIGITS, abs=1e-7)


@pytest.mark.parametrize("name", ["classifier", "binary", "regression", "per_step", "bare"])
def test_top_cells_are_those_of_the_explanation(visit, name):
    sheet = visit(name)
    case = sheet.case
    for number in (case.ids[0], case.ids[-1]):
        sheet.choose(number)
        row = case.row(number)
        for method, explanation in case.explanations.items():
            sheet.by(method)
            found = sheet.rows("#top tr[data-time]")
            assert len(found) >= 5
            top = explanation.top(len(found))
            limits = None if explanation.standard_error is None else explanation.interval(0.95)
            for shown, t, d, value in zip(found, *(part[row].tolist() for part in top), strict=True):
                assert (int(shown["time"]), int(shown["channel"])) == (t, d)
                assert close(shown["value"], value)
                assert close(shown["x"], case.shown()[row, t, d])
                assert ("low" in shown) == (limits is not None)
                if limits is not None:
                    assert close(shown["low"], limits[0][row, t, d])
                    assert close(shown["high"], limits[1][row, t, d])


@pytest.mark.parametrize("name", ["classifier", "binary", "one_column", "many_classes", "regression", "per_step"])
def test_removed_cells_move_the_prediction_as_the_model_says(visit, name):
    """Against a loop that puts the strongest cells at the baseline, one after the other."""
    sheet = visit(name)
    case = sheet.case
    for method in case.explanations:
        sheet.by(method)
        number = case.ids[2]
        sheet.choose(number)
        row = case.row(number)
        slider = sheet.find("#removal")
        low, high = (int(slider.get_attribute(end)) for end in ("min", "max"))
        counts = set()
        for place in {low, low + 1, (low + high) // 2, high}:
            sheet.set("removal", place)
            count, observed = (int(word) for word in sheet.text("#removal-text").split() if word.isdigit())
            assert observed == int(case.observed(row).sum())
            counts.add(count)
            before, after = case.answer(case.x[row : row + 1])[0], case.without(method, row, count)
            shown = sheet.rows("#probabilities tr[data-class]")
            assert {int(found["class"]) for found in shown} == set(range(len(before)))
            if case.first.target.ndim == 1:
                assert int(shown[0]["class"]) == int(case.first.target[row])
            for found in shown:
                kind = int(found["class"])
                line = f"#probabilities tr[data-class='{kind}']"
                assert sheet.number(f"{line} td[data-before]", "before") == pytest.approx(
                    float(before[kind]), abs=1e-6, rel=1e-4
                )
                assert sheet.number(f"{line} td[data-after]", "after") == pytest.approx(
                    float(after[kind]), abs=1e-6, rel=1e-4
                )
        assert {0, int(case.observed(row).sum())} <= counts
        assert len(counts) >= 3


def test_the_cursor_reads_values_off(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(42)
    row = case.row(42)
    for method, explanation in case.explanations.items():
        sheet.by(method)
        for step in (0, 4, 19):
            sheet.set("cursor", step)
            shown = {int(found["channel"]): found for found in sheet.rows("#readout tr[data-channel]")}
            assert set(shown) == set(range(4))
            for channel, line in shown.items():
                cells = sheet.rows(f"#readout tr[data-channel='{channel}'] td[data-method]")
                (cell,) = [found for found in cells if found["method"] == method]
                if case.observed(row)[step, channel]:
                    assert close(line["value"], case.shown()[row, step, channel])
                    expected = float(explanation.values[row, step, channel])
                    assert float(cell["score"]) == pytest.approx(expected)
                else:
                    assert "value" not in line
                    assert "score" not in cell
                    assert "not observed" in sheet.text(f"#readout tr[data-channel='{channel}']")


def test_scores_are_those_of_the_metrics(visit):
    sheet = visit("classifier")
    case = sheet.case
    number = 45  # not the one in the middle, which a reversal would leave where it is
    sheet.choose(number)
    for method, explanation in case.explanations.items():
        metrics = ["cpd", "cpp", "auroc", "auprc"]
        expected = tg.evaluate(case.model, explanation, metrics=metrics, truth=case.split.truth)
        for metric, scores in expected.items():
            (own,) = [
                f
                for f in sheet.rows("#series-scores td[data-metric]")
                if (f["method"], f["metric"]) == (method, metric)
            ]
            assert close(own["value"], scores[case.row(number)])


def runs(chance, label):
    """Return the runs of wrong steps, the surest mistake first, as (first, last, kind)."""
    said, sure = (chance > 0.5).long().tolist(), (chance - 0.5).abs()
    kinds = ["" if a == b else "FP" if a else "FN" for a, b in zip(said, label, strict=True)]
    places = [(key, list(group)) for key, group in groupby(range(len(kinds)), key=kinds.__getitem__) if key]
    found = [(group[0], group[-1], key) for key, group in places]
    return sorted(found, key=lambda run: -float(sure[run[0] : run[1] + 1].max()))


@pytest.mark.parametrize("name", ["per_step", "alarms"])
def test_wrong_steps_and_what_pushed_towards_them(visit, name):
    """Up pushes towards the explained class: towards what the model said only where that is what was explained."""
    sheet = visit(name)
    case = sheet.case
    seen = set()
    for number in case.ids:
        sheet.choose(number)
        row = case.row(number)
        chance = case.model(case.x)[row].softmax(-1)[:, 1]
        said, expected = (chance > 0.5).long(), runs(chance, case.split.y[row].tolist())
        found = sheet.rows("#mistakes-table tr[data-from]")
        assert [(int(f["from"]), int(f["to"]), f["kind"]) for f in found] == expected
        target = case.first.target[row].expand(len(said))
        towards = case.first.values[row] * torch.where(target == said, 1, -1)[:, None]
        for line, (first, last, kind) in zip(found, expected, strict=True):
            part = towards[first : last + 1]
            if float(part.max()) > 0:
                best = int(part.argmax())
                assert (int(line["time"]), int(line["channel"])) == (
                    first + best // len(part[0]),
                    best % len(part[0]),
                )
            else:
                assert "time" not in line
            seen.add(kind)
    assert seen == {"FP", "FN"}


def test_a_run_of_wrong_steps_can_be_shown(visit):
    sheet = visit("alarms")
    line = next(f for f in sheet.rows("#mistakes-table tr[data-from]") if "time" in f)
    sheet.find(f"#mistakes-table tr[data-from='{line['from']}'] button").click()
    assert int(sheet.value("time-from")) == max(int(line["from"]) - 12, 0)
    assert int(sheet.value("time-to")) == min(int(line["to"]) + 12, 29)
    assert sheet.value("cursor") == line["time"]
