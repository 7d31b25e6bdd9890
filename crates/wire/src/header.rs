// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machinery that every protocol file shares: big-endian fields at fixed offsets of a fixed-size header.
//!
//! [`header!`] turns a table of `getter / setter: type = offset` into three types: `Header<'a>` over `&[u8; N]`,
//! `HeaderMut<'a>` over `&mut [u8; N]`, and `View<T>` over any checked buffer. All three are total: the offsets are held
//! against `N` at compile time, and a view over a buffer that shrank after its check reads zeros rather than panicking.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A value of fixed size in network byte order.
pub(crate) trait Field: Sized {
    /// Bytes the value takes.
    const SIZE: usize;
    /// Reads the value from the front of `bytes`; zeros where `bytes` is too short.
    fn load(bytes: &[u8]) -> Self;
    /// Writes the value to the front of `bytes`, if it fits.
    fn store(self, bytes: &mut [u8]);
}

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;
    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        if let Some(chunk) = bytes.first_chunk_mut() {
            *chunk = self;
        }
    }
}

/// Implements [`Field`] for a type that converts from and to an array of bytes in network order.
macro_rules! field_as_bytes {
    ($($ty:ty, $size:literal, |$bytes:ident| $from:expr, |$value:ident| $into:expr;)*) => {$(
        impl crate::header::Field for $ty {
            const SIZE: usize = $size;
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let $bytes = <[u8; $size] as crate::header::Field>::load(bytes);
                $from
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                let $value = self;
                <[u8; $size] as crate::header::Field>::store($into, bytes);
            }
        }
    )*};
}

field_as_bytes! {
    u8, 1, |b| b[0], |v| [v];
    u16, 2, |b| u16::from_be_bytes(b), |v| v.to_be_bytes();
    u32, 4, |b| u32::from_be_bytes(b), |v| v.to_be_bytes();
    Ipv4Addr, 4, |b| Ipv4Addr::from(b), |v| v.octets();
    Ipv6Addr, 16, |b| Ipv6Addr::from(b), |v| v.octets();
}

/// Reads a value at `at`; zeros where `bytes` ends first.
#[inline(always)]
pub(crate) fn load_at<F: Field>(bytes: &[u8], at: usize) -> F {
    F::load(bytes.get(at..).unwrap_or(&[]))
}

/// Writes a value at `at`, if it fits.
#[inline(always)]
pub(crate) fn store_at<F: Field>(bytes: &mut [u8], at: usize, value: F) {
    if let Some(tail) = bytes.get_mut(at..) {
        value.store(tail);
    }
}

/// The bytes from `start` to `end`, both cut to what is there.
#[inline]
pub(crate) fn range(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    let end = end.min(bytes.len());
    bytes.get(start.min(end)..end).unwrap_or(&[])
}

/// As [`range`], for writing.
#[inline]
pub(crate) fn range_mut(bytes: &mut [u8], start: usize, end: usize) -> &mut [u8] {
    let end = end.min(bytes.len());
    bytes.get_mut(start.min(end)..end).unwrap_or_default()
}

