// SPDX-License-Identifier: MIT OR Apache-2.0
//! The opener's side of [`crate::opener`]: it checks what a router asks for against its policy, and makes the calls.

mod route;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use crate::link::Interfaces;
use crate::netlink::Request;
use crate::opener::{Call, LAST, POLICY, Policy, receive, send};
use crate::sys::{self, check};
use crate::{af_xdp, bpf, tap, urgent};
use route::Target;

/// Serves the router at the other end of this socket until that is gone.
///
/// # Errors
/// The socket fails.
pub fn serve(socket: &OwnedFd) -> io::Result<()> {
    let Some(policy) = policy_from(socket)? else { return Ok(()) };
    while let Some(message) = receive(socket)? {
        let answer = match Call::of(message.kind) {
            Some(call) => policy.perform(call, message.numbers, &message.bytes, &message.fds),
            None => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        let (error, bytes, fd) = match answer {
            Ok((bytes, fd)) => (0, bytes, fd),
            Err(why) => (why.raw_os_error().unwrap_or(libc::EIO) as u32, Vec::new(), None),
        };
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|fd| fd.as_fd()).collect();
        send(socket, 0, [error, 0, 0, 0], &bytes, &fds)?;
    }
    Ok(())
}

/// The policy, which comes in as many messages as it takes; `None` when the router is gone before its end.
fn policy_from(socket: &OwnedFd) -> io::Result<Option<Policy>> {
    let mut policy = Policy::default();
    while let Some(part) = receive(socket)? {
        if part.kind != POLICY {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        policy.add(&String::from_utf8_lossy(&part.bytes));
        if part.numbers[0] == LAST {
            return Ok(Some(policy));
        }
    }
    Ok(None)
}

/// What comes of a call: bytes, and a descriptor.
type Done = io::Result<(Vec<u8>, Option<OwnedFd>)>;

fn refused<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EPERM))
}

fn fd(made: io::Result<OwnedFd>) -> Done {
    made.map(|fd| (Vec::new(), Some(fd)))
}

fn nothing(done: io::Result<()>) -> Done {
    done.map(|()| (Vec::new(), None))
}

fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Flags of a tap that a router may ask for.
const TAP_FLAGS: i32 = libc::IFF_TAP | libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;
/// Changes of interfaces by ioctl.
const CHANGES: [u64; 5] =
    [libc::SIOCSIFMTU, libc::SIOCSIFHWADDR, libc::SIOCSIFFLAGS, libc::SIOCSIFADDR, libc::SIOCSIFNETMASK];

impl Policy {
    /// Whether this is one of the interfaces that are opened.
    fn opens(&self, index: u32) -> io::Result<()> {
        let interfaces = Interfaces::new()?;
        let is = |name: &String| interfaces.index(name).is_ok_and(|its| its == index);
        if index != 0 && self.interfaces.iter().chain(&self.taps).any(is) { Ok(()) } else { refused() }
    }

    /// Whether this is one of the interfaces that are changed.
    fn changes(&self, index: u32) -> io::Result<()> {
        let interfaces = Interfaces::new()?;
        let is = |name: &String| interfaces.index(name).is_ok_and(|its| its == index);
        if index != 0 && self.taps.iter().any(is) { Ok(()) } else { refused() }
    }

    fn changes_named(&self, name: &[u8]) -> io::Result<()> {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if self.taps.iter().any(|tap| tap.as_bytes() == name) { Ok(()) } else { refused() }
    }

