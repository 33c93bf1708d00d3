// Maps of colours: rows of cells as one image, its colour bar and the names of its rows.

const COLUMNS = 2048; // of a map; where there are more steps, a column shows the strongest of its own

const blend = (stops, share) => {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1),
    low = Math.min(Math.floor(place), stops.length - 2),
    part = place - low;
  return [0, 1, 2].map((c) => Math.round(stops[low][c] + part * (stops[low + 1][c] - stops[low][c])));
};

// A map as one image: rows of cells, null where nothing was observed.
const heatMap = (picture, scale, top, height, rows, pick, stops, low, high) => {
  const count = scale.to - scale.from + 1,
    columns = Math.min(count, COLUMNS),
    canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows.length;
  const pen = canvas.getContext("2d"),
    image = pen.createImageData(columns, rows.length); // transparent where nothing was observed
  rows.forEach((d, r) => {
    for (let c = 0; c < columns; c += 1) {
      const start = scale.from + Math.floor((c * count) / columns),
        stop = scale.from + Math.floor(((c + 1) * count) / columns);
      let best = null;
      for (let t = start; t < stop; t += 1) {
        const v = pick(t, d);
        if (v !== null && (best === null || Math.abs(v) > Math.abs(best))) best = v;
      }
      if (best !== null)
        image.data.set([...blend(stops, (best - low) / (high - low)), 255], 4 * (r * columns + c));
    }
  });
  pen.putImageData(image, 0, 0);
  const place = { x: scale.left, y: top, width: scale.right - scale.left, height };
  picture.add("rect", { ...place, fill: picture.hatch });
  picture.add("image", {
    ...place,
    href: canvas.toDataURL(),
    preserveAspectRatio: "none",
    style: "image-rendering:pixelated",
  });
  picture.add("rect", { ...place, fill: "none", stroke: FRAME });
};

// `beyond` tells whether there are sizes beyond the full colour.
const colourBar = (picture, start, y, width, stops, low, high, said, beyond = false, ends = null) => {
  const cells = 48,
    [first, last] = ends ?? [(beyond && low < 0 ? "≤ " : "") + number(low), (beyond ? "≥ " : "") + number(high)],
    need = lengthOf(said, 10.5) + 2 * Math.max(...[first, last].map((text) => lengthOf(text, 10.5))) + 16,
    wide = Math.min(Math.max(width, need), picture.width - 8), // words do not touch the numbers
    x = rounded(Math.min(start, picture.width - wide - 4));
  for (let c = 0; c < cells; c += 1)
    picture.add("rect", {
      x: rounded(x + (c * wide) / cells),
      y,
      width: rounded(wide / cells + 0.4),
      height: 9,
      fill: `rgb(${blend(stops, c / (cells - 1))})`,
    });
  picture.add("rect", { x, y, width: wide, height: 9, fill: "none", stroke: FRAME });
  write(picture, x, y + 21, first, { "font-size": 10.5, fill: MUTED });
  write(picture, x + wide, y + 21, last, {
    "font-size": 10.5,
    fill: MUTED,
    "text-anchor": "end",
  });
  write(picture, x + wide / 2, y + 21, said, { "font-size": 10.5, fill: MUTED, "text-anchor": "middle" });
};

// A name for which there is no room keeps its end, which may be all that tells it from others: "acceler… x".
const TAIL = 4;
const fittedName = (name, room, size) => {
  if (lengthOf(name, size) <= room || name.length <= 2 * TAIL) return fitted(name, room, size);
  const tail = name.slice(-TAIL).trimStart();
  return fitted(name, room - lengthOf(tail, size), size) + tail;
};
const rowNames = (picture, rows, left, top, one) => {
  const size = Math.min(11.5, one * 0.85);
  rows.forEach((d, r) => {
    const text = write(
      picture,
      left - 6,
      top + (r + 0.5) * one + size * 0.36,
      fittedName(data.channels[d], left - 8, size),
      { "text-anchor": "end", "font-size": rounded(size) },
    );
    text.append(shape("title", {}, data.channels[d]));
  });
};
const nameRoom = (width) =>
  Math.min(150, Math.max(70, width * 0.28), 16 + 6.6 * Math.max(...data.channels.map((name) => name.length)));
