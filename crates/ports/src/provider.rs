// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening devices by name: which driver, and why.
//!
//! | `METHOD` | device name | settings |
//! |---|---|---|
//! | none | a network interface | the best driver that works |
//! | `AF_XDP`, `AF_XDP_GENERIC` | a network interface | `ZEROCOPY true/false`, `RING entries`, `BUSY_POLL microseconds` |
//! | `AF_PACKET`, `LINUX`, `PCAP` | a network interface | `QDISC true` sends through the queueing discipline |
//! | `TAP`, `TUN` | the interface to make | `ADDR a.b.c.d/n` (may be repeated), `ETHER mac`, `MTU bytes`, `TWIN interface`, `NETNS name`, `VRF name table` |
//! | `RAW_IP` | any name, shared by those that give it | `PROTOCOL number`; `PORT number` |
//! | `MEMORY` | a wire `NAME`, or its end `NAME/END` | |
//! | `PLANE` | an endpoint of the domain | `SENDS true` for the sending direction |
//! | `FILE` | a path, or `-` | `WRITE true`; then `NANO true`, `FORMAT pcapng`, `LINKTYPE number` |

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use packet::filter::Filter;
use packet::port::{Device, Error, Provider, Spec, link_type, method};

use crate::af_packet::PacketDevice;
use crate::af_xdp::XdpDevice;
use crate::aliases::Aliases;
use crate::keeper::Keeper;
use crate::memory::{MemoryPort, Wire};
use crate::opener;
use crate::pcap::{FileReader, FileWriter, Format};
use crate::plane::{self, Planes};
use crate::raw_ip::{RawIp, RawIpSpec};
use crate::settings::{flag, number, setting};
use crate::tap::{Tap, TapKind, TapSpec};
use crate::vrf::Vrf;

/// Opens the devices of this machine. Devices that are in use are opened once and shared by name.
#[derive(Default)]
pub struct SystemProvider {
    open: Mutex<HashMap<String, Open>>,
    /// Of interfaces that are open or have a twin, their further addresses.
    aliases: Mutex<HashMap<String, Arc<Aliases>>>,
    /// Who holds descriptors for a process that takes this one's place.
    keeper: Option<Arc<dyn Keeper>>,
    /// The domain with channels to other planes.
    planes: Option<Arc<Planes>>,
    /// The group of processes that share the interfaces: each receives some of the flows.
    group: Option<String>,
}

/// A device that somebody may still use.
struct Open {
    method: Option<Method>,
    device: Weak<dyn Device>,
    /// The same device, where later elements may add wishes.
    amend: Amend,
}

/// How later elements add their wishes to a device.
enum Amend {
    Nothing,
    Packet(Weak<PacketDevice>),
    Xdp(Weak<XdpDevice>),
    Tap(Weak<Tap>),
}

impl Amend {
    fn amend(&self, spec: &Spec) -> Result<(), Error> {
        match self {
            Amend::Nothing | Amend::Tap(_) => Ok(()),
            Amend::Packet(device) => device.upgrade().map_or(Ok(()), |d| d.amend(spec)),
            Amend::Xdp(device) => device.upgrade().map_or(Ok(()), |d| d.amend(spec)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Xdp,
    XdpGeneric,
    Packet,
    Tap,
    Tun,
    RawIp,
    Memory,
    Plane,
    File,
}

const METHODS: [(&str, Method); 11] = [
    (method::AF_XDP, Method::Xdp),
    (method::AF_XDP_GENERIC, Method::XdpGeneric),
    (method::AF_PACKET, Method::Packet),
    ("LINUX", Method::Packet),
    ("PCAP", Method::Packet),
    (method::TAP, Method::Tap),
    (method::TUN, Method::Tun),
    (method::RAW_IP, Method::RawIp),
    (method::MEMORY, Method::Memory),
    (method::PLANE, Method::Plane),
    (method::FILE, Method::File),
];

impl Method {
    fn parse(spec: &Spec) -> Result<Option<Method>, Error> {
        let Some(name) = &spec.method else { return Ok(None) };
        match METHODS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, method)) => Ok(Some(*method)),
            None => {
                let known: Vec<&str> = METHODS.iter().map(|(known, _)| *known).collect();
                let mend = format!("METHOD is one of {}", known.join(", "));
                Err(Error::new(&spec.device, format!("METHOD {name} is not known"), mend))
            }
        }
    }
}

