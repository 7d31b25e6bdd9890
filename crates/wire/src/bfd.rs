// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD control packets (RFC 5880 section 4), as UDP carries them (RFC 5881 for one hop, RFC 5883 for several).

use std::fmt;

use crate::Error;

/// Byte offsets of the fields.
pub mod field {
    /// Version and diagnostic.
    pub const VERSION_DIAGNOSTIC: usize = 0;
    /// State and flags.
    pub const STATE_FLAGS: usize = 1;
    /// Detection time multiplier.
    pub const DETECT_MULT: usize = 2;
    /// Length of the packet.
    pub const LEN: usize = 3;
    /// Discriminator of the sender.
    pub const MY_DISCRIMINATOR: usize = 4;
    /// Discriminator of the receiver.
    pub const YOUR_DISCRIMINATOR: usize = 8;
    /// Desired minimum transmission interval.
    pub const DESIRED_MIN_TX: usize = 12;
    /// Required minimum reception interval.
    pub const REQUIRED_MIN_RX: usize = 16;
    /// Required minimum reception interval of echo packets.
    pub const REQUIRED_MIN_ECHO_RX: usize = 20;
}

/// UDP destination port of control packets over one hop (RFC 5881 section 4).
pub const PORT_SINGLE_HOP: u16 = 3784;
/// UDP destination port of echo packets (RFC 5881 section 4).
pub const PORT_ECHO: u16 = 3785;
/// UDP destination port of control packets over several hops (RFC 5883 section 5).
pub const PORT_MULTI_HOP: u16 = 4784;
/// The one version that is in use.
pub const VERSION: u8 = 1;

/// The state of a session, as its packets carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// An administrator holds the session down.
    AdminDown,
    /// The session is down, or has just been made.
    Down,
    /// The other side is heard, but it does not hear us yet.
    Init,
    /// Both sides hear each other.
    Up,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [State; 4] = [State::AdminDown, State::Down, State::Init, State::Up];

    const fn from_bits(bits: u8) -> State {
        State::ALL[(bits & 3) as usize]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a session last left a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// No diagnostic.
    pub const NONE: Diagnostic = Diagnostic(0);
    /// No packet came for the detection time.
    pub const DETECTION_TIME_EXPIRED: Diagnostic = Diagnostic(1);
    /// Echo packets did not come back.
    pub const ECHO_FAILED: Diagnostic = Diagnostic(2);
    /// The neighbour reported that its side is down.
    pub const NEIGHBOR_SIGNALED_DOWN: Diagnostic = Diagnostic(3);
    /// The forwarding plane was reset.
    pub const FORWARDING_PLANE_RESET: Diagnostic = Diagnostic(4);
    /// The path is known to be down, for example because its link is.
    pub const PATH_DOWN: Diagnostic = Diagnostic(5);
    /// A path that continues this one is down.
    pub const CONCATENATED_PATH_DOWN: Diagnostic = Diagnostic(6);
    /// An administrator holds the session down.
    pub const ADMIN_DOWN: Diagnostic = Diagnostic(7);
    /// The reverse direction of a path that continues this one is down.
    pub const REVERSE_CONCATENATED_PATH_DOWN: Diagnostic = Diagnostic(8);
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "none",
            1 => "detection time expired",
            2 => "echo failed",
            3 => "neighbor signaled down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            other => return write!(f, "diagnostic {other}"),
        })
    }
}

/// The six flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender asks for a packet with [`FINAL`](Self::FINAL).
    pub const POLL: Flags = Flags(0x20);
    /// Answers a packet with [`POLL`](Self::POLL).
    pub const FINAL: Flags = Flags(0x10);
    /// The sender's BFD survives a restart of its control plane.
    pub const CONTROL_PLANE_INDEPENDENT: Flags = Flags(0x08);
    /// An authentication section follows.
    pub const AUTHENTICATION: Flags = Flags(0x04);
    /// The sender wants no periodic packets.
    pub const DEMAND: Flags = Flags(0x02);
    /// Reserved; must be zero.
    pub const MULTIPOINT: Flags = Flags(0x01);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// One letter a flag, as the RFC abbreviates them: `P`, `F`, `CD`, `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & 0x3f == 0 {
            return f.write_str("none");
        }
        let set = |(bit, _): &(usize, char)| self.0 & (0x20 >> bit) != 0;
        "PFCADM".chars().enumerate().filter(set).try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

