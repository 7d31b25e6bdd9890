// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bridge protocol data units of the spanning tree protocols (IEEE 802.1D-2004 clause 9): what bridges tell each other.
//!
//! There are three: the Configuration and the Topology Change Notification BPDU of the older protocol, and the RST BPDU of
//! the rapid one. They travel in frames to [`GROUP`] behind an LLC header of two bytes 0x42 and one 0x03
//! ([`payload_of_frame`], [`Bpdu::emit_frame`]). The view holds the four bytes that all have; [`Bpdu::parse`] checks the rest
//! by clause 9.3.4 and says by name what is wrong with one that is refused.
//!
//! Times are on the wire in units of 1/256 second, and so they are here ([`Ticks`]).

use std::fmt;

use crate::header::{load_at, range, store_at};
use crate::llc::{CONTROL_UI, SAP_STP};
use crate::{Error, EtherType, MacAddr, ethernet};

/// Byte offsets of the fields.
pub mod field {
    /// Protocol identifier: 0.
    pub const PROTOCOL_ID: usize = 0;
    /// Protocol version: 0, or 2 of the rapid protocol.
    pub const VERSION: usize = 2;
    /// Type of BPDU.
    pub const KIND: usize = 3;
    /// Flags.
    pub const FLAGS: usize = 4;
    /// Root identifier.
    pub const ROOT: usize = 5;
    /// Root path cost.
    pub const ROOT_PATH_COST: usize = 13;
    /// Bridge identifier.
    pub const BRIDGE: usize = 17;
    /// Port identifier.
    pub const PORT: usize = 25;
    /// Message age.
    pub const MESSAGE_AGE: usize = 27;
    /// Max age.
    pub const MAX_AGE: usize = 29;
    /// Hello time.
    pub const HELLO_TIME: usize = 31;
    /// Forward delay.
    pub const FORWARD_DELAY: usize = 33;
    /// Length of the information of version 1, of which there is none: 0. In RST BPDUs only.
    pub const VERSION_1_LEN: usize = 35;
}

/// The address all bridges listen to (table 7-10).
pub const GROUP: MacAddr = MacAddr::new(0x01, 0x80, 0xc2, 0, 0, 0);
/// Type of a Configuration BPDU.
pub const KIND_CONFIG: u8 = 0;
/// Type of a Rapid Spanning Tree BPDU.
pub const KIND_RST: u8 = 2;
/// Type of a Topology Change Notification BPDU.
pub const KIND_TCN: u8 = 0x80;
/// Bytes of a Configuration BPDU.
pub const CONFIG_LEN: usize = 35;
/// Bytes of an RST BPDU.
pub const RST_LEN: usize = 36;
/// Bytes of a Topology Change Notification BPDU.
pub const TCN_LEN: usize = 4;
/// Bytes of the LLC header.
pub const LLC_LEN: usize = 3;
/// Bytes of a frame that carries any BPDU, padding included: the least that Ethernet allows, without the checksum.
pub const FRAME_LEN: usize = 60;

/// A time in units of 1/256 second (clause 9.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u16);

impl Ticks {
    /// So many seconds; the longest time there is where they are too many.
    pub const fn from_secs(seconds: u8) -> Ticks {
        Ticks((seconds as u16) << 8)
    }

    /// The nearest number of whole seconds.
    pub const fn round_secs(self) -> u16 {
        self.0 / 256 + (self.0 % 256 >= 128) as u16
    }
}

/// A bridge's identifier (clause 9.2.5): the priority above its address. Smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BridgeId {
    /// Priority; of its 16 bits, newer bridges let the user choose the upper four.
    pub priority: u16,
    /// Address.
    pub address: MacAddr,
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}.{}", self.priority, self.address)
    }
}

field_as_bytes! {
    Ticks, 2, |b| Ticks(u16::from_be_bytes(b)), |v| v.0.to_be_bytes();
    BridgeId, 8, |b| {
        let [p0, p1, address @ ..] = b;
        BridgeId { priority: u16::from_be_bytes([p0, p1]), address: address.into() }
    }, |v| {
        let ([p0, p1], [a, b, c, d, e, f]) = (v.priority.to_be_bytes(), v.address.octets());
        [p0, p1, a, b, c, d, e, f]
    };
}

/// What a port is to the tree, as the flags of an RST BPDU say it (clause 9.2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// None said: the message counts as a Configuration BPDU (clause 9.2.9).
    #[default]
    Unknown,
    /// Alternate or backup port.
    AlternateOrBackup,
    /// Root port.
    Root,
    /// Designated port.
    Designated,
}

