// Groups of series, their means with intervals over the series, and how two of them differ.

// Half-width of the 95 % interval of Student's t, between the values that came with the page; see views/groups.py.
const student = (freedom, table = data.student) => {
  const place = Math.min(1, 1 / freedom) * (table.length - 1),
    low = Math.min(Math.floor(place), table.length - 2);
  return Math.exp(table[low] + (place - low) * (table[low + 1] - table[low]));
};
const meanAndError = (values) => {
  const count = values.length,
    mean = values.reduce((sum, v) => sum + v, 0) / count,
    square = values.reduce((sum, v) => sum + (v - mean) ** 2, 0);
  return [mean, count > 1 ? Math.sqrt(square / (count * (count - 1))) : Infinity];
};
const halfOf = (error, freedom, table) =>
  error === 0 ? 0 : Number.isFinite(error) ? student(freedom, table) * error : Infinity;
const withInterval = (values) => {
  const [mean, error] = meanAndError(values),
    half = halfOf(error, values.length - 1);
  return { mean, error, low: mean - half, high: mean + half };
};

const blockSum = (map, i, d, b) => map.blocks[(i * data.depth + d) * (data.edges.length - 1) + b];
const channelSum = (map, i, d) => {
  let sum = 0;
  for (let b = 0; b < data.edges.length - 1; b += 1) sum += blockSum(map, i, d, b);
  return sum;
};

// What a risk is: the probability of class 1 of two, else what was explained.
const ranked = () => {
  const two = data.output === "probability" && data.classes.length === 2 && !data.steps,
    of = (i) => (two ? afterRemoval(data.maps[0], i, 0, 1) : explainedScore(i));
  return {
    name: two ? `probability of ${className(1)}` : "explained output",
    order: data.ids.map((_, i) => i).sort((a, b) => of(b) - of(a) || a - b),
  };
};

const groups = {
  hand: [], // series that were named one by one
  offered: [], // [key, name in the menu, rows, name in a sentence]

  start() {
    const every = data.ids.map((_, i) => i),
      add = (key, name, rows, brief = name) => {
        if (rows.length) this.offered.push([key, name, rows, brief]);
      },
      byKind = (key, kinds, name) => {
        const found = [...new Set(kinds ?? [])].filter((k) => k !== null).sort((a, b) => a - b);
        if (found.length > 1) for (const k of found) add(`${key}:${k}`, name(className(k)), every.filter((i) => kinds[i] === k));
      };
    add("all", "all series", every);
    byKind("explained", data.target, (name) => `explained: ${name}`);
    for (const kind of data.outcome ? OUTCOMES : data.steps?.alarm ? Object.keys(STEP_OUTCOMES) : []) {
      const name = data.outcome ? outcomeName(kind) : STEP_OUTCOMES[kind],
        short = SHORT[kind] && data.outcome ? `${SHORT[kind]}s` : undefined;
      add(`outcome:${kind}`, name, every.filter((i) => hasOutcome(i, kind)), short);
    }
    if (data.target === null || new Set(data.target).size < 2) byKind("predicted", data.predicted, (name) => `predicted: ${name}`);
    byKind("label", data.label, (name) => `truly ${name}`);
    if (explainedScore(0) !== null && every.length > 3) {
      const { name, order } = ranked(),
        quarter = Math.floor(every.length / 4);
      add("high", `highest quarter by ${name}`, order.slice(0, quarter));
      add("low", `lowest quarter by ${name}`, order.slice(-quarter));
    }
    const entries = this.offered.map(([key, name, rows]) => [key, `${name} (${rows.length.toLocaleString("en")})`]);
    fill(at("group-a"), [...entries, ["hand", "chosen by hand"]]);
    fill(at("group-b"), [["none", "nothing"], ["others", "all others"], ...entries.slice(1)]);
  },

  rows(key) {
    return key === "hand" ? this.hand : (this.offered.find((group) => group[0] === key)?.[2] ?? []);
  },
  name(key) {
    if (key === "hand") return "chosen series";
    return key === "others" ? "all others" : (this.offered.find((group) => group[0] === key)?.[3] ?? key);
  },
  // The series of A, and those of B that are not in A: a series can be in one group only.
  pair() {
    const a = this.rows(at("group-a").value),
      key = at("group-b").value,
      inside = new Set(a),
      b = key === "others" ? data.ids.map((_, i) => i) : this.rows(key);
    return { a, b: key === "none" ? null : b.filter((i) => !inside.has(i)) };
  },

  chosen() {
    const [a, b] = [at("group-a").value, at("group-b").value];
    return {
      ...(a === "all" ? {} : { a }),
      ...(b === "none" ? {} : { b }),
      ...(a === "hand" && this.hand.length ? { ids: this.hand.map((i) => data.ids[i]).join(".") } : {}),
    };
  },
  choose(parts) {
    const known = (id, key, other) => {
      at(id).value = [...at(id).options].some((option) => option.value === key) ? key : other;
    };
    known("group-a", parts.get("a"), "all");
    known("group-b", parts.get("b"), "none");
    this.pick((parts.get("ids") ?? "").split("."));
  },
  // Takes ids or names; returns those that nobody has.
  pick(names) {
    const wanted = names.map((name) => name.trim()).filter(Boolean);
    this.hand = [...new Set(wanted.map(placeOf).filter((i) => i >= 0))];
    at("hand").value = this.hand.map(seriesName).join(", ");
    return wanted.filter((name) => placeOf(name) < 0);
  },
};

