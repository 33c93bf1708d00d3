"""Choosing a series: by id, class, error type, size of effect and confidence."""

import pytest

pytestmark = pytest.mark.browser


def shown(sheet):
    """Return the ids on offer, in their order."""
    return [int(value) for value in sheet.options("series")]


def matching(sheet):
    return [int(word) for word in sheet.text("#matches").split() if word.isdigit()]


def explained(case):
    return dict(zip(case.ids, case.first.target.tolist(), strict=True))


def predicted(case):
    answer = case.answer(case.x)
    return dict(zip(case.ids, answer.argmax(-1).tolist(), strict=True))


def labels(case):
    return dict(zip(case.ids, case.split.y.tolist(), strict=True))


@pytest.mark.parametrize("name", ["classifier", "binary", "single", "bare"])
def test_all_series_are_offered(visit, name):
    sheet = visit(name)
    assert sorted(shown(sheet)) == sorted(sheet.case.ids)
    assert matching(sheet)[0] == len(sheet.case.ids)


def test_a_chosen_series_is_drawn(visit):
    sheet = visit("binary")
    case = sheet.case
    for number in (30, 1):
        sheet.choose(number)
        row = case.row(number)
        (strongest,) = sheet.rows("#top tr[data-time]")[:1]
        top = case.first.top(1)
        assert (int(strongest["time"]), int(strongest["channel"])) == (int(top.time[row]), int(top.channel[row]))
        assert str(number) in sheet.find("#view-series").inner_text()


def test_next_and_previous_follow_the_order_on_offer(visit):
    sheet = visit("binary")
    order = shown(sheet)
    sheet.choose(order[0])
    assert sheet.find("#previous").is_disabled()
    for expected in order[1:]:
        sheet.find("#next").click()
        assert int(sheet.value("series")) == expected
    assert sheet.find("#next").is_disabled()
    sheet.find("#previous").click()
    assert int(sheet.value("series")) == order[-2]


def test_a_series_is_found_by_its_id(visit):
    sheet = visit("binary")
    sheet.set("find", 21)
    assert int(sheet.value("series")) == 21
    sheet.set("find", 22)
    assert int(sheet.value("series")) == 21
    assert "22" in sheet.find("#view-series").inner_text()


def test_a_series_is_found_by_its_name(visit):
    """A number that names one series and numbers another means the name, which is what people see."""
    sheet = visit("one_column")
    for number, name in enumerate(sheet.case.first.names):
        sheet.set("find", name)
        assert int(sheet.value("series")) == number
        assert sheet.text("#headline") == f"Series {name}"
    sheet.set("find", 0)  # nobody's name, but a number
    assert int(sheet.value("series")) == 0


@pytest.mark.parametrize("name", ["classifier", "binary", "many_classes"])
def test_the_class_filter_keeps_what_was_explained(visit, name):
    sheet = visit(name)
    target = explained(sheet.case)
    kinds = [value for value in sheet.options("filter-class") if value != "all"]
    assert {int(kind) for kind in kinds} == set(target.values())
    for kind in kinds:
        sheet.set("filter-class", kind)
        expected = {number for number, found in target.items() if found == int(kind)}
        assert set(shown(sheet)) == expected
        assert int(sheet.value("series")) in expected
        assert matching(sheet)[0] == len(expected)
    sheet.set("filter-class", "all")
    assert set(shown(sheet)) == set(target)


def test_where_one_class_is_explained_the_filter_goes_by_the_predicted_one(visit):
    sheet = visit("one_column")
    guess, label = predicted(sheet.case), labels(sheet.case)
    assert set(explained(sheet.case).values()) == {1}
    sheet.unfold()
    assert sheet.find("label:has(#filter-class)").inner_text().startswith("Predicted class")
    for kind in (0, 1):
        sheet.set("filter-class", kind)
        assert set(shown(sheet)) == {number for number in guess if guess[number] == kind} != set()
    sheet.set("filter-class", "all")
    names = ("alive", "died")
    for number, row in zip(sheet.case.ids, sheet.case.answer(sheet.case.x).tolist(), strict=True):
        sheet.choose(number)
        facts = sheet.text("#facts").split("; ")
        assert facts[0].startswith(f"Explained: died (probability {row[1]:.1f}"[:-2])
        assert (f"predicted: {names[0]}" in facts) == (guess[number] == 0)
        assert f"true label: {names[label[number]]}" in facts
        assert f"(said {names[guess[number]]}, is {names[label[number]]})" in facts[-1]
        top = sheet.find("#probabilities tbody tr").first.inner_text()
        assert top.startswith("died (explained)")
        assert sheet.text("#key-up") == "pushes “died” up"  # also where it said "alive"


