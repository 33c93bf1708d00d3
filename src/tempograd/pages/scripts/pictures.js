// The pictures of one series. `view` is what people chose: series, map, channels, zoom, cursor, count.

const spread = (values) => {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null && Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low > high) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low - room, high + room];
};
const seenValue = (d) => (t) => (observed(view.series, t, d) ? value(view.series, t, d) : null);
const seenScore = (map, d) => (t) => (observed(view.series, t, d) ? score(map, view.series, t, d) : null);
const inZoom = (pick) => { const found = []; for (let t = view.zoom[0]; t <= view.zoom[1]; t += 1) found.push(pick(t)); return found; };

const unitOf = (d) => (data.units && data.units[d] ? ` ${data.units[d]}` : "");
const valueText = (t, d) => (observed(view.series, t, d) ? number(value(view.series, t, d)) + unitOf(d) : "not observed");
const scoreText = (map, t, d) => {
  if (!observed(view.series, t, d)) return "not observed";
  const middle = score(map, view.series, t, d);
  if (!map.half) return number(middle);
  const width = half(map, view.series, t, d);
  return Number.isFinite(width) ? `${number(middle)}, 95 %: ${number(middle - width)} to ${number(middle + width)}` : `${number(middle)}, interval not known`;
};
const timeText = (t) => (data.times ? timeName(t) : `step ${t}`);
const panelOver = (scale, top, bottom, tip) => ({ left: scale.left, right: scale.right, top, bottom, step: scale.step, place: scale.centre, tip, zoom: zoomTo, pick: moveCursor });

const scoreRange = (shown) => {
  let size = 0, error = 0;
  for (const d of shown) {
    for (let t = view.zoom[0]; t <= view.zoom[1]; t += 1) {
      if (!observed(view.series, t, d)) continue;
      const v = Math.abs(score(view.map, view.series, t, d));
      size = Math.max(size, v);
      if (view.map.half) { const w = half(view.map, view.series, t, d); if (Number.isFinite(w)) error = Math.max(error, v + w); }
    }
  }
  const full = Math.max(size, Math.min(error, 1.6 * size)) * 1.05 || 1;
  return [view.map.signed ? -full : -0.04 * full, full];
};

const drawValues = (picture, scale, d, top, bottom, gone) => {
  const pick = seenValue(d), box = valueBox(picture, scale.left, scale.right, top, bottom, spread(inZoom(pick)), 3);
  picture.add("path", { d: boxPath(scale, (t) => !observed(view.series, t, d), top, bottom), fill: GONE });
  picture.add("path", { d: linePath(scale, box.y, pick), fill: "none", stroke: INK, "stroke-width": 1.4, "stroke-linejoin": "round", "stroke-linecap": "round" });
  if (scale.one >= 7) for (let t = scale.from; t <= scale.to; t += 1) if (pick(t) !== null) picture.add("circle", { cx: rounded(scale.centre(t)), cy: rounded(box.y(pick(t))), r: 2.2, fill: INK });
  if (data.truth) picture.add("path", { class: "truth", d: boxPath(scale, (t) => bit(data.truth, cell(view.series, t, d)), bottom - 4, bottom + 1), fill: "#000" });
  let crosses = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    if (gone.has(t * data.depth + d)) crosses += `M${rounded(scale.centre(t) - 4)} ${rounded(box.y(pick(t)) - 4)}l8 8m0 -8l-8 8`;
  }
  if (crosses) picture.add("path", { class: "removed", d: crosses, stroke: TAKEN, "stroke-width": 2, fill: "none" });
};

