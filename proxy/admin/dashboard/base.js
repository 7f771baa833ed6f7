// What all parts of the page share: elements, words for numbers and times, and the
// requests. Nothing of an answer is ever made into markup: the policy of the page
// forbids it, and make() only sets text.

const $ = id => document.getElementById(id);

// make returns an element with properties, attributes by data-, aria- and the like,
// and what is in it: texts and elements.
function make(name, properties, ...inside) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key in e) e[key] = value; else e.setAttribute(key, value);
  }
  e.append(...inside);
  return e;
}

// text sets an element's text when it is another one, so that nothing is told twice.
function text(e, words) {
  if (e.textContent !== words) e.textContent = words;
}

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const known = n => n !== null && n !== undefined;
const count = n => known(n) ? numbers.format(n) : "–";
const people = n => n === 1 ? "1 person" : count(n) + " people";
const timeOf = at => known(at) ? clock.format(new Date(at)) : "–";

// whenOf adds the day where it is another one.
function whenOf(at) {
  const d = new Date(at);
  return (d.toDateString() === new Date().toDateString() ? "" : day.format(d) + " ") + clock.format(d);
}

// wait is a time in words.
function wait(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return numbers.format(seconds) + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return minutes + " min";
  return Math.floor(minutes / 60) + " h" + (minutes % 60 ? " " + minutes % 60 + " min" : "");
}

// range is a span in words.
function range(span) {
  if (!span) return "nobody can say";
  const from = wait(span.from_seconds), to = wait(span.to_seconds);
  return from === to ? "about " + from : from + " to " + to;
}

const states = { open: "open", paused: "paused", queue_all: "queue all", closed: "closed", sold_out: "sold out", suspended: "suspended", "": "no limits yet" };
const causes = { consumed: "ordered", released: "given back", left: "left", expired: "timed out", moved: "moved" };

// me is who is signed in. The token is kept in this variable, and for as long as the
// tab lives only when that was asked for.
const me = { token: "", by: "" };
const kept = "queuegate";

function recall() {
  try { Object.assign(me, JSON.parse(sessionStorage.getItem(kept) || "{}")); } catch { /* a browser that keeps nothing */ }
}

function keep(on) {
  try {
    if (on) sessionStorage.setItem(kept, JSON.stringify(me)); else sessionStorage.removeItem(kept);
  } catch { /* a browser that keeps nothing */ }
}

// Refused is an answer that is none of 2xx; status 0 is no answer at all.
class Refused extends Error {
  constructor(status, problem) {
    super(problem && problem.detail || (status ? "The gate answered " + status + "." : "The gate does not answer."));
    this.status = status;
  }
}

const patience = 4000; // milliseconds that an answer may take

// ask sends a request to the API and returns what it answers.
async function ask(method, path, body, headers) {
  const options = { method, headers: { ...headers }, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(patience) };
  if (me.token) options.headers.Authorization = "Bearer " + me.token;
  const by = me.by.replace(/[^\x20-\x7e]/g, "").trim();
  if (by && method !== "GET") options.headers["X-Queuegate-Operator"] = by;
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer, document;
  try {
    answer = await fetch("/api" + path, options);
    document = await answer.json();
  } catch {
    throw new Refused(answer && !answer.ok ? answer.status : 0);
  }
  if (!answer.ok) throw new Refused(answer.status, document);
  return document;
}
