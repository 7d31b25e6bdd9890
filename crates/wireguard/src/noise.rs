// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake: Noise_IKpsk2 with its two messages, and the keys that come of it (white paper, 5.4).
//!
//! ```text
//!  initiator                                        responder
//!  begin   --- ephemeral | own key | timestamp -->  read, prove
//!  finish  <-- ephemeral | nothing --------------   answer
//! ```
//!
//! Libraries of Noise keep chaining keys, preshared keys and products of keys in memory that they do not overwrite, and give nobody a way to do it. From the last
//! chaining key follow the keys of the session. So the steps are written out here, over ready-made primitives, as all implementations of WireGuard do. Tests let it shake hands
//! with `snow`.
//!
//! Every secret here is erased when it is dropped: [`Secret`], [`Zeroizing`], and the states of hash and cipher. Secrets that live on do so on the heap, so that moving their owner copies none.
//! What the compiler leaves on the stack is overwritten by [`apart`](erase::apart).

use blake2::{Blake2s256, Digest as _};
use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _, Nonce, Tag};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::key::{KEY_LEN, PublicKey, Secret};
use crate::message::{NOISE_FIRST_LEN, NOISE_SECOND_LEN, TAG_LEN};

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
/// Bytes that BLAKE2s takes at once.
const BLOCK_LEN: usize = 64;

/// Seconds and nanoseconds of an initiation, so that a later one is larger (TAI64N).
pub type Timestamp = [u8; 12];
/// A hash.
type Hash = [u8; KEY_LEN];

/// A handshake message that is not genuine, or not for this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handshake message that is not genuine")]
pub struct Forged;

/// The keys of a session.
pub struct Keys {
    /// For what this side sends.
    pub send: Secret,
    /// For what it receives.
    pub receive: Secret,
}

impl ZeroizeOnDrop for Keys {}

/// What both sides know after each step: the chaining key, which is secret, and the hash of all that was said.
#[derive(Clone)]
struct Chain {
    key: Secret,
    hash: Hash,
}

impl ZeroizeOnDrop for Chain {}

impl Chain {
    /// That of a handshake with the owner of a key.
    fn new(responder: &PublicKey) -> Chain {
        let key = hash(&[CONSTRUCTION]);
        let hash = hash(&[&hash(&[&key, IDENTIFIER]), &responder.0]);
        Chain { key: Secret::new(key), hash }
    }

    /// Something was said.
    fn hear(&mut self, bytes: &[u8]) {
        self.hash = hash(&[&self.hash, bytes]);
    }

    /// An ephemeral key was said.
    fn hear_ephemeral(&mut self, key: &PublicKey) {
        self.hear(&key.0);
        self.mix(&key.0);
    }

    /// Changes the chaining key by something.
    fn mix(&mut self, input: &[u8; KEY_LEN]) {
        let [key] = derive(&self.key, input);
        self.key = key;
    }

    /// The same, and a key to encrypt by.
    fn mix_to_key(&mut self, input: &[u8; KEY_LEN]) -> Secret {
        let [key, cipher] = derive(&self.key, input);
        self.key = key;
        cipher
    }

    /// Mixes the preshared key in. Returns a key to encrypt by.
    fn mix_preshared(&mut self, preshared: &Secret) -> Secret {
        let [key, heard, cipher] = derive(&self.key, preshared.bytes());
        self.key = key;
        self.hear(heard.bytes());
        cipher
    }

    /// Encrypts something, and says it: `bytes` has room for the tag.
    fn seal(&mut self, key: &Secret, bytes: &mut [u8]) {
        let (text, tag) = bytes.split_at_mut(bytes.len() - TAG_LEN);
        let cipher = ChaCha20Poly1305::new(key.bytes().into());
        let made = cipher.encrypt_in_place_detached(&Nonce::default(), &self.hash, text);
        tag.copy_from_slice(&made.expect("so few bytes can always be encrypted"));
        self.hear(bytes);
    }

