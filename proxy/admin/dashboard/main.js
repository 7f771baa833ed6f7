// The page as a whole: who is signed in, which room is shown, and what is asked for
// when.

const every = 2000; // milliseconds from one look to the next
const historyEvery = 5000;

const seen = { rooms: [], gates: [], view: null, room: "", points: new Map(), answered: 0, stale: false, problem: "", historyAt: new Map(), historyFailed: false };
let charts, timer, looking = false, live = 0;

// look asks for everything that is due and shows it.
async function look() {
  if (looking) return;
  looking = true;
  clearTimeout(timer);
  let next = every;
  try {
    const list = await ask("GET", "/rooms");
    signedIn();
    seen.rooms = list.rooms;
    if (!seen.rooms.some(r => r.room === seen.room)) choose((seen.rooms.find(r => r.settings) || seen.rooms[0]).room, true);
    const room = seen.room;
    const [view] = await Promise.all([ask("GET", "/rooms/" + room), lookAtGates(), lookBack(room)]);
    if (room === seen.room) seen.view = view; else next = 0; // another was chosen meanwhile
    seen.answered = Date.now();
    live = performance.now();
    seen.problem = "";
  } catch (e) {
    if (e.status === 401 || e.status === 429 || e.status === 403) { signIn(e); return; }
    seen.problem = e.message;
  } finally {
    looking = false;
  }
  show();
  timer = setTimeout(look, next);
}

// lookAtGates keeps when each gate was heard last. When Redis is away nobody knows, and
// what was known ages.
async function lookAtGates() {
  try {
    const list = await ask("GET", "/gates");
    const now = Date.now(), before = new Map(seen.gates.map(g => [g.gate, g]));
    for (const g of list.gates) {
      const old = before.get(g.gate);
      // A gate that stays silent was heard last when it was first missed.
      g.lastHeard = old && old.silent_seconds > silentAfter && g.silent_seconds > old.silent_seconds ? old.lastHeard : now - 1000 * g.silent_seconds;
    }
    seen.gates = list.gates;
  } catch (e) {
    if (e.status !== 503) throw e;
  }
}

// lookBack asks for the points of the history that are not known yet.
async function lookBack(room) {
  const now = performance.now();
  const view = seen.rooms.find(r => r.room === room);
  if (!view.settings || now - (seen.historyAt.get(room) ?? -Infinity) < historyEvery - 500) return;
  const have = seen.points.get(room) || [];
  try {
    const after = have.length ? "?after=" + encodeURIComponent(have.at(-1).at) : "";
    const h = await ask("GET", "/rooms/" + room + "/history" + after);
    seen.points.set(room, have.concat(h.points).slice(-720));
    seen.historyAt.set(room, now);
    seen.historyFailed = false;
  } catch (e) {
    if (e.status !== 503) throw e;
    seen.historyFailed = true;
  }
}

// show shows what is known, and how old it is.
function show() {
  if (!seen.view) {
    pulse("stale", "No answer");
    showTroubles([{ level: "critical", words: seen.problem || "The gate does not answer." }]);
    return;
  }
  seen.stale = performance.now() - live > staleAfter;
  const v = seen.view, hasLine = !!v.settings;
  const down = hasLine && !v.redis_up;
  document.body.classList.toggle("stale", seen.stale || down);
  pulse(seen.stale || down ? "stale" : "live", seen.stale ? "Stale, of " + timeOf(seen.answered) : down ? "Redis away, of " + timeOf(v.as_of) : "Live, " + timeOf(seen.answered));
  showTroubles(troubles(seen));
  showRooms();
  text($("name"), v.room);
  document.title = (hasLine ? count(v.waiting) + " waiting, " : "") + v.room + " – queuegate";
  text($("state"), (states[v.state] || v.state) + (v.shadow ? ", in shadow" : ""));
  $("state").dataset.state = v.state;
  text($("as-of"), (seen.stale || down ? "not live: of " : "of ") + timeOf(seen.stale ? seen.answered : v.as_of) + ", " + v.queueing_method);
  $("no-line").hidden = hasLine;
  for (const id of ["tiles", "charts", "actions"]) $(id).hidden = !hasLine;
  for (const section of document.querySelectorAll("main > section.live")) section.hidden = !hasLine && !section.contains($("gates"));
  $("pause").hidden = !hasLine;
  text($("pause"), v.state === "open" ? "Pause…" : "Resume…");
  showGates(seen.gates, seen.rooms.every(r => r.redis_up));
  if (!hasLine) return;
  const points = seen.points.get(v.room) || [];
  const now = Math.max(v.as_of ? Date.parse(v.as_of) : 0, points.length ? Date.parse(points.at(-1).at) : 0) || Date.now();
  showTiles(v, points, now);
  showValues(v, what => propose(v.room, change(names[what] + ": back to the file's value", { [what]: null })));
  showChanges(v);
  fill(v);
  charts.draw(points, now, (v.history || []).map(c => Date.parse(c.at)));
  const last = points.at(-1);
  text($("charts-stale"), seen.historyFailed || last && now - Date.parse(last.at) > 20e3 ? "not live: the last point is of " + timeOf(last && last.at) : "");
}

