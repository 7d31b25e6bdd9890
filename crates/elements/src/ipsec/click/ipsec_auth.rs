// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecAuthHMACSHA1, IPsecAuthSHA1
//!
//! `IPsecAuthHMACSHA1(VERIFY)`
//!
//! Appends a digest to ESP packets, or checks it and takes it off: the first 96 bits of HMAC-SHA1 with the association's AUTH_KEY (RFC 2404) over all that is
//! there, from the ESP header on. IPsecAuthSHA1 takes SHA-1 without a key, which anybody can compute: it finds damage and no forgery.
//!
//! Both are obsolete and here for configurations of Click. Where you may choose, encrypt first and append the digest then (`IPsecAES(1, IV 16)` before this
//! one): so ESP is specified, and nothing forged is ever decrypted. Click's own examples do it the other way round.
//!
//! **Ports:** 1 input; 1 or 2 outputs, the first agnostic. The second, push, is for packets that are not authentic.
//!
//! **Arguments**
//! * `VERIFY` boolean: false (0) appends a digest, true (1) checks it.
//!
//! **Metadata:** the association's number read, which RadixIPsecLookup sets; not by IPsecAuthSHA1.
//!
//! **Drops:** `no-sa`; `no-memory`. Unless the second output is connected: `bad-icv`, and `too-short`, packets that have no room for a digest.
//!
//! **Handlers**
//! * `drops` read: packets that were not authentic or too short, whether dropped or not.
//!
//! # Differences from Click
//! * Digests are compared in a time that does not depend on them, so nobody can guess one byte by byte.
//! * Packets without association are dropped. Click crashes.
//!
//! ```click
//! rt :: RadixIPsecLookup(10.0.0.0/8 1.0.0.2 1 300 \<00112233445566778899aabbccddeeff> \<ffeeddccbbaa99887766554433221100> 1 64, 192.0.2.1/32 0);
//! Idle -> rt; rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard;
//! Idle -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> Discard;
//! ```
//!
//! See also: RadixIPsecLookup, IPsecAES. RFC 2404, RFC 8221

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, Handler, InitCx, Reason, carries, handlers};
use esp::click::{DIGEST_LEN, checksum};
use packet::{Batch, Packet};

use super::association::Association;
use super::finder::Finder;

const HANDLERS: &[Handler] = handlers! { IpsecAuth:
    read "drops" => .drops;
};

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1/1-2", make)
        .processing("a/ah")
        .handlers(HANDLERS)
        .hot_swap::<IpsecAuth>()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("IPsecAuthHMACSHA1", || Box::new(IpsecAuth::new(true)));
/// The descriptor of the class without key.
pub const PLAIN: Class = class("IPsecAuthSHA1", || Box::new(IpsecAuth::new(false)));

struct IpsecAuth {
    has_key: bool,
    verify: bool,
    /// Packets that were not authentic.
    drops: Count,
    finder: Finder,
}

impl IpsecAuth {
    fn new(has_key: bool) -> IpsecAuth {
        IpsecAuth { has_key, verify: false, drops: Count::default(), finder: Finder::default() }
    }
}

fn append(found: Option<&Association>, packet: &mut Packet) -> Result<(), Reason> {
    let digest = match found {
        Some(association) => association.authenticator.digest(packet.data()),
        None => checksum(packet.data()),
    };
    let at = packet.len();
    packet.put(DIGEST_LEN).ok_or(Reason::NoMemory)?[at..].copy_from_slice(&digest);
    Ok(())
}

fn verify(found: Option<&Association>, packet: &mut Packet) -> Result<(), Reason> {
    let (bytes, digest) = packet.data().split_last_chunk::<DIGEST_LEN>().ok_or(Reason::TooShort)?;
    let is_right = match found {
        Some(association) => association.authenticator.is_right(bytes, digest),
        None => checksum(bytes) == *digest,
    };
    if !is_right {
        return Err(Reason::BadIcv);
    }
    packet.trim(DIGEST_LEN);
    Ok(())
}

impl Element for IpsecAuth {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.verify = args.required("VERIFY");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.finder.find(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let IpsecAuth { has_key, verify: verifies, drops, finder } = self;
        let work = |found: Option<&Association>, packet: &mut Packet| {
            let found = found.filter(|_| *has_key);
            if *verifies { verify(found, packet) } else { append(found, packet) }
        };
        finder.each(cx, batch, *has_key, work, |cx, why, packet| match why {
            Reason::BadIcv | Reason::TooShort => {
                *drops += 1;
                cx.push_one_or_drop(1, packet, why);
            }
            _ => cx.drop(why, packet),
        })
    }
}

carries!(IpsecAuth: drops; anew has_key, verify, finder);

#[cfg(test)]
mod tests {
    use super::super::samples::KEYS;
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn a_digest_is_appended_and_taken_off() {
        for burst in [1, 32] {
            let keyed = format!(
                "i :: TestIn -> a :: RadixIPsecLookup(0/0 1 5 {KEYS} 1 1); a[0] -> Discard;
                 a[1] -> IPsecAuthHMACSHA1(0) -> t :: Tee -> e :: IPsecAuthHMACSHA1(VERIFY true) -> o :: TestOut; t[1] -> wire :: TestOut;"
            );
            let run = Rig::text(&keyed).burst(burst).inputs(&[b"abc", b""]).run();
            assert_eq!(run.bytes("o"), [&b"abc"[..], b""]);
            let wire = run.bytes("wire");
            // Python: hmac.new(bytes.fromhex("112233EE556677888877665544332211"), b"abc", "sha1")
            let want = [0xe4, 0x2f, 0x5e, 0x77, 0xf7, 0x8b, 0xde, 0x3b, 0x11, 0x2a, 0x54, 0xee];
            assert_eq!((wire[0].len(), wire[1].len(), &wire[0][3..]), (15, 12, &want[..]));
            let run = Rig::text("i :: TestIn -> IPsecAuthSHA1(0) -> e :: IPsecAuthSHA1(1) -> o :: TestOut;")
                .burst(burst)
                .inputs(&[b"abc"])
                .run();
            assert_eq!(run.bytes("o"), [b"abc"]);
        }
    }

    #[test]
    fn what_is_not_authentic_leaves_by_the_second_output_or_is_dropped() {
        for burst in [1, 32] {
            let inputs: &[&[u8]] = &[b"abcdefghijklmnop", b"short"];
            let mut run = Rig::new("IPsecAuthSHA1(1)").burst(burst).inputs(inputs).run();
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::BadIcv, 1)]);
            assert_eq!(run.read("e.drops"), "2");
            let mut run = Rig::new("IPsecAuthSHA1(1)").outputs(2).burst(burst).inputs(inputs).run();
            assert_eq!(
                (run.bytes("o1"), run.drops("e")),
                (inputs.iter().map(|b| b.to_vec()).collect(), vec![])
            );
            assert_eq!(run.read("e.drops"), "2");
        }
    }
}
