// SPDX-License-Identifier: MIT OR Apache-2.0
//! Algorithms with their keys, and how they protect the bytes of ESP packets.
//!
//! A [`Part`] is one packet's ESP part, from the SPI to the integrity check value, with the four bytes before it. [`seal`] and [`open`]
//! work on many parts at once, in place.
//!
//! ```text
//! bytes   | 4 of another header | SPI | sequence number | IV | payload, padding, pad length, next header | ICV |
//!           lent for the call     4     4                 iv_len                                           icv_len
//! ```
//!
//! The additional data of combined modes are SPI and sequence number. With extended numbers the high half stands between the two (RFC 4106, 5).
//! GMAC authenticates the payload with them, in one piece: for the time of the call the SPI moves four bytes down.

use std::fmt;

use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit,
};
use aes::{Aes128, Aes192, Aes256};
use arrayvec::ArrayVec;
use des::TdesEde3;
use erase::Erased;
use gcm::Job;
use hmac::{Hmac, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use zeroize::Zeroize;

use crate::algorithm::{Aead, Auth, Cipher, SALT_LEN, WrongLength, check_len};

/// Bytes of SPI and sequence number.
pub const HEADER_LEN: usize = 8;
/// Bytes before the ESP header that are lent to [`seal`] and [`open`].
pub const LENT: usize = 4;
/// Parts that are in the registers together.
const AT_ONCE: usize = 64;
/// The longest additional data: SPI and an extended number.
const AAD_MAX: usize = 12;

/// What algorithms and keys a security association has.
#[derive(Clone, PartialEq, Eq)]
pub enum Spec {
    /// One algorithm that encrypts and authenticates.
    Combined {
        /// The algorithm.
        algorithm: Aead,
        /// Its key, and four bytes of salt behind it.
        key: Vec<u8>,
        /// Bytes of the integrity check value.
        icv_len: usize,
    },
    /// One that encrypts, and one that authenticates the result.
    Separate {
        /// What encrypts.
        cipher: Cipher,
        /// Its key.
        key: Vec<u8>,
        /// What authenticates.
        auth: Auth,
        /// Its key.
        auth_key: Vec<u8>,
        /// Bytes of the integrity check value.
        icv_len: usize,
    },
}

impl Spec {
    /// The key by which receivers find packets genuine. As long as it stays, sequence numbers and windows must go on.
    pub fn authentic_key(&self) -> &[u8] {
        match self {
            Spec::Combined { key, .. } => key,
            Spec::Separate { auth_key, .. } => auth_key,
        }
    }
}

/// Why there is no suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    /// A key or an integrity check value has a length that the algorithm does not have.
    #[error(transparent)]
    Length(#[from] WrongLength),
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random numbers, which initialisation vectors need")]
    Random,
}

/// Algorithms with their keys, ready for packets.
pub struct Suite {
    kind: Kind,
    /// The first bytes of each nonce of a combined mode.
    salt: [u8; SALT_LEN],
    iv_len: usize,
    icv_len: usize,
    overhead: usize,
    /// A power of two.
    align: usize,
    /// IVs of combined modes count from this random number. Several suites may have one key: after a restart with a configured key, or if both
    /// directions have the same. Two runs of N packets each then share an IV with a chance of about 2N/2^64. So keys should come from a key exchange
    /// (RFC 4106, 2).
    first_iv: u64,
}

/// Boxes keep other keys than those of GCM from its path: no byte before the key says which kind it is.
// A suite lies behind a pointer, and is made once.
#[allow(clippy::large_enum_variant)]
enum Kind {
    Gcm(gcm::Key),
    Other(Box<Other>),
}

// There are few, and each is made once.
#[allow(clippy::large_enum_variant)]
enum Other {
    Gmac(gcm::Key),
    ChaCha(Erased<LessSafeKey>),
    Separate { cipher: Chained, auth: Digest, ivs: Aes128 },
}

const _: () = assert!(size_of::<Kind>() == size_of::<gcm::Key>());

enum Chained {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
    TripleDes(TdesEde3),
    Null,
}

enum Digest {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

/// The ESP part of one packet, with [`LENT`] bytes before it.
pub struct Part<'a> {
    /// What protects it.
    pub suite: &'a Suite,
    /// Its sequence number.
    pub number: u64,
    /// Whether the number has 64 bits, of which the packet carries the low 32.
    pub is_extended: bool,
    /// [`LENT`] bytes, which come back as they were, and all from the SPI to the integrity check value: at least
    /// [`Suite::overhead`] bytes with whole blocks between IV and check value.
    pub bytes: &'a mut [u8],
    /// Whether [`open`] found it genuine.
    pub is_genuine: bool,
}

impl Suite {
    /// Algorithms with keys.
    ///
    /// # Errors
    /// Lengths that do not fit the algorithms, or a lack of random numbers.
    pub fn new(spec: &Spec) -> Result<Suite, SuiteError> {
        let mut random = [0; 24];
        SystemRandom::new().fill(&mut random).map_err(|_| SuiteError::Random)?;
        let (first_iv, iv_key) = random.split_at(8);
        let first_iv = u64::from_be_bytes(first_iv.try_into().expect("eight bytes"));
        match spec {
            Spec::Combined { algorithm, key, icv_len } => {
                check_len(algorithm.name(), "a key with its salt", algorithm.key_lens(), key.len())?;
                check_len(algorithm.name(), "an integrity check value", algorithm.icv_lens(), *icv_len)?;
                let (key, salt) = key.split_last_chunk().expect("the length was checked");
                let gcm_key = || gcm::Key::new(key).expect("the length was checked");
                let kind = match algorithm {
                    Aead::AesGcm => Kind::Gcm(gcm_key()),
                    Aead::AesGmac => Kind::Other(Box::new(Other::Gmac(gcm_key()))),
                    Aead::ChaCha20Poly1305 => {
                        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the length was checked");
                        Kind::Other(Box::new(Other::ChaCha(Erased::new(LessSafeKey::new(key)))))
                    }
                };
                Ok(Suite { salt: *salt, ..Suite::of(kind, 8, *icv_len, 4, first_iv) })
            }
            Spec::Separate { cipher, key, auth, auth_key, icv_len } => {
                check_len(cipher.name(), "a key", cipher.key_lens(), key.len())?;
                check_len(auth.name(), "a key", auth.key_lens(), auth_key.len())?;
                check_len(auth.name(), "an integrity check value", auth.icv_lens(), *icv_len)?;
                let cipher_with_key = Chained::new(*cipher, key);
                let (auth, ivs) = (Digest::new(*auth, auth_key), keyed(iv_key));
                let kind = Kind::Other(Box::new(Other::Separate { cipher: cipher_with_key, auth, ivs }));
                let align = cipher.block_len().max(4);
                Ok(Suite::of(kind, cipher.iv_len(), *icv_len, align, first_iv))
            }
        }
    }

    fn of(kind: Kind, iv_len: usize, icv_len: usize, align: usize, first_iv: u64) -> Suite {
        let overhead = HEADER_LEN + iv_len + 2 + icv_len;
        Suite { kind, salt: [0; SALT_LEN], iv_len, icv_len, overhead, align, first_iv }
    }

    /// The cache lines that a packet with so many bytes of payload needs, as addresses, which are only for asking for them ahead.
    #[inline]
    pub(crate) fn lines_for(&self, payload_len: usize) -> impl Iterator<Item = *const u8> {
        let key = match &self.kind {
            Kind::Gcm(key) => Some(key.lines_for(payload_len)),
            Kind::Other(_) => None,
        };
        [std::ptr::from_ref(&self.iv_len).cast()].into_iter().chain(key.into_iter().flatten())
    }

    /// Bytes of the initialisation vector that each packet carries.
    #[inline]
    pub fn iv_len(&self) -> usize {
        self.iv_len
    }

    /// Bytes of the integrity check value.
    #[inline]
    pub fn icv_len(&self) -> usize {
        self.icv_len
    }

    /// What is encrypted has a multiple of so many bytes.
    #[inline]
    pub fn align(&self) -> usize {
        self.align
    }

    /// Bytes that ESP adds to a payload besides padding: header, IV, pad length, next header and check value.
    #[inline]
    pub fn overhead(&self) -> usize {
        self.overhead
    }

    /// Whether an ESP part of so many bytes can be one of this suite.
    #[inline]
    pub fn fits(&self, esp_len: usize) -> bool {
        // A multiple of a power of two: no division.
        esp_len.checked_sub(self.overhead).is_some_and(|payload| (payload + 2) & (self.align - 1) == 0)
    }

    /// Bytes of padding between a payload of so many bytes and pad length and next header.
    #[inline]
    pub(crate) fn padding(&self, payload_len: usize) -> usize {
        (payload_len + 2).wrapping_neg() & (self.align - 1)
    }

    /// Counts its initialisation vectors as a suite with the same keys does.
    pub(crate) fn share_vectors(&mut self, other: &Suite) {
        self.first_iv = other.first_iv;
    }

    /// Where identifications of outer IPv4 headers begin: random bits.
    #[inline]
    pub(crate) fn first_id(&self) -> u16 {
        (self.first_iv >> 48) as u16
    }
}

/// Shows sizes, and nothing of the keys.
impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("icv_len", &self.icv_len).finish_non_exhaustive()
    }
}

