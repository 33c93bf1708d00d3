// The view of all series: which channels and moments matter for which class.

const SHOWN = 20; // channels drawn as bars; the table has all

let summaryNow = null; // what the view of all series shows: method, groups, and the channels in their order

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
    one = onPaper() ? 18 : map.signed ? 34 : 24,
    tall = onPaper() ? 7 : 13,
    top = 4,
    bottom = top + one * shown.length;
  const picture = frame(
    "chart-summary-channels",
    "Mean effect of each channel, the strongest on top",
    bottom + 44,
  );
  const left = nameRoom(picture.width),
    right = picture.width - 10,
    error = (errors, d) => (Number.isFinite(errors[d]) ? halfOf(errors[d], part.count - 1) : 0);
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
    ? "grey: size of effect; coloured: net push; thin: 95 % interval"
    : "size of effect; thin: 95 % interval";
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
    box.append(shape("title", {}, `${said}: ${number(v)}, 95 %: ${number(v - e)} to ${number(v + e)}`));
    picture.add("line", {
      x1: rounded(x(v - e)),
      x2: rounded(x(v + e)),
      y1: y + tall / 2,
      y2: y + tall / 2,
      stroke: INK,
    });
  };
  shown.forEach((d, place) => {
    const y = top + place * one + (onPaper() ? 1 : 3);
    bar(
      y,
      tall,
      part.size[d],
      error(part.size_error, d),
      map.signed ? MUTED : SIZE,
      `${data.channels[d]}, size of effect`,
    );
    if (map.signed)
      bar(
        y + tall + 1,
        tall,
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
  const full = robust(source),
    beyond = source.some((v) => Math.abs(v) > 1.001 * full),
    one = Math.max(10, Math.min(onPaper() ? 10 : 24, 900 / order.length)),
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
    beyond,
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

// The strongest channels of the group in words, and where two groups differ.
const intervalText = ({ mean, low, high }) => {
  const ends = [mean, low, high],
    [middle, from, to] = alike(ends, Math.max(...ends.filter(Number.isFinite).map(Math.abs)), 2);
  return `${mean > 0 ? "+" : ""}${middle} [${from}, ${to}]`;
};
const NAMED = 0.1; // of the strongest channel: what is smaller is not worth a place in a sentence, as in views/drivers.py
const NOTABLE = 1.5; // times what a block of time would have if all were alike
const groupSentence = ({ map, a, order, part }, key) => {
  const strong = order.slice(0, 3).filter((d) => part.size[d] >= NAMED * part.size[order[0]]),
    found = strong.map((d) => ({ d, ...withInterval(a.map((i) => channelSum(map, i, d))) })),
    how = ({ mean }) => (map.signed ? (mean < 0 ? WORDS.down : WORDS.up) : "matters"),
    known = (each) => `${intervalText(each)}${clear(each) ? "" : ", may be chance"}`,
    sure = (each) => (a.length > 1 ? known(each) : `${each.mean > 0 ? "+" : ""}${number(each.mean)}`), // one has no interval
    what = (each) => `${data.channels[each.d]} ${how(each)} (${sure(each)})`,
    size = (i, b) => order.reduce((all, d) => all + Math.abs(blockSum(map, i, d, b)), 0),
    sizes = data.edges.slice(1).map((_, b) => a.reduce((sum, i) => sum + size(i, b), 0)),
    whole = sizes.reduce((sum, v) => sum + v, 0),
    best = sizes.indexOf(Math.max(...sizes)),
    share = Math.round((100 * sizes[best]) / whole),
    when = whole && sizes[best] >= (NOTABLE * whole) / sizes.length ? `; ${share} % of all effect falls on ${data.blockTimes[best]}` : "",
    name = key === "all" ? `Over ${counted(a.length, "series", "series")}` : `${groups.name(key)} (${a.length.toLocaleString("en")})`;
  return `${name}: ${found.map(what).join(", ")}${when}.`;
};
const differenceSentence = (found, names, counts) => {
  const alone = found.filter((each) => each.certain),
    certain = found.filter((each) => each.together),
    named = certain.length ? certain : alone,
    both = names.map((name, k) => `${name} (${counts[k].toLocaleString("en")})`).join(" and "),
    said = named.slice(0, 3).map((each) => `${data.channels[each.d]} ${intervalText({ mean: each.gap, ...each })}`),
    more = named.length > 3 ? ` and ${counted(named.length - 3, "more channel", "more channels")}` : "",
    chance = number(Number((0.05 * data.depth).toPrecision(2)));
  if (Math.min(...counts) < 2) return `${both} cannot be compared: a group needs two series or more.`;
  if (!alone.length) return `${both} differ in no channel by more than chance explains.`;
  if (certain.length) return `${both} differ in ${said.join(", ")}${more}.`;
  return `${both} may differ in ${said.join(", ")}${more}: of ${counted(data.depth, "channel", "channels")}, ${chance} do so by chance.`;
};

const sayOfGroups = (text) => {
  at("summary-sentence").replaceChildren(...unbroken(text.slice(0, 1).toUpperCase() + text.slice(1)));
  at("summary-spread").hidden = !text.includes("]");
};
const showGroups = ({ map, a, b, order }) => {
  const keys = [at("group-a").value, at("group-b").value];
  at("comparing").hidden = !b?.length;
  sayOfGroups(groupSentence(summaryNow, keys[0]));
  if (!b?.length) return;
  const names = keys.map((key) => groups.name(key)),
    found = order.map((d) => difference(map, a, b, d)).sort((x, y) => Math.abs(y.gap) - Math.abs(x.gap) || x.d - y.d),
    kinds = new Set([...a, ...b].map((i) => data.target?.[i])),
    mixed = kinds.size > 1 ? " Different classes were explained: up means towards each series’ own." : "";
  sayOfGroups(differenceSentence(found, names, [a.length, b.length]) + mixed);
  groupsPicture(found, names);
  showGroupsTable(found, names);
};

const showSummary = () => {
  const map = data.maps[at("summary-method").value],
    key = at("group-a").value,
    { a, b } = groups.pair();
  at("hand-label").hidden = key !== "hand";
  at("summary-count").textContent = a.length ? countText(key, a) : "no series is chosen";
  at("summary-kind").closest("label").hidden = at("push-note").hidden = !map.signed;
  verdictInto("summary-certainty", "summary-badge", map, 0);
  if (data.table) scoresPicture();
  allCertaintyPicture(map);
  keepState();
  if (!a.length) return;
  const part = groupPart(map, key, a),
    order = [...part.size.keys()].sort((x, y) => part.size[y] - part.size[x] || x - y);
  summaryNow = { map, a, b, part, order };
  showGroups(summaryNow);
  blocksPicture(map, a, order);
  swarmPicture(map, a, order);
  if (at("depend-channel").value === "") at("depend-channel").value = order[0];
  dependPicture(map, a, Number(at("depend-channel").value));
  showNumbers();
};
const countText = (key, a) => {
  const place = data.summary.groups.findIndex(({ kind }) => (kind === null ? "all" : `explained:${kind}`) === key),
    count = place >= 0 ? data.summary.groups[place].count : a.length;
  const all = counted(count, "series", "series");
  return count > a.length ? `${all}, ${a.length.toLocaleString("en")} of them in this file` : all;
};
// What is folded away is drawn when it is opened.
const showNumbers = () => {
  if (!at("numbers").open || !summaryNow) return;
  summaryTable(summaryNow, summaryNow.order);
  summaryBars(summaryNow, summaryNow.order);
  summaryMap(summaryNow, summaryNow.order);
  showBlocksTable(summaryNow.map, summaryNow.a, summaryNow.order);
};

const startSummary = () => {
  fill(
    at("summary-method"),
    data.maps.map((map, place) => [place, readable(map.label)]),
  );
  fill(
    at("depend-channel"),
    data.channels.map((_, d) => [d, channelName(d)]),
  );
  at("depend-channel").value = "";
  for (const id of ["summary-method", "group-a", "group-b"]) at(id).addEventListener("change", showSummary);
  at("summary-kind").addEventListener("change", showNumbers);
  at("numbers").addEventListener("toggle", showNumbers);
  at("depend-channel").addEventListener("change", () => chooseDepend(Number(at("depend-channel").value)));
  at("hand").addEventListener("change", () => {
    const unknown = groups.pick(at("hand").value.split(","));
    at("hand-answer").textContent = unknown.length ? `There is no series ${unknown.join(", ")} in this report.` : "";
    showSummary();
  });
};