// First minus second, channel by channel, with the interval of Welch.
const difference = (map, a, b, d) => {
  const [[one, oneError], [other, otherError]] = [a, b].map((rows) => meanAndError(rows.map((i) => channelSum(map, i, d)))),
    [v, w] = [oneError ** 2, otherError ** 2],
    error = Math.sqrt(v + w),
    below = v ** 2 / Math.max(a.length - 1, 1) + w ** 2 / Math.max(b.length - 1, 1),
    freedom = below > 0 && Number.isFinite(below) ? (v + w) ** 2 / below : 1,
    half = halfOf(error, freedom),
    gap = one - other,
    together = Math.abs(gap) > halfOf(error, freedom, data.studentAll); // for all channels at once
  return { d, one, other, gap, error, low: gap - half, high: gap + half, certain: Math.abs(gap) > half, together };
};

// The means of one group as the summary shows them: Python's where they are about all series, else of these rows.
const groupPart = (map, key, rows) => {
  const place = data.summary.groups.findIndex(({ kind }) => (kind === null ? "all" : `explained:${kind}`) === key);
  if (place >= 0) return { count: data.summary.groups[place].count, ...data.summary.maps[data.maps.indexOf(map)][place] };
  const sums = (pick) => Array.from({ length: data.depth }, (_, d) => meanAndError(rows.map((i) => pick(i, d)))),
    [push, size] = [sums((i, d) => channelSum(map, i, d)), sums((i, d) => map.effect[i * data.depth + d])],
    [means, errors] = [0, 1].map((k) => (found) => found.map((pair) => pair[k]));
  return { count: rows.length, push: means(push), push_error: errors(push), size: means(size) };
};

// In words: the channels that certainly push, the strongest first, and where two groups differ.
const clear = ({ low, high }) => low > 0 || high < 0;
const intervalText = ({ mean, low, high }) => {
  const ends = [mean, low, high],
    [middle, from, to] = alike(ends, Math.max(...ends.filter(Number.isFinite).map(Math.abs)), 2);
  return `${mean > 0 ? "+" : ""}${middle} [${from}, ${to}]`;
};
// Beside probabilities shares of the push, as in views/drivers.py: its points they would be taken for.
const probable = () => data.output === "probability" && !data.picked;
const signedText = (v) => `${v > 0 ? "+" : ""}${number(v)}`;
const shareText = ({ mean, low, high }, size) => {
  const all = size.reduce((sum, v) => sum + v, 0),
    share = (v) => Math.round((100 * v * (mean < 0 ? -1 : 1)) / all) || 0,
    ends = [share(low), share(high)].sort((a, b) => a - b);
  return `${share(mean)} % of the push${Number.isFinite(low) ? ` [${ends.join(", ")}]` : ""}`;
};
const NAMED = 0.1; // of the strongest channel: what is smaller is not worth a place in a sentence, as in views/drivers.py
const NOTABLE = 1.5; // times what a block of time would have if all were alike
const groupSentence = ({ map, a, order, part }, key) => {
  const strong = order
      .filter((d) => part.size[d] >= NAMED * part.size[order[0]])
      .map((d) => ({ d, ...withInterval(a.map((i) => channelSum(map, i, d))) })),
    sure = a.length > 1 ? strong.filter(clear).sort((x, y) => nearer(y) - nearer(x) || x.d - y.d) : strong,
    how = ({ mean }) => (map.signed ? (mean < 0 ? WORDS.down : WORDS.up) : "matters"),
    plain = (each) => (a.length > 1 ? intervalText(each) : signedText(each.mean)), // one has no interval
    numbers = (each) => (probable() ? shareText(each, part.size) : plain(each)),
    named = sure.slice(0, 3).map((each) => `${data.channels[each.d]} ${how(each)} (${numbers(each)})`).join(", "),
    size = (i, b) => order.reduce((all, d) => all + Math.abs(blockSum(map, i, d, b)), 0),
    sizes = data.edges.slice(1).map((_, b) => a.reduce((sum, i) => sum + size(i, b), 0)),
    whole = sizes.reduce((sum, v) => sum + v, 0),
    best = sizes.indexOf(Math.max(...sizes)),
    percent = Math.round((100 * sizes[best]) / whole),
    notable = whole && sizes[best] >= (NOTABLE * whole) / sizes.length,
    when = notable ? `; ${percent} % of all effect falls on ${data.blockTimes[best]}` : "",
    name = key === "all" ? `Over ${counted(a.length, "series", "series")}` : `${groups.name(key)} (${a.length.toLocaleString("en")})`,
    both = order.filter((d) => map.effects[d].strength > 0).sort((x, y) => map.effects[y].strength - map.effects[x].strength),
    values = both.slice(0, 3).map((d) => `${data.channels[d]} (${map.effects[d].words})`).join(", "),
    none = `no channel pushes one way in all series${values && `; it depends on the values of ${values}`}`;
  return `${name}: ${named || none}${when}.`;
};
const nearer = ({ low, high }) => Math.max(low, -high, 0); // the limit of an interval that is nearer to 0
const differenceSentence = (found, names, counts) => {
  const named = found.filter((each) => each.together),
    both = names.map((name, k) => `${name} (${counts[k].toLocaleString("en")})`).join(" and "),
    said = named.slice(0, 3).map((each) => `${data.channels[each.d]} ${intervalText({ mean: each.gap, ...each })}`),
    more = named.length > 3 ? ` and ${counted(named.length - 3, "more channel", "more channels")}` : "";
  if (Math.min(...counts) < 2) return `${both} cannot be compared: a group needs two series or more.`;
  return `${both} differ in ${said.join(", ") || "no channel by more than chance explains"}${more}.`;
};
