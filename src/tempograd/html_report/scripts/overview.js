// One series as a whole: all channels as maps, and what each method says.

const colours = (map) => {
  const full = map.limit[view.series] || 1;
  return map.signed ? [SIGNED, -full, full] : [UNSIGNED, 0, full];
};
const mapTip = (rows, text, when = timeText) => (t, share) => {
  const d = rows[Math.min(Math.max(Math.floor(share * rows.length), 0), rows.length - 1)];
  return [`${short(data.channels[d], 60)}, ${when(t)}`, text(t, d)];
};

const standard = []; // mean and spread of each channel over the shown series, computed once
const standardised = (t, d) => {
  if (!observed(view.series, t, d)) return null;
  if (!standard[d]) {
    let count = 0,
      mean = 0,
      square = 0;
    for (let i = 0; i < data.ids.length; i += 1) {
      for (let s = 0; s < data.time; s += 1) {
        if (!observed(i, s, d)) continue;
        count += 1;
        const v = value(i, s, d),
          gap = v - mean;
        mean += gap / count;
        square += gap * (v - mean);
      }
    }
    standard[d] = [mean, Math.sqrt(square / Math.max(count, 1)) || 1];
  }
  return (value(view.series, t, d) - standard[d][0]) / standard[d][1];
};

// All channels at a glance: what the model saw, and what moved it.
const mapPicture = () => {
  const rows = view.order,
    wide = widthOf("chart-map"),
    beside = wide >= 680;
  const one = Math.max(10, Math.min(onPaper() ? 10 : 22, 900 / rows.length)),
    tall = Math.max(one * rows.length, 24),
    cell = tall / rows.length,
    block = tall + 92;
  const picture = frame(
    "chart-map",
    `Maps of the values and the ${readable(view.map.label)} scores of all channels, the strongest on top`,
    beside ? block : 2 * block,
  );
  const names = nameRoom(wide),
    middle = names + (wide - names - 10) / 2;
  const panel = (title, scale, top, pick, text, stops, low, high, said, beyond) => {
    write(picture, scale.left, top + 13, fitted(title, scale.right - scale.left, 12, 600), { "font-weight": 600 });
    heatMap(picture, scale, top + 20, tall, rows, pick, stops, low, high);
    timeAxis(picture, scale, top + 20 + tall, false);
    colourBar(
      picture,
      scale.left,
      top + tall + 48,
      Math.min(300, scale.right - scale.left),
      stops,
      low,
      high,
      said,
      beyond,
    );
    picture.panels.push(panelOver(scale, top + 20, top + 20 + tall, mapTip(rows, text)));
  };
  const left = timeScale(view.zoom, names, beside ? middle - 10 : wide - 10),
    right = timeScale(view.zoom, beside ? middle + 10 : names, wide - 10),
    below = beside ? 0 : block;
  rowNames(picture, rows, names, 20, cell);
  if (!beside) rowNames(picture, rows, names, block + 20, cell);
  panel("Values", left, 0, standardised, valueText, VALUES, -2.5, 2.5, "spreads from the channel's mean", true);
  panel(
    `Scores by ${readable(view.map.label)}`,
    right,
    below,
    (t, d) => seenScore(view.map, d)(t),
    (t, d) => scoreText(view.map, t, d),
    ...colours(view.map),
    view.map.signed ? "down ← score → up" : "size of the score",
    Math.abs(view.map.top.value[view.series * view.map.top.count]) > 1.001 * view.map.limit[view.series],
  );
  finish(picture);
};

// What the methods say about the same series, each in its own scale.
const methodsPicture = () => {
  const rows = shownChannels(),
    tall = Math.max(30, (onPaper() ? 9 : 20) * rows.length),
    one = tall + 26;
  const picture = frame(
    "chart-methods",
    `The scores of ${counted(data.maps.length, "method", "methods")} on series ${seriesName(view.series)}`,
    one * data.maps.length + 40,
  );
  const names = nameRoom(picture.width),
    scale = timeScale(view.zoom, names, picture.width - 10);
  data.maps.forEach((map, place) => {
    const top = place * one + 20,
      name = readable(map.label) + (map.control ? " (control)" : "");
    write(picture, names, top - 6, fitted(name, scale.right - names, 12, 600), { "font-weight": 600 });
    rowNames(picture, rows, names, top, tall / rows.length);
    heatMap(picture, scale, top, tall, rows, (t, d) => seenScore(map, d)(t), ...colours(map));
    picture.panels.push(
      panelOver(
        scale,
        top,
        top + tall,
        mapTip(rows, (t, d) => `${readable(map.label)}: ${scoreText(map, t, d)}`),
      ),
    );
  });
  timeAxis(picture, scale, one * data.maps.length - 6);
  finish(picture);
};
