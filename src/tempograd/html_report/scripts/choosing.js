// The view of one series: which is shown (filters, orders, finding one by its name), and what every control does.

const view = { series: 0, map: null, channels: "named", found: null, order: [], zoom: [0, 0], cursor: 0 };
Object.assign(view, { count: 0, gone: new Set() }); // how many of the strongest values are removed, and which
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
    .filter((i) => (kind === "all" || String(kindOf[i]) === kind) && (outcome === "all" || hasOutcome(i, outcome)));
  list.sort(SORTS[at("sort").value]);
  fill(at("series"), list.map((i) => [data.ids[i], describe(i)]));
  const all = data.ids.length;
  at("matches").textContent =
    list.length === all
      ? counted(all, "series", "series")
      : `${list.length.toLocaleString("en")} of ${counted(all, "series matches", "series match")}`;
  at("matches").classList.toggle("desk", list.length === all); // a phone has no room for what says nothing
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
    i = placeOf(wanted),
    found = i >= 0;
  at("find").setAttribute("aria-invalid", String(!found));
  at("find-answer").textContent = found ? "" : `There is no series ${wanted} in this report.`;
  if (found) goTo(i);
};
// Shows a series whatever passes the filters.
const goTo = (i) => {
  if (!list.includes(i)) {
    at("filter-class").value = at("filter-outcome").value = "all";
    listSeries();
  }
  showSeries(i);
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
  if (pinned.series !== null) pinned.series = nearestTo(i)[0];
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

// The parts of the view together, zoom and cursor, and what every control does.
const drawSeries = () => {
  channelsPicture();
  mapPicture();
  if (view.map.removal?.score) removalPicture();
  drawModeller();
};
// What is folded away is drawn when it is opened.
const drawModeller = () => {
  if (!at("modeller").open) return;
  methodsPicture();
};

const refresh = () => {
  view.order = ordered(view.map, view.series);
  headline();
  showCard();
  showCertainty();
  showKeys();
  showScores();
  showTop();
  showRemoval();
  showReadout();
  showMistakes();
  drawSeries();
  showLive();
  keepState();
};

const zoomFields = (from, to) => {
  const low = Math.min(Math.max(Math.round(from), 0), data.time - 1);
  const high = Math.max(Math.min(Math.round(to), data.time - 1), low);
  view.zoom = [low, high];
  at("time-from").value = low;
  at("time-to").value = high;
  at("reset-zoom").disabled = low === 0 && high === data.time - 1;
};
const zoomTo = (from, to) => {
  zoomFields(from, to);
  drawSeries();
  keepState();
};

const moveCursor = (t) => {
  view.cursor = t;
  showReadout();
  paintChannels();
};

const showChannels = (which) => {
  view.channels = at("channels-shown").value = which;
  channelsPicture();
};

const startSeries = () => {
  view.map = data.maps[0];
  view.zoom = [0, data.time - 1];
  const different = (values) => [...new Set(values ?? [])].sort((a, b) => a - b),
    one = different(data.target).length < 2 && data.predicted !== null;
  kindOf = one ? data.predicted : data.target;
  const kinds = different(kindOf);
  if (one) at("filter-class").previousSibling.textContent = "Predicted class ";
  fill(at("filter-class"), [["all", "all"], ...kinds.map((k) => [k, className(k)])]);
  at("filter-class").closest("label").hidden = kinds.length < 2;
  const steps = data.outcome ? {} : data.steps?.alarm ? STEP_OUTCOMES : {};
  const outcomes = (data.outcome ? OUTCOMES : Object.keys(steps)).filter((kind) =>
    data.ids.some((_, i) => hasOutcome(i, kind)),
  );
  fill(at("filter-outcome"), [["all", "all"], ...outcomes.map((kind) => [kind, steps[kind] ?? outcomeName(kind)])]);
  at("filter-outcome").closest("label").hidden = outcomes.length === 0;
  fill(at("sort"), [
    ["telling", "certain effect, largest first"],
    ["id", "id"],
    ["effect", "size of effect, largest first"],
    ...(data.steps?.alarm ? [["wrong", "wrong steps, most first"]] : []),
    ...(data.maps.some((map) => map.certainty.error) ? [["error", "error, largest first"]] : []),
    ...(explainedScore(0) === null ? [] : [["confidence", "explained output, lowest first"]]),
  ]);
  fill(at("channel-names"), data.channels.map((name) => [name, ""]));
  fill(at("method"), data.maps.map((map, place) => [place, readable(map.label)]));
  at("method").closest("label").hidden = data.maps.length < 2;
  const many = [1, 3, 6, 12, 24].filter((n) => n < data.depth);
  const choices = many.map((n) => [n, `the first ${n}`]);
  fill(at("channels-shown"), [["named", "those of the sentence"], ...choices, [data.depth, `all ${data.depth}`]]);
  for (const id of ["time-from", "time-to", "cursor"]) at(id).max = data.time - 1;
  at("time-to").value = data.time - 1;
  at("reset-zoom").disabled = true;
  at("removal").max = data.counts.length - 1;
  at("removing").hidden = !data.maps[0].removal;
  at("removal-curves").hidden = !data.maps[0].removal?.score;
  at("removal-keys").hidden = data.maps.length === 1;

  // Enter would reload the page
  for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["filter-class", "filter-outcome"]) at(id).addEventListener("change", filterSeries);
  at("sort").addEventListener("change", sortSeries);
  at("series").addEventListener("change", () => showSeries(list[at("series").selectedIndex]));
  at("previous").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  at("find").addEventListener("change", findSeries);
  at("method").addEventListener("change", showMethod);
  at("channels-shown").addEventListener("change", () => showChannels(at("channels-shown").value));
  at("other-channels").addEventListener("click", () =>
    showChannels(shownChannels().length < data.depth ? String(data.depth) : "named"),
  );
  at("modeller").addEventListener("toggle", drawModeller);
  at("methods-maps").hidden = data.maps.length < 2;
  at("top-more").addEventListener("click", () => {
    const all = at("top").classList.toggle("all");
    at("top-more").textContent = all ? "Only five" : "Five more";
    at("top-more").setAttribute("aria-expanded", String(all));
  });
  for (const id of ["time-from", "time-to"])
    at(id).addEventListener("change", () => zoomTo(Number(at("time-from").value), Number(at("time-to").value)));
  at("reset-zoom").addEventListener("click", () => zoomTo(0, data.time - 1));
  at("cursor").addEventListener("input", () => moveCursor(Number(at("cursor").value)));
  at("removal").addEventListener("input", remove);
  at("find-channel").addEventListener("change", findChannel);
  at("find-channel").closest("label").hidden = data.depth < 2;
  startCard();
  closeMenus();
};

