// The lanes and arrows on a canvas. Where everything stands is decided in `layOut`; `draw` only draws what is visible.

const GUTTER = 58, HEAD = 28, ROW = 15, LANE = 15, NARROWEST = 92, FONT = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

/** Space for a time without events: proportional at first, then it grows slowly. */
function gapOf(points) {
  const gaps = [];
  for (let i = 1; i < points.length; i += 1) if (points[i].t > points[i - 1].t) gaps.push(points[i].t - points[i - 1].t);
  gaps.sort((a, b) => a - b);
  const median = gaps[gaps.length >> 1] || 1e6;
  return (time, zoom) => {
    const plain = time / median * 5 * zoom, most = 22 * Math.max(1, Math.sqrt(zoom));
    return plain <= most ? plain : most + 7 * Math.log2(plain / most);
  };
}

/** At most so many lines of text that fit into the width; the last one ends with … if something is missing. */
function wrap(ctx, text, width, most) {
  const key = `${ctx.font}|${Math.round(width)}|${most}|${text}`, known = wrapped.get(key);
  if (known) return known;
  if (wrapped.size > 100_000) wrapped.clear();
  const lines = linesOf(ctx, text, width, most);
  wrapped.set(key, lines);
  return lines;
}

const wrapped = new Map();

function linesOf(ctx, text, width, most) {
  const lines = [];
  let rest = text;
  while (rest && lines.length < most) {
    let low = 1, high = Math.min(rest.length, 200);
    const isLast = lines.length === most - 1;
    if (ctx.measureText(rest.slice(0, 200)).width <= width && rest.length <= 200) low = rest.length;
    else {
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (ctx.measureText(rest.slice(0, middle) + (isLast ? '…' : '')).width <= width) low = middle; else high = middle - 1;
      }
    }
    let piece = rest.slice(0, low);
    const space = piece.lastIndexOf(' ');
    if (low < rest.length && !isLast && space > low / 3) piece = rest.slice(0, space + 1);
    rest = rest.slice(piece.length);
    lines.push(piece.trimEnd() + (rest && isLast ? '…' : ''));
  }
  return lines.length ? lines : [''];
}

/** Gives each visible item its place: `y`, `lines` and, for packets, the ends of its arrows. */
function layOut(model, filter, width, zoom, ctx) {
  const used = new Set();
  const items = model.items.filter((item) => isVisible(item, filter));
  for (const item of items) {
    if (item.class !== 'failure') used.add(item.host);
    if (item.kind === 'packet') used.add(item.to);
  }
  const lanes = [...model.hosts.keys()].filter((h) => filter.hosts.has(h) && (h > 0 || used.has(0)));
  const talks = items.some((item) => item.kind === 'packet' && (item.from === 0 || item.to === 0));
  // The test's own host mostly has only faults and settings.
  const weight = (host) => host === 0 && !talks && lanes.length > 2 ? 0.75 : 1;
  const slot = Math.max(NARROWEST, (width - GUTTER - 6) / Math.max(1, lanes.reduce((sum, host) => sum + weight(host), 0)));
  const place = new Map(), slots = new Map();
  let right = GUTTER;
  for (const host of lanes) {
    place.set(host, right);
    slots.set(host, slot * weight(host));
    right += slot * weight(host);
  }
  const points = [];
  for (const item of items) {
    points.push({ t: item.t, rank: 1, item });
    item.ends = [];
    if (item.kind !== 'packet') continue;
    for (const t of item.arrivals) {
      const end = { t, y: 0 };
      item.ends.push(end);
      points.push({ t, rank: 0, end });
    }
  }
  points.sort((a, b) => a.t - b.t || a.rank - b.rank || (a.item && b.item ? a.item.index - b.item.index : 0));
  const gap = gapOf(points), bottoms = new Map(), breaks = [], row = ROW * Math.min(1, zoom);
  ctx.font = FONT;
  let y = HEAD + 14, last = points.length ? points[0].t : 0;
  for (const point of points) {
    const space = gap(point.t - last, zoom);
    if (space > 46 * Math.max(1, Math.sqrt(zoom))) breaks.push({ y: y + space - 14, time: point.t - last });
    y += space;
    last = point.t;
    const { item } = point;
    if (!item) {
      point.end.y = y;
    } else if (item.class === 'failure') {
      y = Math.max(y, ...bottoms.values(), 0) + 12;
      item.lines = wrap(ctx, `FAILS at ${seconds(item.t)} s: ${item.long}`, Math.min(width, right) - 24, 2);
      for (const host of lanes) bottoms.set(host, y + 18 + ROW * item.lines.length);
    } else {
      const most = item.class === 'note' ? 4 : item.class === 'message' ? 1 : item.class === 'waiting' ? 5 : 3;
      const text = item.class === 'message' && slot < 160 ? '→' + wordsOf(item) : item.long;
      const isBold = item.class === 'note' || item.class === 'fault';
      ctx.font = isBold ? '600 ' + FONT : FONT;
      item.lines = wrap(ctx, text, (slots.get(item.host) || slot) - LANE - 13, most);
      y = Math.max(y, bottoms.get(item.host) || 0);
      bottoms.set(item.host, y + row * item.lines.length + (isBold ? 6 : 2) * Math.min(1, zoom));
    }
    point.y = y;
    if (item) item.y = y;
  }
  for (const item of items) item.bottom = item.ends.reduce((most, end) => Math.max(most, end.y), item.y + ROW * (item.lines.length + 1));
  const height = Math.max(y, ...bottoms.values(), 0) + 30;
  return { items, lanes, slots, place, points, breaks, height, width: right + 6 };
}

