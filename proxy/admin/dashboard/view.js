// What is shown of a room, and what stands above everything when something is wrong.

const silentAfter = 3; // seconds: a gate that is well calls twice a second
const staleAfter = 4000; // milliseconds without an answer of the gate

// sum adds up what is known of the points since a time.
function sum(points, since, of) {
  let total = 0, any = false;
  for (const p of points) {
    const n = of(p);
    if (Date.parse(p.at) > since && known(n)) { total += n; any = true; }
  }
  return any ? total : null;
}

// meter shows how much of a limit is used; without a limit there is nothing to show.
function meter(e, value, limit) {
  e.hidden = !(limit > 0 && known(value));
  if (e.hidden) return;
  e.max = limit;
  e.value = Math.min(value, limit);
}

function showTiles(v, points, now) {
  const settings = v.settings || {};
  const slots = settings.total_active_users && settings.total_active_users.value;
  const rate = settings.new_users_per_minute && settings.new_users_per_minute.value;
  const last = points.at(-1);
  text($("t-waiting"), count(v.waiting));
  text($("t-away"), [last && count(last.away) + " away, place kept", known(v.max_waiting) && "full at " + count(v.max_waiting)].filter(Boolean).join("; "));
  text($("t-active"), count(v.active));
  text($("t-active-limit"), slots > 0 ? "of " + count(slots) : "no limit");
  meter($("m-active"), v.active, slots);
  const admitted = perMinute(points, p => p.admitted).at(-1);
  text($("t-rate"), count(admitted));
  text($("t-rate-limit"), rate > 0 ? "of " + count(rate) : "no limit");
  meter($("m-rate"), admitted, rate);
  text($("t-wait"), last ? wait(last.wait_typical_seconds) : "–");
  text($("t-worst"), last && known(last.wait_worst_seconds) ? "worst 5 %: " + wait(last.wait_worst_seconds) + " and more" : "nobody was let in");
  const missed = sum(points, now - hour, p => p.no_shows), all = sum(points, now - hour, p => p.admitted);
  text($("t-noshow"), count(missed));
  text($("t-noshow-share"), all > 0 ? fine.format(100 * missed / all) + " % of " + count(all) + " passes" : "no passes given");
  $("t-ended").replaceChildren(...Object.entries(causes).flatMap(([why, words]) =>
    [make("dt", { textContent: words }), make("dd", { textContent: count(sum(points, now - hour, p => p.ended[why])) })]));
}

// written is a value of a setting in words.
function written(what, value) {
  if (what === "remaining_stock") return known(value) ? count(value) : "not shown";
  if ((what === "total_active_users" || what === "new_users_per_minute") && value === 0) return "no limit";
  if (what === "session_max" && value === "0s") return "none";
  if (what === "state" && value in states) return states[value];
  if (!known(value) || value === "") return "none";
  return typeof value === "number" ? numbers.format(value) : String(value);
}

const names = {
  state: "State", total_active_users: "Active users at once", new_users_per_minute: "New users a minute", burst: "Burst",
  session_duration: "Session", session_max: "Longest session", disable_session_renewal: "Sessions not renewed",
  message: "Message", remaining_stock: "Remaining stock", admit: "Let in by hand", release: "Visitor released", reset: "Room reset",
};

function showValues(v, clear) {
  const rows = Object.keys(names).filter(what => v.settings && what in v.settings).map(what => {
    const s = v.settings[what];
    const undo = make("td", {});
    if (s.live) undo.append(make("button", { type: "button", className: "small", textContent: "Back to file", "aria-label": "Back to file: " + names[what], onclick: () => clear(what) }));
    return make("tr", {}, make("th", { scope: "row", textContent: names[what] }), make("td", { className: "text", textContent: written(what, s.value) }),
      make("td", {}, make("span", { className: "tag" + (s.source === "live" ? " live-tag" : ""), textContent: s.source })),
      make("td", { className: "text", textContent: written(what, s.file) }),
      make("td", { textContent: s.live ? s.live.by + ", " + whenOf(s.live.at) : "" }), undo);
  });
  $("values").replaceChildren(...rows);
}