    /// Decrypts what was said.
    fn open<const N: usize>(&mut self, key: &Secret, sealed: &[u8]) -> Result<[u8; N], Forged> {
        let (text, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(Forged)?;
        let (text, tag) =
            text.try_into().map(|text: &[u8; N]| (text, Tag::from_slice(tag))).map_err(|_| Forged)?;
        let mut bytes = *text;
        let cipher = ChaCha20Poly1305::new(key.bytes().into());
        cipher
            .decrypt_in_place_detached(&Nonce::default(), &self.hash, &mut bytes, tag)
            .map_err(|_| Forged)?;
        self.hear(sealed);
        Ok(bytes)
    }

    /// The keys of the session.
    fn end(&self, is_initiator: bool) -> Box<Keys> {
        // The first key is for what the initiator sends.
        let [first, second] = derive(&self.key, &[]);
        Box::new(match is_initiator {
            true => Keys { send: first, receive: second },
            false => Keys { send: second, receive: first },
        })
    }
}

/// BLAKE2s of parts.
fn hash(parts: &[&[u8]]) -> Hash {
    let mut state = Blake2s256::new();
    parts.iter().for_each(|part| state.update(part));
    state.finalize().into()
}

/// HMAC by BLAKE2s (RFC 2104). Of the crate `hmac`, only `SimpleHmac` takes a hash that processes blocks lazily, and it does not erase its key.
fn hmac(key: &Secret, parts: &[&[u8]]) -> Secret {
    let pad = |with: u8| {
        let mut block = Zeroizing::new([with; BLOCK_LEN]);
        block.iter_mut().zip(key.bytes()).for_each(|(to, byte)| *to ^= byte);
        block
    };
    let (mut inner, mut outer) =
        (Blake2s256::new_with_prefix(&pad(0x36)[..]), Blake2s256::new_with_prefix(&pad(0x5c)[..]));
    parts.iter().for_each(|part| inner.update(part));
    outer.update(Secret::new(inner.finalize().into()).bytes());
    Secret::new(outer.finalize().into())
}

/// Keys from a chaining key and something else (HKDF, RFC 5869).
fn derive<const N: usize>(chain: &Secret, input: &[u8]) -> [Secret; N] {
    let secret = hmac(chain, &[input]);
    let mut last = None;
    std::array::from_fn(|at| {
        let before = last.as_ref().map_or(&[][..], |last: &Secret| last.bytes());
        let next = hmac(&secret, &[before, &[at as u8 + 1]]);
        last = Some(next.clone());
        next
    })
}

/// A handshake that this side has started.
pub struct Begun(Box<Started>);

/// What it needs when the answer comes.
struct Started {
    chain: Chain,
    ephemeral: Secret,
}

impl ZeroizeOnDrop for Started {}

/// Who takes part.
#[derive(Clone, Copy)]
pub struct Parties<'a> {
    /// This side's key.
    pub own: &'a Secret,
    /// The same, in public.
    pub public: &'a PublicKey,
    /// The other side's.
    pub remote: &'a PublicKey,
    /// What both keys make together.
    pub shared: &'a Secret,
}

/// Begins a handshake: Noise's first message.
///
/// # Errors
/// The system has no randomness, or the peer's key is none.
pub fn begin(parties: Parties<'_>, timestamp: &Timestamp) -> Result<(Begun, [u8; NOISE_FIRST_LEN]), Forged> {
    let ephemeral = Secret::generate().map_err(|_| Forged)?;
    let mut message = [0; NOISE_FIRST_LEN];
    let (said, rest) = message.split_at_mut(KEY_LEN);
    let (own, stamp) = rest.split_at_mut(KEY_LEN + TAG_LEN);
    let mut chain = Chain::new(parties.remote);
    let public = ephemeral.public();
    said.copy_from_slice(&public.0);
    chain.hear_ephemeral(&public);
    let key = chain.mix_to_key(ephemeral.with(parties.remote).ok_or(Forged)?.bytes());
    own[..KEY_LEN].copy_from_slice(&parties.public.0);
    chain.seal(&key, own);
    let key = chain.mix_to_key(parties.shared.bytes());
    stamp[..timestamp.len()].copy_from_slice(timestamp);
    chain.seal(&key, stamp);
    Ok((Begun(Box::new(Started { chain, ephemeral })), message))
}

