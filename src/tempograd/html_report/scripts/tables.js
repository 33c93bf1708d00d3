// What is known about the chosen series and step, as text and tables.

const whatWasExplained = (i) => {
  const score = explainedScore(i),
    kind = data.output === "probability" ? "probability" : "output";
  if (data.target) {
    const said = kind === "probability" ? `probability ${output(score)}` : outputOf(score, data.target[i]);
    return `Explained: ${className(data.target[i])}${score === null ? "" : ` (${said})`}`;
  }
  if (data.picked) return `Explained: ${data.picked}${score === null ? "" : ` (${explainedOutput(score)})`}`;
  if (!data.steps) return "";
  const which = data.steps.predicted ? "each step's predicted class" : "one class at every step";
  const mean = score === null ? "" : ` (mean ${kind} ${output(score)})`;
  return `The model predicts at every step; explained: ${which}${mean}`;
};
const headline = () => {
  const i = view.series,
    facts = [whatWasExplained(i)].filter(Boolean);
  at("headline").textContent = `Series ${seriesName(i)}`;
  if (data.predicted && data.target && data.predicted[i] !== data.target[i] && data.classes.length > 1)
    facts.push(`predicted: ${className(data.predicted[i])}`);
  if (data.label)
    facts.push(`true label: ${data.classes.length > 1 ? className(data.label[i]) : `class ${data.label[i]}`}`);
  if (data.trueValue) facts.push(`true value: ${outputOf(data.trueValue[i], data.target?.[i])}`);
  if (data.outcome) facts.push(outcomeName(data.outcome[i]));
  if (exactTime(i, 0) !== timeName(0)) facts.push(`${exactTime(i, 0)} to ${exactTime(i, data.time - 1)}`); // with its date
  at("facts").textContent = facts.join("; ");
  at("sentence").replaceChildren(...unbroken(`${view.map.sentences[i]}.`.replaceAll(/ ([±=]) /g, "\u00a0$1\u00a0")));
  at("spread").hidden = !view.map.sentences[i].includes("±");
};

const showScores = () => {
  const names = [...new Set(data.maps.flatMap((map) => Object.keys(map.scores)))];
  const heads = names.map((name) => {
    const head = element("th", name.toUpperCase() + (data.metrics[name]?.arrow ?? ""), { scope: "col" });
    if (data.metrics[name]) head.append(element("small", data.metrics[name].meaning));
    return head;
  });
  const lines = data.maps.map((map) => {
    const found = (name) => map.scores[name]?.[view.series] ?? null,
      exact = (name) => ({ "data-method": map.label, "data-metric": name, "data-value": found(name) });
    return row([
      element("th", readable(map.label), { scope: "row" }),
      ...names.map((name) => element("td", number(found(name)), exact(name))),
    ]);
  });
  at("own-scores").hidden = names.length === 0;
  at("modeller").hidden = names.length === 0 && data.maps.length < 2;
  tableOf("series-scores", ["method", ...heads], lines);
};

// In the colour of its bar, and on the pale one where that is pale.
const scoreCell = (text, v, pale) => {
  const hue = view.map.signed ? (v < 0 ? "down" : "up") : "size",
    cell = element("td", "", { class: pale ? `${hue} pale` : hue });
  cell.append(element("span", text));
  return cell;
};
const LONGEST = 40; // letters of a channel beside the picture, where a row should not grow tall
const STRONGEST = 10; // values in the table,
const FIRST = 5; // of which the others unfold
const showTop = () => {
  const { series, map } = view,
    count = Math.min(STRONGEST, map.removed, data.observedCount[series]),
    start = series * map.removed,
    rows = [...map.order.subarray(start, start + count)].map((where) => {
      const [t, d] = [Math.floor(where / data.depth), where % data.depth],
        v = score(map, series, t, d),
        width = map.half ? half(map, series, t, d) : 0;
      return { t, d, v, low: v - width, high: v + width };
    }),
    largest = Math.max(0, ...rows.flatMap(({ v, low, high }) => [v, low, high].filter(Number.isFinite).map(Math.abs)));
  const lines = rows.flatMap(({ t, d, v, low, high }, place) => {
    if (v === 0) return []; // no effect at all
    const known = map.half && Number.isFinite(low),
      when = element("td", "", { class: "text time" });
    when.append(...unbroken(timeName(t)));
    const cells = [
      when,
      element("td", short(channelName(d), LONGEST), { class: "text", title: channelName(d) }),
      element("td", number(value(series, t, d))),
      scoreCell(alike([v], largest)[0], v, map.half && !(low > 0 || high < 0)),
    ];
    if (map.half) cells.push(element("td", known ? alike([low, high], largest).join(" to ") : "not known"));
    const exact = { "data-time": t, "data-channel": d, "data-x": value(series, t, d), "data-value": v },
      limits = known ? { "data-low": low, "data-high": high } : {};
    return [row(cells, { class: place < FIRST ? null : "rest", ...exact, ...limits })];
  });
  at("top").tHead.rows[0].lastElementChild.hidden = !map.half;
  at("top").tBodies[0].replaceChildren(...lines);
  at("top-note").hidden = lines.length > 0;
  at("top-more").hidden = lines.length <= FIRST;
  at("top-method").textContent = readable(map.label);
};

