// Start: unpack, draw the first series, then the rest.

const TABS = ["series", "summary", "about"];
let summaryReady = false;

const openTab = (name, focus = false) => {
  for (const tab of TABS) {
    const open = tab === name,
      button = at(`tab-${tab}`);
    button.setAttribute("aria-selected", String(open));
    button.tabIndex = open ? 0 : -1;
    at(`view-${tab}`).hidden = !open;
    if (open && focus) button.focus();
  }
  if (name === "summary") {
    if (summaryReady) showSummary();
    else startSummary();
    summaryReady = true;
  }
  if (name === "series" && data) drawSeries();
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
const preparePrint = () => {
  document.body.classList.add("paper");
  for (const tab of TABS) at(`view-${tab}`).hidden = false;
  if (!summaryReady) {
    startSummary();
    summaryReady = true;
  }
  redraw();
};
const afterPrint = () => {
  document.body.classList.remove("paper");
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
  startSeries();
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
