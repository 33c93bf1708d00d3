// Scales, axes, and paths of lines and boxes over a shared time axis.

// Steps from … to between two edges; every step has the same width.
const timeScale = ([from, to], left, right) => {
  const one = (right - left) / (to - from + 1);
  return {
    from,
    to,
    left,
    right,
    one,
    centre: (t) => left + (t - from + 0.5) * one,
    step: (x) => Math.min(Math.max(from + Math.floor((x - left) / one), from), to),
  };
};
const niceStep = (span, parts) => {
  const rough = span / parts,
    power = 10 ** Math.floor(Math.log10(rough)),
    share = rough / power;
  return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
};
// Round numbers between two limits, about as many as there are parts, and at least two: one alone tells no scale.
const ticks = (low, high, parts, most = 3 * parts) => {
  const step = niceStep(high - low, parts),
    found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) found.push(n * step || 0);
  if (found.length < 2 && parts < most) return ticks(low, high, parts + 1, most);
  return { found, places: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
};
const tickText = (v, places) => (Math.abs(v) >= 1e5 || places > 5 ? number(v) : fixed(v, places));

// Which steps get a mark: at least three, where there are as many. A date stands above its time of day.
const EVERY = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 50, 60, 80];
const timeTicks = (scale, nameOf) => {
  const count = scale.to - scale.from + 1,
    wide = scale.right - scale.left,
    lines = (t) => nameOf(t).split(/ (?=\S*:\S*$)/),
    widest = Math.max(...[scale.from, scale.to].flatMap(lines).map((line) => lengthOf(line, 11))),
    parts = Math.max(3, Math.floor(wide / (widest + 16)));
  const rough = Math.max(1, count / (parts + 1)),
    power = 10 ** Math.max(0, Math.floor(Math.log10(rough)) - 1),
    every = Math.min(power * EVERY.find((step) => step * power >= rough), Math.max(1, Math.floor((count - 1) / 2)));
  let steps = [];
  for (let t = Math.ceil(scale.from / every) * every; t <= scale.to; t += every) steps.push(t);
  if (data.times !== null && nameOf(scale.to) === "static")
    steps = [...steps.filter((t) => scale.to - t > every / 2), scale.to];
  return { steps, lines, room: Math.min(widest + 2, (every * wide) / count - 4) };
};

// Steps of the series that is shown, or, `common`, of all series.
const timeAxis = (picture, scale, y, named = true, common = false) => {
  const dated = data.times !== null || (data.stamps !== null && !common),
    nameOf = common ? commonTime : timeName,
    { steps, lines, room } = timeTicks(scale, nameOf);
  for (const t of steps) {
    picture.add("line", {
      x1: rounded(scale.centre(t)),
      x2: rounded(scale.centre(t)),
      y1: y,
      y2: y + 4,
      stroke: MUTED,
    });
    const middle = Math.min(Math.max(scale.centre(t), room / 2), picture.width - room / 2),
      text = write(picture, middle, y + 16, "", { "text-anchor": "middle", "font-size": 11, fill: MUTED });
    lines(t).forEach((line, place, all) => {
      const below = place ? { x: rounded(middle), dy: 12 } : {};
      text.append(shape("tspan", below, fitted(line, room, 11) + (place < all.length - 1 ? " " : "")));
    });
  }
  if (named && !dated)
    write(picture, (scale.left + scale.right) / 2, y + 32, "time step", {
      "text-anchor": "middle",
      "font-size": 11,
      fill: MUTED,
    });
};

// A box with a vertical scale: grid, numbers, and y() for values.
const valueBox = (picture, left, right, top, bottom, [low, high], parts) => {
  const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
  const { found, places } = ticks(low, high, parts);
  for (const v of found) {
    picture.add("line", {
      x1: left,
      x2: right,
      y1: rounded(y(v)),
      y2: rounded(y(v)),
      stroke: v === 0 ? MUTED : RULE,
    });
    write(picture, left - 6, y(v) + 3.5, tickText(v, places), {
      "text-anchor": "end",
      "font-size": 10.5,
      fill: MUTED,
    });
  }
  return { y, low, high, top, bottom };
};

// A line through the values of the steps, broken where there is none; single values become dots.
const linePath = (scale, y, pick) => {
  let path = "",
    open = false;
  for (let t = scale.from; t <= scale.to; t += 1) {
    const v = pick(t);
    if (v === null || !Number.isFinite(v)) {
      open = false;
      continue;
    }
    path += `${open ? "L" : "M"}${rounded(scale.centre(t))} ${rounded(y(v))}`;
    if (!open) path += "h.01";
    open = true;
  }
  return path;
};
// Joins values across a gap.
const bridgePath = (scale, y, pick) => {
  let path = "",
    last = null;
  for (let t = scale.from; t <= scale.to; t += 1) {
    if (pick(t) === null) continue;
    if (last !== null && last < t - 1)
      path += `M${rounded(scale.centre(last))} ${rounded(y(pick(last)))}L${rounded(scale.centre(t))} ${rounded(y(pick(t)))}`;
    last = t;
  }
  return path;
};
const boxPath = (scale, pick, top, bottom) => {
  let path = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    if (!pick(t)) continue;
    const start = t;
    while (t < scale.to && pick(t + 1)) t += 1;
    const left = rounded(scale.centre(start) - scale.one / 2);
    const right = rounded(scale.centre(t) + scale.one / 2);
    path += `M${left} ${top}H${right}V${bottom}H${left}z`;
  }
  return path;
};
