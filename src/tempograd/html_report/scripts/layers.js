// Operations of a network that runs in the page (network.js): kernels that slide, windows and recurrent layers.

// Kernels that slide over the last axes: one axis counts as two, of which the first has one place.
const two = (sizes, other) => (sizes.length === 1 ? [other, sizes[0]] : sizes.slice(-2));
const both = (sizes, axes, other) => two(sizes.length < axes ? [...sizes, ...sizes] : sizes, other);

// One row under one cell of a kernel.
const slide = (small, line, large, row, step, w, first, end, back) => {
  if (back) for (let j = first; j < end; j += 1) large[row + j * step] += w * small[line + j];
  else for (let j = first; j < end; j += 1) small[line + j] += w * large[row + j * step];
};
// Small sides are what kernels make; where they are transposed it is the other way round.
const convolution = ([out], [x, weight, bias, stride, padding, dilation, transposed, , groups], _, [shape]) => {
  const axes = weight.shape.length - 2,
    [batch, xChannels] = x.shape,
    [, outChannels] = shape,
    input = { values: x.values, channels: xChannels, size: two(x.shape.slice(2), 1) },
    made = { values: out, channels: outChannels, size: two(shape.slice(2), 1) },
    [large, small] = transposed ? [made, input] : [input, made],
    kernel = two(weight.shape.slice(2), 1),
    [steps, pads, gaps] = [both(stride, axes, 1), both(padding, axes, 0), both(dilation, axes, 1)],
    part = large.channels / groups, // channels of the large side that one of the small side meets
    cells = product(kernel),
    [here, there, across] = [small.values, large.values, steps[1]];
  const channelOf = (i) => Math.floor(i / product(made.size)) % outChannels;
  for (let i = 0; i < out.length; i += 1) out[i] = bias ? bias.values[channelOf(i)] : 0;
  for (let n = 0; n < batch; n += 1)
    for (let s = 0; s < small.channels; s += 1)
      for (let l = 0; l < part; l += 1)
        for (let k = 0; k < cells; k += 1) {
          const w = weight.values[(s * part + l) * cells + k],
            channel = Math.floor((s * groups) / small.channels) * part + l,
            down = Math.floor(k / kernel[1]) * gaps[0] - pads[0],
            right = (k % kernel[1]) * gaps[1] - pads[1],
            first = Math.max(0, Math.ceil(-right / across)) | 0, // an integer, which −0 is not
            end = Math.min(small.size[1], Math.floor((large.size[1] - 1 - right) / across) + 1);
          for (let i = 0; i < small.size[0]; i += 1) {
            const place = i * steps[0] + down;
            if (place < 0 || place >= large.size[0]) continue;
            const line = ((n * small.channels + s) * small.size[0] + i) * small.size[1],
              row = ((n * large.channels + channel) * large.size[0] + place) * large.size[1];
            slide(here, line, there, row + right, across, w, first, end, transposed);
          }
        }
};

// Windows of the last axes: their values one after the other, over a share of their number.
const pooled = (out, x, shape, axes, windowOf, f, start, share) => {
  const whole = two(x.shape.slice(-axes), 1),
    sizes = two(shape.slice(-axes), 1),
    windows = sizes.map((size, axis) => [...Array(size).keys()].map((place) => windowOf(place, axis, whole[axis]))),
    within = (place, axis) => place >= 0 && place < whole[axis];
  for (let i = 0; i < out.length; i += 1) {
    const [down, across] = [windows[0][Math.floor(i / sizes[1]) % sizes[0]], windows[1][i % sizes[1]]],
      plane = Math.floor(i / (sizes[0] * sizes[1])) * whole[0];
    let [total, count] = [start, 0];
    for (let row = down.from; row < down.to; row += down.gap)
      for (let column = across.from; column < across.to; column += across.gap)
        if (within(row, 0) && within(column, 1)) {
          total = f(total, x.values[(plane + row) * whole[1] + column]);
          count += 1;
        }
    out[i] = total / share(count, down, across);
  }
};
const sliding = (axes, kernel, stride, padding, dilation) => {
  const [sizes, pads, gaps] = [both(kernel, axes, 1), both(padding, axes, 0), both(dilation, axes, 1)],
    steps = stride?.length ? both(stride, axes, 1) : sizes;
  return (place, axis, size) => {
    const from = place * steps[axis] - pads[axis];
    return { from, to: Math.min(from + (sizes[axis] - 1) * gaps[axis] + 1, size + pads[axis]), gap: gaps[axis] };
  };
};
const larger = (a, b) => Math.max(a, b);
const maxPool =
  (axes) =>
  ([out, where], [x, kernel, stride, padding = [0], dilation = [1]], _, [shape]) => {
    pooled(out, x, shape, axes, sliding(axes, kernel, stride, padding, dilation), larger, -Infinity, () => 1);
    where.fill(NaN); // no indices
  };
