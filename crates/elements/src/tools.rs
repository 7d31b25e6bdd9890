// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several elements need: annotation arguments, sending packets of one batch to several outputs, token buckets,
//! values written to handlers, lines to print, times as Click prints them.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use element::Policy;
use element::args::{Args, Bandwidth, FromArg, Names, parse_bool};
use element::clock::{Nanos, SECOND};
use element::swap::Carried;
use element::{Cx, Element, ElementId, HandlerError, InitCx, OpenCx, Reason, parse_integer};
use packet::{ANNO_SIZE, Batch, HEADROOM, Packet, anno};

use crate::queue::Store;
use crate::ticks::Bucket;

/// `PAINT ...`: the paints of packets that have come by some links.
pub(crate) struct Paints(pub(crate) Vec<u8>);

impl FromArg for Paints {
    const EXPECTED: &'static str = "PAINT ..., paints from 0 to 255";

    fn from_arg(text: &str, _: &Names) -> Result<Paints, String> {
        let mut paints = Paints(Vec::new());
        for word in text.split_ascii_whitespace() {
            paints.0.push(word.parse().map_err(|_| String::new())?);
        }
        Ok(paints)
    }
}

/// Bytes of a link header in front of a packet at most: Ethernet with two VLAN tags, and room for others.
const LINK_HEADER_MAX: usize = 64;

/// A packet of `len` bytes with unspecified content. If the link header of `like` lies in front of its bytes, a copy of it lies in front of these.
/// `None` when memory is exhausted.
pub(crate) fn alloc_like(like: &Packet, len: usize) -> Option<Packet> {
    let before = like.mac_offset().and_then(|mac| usize::try_from(-mac).ok()).unwrap_or(0);
    let header = like.mac().and_then(|mac| mac.get(..before)).filter(|_| before <= LINK_HEADER_MAX);
    let Some(header) = header.filter(|header| !header.is_empty()) else {
        return Packet::alloc(HEADROOM, len);
    };
    let mut packet = Packet::alloc(HEADROOM, header.len() + len)?;
    packet.data_mut()[..header.len()].copy_from_slice(header);
    packet.set_mac_offset(0);
    packet.strip(header.len());
    Some(packet)
}

/// Sets a timer if something is to be done before it expires.
pub(crate) fn set_earlier(cx: &mut Cx<'_>, timer: u32, at: Option<Nanos>) {
    if let Some(at) = at
        && cx.timer(timer).is_none_or(|set| set > at)
    {
        cx.set_timer(timer, at);
    }
}

/// Where `N` bytes of annotation lie, given as a number or by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno<const N: usize>(pub usize);

impl<const N: usize> Default for Anno<N> {
    fn default() -> Self {
        Anno(anno::PAINT)
    }
}

/// Annotations by name: offset and size in bytes.
const ANNOTATIONS: &[(&str, usize, usize)] = &[
    ("DST_IP", anno::DST_IP, 4),
    ("DST_IP6", anno::DST_IP, 16),
    ("PAINT", anno::PAINT, 1),
    ("ICMP_PARAMPROB", anno::ICMP_PARAM_PROBLEM, 1),
    ("FIX_IP_SRC", anno::FIX_IP_SRC, 1),
    ("VRF", anno::VRF, 1),
    ("VLAN_TCI", anno::VLAN_TCI, 2),
    ("VLAN", anno::VLAN_TCI, 2),
    ("AGGREGATE", anno::AGGREGATE, 4),
    ("EXTRA_LENGTH", anno::EXTRA_LENGTH, 4),
    ("FIRST_TIMESTAMP", anno::FIRST_TIMESTAMP, 8),
    ("IPSEC_SPI", anno::IPSEC_SPI, 4),
    ("OPENED", anno::OPENED, 1),
    ("EXTRA_PACKETS", anno::EXTRA_PACKETS, 4),
    ("SEQUENCE_NUMBER", anno::SEQUENCE, 4),
    ("MISC_IP", anno::MISC_IP, 4),
    ("ETHERTYPE", anno::ETHERTYPE, 2),
    ("IPREWRITER_INPUT", anno::PAINT, 1),
];

