// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check values of handshake messages, and cookies (white paper, 5.4.4 and 5.4.7).
//!
//! `mac1` shows that a sender knows this side's public key. `mac2` shows that it receives at its address: a busy receiver sends a cookie there, and works
//! only for those who use it.

use std::net::{IpAddr, SocketAddr};

use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, FixedOutput as _, Update as _};
use blake2::{Blake2s256, Blake2sMac};
use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::key::PublicKey;
use crate::limits::COOKIE;
use crate::message::{self, COOKIE_LEN, Cookie, MAC_LEN};

/// A check value.
pub type Mac = [u8; MAC_LEN];

fn keyed(key: &[u8], parts: &[&[u8]]) -> Mac {
    let mut mac: Blake2sMac<U16> = blake2::digest::KeyInit::new_from_slice(key).expect("at most 32 bytes");
    parts.iter().for_each(|part| blake2::digest::Mac::update(&mut mac, part));
    mac.finalize_fixed().into()
}

fn labelled(label: &[u8; 8], key: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain(label).chain(key.0).finalize().into()
}

/// Whether two check values are the same; takes the same time wherever they differ.
fn same(a: &Mac, b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | a ^ b) == 0
}

/// What belongs to one receiver's public key.
#[derive(Clone)]
pub struct Receiver {
    mac1: [u8; 32],
    cookie: [u8; 32],
}

impl Receiver {
    /// That of a key.
    pub fn new(key: &PublicKey) -> Receiver {
        Receiver { mac1: labelled(b"mac1----", key), cookie: labelled(b"cookie--", key) }
    }

    /// Completes a handshake message to this receiver: `mac1`, and `mac2` if there is a cookie. Returns `mac1`.
    pub fn finish(&self, message: &mut [u8], cookie: Option<&Mac>) -> Mac {
        let (front, macs) = message.split_at_mut(message.len() - 2 * MAC_LEN);
        let mac1 = keyed(&self.mac1, &[front]);
        macs[..MAC_LEN].copy_from_slice(&mac1);
        if let Some(cookie) = cookie {
            let mac2 = keyed(cookie, &[front, &mac1]);
            macs[MAC_LEN..].copy_from_slice(&mac2);
        }
        mac1
    }

    /// Whether a handshake message is for this receiver.
    pub fn is_mine(&self, message: &[u8]) -> bool {
        let (front, macs) = message.split_at(message.len() - 2 * MAC_LEN);
        same(&keyed(&self.mac1, &[front]), &macs[..MAC_LEN])
    }

    /// The cookie in a reply of this receiver to a message that had `mac1`; `None` if it is forged.
    pub fn open(&self, reply: &Cookie<'_>, mac1: &Mac) -> Option<Mac> {
        let cipher = <XChaCha20Poly1305 as chacha20poly1305::KeyInit>::new(&self.cookie.into());
        let (mut cookie, tag) = (*reply.sealed.first_chunk::<16>()?, reply.sealed.last_chunk::<16>()?);
        let nonce = XNonce::from_slice(reply.nonce);
        cipher.decrypt_in_place_detached(nonce, mac1, &mut cookie, tag.into()).ok()?;
        Some(cookie)
    }

    fn seal(&self, cookie: Mac, nonce: &[u8; 24], mac1: &[u8]) -> [u8; 32] {
        let cipher = <XChaCha20Poly1305 as chacha20poly1305::KeyInit>::new(&self.cookie.into());
        let mut sealed = [0; 32];
        sealed[..16].copy_from_slice(&cookie);
        let tag = cipher.encrypt_in_place_detached(XNonce::from_slice(nonce), mac1, &mut sealed[..16]);
        sealed[16..].copy_from_slice(&tag.expect("so few bytes can always be encrypted"));
        sealed
    }
}

/// Makes and checks cookies, by a secret that changes every two minutes.
#[derive(Default)]
pub struct Baker {
    secret: Zeroizing<[u8; 32]>,
    made_ns: Option<u64>,
}

impl Baker {
    /// The cookie of an address now; `None` if the system has no randomness.
    fn cookie(&mut self, from: SocketAddr, now_ns: u64) -> Option<Mac> {
        if self.made_ns.is_none_or(|made| now_ns.saturating_sub(made) >= COOKIE) {
            SystemRandom::new().fill(&mut *self.secret).ok()?;
            self.made_ns = Some(now_ns);
        }
        let port = from.port().to_be_bytes();
        Some(match from.ip() {
            IpAddr::V4(ip) => keyed(&*self.secret, &[&ip.octets(), &port]),
            IpAddr::V6(ip) => keyed(&*self.secret, &[&ip.octets(), &port]),
        })
    }

    /// Whether a handshake message proves that its sender receives at this address.
    pub fn is_proven(&mut self, message: &[u8], from: SocketAddr, now_ns: u64) -> bool {
        let (front, mac2) = message.split_at(message.len() - MAC_LEN);
        self.cookie(from, now_ns).is_some_and(|cookie| same(&keyed(&cookie, &[front]), mac2))
    }

    /// The reply to a handshake message that proves nothing.
    pub fn reply(
        &mut self,
        receiver: &Receiver,
        message: &[u8],
        sender: u32,
        from: SocketAddr,
        now_ns: u64,
    ) -> Option<[u8; COOKIE_LEN]> {
        let cookie = self.cookie(from, now_ns)?;
        let mut nonce = [0; 24];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mac1 = &message[message.len() - 2 * MAC_LEN..message.len() - MAC_LEN];
        Some(message::cookie(sender, &nonce, &receiver.seal(cookie, &nonce, mac1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Secret;
    use crate::message::Message;

    #[test]
    fn a_cookie_proves_one_address_for_a_while() {
        let key = Secret::generate().unwrap().public();
        let (receiver, mut baker) = (Receiver::new(&key), Baker::default());
        let from: SocketAddr = "192.0.2.1:51820".parse().unwrap();
        let mut message = message::initiation(7, &[3; 108]);
        let mac1 = receiver.finish(&mut message, None);
        assert!(receiver.is_mine(&message) && !baker.is_proven(&message, from, 0));
        let reply = baker.reply(&receiver, &message, 7, from, 0).unwrap();
        let Some(Message::Cookie(reply)) = Message::read(&reply) else { panic!() };
        assert_eq!(reply.receiver, 7);
        assert_eq!(receiver.open(&reply, &[0; 16]), None, "it answers another message");
        let cookie = receiver.open(&reply, &mac1).unwrap();
        receiver.finish(&mut message, Some(&cookie));
        assert!(baker.is_proven(&message, from, COOKIE - 1));
        assert!(!baker.is_proven(&message, "192.0.2.1:51821".parse().unwrap(), 0), "another port");
        assert!(!baker.is_proven(&message, "[2001:db8::1]:51820".parse().unwrap(), 0));
        assert!(!baker.is_proven(&message, from, COOKIE), "the secret is another one");
        message[20] ^= 1;
        assert!(!receiver.is_mine(&message));
    }
}
