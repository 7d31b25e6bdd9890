// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of an interface that has just been made are announced a few times more.
//!
//! zebra (FRR 8.4) reads news of interfaces and news of addresses in two threads. If it is kept from running for a moment, it may read of an address
//! before it knows the interface, and forgets the address for good: its daemons then have no neighbours there.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::again::enter;
use crate::link::Interfaces;
use crate::netlink::{ADDRESS_HEADER, REPLACE, RTM_GETADDR, RTM_NEWADDR, Request, word};
use crate::sys;

/// The pauses before each, in seconds.
const PAUSES_S: [u64; 4] = [1, 3, 9, 27];

/// Has another thread announce the addresses of the interface of this name, until it has another index.
pub(super) fn later(name: &str, namespace: Option<Arc<File>>) {
    let name = name.to_owned();
    let announcing = move || {
        namespace.as_deref().map_or(Ok(()), enter)?;
        let interfaces = Interfaces::new()?;
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let index = interfaces.index(&name)?;
        for pause in PAUSES_S {
            std::thread::sleep(Duration::from_secs(pause));
            if interfaces.index(&name)? != index {
                break;
            }
            announce(&socket, index)?;
        }
        std::io::Result::Ok(())
    };
    // Without a thread, daemons have heard once.
    let _ = sys::spawn("announce", move || drop(announcing()));
}

/// Replaces each address of the interface by itself, which the kernel reports as it reports a new one.
fn announce(socket: &OwnedFd, index: u32) -> std::io::Result<()> {
    let mut addresses: Vec<Vec<u8>> = Vec::new();
    Request::new(RTM_GETADDR, 0, &[0; ADDRESS_HEADER]).ask_for_all(socket, |body| {
        if word(body, 4) == Some(index) {
            addresses.push(body.to_vec());
        }
    })?;
    for body in addresses {
        let _ = Request::new(RTM_NEWADDR, REPLACE, &body).send(socket);
    }
    Ok(())
}