impl Begun {
    /// Ends the handshake with Noise's second message. A forged one leaves it as it is, so that the real one may still come.
    ///
    /// # Errors
    /// The message is forged.
    pub fn finish(
        &self,
        own: &Secret,
        preshared: &Secret,
        message: &[u8; NOISE_SECOND_LEN],
    ) -> Result<Box<Keys>, Forged> {
        let Started { chain, ephemeral } = &*self.0;
        let mut chain = chain.clone();
        let (said, nothing) = message.split_first_chunk().ok_or(Forged)?;
        let theirs = PublicKey(*said);
        chain.hear_ephemeral(&theirs);
        chain.mix(ephemeral.with(&theirs).ok_or(Forged)?.bytes());
        chain.mix(own.with(&theirs).ok_or(Forged)?.bytes());
        let key = chain.mix_preshared(preshared);
        chain.open::<0>(&key, nothing)?;
        Ok(chain.end(true))
    }
}

/// A handshake started by somebody who claims to have a key.
pub struct Claimed<'a> {
    chain: Box<Chain>,
    ephemeral: PublicKey,
    /// Who it says it is.
    pub remote: PublicKey,
    stamp: &'a [u8],
}

/// Reads Noise's first message.
///
/// # Errors
/// It is forged, or for another key.
pub fn read<'a>(
    own: &Secret,
    public: &PublicKey,
    message: &'a [u8; NOISE_FIRST_LEN],
) -> Result<Claimed<'a>, Forged> {
    let (said, rest) = message.split_first_chunk().ok_or(Forged)?;
    let (remote, stamp) = rest.split_at(KEY_LEN + TAG_LEN);
    let ephemeral = PublicKey(*said);
    let mut chain = Box::new(Chain::new(public));
    chain.hear_ephemeral(&ephemeral);
    let key = chain.mix_to_key(own.with(&ephemeral).ok_or(Forged)?.bytes());
    let remote = PublicKey(chain.open(&key, remote)?);
    Ok(Claimed { chain, ephemeral, remote, stamp })
}

impl Claimed<'_> {
    /// Whether the sender has the key that it names: `shared` is what that key and this side's make together.
    ///
    /// # Errors
    /// It has not.
    pub fn prove(mut self, shared: &Secret) -> Result<Asked, Forged> {
        let key = self.chain.mix_to_key(shared.bytes());
        let timestamp = self.chain.open(&key, self.stamp)?;
        Ok(Asked { chain: self.chain, ephemeral: self.ephemeral, remote: self.remote, timestamp })
    }
}

/// A handshake that a peer has started.
pub struct Asked {
    chain: Box<Chain>,
    ephemeral: PublicKey,
    remote: PublicKey,
    /// When it began.
    pub timestamp: Timestamp,
}

