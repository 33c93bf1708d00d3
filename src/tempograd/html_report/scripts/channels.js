// Values and scores of one series, channel by channel. `view` is what people chose.

const seenValue = (d) => (t) =>
  t >= 0 && t < data.time && observed(view.series, t, d) ? value(view.series, t, d) : null;
// As drawn: below 0 a method without signs says that a value matters less than nothing.
const drawnScore = (map, t, d) => {
  const v = score(map, view.series, t, d);
  return map.signed ? v : Math.max(v, 0);
};
const seenScore = (map, d) => (t) => (observed(view.series, t, d) ? drawnScore(map, t, d) : null);
const stepsShown = () => Array.from({ length: view.zoom[1] - view.zoom[0] + 1 }, (_, k) => view.zoom[0] + k);

const unitOf = (d) => (data.units && data.units[d] ? ` ${data.units[d]}` : "");
const valueText = (t, d) =>
  observed(view.series, t, d) ? number(value(view.series, t, d)) + unitOf(d) : "not observed";
const scoreText = (map, t, d) => {
  if (!observed(view.series, t, d)) return "not observed";
  const middle = score(map, view.series, t, d);
  if (!map.half) return number(middle);
  const width = half(map, view.series, t, d);
  return Number.isFinite(width)
    ? `${number(middle)}, 95 %: ${number(middle - width)} to ${number(middle + width)}`
    : `${number(middle)}, interval not known`;
};
const commonTimeText = (t) => (data.times && commonTime(t)) || `step ${t}`;
const timeText = (t) => (data.stamps && timeName(t)) || commonTimeText(t); // what has no stamp has a number

// What all plots over the time of a series share: the same steps, which can be zoomed and read off.
const overTime = (tip) => {
  const [from, to] = view.zoom;
  return {
    x: [from - 0.5, to + 0.5],
    step: (x) => Math.min(Math.max(Math.round(x), from), to),
    hair: (t) => t,
    tip,
    zoom: zoomTo,
    pick: moveCursor,
  };
};
// Runs of steps for which something holds, as boxes.
const runsOf = (plot, holds, draw) => {
  const one = plot.valToPos(1, "x") - plot.valToPos(0, "x");
  for (let t = view.zoom[0]; t <= view.zoom[1]; t += 1) {
    if (!holds(t)) continue;
    const start = t;
    while (t < view.zoom[1] && holds(t + 1)) t += 1;
    draw(plot.valToPos(start - 0.5, "x"), one * (t - start + 1), start, t);
  }
};
const hatchMissing = (pen, plot, d, high) =>
  runsOf(plot, (t) => !observed(view.series, t, d), (x, wide) => hatch(pen, x, 0, wide, high));
const drawCursor = (pen, plot, high) => {
  const x = plot.valToPos(view.cursor, "x");
  if (view.cursor >= view.zoom[0] && view.cursor <= view.zoom[1]) stroke(pen, [[x, 0, x, high]], DOWN, 1, [3, 3]);
};
const ofChannel = (d) =>
  overTime((t) => [
    `${short(data.channels[d], 60)}, ${timeText(t)}`,
    `value: ${valueText(t, d)}`,
    `${readable(view.map.label)}: ${scoreText(view.map, t, d)}`,
    ...(view.gone.has(t * data.depth + d) ? ["removed by the slider"] : []),
    ...(data.truth && bit(data.truth, cell(view.series, t, d)) ? [WORDS.truth] : []),
  ]);

const valuesPlot = (d, width, height) => {
  const pick = seenValue(d),
    steps = stepsShown(),
    values = steps.map(pick),
    alone = (t) => pick(t - 1) === null && pick(t + 1) === null, // without a line it would not be seen
    dotted = (width - MARGIN) / steps.length >= 7,
    dots = [...steps.keys()].filter((k) => values[k] !== null && (dotted || alone(steps[k])));
  return {
    ...ofChannel(d),
    ...{ width, height, title: channelName(d), y: spread(values), yAxis: valueAxis(height), below: 6 },
    data: [steps, values, values],
    lines: [
      { stroke: FRAME, width: 1, spanGaps: true, points: { show: false } }, // joins values across a gap
      { stroke: INK, width: 1.4, points: { show: true, filter: () => dots, size: 4, fill: INK, stroke: INK } },
    ],
    under: (pen, plot, _, high) => hatchMissing(pen, plot, d, high),
    over: (pen, plot, _, high) => {
      pen.fillStyle = TRUTH;
      if (data.truth) runsOf(plot, (t) => bit(data.truth, cell(view.series, t, d)), (x, wide) => pen.fillRect(x, high - 4, wide, 5));
      for (const [k, t] of steps.entries()) {
        if (!view.gone.has(t * data.depth + d)) continue;
        const [x, y] = [plot.valToPos(t, "x"), plot.valToPos(values[k], "y")];
        stroke(pen, [[x - 4, y - 4, x + 4, y + 4], [x - 4, y + 4, x + 4, y - 4]], TAKEN, 2);
      }
      drawCursor(pen, plot, high);
    },
  };
};

