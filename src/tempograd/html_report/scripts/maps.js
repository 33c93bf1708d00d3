// Maps of colours: all channels of a series at a glance, and what each method says.

const COLUMNS = 2048; // of a map; where there are more steps, a column shows the strongest of its own

const blend = (stops, share) => {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1),
    low = Math.min(Math.floor(place), stops.length - 2),
    part = place - low;
  return [0, 1, 2].map((c) => Math.round(stops[low][c] + part * (stops[low + 1][c] - stops[low][c])));
};
// Rows of cells as one image, transparent where nothing was observed.
const heatImage = ([from, to], rows, pick, { stops, low, full }) => {
  const count = to - from + 1,
    columns = Math.min(count, COLUMNS),
    canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows.length];
  const pen = canvas.getContext("2d"),
    image = pen.createImageData(columns, rows.length);
  rows.forEach((d, r) => {
    for (let c = 0; c < columns; c += 1) {
      const start = from + Math.floor((c * count) / columns),
        stop = from + Math.floor(((c + 1) * count) / columns);
      let best = null;
      for (let t = start; t < stop; t += 1) {
        const v = pick(t, d);
        if (v !== null && (best === null || Math.abs(v) > Math.abs(best))) best = v;
      }
      if (best !== null) image.data.set([...blend(stops, (best - low) / (full - low)), 255], 4 * (r * columns + c));
    }
  });
  pen.putImageData(image, 0, 0);
  return canvas;
};

// `beyond` tells whether there are sizes beyond the full colour.
const BAR = 34; // pixels below a plot for its colour bar
const colourBar = (pen, y, room, { stops, low, full, said, beyond = false, ends = null, most = 300 }) => {
  const texts = ends ?? [(beyond && low < 0 ? "≤ " : "") + number(low), (beyond ? "≥ " : "") + number(full)],
    need = lengthOf(said) + 2 * Math.max(...texts.map((text) => lengthOf(text))) + 16,
    wide = Math.max(Math.min(most, room), Math.min(need, room)), // words do not touch the numbers
    fill = pen.createLinearGradient(0, 0, wide, 0);
  stops.forEach((stop, k) => fill.addColorStop(k / (stops.length - 1), `rgb(${stop})`));
  pen.fillStyle = fill;
  pen.fillRect(0, y, wide, 9);
  Object.assign(pen, { strokeStyle: FRAME, lineWidth: 1 }).strokeRect(0, y, wide, 9);
  write(pen, 0, y + 21, texts[0]);
  write(pen, wide, y + 21, texts[1], { align: "right" });
  if (need <= wide + 8) write(pen, wide / 2, y + 21, said, { align: "center" });
};
const heatPlot = ({ rows, one, width, title, names, pick, text, colours, bar = true }) => {
  const room = nameRoom(width),
    height = Math.max(one * rows.length, 24),
    xAxis = timeAxis(view.zoom, width - room - 10),
    rowAt = (share) => rows[Math.floor(share * rows.length)];
  return {
    ...overTime((t, share) => [`${short(data.channels[rowAt(share)], 60)}, ${timeText(t)}`, text(t, rowAt(share))]),
    ...{ rows, width, height, title, xAxis, y: [0, rows.length], flip: true, below: bar ? BAR : 2 },
    yAxis: rowAxis(rows.map((d) => data.channels[d]), room, height / rows.length),
    image: heatImage(view.zoom, rows, pick, colours),
    under(pen, plot, wide, high) {
      hatch(pen, 0, 0, wide, high);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.image, 0, 0, wide, high);
      Object.assign(pen, { strokeStyle: FRAME, lineWidth: 1 }).strokeRect(0, 0, wide, high);
      if (bar) colourBar(pen, high + xAxis.size + 6, wide, colours);
    },
  };
};
const coloursOf = (map) => {
  const full = map.limit[view.series] || 1,
    beyond = largestScore(map, view.series) > 1.001 * full,
    said = map.signed ? "down ← score → up" : "size of the score";
  return { stops: map.signed ? SIGNED : UNSIGNED, low: map.signed ? -full : 0, full, said, beyond };
};
const scoreMap = (map, more) => ({
  pick: (t, d) => seenScore(map, d)(t),
  text: (t, d) => `${readable(map.label)}: ${scoreText(map, t, d)}`,
  colours: coloursOf(map),
  ...more,
});
const standardised = (t, d) =>
  observed(view.series, t, d) ? (value(view.series, t, d) - data.middle[d]) / data.spread[d] : null;

// What the model saw, and what moved it.
const mapPicture = () => {
  const rows = channelOrder(),
    wide = widthOf("chart-map"),
    width = wide >= 680 ? Math.floor(wide / 2) - 1 : wide,
    one = Math.max(10, Math.min(onPaper() ? 10 : 22, 900 / rows.length)),
    colours = { stops: VALUES, low: -2.5, full: 2.5, said: "spreads from its mean", beyond: true },
    said = `Maps of the values and the ${readable(view.map.label)} scores of all channels`;
  picture("chart-map", said, [
    heatPlot({ rows, one, width, title: "Values", pick: standardised, text: valueText, colours }),
    heatPlot(scoreMap(view.map, { rows, one, width, title: `Scores by ${readable(view.map.label)}` })),
  ]);
};
// What the other methods say about the same series, each in its own scale.
const methodsPicture = () => {
  const others = data.maps.filter((map) => map !== view.map),
    rows = channelOrder().slice(0, 12),
    one = onPaper() ? 9 : 20,
    width = widthOf("chart-methods");
  if (!others.length) return;
  picture(
    "chart-methods",
    `The scores of ${counted(others.length, "other method", "other methods")} on series ${seriesName(view.series)}`,
    others.map((map) => heatPlot(scoreMap(map, { rows, one, width, title: methodName(map), bar: false }))),
  );
};
