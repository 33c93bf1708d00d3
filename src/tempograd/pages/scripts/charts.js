// A few kinds of pictures as SVG: lines, bars and maps over a shared time axis.
// A frame is one picture; it has panels, and a panel knows what a place in it means.

const INK = "#1c2733", MUTED = "#56636f", RULE = "#e3e7eb", GONE = "#d4d9df";
const UP = "#c4520a", DOWN = "#1b6ca8", SIZE = "#6a3d9a", TAKEN = "#a1077a";
const PALE = { [UP]: "#f0cdb5", [DOWN]: "#bad3e6", [SIZE]: "#d5c6e3" };
const SIGNED = [[12, 82, 145], [120, 176, 220], [255, 255, 255], [247, 160, 96], [176, 58, 5]];
const UNSIGNED = [[255, 255, 255], [173, 145, 202], [84, 39, 136]];
const TEAL = [[9, 38, 74], [42, 150, 160], [250, 250, 205]];
const LINES = ["#1c2733", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#7a5200"];
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "12 4", "12 3 2 3 2 3"];
const COLUMNS = 2048;  // of a map; where there are more steps, a column shows the strongest of its own

const shape = (tag, attributes, text) => {
  const item = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, content] of Object.entries(attributes)) item.setAttribute(name, content);
  if (text !== undefined) item.textContent = text;  // never markup: names come from data
  return item;
};
const short = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
const rounded = (v) => Math.round(v * 10) / 10;

const ruler = document.createElement("canvas").getContext("2d"), FAMILY = getComputedStyle(document.body).fontFamily;
const lengthOf = (text, size, weight = 400) => { ruler.font = `${weight} ${size}px ${FAMILY}`; return ruler.measureText(text).width; };
// As much of a text as there is room for.
const fitted = (text, room, size, weight) => {
  if (lengthOf(text, size, weight) <= room) return text;
  let count = Math.min(text.length - 1, Math.ceil(4 * room / size));
  while (count > 1 && lengthOf(`${text.slice(0, count)}…`, size, weight) > room) count -= 1;
  return `${text.slice(0, count)}…`;
};

const widthOf = (id) => {
  const wide = at(id).clientWidth;
  return wide > 0 ? wide : Math.max(280, document.querySelector("main").clientWidth);  // in a view that is not open yet
};

const frame = (id, said, height) => {
  const width = widthOf(id);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said });
  return { id, svg, width, height, panels: [], add: (tag, attributes, text) => svg.appendChild(shape(tag, attributes, text)) };
};
const write = (picture, x, y, text, more = {}) => picture.add("text", { x: rounded(x), y: rounded(y), "font-size": 12, fill: INK, ...more }, text);