/** Where a time is, between the events that have places. */
function yOf(plan, t) {
  const { points } = plan;
  if (!points.length || t <= points[0].t) return HEAD;
  if (t > points[points.length - 1].t) return plan.height - 12;
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].t < t) low = middle + 1; else high = middle;
  }
  const b = points[low], a = points[low - 1];
  return b.t === t || !a ? b.y : a.y + (b.y - a.y) * (t - a.t) / (b.t - a.t);
}

function paintOf() {
  const style = getComputedStyle(document.documentElement), paint = {};
  const names = ['page', 'soft', 'line', 'text', 'muted', 'fail', 'fail-soft', 'warn', 'warn-soft', 'down', 'down-soft', 'mark', 'focus'];
  for (const name of names) paint[name] = style.getPropertyValue('--' + name).trim();
  paint.hosts = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => style.getPropertyValue('--h' + n).trim());
  paint.host = (n) => n === 0 ? paint.hosts[0] : paint.hosts[1 + (n - 1) % 7];
  return paint;
}

function drawSpans(ctx, plan, model, paint, top, bottom) {
  for (const span of model.conditions) {
    const x = plan.place.get(span.host);
    if (x === undefined) continue;
    const from = Math.max(yOf(plan, span.start), top - 20), to = Math.min(yOf(plan, span.end), bottom + 20);
    if (to <= from) continue;
    const isPause = span.kind === 'paused';
    ctx.fillStyle = isPause ? paint['warn-soft'] : paint['down-soft'];
    ctx.fillRect(x, from, plan.slots.get(span.host) - 8, to - from);
    ctx.fillStyle = isPause ? paint.warn : paint.down;
    ctx.fillRect(x + LANE - 5, from, 10, to - from);
    ctx.fillStyle = paint.page;
    // Stripes, so that the two do not differ by their colour only.
    for (let y = Math.ceil(from / 8) * 8; y < to - 3; y += 8) ctx.fillRect(x + LANE - (isPause ? 5 : 3), y, isPause ? 10 : 6, isPause ? 2 : 4);
  }
  for (const span of model.links) {
    const x = plan.place.get(span.host);
    if (x === undefined) continue;
    const from = Math.max(yOf(plan, span.start), top - 20), to = Math.min(yOf(plan, span.end), bottom + 20);
    if (to <= from) continue;
    ctx.fillStyle = span.isCut ? paint.fail : paint.warn;
    ctx.fillRect(x + 2, from, 4, to - from);
  }
}

