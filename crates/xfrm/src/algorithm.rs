// SPDX-License-Identifier: MIT OR Apache-2.0
//! Algorithms and keys in attributes: `xfrm_algo`, `xfrm_algo_auth` and `xfrm_algo_aead`, which are a name of 64 bytes, lengths in bits, and a key.

use esp::Spec;
use esp::algorithm::{Aead, Auth, Cipher};

use crate::kernel::Refusal;
use crate::layout::attribute::{ALG_AEAD, ALG_AUTH, ALG_AUTH_TRUNC, ALG_CRYPT};
use crate::netlink::{Attributes, Builder};

/// Bytes of a name.
const NAME_LEN: usize = 64;

/// What one attribute says.
struct Algorithm<'a> {
    name: &'a str,
    key: &'a [u8],
    /// Bytes of the check value, where the attribute says it.
    icv_len: Option<usize>,
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(libc::EINVAL, why)
}

/// Reads an attribute. `has_icv` says whether a second length follows that of the key.
fn read(value: &[u8], has_icv: bool) -> Result<Algorithm<'_>, Refusal> {
    let short = || invalid("an algorithm's attribute is shorter than it says");
    let number = |at: usize| -> Option<usize> {
        let bytes = value.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes) as usize)
    };
    let name = value.get(..NAME_LEN).ok_or_else(short)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| invalid("an algorithm's name is no text"))?;
    let key_bits = number(NAME_LEN).ok_or_else(short)?;
    let icv_bits = if has_icv { Some(number(NAME_LEN + 4).ok_or_else(short)?) } else { None };
    let head = NAME_LEN + if has_icv { 8 } else { 4 };
    let key = value.get(head..).and_then(|rest| rest.get(..key_bits.div_ceil(8))).ok_or_else(short)?;
    if icv_bits.is_some_and(|bits| !bits.is_multiple_of(8)) {
        return Err(invalid(format!("{name}: the check value is no whole number of bytes")));
    }
    Ok(Algorithm { name, key, icv_len: icv_bits.map(|bits| bits / 8) })
}

fn known<T: std::str::FromStr<Err = esp::algorithm::Unknown>>(name: &str) -> Result<T, Refusal> {
    name.parse().map_err(|why: esp::algorithm::Unknown| Refusal::new(libc::ENOSYS, why.to_string()))
}

/// Bytes of the check value where nothing is said, as Linux has it (`xfrm_algo.c`).
fn usual_icv_len(auth: Auth) -> usize {
    match auth {
        Auth::HmacSha1 | Auth::HmacSha256 => 12,
        Auth::HmacSha384 => 24,
        Auth::HmacSha512 => 32,
    }
}

/// Reads the algorithms of an association.
pub(crate) fn spec_of(attributes: Attributes<'_>) -> Result<Spec, Refusal> {
    let trunc = attributes.find(ALG_AUTH_TRUNC).map(|value| read(value, true)).transpose()?;
    let auth = match trunc {
        Some(auth) => Some(auth),
        None => attributes.find(ALG_AUTH).map(|value| read(value, false)).transpose()?,
    };
    let crypt = attributes.find(ALG_CRYPT).map(|value| read(value, false)).transpose()?;
    let aead = attributes.find(ALG_AEAD).map(|value| read(value, true)).transpose()?;
    match (aead, crypt, auth) {
        (Some(aead), None, None) => Ok(Spec::Combined {
            algorithm: known::<Aead>(aead.name)?,
            key: aead.key.to_vec(),
            icv_len: aead.icv_len.unwrap_or_default(),
        }),
        (None, Some(crypt), Some(auth)) => {
            let algorithm = known::<Auth>(auth.name)?;
            let icv_len = auth.icv_len.filter(|len| *len > 0).unwrap_or_else(|| usual_icv_len(algorithm));
            Ok(Spec::Separate {
                cipher: known::<Cipher>(crypt.name)?,
                key: crypt.key.to_vec(),
                auth: algorithm,
                auth_key: auth.key.to_vec(),
                icv_len,
            })
        }
        (None, Some(_), None) => Err(invalid("encryption without authentication protects nothing")),
        (None, None, _) => Err(invalid("ESP needs an encryption algorithm, ecb(cipher_null) at least")),
        (Some(_), ..) => Err(invalid("a combined algorithm stands alone")),
    }
}

