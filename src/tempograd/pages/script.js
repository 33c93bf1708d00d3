"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const cases = [...document.querySelectorAll(".case")];
  const choice = document.getElementById("choice");
  const previous = document.getElementById("previous");
  const next = document.getElementById("next");
  const all = document.getElementById("all");
  document.documentElement.classList.add("js");

  const show = (index) => {
    choice.selectedIndex = index;
    cases.forEach((item, i) => { item.hidden = !all.checked && i !== index; });
    previous.disabled = index === 0;
    next.disabled = index === cases.length - 1;
    if (all.checked) cases[index].scrollIntoView();
  };
  const step = (by) => show(Math.min(Math.max(choice.selectedIndex + by, 0), cases.length - 1));
  choice.addEventListener("change", () => show(choice.selectedIndex));
  previous.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  all.addEventListener("change", () => show(choice.selectedIndex));
  const wanted = cases.findIndex((item) => "#" + item.id === location.hash);
  show(Math.max(wanted, 0));

  const raised = (power) => [...power].map((c) => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 1e-4 && size < 1e6 || size === 0) {
      return (size < 1000 ? Number(value.toPrecision(3)) : Math.round(value)).toString().replace("-", "−");
    }
    const [mantissa, power] = value.toExponential(2).split("e");
    return Number(mantissa).toString().replace("-", "−") + " × 10" + raised(power.replace("+", ""));
  };
  const cell = (row, text, tag = "td") => {
    const item = document.createElement(tag);
    item.textContent = text;  // never innerHTML: names come from data
    row.append(item);
  };
  const tell = (series, t, place) => {
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    ["channel", "value", ...series.maps.map((map) => map.label)].forEach((text) => cell(head, text, "th"));
    const body = table.createTBody();
    series.channels.forEach((name, d) => {
      const row = body.insertRow();
      cell(row, name, "th");
      const missing = series.x[d][t] === null;
      cell(row, missing ? "not observed" : digits(series.x[d][t]));
      series.maps.forEach((map) => {
        const known = map.low && map.low[d][t] !== null;
        const limits = known ? ` [${digits(map.low[d][t])}, ${digits(map.high[d][t])}]` : map.low ? " [not known: fewer than two draws]" : "";
        cell(row, missing ? "" : digits(map.values[d][t]) + limits);
      });
    });
    const title = document.createElement("p");
    const output = series.output ? `, ${series.output.name} ${digits(series.output.values[t])}` : "";
    title.textContent = `Step ${series.times[t]}${output}. Scores with 95 % interval where the method draws at random:`;
    const wide = document.createElement("div");
    wide.className = "wide";
    wide.append(table);
    place.replaceChildren(title, wide);
  };

  cases.forEach((item, index) => {
    const series = data.series[index];
    const picture = item.querySelector(".picture");
    if (!series) return;
    const cursor = item.querySelector(".cursor");
    const readout = item.querySelector(".readout");
    const scale = item.querySelector(".ticks");
    const steps = series.times.length;
    let at = 0;
    const move = (t) => {
      at = Math.min(Math.max(t, 0), steps - 1);
      const box = scale.getBoundingClientRect();
      cursor.style.left = box.left - picture.getBoundingClientRect().left + (at + .5) / steps * box.width + "px";
      cursor.style.display = "block";
      tell(series, at, readout);
    };
    const follow = (event) => {
      const box = scale.getBoundingClientRect();
      if (event.clientX >= box.left && event.clientX <= box.right) {
        move(Math.floor((event.clientX - box.left) / box.width * steps));
      }
    };
    picture.addEventListener("pointermove", follow);
    picture.addEventListener("pointerdown", follow);
    picture.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (by) { move(at + by); event.preventDefault(); }
      if (event.key === "Home") { move(0); event.preventDefault(); }
      if (event.key === "End") { move(steps - 1); event.preventDefault(); }
    });
  });
})();
