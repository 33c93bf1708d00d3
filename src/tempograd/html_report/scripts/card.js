// The answer card of a series: prediction, drivers, and what would be predicted with each as usual; and a second one
// beside it. Python has made all of it, numbers and words (cards.py); here it is drawn.

const pinned = { series: null }; // the series beside the one that is shown
const cardOf = (i) => view.map.cards[i];

const svg = (tag, attributes, ...inside) => {
  const item = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, content] of Object.entries(attributes)) item.setAttribute(name, content);
  item.append(...inside);
  return item;
};
const linear = ([low, high], [from, to]) => (v) => from + ((to - from) * (v - low)) / (high - low || 1);

// A channel of a series, small: what is usual as a pale band, where its driver lies shaded. Cards share their axes.
const [WIDE, TALL] = [240, 44];
const sparkline = (i, row) => {
  const { d, driver } = row,
    [low, high] = data.usual.map((ends) => ends[d]),
    steps = [...Array(data.time).keys()],
    seen = (s) => steps.map((t) => (observed(s, t, d) ? value(s, t, d) : null)),
    x = linear([-0.5, data.time - 0.5], [0, WIDE]),
    y = linear(spread([low, high, ...[view.series, pinned.series].flatMap((s) => (s === null ? [] : seen(s)))]), [TALL, 0]),
    line = seen(i).map((v, t) => (v === null ? "" : `${observed(i, t - 1, d) && t ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}h.01`));
  const way = !view.map.signed ? "size" : row.up ? "up" : "down",
    box = (from, to, top, bottom, name) =>
      svg("rect", { x: x(from), width: x(to) - x(from), y: top, height: Math.max(bottom - top, 0), class: name });
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", class: "spark", "aria-hidden": "true" },
    ...(low === null ? [] : [box(-0.5, data.time - 0.5, y(high), y(low), "band")]),
    ...(driver ? [box(driver[0] - 0.5, driver[1] - 0.5, 0, TALL, `stretch ${way}`)] : []),
    svg("path", { d: line.join(""), class: "line" }),
  );
};

