// Try it: values that the reader changes, and what the model, which runs in this page, says of them.

const live = { run: null, series: -1, channel: 0, changed: new Map(), base: null, drawn: null, before: null, scales: [] };

// What the model reads of a series, and how that goes with what people see: value · slope + offset, where it does.
const modelValues = () => data.network.x ?? data.values;
const scaleOf = (d) => {
  const places = [];
  for (let place = d; place < data.values.length; place += data.depth) if (bit(data.observed, place)) places.push(place);
  places.sort((a, b) => data.values[a] - data.values[b]);
  const [x, seen, low, high] = [modelValues(), data.values, places[0], places.at(-1)],
    slope = seen[high] > seen[low] ? (x[high] - x[low]) / (seen[high] - seen[low]) : 1,
    offset = places.length ? x[low] - slope * seen[low] : 0,
    fits = (place) => Math.abs(slope * seen[place] + offset - x[place]) <= 1e-5 * Math.max(1, Math.abs(x[place])),
    ends = (values) => (places.length ? [values[low], values[high]].sort((a, b) => a - b) : [-1, 1]);
  if (slope !== 0 && places.every(fits)) return { slope, offset, seen: true, range: ends(seen) };
  places.sort((a, b) => x[a] - x[b]);
  return { slope: 1, offset: 0, seen: false, range: places.length ? [x[places[0]], x[places.at(-1)]] : [-1, 1] };
};
const liveScale = (d) => (live.scales[d] ??= scaleOf(d));
const livePlace = (t, d) => t * data.depth + d; // within its series
const valueBefore = (t, d) => {
  const place = cell(view.series, t, d),
    { slope, offset, seen } = liveScale(d);
  return seen && bit(data.observed, place) ? data.values[place] : (modelValues()[place] - offset) / slope;
};
const valueNow = (t, d) => live.changed.get(livePlace(t, d)) ?? valueBefore(t, d);
const isChanged = (t) => live.changed.has(livePlace(t, live.channel));
const allSteps = () => [...Array(data.time).keys()];

// What the model says, one number per output as the page has them, and the score where a function picked it.
const prediction = (changed) => {
  const start = view.series * data.cells,
    x = modelValues().slice(start, start + data.cells);
  for (const [place, value] of changed) {
    const { slope, offset } = liveScale(place % data.depth);
    x[place] = value * slope + offset;
  }
  const [{ values, shape }, score] = live.run(x),
    explained = allSteps().filter((t) => data.network.explained?.[view.series * data.time + t]),
    columns = explained.length ? shape[2] : values.length,
    mean = (k) => explained.reduce((total, t) => total + values[t * columns + k], 0) / explained.length,
    outputs = explained.length ? [...Array(columns).keys()].map(mean) : [...values];
  return { outputs, score: score?.values[0] ?? outputs[data.target?.[view.series] ?? -1] };
};
// The page knows what the model said when it was written: here it has to say the same.
const runsAsBefore = ({ outputs: now }) =>
  now.every((v, k) => {
    const before = afterRemoval(data.maps[0], view.series, 0, k);
    return Math.abs(v - before) <= 1e-3 * Math.max(1, Math.abs(before));
  });

// The panel, made where there is a network to run.

const LIVE_PANEL = `<summary>Try it: change a value</summary><div><div>
<form class="controls" aria-label="What is changed"><label>Channel <select id="live-channel"></select></label>
<label>from <select id="live-from"></select></label><label>to <select id="live-to"></select></label>
<label><span id="live-unit"></span> <input id="live-value" type="number" step="any"></label>
<input id="live-slide" type="range" step="any" aria-label="Value"><button type="button" id="live-reset">Undo all</button></form>
<p class="small" id="live-hint"></p><svg id="live-chart" role="img"></svg></div>
<div id="live-answer"><p id="live-said" role="status"></p><div class="wide" tabindex="0" role="region" aria-label="What the model says now">
<table id="live-table"><thead></thead><tbody></tbody></table></div></div></div>`;

const startLive = () => {
  const panel = element("details", "", { id: "live", class: "fold" });
  panel.innerHTML = LIVE_PANEL; // nothing in it comes from data
  at("series-columns").before(panel);
  for (const id of ["live-from", "live-to"]) {
    at(id).addEventListener("change", moveRange);
  }
  for (const id of ["live-value", "live-slide"]) at(id).addEventListener("input", () => setRange(at(id).value));
  panel.addEventListener("toggle", showLive);
  panel.addEventListener("submit", (event) => event.preventDefault()); // Enter would reload the page
  at("live-channel").addEventListener("change", () => chooseLive(Number(at("live-channel").value)));
  at("live-reset").addEventListener("click", startAgain);
  const chart = at("live-chart");
  chart.addEventListener("pointerdown", (event) => {
    chart.setPointerCapture(event.pointerId);
    live.drawn = null;
    draw(event);
  });
  chart.addEventListener("pointermove", (event) => chart.hasPointerCapture(event.pointerId) && draw(event));
};

