// The view of one series: choose it, read it, remove its strongest values.

const view = { series: 0, map: null, channels: 6, order: [], zoom: [0, 0], cursor: 0, count: 0 };
let list = [];  // positions of the series that pass the filters, in the chosen order

const OUTCOMES = { right: "right", wrong: "wrong", TP: "true positive", FP: "false positive (false alarm)", TN: "true negative", FN: "false negative (missed)" };

const fill = (select, entries) => select.replaceChildren(...entries.map(([key, text]) => element("option", text, { value: key })));
const row = (cells, attributes = {}) => {
  const line = element("tr", "", attributes);
  line.append(...cells);
  return line;
};

const describe = (i) => {
  const parts = [`series ${seriesName(i)}`];
  if (data.target) parts.push(`${className(data.target[i])}${explainedScore(i) === null ? "" : ` ${output(explainedScore(i))}`}`);
  if (data.outcome) parts.push(OUTCOMES[data.outcome[i]]);
  if (data.steps?.alarm) parts.push(`${counted(wrongSteps(i), "step", "steps")} wrong`);
  return parts.join(" · ");
};

const SORTS = {
  id: (a, b) => data.ids[a] - data.ids[b],
  effect: (a, b) => totalEffect(view.map, b) - totalEffect(view.map, a) || a - b,
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
  const kind = at("filter-class").value, outcome = at("filter-outcome").value;
  list = data.ids.map((_, i) => i).filter((i) => (kind === "all" || String(data.target[i]) === kind) && (outcome === "all" || hasOutcome(i, outcome)));
  list.sort(SORTS[at("sort").value]);
  fill(at("series"), list.map((i) => [data.ids[i], describe(i)]));
  const all = data.ids.length;
  at("matches").textContent = list.length === all ? counted(all, "series", "series") : `${list.length.toLocaleString("en")} of ${counted(all, "series matches", "series match")}`;
  at("nothing").hidden = list.length > 0;
};
const filterSeries = () => {
  listSeries();
  if (list.length) showSeries(list.includes(view.series) ? view.series : list[0]);
};

