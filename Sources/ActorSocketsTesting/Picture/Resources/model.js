'use strict';
// What happened, made from the record. No DOM here.

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** The text on one line: line feeds and other control characters are visible. */
function shown(text) {
  return text.replace(CONTROL, (c) => c === '\n' ? '↵' : c === '\t' ? ' ' : c === '\r' ? '' : '·');
}

function seconds(time, digits = 3) { return (time / 1e9).toFixed(digits); }

/** Bytes as text if most of them are; otherwise null. Each character is a byte. */
function textOf(bytes) {
  if (!bytes) return null;
  const data = Uint8Array.from(bytes, (c) => c.charCodeAt(0));
  const text = new TextDecoder().decode(data);
  let strange = 0;
  for (const c of text) if (c === '\ufffd' || (c < ' ' && c !== '\n' && c !== '\r' && c !== '\t')) strange += 1;
  return strange * 6 > text.length ? null : text;
}

const PROTOCOL = { 1: 'ICMP', 6: 'TCP', 17: 'UDP' };
const REPORT = { 13: 'prohibited', 101: 'network unreachable', 111: 'no program has the port', 113: 'host unreachable' };
const LOSS = {
  cut: 'lost: the link is cut', chance: 'lost by the link', middlebox: 'dropped by a middlebox',
  rejected: 'rejected by a router', down: 'lost: the host is down',
};

function flagsOf(p) {
  return [p.flags & 2 ? 'SYN' : '', p.flags & 1 ? 'FIN' : '', p.flags & 4 ? 'RST' : ''].filter((s) => s).join(' ');
}

function classOf(p) {
  if (p.protocol === 1 || p.flags & 4) return 'refusal';
  if (p.count > 0 || p.protocol === 17) return 'message';
  return p.flags ? 'opening' : 'acknowledgement';
}

/** Names both ends, in an order that does not depend on the direction. */
function flowOf(p, hosts) {
  const ends = [`${hosts[p.from]}:${p.sport}`, `${hosts[p.to]}:${p.dport}`];
  if (p.protocol === 1) return '';
  if (p.from > p.to || (p.from === p.to && p.sport > p.dport)) ends.reverse();
  return `${PROTOCOL[p.protocol] || p.protocol} ${ends[0]} – ${ends[1]}`;
}

function packetOf(e, hosts) {
  const p = {
    n: e[0], t: e[1], host: e[4], kind: 'packet', from: e[4], to: e[5], protocol: e[6], sport: e[7], dport: e[8],
    flags: e[9], sequence: e[10], acknowledged: e[11], repeated: e[12] === 1, count: e[13], arrivals: e[14], loss: e[15],
    bytes: e[16],
  };
  p.class = classOf(p);
  p.flow = flowOf(p, hosts);
  p.plain = p.class === 'message' ? textOf(p.bytes) : null;
  return p;
}

/** What a packet says, in a few words. */
function wordsOf(p) {
  let words = flagsOf(p);
  if (p.protocol === 1) words = `reports: ${REPORT[p.count] || `error ${p.count}`}`;
  else if (p.plain !== null && p.plain !== '') words += ' ' + shown(p.plain).replace(/↵$/, '');
  else if (p.count) words += ` ${p.count} bytes`;
  else if (p.protocol === 17) words += ' empty';
  else if (!words) words = 'ack';
  return (p.repeated ? 'again: ' : '') + words.trim();
}

/** What is unusual about the links of a host: to which hosts they are cut, and which others differ. */
function linksOf(host, states, hosts, talks) {
  const cuts = { both: [], to: [], from: [] };
  const others = [];
  for (let peer = 0; peer < hosts.length; peer += 1) {
    if (!talks.has(peer)) continue;
    const out = states.get(host + '>' + peer), back = states.get(peer + '>' + host);
    if (out && back && out.cut && back.cut) cuts.both.push(hosts[peer]);
    else if (out && out.cut) cuts.to.push(hosts[peer]);
    else if (back && back.cut) cuts.from.push(hosts[peer]);
    const text = [out, back].filter((s) => s && !s.cut && s.text).map((s) => s.text)[0];
    if (text) others.push(`${hosts[peer]}: ${text}`);
  }
  const parts = [];
  if (cuts.both.length) parts.push('cut off from ' + cuts.both.join(', '));
  if (cuts.to.length) parts.push('cannot reach ' + cuts.to.join(', '));
  if (cuts.from.length) parts.push('hears nothing from ' + cuts.from.join(', '));
  const isCut = parts.length > 0;
  if (others.length) parts.push('link to ' + others.join('; '));
  return { text: parts.join('; '), isCut, isOther: others.length > 0 };
}

/** Bars beside and behind the lanes, and the events that begin and end them. */
function addSpans(model, events) {
  const { hosts, items } = model, talks = new Set(items.flatMap((item) => item.kind === 'packet' ? [item.from, item.to] : []));
  const condition = hosts.map(() => null), linkSpan = hosts.map(() => null), states = new Map();
  for (let index = 0; index < events.length; index += 1) {
    const e = events[index];
    if (e[3] === 'state') {
      const host = e[5];
      if (condition[host]) condition[host].end = e[1];
      condition[host] = e[6] === 'running' ? null : { host, kind: e[6], start: e[1], end: Infinity };
      if (condition[host]) model.conditions.push(condition[host]);
    }
    if (e[3] !== 'link') continue;
    const touched = new Set();
    let last = index;
    while (last < events.length && events[last][3] === 'link' && events[last][1] === e[1]) {
      const [, , , , text, from, to, cut] = events[last];
      states.set(from + '>' + to, { text, cut: cut === 1 });
      touched.add(from).add(to);
      last += 1;
    }
    for (const host of [...touched].filter((h) => talks.has(h)).sort((a, b) => a - b)) {
      const now = linksOf(host, states, hosts, talks), before = linkSpan[host];
      if (before ? before.text === now.text : !now.text) continue;
      if (before) before.end = e[1];
      linkSpan[host] = now.text ? { host, ...now, start: e[1], end: Infinity } : null;
      if (linkSpan[host]) model.links.push(linkSpan[host]);
      const text = now.text || 'links as usual again';
      items.push({ n: e[0] + host / 1e4, t: e[1], host, kind: 'link', class: 'fault', text, isCut: now.isCut });
    }
    index = last - 1;
  }
}

