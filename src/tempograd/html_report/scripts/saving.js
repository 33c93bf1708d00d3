// Pictures and tables as files, made inside the page.

const download = (name, type, parts) => {
  const link = element("a", "", { download: name });
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

// A picture as a file of its own: what moves under the pointer stays behind, the paper comes with it.
const standalone = (id) => {
  const copy = at(id).querySelector("svg").cloneNode(true);
  for (const part of copy.querySelectorAll("[visibility=hidden]")) part.remove();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, Segoe UI, Roboto, Liberation Sans, Arial, sans-serif");
  copy.prepend(shape("rect", { width: "100%", height: "100%", fill: PAPER }));
  return new XMLSerializer().serializeToString(copy);
};
const fileName = (id) => {
  const what = OPEN.view === "series" ? seriesName(view.series) : "all series";
  return `${what} ${id.replace("chart-", "")}`.replace(/[^\p{L}\p{N}]+/gu, "-");
};
const savePicture = (id, kind) => {
  const text = standalone(id),
    name = fileName(id);
  if (kind === "svg") {
    download(`${name}.svg`, "image/svg+xml", [text]);
    return;
  }
  const image = new Image(),
    { width, height } = at(id).querySelector("svg").viewBox.baseVal,
    canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height]; // sharp on paper and on fine screens
  image.onload = () => {
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(`${name}.png`, "image/png", [blob]));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
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
      const line = [seriesName(i), t, timeName(t), data.channels[d], data.units?.[d] ?? "", value(i, t, d)];
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
    button.addEventListener("click", () => savePicture(button.dataset.save, button.dataset.kind));
  at("save-series").addEventListener("click", () => saveTable("scores", seriesTable()));
  at("save-blocks").addEventListener("click", () => saveTable("blocks", blocksTable()));
};
