// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the elements over devices share: arguments, the eye on the link, and what handlers tell.

use std::sync::Arc;

use element::args::{Args, Raw};
use element::clock::{Nanos, SECOND};
use element::{Cx, Element, Handler, HandlerError, OpenCx, handlers};
use packet::port::{Device, Error, Info, Link, Spec, link_type};
use packet::{Packet, PacketType};

/// Time between looks at the link.
const LOOK_EVERY: Nanos = SECOND / 10;
/// Busy runs between looks at the clock for the same purpose.
const LOOK_RUNS: u32 = 256;

/// An element over a device.
pub trait OverDevice {
    /// The device, once it is open, and what was seen of its link.
    fn over(&self) -> (Option<&Opened>, &Watch);

    /// Describes the open device, for handlers.
    ///
    /// # Errors
    /// It is not open.
    fn describe<T>(&self, what: impl Fn(&Opened, Info) -> T) -> Result<T, HandlerError> {
        let opened = self.over().0.ok_or_else(|| HandlerError::failed("the device is not open"))?;
        Ok(what(opened, opened.device.info()))
    }
}

/// Handlers that describe a device.
pub const fn reads<T: Element + OverDevice>() -> [Handler; 7] {
    *handlers! { T:
        read "driver" => |element| element.describe(|_, info| info.driver)?;
        read "mac" => |element| element.describe(|_, info| info.mac.map_or("-".to_owned(), |mac| format!("{:#}", wire::MacAddr(mac))))?;
        read "mtu" => |element| element.describe(|_, info| info.mtu)?;
        read "queues" => |element| element.describe(|opened, _| opened.queues.len())?;
        read "link" => |element| element.describe(|opened, _| state(opened.device.link()))?;
        read "link_changes" => |element| element.over().1.changes;
        read "encap" => |element| element.describe(|opened, _| encapsulation(opened.device.link_type()))?;
    }
}

/// Queues that may be asked for, as many as a tap can have.
const QUEUES_MAX: usize = 256;

/// Reads the arguments that say which device, and how it is driven.
pub fn arguments(args: &mut Args<'_>) -> Spec {
    let method: Option<String> = args.keyword_opt("METHOD").or(args.keyword_opt("CAPTURE"));
    // A word for the default, so that a variable can have it.
    let method = method.filter(|method| method != "auto");
    let settings = args.keyword_all::<Raw>("SETTING").into_iter().map(|Raw(text)| {
        let (key, value) = lang::config::shift_word(&text);
        (key.to_owned(), lang::config::unquote_string(value))
    });
    let queues = args.keyword_opt("N_QUEUES");
    Spec {
        method,
        settings: settings.collect(),
        queues: args.allow("N_QUEUES", queues, 1..=QUEUES_MAX),
        ..Spec::default()
    }
}

/// The open device of an element, shared by its instances.
#[derive(Clone)]
pub struct Opened {
    device: Arc<dyn Device>,
    /// Queues of the device that the element uses.
    pub queues: Vec<usize>,
}

impl Opened {
    /// Opens a device; `queue` is the only one to use, `count` how many there are of the kind wanted.
    ///
    /// # Errors
    /// What the driver says, or that there is no such queue.
    pub fn open(
        cx: &OpenCx<'_>,
        spec: &Spec,
        queue: Option<usize>,
        count: impl Fn(&Info) -> usize,
    ) -> Result<Opened, String> {
        let device = cx.open(spec)?;
        let info = device.info();
        let n = count(&info);
        let queues = match queue {
            Some(queue) if queue >= n => {
                return Err(format!("{}: there is no queue {queue}; it has {n}", info.name));
            }
            Some(queue) => vec![queue],
            None => (0..n).collect(),
        };
        if queues.is_empty() {
            return Err(format!("{}: it has no queue of this direction ({})", info.name, info.driver));
        }
        Ok(Opened { device, queues })
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// The device, to be named to the engine.
    pub fn handle(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// How often the device is to be tended, if it is.
    pub fn tend_every(&self) -> Option<Nanos> {
        self.device.tend_every().map(|every| every.as_nanos() as Nanos)
    }
}

fn state(link: Link) -> &'static str {
    match link {
        Link::Up => "up",
        Link::Down => "down",
        Link::Gone => "gone",
    }
}

/// Click's names for link-layer types; the first name of a type is the one that is reported.
const ENCAPSULATIONS: [(&str, u32); 20] = [
    ("ETHER", link_type::ETHERNET),
    ("ETHERNET", link_type::ETHERNET),
    ("IP", link_type::RAW),
    ("RAW", link_type::RAW),
    ("IPV4", link_type::IPV4),
    ("IPV6", link_type::IPV6),
    ("SLL", link_type::LINUX_SLL),
    ("SLL2", link_type::LINUX_SLL2),
    ("NULL", link_type::NULL),
    ("PPP", 9),
    ("FDDI", 10),
    ("PPP_HDLC", 50),
    ("ATM", 100),
    ("HDLC", 104),
    ("802_11", 105),
    ("PRISM", 119),
    ("AIRONET", 120),
    ("SUNATM", 123),
    ("802_11_RADIO", 127),
    ("LOOP", 108),
];

/// What a link-layer type is called in messages: its number, and its name where it has one.
pub fn described(link: u32) -> String {
    wire::link::name(link).map_or(format!("link type {link}"), |name| format!("link type {link} ({name})"))
}

/// Marks a packet's device number as a link type, with where the packet begins.
const NOTED: u16 = 1 << 15;
/// Link types that can be noted.
const NOTABLE: u32 = 1 << 9;

/// Where a packet begins, in a cache line: its frame may be another one by and by, but not the place in the line.
fn place(packet: &Packet) -> u16 {
    (packet.headroom() % 64) as u16
}

/// Notes the link header of a packet that comes from a capture, for [`link_of`]. Link types from 512 on are not noted; the registry ends
/// far below.
pub fn note_link(packet: &mut Packet, link: u32) {
    if link < NOTABLE {
        packet.set_device(NOTED | (link as u16) << 6 | place(packet));
    }
}

/// The link type of a packet from a capture that still begins as it came. An element that removes bytes from the front, or adds some,
/// moves the beginning.
pub fn link_of(packet: &Packet) -> Option<u32> {
    let noted = packet.device();
    let as_it_came = noted & NOTED != 0 && noted & 63 == place(packet) && packet.mac_offset() == Some(0);
    as_it_came.then(|| u32::from(noted & !NOTED) >> 6)
}

/// Click's name for a link-layer type.
pub fn encapsulation(link: u32) -> &'static str {
    ENCAPSULATIONS.iter().find(|(_, n)| *n == link).map_or("??", |(name, _)| *name)
}

