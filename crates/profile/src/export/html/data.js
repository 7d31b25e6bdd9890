// The recording: unpacked, in columns over all spans. `kinds` and `names` are the header's; a span is a number from 0 on.

/** Bytes of text in base64, unpacked. Decoded piece by piece, so that no second copy of all is needed. */
async function unpack(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack compressed data (Chrome and Edge can from version 80 on, Firefox 113, Safari 16.4)");
  }
  const PIECE = 1 << 20;
  let at = 0;
  const packed = new ReadableStream({
    pull(to) {
      if (at >= text.length) return to.close();
      const piece = atob(text.slice(at, at + PIECE));
      at += PIECE;
      const bytes = new Uint8Array(piece.length);
      for (let i = 0; i < piece.length; i++) bytes[i] = piece.charCodeAt(i);
      to.enqueue(bytes);
    },
  });
  const whole = await new Response(packed.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  return new Uint8Array(whole);
}

/** Reads varints one after the other. */
class Varints {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }

  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    let place = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 127) * place;
      place *= 128;
    } while (byte >= 128);
    return value;
  }
}

/** The first of `keys[lo..hi]`, which rise, that is at least `value`. */
function lowerBound(keys, lo, hi, value) {
  while (lo < hi) {
    const middle = (lo + hi) >>> 1;
    if (keys[middle] < value) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

/** The same, where what is looked for is near `lo`. */
function gallop(keys, lo, hi, value) {
  let step = 1;
  while (lo + step < hi && keys[lo + step] < value) {
    lo += step;
    step *= 2;
  }
  return lowerBound(keys, lo, Math.min(hi, lo + step + 1), value);
}

/** Merges runs of numbers, in each of which `key` rises, into one. What is alike stays in the order of the runs. */
function mergeRuns(runs, key) {
  while (runs.length > 1) {
    const merged = [];
    for (let r = 0; r < runs.length; r += 2) {
      const [a, b] = [runs[r], runs[r + 1]];
      if (!b) {
        merged.push(a);
        continue;
      }
      const out = new Uint32Array(a.length + b.length);
      let i = 0;
      let j = 0;
      for (let k = 0; k < out.length; k++) {
        const first = j >= b.length || (i < a.length && key[a[i]] <= key[b[j]]);
        out[k] = first ? a[i++] : b[j++];
      }
      merged.push(out);
    }
    runs = merged;
  }
  return runs[0] || new Uint32Array(0);
}

class Trace {
  constructor(bytes) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    this.length = Math.max(1, this.header.length_ns);
    this.names = this.header.names.map((n) => n[0]);
    this.kindOfName = Uint8Array.from(this.header.names, (n) => n[1]);
    this.kinds = this.header.kinds;
    this.lanes = this.header.lanes;
    this.rows = [];
    this.readRows(new Varints(bytes, 4 + length));
    this.counters = readCounters(this.header.counters);
  }

  readRows(from) {
    let count = 0;
    this.lanes.forEach((lane, number) => {
      for (const strip of lane.strips) {
        strip.rows = strip.rows.map(([spans, packets, other], depth) => {
          const row = { base: count, end: count + spans, lane: number, strip, depth, packets, other, number: this.rows.length };
          count += spans;
          this.rows.push(row);
          return row;
        });
      }
    });
    this.count = count;
    this.from = new Float64Array(count);
    // Durations as sums over all before, so that what any stretch of a row takes is one subtraction.
    this.sum = new Float64Array(count + 1);
    this.name = this.names.length < 65536 ? new Uint16Array(count) : new Uint32Array(count);
    this.packets = new Uint32Array(count);
    this.other = new Uint16Array(count);
    for (const row of this.rows) this.readRow(row, from);
    this.bases = Float64Array.from(this.rows, (row) => row.base);
    this.readHandoffs(from);
    this.order = mergeRuns(this.rows.map((row) => numbers(row.base, row.end)), this.from);
    this.waits = this.kinds.indexOf("lock wait");
    this.drops = this.kinds.indexOf("drop");
    for (const row of this.rows) {
      row.waits = this.choose(row, (name) => this.kindOfName[name] === this.waits);
      row.drops = this.choose(row, (name) => this.kindOfName[name] === this.drops);
    }
  }

  readRow(row, from) {
    const { base, end } = row;
    let at = 0;
    for (let i = base; i < end; i++) this.from[i] = at += from.next();
    for (let i = base; i < end; i++) this.sum[i + 1] = this.sum[i] + from.next();
    for (let i = base; i < end; i++) this.name[i] = from.next();
    if (row.packets) for (let i = base; i < end; i++) this.packets[i] = from.next();
    if (row.other) for (let i = base; i < end; i++) this.other[i] = from.next();
  }

  readHandoffs(from) {
    const count = this.header.handoffs;
    this.givers = new Uint32Array(count);
    this.takers = new Uint32Array(count);
    let at = 0;
    for (let i = 0; i < count; i++) this.givers[i] = at += from.next();
    for (let i = 0; i < count; i++) this.takers[i] = from.next();
    // By the time at which they begin: givers rise within a row.
    const times = Float64Array.from(this.givers, (id) => this.from[id]);
    const runs = [];
    let first = 0;
    for (let i = 1; i <= count; i++) {
      if (i === count || times[i] < times[i - 1]) {
        runs.push(numbers(first, i));
        first = i;
      }
    }
    this.handoffs = mergeRuns(runs, times);
    this.handoffTimes = Float64Array.from(this.handoffs, (i) => times[i]);
    // Numbers are sorted much faster than by a comparison of ours, so each has both in it.
    const both = Float64Array.from(this.takers, (taker, i) => taker * count + i).sort();
    this.byTaker = Uint32Array.from(both, (n) => n % count);
    this.takersSorted = Uint32Array.from(this.byTaker, (i) => this.takers[i]);
  }

  /** Spans of a row whose name is wanted. */
  choose(row, wanted) {
    const names = this.header.names.map((_, name) => wanted(name));
    if (!names.includes(true)) return new Uint32Array(0);
    let count = 0;
    for (let i = row.base; i < row.end; i++) if (names[this.name[i]]) count++;
    const chosen = new Uint32Array(count);
    for (let i = row.base, k = 0; k < count; i++) if (names[this.name[i]]) chosen[k++] = i;
    return chosen;
  }

  took(id) {
    return this.sum[id + 1] - this.sum[id];
  }

  ends(id) {
    return this.from[id] + this.took(id);
  }

  kind(id) {
    return this.kinds[this.kindOfName[this.name[id]]];
  }

  text(id) {
    return this.names[this.name[id]];
  }

  rowOf(id) {
    let at = lowerBound(this.bases, 0, this.bases.length, id + 1) - 1;
    // Of rows without spans the last has this beginning; they have none of it.
    while (at > 0 && this.rows[at].end <= id) at--;
    return this.rows[at];
  }

  laneOf(id) {
    return this.lanes[this.rowOf(id).lane];
  }

  /** Where a span stands among all, by time. */
  place(id) {
    let lo = 0;
    let hi = this.count;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      const other = this.order[middle];
      if (this.from[other] < this.from[id] || (this.from[other] === this.from[id] && other < id)) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  }

  /** How many spans begin before a time, that is the place of the first that does not. */
  placeAt(time) {
    let lo = 0;
    let hi = this.count;
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.from[this.order[middle]] < time) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  }

  /** The span that others of its row lie in: the one of the row above at that time. */
  parent(id) {
    const row = this.rowOf(id);
    return row.depth === 0 ? -1 : this.at(row.strip.rows[row.depth - 1], this.from[id]);
  }

  /** The span of a row at a time, or -1. */
  at(row, time) {
    const i = lowerBound(this.from, row.base, row.end, time + 0.5) - 1;
    return i >= row.base && this.ends(i) >= time ? i : -1;
  }

  /** The hand-offs that a span gives and takes, as spans on the other side. */
  partners(id) {
    const gives = [];
    const takes = [];
    for (let i = lowerBound(this.givers, 0, this.givers.length, id); i < this.givers.length && this.givers[i] === id; i++) {
      gives.push(this.takers[i]);
    }
    const sorted = this.takersSorted;
    for (let i = lowerBound(sorted, 0, sorted.length, id); i < sorted.length && sorted[i] === id; i++) {
      takes.push(this.givers[this.byTaker[i]]);
    }
    return { gives, takes };
  }
}