/// Defines `HEADER_LEN`, `Header`, `HeaderMut` and `View` of a protocol; see the module's text.
macro_rules! header {
    (
        $protocol:literal, $len:expr;
        fields { $( $(#[$field_meta:meta])* $get:ident / $set:ident : $ty:ty = $at:expr; )* }
        derived { $( $(#[$derived_meta:meta])* $derived:ident : $derived_ty:ty = |$b:ident| $body:expr; )* }
    ) => {
        /// Length of the fixed header in bytes.
        pub const HEADER_LEN: usize = $len;

        #[allow(dead_code)]
        const PROTOCOL: &str = $protocol;

        const _: () = {
            $( assert!($at + <$ty as crate::header::Field>::SIZE <= HEADER_LEN, "field beyond the header"); )*
        };

        #[doc = concat!("The fixed ", $protocol, " header, read in place.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Header<'a>(&'a [u8; HEADER_LEN]);

        impl<'a> Header<'a> {
            /// Reads the header in `bytes`; nothing can fail and nothing is checked.
            #[inline(always)]
            pub fn from_chunk(bytes: &'a [u8; HEADER_LEN]) -> Self {
                Header(bytes)
            }

            /// Reads the header at the front of `bytes`.
            ///
            /// # Errors
            /// [`Error::Truncated`](crate::Error::Truncated) where `bytes` is shorter than the fixed header.
            #[inline]
            pub fn from_slice(bytes: &'a [u8]) -> Result<Self, crate::Error> {
                bytes.first_chunk().map(Header).ok_or(crate::Error::Truncated {
                    protocol: $protocol,
                    needed: HEADER_LEN,
                    available: bytes.len(),
                })
            }

            /// The bytes of the header.
            #[inline(always)]
            pub fn as_bytes(self) -> &'a [u8; HEADER_LEN] {
                self.0
            }

            $(
                $(#[$field_meta])*
                #[inline(always)]
                pub fn $get(self) -> $ty {
                    crate::header::load_at::<$ty>(self.0, $at)
                }
            )*
            $(
                $(#[$derived_meta])*
                #[inline]
                pub fn $derived(self) -> $derived_ty {
                    let $b = self.0;
                    $body
                }
            )*
        }

        #[doc = concat!("The fixed ", $protocol, " header, written in place.")]
        #[derive(Debug, PartialEq, Eq)]
        pub struct HeaderMut<'a>(&'a mut [u8; HEADER_LEN]);

        impl<'a> HeaderMut<'a> {
            /// Writes to the header in `bytes`; nothing can fail and nothing is checked.
            #[inline(always)]
            pub fn from_chunk(bytes: &'a mut [u8; HEADER_LEN]) -> Self {
                HeaderMut(bytes)
            }

            /// Writes to the header at the front of `bytes`.
            ///
            /// # Errors
            /// [`Error::Truncated`](crate::Error::Truncated) where `bytes` is shorter than the fixed header.
            #[inline]
            pub fn from_slice(bytes: &'a mut [u8]) -> Result<Self, crate::Error> {
                let available = bytes.len();
                bytes.first_chunk_mut().map(HeaderMut).ok_or(crate::Error::Truncated {
                    protocol: $protocol,
                    needed: HEADER_LEN,
                    available,
                })
            }

            /// The same header for reading.
            #[inline(always)]
            pub fn as_header(&self) -> Header<'_> {
                Header(self.0)
            }

            /// The bytes of the header.
            #[inline(always)]
            pub fn as_bytes_mut(&mut self) -> &mut [u8; HEADER_LEN] {
                self.0
            }

            $(
                #[doc = concat!("Sets what [`Header::", stringify!($get), "`] reads.")]
                #[inline(always)]
                pub fn $set(&mut self, value: $ty) -> &mut Self {
                    crate::header::store_at::<$ty>(self.0, $at, value);
                    self
                }
            )*
        }

        #[doc = concat!("A buffer that holds a checked ", $protocol, " packet.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct View<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> View<T> {
            /// The fixed header.
            #[inline(always)]
            pub fn header(&self) -> Header<'_> {
                Header(self.buffer.as_ref().first_chunk().unwrap_or(&[0; HEADER_LEN]))
            }

            /// Gives the buffer back.
            #[inline]
            pub fn into_inner(self) -> T {
                self.buffer
            }

            /// The whole buffer.
            #[inline]
            pub fn as_slice(&self) -> &[u8] {
                self.buffer.as_ref()
            }

            $(
                $(#[$field_meta])*
                #[inline(always)]
                pub fn $get(&self) -> $ty {
                    self.header().$get()
                }
            )*
            $(
                $(#[$derived_meta])*
                #[inline]
                pub fn $derived(&self) -> $derived_ty {
                    self.header().$derived()
                }
            )*
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
            /// The whole buffer, for writing.
            #[inline]
            pub fn as_mut_slice(&mut self) -> &mut [u8] {
                self.buffer.as_mut()
            }

            $(
                #[doc = concat!("Sets what [`View::", stringify!($get), "`] reads.")]
                #[inline(always)]
                pub fn $set(&mut self, value: $ty) {
                    crate::header::store_at::<$ty>(self.buffer.as_mut(), $at, value);
                }
            )*
        }
    };
}
