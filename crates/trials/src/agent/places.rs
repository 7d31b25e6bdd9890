// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is served by an agent, and who only calls it.
//!
//! A place is for who has shown the key. Strangers wait elsewhere, and if there are many of them, who has waited longest is hung up on:
//! so they keep nobody out who has the key, for whom an introduction takes no longer than a round trip.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Key holders at a time.
pub(super) const PLACES: usize = 16;
/// Strangers at a time.
const STRANGERS: usize = 64;

/// All that are there.
#[derive(Default)]
pub(super) struct Places(Mutex<Guests>);

#[derive(Default)]
struct Guests {
    serving: usize,
    /// By number, who has waited longest first.
    strangers: VecDeque<(u64, TcpStream)>,
    next: u64,
}

impl Places {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all places are taken.
    pub(super) fn are_taken(&self) -> bool {
        self.guests().serving >= PLACES
    }

    /// Lets somebody in who has not shown the key yet.
    pub(super) fn receive(&self, stream: &TcpStream) -> io::Result<Stranger<'_>> {
        let stream = stream.try_clone()?;
        let mut guests = self.guests();
        if guests.strangers.len() >= STRANGERS {
            // Who has hung up need not be hung up on.
            guests.strangers.pop_front().map(|(_, oldest)| oldest.shutdown(Shutdown::Both));
        }
        let number = guests.next;
        guests.next += 1;
        guests.strangers.push_back((number, stream));
        Ok(Stranger { places: self, number })
    }
}

/// Who has not shown the key yet. Dropped, it is none any more.
pub(super) struct Stranger<'a> {
    places: &'a Places,
    number: u64,
}

impl<'a> Stranger<'a> {
    /// Gives it a place, now that it has shown the key; nothing if all are taken.
    pub(super) fn seat(self) -> Option<GuestPlace<'a>> {
        let mut guests = self.places.guests();
        (guests.serving < PLACES).then(|| {
            guests.serving += 1;
            GuestPlace(self.places)
        })
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        self.places.guests().strangers.retain(|(number, _)| *number != self.number);
    }
}

/// A key holder's place, free again once this is dropped.
pub(super) struct GuestPlace<'a>(&'a Places);

impl Drop for GuestPlace<'_> {
    fn drop(&mut self) {
        self.0.guests().serving -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_oldest_stranger_makes_room_and_places_are_for_key_holders() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("its address");
        let call = || (TcpStream::connect(address).expect("a call"), listener.accept().expect("a caller").0);
        let places = Places::default();
        let mut calls: Vec<_> = (0..=STRANGERS).map(|_| call()).collect();
        let mut strangers: Vec<_> =
            calls.iter().map(|(_, stream)| places.receive(stream).expect("received")).collect();
        assert_eq!(places.guests().strangers.len(), STRANGERS);
        assert_eq!(calls[0].0.read(&mut [0]).expect("an end"), 0, "the oldest was hung up on");
        calls[1].0.set_nonblocking(true).expect("set");
        assert!(calls[1].0.read(&mut [0]).is_err_and(|why| why.kind() == io::ErrorKind::WouldBlock));
        assert!(!places.are_taken());
        let seated: Vec<_> =
            (0..PLACES).map(|_| strangers.pop().and_then(Stranger::seat).expect("a place")).collect();
        assert!(places.are_taken() && strangers.pop().and_then(Stranger::seat).is_none());
        drop(seated);
        assert!(!places.are_taken() && strangers.pop().and_then(Stranger::seat).is_some());
        drop(strangers);
        assert!(places.guests().strangers.is_empty() && places.guests().serving == 0);
    }
}
