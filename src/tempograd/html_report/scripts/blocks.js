// Which channels at which times, over a group of series, and where two groups differ.

// The size that 98 % of these do not pass gets the full colour, or a quarter of the largest: see views/series.py.
const robust = (values) => {
  const sizes = [...values].map(Math.abs).sort((a, b) => a - b);
  return Math.max(sizes[Math.ceil(0.98 * (sizes.length - 1))], sizes.at(-1) / 4) || 1;
};
const clear = ({ low, high }) => low > 0 || high < 0;

const blockCells = (map, rows, order) =>
  order.map((d) =>
    data.edges.slice(1).map((_, b) => ({ d, b, ...withInterval(rows.map((i) => blockSum(map, i, d, b))) })),
  );
const blockTip = (found) => {
  const [middle, low, high] = [found.mean, found.low, found.high].map(number);
  return [
    `${short(data.channels[found.d], 60)}, ${data.blockTimes[found.b]}`,
    `${middle}, 95 %: ${low} to ${high}`,
    ...(clear(found) ? [] : ["may be chance: the interval includes 0"]),
  ];
};

// Ink or paper, whichever is easier to read on a colour.
const onColour = (fill) => {
  const light = ([r, g, b]) => 0.3 * r + 0.6 * g + 0.1 * b,
    gap = (hex) => Math.abs(light(rgb(hex)) - light(fill));
  return gap(INK) > gap(PAPER) ? INK : PAPER;
};

const blocksPicture = (map, rows, order) => {
  const shown = order.slice(0, SHOWN),
    cells = blockCells(map, rows, shown),
    one = onPaper() ? 15 : 25,
    top = 4,
    tall = one * shown.length,
    count = data.edges.length - 1;
  const picture = frame("chart-blocks", "Mean attribution of each channel in each block of time, the strongest on top", tall + 84),
    left = nameRoom(picture.width),
    right = picture.width - 6,
    wide = (right - left) / count;
  const full = robust(cells.flat().map((found) => found.mean)),
    places = Math.max(decimals(full) - 1, 0),
    [stops, low] = map.signed ? [SIGNED, -full] : [UNSIGNED, 0];
  cells.flat().forEach((found, place) => {
    const x = left + (place % count) * wide,
      y = top + Math.floor(place / count) * one,
      fill = blend(stops, (found.mean - low) / (full - low)),
      sure = clear(found);
    picture.add("rect", { class: "block", x: rounded(x), y, width: rounded(wide), height: one, fill: `rgb(${fill})`, stroke: PAPER });
    const plain = places > 6 ? number(Number(found.mean.toPrecision(2))) : fixed(found.mean, places),
      text = sure ? plain.replace(/^0\.0+$/, "≈ 0") : "·";
    if (!sure || lengthOf(text, 10.5) < wide - 4)
      write(picture, x + wide / 2, y + one / 2 + 4, text, { "text-anchor": "middle", "font-size": 10.5, fill: onColour(fill) });
  });
  rowNames(picture, shown, left, top, one);
  blockAxis(picture, left, wide, top + tall);
  const key = map.signed ? `${WORDS.down} ← → ${WORDS.up}` : WORDS.size;
  colourBar(picture, left, top + tall + 46, Math.min(300, right - left), stops, low, full, key, true);
  cells.forEach((line, place) =>
    picture.panels.push({
      left,
      right,
      top: top + place * one,
      bottom: top + (place + 1) * one,
      step: (x) => Math.min(Math.max(Math.floor((x - left) / wide), 0), count - 1),
      place: (b) => left + (b + 0.5) * wide,
      tip: (b) => blockTip(line[b]),
      pick: () => chooseDepend(line[0].d),
    }),
  );
  finish(picture);
};

// Where blocks begin, as far as there is room.
const blockAxis = (picture, left, wide, y) => {
  const begins = data.edges.slice(0, -1).map((t) => commonTime(t)),
    room = Math.max(...begins.map((text) => lengthOf(text, 11))) + 8,
    every = Math.max(1, Math.ceil(room / wide));
  begins.forEach((text, b) => {
    if (b % every === 0) write(picture, left + b * wide, y + 15, text, { "font-size": 11, fill: MUTED });
  });
  write(picture, left, y + 31, data.times ? "from" : "from step", { "font-size": 11, fill: MUTED });
};