/** Counters with their rates by lane, and the most of any. Where cycles and instructions are counted, their ratio is one, too. */
function readCounters(told) {
  const counters = told.map((c) => ({ ...c, lanes: new Map(c.lanes.map((l) => [l.lane, l])) }));
  const [cycles, instructions] = ["cycles", "instructions"].map((name) => counters.find((c) => c.name === name));
  if (cycles && instructions) {
    const lanes = new Map();
    for (const [lane, { times, rates }] of instructions.lanes) {
      const under = cycles.lanes.get(lane);
      if (!under || under.rates.length !== rates.length) continue;
      lanes.set(lane, { lane, times, rates: rates.map((rate, i) => (under.rates[i] > 0 ? rate / under.rates[i] : 0)) });
    }
    counters.push({ name: "instructions per cycle", unit: "", user_only: cycles.user_only, lanes });
  }
  for (const counter of counters) {
    counter.most = 0;
    for (const { rates } of counter.lanes.values()) for (const rate of rates) counter.most = Math.max(counter.most, rate);
  }
  return counters;
}

/** What a counter counted in a lane around a time; undefined where it did not. */
function rateAt(counter, lane, time) {
  const counted = counter.lanes.get(lane);
  if (!counted) return undefined;
  const i = lowerBound(counted.times, 0, counted.times.length, time + 0.5) - 1;
  return i >= 0 ? counted.rates[i] : undefined;
}

/** A rate for people; of a clock, the share of a processor. */
function rateText(counter, rate) {
  if (counter.unit === "") return rate.toFixed(2);
  if (counter.unit === "ns") return `${Math.round(rate / 1e7)} % of a processor`;
  for (const [prefix, scale] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (rate >= scale) return `${(rate / scale).toPrecision(3)} ${prefix}/s`;
  }
  return `${rate >= 100 ? Math.round(rate) : Number(rate.toPrecision(2))}/s`;
}

/** What all counters counted in a lane around a time. */
function ratesText(counters, lane, time) {
  const rates = counters.map((counter) => [counter, rateAt(counter, lane, time)]).filter(([, rate]) => rate !== undefined);
  return rates.map(([counter, rate]) => `${counter.name}: ${rateText(counter, rate)}`).join(", ");
}

/** All numbers from one on to below another. */
function numbers(from, to) {
  const all = new Uint32Array(to - from);
  for (let i = 0; i < all.length; i++) all[i] = from + i;
  return all;
}

/** A duration for people. */
function duration(ns) {
  const sign = ns < 0 ? "-" : "";
  const size = Math.abs(ns);
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (size >= scale) return `${sign}${(size / scale).toPrecision(4)} ${unit}`;
  }
  return `${sign}${Math.round(size)} ns`;
}

/** A time from the beginning, to the nanosecond where `step` is that small. */
function moment(ns, step = 1) {
  const [unit, scale] = step >= 1e8 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : ["µs", 1e3];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return `${(ns / scale).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}

function plural(count, one) {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}
