// Every change: a plan is previewed, shown with what it does, and done when it is
// confirmed.

// A plan is {title, body: what is previewed, method, path, send: what does it, yes: the
// word on the button, typed: it wants the room's name}.
const planning = { plan: null, version: 0, sending: false };

// propose shows what a plan would do.
async function propose(room, plan) {
  const box = $("preview");
  planning.plan = plan;
  planning.room = room;
  text($("preview-title"), plan.title);
  text($("confirm"), plan.yes);
  $("preview-says").replaceChildren(make("li", { textContent: "Looking…" }));
  $("preview-rows").replaceChildren();
  text($("preview-problem"), "");
  $("preview-type").hidden = !plan.typed;
  $("preview-table").hidden = true;
  $("confirm-name").value = "";
  $("confirm").disabled = true;
  if (!box.open) box.showModal();
  try {
    const p = await ask("POST", "/rooms/" + room + "/preview", plan.body);
    if (planning.plan !== plan) return;
    planning.version = p.version;
    $("preview-says").replaceChildren(...says(p, plan).map(words => make("li", { textContent: words })));
    $("preview-rows").replaceChildren(...compared(p));
    $("preview-table").hidden = false;
    $("confirm").disabled = false;
    (plan.typed ? $("confirm-name") : $("confirm")).focus();
  } catch (e) {
    if (planning.plan !== plan) return;
    $("preview-says").replaceChildren();
    text($("preview-problem"), e.message + (e.status === 503 || !e.status ? " Nothing can be changed until it does." : ""));
    $("cancel").focus();
  }
}

// says is what a plan does, in sentences.
function says(p, plan) {
  const list = p.changes.map(c => names[c.what] + ": " + written(c.what, c.old) + " → " + written(c.what, c.new) +
    (c.source === "file" ? ", the file's" : c.source === "derived" ? ", which follows" : ""));
  if (plan.kind === "change" && !p.changes.length) list.push("Nothing changes: these values are in force.");
  if (plan.kind === "admit") list.push(p.let_in_at_once > 0 ? "Up to " + people(p.let_in_at_once) + " would be let in at once." : p.now.waiting ? "Nobody would be let in: no slot is free." : "Nobody would be let in: nobody waits.");
  else if (p.let_in_at_once > 0) list.push("Up to " + people(p.let_in_at_once) + " would be let in at once.");
  if (p.over_limit > 0) {
    list.push("Nobody is thrown out: " + count(p.over_limit) + " more than the limit are inside, and nobody is let in until so many are done" +
      (p.drain ? ", in " + range(p.drain) + "." : "; nobody can say how long that takes."));
  }
  if (plan.kind === "reset") {
    list.push((known(p.places_lost) ? people(p.places_lost) : "Everybody in line") + " would lose the place, those who are away included.");
    list.push(people(p.passes_lost) + " inside would lose the pass.");
  }
  if (p.visitor) list.push("The visitor is " + p.visitor.status + (p.visitor.status === "ended" ? ": nothing to release." : p.passes_lost ? " and would lose the pass." : " and would lose the place."));
  const before = p.now.state === "open", after = p.then.state === "open";
  if (before && !after) list.push("Nobody new is let in until the room is open again. Who is inside stays, and everybody in line keeps the place.");
  if (!before && after) list.push("The line moves on in its order, without a burst.");
  return list;
}

// compared are the rows of figures now and then.
function compared(p) {
  const row = (name, of) => {
    const now = of(p.now), then = of(p.then);
    return make("tr", {}, make("th", { scope: "row", textContent: name }), make("td", { textContent: now }), make("td", { textContent: then }));
  };
  const limit = n => n > 0 ? ", limit " + count(n) : "";
  const waits = key => o => o.waiting === 0 ? "nobody waits" : o.state !== "open" ? "not while " + states[o.state] : range(o[key]);
  return [
    row("State", o => states[o.state]),
    row("Waiting", o => count(o.waiting)),
    row("Active", o => count(o.active) + limit(o.active_limit)),
    row("Let in a minute", o => (o.state === "open" ? known(o.admissions_per_minute) ? count(o.admissions_per_minute) : "nobody can say" : "nobody") + limit(o.rate_limit_per_minute)),
    row("Wait in the middle", waits("wait_typical")),
    row("Wait of the last", waits("wait_last")),
  ];
}