impl<const N: usize> FromArg for Anno<N> {
    const EXPECTED: &'static str = "an annotation (its byte offset, or a name such as PAINT)";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let words = names.get(text);
        let defined = words.first().map_or(text, String::as_str);
        let (text, size) = match defined.split_once('/') {
            Some((text, size)) => (text, Some(parse_integer(size).ok_or_else(String::new)?)),
            None => (defined, None),
        };
        let known =
            ANNOTATIONS.iter().find(|(name, ..)| *name == text).map(|(_, at, size)| (*at as i128, *size));
        let (at, has) = match (known, parse_integer(text)) {
            (Some((at, has)), _) => (at, Some(has as i128)),
            (None, Some(at)) => (at, None),
            (None, None) => return Err(String::new()),
        };
        if size.or(has).is_some_and(|size| size != N as i128) {
            return Err(format!("it must be one of {N} bytes"));
        }
        match usize::try_from(at) {
            Ok(at) if at <= ANNO_SIZE - N => Ok(Anno(at)),
            _ => Err(format!("its {N} bytes must lie within {ANNO_SIZE}")),
        }
    }
}

/// Packets of a batch that leave one after the other: those that leave by the same output stay together.
#[derive(Debug, Default)]
pub(crate) struct Runs(Option<(usize, Batch)>);

impl Runs {
    /// The next packet, and its output.
    #[inline]
    pub(crate) fn push(&mut self, cx: &mut Cx<'_>, output: usize, packet: Packet) {
        match &mut self.0 {
            Some((current, run)) if *current == output => run.push(packet),
            _ => {
                if let Some((output, run)) = self.0.replace((output, Batch::of(packet))) {
                    cx.push_joined(output, run);
                }
            }
        }
    }

    /// There are no more.
    pub(crate) fn finish(self, cx: &mut Cx<'_>) {
        if let Some((output, run)) = self.0 {
            cx.push_joined(output, run);
        }
    }
}

/// The place from which a handler should list.
pub(crate) fn place(handler: &'static str, text: &str) -> Result<usize, HandlerError> {
    match text.trim() {
        "" => Ok(0),
        text => text.parse().map_err(|_| HandlerError::bad_value(handler, text, "a number")),
    }
}

/// Sends the packets of a batch to different outputs, in order for each of them.
#[derive(Debug, Default)]
pub struct Splitter {
    parts: Vec<Batch>,
    /// Outputs with packets, in the order of their first one.
    order: Vec<usize>,
}

impl Splitter {
    /// Pushes each packet out of the output that `route` names; outputs that do not exist drop and count.
    #[inline]
    pub fn split(&mut self, cx: &mut Cx<'_>, batch: Batch, route: impl FnMut(&mut Packet) -> usize) {
        self.split_or_drop(cx, batch, Reason::NoOutput, route);
    }

    /// Pushes each packet out of the output that `route` names; one that does not exist drops for `reason`. Traffic
    /// comes in runs: a batch whose packets all go the same way stays whole.
    #[inline]
    pub fn split_or_drop(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        reason: Reason,
        mut route: impl FnMut(&mut Packet) -> usize,
    ) {
        let Some(first) = batch.first_mut().map(&mut route) else { return };
        let differs = |(i, p)| {
            let port = route(p);
            (port != first).then_some((i, port))
        };
        let Some((at, port)) = batch.iter_mut().enumerate().skip(1).find_map(differs) else {
            return cx.push_or_drop(first, batch, reason);
        };
        let noutputs = cx.noutputs();
        self.parts.resize_with(noutputs + 1, Batch::new);
        let mut known = Some(port);
        for (i, mut packet) in batch.drain(..).enumerate() {
            let port = match i.cmp(&at) {
                std::cmp::Ordering::Less => first,
                // Judged already, and `route` may count what it sees.
                _ => known.take().unwrap_or_else(|| route(&mut packet)),
            };
            let port = port.min(noutputs);
            if self.parts[port].is_empty() {
                self.order.push(port);
            }
            self.parts[port].push(packet);
        }
        for port in self.order.drain(..) {
            cx.push_or_drop(port, std::mem::take(&mut self.parts[port]), reason);
        }
    }
}

/// A token bucket (RFC 2697's, without its colours) that is exact on any clock: it counts billionths of a token.
#[derive(Clone, Debug, Default)]
pub struct TokenBucket {
    /// Tokens per second, so billionths of a token per nanosecond.
    rate: u64,
    capacity: u64,
    level: u128,
    at: Nanos,
}

const PARTS: u128 = SECOND as u128;

