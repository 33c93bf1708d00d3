// Start: unpack, draw the first series, then the rest.

const TABS = ["series", "summary", "about"];

const openTab = (name, focus = false) => {
  for (const tab of TABS) {
    const open = tab === name,
      button = at(`tab-${tab}`);
    button.setAttribute("aria-selected", String(open));
    button.tabIndex = open ? 0 : -1;
    at(`view-${tab}`).hidden = !open;
    if (open && focus) button.focus();
  }
  OPEN.view = name;
  if (name === "summary") showSummary();
  if (name === "series" && data) drawSeries();
  keepState();
};

// The screen's own theme, until the button says otherwise; the choice is kept for the next visit, if the browser may.
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const showTheme = () => {
  at("theme").setAttribute("aria-pressed", String(isDark()));
  readColours();
  redraw();
};
const KEPT = "tempograd-theme";
const turnTheme = () => {
  const other = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = other;
  try {
    localStorage.setItem(KEPT, other);
  } catch {} // a browser that keeps nothing
  showTheme();
};
const startTheme = () => {
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {} // as above
  readColours();
  at("theme").setAttribute("aria-pressed", String(isDark()));
  at("theme").addEventListener("click", turnTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
};

const turn = (event) => {
  const here = TABS.indexOf(event.target.id.replace("tab-", ""));
  const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  openTab(TABS[(next + TABS.length) % TABS.length], true);
};

const redraw = () => {
  if (!at("view-series").hidden) drawSeries();
  if (!at("view-summary").hidden) showSummary();
};

// On paper all three views follow each other, with pictures drawn for its width, so that their letters stay readable.
let themeBefore = null,
  openBefore = [];
const preparePrint = () => {
  const root = document.documentElement;
  openBefore = [...document.querySelectorAll(".fold")].map((fold) => [fold, fold.open]);
  for (const [fold] of openBefore) fold.open = true;
  themeBefore = root.dataset.theme ?? null;
  root.dataset.theme = "light";
  readColours();
  document.body.classList.add("paper");
  for (const tab of TABS) at(`view-${tab}`).hidden = false;
  redraw();
};
const afterPrint = () => {
  const root = document.documentElement;
  if (themeBefore === null) delete root.dataset.theme;
  else root.dataset.theme = themeBefore;
  readColours();
  document.body.classList.remove("paper");
  for (const [fold, open] of openBefore) fold.open = open;
  openTab(TABS.find((tab) => at(`tab-${tab}`).getAttribute("aria-selected") === "true"));
};

// The address keeps what is shown, so that a link or a reload shows it again: #series=7&method=timing&from=3&to=9.

const OPEN = { view: "series" }; // the tab that is open
let restoring = true; // while the page starts, or follows an address, it writes none

const state = () => {
  const parts = new URLSearchParams(),
    [from, to] = view.zoom;
  parts.set("series", data.ids[view.series]);
  if (view.map !== data.maps[0]) parts.set("method", view.map.label);
  if (from > 0 || to < data.time - 1) {
    parts.set("from", from);
    parts.set("to", to);
  }
  if (pinned.series !== null) parts.set("with", data.ids[pinned.series]);
  if (view.found !== null) parts.set("channel", data.channels[view.found]);
  if (OPEN.view !== "series") parts.set("view", OPEN.view);
  for (const [name, key] of Object.entries(groups.chosen())) parts.set(name, key);
  return parts;
};
const keepState = () => {
  if (!restoring) history.replaceState(null, "", `#${state()}`);
};

const restore = () => {
  const given = location.hash.slice(1).replace(/^series-/, "series="),
    parts = new URLSearchParams(given),
    number = (name, other) => (/^\d+$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : other);
  restoring = true;
  const wanted = data.ids.findIndex((id) => String(id) === parts.get("series")),
    method = data.maps.findIndex((map) => map.label === parts.get("method")),
    channel = data.channels.indexOf(parts.get("channel"));
  view.map = data.maps[Math.max(method, 0)];
  at("method").value = Math.max(method, 0);
  view.found = channel >= 0 ? channel : null;
  at("find-channel").value = channel >= 0 ? data.channels[channel] : "";
  if (wanted >= 0) at("filter-class").value = at("filter-outcome").value = "all";
  listSeries();
  const beside = data.ids.findIndex((id) => String(id) === parts.get("with"));
  zoomFields(number("from", 0), number("to", data.time - 1));
  groups.choose(parts);
  pinned.series = null;
  if (list.length) showSeries(wanted >= 0 ? wanted : list[0]);
  if (beside >= 0) pin(beside);
  openTab(TABS.includes(parts.get("view")) ? parts.get("view") : "series");
  restoring = false;
};

// Pictures and tables as files, made inside the page.

const download = (name, type, parts) => {
  const link = element("a", "", { download: name });
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

const fileName = (id) => {
  const what = OPEN.view === "series" ? seriesName(view.series) : "all series";
  return `${what} ${id.replace("chart-", "")}`.replace(/[^\p{L}\p{N}]+/gu, "-");
};
// All plots of a picture on one sheet of paper.
const savePicture = (id) => {
  const box = at(id).querySelector(".plots").getBoundingClientRect(),
    sheet = element("canvas", ""),
    pen = sheet.getContext("2d");
  [sheet.width, sheet.height] = [box.width, box.height].map((side) => Math.ceil(side * devicePixelRatio));
  pen.fillStyle = PAPER;
  pen.fillRect(0, 0, sheet.width, sheet.height);
  for (const { ctx } of at(id).plots) {
    const place = ctx.canvas.getBoundingClientRect();
    pen.drawImage(ctx.canvas, (place.left - box.left) * devicePixelRatio, (place.top - box.top) * devicePixelRatio);
  }
  sheet.toBlob((blob) => download(`${fileName(id)}.png`, "image/png", [blob]));
};

const csv = (rows) =>
  rows
    .map((cells) =>
      cells
        .map((found) => {
          const text = found === null || Number.isNaN(found) ? "" : String(found);
          return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
        })
        .join(","),
    )
    .join("\r\n");

// One row per observed value of the series: what it was, and what every method says about it.
const seriesTable = () => {
  const i = view.series,
    head = ["series", "step", "time", "channel", "unit", "value"],
    rows = [];
  for (const map of data.maps) head.push(map.label, ...(map.half ? [`${map.label} low`, `${map.label} high`] : []));
  for (let t = 0; t < data.time; t += 1) {
    for (let d = 0; d < data.depth; d += 1) {
      if (!observed(i, t, d)) continue;
      const line = [seriesName(i), t, exactTime(i, t), data.channels[d], data.units?.[d] ?? "", value(i, t, d)];
      for (const map of data.maps) {
        const v = score(map, i, t, d),
          w = map.half ? half(map, i, t, d) : 0;
        line.push(v, ...(map.half ? [v - w, v + w] : []));
      }
      rows.push(line);
    }
  }
  return [head, ...rows];
};

const saveTable = (name, rows) => download(`${fileName(name)}.csv`, "text/csv", ["\ufeff", csv(rows)]);

const startSaving = () => {
  for (const button of document.querySelectorAll("[data-save]"))
    button.addEventListener("click", () => savePicture(button.dataset.save));
  at("save-series").addEventListener("click", () => saveTable("scores", seriesTable()));
};

const start = async () => {
  read(await unpack("data"));
  for (const tab of TABS) {
    at(`tab-${tab}`).addEventListener("click", () => openTab(tab));
    at(`tab-${tab}`).addEventListener("keydown", turn);
  }
  at("waiting").remove();
  at("views").hidden = false;
  startTheme();
  startSeries();
  groups.start();
  startSummary();
  startSaving();
  restore();
  document.body.dataset.ready = "true";
  performance.mark("tempograd-ready");
  let width = innerWidth,
    later = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar changes the height only
    width = innerWidth;
    clearTimeout(later);
    later = setTimeout(redraw, 150);
  });
  addEventListener("hashchange", restore);
  addEventListener("beforeprint", preparePrint);
  addEventListener("afterprint", afterPrint);
};

if (typeof DecompressionStream === "undefined")
  at("waiting").textContent = "This browser is too old to unpack the report: open it in one from 2023 or later.";
else
  start().catch((error) => {
    const place = at("waiting") ?? document.querySelector("main").appendChild(element("p", ""));
    place.textContent = `The report could not be shown: ${error.message}`;
    throw error;
  });
