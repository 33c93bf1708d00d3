// Values and scores of one series, channel by channel. `view` is what people chose.

const spread = (values) => {
  let low = Infinity,
    high = -Infinity;
  for (const v of values)
    if (v !== null && Number.isFinite(v)) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
  if (low > high) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low - room, high + room];
};
const seenValue = (d) => (t) =>
  t >= 0 && t < data.time && observed(view.series, t, d) ? value(view.series, t, d) : null;
// As drawn: below 0 a method without signs says that a value matters less than nothing.
const drawnScore = (map, t, d) => {
  const v = score(map, view.series, t, d);
  return map.signed ? v : Math.max(v, 0);
};
const seenScore = (map, d) => (t) => (observed(view.series, t, d) ? drawnScore(map, t, d) : null);
const inZoom = (pick) => {
  const found = [];
  for (let t = view.zoom[0]; t <= view.zoom[1]; t += 1) found.push(pick(t));
  return found;
};

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
const panelOver = (scale, top, bottom, tip) => ({
  left: scale.left,
  right: scale.right,
  top,
  bottom,
  step: scale.step,
  place: scale.centre,
  tip,
  zoom: zoomTo,
  pick: moveCursor,
});

// One scale for all rows: room for bars and the ends of their intervals, below 0 only where a bar goes down.
const scoreRange = (shown) => {
  const bars = [0, 0],
    ends = [0, 0];
  for (const d of shown) {
    for (let t = view.zoom[0]; t <= view.zoom[1]; t += 1) {
      if (!observed(view.series, t, d)) continue;
      const v = drawnScore(view.map, t, d),
        w = view.map.half ? half(view.map, view.series, t, d) : 0,
        side = v < 0 ? 0 : 1;
      bars[side] = Math.max(bars[side], Math.abs(v));
      if (Number.isFinite(w)) ends[side] = Math.max(ends[side], Math.abs(v) + w);
    }
  }
  const size = Math.max(...bars) || 1,
    [down, up] = [0, 1].map((side) => Math.max(bars[side], Math.min(ends[side], 1.6 * bars[side])));
  return [-Math.max(bars[0] ? 1.05 * down : 0, 0.04 * size), Math.max(bars[1] ? 1.05 * up : 0, 0.04 * size)];
};


const hatchMissing = (picture, scale, d, top, bottom) =>
  picture.add("path", {
    class: "unseen",
    d: boxPath(scale, (t) => !observed(view.series, t, d), top, bottom),
    fill: picture.hatch,
  });

const drawValues = (picture, scale, d, top, bottom, gone) => {
  const pick = seenValue(d),
    box = valueBox(picture, scale.left, scale.right, top, bottom, spread(inZoom(pick)), 3);
  hatchMissing(picture, scale, d, top, bottom);
  const round = { fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round" };
  picture.add("path", { d: bridgePath(scale, box.y, pick), stroke: FRAME, ...round });
  picture.add("path", { d: linePath(scale, box.y, pick), stroke: INK, "stroke-width": 1.4, ...round });
  const alone = (t) => pick(t - 1) === null && pick(t + 1) === null; // without a line it would not be seen
  for (let t = scale.from; t <= scale.to; t += 1)
    if (pick(t) !== null && (scale.one >= 7 || alone(t)))
      picture.add("circle", { cx: rounded(scale.centre(t)), cy: rounded(box.y(pick(t))), r: 2, fill: INK });
  if (data.truth)
    picture.add("path", {
      class: "truth",
      d: boxPath(scale, (t) => bit(data.truth, cell(view.series, t, d)), bottom - 4, bottom + 1),
      fill: TRUTH,
    });
  let crosses = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    if (gone.has(t * data.depth + d))
      crosses += `M${rounded(scale.centre(t) - 4)} ${rounded(box.y(pick(t)) - 4)}l8 8m0 -8l-8 8`;
  }
  if (crosses)
    picture.add("path", { class: "removed", d: crosses, stroke: TAKEN, "stroke-width": 2, fill: "none" });
};

const drawScores = (picture, scale, d, top, bottom, range) => {
  const box = valueBox(picture, scale.left, scale.right, top, bottom, range, 4),
    paths = {};
  const wide = Math.max(scale.one * 0.8, 0.6),
    keep = (v) => Math.min(Math.max(v, range[0]), range[1]);
  let errors = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    const v = seenScore(view.map, d)(t);
    if (v === null) continue;
    const width = view.map.half ? half(view.map, view.series, t, d) : 0,
      x = scale.centre(t);
    const hue = view.map.signed ? (v < 0 ? DOWN : UP) : SIZE;
    const colour = view.map.half && !(Math.abs(v) > width) ? PALE[hue] : hue;
    paths[colour] =
      (paths[colour] ?? "") +
      `M${rounded(x - wide / 2)} ${rounded(box.y(0))}h${rounded(wide)}V${rounded(box.y(v))}h${-rounded(wide)}z`;
    if (width > 0 && Number.isFinite(width))
      errors += `M${rounded(x)} ${rounded(box.y(keep(v - width)))}V${rounded(box.y(keep(v + width)))}`;
  }
  hatchMissing(picture, scale, d, top, bottom);
  for (const [colour, path] of Object.entries(paths)) picture.add("path", { d: path, fill: colour });
  if (errors)
    picture.add("path", {
      d: errors,
      stroke: INK,
      "stroke-width": Math.min(1, scale.one / 3),
      fill: "none",
      opacity: scale.one < 3 ? 0.35 : 0.8,
    });
  picture.add("line", {
    x1: scale.left,
    x2: scale.right,
    y1: rounded(box.y(0)),
    y2: rounded(box.y(0)),
    stroke: MUTED,
  });
};