/// The flags of a Configuration or RST BPDU (clauses 9.3.1 and 9.3.3). A Configuration BPDU has the first and the last only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags {
    /// The topology changes.
    pub topology_change: bool,
    /// The sender asks whether it may forward.
    pub proposal: bool,
    /// Role of the sending port.
    pub role: Role,
    /// The sending port learns.
    pub learning: bool,
    /// The sending port forwards.
    pub forwarding: bool,
    /// The receiver of a proposal agrees.
    pub agreement: bool,
    /// A topology change notification was heard.
    pub topology_change_ack: bool,
}

impl Flags {
    /// Reads the byte.
    pub const fn from_bits(bits: u8) -> Flags {
        let role = match bits >> 2 & 3 {
            0 => Role::Unknown,
            1 => Role::AlternateOrBackup,
            2 => Role::Root,
            _ => Role::Designated,
        };
        Flags {
            topology_change: bits & 1 != 0,
            proposal: bits & 2 != 0,
            role,
            learning: bits & 0x10 != 0,
            forwarding: bits & 0x20 != 0,
            agreement: bits & 0x40 != 0,
            topology_change_ack: bits & 0x80 != 0,
        }
    }

    /// The byte.
    pub const fn bits(self) -> u8 {
        self.topology_change as u8
            | (self.proposal as u8) << 1
            | (self.role as u8) << 2
            | (self.learning as u8) << 4
            | (self.forwarding as u8) << 5
            | (self.agreement as u8) << 6
            | (self.topology_change_ack as u8) << 7
    }
}

header! {
    "STP", 4;
    fields {
        /// Protocol identifier.
        protocol_id / set_protocol_id: u16 = field::PROTOCOL_ID;
        /// Protocol version.
        version / set_version: u8 = field::VERSION;
        /// Type of BPDU.
        kind / set_kind: u8 = field::KIND;
    }
    derived {}
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the four bytes are there that every BPDU has.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        Ok(View { buffer })
    }
}

/// What Configuration and RST BPDUs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Message {
    /// Flags.
    pub flags: Flags,
    /// The bridge that the sender takes for the root.
    pub root: BridgeId,
    /// What the sender's path to the root costs.
    pub root_path_cost: u32,
    /// The sender.
    pub bridge: BridgeId,
    /// The sending port: four bits of priority above twelve of number.
    pub port: u16,
    /// How old the root's message is.
    pub message_age: Ticks,
    /// At which age it is discarded.
    pub max_age: Ticks,
    /// Time between two messages.
    pub hello_time: Ticks,
    /// Time that a port stays in a state on its way to forwarding.
    pub forward_delay: Ticks,
}

impl Message {
    fn read(bytes: &[u8]) -> Message {
        Message {
            flags: Flags::from_bits(load_at(bytes, field::FLAGS)),
            root: load_at(bytes, field::ROOT),
            root_path_cost: load_at(bytes, field::ROOT_PATH_COST),
            bridge: load_at(bytes, field::BRIDGE),
            port: load_at(bytes, field::PORT),
            message_age: load_at(bytes, field::MESSAGE_AGE),
            max_age: load_at(bytes, field::MAX_AGE),
            hello_time: load_at(bytes, field::HELLO_TIME),
            forward_delay: load_at(bytes, field::FORWARD_DELAY),
        }
    }

    fn write(&self, bytes: &mut [u8], flags: u8) {
        store_at(bytes, field::FLAGS, flags);
        store_at(bytes, field::ROOT, self.root);
        store_at(bytes, field::ROOT_PATH_COST, self.root_path_cost);
        store_at(bytes, field::BRIDGE, self.bridge);
        store_at(bytes, field::PORT, self.port);
        store_at(bytes, field::MESSAGE_AGE, self.message_age);
        store_at(bytes, field::MAX_AGE, self.max_age);
        store_at(bytes, field::HELLO_TIME, self.hello_time);
        store_at(bytes, field::FORWARD_DELAY, self.forward_delay);
    }
}

/// The meaning of a BPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bpdu {
    /// Configuration BPDU.
    Config(Message),
    /// Topology Change Notification BPDU.
    Tcn,
    /// Rapid Spanning Tree BPDU.
    Rst(Message),
}

/// The bits of a Configuration BPDU's flags that mean something.
const CONFIG_FLAGS: u8 = 0x81;