// What moves under the pointer lies above the picture and is no part of it.
const finish = (picture) => {
  const place = at(picture.id), hair = picture.add("line", { y1: 0, y2: picture.height, stroke: MUTED, "stroke-dasharray": "2 3", visibility: "hidden" });
  const band = picture.add("rect", { y: 0, height: picture.height, fill: "#0c5291", opacity: 0.12, visibility: "hidden" });
  const tip = element("div", "", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  place.replaceChildren(picture.svg, tip);
  place.panels = picture.panels;
  let from = null;
  const inside = (event) => {
    const box = picture.svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const panel = picture.panels.find((p) => x >= p.left && x <= p.right && y >= p.top && y <= p.bottom);
    return { x, y, panel };
  };
  const leave = () => { hair.setAttribute("visibility", "hidden"); tip.hidden = true; };
  picture.svg.addEventListener("pointermove", (event) => {
    const { x, y, panel } = inside(event);
    if (from) {
      const end = Math.min(Math.max(x, from.panel.left), from.panel.right);
      band.setAttribute("visibility", "visible");
      band.setAttribute("x", Math.min(from.x, end));
      band.setAttribute("width", Math.abs(end - from.x));
    }
    if (!panel) { leave(); return; }
    const step = panel.step(x), lines = panel.tip(step, (y - panel.top) / (panel.bottom - panel.top));
    if (!lines) { leave(); return; }
    hair.setAttribute("x1", panel.place(step));
    hair.setAttribute("x2", panel.place(step));
    hair.setAttribute("visibility", "visible");
    tip.replaceChildren(...lines.map((line) => element("div", line)));
    tip.hidden = false;
    tip.style.left = `${Math.min(Math.max(x + 14, 0), picture.width - tip.offsetWidth - 2)}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 16, picture.height - tip.offsetHeight))}px`;
  });
  picture.svg.addEventListener("pointerleave", () => { leave(); });
  picture.svg.addEventListener("pointerdown", (event) => {
    const { x, panel } = inside(event);
    if (!panel?.pick || event.button !== 0) return;
    from = { x, panel };
    picture.svg.setPointerCapture(event.pointerId);
  });
  const release = (event) => {
    if (!from) return;
    const { panel, x: start } = from, end = Math.min(Math.max(inside(event).x, panel.left), panel.right);
    from = null;
    band.setAttribute("visibility", "hidden");
    if (event.type === "pointercancel") return;
    if (panel.zoom && Math.abs(end - start) > 6) panel.zoom(panel.step(Math.min(start, end)), panel.step(Math.max(start, end)));
    else panel.pick(panel.step(end));
  };
  picture.svg.addEventListener("pointerup", release);
  picture.svg.addEventListener("pointercancel", release);
};

// Steps from … to between two edges; every step has the same width.
const timeScale = ([from, to], left, right) => {
  const one = (right - left) / (to - from + 1);
  return { from, to, left, right, one, centre: (t) => left + (t - from + 0.5) * one, step: (x) => Math.min(Math.max(from + Math.floor((x - left) / one), from), to) };
};
const niceStep = (span, parts) => {
  const rough = span / parts, power = 10 ** Math.floor(Math.log10(rough)), share = rough / power;
  return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
};
const ticks = (low, high, parts) => {
  const step = niceStep(high - low, parts), found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) found.push(n * step || 0);
  return { found, places: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
};
const tickText = (v, places) => (Math.abs(v) >= 1e5 || places > 5 ? number(v) : fixed(v, places));

const timeAxis = (picture, scale, y, named = true) => {
  const room = data.times ? 110 : 70, parts = Math.max(1, Math.floor((scale.right - scale.left) / room));
  const every = Math.max(1, niceStep(scale.to - scale.from + 1, parts));
  for (let t = Math.ceil(scale.from / every) * every; t <= scale.to; t += every) {
    picture.add("line", { x1: rounded(scale.centre(t)), x2: rounded(scale.centre(t)), y1: y, y2: y + 4, stroke: MUTED });
    write(picture, scale.centre(t), y + 16, short(timeName(t), 16), { "text-anchor": "middle", "font-size": 11, fill: MUTED });
  }
  if (named && !data.times) write(picture, (scale.left + scale.right) / 2, y + 32, "time step", { "text-anchor": "middle", "font-size": 11, fill: MUTED });
};

// A box with a vertical scale: grid, numbers, and y() for values.
const valueBox = (picture, left, right, top, bottom, [low, high], parts) => {
  const y = (v) => bottom - (v - low) / (high - low) * (bottom - top);
  const { found, places } = ticks(low, high, parts);
  for (const v of found) {
    picture.add("line", { x1: left, x2: right, y1: rounded(y(v)), y2: rounded(y(v)), stroke: v === 0 ? "#9aa5b0" : RULE });
    write(picture, left - 6, y(v) + 3.5, tickText(v, places), { "text-anchor": "end", "font-size": 10.5, fill: MUTED });
  }
  return { y, low, high, top, bottom };
};

// A line through the values of the steps, broken where there is none; single values become dots.
const linePath = (scale, y, pick) => {
  let path = "", open = false;
  for (let t = scale.from; t <= scale.to; t += 1) {
    const v = pick(t);
    if (v === null || !Number.isFinite(v)) { open = false; continue; }
    path += `${open ? "L" : "M"}${rounded(scale.centre(t))} ${rounded(y(v))}`;
    if (!open) path += "h.01";
    open = true;
  }
  return path;
};
const boxPath = (scale, pick, top, bottom) => {
  let path = "";
  for (let t = scale.from; t <= scale.to; t += 1) {
    if (!pick(t)) continue;
    const start = t;
    while (t < scale.to && pick(t + 1)) t += 1;
    path += `M${rounded(scale.centre(start) - scale.one / 2)} ${top}H${rounded(scale.centre(t) + scale.one / 2)}V${bottom}H${rounded(scale.centre(start) - scale.one / 2)}z`;
  }
  return path;
};

const blend = (stops, share) => {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2), part = place - low;
  return [0, 1, 2].map((c) => Math.round(stops[low][c] + part * (stops[low + 1][c] - stops[low][c])));
};

// A map as one image: rows of cells, null where nothing was observed.
const heatMap = (picture, scale, top, height, rows, pick, stops, low, high) => {
  const count = scale.to - scale.from + 1, columns = Math.min(count, COLUMNS), canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows.length;
  const pen = canvas.getContext("2d"), image = pen.createImageData(columns, rows.length);
  rows.forEach((d, r) => {
    for (let c = 0; c < columns; c += 1) {
      const start = scale.from + Math.floor(c * count / columns), stop = scale.from + Math.floor((c + 1) * count / columns);
      let best = null;
      for (let t = start; t < stop; t += 1) {
        const v = pick(t, d);
        if (v !== null && (best === null || Math.abs(v) > Math.abs(best))) best = v;
      }
      const colour = best === null ? [212, 217, 223] : blend(stops, (best - low) / (high - low));
      image.data.set([...colour, 255], 4 * (r * columns + c));
    }
  });
  pen.putImageData(image, 0, 0);
  picture.add("image", { x: scale.left, y: top, width: scale.right - scale.left, height, href: canvas.toDataURL(), preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  picture.add("rect", { x: scale.left, y: top, width: scale.right - scale.left, height, fill: "none", stroke: "#b9c2cc" });
};

const colourBar = (picture, x, y, width, stops, low, high, said) => {
  const cells = 48;
  for (let c = 0; c < cells; c += 1) picture.add("rect", { x: rounded(x + c * width / cells), y, width: rounded(width / cells + 0.4), height: 9, fill: `rgb(${blend(stops, c / (cells - 1))})` });
  picture.add("rect", { x, y, width, height: 9, fill: "none", stroke: "#b9c2cc" });
  write(picture, x, y + 21, number(low), { "font-size": 10.5, fill: MUTED });
  write(picture, x + width, y + 21, number(high), { "font-size": 10.5, fill: MUTED, "text-anchor": "end" });
  write(picture, x + width / 2, y + 21, said, { "font-size": 10.5, fill: MUTED, "text-anchor": "middle" });
};

const rowNames = (picture, rows, left, top, one) => {
  const size = Math.min(11.5, one * 0.85);
  rows.forEach((d, r) => {
    const text = write(picture, left - 6, top + (r + 0.5) * one + size * 0.36, fitted(data.channels[d], left - 8, size), { "text-anchor": "end", "font-size": rounded(size) });
    text.append(shape("title", {}, data.channels[d]));
  });
};
const nameRoom = (width) => Math.min(150, Math.max(70, width * 0.2), 16 + 6.6 * Math.max(...data.channels.map((name) => name.length)));