function drawLanes(ctx, plan, model, paint, top, bottom) {
  ctx.lineWidth = 2;
  for (const host of plan.lanes) {
    const x = plan.place.get(host) + LANE;
    ctx.strokeStyle = paint.host(host);
    ctx.globalAlpha = 0.55;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, Math.min(bottom, plan.height - 12));
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  ctx.font = FONT;
  ctx.textAlign = 'center';
  for (const quiet of plan.breaks) {
    if (quiet.y < top || quiet.y > bottom) continue;
    ctx.strokeStyle = paint.line;
    ctx.lineWidth = 1;
    ctx.setLineDash([2, 4]);
    ctx.beginPath();
    ctx.moveTo(GUTTER, quiet.y);
    ctx.lineTo(plan.width, quiet.y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillStyle = paint.muted;
    const text = quiet.time >= 1e9 ? `${seconds(quiet.time, 1)} s` : `${Math.round(quiet.time / 1e6)} ms`;
    ctx.fillText('+' + text, GUTTER / 2, quiet.y + 4);
  }
  ctx.textAlign = 'left';
}

/** The lines of an arrow: [x0, y0, x1, y1, isLost]. A packet that is lost ends halfway. */
function arrowsOf(plan, item) {
  const a = plan.place.get(item.from), b = plan.place.get(item.to);
  if (a === undefined || b === undefined || item.from === item.to) return [];
  const x0 = a + LANE, x1 = b + LANE, side = Math.sign(x1 - x0);
  if (!item.ends.length) {
    const reach = Math.min(Math.abs(x1 - x0) * 0.5, 90);
    return [[x0, item.y, x0 + side * reach, item.y + 11, true]];
  }
  return item.ends.map((end) => [x0, item.y, x1 - side * 2, end.y, item.loss === 'down']);
}

function drawArrow(ctx, [x0, y0, x1, y1, isLost], colour, paint, isStrong) {
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = isStrong ? 2.6 : 1.2;
  ctx.setLineDash(isLost ? [5, 4] : []);
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.setLineDash([]);
  if (isLost) {
    ctx.strokeStyle = paint.fail;
    ctx.lineWidth = 2;
    ctx.beginPath();
    for (const s of [1, -1]) {
      ctx.moveTo(x1 - 4, y1 - 4 * s);
      ctx.lineTo(x1 + 4, y1 + 4 * s);
    }
    ctx.stroke();
    return;
  }
  const angle = Math.atan2(y1 - y0, x1 - x0), size = isStrong ? 10 : 7;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - size * Math.cos(angle - 0.4), y1 - size * Math.sin(angle - 0.4));
  ctx.lineTo(x1 - size * Math.cos(angle + 0.4), y1 - size * Math.sin(angle + 0.4));
  ctx.fill();
}

function colourOf(item, paint) {
  if (item.class === 'failure' || (item.kind === 'packet' && item.loss)) return paint.fail;
  if (item.kind === 'link') return item.isCut ? paint.fail : paint.warn;
  if (item.kind === 'state') return item.state === 'running' ? paint.warn : paint.fail;
  if (item.class === 'fault' || item.class === 'waiting') return paint.warn;
  return item.class === 'note' ? paint.text : paint.muted;
}

function drawMark(ctx, item, x, paint) {
  ctx.fillStyle = item.kind === 'packet' ? paint.host(item.host) : colourOf(item, paint);
  ctx.beginPath();
  if (item.class === 'fault') {
    ctx.moveTo(x, item.y - 5);
    ctx.lineTo(x + 5, item.y);
    ctx.lineTo(x, item.y + 5);
    ctx.lineTo(x - 5, item.y);
  } else ctx.arc(x, item.y, item.class === 'note' ? 4 : 2.5, 0, 7);
  ctx.fill();
}