impl Bpdu {
    /// Reads and checks a BPDU (clause 9.3.4). Bytes behind it are padding; a version above 2 is read as version 2.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] where the protocol identifier or the type is unknown, the version of an RST
    /// BPDU is less than 2, or a Configuration BPDU is older than it may become.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Bpdu, Error> {
        let bytes = view.as_slice();
        let id = view.protocol_id();
        Error::check_field(id == 0, PROTOCOL, "protocol identifier", id.into(), "0")?;
        match view.kind() {
            KIND_TCN => Ok(Bpdu::Tcn),
            KIND_CONFIG => {
                Error::check_len(PROTOCOL, CONFIG_LEN, bytes.len())?;
                let mut message = Message::read(bytes);
                message.flags = Flags::from_bits(message.flags.bits() & CONFIG_FLAGS);
                let age = message.message_age;
                let fresh = age < message.max_age;
                Error::check_field(fresh, PROTOCOL, "message age", age.0.into(), "less than max age")?;
                Ok(Bpdu::Config(message))
            }
            KIND_RST => {
                Error::check_len(PROTOCOL, RST_LEN, bytes.len())?;
                let version = view.version();
                Error::check_field(version >= 2, PROTOCOL, "version", version.into(), "2 or more")?;
                Ok(Bpdu::Rst(Message::read(bytes)))
            }
            other => Err(Error::Field {
                protocol: PROTOCOL,
                field: "type",
                value: other.into(),
                expected: "0, 2 or 128",
            }),
        }
    }

    /// Bytes of the BPDU.
    pub const fn len(&self) -> usize {
        match self {
            Bpdu::Config(_) => CONFIG_LEN,
            Bpdu::Tcn => TCN_LEN,
            Bpdu::Rst(_) => RST_LEN,
        }
    }

    /// No BPDU is empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the BPDU to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        Error::check_len(PROTOCOL, self.len(), buffer.len())?;
        let (version, kind) = match self {
            Bpdu::Config(_) => (0, KIND_CONFIG),
            Bpdu::Tcn => (0, KIND_TCN),
            Bpdu::Rst(_) => (2, KIND_RST),
        };
        HeaderMut::from_slice(buffer)?.set_protocol_id(0).set_version(version).set_kind(kind);
        match self {
            Bpdu::Config(message) => message.write(buffer, message.flags.bits() & CONFIG_FLAGS),
            Bpdu::Tcn => {}
            Bpdu::Rst(message) => {
                message.write(buffer, message.flags.bits());
                store_at(buffer, field::VERSION_1_LEN, 0u8);
            }
        }
        Ok(())
    }

    /// The whole frame: addresses, length, LLC header, BPDU, padding.
    pub fn emit_frame(&self, src: MacAddr) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        let ethertype = EtherType((LLC_LEN + self.len()) as u16);
        let header = ethernet::Repr { dst: GROUP, src, ethertype };
        let (link, payload) = frame.split_at_mut(ethernet::HEADER_LEN);
        let (llc, bpdu) = payload.split_at_mut(LLC_LEN);
        llc.copy_from_slice(&[SAP_STP, SAP_STP, CONTROL_UI]);
        let written = header.emit(link).and_then(|()| self.emit(bpdu));
        debug_assert!(written.is_ok(), "every BPDU fits the least frame");
        frame
    }
}

/// The BPDU's bytes in an Ethernet frame, by the frame's length field and without padding.
///
/// # Errors
/// [`Error::Truncated`]; [`Error::Field`] where the frame has a type instead of a length, or its LLC header is of
/// another protocol.
pub fn payload_of_frame(frame: &[u8]) -> Result<&[u8], Error> {
    let view = ethernet::View::new_checked(frame)?;
    let length = view.ethertype();
    Error::check_field(length.is_length(), PROTOCOL, "length", length.0.into(), "1500 or less")?;
    let length = usize::from(length.0);
    let payload = range(frame, ethernet::HEADER_LEN, ethernet::HEADER_LEN + length);
    Error::check_len(PROTOCOL, length.max(LLC_LEN), payload.len())?;
    let [dsap, ssap, control] = load_at::<[u8; LLC_LEN]>(payload, 0);
    for (name, value) in [("destination service access point", dsap), ("source service access point", ssap)] {
        Error::check_field(value == SAP_STP, PROTOCOL, name, value.into(), "66 (0x42)")?;
    }
    Error::check_field(control == CONTROL_UI, PROTOCOL, "control field", control.into(), "3")?;
    Ok(range(payload, LLC_LEN, usize::MAX))
}

