// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces as the kernel describes them, and the watch over one that may go down, vanish and return.
//!
//! Everything here asks by `ioctl` on a socket made when the device was opened. Unlike `/sys`, a socket stays in
//! its network namespace whichever thread uses it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use packet::port::{Error, Link};
use sync::mutex::lock;

use crate::netlink::{AddressEvents, LinkEvent, LinkEvents};
use crate::opener::{self, Call};
use crate::sys::{self, check};

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// Longest interface name, its terminating zero excluded.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Asks the kernel about interfaces of one network namespace.
#[derive(Debug)]
pub(crate) struct Interfaces(OwnedFd);

/// An interface's flags, as far as we use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub up: bool,
    pub carrier: bool,
}

impl Interfaces {
    /// Of the calling thread's namespace.
    pub(crate) fn new() -> io::Result<Interfaces> {
        sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map(Interfaces)
    }

    /// Asks for a change of an interface.
    fn change(&self, request: libc::c_ulong, ifreq: &mut libc::ifreq) -> io::Result<()> {
        if let Some(asked) = ask_to_change(request, false, ifreq) {
            return asked;
        }
        self.ioctl(request, ifreq)
    }

    fn ioctl(&self, request: libc::c_ulong, ifreq: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every request used here reads and writes the one `ifreq`, and what `ifru_data` points to when it
        // is set, which outlives the call.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, &raw mut *ifreq) })?;
        Ok(())
    }

    fn get(&self, name: &str, request: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut ifreq = request_for(name)?;
        self.ioctl(request, &mut ifreq)?;
        Ok(ifreq)
    }

    pub(crate) fn index(&self, name: &str) -> io::Result<u32> {
        let ifreq = self.get(name, libc::SIOCGIFINDEX)?;
        // SAFETY: the request fills this member.
        Ok(unsafe { ifreq.ifr_ifru.ifru_ifindex } as u32)
    }

    fn raw_flags(&self, name: &str) -> io::Result<i32> {
        let ifreq = self.get(name, libc::SIOCGIFFLAGS)?;
        // SAFETY: the request fills this member.
        Ok(i32::from(unsafe { ifreq.ifr_ifru.ifru_flags }))
    }

    pub(crate) fn flags(&self, name: &str) -> io::Result<Flags> {
        let flags = self.raw_flags(name)?;
        Ok(Flags { up: flags & libc::IFF_UP != 0, carrier: flags & libc::IFF_RUNNING != 0 })
    }

    pub(crate) fn mtu(&self, name: &str) -> io::Result<usize> {
        let ifreq = self.get(name, libc::SIOCGIFMTU)?;
        // SAFETY: the request fills this member.
        Ok(unsafe { ifreq.ifr_ifru.ifru_mtu }.max(0) as usize)
    }

    pub(crate) fn set_mtu(&self, name: &str, mtu: usize) -> io::Result<()> {
        let mut ifreq = request_for(name)?;
        ifreq.ifr_ifru.ifru_mtu = mtu as i32;
        self.change(libc::SIOCSIFMTU, &mut ifreq)
    }

    /// The link-level address, and the kind of link as `ARPHRD_*`.
    pub(crate) fn hardware(&self, name: &str) -> io::Result<([u8; 6], u16)> {
        let ifreq = self.get(name, libc::SIOCGIFHWADDR)?;
        // SAFETY: the request fills this member.
        let address = unsafe { ifreq.ifr_ifru.ifru_hwaddr };
        let mac = std::array::from_fn(|i| address.sa_data[i] as u8);
        Ok((mac, address.sa_family))
    }

