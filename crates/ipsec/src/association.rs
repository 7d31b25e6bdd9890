// SPDX-License-Identifier: MIT OR Apache-2.0
//! Security associations as a router keeps them (RFC 4301, 4.4.2).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};

use esp::Sa;
use esp::replay::Window;
use esp::sa::{SaError, UdpPorts};

use crate::lifetime::{Bounds, Life, Limits, Lines, Reached};
use crate::policy::IpsecMode;
use crate::selector::{Flow, Selector};

/// The identity of an association: the receiver's address and the number that packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The receiver.
    pub dst: IpAddr,
    /// The number.
    pub spi: u32,
}

/// Where an association goes on that had a life before, as after a restart or a move to other addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last packet that was sent.
    pub sent: u64,
    /// The highest number that was received.
    pub top: u64,
    /// Which packets below it were, as [`Window::bitmap`] has it.
    pub bitmap: Vec<u32>,
    /// What it had carried, and for how long, when it was put in.
    pub life: Life,
}

/// All that an association is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationConfig {
    /// The sender.
    pub src: IpAddr,
    /// The receiver.
    pub dst: IpAddr,
    /// What ESP needs.
    pub esp: esp::Config,
    /// The number that binds it to policies; 0 for none.
    pub reqid: u32,
    /// The only packets that it may carry.
    pub selector: Option<Selector>,
    /// What ends it.
    pub limits: Limits,
    /// Where it goes on.
    pub progress: Progress,
}

impl AssociationConfig {
    /// Its identity.
    pub fn id(&self) -> Id {
        Id { dst: self.dst, spi: self.esp.spi }
    }
}

/// An association in use. All workers may use it at once.
///
/// It is laid out by access: what each packet needs is on the first line and in `sa`; what few need comes last.
#[derive(Debug)]
#[repr(C)]
pub struct Association {
    /// The limit that it has reached: 0 none, 1 soft, 2 hard.
    reached: AtomicU8,
    /// Whether bytes or packets end it, or lengths are noted, so that each packet must look.
    is_counted: AtomicBool,
    /// Whether lengths of packets are noted.
    is_measured: AtomicBool,
    /// Whether it has a selector, which is among what few need.
    is_selective: bool,
    /// The path's MTU in the low 16 bits, and the second in which that was learned above them; 0 for none.
    path: AtomicU64,
    /// What it has carried.
    pub lines: Arc<Lines>,
    /// When it was made, in nanoseconds.
    pub made_ns: u64,
    /// Differs from that of an earlier one of the same identity, and is higher.
    pub generation: u64,
    /// When time is to look at it next, in nanoseconds.
    look: AtomicU64,
    /// When the peer was last found elsewhere, in nanoseconds plus one; 0 for never.
    moved: AtomicU64,
    /// What protects and opens packets.
    pub sa: Sa,
    /// What it was made of. `progress`, `limits` and `esp.udp` may be out of date: [`current`](Self::current) has the latter two, and [`progress`](Self::progress) the first.
    pub config: AssociationConfig,
    /// What ends it now.
    limits: Bounds,
    /// Lengths of some of the latest packets in bytes, if they are noted; 0 for none.
    lens: [AtomicU16; LENS],
}

/// Lengths that are noted.
const LENS: usize = 16;

const _: () = assert!(std::mem::offset_of!(Association, sa) == 64);

/// A path's MTU is forgotten after this time, in seconds (RFC 1191, 6.3).
const PATH_SECONDS: u64 = 600;
const SECOND: u64 = 1_000_000_000;

impl Association {
    /// One that begins now.
    ///
    /// # Errors
    /// What is wrong about it.
    pub(crate) fn new(
        config: AssociationConfig,
        workers: usize,
        now_ns: u64,
        generation: u64,
    ) -> Result<Association, SaError> {
        let mut sa = Sa::new(&config.esp)?;
        let Progress { sent, top, bitmap, life } = &config.progress;
        sa.set_sent(*sent);
        if *top > 0 {
            sa.window = Window::restored(config.esp.window, config.esp.is_extended, *top, bitmap);
        }
        let is_measured = sa.rules.fill_to > 0;
        Ok(Association {
            sa,
            limits: Bounds::new(&config.limits),
            is_counted: AtomicBool::new(config.limits.count() || is_measured),
            is_measured: AtomicBool::new(is_measured),
            lens: Default::default(),
            is_selective: config.selector.is_some(),
            look: AtomicU64::new(0),
            lines: Arc::new(Lines::going_on(workers, life, now_ns)),
            made_ns: now_ns.saturating_sub(life.age_ns),
            config,
            generation,
            reached: AtomicU8::new(0),
            path: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        })
    }

    /// Its identity.
    pub fn id(&self) -> Id {
        self.config.id()
    }

    /// What it carries, as policies have it.
    pub fn kind(&self) -> IpsecMode {
        match self.sa.mode {
            esp::Mode::Tunnel { from, to } => IpsecMode::Tunnel { from, to },
            esp::Mode::Transport => IpsecMode::Transport,
        }
    }

    /// Where it is.
    pub fn progress(&self) -> Progress {
        let window = &self.sa.window;
        let bitmap = if window.top() == 0 { Vec::new() } else { window.bitmap() };
        Progress { sent: self.sa.sent(), top: window.top(), bitmap, life: Life::default() }
    }