impl fmt::Display for Bpdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, message) = match self {
            Bpdu::Tcn => return f.write_str("stp topology change notification"),
            Bpdu::Config(message) => ("stp config", message),
            Bpdu::Rst(message) => ("rstp", message),
        };
        let Message { flags, root, root_path_cost, bridge, port, .. } = message;
        write!(f, "{name}, root {root}, cost {root_path_cost}, bridge {bridge}.{port:04x}")?;
        if matches!(self, Bpdu::Rst(_)) {
            let role = match flags.role {
                Role::Unknown => "unknown",
                Role::AlternateOrBackup => "alternate",
                Role::Root => "root",
                Role::Designated => "designated",
            };
            write!(f, ", role {role}")?;
        }
        let named = [
            (flags.topology_change, "topology change"),
            (flags.proposal, "proposal"),
            (flags.learning, "learning"),
            (flags.forwarding, "forwarding"),
            (flags.agreement, "agreement"),
            (flags.topology_change_ack, "topology change ack"),
        ];
        named.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Bpdu::parse(self) {
            Ok(bpdu) => bpdu.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(bits: u8, id: u64, numbers: (u32, u16), times: [u16; 4]) -> Message {
        let bridge = |id: u64| BridgeId {
            priority: (id >> 48) as u16,
            address: MacAddr::from_u64(id & 0xffff_ffff_ffff),
        };
        let [message_age, max_age, hello_time, forward_delay] = times.map(Ticks);
        Message {
            flags: Flags::from_bits(bits),
            root: bridge(id),
            root_path_cost: numbers.0,
            bridge: bridge(!id),
            port: numbers.1,
            message_age,
            max_age,
            hello_time,
            forward_delay,
        }
    }

    fn parse(bytes: &[u8]) -> Result<Bpdu, Error> {
        Bpdu::parse(&View::new_checked(bytes)?)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let message = message(0x3c, 0x8000_0200_0000_0001, (4, 0x8001), [256, 5120, 512, 3840]);
            for bpdu in [Bpdu::Rst(message), Bpdu::Config(message)] {
                let mut frame = bpdu.emit_frame(MacAddr::new(2, 0, 0, 0, 0, 1)).to_vec();
                change(&mut frame);
                let error = payload_of_frame(&frame).and_then(parse).map_err(|e| e.to_string());
                if error.is_err() || expected.is_empty() {
                    return assert_eq!(error.err().unwrap_or_default(), expected);
                }
            }
            panic!("{expected}: accepted");
        };
        check(&|_| {}, "");
        check(&|f| f.truncate(13), "Ethernet: truncated, 14 bytes needed but only 13 present");
        check(&|f| f.truncate(50), "STP: truncated, 39 bytes needed but only 36 present");
        check(&|f| f[12] = 8, "STP: length is 2087, expected 1500 or less");
        check(&|f| f[13] = 2, "STP: truncated, 3 bytes needed but only 2 present");
        check(&|f| f[13] = 6, "STP: truncated, 4 bytes needed but only 3 present");
        check(&|f| f[13] = 38, "STP: truncated, 36 bytes needed but only 35 present");
        check(&|f| f[14] = 0xaa, "STP: destination service access point is 170, expected 66 (0x42)");
        check(&|f| f[15] = 0xaa, "STP: source service access point is 170, expected 66 (0x42)");
        check(&|f| f[16] = 4, "STP: control field is 4, expected 3");
        check(&|f| f[18] = 1, "STP: protocol identifier is 1, expected 0");
        check(&|f| f[19] = 1, "STP: version is 1, expected 2 or more");
        check(&|f| f[20] = 3, "STP: type is 3, expected 0, 2 or 128");
        check(&|f| f[44] = 20, "STP: message age is 5120, expected less than max age");
    }

    #[test]
    fn one_line() {
        let message = message(0x7f, 0x8000_0200_0000_0001, (4, 0x8001), [0, 5120, 512, 3840]);
        assert_eq!(
            Bpdu::Rst(message).to_string(),
            "rstp, root 8000.02:00:00:00:00:01, cost 4, bridge 7fff.fd:ff:ff:ff:ff:fe.8001, role designated, \
             topology change, proposal, learning, forwarding, agreement"
        );
        assert_eq!(Bpdu::Tcn.to_string(), "stp topology change notification");
    }

    #[test]
    fn times_are_rounded() {
        let check = |ticks, seconds| assert_eq!(Ticks(ticks).round_secs(), seconds);
        check(127, 0);
        check(128, 1);
        check(512, 2);
        check(0xffff, 256);
        assert_eq!(Ticks::from_secs(20), Ticks(5120));
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(bits: u8, id: u64, numbers: (u32, u16), times: [u16; 4], src: [u8; 6]) {
            let rst = message(bits, id, numbers, times);
            let config = Message { flags: Flags::from_bits(bits & CONFIG_FLAGS), ..rst };
            for bpdu in [Bpdu::Rst(rst), Bpdu::Config(config), Bpdu::Tcn] {
                let frame = bpdu.emit_frame(src.into());
                let payload = payload_of_frame(&frame).unwrap();
                prop_assert_eq!(payload.len(), bpdu.len());
                match parse(payload) {
                    Ok(parsed) => prop_assert_eq!(parsed, bpdu),
                    Err(_) => prop_assert!(times[0] >= times[1] && matches!(bpdu, Bpdu::Config(_))),
                }
            }
        }
    }
}
