// SPDX-License-Identifier: MIT OR Apache-2.0
//! One session: what it remembers, what it sends and when, and what received packets do to it.

use std::time::Duration;

use wire::bfd::{Diagnostic, Flags, HEADER_LEN, Repr, State};

use crate::auth::{PACKET_MAX, Sequence};
use crate::discard::check_named;
use crate::echo::{ECHO_LEN, Echo};
use crate::{Change, Config, ConfigError, Discard, Intervals, after_receiving};

/// Shortest transmission interval while a session is not up, and shortest one of reception while echo packets are sent (RFC 5880 section
/// 6.8.3).
const SLOW_US: u32 = 1_000_000;
/// Places in [`Session::noticed`].
const CONTROL: usize = 0;
const ECHO: usize = 1;

/// A session whose echo packets fail stays down for so long at most. Echo packets that return for as long start anew.
const HOLD_MAX: Duration = Duration::from_secs(60);

/// What the neighbour said last; its default is what holds before it said anything (RFC 5880 section 6.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Its number of the session; zero while we hear nothing from it.
    pub discriminator: u32,
    /// Its state.
    pub state: State,
    /// Why its session last left a state.
    pub diagnostic: Diagnostic,
    /// Whether its session survives a restart of its control plane.
    pub control_plane_independent: bool,
    /// Whether it wants no periodic packets.
    pub demand: bool,
    /// How many of its intervals may pass without a packet.
    pub detect_mult: u8,
    /// Shortest interval at which it sends, in microseconds.
    pub desired_min_tx_us: u32,
    /// Shortest interval at which it can receive, in microseconds.
    pub required_min_rx_us: u32,
    /// Shortest interval at which it returns echo packets, in microseconds; zero for never.
    pub required_min_echo_rx_us: u32,
}

impl Default for Remote {
    fn default() -> Self {
        Remote {
            discriminator: 0,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            control_plane_independent: false,
            demand: false,
            detect_mult: 0,
            desired_min_tx_us: 0,
            required_min_rx_us: 1,
            required_min_echo_rx_us: 0,
        }
    }
}

/// The two intervals whose change the neighbour has to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timing {
    desired_min_tx_us: u32,
    required_min_rx_us: u32,
}

/// What [`Session::poll`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// A packet to send now, with TTL 255; [`Session::write`] makes its bytes.
    pub send: Option<Repr>,
    /// The payload of an echo packet to send now by way of the neighbour, to UDP port 3785, with TTL 255.
    pub echo: Option<[u8; ECHO_LEN]>,
    /// The session changed its state.
    pub change: Option<Change>,
}

/// One session with one neighbour.
#[derive(Debug, Clone)]
pub struct Session {
    config: Config,
    state: State,
    diagnostic: Diagnostic,
    remote: Remote,
    /// What our packets say.
    advertised: Timing,
    /// What our timers use. It differs from `advertised` until the neighbour has confirmed a change.
    in_use: Timing,
    /// A poll sequence is in progress: our packets bear P until one with F comes.
    polling: bool,
    /// A packet with F is to be sent.
    final_due: bool,
    /// Our packets say something new, which need not wait for the timer.
    announce: bool,
    last_tx: Option<Duration>,
    /// Means nothing while `remote.discriminator` is zero.
    last_rx: Duration,
    /// The random number of the running transmission interval.
    jitter: u32,
    /// Shortest interval at which to send echo packets, in microseconds; zero for never.
    echo_tx_us: u32,
    echo: Option<Echo>,
    /// How often echo packets have failed, one time soon after the other.
    echo_failures: u32,
    /// Until then the session stays down.
    held_until: Duration,
    sequence: Sequence,
    /// How long packets that may wait for us get after a silence was noticed.
    grace: Duration,
    /// When silence was noticed: of control packets, and of echo packets.
    noticed: [Option<Duration>; 2],
}

