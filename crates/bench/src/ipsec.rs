// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench ipsec`: what protecting and opening a packet costs, as elements do it.
//!
//! Three configurations on in-memory devices run in turn: packets pass as they are; IPsecEncrypt protects them; IPsecEncrypt protects and IPsecDecrypt opens them. What one
//! costs more than the one before is the element's cost: policy, association, headers, encryption, counters.
//!
//! Two more are ready routers (IPRouter), of which the second one is a gateway. Their figures are for the whole way from receiving to sending, neighbours known.

use std::fmt::Write as _;

use lang::Graph;
use serde_json::json;

use harness::{Prepared, Subject, run_together};
use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// Bytes of an Ethernet header.
const LINK: usize = 14;
/// Flows of the traffic, over all tunnels.
const FLOWS: usize = 4096;

/// An algorithm as `ip xfrm` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-128 in Galois counter mode.
    Aes128Gcm,
    /// AES-256 in Galois counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    Chacha20Poly1305,
    /// AES-128 in cipher block chaining mode with HMAC-SHA-256.
    Aes128CbcSha256,
    /// Triple DES with HMAC-SHA-1: obsolete, for comparisons with published measurements.
    TripleDesSha1,
}

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How packets are protected.
    pub algorithm: Algorithm,
    /// Lengths of the packets before they are protected, in bytes.
    pub length: Vec<usize>,
    /// Numbers of tunnels, each with a policy of its own.
    pub tunnels: Vec<usize>,
    /// Whether two workers are measured next to two programs of one worker each.
    pub scaling: bool,
    /// Measured runs of each case.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
}

impl Algorithm {
    /// As options have it.
    fn name(self) -> &'static str {
        match self {
            Algorithm::Aes128Gcm => "aes128-gcm",
            Algorithm::Aes256Gcm => "aes256-gcm",
            Algorithm::Chacha20Poly1305 => "chacha20-poly1305",
            Algorithm::Aes128CbcSha256 => "aes128-cbc-sha256",
            Algorithm::TripleDesSha1 => "3des-sha1",
        }
    }

    /// Its words in an association, with a key for tunnel `number`.
    pub(crate) fn words(self, number: usize) -> String {
        let key = |bytes: usize| format!("0x{number:0width$x}", width = 2 * bytes);
        match self {
            Algorithm::Aes128Gcm => format!("aead aes-gcm {} 128", key(20)),
            Algorithm::Aes256Gcm => format!("aead aes-gcm {} 128", key(36)),
            Algorithm::Chacha20Poly1305 => format!("aead chacha20-poly1305 {} 128", key(36)),
            Algorithm::Aes128CbcSha256 => {
                format!("enc aes-cbc {} auth-trunc sha256 {} 128", key(16), key(32))
            }
            Algorithm::TripleDesSha1 => format!("enc 3des-cbc {} auth-trunc sha1 {} 96", key(24), key(20)),
        }
    }
}

/// How far packets go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Nowhere.
    Clear,
    /// Through IPsecEncrypt.
    Encrypted,
    /// And through IPsecDecrypt.
    Decrypted,
    /// Through a router.
    Routed,
    /// Through a gateway.
    Protected,
}

/// Measures what IPsec costs a packet.
///
/// # Errors
/// A setting is wrong, or no packet passes.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if let Some(bad) = args.length.iter().find(|len| !(28..=9000).contains(*len)) {
        return Err(Failure::usage(format!("--length {bad}: packets have 28 to 9000 bytes")));
    }
    if let Some(bad) = args.tunnels.iter().find(|count| !(1..=200_000).contains(*count)) {
        return Err(Failure::usage(format!("--tunnels {bad}: there are 1 to 200000 tunnels")));
    }
    let mut results = Vec::new();
    for tunnels in &args.tunnels {
        for len in &args.length {
            results.extend(measure_one(args, *tunnels, *len)?);
        }
    }
    let conditions = json!({
        "algorithm": args.algorithm.name(),
        "mode": "tunnel", "families": "IPv4 in IPv4", "replay_window": 1024, "flows": FLOWS,
        "workers": 1, "burst": engine::DEFAULT_BURST, "run_ms": args.run_ms,
    });
    Ok(Findings { conditions, results })
}

