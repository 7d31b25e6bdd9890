// SPDX-License-Identifier: MIT OR Apache-2.0
//! By what a running router is controlled: sockets, ports, channels.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use conf::Form;
use confine::privileges::User;
use ctl::{Handlers, Policy, Rules, Service};
use engine::Router;
use observe::OBSERVE;
use services::control::{self, Bound, Served};
use services::{calls, feeds, liveness};

use super::{Args, warn};
use crate::keeper::Offered;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 32;

impl Service for Offered {
    fn rules(&self) -> Rules {
        // Who may connect has the rights of the router; a session that only waits for its end is as good as any other.
        Rules { read_only: false, token: None, idle: None, most: MOST_CONNECTIONS, verbose: false }
    }

    fn handlers(&self, _: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(self.clone())
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn say(&self, text: &str) {
        errln!("junctor: control: {text}");
    }

    fn wrote(&self, name: &str, bytes: usize, peer: &str, done: bool) {
        // To look at packets changes nothing, and is asked for many times a second.
        if name != OBSERVE && !Policy::of_process().as_click {
            let done = if done { "wrote" } else { "failed to write" };
            self.say(&format!("{peer} {done} {} ({bytes} bytes)", name.escape_debug()));
        }
    }
}

/// Makes the socket for `junctor ctl`, which a user has that the router may become. Only one that was asked for must be had.
pub(super) fn bind(args: &Args, form: Form, user: Option<&User>) -> Result<Option<Bound>, control::Error> {
    match args.control.control.as_deref() {
        Some("none") => Ok(None),
        Some(path) => control::bind(Path::new(path)).map(Some),
        None if form == Form::Click || args.clock.simtime.is_some() => Ok(None),
        None => Ok(control::bind_by_default(user).unwrap_or_else(|why| {
            warn(args, &format!("'junctor ctl' cannot reach this router: {why}"));
            None
        })),
    }
}

/// Serves that socket, the calls of other planes, and route feeds.
pub(super) fn serve(
    args: &Args,
    form: Form,
    router: &Router,
    offered: &Offered,
    bound: Option<Bound>,
) -> Result<Option<Served>, control::Error> {
    if form != Form::Click {
        calls::serve(offered);
        liveness::serve(&router.control());
        match client::channel::socket(args.planes.icc.as_deref()) {
            Some(place) => feeds::serve(&router.control(), place),
            None if router.shared().all_provided::<elements::routing::FeedSink>().is_empty() => {}
            None => warn(
                args,
                "RouteFeed takes no routes: there is no domain of channels; use --icc SOCKET, or 'junctor up'",
            ),
        }
    }
    bound.map(|bound| bound.serve(offered.clone())).transpose()
}

/// Makes known who may control the router. Scripts that call `click` know of no tokens, so their ports on the loopback address are open
/// unless a token is asked for, and it is said.
pub(super) fn say_who(args: &Args, form: Form) -> Result<(), String> {
    let group = args.control.control_group.as_deref().map(ctl::group).transpose();
    let group = group.map_err(|why| format!("--control-group: {why}"))?;
    let as_click = form == Form::Click;
    let open = args.control.control_open || (as_click && args.control.control_token.is_none());
    if !args.control.port.is_empty() && !open && args.control.control_token.is_none() {
        let port = &args.control.port[0];
        return Err(format!(
            "--port {port}: every user of this machine would have the rights of the router; give --control-token FILE, \
             --control-open if that is meant, or use --unix-socket"
        ));
    }
    if as_click && open && !args.control.port.is_empty() {
        warn(
            args,
            "every user of this machine can control this router by its port; --control-token FILE asks for a token",
        );
    }
    ctl::Policy { open, token_file: args.control.control_token.clone(), group, as_click }.establish();
    Ok(())
}

pub(super) fn add_sockets(graph: &mut lang::Graph, args: &Args) {
    let tcp = args.control.port.iter().map(|port| format!("tcp, {}", lang::config::quote(port)));
    let unix = args.control.unix_socket.iter().map(|file| format!("unix, {}", lang::config::quote(file)));
    let span = lang::Span { file: 0, start: 0, end: 0 };
    let connected = args.control.socket.iter().map(|descriptor| format!("socket, {descriptor}"));
    for (i, config) in tcp.chain(unix).chain(connected).enumerate() {
        let number = if i == 0 { String::new() } else { format!("@{i}") };
        graph.elements.push(lang::Element {
            name: format!("click_driver@@ControlSocket{number}").into(),
            class: "ControlSocket".into(),
            config: config.into(),
            span,
            class_span: span,
            config_span: None,
        });
    }
}