const meanPool =
  (axes) =>
  ([out], [x, kernel, stride, padding = [0], , padded = true, divisor = null], _, [shape]) => {
    const share = (count, { from, to }, across) => divisor ?? (padded ? (to - from) * (across.to - across.from) : count);
    pooled(out, x, shape, axes, sliding(axes, kernel, stride, padding, [1]), add, 0, share);
  };
const adaptiveMaxPool = ([out, where], [x, sizes], _, [shape]) => {
  const part = (place, axis, size) => {
    const [from, to] = [place, place + 1].map((end) => (end * size) / sizes[axis]);
    return { from: Math.floor(from), to: Math.ceil(to), gap: 1 };
  };
  pooled(out, x, shape, 2, part, larger, -Infinity, () => 1);
  where.fill(NaN);
};

// The next state of a recurrent layer, from the gates of the series (x) and those of the state before (u).
const CELL = {
  rnn_tanh: (x, u, [h], j) => (h[j] = Math.tanh(x(0) + u(0))),
  rnn_relu: (x, u, [h], j) => (h[j] = Math.max(0, x(0) + u(0))),
  gru: (x, u, [h], j) => {
    const kept = sigmoid(x(1) + u(1)),
      fresh = Math.tanh(x(2) + sigmoid(x(0) + u(0)) * u(2));
    h[j] = (1 - kept) * fresh + kept * h[j];
  },
  lstm: (x, u, [h, c], j) => {
    c[j] = sigmoid(x(1) + u(1)) * c[j] + sigmoid(x(0) + u(0)) * Math.tanh(x(2) + u(2));
    h[j] = sigmoid(x(3) + u(3)) * Math.tanh(c[j]);
  },
};
// A row of a matrix times a vector, in two sums that do not wait for each other.
const dot = (matrix, at, vector) => {
  const even = vector.length - (vector.length % 2);
  let [one, other] = [vector.length > even ? matrix[at + even] * vector[even] : 0, 0];
  for (let k = 0; k < even; k += 2) {
    one += matrix[at + k] * vector[k];
    other += matrix[at + k + 1] * vector[k + 1];
  }
  return one + other;
};
// One layer in one direction: states change from step to step, and every one of h is given to `tell`.
const recur = (kind, series, states, [read, keep, one, other], turned, tell) => {
  const [size, hidden] = keep.shape,
    gates = new Float64Array(size),
    kept = new Float64Array(size);
  for (let s = 0; s < series.length; s += 1) {
    const t = turned ? series.length - 1 - s : s;
    for (let g = 0; g < size; g += 1) {
      gates[g] = dot(read.values, g * series[t].length, series[t]) + (one ? one.values[g] : 0);
      kept[g] = dot(keep.values, g * hidden, states[0]) + (other ? other.values[g] : 0);
    }
    for (let j = 0; j < hidden; j += 1)
      CELL[kind](
        (gate) => gates[gate * hidden + j],
        (gate) => kept[gate * hidden + j],
        states,
        j,
      );
    tell(t, states[0]);
  }
};
const recurrent =
  (kind) =>
  ([out, ...ends], [x, given, weights, biases, layers, , , twoWays, batchFirst]) => {
    const starts = kind === "lstm" ? given : [given],
      [steps, batch] = batchFirst ? [x.shape[1], x.shape[0]] : x.shape,
      hidden = starts[0].shape[2],
      ways = twoWays ? 2 : 1,
      per = weights.length / (layers * ways);
    if (per !== (biases ? 4 : 2)) throw new Error("recurrent layers with projections");
    for (let n = 0; n < batch; n += 1) {
      const row = (t) => (batchFirst ? n * steps + t : t * batch + n);
      let width = x.shape[2],
        series = Array.from({ length: steps }, (_, t) => x.values.subarray(row(t) * width, (row(t) + 1) * width));
      for (let layer = 0; layer < layers; layer += 1) {
        const next = Array.from({ length: steps }, () => new Float32Array(ways * hidden));
        for (let way = 0; way < ways; way += 1) {
          const place = layer * ways + way,
            at = (place * batch + n) * hidden,
            states = starts.map(({ values }) => Float32Array.from(values.subarray(at, at + hidden))),
            own = weights.slice(place * per, (place + 1) * per);
          recur(kind, series, states, own, way === 1, (t, h) => next[t].set(h, way * hidden));
          ends.forEach((end, k) => end.set(states[k], at));
        }
        [series, width] = [next, ways * hidden];
      }
      series.forEach((h, t) => out.set(h, row(t) * width));
    }
  };
const recurrentCell =
  (kind) =>
  (outs, [x, given, ...weights]) => {
    const starts = kind === "lstm" ? given : [given],
      [batch, width] = x.shape,
      hidden = starts[0].shape[1];
    for (let n = 0; n < batch; n += 1) {
      const states = starts.map(({ values }) => Float32Array.from(values.subarray(n * hidden, (n + 1) * hidden)));
      recur(kind, [x.values.subarray(n * width, (n + 1) * width)], states, weights, false, () => {});
      outs.forEach((out, k) => out.set(states[k], n * hidden));
    }
  };
