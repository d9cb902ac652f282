"use strict";
// The data of the page, values derived from it, and the state: the filters and the open sample. The state is the part of
// the address after "#", so that every view of the page is a link.

const data = JSON.parse(document.getElementById("data").textContent);
const ALL = -1;
const VERDICTS = { r: "right", w: "wrong", u: "unreadable", f: "failed", h: "hidden" };
const SIGNS = { r: "✓", w: "✗", u: "?", f: "!", h: "·", "-": "–" };
const EMPTY = { task: "", who: "", base: "", flip: "", verdict: "", disagree: "", q: "", sample: "", theme: "", sheet: "", columns: "", order: "" };

const samples = data.samples.map((sample) => ({
  ...sample, question: data.texts[sample.question], choices: sample.choices.map((n) => data.texts[n]),
}));
const answers = data.contestants.map(() => new Array(samples.length)); // by contestant, then sample: its draws
const outcomes = data.outcomes.map(([verdict, value, answer, reason]) => Object.freeze({
  verdict, value, answer: data.texts[answer], reason: data.texts[reason], texts: [answer, reason] }));
data.draws.forEach((draws, who) => {
  for (let n = 0, sample = 0; n < draws.length; n += 2) {
    sample += draws[n];
    (answers[who][sample] ||= []).push(outcomes[draws[n + 1]]);
  }
});
const words = new Map(); // by sample: [[contestant, [draw, ...]], ...]
for (const [who, sample, draws] of data.words) words.set(sample, [...(words.get(sample) || []), [who, draws]]);
const arms = new Map(data.arms.map(({ accuracy, ...arm }) =>
  [`${arm.contestant},${arm.task}`, { ...arm, ...(accuracy || { value: null }) }]));
const pairs = new Map(data.pairs.map(({ paired, ...pair }) =>
  [`${pair.contestant},${pair.rival},${pair.task}`, { ...pair, ...paired }]));
const names = nameSamples();
const byName = new Map(names.map((name, number) => [name, number]));
let state = { ...EMPTY };

/** The name of every sample in links: its task and id, numbered if a page has two of them. */
function nameSamples() {
  const seen = new Map();
  return samples.map((sample) => {
    const name = `${data.tasks[sample.task]}/${sample.id}`;
    const times = (seen.get(name) || 0) + 1;
    seen.set(name, times);
    return times > 1 ? `${name}#${times}` : name;
  });
}

/** The comparison of a contestant with a rival on a task, in either direction; null if they share no sample. */
function pairOf(who, rival, task) {
  const known = pairs.get(`${who},${rival},${task}`);
  if (known) return known;
  const turned = pairs.get(`${rival},${who},${task}`);
  if (!turned) return countPair(who, rival, task);
  return {
    ...turned, value: -turned.value, low: -turned.high, high: -turned.low, better: turned.worse, worse: turned.better,
  };
}

/** Compare a pair that has no interval in this file: its flips, and McNemar's exact test if samples are right or wrong.
 * Its p is corrected by Bonferroni over all pairs that can be chosen, because their p-values are not in this file. */
function countPair(who, rival, task) {
  const place = `${who},${rival},${task}`, arm = arms.get(`${who},${task}`);
  if (!arm || !arms.has(`${rival},${task}`)) return null;
  const gaps = [];
  let binary = arm.clusters === arm.n;
  for (const [number, sample] of samples.entries()) {
    const values = task === ALL || sample.task === task ? [valueOf(who, number), valueOf(rival, number)] : [null];
    if (values.includes(null)) continue;
    gaps.push(values[0] - values[1]);
    binary &&= values.every((value) => value === 0 || value === 1);
  }
  const better = gaps.filter((gap) => gap > 1e-9).length, worse = gaps.filter((gap) => gap < -1e-9).length;
  const p = binary ? mcnemar(better, worse) : null, corrected = p === null ? null : Math.min(1, p * data.comparisons);
  const pair = gaps.length ? {
    value: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length, low: null, high: null, n: gaps.length, out: null,
    better, worse, test: "exact McNemar", p, p_bonferroni: corrected, is_significant: corrected !== null && corrected < 0.05,
  } : null;
  pairs.set(place, pair);
  return pair;
}

/** McNemar's two-sided exact p for these numbers of samples gained and lost. */
function mcnemar(better, worse) {
  const n = better + worse;
  let term = 0.5 ** n, sum = 0;
  for (let k = 0; k <= Math.min(better, worse); k += 1) {
    sum += term;
    term *= (n - k) / (k + 1);
  }
  return Math.min(1, 2 * sum);
}

/** The mean value over the draws that did not fail; null if there are none, or no correct answer. */
function valueOf(who, sample) {
  const kept = (answers[who][sample] || []).filter((draw) => draw.verdict !== "f" && draw.verdict !== "h");
  return kept.length ? kept.reduce((sum, draw) => sum + draw.value, 0) / kept.length : null;
}

