// What the view of all series says: its sentences and tables, and what its controls do.

const finite = (v) => (Number.isFinite(v) ? v : null);
const summaryTable = ({ map, part }, order) =>
  tableOf(
    "summary-table",
    ["channel", "size of effect", ...(map.signed ? ["net push"] : [])], // sizes have no direction
    order.map((d) =>
      row(
        [
          element("th", data.channels[d], { scope: "row" }),
          element("td", number(part.size[d])),
          ...(map.signed ? [element("td", withError(part.push[d], part.push_error[d]))] : []),
        ],
        { "data-channel": d, "data-mean": part.push[d], "data-size": part.size[d], "data-error": finite(part.push_error[d]) },
      ),
    ),
  );
const blockCell = (found) => {
  const numbers = [found.mean, found.low, found.high],
    [middle, low, high] = alike(numbers, Math.max(...numbers.map(Math.abs))),
    exact = { "data-mean": found.mean, "data-low": found.low, "data-high": found.high },
    cell = element("td", middle, { "data-channel": found.d, "data-block": found.b, ...exact });
  cell.append(element("small", `${low} to ${high}`));
  return cell;
};
const showBlocksTable = (map, rows, order) =>
  tableOf(
    "blocks-table",
    ["channel", ...data.blockTimes],
    blockCells(map, rows, order).map((line, place) =>
      row([element("th", data.channels[order[place]], { scope: "row" }), ...line.map(blockCell)]),
    ),
  );
const groupsRow = (each) => {
  const ends = [each.one, each.other, each.gap, each.low, each.high],
    [one, other, gap, low, high] = alike(ends, Math.max(...ends.slice(0, 3).map(Math.abs))),
    cells = [one, other, gap, `${low} to ${high}`].map((text) => element("td", text)),
    exact = { "data-first": each.one, "data-second": each.other, "data-gap": each.gap, "data-low": each.low, "data-high": each.high };
  return row([element("th", data.channels[each.d], { scope: "row" }), ...cells], { "data-channel": each.d, ...exact });
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
  tableOf("groups-table", ["channel", ...names, "difference", "95 % interval"], found.map(groupsRow));
};

// The channel that most certainly moved a series.
const strongest = (map) => map.effects.reduce((best, { strength }, d) => (strength > map.effects[best].strength ? d : best), 0);

const showSummary = () => {
  const map = data.maps[at("summary-method").value],
    key = at("group-a").value,
    { a, b } = groups.pair();
  at("hand-label").hidden = key !== "hand";
  at("summary-count").textContent = a.length ? countText(key, a) : "no series is chosen";

  verdictInto("summary-certainty", "summary-badge", map, 0);
  at("trust").hidden = !data.table || data.table.methods.length < 2;
  if (!at("trust").hidden) scoresPicture();
  keepState();
  if (!a.length) return;
  const part = groupPart(map, key, a),
    order = [...part.size.keys()].sort((x, y) => part.size[y] - part.size[x] || x - y);
  summaryNow = { map, a, b, part, order };
  showOutcomes(map, a);
  showGroups(summaryNow);
  blocksPicture(map, a, order);
  swarmPicture(map, a, order);
  if (at("depend-channel").value === "") at("depend-channel").value = strongest(map);
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
  showBlocksTable(summaryNow.map, summaryNow.a, summaryNow.order);
};

const startSummary = () => {
  fill(at("summary-method"), data.maps.map((map, place) => [place, readable(map.label)]));
  fill(at("depend-channel"), data.channels.map((_, d) => [d, channelName(d)]));
  at("depend-channel").value = "";
  for (const id of ["summary-method", "group-a", "group-b"]) at(id).addEventListener("change", showSummary);
  at("numbers").addEventListener("toggle", showNumbers);
  at("depend-channel").addEventListener("change", () => chooseDepend(Number(at("depend-channel").value)));
  at("hand").addEventListener("change", () => {
    const unknown = groups.pick(at("hand").value.split(","));
    at("hand-answer").textContent = unknown.length ? `There is no series ${unknown.join(", ")} in this report.` : "";
    showSummary();
  });
};
