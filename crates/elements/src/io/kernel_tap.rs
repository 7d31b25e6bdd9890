// SPDX-License-Identifier: MIT OR Apache-2.0
//! # KernelTap, KernelTun, FromHost, ToHost
//!
//! `KernelTap(ADDR/MASK [, GATEWAY, keywords DEVNAME, ETHER, MTU, TWIN, NETNS, VRF, HEADROOM, BURST,
//! TIMESTAMP, ACTIVE])`
//! `KernelTun(ADDR/MASK [, GATEWAY, keywords ...])`
//! `FromHost(DEVNAME [, ADDR/MASK, GATEWAY, keywords ..., TYPE])`
//! `ToHost([DEVNAME, keywords ..., TYPE])`
//!
//! Exchanges packets with this host's own network stack through an interface made for the purpose.
//!
//! KernelTap's packets are Ethernet frames, KernelTun's are IP packets. FromHost and ToHost are the two directions of one
//! interface as separate elements: those with one DEVNAME share it.
//!
//! **Ports:** KernelTap and KernelTun: up to 1 input, agnostic, for packets to the kernel; 1 output for packets from the
//! kernel, and with KernelTun a second one, optional, for what is not IP. FromHost: 1 or 2 outputs alike. ToHost: 1
//! input.
//!
//! **Arguments**
//! * `ADDR/MASK` the kernel's address on the interface, and its network: the kernel keeps packets for ADDR and hands
//!   us those for the rest. It may also be the keyword `ADDR`, several times.
//! * `GATEWAY` is not set by us: the element says which command sets a default route.
//! * `DEVNAME` the interface; default a free one, `tap0` or `tun0` for instance.
//! * `ETHER` Ethernet address of a tap, default 00:01:02:03:04:05.
//! * `MTU` bytes, default 1500.
//! * `TWIN` a network interface whose Ethernet address and MTU the tap takes on, and whose carrier it follows, and whose MTU without the keyword
//!   MTU: with them the kernel answers
//!   on the tap for what arrives at that interface. Frames for macvlans that the kernel has over the tap, as virtual routers have them
//!   (VRRP), are accepted at the interface, too; with `net.ipv4.conf.all.arp_ignore=1` and `arp_announce=2` only they speak
//!   ARP for their addresses.
//! * `VIRTUAL`, `VIRTUAL6` of FromHost: `TABLE OUTPUT`, the StaticIPLookup and the StaticIP6Lookup in which addresses of those macvlans lead
//!   to the output that leads here. `NETWORKS`, `NETWORKS6` of FromHost with TWIN: the same with the output that leads to the interface's networks.
//!   With them, the tables' routes for addresses of the tap itself, and for their networks, follow the kernel: a DHCP client or a user may
//!   change addresses. Those of ADDR are expected to be in the tables.
//! * `NETNS` the network namespace to make the interface in, by its name or by a path such as /proc/7/ns/net; default
//!   our own.
//! * `VRF` of taps: `NAME TABLE`, the VRF that the interface belongs to in the kernel, and its routing table. It is made if there is none. Where the
//!   kernel has no VRFs, a rule does instead: what comes by the interface is looked up in TABLE.
//! * `HEADROOM` bytes of free room before each packet, default the packets' usual 128.
//! * `BURST` packets at a time, default the router's burst.
//! * `TYPE` of FromHost and ToHost: `TAP` (default) or `TUN`.
//! * `TIMESTAMP` boolean, default true. `ACTIVE` boolean, default true.
//! * `IGNORE_QUEUE_OVERFLOWS` is taken and does nothing: overflows are counted as drops.
//!
//! It takes the right to administer the network (CAP_NET_ADMIN).
//!
//! **Cores:** one worker owns the interface; others that send wait for their turn.
//!
//! **Metadata set:** timestamp, packet type, link header (taps); network header and destination address (tuns).
//!
//! **Drops:** `device-full`, `device-down`, `device-error` as ToDevice; `bad-protocol` for what is not IP when output 1
//! is not connected.
//!
//! **Handlers**
//! * those of FromDevice; `sent`, `sent_bytes` read: packets and bytes sent to the kernel.
//!
//! ```click
//! // What the kernel sends to 10.1.0.0/24 is thrown away.
//! tap :: KernelTap(10.1.0.1/24, ACTIVE false) -> Discard;
//! ```
//!
//! See also: FromDevice, ToDevice, MemoryPort

use element::args::Args;
use element::{Class, DeviceArg};
use packet::port::{Spec, method};
use wire::MacAddr;

