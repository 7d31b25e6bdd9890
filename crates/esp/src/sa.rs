// SPDX-License-Identifier: MIT OR Apache-2.0
//! Security associations: what two hosts agreed on about one direction (RFC 4301, 4.4.2).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::front::Front;
use crate::replay::Window;
use crate::suite::{Spec, Suite, SuiteError};

/// What is between the ESP headers' ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A whole IP packet, behind a header of its own between two gateways.
    Tunnel {
        /// Where the tunnel begins.
        from: IpAddr,
        /// Where it ends.
        to: IpAddr,
    },
    /// The payload of an IP packet, whose header stays in front.
    Transport,
}

/// UDP ports around ESP, for address translators on the way (RFC 3948).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// The sender's port.
    pub from: u16,
    /// The receiver's port.
    pub to: u16,
}

/// What becomes of the flag "don't fragment" in the outer IPv4 header (RFC 4301, 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DontFragment {
    /// As the inner packet has it; with IPv6 inside, set.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set.
    Clear,
}

/// How headers are made and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// TTL or hop limit of outer headers.
    pub ttl: u8,
    /// The fragmentation flag of outer headers.
    pub dont_fragment: DontFragment,
    /// Whether the outer header shows the inner one's DSCP.
    pub copy_dscp: bool,
    /// Whether a decrypted packet gets the outer header's DSCP.
    pub decap_dscp: bool,
    /// Whether congestion is signalled through the tunnel (RFC 6040).
    pub ecn: bool,
    /// The length to which payloads are padded with zeros, in bytes, so that it reveals nothing (RFC 4303, 2.7). Padding never makes a
    /// packet longer than its path takes. For tunnels.
    pub pad_to: u16,
    /// Packets a second that leave at least: dummy packets stand for those that are missing (RFC 4303, 2.6). 0 for none.
    pub fill_to: u32,
    /// Seconds after which a keep-alive leaves by UDP if nothing else did, so that translators on the way keep their mapping (RFC 3948, 2.3). 0 for never.
    pub keep_alive_s: u16,
}

/// The most packets a second that dummy packets may make up.
pub const FILL_MOST: u32 = 100_000;

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            ttl: 64,
            dont_fragment: DontFragment::Copy,
            copy_dscp: true,
            decap_dscp: false,
            ecn: true,
            pad_to: 0,
            fill_to: 0,
            keep_alive_s: 0,
        }
    }
}

/// All that a security association is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its number, which packets carry: at least 256 (RFC 4303, 2.1).
    pub spi: u32,
    /// What it carries.
    pub mode: Mode,
    /// Ports, if it goes by UDP.
    pub udp: Option<UdpPorts>,
    /// Algorithms and keys.
    pub spec: Spec,
    /// Whether sequence numbers have 64 bits.
    pub is_extended: bool,
    /// Packets in the anti-replay window; 0 for none.
    pub window: u32,
    /// How headers are made and read.
    pub rules: Rules,
}

/// The lowest SPI that is not reserved.
pub const SPI_MIN: u32 = 256;

/// Why there is no such association.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The SPI is reserved.
    #[error("SPI {0:#x} is reserved: it must be at least 0x100")]
    Spi(u32),
    /// A tunnel's ends have addresses of two families.
    #[error("a tunnel has two ends of one family, not {from} and {to}")]
    Families {
        /// Its beginning.
        from: IpAddr,
        /// Its end.
        to: IpAddr,
    },
    /// Something is wrong about algorithms or keys.
    #[error(transparent)]
    Suite(#[from] SuiteError),
}

/// A security association with its state. All workers may use it at once. Packets that leave need the first lines, and packets that came the last.
#[derive(Debug)]
#[repr(C)]
pub struct Sa {
    /// Its number.
    pub spi: u32,
    /// What it carries.
    pub mode: Mode,
    /// Whether it goes by UDP.
    pub by_udp: bool,
    /// Whether sequence numbers have 64 bits.
    pub is_extended: bool,
    /// How headers are made and read.
    pub rules: Rules,
    /// The number of the last packet that was sent, on a cache line of its own. Associations with the same keys may share it.
    sent: Arc<Sent>,
    /// What its packets begin with.
    pub(crate) front: Front,
    /// What protects its packets.
    pub suite: Suite,
    /// What has been received.
    pub window: Window,
    /// Packets in a row that failed the integrity check, up to [`LOST`]. Counted only where numbers have 64 bits.
    misses: AtomicU32,
}