/// The network of tunnel `number`: a /24 of 20.0.0.0/6.
fn network(number: usize) -> String {
    format!("{}.{}.{}.0/24", 20 + (number >> 16), number >> 8 & 255, number & 255)
}

/// Associations and policies. The other end has the same associations, and looks at policies for what arrives.
fn database(args: &Settings, tunnels: usize, direction: &str) -> String {
    let mut arguments = String::new();
    for number in 0..tunnels {
        let (reqid, spi, words) = (number + 1, number + 0x1000, args.algorithm.words(number + 1));
        let ends = "src 192.0.2.1 dst 192.0.2.2";
        let _ = write!(
            arguments,
            "{}SA {ends} spi {spi} reqid {reqid} {words}, POLICY dir {direction} dst {} tmpl {ends} reqid {reqid} mode tunnel",
            if number == 0 { "" } else { ",\n" },
            network(number)
        );
    }
    arguments
}

fn text(args: &Settings, tunnels: usize, len: usize, way: Way) -> String {
    // Networks of the traffic: a power of two that the tunnels cover, so that every packet has one.
    let covered = tunnels.next_power_of_two() / if tunnels.is_power_of_two() { 1 } else { 2 };
    let prefix_len = 24 - covered.trailing_zeros();
    let mut text = format!(
        "// bench: m0 ether=02:00:00:00:00:01 src=10.1.128.0/17 dst=20.0.0.0/{prefix_len} flows={FLOWS} length={}\n",
        len + LINK
    );
    if matches!(way, Way::Encrypted | Way::Decrypted) {
        text += &format!("here :: IPsecDatabase({});\n", database(args, tunnels, "out"));
    }
    if way == Way::Decrypted {
        text += &format!("there :: IPsecDatabase({});\n", database(args, tunnels, "fwd"));
    }
    if matches!(way, Way::Routed | Way::Protected) {
        return text + &router(args, tunnels, way == Way::Protected);
    }
    text += "FromDevice(m0) -> Strip(14) -> MarkIPHeader";
    if way != Way::Clear {
        text += " -> IPsecEncrypt(here, MTU 9200)";
    }
    if way == Way::Decrypted {
        text += " -> IPsecDecrypt(there)";
    }
    text + " -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:9) -> ToDevice(m1);\n"
}

/// A ready router that forwards from m0 to m1. A gateway has policies for both directions, as IPsecCheck asks those for packets that come.
fn router(args: &Settings, tunnels: usize, is_gateway: bool) -> String {
    let mut text =
        "r :: IPRouter(m0 10.1.0.1/16 ETHER 02:00:00:00:00:01, m1 192.0.2.1/24 ETHER 02:00:00:00:00:02,\n\
         ROUTE 0.0.0.0/0 192.0.2.2, MTU 9200"
            .to_owned();
    if is_gateway {
        let _ = write!(text, ", IPSEC true,\n{}", database(args, tunnels, "out"));
        for number in 0..tunnels {
            let _ = write!(
                text,
                ",\nPOLICY dir fwd src {} tmpl src 192.0.2.2 dst 192.0.2.1 reqid {} mode tunnel",
                network(number),
                number + 1
            );
        }
    }
    text + ");\n"
}

fn graph(text: &str) -> Result<Graph, Error> {
    let parsed = lang::load_str("bench", text, &elements::options());
    parsed.graph.ok_or_else(|| Error::nothing(format!("{:?}", parsed.diagnostics.first())))
}