function pulse(state, words) {
  $("pulse").dataset.state = state;
  text($("pulse-text"), words);
}

// showRooms are the rooms to choose from, when there are several.
function showRooms() {
  const nav = $("rooms");
  nav.hidden = seen.rooms.length < 2;
  const now = seen.rooms.map(r => r.room).join();
  if (nav.dataset.of !== now) {
    nav.dataset.of = now;
    nav.replaceChildren(...seen.rooms.map(r => make("button", { type: "button", className: "small", onclick: () => choose(r.room) }, r.room + " ", make("span", { className: "n" }))));
  }
  seen.rooms.forEach((r, i) => {
    const b = nav.children[i];
    if (r.room === seen.room) b.setAttribute("aria-current", "true"); else b.removeAttribute("aria-current");
    text(b.lastChild, known(r.waiting) ? count(r.waiting) : states[r.state] || "");
  });
}

function choose(room, quietly) {
  seen.room = room;
  fill.of = "";
  if (!quietly) look();
}

// fill puts the values in force into the forms, but for those that somebody is
// changing.
function fill(v) {
  const now = v.room + " " + v.version;
  if (fill.of === now) return;
  const other = !fill.of || !fill.of.startsWith(v.room + " ");
  fill.of = now;
  const s = v.settings;
  const put = (id, value) => {
    const e = $(id), form = e.closest("form");
    if (!other && form.dataset.touched) return;
    if (e.type === "checkbox") e.checked = !!value; else e.value = known(value) ? value : "";
  };
  put("f-state", s.state.value);
  put("f-rate", s.new_users_per_minute.value);
  put("f-slots", s.total_active_users.value);
  put("f-message", s.message.value);
  put("f-stock", s.remaining_stock && s.remaining_stock.value);
  put("f-session", s.session_duration.value);
  put("f-session-max", s.session_max.value);
  put("f-renewal", s.disable_session_renewal.value);
}

// signIn asks for name and token.
function signIn(e) {
  clearTimeout(timer);
  const asked = me.token !== "";
  me.token = "";
  keep(false);
  $("room").hidden = true;
  $("rooms").hidden = true;
  $("sign-out").hidden = true;
  $("sign-in").hidden = false;
  showTroubles([]);
  pulse("wait", "Signed out");
  text($("sign-in-problem"), e && (asked || e.status !== 401) ? e.status === 401 ? "This is not the token." : e.message : "");
  $("who").value = me.by;
  (me.by && asked ? $("token") : $("who")).focus();
}

function signedIn() {
  if (!$("room").hidden) return;
  $("sign-in").hidden = true;
  $("room").hidden = false;
  $("sign-out").hidden = me.token === "";
  $("pages").hidden = me.token !== ""; // a link brings no token
  $("by").value = me.by;
  if (me.token && $("keep").checked) keep(true);
  if (me.token) $("room").focus();
}

function start() {
  charts = new Charts();
  recall();
  $("sign-in-form").addEventListener("submit", e => {
    e.preventDefault();
    me.by = $("who").value.trim();
    me.token = $("token").value.trim();
    $("token").value = "";
    look();
  });
  $("sign-out").addEventListener("click", () => { me.token = ""; keep(false); seen.view = null; seen.points.clear(); location.reload(); });
  $("by").addEventListener("input", () => { me.by = $("by").value.trim(); });
  for (const form of document.querySelectorAll("form[data-plan]")) {
    form.addEventListener("input", () => { form.dataset.touched = "yes"; });
    form.addEventListener("submit", e => {
      e.preventDefault();
      const plan = plans[form.dataset.plan](seen.view);
      if (plan.kind === "change" && !Object.keys(plan.body).length) { tell("Nothing to change: these values are in force."); return; }
      propose(seen.view.room, plan);
    });
  }
  $("pause").addEventListener("click", () => {
    const open = seen.view.state === "open";
    propose(seen.view.room, change(open ? "Pause the room" : "Resume the room", { state: open ? "paused" : "open" }));
  });
  $("f-half").addEventListener("click", () => { $("f-rate").value = Math.max(1, Math.floor($("f-rate").value / 2)); $("f-half").form.dataset.touched = "yes"; });
  $("f-double").addEventListener("click", () => { $("f-rate").value = $("f-rate").value * 2; $("f-half").form.dataset.touched = "yes"; });
  $("f-find").addEventListener("click", () => find(seen.view.room));
  $("confirm-form").addEventListener("submit", e => {
    e.preventDefault();
    confirm(() => { for (const form of document.querySelectorAll("form[data-plan]")) delete form.dataset.touched; fill.of = ""; look(); });
  });
  $("cancel").addEventListener("click", () => $("preview").close());
  $("preview").addEventListener("close", () => { planning.plan = null; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && seen.view) look(); });
  setInterval(() => { if (seen.view && performance.now() - live > staleAfter) show(); }, 1000);
  look();
}

start();
