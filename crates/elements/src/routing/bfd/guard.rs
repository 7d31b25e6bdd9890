// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables whose next hops sessions guard.

use std::net::IpAddr;
use std::sync::Arc;

use element::InitCx;
use packet::Packet;
use sync::rcu;

use super::{Down, Follow, Link, Liveness};
use crate::routing::lookup_ip_route::V4;
use crate::routing::lookup_ip6_route::V6;
use crate::routing::{Family, Hop, ReverseRoutes};

/// The tables, and what carries changes into them.
#[derive(Default)]
pub(super) struct Tables {
    four: Option<Arc<ReverseRoutes<V4>>>,
    six: Option<Arc<ReverseRoutes<V6>>>,
    /// Held for the list of followers, which does not.
    _guards: Vec<Arc<dyn Follow>>,
}

impl Tables {
    /// Finds the elements of these names, and lets their next hops follow.
    pub(super) fn find(
        cx: &mut InitCx<'_>,
        names: &[Option<String>; 2],
        links: &[Link],
        has_vrfs: bool,
        liveness: &Liveness,
    ) -> Result<Tables, String> {
        let four = find::<V4>(cx, names[0].as_deref(), "TABLE", has_vrfs)?;
        let six = find::<V6>(cx, names[1].as_deref(), "TABLE6", has_vrfs)?;
        let mut guards: Vec<Arc<dyn Follow>> = Vec::new();
        guards.extend(four.clone().map(|routes| guard(routes, links, 0)));
        guards.extend(six.clone().map(|routes| guard(routes, links, 1)));
        guards.iter().for_each(|guard| liveness.add(guard));
        Ok(Tables { four, six, _guards: guards })
    }

    /// The gateway and the link by which the routes of a table lead to an address.
    pub(super) fn towards(
        &self,
        rcu: &rcu::Reader,
        (table, to): (u8, IpAddr),
        links: &[Link],
    ) -> Option<(IpAddr, usize)> {
        match to {
            IpAddr::V4(to) => towards(self.four.as_ref()?, rcu, (table, to), links, 0),
            IpAddr::V6(to) => towards(self.six.as_ref()?, rcu, (table, to), links, 1),
        }
    }

    /// The number of the table that a packet for `to` was looked up in.
    pub(super) fn of(&self, packet: &Packet, to: IpAddr) -> u8 {
        let (four, six) = (self.four.as_ref(), self.six.as_ref());
        let table = match to {
            IpAddr::V4(_) => four.map(|routes| routes.table_of(packet)),
            IpAddr::V6(_) => six.map(|routes| routes.table_of(packet)),
        };
        table.unwrap_or(0)
    }
}

fn find<F: Family>(
    cx: &mut InitCx<'_>,
    name: Option<&str>,
    keyword: &str,
    has_vrfs: bool,
) -> Result<Option<Arc<ReverseRoutes<F>>>, String> {
    let Some(name) = name else { return Ok(None) };
    let routes = cx.find::<ReverseRoutes<F>>(name).ok_or_else(|| {
        format!("{keyword}: '{name}' is not an element with a table of its own of this family")
    })?;
    if has_vrfs && !routes.has_vrfs() {
        return Err(format!(
            "{keyword}: '{name}' needs VRF_ANNO, by which packets are told the table of their VRF"
        ));
    }
    Ok(Some(routes))
}

fn towards<F: Family>(
    routes: &ReverseRoutes<F>,
    rcu: &rcu::Reader,
    (table, to): (u8, F::Addr),
    links: &[Link],
    family: usize,
) -> Option<(IpAddr, usize)>
where
    F::Addr: Into<IpAddr>,
{
    let hop = routes.hop(rcu, table, F::key(to))?;
    let link = links.iter().position(|link| link.outputs.is_some_and(|out| out[family] == hop.output))?;
    let gateway = if hop.gateway == F::UNSPECIFIED { to } else { hop.gateway };
    Some((gateway.into(), link))
}

/// A table's next hops that die with their neighbours.
struct Guard<F: Family> {
    routes: Arc<ReverseRoutes<F>>,
    links: Vec<Link>,
    family: usize,
}

fn guard<F: Family>(routes: Arc<ReverseRoutes<F>>, links: &[Link], family: usize) -> Arc<dyn Follow> {
    Arc::new(Guard { routes, links: links.to_vec(), family })
}

impl<F: Family> Follow for Guard<F> {
    fn follow(&self, down: &Down) -> Result<(), String> {
        let hops = down.iter().filter_map(|neighbour| {
            let link = self.links.iter().find(|link| link.name == neighbour.link)?;
            let output = link.outputs?[self.family];
            Some(Hop { gateway: F::address(neighbour.address)?, output })
        });
        let hops: std::collections::HashSet<Hop<F::Addr>> = hops.collect();
        self.routes.shared.change(|routes| routes.set_down(&hops))
    }
}
