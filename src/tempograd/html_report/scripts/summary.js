// The view of all series: which channels and moments matter for which class.

const SHOWN = 20; // channels drawn as bars; the table has all

const summaryPart = () => {
  const place = Number(at("summary-method").value),
    kind = Number(at("summary-class").value);
  return { map: data.maps[place], group: data.summary.groups[kind], part: data.summary.maps[place][kind] };
};

const summaryTable = ({ map, part }, order) => {
  const finite = (v) => (Number.isFinite(v) ? v : null);
  const lines = order.map((d) =>
    row(
      [
        element("th", data.channels[d], { scope: "row" }),
        element("td", withError(part.size[d], part.size_error[d])),
        ...(map.signed ? [element("td", withError(part.push[d], part.push_error[d]))] : []),
      ],
      {
        "data-channel": d,
        "data-mean": part.push[d],
        "data-size": part.size[d],
        "data-error": finite(part.push_error[d]),
        "data-size-error": finite(part.size_error[d]),
      },
    ),
  );
  at("summary-table").tHead.rows[0].lastElementChild.hidden = !map.signed; // sizes have no direction
  at("summary-table").tBodies[0].replaceChildren(...lines);
};

const summaryBars = ({ map, part }, order) => {
  const shown = order.slice(0, SHOWN),
    one = map.signed ? 34 : 24,
    top = 4,
    bottom = top + one * shown.length;
  const picture = frame(
    "chart-summary-channels",
    "Mean effect of each channel, the strongest on top",
    bottom + 44,
  );
  const left = nameRoom(picture.width),
    right = picture.width - 10,
    error = (errors, d) => (Number.isFinite(errors[d]) ? errors[d] : 0);
  const low = map.signed ? Math.min(0, ...shown.map((d) => part.push[d] - error(part.push_error, d))) : 0;
  const high = Math.max(...shown.map((d) => part.size[d] + error(part.size_error, d)), low + 1e-30);
  const x = (v) => left + ((v - low) / (high - low)) * (right - left),
    { found, places } = ticks(low, high, Math.max(2, Math.floor((right - left) / 90)));
  for (const v of found) {
    picture.add("line", {
      x1: rounded(x(v)),
      x2: rounded(x(v)),
      y1: top,
      y2: bottom,
      stroke: v === 0 ? MUTED : RULE,
    });
    write(picture, x(v), bottom + 15, tickText(v, places), {
      "text-anchor": "middle",
      "font-size": 11,
      fill: MUTED,
    });
  }
  const said = map.signed
    ? "grey: size of effect; coloured: net push; thin: standard error"
    : "size of effect; thin: standard error";
  write(picture, Math.max(0, Math.min(left, picture.width - lengthOf(said, 11))), bottom + 34, said, {
    "font-size": 11,
    fill: MUTED,
  });
  const bar = (y, tall, v, e, fill, said) => {
    const box = picture.add("rect", {
      x: rounded(Math.min(x(0), x(v))),
      y: rounded(y),
      width: rounded(Math.abs(x(v) - x(0))),
      height: tall,
      fill,
    });
    box.append(shape("title", {}, `${said}: ${number(v)} ± ${number(e)}`));
    picture.add("line", {
      x1: rounded(x(v - e)),
      x2: rounded(x(v + e)),
      y1: y + tall / 2,
      y2: y + tall / 2,
      stroke: INK,
    });
  };
  shown.forEach((d, place) => {
    const y = top + place * one + 3;
    bar(
      y,
      13,
      part.size[d],
      error(part.size_error, d),
      map.signed ? MUTED : SIZE,
      `${data.channels[d]}, size of effect`,
    );
    if (map.signed)
      bar(
        y + 14,
        13,
        part.push[d],
        error(part.push_error, d),
        part.push[d] < 0 ? DOWN : UP,
        `${data.channels[d]}, net push`,
      );
  });
  rowNames(picture, shown, left, top, one);
  finish(picture);
};

const summaryMap = ({ map, part }, order) => {
  const signed = map.signed && at("summary-kind").value === "push",
    source = signed ? part.mean : part.mean_size;
  let full = 0;
  for (const v of source) full = Math.max(full, Math.abs(v));
  full = full || 1;
  const one = Math.max(10, Math.min(24, 900 / order.length)),
    tall = one * order.length,
    stops = signed ? SIGNED : UNSIGNED,
    low = signed ? -full : 0;
  const picture = frame(
    "chart-summary-map",
    signed
      ? "Mean score of each channel at each moment"
      : "Mean size of the scores of each channel at each moment",
    tall + 84,
  );
  const scale = timeScale([0, data.time - 1], nameRoom(picture.width), picture.width - 10),
    pick = (t, d) => source[t * data.depth + d];
  rowNames(picture, order, scale.left, 4, one);
  heatMap(picture, scale, 4, tall, order, pick, stops, low, full);
  timeAxis(picture, scale, 4 + tall, false, true);
  colourBar(
    picture,
    scale.left,
    tall + 36,
    Math.min(300, scale.right - scale.left),
    stops,
    low,
    full,
    signed ? "down ← mean score → up" : "mean size of the score",
  );
  picture.panels.push({
    ...panelOver(
      scale,
      4,
      4 + tall,
      mapTip(order, (t, d) => number(pick(t, d)), commonTimeText),
    ),
    pick: null,
    zoom: null,
  });
  finish(picture);
};

const showSummary = () => {
  const found = summaryPart();
  const order = [...found.part.size.keys()].sort((a, b) => found.part.size[b] - found.part.size[a] || a - b);
  at("summary-count").textContent = counted(found.group.count, "series", "series");
  at("summary-kind").closest("label").hidden = at("push-note").hidden = !found.map.signed;
  verdictInto("summary-certainty", found.map, found.map.certainty.whole, found.map.certainty.rough[0]);
  summaryTable(found, order);
  summaryBars(found, order);
  summaryMap(found, order);
  allCertaintyPicture(found.map);
};

const startSummary = () => {
  fill(
    at("summary-method"),
    data.maps.map((map, place) => [place, readable(map.label)]),
  );
  fill(
    at("summary-class"),
    data.summary.groups.map(({ kind }, place) => [place, kind === null ? "all" : className(kind)]),
  );
  at("summary-class").closest("label").hidden = data.summary.groups.length < 2;
  for (const id of ["summary-method", "summary-class", "summary-kind"])
    at(id).addEventListener("change", showSummary);
  showSummary();
};
