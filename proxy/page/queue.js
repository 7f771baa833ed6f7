(() => {
  'use strict';
  // Old browsers are people, too: no syntax later than 2017, and no fetch means
  // loading the page again.
  const byId = id => document.getElementById(id);
  const main = byId('queue');
  const data = main.dataset;
  const words = JSON.parse(byId('words').textContent);
  const posted = 'posted' in data;
  const still = 'still' in data;
  const first = data.state;
  const every = Number(data.poll) || 0;
  const inLine = ['waiting', 'paused', 'queue_all'];
  // Milliseconds, and NEAR in seconds.
  const HANG = 15000;
  const SLOWEST = 30000;
  const SAY = 60000;
  const CROWDED = 120000;
  const SILENCE = 5000;
  const CUT = 30000;
  const LONGEST = 600000;
  const NEAR = 120;

  let state = first;
  let timer = 0;
  let busy = false;
  let over = false;     // nothing more to ask for
  let leaving = false;  // the next page is on its way
  let asked = -Infinity; // when the last answer or failure came
  let again = false;    // ask once more when the answer is there
  let failures = 0;
  let blocked = 0;      // how often the way in was found closed
  let strangers = 0;    // answers that do not know us although we hold a place
  let saidAt = clock();
  let saidText = null;
  let from = Number(data.first) || 0; // people ahead at the beginning
  let best = Infinity;  // the lowest number shown
  let stay = null;      // since when
  let waited = null;    // the wait as shown last, in seconds and words

  // Time that runs on evenly, whatever is done to the browser's clock.
  function clock() { return performance.now(); }
  function show(id, on) { const e = byId(id); if (e) { e.hidden = !on; } }
  function on(target, event, f) { target.addEventListener(event, f); }
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
    if (state === 'ready') { show('turn', false); show('blocked', false); icon.href = plain; }
    state = next;
    data.state = next;
    document.querySelectorAll('[data-when]').forEach(e => {
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
      deadline = 0;
      tick();
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
    const over = words.hours.filter(h => seconds >= 3600 * h).pop();
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
  const icon = byId('icon') || {};
  const plain = String(icon.href);
  function call(text) {
    icon.href = plain.replace('%3C/svg', "%3Ccircle cx='11.5' cy='4.5' r='4.5' fill='%23e5484d'/%3E%3C/svg");
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
      if (document.hidden) { new Notification(text, { body: words.shop }); }
    } catch (e) { /* not allowed, or not here */ }
  }

  // At one's turn the title blinks, and where the page stays open it says how long
  // the turn is held: seen every second, spoken each minute and at last in steps of
  // twenty seconds. Server and page may disagree about the time, not about how much
  // of it is left.
  let deadline = 0;
  let ticker = 0;
  let step = 0;
  function held(s) { return s < 120 ? count(words.hold_seconds, s) : count(words.hold_minutes, Math.floor(s / 60)); }
  function until(s, answer) {
    const left = Date.parse(s.claim_before || s.entry_expires_at) - Date.parse(answer.headers.get('Date'));
    if (left > 0) { deadline = clock() + left; step = Infinity; tick(); }
  }
  function tick() {
    clearTimeout(ticker);
    if (state !== 'ready') { return; }
    const left = Math.floor((deadline - clock()) / 1000);
    ticker = setTimeout(tick, 1000);
    title(document.title === named(words.titles.ready) ? '(!) ' + words.titles.ready : words.titles.ready);
    if (!deadline) { return; }
    if (left <= 0) {
      deadline = 0;
      put('turn', words.turn_over);
      put('said', words.turn_over);
      ask();
      return;
    }
    show('turn', true);
    put('turn', words.turn_ends.replace('{hold}', held(left)));
    const size = left > 60 ? 60 : 20;
    const steps = size * Math.ceil(left / size);
    if (steps < step) {
      step = steps;
      put('said', words.turn_ends.replace('{hold}', held(left)));
    }
  }

  function numbers(s) {
    const known = typeof s.position === 'number' && s.position > 0;
    const wait = typeof s.estimated_wait_seconds === 'number' ? range(s.estimated_wait_seconds) : null;
    const text = wait ? wait[0] : words.wait_unknown;
    let spoken = '';
    put('wait', text);
    if (!wait || !waited || waited[1] !== text) {
      show('slower', !!wait && !!waited && s.estimated_wait_seconds > waited[0]);
      waited = wait && [s.estimated_wait_seconds, text];
    }
    show('near', state === 'waiting' && !!wait && s.estimated_wait_seconds < NEAR);
    show('place', known);
    show('behind-row', known && s.behind !== null);
    if (known && byId('position')) {
      if (stay && s.joined_at && stay !== s.joined_at) { best = Infinity; from = 0; } // joined again in another tab
      stay = s.joined_at || stay;
      best = Math.min(best, s.position); // two sources may be a moment apart
      put('position', number(best));
      put('behind', count(words.people, Math.max(0, s.behind || 0)));
      moved(best - 1);
      spoken = words.number.replace('{n}', number(best)) + '. ';
    }
    if (state === 'waiting') {
      title(wait ? words.wait_title.replace('{wait}', wait[1]) : words.titles.waiting);
    }
    say(spoken + words.wait + ': ' + text);
  }

  // Progress is measured from the first number of this stay, which the ticket keeps.
  function moved(ahead) {
    from = Math.max(from, ahead);
    show('moved-row', from > 0);
    byId('progress').max = Math.max(from, 1);
    byId('progress').value = from - ahead;
    put('moved', count(words.places, from).replace('{moved}', number(from - ahead)));
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
    const loads = (stored('loads') || []).filter(t => t <= now && now - t < CROWDED);
    let pause = loads.length < 2 ? 0 : Math.min(SLOWEST, 1000 * Math.pow(2, loads.length - 1));
    if (turn) {
      enter(loads.length < 3 ? 'ready' : 'cookieless');
      if (sound) { pause = Math.max(pause, 600); } // to be heard
    }
    if (still) { return; }
    leaving = true;
    hush(true);
    clearTimeout(timer);
    timer = setTimeout(() => { look(loads); }, pause);
  }

  function way() { return new URL(byId('continue').getAttribute('href') || location.href, location.href); }
  function depart(loads) {
    stored('loads', loads.concat(Date.now()).slice(-8));
    const here = way();
    if (posted) {
      location.replace(here.href);
    } else if (here.pathname + here.search === location.pathname + location.search) {
      location.reload();
    } else {
      location.replace(here.href + (here.hash ? '' : location.hash));
    }
  }

  // Looks whether the way is open before this page is left: somebody else's error
  // page, or the browser's, has no way back. A HEAD takes no turn up, and without
  // cookies it comes no farther than the gate, which answers for the shop itself; where
  // the gate does not stand in front of the shop, it has to come farther. If the way
  // was closed it is looked at as its visitor, so that the turn goes on meanwhile, and
  // so that nobody is kept out who only has to be known.
  function look(loads) {
    if (!window.fetch) { depart(loads); return; }
    const here = way();
    here.hash = '';
    request(blocked ? 'GET' : 'HEAD', here.href, blocked || 'apart' in data ? 'same-origin' : 'omit',
      answer => {
        if (answer.status > 501) { throw answer; }
        return blocked || answer.text(); // a HEAD has none, but an end
      },
      () => { depart(loads); },
      () => {
        leaving = false;
        blocked++;
        show('blocked', true);
        later(slower(blocked));
      });
  }

  function end(next) {
    over = true;
    hush(true);
    clearTimeout(timer);
    enter(next);
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
      case 'left': end('left'); return;
      case 'expired':
      case 'released': end('ended'); return;
      case 'not_entered': stranger(s); return;
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

  // The next question. While there is a stream, which says when, it is only put when
  // the stream has fallen silent.
  function later(ms, anyway) {
    if (over || leaving) { return; }
    const silent = source && !anyway;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (silent) { cut(); }
      poll();
    }, ms + (silent ? SILENCE : 0));
  }
  function slower(n) { return Math.min(SLOWEST, 1000 * Math.pow(2, n)) * (0.5 + Math.random() / 2); }

  function failed(retry) {
    failures++;
    show('reconnecting', failures > 1 || retry === undefined);
    later(Math.max(slower(failures), retry || 0), true);
  }

  function pace(s) { return Math.min(Math.max(Number(s.poll_after_ms) || every || 5000, 1000), 120000); }
  function learnt(s) {
    failures = 0;
    show('reconnecting', false);
    checked();
    notice(s.message);
    follow(s);
  }

  function took(answer, s) {
    const retry = 1000 * (Number(answer.headers.get('Retry-After')) || 0);
    if (typeof s.status !== 'string') { // a problem, not a place
      failed(answer.status === 429 ? retry : undefined);
      return;
    }
    learnt(s);
    if (state === 'ready') { until(s, answer); }
    if (s.status === 'waiting') { listen(); }
    later(Math.max(pace(s), answer.status === 429 ? retry : 0));
  }

  // One call whose answer has to be there in time: read makes something of it, good
  // gets that, bad is told that there is none. A call that hangs counts as failed
  // after 15 seconds.
  function request(method, url, credentials, read, good, bad) {
    let open = true;
    const abort = window.AbortController ? new AbortController() : null;
    function done(f) {
      return x => {
        if (!open) { return; }
        open = false;
        clearTimeout(limit);
        f(x);
      };
    }
    const lost = done(bad);
    const limit = setTimeout(() => { lost(); if (abort) { abort.abort(); } }, HANG);
    fetch(url, {
      method: method, credentials: credentials, redirect: 'manual', cache: 'no-store',
      headers: { Accept: 'application/json' }, signal: abort ? abort.signal : undefined
    }).then(read).then(done(good), lost);
  }

  // One question at a time.
  function poll() {
    if (busy || over || leaving) { return; }
    clearTimeout(timer);
    busy = true;
    again = false;
    function done(f) {
      return x => {
        busy = false;
        asked = clock();
        if (over || leaving) { return; }
        f(x);
        if (again) { poll(); }
      };
    }
    request('GET', data.statusUrl, 'same-origin', answer => {
      if ((answer.headers.get('Content-Type') || '').indexOf('json') < 0) { throw answer; }
      return answer.json().then(s => {
        if (!s || typeof s !== 'object') { throw answer; }
        return () => { took(answer, s); };
      });
    }, done(f => { f(); }), done(() => { failed(); }));
  }
  function ask() {
    again = busy;
    poll();
  }

  // The stream tells at once what the next question would bring. It decides nothing:
  // what it says of a turn or of an end is asked for. Of all tabs of a browser one
  // has it, for a browser opens few connections to one site; browsers in which tabs
  // do not know of each other ask. Who is refused, cut off or hears nothing asks as
  // well, and tries again after a while.
  let source = null;
  let lock = null;
  let unlock = null;
  let cuts = 0;
  let notBefore = -Infinity;
  function listen() {
    if (source || over || leaving || clock() < notBefore || !data.eventsUrl || !window.EventSource || !navigator.locks) { return; }
    if (unlock) { subscribe(); }
    if (lock) { return; }
    lock = new AbortController();
    navigator.locks.request('queuegate:' + data.room, { signal: lock.signal }, () => {
      return new Promise(free => {
        unlock = free;
        listen();
      });
    }).catch(() => { /* given up, or not allowed here */ });
  }
  function subscribe() {
    const mine = new EventSource(data.eventsUrl);
    source = mine;
    function heard(event, f) { on(mine, event, e => { if (source === mine) { f(JSON.parse(e.data)); } }); }
    function told(s) {
      learnt(s);
      later(pace(s));
    }
    heard('update', told);
    heard('state', told);
    heard('ping', s => {
      cuts = 0;
      told(s);
      poll();
    });
    heard('ready', () => {
      hush();
      ask();
    });
    heard('closed', s => {
      hush();
      if (s.status === 'waiting') { later(pace(s)); } else { ask(); }
    });
    mine.onerror = () => {
      if (source !== mine) { return; }
      cut();
      later(Math.random() * 5000);
    };
  }
  function cut() {
    hush();
    notBefore = clock() + Math.min(LONGEST, CUT * Math.pow(2, cuts++)) * (0.5 + Math.random() / 2);
  }
  function hush(leave) {
    if (source) { source.close(); }
    source = null;
    if (leave && lock) {
      lock.abort();
      if (unlock) { unlock(); }
      lock = unlock = null;
    }
  }

  // Asks at once, or a second after the last time when that is later: whoever
  // comes back must not wait out a delay that was meant for nobody looking.
  function wake() {
    if (document.hidden || busy) { return; }
    const pause = asked + 1000 - clock();
    if (pause > 0) { later(pause, true); } else { poll(); }
  }

  function leave() {
    if (!window.confirm(words.leave_confirm)) { return; }
    put('leave-failed', '');
    request('DELETE', data.leaveUrl, 'same-origin',
      answer => { if (!answer.ok) { throw answer; } },
      () => { end('left'); },
      () => { put('leave-failed', words.leave_failed); });
  }

  // While the line answers, "check now" asks it in place; otherwise the link
  // does what it does without a script.
  function check(e) {
    if (over || leaving || failures || still) { return; }
    e.preventDefault();
    wake();
  }

  // Whoever joins again does it with this one click, also where the page that is
  // loaded then would only say once more that the stay is over.
  function rejoin(e) {
    if (state !== 'ended' && state !== 'left') { return; }
    e.preventDefault();
    request('POST', data.joinUrl, 'same-origin', () => [], depart, () => { depart([]); });
  }

  if (byId('languages')) { byId('languages').action += location.hash; }
  const time = byId('time');
  if (time) { time.textContent = new Date(time.dateTime).toLocaleTimeString(words.lang); }
  if (!window.fetch || !data.statusUrl) {
    if (!data.statusUrl) { // shown to look at: everything is there, and does nothing
      show('leaving', true);
      show('tell', telling());
    }
    if (every && !still && first !== 'ended' && first !== 'left') { setTimeout(() => { go(false); }, Math.max(every, 5000)); }
    return;
  }
  if (navigator.cookieEnabled === false) {
    end('cookieless');
    return;
  }
  if (byId('leave')) {
    show('leaving', true);
    on(byId('leave'), 'click', leave);
  }
  if (data.joinUrl) { on(byId('continue'), 'click', rejoin); }
  if (first === 'ended' || first === 'left' || !every || (posted && first === 'shop_down')) { return; }
  show('tell', telling());
  on(byId('tell'), 'click', tell);
  on(byId('check'), 'click', check);
  on(document, 'visibilitychange', wake);
  on(window, 'online', wake);
  on(window, 'pagehide', () => { hush(true); }); // else there is no way back to this page but to load it
  on(window, 'pageshow', e => {
    if (!e.persisted) { return; }
    clearTimeout(timer);
    leaving = busy = false; // back from where we went: see whether to go forward again
    wake();
  });
  // The first question follows at once where there is a place: it is the sign
  // that somebody is here. A page that came without one waits its time.
  if (inLine.indexOf(first) >= 0 || first === 'ready') { poll(); } else { later(Math.max(every, 5000)); }
})();