/// Shows the algorithms, and nothing of the keys.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Combined { algorithm, icv_len, .. } => write!(f, "{algorithm} {icv_len}"),
            Spec::Separate { cipher, auth, icv_len, .. } => write!(f, "{cipher} {auth} {icv_len}"),
        }
    }
}

impl Drop for Spec {
    fn drop(&mut self) {
        match self {
            Spec::Combined { key, .. } => key.zeroize(),
            Spec::Separate { key, auth_key, .. } => {
                key.zeroize();
                auth_key.zeroize();
            }
        }
    }
}

impl<'a> Part<'a> {
    fn other(&self) -> Option<&'a Other> {
        match &self.suite.kind {
            Kind::Gcm(_) => None,
            Kind::Other(other) => Some(other),
        }
    }

    /// Writes an initialisation vector of a combined mode, which this key has not had: one that counts (RFC 4106, 3.1).
    #[inline]
    fn write_counted_iv(&mut self) {
        let iv = self.suite.first_iv.wrapping_add(self.number);
        self.bytes[LENT + HEADER_LEN..][..8].copy_from_slice(&iv.to_be_bytes());
    }

    /// Writes an initialisation vector that nobody can predict (RFC 3602, 3).
    fn write_random_iv(&mut self, ivs: &Aes128) {
        let mut block = Block::<Aes128>::default();
        block[..8].copy_from_slice(&self.number.to_be_bytes());
        ivs.encrypt_block(&mut block);
        let len = self.suite.iv_len;
        self.bytes[LENT + HEADER_LEN..][..len].copy_from_slice(&block[..len]);
    }

    /// A part of a combined mode taken apart. `aad` is the place for additional data.
    #[inline]
    fn combined<'s>(&'s mut self, aad: &'s mut [u8; AAD_MAX]) -> Combined<'s> {
        let Part { suite, number, is_extended, bytes, is_genuine } = self;
        let (header, rest) = bytes.split_at_mut(LENT + HEADER_LEN);
        let (iv, rest) = rest.split_at_mut(8);
        let (text, icv) = rest.split_at_mut(rest.len() - suite.icv_len);
        let mut nonce = [0; gcm::NONCE_LEN];
        nonce[..SALT_LEN].copy_from_slice(&suite.salt);
        nonce[SALT_LEN..].copy_from_slice(iv);
        let header = &header[LENT..];
        let len = if *is_extended {
            aad[..4].copy_from_slice(&header[..4]);
            aad[4..8].copy_from_slice(&((*number >> 32) as u32).to_be_bytes());
            aad[8..].copy_from_slice(&header[4..]);
            12
        } else {
            aad[..8].copy_from_slice(header);
            8
        };
        Combined { nonce, aad: &aad[..len], text, icv, is_genuine }
    }

    /// Does a part whose bytes are additional data, all but the check value. With extended numbers these must be contiguous, so the SPI moves four bytes down
    /// for that time, and the high half of the number takes its place.
    fn run_gmac(&mut self, key: &gcm::Key, seal: bool) {
        let lent: [u8; LENT] = take(self.bytes, 0);
        let mut nonce = [0; gcm::NONCE_LEN];
        nonce[..SALT_LEN].copy_from_slice(&self.suite.salt);
        nonce[SALT_LEN..].copy_from_slice(&take::<8>(self.bytes, LENT + HEADER_LEN));
        if self.is_extended {
            self.bytes.copy_within(LENT..LENT + 4, 0);
            self.bytes[LENT..LENT + 4].copy_from_slice(&((self.number >> 32) as u32).to_be_bytes());
        }
        let (aad, icv) = self.bytes.split_at_mut(self.bytes.len() - self.suite.icv_len);
        let aad = &aad[if self.is_extended { 0 } else { LENT }..];
        let mut jobs = [Job::new(key, nonce, aad, &mut [], icv)];
        if seal {
            gcm::seal(&mut jobs);
        } else {
            gcm::open(&mut jobs);
            self.is_genuine = jobs[0].outcome().is_ok();
        }
        if self.is_extended {
            self.bytes.copy_within(0..4, LENT);
            self.bytes[..LENT].copy_from_slice(&lent);
        }
    }

    fn seal_alone(&mut self, other: &Other) {
        match other {
            Other::Gmac(key) => {
                self.write_counted_iv();
                self.run_gmac(key, true);
            }
            Other::ChaCha(key) => {
                self.write_counted_iv();
                let mut place = [0; AAD_MAX];
                let Combined { nonce, aad, text, icv, .. } = self.combined(&mut place);
                let nonce = Nonce::assume_unique_for_key(nonce);
                // It refuses only texts of more than 256 GiB.
                if let Ok(tag) = key.seal_in_place_separate_tag(nonce, Aad::from(aad), text) {
                    icv.copy_from_slice(tag.as_ref());
                }
            }
            Other::Separate { cipher, auth, ivs } => {
                self.write_random_iv(ivs);
                let (iv, text) = self.chained();
                cipher.encrypt(iv, text);
                let (authenticated, high, icv) = self.authenticated();
                auth.compute(authenticated, high, icv);
            }
        }
    }

    fn open_alone(&mut self, other: &Other) {
        match other {
            Other::Gmac(key) => self.run_gmac(key, false),
            Other::ChaCha(key) => {
                let mut place = [0; AAD_MAX];
                let Combined { nonce, aad, text, icv, is_genuine } = self.combined(&mut place);
                let nonce = Nonce::assume_unique_for_key(nonce);
                *is_genuine = Tag::try_from(&*icv).is_ok_and(|tag| {
                    key.open_in_place_separate_tag(nonce, Aad::from(aad), tag, text, 0..).is_ok()
                });
            }
            Other::Separate { cipher, auth, .. } => {
                let (authenticated, high, icv) = self.authenticated();
                self.is_genuine = auth.is_right(authenticated, high, icv);
                if self.is_genuine {
                    let (iv, text) = self.chained();
                    cipher.decrypt(iv, text);
                }
            }
        }
    }

    /// Initialisation vector and text, for algorithms that encrypt only.
    fn chained(&mut self) -> (&[u8], &mut [u8]) {
        let end = self.bytes.len() - self.suite.icv_len;
        let (iv, text) = self.bytes[LENT + HEADER_LEN..end].split_at_mut(self.suite.iv_len);
        (iv, text)
    }

    /// What the integrity check value covers, the high half of an extended number behind it, and the value itself (RFC 4303, 2.2.1).
    fn authenticated(&mut self) -> (&[u8], Option<[u8; 4]>, &mut [u8]) {
        let high = self.is_extended.then_some(((self.number >> 32) as u32).to_be_bytes());
        let at = self.bytes.len() - self.suite.icv_len;
        let (bytes, icv) = self.bytes.split_at_mut(at);
        (&bytes[LENT..], high, icv)
    }
}

