// Finds numbers in what a job prints: curves over steps and times, and how far it has come. It runs beside the page, as
// a worker that the page ends when a pattern takes too long. It is told {plots} once, then {stream, text, at} for each
// piece of output (`at`: when it was printed, in seconds, null where nobody knows), and answers each piece.
"use strict";
const NUMBER = "\\s*[=:]?\\s*([-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?)";
// caffe ("Iteration 100, loss = 0.3"), Keras ("loss: 0.3 - accuracy: 0.9"), PyTorch and Lightning ("loss=0.3").
const READY = [["loss", "\\bloss"], ["val_loss", "\\bval_loss"], ["accuracy", "\\b(?:accuracy|acc)"], ["val_accuracy", "\\bval_acc(?:uracy)?"], ["lr", "\\b(?:lr|learning_rate)"]]
  .map(([name, text]) => [name, new RegExp(text + NUMBER, "i")]);
const STEP = /\b(?:global[_ ]?step|iteration|iter|step)s?\b\W{0,3}(\d+)(?:\s*(?:\/|of)\s*(\d+))?/i;
const EPOCH = /\bepochs?\b\W{0,3}(\d+)(?:\s*(?:\/|of)\s*(\d+))?/i;
// "[ 120/1000]" of PyTorch's examples, "120/1000 [==>" of Keras, "45/100 [00:10<" of tqdm.
const INNER = /\[\s*(\d+)\/(\d+)\]|(?:^|[\s|])(\d+)\/(\d+)\s*(?:\[|[\u2501\u2500]|\u001b)/;
const TOTAL = /\bmax[_ ]?(?:iter|iters|iterations|steps)\b\W{1,3}(\d+)/i, EPOCHS = /\bmax[_ ]?epochs\b\W{1,3}(\d+)/i;
const GLOG = /^[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d+)?)/, ISO = /\b(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)/;
const COLOUR = /\u001b\[[0-9;]*[A-Za-z]|[\b]+/g;
const MOST_POINTS = 20000, MOST_CURVES = 40, LONGEST_LINE = 10000;

const curves = new Map(), streams = new Map();
let own = [], stepPattern = null, stepsPattern = null, year = new Date().getFullYear(), total = 0, epochs = 0, progress = null;

const begin = ({ plots, startedAt }) => {
  if (startedAt) year = new Date(startedAt * 1000).getFullYear();
  for (const [name, text] of plots) {
    const pattern = new RegExp(text);
    if (name === "step") stepPattern = pattern;
    else if (name === "steps") stepsPattern = pattern;
    else own.push([name, pattern]);
  }
};

const numberIn = (pattern, line) => {
  const match = pattern === null ? null : pattern.exec(line);
  const value = match === null || match[1] === undefined || match[1] === "" ? NaN : Number(match[1]);
  return Number.isFinite(value) ? value : null;
};

const stampOf = (line) => {
  let found = GLOG.exec(line);
  if (found) return new Date(year, found[1] - 1, found[2], found[3], found[4], 0).getTime() / 1000 + Number(found[5]);
  found = ISO.exec(line);
  return found ? new Date(found[1], found[2] - 1, found[3], found[4], found[5], found[6]).getTime() / 1000 : null;
};

const add = (name, step, value, at) => {
  let curve = curves.get(name);
  if (!curve) {
    if (curves.size >= MOST_CURVES) return;
    curves.set(name, (curve = { steps: [], values: [], times: [], hasSteps: true, isNew: true }));
  }
  curve.hasSteps = curve.hasSteps && step !== null;
  curve.steps.push(step === null ? 0 : step);
  curve.values.push(value);
  curve.times.push(at);
  curve.isNew = true;
  if (curve.values.length > MOST_POINTS) { // every other point stays
    for (const key of ["steps", "values", "times"]) curve[key] = curve[key].filter((each, index) => index % 2);
  }
};

// How far a line says that the job has come, from 0 to 1; null where it does not.
const fractionOf = (state, line, hasValue) => {
  const inner = state.inner === null ? null : state.inner[0] / state.inner[1];
  if (total && state.step !== null) return state.step / total;
  if (state.of) return state.step / state.of;
  const of = state.epochs || epochs;
  if (of && state.epoch !== null) {
    const isFromOne = state.epochs > 0;
    const before = isFromOne ? state.epoch - 1 : state.epoch;
    // A line with a number in it tells of an epoch that is over.
    return (before + (inner !== null ? inner : isFromOne && hasValue ? 1 : 0)) / of;
  }
  return inner;
};

const isFraction = (part, whole) => Number(whole) > 0 && Number(part) <= Number(whole);

const readLine = (state, line, at) => {
  const stamp = stampOf(line);
  if (stamp !== null) state.stamp = stamp;
  const time = state.stamp !== null ? state.stamp : at;
  const told = numberIn(stepPattern, line), fine = STEP.exec(line), epoch = EPOCH.exec(line), inner = INNER.exec(line);
  total = numberIn(stepsPattern, line) || (stepsPattern === null ? numberIn(TOTAL, line) : 0) || total;
  epochs = numberIn(EPOCHS, line) || epochs;
  if (epoch) { state.epoch = Number(epoch[1]); state.epochs = Number(epoch[2] || 0); state.inner = null; }
  if (inner) {
    const [part, whole] = inner[1] !== undefined ? [inner[1], inner[2]] : [inner[3], inner[4]];
    if (isFraction(part, whole)) state.inner = [Number(part), Number(whole)];
  }
  if (told !== null) { state.step = told; state.of = 0; }
  else if (fine && stepPattern === null) { state.step = Number(fine[1]); state.of = isFraction(fine[1], fine[2] || 0) ? Number(fine[2]) : 0; }
  const step = state.step !== null ? state.step : state.epoch !== null ? state.epoch + (state.inner ? state.inner[0] / state.inner[1] : 0) : null;

  let hasValue = false;
  const isTest = line.includes("Test net output"); // caffe's, of the net that is tested
  for (const [name, pattern] of READY) {
    const value = numberIn(pattern, line);
    if (value !== null) { hasValue = true; add(isTest ? "test " + name : name, step, value, time); }
  }
  for (const [name, pattern] of own) {
    const value = numberIn(pattern, line);
    if (value !== null) { hasValue = true; add(name, step, value, time); }
  }
  if (told === null && !fine && !epoch && !inner) return;
  const fraction = fractionOf(state, line, hasValue);
  if (fraction === null || !(fraction >= 0 && fraction <= 1)) return;
  if (progress === null || fraction < progress.fraction) progress = { first: fraction, firstAt: time };
  Object.assign(progress, { fraction, at: time, step: total ? state.step : null, total: total || null });
};

const read = ({ stream, text, at }) => {
  let state = streams.get(stream);
  if (!state) streams.set(stream, (state = { rest: "", stamp: null, step: null, of: 0, epoch: null, epochs: 0, inner: null }));
  const lines = (state.rest + text).split(/[\r\n]+/);
  state.rest = lines.pop().slice(-LONGEST_LINE);
  for (const line of lines) if (line.length < LONGEST_LINE && /\d/.test(line)) readLine(state, line.replace(COLOUR, ""), at);
};

// Of points with one step the last counts.
const overSteps = ({ steps, values }) => {
  const xs = [], ys = [];
  for (const [index, step] of steps.entries()) {
    if (xs.length && step < xs[xs.length - 1]) return null;
    if (!xs.length || step > xs[xs.length - 1]) { xs.push(step); ys.push(values[index]); } else ys[ys.length - 1] = values[index];
  }
  return [xs, ys];
};

const overTimes = ({ times, values }) => {
  const known = times.map((at, index) => [at, values[index]]).filter(([at]) => at !== null).sort((a, b) => a[0] - b[0]);
  const xs = [], ys = [];
  for (const [at, value] of known) {
    if (!xs.length || at > xs[xs.length - 1]) { xs.push(at); ys.push(value); } else ys[ys.length - 1] = value;
  }
  return [xs, ys];
};

const told = () => [...curves].filter(([, curve]) => curve.isNew).map(([name, curve]) => {
  curve.isNew = false;
  const bySteps = curve.hasSteps ? overSteps(curve) : null;
  return { name, steps: bySteps, count: [curve.values.map((value, index) => index + 1), curve.values], times: overTimes(curve) };
});

self.onmessage = ({ data }) => {
  if (data.plots) begin(data);
  else if (data.text !== undefined) { read(data); self.postMessage({}); }
  else self.postMessage({ curves: told(), progress });
};