use super::duplex::{HANDLERS, duplex};

const fn class(
    name: &'static str,
    ports: &'static str,
    device: DeviceArg,
    make: fn() -> Box<dyn element::Element>,
) -> Class {
    Class::new(name, ports, make)
        .processing("a/h")
        .flow("x/y")
        .serial("one device, which one worker reads and writes")
        .device(device)
        .handlers(HANDLERS)
        .file(file!())
}

/// The descriptor.
pub const KERNEL_TAP: Class =
    KernelTap::with_capabilities(class("KernelTap", "0-1/0-1", DeviceArg::Keyword("DEVNAME"), || {
        Box::new(KernelTap::default())
    }));
/// The descriptor.
pub const KERNEL_TUN: Class =
    KernelTun::with_capabilities(class("KernelTun", "0-1/0-2", DeviceArg::Keyword("DEVNAME"), || {
        Box::new(KernelTun::default())
    }));
/// The descriptor.
pub const FROM_HOST: Class =
    FromHost::with_capabilities(class("FromHost", "0/1-2", DeviceArg::First("DEVNAME"), || {
        Box::new(FromHost::default())
    }));
/// The descriptor.
pub const TO_HOST: Class =
    ToHost::with_capabilities(class("ToHost", "1/0", DeviceArg::First("DEVNAME"), || {
        Box::new(ToHost::default())
    }));

/// The Ethernet address of a tap, unless configured.
const ETHER: &str = "00:01:02:03:04:05";

duplex!(KernelTap, |this, args| {
    let addresses = address(args, true);
    let device = args.keyword_opt::<String>("DEVNAME").unwrap_or_default();
    let spec = spec(args, device, method::TAP, addresses);
    this.configure(args, spec, false);
});

duplex!(KernelTun, |this, args| {
    let addresses = address(args, true);
    let device = args.keyword_opt::<String>("DEVNAME").unwrap_or_default();
    let spec = spec(args, device, method::TUN, addresses);
    this.configure(args, spec, true);
});

duplex!(FromHost, |this, args| {
    let device = args.required("DEVNAME");
    let addresses = address(args, false);
    let method = kind(args);
    let spec = spec(args, device, method, addresses);
    this.configure(args, spec, method == method::TUN);
});

duplex!(ToHost, |this, args| {
    let device = args.positional("DEVNAME", String::new());
    let method = kind(args);
    let spec = spec(args, device, method, Vec::new());
    this.configure(args, spec, false);
});

