// The prediction of one series as its strongest values go.

const showRemoval = () => {
  const { series, map } = view;
  view.gone = new Set();
  if (!map.removal) return;
  const state = Number(at("removal").value);
  view.count = Math.min(data.counts[state], data.observedCount[series]);
  view.gone = removedCells(map, series, view.count);
  const total = data.observedCount[series];
  const said = `${view.count.toLocaleString("en")} of ${counted(total, "value", "values")} removed`;
  at("removal-text").textContent = said;
  at("removal").setAttribute("aria-valuetext", said);
  const explained = data.target ? data.target[series] : -1,
    kinds = [...Array(outputs()).keys()].sort((a, b) => (b === explained) - (a === explained) || a - b), // the explained one on top
    lines = kinds.map((k) => outputRow(k, k === explained, ...[0, state].map((at) => afterRemoval(map, series, at, k))));
  if (data.steps && map.removal.score) {
    const name = data.steps.predicted ? "what it said, explained" : "explained class",
      both = [0, state].map((at) => element("td", output(scoreAfter(map, series, at))));
    lines.unshift(row([element("th", name, { scope: "row" }), ...both], { id: "explained-row" }));
  }
  at("probabilities").tBodies[0].replaceChildren(...lines);
};
const outputRow = (k, explained, before, after) => {
  const name = withUnit(className(k), outputUnit(k)) + (explained ? " (explained)" : ""),
    bar = element("td", "", { class: "bar", "aria-hidden": "true" }),
    cells = [element("td", output(before), { "data-before": before }), element("td", output(after), { "data-after": after })];
  bar.append(element("i", ""));
  bar.firstChild.style.width = `${100 * after}%`;
  return row([element("th", name, { scope: "row" }), ...cells, ...(data.output === "probability" ? [bar] : [])], { "data-class": k });
};

// The state after which the chosen curve stays within a tenth of its range of where it ends, and a bit more.
const lastMove = (curve) => {
  const range = Math.max(...curve) - Math.min(...curve),
    still = curve.findLastIndex((v) => Math.abs(v - curve.at(-1)) > range / 10);
  return Math.min(Math.ceil(1.15 * (still + 1)) + 2, curve.length - 1);
};

// What the curves show.
const removalTitle = () => {
  if (data.picked) return data.picked;
  const kind = data.output === "probability" ? "probability" : "output";
  if (!data.target) return `mean explained ${kind}`; // over the steps
  const k = data.target[view.series];
  return kind === "output" ? withUnit(className(k), outputUnit(k)) : `probability of ${className(k)}`;
};

// The explained output as each method's strongest values go.
const removalPicture = () => {
  at("removal-keys").replaceChildren(...methodKeys());
  const width = widthOf("chart-removal"),
    height = onPaper() ? 100 : 178,
    curves = data.maps.map((map) => data.counts.map((_, state) => scoreAfter(map, view.series, state))),
    end = Math.max(lastMove(curves[data.maps.indexOf(view.map)]), Number(at("removal").value)),
    counts = data.counts.slice(0, end + 1);
  at("chart-removal").dataset.last = counts.at(-1) || 1;
  picture("chart-removal", "The explained output as values are removed, one line per method", [
    {
      ...{ width, height, x: [0, counts.at(-1) || 1] },
      y: data.output === "probability" && !data.picked ? [0, 1] : spread(curves.flat()),
      xAxis: acrossAxis({ label: "values removed, strongest first", space: 60, incrs: ROUND.filter(Number.isInteger) }),
      yAxis: valueAxis(height, { label: fitted(removalTitle(), height) }),
      data: [counts, ...curves.map((curve) => curve.slice(0, end + 1))],
      lines: curves.map((_, place) => ({
        stroke: LINES[place % LINES.length],
        dash: DASHES[place % DASHES.length],
        width: data.maps[place] === view.map ? 2.6 : 1.6,
        points: { show: false },
      })),
      over: (pen, plot, _, high) => {
        const x = plot.valToPos(view.count, "x");
        stroke(pen, [[x, 0, x, high]], DOWN, 1, [3, 3]);
      },
      step: nearest(counts),
      hair: (state) => counts[state],
      pick: removeUpTo,
      tip: (state) => [
        `${counts[state].toLocaleString("en")} removed`,
        ...data.maps.map((map, place) => `${readable(map.label)}: ${explainedOutput(curves[place][state])}`),
      ],
    },
  ]);
};
const methodKeys = () =>
  data.maps.map((map, place) => {
    const item = element("li", ""),
      key = element("canvas", "", { width: 68, height: 16, "aria-hidden": "true" }),
      hue = LINES[place % LINES.length];
    stroke(key.getContext("2d"), [[0, 8, 68, 8]], hue, 4, DASHES[place % DASHES.length].map((dash) => 2 * dash));
    item.append(key, element("span", methodName(map)));
    return item;
  });

const remove = () => {
  showRemoval();
  paintChannels();
  if (view.map.removal.score) removalPicture();
};
const removeUpTo = (state) => {
  at("removal").value = state;
  remove();
};