// A menu closes when one clicks elsewhere, or presses Escape.
const closeMenus = () => {
  const folds = [...document.querySelectorAll(".menu, .badge")],
    close = (inside) => {
      for (const fold of folds) if (!inside || !fold.contains(inside)) fold.open = false;
    };
  document.addEventListener("pointerdown", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    const open = folds.find((fold) => fold.open && fold.contains(document.activeElement));
    if (event.key !== "Escape") return;
    close(null);
    open?.querySelector("summary").focus();
  });
};

// A channel by its name, or a part of it: it comes first, and the strongest follow.
const findChannel = () => {
  const wanted = at("find-channel").value.trim().toLowerCase(),
    names = data.channels.map((name) => name.toLowerCase()),
    exact = names.indexOf(wanted),
    found = exact >= 0 ? exact : view.order.find((d) => names[d].includes(wanted));
  const known = wanted === "" || found !== undefined;
  view.found = wanted !== "" && known ? found : null;
  at("find-channel").setAttribute("aria-invalid", String(!known));
  const answer = known
    ? `${data.channels[found]}: ${view.order.indexOf(found) + 1} of ${data.depth} by effect`
    : `There is no channel ${at("find-channel").value}.`;
  at("find-channel-answer").textContent = wanted === "" ? "" : answer;
  drawSeries();
  keepState();
};
