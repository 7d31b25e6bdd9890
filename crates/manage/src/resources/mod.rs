// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resources, one file each. Each has its routes; [`all`] has all of them.

use crate::route::Route;

mod assistance;
mod balance;
mod captures;
pub(crate) mod config;
mod configuration;
mod drops;
mod elements;
mod firewall;
mod graph;
pub(crate) mod handlers;
mod jobs;
mod live;
mod metrics;
mod nat;
mod neighbours;
mod openapi;
mod rates;
mod recordings;
mod routers;
mod routes;
mod sessions;
mod statistics;
mod traces;
mod trials;
mod views;

/// All routes, by resource.
const ALL: &[&[Route]] = &[
    routers::ROUTES,
    elements::ROUTES,
    handlers::ROUTES,
    live::ROUTES,
    statistics::ROUTES,
    graph::ROUTES,
    drops::ROUTES,
    routes::ROUTES,
    neighbours::ROUTES,
    sessions::ROUTES,
    firewall::ROUTES,
    nat::ROUTES,
    balance::ROUTES,
    configuration::ROUTES,
    config::ROUTES,
    assistance::ROUTES,
    captures::ROUTES,
    traces::ROUTES,
    recordings::ROUTES,
    views::ROUTES,
    trials::ROUTES,
    jobs::ROUTES,
    metrics::ROUTES,
    openapi::ROUTES,
];

/// All routes.
pub fn all() -> impl Iterator<Item = &'static Route> {
    ALL.iter().flat_map(|routes| routes.iter())
}
