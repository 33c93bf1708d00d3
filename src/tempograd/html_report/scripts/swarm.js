// Does a high value push up? Series as dots for every channel, and values as dots for one.

const SWARMS = 10; // channels
const HUES = 9; // steps of colour from low to high values
const DOTS = 3000; // of one picture; of more values every so many-th is drawn, means are of all

// The mean observed value of a channel in a series; null where nothing was observed.
const meanValue = (i, d) => {
  let sum = 0,
    count = 0;
  for (let t = 0; t < data.time; t += 1)
    if (observed(i, t, d)) {
      sum += value(i, t, d);
      count += 1;
    }
  return count ? sum / count : null;
};
const asDots = (picture, places, stroke, size, more = {}) => {
  const d = places.map(([x, y]) => `M${rounded(x)} ${rounded(y)}h.01`).join("");
  if (d) picture.add("path", { class: "dots", d, fill: "none", stroke, "stroke-width": size, "stroke-linecap": "round", ...more });
};

// Dots side by side: each as near to the middle as the ones before leave room for.
const beeswarm = (xs, tall, size) => {
  const taken = new Map();
  return xs.map((x) => {
    const bin = Math.round(x / size),
      place = taken.get(bin) ?? 0;
    taken.set(bin, place + 1);
    const off = Math.ceil(place / 2) * (place % 2 ? 1 : -1) * size * 0.7;
    return Math.min(Math.max(off, -tall / 2), tall / 2);
  });
};

const swarmRow = (picture, map, rows, d, x, middle, tall) => {
  const dots = rows
    .map((i) => ({ i, push: channelSum(map, i, d), mean: meanValue(i, d) }))
    .filter(({ mean }) => mean !== null)
    .sort((a, b) => a.mean - b.mean);
  const ys = beeswarm(dots.map(({ push }) => x(push)), tall - 6, rows.length > 150 ? 3 : 4.5),
    byHue = Array.from({ length: HUES }, () => []);
  dots.forEach(({ push }, place) =>
    byHue[Math.min(Math.floor((HUES * place) / dots.length), HUES - 1)].push([x(push), middle + ys[place]]),
  );
  byHue.forEach((places, hue) => {
    asDots(picture, places, MUTED, rows.length > 150 ? 4 : 6); // a rim, so that pale dots are seen on paper
    asDots(picture, places, `rgb(${blend(VALUES, hue / (HUES - 1))})`, rows.length > 150 ? 3 : 5);
  });
  return dots;
};

const swarmPicture = (map, rows, order) => {
  const shown = order.slice(0, SWARMS),
    one = onPaper() ? 22 : 40,
    top = 4,
    bottom = top + one * shown.length;
  const picture = frame("chart-swarm", "How far each channel pushed each series, coloured by its values", bottom + 84),
    left = nameRoom(picture.width),
    right = picture.width - 10;
  const sums = shown.flatMap((d) => rows.map((i) => channelSum(map, i, d))),
    [low, high] = [Math.min(0, ...sums), Math.max(0, ...sums)],
    span = high - low || 1,
    x = (v) => left + 6 + ((v - low) / span) * (right - left - 12);
  acrossAxis(picture, x, low, low + span, top, bottom);
  const axis = map.signed ? `${WORDS.down} ← ${WORDS.score} of the series → ${WORDS.up}` : WORDS.size;
  const half = lengthOf(axis, 11) / 2, // all of it is seen, also where names leave little room
    middle = Math.max(half + 2, Math.min((left + right) / 2, picture.width - half - 2));
  write(picture, middle, bottom + 31, fitted(axis, picture.width - 4, 11), {
    "text-anchor": "middle",
    "font-size": 11,
    fill: MUTED,
  });
  colourBar(picture, left, bottom + 46, Math.min(220, right - left), VALUES, 0, 1, "values of the channel", false, ["low", "high"]);
  shown.forEach((d, place) => {
    const middle = top + (place + 0.5) * one,
      dots = swarmRow(picture, map, rows, d, x, middle, one);
    picture.panels.push({
      left,
      right,
      top: middle - one / 2,
      bottom: middle + one / 2,
      step: (px) => dots.reduce((best, dot, k) => (Math.abs(x(dot.push) - px) < Math.abs(x(dots[best].push) - px) ? k : best), 0),
      place: (k) => (dots.length ? x(dots[k].push) : left),
      tip: (k) =>
        dots.length
          ? [
              `${short(data.channels[d], 40)}, series ${seriesName(dots[k].i)}`,
              `pushed ${number(dots[k].push)}`,
              `mean value ${number(dots[k].mean)}${unitOf(d)}`,
            ]
          : null,
      pick: () => chooseDepend(d),
    });
  });
  rowNames(picture, shown, left, top, one);
  finish(picture);
};

