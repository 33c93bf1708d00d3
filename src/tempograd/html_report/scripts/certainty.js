// How sure the scores are: the verdict in words, and how the error fell as samples were added.

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

// Round numbers between two limits, fewer where there are many: 1, 2 and 5, or 1 and 3, or 1 times powers of ten.
const logTicks = (low, high, most) => {
  let found = [];
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1)
      for (const step of steps) found.push(Number(`${step}e${power}`));
    found = found.filter((v) => v >= low && v <= high);
    if (found.length <= most) break;
  }
  return found;
};

// Both scales of a picture of errors, with their grid and numbers: x() for samples, y() for errors.
const errorScales = (picture, points, known) => {
  const left = 46,
    right = picture.width - 14,
    top = 8,
    bottom = 170,
    [low, high] = [Math.min(...known) / 1.25, Math.max(...known) * 1.25],
    [first, last] = points.length > 1 ? [points[0], points.at(-1)] : [points[0] / 2, points[0] * 2];
  const x = (n) => left + (Math.log(n / first) / Math.log(last / first)) * (right - left);
  const y = (v) => {
    const inside = Math.min(Math.max(v, low), high);
    return bottom - (Math.log(inside / low) / Math.log(high / low)) * (bottom - top);
  };
  const small = { "font-size": 11, fill: MUTED };
  for (const v of logTicks(low, high, 7)) {
    picture.add("line", { x1: left, x2: right, y1: rounded(y(v)), y2: rounded(y(v)), stroke: RULE });
    write(picture, left - 6, y(v) + 3.5, `${Number((100 * v).toPrecision(2))} %`, { "text-anchor": "end", ...small });
  }
  for (const n of logTicks(first, last, (right - left) / 45)) {
    picture.add("line", { x1: rounded(x(n)), x2: rounded(x(n)), y1: bottom, y2: bottom + 4, stroke: MUTED });
    write(picture, x(n), bottom + 17, n.toLocaleString("en"), { "text-anchor": "middle", ...small });
  }
  write(picture, (left + right) / 2, bottom + 35, "samples", { "text-anchor": "middle", ...small });
  return { left, right, top, bottom, x, y };
};

// Errors, one per look and NaN after the end, as a line, with a band around it where there are many series.
const errorPicture = (id, said, points, curve, band, goal) => {
  const picture = frame(id, said, 212),
    known = [...curve, ...(band?.flat() ?? []), goal].filter((v) => v > 0 && Number.isFinite(v)),
    scales = errorScales(picture, points, known),
    { left, right, x, y } = scales;
  const through = (values) =>
    values
      .map((v, k) => (Number.isFinite(v) ? `${rounded(x(points[k]))} ${rounded(y(v))}` : null))
      .filter((place) => place !== null);
  if (band) {
    const [under, over] = band.map(through);
    picture.add("path", { d: `M${[...over, ...under.reverse()].join("L")}z`, fill: PALE[DOWN], class: "band" });
  }
  picture.add("line", {
    x1: left,
    x2: right,
    y1: rounded(y(goal)),
    y2: rounded(y(goal)),
    stroke: DOWN,
    "stroke-width": 1.5,
    "stroke-dasharray": "6 4",
    class: "goal",
  });
  const places = through(curve);
  picture.add("path", { d: `M${places.join("L")}`, fill: "none", stroke: INK, "stroke-width": 2, class: "curve" });
  for (const [cx, cy] of places.map((place) => place.split(" ")))
    picture.add("circle", { cx, cy, r: 2.5, fill: INK });
  const near = (px) =>
    points.reduce((best, n, k) => (Math.abs(x(n) - px) < Math.abs(x(points[best]) - px) ? k : best), 0);
  picture.panels.push({
    ...scales,
    step: near,
    place: (k) => x(points[k]),
    tip: (k) => [
      counted(points[k], "sample", "samples"),
      Number.isNaN(curve[k]) ? "stopped before" : `error ${share(curve[k])}`,
      ...(band ? [`nine of ten series: ${share(band[0][k])} to ${share(band[1][k])}`] : []),
      `goal ${share(goal)}`,
    ],
  });
  finish(picture);
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
  const { points } = curve,
    own = [...curve.each.subarray(view.series * points.length, (view.series + 1) * points.length)];
  errorPicture("chart-convergence", `Error of this series: ${courseSaid(points, own)}`, points, own, null, goal);
};

const allCertaintyPicture = (map) => {
  const { curve, goal } = map.certainty;
  at("all-sure").hidden = !curve;
  if (!curve) return;
  const { points } = curve,
    [low, middle, high] = [curve.low, curve.middle, curve.high].map((part) => [...part]),
    said = `Error of the middle series: ${courseSaid(points, middle)}`;
  errorPicture("chart-convergence-all", said, points, middle, [low, high], goal);
};