function showChanges(v) {
  const rows = (v.history || []).map(c => make("tr", {}, make("td", { textContent: whenOf(c.at) }), make("td", { className: "text", textContent: c.by }),
    make("td", { textContent: names[c.what] || c.what }), make("td", { className: "text", textContent: c.what === "admit" || c.what === "release" ? "" : written(c.what, c.old) }),
    make("td", { className: "text", textContent: written(c.what, c.new) + (c.cleared ? " (the file's)" : "") })));
  if (!rows.length) rows.push(make("tr", {}, make("td", { colSpan: 5, textContent: "Nothing was changed by hand." })));
  $("changes").replaceChildren(...rows);
}

function showGates(gates, redisUp) {
  const versions = new Set(gates.map(g => g.version));
  const alive = gates.filter(g => g.silent_seconds <= silentAfter).length;
  text($("gates-sum"), "Redis " + (redisUp ? "answers" : "does not answer") + "; " + (alive === 1 ? "1 gate" : alive + " gates") +
    (alive < gates.length ? ", " + (gates.length - alive) + " silent" : "") + ", " + (versions.size === 1 ? "one version" : versions.size + " versions"));
  $("gates").replaceChildren(...gates.map(g => {
    const silent = g.silent_seconds > silentAfter;
    return make("tr", { className: silent ? "silent" : "" }, make("td", { textContent: g.gate + (g.this ? " (this one)" : "") }), make("td", { textContent: g.version }),
      make("td", { textContent: silent ? "silent for " + wait(g.silent_seconds) : redisUp ? "just now" : timeOf(g.lastHeard) }), make("td", { textContent: g.shop_refuses ? "refuses" : "answers" }));
  }));
}

// troubles are what must be seen at once, the worst first. Times in them do not count
// on, so that they are told once.
function troubles(seen) {
  const list = [];
  const say = (level, words) => list.push({ level, words });
  if (seen.stale) say("critical", "No answer from the gate since " + timeOf(seen.answered) + ": everything below is of that time. " + (seen.problem || ""));
  for (const v of seen.rooms) {
    const room = seen.rooms.length > 1 ? v.room + ": " : "";
    const s = v.settings && v.settings.state;
    if (v.shadow) say("warn", room + "The room is in shadow: it decides and counts, and everybody passes.");
    if (!v.redis_up) say("critical", room + "Redis does not answer. Numbers are of " + timeOf(v.as_of) + "; who is inside goes on, who waits keeps the place, newcomers get none.");
    if (v.shop_refuses) say("critical", room + "The shop takes no connections: nobody new is let in until it does.");
    if (v.healing_seconds > 0) say("critical", room + "Redis lost its history: nobody is let in while it is brought back, less than half a minute.");
    if (known(v.max_waiting) && v.waiting >= v.max_waiting) say("warn", room + "The line is full at " + count(v.max_waiting) + ": newcomers get no place.");
    if (s && s.value !== "open") say("warn", room + "The room is " + states[s.value] + (s.live ? ", by " + s.live.by + " since " + whenOf(s.live.at) : ", by the file") + ": nobody new is let in.");
  }
  for (const g of seen.gates) {
    if (g.silent_seconds > silentAfter) say("critical", "The gate " + g.gate + " has not been heard from since " + timeOf(g.lastHeard) + ".");
    else if (g.shop_refuses && !g.this) say("critical", "The shop takes no connections of the gate " + g.gate + ", which lets nobody in.");
  }
  const versions = new Set(seen.gates.filter(g => g.silent_seconds <= silentAfter).map(g => g.version));
  if (versions.size > 1) say("info", "The gates run " + versions.size + " versions: " + [...versions].sort().join(", ") + ".");
  return list;
}

function showTroubles(list) {
  const now = list.map(t => t.level + t.words).join("\n");
  if (showTroubles.last === now) return;
  showTroubles.last = now;
  $("banners").replaceChildren(...list.map(t => make("p", { className: "banner", "data-level": t.level, textContent: t.words })));
}
