// The page's only script. Everything works without it: it swaps the regions of the page that the
// server says have changed, and adds keys.
'use strict';
(() => {
  const body = document.body;
  const live = document.getElementById('live');
  let ended = false; // the session

  const say = (state, text) => {
    if (!live || (ended && state !== 'over') || (live.dataset.state === state && state !== 'live')) return;
    live.dataset.state = state;
    live.textContent = text;
  };

  // --- live: regions have data-live, words that say what they show: "instances", "git",
  // "instance:ID", "operation:ID", "operations".
  let wanted = false, busy = false, last = 0, timer = 0, source = null;

  const concerns = (region, change) => {
    if (change.all) return true;
    return region.dataset.live.split(' ').some(word => {
      const at = word.indexOf(':'), kind = at < 0 ? word : word.slice(0, at), id = at < 0 ? '' : word.slice(at + 1);
      switch (kind) {
        case 'instances': return (change.instances || []).length > 0;
        case 'instance': return (change.instances || []).includes(id);
        case 'operations': return (change.operations || []).length > 0;
        case 'operation': return (change.operations || []).includes(id);
        case 'git': return !!change.git;
      }
      return false;
    });
  };

  // typing: what a person is choosing or typing in isn't taken away under their hands.
  const typing = region => {
    const at = document.activeElement;
    return at && region.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  };

  // fields are those of a region that a person fills in, each by its form, which what that sends beside it tells from
  // others, its name, and its place among those of its form.
  const fields = region => {
    const all = new Map();
    for (const form of region.querySelectorAll('form')) {
      const sent = [...form.querySelectorAll('input[type=hidden]:not([name=csrf])')].map(f => f.name + '=' + f.value);
      form.querySelectorAll('input:not([type=hidden]), select, textarea').forEach((f, i) =>
        all.set(JSON.stringify([form.getAttribute('action'), sent, f.name, i]), f));
    }
    return all;
  };

  // offered is what the server has written into a field.
  const offered = f => f.tagName === 'SELECT' ? ([...f.options].find(o => o.defaultSelected) || f.options[0])?.value : f.defaultValue;

  // replace keeps what a person has typed or chosen in a region and hasn't sent yet.
  const replace = (region, other) => {
    const filled = [...fields(region)].filter(([, f]) => f.value !== offered(f)).map(([key, f]) => [key, f.value]);
    region.replaceChildren(...document.importNode(other, true).childNodes);
    const now = fields(region);
    for (const [key, value] of filled) {
      const f = now.get(key);
      if (f && (f.tagName !== 'SELECT' || [...f.options].some(o => o.value === value))) f.value = value;
    }
  };

  const swap = next => {
    let waits = false;
    for (const region of document.querySelectorAll('[data-region]')) {
      const other = next.getElementById(region.id);
      if (!other || other.innerHTML === region.innerHTML) continue;
      if (typing(region)) { waits = true; continue; }
      const focused = region.contains(document.activeElement) ? document.activeElement : null;
      const id = focused && focused.id, href = focused && focused.getAttribute('href');
      const opened = [...region.querySelectorAll('details[open][id]')].map(d => d.id);
      replace(region, other);
      for (const d of opened) document.getElementById(d)?.setAttribute('open', '');
      if (focused) {
        const again = (id && document.getElementById(id)) || (href && [...region.querySelectorAll('a')].find(a => a.getAttribute('href') === href));
        again?.focus({preventScroll: true});
      }
    }
    return waits;
  };

  const refresh = async () => {
    if (ended) return;
    if (busy) { wanted = true; return; }
    busy = true; wanted = false; last = Date.now();
    try {
      const answer = await fetch(location.href, {headers: {'Jibe-Live': '1'}, credentials: 'same-origin', cache: 'no-store', signal: AbortSignal.timeout(30000)});
      if (answer.status === 401) { over(); return; }
      if (answer.ok) {
        const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
        if (swap(next)) wanted = true;
        say('live', 'Live, as of ' + new Date().toISOString().slice(11, 19) + ' UTC');
      }
    } catch {
      say('lost', 'The server doesn’t answer; this page may be out of date.');
    } finally {
      busy = false;
      if (wanted) soon();
    }
  };

  // At most one refresh a second, whatever happens.
  const soon = () => {
    if (timer) return;
    timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(50, 1000 - (Date.now() - last)));
  };

  // After the session nothing is asked for any more: the answer would be the same.
  const over = () => {
    ended = true;
    close();
    say('over', 'The session has ended. Reload the page to log in again.');
  };

  const close = () => { source?.close(); source = null; };

  const open = () => {
    if (ended || source || document.hidden || !document.querySelector('[data-live]')) return;
    source = new EventSource(body.dataset.events);
    source.addEventListener('hello', () => say('live', 'Live'));
    source.addEventListener('changed', e => {
      const change = JSON.parse(e.data);
      if ([...document.querySelectorAll('[data-live]')].some(region => concerns(region, change))) soon();
    });
    source.addEventListener('over', over);
    source.addEventListener('error', () => {
      say('lost', 'The connection was lost; trying again.');
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        setTimeout(() => { refresh().then(open); }, 15000);
      }
    });
  };

  if (body.dataset.events) {
    open();
    // A page that nobody looks at needs no connection; browsers have few for each server.
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) close();
      else { refresh(); open(); }
    });
    addEventListener('pagehide', close);
  }

  // --- keys
  let before = '';
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const at = document.activeElement;
    const inField = at && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
    if (e.key === 'Escape' && inField) { at.blur(); return; }
    if (inField) return;
    if (e.key.startsWith('Arrow') && at?.classList.contains('cell')) { e.preventDefault(); move(at, e.key); return; }
    const two = before + e.key;
    before = e.key === 'g' && before !== 'g' ? 'g' : '';
    if (e.key === '/') {
      const q = document.getElementById('q');
      if (q) { e.preventDefault(); q.focus(); q.select(); } else location.href = '/ui/';
    } else if (two === 'gf') location.href = '/ui/';
    else if (two === 'gg') location.href = '/ui/git';
  });

  // move goes from a cell to its neighbour on the screen.
  const move = (from, key) => {
    const cells = [...document.querySelectorAll('.cell')];
    const i = cells.indexOf(from);
    if (key === 'ArrowLeft') { cells[i - 1]?.focus(); return; }
    if (key === 'ArrowRight') { cells[i + 1]?.focus(); return; }
    const a = from.getBoundingClientRect(), down = key === 'ArrowDown';
    let best = null, distance = Infinity;
    for (const c of down ? cells.slice(i + 1) : cells.slice(0, i)) {
      const b = c.getBoundingClientRect();
      if (down ? b.top <= a.top : b.top >= a.top) continue;
      const d = Math.abs(b.top - a.top) * 4 + Math.abs(b.left - a.left);
      if (d < distance) { best = c; distance = d; }
    }
    best?.focus();
  };
})();
