// The curves in the output of a job, for pages that draw them: asks for the output, has a worker search it, and gives the
// worker up when a pattern takes too long.
"use strict";
const gschedOutputCurves = (() => {
  const MOST_AT_ONCE = 4 << 20, LONGEST_MS = 10000, STREAMS = ["stdout", "stderr"];
  const MOST_BYTES = 16 << 20;

  // `place.dataset.worker`: the worker's address. `plots`: [name, pattern] of each; `startedAt`: seconds.
  return class {
    constructor(place, address, plots, startedAt, mostBytes = MOST_BYTES) {
      Object.assign(this, { place, address, plots, startedAt, mostBytes, curves: new Map(), progress: null, leftOut: [], why: "", attempt: 0, isEnded: false, isDenied: false, reading: null });
      this.begin();
    }

    begin() {
      this.worker = new Worker(this.place.dataset.worker);
      this.next = { stdout: 0, stderr: 0 };
      this.inFile = { stdout: false, stderr: false };
      this.isCaughtUp = false;
      this.curves.clear();
      this.progress = null;
      this.worker.postMessage({ plots: this.plots, startedAt: this.startedAt });
    }

    end() { this.isEnded = true; this.worker.terminate(); }

    // The worker's answer, or an error when there is none in time.
    ask(message) {
      return new Promise((answer, fail) => {
        const late = setTimeout(() => fail(new Error("late")), LONGEST_MS);
        this.worker.onmessage = ({ data }) => { clearTimeout(late); answer(data); };
        this.worker.onerror = () => { clearTimeout(late); fail(new Error("fault")); };
        this.worker.postMessage(message);
      });
    }

    async piece(stream, words) {
      const answer = await fetch(this.address + "?stream=" + stream + words, { credentials: "same-origin" });
      if (!answer.ok) throw new Error("HTTP " + answer.status);
      const told = await answer.json(), before = this.attempt;
      if (told.attempt > before) {
        this.attempt = told.attempt;
        if (before || this.next.stdout || this.next.stderr) { this.startedAt = told.started; throw new Error("anew"); }
      }
      return told;
    }

    // What has been printed since it was asked last. Of very much its end is read.
    async readStream(stream) {
      let read = 0;
      for (;;) {
        if (read > (this.isCaughtUp ? MOST_AT_ONCE : this.mostBytes)) {
          const end = await this.piece(stream, this.inFile[stream] ? "&file=1" : "");
          if (end.next <= this.next[stream]) return;
          this.next[stream] = end.next;
          await this.ask({ stream, text: "\n" + end.text, at: null });
          return;
        }
        const told = await this.piece(stream, "&from=" + this.next[stream] + (this.inFile[stream] ? "&file=1" : ""));
        if (told.over && !this.inFile[stream]) { // it is in the job's file now, from its beginning
          if (this.next[stream] || !(await this.piece(stream, "&from=0&file=1")).text) return; // or it has not begun
          this.inFile[stream] = true;
          continue;
        }
        if (stream === "stdout") this.why = told.why;
        if (told.denied) { this.isDenied = true; return; } // who may not see it need not ask again
        if (!told.text) return;
        read += told.next - this.next[stream];
        this.next[stream] = told.next;
        await this.ask({ stream, text: told.text, at: this.isCaughtUp ? Date.now() / 1000 : null });
      }
    }

    read() {
      this.reading = this.reading || this.readAll().finally(() => { this.reading = null; });
      return this.reading;
    }

    async readAll() {
      try {
        for (const stream of STREAMS) if (!this.isDenied) await this.readStream(stream);
        const { curves, progress } = await this.ask({});
        for (const curve of curves) this.curves.set(curve.name, curve);
        this.progress = progress;
        this.isCaughtUp = true;
      } catch (error) {
        if (error.message === "anew" && !this.isEnded) { // what was read is of an attempt that is over
          this.worker.terminate();
          this.begin();
          await this.readAll();
          return;
        }
        if (error.message !== "late" || !this.plots.length || this.isEnded) throw error;
        this.leftOut.push(...this.plots.map(([name]) => name));
        this.plots = [];
        this.worker.terminate();
        this.begin();
        await this.readAll();
      }
    }
  };
})();

// A number of seconds in a few words, as the server writes it.
const gschedSpan = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return whole + " s";
  if (whole < 3600) return Math.floor(whole / 60) + " min";
  if (whole < 86400) return Math.floor(whole / 3600) + ":" + String(Math.floor(whole / 60) % 60).padStart(2, "0") + " h";
  return Math.floor(whole / 86400) + " d " + (Math.floor(whole / 3600) % 24) + " h";
};
