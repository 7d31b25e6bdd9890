// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions as text: a table for people, and JSON with the names that FRR's `show bfd peers json` has.

use std::fmt::Write as _;

use bfd::{Session, State};

use super::peer::Peer;

/// A state as FRR writes it.
fn status(state: State) -> &'static str {
    match state {
        State::AdminDown => "shutdown",
        State::Down => "down",
        State::Init => "init",
        State::Up => "up",
    }
}

/// A line of the table: neighbour, link, state, discriminators, intervals in milliseconds, packets.
pub(super) fn line(peer: &Peer, session: &Session, age_s: u64) -> String {
    let link = peer.wanted.link.as_deref().unwrap_or("-");
    let tx = session.tx_interval().as_secs_f64() * 1e3;
    let detection = session.detection_time().as_secs_f64() * 1e3;
    format!(
        "{}\t{link}\t{}\t{age_s} s\tlocal {} remote {}\ttx {tx} ms detection {detection} ms\tin {} out {}\t{}\n",
        peer.wanted.neighbour,
        status(session.state()),
        session.config().discriminator,
        session.remote().discriminator,
        peer.received.packets,
        peer.sent.packets,
        session.diagnostic(),
    )
}

/// A session as an object of JSON. Intervals are in milliseconds, as in FRR.
pub(super) fn json(peer: &Peer, session: &Session, age_s: u64) -> String {
    let mut text = String::from("{");
    let mut field = |name: &str, value: &dyn std::fmt::Display| {
        let comma = if text.len() == 1 { "" } else { "," };
        let _ = write!(text, "{comma}\"{name}\":{value}");
    };
    let remote = session.remote();
    let own = session.config().intervals;
    let string = |value: &str| format!("\"{}\"", value.replace(['"', '\\'], "?"));
    let up = session.state() == State::Up;
    field("multihop", &peer.link.is_none());
    field("peer", &string(&peer.wanted.neighbour.to_string()));
    field("local", &string(&peer.wanted.local.to_string()));
    field("vrf", &string(peer.wanted.vrf.as_deref().unwrap_or("default")));
    if let Some(link) = &peer.wanted.link {
        field("interface", &string(link));
    }
    field("id", &session.config().discriminator);
    field("remote-id", &remote.discriminator);
    field("passive-mode", &session.config().passive);
    let auth = session.config().auth.map_or("none", |auth| auth.kind().name());
    field("authentication", &string(auth));
    field("status", &string(status(session.state())));
    field(if up { "uptime" } else { "downtime" }, &age_s);
    field("diagnostic", &string(&session.diagnostic().to_string()));
    field("remote-diagnostic", &string(&remote.diagnostic.to_string()));
    field("remote-status", &string(status(remote.state)));
    let ms = |us: u32| f64::from(us) / 1000.0;
    field("remote-diagnostic-code", &remote.diagnostic.0);
    field("remote-cbit", &remote.control_plane_independent);
    field("receive-interval", &ms(own.required_min_rx_us));
    field("transmit-interval", &ms(own.desired_min_tx_us));
    field("echo-receive-interval", &ms(own.required_min_echo_rx_us));
    field("echo-transmit-interval", &ms(peer.wanted.echo_tx_us));
    field("detect-multiplier", &own.detect_mult);
    field("remote-receive-interval", &ms(remote.required_min_rx_us));
    field("remote-transmit-interval", &ms(remote.desired_min_tx_us));
    field("remote-echo-receive-interval", &ms(remote.required_min_echo_rx_us));
    field("remote-detect-multiplier", &remote.detect_mult);
    field("actual-transmit-interval", &(session.tx_interval().as_secs_f64() * 1e3));
    field("detection-time", &(session.detection_time().as_secs_f64() * 1e3));

    field("control-packet-input", &peer.received.packets);
    field("control-packet-output", &peer.sent.packets);
    field("control-bytes-input", &peer.received.bytes);
    field("control-bytes-output", &peer.sent.bytes);
    let echo_ms = session.echo_interval().map_or(0.0, |interval| interval.as_secs_f64() * 1e3);
    field("actual-echo-transmit-interval", &echo_ms);
    field("echo-packet-input", &peer.echo_returned.packets);
    field("echo-packet-output", &peer.echo_sent.packets);
    field("echo-packet-reflected", &peer.echoed.packets);
    field("session-up", &peer.ups);
    field("session-down", &peer.downs);
    text + "}"
}
