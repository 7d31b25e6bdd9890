// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor init ipsec`: two networks joined by a tunnel, with keys for both ends.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::IpAddr;
use std::path::PathBuf;

use elements::compound::router::{Address, Interface, Router};

use super::{Kernel, described, router_text};

/// Bytes of an AES-128 key with its salt.
const KEY_LEN: usize = 20;
/// The number that binds associations and policies.
const REQID: u32 = 1;

/// A gateway with its associations and policies.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Interfaces with addresses and prefix lengths: the one to the other end, and those of the networks that are joined.
    pub interfaces: Vec<String>,
    /// The other end of the tunnel.
    pub peer: IpAddr,
    /// Networks behind the other end.
    pub remote: Vec<String>,
    /// Networks behind this end; those of the interfaces that do not lead to the other end, if there are none.
    pub local: Vec<String>,
    /// Next hops for all other destinations, one for each family.
    pub default: Vec<String>,
    /// The other end's configuration, whose keys are taken in place of new ones.
    pub keys: Option<PathBuf>,
    /// Whether this host's kernel answers what is for the router, and all exceptions.
    pub host: bool,
    /// The network namespace in which it does.
    pub netns: Option<String>,
    /// Whether interfaces may share a subnet.
    pub may_overlap: bool,
}

/// One direction of the tunnel.
struct Way {
    from: IpAddr,
    to: IpAddr,
    spi: u32,
    key: String,
}

impl Way {
    fn association(&self) -> String {
        let Way { from, to, spi, key } = self;
        format!(
            "src {from} dst {to} proto esp spi {spi:#x} reqid {REQID} mode tunnel aead rfc4106(gcm(aes)) {key} 128"
        )
    }

    fn policy(&self, [src, dst]: [&str; 2], direction: &str) -> String {
        let Way { from, to, .. } = self;
        format!(
            "src {src} dst {dst} dir {direction} tmpl src {from} dst {to} proto esp reqid {REQID} mode tunnel"
        )
    }
}

/// The text of a gateway.
///
/// # Errors
/// What is wrong with the arguments, and how to fix it.
pub fn gateway(args: &Gateway) -> Result<String, String> {
    let kernel = Kernel {
        answers: args.host,
        netns: args.netns.clone(),
        may_overlap: args.may_overlap,
        ..Kernel::default()
    };
    let mut router = described(&args.interfaces, &args.default, &[], kernel)?;
    let (here, at) = own_end(&router, args.peer)?;
    let locals = locals(&router, at, &args.local)?;
    let remotes: Vec<String> = args.remote.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
    let ways = match &args.keys {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))?;
            let of = |from, to| {
                known(&text, from, to)
                    .ok_or_else(|| format!("{} has no association from {from} to {to}", file.display()))
            };
            [of(here, args.peer)?, of(args.peer, here)?]
        }
        None => {
            let mut random = File::open("/dev/urandom").map_err(|why| format!("/dev/urandom: {why}"))?;
            [way(here, args.peer, &mut random)?, way(args.peer, here, &mut random)?]
        }
    };
    let pairs: Vec<[&str; 2]> = locals
        .iter()
        .flat_map(|local| remotes.iter().map(move |remote| [local.as_str(), remote.as_str()]))
        .filter(|[local, remote]| local.contains(':') == remote.contains(':'))
        .collect();
    if pairs.is_empty() {
        return Err("no network of --local and no one of --remote are of one family".to_owned());
    }
    let [out, inward] = &ways;
    let mut arguments: Vec<String> = ways.iter().map(|way| format!("SA {}", way.association())).collect();
    for pair @ [local, remote] in &pairs {
        arguments.push(format!("POLICY {}", out.policy(*pair, "out")));
        arguments.push(format!("POLICY {}", inward.policy([remote, local], "fwd")));
    }
    remotes.iter().try_for_each(|remote| lead(&mut router, at, args, remote))?;
    router.ipsec = Some(arguments);
    Ok(other_end(&ways, &pairs) + &router_text(&router))
}

