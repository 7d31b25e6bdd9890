// SPDX-License-Identifier: MIT OR Apache-2.0
//! One session: a key for each direction, the number of the last packet sent, and the window of those received.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use erase::Erased;
use esp::replay::{Refused, Window};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::limits::{REJECT_AFTER, REJECT_AFTER_MESSAGES};
use crate::message::TAG_LEN;
use crate::noise::Keys;

/// Packets that may come late: as many as fit the window's 64 words.
const WINDOW: u32 = 2016;

/// A session. All workers may use it at once.
pub struct Session {
    /// What it is called in messages to this side.
    pub local: u32,
    /// What it is called in messages to the peer.
    pub remote: u32,
    /// Whether this side began it.
    pub is_initiator: bool,
    /// When it was made, in nanoseconds.
    pub made_ns: u64,
    /// Whether the peer is known to have its keys. Only the side that answered must wait for that.
    confirmed: AtomicBool,
    send: Erased<LessSafeKey>,
    receive: Erased<LessSafeKey>,
    sent: Sent,
    /// Counters from 0 are numbers from 1.
    window: Window,
}

/// How many packets were sent, on a line of its own.
#[repr(align(64))]
struct Sent(AtomicU64);

fn key(bytes: &[u8; 32]) -> Erased<LessSafeKey> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("the key has the right length");
    Erased::new(LessSafeKey::new(key))
}