impl TokenBucket {
    /// A full bucket of `capacity` tokens that gains `rate` tokens per second.
    pub fn new(rate: u64, capacity: u64) -> TokenBucket {
        TokenBucket { rate, capacity, level: u128::from(capacity) * PARTS, at: 0 }
    }

    /// Tokens per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes rate and capacity; the tokens stay, as far as they fit.
    pub fn set(&mut self, rate: u64, capacity: u64) {
        (self.rate, self.capacity) = (rate, capacity);
        self.level = self.level.min(u128::from(capacity) * PARTS);
    }

    /// Takes the tokens of another one, as far as they fit.
    pub fn follow(&mut self, old: &TokenBucket) {
        self.level = old.level.min(u128::from(self.capacity) * PARTS);
        self.at = old.at;
    }

    /// Sets the number of tokens.
    pub fn set_level(&mut self, now: Nanos, tokens: u64) {
        (self.level, self.at) = (u128::from(tokens) * PARTS, now);
    }

    /// Adds the tokens gained until `now`.
    #[inline]
    pub fn refill(&mut self, now: Nanos) {
        let gained = u128::from(now.saturating_sub(self.at)) * u128::from(self.rate);
        self.level = (self.level + gained).min(u128::from(self.capacity) * PARTS);
        self.at = self.at.max(now);
    }

    /// Whether there are `n` tokens, as of the last [`refill`](Self::refill).
    #[inline]
    pub fn contains(&self, n: u64) -> bool {
        self.level >= u128::from(n) * PARTS
    }

    /// Whole tokens there are.
    #[inline]
    pub fn tokens(&self) -> u64 {
        (self.level / PARTS) as u64
    }

    /// Removes `n` tokens, or all if there are fewer.
    #[inline]
    pub fn remove(&mut self, n: u64) {
        self.level = self.level.saturating_sub(u128::from(n) * PARTS);
    }

    /// The moment from which on there are `n` tokens, if it ever comes.
    pub fn when(&self, n: u64) -> Option<Nanos> {
        let missing = (u128::from(n) * PARTS).saturating_sub(self.level);
        if missing == 0 {
            return Some(self.at);
        }
        if self.rate == 0 || n > self.capacity {
            return None;
        }
        u64::try_from(missing.div_ceil(u128::from(self.rate))).ok()?.checked_add(self.at)
    }
}

impl Carried for TokenBucket {
    fn carry(&mut self, _: Nanos, old: &mut TokenBucket) {
        self.follow(old);
    }
}

/// Bytes that a limit in bytes must have in hand to let a packet of unknown length pass, as in Click; they are part of
/// the bucket and only move its zero.
const READY: u64 = 1 << 17;

/// A limit in packets or bytes per second, enforced by a token bucket.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    pub(crate) bucket: Bucket,
    bytes: bool,
}

impl Limit {
    /// A limit on packets (or `bytes`) per second that lets `burst` pass at once.
    pub fn new(rate: u64, burst: u64, bytes: bool) -> Limit {
        Limit { bucket: Bucket::exact(rate, Self::capacity(burst, bytes)), bytes }
    }

    fn capacity(burst: u64, bytes: bool) -> u64 {
        if bytes { burst.saturating_add(READY) } else { burst.max(1) }
    }

    /// Reads `RATE, BURST_DURATION` and `BURST_SIZE` (of packets) or `BURST_BYTES`.
    pub fn from_args(args: &mut Args<'_>, bytes: bool) -> Limit {
        let rate = rate_argument(args, bytes);
        let duration: Option<Duration> = args.keyword_opt("BURST_DURATION");
        let size_name = if bytes { "BURST_BYTES" } else { "BURST_SIZE" };
        let size: Option<u64> = args.keyword_opt(size_name);
        if duration.is_some() && size.is_some() {
            args.error_as(
                format!("give BURST_DURATION or {size_name}, not both"),
                "cannot specify both BURST_DURATION and BURST_SIZE".to_owned(),
            );
        }
        let duration = duration.unwrap_or(Duration::from_millis(20));
        let product = u128::from(rate) * duration.as_millis() / 1000;
        let burst = size.unwrap_or(u64::try_from(product).unwrap_or(u64::MAX));
        Limit { bucket: Bucket::new(rate, Self::capacity(burst, bytes)), bytes }
    }

    /// The rate as handlers show it.
    pub fn rate_text(&self) -> String {
        let unit = if self.bytes { "Bps" } else { "" };
        format!("{}{unit}", self.bucket.rate())
    }