header! {
    "BFD", 24;
    fields {
        /// Version in the upper three bits, diagnostic in the lower five.
        version_diagnostic / set_version_diagnostic: u8 = field::VERSION_DIAGNOSTIC;
        /// State in the upper two bits, flags in the lower six.
        state_flags / set_state_flags: u8 = field::STATE_FLAGS;
        /// How many intervals may pass without a packet before the session fails.
        detect_mult / set_detect_mult: u8 = field::DETECT_MULT;
        /// Length of the packet in bytes.
        length / set_length: u8 = field::LEN;
        /// Discriminator of the sender's session.
        my_discriminator / set_my_discriminator: u32 = field::MY_DISCRIMINATOR;
        /// Discriminator of the receiver's session; zero if the sender does not know it.
        your_discriminator / set_your_discriminator: u32 = field::YOUR_DISCRIMINATOR;
        /// Shortest interval at which the sender wants to send, in microseconds.
        desired_min_tx_us / set_desired_min_tx_us: u32 = field::DESIRED_MIN_TX;
        /// Shortest interval at which the sender can receive, in microseconds; zero means that it wants no packets.
        required_min_rx_us / set_required_min_rx_us: u32 = field::REQUIRED_MIN_RX;
        /// Shortest interval at which the sender returns echo packets, in microseconds; zero means that it returns none.
        required_min_echo_rx_us / set_required_min_echo_rx_us: u32 = field::REQUIRED_MIN_ECHO_RX;
    }
    derived {
        /// Version; 1.
        version: u8 = |b| b[0] >> 5;
        /// Why the sender's session last left a state.
        diagnostic: Diagnostic = |b| Diagnostic(b[0] & 0x1f);
        /// State of the sender's session.
        state: State = |b| State::from_bits(b[1] >> 6);
        /// Flags.
        flags: Flags = |b| Flags(b[1] & 0x3f);
        /// Shortest length that the flags allow, in bytes.
        min_len: usize = |b| if b[1] & Flags::AUTHENTICATION.0 == 0 { 24 } else { 26 };
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks version and length.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for another version, or a length that the flags forbid.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        let (version, len) = (view.version(), view.length());
        Error::check_field(version == VERSION, PROTOCOL, "version", version.into(), "1")?;
        let expected = "at least 24, or 26 with authentication";
        Error::check_field(usize::from(len) >= view.min_len(), PROTOCOL, "length", len.into(), expected)?;
        Error::check_len(PROTOCOL, len.into(), available)?;
        Ok(view)
    }
}