/// The link-layer type of a name, or of its number.
pub fn parse_encapsulation(text: &str) -> Option<u32> {
    let known = ENCAPSULATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, n)| *n).or_else(|| element::parse_integer(text).and_then(|n| u32::try_from(n).ok()))
}

/// Watches a device's link and its queues' troubles, and reports each change once.
#[derive(Debug)]
pub struct Watch {
    link: Link,
    changes: u64,
    fault: Option<Error>,
    next: Nanos,
    runs: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { link: Link::Up, changes: 0, fault: None, next: 0, runs: 0 }
    }
}

impl Watch {
    /// The link as last seen.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Looks at the device if it is time: `busy` runs look less often. Reports on the home instance only. Whether it looked.
    #[inline]
    pub fn look(
        &mut self,
        cx: &mut Cx<'_>,
        device: &dyn Device,
        busy: bool,
        fault: impl Fn() -> Option<Error>,
    ) -> bool {
        if busy {
            self.runs += 1;
            if self.runs < LOOK_RUNS {
                return false;
            }
        }
        self.runs = 0;
        let now = cx.now();
        let due = now >= self.next;
        if due {
            self.next = now + LOOK_EVERY;
            self.report(cx, device, fault());
        }
        due
    }

    /// Takes note of the link at once, after a failure.
    #[cold]
    pub fn look_now(&mut self, cx: &mut Cx<'_>, device: &dyn Device, fault: Option<Error>) {
        self.report(cx, device, fault);
    }

    #[cold]
    fn report(&mut self, cx: &Cx<'_>, device: &dyn Device, fault: Option<Error>) {
        let link = device.link();
        if link != self.link {
            self.link = link;
            self.changes += 1;
            cx.print(&format!("{}: {}: link {}", cx.name(), device.info().name, state(link)));
        }
        if fault != self.fault {
            if let Some(fault) = &fault {
                cx.print(&format!("{}: {fault}", cx.name()));
            }
            self.fault = fault;
        }
    }
}

/// Marks frames for groups, where the driver has not said how a frame was addressed.
#[cold]
pub fn mark_groups(packet: &mut Packet) {
    let Some(destination) = packet.data().first_chunk::<6>() else { return };
    if destination[0] & 1 == 1 {
        let all = *destination == [0xff; 6];
        packet.set_packet_type(if all { PacketType::Broadcast } else { PacketType::Multicast });
    }
}

/// Finds the IP header behind the link header and marks it. Whether there is a sound one.
pub fn mark_ip(packet: &mut Packet, link: u32) -> bool {
    let data = packet.data();
    let wire::link::Found::Ip(at) = wire::link::find_ip(link, data) else { return false };
    let Some(ip) = data.get(at..) else { return false };
    let Some(header_len) = ip_header_len(ip) else { return false };
    let destination = ip.get(16..20).and_then(|b| b.first_chunk()).copied();
    let version = ip[0] >> 4;
    packet.set_network(at, header_len);
    if let (4, Some(address)) = (version, destination) {
        packet.set_dst_ip(address);
    }
    true
}

/// Length of a sound IP header at the front of `ip`.
fn ip_header_len(ip: &[u8]) -> Option<usize> {
    let first = *ip.first()?;
    match first >> 4 {
        4 => {
            let len = usize::from(first & 15) * 4;
            let total = usize::from(u16::from_be_bytes(*ip.get(2..)?.first_chunk()?));
            (len >= 20 && ip.len() >= len && total >= len).then_some(len)
        }
        6 => (ip.len() >= 40).then_some(40),
        _ => None,
    }
}