    /// Changes the rate and lets the burst follow it, for handlers.
    ///
    /// # Errors
    /// When `text` is no rate.
    pub fn set_rate(&mut self, name: &str, text: &str, now: Nanos) -> Result<(), HandlerError> {
        let rate = self.parse_rate(name, text)?;
        self.bucket.refill(now);
        let burst = rate / 50;
        let capacity = if self.bytes { burst + READY } else { burst.max(1) };
        self.bucket.set(rate, capacity);
        Ok(())
    }

    /// Reads a rate written to a handler.
    ///
    /// # Errors
    /// When `text` is no rate.
    pub fn parse_rate(&self, name: &str, text: &str) -> Result<u64, HandlerError> {
        if self.bytes { Ok(value::<Bandwidth>(name, text)?.bytes_per_second) } else { number(name, text) }
    }

    /// Leaves as much in the bucket as lets one packet pass at once.
    pub fn drain_to_one(&mut self, now: Nanos) {
        self.bucket.set_level(now, if self.bytes { READY } else { 1 });
    }

    /// Adds what the time until `now` allows.
    #[inline]
    pub fn refill(&mut self, now: Nanos) {
        self.bucket.refill(now);
    }

    /// How many packets may pass now without asking again: with a limit in bytes, one at a time.
    #[inline]
    pub fn allowed(&self) -> usize {
        match self.bytes {
            true => usize::from(self.bucket.contains(READY)),
            false => usize::try_from(self.bucket.tokens()).unwrap_or(usize::MAX),
        }
    }

    /// Counts packets that passed.
    #[inline]
    pub fn charge(&mut self, batch: &[Packet]) {
        let cost = if self.bytes { batch.iter().map(Packet::len).sum() } else { batch.len() };
        self.bucket.remove(cost as u64);
    }

    /// When the next packet may pass, if ever.
    pub fn ready_at(&self) -> Option<Nanos> {
        self.bucket.when(if self.bytes { READY } else { 1 })
    }

    /// Fetches up to `max` packets from input 0, as far as the limit allows, and counts them.
    pub fn pull(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let mut batch = cx.pull(0, self.allowed().min(max));
        self.charge(&batch);
        while self.bytes && !batch.is_empty() && batch.len() < max && self.allowed() > 0 {
            let mut next = cx.pull(0, 1);
            if next.is_empty() {
                break;
            }
            self.charge(&next);
            batch.append(&mut next);
        }
        batch
    }
}

impl Carried for Limit {
    fn carry(&mut self, _: Nanos, old: &mut Limit) {
        self.bucket.follow(&old.bucket);
    }
}

/// Argument `name`, which must be there, of a type without default; `instead` goes with an error.
pub fn needed<T: FromArg>(args: &mut Args<'_>, name: &'static str, instead: T) -> T {
    let errors = args.errors().len();
    let given = args.positional_opt(name);
    if given.is_none() && args.errors().len() == errors {
        args.missing(name, T::EXPECTED);
    }
    given.unwrap_or(instead)
}

/// The argument `RATE`, in packets or bytes per second.
pub fn rate_argument(args: &mut Args<'_>, bytes: bool) -> u64 {
    if bytes { args.required::<Bandwidth>("RATE").bytes_per_second } else { args.required("RATE") }
}

/// Lets the element's task rest until `at`, or for ever; its `run_timer` must put the task in line again. For a short
/// while the task stays in line, because a sleeping worker may wake late.
pub fn rest_until(cx: &mut Cx<'_>, at: Option<Nanos>) {
    const SHORT: Nanos = SECOND / 1000;
    match at {
        Some(at) => {
            if cx.timer(0) != Some(at) {
                cx.set_timer(0, at);
            }
            if at > cx.now() + SHORT {
                cx.unschedule();
            }
        }
        None => cx.unschedule(),
    }
}

/// Makes sure that the worker, and simulated time, come to `at`: for elements that are asked again and again.
pub fn look_again_at(cx: &mut Cx<'_>, at: Option<Nanos>) {
    if let Some(at) = at
        && cx.timer(0) != Some(at)
    {
        cx.set_timer(0, at);
    }
}

/// A time in nanoseconds; the longest there is when it is longer.
pub fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads a time argument, in nanoseconds.
pub fn time_ns(args: &mut Args<'_>, name: &'static str, default: Nanos) -> Nanos {
    nanos(args.keyword(name, Duration::from_nanos(default)))
}

