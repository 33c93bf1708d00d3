// The view of all series: which channels push at which times, whether high values do, and where two groups differ.

const SHOWN = 20; // channels drawn as rows; the tables have all
const SWARMS = 10; // channels drawn as swarms
const HUES = 9; // steps of colour from low to high values
const DOTS = 3000; // of one picture; of more values every so many-th is drawn

let summaryNow = null; // what is shown: method, groups, and the channels in their order

// The size that 98 % of these do not pass gets the full colour, or a quarter of the largest: see views/series.py.
const robust = (values) => {
  const sizes = [...values].map(Math.abs).sort((a, b) => a - b);
  return Math.max(sizes[Math.ceil(0.98 * (sizes.length - 1))], sizes.at(-1) / 4) || 1;
};
const named = (rows) => rows.map((d) => data.channels[d]);
// What pictures with a row for each channel share.
const inRows = (rows, width, one) => ({
  ...{ rows, width, height: one * rows.length, y: [0, rows.length], flip: true },
  yAxis: rowAxis(named(rows), nameRoom(width), one),
});
const rowOf = (rows) => (share) => Math.floor(share * rows.length);

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
    width = widthOf("chart-blocks"),
    one = onPaper() ? 15 : 25,
    count = data.edges.length - 1,
    wide = (width - nameRoom(width) - 10) / count,
    full = robust(cells.flat().map((found) => found.mean)),
    colours = { stops: map.signed ? SIGNED : UNSIGNED, low: map.signed ? -full : 0, full, beyond: true },
    places = Math.max(decimals(full) - 1, 0),
    begins = data.edges.slice(0, -1).map((t) => commonTime(t)),
    every = Math.max(1, Math.ceil((Math.max(...begins.map((text) => lengthOf(text))) + 8) / wide)),
    starts = begins.map((text, b) => (b % every ? "" : text));
  colours.said = map.signed ? `${WORDS.down} ← → ${WORDS.up}` : WORDS.size;
  const drawCell = (pen, found, row) => {
    const fill = blend(colours.stops, (found.mean - colours.low) / (full - colours.low)),
      plain = places > 6 ? number(Number(found.mean.toPrecision(2))) : fixed(found.mean, places);
    pen.fillStyle = `rgb(${fill})`;
    pen.fillRect(found.b * wide, row * one, wide - 1, one - 1);
    if (clear(found) && /[1-9]/.test(plain) && lengthOf(plain) < wide - 4)
      write(pen, (found.b + 0.5) * wide, (row + 0.5) * one + 4, plain, { fill: onColour(fill), align: "center" });
  };
  picture("chart-blocks", "Mean attribution of each channel in each block of time, the strongest on top", [
    {
      ...inRows(shown, width, one),
      ...{ x: [0, count], below: BAR },
      xAxis: axis({
        ...{ size: 22, grid: { show: false }, label: data.times ? "from" : "from step" },
        ...{ splits: () => starts.map((_, b) => b + 0.5), values: () => starts },
      }),
      cells,
      under: (pen, _, room, high) => {
        cells.forEach((line, row) => line.forEach((found) => drawCell(pen, found, row)));
        colourBar(pen, high + 44, room, colours);
      },
      step: (x, share) => [rowOf(shown)(share), Math.min(Math.max(Math.floor(x), 0), count - 1)],
      hair: ([, b]) => b + 0.5,
      tip: ([row, b]) => blockTip(cells[row][b]),
      pick: ([row]) => chooseDepend(shown[row]),
    },
  ]);
};

// Differences of two groups as dots with intervals, the largest on top; what may be chance is grey.
const groupsPicture = (found, names) => {
  const shown = found.slice(0, SHOWN),
    width = widthOf("chart-groups"),
    ends = shown.flatMap(({ gap, low, high }) => [gap, low, high]);
  picture("chart-groups", `Difference of ${names.join(" and ")}, channel by channel`, [
    {
      ...inRows(shown.map(({ d }) => d), width, onPaper() ? 14 : 22),
      ...{ x: spread([0, ...ends]), head: true, xAxis: acrossAxis() },
      over: (pen, plot, wide, high) => {
        const [less, more] = [`← more in ${names[1]}`, `more in ${names[0]} →`].map((text) => fitted(text, wide / 2 - 10));
        write(pen, 0, -7, less);
        write(pen, wide, -7, more, { align: "right" });
        stroke(pen, [[plot.valToPos(0, "x"), 0, plot.valToPos(0, "x"), high]], MUTED);
        shown.forEach((each, row) => {
          const hue = !each.certain ? MUTED : each.gap > 0 ? UP : DOWN;
          dotWithInterval(pen, plot, row, { mean: each.gap, low: each.low, high: each.high, hue, filled: each.certain });
        });
      },
      step: (_, share) => rowOf(shown)(share),
      hair: (row) => shown[row].gap,
      tip: (row) => [
        data.channels[shown[row].d],
        `${names[0]}: ${number(shown[row].one)}; ${names[1]}: ${number(shown[row].other)}`,
        `difference ${number(shown[row].gap)}, 95 %: ${number(shown[row].low)} to ${number(shown[row].high)}`,
      ],
      pick: (row) => chooseDepend(shown[row].d),
    },
  ]);
};