const blocksTable = () => {
  const { map, a } = summaryNow,
    order = [...Array(data.depth).keys()];
  return [
    ["channel", "from", "to", "time", "mean", "low", "high", "series"],
    ...blockCells(map, a, order)
      .flat()
      .map(({ d, b, mean, low, high }) => {
        const where = [data.channels[d], data.edges[b], data.edges[b + 1], data.blockTimes[b]];
        return [...where, mean, low, high, a.length];
      }),
  ];
};
const showBlocksTable = (map, rows, order) => {
  const head = row(["channel", ...data.blockTimes].map((text) => element("th", text, { scope: "col" })));
  const lines = blockCells(map, rows, order).map((line, place) =>
    row([
      element("th", data.channels[order[place]], { scope: "row" }),
      ...line.map((found) => {
        const numbers = [found.mean, found.low, found.high],
          [middle, low, high] = alike(numbers, Math.max(...numbers.map(Math.abs))),
          place = { "data-channel": found.d, "data-block": found.b },
          exact = { "data-mean": found.mean, "data-low": found.low, "data-high": found.high },
          cell = element("td", middle, { ...place, ...exact });
        cell.append(element("small", `${low} to ${high}`));
        return cell;
      }),
    ]),
  );
  at("blocks-table").tHead.replaceChildren(head);
  at("blocks-table").tBodies[0].replaceChildren(...lines);
};

// Differences of two groups as dots with intervals, the largest on top; what may be chance is grey.
const groupsPicture = (found, names) => {
  const shown = found.slice(0, SHOWN),
    one = onPaper() ? 14 : 22,
    top = 22,
    bottom = top + one * shown.length;
  const picture = frame("chart-groups", `Difference of ${names.join(" and ")}, channel by channel`, bottom + 40),
    left = nameRoom(picture.width),
    right = picture.width - 12,
    ends = shown.flatMap(({ gap, low, high }) => [gap, low, high]).filter(Number.isFinite),
    [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)],
    span = high - low || 1,
    x = (v) => left + 8 + ((Math.min(Math.max(v, low), high) - low) / span) * (right - left - 14); // room for dots
  acrossAxis(picture, x, low, low + span, top, bottom);
  const heads = [`← more in ${names[1]}`, `more in ${names[0]} →`].map((text) => fitted(text, (right - left) / 2 - 10, 11));
  write(picture, left, 12, heads[0], { "font-size": 11, fill: MUTED });
  write(picture, right, 12, heads[1], { "font-size": 11, fill: MUTED, "text-anchor": "end" });
  shown.forEach((each, place) => {
    const y = top + (place + 0.5) * one,
      hue = !each.certain ? MUTED : each.gap > 0 ? UP : DOWN;
    dotWithInterval(picture, x, y, each.gap, each.low, each.high, hue, each.certain);
    picture.panels.push({
      left,
      right,
      top: y - one / 2,
      bottom: y + one / 2,
      step: () => place,
      place: () => x(each.gap),
      tip: () => [
        data.channels[each.d],
        `${names[0]}: ${number(each.one)}; ${names[1]}: ${number(each.other)}`,
        `difference ${number(each.gap)}, 95 %: ${number(each.low)} to ${number(each.high)}`,
      ],
      pick: () => chooseDepend(each.d),
    });
  });
  rowNames(picture, shown.map(({ d }) => d), left, top, one);
  finish(picture);
};
const acrossAxis = (picture, x, low, high, top, bottom) => {
  const { found, places } = ticks(low, high, Math.max(4, Math.floor((x(high) - x(low)) / 80)));
  for (const v of found) {
    picture.add("line", { x1: rounded(x(v)), x2: rounded(x(v)), y1: top, y2: bottom, stroke: v === 0 ? MUTED : RULE });
    write(picture, x(v), bottom + 15, tickText(v, places), { "text-anchor": "middle", "font-size": 11, fill: MUTED });
  }
};
const dotWithInterval = (picture, x, y, middle, low, high, hue, filled) => {
  if (Number.isFinite(low) && Number.isFinite(high))
    picture.add("line", { class: "interval", x1: rounded(x(low)), x2: rounded(x(high)), y1: y, y2: y, stroke: hue, "stroke-width": 2 });
  picture.add("circle", { cx: rounded(x(middle)), cy: y, r: 4.5, fill: filled ? hue : PAPER, stroke: hue, "stroke-width": 2 });
};

const showGroupsTable = (found, names) => {
  const head = ["channel", ...names, "difference", "95 % interval"].map((text) => element("th", text, { scope: "col" }));
  const lines = found.map((each) => {
    const largest = Math.max(...[each.gap, each.one, each.other].map(Math.abs)),
      [one, other, gap, low, high] = alike([each.one, each.other, each.gap, each.low, each.high], largest),
      cells = [one, other, gap, `${low} to ${high}`].map((text) => element("td", text)),
      means = { "data-channel": each.d, "data-first": each.one, "data-second": each.other },
      limits = { "data-gap": each.gap, "data-low": each.low, "data-high": each.high };
    return row([element("th", data.channels[each.d], { scope: "row" }), ...cells], { ...means, ...limits });
  });
  at("groups-table").tHead.replaceChildren(row(head));
  at("groups-table").tBodies[0].replaceChildren(...lines);
};