// From the prediction to what it would be, on one axis for all rows. What draws it takes numbers only, so that a
// prediction that is made in the page can replace `then`.
const axisOfOutcomes = (cards) => {
  if (probable()) return [0, 1];
  return spread(cards.flatMap(({ rows }) => rows.flatMap((row) => (row.part ? [row.before, row.then] : []))));
};
const dumbbell = ({ before, then }, axis) => {
  const x = linear(axis, [6, WIDE - 6]),
    level = { y1: 8, y2: 8 };
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDE} 16`, class: "dumbbell", "aria-hidden": "true" },
    svg("line", { x1: 6, x2: WIDE - 6, ...level, class: "axis" }),
    svg("line", { x1: x(before), x2: x(then), ...level, class: then < before ? "falls" : "rises" }),
    svg("circle", { cx: x(before), cy: 8, r: 5, class: "before" }),
    svg("circle", { cx: x(then), cy: 8, r: 5, class: then < before ? "falls" : "rises" }),
  );
};

const cardRow = (i, row, axis) => {
  const line = element("li", "", { "data-channel": row.d }),
    who = element("p", "", { class: "name" }),
    what = element("p", "", { class: "what" });
  who.append(element("b", data.channels[row.d]), element("span", row.push));
  what.append(...unbroken(row.what), ...(row.usual ? [element("small", ` usually ${row.usual}`)] : []));
  line.append(who, sparkline(i, row), what);
  if (!row.part) return line;
  const then = element("div", "", { class: "then", "data-before": row.before, "data-then": row.then, "data-part": row.part.join("-") }),
    text = element("p", `${row.if}: `);
  text.append(element("b", row.text));
  then.append(text, dumbbell(row, axis));
  line.append(then);
  return line;
};

const chipOf = (i) => {
  const truth = () => (data.classes.length > 1 ? className(data.label[i]) : `class ${data.label[i]}`);
  if (data.outcome) return /^T|right/.test(data.outcome[i]) ? ["right", ""] : [`wrong (true: ${truth()})`, "wrong"];
  return data.trueValue ? [`true: ${outputOf(data.trueValue[i], data.target?.[i])}`, "plain"] : null;
};
const fillCard = (box, i, rows, axis) => {
  const { number, what, remarks } = cardOf(i),
    big = element("p", "", { class: "big" }),
    chip = chipOf(i),
    list = element("ol", "", { class: "rows" });
  big.append(...(number === null ? [] : [element("b", number), " "]), element("span", what));
  list.append(...rows.map((row) => cardRow(i, row, axis)));
  const head = element("div", "", { class: "verdict" });
  head.append(big, ...(chip ? [element("p", chip[0], { class: `chip ${chip[1]}` })] : []));
  box.replaceChildren(head, ...remarks.map((text) => element("p", text, { class: "remark" })), list);
};
const showCard = () => {
  const i = view.series,
    { series } = pinned,
    { sure } = cardOf(i),
    both = series === null ? [i] : [i, series],
    axis = axisOfOutcomes(both.map(cardOf));
  const channels = both.flatMap((s) => cardOf(s).rows.map(({ d }) => d)),
    shown = [...new Set(channels)].slice(0, series === null ? 3 : 4),
    rowsOf = (s) => shown.map((d) => cardOf(s).rows.find((row) => row.d === d) ?? { d, driver: null, push: "", what: "" });
  fillCard(at("card"), i, rowsOf(i), axis);
  at("sure").replaceChildren(
    ...sure.slice(1).map(([good, text]) => element("li", text, { class: good ? "chip" : "chip rough" })),
  );
  at("pinned-card").hidden = series === null;
  at("compare").setAttribute("aria-pressed", String(series !== null));
  if (series === null) return;
  fillCard(at("pinned"), series, rowsOf(series), axis);
  fill(at("other"), nearestTo(i).map((j) => [data.ids[j], describe(j)]));
  at("other").value = data.ids[series];
};

// The most similar series, those with another prediction first: a prediction is understood beside one that turned out
// otherwise.
const nearestTo = (i) => {
  const far = (j) => {
    let [sum, count] = [0, 0];
    for (let t = 0; t < data.time; t += 1)
      for (let d = 0; d < data.depth; d += 1) {
        if (!observed(i, t, d) || !observed(j, t, d)) continue;
        sum += ((value(i, t, d) - value(j, t, d)) / data.spread[d]) ** 2;
        count += 1;
      }
    return count ? sum / count : Infinity;
  };
  const kinds = data.predicted ?? data.target,
    same = (j) => Number(kinds === null || kinds[j] === kinds[i]),
    found = data.ids.map((_, j) => [j, same(j), far(j)]).filter(([j]) => j !== i);
  return found.sort((a, b) => a[1] - b[1] || a[2] - b[2] || a[0] - b[0]).map(([j]) => j);
};
// The channels without which a prediction would be another, in the order of time: "vibration then bearing temp". What
// makes a probability larger if it is as usual has not carried it.
const POINTS = 0.1; // of a probability that a channel must take away to have carried it
const patternOf = (i, map) => {
  const { rows } = map.cards[i],
    change = rows.map(({ before, then }) => (probable() ? before - then : Math.abs(before - then)) || 0),
    least = Math.max(...change, probable() ? 2 * POINTS : 0) / 2,
    carry = rows.filter((row, k) => (rows[0].part ? change[k] > 0 && change[k] >= least : row.driver)); // else by scores
  carry.sort((a, b) => (a.driver?.[0] ?? data.time) - (b.driver?.[0] ?? data.time));
  const joined = (row, k) => {
    const last = carry[k - 1]?.driver;
    return `${k === 0 ? "" : last && row.driver?.[0] >= last[1] ? " then " : " and "}${data.channels[row.d]}`;
  };
  return carry.map(joined).join("") || "no channel by itself";
};
const pin = (series) => {
  pinned.series = series;
  showCard();
  keepState();
};
const startCard = () => {
  at("compare").hidden = data.ids.length < 2;
  at("compare").addEventListener("click", () => pin(pinned.series === null ? nearestTo(view.series)[0] : null));
  at("other").addEventListener("change", () => pin(data.ids.findIndex((id) => String(id) === at("other").value)));
};
