// Keeps an open page up to date: when the server says that something has changed, the page is asked for anew and its
// parts marked data-live are put in the place of the old ones. Markup comes from this server alone, where every value
// is escaped.
"use strict";
(() => {
  const watch = document.currentScript.dataset.watch;
  const sign = document.getElementById("liveness");
  let isLoading = false, isDue = false, mark = "";

  const say = (name) => { if (sign && sign.textContent !== sign.dataset[name]) sign.textContent = sign.dataset[name]; };

  // What the reader has chosen or typed, and where the focus is, outlives the exchange.
  const remember = () => ({
    checked: new Set([...document.querySelectorAll("[data-live] input:checked")].map((each) => each.value)),
    focus: document.activeElement && document.activeElement.closest("[data-live]") ? keyOf(document.activeElement) : "",
    chosen: new Map([...document.querySelectorAll("[data-live] select")].map((each) => [each.name, each.value])),
    open: new Set([...document.querySelectorAll("[data-live] details[open]")].map((each) => each.id)),
  });
  // What has no name of its own, as the heading of something folded, is known by what it is in.
  const keyOf = (element) => {
    const words = ["name", "value", "href"].map((name) => element.getAttribute(name));
    return [element.tagName, element.id, ...words, element.closest("details, [id]").id].join(" ");
  };
  const restore = (kept) => {
    for (const each of document.querySelectorAll("[data-live] input[type=checkbox]")) each.checked = kept.checked.has(each.value);
    for (const each of document.querySelectorAll("[data-live] select")) if (kept.chosen.has(each.name)) each.value = kept.chosen.get(each.name);
    for (const each of document.querySelectorAll("[data-live] details")) if (kept.open.has(each.id)) each.open = true;
    if (!kept.focus) return;
    const again = [...document.querySelectorAll("[data-live] :is(a, button, input, select, summary, [tabindex])")].find((each) => keyOf(each) === kept.focus);
    if (again) again.focus({ preventScroll: true });
  };

  // Of the job that the page is about: what it has printed before is not that of this one.
  const attempt = () => { const stands = document.getElementById("stands"); return stands ? stands.dataset.attempt : ""; };

  const isSelecting = () => {
    const chosen = document.getSelection();
    return chosen && !chosen.isCollapsed && chosen.anchorNode && chosen.anchorNode.parentElement && chosen.anchorNode.parentElement.closest("[data-live]");
  };

  const load = async () => {
    if (isLoading || document.hidden || isSelecting()) { isDue = true; return; }
    isLoading = true; isDue = false;
    try {
      const known = mark ? { "if-none-match": mark } : {};
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", headers: { accept: "text/html", ...known } });
      if (answer.status === 401) { location.reload(); return; }
      // The page is as it was; what a chart or an output shows may not be.
      if (answer.status === 304) document.dispatchEvent(new CustomEvent("gsched-changed"));
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        // A job that has waited has started: what shows its output is not on this page.
        if (fresh.getElementById("output") && !document.getElementById("output")) { location.reload(); return; }
        mark = answer.headers.get("etag") || "";
        const kept = remember(), before = attempt();
        for (const old of document.querySelectorAll("[data-live]")) {
          const now = fresh.getElementById(old.id);
          if (now && now.outerHTML !== old.outerHTML) old.replaceWith(document.adoptNode(now));
        }
        restore(kept);
        document.dispatchEvent(new CustomEvent("gsched-changed"));
        if (attempt() !== before) document.dispatchEvent(new CustomEvent("gsched-begun-anew"));
      }
    } catch { /* the server is away: the stream comes back, and tells */ }
    isLoading = false;
    if (isDue) setTimeout(load, 1000);
  };

  // Nothing is chosen: said here, not on a page of its own.
  const chooseFirst = document.getElementById("choose-first");
  const sayChoose = (event) => {
    const wants = event.target.closest("#jobs button[name=action], #jobs button[data-compare]");
    if (!chooseFirst || !wants) return false;
    const isMissing = !document.querySelector("#jobs input[name=job]:checked");
    chooseFirst.textContent = isMissing ? chooseFirst.dataset.text : "";
    chooseFirst.hidden = !isMissing;
    if (isMissing) event.preventDefault();
    return isMissing;
  };

  document.addEventListener("click", (event) => {
    if (sayChoose(event)) return;
    const button = event.target.closest("button[data-ask]");
    if (button && !window.confirm(button.dataset.ask)) event.preventDefault();
    const compare = event.target.closest("button[data-compare]");
    if (!compare) return;
    const words = new URLSearchParams([...document.querySelectorAll("[data-live] input[name=job]:checked")].map((each) => ["job", each.value]));
    if (words.size) location.href = compare.dataset.compare + "?" + words;
  });

  const AGAIN_MS = 5000;
  let events = null;
  // A browser gives a stream up that is refused: by a server that is a new one and does not know it, or is full.
  const follow = () => {
    events = new EventSource("/live?watch=" + encodeURIComponent(watch));
    events.addEventListener("open", () => { say("on"); });
    events.addEventListener("changed", () => { say("on"); load(); });
    events.addEventListener("error", () => {
      say("off");
      if (events.readyState === EventSource.CLOSED) setTimeout(() => { load(); follow(); }, AGAIN_MS);
    });
  };
  follow();
  document.addEventListener("visibilitychange", () => { if (!document.hidden && isDue) load(); });
  window.addEventListener("pagehide", () => events.close());
})();