/// After so many packets in a row that fail the check, a receiver may have lost step: 2^32 packets or more have been lost (RFC 4303, A3).
const LOST: u32 = 512;
/// Then one in so many packets is tried with a higher upper half of its number. The others are not, so that forged packets alone cost few genuine ones.
const TRIED: u32 = 16;
/// Upper halves that are tried by turns: the window goes no further.
const LEAPS: u32 = 7;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Sent(AtomicU64);

impl Sa {
    /// An association that has sent and received nothing.
    ///
    /// # Errors
    /// What is wrong about it.
    pub fn new(config: &Config) -> Result<Sa, SaError> {
        if config.spi < SPI_MIN {
            return Err(SaError::Spi(config.spi));
        }
        if let Mode::Tunnel { from, to } = config.mode
            && from.is_ipv4() != to.is_ipv4()
        {
            return Err(SaError::Families { from, to });
        }
        Ok(Sa {
            spi: config.spi,
            mode: config.mode,
            by_udp: config.udp.is_some(),
            is_extended: config.is_extended,
            rules: config.rules,
            front: Front::new(config),
            suite: Suite::new(&config.spec)?,
            sent: Arc::default(),
            window: Window::new(config.window, config.is_extended),
            misses: AtomicU32::new(0),
        })
    }

    /// Ports, if it goes by UDP.
    pub fn udp(&self) -> Option<UdpPorts> {
        self.by_udp.then(|| self.front.ports())
    }

    /// Packets go by these ports from now on, if they go by UDP: a translator on the way has changed its mind.
    pub fn set_udp_ports(&self, ports: UdpPorts) {
        if self.by_udp {
            self.front.set_ports(ports);
        }
    }

    /// The cache lines that a packet that leaves with so many bytes of payload needs, as addresses, which are only for asking for them ahead.
    #[inline]
    pub fn lines_to_send(&self, payload_len: usize) -> impl Iterator<Item = *const u8> {
        let own = [line_of(&self.spi), line_of(&self.front)];
        own.into_iter().chain(self.suite.lines_for(payload_len))
    }

    /// The cache line of its sequence numbers, in the same way.
    #[inline]
    pub fn line_of_numbers(&self) -> *const u8 {
        line_of(&*self.sent)
    }

    /// The same lines for a packet that came. Where its number is noted, [`Window::line_of`] says.
    #[inline]
    pub fn lines_to_open(&self, payload_len: usize) -> impl Iterator<Item = *const u8> {
        let own = [line_of(&self.spi), line_of(&self.window)];
        own.into_iter().chain(self.suite.lines_for(payload_len))
    }

    /// The highest sequence number that it may use. A daemon makes a new association long before.
    ///
    /// Extended numbers end 2^48 early: workers that find the last numbers taken may each have added 2^31, and that must not turn the counter over.
    pub fn last_number(&self) -> u64 {
        if self.is_extended { u64::MAX - (1 << 48) } else { u32::MAX.into() }
    }

    /// Takes numbers for `count` packets, at most 2^31, which go out soon: one after the other, beginning with the one returned. One atomic operation
    /// serves a whole batch. `None` when numbers have run out: none is ever used twice (RFC 4303, 3.3.3).
    #[inline]
    pub fn take_numbers(&self, count: u32) -> Option<u64> {
        let last = self.last_number();
        let before = self.sent.0.load(Ordering::Relaxed);
        // Several workers may come here together at the end; what they add beyond it is far from turning over.
        if last - before.min(last) < u64::from(count) {
            return None;
        }
        let before = self.sent.0.fetch_add(count.into(), Ordering::Relaxed);
        (last - before.min(last) >= u64::from(count)).then_some(before + 1)
    }