function drawLabel(ctx, plan, item, paint, isChosen, isFound) {
  const slot = plan.slots.get(item.host);
  // The text of a message stands on its arrow.
  const x = plan.place.get(item.host) + LANE + 9, y = item.y - (item.kind === 'packet' ? 12 : ROW / 2);
  ctx.font = item.class === 'note' || item.class === 'fault' ? '600 ' + FONT : FONT;
  if (isChosen || isFound) {
    ctx.fillStyle = paint.mark;
    ctx.fillRect(x - 3, y - 1, slot - LANE - 12, ROW * item.lines.length + 2);
  }
  ctx.strokeStyle = isChosen || isFound ? paint.mark : paint.page;
  ctx.lineWidth = 4;
  ctx.fillStyle = colourOf(item, paint);
  item.lines.forEach((line, index) => {
    ctx.strokeText(line, x, y + ROW * index + 11.5, slot - LANE - 11);
    ctx.fillText(line, x, y + ROW * index + 11.5, slot - LANE - 11);
  });
}

function drawFailure(ctx, plan, item, paint, isFirst) {
  const height = ROW * item.lines.length + 8;
  ctx.fillStyle = paint.fail;
  ctx.fillRect(0, item.y - 3, plan.width, isFirst ? 3 : 1.5);
  ctx.fillStyle = paint['fail-soft'];
  ctx.fillRect(0, item.y, plan.width, height);
  ctx.font = '700 ' + FONT;
  ctx.fillStyle = paint.fail;
  item.lines.forEach((line, index) => ctx.fillText(line, 8, item.y + 15 + ROW * index, plan.width - 16));
}

function drawHead(ctx, plan, model, paint, left, top) {
  ctx.fillStyle = paint.soft;
  ctx.fillRect(left, top, Math.max(plan.width, 4000), HEAD - 4);
  ctx.font = '600 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  for (const host of plan.lanes) {
    const x = plan.place.get(host);
    ctx.fillStyle = paint.host(host);
    ctx.fillRect(x + LANE - 5, top + HEAD - 8, 10, 4);
    ctx.fillText(wrap(ctx, shown(model.hosts[host]), plan.slots.get(host) - 12, 1)[0], x + 6, top + 16);
  }
  ctx.font = FONT;
  ctx.fillStyle = paint.muted;
  ctx.fillText('seconds', left + 6, top + 16);
}

/** Draws what is between two heights. `state` has the chosen item and the filter. */
function draw(ctx, plan, model, state, paint, view) {
  const { top, left, width, height } = view, bottom = top + height;
  ctx.setTransform(view.ratio, 0, 0, view.ratio, -left * view.ratio, -top * view.ratio);
  ctx.fillStyle = paint.page;
  ctx.fillRect(left, top, width, height);
  ctx.textBaseline = 'alphabetic';
  drawSpans(ctx, plan, model, paint, top, bottom);
  drawLanes(ctx, plan, model, paint, top, bottom);
  const near = [];
  for (const item of plan.items) {
    if (item.y > bottom + 20) break;
    if (item.bottom >= top - 20) near.push(item);
  }
  const alpha = (item) => state.filter.query && !isMatch(item, state.filter) ? 0.25 : 1;
  for (const item of near) {
    if (item.kind !== 'packet') continue;
    ctx.globalAlpha = alpha(item);
    for (const arrow of arrowsOf(plan, item)) drawArrow(ctx, arrow, paint.host(item.host), paint, item === state.chosen);
  }
  const bottoms = new Map();
  let lastTime = -100;
  for (const item of near) {
    ctx.globalAlpha = alpha(item);
    if (item.class === 'failure') {
      ctx.globalAlpha = 1;
      drawFailure(ctx, plan, item, paint, item === model.failure);
      lastTime = item.y + 24;
      continue;
    }
    drawMark(ctx, item, plan.place.get(item.host) + LANE, paint);
    const free = bottoms.get(item.host) || -1e9;
    if (item.y >= free - 1 || item === state.chosen) {
      drawLabel(ctx, plan, item, paint, item === state.chosen, state.filter.query && isMatch(item, state.filter));
      bottoms.set(item.host, item.y + ROW * item.lines.length);
    }
    if (item.y - lastTime >= 20 && item.class !== 'waiting') {
      ctx.font = FONT;
      ctx.fillStyle = paint.muted;
      ctx.fillText(seconds(item.t), 6, item.y + 4);
      lastTime = item.y;
    }
  }
  ctx.globalAlpha = 1;
  drawHead(ctx, plan, model, paint, left, top);
}