const showLive = () => {
  const { steps, reason } = data.network ?? {};
  if (reason && !at("no-live"))
    at("modeller")?.append(element("p", `The model does not run in this page: ${reason}.`, { id: "no-live" }));
  if (!steps) return;
  if (!at("live")) startLive();
  if (!at("live").open) return;
  live.run ??= network(data.network);
  if (live.series !== view.series) startAgain();
  else showPrediction();
};
const startAgain = () => {
  live.series = view.series;
  live.changed = new Map();
  live.before = prediction([]);
  const runs = runsAsBefore(live.before),
    order = ordered(view.map, view.series);
  for (const part of at("live").querySelectorAll("form, svg, .wide, #live-hint")) part.toggleAttribute("hidden", !runs);
  if (!runs) {
    at("live-said").textContent = "Here the model does not say what it said when this file was written: nothing can be tried.";
    return;
  }
  fill(at("live-channel"), order.map((d) => [d, channelName(d)]));
  for (const id of ["live-from", "live-to"]) fill(at(id), allSteps().map((t) => [t, timeName(t)])); // of this series
  [at("live-from").value, at("live-to").value] = [0, data.time - 1];
  at("live-value").blur(); // or what was typed for another series would stay
  chooseLive(order[0]);
};
const chooseLive = (d) => {
  const { range, seen } = liveScale(d),
    room = (range[1] - range[0]) / 10 || 1;
  live.channel = d;
  live.base = null;
  at("live-unit").textContent = withUnit("value", seen ? data.units?.[d] : "");
  Object.assign(at("live-slide"), { min: range[0] - room, max: range[1] + room });
  const hint = "Drag the line, or set a value for some steps.";
  at("live-hint").textContent = seen ? hint : `${hint} This channel is in the units that the model reads.`;
  showFields();
  showPrediction();
};
const showFields = () => {
  const value = valueNow(Number(at("live-from").value), live.channel);
  at("live-slide").value = value;
  if (document.activeElement !== at("live-value")) at("live-value").value = Number(value.toPrecision(4));
};

// A value for a range of steps. When the range is moved the value goes along.
const setRange = (text) => {
  const value = Number(text),
    ends = [at("live-from"), at("live-to")].map((field) => Number(field.value));
  if (text === "" || !Number.isFinite(value)) return;
  live.base ??= live.changed;
  live.changed = new Map(live.base);
  for (let t = Math.min(...ends); t <= Math.max(...ends); t += 1) live.changed.set(livePlace(t, live.channel), value);
  showFields();
  showPrediction();
};
const moveRange = () => (live.base ? setRange(at("live-value").value) : showFields());

// The chart: the channel as it was and as it is, drawn anew under the pointer.

const [HIGH, EDGE, LEFT] = [150, 18, 52];
const liveAxes = () => {
  const values = allSteps().flatMap((t) => [valueBefore(t, live.channel), valueNow(t, live.channel)]),
    [low, high] = ["min", "max"].map((end) => Math[end](Number(at("live-slide")[end]), ...values)),
    width = at("live-chart").clientWidth || 600,
    across = (width - LEFT - EDGE) / Math.max(1, data.time - 1),
    within = (v, from, to) => Math.min(Math.max(v, from), to);
  return {
    ...{ width, low, high },
    x: (t) => LEFT + t * across,
    y: (v) => EDGE + ((high - within(v, low, high)) / (high - low)) * (HIGH - 2 * EDGE),
    step: (x) => within(Math.round((x - LEFT) / across), 0, data.time - 1),
    value: (y) => high - within((y - EDGE) / (HIGH - 2 * EDGE), 0, 1) * (high - low),
  };
};
const draw = (event) => {
  const box = at("live-chart").getBoundingClientRect(),
    axes = liveAxes(),
    to = { t: axes.step(event.clientX - box.left), v: axes.value(event.clientY - box.top) },
    from = live.drawn ?? to,
    count = Math.abs(to.t - from.t);
  for (let k = 0; k <= count; k += 1) {
    const share = count ? k / count : 1;
    live.changed.set(livePlace(Math.round(from.t + share * (to.t - from.t)), live.channel), from.v + share * (to.v - from.v));
  }
  [live.base, live.drawn] = [null, to];
  showFields();
  showPrediction();
};
const drawing = (name, attributes, text = "") => {
  const part = document.createElementNS("http://www.w3.org/2000/svg", name);
  part.textContent = text;
  for (const [key, content] of Object.entries(attributes)) part.setAttribute(key, content);
  return part;
};
const showChart = () => {
  const { width, low, high, x, y } = liveAxes(),
    d = live.channel,
    known = allSteps().filter((t) => observed(view.series, t, d) || isChanged(t)),
    line = (value) => known.map((t, k) => `${k ? "L" : "M"}${x(t).toFixed(1)} ${y(value(t, d)).toFixed(1)}`).join(""),
    dot = (t) => drawing("circle", { cx: x(t), cy: y(valueNow(t, d)), r: 2.5, class: isChanged(t) ? "changed" : "" }),
    dots = known.filter((t) => data.time <= 150 || isChanged(t)),
    [top, bottom] = alike([high, low], Math.max(Math.abs(high), Math.abs(low))),
    words = [
      [LEFT - 8, EDGE + 4, "end", top],
      [LEFT - 8, HIGH - EDGE + 4, "end", bottom],
      [LEFT, HIGH - 3, "start", timeName(0)],
      [width - 4, HIGH - 3, "end", timeName(data.time - 1)],
    ];
  at("live-chart").setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
  at("live-chart").setAttribute("aria-label", `${channelName(d)}, as it was and as it is now`);
  at("live-chart").replaceChildren(
    drawing("path", { d: line(valueBefore), class: "before" }),
    drawing("path", { d: line(valueNow) }),
    ...dots.map(dot),
    ...words.map(([left, down, anchor, text]) => drawing("text", { x: left, y: down, "text-anchor": anchor }, text)),
  );
};

