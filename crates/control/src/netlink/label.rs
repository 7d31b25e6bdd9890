// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of MPLS labels: `RTM_NEWROUTE` and `RTM_DELROUTE` of the family MPLS.

use super::route::{HopParts, RTA_DST, RTA_MULTIPATH, hops};
use super::{Error, Message, Outcome, kind};
use crate::Change;
use crate::model::{Hop, LabelRoute};

const RTA_TTL_PROPAGATE: u16 = 26;

pub(super) fn decode(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<12>()?;
    let protocol = header[5];
    let (mut label, mut one, mut many, mut propagates_ttl) = (None, HopParts::default(), None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RTA_DST => label = attribute.labels()?.as_slice().first().copied(),
            RTA_MULTIPATH => many = Some(attribute),
            RTA_TTL_PROPAGATE => propagates_ttl = Some(attribute.u8()? != 0),
            _ => one.take(attribute)?,
        }
    }
    let label = label.ok_or_else(|| message.error(message.at, "an MPLS route without a label"))?;
    if message.kind == kind::DEL_ROUTE {
        changes.push(Change::Label { label, route: None });
        return Ok(Outcome::Taken);
    }
    let flags = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
    let hops = match many {
        Some(many) => hops(many)?,
        None => vec![one.hop(flags, 1)?],
    };
    let Some(hops) = hops.into_iter().collect::<Option<Box<[Hop]>>>() else {
        return Ok(Outcome::Unsupported);
    };
    let route = Box::new(LabelRoute { protocol, propagates_ttl, hops });
    changes.push(Change::Label { label, route: Some(route) });
    Ok(Outcome::Taken)
}
