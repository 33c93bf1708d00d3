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
  zoomFields(number("from", 0), number("to", data.time - 1));
  groups.choose(parts);
  if (list.length) showSeries(wanted >= 0 ? wanted : list[0]);
  openTab(TABS.includes(parts.get("view")) ? parts.get("view") : "series");
  restoring = false;
};