fn kind(args: &mut Args<'_>) -> &'static str {
    match args.keyword("TYPE", "TAP".to_owned()).to_ascii_uppercase().as_str() {
        "TAP" => method::TAP,
        "TUN" => method::TUN,
        other => {
            args.error(format!("TYPE should be TAP or TUN, not '{other}'"));
            method::TAP
        }
    }
}

/// The addresses that the kernel gets, as the driver's settings.
fn address(args: &mut Args<'_>, needed: bool) -> Vec<(String, String)> {
    let mut found: Vec<String> = args.keyword_all("ADDR");
    if found.is_empty() {
        match args.positional_opt::<String>("ADDR") {
            Some(address) => found.push(address),
            None if needed && args.errors().is_empty() => {
                args.missing("ADDR/MASK", "the kernel's address and its network, 10.0.0.1/24");
            }
            None => {}
        }
    }
    for text in &mut found {
        let good = |a: &str| a.split('/').next().unwrap_or(a).parse::<std::net::IpAddr>().is_ok();
        if good(text) {
            continue;
        }
        match args.names.get(text).iter().find(|word| good(word)) {
            Some(word) => text.clone_from(word),
            None => {
                args.error(format!("ADDR should be an address and its network (10.0.0.1/24), not '{text}'"));
            }
        }
    }
    if let Some(gateway) = args.positional_opt::<String>("GATEWAY")
        && gateway != "0.0.0.0"
    {
        args.warning(format!("GATEWAY is not set; 'ip route add default via {gateway}' does"));
    }
    found.into_iter().map(|a| ("ADDR".to_owned(), a)).collect()
}

fn spec(args: &mut Args<'_>, device: String, method: &str, mut settings: Vec<(String, String)>) -> Spec {
    let ether: Option<MacAddr> = args.keyword_opt("ETHER");
    let twin = args.keyword_opt::<String>("TWIN");
    if method == method::TAP && (ether.is_some() || !settings.is_empty() && twin.is_none()) {
        let ether = ether.map_or(ETHER.to_owned(), |mac| mac.to_string());
        settings.push(("ETHER".to_owned(), ether));
    }
    if let Some(mtu) = args.keyword_opt::<u16>("MTU") {
        settings.push(("MTU".to_owned(), mtu.to_string()));
    }
    settings.extend(twin.map(|device| ("TWIN".to_owned(), device)));
    settings.extend(args.keyword_opt::<String>("NETNS").map(|name| ("NETNS".to_owned(), name)));
    if let Some(text) = args.keyword_opt::<String>("VRF") {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [name, table] if table.parse::<u32>().is_ok() => {
                settings.push(("VRF".to_owned(), format!("{name} {table}")));
            }
            _ => args
                .error(format!("VRF should be a name and the number of a table, as red 1001, not '{text}'")),
        }
    }
    let _: bool = args.keyword("IGNORE_QUEUE_OVERFLOWS", false);
    let headroom = args.keyword("HEADROOM", 0);
    Spec { device, method: Some(method.to_owned()), settings, headroom, ..Spec::default() }
}

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::PacketType;

    use crate::io::testing::Fake;
    use crate::testing::Rig;

    #[test]
    fn exchanges_packets_both_ways() {
        let frame: &[u8] = &[0xff; 60];
        for input in ["", "Queue -> "] {
            let fake = Fake::new("tap7", &[&[frame, frame]]);
            let text =
                format!("i :: TestIn -> {input} e :: KernelTap(10.0.0.1/24, DEVNAME tap7) -> o :: TestOut;");
            let mut run = Rig::text(&text).provider(fake.clone()).inputs(&[b"to", b"kernel"]).run();
            assert_eq!(fake.sent(0), [&b"to"[..], b"kernel"]);
            let got: Vec<_> = run.out("o").iter().map(|p| p.packet_type()).collect();
            assert_eq!(got, [PacketType::Broadcast; 2]);
            let read = |run: &mut crate::testing::Run, h: &str| run.read(&format!("e.{h}"));
            assert_eq!((read(&mut run, "count"), read(&mut run, "sent")), ("2".into(), "2".into()));
            let spec = fake.spec();
            assert_eq!(spec.method.as_deref(), Some("TAP"));
            let settings = [("ADDR", "10.0.0.1/24"), ("ETHER", "00:01:02:03:04:05")];
            assert_eq!(spec.settings, settings.map(|(k, v)| (k.to_owned(), v.to_owned())));
        }
    }

    #[test]
    fn tuns_pass_ip_and_others_leave_by_output_1() {
        let mut ip = [0u8; 20];
        (ip[0], ip[3], ip[19]) = (0x45, 20, 7);
        let fake = || {
            let fake = Fake::new("tun0", &[&[&ip, b"junk"]]);
            fake.set_link_type(101);
            fake
        };
        let text = "e :: KernelTun(10.0.0.1/24, DEVNAME tun0) -> o :: TestOut; e[1] -> bad :: TestOut;";
        let run = Rig::text(text).provider(fake()).run();
        assert_eq!(run.out("o")[0].dst_ip(), [0, 0, 0, 7]);
        assert_eq!(run.bytes("bad"), [b"junk"]);
        let text = "e :: FromHost(tun0, TYPE TUN) -> o :: TestOut;";
        let run = Rig::text(text).provider(fake()).run();
        assert_eq!((run.out("o").len(), run.drops("e")), (1, vec![(Reason::BadProtocol, 1)]));
    }

    #[test]
    fn both_halves_of_a_host_interface() {
        let fake = Fake::new("host0", &[&[b"in"]]);
        let text = "e :: FromHost(host0, 10.0.0.1/24) -> o :: TestOut; i :: TestIn -> ToHost(host0);";
        let run = Rig::text(text).provider(fake.clone()).inputs(&[b"out"]).run();
        assert_eq!((run.bytes("o"), fake.sent(0)), (vec![b"in".to_vec()], vec![b"out".to_vec()]));
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |text: &str| Rig::text(text).errors();
        assert_eq!(
            error("e :: KernelTap -> Discard;"),
            ["e: missing argument ADDR/MASK: the kernel's address and its network, 10.0.0.1/24"]
        );
        assert_eq!(
            error("e :: KernelTap(tap0) -> Discard;"),
            ["e: ADDR should be an address and its network (10.0.0.1/24), not 'tap0'"]
        );
        assert_eq!(
            error("e :: FromHost(x, TYPE SLIP) -> Discard;"),
            ["e: TYPE should be TAP or TUN, not 'SLIP'"]
        );
    }
}