def test_the_outcome_filter_knows_right_and_wrong(visit):
    sheet = visit("classifier")
    guess, label = predicted(sheet.case), labels(sheet.case)
    assert sheet.options("filter-outcome") == ["all", "right", "wrong"]
    for outcome in ("right", "wrong"):
        sheet.set("filter-outcome", outcome)
        expected = {number for number in guess if (guess[number] == label[number]) == (outcome == "right")}
        assert expected
        assert set(shown(sheet)) == expected


@pytest.mark.parametrize("name", ["binary", "one_column"])
def test_the_outcome_filter_knows_false_alarms_and_misses(visit, name):
    sheet = visit(name)
    case = sheet.case
    label = labels(case)
    guess = predicted(case)
    kinds = {"TP": (1, 1), "FP": (1, 0), "TN": (0, 0), "FN": (0, 1)}
    for outcome, pair in kinds.items():
        expected = {number for number in guess if (guess[number], label[number]) == pair}
        assert expected, "the case must hold all four"
        sheet.set("filter-outcome", outcome)
        assert set(shown(sheet)) == expected


def test_filters_work_together_and_may_leave_nothing(visit):
    sheet = visit("binary")
    guess, label = predicted(sheet.case), labels(sheet.case)
    sheet.set("filter-class", 1)
    sheet.set("filter-outcome", "FP")
    assert set(shown(sheet)) == {number for number in guess if (guess[number], label[number]) == (1, 0)}
    sheet.set("filter-outcome", "TN")
    assert shown(sheet) == []
    assert matching(sheet)[0] == 0
    sheet.set("filter-class", "all")
    assert int(sheet.value("series")) in shown(sheet)


def test_series_are_sorted(visit):
    sheet = visit("binary")
    case = sheet.case
    sheet.set("sort", "id")
    assert shown(sheet) == sorted(case.ids)
    sheet.set("sort", "effect")
    size = dict(zip(case.ids, case.first.values.abs().sum((1, 2)).tolist(), strict=True))
    assert shown(sheet) == sorted(case.ids, key=lambda number: -size[number])
    sheet.set("method", 1)
    size = dict(zip(case.ids, list(case.explanations.values())[1].values.abs().sum((1, 2)).tolist(), strict=True))
    assert shown(sheet) == sorted(case.ids, key=lambda number: -size[number])
    sheet.set("sort", "confidence")
    sure = dict(zip(case.ids, case.answer(case.x).amax(-1).tolist(), strict=True))
    assert shown(sheet) == sorted(case.ids, key=lambda number: sure[number])


def wrong_steps(case):
    """Return the false alarms and the missed steps of each series."""
    said, label = case.model(case.x).softmax(-1)[..., 1] > 0.5, case.split.y == 1
    found = {"FP": (said & ~label).sum(1).tolist(), "FN": (~said & label).sum(1).tolist()}
    return {kind: dict(zip(case.ids, counts, strict=True)) for kind, counts in found.items()}


def test_series_with_wrong_steps_are_found_and_sorted(visit):
    sheet = visit("alarms")
    case, wrong = sheet.case, wrong_steps(sheet.case)
    assert sheet.options("filter-outcome") == ["all", "FP", "FN"]
    for kind, counts in wrong.items():
        sheet.set("filter-outcome", kind)
        assert set(shown(sheet)) == {number for number, count in counts.items() if count}
    sheet.set("filter-outcome", "all")
    sheet.set("sort", "wrong")
    assert shown(sheet) == sorted(case.ids, key=lambda number: -wrong["FP"][number] - wrong["FN"][number])