    /// Does what is asked for, if it may be.
    fn perform(&self, call: Call, numbers: [u32; 4], bytes: &[u8], fds: &[OwnedFd]) -> Done {
        let given = |i: usize| fds.get(i).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL));
        let [first, second, third, fourth] = numbers;
        match call {
            Call::Socket => fd(self.socket(first as i32, second as i32, third as i32)),
            Call::Tap => self.tap(first as i32, bytes),
            Call::Interface => nothing(self.interface(first.into(), second == 1, bytes)),
            Call::Route => nothing(self.route(bytes)),
            Call::XskMap => fd(bpf::XskMap::new(first.min(1024)).map(bpf::XskMap::into_fd)),
            Call::XskSet => nothing(bpf::set_socket(given(0)?, first, given(1)?)),
            Call::Redirect => {
                // The opener knows the function itself: it takes no part of a program from the router.
                let tags = (second != 0).then(bpf::tag_function).flatten().map(|function| (function, third));
                if tags.is_some() {
                    self.opens(third)?;
                }
                fd(bpf::load_redirect(given(0)?, first == 1, tags, fourth == 1))
            }
            Call::Attach => {
                self.opens(first).and_then(|()| fd(bpf::attach_xdp(given(0)?, first, second == 1)))
            }
            Call::Replace => nothing(bpf::replace(given(0)?, given(1)?)),
            Call::Swallow => {
                self.opens(first)?;
                fd(if second == 1 { urgent::sort::swallow(first) } else { bpf::swallow(first) })
            }
            Call::BusyPoll => nothing(af_xdp::busy_poll(given(0)?, first)),
        }
    }

    fn socket(&self, family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
        let has_interfaces = !self.interfaces.is_empty();
        match (family, kind) {
            (libc::AF_PACKET | libc::AF_XDP, libc::SOCK_RAW) if has_interfaces => {
                sys::socket(family, kind, protocol)
            }
            (libc::AF_INET, libc::SOCK_RAW) if self.raw => sys::socket(family, kind, protocol),
            _ => refused(),
        }
    }

    fn tap(&self, flags: i32, name: &[u8]) -> Done {
        self.changes_named(name)?;
        let name = std::str::from_utf8(name).or_else(|_| refused())?;
        if flags & !TAP_FLAGS != 0 {
            return refused();
        }
        let (made, name) = tap::attach_with(name, flags as i16)?;
        Ok((name.into_bytes(), Some(made)))
    }

    /// A change by ioctl, whose structure is an `ifreq`, or for IPv6 an `in6_ifreq`.
    fn interface(&self, request: u64, is_six: bool, structure: &[u8]) -> io::Result<()> {
        if !CHANGES.contains(&request) {
            return refused();
        }
        let size = if is_six { size_of::<libc::in6_ifreq>() } else { size_of::<libc::ifreq>() };
        if structure.len() != size {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        match is_six {
            // Address, prefix length, index.
            true if request == libc::SIOCSIFADDR => self.changes(word(structure, 20)?)?,
            true => return refused(),
            false => self.changes_named(&structure[..libc::IFNAMSIZ])?,
        }
        let family = if is_six { libc::AF_INET6 } else { libc::AF_INET };
        let socket = sys::socket(family, libc::SOCK_DGRAM, 0)?;
        let mut structure = structure.to_vec();
        // SAFETY: these requests read the structure of this size, none of whose fields is a pointer for them.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, structure.as_mut_ptr()) })?;
        Ok(())
    }

    /// A message of rtnetlink.
    fn route(&self, message: &[u8]) -> io::Result<()> {
        match route::target(message) {
            Some(Target::Address(index)) => self.changes(index)?,
            Some(Target::Joins { index, master }) => {
                self.changes(index).and_then(|()| self.changes(master))?;
            }
            Some(Target::Rule(name)) => self.changes_named(name)?,
            None => return refused(),
        }
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        Request::of(message).send(&socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::{RTM_NEWADDR, RTM_NEWRULE};

    #[test]
    fn a_policy_may_be_of_any_length() {
        let names = |word: &str| (0..2000).map(|i| format!("{word}{i}")).collect();
        let policy = Policy { interfaces: names("eth"), taps: names("tap"), raw: true };
        let (ours, theirs) = crate::opener::sockets().unwrap();
        let wanted = policy.clone();
        let sent = std::thread::spawn(move || crate::opener::send_policy(&ours, &wanted));
        assert_eq!(policy_from(&theirs).unwrap(), Some(policy));
        sent.join().unwrap().unwrap();
        // A router that ends in the middle, or that asks before it has said what it may have.
        let (ours, theirs) = crate::opener::sockets().unwrap();
        send(&ours, POLICY, [0; 4], b"interface d0\n", &[]).unwrap();
        drop(ours);
        assert_eq!(policy_from(&theirs).unwrap(), None);
        let (ours, theirs) = crate::opener::sockets().unwrap();
        send(&ours, Call::Socket as u8, [0; 4], &[], &[]).unwrap();
        assert!(policy_from(&theirs).is_err());
    }

    #[test]
    fn what_the_policy_does_not_name_is_refused() {
        let policy = Policy { interfaces: vec!["lo-not".into()], taps: vec!["t0".into()], raw: false };
        let check = |call: Call, numbers: [u32; 4], bytes: &[u8]| {
            let why = policy.perform(call, numbers, bytes, &[]).unwrap_err();
            assert!(matches!(why.raw_os_error(), Some(libc::EPERM | libc::EINVAL)), "{call:?}: {why}");
        };
        let lo = Interfaces::new().and_then(|interfaces| interfaces.index("lo")).unwrap_or(1);
        let named = |name: &str| {
            let mut structure = vec![0; size_of::<libc::ifreq>()];
            structure[..name.len()].copy_from_slice(name.as_bytes());
            structure
        };
        let message = |kind: u16, index: u32| {
            let mut message = vec![0; 24];
            message[4..6].copy_from_slice(&kind.to_ne_bytes());
            message[6..8].copy_from_slice(&0x605u16.to_ne_bytes());
            message[20..24].copy_from_slice(&index.to_ne_bytes());
            message
        };
        check(Call::Socket, [libc::AF_INET as u32, libc::SOCK_RAW as u32, 1, 0], &[]);
        check(Call::Socket, [libc::AF_PACKET as u32, libc::SOCK_DGRAM as u32, 0, 0], &[]);
        check(Call::Socket, [libc::AF_NETLINK as u32, libc::SOCK_RAW as u32, 0, 0], &[]);
        check(Call::Tap, [libc::IFF_TAP as u32, 0, 0, 0], b"other");
        check(Call::Tap, [0x8000, 0, 0, 0], b"t0");
        check(Call::Interface, [libc::SIOCSIFMTU as u32, 0, 0, 0], &named("lo"));
        check(Call::Interface, [libc::SIOCSIFNAME as u32, 0, 0, 0], &named("t0"));
        check(Call::Interface, [libc::SIOCSIFMTU as u32, 0, 0, 0], b"t0");
        check(Call::Route, [0; 4], &message(RTM_NEWADDR, lo));
        check(Call::Route, [0; 4], &message(16, lo));
        check(Call::Route, [0; 4], &message(RTM_NEWRULE, lo));
        check(Call::Route, [0; 4], &[]);
        check(Call::Swallow, [lo, 0, 0, 0], &[]);
        check(Call::Attach, [lo, 0, 0, 0], &[]);
        check(Call::Redirect, [0, 7, lo, 0], &[]);
        check(Call::Replace, [0; 4], &[]);
    }
}