/** 1 if the contestant is better than its rival on this sample, -1 if worse, 0 if they are equal or one failed. */
function flipOf(who, rival, sample) {
  const mine = valueOf(who, sample), other = valueOf(rival, sample);
  return mine === null || other === null || Math.abs(mine - other) < 1e-9 ? 0 : Math.sign(mine - other);
}

function verdictOf(who, sample) {
  const draws = answers[who][sample];
  return draws ? draws[0].verdict : "-";
}

function disagreeOn(sample) {
  const values = data.contestants.map((_, who) => valueOf(who, sample)).filter((value) => value !== null);
  return values.length > 1 && Math.max(...values) - Math.min(...values) > 1e-9;
}

// ---- state and address

function numberOf(list, name, fallback) {
  const found = list.indexOf(name);
  return found < 0 ? fallback : found;
}

const severalBaselines = new Set(data.baselines).size > 1;

const chosen = {
  get base() { return numberOf(data.contestants, state.base, severalBaselines ? null : data.baseline); },
  get who() { return numberOf(data.contestants, state.who, null); },
  get task() { return numberOf(data.tasks, state.task, ALL); },
  get sample() { return byName.has(state.sample) ? byName.get(state.sample) : null; },
};

/** The contestant to compare with: the chosen rival, or else the baseline of its run. */
function rivalOf(who) {
  return chosen.base === null ? data.baselines[who] : chosen.base;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = { ...EMPTY };
  for (const name of Object.keys(EMPTY)) state[name] = given.get(name) || "";
}

/** The address of the state with some changes. */
function linkTo(changes) {
  const next = { ...state, ...changes };
  const kept = Object.entries(next).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(kept)}`;
}

/** Go to the state with some changes; `quiet` adds no entry to the browser's history. */
function go(changes, quiet = false) {
  if (quiet) {
    history.replaceState(null, "", linkTo(changes));
    readAddress();
    show();
  } else location.hash = linkTo(changes);
}

// ---- filters

let filtered = { key: null, found: [] };

/** The numbers of the samples that pass every filter. */
async function filterSamples() {
  const { task, who, base, flip, verdict, disagree, q, order } = state;
  const key = JSON.stringify([task, who, base, flip, verdict, disagree, q, order]);
  if (filtered.key !== key) {
    const tests = [...listTests(), await searchFor(q.trim().toLowerCase())].filter(Boolean);
    const found = samples.map((_, number) => number).filter((number) => tests.every((test) => test(number)));
    if (order) found.sort((one, two) => countMinority(two) - countMinority(one) || one - two);
    filtered = { key, found };
  }
  return filtered.found;
}

/** The number of contestants in the minority on a sample: the smaller of those right and those not. */
function countMinority(number) {
  const verdicts = data.contestants.map((_, who) => verdictOf(who, number)).filter((verdict) => verdict !== "-");
  const right = verdicts.filter((verdict) => verdict === "r").length;
  return Math.min(right, verdicts.length - right);
}

function listTests() {
  const { task, who } = chosen, everyone = data.contestants.map((_, number) => number);
  const whose = who === null ? everyone : [who];
  const sign = { gained: 1, lost: -1 }[state.flip];
  const flips = (number) => whose.some((one) => {
    const found = flipOf(one, rivalOf(one), number);
    return sign ? found === sign : found !== 0;
  });
  const has = (number) => whose.some((one) => (answers[one][number] || []).some((d) => d.verdict === state.verdict[0]));
  return [
    task !== ALL && ((number) => samples[number].task === task),
    state.verdict && has,
    state.flip && flips,
    state.disagree && disagreeOn,
  ];
}

/** Return a test for samples with a text in their question, id, answers or conversations; null for no text. */
async function searchFor(text) {
  if (!text) return null;
  if (data.served) {
    const found = new Set(await (await fetch(`search?q=${encodeURIComponent(text)}`)).json());
    return (number) => found.has(number) || holds(number, text);
  }
  const hits = new Set();
  data.texts.forEach((each, number) => each.toLowerCase().includes(text) && hits.add(number));
  return (number) => holds(number, text) || answersHold(number, hits) || turnsHold(number, hits);
}

function holds(number, text) {
  const { id, question, choices, key } = samples[number];
  return [id, question, key || "", ...choices].some((each) => each.toLowerCase().includes(text));
}

function answersHold(number, hits) {
  return answers.some((of) => (of[number] || []).some((draw) => draw.texts.some((each) => hits.has(each))));
}

function turnsHold(number, hits) {
  const draws = (words.get(number) || []).flatMap(([, each]) => each);
  return draws.some(({ reply, turns }) =>
    hits.has(reply) || turns.some(({ parts }) => parts.some((part) => hits.has(part))));
}
