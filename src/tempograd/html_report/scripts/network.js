// The network itself: steps on numbered cells of one memory, as Python wrote them down (views/network.py).

const OPERATIONS = {
  ...Object.fromEntries(Object.entries(CELLWISE).map(([name, f]) => [name, cellwise(f)])),
  ...Object.fromEntries(Object.keys(CELL).flatMap((kind) => [[kind, recurrent(kind)], [`${kind}_cell`, recurrentCell(kind)]])),
  ...{ clone: typed, _to_copy: typed, convert_element_type: typed },
  ...{ sum: reduction(add, 0), mean: meanOf, prod: reduction((a, b) => a * b, 1), var: variance, cumsum: runningSum },
  ...{ amax: reduction((a, b) => Math.max(a, b), -Infinity), amin: reduction((a, b) => Math.min(a, b), Infinity) },
  ...{ max: reduction((a, b) => Math.max(a, b), -Infinity), min: reduction((a, b) => Math.min(a, b), Infinity) },
  ...{ mm: matrixProduct, bmm: matrixProduct, addmm: sumOfProduct, convolution },
  ...{ max_pool1d_with_indices: maxPool(1), max_pool2d_with_indices: maxPool(2), adaptive_max_pool2d: adaptiveMaxPool },
  ...{ avg_pool1d: meanPool(1), avg_pool2d: meanPool(2) },
};

// Places that start somewhere and go on by strides, or a list of them.
const placesOf = ({ shape, first, strides, places }) =>
  places ??
  shape.reduce((before, size, d) => {
    const next = new Int32Array(before.length * size);
    for (let i = 0; i < next.length; i += 1) next[i] = before[Math.floor(i / size)] + (i % size) * strides[d];
    return next;
  }, Int32Array.of(first));

// A function that returns an argument as it is now: where its values lie one after the other, the memory itself.
const reader = (memory, part) => {
  if (Array.isArray(part)) {
    const readers = part.map((one) => reader(memory, one));
    return () => readers.map((read) => read());
  }
  if (!part?.shape) return () => part;
  const places = placesOf(part),
    straight = places.every((place, i) => place === places[0] + i),
    values = straight ? memory.subarray(places[0], places[0] + places.length) : new Float32Array(places.length),
    now = { values, shape: part.shape };
  return () => {
    if (!straight) for (let i = 0; i < values.length; i += 1) values[i] = memory[places[i]];
    return now;
  };
};

// A function of one series, row by row, that returns what the model says of it.
const network = (plan) => {
  const memory = new Float32Array(plan.size),
    steps = plan.steps.map(([name, outs, args, options]) => ({
      run: OPERATIONS[name] ?? cellwise(Math[name]),
      outs: outs.map(({ first, shape }) => memory.subarray(first, first + product(shape))),
      shapes: outs.map(({ shape }) => shape),
      args: reader(memory, args),
      options,
    })),
    results = reader(memory, plan.results);
  memory.set(plan.weights);
  return (x) => {
    memory.set(x, plan.start);
    for (const { run, outs, shapes, args, options } of steps) run(outs, args(), options, shapes);
    return results();
  };
};
