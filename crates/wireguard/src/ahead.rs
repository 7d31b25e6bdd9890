// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking ahead for the memory that packets need.
//!
//! With thousands of peers, a packet waits for memory again and again: for the peer, its cells, its session, its counts. Each of these says where the next one is.
//! Here all packets of a batch take each step together, so their waits overlap:
//!
//! ```text
//!  number -> place in the table -> peer -> cells -> session, line of counts -> word of the window
//! ```
//!
//! Nothing changes but timing. With few peers all of it is in the caches, and nothing is asked for.

use arrayvec::ArrayVec;
use sync::prefetch::{prefetch, prefetch_at};
use sync::rcu::Reader;

use crate::device::Device;
use crate::peer::{Peer, place_of};

/// Packets that are looked at together.
pub const AT_ONCE: usize = 64;
/// A device with so many peers is worth it.
const MANY: usize = 256;

impl Device {
    /// Whether packets in a batch of `len` should ask ahead.
    #[inline]
    pub fn asks_ahead(&self, reader: &Reader, len: usize) -> bool {
        len > 1 && self.table(reader).len() >= MANY
    }

    /// Asks for what sealing packets to these peers needs, at most [`AT_ONCE`]. Numbers of no peer are left out.
    pub fn fetch_to_seal(&self, reader: &Reader, worker: usize, numbers: &[u32]) {
        let table = self.table(reader);
        let numbers = &numbers[..numbers.len().min(AT_ONCE)];
        numbers.iter().for_each(|number| table.prefetch(*number as usize));
        let peers: ArrayVec<&Peer, AT_ONCE> =
            numbers.iter().filter_map(|number| table.get(*number as usize)).map(AsRef::as_ref).collect();
        peers.iter().for_each(|peer| prefetch(*peer));
        peers.iter().for_each(|peer| peer.fetch_cells(reader, worker, None));
        for peer in &peers {
            peer.fetch_line(worker);
            if let Some(session) = peer.current(reader) {
                session.lines_to_send().into_iter().for_each(prefetch_at);
            }
        }
    }

    /// Asks for what opening messages needs that name these indices and counters, at most [`AT_ONCE`]. Nothing about them need be true.
    pub fn fetch_to_open(&self, reader: &Reader, worker: usize, named: &[(u32, u64)]) {
        let table = self.table(reader);
        let named = &named[..named.len().min(AT_ONCE)];
        let places = || named.iter().map(|(index, _)| place_of(*index));
        places().for_each(|(number, _)| table.prefetch(number));
        let peers: ArrayVec<(&Peer, usize, u64), AT_ONCE> = places()
            .zip(named)
            .filter_map(|((number, place), (_, counter))| {
                Some((table.get(number)?.as_ref(), place, *counter))
            })
            .collect();
        peers.iter().for_each(|(peer, ..)| peer.fetch_head());
        peers.iter().for_each(|(peer, place, _)| peer.fetch_cells(reader, worker, Some(*place)));
        for (peer, place, _) in &peers {
            peer.fetch_line(worker);
            if let Some(session) = peer.at(reader, *place) {
                session.lines_to_receive().into_iter().for_each(prefetch_at);
            }
        }
        for (peer, place, counter) in &peers {
            if let Some(session) = peer.at(reader, *place) {
                prefetch_at(session.window().line_of(counter.wrapping_add(1) as u32));
            }
        }
    }
}