impl SystemProvider {
    /// A provider that has nothing open yet.
    pub fn new() -> SystemProvider {
        SystemProvider::default()
    }

    /// The same, whose taps and packet sockets a process that takes this one's place goes on with.
    #[must_use]
    pub fn kept_by(self, keeper: Arc<dyn Keeper>) -> SystemProvider {
        SystemProvider { keeper: Some(keeper), ..self }
    }

    /// This process ends: packets that arrive at interfaces from now on wait for the process that takes its place.
    pub fn hold(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for known in open.values() {
            match &known.amend {
                Amend::Packet(device) => device.upgrade().iter().for_each(|device| device.hold()),
                Amend::Xdp(device) => device.upgrade().iter().for_each(|device| device.hold()),
                Amend::Tap(tap) => tap.upgrade().iter().for_each(|tap| tap.hold()),
                Amend::Nothing => {}
            }
        }
    }

    /// The same, with channels to the planes of a domain.
    #[must_use]
    pub fn in_domain(self, planes: Arc<Planes>) -> SystemProvider {
        SystemProvider { planes: Some(planes), ..self }
    }

    /// The same, for one of several processes that receive the flows of the same interfaces. What cannot be split is not opened.
    #[must_use]
    pub fn shared_by(self, group: &str) -> SystemProvider {
        SystemProvider { group: Some(group.to_owned()), ..self }
    }

    /// Whether a device can be had by one of several processes.
    fn can_be_shared(&self, spec: &Spec, method: Option<Method>) -> Result<(), Error> {
        let wrong = match method {
            _ if self.group.is_none() => return Ok(()),
            None | Some(Method::Packet | Method::Memory) => return Ok(()),
            Some(Method::Xdp | Method::XdpGeneric) => "AF_XDP cannot split its flows among several routers",
            Some(_) => "its packets cannot be split among several routers",
        };
        let mend = "use an interface with METHOD AF_PACKET, or one router (`instances` in the deployment)";
        Err(Error::new(&spec.device, wrong, mend))
    }

    fn aliases(&self, interface: &str) -> Arc<Aliases> {
        let mut aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        aliases.entry(interface.to_owned()).or_default().clone()
    }

