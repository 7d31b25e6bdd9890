// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RawSocket
//!
//! `RawSocket(TYPE [, PORT, keywords SNAPLEN, HEADROOM, BURST, TIMESTAMP, ACTIVE])`
//!
//! Exchanges IPv4 packets of one protocol with the world by way of this host's network stack. Packets that arrive for this host leave by the output,
//! as copies. What comes in is sent to its destination, with the IP header that it has.
//!
//! **Ports:** up to 1 input, agnostic, for packets to send; up to 1 push output for packets received. Packets do not
//! flow from one to the other.
//!
//! **Arguments**
//! * `TYPE` the IP protocol, by number or name: `TCP`, `UDP`, `ICMP`, `GRE`, ....
//! * `PORT` default all packets: only packets with this destination port (UDP, TCP and the like), identifier (ICMP), or
//!   key or PPTP call (GRE) are received. A port of UDP or TCP is reserved: no other program can have it, and the host
//!   does not answer that UDP port to be unreachable.
//! * `SNAPLEN` bytes of each packet to receive at most, 20 to 65535, default 2048.
//! * `HEADROOM` bytes of free room before each packet, up to 8192, default the packets' usual 128.
//! * `BURST` packets at a time, default the router's burst.
//! * `TIMESTAMP` boolean, default true: packets carry the time of reception. `ACTIVE` boolean, default true.
//!
//! Received packets are whole: the host has put fragments together. On what is sent, the host sets length and checksum
//! of the IP header, and source address and identification where they are zero. It takes the right to open raw
//! sockets (CAP_NET_RAW).
//!
//! **Cores:** one worker owns the socket; others that send wait for their turn.
//!
//! **Metadata set:** timestamp, network header position, destination annotation, extra length.
//!
//! **Drops:** `device-error`, packets to send that are shorter than an IP header, or that the host refuses: longer than the MTU, or no route.
//! `device-full`, pushed packets while the host's queue is full; `bad-protocol`, received packets without a sound IP header.
//!
//! **Handlers**
//! * `count`, `byte_count`, `kernel_drops`, `no_memory` read, `reset_counts` write, `active` read/write: as for FromDevice.
//! * `sent`, `sent_bytes` read: packets and bytes sent.
//!
//! ```click
//! // Packets for UDP port 5353 that this host gets are counted; none are sent.
//! RawSocket(UDP, 5353, ACTIVE false) -> Counter -> Discard;
//! ```
//!
//! See also: Socket, KernelTun, FromDevice; raw(7)

use element::Class;
use element::args::{FromArg, Names, Port};
use packet::port::{Spec, method};
use wire::Protocol;

use super::duplex::{HANDLERS, duplex};

/// The descriptor.
pub const CLASS: Class = RawSocket::with_capabilities(
    Class::new("RawSocket", "0-1/0-1", || Box::new(RawSocket::default()))
        .processing("a/h")
        .flow("x/y")
        .serial("one device, which one worker reads and writes")
        .handlers(HANDLERS)
        .file(file!()),
);

/// Bytes of a packet received unless asked otherwise.
const SNAPLEN: usize = 2048;

/// An IP protocol by number or name.
#[derive(Clone, Copy, Default)]
struct Type(Protocol);

impl FromArg for Type {
    const EXPECTED: &'static str = "an IP protocol, by number or a name such as UDP";

    fn from_arg(text: &str, names: &Names) -> Result<Type, String> {
        if let Some(protocol) = Protocol::from_name(&text.to_ascii_lowercase()) {
            return Ok(Type(protocol));
        }
        u8::from_arg(text, names).map(|number| Type(Protocol(number)))
    }
}

duplex!(RawSocket, |this, args| {
    let Type(protocol) = args.required("TYPE");
    let Port(port) = args.positional("PORT", Port(0));
    let snaplen = args.keyword("SNAPLEN", SNAPLEN);
    if !(20..=65535).contains(&snaplen) {
        args.error(format!("SNAPLEN must lie between 20 and 65535, not {snaplen}"));
    }
    let headroom = args.keyword("HEADROOM", 0);
    if headroom > 8192 {
        args.error(format!("HEADROOM must be at most 8192 bytes, not {headroom}"));
    }
    let setting = |key: &str, value: u16| (key.to_owned(), value.to_string());
    let spec = Spec {
        // Both directions of one element share a socket, two elements do not.
        device: format!("raw/{}", args.name),
        method: Some(method::RAW_IP.to_owned()),
        snaplen,
        headroom,
        settings: vec![setting("PROTOCOL", protocol.0.into()), setting("PORT", port)],
        ..Spec::default()
    };
    this.configure(args, spec, true);
});

#[cfg(test)]
mod tests {
    use element::Reason;

    use crate::io::testing::Fake;
    use crate::testing::Rig;

    /// An IP header for 5.6.7.8.
    fn ip() -> [u8; 20] {
        [0x45, 0, 0, 20, 0, 0, 0, 0, 9, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    }

    fn fake(packets: &[&[u8]]) -> std::sync::Arc<Fake> {
        let fake = Fake::new("raw/e", &[packets]);
        fake.set_link_type(228);
        fake
    }

    #[test]
    fn exchanges_packets_both_ways() {
        for input in ["", "Queue -> "] {
            let fake = fake(&[&ip(), b"junk"]);
            let text = format!("i :: TestIn -> {input} e :: RawSocket(UDP, domain) -> o :: TestOut;");
            let mut run = Rig::text(&text).provider(fake.clone()).inputs(&[b"to", b"send"]).run();
            assert_eq!(fake.sent(0), [&b"to"[..], b"send"]);
            let out = run.out("o");
            assert_eq!((out.len(), out[0].network_offset(), out[0].dst_ip()), (1, Some(0), [5, 6, 7, 8]));
            assert_eq!(run.drops("e"), [(Reason::BadProtocol, 1)]);
            assert_eq!((run.read("e.count"), run.read("e.sent")), ("2".into(), "2".into()));
            let spec = fake.spec();
            let settings = [("PROTOCOL", "17"), ("PORT", "53")];
            assert_eq!(spec.settings, settings.map(|(k, v)| (k.to_owned(), v.to_owned())));
            assert_eq!((spec.method.as_deref(), spec.snaplen), (Some("RAW_IP"), 2048));
        }
    }

    #[test]
    fn one_direction_is_enough() {
        let device = fake(&[&ip()]);
        let run = Rig::text("e :: RawSocket(89) -> o :: TestOut;").provider(device.clone()).run();
        assert_eq!((run.out("o").len(), device.spec().settings[0].1.as_str()), (1, "89"));
        let device = fake(&[]);
        let run =
            Rig::text("i :: TestIn -> e :: RawSocket(GRE, 7);").provider(device.clone()).inputs(&[&ip()]);
        drop(run.run());
        assert_eq!(device.sent(0), [ip()]);
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |args: &str| Rig::text(&format!("e :: RawSocket({args}) -> Discard;")).errors();
        assert_eq!(error(""), ["e: missing argument TYPE: an IP protocol, by number or a name such as UDP"]);
        assert_eq!(
            error("CARRIER-PIGEON"),
            [
                "e: argument TYPE should be an IP protocol, by number or a name such as UDP, not 'CARRIER-PIGEON'"
            ]
        );
        assert_eq!(error("UDP, 70000").len(), 1);
        assert_eq!(
            error("UDP, SNAPLEN 19, HEADROOM 9000"),
            [
                "e: SNAPLEN must lie between 20 and 65535, not 19",
                "e: HEADROOM must be at most 8192 bytes, not 9000"
            ]
        );
    }
}
