// SPDX-License-Identifier: MIT OR Apache-2.0
//! Further link-level addresses of an interface: those that the kernel has on macvlans over its twin.
//!
//! A virtual router (VRRP, RFC 9568 section 7.3) has a link-level address of its own, which the kernel holds on a macvlan. Where that lies over a tap
//! that stands for an interface of ours (`TWIN`), frames for it arrive at the interface. So the tap gives the interface's driver the list of
//! addresses. The receiver asks only about frames that are for nobody it knows.
//!
//! The kernel's daemons join groups at the twin, such as that of all OSPF routers. So the interface's card passes frames for all groups.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::af_packet;
use crate::sys::Aside;

/// Addresses that an interface may have besides its own.
const MOST: usize = 256;

/// The addresses, which the tap's queue sets and the interface's queues read.
#[derive(Debug)]
pub(crate) struct Aliases {
    count: AtomicUsize,
    macs: Box<[AtomicU64]>,
    /// Has the card let them pass.
    _passes: Mutex<Option<OwnedFd>>,
}

impl Default for Aliases {
    fn default() -> Self {
        let macs = (0..MOST).map(|_| AtomicU64::new(u64::MAX)).collect();
        Aliases { count: AtomicUsize::new(0), macs, _passes: Mutex::default() }
    }
}

fn number(mac: &[u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = *mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl Aliases {
    /// Whether frames for `mac` are for us.
    #[inline]
    pub(crate) fn has(&self, mac: &[u8; 6]) -> bool {
        let count = self.count.load(Ordering::Acquire);
        count > 0 && self.macs[..count].iter().any(|alias| alias.load(Ordering::Relaxed) == number(mac))
    }

    fn set(&self, macs: &[[u8; 6]]) {
        self.count.store(0, Ordering::Release);
        let all = self.macs.iter().zip(macs);
        let count = all.map(|(place, mac)| place.store(number(mac), Ordering::Relaxed)).count();
        self.count.store(count, Ordering::Release);
    }

    fn keep(&self, passes: Option<OwnedFd>) {
        *self._passes.lock().unwrap_or_else(PoisonError::into_inner) = passes;
    }
}

/// The tap's side.
pub(crate) struct Teller {
    aliases: Arc<Aliases>,
    told: (Option<u32>, Vec<[u8; 6]>),
    aside: Aside<io::Result<()>>,
}

impl Teller {
    pub(crate) fn new(aliases: Arc<Aliases>) -> Teller {
        Teller { aliases, told: (None, Vec::new()), aside: Aside::default() }
    }

    /// Reports which addresses there are now over the twin of interface `ifindex`.
    pub(crate) fn tell(&mut self, ifindex: Option<u32>, macs: impl Iterator<Item = [u8; 6]>) {
        let mut macs: Vec<[u8; 6]> = macs.take(MOST).collect();
        macs.sort_unstable();
        macs.dedup();
        if self.told == (ifindex, macs.clone()) {
            return;
        }
        if self.aside.is_busy() {
            // Its result counts for nothing, but there is one thread at a time; the next look reports the addresses.
            let _ = self.aside.look(|| Ok(()));
            return;
        }
        self.aliases.set(&macs);
        self.told = (ifindex, macs.clone());
        let aliases = self.aliases.clone();
        let _ = self.aside.look(move || {
            let passes = ifindex.map(|ifindex| af_packet::receive_more(ifindex, &macs)).transpose()?;
            aliases.keep(passes);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_known_until_others_are_told() {
        let aliases = Arc::new(Aliases::default());
        let (one, two) = ([0, 0, 0x5e, 0, 1, 7], [0, 0, 0x5e, 0, 2, 7]);
        assert!(!aliases.has(&one));
        aliases.set(&[one, two]);
        assert!(aliases.has(&one) && aliases.has(&two) && !aliases.has(&[0; 6]));
        aliases.set(&[two]);
        assert!(!aliases.has(&one) && aliases.has(&two));
        aliases.set(&[[9; 6]; MOST + 1]);
        assert!(aliases.has(&[9; 6]) && !aliases.has(&two));
    }
}
