// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers of two workers without devices, for tests of what workers do to each other.

use std::sync::Arc;

use junctor_engine::clock::TimeSource;
use junctor_engine::{Class, Options, Registry, Router};
use packet::port::{Device, Error, Provider, Spec};

struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        panic!("nobody opens {}", spec.device)
    }
}

pub fn graph(text: &str) -> lang::Graph {
    let parsed = lang::load_str("test", text, &lang::Options::default());
    parsed.graph.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
}

/// A router of two workers on these processors, or on any, with elements of these classes. What it prints goes to `print`.
pub fn router(
    text: &str,
    classes: impl IntoIterator<Item = &'static Class>,
    cores: &[usize],
    print: impl Fn(&str) + Send + Sync + 'static,
) -> Router {
    let options = Options {
        provider: Arc::new(NoDevices),
        workers: 2,
        reserve: 0,
        cores: cores.to_vec(),
        burst: 32,
        time: TimeSource::Real,
        seed: 1,
        print: Some(Box::new(print)),
        placer: None,
    };
    Router::build(&graph(text), &Registry::new(classes), options).expect("a router")
}