impl Session {
    /// Makes a session, which is down.
    ///
    /// # Errors
    /// A setting that must not be zero is.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let timing = wanted(&config.intervals, State::Down);
        Ok(Session {
            config,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            remote: Remote::default(),
            advertised: timing,
            in_use: timing,
            polling: false,
            final_due: false,
            announce: false,
            last_tx: None,
            last_rx: Duration::ZERO,
            jitter: 0,
            echo_tx_us: 0,
            echo: None,
            echo_failures: 0,
            held_until: Duration::ZERO,
            sequence: Sequence::default(),
            grace: Duration::ZERO,
            noticed: [None; 2],
        })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why the session last went down.
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// The state that the neighbour reported last.
    pub fn remote_state(&self) -> State {
        self.remote.state
    }

    /// What the neighbour said last.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// The neighbour's discriminator; `None` while we hear nothing from it.
    pub fn remote_discriminator(&self) -> Option<u32> {
        (self.remote.discriminator != 0).then_some(self.remote.discriminator)
    }

    /// The interval at which echo packets are sent, without jitter. `None` where none are sent: they were not asked for, or the neighbour returns
    /// none, or the session is not up on both sides (RFC 5880 section 6.8.9).
    pub fn echo_interval(&self) -> Option<Duration> {
        let (wanted_us, returned_us) = (self.echo_tx_us, self.remote.required_min_echo_rx_us);
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        (both_up && wanted_us != 0 && returned_us != 0).then(|| micros(wanted_us.max(returned_us)))
    }

    /// The interval at which packets are sent, without jitter.
    pub fn tx_interval(&self) -> Duration {
        micros(self.in_use.desired_min_tx_us.max(self.remote.required_min_rx_us))
    }

    /// How long the neighbour may be silent (RFC 5880 section 6.8.4); zero before it was first heard.
    pub fn detection_time(&self) -> Duration {
        let interval = micros(self.in_use.required_min_rx_us.max(self.remote.desired_min_tx_us));
        interval * self.remote.detect_mult.into()
    }