/// A part of a combined mode, taken apart.
struct Combined<'a> {
    /// The salt, and the IV that stands in the packet.
    nonce: [u8; gcm::NONCE_LEN],
    /// SPI and number (RFC 4106, 5).
    aad: &'a [u8],
    text: &'a mut [u8],
    icv: &'a mut [u8],
    is_genuine: &'a mut bool,
}

/// The bytes at `at`, which the caller has checked to be there.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().unwrap_or([0; N])
}

/// Protects parts in place: writes their IVs, encrypts what follows up to the check value, and writes that.
pub fn seal(parts: &mut [Part<'_>]) {
    run::<true>(parts);
}

/// Checks parts and decrypts them in place. What [`Part::is_genuine`] does not confirm must not be used: it may be anything.
pub fn open(parts: &mut [Part<'_>]) {
    run::<false>(parts);
}

fn run<const SEAL: bool>(parts: &mut [Part<'_>]) {
    for chunk in parts.chunks_mut(AT_ONCE) {
        if run_gcm::<SEAL>(chunk) == chunk.len() {
            continue;
        }
        for part in chunk {
            match part.other() {
                Some(other) if SEAL => part.seal_alone(other),
                Some(other) => part.open_alone(other),
                None => {}
            }
        }
    }
}

/// Does those in Galois counter mode, together, and returns how many they are.
fn run_gcm<const SEAL: bool>(parts: &mut [Part<'_>]) -> usize {
    let mut aads = [[0; AAD_MAX]; AT_ONCE];
    let mut jobs = ArrayVec::<Job<'_>, AT_ONCE>::new();
    let mut verdicts = ArrayVec::<&mut bool, AT_ONCE>::new();
    for (part, aad) in parts.iter_mut().zip(&mut aads) {
        let Kind::Gcm(key) = &part.suite.kind else { continue };
        if SEAL {
            part.write_counted_iv();
        }
        let Combined { nonce, aad, text, icv, is_genuine } = part.combined(aad);
        jobs.push(Job::new(key, nonce, aad, text, icv));
        if !SEAL {
            verdicts.push(is_genuine);
        }
    }
    if SEAL {
        gcm::seal(&mut jobs);
    } else {
        gcm::open(&mut jobs);
        for (job, is_genuine) in jobs.iter().zip(&mut verdicts) {
            **is_genuine = job.outcome().is_ok();
        }
    }
    jobs.len()
}

/// The same with each cipher's type.
macro_rules! for_each_cipher {
    ($chained:expr, $cipher:ident => $do:expr) => {
        match $chained {
            Chained::Aes128($cipher) => $do,
            Chained::Aes192($cipher) => $do,
            Chained::Aes256($cipher) => $do,
            Chained::TripleDes($cipher) => $do,
            Chained::Null => {}
        }
    };
}

impl Chained {
    fn new(cipher: Cipher, key: &[u8]) -> Chained {
        match (cipher, key.len()) {
            (Cipher::Null, _) => Chained::Null,
            (Cipher::TripleDesCbc, _) => Chained::TripleDes(keyed(key)),
            (Cipher::AesCbc, 16) => Chained::Aes128(keyed(key)),
            (Cipher::AesCbc, 24) => Chained::Aes192(keyed(key)),
            (Cipher::AesCbc, _) => Chained::Aes256(keyed(key)),
        }
    }

    fn encrypt(&self, iv: &[u8], text: &mut [u8]) {
        fn run<C: BlockCipherEncrypt>(cipher: &C, iv: &[u8], text: &mut [u8]) {
            let Ok(mut mode) = cbc::Encryptor::inner_iv_slice_init(cipher, iv) else { return };
            mode.encrypt_blocks(Block::<C>::slice_as_chunks_mut(text).0);
        }
        for_each_cipher!(self, cipher => run(cipher, iv, text));
    }

    fn decrypt(&self, iv: &[u8], text: &mut [u8]) {
        fn run<C: BlockCipherDecrypt>(cipher: &C, iv: &[u8], text: &mut [u8]) {
            let Ok(mut mode) = cbc::Decryptor::inner_iv_slice_init(cipher, iv) else { return };
            mode.decrypt_blocks(Block::<C>::slice_as_chunks_mut(text).0);
        }
        for_each_cipher!(self, cipher => run(cipher, iv, text));
    }
}

/// A key whose length was checked.
fn keyed<C: KeyInit>(key: &[u8]) -> C {
    C::new_from_slice(key).expect("the length was checked")
}

impl Digest {
    fn new(auth: Auth, key: &[u8]) -> Digest {
        match auth {
            Auth::HmacSha1 => Digest::Sha1(keyed(key)),
            Auth::HmacSha256 => Digest::Sha256(keyed(key)),
            Auth::HmacSha384 => Digest::Sha384(keyed(key)),
            Auth::HmacSha512 => Digest::Sha512(keyed(key)),
        }
    }

    /// Writes the check value of some bytes, and of those behind them, as long as `icv` is.
    fn compute(&self, bytes: &[u8], behind: Option<[u8; 4]>, icv: &mut [u8]) {
        fn run<M: Mac + Clone>(mac: &M, bytes: &[u8], behind: Option<[u8; 4]>, icv: &mut [u8]) {
            let whole = fed(mac, bytes, behind).finalize().into_bytes();
            icv.copy_from_slice(&whole[..icv.len()]);
        }
        match self {
            Digest::Sha1(mac) => run(mac, bytes, behind, icv),
            Digest::Sha256(mac) => run(mac, bytes, behind, icv),
            Digest::Sha384(mac) => run(mac, bytes, behind, icv),
            Digest::Sha512(mac) => run(mac, bytes, behind, icv),
        }
    }

    /// Whether that is the check value, found out in a time that does not depend on it.
    fn is_right(&self, bytes: &[u8], behind: Option<[u8; 4]>, icv: &[u8]) -> bool {
        match self {
            Digest::Sha1(mac) => fed(mac, bytes, behind).verify_truncated_left(icv).is_ok(),
            Digest::Sha256(mac) => fed(mac, bytes, behind).verify_truncated_left(icv).is_ok(),
            Digest::Sha384(mac) => fed(mac, bytes, behind).verify_truncated_left(icv).is_ok(),
            Digest::Sha512(mac) => fed(mac, bytes, behind).verify_truncated_left(icv).is_ok(),
        }
    }
}

fn fed<M: Mac + Clone>(mac: &M, bytes: &[u8], behind: Option<[u8; 4]>) -> M {
    let mut mac = mac.clone();
    mac.update(bytes);
    behind.into_iter().for_each(|high| mac.update(&high));
    mac
}
