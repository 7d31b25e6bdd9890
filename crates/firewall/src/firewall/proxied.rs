// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that the firewall answers itself until their client has proved its address. See [`crate::proxy`].

use tables::flow::{Direction, FlowId};

use super::{Addresses, Bench, Cause, Decision, Entry, Side, Track, Verdict};
use crate::policy::{SELF, SynProxy};
use crate::proxy::cookie::{Cookie, Cookies, Ends, GOOD_NS, Options};
use crate::proxy::segment::{Made, options};
use crate::proxy::translate::Shift;
use crate::seen::{Part, Seen, transport, transport_of_quote};
use crate::track::{ACK, FIN, Fault, RST, SYN, Segment, State, Tcp, Use};

/// Seconds with few SYNs after which the firewall does not answer itself any more.
const CALM_S: u64 = 10;
/// The segment size that clients are promised without a statement: of Ethernet, by family.
const SIZE: [u16; 2] = [1460, 1440];

/// What is to be done with a packet besides letting it pass, or instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Takes the packet's place on its way.
    pub onward: Option<Made>,
    /// Goes to the packet's sender.
    pub back: Option<Made>,
    /// How the packet's numbers change.
    pub shift: Option<Translation>,
}

/// How the numbers of a packet change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    shift: Shift,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Client,
    Server,
    /// An ICMP error that quotes the server.
    Quote,
}

impl Translation {
    /// Changes an IP packet.
    pub fn apply(&self, ip: &mut [u8]) -> Option<()> {
        let at = transport(ip)?;
        match self.of {
            Of::Quote => {
                let message = ip.get_mut(at..)?;
                let quoted = 8 + transport_of_quote(message.get(8..)?)?;
                self.shift.apply_to_quote(message, quoted)
            }
            of => self.shift.apply(ip.get_mut(at..)?, of == Of::Server),
        }
    }
}

/// What has become of connections that the firewall answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// SYNs that were answered with a cookie.
    pub sent: u64,
    /// Cookies that came back.
    pub right: u64,
    /// Acknowledgements without a cookie, or with an old one.
    pub wrong: u64,
    /// Connections that their server has accepted.
    pub opened: u64,
}

/// How many SYNs come, and what has become of them.
#[derive(Debug, Default)]
pub(super) struct Flood {
    second: u64,
    /// SYNs of that second.
    syns: u64,
    /// Seconds with few of them, up to that one.
    calm: u64,
    is_on: bool,
    /// When the last cookie was made.
    last_ns: Option<u64>,
    pub(super) counts: ProxyCounts,
}

impl Flood {
    /// Whether a SYN is answered by the firewall; above `limit` SYNs a second, or always.
    fn answers(&mut self, now_ns: u64, limit: Option<u32>) -> bool {
        let Some(limit) = limit.map(u64::from) else { return true };
        let second = now_ns / crate::policy::SECOND;
        self.calm = self.calm_at(second, limit);
        self.is_on &= self.calm < CALM_S;
        // The clock of another worker may be earlier.
        if second > self.second {
            (self.second, self.syns) = (second, 0);
        }
        self.syns += 1;
        if self.syns > limit {
            (self.is_on, self.calm) = (true, 0);
        }
        self.is_on
    }

    /// Seconds with few SYNs, up to this one.
    fn calm_at(&self, second: u64, limit: u64) -> u64 {
        match second.saturating_sub(self.second) {
            0 => self.calm,
            passed if self.syns <= limit / 2 => self.calm + passed,
            passed => passed - 1,
        }
    }

    /// Whether the firewall answers at a time.
    pub(super) fn is_on(&self, now_ns: u64, limit: Option<u32>) -> bool {
        limit
            .map(u64::from)
            .is_none_or(|limit| self.is_on && self.calm_at(now_ns / crate::policy::SECOND, limit) < CALM_S)
    }