const drawSteps = (picture, scale, top, bottom) => {
  const from = view.series * data.time,
    pick = (t) => data.steps.values[from + t];
  const box = valueBox(
    picture,
    scale.left,
    scale.right,
    top,
    bottom,
    data.output === "probability" ? [-0.04, 1.08] : spread(inZoom(pick)),
    2,
  );
  if (data.steps.labels)
    picture.add("path", {
      class: "labels",
      d: boxPath(scale, (t) => bit(data.steps.labels, from + t), top, bottom),
      fill: INK,
      opacity: 0.1,
    });
  const some = inZoom((t) => bit(data.steps.explained, from + t)).some((flag) => !flag);
  if (some)
    picture.add("path", {
      d: boxPath(scale, (t) => bit(data.steps.explained, from + t), bottom - 3, bottom),
      fill: SIZE,
    });
  picture.add("path", { d: linePath(scale, box.y, pick), fill: "none", stroke: INK, "stroke-width": 1.6 });
  picture.panels.push(
    panelOver(scale, top, bottom, (t) => [
      timeText(t),
      `${data.steps.name}: ${output(pick(t))}`,
      ...(data.steps.labels ? [`label: ${bit(data.steps.labels, from + t) ? "yes" : "no"}`] : []),
    ]),
  );
  return some;
};

const drawCursor = (picture, scale) => {
  if (view.cursor < scale.from || view.cursor > scale.to) return;
  picture.add("line", {
    class: "cursor-line",
    x1: rounded(scale.centre(view.cursor)),
    x2: rounded(scale.centre(view.cursor)),
    y1: 20,
    y2: picture.height - 38,
    stroke: DOWN,
    "stroke-dasharray": "3 3",
  });
};

// Values and scores of the strongest channels, one above the other, on one time axis.
// Heights of the parts of a row: scores are as tall as values, and all is taller where there are few channels.
const rowHeights = (count) => {
  const one = count === 1 ? 130 : count === 2 ? 96 : onPaper() ? 24 : 58;
  return { all: 2 * one + 40, title: 13, values: [20, 20 + one], scores: [26 + one, 26 + 2 * one] };
};
const shownChannels = () => {
  const found = view.found === null ? view.order : [view.found, ...view.order.filter((d) => d !== view.found)];
  return found.slice(0, view.channels);
};
const channelsPicture = () => {
  const shown = shownChannels(),
    ROW = rowHeights(shown.length),
    first = data.steps ? 92 : 0;
  const picture = frame(
    "chart-channels",
    `Values and ${readable(view.map.label)} scores of ${counted(shown.length, "channel", "channels")} of series ${seriesName(view.series)}`,
    first + ROW.all * shown.length + 40,
  );
  const scale = timeScale(view.zoom, 62, picture.width - 10),
    range = scoreRange(shown);
  const gone = removedCells(view.map, view.series, view.count);
  if (first) {
    const some = drawSteps(picture, scale, 20, 80);
    const said =
      data.steps.name[0].toUpperCase() +
      data.steps.name.slice(1) +
      (data.steps.labels ? "; shaded: the label says so" : "") +
      (some ? "; purple: explained" : "");
    write(
      picture,
      Math.max(0, Math.min(scale.left, picture.width - lengthOf(said, 12, 600))),
      13,
      fitted(said, picture.width, 12, 600),
      { "font-weight": 600 },
    );
  }
  shown.forEach((d, place) => {
    const top = first + place * ROW.all,
      [high, low] = [ROW.values, ROW.scores].map((p) => p.map((y) => top + y));
    const name = write(picture, scale.left, top + ROW.title, fitted(channelName(d), scale.right - scale.left, 13, 600), {
      "font-weight": 600,
      "font-size": 13,
    });
    name.append(shape("title", {}, data.channels[d]));
    drawValues(picture, scale, d, ...high, gone);
    drawScores(picture, scale, d, ...low, range);
    const title = { "font-size": 10.5, fill: MUTED, "text-anchor": "middle" },
      y = rounded((low[0] + low[1]) / 2);
    write(picture, 9, y, WORDS.score, { ...title, transform: `rotate(-90 9 ${y})` });
    picture.panels.push(
      panelOver(scale, high[0], low[1], (t) => [
        `${short(data.channels[d], 60)}, ${timeText(t)}`,
        `value: ${valueText(t, d)}`,
        `${readable(view.map.label)}: ${scoreText(view.map, t, d)}`,
        ...(gone.has(t * data.depth + d) ? ["removed by the slider"] : []),
        ...(data.truth && bit(data.truth, cell(view.series, t, d)) ? [WORDS.truth] : []),
      ]),
    );
  });
  timeAxis(picture, scale, picture.height - 38);
  drawCursor(picture, scale);
  finish(picture);
};