/// Has a network behind the other end routed to where its packets are protected: to the other end, or by the default route.
fn lead(router: &mut Router, at: usize, args: &Gateway, remote: &str) -> Result<(), String> {
    let is_six = remote.contains(':');
    let port = &router.interfaces[at];
    let is_near = match args.peer {
        IpAddr::V4(four) => !is_six && port.four.iter().any(|(_, prefix)| prefix.contains(four)),
        IpAddr::V6(six) => is_six && port.six.iter().any(|(_, prefix)| prefix.contains(six)),
    };
    let has_default = args.default.iter().any(|hop| hop.contains(':') == is_six);
    match (is_near, has_default) {
        (true, _) => super::add_route(router, remote, &args.peer.to_string()),
        (false, true) => Ok(()),
        (false, false) => Err(format!(
            "no route leads to {remote}, so its packets would not reach the tunnel: give --default, a next hop of its family"
        )),
    }
}

/// What the other end needs, as comments: commands for Linux.
fn other_end([out, inward]: &[Way; 2], pairs: &[[&str; 2]]) -> String {
    let mut text = String::from(
        "// This file holds keys: let nobody else read it. Keys that change by themselves need a key daemon.\n\
         // The other end of the tunnel, if it is Linux:\n",
    );
    for way in [out, inward] {
        let _ = writeln!(
            text,
            "//   ip xfrm state add {}",
            way.association().replace("rfc4106(gcm(aes))", "'rfc4106(gcm(aes))'")
        );
    }
    for [local, remote] in pairs {
        let _ = writeln!(text, "//   ip xfrm policy add {}", inward.policy([remote, local], "out"));
        let _ = writeln!(text, "//   ip xfrm policy add {}", out.policy([local, remote], "fwd"));
        let _ = writeln!(text, "//   ip xfrm policy add {}", out.policy([local, remote], "in"));
    }
    text + "\n"
}

/// This end's address, of the peer's family, and the interface that has it: one on the peer's network, else the first.
fn own_end(router: &Router, peer: IpAddr) -> Result<(IpAddr, usize), String> {
    let of = |port: &Interface| {
        port.addresses().find(|own| own.is_ipv4() == peer.is_ipv4() && !is_link_local(*own))
    };
    let near = router.interfaces.iter().position(|port| match peer {
        IpAddr::V4(four) => port.four.iter().any(|(_, prefix)| prefix.contains(four)),
        IpAddr::V6(six) => port.six.iter().any(|(_, prefix)| prefix.contains(six)),
    });
    let at = near.unwrap_or(0);
    let own = router.interfaces.get(at).and_then(of);
    let name = router.interfaces.get(at).map_or("", |port| port.name.as_str());
    own.map(|own| (own, at)).ok_or_else(|| {
        format!("{name} has no address of the family of {peer}; name the interface to the other end first, with such an address")
    })
}

fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(six) if six.is_unicast_link_local())
}

/// The networks behind this end.
fn locals(router: &Router, at: usize, given: &[String]) -> Result<Vec<String>, String> {
    if !given.is_empty() {
        return given.iter().map(|text| network(text)).collect();
    }
    let others = router.interfaces.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, port)| port);
    Ok(others
        .flat_map(|port| {
            let four = port.four.iter().map(|(_, prefix)| prefix.to_string());
            four.chain(port.six.iter().map(|(_, prefix)| prefix.to_string()))
        })
        .collect())
}

/// A network as policies write it.
fn network(text: &str) -> Result<String, String> {
    let wrong = |_| format!("'{text}' should be a network, as 10.2.0.0/16 or 2001:db8:2::/48");
    Ok(match text.parse::<Address>().map_err(wrong)? {
        Address::Four(four) => {
            four.prefix().ok_or_else(|| format!("the mask of '{text}' has holes"))?.to_string()
        }
        Address::Six(six) => six.prefix().to_string(),
    })
}

/// The association from one end to the other in a configuration that [`gateway`] wrote.
fn known(text: &str, from: IpAddr, to: IpAddr) -> Option<Way> {
    let arguments = text.lines().filter_map(|line| line.trim().strip_prefix("SA "));
    let mut all = arguments
        .filter_map(|line| ipsec::text::parse_association(line.trim_end_matches([',', ')', ';'])).ok());
    let found = all.find(|config| (config.src, config.dst) == (from, to))?;
    let esp::Spec::Combined { algorithm: esp::algorithm::Aead::AesGcm, key, icv_len: 16 } = &found.esp.spec
    else {
        return None;
    };
    Some(Way { from, to, spi: found.esp.spi, key: hex(key) })
}

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", wire::fields::hex(bytes))
}