const drawScores = (picture, scale, d, top, bottom, range) => {
  const box = valueBox(picture, scale.left, scale.right, top, bottom, range, 4), paths = {};
  const wide = Math.max(scale.one * 0.8, 0.6), keep = (v) => Math.min(Math.max(v, range[0]), range[1]);
  let errors = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    const v = seenScore(view.map, d)(t);
    if (v === null) continue;
    const width = view.map.half ? half(view.map, view.series, t, d) : 0, x = scale.centre(t);
    const hue = view.map.signed ? (v < 0 ? DOWN : UP) : SIZE;
    const colour = view.map.half && !(Math.abs(v) > width) ? PALE[hue] : hue;
    paths[colour] = (paths[colour] ?? "") + `M${rounded(x - wide / 2)} ${rounded(box.y(0))}h${rounded(wide)}V${rounded(box.y(v))}h${-rounded(wide)}z`;
    if (width > 0 && Number.isFinite(width)) errors += `M${rounded(x)} ${rounded(box.y(keep(v - width)))}V${rounded(box.y(keep(v + width)))}`;
  }
  picture.add("path", { d: boxPath(scale, (t) => !observed(view.series, t, d), top, bottom), fill: GONE });
  for (const [colour, path] of Object.entries(paths)) picture.add("path", { d: path, fill: colour });
  if (errors) picture.add("path", { d: errors, stroke: INK, "stroke-width": Math.min(1, scale.one / 3), fill: "none", opacity: scale.one < 3 ? 0.35 : 0.8 });
  picture.add("line", { x1: scale.left, x2: scale.right, y1: rounded(box.y(0)), y2: rounded(box.y(0)), stroke: "#7b8793" });
};

const drawSteps = (picture, scale, top, bottom) => {
  const from = view.series * data.time, pick = (t) => data.steps.values[from + t];
  const box = valueBox(picture, scale.left, scale.right, top, bottom, data.output === "probability" ? [-0.04, 1.08] : spread(inZoom(pick)), 2);
  if (data.steps.labels) picture.add("path", { class: "labels", d: boxPath(scale, (t) => bit(data.steps.labels, from + t), top, bottom), fill: "#1c2733", opacity: 0.1 });
  const some = inZoom((t) => bit(data.steps.explained, from + t)).some((flag) => !flag);
  if (some) picture.add("path", { d: boxPath(scale, (t) => bit(data.steps.explained, from + t), bottom - 3, bottom), fill: SIZE });
  picture.add("path", { d: linePath(scale, box.y, pick), fill: "none", stroke: INK, "stroke-width": 1.6 });
  picture.panels.push(panelOver(scale, top, bottom, (t) => [timeText(t), `${data.steps.name}: ${output(pick(t))}`,
    ...(data.steps.labels ? [`label: ${bit(data.steps.labels, from + t) ? "yes" : "no"}`] : [])]));
  return some;
};

const drawCursor = (picture, scale) => {
  if (view.cursor < scale.from || view.cursor > scale.to) return;
  picture.add("line", { class: "cursor-line", x1: rounded(scale.centre(view.cursor)), x2: rounded(scale.centre(view.cursor)), y1: 20, y2: picture.height - 38, stroke: "#0c5291", "stroke-dasharray": "3 3" });
};

// Values and scores of the strongest channels, one above the other, on one time axis.
const channelsPicture = () => {
  const shown = view.order.slice(0, view.channels), one = 158, first = data.steps ? 92 : 0;
  const picture = frame("chart-channels", `Values and ${readable(view.map.label)} scores of ${counted(shown.length, "channel", "channels")} of series ${seriesName(view.series)}`, first + one * shown.length + 40);
  const scale = timeScale(view.zoom, 56, picture.width - 10), range = scoreRange(shown);
  const gone = removedCells(view.map, view.series, view.count);
  if (first) {
    const some = drawSteps(picture, scale, 20, 80);
    const said = data.steps.name[0].toUpperCase() + data.steps.name.slice(1) + (data.steps.labels ? "; shaded: the label says so" : "") + (some ? "; purple: explained" : "");
    write(picture, Math.max(0, Math.min(scale.left, picture.width - lengthOf(said, 12, 600))), 13, fitted(said, picture.width, 12, 600), { "font-weight": 600 });
  }
  shown.forEach((d, place) => {
    const top = first + place * one;
    const name = write(picture, scale.left, top + 14, fitted(channelName(d), scale.right - scale.left, 13, 600), { "font-weight": 600, "font-size": 13 });
    name.append(shape("title", {}, data.channels[d]));
    drawValues(picture, scale, d, top + 22, top + 84, gone);
    drawScores(picture, scale, d, top + 92, top + 146, range);
    picture.panels.push(panelOver(scale, top + 22, top + 146, (t) => [`${short(data.channels[d], 60)}, ${timeText(t)}`, `value: ${valueText(t, d)}`, `${readable(view.map.label)}: ${scoreText(view.map, t, d)}`,
      ...(gone.has(t * data.depth + d) ? ["removed by the slider"] : []), ...(data.truth && bit(data.truth, cell(view.series, t, d)) ? ["truly decides the label"] : [])]));
  });
  timeAxis(picture, scale, picture.height - 38);
  drawCursor(picture, scale);
  finish(picture);
};

