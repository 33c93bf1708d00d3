// How sure the scores are, and how good the methods are.

// A method without draws has no error, and its series stay as they are.
const errorOf = (map, series) => map.certainty.error?.[series] ?? 0;

// A small badge that says how sure a method is; it folds out to a sentence.
const verdictInto = (id, badge, map, place) => {
  const { badges, texts } = map.certainty,
    said = texts[place];
  const [good, word] = badges[place];
  at(badge).textContent = word;
  at(`${id}-text`).replaceChildren(
    element("b", `How sure is ${readable(map.label)}?`),
    ` ${said[0].toUpperCase()}${said.slice(1)}.`,
  );
  at(id).classList.toggle("rough", !good);
};

const showCertainty = () => {
  const { series, map } = view,
    { error, total, delta, complete } = map.certainty,
    place = at("certainty");
  verdictInto("certainty", "badge", map, series + 1);
  at("sums").hidden = !total;
  if (total) {
    const both = [total[series], delta[series]],
      [sum, moved] = alike(both, Math.max(...both.map(Math.abs)));
    const rest = complete ? "" : ", which this method does not promise to match";
    at("sums").textContent =
      `Series ${seriesName(series)}, ${readable(map.label)}: the scores sum to ${sum}; from the baseline to the series ` +
      `the prediction changed by ${moved}${rest}.`;
  }
  for (const [name, part] of Object.entries({ error, total, delta }))
    place.dataset[name] = part ? part[series] : "";
};

// How good the methods are: a dot for each, with the interval of its difference to the first.
const methodName = (method) => readable(method.label) + (method.control ? " (control)" : "");
const scoresPicture = () => {
  const { methods, metrics } = data.table,
    wide = widthOf("chart-scores"),
    across = wide >= 680 ? Math.min(metrics.length, 3) : 1,
    names = Math.min(170, Math.max(...methods.map((each) => lengthOf(methodName(each)))) + 14),
    one = (wide - names) / across - 1,
    said = `Scores of ${counted(methods.length, "method", "methods")}, with intervals against ${readable(methods[0].label)}`;
  picture(
    "chart-scores",
    said,
    metrics.map((metric, place) => scorePlot(metric, methods, one, place % across ? 0 : names)),
  );
};
const scorePlot = (metric, methods, width, names) => {
  const first = metric.cells[0].mean,
    x = spread(metric.cells.flatMap(({ mean, low, high }) => [mean, low, high])),
    gapText = (cell) => `${number(cell.gap)}, 95 %: ${number(cell.low - first)} to ${number(cell.high - first)}`;
  return {
    ...{ width: width + names, height: 26 * methods.length, title: metric.name, x, y: [0, methods.length], flip: true },
    ...{ xAxis: acrossAxis({ space: 55 }), yAxis: names ? rowAxis(methods.map(methodName), names) : undefined, left: 22, right: 22 },
    over: (pen, plot, _, high) => {
      const middle = plot.valToPos(first, "x");
      if (first !== null) stroke(pen, [[middle, 0, middle, high]], INK, 1.5, [4, 3]);
      metric.cells.forEach((cell, k) => {
        const { control } = methods[k];
        if (cell.mean !== null) dotWithInterval(pen, plot, k, { ...cell, hue: control ? MUTED : INK, filled: !control });
      });
    },
    step: (_, down) => Math.floor(down * methods.length),
    hair: (k) => metric.cells[k].mean ?? first,
    tip: (k) => [
      methodName(methods[k]),
      `${metric.name}: ${number(metric.cells[k].mean)}`,
      ...(metric.cells[k].gap === null ? [] : [`minus ${readable(methods[0].label)}: ${gapText(metric.cells[k])}`]),
      ...(methods[k].control ? ["scores drawn at random: what is no better says nothing"] : []),
    ],
  };
};
const dotWithInterval = (pen, plot, row, { mean, low, high, hue, filled }) => {
  const y = plot.valToPos(row + 0.5, "y"),
    x = (v) => plot.valToPos(v, "x");
  if (Number.isFinite(low) && Number.isFinite(high)) stroke(pen, [[x(low), y, x(high), y]], hue, 2);
  disc(pen, x(mean), y, 4.5, filled ? hue : PAPER, hue);
};