fn measure_one(args: &Settings, tunnels: usize, len: usize) -> Result<Vec<Measured>, Error> {
    let ways = [Way::Clear, Way::Encrypted, Way::Decrypted, Way::Routed, Way::Protected];
    let texts = ways.map(|way| text(args, tunnels, len, way));
    let mut prepared: Vec<Prepared> = Vec::new();
    for text in &texts {
        let graph = graph(text)?;
        let subject = Subject::new(&graph, text)?.with_run_ms(args.run_ms);
        prepared.push(subject.prepare(1)?);
    }
    let mut costs: [Vec<f64>; 4] = Default::default();
    for _ in 0..args.runs.max(1) {
        let mut ns = [0.0; 5];
        for (ns, router) in ns.iter_mut().zip(&mut prepared) {
            *ns = router.run_surely()?.ns_per_packet();
        }
        let [clear, encrypted, decrypted, routed, protected] = ns;
        let all = [encrypted - clear, decrypted - encrypted, routed, protected];
        costs.iter_mut().zip(all).for_each(|(costs, ns)| costs.push(ns));
    }
    let name = |what: &str| format!("ipsec.{what}.{len}.{tunnels}");
    let names = ["encrypt_ns", "decrypt_ns", "router_ns", "gateway_ns"];
    let mut results: Vec<_> =
        names.into_iter().zip(costs).map(|(what, costs)| Measured::new(name(what), "ns", costs)).collect();
    if args.scaling {
        drop(prepared);
        results.push(Measured::new(name("scaling_2"), "times", scaling(args, &texts[1])?));
    }
    Ok(results)
}

/// The rate of two workers over that of two programs with one worker each.
fn scaling(args: &Settings, text: &str) -> Result<Vec<f64>, Error> {
    let graph = graph(text)?;
    let subject = Subject::new(&graph, text)?.with_run_ms(args.run_ms);
    let mut both = [subject.prepare(2)?];
    let mut pair = subject.prepare_pair()?;
    let mut ratios = Vec::new();
    for _ in 0..args.runs.max(1) {
        let rate = |runs: &[harness::Run]| runs.iter().map(|run| run.packets() / run.wall_ns).sum::<f64>();
        let together = rate(&run_together(&mut both)?);
        let apart = rate(&run_together(&mut pair)?);
        ratios.push(together / apart);
    }
    Ok(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(algorithm: Algorithm) -> Settings {
        Settings { algorithm, length: vec![60], tunnels: vec![1], scaling: false, runs: 1, run_ms: 5 }
    }

    /// What a router sends on m1 has gone all the way: with an association only if it is a gateway.
    #[test]
    fn the_gateway_protects_what_the_router_forwards() {
        let args = args(Algorithm::Aes128Gcm);
        for way in [Way::Routed, Way::Protected] {
            let text = text(&args, 5, 60, way);
            let graph = graph(&text).unwrap();
            let mut router = Subject::new(&graph, &text).unwrap().prepare(1).unwrap();
            router.run_surely().unwrap();
            let sas = router.read("r/ipsec.sas").unwrap_or_default();
            let carried =
                sas.lines().filter(|line| line.contains("packets ") && !line.contains("packets 0 "));
            assert_eq!(carried.count(), if way == Way::Protected { 4 } else { 0 }, "{sas}");
        }
    }

    #[test]
    fn every_algorithm_measures_something() {
        for algorithm in [
            Algorithm::Aes128Gcm,
            Algorithm::Aes256Gcm,
            Algorithm::Chacha20Poly1305,
            Algorithm::Aes128CbcSha256,
            Algorithm::TripleDesSha1,
        ] {
            let args = args(algorithm);
            for tunnels in [1, 5] {
                let measured = measure_one(&args, tunnels, 60).unwrap();
                assert_eq!(measured[0].name, format!("ipsec.encrypt_ns.60.{tunnels}"), "{algorithm:?}");
                assert_eq!(measured[3].name, format!("ipsec.gateway_ns.60.{tunnels}"));
                assert!(measured.iter().all(|measured| measured.runs.len() == 1));
            }
        }
    }
}
