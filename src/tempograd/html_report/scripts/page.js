// What all other scripts use: elements of the page, numbers as people read them, and what Python packed.

const at = (id) => document.getElementById(id);
const element = (tag, text, attributes = {}) => {
  const item = document.createElement(tag);
  item.textContent = text; // never innerHTML: names come from data
  for (const [name, content] of Object.entries(attributes)) if (content !== null) item.setAttribute(name, content);
  return item;
};
// Ranges and dates in one piece: a line may break at blanks, not inside "35–46" or "2026-03-01".
const LONG_WORD = 24;
const unbroken = (text) =>
  text.split(/( )/).map((word) => {
    const joined = /\S[-–]\S/.test(word) && word.length <= LONG_WORD;
    return joined ? element("span", word, { class: "nowrap" }) : word;
  });
const fill = (select, entries) =>
  select.replaceChildren(...entries.map(([key, text]) => element("option", text, { value: key })));
const row = (cells, attributes = {}) => {
  const line = element("tr", "", attributes);
  line.append(...cells);
  return line;
};
const tableOf = (id, head, lines) => {
  const cells = head.map((text) => (typeof text === "string" ? element("th", text, { scope: "col" }) : text));
  at(id).tHead.replaceChildren(row(cells));
  at(id).tBodies[0].replaceChildren(...lines);
};

// Plain decimals where they are short, powers of ten where not.

const raised = (power) => [...String(power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
const minus = (text) => text.replace("-", "−");
const fixed = (value, places) => {
  const text = value.toFixed(places);
  return /[1-9]/.test(text) ? minus(text) : text.replace("-", "");
};
const decimals = (size) => Math.max(2 - Math.floor(Math.log10(Number(size.toPrecision(3)))), 0);

// Three significant digits, or a whole number.
const number = (value) => {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === Infinity) return value > 0 ? "∞" : "−∞";
  if (size === 0) return "0";
  if (size >= 1e-4 && size < 1e6) {
    const text = fixed(value, decimals(size));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }
  const [mantissa, power] = value.toExponential(2).split("e");
  return `${minus(String(Number(mantissa)))} × 10${raised(Number(power))}`;
};

// Numbers that belong together, all to the third digit of the largest, or to fewer.
const alike = (values, largest, digits = 3) => {
  if (!(largest > 0) || largest < 1e-3 || largest >= 1e6) return values.map(number);
  const places = Math.max(0, decimals(largest) - 3 + digits);
  return values.map((value) => (Number.isFinite(value) ? fixed(value, places) : number(value)));
};

// A mean and its standard error to the same digit: two significant ones of the error.
const withError = (mean, error) => {
  if (!Number.isFinite(error) || error === 0 || Math.abs(mean) >= 1e6 || error < 1e-8)
    return Number.isFinite(error) ? `${number(mean)} ± ${number(error)}` : number(mean);
  const places = Math.max(1 - Math.floor(Math.log10(error)), 0);
  return `${fixed(mean, places)} ± ${fixed(error, places)}`;
};

const probability = (value) => {
  if (value === null || Number.isNaN(value)) return "–";
  if (value > 0 && value < 0.0005) return "< 0.001";
  if (value < 1 && value >= 0.9995) return "> 0.999";
  return value.toFixed(3);
};

const output = (value) => (data.output === "probability" ? probability(value) : number(value));
const outputOf = (value, k) => `${output(value)} ${outputUnit(k)}`.trim();
const explainedOutput = (value) => (data.picked ? number(value) : output(value)); // a picked score may be anything
const readable = (label) => label.replaceAll("_", " ");
const counted = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// What Python packed: a header and arrays in one buffer (see content.py for the layout).

let data = null;

const arrays = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array };

const fromBase64 = (text) => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text); // browsers from 2025 on, and faster
  const letters = atob(text),
    bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
};
const unpack = async (id) => {
  const holder = document.getElementById(id);
  const bytes = fromBase64(holder.textContent);
  holder.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
};

// Replace every {at, length, type} by a view of the buffer.
const attach = (entry, buffer, start) => {
  if (entry === null || typeof entry !== "object") return entry;
  if (Number.isInteger(entry.at) && entry.type in arrays) {
    return new arrays[entry.type](buffer, start + entry.at, entry.length);
  }
  for (const key of Object.keys(entry)) entry[key] = attach(entry[key], buffer, start);
  return entry;
};

const read = (buffer) => {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  data = attach(header, buffer, 4 + length);
  data.depth = data.channels.length;
  data.cells = data.time * data.depth;
};

const bit = (bytes, place) => (bytes[place >> 3] >> (place & 7)) & 1;
const cell = (series, t, d) => (series * data.time + t) * data.depth + d;
const observed = (series, t, d) => bit(data.observed, cell(series, t, d)) === 1;
const value = (series, t, d) => data.values[cell(series, t, d)];
const score = (map, series, t, d) => map.values[cell(series, t, d)];
const half = (map, series, t, d) => map.half[cell(series, t, d)]; // infinite where nothing is known of the error
const largestScore = (map, series) => Math.abs(map.values[series * data.cells + map.order[series * map.removed]]);
const seriesName = (i) => (data.names ? data.names[i] : String(data.ids[i]));
const placeOf = (name) => (data.names?.includes(name) ? data.names.indexOf(name) : data.ids.findIndex((id) => String(id) === name));
const commonTime = (t) => (data.times ? data.times[t] : String(t));
const timeName = (t) => (data.stamps ? data.stamps[view.series][t] : commonTime(t)); // of the series that is shown
const exactTime = (i, t) => (data.exact ? (data.stamps ? data.exact[i][t] : data.exact[t]) : String(t)); // with its date
const withUnit = (name, unit) => (unit ? `${name} [${unit}]` : name);
const channelName = (d) => withUnit(data.channels[d], data.units?.[d]);
const className = (k) => data.classes[k] ?? `class ${k}`;
const outputUnit = (k) => data.outputUnits?.[k] ?? "";

// Channels of a series, the strongest first.
const ordered = (map, series) => {
  const effect = map.effect.subarray(series * data.depth, (series + 1) * data.depth);
  return [...effect.keys()].sort((a, b) => effect[b] - effect[a] || a - b);
};
const totalEffect = (map, series) => {
  let total = 0;
  for (let d = 0; d < data.depth; d += 1) total += map.effect[series * data.depth + d];
  return total;
};

// Cells that are gone after so many removals, as a set of t · channels + d.
const removedCells = (map, series, count) => {
  const start = series * map.removed;
  return new Set(map.order.subarray(start, start + Math.min(count, data.observedCount[series], map.removed)));
};
const afterRemoval = (map, series, state, k) =>
  map.removal.outputs[(series * data.counts.length + state) * outputs() + k];
const scoreAfter = (map, series, state) => map.removal.score[series * data.counts.length + state];
const outputs = () => data.maps[0].removal.outputs.length / (data.ids.length * data.counts.length);
const explainedScore = (series) => (data.maps[0].removal?.score ? scoreAfter(data.maps[0], series, 0) : null);
