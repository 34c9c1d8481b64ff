// Draws the numbers that a job prints, such as "loss = 0.31", against its steps. What it prints is searched here, in the
// browser, by ready patterns and by one of the reader's own, which is remembered for jobs of the same name.
"use strict";
(() => {
  const place = document.getElementById("plots"), own = document.getElementById("plot-own"), problem = document.getElementById("plot-problem");
  if (!place) return;
  const NUMBER = "\\s*[=:]?\\s*([-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?)";
  // caffe ("Iteration 100, loss = 0.3"), Keras ("loss: 0.3 - accuracy: 0.9"), PyTorch and Lightning ("loss=0.3").
  const READY = [["loss", "\\bloss"], ["val_loss", "\\bval_loss"], ["accuracy", "\\b(?:accuracy|acc)"], ["val_accuracy", "\\bval_acc(?:uracy)?"], ["lr", "\\b(?:lr|learning_rate)"]];
  const STEP = /\b(?:iteration|iter|step|batch|epoch)s?\b\W{0,3}(\d+)/i;
  const MOST_BYTES = 16 << 20, MOST_POINTS = 20000, EVERY_MS = 3000;
  const kept = "gsched-plot-" + place.dataset.name;
  let found = new Map(), drawn = new Map(), next = 0, rest = "", lines = 0;

  own.value = localStorage.getItem(kept) || "";

  const patterns = () => {
    const all = READY.map(([name, text]) => [name, new RegExp(text + NUMBER, "i")]);
    problem.hidden = true;
    if (own.value.trim()) {
      try {
        const pattern = new RegExp(own.value.trim());
        if (!/\((?!\?)/.test(own.value)) throw new Error(place.dataset.group);
        all.push([own.value.trim(), pattern]);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      }
    }
    return all;
  };
  let wanted = patterns();

  const read = (text) => {
    const parts = (rest + text).split(/[\r\n]+/);
    rest = parts.pop().slice(-10000);
    for (const line of parts) {
      lines += 1;
      for (const [name, pattern] of wanted) {
        const match = line.length < 10000 ? pattern.exec(line) : null;
        const value = match ? Number(match[1]) : NaN;
        if (!Number.isFinite(value)) continue;
        const step = STEP.exec(line), points = found.get(name) || { steps: [], values: [], hasSteps: true };
        points.hasSteps = points.hasSteps && step !== null;
        points.steps.push(step ? Number(step[1]) : 0);
        points.values.push(value);
        if (points.values.length > MOST_POINTS) { // every other point stays
          points.steps = points.steps.filter((each, index) => index % 2);
          points.values = points.values.filter((each, index) => index % 2);
        }
        found.set(name, points);
      }
    }
  };

  const isRising = (steps) => steps.every((step, index) => !index || step > steps[index - 1]);

  const draw = () => {
    const width = Math.max(220, (place.clientWidth - 16) / (place.clientWidth > 760 ? 2 : 1) - 16);
    for (const [name, { steps, values, hasSteps }] of found) {
      if (values.length < 2) continue;
      const bySteps = hasSteps && isRising(steps);
      const at = bySteps ? steps : values.map((value, index) => index + 1);
      const axis = bySteps ? place.dataset.step : place.dataset.count;
      const options = { width, isTime: false, axis };
      drawn.set(name, gschedChart(place, name, [name], [at, values], options, drawn.get(name)));
    }
    document.getElementById("plots-none").hidden = drawn.size > 0;
  };

  const load = async () => {
    for (;;) {
      if (next > MOST_BYTES) break;
      const answer = await fetch(place.dataset.plots + "?stream=stdout&from=" + next, { credentials: "same-origin" });
      if (!answer.ok) break;
      const told = await answer.json();
      if (told.over && next === 0) { // it is in the job's file: its end is what can be had here
        const end = await fetch(place.dataset.plots + "?stream=stdout", { credentials: "same-origin" });
        if (end.ok) read((await end.json()).text + "\n");
        break;
      }
      if (!told.text) break;
      next = told.next;
      read(told.text);
    }
    draw();
  };

  const goOn = async () => {
    const isOver = document.getElementById("stands").dataset.over === "1";
    if (!document.hidden || isOver) { try { await load(); } catch { /* asked again soon */ } }
    if (!isOver) setTimeout(goOn, EVERY_MS);
  };

  own.addEventListener("change", async () => {
    localStorage.setItem(kept, own.value);
    for (const { plot, figure } of drawn.values()) { plot.destroy(); figure.remove(); }
    found = new Map(); drawn = new Map(); next = 0; rest = ""; lines = 0;
    wanted = patterns();
    await load();
  });
  goOn();
})();