impl Asked {
    /// Agrees: Noise's second message, and the keys.
    ///
    /// # Errors
    /// The system has no randomness, or the peer's ephemeral key is none.
    pub fn answer(mut self, preshared: &Secret) -> Result<(Box<Keys>, [u8; NOISE_SECOND_LEN]), Forged> {
        let ephemeral = Secret::generate().map_err(|_| Forged)?;
        let chain = &mut *self.chain;
        let mut message = [0; NOISE_SECOND_LEN];
        let (said, nothing) = message.split_at_mut(KEY_LEN);
        let public = ephemeral.public();
        said.copy_from_slice(&public.0);
        chain.hear_ephemeral(&public);
        chain.mix(ephemeral.with(&self.ephemeral).ok_or(Forged)?.bytes());
        chain.mix(ephemeral.with(&self.remote).ok_or(Forged)?.bytes());
        let key = chain.mix_preshared(preshared);
        chain.seal(&key, nothing);
        Ok((chain.end(false), message))
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
    use snow::{Builder, HandshakeState};

    use super::*;

    /// A side, as both implementations know it.
    struct Side {
        own: Secret,
        public: PublicKey,
    }

    impl Side {
        fn new() -> Side {
            let own = Secret::generate().unwrap();
            Side { public: own.public(), own }
        }

        fn begin(&self, other: &Side, stamp: &Timestamp) -> (Begun, [u8; NOISE_FIRST_LEN]) {
            let shared = &self.own.with(&other.public).unwrap();
            let parties = Parties { own: &self.own, public: &self.public, remote: &other.public, shared };
            begin(parties, stamp).unwrap()
        }

        fn read(&self, message: &[u8; NOISE_FIRST_LEN]) -> Result<Asked, Forged> {
            let claimed = read(&self.own, &self.public, message)?;
            let shared = self.own.with(&claimed.remote).ok_or(Forged)?;
            claimed.prove(&shared)
        }

        /// The same side as `snow` plays it.
        fn snow<'a>(&'a self, preshared: &'a Secret) -> Builder<'a> {
            let params = std::str::from_utf8(CONSTRUCTION).unwrap().parse().unwrap();
            let builder = Builder::new(params).prologue(IDENTIFIER).unwrap();
            builder.local_private_key(self.own.bytes()).unwrap().psk(2, preshared.bytes()).unwrap()
        }
    }

    fn keys_of(mut state: HandshakeState) -> [[u8; 32]; 2] {
        let (first, second) = state.dangerously_get_raw_split();
        [first, second]
    }

    #[test]
    fn snow_answers_and_comes_to_the_same_keys() {
        let (alice, bob, preshared) = (Side::new(), Side::new(), Secret::new([9; 32]));
        let at = timestamp(1_700_000_000_000_000_000);
        let (begun, first) = alice.begin(&bob, &at);
        let (mut theirs, mut stamp, mut second) =
            (bob.snow(&preshared).build_responder().unwrap(), [0; 12], [0; NOISE_SECOND_LEN]);
        theirs.read_message(&first, &mut stamp).unwrap();
        assert_eq!((stamp, theirs.get_remote_static()), (at, Some(&alice.public.0[..])));
        theirs.write_message(&[], &mut second).unwrap();
        let mine = begun.finish(&alice.own, &preshared, &second).ok().unwrap();
        assert_eq!([*mine.send.bytes(), *mine.receive.bytes()], keys_of(theirs));
    }

    #[test]
    fn snow_begins_and_comes_to_the_same_keys() {
        let (alice, bob, preshared) = (Side::new(), Side::new(), Secret::new([9; 32]));
        let builder = alice.snow(&preshared).remote_public_key(&bob.public.0).unwrap();
        let (mut theirs, mut first) = (builder.build_initiator().unwrap(), [0; NOISE_FIRST_LEN]);
        theirs.write_message(&[3; 12], &mut first).unwrap();
        let asked = bob.read(&first).unwrap();
        assert_eq!((asked.remote, asked.timestamp), (alice.public, [3; 12]));
        let (mine, second) = asked.answer(&preshared).unwrap();
        theirs.read_message(&second, &mut []).unwrap();
        assert_eq!([*mine.receive.bytes(), *mine.send.bytes()], keys_of(theirs));
    }

    #[test]
    fn both_sides_come_to_the_same_keys() {
        let (alice, bob, preshared) = (Side::new(), Side::new(), Secret::new([9; 32]));
        let (begun, first) = alice.begin(&bob, &[1; 12]);
        let (theirs, second) = bob.read(&first).unwrap().answer(&preshared).unwrap();
        for at in [0, 31, 32, 47] {
            let mut forged = second;
            forged[at] ^= 1;
            assert!(begun.finish(&alice.own, &preshared, &forged).is_err());
        }
        let mine = begun.finish(&alice.own, &preshared, &second).ok().unwrap();
        assert_eq!((&mine.send, &mine.receive), (&theirs.receive, &theirs.send));
        assert_ne!(mine.send, mine.receive);
    }

    #[test]
    fn another_key_or_secret_is_refused() {
        let (alice, bob, zeros) = (Side::new(), Side::new(), Secret::new([0; 32]));
        let (begun, first) = alice.begin(&bob, &[1; 12]);
        assert!(alice.read(&first).is_err(), "it is not for Alice");
        for bit in [0, 31 * 8, 40 * 8, 90 * 8, 107 * 8] {
            let mut bent = first;
            bent[bit / 8] ^= 1;
            assert!(bob.read(&bent).is_err(), "bit {bit}");
        }
        let (_, second) = bob.read(&first).unwrap().answer(&Secret::new([1; 32])).unwrap();
        assert!(begun.finish(&alice.own, &zeros, &second).is_err(), "the preshared keys differ");
        let claimed = read(&bob.own, &bob.public, &first).unwrap();
        assert!(claimed.prove(&Secret::new([5; 32])).is_err(), "who only knows Alice's public key");
    }

    /// The points of low order (Bernstein, "Curve25519", "Contributory behaviour"), some of them not reduced.
    const LOW_ORDER: [&str; 7] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];

