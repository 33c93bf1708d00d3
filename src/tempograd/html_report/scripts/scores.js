// How good the methods are: a dot for each, with the interval of its difference to the first.

const scoresPicture = () => {
  const { methods, metrics } = data.table,
    wide = widthOf("chart-scores"),
    across = wide >= 680 ? Math.min(metrics.length, 3) : 1,
    one = 26,
    block = one * methods.length + 70,
    said = `Scores of ${counted(methods.length, "method", "methods")}, with intervals against ${readable(methods[0].label)}`,
    picture = frame("chart-scores", said, block * Math.ceil(metrics.length / across)),
    names = Math.min(170, Math.max(...methods.map((each) => lengthOf(methodName(each), 11.5))) + 10),
    each = (wide - names) / across;
  metrics.forEach((metric, place) => {
    const left = names + (place % across) * each,
      top = Math.floor(place / across) * block + 24;
    if (place % across === 0)
      methods.forEach((method, k) => {
        const name = fitted(methodName(method), names - 10, 11.5);
        write(picture, names - 8, top + (k + 0.5) * one + 4, name, { "text-anchor": "end", "font-size": 11.5 });
      });
    scorePanel(picture, metric, methods, left + 12, left + each - 16, top, one);
  });
  finish(picture);
};
const methodName = (method) => readable(method.label) + (method.control ? " (control)" : "");

const scorePanel = (picture, metric, methods, left, right, top, one) => {
  const bottom = top + one * methods.length,
    ends = metric.cells.flatMap(({ mean, low, high }) => [mean, low, high]).filter(Number.isFinite),
    [low, high] = spread(ends),
    x = (v) => left + ((v - low) / (high - low)) * (right - left),
    first = metric.cells[0].mean;
  write(picture, left, top - 10, fitted(metric.name, right - left, 12, 600), { "font-weight": 600 });
  acrossAxis(picture, x, low, high, top, bottom);
  if (first !== null) {
    const place = rounded(x(first)),
      dashes = { stroke: INK, "stroke-width": 1.5, "stroke-dasharray": "4 3" };
    picture.add("line", { class: "first", x1: place, x2: place, y1: top, y2: bottom, ...dashes });
  }
  metric.cells.forEach((cell, k) => {
    if (cell.mean === null) return;
    const y = top + (k + 0.5) * one,
      control = methods[k].control,
      gap = () => `${number(cell.gap)}, 95 %: ${number(cell.low - first)} to ${number(cell.high - first)}`;
    dotWithInterval(picture, x, y, cell.mean, cell.low ?? Infinity, cell.high ?? Infinity, control ? MUTED : INK, !control);
    picture.panels.push({
      left,
      right,
      top: y - one / 2,
      bottom: y + one / 2,
      step: () => k,
      place: () => x(cell.mean),
      tip: () => [
        methodName(methods[k]),
        `${metric.name}: ${number(cell.mean)}`,
        ...(cell.gap === null ? [] : [`minus ${readable(methods[0].label)}: ${gap()}`]),
        ...(control ? ["scores drawn at random: what is no better says nothing"] : []),
      ],
    });
  });
};