// What was changed, in words: "lactate 1.2 from 20 h on".
const rangeWords = (...ends) => {
  const [from, to] = ends.map((t) => `${data.times || data.stamps ? "" : "step "}${timeName(t)}`);
  if (ends[1] === data.time - 1) return ends[0] === 0 ? "throughout" : ends[0] === ends[1] ? `at ${to}` : `from ${from} on`;
  if (ends[0] === ends[1]) return `at ${from}`;
  return ends[0] === 0 ? `up to ${to}` : `from ${from} to ${to}`;
};
const changeWords = (d) => {
  const steps = allSteps().filter((t) => live.changed.has(livePlace(t, d))),
    values = steps.map((t) => valueNow(t, d)),
    [from, to] = [steps[0], steps.at(-1)];
  return new Set(values).size === 1 && steps.length === to - from + 1
    ? `${data.channels[d]} ${number(values[0])} ${rangeWords(from, to)}`
    : `${counted(steps.length, "value", "values")} of ${data.channels[d]} changed`;
};
const changedChannels = () => [...new Set([...live.changed.keys()].map((place) => place % data.depth))];
const isBeyond = (d) => {
  const [low, high] = liveScale(d).range;
  return allSteps().some((t) => live.changed.has(livePlace(t, d)) && (valueNow(t, d) < low || valueNow(t, d) > high));
};

const showPrediction = () => {
  const now = prediction(live.changed),
    changed = changedChannels(),
    explained = data.target?.[view.series] ?? -1,
    say = (v) => (explained < 0 ? number(v) : outputOf(v, explained)),
    claim = now.score === undefined ? "" : `, ${removalTitle()} is ${say(now.score)} instead of ${say(live.before.score)}`,
    beyond = changed.filter(isBeyond).map((d) => data.channels[d]).join(", "),
    warned = beyond && ` No series of this page has such values of ${beyond}.`;
  at("live-said").textContent = changed.length ? `With ${changed.map(changeWords).join(", ")}${claim}.${warned}` : "";
  at("live-reset").disabled = !changed.length;
  showChart();
  const gap = (k) => (k === explained ? Infinity : Math.abs(now.outputs[k] - live.before.outputs[k])),
    shown = [...now.outputs.keys()].sort((a, b) => gap(b) - gap(a) || a - b).slice(0, 8);
  const head = ["output", "before", "now", ...(data.output === "probability" ? [""] : [])];
  tableOf("live-table", head, shown.map((k) => liveRow(k, now)));
};
const liveRow = (k, now) => {
  const pair = [live.before.outputs[k], now.outputs[k]],
    bar = element("td", "", { class: "bar", "aria-hidden": "true" }),
    cells = pair.map((v, place) => element("td", output(v), { [place ? "data-now" : "data-before"]: v }));
  for (const v of pair) bar.append(element("i", ""));
  pair.forEach((v, place) => (bar.children[place].style.width = `${100 * v}%`));
  const name = element("th", withUnit(className(k), outputUnit(k)), { scope: "row" });
  return row([name, ...cells, ...(data.output === "probability" ? [bar] : [])], { "data-output": k });
};
