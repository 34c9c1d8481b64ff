// Shows the gsub line that the form stands for while it is filled in, and what is wrong with it. The server reads it as
// gsub would; nothing is submitted by that.
"use strict";
(() => {
  const form = document.getElementById("new-job"), line = document.getElementById("line"), problem = document.getElementById("problem");
  const MOST = 6000;
  const section = document.getElementById("when-section"), when = document.getElementById("when");
  let waiting = 0, asked = 0, later = 0;

  // When it could start is asked for when the typing rests: the master plans the job for that.
  const foresee = async (words, own) => {
    try {
      const answer = await fetch("/new/when?" + words, { credentials: "same-origin" });
      if (!answer.ok || own !== asked) return;
      const told = new DOMParser().parseFromString(await answer.text(), "text/html");
      when.replaceChildren(...[...told.body.childNodes].map((each) => document.adoptNode(each)));
      section.hidden = false;
    } catch { /* the server is away: submitting says so */ }
  };

  const check = async () => {
    const words = new URLSearchParams(new FormData(form));
    for (const name of ["csrf", "token"]) words.delete(name);
    clearTimeout(later);
    if (!words.get("command").trim()) { problem.hidden = true; section.hidden = true; line.textContent = "gsub"; return; }
    // A long script does not go into an address: its options are checked all the same.
    if (words.get("command").length > MOST) words.set("command", words.get("command").slice(0, MOST));
    const own = ++asked;
    try {
      const answer = await fetch("/new/line?" + words, { credentials: "same-origin" });
      if (!answer.ok || own !== asked) return;
      const told = await answer.json();
      line.textContent = told.line || "gsub";
      problem.textContent = told.problem;
      problem.hidden = !told.problem;
      if (told.problem) section.hidden = true;
      else later = setTimeout(() => foresee(words, own), 750);
    } catch { /* the server is away: submitting says so */ }
  };

  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(check, 250); });
  check();
})();