/// Adds the attributes of algorithms, in the kernel's order.
pub(crate) fn put_spec(message: &mut Builder, spec: &Spec) {
    let bits = |len: usize| (8 * len as u32).to_ne_bytes();
    let name = |text: &str| {
        let mut name = [0; NAME_LEN];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    };
    match spec {
        Spec::Combined { algorithm, key, icv_len } => {
            let name = name(algorithm.name());
            message.attribute_of(ALG_AEAD, &[&name, &bits(key.len()), &bits(*icv_len), key]);
        }
        Spec::Separate { cipher, key, auth, auth_key, icv_len } => {
            let auth = name(auth.name());
            message.attribute_of(ALG_AUTH, &[&auth, &bits(auth_key.len()), auth_key]);
            message.attribute_of(ALG_AUTH_TRUNC, &[&auth, &bits(auth_key.len()), &bits(*icv_len), auth_key]);
            message.attribute_of(ALG_CRYPT, &[&name(cipher.name()), &bits(key.len()), key]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(spec: &Spec) -> Spec {
        let mut message = Builder::new(0, 0, 0, 0);
        put_spec(&mut message, spec);
        let bytes = message.finish();
        spec_of(Attributes(&bytes[crate::netlink::HEADER_LEN..])).unwrap()
    }

    #[test]
    fn algorithms_come_back() {
        for algorithm in Aead::ALL {
            let spec = Spec::Combined { algorithm: *algorithm, key: (0..36).collect(), icv_len: 16 };
            assert!(round(&spec) == spec);
        }
        for (cipher, auth) in Cipher::ALL.iter().flat_map(|cipher| Auth::ALL.iter().map(move |a| (cipher, a)))
        {
            let spec = Spec::Separate {
                cipher: *cipher,
                key: if *cipher == Cipher::Null { vec![] } else { vec![7; 24] },
                auth: *auth,
                auth_key: vec![9; 33],
                icv_len: 12,
            };
            assert!(round(&spec) == spec);
        }
    }

    #[test]
    fn check_values_have_linux_lengths_where_nothing_is_said() {
        let mut name = [0; NAME_LEN];
        name[..12].copy_from_slice(b"hmac(sha384)");
        let mut message = Builder::new(0, 0, 0, 0);
        message.attribute_of(ALG_AUTH, &[&name, &384u32.to_ne_bytes(), &[1; 48]]);
        name[..17].copy_from_slice(b"ecb(cipher_null)\0");
        message.attribute_of(ALG_CRYPT, &[&name, &[0; 4]]);
        let bytes = message.finish();
        let Ok(Spec::Separate { icv_len: 24, .. }) = spec_of(Attributes(&bytes[16..])) else {
            panic!("24 bytes")
        };
    }

    #[test]
    fn what_is_unknown_or_cut_off_is_refused() {
        let errno = |kind: u16, value: &[u8]| {
            let mut message = Builder::new(0, 0, 0, 0);
            message.attribute(kind, value);
            let bytes = message.finish();
            spec_of(Attributes(&bytes[16..])).map(drop).unwrap_err().errno
        };
        let mut value = vec![0; NAME_LEN];
        value[..3].copy_from_slice(b"foo");
        value.extend(128u32.to_ne_bytes());
        value.extend(128u32.to_ne_bytes());
        assert_eq!(errno(ALG_AEAD, &value), libc::EINVAL, "the key is missing");
        value.extend([0; 16]);
        assert_eq!(errno(ALG_AEAD, &value), libc::ENOSYS);
        assert_eq!(errno(ALG_AEAD, &value[..70]), libc::EINVAL);
        value[68..72].copy_from_slice(&u32::MAX.to_ne_bytes());
        value[64..68].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(errno(ALG_AEAD, &value), libc::EINVAL);
        assert_eq!(errno(ALG_CRYPT, &value), libc::EINVAL);
    }
}