// Groups of about equally many values, equal ones in the same: the rule of views/value_effects.py.
const VALUE_GROUPS = 8;
const valueBins = (cells) => {
  const ordered = [...cells].sort((a, b) => a.v - b.v),
    bins = Array.from({ length: VALUE_GROUPS }, () => []);
  let smaller = 0;
  ordered.forEach((found, place) => {
    if (place && found.v > ordered[place - 1].v) smaller = place;
    bins[Math.floor((smaller * VALUE_GROUPS) / ordered.length)].push(found);
  });
  return bins.filter((bin) => bin.length);
};
// Spearman's rank correlation, equal numbers at the middle of their places; NaN where one of the two is constant.
const ranksOf = (values) => {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]),
    ranks = new Float64Array(values.length);
  for (let start = 0, stop = 0; start < order.length; start = stop) {
    while (stop < order.length && values[order[stop]] === values[order[start]]) stop += 1;
    for (let place = start; place < stop; place += 1) ranks[order[place]] = (start + stop - 1) / 2;
  }
  return ranks;
};
const rankCorrelation = (one, other) => {
  const [a, b] = [one, other].map(ranksOf),
    middle = (one.length - 1) / 2;
  let [both, left, right] = [0, 0, 0];
  for (let place = 0; place < a.length; place += 1) {
    both += (a[place] - middle) * (b[place] - middle);
    left += (a[place] - middle) ** 2;
    right += (b[place] - middle) ** 2;
  }
  return both / Math.sqrt(left * right);
};
const CLEAR = 0.3; // from here on a direction is named
const directionWords = (map, cells) => {
  if (!cells.length) return "no value observed";
  const found = rankCorrelation(
    cells.map(({ v }) => v),
    cells.map(({ s }) => s),
  );
  if (!(Math.abs(found) >= CLEAR)) return "no clear direction";
  if (!map.signed) return `${found > 0 ? "high" : "low"} values matter more`;
  return `high values push ${found > 0 ? "up" : "down"}`;
};
// The mean score of a group of values, each series with its own mean, and the interval over those series.
const binMean = (bin) => {
  const bySeries = new Map();
  for (const { i, s } of bin) {
    if (!bySeries.has(i)) bySeries.set(i, []);
    bySeries.get(i).push(s);
  }
  const means = [...bySeries.values()].map((scores) => scores.reduce((sum, s) => sum + s, 0) / scores.length);
  const [low, high] = [bin[Math.floor((bin.length - 1) / 2)].v, bin[Math.floor(bin.length / 2)].v];
  return { v: (low + high) / 2, series: means.length, ...withInterval(means) };
};
const dependence = (map, rows, d) => {
  const cells = [];
  for (const i of rows)
    for (let t = 0; t < data.time; t += 1)
      if (observed(i, t, d)) {
        const s = score(map, i, t, d);
        cells.push({ i, t, v: value(i, t, d), s: map.signed ? s : Math.max(s, 0) });
      }
  return { cells, means: valueBins(cells).map(binMean) };
};

