// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetRandIPAddress
//!
//! `SetRandIPAddress(PREFIX [, LIMIT])`
//!
//! Sets each packet's destination annotation to a random address.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `PREFIX` what the addresses begin with: `10.0.0.0/8`; an address alone stands for itself.
//! * `LIMIT` how many different addresses there are at most, drawn at the start, up to 16777216; default any number.
//!   0 and negative numbers mean any number, too.
//!
//! **Cores:** all draw from the same addresses.
//!
//! **Metadata set:** destination annotation.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetRandIPAddress(10.0.0.0/8, 100) -> Discard;
//! ```
//!
//! See also: SetIPAddress, StoreIPAddress, GetIPAddress

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, InitCx, SharedState, Sharing};
use packet::Batch;
use wire::Prefix4;

/// The descriptor.
pub const CLASS: Class = Class::new("SetRandIPAddress", "1/1", || Box::new(SetRandIpAddress::default()))
    .sharing(Sharing::Shared)
    .forwards()
    .shared_state::<SetRandIpAddress>()
    .file(file!());

/// Most addresses drawn beforehand.
const MOST: i64 = 1 << 24;

/// A prefix, or one address.
#[derive(Clone, Copy, Default)]
struct Range {
    first: u32,
    /// The bits that are drawn.
    free: u32,
}

impl FromArg for Range {
    const EXPECTED: &'static str = Prefix4::EXPECTED;

    fn from_arg(text: &str, names: &Names) -> Result<Range, String> {
        let host = |_| Ipv4Addr::from_arg(text, names).map(Prefix4::host);
        let prefix = Prefix4::from_arg(text, names).or_else(host).map_err(|_| String::new())?;
        let free = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
        Ok(Range { first: u32::from(prefix.addr()) & !free, free })
    }
}

impl Range {
    fn draw(self, random: &mut fastrand::Rng) -> [u8; 4] {
        (self.first | random.u32(..) & self.free).to_be_bytes()
    }
}

#[derive(Clone, Default)]
struct SetRandIpAddress {
    range: Range,
    limit: usize,
    drawn: Arc<OnceLock<Vec<[u8; 4]>>>,
}

impl Element for SetRandIpAddress {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.range = args.required("PREFIX");
        let limit: i64 = args.positional("LIMIT", 0);
        if limit > MOST {
            args.error(format!("LIMIT must be at most {MOST}, not {limit}"));
        }
        self.limit = limit.clamp(0, MOST) as usize;
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let (range, limit) = (self.range, self.limit);
        let random = cx.random();
        self.drawn.get_or_init(|| (0..limit).map(|_| range.draw(random)).collect());
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let random = cx.random();
        match self.drawn.get().map_or(&[][..], Vec::as_slice) {
            [] => batch.iter_mut().for_each(|p| p.set_dst_ip(self.range.draw(random))),
            drawn => batch.iter_mut().for_each(|p| p.set_dst_ip(drawn[random.usize(..drawn.len())])),
        }
        batch
    }
}

impl SharedState for SetRandIpAddress {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::testing::Rig;

    fn addresses(args: &str) -> BTreeSet<[u8; 4]> {
        let rig = Rig::new(&format!("SetRandIPAddress({args})")).inputs(&[&b"x"[..]; 400]);
        rig.run().out("o0").iter().map(packet::Packet::dst_ip).collect()
    }

    #[test]
    fn draws_from_the_prefix() {
        let many = addresses("10.1.0.0/16");
        assert!(many.len() > 350 && many.iter().all(|a| a[..2] == [10, 1]), "{many:?}");
        assert_eq!(addresses("10.1.2.4/30").len(), 4);
        assert_eq!(addresses("10.1.2.3"), BTreeSet::from([[10, 1, 2, 3]]));
        assert!(addresses("0.0.0.0/0, -1").len() > 390);
        assert!(addresses("0.0.0.0/0, 0").len() > 390);
    }

    #[test]
    fn draws_no_more_than_the_limit() {
        let few = addresses("10.0.0.0/8, 7");
        assert!((5..=7).contains(&few.len()), "{few:?}");
        assert_eq!(Rig::new("SetRandIPAddress(x, 16777217)").errors().len(), 2);
    }
}