const colours = (map) => {
  const full = map.limit[view.series] || 1;
  return map.signed ? [SIGNED, -full, full] : [UNSIGNED, 0, full];
};
const mapTip = (rows, text) => (t, share) => {
  const d = rows[Math.min(Math.max(Math.floor(share * rows.length), 0), rows.length - 1)];
  return [`${short(data.channels[d], 60)}, ${timeText(t)}`, text(t, d)];
};

const standard = [];  // mean and spread of each channel over the shown series, computed once
const standardised = (t, d) => {
  if (!observed(view.series, t, d)) return null;
  if (!standard[d]) {
    let count = 0, mean = 0, square = 0;
    for (let i = 0; i < data.ids.length; i += 1) {
      for (let s = 0; s < data.time; s += 1) {
        if (!observed(i, s, d)) continue;
        count += 1;
        const v = value(i, s, d), gap = v - mean;
        mean += gap / count;
        square += gap * (v - mean);
      }
    }
    standard[d] = [mean, Math.sqrt(square / Math.max(count, 1)) || 1];
  }
  return (value(view.series, t, d) - standard[d][0]) / standard[d][1];
};

// All channels at a glance: what the model saw, and what moved it.
const mapPicture = () => {
  const rows = view.order, wide = widthOf("chart-map"), beside = wide >= 680;
  const one = Math.max(10, Math.min(22, 900 / rows.length)), tall = Math.max(one * rows.length, 24), cell = tall / rows.length, block = tall + 92;
  const picture = frame("chart-map", `Maps of the values and the ${readable(view.map.label)} scores of all channels, the strongest on top`, beside ? block : 2 * block);
  const names = nameRoom(wide), middle = names + (wide - names - 10) / 2;
  const panel = (title, scale, top, pick, text, stops, low, high, said) => {
    write(picture, scale.left, top + 13, fitted(title, scale.right - scale.left, 12, 600), { "font-weight": 600 });
    heatMap(picture, scale, top + 20, tall, rows, pick, stops, low, high);
    timeAxis(picture, scale, top + 20 + tall, false);
    colourBar(picture, scale.left, top + tall + 48, Math.min(300, scale.right - scale.left), stops, low, high, said);
    picture.panels.push(panelOver(scale, top + 20, top + 20 + tall, mapTip(rows, text)));
  };
  const left = timeScale(view.zoom, names, beside ? middle - 10 : wide - 10), right = timeScale(view.zoom, beside ? middle + 10 : names, wide - 10), below = beside ? 0 : block;
  rowNames(picture, rows, names, 20, cell);
  if (!beside) rowNames(picture, rows, names, block + 20, cell);
  panel("Values", left, 0, standardised, valueText, TEAL, -2.5, 2.5, "spreads from the channel's mean");
  panel(`Scores by ${readable(view.map.label)}`, right, below, (t, d) => seenScore(view.map, d)(t), (t, d) => scoreText(view.map, t, d), ...colours(view.map), view.map.signed ? "down ← score → up" : "size of the score");
  finish(picture);
};

