// How sure the scores are, how the error fell as samples were added, and how good the methods are.

const share = (v) => {
  if (!Number.isFinite(v)) return "not known";
  if (v > 1) return "over 100 %";
  return v < 0.001 ? "under 0.1 %" : `${Number((100 * v).toPrecision(2))} %`;
};

// A method without draws has no error, and its series stay as they are.
const errorOf = (map, series) => map.certainty.error?.[series] ?? 0;

// A small badge that says how sure a method is; it folds out to a sentence.
const verdictInto = (id, badge, map, place) => {
  const { badges, texts } = map.certainty,
    said = texts[place];
  at(badge).textContent = badges[place] === "unknown" ? "not known" : badges[place];
  at(`${id}-text`).replaceChildren(
    element("b", `How sure is ${readable(map.label)}?`),
    ` ${said[0].toUpperCase()}${said.slice(1)}.`,
  );
  at(id).classList.toggle("rough", !["converged", "exact"].includes(badges[place]));
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

// Errors, one per look and NaN after the end, as a line, with a band around it where there are many series.
const errorPicture = (id, said, points, curve, band, goal) => {
  const width = widthOf(id),
    drawn = (values) => values.map((v) => (Number.isFinite(v) && v > 0 ? v : null)),
    known = [curve, ...(band ?? []), [goal]].flatMap(drawn).filter((v) => v !== null),
    thin = { points: { show: false } };
  picture(id, `${said}: ${courseSaid(points, curve)}`, [
    {
      ...{ width, height: 160, log: true, y: [Math.min(...known) / 1.25, Math.max(...known) * 1.25] },
      x: points.length > 1 ? [points[0], points.at(-1)] : [points[0] / 2, points[0] * 2],
      xAxis: acrossAxis({ label: "samples", space: 45, values: (_, splits) => splits.map((n) => n && n.toLocaleString("en")) }),
      yAxis: valueAxis(160, { values: (_, splits) => splits.map((v) => v && `${Number((100 * v).toPrecision(2))} %`) }),
      data: [points, points.map(() => goal), drawn(curve), ...(band ?? []).map(drawn)],
      lines: [
        { stroke: DOWN, width: 1.5, dash: [6, 4], ...thin },
        { stroke: INK, width: 2, points: { show: true, size: 5, fill: INK, stroke: INK } },
        ...(band ?? []).map(() => ({ stroke: PALE[DOWN], width: 1, ...thin })),
      ],
      bands: band ? [{ series: [4, 3], fill: PALE[DOWN] }] : [],
      step: nearest(points),
      hair: (k) => points[k],
      tip: (k) => [
        counted(points[k], "sample", "samples"),
        Number.isNaN(curve[k]) ? "stopped before" : `error ${share(curve[k])}`,
        ...(band ? [`nine of ten series: ${share(band[0][k])} to ${share(band[1][k])}`] : []),
        `goal ${share(goal)}`,
      ],
    },
  ]);
};
const courseSaid = (points, curve) => {
  const looks = [...curve.keys()].filter((k) => Number.isFinite(curve[k]));
  return [...new Set([looks[0], looks.at(-1)])]
    .map((k) => (k === undefined ? "not known" : `${share(curve[k])} after ${counted(points[k], "sample", "samples")}`))
    .join(", ");
};
const certaintyPicture = () => {
  const { curve, goal } = view.map.certainty;
  at("how-sure").hidden = !curve;
  if (!curve) return;
  const count = curve.points.length,
    one = [...curve.each.subarray(view.series * count, (view.series + 1) * count)];
  errorPicture("chart-convergence", "Error of this series", curve.points, one, null, goal);
};
const allCertaintyPicture = (map) => {
  const { curve, goal } = map.certainty;
  at("all-sure").hidden = !curve;
  if (!curve) return;
  const [low, middle, high] = [curve.low, curve.middle, curve.high].map((part) => [...part]);
  errorPicture("chart-convergence-all", "Error of the middle series", curve.points, middle, [low, high], goal);
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