    /// Whether one more SYN would be answered.
    fn would_answer(&self, now_ns: u64, limit: Option<u32>) -> bool {
        let before = if now_ns / crate::policy::SECOND > self.second { 0 } else { self.syns };
        self.is_on(now_ns, limit) || limit.is_some_and(|limit| before >= u64::from(limit))
    }

    /// Whether a cookie may come back.
    pub(super) fn expects(&self, now_ns: u64) -> bool {
        self.last_ns.is_some_and(|last| now_ns < last.saturating_add(GOOD_NS))
    }
}

/// What is kept of a connection that the firewall has answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy {
    /// Before the server answers: the cookie and its timestamp, the scale that was promised, and the client's.
    shift: Shift,
    is_open: bool,
}

impl Proxy {
    /// Of a connection that its server has accepted at another firewall.
    pub(super) fn resumed(shift: Shift) -> Proxy {
        Proxy { shift, is_open: true }
    }

    /// What another firewall needs to go on, if the server has accepted.
    pub(super) fn shift(&self) -> Option<Shift> {
        self.is_open.then_some(self.shift)
    }
}

/// A client that has proved its address.
pub(super) struct Proved {
    pub(super) tcp: Tcp,
    pub(super) proxy: Proxy,
    /// The SYN for the server.
    pub(super) syn: Made,
}

fn ends(seen: &Seen) -> Ends {
    let [from, to] = seen.facts.ports.unwrap_or_default();
    [(seen.facts.source, from), (seen.facts.destination, to)]
}

fn back(ends: Ends) -> Ends {
    [ends[1], ends[0]]
}

/// The options that a SYN gets of those that it has. Without timestamps nothing would remember them.
fn agreed(asked: Options, policy: &SynProxy) -> Options {
    let stamps = asked.stamps.filter(|_| policy.timestamps);
    let scale = asked.scale.filter(|_| stamps.is_some() && policy.scale.is_some());
    Options { mss: asked.mss, scale, sack: asked.sack && policy.sack && stamps.is_some(), stamps }
}

