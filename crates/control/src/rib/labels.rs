// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPLS labels among the destinations of the RIB.
//!
//! A label is a destination like a prefix, so all that is said there of routes is true of labels: which one counts, how they wait for
//! objects, and when they are swept.

use std::time::Duration;

use feed::Destination;

use super::{Layer, Rib};
use crate::key::DestinationKey;
use crate::model::{Hop, LabelRoute, MAIN, Route, RouteKind, RouteWay, Source};

impl Rib {
    /// What becomes of packets with a label.
    pub(super) fn label(
        &mut self,
        source: Source,
        label: u32,
        route: Option<Box<LabelRoute>>,
        now: Duration,
    ) {
        let layer = Layer::of(source, MAIN);
        if label >= 1 << 20 || !self.takes(layer) {
            return;
        }
        let key = DestinationKey { table: 0, prefix: Destination::Label(label) };
        match route {
            Some(route) => self.set(layer, source, key, as_route(*route), now),
            None => self.withdraw(layer, key, None, now),
        }
    }
}

/// The same as a route. Without hops, what is below the label is looked up.
fn as_route(route: LabelRoute) -> Route {
    let LabelRoute { protocol, propagates_ttl, hops } = route;
    let hops: Box<[Hop]> = hops.into_iter().map(|hop| Hop { propagates_ttl, ..hop }).collect();
    let (kind, way) = match hops.is_empty() {
        true => (RouteKind::Local, RouteWay::None),
        false => (RouteKind::Unicast, RouteWay::Many(hops)),
    };
    Route { kind, protocol, metric: 0, way }
}
