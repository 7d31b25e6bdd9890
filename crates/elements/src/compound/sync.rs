// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a router's text that keeps the sessions of another router.

use std::net::IpAddr;

use super::ipsec;
use super::router::Router;

/// The UDP port to which the other router sends.
const PORT: u16 = 3781;

/// The other router, and our own address on the link to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    address: IpAddr,
    local: IpAddr,
    /// The file with the secret of both.
    key: String,
}

impl Peer {
    /// The other router at an IPv4 address that one of a router's interfaces reaches, and the file of their secret.
    ///
    /// # Errors
    /// The address is on none of its links, or the router has no sessions.
    pub fn new(router: &Router, address: &str, key: &str) -> Result<Peer, String> {
        if tables(router).is_empty() {
            let why = "it keeps the sessions of address translation and of a firewall: add --nat FILE or --firewall FILE";
            return Err(why.to_owned());
        }
        let peer: std::net::Ipv4Addr =
            address.parse().map_err(|_| format!("'{address}' is not an IPv4 address"))?;
        let all = || router.interfaces.iter().flat_map(|interface| &interface.four);
        if all().any(|(own, _)| *own == peer) {
            return Err(format!("{peer} is the router's own address: name that of the other router"));
        }
        let local = all().find(|(_, network)| network.contains(peer)).map(|(own, _)| *own);
        let local = local.ok_or_else(|| format!("{peer} is on none of the interfaces' networks"))?;
        let taken = router.nat.as_ref().and_then(|nat| nat.taken.in_blocks(local, &[(PORT, PORT)]));
        if let Some(line) = taken {
            return Err(format!(
                "hosts inside get blocks of ports of {local} (line {line} of address translation), and the other router sends to its port {PORT}: name other outside addresses, or an address of the peer on another link"
            ));
        }
        Ok(Peer { address: peer.into(), local: local.into(), key: key.to_owned() })
    }
}

/// Where IPv4 packets for this router come from, but those of the other router.
pub(super) fn rest4(router: &Router) -> String {
    if router.sync.is_some() { "sync[1]".to_owned() } else { ipsec::rest4(router) }
}

/// The port that hosts inside do not get.
pub(super) fn reserved_of_nat(router: &Router) -> String {
    router.sync.as_ref().map_or_else(String::new, |_| format!(" {PORT}"))
}

/// What keeps the other router's sessions.
pub(super) fn text(router: &Router) -> String {
    let Some(Peer { address, local, key }) = &router.sync else { return String::new() };
    let accept = match router.firewall {
        Some(_) => " The firewall has to accept UDP from it to port 3781.",
        None => "",
    };
    format!(
        "\n// The other router at {address} has the same sessions, and each goes on alone.{accept}\n\
         sync :: SessionSync(PEER {address}, LOCAL {local}, KEY {}, TABLES {});\n\
         {} -> sync -> [0]rt;\n",
        lang::config::quote(key),
        tables(router).join(" "),
        ipsec::rest4(router)
    )
}

/// The elements that have sessions.
fn tables(router: &Router) -> Vec<&'static str> {
    let nat = router.nat.as_ref().map(|_| "nat44");
    nat.into_iter().chain(router.firewall.as_ref().map(|_| "fw")).collect()
}
