// Pictures as SVG. A frame is one picture; it has panels, and a panel knows what a place in it means.

const INK = "#1c2733",
  MUTED = "#56636f",
  RULE = "#e3e7eb",
  GONE = "#d4d9df";
const UP = "#c4520a",
  DOWN = "#1b6ca8",
  SIZE = "#6a3d9a",
  TAKEN = "#a1077a";
const PALE = { [UP]: "#f0cdb5", [DOWN]: "#bad3e6", [SIZE]: "#d5c6e3" };
const SIGNED = [
  [12, 82, 145],
  [120, 176, 220],
  [255, 255, 255],
  [247, 160, 96],
  [176, 58, 5],
];
const UNSIGNED = [
  [255, 255, 255],
  [173, 145, 202],
  [84, 39, 136],
];
const TEAL = [
  [9, 38, 74],
  [42, 150, 160],
  [250, 250, 205],
];
const LINES = ["#1c2733", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#7a5200"];
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "12 4", "12 3 2 3 2 3"];

const shape = (tag, attributes, text) => {
  const item = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, content] of Object.entries(attributes)) item.setAttribute(name, content);
  if (text !== undefined) item.textContent = text; // never markup: names come from data
  return item;
};
const short = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
const rounded = (v) => Math.round(v * 10) / 10;

const ruler = document.createElement("canvas").getContext("2d"),
  FAMILY = getComputedStyle(document.body).fontFamily;
const lengthOf = (text, size, weight = 400) => {
  ruler.font = `${weight} ${size}px ${FAMILY}`;
  return ruler.measureText(text).width;
};
// As much of a text as there is room for.
const fitted = (text, room, size, weight) => {
  if (lengthOf(text, size, weight) <= room) return text;
  let count = Math.min(text.length - 1, Math.ceil((4 * room) / size));
  while (count > 1 && lengthOf(`${text.slice(0, count)}…`, size, weight) > room) count -= 1;
  return `${text.slice(0, count)}…`;
};

const widthOf = (id) => {
  const wide = at(id).clientWidth;
  return wide > 0 ? wide : Math.max(280, document.querySelector("main").clientWidth); // in a view that is not open yet
};

const frame = (id, said, height) => {
  const width = widthOf(id);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said });
  return {
    id,
    svg,
    width,
    height,
    panels: [],
    add: (tag, attributes, text) => svg.appendChild(shape(tag, attributes, text)),
  };
};
const write = (picture, x, y, text, more = {}) =>
  picture.add("text", { x: rounded(x), y: rounded(y), "font-size": 12, fill: INK, ...more }, text);

// What moves under the pointer lies above the picture and is no part of it.
const finish = (picture) => {
  const place = at(picture.id),
    hair = picture.add("line", {
      y1: 0,
      y2: picture.height,
      stroke: MUTED,
      "stroke-dasharray": "2 3",
      visibility: "hidden",
    });
  const band = picture.add("rect", {
    y: 0,
    height: picture.height,
    fill: "#0c5291",
    opacity: 0.12,
    visibility: "hidden",
  });
  const tip = element("div", "", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  place.replaceChildren(picture.svg, tip);
  place.panels = picture.panels;
  let from = null;
  const inside = (event) => {
    const box = picture.svg.getBoundingClientRect(),
      x = event.clientX - box.left,
      y = event.clientY - box.top;
    const panel = picture.panels.find((p) => x >= p.left && x <= p.right && y >= p.top && y <= p.bottom);
    return { x, y, panel };
  };
  const leave = () => {
    hair.setAttribute("visibility", "hidden");
    tip.hidden = true;
  };
  picture.svg.addEventListener("pointermove", (event) => {
    const { x, y, panel } = inside(event);
    if (from) {
      const end = Math.min(Math.max(x, from.panel.left), from.panel.right);
      band.setAttribute("visibility", "visible");
      band.setAttribute("x", Math.min(from.x, end));
      band.setAttribute("width", Math.abs(end - from.x));
    }
    if (!panel) {
      leave();
      return;
    }
    const step = panel.step(x),
      lines = panel.tip(step, (y - panel.top) / (panel.bottom - panel.top));
    if (!lines) {
      leave();
      return;
    }
    hair.setAttribute("x1", panel.place(step));
    hair.setAttribute("x2", panel.place(step));
    hair.setAttribute("visibility", "visible");
    tip.replaceChildren(...lines.map((line) => element("div", line)));
    tip.hidden = false;
    tip.style.left = `${Math.min(Math.max(x + 14, 0), picture.width - tip.offsetWidth - 2)}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 16, picture.height - tip.offsetHeight))}px`;
  });
  picture.svg.addEventListener("pointerleave", () => {
    leave();
  });
  picture.svg.addEventListener("pointerdown", (event) => {
    const { x, panel } = inside(event);
    if (!panel?.pick || event.button !== 0) return;
    from = { x, panel };
    picture.svg.setPointerCapture(event.pointerId);
  });
  const release = (event) => {
    if (!from) return;
    const { panel, x: start } = from,
      end = Math.min(Math.max(inside(event).x, panel.left), panel.right);
    from = null;
    band.setAttribute("visibility", "hidden");
    if (event.type === "pointercancel") return;
    if (panel.zoom && Math.abs(end - start) > 6)
      panel.zoom(panel.step(Math.min(start, end)), panel.step(Math.max(start, end)));
    else panel.pick(panel.step(end));
  };
  picture.svg.addEventListener("pointerup", release);
  picture.svg.addEventListener("pointercancel", release);
};