impl Bench<'_> {
    fn options(&self) -> Options {
        let segment = transport(self.ip).and_then(|at| self.ip.get(at..));
        segment.map(options).unwrap_or_default()
    }

    fn cookies_for(&self, seen: &Seen) -> Cookies {
        self.cookies.in_vrf(seen.facts.vrfs[0])
    }

    pub(super) fn decides(&self, verdict: Verdict, rule: Option<u32>, is_known: bool) -> Decision {
        Decision { verdict, rule, is_known, is_related: false, is_proxied: true, logs: false }
    }

    /// Whether a SYN for a rule is answered here.
    pub(super) fn answers_syn(&mut self) -> bool {
        let limit = self.ruleset.policy.synproxy.above;
        match self.rehearses {
            true => self.flood.would_answer(self.now_ns, limit),
            false => self.flood.answers(self.now_ns, limit),
        }
    }

    /// Answers a SYN with a cookie. Nothing is kept.
    pub(super) fn send_cookie(
        &mut self,
        seen: &Seen,
        segment: &Segment,
        rule: Option<u32>,
        is_known: bool,
    ) -> Decision {
        let decision = self.decides(Verdict::Answered, rule, is_known);
        if self.rehearses {
            return decision;
        }
        let policy = &self.ruleset.policy.synproxy;
        let (ends, asked) = (ends(seen), self.options());
        let agreed = agreed(asked, policy);
        let cookie = self.cookies_for(seen).make(self.now_ns, &ends, segment.sequence, &agreed);
        let size = policy.mss.unwrap_or(SIZE[usize::from(seen.facts.source.is_ipv6())]);
        let stamps = cookie.stamp.zip(asked.stamps).map(|(stamp, [theirs, _])| [stamp, theirs]);
        let scale = agreed.scale.and(policy.scale);
        self.steps.back = Some(Made {
            ends: back(ends),
            flags: SYN | ACK,
            sequence: cookie.sequence,
            acknowledgement: segment.sequence.wrapping_add(1),
            window: 0,
            options: Options { mss: Some(size), scale, sack: agreed.sack, stamps },
        });
        self.flood.counts.sent += 1;
        self.flood.last_ns = Some(self.now_ns);
        decision
    }

    /// The client that acknowledges a cookie.
    pub(super) fn proved(&self, seen: &Seen, segment: &Segment) -> Option<Proved> {
        if !self.expects_cookie(segment) {
            return None;
        }
        let (ends, stamps) = (ends(seen), self.options().stamps);
        let cookie =
            Cookie { sequence: segment.acknowledgement.wrapping_sub(1), stamp: stamps.map(|[_, echo]| echo) };
        // A client that probes a closed window does so with the number before (RFC 9293, 3.8.6.1).
        let (sequence, found) = [1, 0].into_iter().find_map(|before| {
            let sequence = segment.sequence.wrapping_sub(before);
            Some((sequence, self.cookies_for(seen).check(self.now_ns, &ends, sequence, cookie)?))
        })?;
        let scale = found.scale.unwrap_or(0);
        let window = (u32::from(segment.window) << scale).min(u16::MAX.into()) as u16;
        let syn = Made {
            ends,
            flags: SYN,
            sequence,
            acknowledgement: 0,
            window,
            options: Options { stamps: stamps.map(|[value, _]| [value, 0]), ..found },
        };
        let asked =
            Segment { flags: SYN, sequence, acknowledgement: 0, window, length: 0, scale: found.scale };
        let promised = found.scale.and(self.ruleset.policy.synproxy.scale).unwrap_or(0);
        let shift = Shift {
            sequence: cookie.sequence,
            stamp: cookie.stamp.unwrap_or(0),
            scales: [0, promised],
            unknown_scale: scale,
        };
        Some(Proved { tcp: Tcp::new(&asked).ok()?, proxy: Proxy { shift, is_open: false }, syn })
    }

    /// Whether the firewall has made this segment to ask for a proof.
    pub(super) fn is_own_cookie(&self, seen: &Seen, segment: &Segment) -> bool {
        if seen.facts.from != SELF
            || segment.flags & (SYN | ACK | RST) != SYN | ACK
            || !self.flood.expects(self.now_ns)
        {
            return false;
        }
        let stamp = self.options().stamps.map(|[value, _]| value);
        let cookie = Cookie { sequence: segment.sequence, stamp };
        let asked = segment.acknowledgement.wrapping_sub(1);
        self.cookies_for(seen).check(self.now_ns, &back(ends(seen)), asked, cookie).is_some()
    }

    /// Whether a segment without a connection may acknowledge a cookie.
    pub(super) fn expects_cookie(&self, segment: &Segment) -> bool {
        segment.flags & (SYN | RST | ACK) == ACK && self.flood.expects(self.now_ns)
    }

    /// The client of a connection has proved its address: its SYN goes to the server.
    pub(super) fn ask_server(&mut self, syn: Option<Made>) {
        if syn.is_some() {
            self.flood.counts.right += 1;
            self.steps.onward = syn;
        }
    }

    /// An acknowledgement without a connection and without a cookie.
    pub(super) fn wrong_cookie(&mut self) -> Decision {
        if !self.rehearses {
            self.flood.counts.wrong += 1;
        }
        Decision::dropped(Cause::NoConnection)
    }

    /// A packet of a connection that the firewall has answered.
    pub(super) fn known_proxied<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        id: FlowId,
        direction: Direction,
        seen: &Seen,
    ) -> Result<Decision, Fault> {
        let way = usize::from(direction == Direction::Reply);
        let Part::Tcp(segment) = &seen.part else { return Err(Fault::Flags) };
        let Some(entry) = side.table.get(id) else { return Err(Fault::Flags) };
        let (Some(proxy), Track::Tcp(tcp)) = (entry.proxy, &entry.track) else { return Err(Fault::Flags) };
        let (mut tcp, rule, before) = (tcp.clone(), self.book.rule(entry.slot), tcp.state());
        let passes = Decision { is_proxied: false, ..self.decides(Verdict::Pass, rule, true) };
        // What the firewall itself sends to either side, which comes back as the router's own.
        let is_ours = seen.facts.from == SELF && entry.zones[way] != self.zones.lasting(SELF);
        if is_ours || self.is_own_cookie(seen, segment) {
            return Ok(passes);
        }
        if way == 0 && segment.flags & (SYN | ACK | RST) == SYN {
            return match tcp.state() {
                State::Closed | State::Reset => Err(Fault::Anew),
                _ => Ok(self.send_cookie(seen, segment, rule, true)),
            };
        }
        let (verdict, proxy, renews) = match (way, proxy.is_open) {
            (0, false) => self.take_waiting(&mut tcp, proxy, seen, segment)?,
            (0, true) => self.take_client(&mut tcp, proxy, seen, segment)?,
            _ => self.take_server(&mut tcp, proxy, seen, segment)?,
        };
        if !self.rehearses
            && let Some(entry) = side.table.get_mut(id)
        {
            (entry.track, entry.proxy) = (Track::Tcp(tcp), Some(proxy));
        }
        self.settle(side, id, way, seen, renews, before);
        Ok(Decision { verdict, is_proxied: true, ..passes })
    }

    /// A segment of the client before the server has answered: it waits, and asks once more.
    fn take_waiting(
        &mut self,
        tcp: &mut Tcp,
        proxy: Proxy,
        seen: &Seen,
        segment: &Segment,
    ) -> Result<(Verdict, Proxy, bool), Fault> {
        if segment.flags & RST != 0 {
            let taken = tcp.take(0, segment)?;
            return Ok((Verdict::Pass, proxy, taken == Use::Counts));
        }
        match self.proved(seen, segment) {
            Some(proved) if proved.proxy.shift.sequence == proxy.shift.sequence => {
                self.steps.onward = Some(proved.syn);
                Ok((Verdict::Answered, proxy, false))
            }
            // Another attempt from the same port.
            Some(_) => Err(Fault::Anew),
            None => Err(Fault::Flags),
        }
    }

    fn take_client(
        &mut self,
        tcp: &mut Tcp,
        proxy: Proxy,
        seen: &Seen,
        segment: &Segment,
    ) -> Result<(Verdict, Proxy, bool), Fault> {
        let translated = Segment {
            acknowledgement: segment.acknowledgement.wrapping_sub(proxy.shift.sequence),
            window: proxy.shift.window_of_client(segment.window),
            ..*segment
        };
        match tcp.take(0, &translated) {
            Ok(taken) => {
                self.steps.shift = Some(Translation { shift: proxy.shift, of: Of::Client });
                Ok((Verdict::Pass, proxy, taken == Use::Counts))
            }
            // The client has forgotten the connection, and has a new cookie.
            Err(Fault::Window) if self.proved(seen, segment).is_some() => Err(Fault::Anew),
            Err(fault) => Err(fault),
        }
    }

    fn take_server(
        &mut self,
        tcp: &mut Tcp,
        proxy: Proxy,
        seen: &Seen,
        segment: &Segment,
    ) -> Result<(Verdict, Proxy, bool), Fault> {
        let ends = ends(seen);
        if segment.flags & (SYN | ACK | RST) == SYN | ACK {
            let taken = tcp.take(1, segment)?;
            let proxy = self.open(tcp, proxy, ends, segment);
            return Ok((Verdict::Answered, proxy, taken == Use::Counts));
        }
        if proxy.is_open {
            let taken = tcp.take(1, segment)?;
            self.steps.shift = Some(Translation { shift: proxy.shift, of: Of::Server });
            return Ok((Verdict::Pass, proxy, taken == Use::Counts));
        }
        let made = |ends, flags, sequence, acknowledgement| {
            let options = Options::default();
            Some(Made { ends, flags, sequence, acknowledgement, window: 0, options })
        };
        if segment.flags & RST != 0 {
            let taken = tcp.take(1, segment)?;
            let expected = proxy.shift.sequence.wrapping_add(1);
            self.steps.onward = made(ends, RST | ACK, expected, segment.acknowledgement);
            return Ok((Verdict::Answered, proxy, taken == Use::Counts));
        }
        if segment.flags & (SYN | ACK | FIN) != ACK {
            return Err(Fault::Flags);
        }
        // It knows an older connection: that is over (RFC 9293, 3.10.7.3).
        self.steps.back = made(back(ends), RST, segment.acknowledgement, 0);
        Ok((Verdict::Answered, proxy, false))
    }

    /// The server has accepted: it gets an acknowledgement, and the client a window.
    fn open(&mut self, tcp: &mut Tcp, proxy: Proxy, ends: Ends, segment: &Segment) -> Proxy {
        let found = self.options();
        let mut shift = proxy.shift;
        if !proxy.is_open {
            let has_scale = segment.scale.is_some();
            shift.sequence = proxy.shift.sequence.wrapping_sub(segment.sequence);
            shift.stamp = found.stamps.map_or(0, |[value, _]| proxy.shift.stamp.wrapping_sub(value));
            shift.scales[0] = segment.scale.unwrap_or(0).min(14);
            shift.unknown_scale = if has_scale { 0 } else { proxy.shift.unknown_scale };
            if !self.rehearses {
                self.flood.counts.opened += 1;
            }
        }
        let acknowledgement = segment.sequence.wrapping_add(1);
        let window = (tcp.window_shown(0) >> tcp.scale(0)).min(u16::MAX.into()) as u16;
        let stamps = found.stamps.map(|[value, echo]| [echo, value]);
        let reply = Made {
            ends: back(ends),
            flags: ACK,
            sequence: segment.acknowledgement,
            acknowledgement,
            window,
            options: Options { stamps, ..Options::default() },
        };
        let taken =
            Segment { flags: ACK, sequence: reply.sequence, acknowledgement, window, length: 0, scale: None };
        // It is what the tracker expects, or the connection has gone on.
        let _ = tcp.take(0, &taken);
        let stamps = found.stamps.map(|[value, echo]| [value.wrapping_add(shift.stamp), echo]);
        self.steps.back = Some(reply);
        self.steps.onward = Some(Made {
            ends,
            flags: ACK,
            sequence: acknowledgement.wrapping_add(shift.sequence),
            acknowledgement: segment.acknowledgement,
            window: u16::try_from(u32::from(segment.window) >> shift.scales[1]).unwrap_or(u16::MAX).max(1),
            options: Options { stamps, ..Options::default() },
        });
        Proxy { shift, is_open: true }
    }

    /// The number that a server knows of one that an ICMP error quotes.
    pub(super) fn quoted(&mut self, entry: &Entry, side: usize, sequence: u32) -> (u32, bool) {
        match entry.proxy.filter(|proxy| side == 1 && proxy.is_open) {
            Some(proxy) => {
                self.steps.shift = Some(Translation { shift: proxy.shift, of: Of::Quote });
                (sequence.wrapping_sub(proxy.shift.sequence), true)
            }
            None => (sequence, false),
        }
    }
}

impl super::Firewall {
    /// What is to be done with the packet that was judged last, if [`Decision::is_proxied`] says so.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Whether SYNs for rules with `synproxy` are answered at a time, and what has become of those.
    pub fn synproxy(&self, now_ns: u64) -> (bool, ProxyCounts) {
        (self.flood.is_on(now_ns, self.ruleset.policy.synproxy.above), self.flood.counts)
    }
}

#[cfg(test)]
mod tests;