    fn share(&self, spec: &Spec, method: Option<Method>) -> Result<Option<Arc<dyn Device>>, Error> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = open.get(&spec.device) else { return Ok(None) };
        let Some(device) = known.device.upgrade() else { return Ok(None) };
        if method.is_some() && method != known.method {
            let what = format!("already open by another driver ({})", device.info().driver);
            let mend = "give the same METHOD to all elements of one device";
            return Err(Error::new(&spec.device, what, mend));
        }
        known.amend.amend(spec)?;
        Ok(Some(device))
    }

    fn remember(&self, spec: &Spec, method: Option<Method>, device: &Arc<dyn Device>, amend: Amend) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, known| known.device.strong_count() > 0);
        open.insert(spec.device.clone(), Open { method, device: Arc::downgrade(device), amend });
    }

    /// Opens a network interface by the driver asked for, or by the best that works: AF_XDP in the driver's own hook,
    /// else a packet socket. The kernel's generic XDP hook is slower than either, so it is taken only when asked for.
    /// Nor is the interface of the host's default route taken from the kernel unasked: users who are logged in over it
    /// would be cut off.
    fn open_interface(&self, spec: &Spec, method: Option<Method>) -> Result<Arc<dyn Device>, Error> {
        let mut why = if method.is_some() { "as METHOD says".to_owned() } else { String::new() };
        let spare = method.is_none() && spec.sniffer != Some(false) && carries_default_route(&spec.device);
        if method.is_none() && self.group.is_some() {
            why = "for several routers: the kernel splits the flows".to_owned();
        } else if method.is_none() && spec.filtered {
            why = "for BPF_FILTER: the kernel filters, and keeps the rest".to_owned();
        } else if spare {
            why = "no AF_XDP: the host's default route is here, and it would be cut; METHOD AF_XDP does it"
                .to_owned();
        } else if let None | Some(Method::Xdp | Method::XdpGeneric) = method {
            match XdpDevice::open(spec, method == Some(Method::XdpGeneric), &why, self.keeper.as_ref()) {
                Ok(device) => {
                    device.ask_for_aliases(self.aliases(&spec.device));
                    let amend = Amend::Xdp(Arc::downgrade(&device));
                    let device: Arc<dyn Device> = device;
                    self.remember(spec, method.or(Some(Method::Xdp)), &device, amend);
                    return Ok(device);
                }
                Err(e) if method.is_some() => return Err(e),
                Err(e) => why = format!("no AF_XDP: {}", e.what),
            }
        }
        let device = PacketDevice::open(spec, &why, self.group.as_deref(), self.keeper.as_ref())?;
        device.ask_for_aliases(self.aliases(&spec.device));
        let amend = Amend::Packet(Arc::downgrade(&device));
        let device: Arc<dyn Device> = device;
        self.remember(spec, Some(Method::Packet), &device, amend);
        Ok(device)
    }
}

impl SystemProvider {
    fn open_tap(&self, spec: &Spec, kind: TapKind) -> Result<Arc<Tap>, Error> {
        let tap = open_tap(spec, kind, self.keeper.as_ref())?;
        opener::note(|policy| policy.taps.extend([tap.name().to_owned()].into_iter().chain(vrf_of(spec))));
        if let Some(twin) = tap.twin() {
            tap.tell_aliases(self.aliases(twin));
        }
        Ok(tap)
    }
}

/// The VRF that a tap belongs to.
fn vrf_of(spec: &Spec) -> Option<String> {
    Some(setting(spec, "VRF")?.split_once(' ')?.0.to_owned())
}

impl Provider for SystemProvider {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let method = Method::parse(spec)?;
        self.can_be_shared(spec, method)?;
        match method {
            Some(Method::File) => return open_file(spec),
            // Endpoints may be called as interfaces are.
            Some(Method::Plane) => {
                let planes = self.planes.as_ref().ok_or_else(|| plane::no_domain(&spec.device))?;
                return Ok(planes.open(spec));
            }
            // Every mention of a bare wire is another end of it.
            Some(Method::Memory) if !spec.device.contains('/') => {
                return Ok(MemoryPort::new(&spec.device, &Wire::named(&spec.device))?);
            }
            _ => {}
        }
        if let Some(device) = self.share(spec, method)? {
            return Ok(device);
        }
        let mut amend = Amend::Nothing;
        let mut tap = |kind| {
            let tap = self.open_tap(spec, kind)?;
            amend = Amend::Tap(Arc::downgrade(&tap));
            Ok::<_, Error>(tap)
        };
        let device: Arc<dyn Device> = match method {
            None | Some(Method::Packet | Method::Xdp | Method::XdpGeneric) => {
                opener::note(|policy| policy.interfaces.push(spec.device.clone()));
                return self.open_interface(spec, method);
            }
            Some(Method::Tap) => tap(TapKind::Tap)?,
            Some(Method::Tun) => tap(TapKind::Tun)?,
            Some(Method::RawIp) => {
                opener::note(|policy| policy.raw = true);
                open_raw_ip(spec)?
            }
            Some(Method::Memory | Method::File | Method::Plane) => {
                let wire = spec.device.split_once('/').map_or(spec.device.as_str(), |(wire, _)| wire);
                MemoryPort::new(&spec.device, &Wire::named(wire))?
            }
        };
        self.remember(spec, method, &device, amend);
        Ok(device)
    }

    fn filter(&self, expression: &str, link: u32) -> Result<Filter, Error> {
        crate::expression::compile(expression, link)
    }
}

