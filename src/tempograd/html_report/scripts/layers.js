// Operations of a network that runs in the page (network.js): kernels that slide, windows and recurrent layers.

// Kernels that slide over the last axes: one axis counts as two, of which the first has one place.
const two = (sizes, other) => (sizes.length === 1 ? [other, sizes[0]] : sizes.slice(-2));
const both = (sizes, axes, other) => two(sizes.length < axes ? [...sizes, ...sizes] : sizes, other);

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
    cells = product(kernel);
  const channelOf = (i) => Math.floor(i / product(made.size)) % outChannels;
  for (let i = 0; i < out.length; i += 1) out[i] = bias ? bias.values[channelOf(i)] : 0;
  for (let n = 0; n < batch; n += 1)
    for (let s = 0; s < small.channels; s += 1)
      for (let l = 0; l < part; l += 1)
        for (let k = 0; k < cells; k += 1) {
          const w = weight.values[(s * part + l) * cells + k],
            channel = Math.floor((s * groups) / small.channels) * part + l,
            [down, right] = [Math.floor(k / kernel[1]) * gaps[0] - pads[0], (k % kernel[1]) * gaps[1] - pads[1]];
          for (let i = 0; i < small.size[0]; i += 1) {
            const row = i * steps[0] + down;
            if (row < 0 || row >= large.size[0]) continue;
            const here = ((n * small.channels + s) * small.size[0] + i) * small.size[1],
              there = ((n * large.channels + channel) * large.size[0] + row) * large.size[1];
            for (let j = 0; j < small.size[1]; j += 1) {
              const place = j * steps[1] + right;
              if (place < 0 || place >= large.size[1]) continue;
              if (transposed) large.values[there + place] += w * small.values[here + j];
              else small.values[here + j] += w * large.values[there + place];
            }
          }
        }
};

// Windows of the last axes, each a list of rows and one of columns, and what is made of their values.
const pooled = (out, x, shape, axes, windowOf, make) => {
  const whole = two(x.shape.slice(-axes), 1),
    [height, width] = whole,
    sizes = two(shape.slice(-axes), 1);
  for (let i = 0; i < out.length; i += 1) {
    const places = [Math.floor(i / sizes[1]) % sizes[0], i % sizes[1]],
      window = places.map((place, axis) => windowOf(place, axis, whole[axis])),
      plane = Math.floor(i / product(sizes)) * height * width,
      found = [];
    for (let row = window[0].from; row < window[0].to; row += window[0].gap)
      for (let column = window[1].from; column < window[1].to; column += window[1].gap)
        if (row >= 0 && row < height && column >= 0 && column < width) found.push(x.values[plane + row * width + column]);
    out[i] = make(found, window);
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
const largest = (values) => Math.max(...values);
const maxPool =
  (axes) =>
  ([out, where], [x, kernel, stride, padding = [0], dilation = [1]], _, [shape]) => {
    pooled(out, x, shape, axes, sliding(axes, kernel, stride, padding, dilation), largest);
    where.fill(NaN);
  };
const meanPool =
  (axes) =>
  ([out], [x, kernel, stride, padding = [0], , padded = true, divisor = null], _, [shape]) => {
    const count = (found, window) => divisor ?? (padded ? product(window.map(({ from, to }) => to - from)) : found.length),
      mean = (found, window) => found.reduce(add, 0) / count(found, window);
    pooled(out, x, shape, axes, sliding(axes, kernel, stride, padding, [1]), mean);
  };
const adaptiveMaxPool = ([out, where], [x, sizes], _, [shape]) => {
  const part = (place, axis, size) => {
    const [from, to] = [place, place + 1].map((end) => (end * size) / sizes[axis]);
    return { from: Math.floor(from), to: Math.ceil(to), gap: 1 };
  };
  pooled(out, x, shape, 2, part, largest);
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
// One layer in one direction: states change from step to step, and every one of h is given to `tell`.
const transposed = ({ values, shape: [rows, columns] }) =>
  Float32Array.from(values, (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]);
const recur = (kind, series, width, states, [read, keep, one, other], turned, tell) => {
  const hidden = keep.shape[1],
    size = keep.shape[0],
    steps = series.length,
    [input, own] = [transposed(read), transposed(keep)],
    gates = new Float64Array(size),
    kept = new Float64Array(size);
  for (let s = 0; s < steps; s += 1) {
    const t = turned ? steps - 1 - s : s;
    gates.set(one?.values ?? gates.fill(0));
    kept.set(other?.values ?? kept.fill(0));
    addProduct(gates, 0, series[t], 0, width, input, 0, size);
    addProduct(kept, 0, states[0], 0, hidden, own, 0, size);
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
        const next = Array.from({ length: steps }, () => new Float64Array(ways * hidden));
        for (let way = 0; way < ways; way += 1) {
          const place = layer * ways + way,
            at = (place * batch + n) * hidden,
            states = starts.map(({ values }) => Float64Array.from(values.subarray(at, at + hidden))),
            own = weights.slice(place * per, (place + 1) * per);
          recur(kind, series, width, states, own, way === 1, (t, h) => next[t].set(h, way * hidden));
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
      const states = starts.map(({ values }) => Float64Array.from(values.subarray(n * hidden, (n + 1) * hidden)));
      recur(kind, [x.values.subarray(n * width, (n + 1) * width)], width, states, weights, false, () => {});
      outs.forEach((out, k) => out.set(states[k], n * hidden));
    }
  };