/// The meaning of a control packet, without an authentication section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Why the sender's session last left a state.
    pub diagnostic: Diagnostic,
    /// State of the sender's session.
    pub state: State,
    /// Flags.
    pub flags: Flags,
    /// How many intervals may pass without a packet before the session fails.
    pub detect_mult: u8,
    /// Discriminator of the sender's session.
    pub my_discriminator: u32,
    /// Discriminator of the receiver's session; zero if the sender does not know it.
    pub your_discriminator: u32,
    /// Shortest interval at which the sender wants to send, in microseconds.
    pub desired_min_tx_us: u32,
    /// Shortest interval at which the sender can receive, in microseconds; zero means that it wants no packets.
    pub required_min_rx_us: u32,
    /// Shortest interval at which the sender returns echo packets, in microseconds; zero means that it returns none.
    pub required_min_echo_rx_us: u32,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr::of(view.header())
    }

    /// Reads a header; never fails.
    pub fn of(header: Header<'_>) -> Self {
        Repr {
            diagnostic: header.diagnostic(),
            state: header.state(),
            flags: header.flags(),
            detect_mult: header.detect_mult(),
            my_discriminator: header.my_discriminator(),
            your_discriminator: header.your_discriminator(),
            desired_min_tx_us: header.desired_min_tx_us(),
            required_min_rx_us: header.required_min_rx_us(),
            required_min_echo_rx_us: header.required_min_echo_rx_us(),
        }
    }

    /// Writes the packet to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; [`Error::Field`] for a diagnostic or flags that exceed their fields, and
    /// for the flag of an authentication section. Nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let (diagnostic, flags) = (self.diagnostic.0, self.flags.0);
        Error::check_field(diagnostic < 32, PROTOCOL, "diagnostic", diagnostic.into(), "at most 31")?;
        let fits = flags & !0x3f == 0 && !self.flags.contains(Flags::AUTHENTICATION);
        Error::check_field(fits, PROTOCOL, "flags", flags.into(), "six bits without authentication")?;
        HeaderMut::from_slice(buffer)?
            .set_version_diagnostic(VERSION << 5 | diagnostic)
            .set_state_flags((self.state as u8) << 6 | flags)
            .set_detect_mult(self.detect_mult)
            .set_length(HEADER_LEN as u8)
            .set_my_discriminator(self.my_discriminator)
            .set_your_discriminator(self.your_discriminator)
            .set_desired_min_tx_us(self.desired_min_tx_us)
            .set_required_min_rx_us(self.required_min_rx_us)
            .set_required_min_echo_rx_us(self.required_min_echo_rx_us);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { diagnostic, state, flags, detect_mult, .. } = self;
        let (my, your) = (self.my_discriminator, self.your_discriminator);
        write!(
            f,
            "bfd {state}, flags [{flags}], diag {diagnostic}, my {my:#x}, your {your:#x}, mult {detect_mult}"
        )?;
        let (tx, rx, echo) = (self.desired_min_tx_us, self.required_min_rx_us, self.required_min_echo_rx_us);
        write!(f, ", tx {tx} us, rx {rx} us, echo {echo} us")
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet as the RFC draws it, with `bytes` in place of its first four.
    fn packet(bytes: [u8; 4]) -> [u8; 24] {
        let mut packet = [0; 24];
        packet[..4].copy_from_slice(&bytes);
        (packet[7], packet[11]) = (1, 2);
        packet[12..16].copy_from_slice(&10_000u32.to_be_bytes());
        packet[16..20].copy_from_slice(&20_000u32.to_be_bytes());
        packet
    }

    #[test]
    fn packets() {
        let check = |bytes: &[u8], expected: &str| {
            let shown = View::new_checked(bytes).map_or_else(|e| e.to_string(), |v| v.to_string());
            assert_eq!(shown, expected);
        };
        let rest = "my 0x1, your 0x2, mult 3, tx 10000 us, rx 20000 us, echo 0 us";
        check(&packet([0x20, 0xc0, 3, 24]), &format!("bfd Up, flags [none], diag none, {rest}"));
        check(
            &packet([0x21, 0x60, 3, 24]),
            &format!("bfd Down, flags [P], diag detection time expired, {rest}"),
        );
        check(&packet([0x3f, 0x9a, 3, 24]), &format!("bfd Init, flags [FCD], diag diagnostic 31, {rest}"));
        check(&packet([0x40, 0xc0, 3, 24]), "BFD: version is 2, expected 1");
        check(
            &packet([0x20, 0xc0, 3, 23]),
            "BFD: length is 23, expected at least 24, or 26 with authentication",
        );
        check(
            &packet([0x20, 0xc4, 3, 24]),
            "BFD: length is 24, expected at least 24, or 26 with authentication",
        );
        check(&packet([0x20, 0xc0, 3, 25]), "BFD: truncated, 25 bytes needed but only 24 present");
        check(&packet([0x20, 0xc0, 3, 24])[..23], "BFD: truncated, 24 bytes needed but only 23 present");
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let repr = Repr::of(Header::from_chunk(&packet([0x20, 0xc0, 3, 24])));
        let check = |repr: Repr, len: usize, expected: &str| {
            let mut bytes = vec![7; len];
            assert_eq!(repr.emit(&mut bytes).unwrap_err().to_string(), expected);
            assert_eq!(bytes, vec![7; len]);
        };
        check(repr, 23, "BFD: truncated, 24 bytes needed but only 23 present");
        check(Repr { diagnostic: Diagnostic(32), ..repr }, 24, "BFD: diagnostic is 32, expected at most 31");
        for flags in [4, 0x40] {
            let expected = format!("BFD: flags is {flags}, expected six bits without authentication");
            check(Repr { flags: Flags(flags), ..repr }, 24, &expected);
        }
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(first in 0u8..32, state in 0u8..4, flags in 0u8..64, detect_mult: u8, words: [u32; 5]) {
            let [my_discriminator, your_discriminator, desired_min_tx_us, required_min_rx_us, required_min_echo_rx_us] = words;
            let repr = Repr {
                diagnostic: Diagnostic(first),
                state: State::from_bits(state),
                flags: Flags(flags & !Flags::AUTHENTICATION.0),
                detect_mult, my_discriminator, your_discriminator, desired_min_tx_us, required_min_rx_us,
                required_min_echo_rx_us,
            };
            let mut bytes = [0xff; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(bytes).unwrap()), repr);
        }
    }
}
