// Pictures as SVG. A frame is one picture; it has panels, and a panel knows what a place in it means.

// Colours are variables of the page's style, the same as in the library's pictures; a dark screen has others.
const look = getComputedStyle(document.documentElement),
  colour = (name) => look.getPropertyValue(`--${name}`).trim(),
  rgb = (hex) => [1, 3, 5].map((place) => Number.parseInt(hex.slice(place, place + 2), 16));
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "12 4", "12 3 2 3 2 3", "3 5", "10 3 4 3"];
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

const onPaper = () => document.body.classList.contains("paper"); // where pictures are drawn smaller

const widthOf = (id) => {
  const wide = at(id).clientWidth;
  return wide > 0 ? wide : Math.max(280, document.querySelector("main").clientWidth); // in a view that is not open yet
};

const frame = (id, said, height) => {
  const width = widthOf(id);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said });
  const picture = {
    id,
    svg,
    width,
    height,
    panels: [],
    hatch: `url(#hatch-${id})`,
    add: (tag, attributes, text) => svg.appendChild(shape(tag, attributes, text)),
  };
  hatching(picture);
  return picture;
};
// What was not observed is hatched, as in the library's pictures; each picture has its own, since it may be saved.
const hatching = (picture) => {
  const size = { width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    pattern = shape("pattern", { id: `hatch-${picture.id}`, ...size });
  pattern.append(shape("path", { d: "M0 0H5V5H0z", fill: PANEL }), shape("path", { d: "M0 0V5", stroke: GONE }));
  picture.add("defs", {}).append(pattern);
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
    fill: DOWN,
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