// Limits that leave out one value in two hundred at either end: dots beyond stand at the edge.
const limits = (values) => {
  const ordered = [...values].sort((a, b) => a - b),
    at = (share) => ordered[Math.round(share * (ordered.length - 1))];
  return spread([at(0.005), at(0.995)]);
};
const dependPicture = (map, rows, d) => {
  const bottom = onPaper() ? 120 : 204,
    picture = frame("chart-depend", `Values of ${data.channels[d]} and what they did`, bottom + 46),
    { cells, means } = dependence(map, rows, d);
  at("depend-words").textContent = directionWords(map, cells);
  at("depending").dataset.means = JSON.stringify(means.map(({ v, mean, low, high, series }) => [v, mean, low, high, series]));
  const left = 62,
    right = picture.width - 14,
    top = 8,
    clamp = (v, [low, high]) => Math.min(Math.max(v, low), high);
  if (!cells.length) {
    picture.add("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: picture.hatch });
    write(picture, (left + right) / 2, bottom / 2, "no value observed", { "text-anchor": "middle" });
    finish(picture);
    return;
  }
  const across = limits(cells.map(({ v }) => v)),
    up = limits([0, ...cells.map(({ s }) => s), ...means.map(({ mean }) => mean)]),
    box = valueBox(picture, left, right, top, bottom, up, 4),
    x = (v) => left + ((clamp(v, across) - across[0]) / (across[1] - across[0])) * (right - left),
    y = (s) => box.y(clamp(s, up)),
    every = Math.ceil(cells.length / DOTS),
    dots = cells.filter((_, place) => place % every === 0);
  const hues = map.signed ? [[UP, (s) => s > 0], [DOWN, (s) => s <= 0]] : [[SIZE, () => true]];
  for (const [hue, mine] of hues)
    asDots(picture, dots.filter(({ s }) => mine(s)).map(({ v, s }) => [x(v), y(s)]), hue, 3, { opacity: dots.length > 400 ? 0.3 : 0.55 });
  for (const { v, low, high } of means.filter((each) => Number.isFinite(each.low))) {
    const place = rounded(x(v));
    picture.add("line", { x1: place, x2: place, y1: rounded(y(low)), y2: rounded(y(high)), stroke: INK });
  }
  picture.add("path", {
    class: "means",
    d: `M${means.map(({ v, mean }) => `${rounded(x(v))} ${rounded(y(mean))}`).join("L")}`,
    fill: "none",
    stroke: INK,
    "stroke-width": 2,
  });
  for (const { v, mean } of means) picture.add("circle", { cx: rounded(x(v)), cy: rounded(y(mean)), r: 3, fill: INK });
  dependAxes(picture, x, across, bottom, d);
  picture.panels.push({
    left,
    right,
    top,
    bottom,
    step: (px) => means.reduce((best, found, k) => (Math.abs(x(found.v) - px) < Math.abs(x(means[best].v) - px) ? k : best), 0),
    place: (k) => x(means[k].v),
    tip: (k) => [
      `about ${number(means[k].v)}${unitOf(d)}`,
      `mean ${WORDS.score} ${number(means[k].mean)}, 95 %: ${number(means[k].low)} to ${number(means[k].high)}`,
      counted(means[k].series, "series", "series"),
    ],
  });
  finish(picture);
};
const dependAxes = (picture, x, [low, high], bottom, d) => {
  const { found, places } = ticks(low, high, Math.max(3, Math.floor((x(high) - x(low)) / 90))),
    small = { "text-anchor": "middle", "font-size": 11, fill: MUTED };
  for (const v of found) {
    picture.add("line", { x1: rounded(x(v)), x2: rounded(x(v)), y1: bottom, y2: bottom + 4, stroke: MUTED });
    write(picture, x(v), bottom + 17, tickText(v, places), small);
  }
  write(picture, (x(low) + x(high)) / 2, bottom + 36, fitted(channelName(d), x(high) - x(low), 11), small);
  const middle = rounded(bottom / 2);
  write(picture, 9, middle, WORDS.score, { ...small, transform: `rotate(-90 9 ${middle})` });
};
const chooseDepend = (d) => {
  at("depend-channel").value = d;
  dependPicture(summaryNow.map, summaryNow.a, d);
  at("depending").scrollIntoView({ block: "nearest" });
};
