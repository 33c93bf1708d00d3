// The prediction of one series as its strongest values go.

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
  if (data.steps && map.removal.score) {
    const [before, after] = [scoreAfter(map, series, 0), scoreAfter(map, series, state)];
    const name = element("th", data.steps.predicted ? "what it said, explained" : "explained class", {
      scope: "row",
    });
    lines.push(row([name, element("td", output(before)), element("td", output(after))], { id: "explained-row" }));
  }
  const explained = data.target ? data.target[series] : -1,
    kinds = [...Array(outputs()).keys()];
  for (const k of kinds.sort((a, b) => (b === explained) - (a === explained) || a - b)) {
    // the explained one on top
    const before = afterRemoval(map, series, 0, k),
      after = afterRemoval(map, series, state, k);
    const name = element("th", withUnit(className(k), outputUnit(k)) + (k === explained ? " (explained)" : ""), { scope: "row" });
    const cells = [
      name,
      element("td", output(before), { "data-before": before }),
      element("td", output(after), { "data-after": after }),
    ];
    if (data.output === "probability") {
      const bar = element("td", "", { class: "bar", "aria-hidden": "true" }),
        inner = element("i", "");
      inner.style.width = `${100 * after}%`;
      bar.append(inner);
      cells.push(bar);
    }
    lines.push(row(cells, { "data-class": k }));
  }
  at("probabilities").tBodies[0].replaceChildren(...lines);
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
  const bottom = onPaper() ? 110 : 186,
    picture = frame("chart-removal", "The explained output as values are removed, one line per method", bottom + 44);
  const left = 58,
    right = picture.width - 20,
    top = 8,
    curves = data.maps.map((map) => data.counts.map((_, state) => scoreAfter(map, view.series, state))),
    end = Math.max(lastMove(curves[data.maps.indexOf(view.map)]), Number(at("removal").value)),
    last = data.counts[end] || 1;
  at("chart-removal").dataset.last = last;
  const box = valueBox(
    picture,
    left,
    right,
    top,
    bottom,
    data.output === "probability" && !data.picked ? [0, 1] : spread(curves.flat()),
    4,
  );
  const x = (count) => left + (count / last) * (right - left);
  for (const v of ticks(0, last, 4).found)
    if (Number.isInteger(v))
      write(picture, x(v), bottom + 16, v.toLocaleString("en"), {
        "text-anchor": "middle",
        "font-size": 11,
        fill: MUTED,
      });
  write(picture, (left + right) / 2, bottom + 34, "values removed, strongest first", {
    "text-anchor": "middle",
    "font-size": 11,
    fill: MUTED,
  });
  const middle = rounded((top + bottom) / 2);
  write(picture, 10, middle, fitted(removalTitle(), bottom - top + 24, 11), {
    "text-anchor": "middle",
    "font-size": 11,
    fill: MUTED,
    transform: `rotate(-90 10 ${middle})`,
  });
  curves.forEach((curve, place) => {
    const d = curve
      .slice(0, end + 1)
      .map((v, state) => `${state ? "L" : "M"}${rounded(x(data.counts[state]))} ${rounded(box.y(v))}`)
      .join("");
    picture.add("path", {
      d,
      fill: "none",
      stroke: LINES[place % LINES.length],
      "stroke-dasharray": DASHES[place % DASHES.length],
      "stroke-width": data.maps[place] === view.map ? 2.6 : 1.6,
    });
  });
  picture.add("line", {
    x1: rounded(x(view.count)),
    x2: rounded(x(view.count)),
    y1: top,
    y2: bottom,
    stroke: DOWN,
    "stroke-dasharray": "3 3",
  });
  const near = (px) =>
    data.counts.slice(0, end + 1).reduce(
      (best, count, state) => (Math.abs(x(count) - px) < Math.abs(x(data.counts[best]) - px) ? state : best),
      0,
    );
  picture.panels.push({
    left,
    right,
    top,
    bottom,
    step: near,
    place: (state) => x(data.counts[state]),
    pick: removeUpTo,
    tip: (state) => [
      `${data.counts[state].toLocaleString("en")} removed`,
      ...data.maps.map((map, place) => `${readable(map.label)}: ${explainedOutput(curves[place][state])}`),
    ],
  });
  finish(picture);
};
const methodKeys = () =>
  data.maps.map((map, place) => {
    const item = element("li", ""),
      key = shape("svg", { viewBox: "0 0 34 8", width: 34, height: 8, "aria-hidden": "true" });
    key.append(
      shape("path", {
        d: "M0 4H34",
        stroke: `var(--method-${place % LINES.length})`,
        "stroke-dasharray": DASHES[place % DASHES.length],
        "stroke-width": 2,
      }),
    );
    item.append(key, element("span", readable(map.label) + (map.control ? " (control)" : "")));
    return item;
  });

const remove = () => {
  showRemoval();
  channelsPicture();
  if (view.map.removal.score) removalPicture();
};
const removeUpTo = (state) => {
  at("removal").value = state;
  remove();
};
