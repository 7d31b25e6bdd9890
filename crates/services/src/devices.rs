// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices that configurations may name.

use std::sync::Arc;

use packet::port::Provider;

/// Has packets that arrive wait for the process that takes this one's place.
pub type Hold = Box<dyn Fn() + Send>;

/// Those of a router: what a process that takes its place goes on with is kept, and channels lead to the planes of its domain.
pub fn of_router(
    kept: Option<Arc<dyn ports::Keeper>>,
    planes: Option<Arc<ports::plane::Planes>>,
    share: Option<&str>,
) -> (Arc<dyn Provider>, Hold) {
    let provider = ports::SystemProvider::new();
    let provider = share.into_iter().fold(provider, ports::SystemProvider::shared_by);
    let provider = kept.into_iter().fold(provider, ports::SystemProvider::kept_by);
    let provider = Arc::new(planes.into_iter().fold(provider, ports::SystemProvider::in_domain));
    let hold = provider.clone();
    (provider, Box::new(move || hold.hold()))
}

/// Starts the threads that open devices anew: see [`ports::start_threads_by`].
pub use ports::{hold_threads, inherited, opener, opening, start_threads_by};

/// Classes whose elements must see more than the flows that one of several routers receives, and why.
const NEED_ALL: [(&[&str], &str); 2] = [
    (
        &["ARPQuerier", "IP6NDSolicitor"],
        "it asks for addresses of neighbours, and another instance may receive the answer; give the addresses (EtherEncap, EtherRewrite)",
    ),
    (
        &[
            "IPRewriter",
            "TCPRewriter",
            "UDPRewriter",
            "ICMPPingRewriter",
            "ICMPRewriter",
            "IPAddrRewriter",
            "IPAddrPairRewriter",
            "FTPPortMapper",
        ],
        "it changes addresses, so another instance may receive the answers",
    ),
];

/// Why the flows of a configuration cannot be split among several routers, if so.
pub fn needs_all(graph: &lang::Graph) -> Option<String> {
    graph.elements.iter().find_map(|element| {
        let (_, why) = NEED_ALL.iter().find(|(classes, _)| classes.contains(&&*element.class))?;
        let (name, class) = (&element.name, &element.class);
        Some(format!("{name} :: {class} cannot be in one of several instances: {why}"))
    })
}