// confirm does what was previewed. A change is made only while the values are those
// that were previewed.
async function confirm(refresh) {
  const { plan, room } = planning;
  if (planning.sending) return;
  if (plan.typed && $("confirm-name").value.trim() !== room) {
    text($("preview-problem"), "Type " + room + " to confirm.");
    $("confirm-name").focus();
    return;
  }
  planning.sending = true;
  $("confirm").disabled = true;
  try {
    const headers = plan.method === "PATCH" ? { "If-Match": '"' + planning.version + '"' } : {};
    const done = await ask(plan.method, "/rooms/" + room + plan.path, plan.send, headers);
    $("preview").close();
    tell(plan.kind === "admit" ? "Let in " + count(done.admitted) + " of " + count(done.asked) + "." : "Done: " + plan.title + ".");
    refresh();
  } catch (e) {
    text($("preview-problem"), e.message);
    $("confirm").disabled = false;
  } finally {
    planning.sending = false;
  }
}

// tell says what was done, for a while.
function tell(words) {
  text($("told"), words);
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => text($("told"), ""), 8000);
}

// changed collects what a form's fields say that is not in force already.
function changed(view, fields) {
  const body = {};
  for (const [what, value] of Object.entries(fields)) {
    if (value !== undefined && (view.settings[what] || {}).value !== value) body[what] = value;
  }
  return body;
}

const whole = id => $(id).value === "" ? undefined : Number($(id).value);

// plans make a plan of each form.
const plans = {
  state: view => change("Change the state", changed(view, { state: $("f-state").value })),
  limits: view => change("Change the limits", changed(view, { new_users_per_minute: whole("f-rate"), total_active_users: whole("f-slots") })),
  words: view => change("Change the words", changed(view, { message: $("f-message").value, remaining_stock: whole("f-stock") ?? (known(view.settings.remaining_stock.value) ? null : undefined) })),
  session: view => change("Change the sessions", changed(view, { session_duration: $("f-session").value, session_max: $("f-session-max").value, disable_session_renewal: $("f-renewal").checked })),
  admit: () => ({ kind: "admit", title: "Let in " + people(whole("f-count")) + " now", yes: "Let in", body: { admit: { count: whole("f-count") } }, method: "POST", path: "/admit", send: { count: whole("f-count") } }),
  visitor: () => ({ kind: "release", title: "Release the visitor", yes: "Release", body: { release: { visitor: $("f-visitor").value.trim() } }, method: "POST", path: "/release", send: { visitor: $("f-visitor").value.trim() } }),
  reset: view => ({ kind: "reset", title: "Reset the room " + view.room, yes: "Reset the room", typed: true, body: { reset: {} }, method: "POST", path: "/reset", send: { confirm: view.room } }),
};

function change(title, body) {
  return { kind: "change", title, yes: "Confirm", body, method: "PATCH", path: "", send: body };
}

// found shows where a visitor stands.
async function find(room) {
  const id = $("f-visitor").value.trim();
  if (!id) { $("f-visitor").focus(); return; }
  try {
    const v = await ask("GET", "/rooms/" + room + "/visitors/" + encodeURIComponent(id));
    const rows = [["Status", v.status + (v.why ? ", " + (causes[v.why] || v.why) : "")], ["Ahead", known(v.ahead) ? count(v.ahead) : null],
      ["Wait", known(v.estimated_wait_seconds) ? wait(v.estimated_wait_seconds) : null], ["Joined", v.joined_at && whenOf(v.joined_at)],
      ["Pass until", v.lease_end_at && whenOf(v.lease_end_at)], ["Order", v.order_in_flight ? "in flight" : null]];
    $("found").replaceChildren(make("dl", {}, ...rows.filter(r => r[1]).flatMap(r => [make("dt", { textContent: r[0] }), make("dd", { textContent: r[1] })])));
  } catch (e) {
    $("found").replaceChildren(make("p", { textContent: e.message }));
  }
}
