// Searches the output of a job, on the server, and shows what stands around a line that was found.
"use strict";
(() => {
  const form = document.getElementById("search");
  if (!form) return;
  const said = document.getElementById("search-said"), list = document.getElementById("search-found"), place = document.getElementById("search-place");
  const AROUND = 4096;

  const show = async (stream, line) => {
    const from = Math.max(0, line.start - AROUND);
    const words = "?stream=" + stream + "&from=" + from;
    let told = await (await fetch(form.dataset.search + words, { credentials: "same-origin" })).json();
    if (told.over) told = await (await fetch(form.dataset.search + words + "&file=1", { credentials: "same-origin" })).json();
    const lines = told.text.slice(0, 4 * AROUND).split(/[\n\r]/); // progress is written over and over, behind \r
    const wanted = form.elements.text.value.toLowerCase(), mark = document.createElement("mark");
    // Of several such lines around it the one that begins where the found one does, counted in bytes.
    let at = from, index = lines.findIndex((each) => { const here = at >= line.start; at += new TextEncoder().encode(each).length + 1; return here; });
    if (index < 0 || !lines[index].toLowerCase().includes(wanted)) index = lines.findIndex((each) => each.toLowerCase().includes(wanted));
    if (index < 0) index = 0;
    mark.textContent = lines[index];
    place.replaceChildren(lines.slice(Math.max(0, index - 20), index).join("\n") + "\n", mark, "\n" + lines.slice(index + 1, index + 21).join("\n"));
    place.hidden = false;
    place.scrollTop = mark.offsetTop - place.offsetTop - 60;
  };

  const search = async () => {
    const stream = form.elements.stream.value;
    const answer = await fetch(form.dataset.search + "/" + stream + "/search?text=" + encodeURIComponent(form.elements.text.value), { credentials: "same-origin" });
    place.hidden = true;
    if (!answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      said.textContent = (page.querySelector(".said") || page.body).textContent.trim();
      list.hidden = true;
      return;
    }
    const told = await answer.json();
    const parts = [told.found.length ? form.dataset.found.replace("{n}", told.found.length) : form.dataset.nothing];
    if (told.is_cut) parts.push(form.dataset.cut);
    if (told.skipped) parts.push(form.dataset.part.replace("{size}", "32 MiB"));
    said.textContent = parts.join(" ");
    list.hidden = !told.found.length;
    list.replaceChildren(...told.found.map((line) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button"; button.className = "plain";
      button.textContent = (line.line === null ? "" : form.dataset.line.replace("{n}", line.line) + ": ") + line.text;
      button.addEventListener("click", () => { show(stream, line).catch(() => {}); });
      item.append(button);
      return item;
    }));
  };

  form.addEventListener("submit", (event) => { event.preventDefault(); search().catch(() => {}); });
})();
