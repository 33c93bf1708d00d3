// Pictures: plots of the chart library uPlot, which draws lines, axes and the zoom; maps, bars and hatching are painted
// over them. A picture is one or more plots, side by side or one above the other.

// Colours are variables of the page's style, the same as in the library's pictures; a dark screen has others.
const look = getComputedStyle(document.documentElement),
  colour = (name) => look.getPropertyValue(`--${name}`).trim(),
  rgb = (hex) => [1, 3, 5].map((place) => Number.parseInt(hex.slice(place, place + 2), 16));
const DASHES = [[], [7, 4], [2, 3], [8, 3, 2, 3], [12, 4], [12, 3, 2, 3, 2, 3], [3, 5], [10, 3, 4, 3]];
const INKS = ["paper", "panel", "ink", "muted", "frame", "faint", "missing", "truth", "removed", "up", "down", "size"];
let PAPER, PANEL, INK, MUTED, FRAME, RULE, GONE, TRUTH, TAKEN, UP, DOWN, SIZE;
let PALE, SIGNED, UNSIGNED, VALUES, LINES;
const readColours = () => {
  [PAPER, PANEL, INK, MUTED, FRAME, RULE, GONE, TRUTH, TAKEN, UP, DOWN, SIZE] = INKS.map(colour);
  PALE = { [UP]: colour("up-pale"), [DOWN]: colour("down-pale"), [SIZE]: colour("size-pale") };
  SIGNED = [DOWN, colour("down-half"), PAPER, colour("up-half"), UP].map(rgb);
  UNSIGNED = [PAPER, colour("size-half"), SIZE].map(rgb);
  VALUES = ["low", "middle", "high"].map((name) => rgb(colour(name)));
  LINES = DASHES.map((_, place) => colour(`method-${place}`));
};
readColours();

const ruler = document.createElement("canvas").getContext("2d"),
  FAMILY = getComputedStyle(document.body).fontFamily,
  font = (size = 11, weight = 400) => `${weight} ${size}px ${FAMILY}`;
const lengthOf = (text, size = 11, weight = 400) => {
  ruler.font = font(size, weight);
  return ruler.measureText(text).width;
};
const short = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
// As much of a text as there is room for.
const fitted = (text, room, size = 11, weight = 400) => {
  if (lengthOf(text, size, weight) <= room) return text;
  let count = Math.min(text.length - 1, Math.ceil((4 * room) / size));
  while (count > 1 && lengthOf(`${text.slice(0, count)}…`, size, weight) > room) count -= 1;
  return `${text.slice(0, count)}…`;
};
// A name for which there is no room keeps its end, which may be all that tells it from others: "acceler… x".
const TAIL = 4;
const fittedName = (name, room, size = 11) => {
  if (lengthOf(name, size) <= room || name.length <= 2 * TAIL) return fitted(name, room, size);
  const tail = name.slice(-TAIL).trimStart();
  return fitted(name, room - lengthOf(tail, size), size) + tail;
};
const nameRoom = (width) =>
  Math.min(150, Math.max(70, width * 0.28), 16 + 6.6 * Math.max(...data.channels.map((name) => name.length)));

const onPaper = () => document.body.classList.contains("paper"); // where pictures are drawn smaller
const widthOf = (id) => {
  const wide = at(id).clientWidth;
  return wide > 0 ? wide : Math.max(280, document.querySelector("main").clientWidth); // in a view that is not open yet
};

// Limits around values, with a bit of room.
const spread = (values) => {
  const known = values.filter((v) => v !== null && Number.isFinite(v)),
    [low, high] = known.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  if (low > high) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low - room, high + room];
};

