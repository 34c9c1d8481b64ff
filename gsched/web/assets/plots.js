// Draws the numbers that a job prints, such as "loss = 0.31", against its steps or times, and how far it has come: by
// ready patterns, by those that the job was given, and by one of the reader's own, which is remembered for jobs of the
// same name.
"use strict";
(() => {
  const place = document.getElementById("plots"), own = document.getElementById("plot-own"), problem = document.getElementById("plot-problem");
  if (!place) return;
  const axis = document.getElementById("plot-axis"), progress = document.getElementById("plot-progress");
  const EVERY_MS = 3000, SHORTEST_S = 5, LEAST = 0.02;
  const kept = "gsched-plot-" + place.dataset.name, given = JSON.parse(place.dataset.given);
  const drawn = new Map();

  own.value = localStorage.getItem(kept) || "";
  axis.value = localStorage.getItem("gsched-plot-axis") || "step";
  if (!axis.value) axis.value = "step";

  const say = (text) => { problem.textContent = text; problem.hidden = !text; };

  const patterns = () => {
    say("");
    const text = own.value.trim();
    if (!text) return given;
    try {
      new RegExp(text);
      if (!/\((?!\?)/.test(text)) throw new Error(place.dataset.group);
    } catch (error) {
      say(error.message);
      return given;
    }
    return [...given, [text, text]];
  };
  const startedAt = () => Number(document.getElementById("stands").dataset.started) || 0;
  const newSource = () => new gschedOutputCurves(place, place.dataset.plots, patterns(), startedAt());
  let source = newSource(), isGoing = false;

  const draw = () => {
    const width = Math.max(220, (place.clientWidth - 16) / (place.clientWidth > 760 ? 2 : 1) - 16);
    for (const [name, curve] of source.curves) {
      const isTime = axis.value === "time";
      const data = isTime ? curve.times : curve.steps || curve.count;
      const isShort = data[0].length < 2;
      const before = drawn.get(name);
      if (isShort && !before) continue;
      const label = isTime ? place.dataset.time : curve.steps ? place.dataset.step : place.dataset.count;
      drawn.set(name, gschedChart(place, name, [name], data, { width, isTime, axis: label }, before));
    }
    document.getElementById("plots-none").hidden = source.curves.size > 0;
    document.getElementById("plots-no-times").hidden = drawn.size > 0 || !source.curves.size || axis.value !== "time";
  };

  // By the pace that was seen, or where none was, by that since the job began.
  const remaining = ({ fraction, at, first, firstAt }) => {
    if (fraction >= 1) return 0;
    if (at !== null && firstAt !== null && at - firstAt >= SHORTEST_S && fraction > first) return (at - firstAt) * (1 - fraction) / (fraction - first);
    const ran = Date.now() / 1000 - startedAt();
    return startedAt() && fraction >= LEAST && ran >= SHORTEST_S ? ran * (1 - fraction) / fraction : null;
  };

  const showProgress = () => {
    const known = source.progress;
    progress.hidden = !known;
    if (!known) return;
    const percent = Math.floor(100 * known.fraction);
    const isOver = document.getElementById("stands").dataset.over === "1", left = isOver ? null : remaining(known);
    progress.querySelector("progress").value = known.fraction;
    const parts = [percent + " %"];
    if (known.total) parts.push(place.dataset.step + " " + known.step + "/" + known.total);
    if (left !== null && left > 0) parts.push(place.dataset.left.replace("{span}", gschedSpan(left)));
    progress.querySelector("span").textContent = parts.join(", ");
  };

  const load = async () => {
    await source.read();
    if (source.leftOut.length) say(place.dataset.slow.replace("{names}", source.leftOut.join(", ")));
    draw();
    showProgress();
  };

  const goOn = async () => {
    const isOver = document.getElementById("stands").dataset.over === "1";
    isGoing = !isOver;
    if (!document.hidden || isOver) { try { await load(); } catch { /* asked again soon */ } }
    if (source.isDenied) isGoing = false;
    if (isGoing) setTimeout(goOn, EVERY_MS);
  };

  const forget = () => { for (const { plot, figure } of drawn.values()) { plot.destroy(); figure.remove(); } drawn.clear(); };

  const beginAnew = async () => {
    forget();
    source.end();
    source = newSource();
    try { await load(); } catch { /* asked again soon */ }
  };

  own.addEventListener("change", () => { localStorage.setItem(kept, own.value); beginAnew(); });
  document.addEventListener("gsched-begun-anew", async () => { await beginAnew(); if (!isGoing) goOn(); });
  axis.addEventListener("change", () => { localStorage.setItem("gsched-plot-axis", axis.value); forget(); draw(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forget(); draw(); });
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { forget(); draw(); }, 250); });
  goOn();
})();
