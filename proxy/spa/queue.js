// queuegate.fetch(input, init) is fetch for calls that may wait in line.
(() => {
const base = document.currentScript.src.replace(/[^/]*$/, ''), home = new URL(base).origin;
const mine = {}, lines = {};
const [box, text, go] = ['dialog', 'output', 'button'].map((tag) => document.createElement(tag));
let chosen;
const keep = (s) => {
 if (s.ticket) mine['X-Queue-Ticket'] = s.ticket;
 if (s.entry_token) mine['X-Entry-Token'] = s.entry_token;
};
const gate = (path, method) => fetch(base + path, { method, headers: mine, signal: AbortSignal.timeout(15e3) });
const wake = () => { for (const room in lines) lines[room].wake?.(); };
for (const name of ['online', 'visibilitychange']) addEventListener(name, wake);

const follow = async (room, line) => {
 const es = new EventSource(base + room + '/events');
 es.onerror = () => es.close();
 for (const name of ['state', 'ping', 'ready', 'closed']) es.addEventListener(name, wake);
 while (line.calls.size) {
  let wait = 5e3 + 1e4 * Math.random();
  try {
   const s = await (await gate(room + '/status')).json();
   if (s.poll_after_ms) wait = s.poll_after_ms + (es.readyState < 2 ? 5e3 : 0); // a ping comes first
   keep(s);
   if ('ahead' in s) line.calls.forEach((f) => f(s));
  } catch {}
  if (line.calls.size) await new Promise((f) => { line.wake = f; setTimeout(f, wait); });
 }
 es.close();
 delete lines[room];
};

const show = (s, turn) => {
 const w = queuegate.words, wait = s.estimated_wait_seconds;
 if (!box.open) {
  document.body.append(box);
  box.append(text, go);
  box.returnValue = '';
  chosen = new Promise((f) => { box.onclose = () => f(!!box.returnValue); });
  box.showModal();
 }
 text.textContent = [w[+turn], s.position && w[2] + s.position, wait && Math.ceil(wait / 60) + w[3], s.message].filter((x) => x).join(', ');
 go.textContent = w[5 - turn];
 go.onclick = () => { if (!turn) gate(s.room, 'DELETE'); box.close(turn || ''); };
 return chosen;
};

window.queuegate = {
 words: ['You are in line', 'It is your turn', 'place ', ' min', 'Continue', 'Leave the line'],
 async fetch(input, init = {}) {
  const asked = new Request(input, init);
  for (;;) {
   const req = asked.clone();
   if (home !== origin && req.url.startsWith(home + '/')) for (const name in mine) req.headers.set(name, mine[name]);
   const got = await fetch(req), s = got.status === 429 && await got.clone().json().catch(() => asked.signal.throwIfAborted());
   if (s?.status !== 'waiting' || !s.room) return got;
   keep(s);
   if (!await new Promise((done) => {
    const line = lines[s.room] ||= { calls: new Set() };
    const hear = async (s) => {
     const turn = /ready|active/.test(s.status), said = turn || s.status === 'waiting' ? await (asked.signal.aborted || init.repeat && turn || (init.onWait || show)(s, turn)) : false;
     if (said === undefined && !turn) return;
     line.calls.delete(hear);
     if (!line.calls.size) box.close();
     done(said === true);
    };
    line.calls.add(hear);
    hear(s);
    if (line.calls.size === 1) follow(s.room, line);
   })) return got;
  }
 },
};
})();