    /// When [`poll`](Self::poll) has something to do; `Duration::MAX` for never, zero for at once.
    pub fn next_due(&self) -> Duration {
        if self.final_due || self.announce {
            return Duration::ZERO;
        }
        let dues = [self.periodic_due(), self.detection_due(), self.echo_due()];
        dues.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Sends what is due and notices that the neighbour has fallen silent. Call it until nothing is to be sent.
    ///
    /// `jitter` is a random number, evenly distributed over all 32 bits.
    ///
    /// Packets count from the moment at which they are received here. A caller that may be late says by [`set_grace`](Self::set_grace) how long it takes to
    /// receive what waits.
    pub fn poll(&mut self, now: Duration, jitter: u32) -> Step {
        let silent = self.expire(now);
        self.switch_echo(now, jitter);
        let change = silent.or_else(|| self.expire_echo(now));
        Step { send: self.next_packet(now, jitter), echo: self.next_echo(now, jitter), change }
    }

    /// Takes a packet that [`read`](crate::read) accepted, by the rules of RFC 5880 section 6.8.6 and in their order.
    ///
    /// # Errors
    /// Why the packet was discarded. One with an authentication section is: [`Sessions::receive`](crate::Sessions::receive) takes those.
    pub fn receive(&mut self, packet: &Repr, ttl: u8, now: Duration) -> Result<Option<Change>, Discard> {
        self.admit(packet, ttl)?;
        if self.config.auth.is_some() || packet.flags.contains(Flags::AUTHENTICATION) {
            return Err(Discard::Authentication);
        }
        self.accept(packet, now)
    }

    /// Takes a packet with its bytes, in which an authentication section may be.
    pub(crate) fn receive_bytes(
        &mut self,
        payload: &[u8],
        packet: &Repr,
        ttl: u8,
        now: Duration,
    ) -> Result<Option<Change>, Discard> {
        let Some(auth) = self.config.auth else { return self.receive(packet, ttl, now) };
        self.admit(packet, ttl)?;
        if !packet.flags.contains(Flags::AUTHENTICATION) {
            return Err(Discard::Authentication);
        }
        let number = self.sequence.check(&auth, payload, packet, now)?;
        let change = self.accept(packet, now);
        self.sequence.note(number, now + 2 * self.detection_time());
        change
    }

    /// Writes a packet that [`poll`](Self::poll) returned; returns its length. `random` is for the first sequence number.
    ///
    /// # Errors
    /// A field exceeds its bits, which those that `poll` returns do not.
    pub fn write(
        &mut self,
        packet: &Repr,
        random: u32,
        bytes: &mut [u8; PACKET_MAX],
    ) -> Result<usize, wire::Error> {
        packet.emit(bytes)?;
        Ok(match self.config.auth {
            Some(auth) => auth.sign(bytes, self.sequence.next(random)),
            None => HEADER_LEN,
        })
    }

    /// The rules that come before authentication.
    fn admit(&self, packet: &Repr, ttl: u8) -> Result<(), Discard> {
        if packet.your_discriminator != 0 && packet.your_discriminator != self.config.discriminator {
            return Err(Discard::UnknownDiscriminator);
        }
        check_named(packet)?;
        if ttl < self.config.min_ttl {
            return Err(Discard::Ttl);
        }
        Ok(())
    }

    fn accept(&mut self, packet: &Repr, now: Duration) -> Result<Option<Change>, Discard> {
        self.last_rx = now;
        self.noticed[CONTROL] = None;
        self.remote = Remote {
            discriminator: packet.my_discriminator,
            state: packet.state,
            diagnostic: packet.diagnostic,
            control_plane_independent: packet.flags.contains(Flags::CONTROL_PLANE_INDEPENDENT),
            demand: packet.flags.contains(Flags::DEMAND),
            detect_mult: packet.detect_mult,
            desired_min_tx_us: packet.desired_min_tx_us,
            required_min_rx_us: packet.required_min_rx_us,
            required_min_echo_rx_us: packet.required_min_echo_rx_us,
        };
        if self.polling && packet.flags.contains(Flags::FINAL) {
            self.polling = false;
            self.in_use = self.advertised;
            self.retime();
        }
        if self.state == State::AdminDown {
            return Err(Discard::AdminDown);
        }
        let is_held = self.state == State::Down && now < self.held_until;
        let next = if is_held { State::Down } else { after_receiving(self.state, packet.state) };
        let diagnostic = match next {
            State::Up => Diagnostic::NONE,
            State::Down => Diagnostic::NEIGHBOR_SIGNALED_DOWN,
            // The neighbour may still want to know why the session failed before.
            State::Init | State::AdminDown => self.diagnostic,
        };
        let change = self.enter(next, diagnostic);
        self.final_due |= packet.flags.contains(Flags::POLL);
        Ok(change)
    }

    /// Changes the intervals. If the session is up, a poll sequence announces them to the neighbour first.
    ///
    /// # Errors
    /// An interval or the multiplier is zero; the session keeps what it had.
    pub fn configure(&mut self, intervals: Intervals) -> Result<(), ConfigError> {
        intervals.check()?;
        if intervals != self.config.intervals {
            self.config.intervals = intervals;
            self.noticed = [None; 2];
            self.announce = true;
            self.retime();
        }
        Ok(())
    }

    /// Changes what the next packets say and whether there may be a first one; the state stays.
    pub fn set_role(&mut self, passive: bool, control_plane_independent: bool) {
        self.config.passive = passive;
        self.config.control_plane_independent = control_plane_independent;
    }

    /// Asks for echo packets at this interval at least, in microseconds; zero ends that. While they are sent, the neighbour may send control
    /// packets once a second.
    pub fn set_echo(&mut self, interval_us: u32) {
        self.echo_tx_us = interval_us;
    }

    /// Takes the payload of an echo packet that has returned; says whether it counts.
    pub fn receive_echo(&mut self, payload: &[u8], now: Duration) -> bool {
        let detect_mult = self.config.intervals.detect_mult;
        let counts = self.echo.as_mut().is_some_and(|echo| echo.receive(payload, now, detect_mult));
        if counts {
            self.noticed[ECHO] = None;
        }
        counts
    }

    /// Sets how long the session stays up after [`poll`](Self::poll) has noticed a silence. A packet that comes meanwhile was only late in being
    /// looked at.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Holds the session down (RFC 5880 section 6.8.16), or lets it go again. It goes on sending, so that the neighbour knows why.
    pub fn set_admin_down(&mut self, down: bool) -> Option<Change> {
        match (down, self.state) {
            (true, _) => self.enter(State::AdminDown, Diagnostic::ADMIN_DOWN),
            (false, State::AdminDown) => self.enter(State::Down, self.diagnostic),
            (false, _) => None,
        }
    }

    /// Takes the session down for a reason that the caller knows: a lost link, a failed echo, a reset forwarding plane.
    pub fn fail(&mut self, reason: Diagnostic) -> Option<Change> {
        match self.state {
            State::Init | State::Up => self.enter(State::Down, reason),
            State::AdminDown | State::Down => None,
        }
    }

    /// The neighbour has been silent for the detection time: forget it (RFC 5880 sections 6.8.1 and 6.8.4).
    fn expire(&mut self, now: Duration) -> Option<Change> {
        if !self.is_over(CONTROL, self.detection_due()?, now) {
            return None;
        }
        self.remote = Remote::default();
        (self.polling, self.final_due) = (false, false);
        self.fail(Diagnostic::DETECTION_TIME_EXPIRED)
    }

    /// Too many echo packets are missing (RFC 5880 section 6.8.5). Control packets still come, so the session would be up again at once. It is held
    /// down for a second, and longer each time that it fails soon again.
    fn expire_echo(&mut self, now: Duration) -> Option<Change> {
        if !self.is_over(ECHO, self.echo_lost_at()?, now) {
            return None;
        }
        let is_soon = self.echo.is_some_and(|echo| now.saturating_sub(echo.started()) < HOLD_MAX);
        self.echo_failures = if is_soon { self.echo_failures + 1 } else { 1 };
        self.held_until = now + HOLD_MAX.min(Duration::from_secs(1 << (self.echo_failures - 1).min(6)));
        self.fail(Diagnostic::ECHO_FAILED)
    }

    /// Whether a silence lasts too long: it was noticed, and the grace is over.
    fn is_over(&mut self, of: usize, due: Duration, now: Duration) -> bool {
        if due > now {
            return false;
        }
        let noticed = *self.noticed[of].get_or_insert(now);
        let is_over = noticed + self.grace <= now;
        if is_over {
            self.noticed[of] = None;
        }
        is_over
    }

    fn echo_lost_at(&self) -> Option<Duration> {
        let lost_at = self.echo?.lost_at(self.config.intervals.detect_mult);
        Some(self.noticed[ECHO].map_or(lost_at, |noticed| noticed + self.grace))
    }

    /// Starts or ends the Echo function, or changes its interval, where something has changed.
    fn switch_echo(&mut self, now: Duration, random: u32) {
        match (self.echo_interval(), &mut self.echo) {
            (None, None) => {}
            (Some(interval), Some(echo)) if echo.interval() == interval => {}
            (Some(interval), Some(echo)) => {
                self.noticed[ECHO] = None;
                echo.set_interval(now, interval);
            }
            (interval, echo) => {
                self.noticed[ECHO] = None;
                *echo = interval.map(|interval| Echo::start(now, interval, random));
                self.retime();
            }
        }
    }

    fn echo_due(&self) -> Option<Duration> {
        match (self.echo_interval(), &self.echo) {
            (None, None) => None,
            (Some(interval), Some(echo)) if echo.interval() == interval => {
                self.echo_lost_at().map(|lost| lost.min(echo.next_tx()))
            }
            _ => Some(Duration::ZERO),
        }
    }

    fn next_echo(&mut self, now: Duration, jitter: u32) -> Option<[u8; ECHO_LEN]> {
        let interval = self.echo_interval()?;
        let jittered = jittered(interval, self.jitter_percents(), jitter);
        let echo = self.echo.as_mut().filter(|echo| echo.next_tx() <= now)?;
        Some(echo.send(self.config.discriminator, now, jittered))
    }

    fn detection_due(&self) -> Option<Duration> {
        let due = (self.remote.discriminator != 0).then(|| self.last_rx + self.detection_time())?;
        Some(self.noticed[CONTROL].map_or(due, |noticed| noticed + self.grace))
    }

    /// When the next packet leaves by the timer; `None` where the rules of RFC 5880 section 6.8.7 forbid periodic packets.
    fn periodic_due(&self) -> Option<Duration> {
        let both_up = self.state == State::Up && self.remote.state == State::Up;
        let unwanted = self.remote.required_min_rx_us == 0 || self.remote.demand && both_up && !self.polling;
        if self.is_silent() || unwanted {
            return None;
        }
        // A shorter interval holds at once, also for the packet that is waited for now (section 6.8.3).
        Some(self.last_tx.map_or(Duration::ZERO, |sent| sent + self.jittered_interval()))
    }

    /// Whether the passive role forbids all packets.
    fn is_silent(&self) -> bool {
        self.config.passive && self.remote.discriminator == 0
    }

    /// 75 to 100 percent of the interval; at most 90 percent if the neighbour allows no loss (RFC 5880 section 6.8.7).
    fn jittered_interval(&self) -> Duration {
        jittered(self.tx_interval(), self.jitter_percents(), self.jitter)
    }

    fn jitter_percents(&self) -> u128 {
        if self.config.intervals.detect_mult == 1 { 15 } else { 25 }
    }

    fn next_packet(&mut self, now: Duration, jitter: u32) -> Option<Repr> {
        // The answer to a poll has nothing to do with the timer.
        if std::mem::take(&mut self.final_due) {
            return Some(self.packet(Flags::FINAL));
        }
        let announce = std::mem::take(&mut self.announce) && !self.is_silent();
        if !announce && self.periodic_due().is_none_or(|due| due > now) {
            return None;
        }
        self.last_tx = Some(now);
        self.jitter = jitter;
        Some(self.packet(if self.polling { Flags::POLL } else { Flags::default() }))
    }

    fn packet(&self, flags: Flags) -> Repr {
        let independent = self.config.control_plane_independent;
        Repr {
            diagnostic: self.diagnostic,
            state: self.state,
            flags: if independent { flags | Flags::CONTROL_PLANE_INDEPENDENT } else { flags },
            detect_mult: self.config.intervals.detect_mult,
            my_discriminator: self.config.discriminator,
            your_discriminator: self.remote.discriminator,
            desired_min_tx_us: self.advertised.desired_min_tx_us,
            required_min_rx_us: self.advertised.required_min_rx_us,
            required_min_echo_rx_us: self.config.intervals.required_min_echo_rx_us,
        }
    }

    fn enter(&mut self, to: State, diagnostic: Diagnostic) -> Option<Change> {
        let from = std::mem::replace(&mut self.state, to);
        if from == to {
            return None;
        }
        self.diagnostic = diagnostic;
        self.announce = true;
        self.retime();
        Some(Change { from, to, diagnostic })
    }

    /// Brings the intervals in line with settings and state (RFC 5880 section 6.8.3).
    fn retime(&mut self) {
        let mut wanted = wanted(&self.config.intervals, self.state);
        if self.echo.is_some() {
            // Echo packets detect; control packets may be few (RFC 5880 section 6.8.3).
            wanted.required_min_rx_us = wanted.required_min_rx_us.max(SLOW_US);
        }
        let is_new = wanted != self.advertised;
        if self.state != State::Up {
            (self.advertised, self.in_use) = (wanted, wanted);
            self.polling |= is_new && self.remote.discriminator != 0;
            return;
        }
        // One change at a time: else nobody could say which of them an F confirms.
        if !is_new || self.polling {
            return;
        }
        self.advertised = wanted;
        // Slower sending and faster detection wait for the F, the others do not.
        self.in_use = Timing {
            desired_min_tx_us: self.in_use.desired_min_tx_us.min(wanted.desired_min_tx_us),
            required_min_rx_us: self.in_use.required_min_rx_us.max(wanted.required_min_rx_us),
        };
        (self.polling, self.announce) = (true, true);
    }
}

fn wanted(intervals: &Intervals, state: State) -> Timing {
    let least_tx_us = if state == State::Up { 0 } else { SLOW_US };
    Timing {
        desired_min_tx_us: intervals.desired_min_tx_us.max(least_tx_us),
        required_min_rx_us: intervals.required_min_rx_us,
    }
}

/// An interval shortened by up to a quarter: 75 percent and a random part of `percents`.
fn jittered(interval: Duration, percents: u128, random: u32) -> Duration {
    let nanos = interval.as_nanos();
    let spread = (nanos * percents / 100 * u128::from(random)) >> 32;
    // An interval has at most 32 bits of microseconds.
    Duration::from_nanos((nanos * 75 / 100 + spread) as u64)
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
