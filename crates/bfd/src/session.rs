// SPDX-License-Identifier: MIT OR Apache-2.0
//! One session: what it remembers, what it sends and when, and what received packets do to it.

use std::time::Duration;

use wire::bfd::{Diagnostic, Flags, Repr, State};

use crate::discard::check_named;
use crate::{Change, Config, ConfigError, Discard, Intervals, after_receiving};

/// Shortest transmission interval while a session is not up (RFC 5880 section 6.8.3).
const SLOW_TX_US: u32 = 1_000_000;

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
    /// A packet to send now, with TTL 255.
    pub send: Option<Repr>,
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

    /// Shortest interval at which the neighbour returns echo packets; `None` where none may be sent.
    pub fn echo_interval(&self) -> Option<Duration> {
        let echo_us = self.remote.required_min_echo_rx_us;
        (self.state == State::Up && echo_us != 0).then(|| micros(echo_us))
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
        let never = Duration::MAX;
        self.periodic_due().unwrap_or(never).min(self.detection_due().unwrap_or(never))
    }

    /// Sends what is due and notices that the neighbour has fallen silent. Call it until `send` is `None`.
    ///
    /// `jitter` is a random number, evenly distributed over all 32 bits.
    ///
    /// A caller that was late should first receive what waits: packets count from the moment at which they are received here.
    pub fn poll(&mut self, now: Duration, jitter: u32) -> Step {
        let change = self.expire(now);
        Step { send: self.next_packet(now, jitter), change }
    }

    /// Takes a packet that [`read`](crate::read) accepted, by the rules of RFC 5880 section 6.8.6 and in their order.
    ///
    /// # Errors
    /// Why the packet was discarded.
    pub fn receive(&mut self, packet: &Repr, ttl: u8, now: Duration) -> Result<Option<Change>, Discard> {
        if packet.your_discriminator != 0 && packet.your_discriminator != self.config.discriminator {
            return Err(Discard::UnknownDiscriminator);
        }
        check_named(packet)?;
        if ttl < self.config.min_ttl {
            return Err(Discard::Ttl);
        }
        if packet.flags.contains(Flags::AUTHENTICATION) {
            return Err(Discard::Authentication);
        }
        self.last_rx = now;
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
        let next = after_receiving(self.state, packet.state);
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

    /// Changes the intervals. If the session is up, a poll sequence tells the neighbour first.
    ///
    /// # Errors
    /// An interval or the multiplier is zero; the session keeps what it had.
    pub fn configure(&mut self, intervals: Intervals) -> Result<(), ConfigError> {
        intervals.check()?;
        if intervals != self.config.intervals {
            self.config.intervals = intervals;
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
        if self.detection_due()? > now {
            return None;
        }
        self.remote = Remote::default();
        (self.polling, self.final_due) = (false, false);
        self.fail(Diagnostic::DETECTION_TIME_EXPIRED)
    }

    fn detection_due(&self) -> Option<Duration> {
        (self.remote.discriminator != 0).then(|| self.last_rx + self.detection_time())
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
        let percents = if self.config.intervals.detect_mult == 1 { 15 } else { 25 };
        let nanos = self.tx_interval().as_nanos();
        let spread = (nanos * percents / 100 * u128::from(self.jitter)) >> 32;
        // An interval has at most 32 bits of microseconds.
        Duration::from_nanos((nanos * 75 / 100 + spread) as u64)
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
        let wanted = wanted(&self.config.intervals, self.state);
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
    let least_tx_us = if state == State::Up { 0 } else { SLOW_TX_US };
    Timing {
        desired_min_tx_us: intervals.desired_min_tx_us.max(least_tx_us),
        required_min_rx_us: intervals.required_min_rx_us,
    }
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
