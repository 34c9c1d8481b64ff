// Shows the end of what a job has printed, and what it goes on to print. It is text, whatever it looks like.
"use strict";
(() => {
  const place = document.getElementById("output"), follow = document.getElementById("follow");
  if (!place) return;
  const MOST = 400000, EVERY_MS = 2000;
  const next = { stdout: null, stderr: null };
  let turn = 0, isGoing = false, isDenied = false; // what was asked for in an earlier turn is of an attempt that is over

  const add = (stream, told) => {
    const box = document.getElementById(stream);
    if (next[stream] === null && told.start > 0) box.textContent = place.dataset.cut + "\n";
    if (told.text) {
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 40;
      box.append(told.text);
      if (box.textContent.length > MOST) box.textContent = place.dataset.cut + "\n" + box.textContent.slice(-MOST / 2);
      if (follow.checked && (atEnd || next[stream] === null)) box.scrollTop = box.scrollHeight;
    }
    if (told.why || told.text || next[stream] === null) next[stream] = told.next;
    if (stream === "stderr" && box.textContent) { box.hidden = false; document.getElementById("stderr-title").hidden = false; }
    if (stream === "stdout" && !box.textContent) { box.classList.add("empty"); box.dataset.nothing = told.why || place.dataset.nothing; }
    else box.classList.remove("empty");
  };

  const load = async (stream) => {
    const asked = turn, from = next[stream] === null ? "" : "&from=" + next[stream];
    const answer = await fetch(place.dataset.output + "?stream=" + stream + from, { credentials: "same-origin" });
    if (!answer.ok) return;
    const told = await answer.json();
    if (asked !== turn) return;
    if (told.over && next[stream] !== null) {  // it is in the job's file now, from its beginning
      document.getElementById(stream).textContent = "";
      next[stream] = null;
      return load(stream);
    }
    isDenied = isDenied || Boolean(told.denied);
    add(stream, told);
  };

  const loadBoth = async () => {
    try { await load("stdout"); if (!isDenied) await load("stderr"); } catch { /* asked again soon */ }
  };

  const goOn = async () => {
    const isOver = document.getElementById("stands").dataset.over === "1";
    isGoing = !isOver;
    if (!document.hidden || isOver) await loadBoth();
    if (isDenied) isGoing = false;
    if (isGoing) setTimeout(goOn, EVERY_MS);
  };

  document.addEventListener("gsched-begun-anew", () => {
    if (isDenied) return; // who may not see it need not ask again
    turn += 1;
    for (const stream of ["stdout", "stderr"]) { document.getElementById(stream).textContent = ""; next[stream] = null; }
    document.getElementById("stderr").hidden = document.getElementById("stderr-title").hidden = true;
    if (isGoing) loadBoth(); else goOn();
  });
  if (place.dataset.goesOn) goOn(); else loadBoth();
})();
