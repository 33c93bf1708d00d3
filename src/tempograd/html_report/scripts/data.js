// What Python packed: a header and arrays in one buffer (see packing.py for the layout).

let data = null;

const arrays = {
  float32: Float32Array,
  int16: Int16Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
};

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
const score = (map, series, t, d) => map.values[cell(series, t, d)] * map.step[series];
const half = (map, series, t, d) => {
  const code = map.half[cell(series, t, d)];
  if (code === 65535) return Infinity;
  return code === 0 ? 0 : map.largest[series] * 10 ** ((9 * (code - 65534)) / 65533);
};
const seriesName = (i) => (data.names ? data.names[i] : String(data.ids[i]));
const commonTime = (t) => (data.times ? data.times[t] : String(t));
const timeName = (t) => (data.stamps ? data.stamps[view.series][t] : commonTime(t)); // of the series that is shown
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
