(function () {
  'use strict';
  // Old browsers are people, too: no syntax later than 2017, and no fetch means
  // loading the page again.
  const byId = function (id) { return document.getElementById(id); };
  const main = byId('queue');
  const data = main.dataset;
  const words = JSON.parse(byId('words').textContent);
  const posted = 'posted' in data;
  const still = 'still' in data;
  const first = data.state;
  const every = Number(data.poll) || 0;
  const inLine = ['waiting', 'paused', 'queue_all'];
  const HANG = 15000, SLOWEST = 30000, SAY = 60000, CROWDED = 120000, NEAR = 120;

  let state = first;
  let timer = 0;
  let busy = false;
  let over = false;     // nothing more to ask for
  let leaving = false;  // the next page is on its way
  let asked = -Infinity; // when the last answer or failure came
  let failures = 0;
  let strangers = 0;    // answers that do not know us although we hold a place
  let saidAt = clock();
  let saidText = null;

  // Time that runs on evenly, whatever is done to the browser's clock.
  function clock() { return performance.now(); }
  function show(id, on) { const e = byId(id); if (e) { e.hidden = !on; } }
  function put(id, text) { const e = byId(id); if (e && e.textContent !== text) { e.textContent = text; } }
  function title(text) { document.title = named(text); }
  function number(n) { return n.toLocaleString(words.lang); }
  function named(text) { return text.split('{shop}').join(words.shop); }
  function count(forms, n) {
    if (n === 0 && forms.none) { return forms.none; }
    const form = window.Intl && Intl.PluralRules ? new Intl.PluralRules(words.lang).select(n) : 'other';
    return (forms[form] || forms.other).replace('{n}', number(n));
  }
  // The session store is refused where cookies are; then there is no memory.
  function stored(key, value) {
    try {
      const name = 'queuegate:' + data.room + ':' + key;
      if (value === undefined) { return JSON.parse(sessionStorage.getItem(name)); }
      sessionStorage.setItem(name, JSON.stringify(value));
    } catch (e) { /* no memory */ }
    return null;
  }

  function enter(next) {
    if (next === state) { return; }
    state = next;
    data.state = next;
    document.querySelectorAll('[data-when]').forEach(function (e) {
      e.hidden = e.dataset.when.split(' ').indexOf(next) < 0;
    });
    title(words.titles[next]);
    const heading = document.querySelector('[data-when="' + next + '"] h1');
    const lead = heading.parentNode.querySelector('p');
    heading.textContent = named(heading.textContent);
    lead.textContent = named(lead.textContent);
    show('tell', telling());
    if (next === 'ready') {
      put('called', heading.textContent);
      call(heading.textContent);
    } else {
      saidAt = -Infinity;
      say(heading.textContent + '. ' + lead.textContent);
    }
  }

  // Spoken at most once a minute and only when it changed; the page as it came
  // is read anyway, so nothing is spoken at first.
  function say(text) {
    if (saidText === null && saidAt !== -Infinity) { saidText = text; return; }
    if (text === saidText || clock() - saidAt < SAY) { return; }
    saidText = text;
    saidAt = clock();
    put('said', text);
  }

  // A wait as a range: the text, and a shorter one for the title.
  function range(seconds) {
    if (seconds < 60) { return [words.wait_soon, words.short_minutes.replace('{n}', number(1))]; }
    for (let i = 1; i < words.minutes.length; i++) {
      const to = words.minutes[i];
      if (seconds < 60 * to) {
        return [count(words.wait_minutes, to).replace('{from}', number(words.minutes[i - 1])), words.short_minutes.replace('{n}', number(to))];
      }
    }
    if (seconds >= 86400) { return [words.wait_day, words.short_day]; }
    const over = words.hours.filter(function (h) { return seconds >= 3600 * h; }).pop();
    return [count(words.wait_hours, over), words.short_hours.replace('{n}', number(over))];
  }

  // Whoever clicked for it hears and sees that it is their turn, also in another
  // tab. Permission to notify is welcome and not needed.
  let sound = null;
  function telling() { return !sound && !!window.AudioContext && !still && inLine.indexOf(state) >= 0; }
  function tell() {
    sound = new AudioContext();
    sound.resume();
    show('tell', false);
    put('told', words.told);
    if (window.Notification && Notification.permission === 'default') { Notification.requestPermission(); }
  }
  function call(text) {
    const icon = byId('icon');
    icon.href = icon.href.replace('%231f6fd1', '%23c2410c');
    if (!sound) { return; }
    const beep = sound.createOscillator();
    const volume = sound.createGain();
    volume.gain.value = 0.2;
    beep.connect(volume);
    volume.connect(sound.destination);
    beep.frequency.value = 880;
    beep.start();
    beep.stop(sound.currentTime + 0.4);
    try {
      if (document.visibilityState === 'hidden') { new Notification(text, { body: words.shop }); }
    } catch (e) { /* not allowed, or not here */ }
  }

  function numbers(s) {
    const known = typeof s.position === 'number' && s.position > 0;
    const wait = typeof s.estimated_wait_seconds === 'number' ? range(s.estimated_wait_seconds) : null;
    const text = wait ? wait[0] : words.wait_unknown;
    let spoken = '';
    put('wait', text);
    show('near', state === 'waiting' && !!wait && s.estimated_wait_seconds < NEAR);
    show('place', known);
    show('behind-row', known && s.behind !== null);
    if (known && byId('position')) {
      put('position', number(s.position));
      put('behind', count(words.people, Math.max(0, s.behind || 0)));
      moved(s);
      spoken = words.number.replace('{n}', number(s.position)) + '. ';
    }
    if (state === 'waiting') {
      title(wait ? words.wait_title.replace('{wait}', wait[1]) : words.titles.waiting);
    }
    say(spoken + words.wait + ': ' + text);
  }

  // Progress is measured from the first number this tab was shown in this stay,
  // and shown once the place has moved.
  function moved(s) {
    let from = stored('from');
    if (!from || from.stay !== s.joined_at || from.position < s.position) {
      from = { stay: s.joined_at, position: s.position };
      stored('from', from);
    }
    const steps = from.position - s.position;
    show('moved-row', steps > 0);
    if (steps > 0) {
      byId('progress').max = from.position;
      byId('progress').value = steps;
      put('moved', count(words.places, steps));
    }
  }

  function checked() {
    let time = byId('time');
    const now = new Date();
    if (time) {
      time.dateTime = now.toISOString();
      time.textContent = now.toLocaleTimeString(words.lang);
    }
  }

  function notice(text) {
    const e = byId('message');
    if (e.dataset.own === undefined) { e.dataset.own = e.textContent; }
    const now = text || e.dataset.own;
    put('message', now);
    e.hidden = !now;
  }

  // Loads the page of the turn: this very address with query and fragment, or
  // the way back when this page answered a form, which is never sent twice. If
  // loads follow each other quickly they slow down, whatever the reason.
  function go(turn) {
    if (leaving || over) { return; }
    const now = Date.now();
    const loads = (stored('loads') || []).filter(function (t) { return t <= now && now - t < CROWDED; });
    let pause = loads.length < 2 ? 0 : Math.min(SLOWEST, 1000 * Math.pow(2, loads.length - 1));
    if (turn) {
      enter(loads.length < 3 ? 'ready' : 'cookieless');
      if (sound) { pause = Math.max(pause, 600); } // to be heard
    }
    if (still) { over = turn; return; }
    leaving = true;
    clearTimeout(timer);
    timer = setTimeout(function () {
      stored('loads', loads.concat(Date.now()).slice(-8));
      const here = new URL(byId('continue').getAttribute('href') || location.href, location.href);
      if (posted) {
        location.replace(here.href);
      } else if (here.pathname + here.search === location.pathname + location.search) {
        location.reload();
      } else {
        location.replace(here.href + (here.hash ? '' : location.hash));
      }
    }, pause);
  }

  function end(next) {
    over = true;
    clearTimeout(timer);
    if (next) { enter(next); }
  }

  function stranger(s) {
    if (inLine.indexOf(first) < 0) {
      // This page came without a place: when the line is open, ask for one.
      if (s.room_state === 'closed' || s.room_state === 'sold_out') { enter(s.room_state); }
      else if (s.room_state === 'degraded') { enter('unreachable'); }
      else { go(false); }
      return;
    }
    strangers++;
    if (strangers > 1) { end('cookieless'); }
  }

  function follow(s) {
    switch (s.status) {
      case 'ready':
      case 'active': go(true); return;
      case 'expired':
      case 'left':
      case 'released': end('ended'); return;
      case 'not_entered': stranger(s); return;
      case 'full': enter('full'); return;
      case 'waiting': break;
      default: return;
    }
    strangers = 0;
    switch (s.room_state) {
      case 'suspended': go(true); return;
      case 'scheduled': enter('queue_all'); break;
      case 'paused':
      case 'queue_all':
      case 'closed':
      case 'sold_out':
      case 'degraded': enter(s.room_state); break;
      default: enter('waiting');
    }
    numbers(s);
  }

  function later(ms) {
    if (over || leaving) { return; }
    clearTimeout(timer);
    timer = setTimeout(poll, ms);
  }

  function failed(retry) {
    failures++;
    show('reconnecting', failures > 1 || retry === undefined);
    const grown = Math.min(SLOWEST, 1000 * Math.pow(2, failures)) * (0.5 + Math.random() / 2);
    later(Math.max(grown, retry || 0));
  }

  function took(answer, s) {
    const retry = 1000 * (Number(answer.headers.get('Retry-After')) || 0);
    if (typeof s.status !== 'string') { // a problem, not a place
      failed(answer.status === 429 ? retry : undefined);
      return;
    }
    failures = 0;
    show('reconnecting', false);
    checked();
    notice(s.message);
    follow(s);
    const next = Math.max(Number(s.poll_after_ms) || every || 5000, answer.status === 429 ? retry : 0);
    later(Math.min(Math.max(next, 1000), 120000));
  }

  // One call at a time. A call that hangs counts as failed after 15 seconds.
  function poll() {
    if (busy || over || leaving) { return; }
    clearTimeout(timer);
    busy = true;
    let open = true;
    const abort = window.AbortController ? new AbortController() : null;
    function done(f) {
      return function (x) {
        if (!open) { return; }
        open = false;
        clearTimeout(limit);
        busy = false;
        asked = clock();
        if (!over && !leaving) { f(x); }
      };
    }
    const lost = done(function () { failed(); });
    const limit = setTimeout(function () { lost(); if (abort) { abort.abort(); } }, HANG);
    fetch(data.statusUrl, {
      credentials: 'same-origin', cache: 'no-store', headers: { Accept: 'application/json' },
      signal: abort ? abort.signal : undefined
    }).then(function (answer) {
      if ((answer.headers.get('Content-Type') || '').indexOf('json') < 0) { throw new Error('not JSON'); }
      return answer.json().then(function (s) {
        if (!s || typeof s !== 'object') { throw new Error('no answer'); }
        return function () { took(answer, s); };
      });
    }).then(done(function (f) { f(); }), lost);
  }

  // Asks at once, or a second after the last time when that is later: whoever
  // comes back must not wait out a delay that was meant for nobody looking.
  function wake() {
    if (document.visibilityState === 'hidden' || busy) { return; }
    const pause = asked + 1000 - clock();
    if (pause > 0) { later(pause); } else { poll(); }
  }

  function leave() {
    if (!window.confirm(words.leave_confirm)) { return; }
    put('leave-failed', '');
    fetch(data.leaveUrl, { method: 'DELETE', credentials: 'same-origin', headers: { Accept: 'application/json' } })
      .then(function (answer) { if (!answer.ok) { throw new Error(String(answer.status)); } end('ended'); })
      .catch(function () { put('leave-failed', words.leave_failed); });
  }

  // While the line answers, "check now" asks it in place; otherwise the link
  // does what it does without a script.
  function check(e) {
    if (over || leaving || failures || still) { return; }
    e.preventDefault();
    wake();
  }

  if (byId('languages')) { byId('languages').action += location.hash; }
  const time = byId('time');
  if (time) { time.textContent = new Date(time.dateTime).toLocaleTimeString(words.lang); }
  if (!window.fetch || !data.statusUrl) {
    if (every && !still && first !== 'ended') { setTimeout(function () { go(false); }, Math.max(every, 5000)); }
    return;
  }
  if (navigator.cookieEnabled === false) {
    end('cookieless');
    return;
  }
  if (byId('leave')) {
    show('leaving', true);
    byId('leave').addEventListener('click', leave);
  }
  if (first === 'ended' || !every || (posted && first === 'shop_down')) { return; }
  show('tell', telling());
  byId('tell').addEventListener('click', tell);
  byId('check').addEventListener('click', check);
  document.addEventListener('visibilitychange', wake);
  window.addEventListener('online', wake);
  window.addEventListener('pageshow', function (e) {
    if (!e.persisted) { return; }
    clearTimeout(timer);
    leaving = busy = false; // back from where we went: see whether to go forward again
    wake();
  });
  // The first question follows at once where there is a place: it is the sign
  // that somebody is here. A page that came without one waits its time.
  if (inLine.indexOf(first) >= 0 || first === 'ready') { poll(); } else { later(Math.max(every, 5000)); }
})();
