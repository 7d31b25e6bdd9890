// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake: Noise_IKpsk2 as `snow` has it, and the keys that come of it (white paper, 5.4).
//!
//! `snow` keeps keys of a handshake in memory that it does not overwrite. They are ephemeral, and nobody shows them. Keys of sessions are overwritten.

use std::sync::LazyLock;

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use crate::key::{KEY_LEN, PublicKey, Secret, erase};
use crate::message::{NOISE_FIRST_LEN, NOISE_SECOND_LEN};

static PARAMS: LazyLock<NoiseParams> =
    LazyLock::new(|| "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().expect("snow knows this protocol"));
const PROLOGUE: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
/// Where the preshared key is mixed in.
const PSK_AT: u8 = 2;

/// Seconds and nanoseconds of an initiation, so that a later one is larger (TAI64N).
pub type Timestamp = [u8; 12];

/// A handshake message that is not genuine, or not for this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handshake message that is not genuine")]
pub struct Forged;

/// The keys of a session.
pub struct Keys {
    /// For what this side sends.
    pub send: Zeroizing<[u8; KEY_LEN]>,
    /// For what it receives.
    pub receive: Zeroizing<[u8; KEY_LEN]>,
}

impl Keys {
    fn of(mut state: HandshakeState) -> Keys {
        let (mut a, mut b) = state.dangerously_get_raw_split();
        let (first, second) = (Zeroizing::new(a), Zeroizing::new(b));
        erase(&mut a);
        erase(&mut b);
        // The first key is that of the initiator.
        match state.is_initiator() {
            true => Keys { send: first, receive: second },
            false => Keys { send: second, receive: first },
        }
    }
}

/// A handshake that this side has begun.
pub struct Begun(HandshakeState);

/// Begins a handshake: Noise's first message.
///
/// # Errors
/// The system has no randomness, or the peer's key is none: everybody could compute what it makes together with a private one.
pub fn begin(
    local: &Secret,
    remote: &PublicKey,
    preshared: &Secret,
    timestamp: &Timestamp,
) -> Result<(Begun, [u8; NOISE_FIRST_LEN]), Forged> {
    if !remote.is_a_secret_with(local) {
        return Err(Forged);
    }
    let mut message = [0; NOISE_FIRST_LEN];
    let mut build = || {
        let builder = Builder::new(PARAMS.clone()).prologue(PROLOGUE)?.local_private_key(local.bytes())?;
        let mut state =
            builder.remote_public_key(&remote.0)?.psk(PSK_AT, preshared.bytes())?.build_initiator()?;
        state.write_message(timestamp, &mut message)?;
        Ok::<_, snow::Error>(state)
    };
    let state = build().map_err(|_| Forged)?;
    Ok((Begun(state), message))
}

impl Begun {
    /// Ends the handshake with Noise's second message. A forged one leaves it as it is, so that the real one may still come.
    ///
    /// # Errors
    /// The message is forged.
    pub fn finish(self, message: &[u8; NOISE_SECOND_LEN]) -> Result<Keys, Box<Begun>> {
        let Begun(mut state) = self;
        match state.read_message(message, &mut []) {
            Ok(_) => Ok(Keys::of(state)),
            Err(_) => Err(Box::new(Begun(state))),
        }
    }
}

/// A handshake that a peer has begun.
pub struct Asked {
    state: HandshakeState,
    /// Who it is: proven.
    pub remote: PublicKey,
    /// When it began.
    pub timestamp: Timestamp,
}

/// Reads Noise's first message.
///
/// # Errors
/// It is forged, or for another key.
pub fn read(local: &Secret, message: &[u8; NOISE_FIRST_LEN]) -> Result<Asked, Forged> {
    let mut timestamp = Timestamp::default();
    let mut build = || {
        let builder = Builder::new(PARAMS.clone()).prologue(PROLOGUE)?.local_private_key(local.bytes())?;
        let mut state = builder.build_responder()?;
        let len = state.read_message(message, &mut timestamp)?;
        Ok::<_, snow::Error>((state, len))
    };
    let (state, len) = build().map_err(|_| Forged)?;
    let remote =
        state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey).ok_or(Forged)?;
    if len != timestamp.len() {
        return Err(Forged);
    }
    Ok(Asked { state, remote, timestamp })
}

impl Asked {
    /// Agrees: Noise's second message, and the keys.
    ///
    /// # Errors
    /// The system has no randomness, or the peer's ephemeral key is none.
    pub fn answer(mut self, preshared: &Secret) -> Result<(Keys, [u8; NOISE_SECOND_LEN]), Forged> {
        let mut message = [0; NOISE_SECOND_LEN];
        self.state.set_psk(PSK_AT.into(), preshared.bytes()).map_err(|_| Forged)?;
        self.state.write_message(&[], &mut message).map_err(|_| Forged)?;
        Ok((Keys::of(self.state), message))
    }
}

/// The timestamp of a moment in nanoseconds since 1970. Its last 24 bits are zeros, so that it does not tell the clock's state.
pub fn timestamp(wall_ns: u64) -> Timestamp {
    const SECOND: u64 = crate::limits::SECOND;
    /// The label of 1970 in TAI64, with ten seconds of difference as the kernel has it.
    const EPOCH: u64 = 0x4000_0000_0000_000a;
    let mut bytes = Timestamp::default();
    let nanos = (wall_ns % SECOND) as u32 & !0x00ff_ffff;
    bytes[..8].copy_from_slice(&(EPOCH + wall_ns / SECOND).to_be_bytes());
    bytes[8..].copy_from_slice(&nanos.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Secret, Secret) {
        (Secret::generate().unwrap(), Secret::generate().unwrap())
    }

    #[test]
    fn both_sides_come_to_the_same_keys() {
        let (alice, bob) = pair();
        let preshared = Secret::new([9; 32]);
        let at = timestamp(1_700_000_000_000_000_000);
        let (begun, first) = begin(&alice, &bob.public(), &preshared, &at).unwrap();
        let asked = read(&bob, &first).unwrap();
        assert_eq!((asked.remote, asked.timestamp), (alice.public(), at));
        let (theirs, second) = asked.answer(&preshared).unwrap();
        let mut forged = second;
        forged[40] ^= 1;
        let begun = *begun.finish(&forged).err().unwrap();
        let mine = begun.finish(&second).ok().unwrap();
        assert_eq!((&*mine.send, &*mine.receive), (&*theirs.receive, &*theirs.send));
        assert_ne!(*mine.send, *mine.receive);
    }

    #[test]
    fn another_key_or_secret_is_refused() {
        let (alice, bob) = pair();
        let (begun, first) = begin(&alice, &bob.public(), &Secret::new([0; 32]), &[1; 12]).unwrap();
        assert!(read(&alice, &first).is_err(), "it is not for Alice");
        for bit in [0, 31 * 8, 40 * 8, 90 * 8, 107 * 8] {
            let mut bent = first;
            bent[bit / 8] ^= 1;
            assert!(read(&bob, &bent).is_err(), "bit {bit}");
        }
        let (_, second) = read(&bob, &first).unwrap().answer(&Secret::new([1; 32])).unwrap();
        assert!(begun.finish(&second).is_err(), "the preshared keys differ");
    }

    #[test]
    fn timestamps_grow() {
        let at = |ns: u64| timestamp(1_700_000_000_000_000_000 + ns);
        assert!(at(20_000_000) > at(0) && at(1_000_000_000) > at(999_999_999));
        assert_eq!(at(0), at(1000), "small differences do not show");
        assert_eq!(timestamp(0)[..8], [0x40, 0, 0, 0, 0, 0, 0, 10]);
    }
}