/** The item at a point of the sheet: its label first, then the nearest arrow. */
function itemAt(plan, x, y) {
  let best = null, nearest = 7;
  for (const item of plan.items) {
    if (item.y > y + 20) break;
    if (item.bottom < y - 20) continue;
    if (item.class === 'failure') {
      if (y >= item.y - 4 && y <= item.y + 10 + ROW * item.lines.length) return item;
      continue;
    }
    const left = plan.place.get(item.host) + 4;
    if (x >= left && x <= left + plan.slots.get(item.host) - 10 && y >= item.y - ROW / 2 && y <= item.y + ROW * (item.lines.length - 0.5)) return item;
    if (item.kind !== 'packet') continue;
    for (const [x0, y0, x1, y1] of arrowsOf(plan, item)) {
      const dx = x1 - x0, dy = y1 - y0, part = Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
      const far = Math.hypot(x - x0 - part * dx, y - y0 - part * dy);
      if (far < nearest) { nearest = far; best = item; }
    }
  }
  return best;
}

/** The whole run in a strip: packets first, so that they do not hide what explains them. */
function overviewOf(plan, paint, width, height, ratio) {
  const canvas = document.createElement('canvas'), ctx = canvas.getContext('2d');
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  ctx.scale(ratio, ratio);
  const factor = height / plan.height, part = (width - 4) / plan.lanes.length;
  ctx.fillStyle = paint.soft;
  ctx.fillRect(0, 0, width, height);
  const isOrdinary = (item) => item.kind === 'packet' && !item.loss;
  for (const item of plan.items.filter(isOrdinary).concat(plan.items.filter((item) => !isOrdinary(item)))) {
    ctx.globalAlpha = item.kind !== 'packet' ? 1 : item.loss ? 0.7 : 0.3;
    ctx.fillStyle = isOrdinary(item) ? paint.host(item.host) : colourOf(item, paint);
    if (item.class === 'failure') ctx.fillRect(0, item.y * factor - 1, width, 3);
    else ctx.fillRect(2 + plan.lanes.indexOf(item.host) * part, item.y * factor, Math.max(2, part - 1), Math.max(item.kind === 'packet' ? 0.5 : 1.5, factor * 8));
  }
  return canvas;
}

function drawOverview(canvas, plan, paint, view) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ctx = canvas.getContext('2d');
  const key = `${width} ${height} ${view.ratio} ${paint.page}`;
  if (!width || !height) return;
  if (plan.overviewKey !== key) {
    plan.overview = overviewOf(plan, paint, width, height, view.ratio);
    plan.overviewKey = key;
  }
  canvas.width = plan.overview.width;
  canvas.height = plan.overview.height;
  ctx.drawImage(plan.overview, 0, 0);
  ctx.scale(view.ratio, view.ratio);
  const factor = height / plan.height;
  ctx.strokeStyle = paint.focus;
  ctx.lineWidth = 2;
  ctx.strokeRect(1, Math.max(1, view.top * factor), width - 2, Math.max(6, view.height * factor - 2));
}
