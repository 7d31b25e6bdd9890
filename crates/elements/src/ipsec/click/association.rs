// SPDX-License-Identifier: MIT OR Apache-2.0
//! Security associations of a route table, and how elements behind it find the one that a packet belongs to.
//!
//! Click notes a pointer on the packet. Here a packet bears the association's number, which no other has in the life of the process, and its SPI. An element
//! that gets such a packet looks the SPI up in the tables before it and compares the number. So a packet that waited in a queue while its
//! association was removed or got other keys belongs to none.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use esp::SuiteError;
use esp::click::{Aes, Authenticator, DesKey, Ivs, Material};
use esp::replay::Window;
use foldhash::fast::RandomState;
use packet::{Packet, anno};
use sync::rcu;

/// What a route says about an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Its number in packets; not 0.
    pub spi: u32,
    /// The keys.
    pub material: Box<Material>,
    /// The first sequence number; not 0.
    pub first: u32,
    /// Packets that may come late by so many.
    pub window: u8,
}

/// An association with its state. All workers may use it at once.
pub(super) struct Association {
    number: u32,
    pub agreed: Agreed,
    pub aes: Aes,
    pub des: DesKey,
    pub authenticator: Authenticator,
    pub counter: Counter,
    pub window: Window,
}

/// Sequence numbers of packets that are sent, each with an initialisation vector.
pub(super) struct Counter {
    /// The number that the next packet gets, on a cache line of its own.
    next: Line,
    ivs: Ivs,
}

#[repr(align(64))]
struct Line(AtomicU64);

impl Counter {
    /// Numbers from this one on.
    pub(super) fn new(first: u32) -> Result<Counter, SuiteError> {
        Ok(Counter { next: Line(AtomicU64::new(first.into())), ivs: Ivs::new()? })
    }

    /// Takes numbers for `count` packets, as many as are left. None is given twice, and none follows the last (RFC 4303, 3.3.3).
    /// One atomic operation serves all.
    pub(super) fn take(&self, count: usize) -> Range<u64> {
        const END: u64 = 1 << 32;
        // What is added beyond the end is far from turning the counter over.
        let begun =
            if self.next() < END { self.next.0.fetch_add(count as u64, Ordering::Relaxed) } else { END };
        begun.min(END)..(begun + count as u64).min(END)
    }

    /// The number that the next packet gets.
    pub(super) fn next(&self) -> u64 {
        self.next.0.load(Ordering::Relaxed)
    }

    /// The initialisation vector of a number.
    pub(super) fn iv(&self, number: u64) -> [u8; 16] {
        self.ivs.get(number)
    }
}

impl Association {
    fn new(agreed: &Agreed) -> Result<Association, SuiteError> {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        let size = u32::from(agreed.window.max(1));
        // As if all numbers before the first had come.
        let came = vec![u32::MAX; size.div_ceil(32) as usize];
        Ok(Association {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            aes: Aes::new(&agreed.material.encryption),
            des: DesKey::new(&agreed.material.encryption[..DesKey::BLOCK_LEN]).expect("the length is right"),
            authenticator: Authenticator::new(&agreed.material.authentication),
            counter: Counter::new(agreed.first)?,
            window: Window::restored(size, false, u64::from(agreed.first) - 1, &came),
            agreed: agreed.clone(),
        })
    }

    /// The number that packets bear.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Notes on a packet that it belongs to this one.
    pub(super) fn mark(&self, packet: &mut Packet) {
        packet.set_anno_u32(anno::IPSEC_SA, self.number);
        packet.set_anno_u32(anno::IPSEC_SPI, self.agreed.spi);
    }
}

/// Takes the note from a packet.
pub(super) fn unmark(packet: &mut Packet) {
    if packet.anno_u32(anno::IPSEC_SA) != 0 {
        packet.set_anno_u32(anno::IPSEC_SA, 0);
        packet.set_anno_u32(anno::IPSEC_SPI, 0);
    }
}

/// Associations by SPI.
pub(super) type BySpi = HashMap<u32, Arc<Association>, RandomState>;

/// Makes an association.
///
/// # Errors
/// Why there is none.
pub(super) fn make(agreed: &Agreed) -> Result<Arc<Association>, String> {
    erase::apart(|| Association::new(agreed).map(Arc::new).map_err(|why| why.to_string()))
}

/// The associations of a table, as packets find them.
pub(super) struct Associations(rcu::Cell<BySpi>);

impl Associations {
    pub(super) fn new(domain: &rcu::Domain) -> Associations {
        Associations(rcu::Cell::new(domain, BySpi::default()))
    }

    /// Shows workers these from now on.
    ///
    /// # Errors
    /// Too many versions wait for workers.
    pub(super) fn publish(&self, all: BySpi) -> Result<(), String> {
        let bytes = all.len() * size_of::<Association>();
        self.0.publish_sized(all, bytes).map_err(|stalled| stalled.to_string())
    }

    /// The one with this SPI.
    #[inline]
    pub(super) fn get<'a>(&'a self, rcu: &'a rcu::Reader, spi: u32) -> Option<&'a Association> {
        self.0.read(rcu).get(&spi).map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_run_out_and_none_comes_twice() {
        let counter = Counter::new(u32::MAX - 4).unwrap();
        assert_eq!(counter.take(3), 0xffff_fffb..0xffff_fffe);
        assert_eq!(counter.take(3), 0xffff_fffe..0x1_0000_0000, "two are left");
        assert_eq!((counter.take(1).count(), counter.take(32).count()), (0, 0));
        assert_ne!(counter.iv(1), counter.iv(2));
        assert_ne!(counter.iv(1), Counter::new(1).unwrap().iv(1));
    }

    #[test]
    fn workers_never_take_the_same_number() {
        let counter = Counter::new(u32::MAX - 20_000).unwrap();
        let take = || (0..1000).flat_map(|at| counter.take(at % 11)).collect::<Vec<u64>>();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(
            all.iter().copied().eq(u64::from(u32::MAX - 20_000)..=u32::MAX.into()),
            "each once, to the last"
        );
    }
}
