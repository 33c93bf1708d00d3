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
