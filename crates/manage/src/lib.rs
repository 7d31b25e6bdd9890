// SPDX-License-Identifier: MIT OR Apache-2.0
//! The management plane: an HTTP/JSON API and metrics for the running routers of a machine. A process of its own; no worker waits
//! for it.
//!
//! * [`route`] is one entry for each method of each resource. Dispatch, roles and the document of [`openapi`] come from it.
//! * `resources` has the table of routes and their functions, one file each. They see routers by the trait [`routers::Routers`] alone;
//!   [`running`] is the one of this machine.
//! * [`app`] checks a request: limits ([`limits`]), origin ([`browser`]), identity ([`access`]), role, body. It records changes
//!   in the [`audit`] log.
//! * `page` is the web page.
//! * [`serve`] has the sockets, and [`service`] all of it together.
//! * [`jobs`] are long work, [`sampler`] and [`live`] are rates, [`metrics`] is for Prometheus.
//!
//! An adversarial client costs bounded memory: connections, headers, bodies, requests at a time, answers that nobody takes and events that
//! wait are limited.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod access;
mod answer;
pub mod app;
pub mod audit;
pub mod browser;
mod call;
#[cfg(test)]
mod fake;
pub mod jobs;
pub mod limits;
mod live;
pub mod metrics;
pub mod openapi;
mod page;
mod patient;
pub mod problem;
pub mod remote;
mod resources;
pub mod route;
pub mod routers;
mod rows;
pub mod running;
pub mod sampler;
mod schema;
mod scratch;
pub mod serve;
pub mod service;
pub mod shared;
mod stream;
pub mod tls;
mod words;

pub use answer::Answer;
pub use call::Call;
pub use resources::config::ACTS_FOR;
pub use resources::handlers::FAR_REACHING;
