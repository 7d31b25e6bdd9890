// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor init wireguard`: a file for a WireGuard element, with a fresh key.

use std::fmt::Write as _;

use wireguard::{PeerConfig, Secret, config};

/// A device: its port and its peers.
#[derive(Clone, Debug)]
pub struct Device {
    /// The UDP port.
    pub port: u16,
    /// Peers in the words of `wg set`.
    pub peer: Vec<String>,
}

const HEAD: &str = "\
# A WireGuard device, in the form of 'wg setconf'. This file holds a private key: let nobody else read it.
#
# In a configuration, with this side's outside address:
#   wg :: WireGuard(wg0.conf, ADDRESS 192.0.2.1);
#   ... -> CheckIPHeader -> [0]wg;   // packets for the peers' networks
#   ... -> CheckIPHeader -> [1]wg;   // UDP packets to the port
#   wg[0] -> ...                     // to the outside
#   wg[1] -> ...                     // what peers sent
#
";

const SAMPLE: &str = "
# [Peer]
# PublicKey = the peer's public key
# AllowedIPs = 10.2.0.0/16, 2001:db8:2::/48
# Endpoint = 192.0.2.2:51820
# PersistentKeepalive = 25
";

/// The text of a file.
///
/// # Errors
/// What is wrong with the arguments.
pub fn device(args: &Device) -> Result<String, String> {
    let key = Secret::generate().map_err(|_| "the system gives no randomness for a key".to_owned())?;
    let (private, public) = (key.reveal(), key.public());
    let mut text = format!("{HEAD}# What the peers are to have:\n#   [Peer]\n#   PublicKey = {public}\n\n");
    let _ = writeln!(text, "[Interface]\nPrivateKey = {private}\nListenPort = {}", args.port);
    for words in &args.peer {
        let peer = config::parse_peer(words).map_err(|why| format!("--peer: {why}"))?;
        text += &section(&peer);
    }
    Ok(if args.peer.is_empty() { text + SAMPLE } else { text })
}

/// A peer's section.
fn section(peer: &PeerConfig) -> String {
    let mut text = format!("\n[Peer]\nPublicKey = {}\n", peer.key);
    if let Some(preshared) = &peer.preshared {
        let _ = writeln!(text, "PresharedKey = {}", preshared.reveal());
    }
    if !peer.allowed.is_empty() {
        let networks: Vec<String> = peer.allowed.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "AllowedIPs = {}", networks.join(", "));
    }
    if let Some(endpoint) = peer.endpoint {
        let _ = writeln!(text, "Endpoint = {endpoint}");
    }
    if let Some(keepalive) = peer.keepalive.filter(|keepalive| *keepalive > 0) {
        let _ = writeln!(text, "PersistentKeepalive = {keepalive}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let peer = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let words = format!(
            "{peer} endpoint 192.0.2.2:7 persistent-keepalive 25 allowed-ips 10.2.0.0/16,::/0 preshared-key {peer}"
        );
        let text = device(&Device { port: 4500, peer: vec![words.clone()] }).unwrap();
        let read = config::parse(&text).unwrap();
        assert_eq!((read.port, &read.peers[..]), (Some(4500), &[config::parse_peer(&words).unwrap()][..]));
        assert!(text.contains(&read.key.unwrap().public().to_string()), "its public key stands there");
        let [a, b] = [(); 2].map(|()| device(&Device { port: 1, peer: vec![] }).unwrap());
        assert!(a != b && config::parse(&a).is_ok_and(|config| config.peers.is_empty()));
        let why = device(&Device { port: 1, peer: vec!["x".into()] }).unwrap_err();
        assert!(why.contains("--peer: the peer's public key"), "{why}");
    }
}