/// Buffers of what is done, for what begins: bounded in bytes.
#[derive(Debug, Default)]
pub struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    most: usize,
}

impl Spare {
    /// Keeps up to `most` bytes.
    pub fn new(most: usize) -> Spare {
        Spare { most, ..Spare::default() }
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer if there is room.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= self.most {
            buffer.clear();
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// The queues that a source fills, by their indices, so that it can wait while they are full instead of making packets to be dropped.
#[derive(Debug, Default)]
pub struct Filled {
    queues: Option<Vec<(ElementId, Arc<Store>)>>,
    waits: bool,
}

impl Filled {
    /// Finds the queues; a source that also feeds something else, or a queue that does not hold back, never waits.
    pub fn find(cx: &mut InitCx<'_>) -> Filled {
        let queues = cx.downstream_all(Some(0));
        let queues =
            queues.filter(|q| q.iter().all(|(_, store): &(ElementId, Arc<Store>)| store.holds_back()));
        Filled { queues, waits: false }
    }

    /// Packets for which there is room.
    #[inline]
    pub fn room(&mut self, cx: &mut Cx<'_>) -> usize {
        let Some(queues) = &self.queues else { return usize::MAX };
        let room = queues.iter().map(|(_, s)| s.capacity().saturating_sub(s.len())).max();
        let room = room.unwrap_or(usize::MAX);
        if self.waits && room > 0 {
            self.waits = false;
            queues.iter().for_each(|(queue, _)| cx.found_room(*queue));
        }
        room
    }

    /// Says that they are full, and prepares to look again soon, where another worker may make room.
    pub fn wait(&mut self, cx: &mut Cx<'_>) {
        self.waits = true;
        self.queues.iter().flatten().for_each(|(queue, _)| cx.found_full(*queue));
        if cx.others_run() && cx.timer(0).is_none() {
            cx.set_timer_after(0, SECOND / 10_000);
        }
    }
}

/// A message in our words, or in Click's if the program was called as `click`.
pub fn words(ours: impl Into<String>, click: impl Into<String>) -> String {
    if Policy::of_process().as_click { click.into() } else { ours.into() }
}

/// What is written to a handler that takes the content of packets: a string, or called as `click` the bytes as they are.
pub fn content_value(value: &str) -> Vec<u8> {
    match Policy::of_process().as_click {
        true => value.as_bytes().to_vec(),
        false => lang::config::unquote(value.trim()),
    }
}

/// Reads a handler's value as a whole number of type `T`.
///
/// # Errors
/// When it is not one.
pub fn number<T: TryFrom<i128>>(name: &str, value: &str) -> Result<T, HandlerError> {
    let number = parse_integer(value.trim()).and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| HandlerError::bad_value(name, value, "a whole number in range"))
}

/// Reads a handler's value as a number of type `T` among those that are allowed.
///
/// # Errors
/// When it is none, or not one of them.
pub fn number_in<T>(name: &str, value: &str, allowed: RangeInclusive<T>) -> Result<T, HandlerError>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    let number = parse_integer(value.trim()).and_then(|n| T::try_from(n).ok());
    number.filter(|n| allowed.contains(n)).ok_or_else(|| {
        let (low, high) = allowed.into_inner();
        HandlerError::bad_value(name, value, &format!("a whole number between {low} and {high}"))
    })
}

/// Reads a handler's value as true or false.
///
/// # Errors
/// When it is neither.
pub fn boolean(name: &str, value: &str) -> Result<bool, HandlerError> {
    parse_bool(value.trim()).ok_or_else(|| HandlerError::bad_value(name, value, "true or false"))
}

/// Reads a handler's value as an argument of type `T`.
///
/// # Errors
/// When it is none.
pub fn value<T: FromArg>(name: &str, value: &str) -> Result<T, HandlerError> {
    T::from_arg(value.trim(), &Names::default())
        .map_err(|_| HandlerError::bad_value(name, value, T::EXPECTED))
}

/// A time as Click prints it: seconds with six digits, or nine where it needs them.
pub fn seconds(ns: Nanos) -> String {
    let (seconds, rest) = (ns / SECOND, ns % SECOND);
    if rest.is_multiple_of(1000) {
        format!("{seconds}.{:06}", rest / 1000)
    } else {
        format!("{seconds}.{rest:09}")
    }
}

/// A span of time as Click prints it, with its unit: `20ms`, `1.5s`.
pub fn interval(ns: Nanos) -> String {
    match ns {
        0 => "0s".into(),
        _ if ns >= SECOND => format!("{}s", seconds(ns).trim_end_matches('0').trim_end_matches('.')),
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1000) => format!("{}us", ns / 1000),
        _ => format!("{ns}ns"),
    }
}