/** The names of all hosts. The record does not have those of very many. */
function allHosts(record) {
  const hosts = record.hosts.slice();
  const add = (host) => { while (hosts.length <= host) hosts.push(`host ${hosts.length}`); };
  for (const e of record.packets) { add(e[4]); add(e[5]); }
  for (const e of record.events) {
    add(e[2]);
    if (e[3] === 'state') add(e[5]);
    if (e[3] === 'link') { add(e[5]); add(e[6]); }
  }
  return hosts;
}

function makeModel(record) {
  const hosts = allHosts(record);
  const model = { record, hosts, items: [], conditions: [], links: [], waiting: [], failure: null, end: 0, flows: [] };
  for (const e of record.packets) model.items.push(packetOf(e, hosts));
  for (const e of record.events) {
    const [n, t, host, kind, text] = e;
    model.end = Math.max(model.end, t);
    if (kind === 'note') model.items.push({ n, t, host, kind, class: 'note', text });
    if (kind === 'change') model.items.push({ n, t, host, kind, class: 'fault', text });
    if (kind === 'state') model.items.push({ n, t, host: e[5], kind, class: 'fault', text, state: e[6] });
    if (kind === 'failure') {
      const item = { n, t, host, kind, class: 'failure', text };
      model.items.push(item);
      if (!model.failure) model.failure = item;
    }
    if (kind === 'waiting' && !model.waiting.length) {
      model.waiting = text.map((line) => waitOf(line, hosts));
      for (const w of model.waiting) model.items.push({ n: n + 0.5, t, kind: 'waiting', class: 'waiting', ...w });
    }
  }
  addSpans(model, record.events);
  const flows = new Map();
  for (const item of model.items) {
    model.end = Math.max(model.end, item.t);
    item.long = item.kind === 'packet' ? `→${hosts[item.to]} ${wordsOf(item)}` : shown(item.class === 'failure' ? item.text.split('\n')[0] : item.text);
    if (item.kind === 'state' && item.long.startsWith(hosts[item.host] + ' ')) item.long = item.long.slice(hosts[item.host].length + 1);
    if (item.kind !== 'packet') continue;
    if (item.flow) flows.set(item.flow, (flows.get(item.flow) || 0) + 1);
    const arrival = item.arrivals[0];
    if (arrival === undefined || item.loss) continue;
    const isDown = model.conditions.some((c) =>
      c.host === item.to && c.kind === 'withoutPower' && c.start <= arrival && arrival < c.end);
    if (isDown) item.loss = 'down';
  }
  for (const item of model.items) {
    const p = item.kind === 'packet';
    item.search = (p
      ? `${hosts[item.from]} ${hosts[item.to]} ${item.flow} ${item.long} ${item.plain || item.bytes} ${LOSS[item.loss] || ''}`
      : `${hosts[item.host]} ${item.text}`).toLowerCase();
  }
  model.flows = [...flows.keys()];
  model.items.sort((a, b) => a.t - b.t || a.n - b.n);
  model.items.forEach((item, index) => { item.index = index; });
  return model;
}

/** The host of a waiting operation, and its text with the names of hosts in place of addresses. */
function waitOf(line, hosts) {
  const names = line.replace(/\b10\.0\.0\.(\d+)\b|\[?fd00::([0-9a-f]+)\]?/g, (all, four, six) =>
    hosts[(four ? Number(four) : parseInt(six, 16)) - 1] || all);
  const colon = names.indexOf(': ');
  const host = colon > 0 ? hosts.indexOf(names.slice(0, colon)) : -1;
  return { host: Math.max(host, 0), text: 'waits: ' + (host < 0 ? names : names.slice(colon + 2)) };
}

const KINDS = [
  { id: 'note', name: 'Notes of the program', on: true },
  { id: 'fault', name: 'Faults and settings', on: true },
  { id: 'message', name: 'Messages', on: true },
  { id: 'refusal', name: 'Resets and reports (RST, ICMP)', on: true },
  { id: 'opening', name: 'Beginnings and ends (SYN, FIN)', on: false },
  { id: 'acknowledgement', name: 'Acknowledgements without bytes', on: false },
  { id: 'waiting', name: 'What waits at the failure', on: true },
];

function makeFilter(model) {
  return {
    kinds: new Set(KINDS.filter((k) => k.on).map((k) => k.id)),
    hosts: new Set(model.hosts.keys()), flow: '', query: '', only: false,
  };
}

function isMatch(item, filter) { return !filter.query || item.search.includes(filter.query); }

function isVisible(item, filter) {
  if (item.class === 'failure') return true;
  if (!filter.kinds.has(item.class)) return false;
  if (item.kind === 'packet') {
    if (!filter.hosts.has(item.from) || !filter.hosts.has(item.to)) return false;
    if (filter.flow && item.flow !== filter.flow) return false;
  } else if (!filter.hosts.has(item.host)) return false;
  return !filter.only || isMatch(item, filter);
}
