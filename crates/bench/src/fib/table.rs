// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the two families' tables have in common, for measuring.

use crate::Error;
use fastrand::Rng;
use sync::rcu::{Domain, Reader};
use tables::fib4::{Fib4Error, Fib4Reader, Fib4Writer, Memory, NextHopId};
use tables::fib6::{Fib6Error, Fib6Reader, Fib6Writer};
use tables::routes::Routes;
use wire::{Prefix, Prefix4, Prefix6};

/// A forwarding table of either family.
pub(crate) trait Table: Send + Sized + 'static {
    type Addr: Copy + Send + Sync;
    type Prefix: Copy + Ord + Send + Sync;
    type Reader: Clone + Send + Sync;

    /// What results begin with.
    const NAME: &'static str;
    /// In the names of the shared tables.
    const DIGIT: char;

    fn open(domain: &Domain) -> Result<Self, Error>;
    fn replace(&mut self, routes: &[(Self::Prefix, NextHopId)]) -> Result<(), Error>;
    /// False where readers have to go on first.
    fn change(&mut self, prefix: Self::Prefix, id: Option<NextHopId>) -> Result<bool, Error>;
    fn reader(&self) -> Self::Reader;
    fn memory(&self) -> Memory;
    fn lookup(fib: &Self::Reader, reader: &Reader, addrs: &[Self::Addr], out: &mut [u32]);

    /// This family's part of a file.
    fn routes(read: &Routes) -> Vec<(Self::Prefix, NextHopId)>;
    fn pick(prefix: Prefix) -> Option<Self::Prefix>;
    /// A uniform address.
    fn anywhere(rng: &mut Rng) -> Self::Addr;
    /// A uniform host of a route.
    fn host(rng: &mut Rng, prefix: Self::Prefix) -> Self::Addr;
    /// A prefix as the Internet's tables have them, roughly: lengths are right, places are not.
    fn synthetic(rng: &mut Rng) -> Self::Prefix;
}

macro_rules! table {
    ($writer:ty, $reader:ty, $prefix:ty, $addr:ty, $error:ident, $field:ident, $variant:path, $name:literal, $digit:literal,
     $anywhere:expr, $host:expr, $synthetic:expr) => {
        impl Table for $writer {
            type Addr = $addr;
            type Prefix = $prefix;
            type Reader = $reader;

            const NAME: &'static str = $name;
            const DIGIT: char = $digit;

            fn open(domain: &Domain) -> Result<Self, Error> {
                Ok(<$writer>::new(domain)?)
            }

            fn replace(&mut self, routes: &[($prefix, NextHopId)]) -> Result<(), Error> {
                Ok(self.replace_all(routes.iter().copied())?)
            }

            fn change(&mut self, prefix: $prefix, id: Option<NextHopId>) -> Result<bool, Error> {
                let done = match id {
                    Some(id) => self.insert(prefix, id),
                    None => self.remove(prefix),
                };
                match done {
                    Ok(_) => Ok(true),
                    Err($error::Stalled { .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }

            fn reader(&self) -> $reader {
                <$writer>::reader(self)
            }

            fn memory(&self) -> Memory {
                <$writer>::memory(self)
            }

            #[inline]
            fn lookup(fib: &$reader, reader: &Reader, addrs: &[$addr], out: &mut [u32]) {
                fib.lookup_batch(reader, addrs, out);
            }

            fn routes(read: &Routes) -> Vec<($prefix, NextHopId)> {
                read.$field.clone()
            }

            fn pick(prefix: Prefix) -> Option<$prefix> {
                if let $variant(prefix) = prefix { Some(prefix) } else { None }
            }

            fn anywhere(rng: &mut Rng) -> $addr {
                $anywhere(rng)
            }

            fn host(rng: &mut Rng, prefix: $prefix) -> $addr {
                $host(rng, prefix)
            }

            fn synthetic(rng: &mut Rng) -> $prefix {
                $synthetic(rng)
            }
        }
    };
}

table!(
    Fib4Writer,
    Fib4Reader,
    Prefix4,
    u32,
    Fib4Error,
    v4,
    Prefix::V4,
    "fib4",
    '4',
    |rng: &mut Rng| rng.u32(..),
    |rng: &mut Rng, prefix: Prefix4| prefix.bits()
        | rng.u32(..).checked_shr(prefix.len().into()).unwrap_or(0),
    |rng: &mut Rng| {
        let len = [24, 24, 24, 24, 24, 24, 24, 24, 23, 22, 22, 21, 20, 19, 18, 16][rng.usize(..16)];
        let addr = rng.u32(1..224) << 24 | rng.u32(..110) << 16 | rng.u32(..1 << 16);
        Prefix4::from_bits(addr, len).expect("at most 32")
    }
);
table!(
    Fib6Writer,
    Fib6Reader,
    Prefix6,
    u128,
    Fib6Error,
    v6,
    Prefix::V6,
    "fib6",
    '6',
    |rng: &mut Rng| 1 << 125 | rng.u128(..) >> 3,
    |rng: &mut Rng, prefix: Prefix6| prefix.bits()
        | rng.u128(..).checked_shr(prefix.len().into()).unwrap_or(0),
    |rng: &mut Rng| {
        let len = [48, 48, 48, 48, 48, 48, 48, 44, 44, 40, 40, 36, 36, 32, 32, 29][rng.usize(..16)];
        let blocks = [0x2001, 0x2400, 0x2600, 0x2604, 0x2800, 0x2a00, 0x2a02, 0x2a0e, 0x2c0f];
        let block = u128::from(blocks[rng.usize(..blocks.len())] as u16) << 112;
        let addr = block | u128::from(rng.u16(..4096) << 3) << 96 | rng.u128(..) >> 32;
        Prefix6::from_bits(addr, len).expect("at most 128")
    }
);