/// A probability, between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probability(pub f64);

impl FromArg for Probability {
    const EXPECTED: &'static str = "a probability between 0 and 1";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let p = f64::from_arg(text, names)?;
        if (0.0..=1.0).contains(&p) { Ok(Probability(p)) } else { Err(String::new()) }
    }
}

/// The handler call in an argument: `HANDLER [VALUE]`.
pub fn call(args: &mut Args<'_>, name: &'static str) -> Option<(String, String)> {
    let element::args::Raw(call) = args.keyword_opt(name)?;
    let (handler, value) = call.split_once(char::is_whitespace).unwrap_or((&call, ""));
    Some((handler.to_owned(), value.trim().to_owned()))
}

/// Does what a source does when it has sent its last packet: calls its handler, or asks the driver to stop.
pub fn ended<E: Element + Default>(
    cx: &mut Cx<'_>,
    source: &mut E,
    end_call: Option<(String, String)>,
    stop: bool,
) {
    if let Some((handler, value)) = end_call {
        cx.reachable(source, |cx| {
            if let Err(why) = cx.write_handler(&handler, &value) {
                cx.print(&format!("{}: {handler}: {why}", cx.name()));
            }
        });
    } else if stop {
        cx.please_stop();
    }
}

/// Where an element prints its lines: what the user sees, or the file of its argument OUTFILE, which all instances share.
#[derive(Clone, Default)]
pub struct Lines {
    path: Option<String>,
    file: Option<Arc<Mutex<File>>>,
}

impl Lines {
    /// Reads the argument.
    pub fn configure(&mut self, args: &mut Args<'_>) {
        self.path = args.keyword_opt("OUTFILE");
    }

    /// Makes the file, if there is to be one; only its owner may read it, for packets are private. Behind what a predecessor with the
    /// same text has written it goes on.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(&mut self, cx: &OpenCx<'_>) -> Result<(), String> {
        if let Some(path) = &self.path {
            let open = if cx.inherits() { sync::private::append } else { sync::private::create };
            let file = open(Path::new(path)).map_err(|e| format!("{path}: {}", sync::os::reason(&e)))?;
            self.file = Some(Arc::new(Mutex::new(file)));
        }
        Ok(())
    }

    /// Prints one line.
    pub fn print(&self, cx: &Cx<'_>, line: &str) {
        let Some(file) = &self.file else { return cx.print(line) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = writeln!(file, "{line}") {
            cx.print(&format!("{}: {why}", cx.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn annotations_by_number_and_name() {
        let anno = |text: &str| Anno::<1>::from_arg(text, &Names::default()).map(|a| a.0).ok();
        assert_eq!((anno("PAINT"), anno("3"), anno("47")), (Some(16), Some(3), Some(47)));
        assert_eq!((anno("48"), anno("-1"), anno("MISC_IP"), anno("nonsense")), (None, None, None, None));
    }

    #[test]
    fn times_print_like_clicks() {
        assert_eq!(
            (seconds(1_500_000_000), seconds(1_000_000_001)),
            ("1.500000".into(), "1.000000001".into())
        );
        let all = [0, 20_000_000, 15_000, 7, 2 * SECOND, 1_500_000_000].map(interval);
        assert_eq!(all, ["0s", "20ms", "15us", "7ns", "2s", "1.5s"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Takes as soon as it may, and compares with the number that time and capacity allow.
        #[test]
        fn a_greedy_taker_gets_the_rate(rate in 1u64..5_000_000, capacity in 2u64..100, n in 1usize..200) {
            let mut bucket = TokenBucket::new(rate, capacity);
            let mut now = 0;
            for taken in 0..n as u64 {
                bucket.refill(now);
                now = bucket.when(1).unwrap();
                bucket.refill(now);
                prop_assert!(bucket.contains(1));
                bucket.remove(1);
                let due = (taken + 1).saturating_sub(capacity) as u128 * PARTS;
                prop_assert_eq!(u128::from(now), due.div_ceil(u128::from(rate)));
            }
        }
    }
}