// What the methods say about the same series, each in its own scale.
const methodsPicture = () => {
  const rows = view.order.slice(0, view.channels), tall = Math.max(30, 20 * rows.length), one = tall + 26;
  const picture = frame("chart-methods", `The scores of ${counted(data.maps.length, "method", "methods")} on series ${seriesName(view.series)}`, one * data.maps.length + 40);
  const names = nameRoom(picture.width), scale = timeScale(view.zoom, names, picture.width - 10);
  data.maps.forEach((map, place) => {
    const top = place * one + 20, said = Object.entries(map.scores).map(([name, found]) => `${name.toUpperCase()} ${number(found[view.series])}`).join(", ");
    const name = fitted(readable(map.label), scale.right - names, 12, 600), title = write(picture, names, top - 6, name, { "font-weight": 600 });
    const room = scale.right - names - lengthOf(name, 12, 600) - 8;  // the table below has the scores too
    if (lengthOf(said, 12) <= room) title.append(shape("tspan", { dx: 8, fill: MUTED, "font-weight": 400 }, said));
    rowNames(picture, rows, names, top, tall / rows.length);
    heatMap(picture, scale, top, tall, rows, (t, d) => seenScore(map, d)(t), ...colours(map));
    picture.panels.push(panelOver(scale, top, top + tall, mapTip(rows, (t, d) => `${readable(map.label)}: ${scoreText(map, t, d)}`)));
  });
  timeAxis(picture, scale, one * data.maps.length - 6);
  finish(picture);
};

// The explained output as each method's strongest values go.
const removalPicture = () => {
  const picture = frame("chart-removal", "The explained output as values are removed, one line per method", 230);
  const left = 46, right = picture.width - 20, top = 8, bottom = 186, last = data.counts.at(-1) || 1;
  const curves = data.maps.map((map) => data.counts.map((_, state) => scoreAfter(map, view.series, state)));
  const box = valueBox(picture, left, right, top, bottom, data.output === "probability" ? [0, 1] : spread(curves.flat()), 4);
  const x = (count) => left + count / last * (right - left);
  for (const v of ticks(0, last, 4).found) if (Number.isInteger(v)) write(picture, x(v), bottom + 16, v.toLocaleString("en"), { "text-anchor": "middle", "font-size": 11, fill: MUTED });
  write(picture, (left + right) / 2, bottom + 34, "values removed, strongest first", { "text-anchor": "middle", "font-size": 11, fill: MUTED });
  curves.forEach((curve, place) => {
    const d = curve.map((v, state) => `${state ? "L" : "M"}${rounded(x(data.counts[state]))} ${rounded(box.y(v))}`).join("");
    picture.add("path", { d, fill: "none", stroke: LINES[place % LINES.length], "stroke-dasharray": DASHES[place % DASHES.length], "stroke-width": data.maps[place] === view.map ? 2.6 : 1.6 });
  });
  picture.add("line", { x1: rounded(x(view.count)), x2: rounded(x(view.count)), y1: top, y2: bottom, stroke: "#0c5291", "stroke-dasharray": "3 3" });
  const near = (px) => data.counts.reduce((best, count, state) => (Math.abs(x(count) - px) < Math.abs(x(data.counts[best]) - px) ? state : best), 0);
  picture.panels.push({ left, right, top, bottom, step: near, place: (state) => x(data.counts[state]), pick: removeUpTo,
    tip: (state) => [`${data.counts[state].toLocaleString("en")} removed`, ...data.maps.map((map, place) => `${readable(map.label)}: ${output(curves[place][state])}`)] });
  finish(picture);
};
const methodKeys = () => data.maps.map((map, place) => {
  const item = element("li", ""), key = shape("svg", { viewBox: "0 0 34 8", width: 34, height: 8, "aria-hidden": "true" });
  key.append(shape("path", { d: "M0 4H34", stroke: LINES[place % LINES.length], "stroke-dasharray": DASHES[place % DASHES.length], "stroke-width": 2 }));
  item.append(key, element("span", readable(map.label)));
  return item;
});
