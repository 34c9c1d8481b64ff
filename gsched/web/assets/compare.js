// Draws the curves in the output of several jobs over each other, one chart for each name, and their numbers as a table.
"use strict";
(() => {
  const place = document.getElementById("compared"), axis = document.getElementById("plot-axis"), own = document.getElementById("plot-own");
  const problem = document.getElementById("plot-problem"), none = document.getElementById("plots-none"), body = document.querySelector("#numbers tbody");
  const EVERY_MS = 5000, MOST_BYTES = 4 << 20;
  const jobs = JSON.parse(place.dataset.jobs), drawn = new Map();
  let sources = [];

  const begin = () => {
    for (const { source } of sources) source.end();
    problem.hidden = true;
    let more = [];
    const text = own.value.trim();
    if (text) {
      try {
        new RegExp(text);
        if (!/\((?!\?)/.test(text)) throw new Error(place.dataset.group);
        more = [[text, text]];
      } catch (error) { problem.textContent = error.message; problem.hidden = false; }
    }
    sources = jobs.map((job) => ({ job, source: new gschedOutputCurves(place, job.address, [...job.plots, ...more], job.started, MOST_BYTES) }));
  };

  const over = (curve, job) => {
    if (axis.value === "step") return curve.steps || curve.count;
    const [xs, ys] = curve.times;
    return axis.value === "time" ? [xs, ys] : [xs.map((at) => at - (xs.length ? xs[0] : 0)), ys];
  };

  // All lines of a chart share one axis; where one has no value there is none.
  const table = (lines) => {
    const xs = [...new Set(lines.flatMap(({ data }) => data[0]))].sort((a, b) => a - b);
    return [xs, ...lines.map(({ data }) => { const at = new Map(data[0].map((x, index) => [x, data[1][index]])); return xs.map((x) => (at.has(x) ? at.get(x) : null)); })];
  };

  const row = (cells) => {
    const line = document.createElement("tr");
    for (const [index, text] of cells.entries()) {
      const cell = document.createElement(index ? "td" : "th");
      if (!index) cell.scope = "row";
      if (index > 1) cell.className = index > 4 ? "number wide" : "number";
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };

  const draw = () => {
    const width = Math.max(220, (place.clientWidth - 16) / (place.clientWidth > 760 ? 2 : 1) - 16), rows = [];
    const names = new Set(sources.flatMap(({ source }) => [...source.curves.keys()]));
    for (const name of names) {
      const lines = sources.filter(({ source }) => source.curves.has(name)).map(({ job, source }) => ({ job, data: over(source.curves.get(name), job) }));
      for (const { job, data: [xs, ys] } of lines.filter(({ data }) => data[0].length)) {
        const least = ys.reduce((a, b) => Math.min(a, b)), most = ys.reduce((a, b) => Math.max(a, b));
        rows.push(row([job.label, name, gschedChart.shown(ys[ys.length - 1]), gschedChart.shown(least), gschedChart.shown(most), String(ys.length)]));
      }
      const data = table(lines), before = drawn.get(name);
      if (data[0].length < 2 && !before) continue;
      const label = place.dataset[axis.value === "step" ? "step" : axis.value === "time" ? "time" : "since"];
      const wanted = { width, isTime: axis.value === "time", axis: label, isJoined: true };
      drawn.set(name, gschedChart(place, name, lines.map(({ job }) => job.label), data, wanted, before));
    }
    body.replaceChildren(...rows);
    none.hidden = rows.length > 0;
  };

  const load = async () => {
    let isLate = false;
    for (const { source } of sources) { try { await source.read(); isLate = isLate || source.leftOut.length > 0; } catch { /* asked again soon */ } }
    if (isLate) { problem.textContent = place.dataset.slow.replace("{names}", sources.flatMap(({ source }) => source.leftOut).join(", ")); problem.hidden = false; }
    draw();
  };

  const goOn = async () => {
    if (!document.hidden) await load();
    if (jobs.some((job) => job.runs)) setTimeout(goOn, EVERY_MS);
  };

  const forget = () => { for (const { plot, figure } of drawn.values()) { plot.destroy(); figure.remove(); } drawn.clear(); };
  axis.addEventListener("change", () => { forget(); draw(); });
  own.addEventListener("change", () => { forget(); begin(); load(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forget(); draw(); });
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { forget(); draw(); }, 250); });
  begin();
  goOn();
})();