    pub(crate) fn set_mac(&self, name: &str, mac: [u8; 6]) -> io::Result<()> {
        let mut ifreq = request_for(name)?;
        let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
        for (to, from) in address.sa_data.iter_mut().zip(mac) {
            *to = from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_hwaddr = address;
        self.change(libc::SIOCSIFHWADDR, &mut ifreq)
    }

    pub(crate) fn set_up(&self, name: &str) -> io::Result<()> {
        let mut ifreq = request_for(name)?;
        ifreq.ifr_ifru.ifru_flags = (self.raw_flags(name)? | libc::IFF_UP) as i16;
        self.change(libc::SIOCSIFFLAGS, &mut ifreq)
    }

    /// Gives the interface an address and its prefix length.
    pub(crate) fn set_address(&self, name: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
                for (request, value) in
                    [(libc::SIOCSIFADDR, v4), (libc::SIOCSIFNETMASK, Ipv4Addr::from(mask))]
                {
                    let mut ifreq = request_for(name)?;
                    ifreq.ifr_ifru.ifru_addr = inet_address(value);
                    self.change(request, &mut ifreq)?;
                }
                Ok(())
            }
            IpAddr::V6(v6) => {
                let request = libc::in6_ifreq {
                    ifr6_addr: libc::in6_addr { s6_addr: v6.octets() },
                    ifr6_prefixlen: u32::from(prefix),
                    ifr6_ifindex: self.index(name)? as i32,
                };
                if let Some(asked) = ask_to_change(libc::SIOCSIFADDR, true, &request) {
                    return asked;
                }
                let socket = sys::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
                // SAFETY: on an IPv6 socket this request reads an `in6_ifreq`.
                check(unsafe {
                    libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const request)
                })?;
                Ok(())
            }
        }
    }

    /// An ethtool command whose answer is `N` 32-bit words, the first of them the command.
    fn ethtool<const N: usize>(&self, name: &str, command: u32) -> io::Result<[u32; N]> {
        let mut words = [0u32; N];
        words[0] = command;
        let mut ifreq = request_for(name)?;
        ifreq.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        self.ioctl(libc::SIOCETHTOOL, &mut ifreq)?;
        Ok(words)
    }

    /// Name of the kernel driver behind the interface.
    pub(crate) fn driver(&self, name: &str) -> Option<String> {
        // struct ethtool_drvinfo: command, then char driver[32], ...; 196 bytes.
        let words = self.ethtool::<49>(name, ETHTOOL_GDRVINFO).ok()?;
        text(&words[1..9])
    }

    /// Whether frames may arrive whose checksums their sender left to hardware that is not there: at the kernel's own
    /// interfaces, which sit on no bus, and at those of a hypervisor.
    pub(crate) fn leaves_checksums(&self, name: &str) -> bool {
        const HYPERVISORS: [&str; 6] = ["virtio_net", "vif", "xen_netfront", "hv_netvsc", "vmxnet3", "tun"];
        let Ok(words) = self.ethtool::<49>(name, ETHTOOL_GDRVINFO) else { return true };
        // Behind the command come the driver, its version, the firmware's, and the bus, of 32 bytes each.
        let on_no_bus = words[25].to_ne_bytes()[0] == 0;
        on_no_bus || text(&words[1..9]).is_some_and(|driver| HYPERVISORS.contains(&&*driver))
    }

    /// Receive and transmit queues in use.
    pub(crate) fn queues(&self, name: &str) -> (usize, usize) {
        // struct ethtool_channels: command, four maxima, then rx, tx, other, combined.
        match self.ethtool::<9>(name, ETHTOOL_GCHANNELS) {
            Ok(w) => (((w[5] + w[8]) as usize).max(1), ((w[6] + w[8]) as usize).max(1)),
            Err(_) => (1, 1),
        }
    }

    /// The error for an interface that is not there, with the name that was probably meant.
    pub(crate) fn missing(&self, name: &str) -> Error {
        let names = names();
        let near = names
            .iter()
            .map(|known| (distance(name, known), known))
            .filter(|(d, known)| *d <= 1 + known.len().min(name.len()) / 3)
            .min();
        let mend = match near {
            Some((_, known)) => format!("did you mean {known:?}?"),
            None if names.is_empty() => "there are none; see `ip link`".to_owned(),
            None => format!("there are {}", names.join(", ")),
        };
        Error::new(name, "no such network interface", mend)
    }
}

/// Asks the opener, if there is one, for a change of an interface by this request, whose structure is of integers.
fn ask_to_change<T>(request: libc::c_ulong, is_six: bool, structure: &T) -> Option<io::Result<()>> {
    // SAFETY: the structure lives, and was made of zeros or of integers without gaps, so each of its bytes has a value.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const *structure).cast::<u8>(), size_of::<T>()) };
    opener::ask_to(Call::Interface, [request as u32, is_six.into(), 0, 0], bytes, &[])
}

/// A text that ends with a zero or with the words.
fn text(words: &[u32]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8(bytes).ok().filter(|s| !s.is_empty())
}

