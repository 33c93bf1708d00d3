// For who answers for many predictions: how many came out how, what carried them, and each mistake by its name.

const WRONG = new Set(["FP", "FN", "wrong"]);
const MISTAKES_SHOWN = 12; // by name, of one pattern
const PATTERNS = 3; // of each class

const tileOf = ([key, name, rows]) => {
  const kind = key.split(":")[1],
    item = element("button", "", { type: "button", "aria-pressed": String(at("group-a").value === key), "data-group": key });
  if (key.startsWith("outcome:") && WRONG.has(kind)) item.className = "wrong";
  const words = /\((said .*)\)$/.exec(name)?.[1] ?? name;
  item.append(element("b", rows.length.toLocaleString("en")), element("span", words));
  item.addEventListener("click", () => {
    at("group-a").value = at("group-a").value === key ? "all" : key;
    showSummary();
    at("tiles").querySelector(`[data-group="${key}"]`).focus();
  });
  return item;
};

// What carried the predictions of some series, by the class that was said, the commonest first.
const patternsOf = (map, rows) => {
  const kinds = data.predicted ?? data.target,
    found = new Map();
  for (const i of rows) {
    const kind = kinds ? kinds[i] : null,
      key = `${kind} ${patternOf(i, map)}`;
    if (!found.has(key)) found.set(key, { kind, text: patternOf(i, map), rows: [] });
    found.get(key).rows.push(i);
  }
  const all = [...found.values()].sort((a, b) => b.rows.length - a.rows.length),
    classes = [...new Set(all.map(({ kind }) => kind))].sort((a, b) => b - a); // of two classes, the alarm first
  return classes.flatMap((kind) => {
    const own = all.filter((each) => each.kind === kind),
      count = own.reduce((sum, each) => sum + each.rows.length, 0);
    return own.slice(0, PATTERNS).map((each) => ({ ...each, count }));
  });
};
const linkTo = (i, name) => {
  const link = element("button", name, { type: "button", class: "quiet", "data-series": data.ids[i] });
  link.addEventListener("click", () => {
    openTab("series");
    goTo(i);
    at("headline").focus();
  });
  return link;
};
const patternRow = ({ kind, text, rows, count }) => {
  const line = element("li", ""),
    what = kind === null ? "" : ` predicted as ${className(kind)}`,
    wrong = data.outcome ? rows.filter((i) => WRONG.has(data.outcome[i])) : [],
    listed = wrong.slice(0, MISTAKES_SHOWN),
    more = wrong.length - listed.length;
  line.append(element("b", text), element("span", ` ${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")}${what}; `));
  const right = rows.find((i) => !wrong.includes(i));
  if (right !== undefined) line.append(linkTo(right, `such as ${seriesName(right)}`), wrong.length ? "; " : "");
  if (wrong.length) line.append(element("span", "wrong: "));
  line.append(...listed.flatMap((i) => [linkTo(i, seriesName(i)), " "]), more > 0 ? `and ${more} more` : "");
  return line;
};
const showOutcomes = (map, rows) => {
  const tiles = ["outcome:", "predicted:", "explained:"]
    .map((start) => groups.offered.filter(([key]) => key.startsWith(start)))
    .find((found) => found.length > 0);
  at("tiles").replaceChildren(...(tiles ?? []).map(tileOf));
  const told = map.control ? [] : patternsOf(map, rows);
  at("patterns").replaceChildren(...told.map(patternRow));
  at("patterns-title").hidden = told.length === 0;
};