const findSeries = () => {
  const wanted = at("find").value.trim(), named = data.names ? data.names.indexOf(wanted) : -1;
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

const headline = () => {
  const i = view.series, facts = [];
  at("headline").textContent = `Series ${seriesName(i)}`;
  if (data.target) facts.push(`Explained: ${className(data.target[i])}${explainedScore(i) === null ? "" : ` (${data.output === "probability" ? "probability" : "output"} ${output(explainedScore(i))})`}`);
  else if (data.steps) facts.push(`The model predicts at every step; explained: ${explainedScore(i) === null ? data.steps.name : `${data.output === "probability" ? "mean probability" : "mean output"} ${output(explainedScore(i))} of the explained class`}`);
  if (data.predicted && data.target && data.predicted[i] !== data.target[i] && data.classes.length > 1) facts.push(`predicted: ${className(data.predicted[i])}`);
  if (data.label) facts.push(`true label: ${data.classes.length > 1 ? className(data.label[i]) : `class ${data.label[i]}`}`);
  if (data.trueValue) facts.push(`true value: ${number(data.trueValue[i])}`);
  if (data.outcome) facts.push(OUTCOMES[data.outcome[i]]);
  at("facts").textContent = facts.join("; ");
};

const showScores = () => {
  const names = [...new Set(data.maps.flatMap((map) => Object.keys(map.scores)))];
  at("own-scores").hidden = names.length === 0;
  const head = row([element("th", "method", { scope: "col" }), ...names.map((name) => element("th", name.toUpperCase(), { scope: "col" }))]);
  const lines = data.maps.map((map) => row([element("th", readable(map.label), { scope: "row" }), ...names.map((name) => {
    const found = map.scores[name]?.[view.series] ?? null;
    return element("td", number(found), { "data-method": map.label, "data-metric": name, "data-value": found });
  })]));
  at("series-scores").tHead.replaceChildren(head);
  at("series-scores").tBodies[0].replaceChildren(...lines);
};

const showTop = () => {
  const { series, map } = view, rows = [];
  const count = Math.min(map.top.count, data.observedCount[series]);
  const values = [...map.top.value.subarray(series * map.top.count, series * map.top.count + count)];
  const low = map.top.low && [...map.top.low.subarray(series * map.top.count, series * map.top.count + count)];
  const high = map.top.high && [...map.top.high.subarray(series * map.top.count, series * map.top.count + count)];
  const sizes = [...values, ...(low ?? []), ...(high ?? [])].filter(Number.isFinite).map(Math.abs);
  const largest = Math.max(0, ...sizes);
  at("top").tHead.rows[0].lastElementChild.hidden = !low;
  values.forEach((v, place) => {
    if (v === 0) return;  // no effect at all
    const where = map.order[series * map.removed + place], t = Math.floor(where / data.depth), d = where % data.depth;
    const shown = value(series, t, d);
    const cells = [element("td", timeName(t), { class: "text" }), element("td", channelName(d), { class: "text" }), element("td", number(shown)), element("td", alike([v], largest)[0], { class: v < 0 ? "down" : "up" })];
    const known = low && Number.isFinite(low[place]);
    if (low) cells.push(element("td", known ? alike([low[place], high[place]], largest).join(" to ") : "not known"));
    rows.push(row(cells, { "data-time": t, "data-channel": d, "data-x": shown, "data-value": v, "data-low": known ? low[place] : null, "data-high": known ? high[place] : null }));
  });
  at("top").tBodies[0].replaceChildren(...rows);
  at("top-note").hidden = rows.length > 0;
  at("top-method").textContent = readable(map.label);
};

const showReadout = () => {
  const { series, cursor } = view;
  const { channels, maps } = data;
  at("cursor").value = cursor;
  at("cursor-time").textContent = data.times ? `${timeName(cursor)} (step ${cursor})` : `step ${cursor}`;
  const head = row([element("th", "channel", { scope: "col" }), element("th", "value", { scope: "col" }), ...maps.map((map) => element("th", readable(map.label), { scope: "col" }))]);
  const lines = view.order.map((d) => {
    const seen = observed(series, cursor, d);
    const cells = [element("th", channelName(d), { scope: "row" }), element("td", seen ? number(value(series, cursor, d)) : "not observed")];
    for (const map of maps) {
      const v = score(map, series, cursor, d), largest = map.step[series] * 32767;
      const width = map.half && seen ? half(map, series, cursor, d) : null;
      const error = width === null ? "" : Number.isFinite(width) ? ` ± ${alike([width], largest)[0]}` : " ± not known";
      cells.push(element("td", seen ? alike([v], largest)[0] + error : "", { "data-method": map.label, "data-score": seen ? v : null }));
    }
    return row(cells, { "data-channel": d, "data-value": seen ? value(series, cursor, d) : null });
  });
  at("readout").tHead.replaceChildren(head);
  at("readout").tBodies[0].replaceChildren(...lines);
};

const showRemoval = () => {
  const { series, map } = view;
  if (!map.removal) return;
  const state = Number(at("removal").value);
  view.count = Math.min(data.counts[state], data.observedCount[series]);
  const total = data.observedCount[series];
  const said = `${view.count.toLocaleString("en")} of ${counted(total, "value", "values")} removed`;
  at("removal-text").textContent = said;
  at("removal").setAttribute("aria-valuetext", said);
  const lines = [];
  const explained = data.target ? data.target[series] : -1, kinds = [...Array(outputs()).keys()];
  for (const k of kinds.sort((a, b) => (b === explained) - (a === explained) || a - b)) {  // the explained one on top
    const before = afterRemoval(map, series, 0, k), after = afterRemoval(map, series, state, k);
    const name = element("th", className(k) + (k === explained ? " (explained)" : ""), { scope: "row" });
    const cells = [name, element("td", output(before), { "data-before": before }), element("td", output(after), { "data-after": after })];
    if (data.output === "probability") {
      const bar = element("td", "", { class: "bar", "aria-hidden": "true" }), inner = element("i", "");
      inner.style.width = `${100 * after}%`;
      bar.append(inner);
      cells.push(bar);
    }
    lines.push(row(cells, { "data-class": k }));
  }
  at("probabilities").tBodies[0].replaceChildren(...lines);
};

const drawSeries = () => {
  channelsPicture();
  mapPicture();
  methodsPicture();
  if (view.map.removal?.score) removalPicture();
};

const showKeys = () => {
  const { map, series } = view, missing = data.observedCount[series] < data.cells;
  const shown = { up: map.signed, down: map.signed, size: !map.signed, pale: map.half !== null, missing, truth: data.truth !== null };
  for (const [name, needed] of Object.entries(shown)) at(`key-${name}`).hidden = !needed;
};

const refresh = () => {
  view.order = ordered(view.map, view.series);
  headline();
  showKeys();
  showScores();
  showTop();
  showRemoval();
  showReadout();
  showMistakes();
  drawSeries();
};

const showPlace = () => {
  const place = list.indexOf(view.series);
  at("series").selectedIndex = place;
  at("previous").disabled = place <= 0;
  at("next").disabled = place === list.length - 1;
};
const showSeries = (i) => {
  view.series = i;
  showPlace();
  at("removal").value = 0;
  refresh();
};
const showMethod = () => {
  view.map = data.maps[at("method").value];
  listSeries();  // their order may be by this method's effect
  showPlace();
  refresh();
};

const zoomTo = (from, to) => {
  const low = Math.min(Math.max(Math.round(from), 0), data.time - 1);
  const high = Math.max(Math.min(Math.round(to), data.time - 1), low);
  view.zoom = [low, high];
  at("time-from").value = low;
  at("time-to").value = high;
  at("reset-zoom").disabled = low === 0 && high === data.time - 1;
  drawSeries();
};

const moveCursor = (t) => {
  view.cursor = Math.min(Math.max(t, 0), data.time - 1);
  showReadout();
  channelsPicture();
};

const remove = () => {
  showRemoval();
  channelsPicture();
  if (view.map.removal.score) removalPicture();
};
const removeUpTo = (state) => {
  at("removal").value = state;
  remove();
};

const startSeries = () => {
  view.map = data.maps[0];
  view.zoom = [0, data.time - 1];
  const kinds = data.target ? [...new Set(data.target)].sort((a, b) => a - b) : [];
  fill(at("filter-class"), [["all", "all"], ...kinds.map((k) => [k, className(k)])]);
  at("filter-class").closest("label").hidden = kinds.length < 2;
  const names = data.outcome ? OUTCOMES : data.steps?.alarm ? STEP_OUTCOMES : {};
  const outcomes = Object.keys(names).filter((kind) => data.ids.some((_, i) => hasOutcome(i, kind)));
  fill(at("filter-outcome"), [["all", "all"], ...outcomes.map((kind) => [kind, names[kind]])]);
  at("filter-outcome").closest("label").hidden = outcomes.length === 0;
  fill(at("sort"), [["id", "id"], ["effect", "size of effect, largest first"], ...(data.steps?.alarm ? [["wrong", "wrong steps, most first"]] : []), ...(explainedScore(0) === null ? [] : [["confidence", "explained output, lowest first"]])]);
  fill(at("method"), data.maps.map((map, place) => [place, readable(map.label)]));
  const many = [1, 3, 6, 12, 24].filter((n) => n < data.depth);
  fill(at("channels-shown"), [...many, data.depth].map((n) => [n, n === data.depth ? `all ${n}` : `the strongest ${n}`]));
  view.channels = Math.min(6, data.depth);
  at("channels-shown").value = view.channels;
  for (const id of ["time-from", "time-to", "cursor"]) at(id).max = data.time - 1;
  at("time-to").value = data.time - 1;
  at("reset-zoom").disabled = true;
  at("removal").max = data.counts.length - 1;
  at("removing").hidden = !data.maps[0].removal;
  at("series-columns").classList.toggle("single", !data.maps[0].removal);
  at("removal-curves").hidden = !data.maps[0].removal?.score;
  at("removal-keys").replaceChildren(...methodKeys());

  for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());  // Enter would reload the page
  for (const id of ["filter-class", "filter-outcome", "sort"]) at(id).addEventListener("change", filterSeries);
  at("series").addEventListener("change", () => showSeries(list[at("series").selectedIndex]));
  at("previous").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  at("find").addEventListener("change", findSeries);
  at("method").addEventListener("change", showMethod);
  at("channels-shown").addEventListener("change", () => { view.channels = Number(at("channels-shown").value); drawSeries(); });
  for (const id of ["time-from", "time-to"]) at(id).addEventListener("change", () => zoomTo(Number(at("time-from").value), Number(at("time-to").value)));
  at("reset-zoom").addEventListener("click", () => zoomTo(0, data.time - 1));
  at("cursor").addEventListener("input", () => moveCursor(Number(at("cursor").value)));
  at("removal").addEventListener("input", remove);
  const wanted = data.ids.indexOf(Number(location.hash.replace("#series-", "")));
  view.series = location.hash && wanted >= 0 ? wanted : 0;
  filterSeries();
};