// One scale for all rows: room for bars and the ends of their intervals, below 0 only where a bar goes down.
const scoreRange = (shown) => {
  const bars = [0, 0],
    ends = [0, 0];
  for (const d of shown)
    for (const t of stepsShown()) {
      if (!observed(view.series, t, d)) continue;
      const v = drawnScore(view.map, t, d),
        w = view.map.half ? half(view.map, view.series, t, d) : 0,
        side = v < 0 ? 0 : 1;
      bars[side] = Math.max(bars[side], Math.abs(v));
      if (Number.isFinite(w)) ends[side] = Math.max(ends[side], Math.abs(v) + w);
    }
  const size = Math.max(...bars) || 1,
    [down, up] = [0, 1].map((side) => Math.max(bars[side], Math.min(ends[side], 1.6 * bars[side])));
  return [-Math.max(bars[0] ? 1.05 * down : 0, 0.04 * size), Math.max(bars[1] ? 1.05 * up : 0, 0.04 * size)];
};
// A bar for each value, pale where its interval holds 0, with the interval as a thin line.
const hueOf = (map, v, width) => {
  const hue = map.signed ? (v < 0 ? DOWN : UP) : SIZE;
  return map.half && !(Math.abs(v) > width) ? PALE[hue] : hue;
};
const drawBars = (pen, plot, d, [low, high]) => {
  const one = plot.valToPos(1, "x") - plot.valToPos(0, "x"),
    wide = Math.max(0.8 * one, 0.6),
    y = (v) => plot.valToPos(Math.min(Math.max(v, low), high), "y"),
    errors = [];
  for (const t of stepsShown()) {
    const v = seenScore(view.map, d)(t);
    if (v === null) continue;
    const width = view.map.half ? half(view.map, view.series, t, d) : 0,
      x = plot.valToPos(t, "x");
    pen.fillStyle = hueOf(view.map, v, width);
    pen.fillRect(x - wide / 2, y(0), wide, y(v) - y(0));
    if (width > 0 && Number.isFinite(width)) errors.push([x, y(v - width), x, y(v + width)]);
  }
  pen.globalAlpha = one < 3 ? 0.35 : 0.8;
  stroke(pen, errors, INK, Math.min(1, one / 3));
  pen.globalAlpha = 1;
};
const scoresPlot = (d, width, height, range, xAxis) => ({
  ...ofChannel(d),
  ...{ width, height, y: range, xAxis, yAxis: valueAxis(height, height < 40 ? {} : { label: WORDS.score }), below: 6 },
  under: (pen, plot, wide, high) => {
    hatchMissing(pen, plot, d, high);
    drawBars(pen, plot, d, range);
    stroke(pen, [[0, plot.valToPos(0, "y"), wide, plot.valToPos(0, "y")]], MUTED);
    drawCursor(pen, plot, high);
  },
});

// The prediction at every step, above the channels.
const stepsPlot = (width) => {
  const from = view.series * data.time,
    steps = stepsShown(),
    values = steps.map((t) => data.steps.values[from + t]),
    marked = (flags) => (t) => bit(flags, from + t),
    some = steps.some((t) => !marked(data.steps.explained)(t)),
    said = data.steps.name[0].toUpperCase() + data.steps.name.slice(1);
  return {
    ...overTime((t) => [
      timeText(t),
      `${data.steps.name}: ${output(data.steps.values[from + t])}`,
      ...(data.steps.labels ? [`label: ${marked(data.steps.labels)(t) ? "yes" : "no"}`] : []),
    ]),
    ...{ width, height: 60, y: data.output === "probability" ? [-0.04, 1.08] : spread(values), yAxis: valueAxis(60), below: 6 },
    title: `${said}${data.steps.labels ? "; shaded: the label says so" : ""}${some ? "; purple: explained" : ""}`,
    data: [steps, values],
    lines: [{ stroke: INK, width: 1.6, points: { show: false } }],
    under: (pen, plot, _, high) => {
      if (data.steps.labels) {
        pen.fillStyle = `${INK}1a`;
        runsOf(plot, marked(data.steps.labels), (x, wide) => pen.fillRect(x, 0, wide, high));
      }
      pen.fillStyle = SIZE;
      if (some) runsOf(plot, marked(data.steps.explained), (x, wide) => pen.fillRect(x, high - 3, wide, 3));
    },
    over: (pen, plot, _, high) => drawCursor(pen, plot, high),
  };
};

// First the channel that was looked for, then those of the sentence, then the others by their effect.
const channelOrder = () => {
  const named = view.map.named[view.series];
  return [...new Set([...(view.found === null ? [] : [view.found]), ...named, ...view.order])];
};
const shownChannels = () => {
  const named = view.map.named[view.series].length || Math.min(6, data.depth),
    count = view.channels === "named" ? Math.max(named, view.found === null ? 1 : named + 1) : Number(view.channels);
  return channelOrder().slice(0, count);
};
const channelsPicture = () => {
  const shown = shownChannels(),
    width = widthOf("chart-channels"),
    tall = shown.length === 1 ? 130 : shown.length === 2 ? 96 : onPaper() ? 30 : 58,
    range = scoreRange(shown),
    rest = data.depth - shown.length,
    what = `${readable(view.map.label)} scores of ${counted(shown.length, "channel", "channels")}`,
    said = `Values and ${what} of series ${seriesName(view.series)}`;
  picture("chart-channels", said, [
    ...(data.steps ? [stepsPlot(width)] : []),
    ...shown.flatMap((d, place) => {
      const time = place === shown.length - 1 ? timeAxis(view.zoom, width - MARGIN - 10, false, "time step") : undefined;
      return [valuesPlot(d, width, tall), scoresPlot(d, width, tall, range, time)];
    }),
  ]);
  at("other-channels").hidden = rest === 0 && view.channels === "named";
  at("other-channels").textContent = rest
    ? `Show ${counted(rest, "channel", "channels")} more, which the sentence does not name`
    : "Only the channels of the sentence";
};
const paintChannels = () => at("chart-channels").plots.forEach((plot) => plot.redraw(false, false));
