// Which series is shown: filters, orders, and finding one by its name.

const view = { series: 0, map: null, channels: 6, order: [], zoom: [0, 0], cursor: 0, count: 0, found: null };
let list = []; // positions of the series that pass the filters, in the chosen order
let kindOf = null; // what the class filter goes by: the explained class or, where that is one for all, the predicted

const SHORT = { TP: "true positive", FP: "false positive", TN: "true negative", FN: "false negative" };
// With class names, since which of two classes counts as positive is only a convention: it is class 1.
const outcomeName = (kind) => {
  const plain = { right: "right", wrong: "wrong" }[kind];
  if (plain) return plain;
  const yes = className(1),
    no = className(0);
  return `${SHORT[kind]} (said ${kind[1] === "P" ? yes : no}, is ${kind === "TP" || kind === "FN" ? yes : no})`;
};
const OUTCOMES = ["right", "wrong", "TP", "FP", "TN", "FN"];

const describe = (i) => {
  const parts = [seriesName(i)];
  if (data.target)
    parts.push(`${className(data.target[i])}${explainedScore(i) === null ? "" : ` ${outputOf(explainedScore(i), data.target[i])}`}`);
  if (data.outcome) parts.push(SHORT[data.outcome[i]] ?? outcomeName(data.outcome[i]));
  if (data.steps?.alarm) parts.push(`${counted(wrongSteps(i), "step", "steps")} wrong`);
  return parts.join(" · ");
};

const SORTS = {
  telling: (a, b) => view.map.telling[b] - view.map.telling[a] || a - b,
  id: (a, b) => data.ids[a] - data.ids[b],
  effect: (a, b) => totalEffect(view.map, b) - totalEffect(view.map, a) || a - b,
  error: (a, b) => errorOf(view.map, b) - errorOf(view.map, a) || a - b,
  wrong: (a, b) => wrongSteps(b) - wrongSteps(a) || a - b,
  confidence: (a, b) => explainedScore(a) - explainedScore(b) || a - b,
};

// With one prediction per step a series can have both kinds of mistakes, or none.
const hasOutcome = (i, outcome) => {
  if (data.outcome) return data.outcome[i] === outcome;
  return outcome === "right" ? wrongSteps(i) === 0 : wrongSteps(i, outcome) > 0;
};
const STEP_OUTCOMES = { FP: "with false alarms", FN: "with missed steps", right: "right at every step" };

const listSeries = () => {
  const kind = at("filter-class").value,
    outcome = at("filter-outcome").value;
  list = data.ids
    .map((_, i) => i)
    .filter(
      (i) => (kind === "all" || String(kindOf[i]) === kind) && (outcome === "all" || hasOutcome(i, outcome)),
    );
  list.sort(SORTS[at("sort").value]);
  fill(
    at("series"),
    list.map((i) => [data.ids[i], describe(i)]),
  );
  const all = data.ids.length;
  at("matches").textContent =
    list.length === all
      ? counted(all, "series", "series")
      : `${list.length.toLocaleString("en")} of ${counted(all, "series matches", "series match")}`;
  at("nothing").hidden = list.length > 0;
};
const filterSeries = () => {
  listSeries();
  if (list.length) showSeries(list.includes(view.series) ? view.series : list[0]);
};

// A new order shows its first series: else nothing would seem to happen.
const sortSeries = () => {
  listSeries();
  if (list.length) showSeries(list[0]);
};

const findSeries = () => {
  const wanted = at("find").value.trim(),
    named = data.names ? data.names.indexOf(wanted) : -1;
  const i = named >= 0 ? named : data.ids.findIndex((id) => String(id) === wanted);
  const found = i >= 0;
  at("find").setAttribute("aria-invalid", String(!found));
  at("find-answer").textContent = found ? "" : `There is no series ${wanted} in this report.`;
  if (!found) return;
  if (!list.includes(i)) {
    at("filter-class").value = "all";
    at("filter-outcome").value = "all";
    view.series = i;
    filterSeries();
  } else showSeries(i);
};

const step = (by) => showSeries(list[Math.min(Math.max(list.indexOf(view.series) + by, 0), list.length - 1)]);

const showPlace = () => {
  const place = list.indexOf(view.series);
  at("series").selectedIndex = place;
  at("previous").disabled = place <= 0;
  at("next").disabled = place === list.length - 1;
};
// Reading a step off begins at the strongest.
const strongestStep = () => Math.floor(view.map.order[view.series * view.map.removed] / data.depth) || 0;
const showSeries = (i) => {
  view.series = i;
  view.cursor = strongestStep();
  showPlace();
  at("removal").value = 0;
  refresh();
};
const showMethod = () => {
  view.map = data.maps[at("method").value];
  listSeries(); // their order may be by this method's effect
  view.cursor = strongestStep();
  showPlace();
  refresh();
};