/// Whether a default route of the calling thread's namespace leads through the interface.
fn carries_default_route(name: &str) -> bool {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    // route: Iface Destination Gateway Flags RefCnt Use Metric Mask ...
    let v4 = read("route").lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [iface, "00000000", _, _, _, _, _, "00000000", ..] if iface == name)
    });
    // ipv6_route: destination, its length, source, its length, next hop, metric, references, use, flags, Iface.
    v4 || read("ipv6_route").lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1) == Some(&"00")
            && fields.first().is_some_and(|to| to.bytes().all(|b| b == b'0'))
            && fields.last() == Some(&name)
    })
}

fn open_file(spec: &Spec) -> Result<Arc<dyn Device>, Error> {
    if !flag(spec, "WRITE")?.unwrap_or(false) {
        return Ok(Arc::new(FileReader::open(&spec.device, spec.headroom)?));
    }
    let format = match (setting(spec, "FORMAT"), flag(spec, "NANO")?) {
        (Some(f), _) if f.eq_ignore_ascii_case("pcapng") => Format::PcapNg,
        (Some(f), _) if !f.eq_ignore_ascii_case("pcap") => {
            return Err(Error::new(&spec.device, format!("FORMAT {f} is not known"), "use pcap or pcapng"));
        }
        (_, Some(true)) => Format::PcapNano,
        _ => Format::Pcap,
    };
    let link = number(spec, "LINKTYPE")?.unwrap_or(link_type::ETHERNET);
    Ok(Arc::new(FileWriter::new(&spec.device, format, link, spec.snaplen)))
}

fn open_tap(spec: &Spec, kind: TapKind, keeper: Option<&Arc<dyn Keeper>>) -> Result<Arc<Tap>, Error> {
    let name = Some(spec.device.as_str()).filter(|name| !name.is_empty());
    let mut tap = TapSpec::new(name, kind);
    let bad = |key: &str, value: &str, form: &str| {
        Error::new(&spec.device, format!("{key} {value} cannot be read"), format!("write it as {form}"))
    };
    for (key, value) in &spec.settings {
        match key.to_ascii_uppercase().as_str() {
            "ADDR" => {
                let address =
                    parse_prefix(value).ok_or_else(|| bad(key, value, "address/prefix, 10.0.0.1/24"))?;
                tap.addresses.push(address);
            }
            "ETHER" | "MAC" => {
                tap.mac = Some(parse_mac(value).ok_or_else(|| bad(key, value, "00:01:02:03:04:05"))?);
            }
            "TWIN" => tap.twin = Some(value.clone()),
            "NETNS" => tap.netns = Some(value.clone()),
            "VRF" => {
                let read = value.split_once(' ').and_then(|(name, table)| Some((name, table.parse().ok()?)));
                let (name, table) = read.ok_or_else(|| bad(key, value, "red 1001"))?;
                tap.vrf = Some(Vrf { name: name.to_owned(), table });
            }
            "MTU" => tap.mtu = Some(value.parse().map_err(|_| bad(key, value, "a number of bytes"))?),
            _ => {}
        }
    }
    tap.queues = spec.queues.unwrap_or(1).max(1);
    if spec.headroom > 0 {
        tap.headroom = spec.headroom;
    }
    Tap::open(&tap, keeper)
}

fn open_raw_ip(spec: &Spec) -> Result<Arc<RawIp>, Error> {
    let protocol = number::<u8>(spec, "PROTOCOL")?.ok_or_else(|| {
        Error::new(
            &spec.device,
            "no PROTOCOL",
            "SETTING \"PROTOCOL number\" names the IP protocol, up to 255",
        )
    })?;
    let mut raw = RawIpSpec::new(wire::Protocol(protocol));
    raw.port = number::<u16>(spec, "PORT")?.filter(|port| *port > 0);
    if spec.snaplen > 0 {
        raw.snaplen = spec.snaplen;
    }
    if spec.headroom > 0 {
        raw.headroom = spec.headroom;
    }
    RawIp::open(&raw)
}

