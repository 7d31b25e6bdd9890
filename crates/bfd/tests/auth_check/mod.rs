// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `bfd_auth` and its corpus' replay share. The first byte chooses the session's authentication, the second one is its key; payloads of
//! UDP packets follow, each behind a byte for its length.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use junctor_bfd::{Auth, AuthKind, Config, Discard, SessionKey, SessionPlace, Sessions};
use md5::{Digest as _, Md5};
use sha1::Sha1;

/// The secret of all sessions.
pub const SECRET: &[u8] = b"secret";

/// Receives the payloads; says how many counted, and why the last one that did not was discarded.
pub fn check(data: &[u8]) -> (usize, Option<Discard>) {
    let [kind, key_id, rest @ ..] = data else { return (0, None) };
    let kind = AuthKind::ALL.get(usize::from(*kind) % (AuthKind::ALL.len() + 1)).copied();
    let auth = kind.map(|kind| Auth::new(kind, *key_id, SECRET).expect("short enough"));
    let mut sessions = Sessions::new();
    let neighbour =
        SessionKey { address: IpAddr::V4(Ipv4Addr::LOCALHOST), place: SessionPlace::Interface(0) };
    sessions.add(neighbour, Config { auth, ..Config::single_hop(1) }).expect("room");
    let (mut rest, mut taken, mut discarded, mut last) = (rest, 0, None, None);
    while let [len, more @ ..] = rest {
        let payload = more.get(..usize::from(*len)).unwrap_or(more);
        rest = more.get(payload.len()..).unwrap_or_default();
        match sessions.receive(payload, neighbour, 255, Duration::from_millis(1)) {
            Ok(_) => {
                let number = authentic(kind, *key_id, payload);
                // All come at one moment, so numbers may repeat or rise by little (RFC 5880 section 6.7.3).
                if let (Some(last), Some(number)) = (last, number) {
                    let least = u32::from(kind.is_some_and(|kind| kind.name().starts_with("meticulous")));
                    let rise = u32::wrapping_sub(number, last);
                    assert!((least..=3 * u32::from(payload[2])).contains(&rise), "{last} to {number}");
                }
                (taken, last) = (taken + 1, number);
            }
            Err(why) => discarded = Some(why),
        }
    }
    (taken, discarded)
}

/// Asserts that a payload which counted has the section that RFC 5880 sections 4.2 to 4.4 describe; returns its sequence number.
fn authentic(kind: Option<AuthKind>, key_id: u8, payload: &[u8]) -> Option<u32> {
    let packet = &payload[..usize::from(payload[3])];
    let Some(kind) = kind else {
        assert_eq!(packet[1] & 4, 0, "the A bit where no authentication is in use");
        return None;
    };
    assert_eq!(packet[1] & 4, 4, "no A bit");
    let section = &packet[24..];
    let digest_len = match kind {
        AuthKind::Password => {
            assert_eq!(section, [&[1, 3 + SECRET.len() as u8, key_id], SECRET].concat());
            return None;
        }
        AuthKind::Md5 | AuthKind::MeticulousMd5 => 16,
        AuthKind::Sha1 | AuthKind::MeticulousSha1 => 20,
    };
    let number = AuthKind::ALL.iter().position(|other| *other == kind).expect("listed") as u8 + 1;
    assert_eq!((section.len(), &section[..3]), (8 + digest_len, &[number, 8 + digest_len as u8, key_id][..]));
    let mut signed = [&packet[..32], SECRET].concat();
    signed.resize(32 + digest_len, 0);
    let digest = if digest_len == 16 { Md5::digest(signed).to_vec() } else { Sha1::digest(signed).to_vec() };
    assert_eq!(section[8..], digest);
    Some(u32::from_be_bytes([section[4], section[5], section[6], section[7]]))
}
