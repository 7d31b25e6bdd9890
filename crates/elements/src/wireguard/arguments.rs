// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of WireGuard: a file, words, or both.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use sync::pipes;
use wireguard::config::{self, hidden};
use wireguard::endpoint::Local;
use wireguard::{Config, PeerConfig, Secret};

/// The longest configuration file in bytes: 10,000 peers take some two megabytes.
const FILE_MAX: u64 = 64 << 20;
/// The port where nothing else is said, the usual one.
const PORT: u16 = 51820;

/// The private key.
#[derive(Clone)]
struct Key(Secret);

impl FromArg for Key {
    const EXPECTED: &'static str = "a private key, as 'wg genkey' prints it";

    fn shown(_: &str) -> Cow<'_, str> {
        "***".into()
    }

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        text.parse().map(Key).map_err(|why: wireguard::key::BadKey| why.to_string())
    }
}

/// A peer in the words of `wg set`.
#[derive(Clone)]
struct Peer(PeerConfig);

impl FromArg for Peer {
    const EXPECTED: &'static str =
        "a peer, as 'wg set' takes it: KEY allowed-ips 10.1.0.0/16 endpoint 192.0.2.1:51820";

    fn shown(text: &str) -> Cow<'_, str> {
        hidden(text).into()
    }

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let text = String::from_arg(text, names)?;
        config::parse_peer(&text).map(Peer).map_err(|why| why.to_string())
    }
}

/// One of this side's addresses.
#[derive(Clone, Copy)]
struct Address(IpAddr);

impl FromArg for Address {
    const EXPECTED: &'static str = "an IPv4 or IPv6 address";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        text.parse().map(Address).map_err(|_| String::new())
    }
}

/// Where a device sends from, and what it is.
pub(super) struct Told {
    pub key: Secret,
    pub config: Config,
    pub local: Local,
}

/// Reads the arguments. What is wrong is noted there.
pub(super) fn read(args: &mut Args<'_>) -> Option<Told> {
    let file: Option<String> = args.positional_opt("FILE");
    let addresses: Vec<Address> = args.keyword_all("ADDRESS");
    let key: Option<Key> = args.keyword_opt("PRIVATE_KEY");
    let port: Option<u16> = args.keyword_opt("PORT");
    let peers: Vec<Peer> = args.keyword_all("PEER");
    let config = match &file {
        Some(file) => read_file(args, file)?,
        None => Config::default(),
    };
    let local = local(args, &addresses, port.or(config.port).unwrap_or(PORT));
    let Some(key) = key.map(|Key(key)| key).or_else(|| config.key.clone()) else {
        args.error("there is no private key: give a FILE with one, or PRIVATE_KEY; 'junctor init wireguard' writes a file with a fresh one");
        return None;
    };
    let mut config = config;
    for Peer(peer) in peers {
        if config.peers.iter().any(|other| other.key == peer.key) {
            args.error(format!("PEER: {} is there twice", peer.key));
        }
        config.peers.push(peer);
    }
    check_endpoints(args, &config, &local);
    args.errors().is_empty().then_some(Told { key, config, local })
}

fn read_file(args: &mut Args<'_>, file: &str) -> Option<Config> {
    rulefile::may_read(file.as_ref()).map_err(|why| args.error(format!("FILE: {why}"))).ok()?;
    let read = pipes::open(file.as_ref(), Duration::ZERO).and_then(|input| input.read_all(FILE_MAX));
    let bytes = read.map_err(|why| args.error(format!("FILE: cannot read {file}: {why}"))).ok()?;
    match config::parse_bytes(bytes) {
        Ok(config) => Some(config),
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| args.error(format!("{file}: {mistake}")));
            None
        }
    }
}

fn local(args: &mut Args<'_>, addresses: &[Address], port: u16) -> Local {
    let mut local = Local { port, four: None, six: None };
    if port == 0 {
        args.error("PORT: 0 is no port: write 1 to 65535");
    }
    for Address(address) in addresses {
        let is_second = match address {
            IpAddr::V4(four) => local.four.replace(*four).is_some(),
            IpAddr::V6(six) => local.six.replace(*six).is_some(),
        };
        if is_second {
            args.error(format!(
                "ADDRESS: {address} is the second one of its family; one of each can be there"
            ));
        }
        if [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)].contains(address) {
            args.error(format!("ADDRESS: {address} is no address to send from"));
        }
    }
    local
}

/// Each endpoint needs an own address of its family.
fn check_endpoints(args: &mut Args<'_>, config: &Config, local: &Local) {
    for peer in &config.peers {
        let Some(endpoint) = peer.endpoint else { continue };
        let has_address = if endpoint.is_ipv4() { local.four.is_some() } else { local.six.is_some() };
        if !has_address {
            let family = if endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
            args.error(format!(
                "the peer {} is at {endpoint}, and there is no own {family} ADDRESS to reach it from",
                peer.key
            ));
            return;
        }
    }
}
