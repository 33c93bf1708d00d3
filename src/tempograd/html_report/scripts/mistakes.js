// Runs of steps at which the model is wrong, for models that predict at every step.

const MISTAKES = { FP: "false alarm", FN: "missed" };
const AROUND = 12; // steps shown on either side of a run

const mistakeAt = (series, t) => {
  const place = series * data.time + t,
    said = data.steps.values[place] > 0.5,
    label = bit(data.steps.labels, place) === 1;
  if (said === label || !bit(data.steps.explained, place)) return null;
  return said ? "FP" : "FN";
};

const mistakes = (series) => {
  const runs = [];
  if (!data.steps?.alarm) return runs;
  for (let t = 0; t < data.time; t += 1) {
    const kind = mistakeAt(series, t),
      last = runs.at(-1);
    if (!kind) continue;
    const said = data.steps.values[series * data.time + t],
      sure = Math.abs(said - 0.5);
    if (last && last.kind === kind && last.to === t - 1) last.to = t;
    else runs.push({ kind, from: t, to: t, said, sure });
    const run = runs.at(-1);
    if (sure > run.sure) Object.assign(run, { said, sure });
  }
  return runs;
};
const wrongSteps = (series, kind) =>
  mistakes(series)
    .filter((run) => !kind || run.kind === kind)
    .reduce((sum, run) => sum + run.to - run.from + 1, 0);

// The value during the run that pushed most towards what the model said: up if that is the explained class, else down.
const culprit = (map, series, run) => {
  let best = null;
  for (let t = run.from; t <= run.to; t += 1) {
    const sign = !map.signed || bit(data.steps.agrees, series * data.time + t) ? 1 : -1;
    for (let d = 0; d < data.depth; d += 1) {
      const v = observed(series, t, d) ? score(map, series, t, d) : 0;
      if (sign * v > Math.abs(best?.score ?? 0)) best = { t, d, score: v };
    }
  }
  return best;
};

const runName = (run) =>
  run.from === run.to ? timeName(run.from) : `${timeName(run.from)} to ${timeName(run.to)}`;

const showMistakes = () => {
  const { series, map } = view,
    runs = mistakes(series).sort((a, b) => b.sure - a.sure || a.from - b.from);
  at("mistakes").hidden = !data.steps?.alarm;
  at("mistakes-note").hidden = data.steps?.own === true;
  at("no-mistakes").hidden = runs.length > 0;
  const largest = map.step[series] * 32767;
  const lines = runs.map((run) => {
    const found = culprit(map, series, run),
      button = element("button", "Show", {
        type: "button",
        "aria-label": `Show ${runName(run)}`,
      });
    button.addEventListener("click", () => {
      view.cursor = found?.t ?? run.from;
      showReadout();
      zoomTo(run.from - AROUND, run.to + AROUND);
      at("headline").focus(); // the picture is far above, and nothing else would tell that it changed
    });
    const show = element("td", "");
    show.append(button);
    return row(
      [
        element("td", runName(run), { class: "text" }),
        element("td", MISTAKES[run.kind], { class: "text" }),
        element("td", output(run.said)),
        element(
          "td",
          found
            ? `${channelName(found.d)} at ${timeName(found.t)} (${alike([found.score], largest)[0]})`
            : "no value of these steps; look earlier",
          { class: "text" },
        ),
        show,
      ],
      {
        "data-from": run.from,
        "data-to": run.to,
        "data-kind": run.kind,
        "data-channel": found?.d ?? null,
        "data-time": found?.t ?? null,
      },
    );
  });
  at("mistakes-table").tBodies[0].replaceChildren(...lines);
};
