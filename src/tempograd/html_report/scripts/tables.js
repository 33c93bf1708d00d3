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
  at("facts").textContent = facts.join("; ");
  at("sentence").replaceChildren(...unbroken(`${view.map.sentences[i]}.`.replaceAll(/ ([±=]) /g, "\u00a0$1\u00a0")));
  at("spread").hidden = !view.map.sentences[i].includes("±");
};

const showScores = () => {
  const names = [...new Set(data.maps.flatMap((map) => Object.keys(map.scores)))];
  at("own-scores").hidden = names.length === 0;
  const head = row([
    element("th", "method", { scope: "col" }),
    ...names.map((name) => {
      const head = element("th", name.toUpperCase() + (data.metrics[name]?.arrow ?? ""), { scope: "col" });
      if (data.metrics[name]) head.append(element("small", data.metrics[name].meaning));
      return head;
    }),
  ]);
  const lines = data.maps.map((map) =>
    row([
      element("th", readable(map.label), { scope: "row" }),
      ...names.map((name) => {
        const found = map.scores[name]?.[view.series] ?? null;
        return element("td", number(found), {
          "data-method": map.label,
          "data-metric": name,
          "data-value": found,
        });
      }),
    ]),
  );
  at("series-scores").tHead.replaceChildren(head);
  at("series-scores").tBodies[0].replaceChildren(...lines);
};

// In the colour of its bar, and on the pale one where that is pale.
const scoreCell = (text, v, pale) => {
  const hue = view.map.signed ? (v < 0 ? "down" : "up") : "size",
    cell = element("td", "", { class: pale ? `${hue} pale` : hue });
  cell.append(element("span", text));
  return cell;
};
const LONGEST = 40; // letters of a channel beside the picture, where a row should not grow tall
const FIRST = 5; // of the strongest values, the others unfold
const showTop = () => {
  const { series, map } = view,
    rows = [];
  const count = Math.min(map.top.count, data.observedCount[series]);
  const values = [...map.top.value.subarray(series * map.top.count, series * map.top.count + count)];
  const low = map.top.low && [...map.top.low.subarray(series * map.top.count, series * map.top.count + count)];
  const high = map.top.high && [...map.top.high.subarray(series * map.top.count, series * map.top.count + count)];
  const sizes = [...values, ...(low ?? []), ...(high ?? [])].filter(Number.isFinite).map(Math.abs);
  const largest = Math.max(0, ...sizes);
  at("top").tHead.rows[0].lastElementChild.hidden = !low;
  values.forEach((v, place) => {
    if (v === 0) return; // no effect at all
    const where = map.order[series * map.removed + place],
      t = Math.floor(where / data.depth),
      d = where % data.depth;
    const shown = value(series, t, d);
    const when = element("td", "", { class: "text time" });
    when.append(...unbroken(timeName(t)));
    const cells = [
      when,
      element("td", short(channelName(d), LONGEST), { class: "text", title: channelName(d) }),
      element("td", number(shown)),
      scoreCell(alike([v], largest)[0], v, low !== null && !(low[place] > 0 || high[place] < 0)),
    ];
    const known = low && Number.isFinite(low[place]);
    if (low)
      cells.push(element("td", known ? alike([low[place], high[place]], largest).join(" to ") : "not known"));
    rows.push(
      row(cells, {
        class: place < FIRST ? null : "rest",
        "data-time": t,
        "data-channel": d,
        "data-x": shown,
        "data-value": v,
        "data-low": known ? low[place] : null,
        "data-high": known ? high[place] : null,
      }),
    );
  });
  at("top").tBodies[0].replaceChildren(...rows);
  at("top-note").hidden = rows.length > 0;
  at("top-more").hidden = rows.length <= FIRST;
  at("top-method").textContent = readable(map.label);
};

const showReadout = () => {
  const { series, cursor } = view;
  const { channels, maps } = data;
  at("cursor").value = cursor;
  const when = timeText(cursor);
  at("cursor-time").textContent = when === `step ${cursor}` ? when : `${when} (step ${cursor})`;
  const head = row([
    element("th", "channel", { scope: "col" }),
    element("th", "value", { scope: "col" }),
    ...maps.map((map) => element("th", readable(map.label), { scope: "col" })),
  ]);
  const lines = view.order.map((d) => {
    const seen = observed(series, cursor, d);
    const cells = [
      element("th", channelName(d), { scope: "row" }),
      element("td", seen ? number(value(series, cursor, d)) : "not observed"),
    ];
    for (const map of maps) {
      const v = score(map, series, cursor, d),
        largest = map.step[series] * 32767;
      const width = map.half && seen ? half(map, series, cursor, d) : null;
      const limits = Number.isFinite(width) ? alike([v - width, v + width], largest).join(", ") : "not known";
      const cell = element("td", seen ? alike([v], largest)[0] : "", {
        "data-method": map.label,
        "data-score": seen ? v : null,
      });
      if (width !== null) cell.append(" ", element("span", `[${limits}]`, { class: "nowrap" }));
      cells.push(cell);
    }
    return row(cells, { "data-channel": d, "data-value": seen ? value(series, cursor, d) : null });
  });
  at("readout").tHead.replaceChildren(head);
  at("readout").tBodies[0].replaceChildren(...lines);
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
  const missing = data.observedCount[series] < data.cells;
  const shown = {
    up: map.signed,
    down: map.signed,
    size: !map.signed,
    pale: map.half !== null,
    missing,
    truth: data.truth !== null,
  };
  for (const [name, needed] of Object.entries(shown)) at(`key-${name}`).hidden = !needed;
};