/// Where a value begins, and its last byte. A key for ChaCha20 uses the first bytes of the room for all keys, and what stands last.
#[inline]
fn ends<T>(value: &T) -> [*const u8; 2] {
    let first = ptr::from_ref(value).cast::<u8>();
    [first, first.wrapping_add(size_of::<T>() - 1)]
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Session {
    /// A session with these keys.
    pub fn new(keys: &Keys, local: u32, remote: u32, is_initiator: bool, made_ns: u64) -> Session {
        Session {
            local,
            remote,
            is_initiator,
            made_ns,
            confirmed: AtomicBool::new(is_initiator),
            send: key(keys.send.bytes()),
            receive: key(keys.receive.bytes()),
            sent: Sent(AtomicU64::new(0)),
            window: Window::new(WINDOW, true),
        }
    }

    /// Its age.
    #[inline]
    pub fn age(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.made_ns)
    }

    /// Whether it has ended.
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.age(now_ns) >= REJECT_AFTER
    }

    /// Whether the peer is known to have its keys.
    #[inline]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// The peer has shown that it has the keys. Whether that is news.
    pub(crate) fn confirm(&self) -> bool {
        !self.confirmed.swap(true, Ordering::Relaxed)
    }

    /// Takes counters for so many packets: the first one. `None` when they have run out; none is ever used twice.
    #[inline]
    pub fn take_counters(&self, count: u32) -> Option<u64> {
        let fits =
            |before: u64| before.checked_add(count.into()).is_some_and(|end| end <= REJECT_AFTER_MESSAGES);
        if !fits(self.sent.0.load(Ordering::Relaxed)) {
            return None;
        }
        // Several workers may come here together at the end. What they add beyond it is far from turning over.
        Some(self.sent.0.fetch_add(count.into(), Ordering::Relaxed)).filter(|before| fits(*before))
    }

    /// The cache lines that sealing a packet needs, as addresses, which are only for asking for them ahead.
    #[inline]
    pub(crate) fn lines_to_send(&self) -> [*const u8; 4] {
        let [first, last] = ends(&self.send);
        [first, last, ptr::from_ref(&self.sent).cast(), ptr::from_ref(&self.remote).cast()]
    }

    /// The same for opening one. Where its number is noted, the window says.
    #[inline]
    pub(crate) fn lines_to_receive(&self) -> [*const u8; 4] {
        let [first, last] = ends(&self.receive);
        [first, last, ptr::from_ref(&self.window).cast(), ptr::from_ref(&self.local).cast()]
    }

    /// How many packets were sent.
    pub fn sent(&self) -> u64 {
        self.sent.0.load(Ordering::Relaxed)
    }

    /// Encrypts a packet in its place. Returns what stands behind it.
    #[inline]
    pub fn seal(&self, counter: u64, packet: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self.send.seal_in_place_separate_tag(nonce(counter), Aad::empty(), packet);
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.expect("a packet is short enough").as_ref());
        bytes
    }

    /// Decrypts a packet in its place. Whether it is genuine.
    #[inline]
    pub fn open(&self, counter: u64, packet: &mut [u8], tag: [u8; TAG_LEN]) -> bool {
        self.receive
            .open_in_place_separate_tag(nonce(counter), Aad::empty(), Tag::from(tag), packet, 0..)
            .is_ok()
    }

    /// Whether a packet with this counter may pass.
    ///
    /// # Errors
    /// It came before, or is too old.
    #[inline]
    pub fn check(&self, counter: u64) -> Result<(), Refused> {
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(Refused::TooFar);
        }
        self.window.check(counter + 1)
    }

    /// What remembers the numbers of packets that came, which are their counters plus one.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Secret;

    fn pair() -> (Session, Session) {
        let keys = |a, b| Keys { send: Secret::new([a; 32]), receive: Secret::new([b; 32]) };
        (Session::new(&keys(1, 2), 10, 20, true, 0), Session::new(&keys(2, 1), 20, 10, false, 0))
    }

    #[test]
    fn what_one_side_seals_the_other_one_opens() {
        let (a, b) = pair();
        let mut packet = *b"sixteen bytes ..";
        let tag = a.seal(5, &mut packet);
        assert_ne!(&packet, b"sixteen bytes ..");
        let mut bent = packet;
        bent[3] ^= 1;
        assert!(!b.open(5, &mut bent, tag));
        let mut other = packet;
        assert!(!b.open(6, &mut other, tag), "another counter");
        assert!(b.open(5, &mut packet, tag));
        assert_eq!(&packet, b"sixteen bytes ..");
    }

    /// Vector of RFC 8439, 2.8.2, without its associated data: computed by Python's `cryptography`.
    #[test]
    fn the_nonce_is_the_counter_in_little_endian() {
        let Ok(tag) = nonce(0x0102_0304_0506_0708).as_ref()[..].try_into() else { panic!() };
        let bytes: [u8; 12] = tag;
        assert_eq!(bytes, [0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn counters_run_out_and_none_comes_twice() {
        let (a, _) = pair();
        assert_eq!((a.take_counters(3), a.take_counters(1), a.sent()), (Some(0), Some(3), 4));
        a.sent.0.store(REJECT_AFTER_MESSAGES - 2, Ordering::Relaxed);
        assert_eq!((a.take_counters(3), a.take_counters(2)), (None, Some(REJECT_AFTER_MESSAGES - 2)));
        assert_eq!((a.take_counters(1), a.take_counters(64)), (None, None));
    }

    #[test]
    fn workers_never_take_the_same_counter() {
        const TAKES: usize = 50_000;
        let (a, _) = pair();
        let take = || (0..TAKES).map(|_| a.take_counters(2).expect("there are more")).collect::<Vec<_>>();
        let mut firsts: Vec<u64> = std::thread::scope(|scope| {
            let workers = [(); 4].map(|()| scope.spawn(take));
            workers.into_iter().flat_map(|worker| worker.join().expect("it takes counters")).collect()
        });
        firsts.sort_unstable();
        assert!(firsts.into_iter().eq((0..4 * TAKES as u64).map(|n| 2 * n)));
    }

    #[test]
    fn counters_pass_once() {
        let (_, b) = pair();
        assert_eq!(b.check(0), Ok(()));
        assert_eq!(b.window().accept_first(&[1, 2, 4]), Ok(3));
        assert_eq!((b.check(0), b.check(2)), (Err(Refused::Replayed), Ok(())));
        assert_eq!(b.window().accept_first(&[5000]), Ok(1));
        assert_eq!(b.check(2), Err(Refused::TooOld));
        assert_eq!(b.check(u64::MAX), Err(Refused::TooFar));
        assert!(!b.is_over(REJECT_AFTER - 1) && b.is_over(REJECT_AFTER));
        assert!(!b.is_confirmed() && b.confirm() && !b.confirm());
    }
}