    /// Such a key with and without the highest bit, which does not count.
    fn low_order() -> impl Iterator<Item = PublicKey> {
        let byte = |text: &str, at: usize| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap();
        LOW_ORDER.iter().flat_map(move |text| {
            [0, 0x80].map(|top| {
                let mut key: [u8; 32] = std::array::from_fn(|at| byte(text, at));
                key[31] |= top;
                PublicKey(key)
            })
        })
    }

    /// Who names a point of low order as ephemeral key makes all products of the handshake known, and those with it can be computed by anybody.
    #[test]
    fn ephemeral_keys_of_low_order_are_refused() {
        let (alice, bob, preshared) = (Side::new(), Side::new(), Secret::new([0; 32]));
        for point in low_order() {
            assert!(alice.own.with(&point).is_none(), "{point}");
            let mut first = [0; NOISE_FIRST_LEN];
            // All is right but the point.
            let mut chain = Chain::new(&bob.public);
            chain.hear_ephemeral(&point);
            let key = chain.mix_to_key(&[0; 32]);
            first[..32].copy_from_slice(&point.0);
            first[32..64].copy_from_slice(&alice.public.0);
            chain.seal(&key, &mut first[32..80]);
            let key = chain.mix_to_key(alice.own.with(&bob.public).unwrap().bytes());
            chain.seal(&key, &mut first[80..]);
            assert!(bob.read(&first).is_err(), "{point}");
            // And in the answer.
            let (begun, first) = alice.begin(&bob, &[1; 12]);
            let mut chain = bob.read(&first).unwrap().chain;
            let mut second = [0; NOISE_SECOND_LEN];
            second[..32].copy_from_slice(&point.0);
            chain.hear_ephemeral(&point);
            chain.mix(&[0; 32]);
            chain.mix(&[0; 32]);
            let key = chain.mix_preshared(&preshared);
            chain.seal(&key, &mut second[32..]);
            assert!(begun.finish(&alice.own, &preshared, &second).is_err(), "{point}");
        }
    }

    /// What can be said without looking at memory that was given back: each part that holds a secret has a type that erases it.
    #[test]
    fn all_that_is_secret_erases_itself() {
        fn erased<T: ZeroizeOnDrop>() {}
        fn erases<T: ZeroizeOnDrop>(_: &T) {
            erased::<T>();
        }
        let (alice, bob) = (Side::new(), Side::new());
        // Every field is named, so that a new one is thought of.
        let Chain { key, hash: _ } = &Chain::new(&alice.public);
        erases(key);
        let (Begun(started), first) = alice.begin(&bob, &[1; 12]);
        let Started { chain, ephemeral } = &*started;
        erases(chain);
        erases(ephemeral);
        let Asked { chain, ephemeral: _, remote: _, timestamp: _ } = &bob.read(&first).unwrap();
        erases(&**chain);
        let Keys { send, receive } = &*chain.end(true);
        erases(send);
        erases(receive);
        erases(&ChaCha20Poly1305::new(key.bytes().into()));
        // The two parts of `Blake2s256`, which itself does not say it.
        erased::<blake2::Blake2sVarCore>();
        erased::<blake2::digest::block_api::Buffer<blake2::Blake2sVarCore>>();
        erases(&hmac(key, &[]));
    }

    /// RFC 2104 by BLAKE2s: computed by Python's `hmac`.
    #[test]
    fn hmac_is_what_python_computes() {
        let key = Secret::new(std::array::from_fn(|at| at as u8));
        let made = hmac(&key, &[b"Hi ", b"There"]);
        let hex: String = made.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "65043ae3113da6f99a94d81b790a6a08dcddef85a14bb01d1aae2ae6d7250146");
    }

    #[test]
    fn timestamps_grow() {
        let at = |ns: u64| timestamp(1_700_000_000_000_000_000 + ns);
        assert!(at(20_000_000) > at(0) && at(1_000_000_000) > at(999_999_999));
        assert_eq!(at(0), at(1000), "small differences do not show");
        assert_eq!(timestamp(0)[..8], [0x40, 0, 0, 0, 0, 0, 0, 10]);
    }
}
