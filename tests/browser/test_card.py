"""The answer card, a second one beside it, and the outcomes of all series: the numbers of the library."""

import numpy as np
import pytest

import tempograd as tg
from tests.helpers.browser import BOTH_WIDTHS

pytestmark = pytest.mark.browser

MIDDLES = "all => all.map(e => Number(e.getAttribute('cx')))"
TEXTS = """() => { const boxes = [];
    for (const e of document.querySelectorAll("#card *, #pinned *, #tiles *, #patterns *"))
        for (const node of e.childNodes)
            if (node.nodeType === 3 && node.textContent.trim() && e.checkVisibility()) {
                const range = document.createRange(); range.selectNodeContents(node);
                for (const b of range.getClientRects())
                    boxes.push([b.left, b.top, b.right, b.bottom, node.textContent]);
            }
    const over = [];
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
        const [wide, high] = [0, 1].map(k => Math.min(a[k + 2], b[k + 2]) - Math.max(a[k], b[k]));
        if (wide > 1 && high > 4) over.push([a[4], b[4]]); }));
    return over; }"""


def test_rows_are_drawn_where_the_predictions_are(visit):
    sheet = visit("ward_round")
    case = sheet.case
    for method in ("timing", "integrated_gradients"):
        sheet.by(method)
        found = tg.what_if(case.model, case.explanations[method])
        for number in (500, 507, 512):
            sheet.choose(number)
            known = {outcome.parts: outcome for outcome in found.outcomes[case.row(number)]}
            changes = []
            for line in sheet.find("#card .rows li").all():
                then = line.locator(".then")
                start, stop = (int(step) for step in then.get_attribute("data-part").split("-"))
                outcome = known[((int(line.get_attribute("data-channel")), start, stop),)]
                ends = [outcome.prediction - outcome.change, outcome.prediction]
                assert float(then.get_attribute("data-then")) == pytest.approx(outcome.prediction, abs=1e-5)
                middles = then.locator("circle").evaluate_all(MIDDLES)
                assert middles == pytest.approx([6 + 228 * share for share in ends], abs=0.01)
                changes.append(abs(outcome.change))
            assert changes
            assert max(changes) == changes[0]


def test_the_nearest_series_with_another_prediction_stands_beside(visit):
    sheet = visit("binary")
    case = sheet.case
    sheet.choose(21)
    sheet.find("#compare").click()
    x, said = case.x.numpy(), case.answer(case.x).argmax(-1).numpy()
    row = case.row(21)
    gap = np.where(said == said[row], np.inf, (((x - x[row]) / x.std((0, 1))) ** 2).mean((1, 2)))
    assert int(sheet.value("other")) == case.ids[int(gap.argmin())]
    channels = [
        [line.get_attribute("data-channel") for line in sheet.find(f"#{card} .rows li").all()]
        for card in ("card", "pinned")
    ]
    assert channels[0] == channels[1]
    sheet.set("other", 13)
    sheet.page.reload()
    sheet.page.wait_for_selector("body[data-ready=true]", state="attached")
    assert (sheet.value("series"), sheet.value("other")) == ("21", "13")
    sheet.find("#compare").click()
    assert not sheet.find("#pinned").is_visible()


def test_each_mistake_can_be_opened_from_the_tiles(visit):
    sheet = visit("binary").view("summary")
    case = sheet.case
    said, label = case.answer(case.x).argmax(-1), case.split.y
    wrong = [number for number, a, b in zip(case.ids, said, label, strict=True) if a == 1 and b == 0]
    tile = sheet.find("#tiles [data-group='outcome:FP']")
    assert int(tile.locator("b").inner_text()) == len(wrong)
    tile.click()
    assert sheet.value("group-a") == "outcome:FP"
    links = sheet.page.eval_on_selector_all(
        "#patterns [data-series]", "all => all.map(e => Number(e.dataset.series))"
    )
    assert sorted(links) == sorted(wrong)
    assert "such as" not in sheet.text("#patterns")  # an example of those that are right
    sheet.find(f"#patterns [data-series='{wrong[-1]}']").click()
    assert int(sheet.value("series")) == wrong[-1]
    assert sheet.find("#view-series").is_visible()


@BOTH_WIDTHS
@pytest.mark.parametrize("name", ["ward_round", "length_of_stay", "classifier"])
def test_no_text_lies_over_another(visit, name):
    sheet = visit(name)
    sheet.find("#compare").click()
    assert sheet.page.evaluate(TEXTS) == []
    sheet.view("summary")
    assert sheet.page.evaluate(TEXTS) == []


def test_a_card_without_a_model_has_the_drivers_of_the_sentence(visit):
    sheet = visit("bare")
    assert sheet.find("#card .rows .spark").count() > 0
    assert sheet.find("#card .then").count() == 0