fn way(from: IpAddr, to: IpAddr, random: &mut File) -> Result<Way, String> {
    let mut bytes = [0; KEY_LEN + 4];
    random.read_exact(&mut bytes).map_err(|why| format!("/dev/urandom: {why}"))?;
    let (key, spi) = bytes.split_at(KEY_LEN);
    let key = hex(key);
    // Numbers below 256 are reserved.
    let spi = spi.iter().fold(0, |spi: u32, byte| spi << 8 | u32::from(*byte)) | 0x1000;
    Ok(Way { from, to, spi, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(interfaces: &[&str], peer: &str, remote: &[&str]) -> Gateway {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Gateway {
            interfaces: all(interfaces),
            peer: peer.parse().unwrap(),
            remote: all(remote),
            local: Vec::new(),
            default: Vec::new(),
            host: false,
            may_overlap: false,
            netns: None,
            keys: None,
        }
    }

    #[test]
    fn both_ends_are_written_and_check() {
        let both = ["eth0=192.0.2.1/24", "eth1=10.1.0.1/16,2001:db8:1::1/64"];
        let mut dual = args(&both, "192.0.2.2", &["10.2.0.0/16", "2001:db8:2::/64"]);
        dual.default = vec!["2001:db8:1::9".to_owned()];
        let text = gateway(&dual).unwrap();
        assert!(text.contains("10.2.0.0/16 192.0.2.2 1"), "a route leads to the tunnel");
        assert!(text.contains(
            "//   ip xfrm policy add src 10.2.0.0/16 dst 10.1.0.0/16 dir out tmpl src 192.0.2.2 dst 192.0.2.1"
        ));
        assert!(text.contains(
            "POLICY src 2001:db8:1::/64 dst 2001:db8:2::/64 dir out tmpl src 192.0.2.1 dst 192.0.2.2"
        ));
        let with_kernel = Gateway { host: true, ..args(&both, "192.0.2.2", &["10.2.0.0/16"]) };
        for text in [&text, &gateway(&with_kernel).unwrap()] {
            let parsed = lang::load_str("init", text, &elements::options());
            assert!(parsed.graph.is_some() && parsed.diagnostics.is_empty(), "{:#?}", parsed.diagnostics);
        }
        let again = gateway(&args(&both, "192.0.2.2", &["10.2.0.0/16"])).unwrap();
        let key = |text: &str| text.lines().find(|line| line.trim().starts_with("SA ")).map(str::to_owned);
        assert_ne!(key(&text), key(&again), "keys are random");
    }

    #[test]
    fn the_other_end_takes_the_same_keys() {
        let text = gateway(&args(&["eth0=192.0.2.1/24", "eth1=10.1.0.1/16"], "192.0.2.2", &["10.2.0.0/16"]))
            .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &text).unwrap();
        let mut other = args(&["eth0=192.0.2.2/24", "eth1=10.2.0.1/16"], "192.0.2.1", &["10.1.0.0/16"]);
        other.keys = Some(file.path().to_owned());
        let other = gateway(&other).unwrap();
        let sas = |text: &str| {
            let mut sas: Vec<String> =
                text.lines().filter_map(|line| line.trim().strip_prefix("SA ")).map(str::to_owned).collect();
            sas.sort();
            sas
        };
        assert_eq!((sas(&text).len(), sas(&text)), (2, sas(&other)));
        fs::write(file.path(), "").unwrap();
        let mut wrong = args(&["eth0=192.0.2.2/24", "eth1=10.2.0.1/16"], "192.0.2.1", &["10.1.0.0/16"]);
        wrong.keys = Some(file.path().to_owned());
        assert!(gateway(&wrong).unwrap_err().contains("has no association from 192.0.2.2 to 192.0.2.1"));
    }

    #[test]
    fn mistakes_are_said() {
        let why = |interfaces: &[&str], peer, remote: &[&str]| {
            gateway(&args(interfaces, peer, remote)).unwrap_err()
        };
        let both = ["eth0=192.0.2.1/24", "eth1=10.1.0.1/16"];
        assert!(why(&both, "2001:db8::9", &["10.2.0.0/16"]).contains("eth0 has no address of the family"));
        assert!(why(&both, "192.0.2.2", &["2001:db8::/64"]).contains("of one family"));
        assert!(why(&both, "192.0.2.2", &["10.2"]).contains("should be a network"));
        assert!(why(&both, "203.0.113.9", &["10.2.0.0/16"]).contains("give --default"));
    }
}
