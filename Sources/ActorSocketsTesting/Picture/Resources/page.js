// The page around the canvas: filters, search, the chosen event, the story, keys.

(function main() {
  const record = JSON.parse(document.getElementById('record').textContent);
  window.addEventListener('error', (event) => { document.documentElement.dataset.error = event.message; });
  const at = (id) => document.getElementById(id);
  const model = makeModel(record), filter = makeFilter(model);
  const state = { filter, chosen: null, zoom: 1, plan: null, paint: paintOf(), waits: false };
  const scroller = at('scroller'), canvas = at('canvas'), overview = at('overview');
  const ctx = canvas.getContext('2d');

  function make(tag, text, attributes = {}) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // Drawing

  function view() {
    return {
      top: scroller.scrollTop, left: scroller.scrollLeft, width: scroller.clientWidth, height: scroller.clientHeight,
      ratio: window.devicePixelRatio || 1,
    };
  }

  function paintNow() {
    state.waits = false;
    const v = view();
    if (canvas.width !== Math.round(v.width * v.ratio) || canvas.height !== Math.round(v.height * v.ratio)) {
      canvas.width = Math.round(v.width * v.ratio);
      canvas.height = Math.round(v.height * v.ratio);
      canvas.style.width = v.width + 'px';
      canvas.style.height = v.height + 'px';
    }
    draw(ctx, state.plan, model, state, state.paint, v);
    drawOverview(overview, state.plan, state.paint, v);
  }

  function repaint() {
    if (state.waits) return;
    state.waits = true;
    requestAnimationFrame(() => { if (state.waits) paintNow(); });
  }

  /** Lays out anew, and keeps this item where it is on the screen. */
  function refresh(anchor = state.chosen || middleItem()) {
    const before = anchor && anchor.y !== undefined ? anchor.y - scroller.scrollTop : null;
    state.width = scroller.clientWidth;
    state.plan = layOut(model, filter, scroller.clientWidth, state.zoom, ctx);
    const sheet = at('sheet');
    sheet.style.height = state.plan.height + 'px';
    sheet.style.width = Math.max(state.plan.width, 0) <= scroller.clientWidth + 1 ? '100%' : state.plan.width + 'px';
    if (before !== null && state.plan.items.includes(anchor)) scroller.scrollTop = anchor.y - before;
    count();
    repaint();
  }

  function middleItem() {
    if (!state.plan) return null;
    const middle = scroller.scrollTop + scroller.clientHeight / 2;
    let best = null;
    for (const item of state.plan.items) if (!best || Math.abs(item.y - middle) < Math.abs(best.y - middle)) best = item;
    return best;
  }

  function show(item, part = 0.5) { scroller.scrollTop = item.y - scroller.clientHeight * part; }

  /** The failure is near the lower edge, with what waits then below it. */
  function showFailure() {
    const failure = model.failure && state.plan.items.includes(model.failure) ? model.failure : state.plan.items.at(-1);
    if (!failure) return;
    const below = Math.min(110, scroller.clientHeight / 4, state.plan.height - failure.y);
    scroller.scrollTop = failure.y + below - scroller.clientHeight;
    repaint();
  }

  // The chosen event

  function hex(bytes) {
    const lines = [];
    for (let i = 0; i < bytes.length; i += 8) {
      const part = [...bytes.slice(i, i + 8)].map((c) => c.charCodeAt(0));
      const digits = part.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(24);
      lines.push(i.toString(16).padStart(3, '0') + '  ' + digits + part.map((b) => b > 31 && b < 127 ? String.fromCharCode(b) : '.').join(''));
    }
    return lines.join('\n');
  }

  function rowsOf(p) {
    const first = p.arrivals[0];
    const rows = [['sent', `${seconds(p.t, 9)} s`]];
    rows.push(p.loss ? ['fate', LOSS[p.loss] || p.loss] : ['arrives', p.arrivals.map((t) => `${seconds(t, 9)} s (after ${seconds(t - p.t, 6)} s)`).join(' and ')]);
    if (!p.loss && first === undefined) rows.pop();
    rows.push(['protocol', (PROTOCOL[p.protocol] || p.protocol) + (flagsOf(p) ? ', ' + flagsOf(p) : '') + (p.repeated ? ', sent again' : '')]);
    if (p.protocol !== 1) rows.push(['ports', `${p.sport} → ${p.dport}`]);
    if (p.protocol === 6) rows.push(['sequence', `${p.sequence}${p.acknowledged >= 0 ? `, acknowledges ${p.acknowledged}` : ''}`]);
    rows.push(p.protocol === 1 ? ['error', String(p.count)] : ['bytes', String(p.count)]);
    return rows;
  }

  function detail() {
    const box = at('detail'), item = state.chosen;
    box.replaceChildren();
    if (!item) {
      box.append(make('h2', 'Why it fails'), make('pre', record.reason));
      return;
    }
    const host = model.hosts[item.host];
    if (item.kind !== 'packet') {
      box.append(make('h2', `${item.class === 'failure' ? 'Failure' : host} at ${seconds(item.t, 9)} s`), make('pre', item.class === 'failure' && item === model.failure ? record.reason : item.text));
    } else {
      box.append(make('h2', `${host} → ${model.hosts[item.to]}: ${item.class === 'message' ? 'a message' : wordsOf(item)}`));
      const table = make('table');
      for (const [name, value] of rowsOf(item)) {
        const row = make('tr');
        row.append(make('th', name, { scope: 'row' }), make('td', value));
        table.append(row);
      }
      box.append(table);
      if (item.bytes) {
        const part = item.count > item.bytes.length ? ` (the first ${item.bytes.length} of ${item.count})` : '';
        if (item.plain) box.append(make('h3', 'As text' + part), make('pre', item.plain));
        box.append(make('h3', 'As bytes' + part), make('pre', hex(item.bytes), { class: 'hex' }));
      }
    }
    const waits = model.waiting.filter((w) => w.host === item.host);
    if (waits.length) box.append(make('h3', `What waits on ${host} when the run fails`), make('pre', waits.map((w) => w.text.slice(7)).join('\n')));
    box.scrollTop = 0;
  }

  function choose(item, isShown = true) {
    state.chosen = item;
    detail();
    for (const button of document.querySelectorAll('#story button')) button.setAttribute('aria-current', String(button.item === item));
    const current = document.querySelector('#story button[aria-current=true]');
    if (current) current.scrollIntoView({ block: 'nearest' });
    if (item && isShown && state.plan.items.includes(item)) {
      const y = item.y - scroller.scrollTop;
      if (y < HEAD + 20 || y > scroller.clientHeight - 40) show(item);
    }
    repaint();
  }

  /** The next or previous visible event, or match. */
  function step(by, isWanted = () => true) {
    const items = state.plan.items.filter(isWanted);
    if (!items.length) return;
    const from = state.chosen || middleItem();
    let index = items.findIndex((item) => item.index > from.index || (by < 0 && item.index === from.index));
    if (by > 0) index = index < 0 ? items.length - 1 : index;
    else index = index < 0 ? items.length - 1 : Math.max(0, index - 1);
    choose(items[index]);
  }

  // Search and filters

  function matches() { return filter.query ? state.plan.items.filter((item) => isMatch(item, filter)) : []; }

  function count() {
    const number = matches().length;
    at('found').textContent = filter.query ? `${number} found` : '';
  }

  function addChecks(id, entries, set) {
    const menu = document.querySelector(`#${id} .menu`);
    for (const [value, name] of entries) {
      const label = make('label'), box = make('input', undefined, { type: 'checkbox' });
      box.checked = set.has(value);
      box.addEventListener('change', () => {
        if (box.checked) set.add(value); else set.delete(value);
        refresh();
      });
      label.append(box, document.createTextNode(' ' + name));
      menu.append(label);
    }
  }

  function addTools() {
    addChecks('kinds', KINDS.map((k) => [k.id, k.name]), filter.kinds);
    addChecks('hosts', model.hosts.map((name, index) => [index, shown(name)]), filter.hosts);
    for (const flow of model.flows.slice(0, 1000)) at('flow').append(make('option', shown(flow), { value: flow }));
    at('flow').addEventListener('change', () => { filter.flow = at('flow').value; refresh(); });
    at('query').addEventListener('input', () => {
      filter.query = at('query').value.toLowerCase();
      if (filter.only) refresh(); else { count(); repaint(); }
    });
    at('query').addEventListener('keydown', (event) => {
      if (event.key === 'Enter') step(event.shiftKey ? -1 : 1, (item) => isMatch(item, filter));
      if (event.key === 'Escape') scroller.focus();
      event.stopPropagation();
    });
    at('only').addEventListener('change', () => { filter.only = at('only').checked; refresh(); });
    at('tools').addEventListener('submit', (event) => event.preventDefault());
    at('in').addEventListener('click', () => zoom(1.5));
    at('out').addEventListener('click', () => zoom(1 / 1.5));
    at('start').addEventListener('click', () => { scroller.scrollTop = 0; repaint(); });
    at('fail').addEventListener('click', () => { choose(null); showFailure(); });
    document.addEventListener('click', (event) => {
      for (const menu of document.querySelectorAll('#tools details[open]')) if (!menu.contains(event.target)) menu.open = false;
    });
  }

  function zoom(factor, anchor) {
    state.zoom = Math.max(0.03, Math.min(40, state.zoom * factor));
    refresh(anchor);
  }

  // Mouse and keys

  function sheetPoint(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left + scroller.scrollLeft, event.clientY - box.top + scroller.scrollTop];
  }

  function addPointer() {
    let drag = null;
    scroller.addEventListener('scroll', repaint);
    scroller.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300));
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => { drag = { x: event.clientX, y: event.clientY, top: scroller.scrollTop, left: scroller.scrollLeft, far: false }; });
    window.addEventListener('pointermove', (event) => {
      if (!drag || event.pointerType === 'touch') return;
      if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4) drag.far = true;
      if (!drag.far) return;
      scroller.scrollTop = drag.top + drag.y - event.clientY;
      scroller.scrollLeft = drag.left + drag.x - event.clientX;
    });
    window.addEventListener('pointerup', (event) => {
      const wasFar = drag && drag.far, wasHere = drag !== null;
      drag = null;
      if (wasHere && !wasFar && event.target === canvas) choose(itemAt(state.plan, ...sheetPoint(event)), false);
    });
    canvas.addEventListener('mousemove', (event) => {
      canvas.style.cursor = itemAt(state.plan, ...sheetPoint(event)) ? 'pointer' : 'grab';
    });
    const jump = (event) => {
      scroller.scrollTop = event.offsetY / overview.clientHeight * state.plan.height - scroller.clientHeight / 2;
    };
    overview.addEventListener('pointerdown', jump);
    overview.addEventListener('pointermove', (event) => { if (event.buttons) jump(event); });
  }

  const KEYS = {
    ArrowDown: () => step(1), ArrowUp: () => step(-1), '+': () => zoom(1.5), '=': () => zoom(1.5), '-': () => zoom(1 / 1.5),
    0: () => zoom(1 / state.zoom), f: () => { choose(null); showFailure(); }, '/': () => at('query').focus(),
    Home: () => { scroller.scrollTop = 0; }, End: () => { scroller.scrollTop = state.plan.height; }, Escape: () => choose(null),
  };

  function addKeys() {
    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT/.test(event.target.tagName)) return;
      const act = KEYS[event.key];
      if (!act || (/Arrow|Home|End/.test(event.key) && event.target !== scroller && event.target !== document.body)) return;
      event.preventDefault();
      act();
    });
  }

  // Text around the canvas

  function addStory() {
    const list = document.querySelector('#story ol');
    const lines = model.items.filter((item) => ['note', 'fault', 'failure'].includes(item.class) && item.kind !== 'link');
    if (lines.length > 2000) list.append(make('li', `… ${lines.length - 2000} earlier lines`));
    for (const item of lines.slice(-2000)) {
      const entry = make('li'), button = make('button', undefined, { type: 'button' }), text = make('span', undefined, { class: item.class });
      button.item = item;
      if (item.class === 'failure') text.append('FAILS: ');
      else text.append(make('b', shown(model.hosts[item.host]), { style: `color: var(--h${item.host === 0 ? 0 : 1 + (item.host - 1) % 7})` }), ' ');
      text.append(item.long);
      button.append(make('time', seconds(item.t)), text);
      button.addEventListener('click', () => choose(item));
      entry.append(button);
      list.append(entry);
    }
  }

  function addHeader() {
    const first = record.reason.split('\n')[0], packets = model.items.filter((i) => i.kind === 'packet');
    const lost = packets.filter((i) => i.loss).length;
    at('title').textContent = `Seed ${record.seed} fails: ${shown(first)}`;
    at('facts').textContent = [
      shown(record.name), model.failure ? `fails at ${seconds(model.failure.t)} s of virtual time` : 'no failure was recorded',
      `${model.hosts.length} hosts`, `${packets.length} packets, ${lost} lost`,
    ].join(' · ');
    const warnings = [];
    if (record.droppedPackets) warnings.push(`The first ${record.droppedPackets} packets are left out, because the run has too many.`);
    if (record.droppedOthers) warnings.push(`The first ${record.droppedOthers} notes and faults are left out.`);
    if (record.droppedLater) warnings.push(`The last ${record.droppedLater} events after the failure are left out.`);
    if (record.repeats === false) warnings.push('This is a second run, and it did not do the same as the one that failed: the program does not repeat itself.');
    at('warning').textContent = warnings.join(' ');
    at('warning').hidden = !warnings.length;
  }

  /** For tests: `#selftest=WORD` in the address writes what the page shows, and what a search for the word finds. */
  function selfTest(word) {
    const arrows = () => state.plan.items.flatMap((item) => item.kind === 'packet' ? arrowsOf(state.plan, item) : []);
    const result = { width: window.innerWidth, lanes: state.plan.lanes.length, items: state.plan.items.length, arrows: arrows().length };
    result.lost = arrows().filter((a) => a[4]).length;
    result.overflow = document.documentElement.scrollWidth - window.innerWidth;
    result.failureVisible = model.failure !== null && model.failure.y > scroller.scrollTop && model.failure.y < scroller.scrollTop + scroller.clientHeight;
    result.disorder = state.plan.points.filter((p, i) => i > 0 && p.y < state.plan.points[i - 1].y).length;
    const set = (id, value, type) => { at(id).value = value; at(id).dispatchEvent(new Event(type)); };
    set('query', word, 'input');
    result.found = at('found').textContent;
    at('only').click();
    result.only = state.plan.items.filter((i) => i.class !== 'failure').length;
    at('only').click();
    set('query', '', 'input');
    const boxes = document.querySelectorAll('#hosts input');
    boxes[boxes.length - 1].click();
    result.lanesWithoutLast = state.plan.lanes.length;
    boxes[boxes.length - 1].click();
    const before = state.plan.height;
    zoom(4);
    result.zooms = state.plan.height > before;
    zoom(0.25);
    const message = state.plan.items.find((i) => i.class === 'message');
    if (message) choose(message);
    result.detail = at('detail').textContent;
    document.dispatchEvent(new KeyboardEvent('keydown', { key: 'f' }));
    paintNow();
    result.title = at('title').textContent;
    at('selftest').textContent = JSON.stringify(result);
    if (window.parent !== window) window.parent.postMessage(JSON.stringify(result), '*');
  }

  addHeader();
  addTools();
  addStory();
  addPointer();
  addKeys();
  detail();
  refresh(null);
  showFailure();
  paintNow();
  document.querySelector('#story ol li:last-child')?.scrollIntoView({ block: 'nearest' });
  new ResizeObserver(() => {
    requestAnimationFrame(() => {
      if (scroller.clientWidth !== state.width) refresh();
      paintNow();
    });
  }).observe(scroller);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { state.paint = paintOf(); repaint(); });
  scroller.focus({ preventScroll: true });
  const hash = decodeURIComponent(location.hash);
  if (hash.startsWith('#selftest=')) selfTest(hash.slice(10));
}());