fn request_for(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: an `ifreq` of zeros is a value.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(ifreq)
}

fn inet_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut out = libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: [0; 14] };
    for (to, from) in out.sa_data[2..].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    out
}

/// Names of the interfaces in the calling thread's namespace.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the array ends with an entry whose index is zero, its names are valid until it is freed, once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return names;
        }
        let mut entry = list;
        while (*entry).if_index != 0 {
            names.push(std::ffi::CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    names
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Milliseconds between two looks at an idle or failing interface.
const LOOK_INTERVAL_MS: u64 = 20;

/// Watches one interface by name.
#[derive(Debug)]
pub(crate) struct Watch {
    name: String,
    pub(crate) interfaces: Interfaces,
    /// Index of the interface that the sockets are bound to; 0 when they are bound to none.
    bound: AtomicU32,
    downs: AtomicU64,
    breaks: AtomicU64,
    /// What the kernel reports by itself; `None` where it reports nothing.
    events: Option<LinkEvents>,
    address_events: Option<AddressEvents>,
    seen: Mutex<Seen>,
}

/// What was seen last.
#[derive(Debug)]
struct Seen {
    link: Link,
    /// Index of the interface that has the name.
    index: Option<u32>,
    carrier_downs: Option<u32>,
    /// Macvlans that carry frames, by index: the interface below, and the address. A few, which this machine's administrator made.
    macvlans: BTreeMap<u32, (u32, [u8; 6])>,
    /// IP addresses of interfaces, by index, where somebody asks for them.
    addresses: BTreeMap<(u32, IpAddr), Address>,
    /// How many addresses have come.
    arrivals: u64,
    /// Those of the interface as they were last, and since when it is there.
    own: Vec<(IpAddr, u8)>,
    there_since: Option<Instant>,
}

/// What is known of an IP address.
#[derive(Clone, Copy, Debug)]
struct Address {
    prefix_len: u8,
    /// Lower is better, see [`AddressEvent`].
    preference: (bool, u8),
    /// Its place in the order in which the kernel named them.
    arrival: u64,
}

/// An interface that was made again has no addresses for a moment.
const MADE_AGAIN: Duration = Duration::from_secs(2);

impl Seen {
    fn note_macvlan(&mut self, event: &LinkEvent) {
        let is_macvlan = event.kind.as_deref() == Some("macvlan");
        match (event.lower, event.mac) {
            (Some(lower), Some(mac)) if is_macvlan && event.carries && !event.gone => {
                self.macvlans.insert(event.index, (lower, mac));
            }
            _ => {
                self.macvlans.remove(&event.index);
            }
        }
    }
}

impl Watch {
    /// Begins to watch `name`, which must exist.
    pub(crate) fn new(name: &str) -> Result<Watch, Error> {
        let interfaces =
            Interfaces::new().map_err(|e| Error::new(name, format!("cannot open a socket: {e}"), ""))?;
        let events = LinkEvents::new().ok();
        let index = interfaces.index(name).map_err(|_| interfaces.missing(name))?;
        Ok(Watch {
            name: name.to_owned(),
            interfaces,
            bound: AtomicU32::new(index),
            downs: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
            events,
            address_events: None,
            seen: Mutex::new(Seen {
                link: Link::Up,
                index: Some(index),
                carrier_downs: None,
                macvlans: BTreeMap::new(),
                addresses: BTreeMap::new(),
                arrivals: 0,
                own: Vec::new(),
                there_since: None,
            }),
        })
    }

    /// Asks also what the kernel has over the interface.
    pub(crate) fn with_uppers(mut self) -> Watch {
        self.address_events = AddressEvents::new().ok();
        // Where the kernel reports nothing, there is nothing over it.
        let _ = self.events.as_ref().map(LinkEvents::ask_for_all);
        let _ = self.address_events.as_ref().map(AddressEvents::ask_for_all);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Index of the interface that the device was last opened on.
    pub(crate) fn bound(&self) -> u32 {
        self.bound.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bound(&self, index: u32) {
        self.bound.store(index, Ordering::Relaxed);
    }

    /// Index of the interface that has the name at this moment.
    pub(crate) fn index(&self) -> Option<u32> {
        let mut seen = lock(&self.seen);
        self.hear(&mut seen);
        self.look_up(&mut seen);
        seen.index
    }

    /// Looks at the interface now.
    pub(crate) fn state(&self) -> Link {
        let mut seen = lock(&self.seen);
        self.hear(&mut seen);
        self.look_up(&mut seen);
        let link = match seen.index.and_then(|_| self.interfaces.flags(&self.name).ok()) {
            None => Link::Gone,
            Some(Flags { up: true, carrier: true }) => Link::Up,
            Some(_) => Link::Down,
        };
        self.note(&mut seen, link);
        link
    }

    /// Takes note of what the kernel has reported since the last look.
    fn hear(&self, seen: &mut Seen) {
        let Some(events) = &self.events else { return };
        let whole = events.read(|event| {
            seen.note_macvlan(&event);
            let (ours, named) = (seen.index == Some(event.index), event.name == self.name);
            if ours && (event.gone || !named) {
                self.note(seen, Link::Gone);
                (seen.index, seen.carrier_downs) = (None, None);
            } else if named && !event.gone {
                if !ours {
                    self.note(seen, Link::Gone);
                    (seen.index, seen.carrier_downs) = (Some(event.index), None);
                }
                let was = std::mem::replace(&mut seen.carrier_downs, event.carrier_downs);
                if seen.link == Link::Up && event.carries && was.is_some() && was != event.carrier_downs {
                    self.note(seen, Link::Down);
                }
                self.note(seen, if event.carries { Link::Up } else { Link::Down });
            }
        });
        if !whole {
            // It may have been down.
            self.note(seen, Link::Down);
            let _ = self.address_events.as_ref().map(|_| events.ask_for_all());
            seen.index = self.interfaces.index(&self.name).ok();
        }
    }

    /// The interface's MTU, if it is there. A name that does not exist is not asked for, see [`look_up`](Self::look_up).
    pub(crate) fn mtu(&self) -> Option<usize> {
        let is_there = {
            let mut seen = lock(&self.seen);
            self.hear(&mut seen);
            self.look_up(&mut seen);
            seen.index.is_some()
        };
        is_there.then(|| self.interfaces.mtu(&self.name).ok()).flatten()
    }

    /// Asks for the index. One who asks for a name that does not exist has the kernel look for a module of that name, so that is left
    /// out where its messages would say that it has come.
    fn look_up(&self, seen: &mut Seen) {
        if self.events.is_some() && seen.index.is_none() {
            return;
        }
        let now = self.interfaces.index(&self.name).ok();
        if now != seen.index {
            self.note(seen, Link::Gone);
            (seen.index, seen.carrier_downs) = (now, None);
        }
    }

    fn note(&self, seen: &mut Seen, link: Link) {
        if seen.link != link {
            if link != Link::Up {
                self.downs.fetch_add(1, Ordering::Relaxed);
            }
            if seen.link == Link::Up {
                self.breaks.fetch_add(1, Ordering::Relaxed);
            }
            seen.link = link;
        }
    }

    /// Link-level addresses of macvlans over the interface that carry frames.
    pub(crate) fn upper_macs(&self) -> Vec<[u8; 6]> {
        let mut seen = lock(&self.seen);
        self.hear(&mut seen);
        let over = |(lower, mac): &(u32, [u8; 6])| (Some(*lower) == seen.index).then_some(*mac);
        seen.macvlans.values().filter_map(over).collect()
    }

    /// IP addresses of these macvlans.
    pub(crate) fn upper_addresses(&self) -> Vec<IpAddr> {
        let mut seen = lock(&self.seen);
        self.hear(&mut seen);
        self.hear_addresses(&mut seen);
        let over =
            |index: &u32| seen.macvlans.get(index).is_some_and(|(lower, _)| Some(*lower) == seen.index);
        seen.addresses.keys().filter(|(index, _)| over(index)).map(|(_, address)| *address).collect()
    }

    /// IP addresses of the interface and their prefix lengths, the preferred one first. While the interface is away, or the kernel has not
    /// named all addresses, they are those that it had.
    pub(crate) fn addresses(&self) -> Vec<(IpAddr, u8)> {
        let mut seen = lock(&self.seen);
        self.hear(&mut seen);
        let is_whole = self.hear_addresses(&mut seen);
        let Some(index) = seen.index else {
            seen.there_since = None;
            return seen.own.clone();
        };
        let since = *seen.there_since.get_or_insert_with(Instant::now);
        let own = seen.addresses.range((index, Ipv4Addr::UNSPECIFIED.into())..);
        let own = own.take_while(|((other, _), _)| *other == index);
        let mut own: Vec<_> = own.map(|((_, address), known)| (*address, *known)).collect();
        own.sort_by_key(|(_, known)| (known.preference, known.arrival));
        if is_whole && !(own.is_empty() && since.elapsed() < MADE_AGAIN) {
            seen.own = own.into_iter().map(|(address, known)| (address, known.prefix_len)).collect();
        }
        seen.own.clone()
    }

    /// Returns whether the kernel has named all addresses.
    fn hear_addresses(&self, seen: &mut Seen) -> bool {
        let Some(events) = &self.address_events else { return true };
        for _ in 0..2 {
            let whole = events.read(|event| {
                let entry = (event.index, event.address);
                if event.gone {
                    seen.addresses.remove(&entry);
                    return;
                }
                seen.arrivals += 1;
                let arrival = seen.addresses.get(&entry).map_or(seen.arrivals, |known| known.arrival);
                let known = Address { prefix_len: event.prefix_len, preference: event.preference, arrival };
                seen.addresses.insert(entry, known);
            });
            if whole {
                return true;
            }
            // All are named again, at once.
            seen.addresses.clear();
            let _ = events.ask_for_all();
        }
        false
    }

    /// How often the link was seen to go down or vanish.
    pub(crate) fn downs(&self) -> u64 {
        self.downs.load(Ordering::Relaxed)
    }

    /// How often the link was lost, even where it came back between two looks: what was learnt of the other end may be wrong since.
    pub(crate) fn breaks(&self) -> u64 {
        self.state();
        self.breaks.load(Ordering::Relaxed)
    }

    /// The fault to show for a link that is not up.
    pub(crate) fn fault(&self) -> Option<Error> {
        let (what, mend) = match self.state() {
            Link::Up => return None,
            Link::Down => ("link is down", format!("sudo ip link set {} up, and see its peer", self.name)),
            Link::Gone => ("the interface has vanished", "it is taken up again when it returns".to_owned()),
        };
        let times = match self.downs() {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        Some(Error::new(&self.name, format!("{what} (seen {times})"), mend))
    }
}

/// Lets a queue look at its link now and then, without a system call or a division in between.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    calls: u32,
    next_ms: u64,
}

impl Pace {
    /// Whether it is time to look. Reads the clock at every 16th call at most.
    pub(crate) fn due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(16) && self.overdue()
    }

    /// The same at every call: for a queue that is failing, which may be called but once a second.
    pub(crate) fn overdue(&mut self) -> bool {
        let now = sys::coarse_ms();
        if now < self.next_ms {
            return false;
        }
        self.next_ms = now + LOOK_INTERVAL_MS;
        true
    }

    /// Makes the next call to [`Pace::due`] answer true.
    pub(crate) fn hurry(&mut self) {
        self.calls = u32::MAX;
        self.next_ms = self.next_ms.min(sys::coarse_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_described() {
        let interfaces = Interfaces::new().unwrap();
        assert!(interfaces.index("lo").unwrap() > 0);
        assert_eq!(interfaces.hardware("lo").unwrap(), ([0; 6], libc::ARPHRD_LOOPBACK));
        assert!(names().contains(&"lo".to_owned()));
        assert_eq!(interfaces.queues("lo"), (1, 1));
        assert!(interfaces.leaves_checksums("lo"));
    }

    #[test]
    fn a_missing_interface_is_reported_with_a_suggestion() {
        let interfaces = Interfaces::new().unwrap();
        assert_eq!(
            interfaces.missing("l0").to_string(),
            "l0: no such network interface; did you mean \"lo\"?"
        );
        for name in ["", "a-name-beyond-the-limit", "a\0b", "nonesuch"] {
            assert!(interfaces.index(name).is_err(), "{name:?}");
        }
        assert!(Watch::new("nonesuch-name").unwrap_err().mend.contains("lo"));
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, d) in [("eth0", "eth0", 0), ("eht0", "eth0", 2), ("", "abc", 3), ("eth1", "eth10", 1)] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }
}
