// Draws what GPUs of a job did over time, one chart for each quantity, a line for each GPU. `gschedChart` is for others
// who draw: a figure with a title, named lines over an axis of times or of numbers, and a summary for who cannot see it; `gschedChart.shown` is a value of them in a few digits.
"use strict";
const gschedChart = (() => {
  const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6", "--line-7", "--line-8"];
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const two = (number) => String(number).padStart(2, "0");
  const clock = (time, step) => {
    const at = new Date(time * 1000), hours = two(at.getHours()) + ":" + two(at.getMinutes());
    if (step >= 43200) return two(at.getMonth() + 1) + "-" + two(at.getDate());
    return step < 60 ? hours + ":" + two(at.getSeconds()) : hours;
  };
  const shown = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(Math.abs(value) < 1000 ? 4 : 7))));
  const language = document.documentElement.lang || "en";

  // What stands at the ticks of an axis is never the same twice: numbers have as many digits as they need to say by
  // `step` where they are, and of equal times the first alone is said.
  const once = (labels) => labels.map((label, index) => (labels.indexOf(label) === index ? label : null));
  const exact = (values, step, digits) => values.every((value) => Math.abs(Number(digits(value)) - value) <= step / 1000);
  const numbers = (splits, step) => {
    const known = splits.filter((value) => value !== null), most = known.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    for (let places = 0; places <= 9 && most >= 1e-4 && most < 1e9; places += 1) {
      if (!exact(known, step, (value) => value.toFixed(places))) continue;
      const format = new Intl.NumberFormat(language, { minimumFractionDigits: places, maximumFractionDigits: places });
      return once(splits.map((value) => (value === null ? null : format.format(value === 0 ? 0 : value))));
    }
    let places = 0;
    while (places < 15 && !exact(known, step, (value) => value.toExponential(places))) places += 1;
    return once(splits.map((value) => (value === null ? null : value === 0 ? "0" : value.toExponential(places).replace("e+", "e"))));
  };
  const axisWidth = (plot, labels) => Math.max(60, 7 * (labels || []).reduce((most, label) => Math.max(most, label ? label.length : 0), 0) + 14);

  const options = (names, { width, range, isTime, axis, isJoined }) => ({
    width, height: 170, padding: [10, 26, 0, 0],
    cursor: { y: false, drag: { x: true, y: false } },
    legend: { show: names.length <= 8, live: width > 400 },
    scales: { x: { time: isTime }, y: range ? { range } : {} },
    axes: [
      { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, size: 30, space: 70,
        values: (plot, splits, number, space, step) => (isTime ? once(splits.map((time) => clock(time, step))) : numbers(splits, step)) },
      { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, size: axisWidth,
        values: (plot, splits, number, space, step) => numbers(splits, step) },
    ],
    series: [{ label: axis, value: (plot, at) => (at === null ? "–" : isTime ? clock(at, 1) : shown(at)) }, ...names.map((label, index) => ({
      label, value: (plot, value) => shown(value), stroke: colour(COLOURS[index % COLOURS.length]), width: 1.5, spanGaps: Boolean(isJoined),
      dash: DASHES[Math.floor(index / COLOURS.length) % DASHES.length], points: { show: false },
    }))],
  });

  const summary = (names, data) => names.map((name, index) => {
    const known = data[index + 1].filter((value) => value !== null);
    const least = known.reduce((a, b) => Math.min(a, b), Infinity), most = known.reduce((a, b) => Math.max(a, b), -Infinity);
    return known.length ? name + " " + shown(least) + " – " + shown(most) : name;
  }).join(", ");

  // `known` is what an earlier call has returned for the same place, or nothing: it is brought up to date if it can be.
  const draw = (place, title, names, data, wanted, known) => {
    if (known && known.names.join() === names.join() && known.width === wanted.width && known.axis === wanted.axis) {
      known.plot.setData(data);
      known.chart.setAttribute("aria-label", title + ": " + summary(names, data));
      return known;
    }
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), chart = document.createElement("div");
    caption.textContent = title;
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", title + ": " + summary(names, data));
    figure.append(caption, chart);
    if (known) { known.plot.destroy(); known.figure.replaceWith(figure); } else place.append(figure);
    return { names, width: wanted.width, axis: wanted.axis, figure, chart, plot: new uPlot(options(names, wanted), data, chart) };
  };
  return Object.assign(draw, { shown });
})();
(() => {
  const place = document.getElementById("curves");
  if (!place) return;
  const QUANTITIES = [["sm", 0, 100], ["traffic", 0, 100], ["mem", 0, null], ["power", 0, null], ["temperature", 0, null], ["pending", 0, null]];
  const drawn = new Map();

  // All GPUs share one axis of times; where one has no value there is none.
  const table = (gpus, name) => {
    const having = gpus.filter((gpu) => gpu[name]);
    const times = [...new Set(having.flatMap((gpu) => gpu.times))].sort((a, b) => a - b);
    const rows = having.map((gpu) => {
      const at = new Map(gpu.times.map((time, index) => [time, gpu[name][index]]));
      return times.map((time) => (at.has(time) ? at.get(time) : null));
    });
    return { names: having.map((gpu) => gpu.name), data: [times, ...rows] };
  };

  const draw = (gpus) => {
    const width = Math.max(220, (place.clientWidth - 16) / (place.clientWidth > 760 ? 2 : 1) - 16);
    let count = 0;
    for (const [name, low, high] of QUANTITIES) {
      const { names, data } = table(gpus, name);
      if (!names.length || data[0].length < 2) continue;
      count += 1;
      const range = (plot, least, most) => [low, high === null ? Math.max(1, most * 1.1) : high];
      const wanted = { width, range, isTime: true, axis: place.dataset.time };
      drawn.set(name, gschedChart(place, place.dataset[name] || name, names, data, wanted, drawn.get(name)));
    }
    if (!count && !place.childElementCount) {
      const none = document.createElement("p");
      none.className = "muted";
      none.textContent = place.dataset.none;
      place.append(none);
    } else if (count && place.firstElementChild.tagName === "P") place.firstElementChild.remove();
  };

  const load = async () => {
    try {
      const answer = await fetch(place.dataset.curves, { credentials: "same-origin" });
      if (answer.ok) draw((await answer.json()).gpus);
    } catch { /* asked again at the next change */ }
  };

  load();
  if (place.dataset.liveCurves) document.addEventListener("gsched-changed", load);
  const again = () => { for (const { plot, figure } of drawn.values()) { plot.destroy(); figure.remove(); } drawn.clear(); load(); };
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 250); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