const readOff = (map, d) => {
  const { series, cursor } = view,
    seen = observed(series, cursor, d),
    v = score(map, series, cursor, d),
    largest = largestScore(map, series),
    width = map.half && seen ? half(map, series, cursor, d) : null,
    limits = Number.isFinite(width) ? alike([v - width, v + width], largest).join(", ") : "not known",
    exact = { "data-method": map.label, "data-score": seen ? v : null },
    cell = element("td", seen ? alike([v], largest)[0] : "", exact);
  if (width !== null) cell.append(" ", element("span", `[${limits}]`, { class: "nowrap" }));
  return cell;
};
const showReadout = () => {
  const { series, cursor } = view,
    when = timeText(cursor);
  at("cursor").value = cursor;
  at("cursor-time").textContent = when === `step ${cursor}` ? when : `${when} (step ${cursor})`;
  const lines = channelOrder().map((d) => {
    const shown = observed(series, cursor, d) ? value(series, cursor, d) : null,
      head = element("th", channelName(d), { scope: "row" }),
      cells = [head, element("td", shown === null ? "not observed" : number(shown)), ...data.maps.map((map) => readOff(map, d))];
    return row(cells, { "data-channel": d, "data-value": shown });
  });
  tableOf("readout", ["channel", "value", ...data.maps.map((map) => readable(map.label))], lines);
};

const showKeys = () => {
  if (data.steps?.predicted) {
    at("key-up-text").textContent = "pushes towards what the model says at the step";
    at("key-down-text").textContent = "pushes against it";
  }
  const { map, series } = view;
  if (data.target && (data.classes.length > 1 || data.named)) {
    const what = className(data.target[series]),
      quoted = data.named && data.output === "probability" ? `“${what}”` : what;
    at("key-up-text").textContent = WORDS.up.replace(" up", ` ${quoted} up`);
  }
  const missing = data.observedCount[series] < data.cells,
    { signed } = map,
    shown = { up: signed, down: signed, size: !signed, pale: map.half !== null, missing, truth: data.truth !== null };
  for (const [name, needed] of Object.entries(shown)) at(`key-${name}`).hidden = !needed;
};

// Runs of steps at which the model is wrong, for models that predict at every step.

const MISTAKES = { FP: "false alarm", FN: "missed" };
const AROUND = 12; // steps shown on either side of a run

const mistakeAt = (series, t) => {
  const place = series * data.time + t,
    said = data.steps.values[place] > 0.5,
    label = bit(data.steps.labels, place) === 1;
  if (said === label || !bit(data.steps.explained, place)) return null;
  return said ? "FP" : "FN";
};

const mistakes = (series) => {
  const runs = [];
  if (!data.steps?.alarm) return runs;
  for (let t = 0; t < data.time; t += 1) {
    const kind = mistakeAt(series, t),
      last = runs.at(-1);
    if (!kind) continue;
    const said = data.steps.values[series * data.time + t],
      sure = Math.abs(said - 0.5);
    if (last && last.kind === kind && last.to === t - 1) last.to = t;
    else runs.push({ kind, from: t, to: t, said, sure });
    const run = runs.at(-1);
    if (sure > run.sure) Object.assign(run, { said, sure });
  }
  return runs;
};
const wrongSteps = (series, kind) =>
  mistakes(series)
    .filter((run) => !kind || run.kind === kind)
    .reduce((sum, run) => sum + run.to - run.from + 1, 0);

// The value during the run that pushed most towards what the model said: up if that is the explained class, else down.
const culprit = (map, series, run) => {
  let best = null;
  for (let t = run.from; t <= run.to; t += 1) {
    const sign = !map.signed || bit(data.steps.agrees, series * data.time + t) ? 1 : -1;
    for (let d = 0; d < data.depth; d += 1) {
      const v = observed(series, t, d) ? score(map, series, t, d) : 0;
      if (sign * v > Math.abs(best?.score ?? 0)) best = { t, d, score: v };
    }
  }
  return best;
};

const runName = (run) =>
  run.from === run.to ? timeName(run.from) : `${timeName(run.from)} to ${timeName(run.to)}`;

const mistakeRow = (run) => {
  const { series, map } = view,
    found = culprit(map, series, run),
    button = element("button", "Show", { type: "button", "aria-label": `Show ${runName(run)}` }),
    show = element("td", "");
  button.addEventListener("click", () => {
    view.cursor = found?.t ?? run.from;
    showReadout();
    zoomTo(run.from - AROUND, run.to + AROUND);
    at("headline").focus(); // the picture is far above, and nothing else would tell that it changed
  });
  show.append(button);
  const by = found
      ? `${channelName(found.d)} at ${timeName(found.t)} (${alike([found.score], largestScore(map, series))[0]})`
      : "no value of these steps; look earlier",
    text = (said) => element("td", said, { class: "text" }),
    exact = { "data-from": run.from, "data-to": run.to, "data-kind": run.kind };
  return row([text(runName(run)), text(MISTAKES[run.kind]), element("td", output(run.said)), text(by), show], {
    ...exact,
    "data-channel": found?.d ?? null,
    "data-time": found?.t ?? null,
  });
};
const showMistakes = () => {
  const runs = mistakes(view.series).sort((a, b) => b.sure - a.sure || a.from - b.from);
  at("mistakes").hidden = !data.steps?.alarm;
  at("mistakes-note").hidden = data.steps?.own === true;
  at("no-mistakes").hidden = runs.length > 0;
  at("mistakes-table").tBodies[0].replaceChildren(...runs.map(mistakeRow));
};
