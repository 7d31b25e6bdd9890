// SPDX-License-Identifier: MIT OR Apache-2.0
//! A library that is loaded into a key daemon before the C library (`LD_PRELOAD`). The daemon's netlink sockets of NETLINK_XFRM become connections to the Unix socket that
//! `JUNCTOR_XFRM` names, where Junctor answers as the kernel would ([`xfrm`](../xfrm/index.html)).
//!
//! ```text
//! JUNCTOR_XFRM=/run/junctor/xfrm LD_PRELOAD=libjunctor_xfrm.so charon-systemd
//! ```
//!
//! * `socket(AF_NETLINK, _, NETLINK_XFRM)` connects. It waits ten seconds for a server.
//! * `bind`, `getsockname`, `getsockopt`, `setsockopt` do as on a netlink socket; what the server must know (port, groups, options) goes to it in a message.
//! * `send`, `write` and their kin leave the destination out; `recv`, `read` and their kin give the kernel's address as the sender.
//! * Where the server says that events were lost, `recv` fails with `ENOBUFS`.
//! * `setsockopt` of a UDP socket with `UDP_ENCAP`, `IP_XFRM_POLICY` or `IPV6_XFRM_POLICY` succeeds and does nothing: Junctor's elements take ESP out of UDP, and let IKE pass.
//!
//! All other calls go to the C library as they are. Without `JUNCTOR_XFRM`, all do.
//!
//! # When the server goes away
//! The descriptor keeps its number. What is behind it is put in its place by `dup3(2)`: at first one end of a pair of sockets, so that nobody who polls it wakes; and the new
//! connection when a thread of this library has made one. A descriptor of epoll(7) that watched it watches the new one, too.
//!
//! Requests whose answers were lost get `EBUSY` (of each socket the last 128), upon which charon(8) sends them once more. Where such an answer has not been read when the new
//! connection is there, the new server sends it back by that one. Sending waits ten seconds for a server, then fails with `ECONNREFUSED`.

#![allow(unsafe_code, reason = "it stands in the place of functions of the C library")]

mod calls;
mod next;
mod sockets;
mod wire;