// Paints on a plot in pixels of the page, from the corner of what its axes enclose.
const paint = (plot, draw) => {
  const { ctx: pen, bbox } = plot;
  pen.save();
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.translate(bbox.left / devicePixelRatio, bbox.top / devicePixelRatio);
  draw(pen, bbox.width / devicePixelRatio, bbox.height / devicePixelRatio);
  pen.restore();
};
const write = (pen, x, y, text, { size = 11, weight = 400, fill = MUTED, align = "left" } = {}) => {
  Object.assign(pen, { font: font(size, weight), fillStyle: fill, textAlign: align, textBaseline: "alphabetic" });
  pen.fillText(text, x, y);
};
const stroke = (pen, points, hue, width = 1, dash = []) => {
  Object.assign(pen, { strokeStyle: hue, lineWidth: width });
  pen.setLineDash(dash);
  pen.beginPath();
  for (const [x1, y1, x2, y2] of points) {
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
  }
  pen.stroke();
};
const disc = (pen, x, y, radius, fill, rim = null) => {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fillStyle = fill;
  pen.fill();
  if (!rim) return;
  pen.setLineDash([]);
  Object.assign(pen, { strokeStyle: rim, lineWidth: 2 }).stroke();
};
// What was not observed is hatched, as in the library's pictures.
const hatch = (pen, x, y, width, height) => {
  const tile = document.createElement("canvas"),
    lines = tile.getContext("2d");
  [tile.width, tile.height] = [14, 14];
  lines.fillStyle = PANEL;
  lines.fillRect(0, 0, 14, 14);
  stroke(lines, [[-2, 16, 16, -2], [-9, 9, 9, -9], [5, 23, 23, 5]], GONE, 2);
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(0.5));
  pen.fillStyle = pattern;
  pen.fillRect(x, y, width, height);
};

// Axes

