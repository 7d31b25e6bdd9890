// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which peer an inner address belongs to: the destination of what is sent, and the source of what is received ("cryptokey routing").

use std::collections::BTreeMap;
use std::net::IpAddr;

use sync::rcu::{Domain, Reader};
use tables::fib4::{Fib4Reader, Fib4Writer, NextHopId};
use tables::fib6::{Fib6Reader, Fib6Writer};
use wire::Prefix;

/// The most peers that a device can have.
pub const PEERS_MAX: usize = NextHopId::MAX.0 as usize;

/// The look-up, for any number of workers.
#[derive(Clone)]
pub struct Allowed {
    four: Fib4Reader,
    six: Fib6Reader,
}

impl Allowed {
    /// The number of the peer that an address belongs to.
    #[inline]
    pub fn peer(&self, reader: &Reader, addr: IpAddr) -> Option<u32> {
        let NextHopId(id) = match addr {
            IpAddr::V4(four) => self.four.lookup(reader, four.into()),
            IpAddr::V6(six) => self.six.lookup(reader, six.into()),
        };
        (id <= NextHopId::MAX.0).then_some(id)
    }
}

/// Where networks are given to peers.
pub struct Writer {
    four: Fib4Writer,
    six: Fib6Writer,
    /// All networks, so that those of a peer can be listed.
    owners: BTreeMap<(u32, Prefix), ()>,
    owner: BTreeMap<Prefix, u32>,
}

/// Why networks cannot be changed now.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// IPv4.
    #[error("allowed IPs: {0}")]
    Four(#[from] tables::fib4::Fib4Error),
    /// IPv6.
    #[error("allowed IPs: {0}")]
    Six(#[from] tables::fib6::Fib6Error),
}

impl Writer {
    /// None yet.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(domain: &Domain) -> Result<Writer, Refused> {
        let (four, six) = (Fib4Writer::new(domain)?, Fib6Writer::new(domain)?);
        Ok(Writer { four, six, owners: BTreeMap::new(), owner: BTreeMap::new() })
    }

    /// The look-up.
    pub fn reader(&self) -> Allowed {
        Allowed { four: self.four.reader(), six: self.six.reader() }
    }

    /// Networks of a peer, in their order.
    pub fn of(&self, peer: u32) -> impl Iterator<Item = Prefix> + '_ {
        self.owners
            .range((peer, Prefix::all(false))..)
            .take_while(move |((of, _), ())| *of == peer)
            .map(|((_, p), ())| *p)
    }

    /// Gives networks to peers, or takes them away. A network that belongs to another peer changes its owner. All is done, or nothing.
    ///
    /// # Errors
    /// Readers have stood still for long, or there is no room.
    pub fn change(&mut self, changes: &[(Prefix, Option<u32>)]) -> Result<(), Refused> {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        let mut back = Vec::new();
        for (prefix, peer) in changes {
            let id = peer.map(NextHopId);
            match prefix {
                Prefix::V4(prefix4) => {
                    four.push((*prefix4, id));
                    back.push((*prefix4, self.owner.get(prefix).copied().map(NextHopId)));
                }
                Prefix::V6(prefix6) => six.push((*prefix6, id)),
            }
        }
        self.four.commit(&four)?;
        if let Err(why) = self.six.commit(six) {
            // What readers hold can keep this from succeeding only if they hold it forever.
            let _ = self.four.commit(&back);
            return Err(why.into());
        }
        for (prefix, peer) in changes {
            if let Some(before) = self.owner.remove(prefix) {
                self.owners.remove(&(before, *prefix));
            }
            if let Some(peer) = peer {
                self.owner.insert(*prefix, *peer);
                self.owners.insert((*peer, *prefix), ());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_network_counts_and_the_last_owner() {
        let domain = Domain::default();
        let reader = domain.register("test");
        let mut writer = Writer::new(&domain).unwrap();
        let allowed = writer.reader();
        let peer = |text: &str| allowed.peer(&reader, text.parse().unwrap());
        let give = |text, peer| (prefix(text), Some(peer));
        writer
            .change(&[give("10.0.0.0/8", 1), give("10.1.0.0/16", 2), give("::/0", 1), give("2001:db8::5", 2)])
            .unwrap();
        assert_eq!((peer("10.2.0.1"), peer("10.1.0.1"), peer("11.0.0.1")), (Some(1), Some(2), None));
        assert_eq!((peer("2001:db8::5"), peer("2001:db8::6")), (Some(2), Some(1)));
        writer.change(&[give("10.1.0.0/16", 1), (prefix("::/0"), None)]).unwrap();
        assert_eq!((peer("10.1.0.1"), peer("2001:db8::6")), (Some(1), None));
        let shown = |peer| writer.of(peer).map(|prefix| prefix.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(1), ["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!((shown(2), shown(3)), (vec!["2001:db8::5/128".to_owned()], vec![]));
    }
}