// The mean observed value of a channel in a series; null where nothing was observed.
const meanValue = (i, d) => {
  const seen = Array.from({ length: data.time }, (_, t) => t).filter((t) => observed(i, t, d));
  return seen.length ? seen.reduce((sum, t) => sum + value(i, t, d), 0) / seen.length : null;
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
const swarmPicture = (map, rows, order) => {
  const shown = order.slice(0, SWARMS),
    width = widthOf("chart-swarm"),
    one = onPaper() ? 22 : 40,
    size = rows.length > 150 ? 3 : 4.5,
    said = map.signed ? `${WORDS.down} ← ${WORDS.score} → ${WORDS.up}` : WORDS.size,
    xAxis = acrossAxis({ label: fitted(said, width - nameRoom(width) - 10) });
  const dots = shown.map((d) =>
    rows
      .map((i) => ({ i, push: channelSum(map, i, d), mean: meanValue(i, d) }))
      .filter(({ mean }) => mean !== null)
      .sort((a, b) => a.mean - b.mean),
  );
  picture("chart-swarm", "How far each channel pushed each series, coloured by its values", [
    {
      ...inRows(shown, width, one),
      ...{ x: spread([0, ...dots.flat().map(({ push }) => push)]), xAxis, below: BAR },
      under: (pen, plot, wide, high) => {
        stroke(pen, [[plot.valToPos(0, "x"), 0, plot.valToPos(0, "x"), high]], MUTED);
        dots.forEach((line, row) => {
          const xs = line.map(({ push }) => plot.valToPos(push, "x")),
            ys = beeswarm(xs, one - 6, size);
          xs.forEach((x, k) => {
            const hue = blend(VALUES, Math.floor((HUES * k) / line.length) / (HUES - 1));
            disc(pen, x, (row + 0.5) * one + ys[k], size / 2 + 0.5, MUTED); // a rim, so that pale dots are seen
            disc(pen, x, (row + 0.5) * one + ys[k], size / 2, `rgb(${hue})`);
          });
        });
        colourBar(pen, high + 44, wide, { stops: VALUES, said: "values of the channel", ends: ["low", "high"], most: 220 });
      },
      step: (x, share) => {
        const row = rowOf(shown)(share);
        return [row, nearest(dots[row].map(({ push }) => push))(x)];
      },
      hair: ([row, k]) => dots[row][k]?.push ?? 0,
      tip: ([row, k]) => {
        const dot = dots[row][k],
          d = shown[row];
        if (!dot) return null;
        return [
          `${short(data.channels[d], 40)}, series ${seriesName(dot.i)}`,
          `pushed ${number(dot.push)}`,
          `mean value ${number(dot.mean)}${unitOf(d)}`,
        ];
      },
      pick: ([row]) => chooseDepend(shown[row]),
    },
  ]);
};

// Values of a channel against their scores: dots of the chosen series, and the groups of values that Python compared.
const limits = (values) => {
  const ordered = [...values].sort((a, b) => a - b),
    at = (share) => ordered[Math.round(share * (ordered.length - 1))];
  return spread([at(0.005), at(0.995)]);
};
const dependPicture = (map, rows, d) => {
  const width = widthOf("chart-depend"),
    height = onPaper() ? 112 : 196,
    { words, groups } = map.effects[d],
    cells = [];
  at("depend-words").textContent = words;
  for (const i of rows)
    for (let t = 0; t < data.time; t += 1)
      if (observed(i, t, d)) {
        const s = score(map, i, t, d);
        cells.push({ v: value(i, t, d), s: map.signed ? s : Math.max(s, 0) });
      }
  const every = Math.ceil(cells.length / DOTS) || 1,
    centres = groups.map(([centre]) => centre),
    seen = cells.length ? limits(cells.map(({ v }) => v)) : [0, 1],
    x = centres.length ? [Math.min(seen[0], centres[0]), Math.max(seen[1], centres.at(-1))] : seen, // outer groups too
    y = limits([0, ...cells.map(({ s }) => s)]),
    all = spread([...y, ...groups.map(([, mean]) => mean)].filter((v) => v !== null));
  picture("chart-depend", `Values of ${data.channels[d]} and what they did: ${words}`, [
    {
      ...{ width, height, x, y: all, xAxis: acrossAxis({ label: channelName(d) }), yAxis: valueAxis(height, { label: WORDS.score }) },
      data: groups.length ? [centres, groups.map(([, mean]) => mean)] : [x, [null, null]],
      lines: [{ stroke: INK, width: 2, points: { show: true, size: 7, fill: INK, stroke: INK } }],
      under: (pen, plot, wide, high) => {
        if (!cells.length) hatch(pen, 0, 0, wide, high);
        const inside = (v, [low, high]) => Math.min(Math.max(v, low), high);
        pen.globalAlpha = cells.length > 400 ? 0.45 : 0.7;
        cells.forEach(({ v, s }, k) => {
          const hue = map.signed ? (s > 0 ? UP : DOWN) : SIZE;
          if (k % every === 0) disc(pen, plot.valToPos(inside(v, x), "x"), plot.valToPos(inside(s, all), "y"), 2, hue);
        });
        pen.globalAlpha = 1;
        for (const [centre, , ...ends] of groups.filter(([, , low]) => low !== null)) {
          const across = plot.valToPos(centre, "x"),
            [low, high] = ends.map((end) => plot.valToPos(end, "y"));
          stroke(pen, [[across, low, across, high]], INK);
        }
      },
      step: nearest(centres),
      hair: (k) => centres[k] ?? x[0],
      tip: (k) => {
        if (!groups.length) return ["no value observed"];
        const [centre, mean, low, high, , series] = groups[k];
        return [
          `about ${number(centre)}${unitOf(d)}`,
          `mean ${WORDS.score} ${number(mean)}, 95 %: ${number(low)} to ${number(high)}`,
          counted(series, "series", "series"),
        ];
      },
    },
  ]);
};
const chooseDepend = (d) => {
  at("depend-channel").value = d;
  dependPicture(summaryNow.map, summaryNow.a, d);
  at("depending").scrollIntoView({ block: "nearest" });
};