    /// What it is made of now, but for its progress.
    pub fn current(&self) -> AssociationConfig {
        let esp = esp::Config { udp: self.sa.udp(), ..self.config.esp.clone() };
        AssociationConfig {
            esp,
            limits: self.limits.get(),
            progress: Progress::default(),
            ..self.config.clone()
        }
    }

    /// What ends it.
    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Whether each packet must look at limits, or is measured.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// It has these limits and ports from now on. A soft limit that was reached may be reached again.
    pub(crate) fn adjust(&self, limits: &Limits, ports: Option<UdpPorts>) {
        self.limits.set(limits);
        self.is_counted.store(limits.count() || self.is_measured(), Ordering::Relaxed);
        if let Some(ports) = ports {
            self.sa.set_udp_ports(ports);
        }
        let soft = 1 + Reached::Soft as u8;
        let _ = self.reached.compare_exchange(soft, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_measured(&self) -> bool {
        self.is_measured.load(Ordering::Relaxed)
    }

    /// Lengths of packets are noted from now on.
    pub fn measure(&self) {
        self.is_measured.store(true, Ordering::Relaxed);
        self.is_counted.store(true, Ordering::Relaxed);
    }

    /// Notes the length of the packet that was `nth` to pass, if lengths are noted.
    pub(crate) fn note_len(&self, nth: u64, bytes: usize) {
        if self.is_measured() {
            let place = &self.lens[nth as usize % LENS];
            place.store(bytes.min(u16::MAX.into()) as u16, Ordering::Relaxed);
        }
    }

    /// A noted length by a random number. `None` before there are any.
    pub fn some_len(&self, random: usize) -> Option<usize> {
        let len = |at: usize| usize::from(self.lens[(random % LENS + at) % LENS].load(Ordering::Relaxed));
        (0..LENS).map(len).find(|len| *len > 0)
    }

    /// Time is to look at it then, and at no other moment.
    pub(crate) fn look_at(&self, at_ns: u64) {
        self.look.store(at_ns, Ordering::Relaxed);
    }

    /// Whether time is to look at it at this very moment.
    pub(crate) fn looks_at(&self, at_ns: u64) -> bool {
        self.look.load(Ordering::Relaxed) == at_ns
    }

    /// The limit that it has reached.
    #[inline]
    pub fn reached(&self) -> Option<Reached> {
        match self.reached.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Reached::Soft),
            _ => Some(Reached::Hard),
        }
    }

    /// Whether packets leave by it of which nobody asked for: dummy packets or keep-alives.
    pub fn is_tended(&self) -> bool {
        let rules = &self.sa.rules;
        rules.fill_to > 0 || rules.keep_alive_s > 0
    }

    /// Whether it is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.reached() == Some(Reached::Hard)
    }

    /// Whether it may carry a packet on the way out: its selector, and in transport mode its own hosts, say so.
    #[inline]
    pub fn carries(&self, flow: &Flow) -> bool {
        let is_between = match self.sa.mode {
            esp::Mode::Tunnel { .. } => true,
            esp::Mode::Transport => (self.config.src, self.config.dst) == (flow.src, flow.dst),
        };
        is_between && self.selects(flow)
    }

    /// Whether its selector, if it has one, contains a packet.
    #[inline]
    pub fn selects(&self, flow: &Flow) -> bool {
        !self.is_selective || self.config.selector.as_ref().is_none_or(|selector| selector.contains(flow))
    }

    /// Ends it: workers that still hold it use it no more.
    pub(crate) fn end(&self) {
        self.note(Reached::Hard);
    }

    /// Whether receivers find packets of another one genuine by the same key.
    pub(crate) fn has_keys_of(&self, config: &AssociationConfig) -> bool {
        self.config.esp.spec.authentic_key() == config.esp.spec.authentic_key()
    }

    /// The longest packet that its path takes, in bytes, as far as that is known.
    #[inline]
    pub fn path_mtu(&self, now_ns: u64) -> u16 {
        match self.path.load(Ordering::Relaxed) {
            0 => u16::MAX,
            path if now_ns / SECOND > (path >> 16) + PATH_SECONDS => u16::MAX,
            path => path as u16,
        }
    }

    /// A router on its path said that `mtu` bytes is the longest packet that passes. What is shorter than a link may be counts as the shortest that it may be
    /// (RFC 791, RFC 8200).
    pub fn set_path_mtu(&self, mtu: u16, now_ns: u64) {
        let least = if self.config.dst.is_ipv4() { 576 } else { 1280 };
        let mtu = mtu.max(least).min(self.path_mtu(now_ns));
        self.path.store((now_ns / SECOND) << 16 | u64::from(mtu), Ordering::Relaxed);
    }

    /// Whether it is to be said now that the peer is elsewhere: once in a while.
    pub(crate) fn say_moved(&self, now_ns: u64) -> bool {
        let before = self.moved.load(Ordering::Relaxed);
        let is_due = before == 0 || now_ns.saturating_sub(before - 1) >= SECOND;
        is_due
            && self.moved.compare_exchange(before, now_ns + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes a limit. Returns whether that is news.
    pub(crate) fn note(&self, reached: Reached) -> bool {
        let code = 1 + reached as u8;
        self.reached.fetch_max(code, Ordering::Relaxed) < code
    }
}
