// Operations of a network that runs in the page (network.js): cell by cell, along axes, products of matrices. They have
// the names, arguments and results that they have in torch; an argument that was a tensor has its values and shape.

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
const flag = (holds) => (holds ? 1 : 0);
const sigmoid = (v) => 1 / (1 + Math.exp(-v));
// The error function to single precision (Abramowitz and Stegun, 7.1.26).
const erf = (v) => {
  const t = 1 / (1 + 0.3275911 * Math.abs(v)),
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(v) * (1 - tail * Math.exp(-v * v));
};
const ROUNDED = { floor: Math.floor, trunc: Math.trunc };

// Cell by cell: Math has what is missing here.
const CELLWISE = {
  neg: (a) => -a,
  rsqrt: (a) => 1 / Math.sqrt(a),
  reciprocal: (a) => 1 / a,
  relu: (a) => (a < 0 ? 0 : a),
  erf,
  sigmoid,
  isnan: (a) => flag(Number.isNaN(a)),
  logical_not: (a) => flag(!a),
  bitwise_not: (a) => flag(!a),
  add: (a, b, _, { alpha = 1 }) => a + alpha * b,
  sub: (a, b, _, { alpha = 1 }) => a - alpha * b,
  mul: (a, b) => a * b,
  div: (a, b, _, { rounding_mode: mode }) => (mode ? ROUNDED[mode](a / b) : a / b),
  floor_divide: (a, b) => Math.floor(a / b),
  remainder: (a, b) => a - b * Math.floor(a / b),
  fmod: (a, b) => a % b,
  pow: (a, b) => a ** b,
  maximum: (a, b) => Math.max(a, b),
  minimum: (a, b) => Math.min(a, b),
  eq: (a, b) => flag(a === b),
  ne: (a, b) => flag(a !== b),
  lt: (a, b) => flag(a < b),
  le: (a, b) => flag(a <= b),
  gt: (a, b) => flag(a > b),
  ge: (a, b) => flag(a >= b),
  logical_and: (a, b) => flag(a && b),
  logical_or: (a, b) => flag(a || b),
  bitwise_and: (a, b) => flag(a && b),
  bitwise_or: (a, b) => flag(a || b),
  where: (a, b, c) => (a ? b : c),
};
const NONE = { values: [] };
const cellwise =
  (f) =>
  ([out], [a, b = NONE, c = NONE], options) => {
    for (let i = 0; i < out.length; i += 1) out[i] = f(a.values[i], b.values[i], c.values[i], options);
  };
const typed = ([out], [a, dtype], options) => {
  const type = options.dtype ?? dtype ?? "torch.float32";
  if (/float/.test(type)) out.set(a.values);
  else if (type === "torch.bool") for (let i = 0; i < out.length; i += 1) out[i] = flag(a.values[i] !== 0);
  else for (let i = 0; i < out.length; i += 1) out[i] = Math.trunc(a.values[i]);
};

// Along some axes: all of them if none are named.
const reduction =
  (f, start) =>
  ([out, where], [{ values, shape }, dims, keepdim]) => {
    const found = reduced(f, start, values, shape, dims);
    out.set(found.totals);
    where?.fill(NaN); // no indices
  };
const reduced = (f, start, values, shape, dims) => {
  const axes = [dims ?? []].flat().map((d) => (d < 0 ? d + shape.length : d)),
    gone = shape.map((_, d) => axes.length === 0 || axes.includes(d)),
    strides = shape.map((_, d) => (gone[d] ? 0 : product(shape.filter((_size, e) => e > d && !gone[e])))),
    target = placesOf({ shape, first: 0, strides }),
    totals = new Float64Array(product(shape.filter((_size, d) => !gone[d]))).fill(start);
  for (let i = 0; i < values.length; i += 1) totals[target[i]] = f(totals[target[i]], values[i], target[i]);
  return { totals, count: values.length / totals.length };
};
const add = (a, b) => a + b;
const meanOf = ([out], [{ values, shape }, dims]) => {
  const { totals, count } = reduced(add, 0, values, shape, dims);
  for (let i = 0; i < out.length; i += 1) out[i] = totals[i] / count;
};
const variance = ([out], [{ values, shape }, dims, less], { correction }) => {
  const { totals, count } = reduced(add, 0, values, shape, dims),
    squares = reduced((a, b, place) => a + (b - totals[place] / count) ** 2, 0, values, shape, dims);
  out.set(squares.totals.map((total) => total / (count - Number(correction ?? less ?? 1))));
};
const runningSum = ([out], [{ values, shape }, dim]) => {
  const step = product(shape.slice(dim < 0 ? dim + shape.length + 1 : dim + 1)),
    span = step * shape.at(dim);
  for (let i = 0; i < out.length; i += 1) out[i] = values[i] + (i % span < step ? 0 : out[i - step]);
};

// Matrices (…, rows, count) and (…, count, columns).
const matrixProduct = ([out], [{ values: a, shape }, { values: b, shape: other }]) => {
  const [rows, count] = shape.slice(-2),
    columns = other.at(-1);
  out.fill(0);
  for (let r = 0; r < a.length / count; r += 1)
    for (let k = 0; k < count; k += 1) {
      const v = a[r * count + k],
        line = (Math.floor(r / rows) * count + k) * columns;
      for (let c = 0; c < columns; c += 1) out[r * columns + c] += v * b[line + c];
    }
};
const sumOfProduct = ([out], [bias, ...matrices], { alpha = 1, beta = 1 }) => {
  matrixProduct([out], matrices);
  for (let i = 0; i < out.length; i += 1) out[i] = alpha * out[i] + beta * bias.values[i % bias.values.length];
};