/// `address/prefix`, `address/mask`, or an address alone.
fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address.parse::<IpAddr>().ok()?, Some(prefix)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => most,
        Some(mask) if mask.contains('.') => {
            let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
            if mask.leading_ones() != mask.count_ones() {
                return None;
            }
            mask.leading_ones() as u8
        }
        Some(prefix) => prefix.parse().ok()?,
    };
    (prefix <= most).then_some((address, prefix))
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(device: &str, method: &str, settings: &[(&str, &str)]) -> Spec {
        Spec {
            device: device.to_owned(),
            method: Some(method.to_owned()).filter(|m| !m.is_empty()),
            settings: settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            ..Spec::default()
        }
    }

    #[test]
    fn errors_name_what_is_wrong_and_the_mend() {
        let provider = SystemProvider::new();
        let cases = [
            (
                spec("lo", "DPDK", &[]),
                "lo: METHOD DPDK is not known; METHOD is one of AF_XDP, AF_XDP_GENERIC, AF_PACKET",
            ),
            (spec("l0", "", &[]), "l0: no such network interface; did you mean \"lo\"?"),
            (spec("nonesuch.pcap", "FILE", &[]), "nonesuch.pcap: No such file"),
            (spec("t", "TAP", &[("ADDR", "10.0.0/8")]), "t: ADDR 10.0.0/8 cannot be read; write it as"),
            (spec("t", "TAP", &[("ETHER", "1:2")]), "t: ETHER 1:2 cannot be read"),
            (spec("r", "RAW_IP", &[("PROTOCOL", "256")]), "r: PROTOCOL 256 is not a number that fits"),
            (spec("x", "FILE", &[("WRITE", "maybe")]), "x: WRITE maybe is neither true nor false"),
            (spec("x", "FILE", &[("WRITE", "1"), ("FORMAT", "erf")]), "x: FORMAT erf is not known; use pcap"),
        ];
        for (spec, message) in cases {
            let got = provider.open(&spec).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(got.starts_with(message), "{spec:?}: {got}");
        }
    }

    #[test]
    fn prefixes_and_macs() {
        for (text, expected) in [
            ("10.0.0.1/24", Some(("10.0.0.1", 24))),
            ("10.0.0.1", Some(("10.0.0.1", 32))),
            ("10.0.0.1/255.255.0.0", Some(("10.0.0.1", 16))),
            ("fe80::1/64", Some(("fe80::1", 64))),
            ("10.0.0.1/33", None),
            ("10.0.0.1/255.0.255.0", None),
            ("ten", None),
        ] {
            assert_eq!(parse_prefix(text), expected.map(|(a, p)| (a.parse().unwrap(), p)), "{text}");
        }
        assert_eq!(parse_mac("00:1:a0-ff:2:3"), Some([0, 1, 0xa0, 0xff, 2, 3]));
        assert_eq!(parse_mac("00:01:02:03:04:05:06"), None);
    }

    #[test]
    fn memory_ends_are_shared_by_full_name_only() {
        crate::tests::alone(|| {
            let provider = SystemProvider::new();
            let open = |name: &str| provider.open(&spec(name, "memory", &[])).unwrap();
            let (a, again) = (open("test-wire/a"), open("test-wire/a"));
            assert!(Arc::ptr_eq(&a, &again));
            let (b, c) = (open("test-wire"), open("test-wire"));
            assert!(!Arc::ptr_eq(&b, &c));
            let mut rx = [b.rx(0).unwrap(), c.rx(0).unwrap()];
            a.tx(0).unwrap().transmit(&mut packet::Batch::of(packet::Packet::copy_of(b"hello").unwrap()));
            for rx in &mut rx {
                let mut batch = packet::Batch::new();
                assert_eq!(rx.receive(&mut batch, 8), 1);
            }
        });
    }
}