const tickText = (v, places) => (Math.abs(v) >= 1e5 || places > 5 ? number(v) : fixed(v, places));
const tickTexts = (_, splits, __, ___, step) =>
  splits.map((v) => tickText(v, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
const POWERS = Array.from({ length: 33 }, (_, k) => k - 16),
  ROUND = POWERS.flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
const axis = (more) => ({
  ...{ stroke: MUTED, font: font(), labelFont: font(), labelSize: 16, labelGap: 0, gap: 4, incrs: ROUND, values: tickTexts },
  ...{ grid: { stroke: RULE, width: 1 }, ticks: { show: false } },
  ...more,
});
const MARGIN = 62; // left of a plot, for numbers
const valueAxis = (height, more = {}) =>
  axis({ size: MARGIN - (more.label ? 16 : 0), space: Math.max(12, Math.min(24, height / 4.4)), ...more });
const acrossAxis = (more = {}) => axis({ size: 22, space: 80, ...more });
const rowAxis = (names, room, one = 20) => {
  const size = Math.floor(Math.min(11, one * 0.85)),
    texts = names.map((name) => fittedName(name, room - 10, size));
  const places = names.map((_, r) => r + 0.5);
  return axis({ size: room, font: font(size), gap: 8, stroke: INK, splits: () => places, values: () => texts, grid: { show: false } });
};

// Which steps get a mark: at least three, where there are as many. A date stands above its time of day.
const EVERY = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 50, 60, 80];
const timeAxis = ([from, to], width, common = false, label = null) => {
  const nameOf = common ? commonTime : timeName,
    lines = (t) => nameOf(t).replace(/ (?=\S*:\S*$)/, "\n"),
    widest = Math.max(...[from, to].flatMap((t) => lines(t).split("\n")).map((line) => lengthOf(line))),
    dated = data.times !== null || (data.stamps !== null && !common),
    fixedEnd = data.times !== null && nameOf(to) === "static";
  return axis({
    size: lines(from).includes("\n") ? 36 : 22,
    space: Math.min(widest + 16, width / 4),
    incrs: [1, 10, 100, 1000, 10_000].flatMap((power) => EVERY.map((every) => every * power)).sort((a, b) => a - b),
    splits: (_, __, ___, ____, every) => {
      const first = Math.ceil(from / every) * every,
        found = Array.from({ length: Math.max(0, Math.floor((to - first) / every) + 1) }, (_, k) => first + k * every);
      return fixedEnd ? [...found.filter((t) => to - t > every / 2), to] : found;
    },
    values: (plot, splits, _, __, every) => {
      const room = (every * width) / (to - from + 1) - 4,
        inside = (t) => plot.valToPos(t, "x") + Math.min(widest, room) / 2 < width + 10;
      return splits.map((t) => (inside(t) ? lines(t).split("\n").map((line) => fitted(line, room)).join("\n") : ""));
    },
    grid: { show: false },
    ticks: { stroke: MUTED, width: 1, size: 4 },
    ...(label && !dated ? { label, size: 22 } : {}),
  });
};

// One plot. Where a place in it means something, `step` turns a value of x, and how far down it is, into what `tip`, `pick`
// and `zoom` are told; `hair` says where that is.
const scaled = ([min, max], dir = 1) => ({ time: false, auto: false, dir, range: () => [min, max] });
const hovering = (event) => ["mousemove", "mouseleave"].includes(event); // what all plots of a picture follow
const uPlotOf = (box, key, spec) => {
  const { x, y, xAxis, yAxis, title, below = 0, right = 10, left = MARGIN, step, zoom } = spec,
    shift = yAxis ? 0 : left,
    top = title || spec.head ? 20 : 5,
    base = (xAxis?.size ?? 0) + (xAxis?.label ? 16 : 0) + below;
  const share = (plot, down) => Math.min(Math.max(down / plot.over.clientHeight, 0), 0.9999);
  const move = (plot, across, down) => {
    const found = across < 0 || !step ? null : step(plot.posToVal(across, "x"), share(plot, down));
    return [found === null ? across : plot.valToPos(spec.hair(found, share(plot, down)), "x"), down];
  };
  const plot = new uPlot(
    {
      width: spec.width,
      height: spec.height + top + base,
      padding: [top, right, below, shift],
      legend: { show: false },
      scales: { x: scaled(x), y: scaled(y, spec.flip ? -1 : 1) },
      axes: [xAxis ?? { show: false }, yAxis ?? { show: false }].map((each, k) => ({ ...each, scale: k ? "y" : "x" })),
      series: [{}, ...(spec.lines ?? [])],
      bands: spec.bands ?? [],
      cursor: {
        ...{ x: step !== undefined, y: false, points: { show: false }, move, sync: { key, filters: { pub: hovering } } },
        drag: { x: zoom !== undefined, setScale: false, dist: 6, click: () => {} }, // a click is heard below
      },
      hooks: {
        drawAxes: [(plot) => spec.under && paint(plot, (pen, wide, high) => spec.under(pen, plot, wide, high))],
        draw: [
          (plot) => {
            if (spec.over) paint(plot, (pen, wide, high) => spec.over(pen, plot, wide, high));
            if (title) paint(plot, (pen, wide) => write(pen, 0, -7, fitted(title, wide, 12, 600), { size: 12, weight: 600, fill: INK }));
          },
        ],
        setSelect: [
          (plot) => {
            if (!zoom) return;
            const { left, width } = plot.select;
            const ends = [left, left + width].map((place) => step(plot.posToVal(place, "x"), 0));
            if (width > 6) setTimeout(() => zoom(...ends)); // once the event is over, since this plot will be gone
          },
        ],
      },
    },
    spec.data ?? [x],
    box,
  );
  return Object.assign(plot, { spec, share });
};

const picture = (id, said, specs) => {
  const place = at(id),
    box = element("div", "", { class: "plots", role: "img", "aria-label": said }),
    tip = element("div", "", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  for (const old of place.plots ?? []) old.destroy();
  place.plots = specs.map((spec) => uPlotOf(box, id, spec));
  for (const plot of place.plots) if (plot.spec.step) listen(place, tip, plot);
  place.replaceChildren(box, tip);
};
const listen = (place, tip, plot) => {
  const { over, spec } = plot;
  const found = (event) => {
    const share = plot.share(plot, event.offsetY);
    return [spec.step(plot.posToVal(event.offsetX, "x"), share), share];
  };
  over.addEventListener("pointermove", (event) => {
    const lines = spec.tip(...found(event)),
      box = place.getBoundingClientRect(),
      [x, y] = [event.clientX - box.left, event.clientY - box.top];
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines.map((line) => element("div", line)));
    tip.style.left = `${Math.min(Math.max(x + 14, 0), box.width - tip.offsetWidth - 2)}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 16, box.height - tip.offsetHeight))}px`;
  });
  over.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  const dragged = () => spec.zoom && plot.select.width > 6;
  if (spec.pick) over.addEventListener("click", (event) => dragged() || spec.pick(...found(event)));
};
const nearest = (places) => (x) => places.reduce((best, v, k) => (Math.abs(v - x) < Math.abs(places[best] - x) ? k : best), 0);