    /// The number of the last packet that was sent.
    pub fn sent(&self) -> u64 {
        self.sent.0.load(Ordering::Relaxed).min(self.last_number())
    }

    /// Notes whether a packet that came passed the integrity check.
    #[inline]
    pub fn note_check(&self, is_genuine: bool) {
        if !self.is_extended {
            return;
        }
        // Workers may miss each other's counts, which only delays a trial.
        match (self.misses.load(Ordering::Relaxed), is_genuine) {
            (0, true) | (LOST, false) => {}
            (_, true) => self.misses.store(0, Ordering::Relaxed),
            (misses, false) => self.misses.store(misses + 1, Ordering::Relaxed),
        }
    }

    /// What to add to the number of a packet with these low bits: more than 0 where the receiver seems to have lost step, and this packet is to try another upper half.
    #[inline]
    pub(crate) fn leap(&self, low: u32) -> u64 {
        if !self.is_extended || self.misses.load(Ordering::Relaxed) < LOST || !low.is_multiple_of(TRIED) {
            return 0;
        }
        u64::from(low / TRIED % LEAPS + 1) << 32
    }

    /// Goes on after this number, as after a restart, unless it has come further.
    pub fn set_sent(&self, number: u64) {
        self.sent.0.fetch_max(number.min(self.last_number()), Ordering::Relaxed);
    }

    /// Takes its numbers from where an association with the same keys takes them. Both may go on: no number and no initialisation vector is used twice.
    pub fn share_numbers(&mut self, other: &Sa) {
        self.sent = other.sent.clone();
        self.suite.share_vectors(&other.suite);
    }
}

fn line_of<T>(part: &T) -> *const u8 {
    std::ptr::from_ref(part).cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Aead;

    pub(crate) fn config() -> Config {
        let spec = Spec::Combined { algorithm: Aead::AesGcm, key: vec![7; 20], icv_len: 16 };
        let mode = Mode::Tunnel { from: [10, 0, 0, 1].into(), to: [10, 0, 0, 2].into() };
        Config { spi: 0x100, mode, udp: None, spec, is_extended: false, window: 64, rules: Rules::default() }
    }

    #[test]
    fn numbers_run_out_and_none_comes_twice() {
        let sa = Sa::new(&config()).unwrap();
        assert_eq!((sa.take_numbers(3), sa.take_numbers(1), sa.sent()), (Some(1), Some(4), 4));
        sa.set_sent(u64::from(u32::MAX) - 2);
        assert_eq!(sa.take_numbers(3), None, "there are two");
        assert_eq!(sa.take_numbers(2), Some(u64::from(u32::MAX) - 1));
        assert_eq!((sa.take_numbers(1), sa.sent()), (None, u64::from(u32::MAX)));
        let extended = Sa::new(&Config { is_extended: true, ..config() }).unwrap();
        extended.set_sent(u32::MAX.into());
        assert_eq!(extended.take_numbers(1), Some(1 << 32));
        let last = u64::MAX - (1 << 48);
        extended.set_sent(last - 1);
        assert_eq!((extended.take_numbers(1), extended.take_numbers(1)), (Some(last), None));
        // Workers that asked at the same time have added to the counter beyond the end.
        for _ in 0..10_000 {
            extended.sent.0.fetch_add(1 << 31, Ordering::Relaxed);
            assert_eq!((extended.take_numbers(1), extended.sent()), (None, last));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let why = Sa::new(&Config { spi: 255, ..config() }).unwrap_err().to_string();
        assert_eq!(why, "SPI 0xff is reserved: it must be at least 0x100");
        let mode = Mode::Tunnel { from: [10, 0, 0, 1].into(), to: "2001:db8::1".parse().unwrap() };
        assert!(Sa::new(&Config { mode, ..config() }).unwrap_err().to_string().contains("one family"));
        let spec = Spec::Combined { algorithm: Aead::AesGcm, key: vec![7; 16], icv_len: 16 };
        let why = Sa::new(&Config { spec, ..config() }).unwrap_err().to_string();
        assert_eq!(why, "rfc4106(gcm(aes)) takes a key with its salt of 20 or 36 bytes, not 16");
    }
}
