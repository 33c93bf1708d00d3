// The view of one series: its parts together, zoom and cursor, and what every control does.

const drawSeries = () => {
  channelsPicture();
  mapPicture();
  methodsPicture();
  if (view.map.removal?.score) removalPicture();
  certaintyPicture();
};

const refresh = () => {
  view.order = ordered(view.map, view.series);
  headline();
  showCertainty();
  showKeys();
  showScores();
  showTop();
  showRemoval();
  showReadout();
  showMistakes();
  drawSeries();
  keepState();
};

const zoomFields = (from, to) => {
  const low = Math.min(Math.max(Math.round(from), 0), data.time - 1);
  const high = Math.max(Math.min(Math.round(to), data.time - 1), low);
  view.zoom = [low, high];
  at("time-from").value = low;
  at("time-to").value = high;
  at("reset-zoom").disabled = low === 0 && high === data.time - 1;
};
const zoomTo = (from, to) => {
  zoomFields(from, to);
  drawSeries();
  keepState();
};

const moveCursor = (t) => {
  view.cursor = Math.min(Math.max(t, 0), data.time - 1);
  showReadout();
  channelsPicture();
};

const startSeries = () => {
  view.map = data.maps[0];
  view.zoom = [0, data.time - 1];
  const different = (values) => [...new Set(values ?? [])].sort((a, b) => a - b),
    one = different(data.target).length < 2 && data.predicted !== null;
  kindOf = one ? data.predicted : data.target;
  const kinds = different(kindOf);
  if (one) at("filter-class").previousSibling.textContent = "Predicted class ";
  fill(at("filter-class"), [["all", "all"], ...kinds.map((k) => [k, className(k)])]);
  at("filter-class").closest("label").hidden = kinds.length < 2;
  const steps = data.outcome ? {} : data.steps?.alarm ? STEP_OUTCOMES : {};
  const outcomes = (data.outcome ? OUTCOMES : Object.keys(steps)).filter((kind) =>
    data.ids.some((_, i) => hasOutcome(i, kind)),
  );
  fill(at("filter-outcome"), [
    ["all", "all"],
    ...outcomes.map((kind) => [kind, steps[kind] ?? outcomeName(kind)]),
  ]);
  at("filter-outcome").closest("label").hidden = outcomes.length === 0;
  fill(at("sort"), [
    ["telling", "certain effect, largest first"],
    ["id", "id"],
    ["effect", "size of effect, largest first"],
    ...(data.steps?.alarm ? [["wrong", "wrong steps, most first"]] : []),
    ...(data.maps.some((map) => map.certainty.error) ? [["error", "error, largest first"]] : []),
    ...(explainedScore(0) === null ? [] : [["confidence", "explained output, lowest first"]]),
  ]);
  fill(
    at("channel-names"),
    data.channels.map((name) => [name, ""]),
  );
  fill(
    at("method"),
    data.maps.map((map, place) => [place, readable(map.label)]),
  );
  const many = [1, 3, 6, 12, 24].filter((n) => n < data.depth);
  fill(
    at("channels-shown"),
    [...many, data.depth].map((n) => [n, n === data.depth ? `all ${n}` : `the strongest ${n}`]),
  );
  view.channels = Math.min(6, data.depth);
  at("channels-shown").value = view.channels;
  for (const id of ["time-from", "time-to", "cursor"]) at(id).max = data.time - 1;
  at("time-to").value = data.time - 1;
  at("reset-zoom").disabled = true;
  at("removal").max = data.counts.length - 1;
  at("removing").hidden = !data.maps[0].removal;
  at("removal-curves").hidden = !data.maps[0].removal?.score;
  at("removal-keys").replaceChildren(...methodKeys());
  at("removal-keys").hidden = data.maps.length === 1;

  // Enter would reload the page
  for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["filter-class", "filter-outcome"]) at(id).addEventListener("change", filterSeries);
  at("sort").addEventListener("change", sortSeries);
  at("series").addEventListener("change", () => showSeries(list[at("series").selectedIndex]));
  at("previous").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  at("find").addEventListener("change", findSeries);
  at("method").addEventListener("change", showMethod);
  at("channels-shown").addEventListener("change", () => {
    view.channels = Number(at("channels-shown").value);
    drawSeries();
  });
  at("top-more").addEventListener("click", () => {
    const all = at("top").classList.toggle("all");
    at("top-more").textContent = all ? "Only five" : "Five more";
    at("top-more").setAttribute("aria-expanded", String(all));
  });
  for (const id of ["time-from", "time-to"])
    at(id).addEventListener("change", () => zoomTo(Number(at("time-from").value), Number(at("time-to").value)));
  at("reset-zoom").addEventListener("click", () => zoomTo(0, data.time - 1));
  at("cursor").addEventListener("input", () => moveCursor(Number(at("cursor").value)));
  at("removal").addEventListener("input", remove);
  at("find-channel").addEventListener("change", findChannel);
  at("find-channel").closest("label").hidden = data.depth < 2;
  at("copy-link").addEventListener("click", copyLink);
  closeMenus();
};

// A menu closes when one clicks elsewhere, or presses Escape.
const closeMenus = () => {
  const folds = [...document.querySelectorAll(".menu, .badge")],
    close = (inside) => {
      for (const fold of folds) if (!inside || !fold.contains(inside)) fold.open = false;
    };
  document.addEventListener("pointerdown", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    const open = folds.find((fold) => fold.open && fold.contains(document.activeElement));
    if (event.key !== "Escape") return;
    close(null);
    open?.querySelector("summary").focus();
  });
};

// A channel by its name, or a part of it: it comes first, and the strongest follow.
const findChannel = () => {
  const wanted = at("find-channel").value.trim().toLowerCase(),
    names = data.channels.map((name) => name.toLowerCase()),
    exact = names.indexOf(wanted),
    found = exact >= 0 ? exact : view.order.find((d) => names[d].includes(wanted));
  const known = wanted === "" || found !== undefined;
  view.found = wanted !== "" && known ? found : null;
  at("find-channel").setAttribute("aria-invalid", String(!known));
  const answer = known
    ? `${data.channels[found]}: ${view.order.indexOf(found) + 1} of ${data.depth} by effect`
    : `There is no channel ${at("find-channel").value}.`;
  at("find-channel-answer").textContent = wanted === "" ? "" : answer;
  drawSeries();
  keepState();
};
const copyLink = async () => {
  keepState();
  try {
    await navigator.clipboard.writeText(location.href);
    at("saved").textContent = "Copied.";
  } catch {
    at("saved").textContent = "Copy it from the address bar: it holds series, method, zoom and group.";
  }
};
